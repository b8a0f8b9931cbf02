/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <stdio.h>

#include "service/report/nccl.h"
#include "test/unit/golden_json.h"
#include "test/unit/report_sink.h"

static Str outputs; /* of what kit_read has read, a line each */
static size_t inputs;

/* "key=VALUE\n" at the front, which goes. */
static void option(const char **text, size_t *len, const char *key, char out[64])
{
    size_t front = strlen(key), n = strcspn(*text, "\n");

    if (strncmp(*text, key, front) != 0)
        return;
    snprintf(out, 64, "%.*s", (int)(n - front), *text + front);
    *text += n + 1;
    *len -= n + 1;
}

static void feed(NcclJob *job, const char *text, size_t len, size_t piece)
{
    char name[64] = "input", trouble[64] = "";

    option(&text, &len, "name=", name);
    option(&text, &len, "trouble=", trouble);
    nccl_begin(job, name);
    for (size_t at = 0; at < len; at += piece)
        nccl_feed(job, text + at, len - at < piece ? len - at : piece);
    nccl_end(job, trouble[0] ? trouble : NULL);
}

NcclJob *kit_read_in_pieces(const char *text, size_t piece)
{
    NcclJob *job = nccl_new();

    for (;;) {
        size_t len = strcspn(text, "\f");
        feed(job, text, len, piece);
        if (!text[len])
            return job;
        text += len + 1;
    }
}

void kit_add_outputs(const NcclReport *report, Str *line)
{
    static const ReportOptions options = {.width = 100, .verbose = true, .utf8 = true};
    CLEANUP(str_done) Str whole = str_limited(GOLDEN_MAX);

    str_addf(line, " %d", nccl_exit_code(report));
    for (size_t i = 0; i < report->findings.len; i++)
        str_addf(line, " %s", report->findings.at[i].id);
    for (size_t i = 0; i < report->inputs.len; i++)
        if (strstr(report->inputs.at[i].trouble, "line ")) /* words of jansson or expat, which change */
            return;
    assert_int_equal(nccl_report_text(report, &options, report_sink_str(&whole), NULL), 0);
    assert_int_equal(nccl_report_json(report, report_sink_str(&whole), NULL), 0);
    assert_int_equal(nccl_report_csv(report, report_sink_str(&whole), NULL), 0);
    str_addf(line, " %" PRIx64, golden_sum(0, whole.text));
}

NcclJob *kit_read(const char *text)
{
    NcclJob *job = kit_read_in_pieces(text, SIZE_MAX / 2);

    if (!outputs.text)
        outputs = str_limited(GOLDEN_MAX);
    str_addf(&outputs, "%zu", ++inputs);
    kit_add_outputs(nccl_finish(job), &outputs);
    str_addc(&outputs, '\n');
    nccl_free(job);
    return kit_read_in_pieces(text, SIZE_MAX / 2);
}

void kit_check_outputs(const char *path)
{
    assert_golden(path, &outputs);
    str_done(&outputs);
}

const NcclFinding *kit_find(const NcclReport *report, const char *id)
{
    for (size_t i = 0; i < report->findings.len; i++)
        if (strcmp(report->findings.at[i].id, id) == 0)
            return &report->findings.at[i];
    return NULL;
}
