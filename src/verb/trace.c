/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker trace`: where the time of a profiled job went, and what to change. */
#include <errno.h>
#include <regex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "service/report/allocator.h"
#include "service/report/report.h"
#include "verb/trace/outfile.h"
#include "verb/trace/progress.h"
#include "verb/trace/run.h"
#include "verb/trace/snapshot.h"
#include "verb/verb.h"

enum { WORDS_MAX = 512, PLAIN_WIDTH = 100 };

typedef struct TraceOptions {
    TraceAskOptions ask;
    bool json, verbose, progress;
    const char *csv, *html, *output, *filter, *diff;
    uint64_t top, threads, memory, width, gap_ns, short_ns;
    int colour;
} TraceOptions;

static const OptSpec trace_opts[] = {
    TRACE_ASK_OPTS(TraceOptions),
    OPT_ROW("top", OPT_UINT, TraceOptions, top, .short_flag = 'n', .def = "10", .min = 1, .max = 1e6,
            .help = "rows per table"),
    OPT_ROW(
        "filter", OPT_STRING, TraceOptions, filter, .metavar = "REGEX",
        .help =
            "in the tables of kernels, operators, calls and annotations show only matching names; sums stay the same"),
    OPT_ROW("verbose", OPT_BOOL, TraceOptions, verbose, .short_flag = 'v', .help = "every table, of every rank"),
    OPT_ROW("json", OPT_BOOL, TraceOptions, json, .help = "print everything as JSON"),
    OPT_ROW("csv", OPT_STRING, TraceOptions, csv, .metavar = "TABLE",
            .help = "one table as CSV: devices, steps, gaps, kernels, ...; 'list' names them"),
    OPT_ROW("html", OPT_STRING, TraceOptions, html, .metavar = "FILE",
            .help = "also write an HTML page with the timeline; it needs no network"),
    OPT_ROW("output", OPT_STRING, TraceOptions, output, .short_flag = 'o', .metavar = "FILE",
            .help = "write to FILE instead of the terminal"),
    OPT_ROW("diff", OPT_STRING, TraceOptions, diff, .metavar = "BEFORE",
            .help = "what changed against this profile (a file or a folder of ranks)"),
    OPT_ROW("gap-threshold", OPT_DURATION, TraceOptions, gap_ns, .def = "1us", .max = 3600e9,
            .help = "do not explain shorter idle times of the GPU"),
    OPT_ROW("short-kernel", OPT_DURATION, TraceOptions, short_ns, .def = "10us", .max = 3600e9,
            .help = "kernels shorter than this count as short"),
    OPT_ROW("threads", OPT_UINT, TraceOptions, threads, .short_flag = 'j', .max = 256, .help = "0: one per core"),
    OPT_ROW("memory", OPT_SIZE, TraceOptions, memory, .max = -1,
            .help = "for all files; a profile that needs more is refused. 0: half of the machine's"),
    OPT_ROW("width", OPT_UINT, TraceOptions, width, .max = REPORT_WIDTH_MAX, .help = "columns; 0: the terminal's"),
    OPT_ROW("colour", OPT_ENUM, TraceOptions, colour, .def = "auto", .names = verb_colour_names, .help = "colours"),
    OPT_ROW("progress", OPT_BOOL, TraceOptions, progress, .def = "true", .help = "show the progress on a terminal"),
};

/* What a run of the verb works with. */
typedef struct Traced {
    VerbCall *call;
    const TraceOptions *o;
    TraceAsk ask;
    TraceConfig config;
    regex_t names;
    bool filtered;
    char words[WORDS_MAX];
} Traced;

static int check_table(const Traced *t, Err *err)
{
    const char *const *tables = t->o->diff ? trace_diff_csv_tables : trace_csv_tables;
    size_t count = 0;

    for (; tables[count]; count++)
        if (strcmp(tables[count], t->o->csv) == 0)
            return 0;
    const char *near = opt_nearest(t->o->csv, tables, count);
    return err_set(err, -EINVAL, "--csv: no table '%s'%s%s%s; --csv list names them", t->o->csv,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int prepare_run(Traced *t, Err *err)
{
    const TraceOptions *o = t->o;
    char text[128];

    TRY(trace_ask_parse(&o->ask, &t->ask, err));
    trace_ask_words(&t->ask, t->words, sizeof t->words);
    if (o->json && o->csv)
        return err_set(err, -EINVAL, "--json and --csv cannot both be written; ask twice");
    if (o->csv)
        TRY(check_table(t, err));
    if (o->filter) {
        int rc = regcomp(&t->names, o->filter, REG_EXTENDED | REG_NOSUB);
        if (rc) {
            regerror(rc, &t->names, text, sizeof text);
            return err_set(err, -EINVAL, "--filter '%s': %s", o->filter, text);
        }
        t->filtered = true;
    }
    t->config = trace_config_default;
    t->config.gap_threshold_ns = o->gap_ns;
    t->config.short_kernel_ns = o->short_ns;
    t->config.timeline = o->html && !o->diff;
    return 0;
}

/* ---- output ---- */

static ReportOptions style_of(const Traced *t)
{
    const TraceOptions *o = t->o;
    bool terminal = !o->output && isatty(STDOUT_FILENO);

    return (ReportOptions){
        .width = o->width ? (unsigned int)o->width
                          : (unsigned int)(terminal || getenv("COLUMNS") ? verb_width() : PLAIN_WIDTH),
        .colour = verb_coloured(o->colour, !o->output),
        .utf8 = verb_utf8(),
        .top = o->top,
        .verbose = o->verbose,
        .also = t->words[0] ? arena_printf(t->call->arena, "only %s", t->words) : NULL,
    };
}

/* What is written: one of the three. */
typedef struct Written {
    const TraceReport *report;
    const TraceDiff *diff;
    const AllocatorReport *snapshot;
    const char *title;
} Written;

static int write_main(const Traced *t, const Written *w, ReportSink sink, Err *err)
{
    const TraceOptions *o = t->o;
    ReportOptions style = style_of(t);

    if (w->snapshot)
        return o->json ? allocator_json(w->snapshot, sink, err) : allocator_text(w->snapshot, &style, sink, err);
    if (o->json)
        return w->diff ? trace_diff_json(w->diff, sink, err) : trace_json(w->report, sink, err);
    if (o->csv)
        return w->diff ? trace_diff_csv(w->diff, o->csv, sink, err) : trace_csv(w->report, o->csv, sink, err);
    return w->diff ? trace_diff_text(w->diff, &style, sink, err) : trace_text(w->report, &style, sink, err);
}

static int write_page(const Traced *t, const Written *w, ReportSink sink, Err *err)
{
    (void)t;
    if (w->snapshot)
        return trace_snapshot_html(w->snapshot, w->title, sink, err);
    return w->diff ? trace_diff_html(w->diff, w->title, sink, err) : trace_html(w->report, w->title, sink, err);
}

static int write_to(const Traced *t, const Written *w, const char *path,
                    int (*writer)(const Traced *, const Written *, ReportSink, Err *), Err *err)
{
    CLEANUP(outfile_drop_at) OutFile *out = NULL;

    TRY(outfile_open(path, &out, err));
    TRY(writer(t, w, (ReportSink){.write = outfile_write, .context = out}, err));
    return outfile_commit(TAKE(out), err);
}

static int write_all(Traced *t, const Written *w)
{
    const TraceOptions *o = t->o;
    Err *err = &t->call->err;

    if (o->html && write_to(t, w, o->html, write_page, err) < 0)
        return verb_fail(t->call, EXIT_UNKNOWN);
    if (o->html && strcmp(o->html, "-") == 0 && !o->output)
        return EXIT_FINE;
    if (write_to(t, w, o->output ? o->output : "-", write_main, err) < 0)
        return verb_fail(t->call, EXIT_UNKNOWN);
    return EXIT_FINE;
}

/* ---- running ---- */

static int run_files(Traced *t, const char *const *paths, size_t count, TraceResult *ret)
{
    ProfilePaths files = {0};
    bool missing = false;

    for (size_t i = 0; i < count; i++) {
        if (profile_paths_add(&files, paths[i], t->call->arena, &t->call->err) < 0) {
            verb_fail(t->call, EXIT_UNKNOWN);
            missing = true;
        }
    }
    TraceRun run = {.path = t->call->path,
                    .files = &files,
                    .ask = &t->ask,
                    .config = &t->config,
                    .threads = (unsigned int)t->o->threads,
                    .memory = t->o->memory,
                    .progress = t->o->progress};
    *ret = (TraceResult){0};
    if (files.files.len > 0)
        trace_run(&run, ret);
    ret->failed += missing;
    profile_paths_done(&files);
    return 0;
}

static bool has_finding(const TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        if (report->ranks.at[i].lost > 0)
            return true;
    for (size_t i = 0; i < report->verdicts.len; i++)
        if (strcmp(report->verdicts.at[i].id, "gpu-well-used") != 0) /* nothing to do */
            return true;
    return false;
}

static const char *title_of(const Traced *t, const char *const *paths, size_t count)
{
    const char *slash = strrchr(paths[0], '/');
    const char *name = slash && slash[1] ? slash + 1 : paths[0];

    return count == 1 ? name : arena_printf(t->call->arena, "%s and %zu more", name, count - 1);
}

static int show_report(Traced *t, const char *const *paths, size_t count)
{
    CLEANUP(trace_result_done) TraceResult result;

    run_files(t, paths, count, &result);
    stop_obey();
    if (result.analysed == 0)
        return EXIT_UNKNOWN;
    bool finding = has_finding(&result.report);
    if (t->filtered)
        trace_report_filter(&result.report, &t->names);
    int code = write_all(t, &(Written){.report = &result.report, .title = title_of(t, paths, count)});
    if (code != EXIT_FINE)
        return code;
    return result.failed ? EXIT_UNKNOWN : finding ? EXIT_FINDING : EXIT_FINE;
}

static int show_diff(Traced *t, const char *const *before_path, const char *const *paths, size_t count)
{
    CLEANUP(trace_result_done) TraceResult before = {0}, after = {0};
    TraceDiff diff = {0};
    Arena arena = {0};

    run_files(t, before_path, 1, &before);
    stop_obey();
    run_files(t, paths, count, &after);
    stop_obey();
    if (before.analysed == 0 || after.analysed == 0)
        return EXIT_UNKNOWN;
    trace_diff(&before.report, &after.report, &arena, &diff);
    if (t->filtered)
        trace_diff_filter(&diff, &t->names);
    const char *title = arena_printf(&arena, "%s against %s", title_of(t, paths, count), before_path[0]);
    int code = write_all(t, &(Written){.diff = &diff, .title = title});
    trace_diff_done(&diff);
    arena_done(&arena);
    return code != EXIT_FINE ? code : before.failed + after.failed ? EXIT_UNKNOWN : EXIT_FINE;
}

static int show_snapshot(Traced *t, const char *path)
{
    CLEANUP(allocator_done) AllocatorReport report = {0};

    if (t->o->csv || t->filtered || t->words[0])
        return verb_failf(t->call, EXIT_USAGE,
                          "'%s' is a memory snapshot: --csv, --filter and what chooses a part are for profiles", path);
    if (snapshot_load(path, &report, &t->call->err) < 0)
        return verb_fail(t->call, EXIT_UNKNOWN);
    const int code = write_all(t, &(Written){.snapshot = &report, .title = title_of(t, &path, 1)});

    if (code != EXIT_FINE)
        return code;
    return report.findings.len ? EXIT_FINDING : EXIT_FINE;
}

static int run_prepared(Traced *t)
{
    const OptArgs *args = &t->call->args;

    if (t->o->csv && strcmp(t->o->csv, "list") == 0) {
        for (const char *const *name = t->o->diff ? trace_diff_csv_tables : trace_csv_tables; *name; name++)
            puts(*name);
        return EXIT_FINE;
    }
    if (prepare_run(t, &t->call->err) < 0)
        return verb_fail(t->call, EXIT_USAGE);
    if (args->len == 0)
        return verb_failf(t->call, EXIT_USAGE, "needs a profile: a file, a folder of ranks, or - for standard input");
    if (!t->o->diff && args->len == 1 && snapshot_is(args->items[0]))
        return show_snapshot(t, args->items[0]);
    return t->o->diff ? show_diff(t, &t->o->diff, args->items, args->len) : show_report(t, args->items, args->len);
}

static int trace_verb_run(VerbCall *call, const void *options)
{
    Traced t = {.call = call, .o = options};
    int code = run_prepared(&t);

    if (t.filtered)
        regfree(&t.names);
    return code;
}

static int diff_verb_run(VerbCall *call, const void *options)
{
    TraceOptions own = *(const TraceOptions *)options;

    if (own.diff)
        return verb_failf(call, EXIT_USAGE, "--diff is what this verb does: give two profiles, BEFORE and AFTER");
    if (call->args.len < 2 && !(own.csv && strcmp(own.csv, "list") == 0))
        return verb_failf(call, EXIT_USAGE, "needs two profiles, BEFORE and AFTER (files or folders of ranks)");
    own.diff = call->args.len ? call->args.items[0] : "";
    call->args.items += call->args.len ? 1 : 0;
    call->args.len -= call->args.len ? 1 : 0;
    return trace_verb_run(call, &own);
}

static const Verb verb_trace_diff = {
    .name = "diff",
    .summary = "what changed between two profiles",
    .usage = "[OPTION...] BEFORE AFTER...",
    .description =
        "Compares what two profiles spent their time on, by kernel and by operator, per step where both have "
        "steps. Each may be a file or a folder of ranks.",
    .examples = "stoker trace diff monday.json.gz today.json.gz\n"
                "stoker trace diff before/ after/ --step 5 --csv kernels",
    .exit_codes = "0  compared\n"
                  "2  the command line is wrong\n"
                  "3  one of the files could not be read",
    VERB_OPTS(trace_opts, TraceOptions),
    .run = diff_verb_run,
};

extern const Verb verb_trace_cut;
static const Verb *const subs[] = {&verb_trace_cut, &verb_trace_diff, NULL};

const Verb verb_trace = {
    .name = "trace",
    .summary = "why a profiled job is slow, and what to change",
    .usage = "[OPTION...] FILE...",
    .description =
        "Reads profiles of PyTorch's profiler (Chrome trace JSON, plain, gzip or zstd) and shows where the time of the "
        "GPUs went: what they ran, why they were idle, what limits each step, and what to change. A folder holds all "
        "ranks of a job; - is standard input. It needs no GPU. A memory snapshot (torch.cuda.memory._dump_snapshot) in "
        "their "
        "place is shown as what holds the memory. `stoker trace cut` writes a smaller profile, `stoker "
        "trace diff` compares two.\n"
        "\n"
        "With --from, --to or --step, a GPU operation counts if it starts within that time, together with the call "
        "that launched it; an event of the host counts if it overlaps that time.",
    .examples = "stoker trace profile.pt.trace.json.gz      # the verdict\n"
                "stoker trace ranks/ --html report.html     # all ranks, with the timeline\n"
                "stoker trace profile.json --step 5 -v      # one step, every table\n"
                "stoker trace profile.json --csv kernels -o kernels.csv\n"
                "stoker trace profile.json.zst --json | jq '.verdicts'\n"
                "stoker trace snapshot.pickle               # what holds the memory\n"
                "stoker trace cut profile.json --step last -o small.json.gz\n"
                "stoker trace diff before.json after.json",
    .exit_codes = "0  analysed, and nothing stands out\n"
                  "1  analysed, with a finding: a verdict, or a part of a file that could not be read\n"
                  "2  the command line is wrong\n"
                  "3  a file could not be read (the others are analysed), or the output not be written",
    VERB_OPTS(trace_opts, TraceOptions),
    .run = trace_verb_run,
    .subs = subs,
};
