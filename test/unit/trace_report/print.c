/* SPDX-License-Identifier: Apache-2.0 */
/* Prints an output of a sample report, for the Python tests and for looking at:
 *     print SAMPLE OUTPUT [WIDTH] [colour] [utf8] [verbose]
 * SAMPLE: small, one, many, big, empty, hostile, diff. OUTPUT: text, json, html, csv:TABLE. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "service/report/report.h"

static const struct {
    const char *name;
    SampleSize size;
} sizes[] = {
    {"small", {.ranks = 2, .steps = 8, .slices = 900, .kernels = 24, .threads = 3}},
    {"one", {.ranks = 1, .steps = 8, .slices = 900, .kernels = 24, .threads = 3}},
    {"many", {.ranks = 64, .steps = 40, .slices = 500, .kernels = 24, .threads = 3}},
    {"big", {.ranks = 8, .steps = 300, .slices = 20000, .kernels = 3000, .threads = 12}},
};

static void make(TraceReport *report, const char *name)
{
    if (!strcmp(name, "empty")) {
        sample_empty(report);
        return;
    }
    if (!strcmp(name, "hostile")) {
        sample_hostile(report);
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (!strcmp(sizes[i].name, name)) {
            sample_report(report, &sizes[i].size);
            return;
        }
    fprintf(stderr, "no sample '%s'\n", name);
    exit(2);
}

static ReportOptions options_of(int argc, char **argv)
{
    ReportOptions options = {0};

    for (int i = 3; i < argc; i++) {
        options.colour |= !strcmp(argv[i], "colour");
        options.utf8 |= !strcmp(argv[i], "utf8");
        options.verbose |= !strcmp(argv[i], "verbose");
        if (atoi(argv[i]) > 0)
            options.width = (unsigned)atoi(argv[i]);
    }
    return options;
}

static int print_diff(const char *what, const ReportOptions *options, ReportSink sink, Err *err)
{
    TraceDiff diff;
    int rc;

    sample_diff(&diff);
    if (!strcmp(what, "text"))
        rc = trace_diff_text(&diff, options, sink, err);
    else if (!strcmp(what, "json"))
        rc = trace_diff_json(&diff, sink, err);
    else if (!strcmp(what, "html"))
        rc = trace_diff_html(&diff, "before and after", sink, err);
    else
        rc = trace_diff_csv(&diff, what + 4, sink, err);
    vec_done(&diff.kernels);
    vec_done(&diff.operators);
    vec_done(&diff.modules);
    return rc;
}

static int print_report(const TraceReport *report, const char *what, const ReportOptions *options, ReportSink sink,
                        Err *err)
{
    if (!strcmp(what, "text"))
        return trace_text(report, options, sink, err);
    if (!strcmp(what, "json"))
        return trace_json(report, sink, err);
    if (!strcmp(what, "html"))
        return trace_html(report, report->ranks.at[0].file, sink, err);
    return trace_csv(report, what + 4, sink, err);
}

static int write_file(void *context, const char *text, size_t len, Err *err)
{
    if (fwrite(text, 1, len, context) == len)
        return 0;
    return err_errno(err, "write");
}

int main(int argc, char **argv)
{
    ReportSink sink = {.write = write_file, .context = stdout};
    ReportOptions options;
    TraceReport report;
    Err err = {0};
    int rc;

    if (argc < 3 || strlen(argv[2]) < 4)
        return 2;
    options = options_of(argc, argv);
    if (!strcmp(argv[1], "diff")) {
        rc = print_diff(argv[2], &options, sink, &err);
    } else {
        make(&report, argv[1]);
        rc = print_report(&report, argv[2], &options, sink, &err);
        trace_report_done(&report);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc < 0;
}
