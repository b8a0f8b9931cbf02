/* SPDX-License-Identifier: Apache-2.0 */
/* Whole outputs of small profiles, from the file to the text, JSON, CSV and the page's data: what test/data/trace/ has.
 * Its make.py makes the profiles; STOKER_UPDATE=1 writes what the outputs are now. */
#include "test/unit/golden_json.h"

#include <string.h>

#include "engine/trace/cut.h"
#include "engine/trace/pick.h"
#include "service/report/report.h"
#include "test/unit/report_sink.h"
#include "verb/trace/one.h"

enum { RANKS_MAX = 4, OUTPUT_MAX = 1 << 23, MEMORY = 1 << 28 };

enum {
    SHORT_TEXT = 1,
    WHOLE_TEXT = 2,
    JOB_JSON = 4 /* without what is of a rank alone */,
    JSON = 8,
    CSV = 16,
    PAGE = 32
};
enum { TEXTS = SHORT_TEXT | WHOLE_TEXT };

static const struct Case {
    const char *name, *files[RANKS_MAX];
    unsigned outputs;
    const char *step, *from, *to, *ranks, *streams, *devices, *filter;
    const char *only; /* members of ranks, a blank on each side; JSON has these and nothing of the job */
    bool no_host, no_python;
    uint64_t gap_ns, short_ns; /* 0: as the program has it */
} cases[] = {
    {.name = "training",
     .files = {SAMPLES "/training/rank0.json.gz", SAMPLES "/training/rank1.json.gz", SAMPLES "/training/rank2.json.gz",
               SAMPLES "/training/rank3.json.gz"},
     .outputs = SHORT_TEXT},
    {.name = "sample-decode", .files = {SAMPLES "/decode.json.gz"}, .outputs = SHORT_TEXT},
    {.name = "loading", .files = {SAMPLES "/loading.json.gz"}, .outputs = SHORT_TEXT},
    {.name = "causes", .files = {GOLDEN "/causes.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "shapes", .files = {GOLDEN "/shapes.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "misaligned", .files = {GOLDEN "/misaligned.json.gz"}, .outputs = TEXTS | JSON},
    {.name = "rails",
     .files = {GOLDEN "/rails/rank0.json.gz", GOLDEN "/rails/rank1.json.gz", GOLDEN "/rails/rank2.json.gz",
               GOLDEN "/rails/rank3.json.gz"},
     .outputs = SHORT_TEXT | JOB_JSON},
    {.name = "ddp",
     .files = {GOLDEN "/ddp/rank0.json.gz", GOLDEN "/ddp/rank1.json.gz", GOLDEN "/ddp/rank2.json.gz",
               GOLDEN "/ddp/rank3.json.gz"},
     .outputs = SHORT_TEXT | JOB_JSON},
    {.name = "ddp-part",
     .files = {GOLDEN "/ddp/rank0.json.gz", GOLDEN "/ddp/rank1.json.gz", GOLDEN "/ddp/rank2.json.gz",
               GOLDEN "/ddp/rank3.json.gz"},
     .outputs = SHORT_TEXT | JSON,
     .ranks = "1-2",
     .step = "1-2"},
    {.name = "pipeline",
     .files = {GOLDEN "/pipeline/rank0.json.gz", GOLDEN "/pipeline/rank1.json.gz", GOLDEN "/pipeline/rank2.json.gz",
               GOLDEN "/pipeline/rank3.json.gz"},
     .outputs = SHORT_TEXT | JOB_JSON},
    {.name = "slow-rail",
     .files = {GOLDEN "/slow-rail/rank0.json.gz", GOLDEN "/slow-rail/rank1.json.gz", GOLDEN "/slow-rail/rank2.json.gz",
               GOLDEN "/slow-rail/rank3.json.gz"},
     .outputs = JOB_JSON},
    {.name = "slow-stage",
     .files = {GOLDEN "/slow-stage/rank0.json.gz", GOLDEN "/slow-stage/rank1.json.gz",
               GOLDEN "/slow-stage/rank2.json.gz", GOLDEN "/slow-stage/rank3.json.gz"},
     .outputs = JOB_JSON},
    {.name = "slow-pair",
     .files = {GOLDEN "/slow-pair/rank0.json.gz", GOLDEN "/slow-pair/rank1.json.gz", GOLDEN "/slow-pair/rank2.json.gz",
               GOLDEN "/slow-pair/rank3.json.gz"},
     .outputs = JOB_JSON},
    {.name = "drift", .files = {GOLDEN "/drift/rank0.json.gz", GOLDEN "/drift/rank1.json.gz"}, .outputs = JOB_JSON},
    {.name = "serve",
     .files = {GOLDEN "/serve/rank0.json.gz", GOLDEN "/serve/rank1.json.gz"},
     .outputs = SHORT_TEXT | JSON,
     .only = " steps inference decode_gaps collectives "},
    {.name = "xla", .files = {GOLDEN "/xla.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "amd", .files = {GOLDEN "/amd.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "tied1", .files = {GOLDEN "/tied1.json.gz"}, .outputs = TEXTS | JSON | CSV | PAGE, .gap_ns = 10000},
    {.name = "tied2", .files = {GOLDEN "/tied2.json.gz"}, .outputs = SHORT_TEXT | JSON, .short_ns = 20000},
    {.name = "tied-part",
     .files = {GOLDEN "/tied2.json.gz"},
     .outputs = JSON,
     .only = " devices gaps steps kernels copies queues paths collectives ",
     .from = "410us",
     .to = "800us",
     .streams = "8,20"},
    {.name = "random12", .files = {GOLDEN "/random12.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "random31",
     .files = {GOLDEN "/random31.json.gz"},
     .outputs = SHORT_TEXT | JSON,
     .only = " devices gaps steps kernels queues paths ",
     .devices = "0-1"},
    {.name = "job",
     .files = {GOLDEN "/job/rank0.json.gz", GOLDEN "/job/rank1.json.gz", GOLDEN "/job/rank2.json.gz"},
     .outputs = SHORT_TEXT | JSON | PAGE},
    {.name = "memory", .files = {GOLDEN "/memory.json.gz"}, .outputs = TEXTS | JSON | PAGE},
    {.name = "modules", .files = {GOLDEN "/before.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "decode", .files = {GOLDEN "/decode.json.gz"}, .outputs = SHORT_TEXT | JSON},
    {.name = "flops", .files = {GOLDEN "/flops.json.gz"}, .outputs = JSON, .only = " shapes roof operators "},
    {.name = "calls", .files = {GOLDEN "/calls.json.gz"}, .outputs = JSON, .only = " collectives copies calls "},
    {.name = "xla-forms",
     .files = {GOLDEN "/xla-forms.json.gz"},
     .outputs = JSON,
     .only = " devices kernels copies steps lost annotations queues "},
    {.name = "waits", .files = {GOLDEN "/waits.json.gz"}, .outputs = JSON, .only = " paths queues steps "},
    {.name = "engine", .files = {GOLDEN "/engine.json.gz"}, .outputs = JSON, .only = " steps inference decode_gaps "},
    {.name = "engine-steps",
     .files = {GOLDEN "/engine-steps.json.gz"},
     .outputs = JSON,
     .only = " steps inference decode_gaps "},
    {.name = "no-steps", .files = {GOLDEN "/random3.json.gz"}, .outputs = SHORT_TEXT | JOB_JSON},
    {.name = "damaged", .files = {GOLDEN "/damaged.json.gz"}, .outputs = JSON, .only = " lost lost_by_reason losses "},
    {.name = "memory-backward", .files = {GOLDEN "/memory-backward.json.gz"}, .outputs = JSON, .only = " memory "},
    {.name = "memory-unknown", .files = {GOLDEN "/memory-unknown.json.gz"}, .outputs = JSON, .only = " memory "},
    {.name = "twice",
     .files = {GOLDEN "/job/rank0.json.gz", GOLDEN "/job/rank0.json.gz", GOLDEN "/job/rank1.json.gz",
               GOLDEN "/random3.json.gz"},
     .outputs = SHORT_TEXT | JOB_JSON},
    {.name = "filtered", .files = {GOLDEN "/ddp/rank0.json.gz"}, .outputs = SHORT_TEXT, .filter = "add|loader|Sync"},
    {.name = "no-host",
     .files = {GOLDEN "/tied1.json.gz"},
     .outputs = JSON,
     .only = " paths steps gaps ",
     .no_host = true,
     .devices = "0"},
    {.name = "no-python",
     .files = {GOLDEN "/causes.json.gz"},
     .outputs = SHORT_TEXT,
     .no_python = true,
     .step = "last"},
};

/* A report and what its texts lie in. */
typedef struct Made {
    TraceReport report;
    char words[256]; /* what was chosen of it */
    Arena arenas[RANKS_MAX];
} Made;

static void make_ask(const struct Case *c, TraceAsk *ret)
{
    Err err;

    *ret = (TraceAsk){.step = c->step, .no_host = c->no_host, .no_python = c->no_python};
    assert_int_equal(trace_moment_parse(c->from, "", &ret->from, &err), 0);
    assert_int_equal(trace_moment_parse(c->to, "", &ret->to, &err), 0);
    assert_int_equal(trace_numbers_parse(c->ranks, "", &ret->ranks, &err), 0);
    assert_int_equal(trace_numbers_parse(c->streams, "", &ret->streams, &err), 0);
    assert_int_equal(trace_numbers_parse(c->devices, "", &ret->devices, &err), 0);
}

static regex_t compile_filter(const char *text)
{
    regex_t names;

    assert_int_equal(regcomp(&names, text, REG_EXTENDED | REG_NOSUB), 0);
    return names;
}

/* Reads and analyses as the verb does. What changes with the machine or the sizes of structs is dropped. */
static void make_report(const struct Case *c, Made *made)
{
    TraceConfig config = trace_config_default;
    TraceAsk ask;

    make_ask(c, &ask);
    memset(made, 0, sizeof *made);
    trace_ask_words(&ask, made->words, sizeof made->words);
    config.timeline = c->outputs & PAGE;
    config.gap_threshold_ns = c->gap_ns ? c->gap_ns : config.gap_threshold_ns;
    config.short_kernel_ns = c->short_ns ? c->short_ns : config.short_kernel_ns;
    trace_report_init(&made->report);
    for (int64_t i = 0; i < RANKS_MAX && c->files[i]; i++) {
        Err err = {0};
        TraceRank rank;
        TraceOne one = {.path = c->files[i],
                        .number = i,
                        .threads = 1,
                        .memory = MEMORY,
                        .ask = &ask,
                        .config = &config,
                        .arena = &made->arenas[i]};
        const int rc = trace_one(&one, &rank, &err);

        if (rc < 0)
            fail_msg("%s", err.text);
        if (rc == TRACE_ONE_OTHER_RANK)
            continue;
        rank.file = strrchr(c->files[i], '/') + 1;
        rank.memory_bytes = 0;
        vec_push(&made->report.ranks, rank);
    }
    trace_report_drop_copies(&made->report, &made->arenas[0]);
    trace_across(&made->report);
    trace_verdicts(&made->report);
    if (c->filter) {
        regex_t names = compile_filter(c->filter);

        trace_report_filter(&made->report, &names);
        regfree(&names);
    }
}

static void made_done(Made *made)
{
    trace_report_done(&made->report);
    for (size_t i = 0; i < RANKS_MAX; i++)
        arena_done(&made->arenas[i]);
}

/* ---- outputs ---- */

static Str output;

static void add_heading(const char *what)
{
    str_addf(&output, "==== %s\n", what);
}

static void add_text(const Made *made, unsigned width, bool verbose)
{
    const ReportOptions options = {
        .width = width, .verbose = verbose, .utf8 = verbose, .top = verbose ? 0 : 4, .also = made->words};
    Err err;

    add_heading(verbose ? "text, all" : "text");
    assert_int_equal(trace_text(&made->report, &options, report_sink_str(&output), &err), 0);
}

static void add_members(const json_t *rank, const char *only)
{
    const char *key;
    json_t *value;
    char word[64];

    json_object_foreach((json_t *)(uintptr_t)rank, key, value)
    {
        json_t *one = json_pack("{sO}", key, value);

        snprintf(word, sizeof word, " %s ", key);
        if (strstr(only, word))
            golden_add_object(&output, "", one);
        json_decref(one);
    }
}

static void add_json(const TraceReport *report, const struct Case *c)
{
    CLEANUP(str_done) Str text = str_limited(OUTPUT_MAX);
    json_t *root, *rank;
    size_t i;
    Err err;

    add_heading("json");
    assert_int_equal(trace_json(report, report_sink_str(&text), &err), 0);
    root = golden_read_json(&text);
    json_array_foreach(json_object_get(root, "ranks"), i, rank) if (c->only) add_members(rank, c->only);
    if (c->outputs & JOB_JSON)
        json_object_del(root, "ranks");
    if (!c->only)
        golden_add_object(&output, "", root);
    json_decref(root);
}

static void add_csv(const TraceReport *report)
{
    Err err;

    for (const char *const *table = trace_csv_tables; *table; table++) {
        add_heading(*table);
        assert_int_equal(trace_csv(report, *table, report_sink_str(&output), &err), 0);
    }
}

static void add_report_page(const TraceReport *report)
{
    CLEANUP(str_done) Str page = str_limited(OUTPUT_MAX);
    Err err;

    assert_int_equal(trace_html(report, "small & <made>", report_sink_str(&page), &err), 0);
    add_heading("page");
    golden_add_page(&output, &page);
}

static void check_output(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, GOLDEN "/%s.txt", name);
    assert_golden(path, &output);
    str_done(&output);
}

static void test_reports(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Made made;

        make_report(&cases[i], &made);
        output = str_limited(OUTPUT_MAX);
        if (cases[i].outputs & SHORT_TEXT)
            add_text(&made, 72, false);
        if (cases[i].outputs & WHOLE_TEXT)
            add_text(&made, 100, true);
        if (cases[i].outputs & (JOB_JSON | JSON))
            add_json(&made.report, &cases[i]);
        if (cases[i].outputs & CSV)
            add_csv(&made.report);
        if (cases[i].outputs & PAGE)
            add_report_page(&made.report);
        check_output(cases[i].name);
        made_done(&made);
    }
}

static void add_diff(const TraceDiff *diff)
{
    const ReportOptions wide = {.width = 100, .utf8 = true, .verbose = true}, narrow = {.width = 72, .top = 4};
    CLEANUP(str_done) Str json = str_limited(OUTPUT_MAX);
    CLEANUP(str_done) Str page = str_limited(OUTPUT_MAX);
    Err err;

    add_heading("text, all");
    assert_int_equal(trace_diff_text(diff, &wide, report_sink_str(&output), &err), 0);
    add_heading("text");
    assert_int_equal(trace_diff_text(diff, &narrow, report_sink_str(&output), &err), 0);
    add_heading("json");
    assert_int_equal(trace_diff_json(diff, report_sink_str(&json), &err), 0);
    golden_add_json(&output, &json);
    for (const char *const *table = trace_diff_csv_tables; *table; table++) {
        add_heading(*table);
        assert_int_equal(trace_diff_csv(diff, *table, report_sink_str(&output), &err), 0);
    }
    assert_int_equal(trace_diff_html(diff, "before & after", report_sink_str(&page), &err), 0);
    add_heading("page");
    golden_add_page(&output, &page);
}

static void test_diffs(void **state)
{
    static const struct {
        const char *name;
        struct Case before, after;
        const char *filter;
    } diffs[] = {
        {"diff-modules", {.files = {GOLDEN "/before.json.gz"}}, {.files = {GOLDEN "/after.json.gz"}}, NULL},
        {"diff-tied",
         {.files = {GOLDEN "/tied1.json.gz"}},
         {.files = {GOLDEN "/tied2.json.gz"}, .step = "1-2"},
         "mm|gemm|Memcpy"},
        {"diff-jobs", {.files = {GOLDEN "/shapes.json.gz"}}, {.files = {GOLDEN "/misaligned.json.gz"}}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(diffs); i++) {
        Made before, after;
        Arena arena = {0};
        TraceDiff diff;

        make_report(&diffs[i].before, &before);
        make_report(&diffs[i].after, &after);
        trace_diff(&before.report, &after.report, &arena, &diff);
        if (diffs[i].filter) {
            regex_t names = compile_filter(diffs[i].filter);

            trace_diff_filter(&diff, &names);
            regfree(&names);
        }
        output = str_limited(OUTPUT_MAX);
        add_diff(&diff);
        check_output(diffs[i].name);
        trace_diff_done(&diff);
        arena_done(&arena);
        made_done(&before);
        made_done(&after);
    }
}

/* ---- parts, as trace_cut writes them ---- */

static int load_input(void *context, const TraceScanOptions *options, Profile *into, Err *err)
{
    TRY(profile_input_rewind(context, err));
    return trace_load(context, NULL, options, 1, into, err);
}

static int write_output(void *context, const char *bytes, size_t len, Err *err)
{
    (void)context;
    return report_write_str(&output, bytes, len, err);
}

static void add_cut(const struct Case *c, size_t memory)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;
    Err err = {0};
    TraceAsk ask;

    make_ask(c, &ask);
    assert_int_equal(profile_input_open(c->files[0], false, NULL, NULL, &input, &err), 0);
    TraceCut cut = {.ask = &ask, .path = c->files[0], .memory = memory};
    add_heading(c->name);
    const int rc = trace_cut(&cut, &(TraceCutFile){.context = input, .load = load_input, .write = write_output}, &err);

    str_addf(&output, "%" PRIu64 " of %" PRIu64 " events, %" PRIu64 " lost%s\n", cut.copied, cut.events, cut.lost,
             rc < 0 ? strrchr(err.text, ';') : "");
}

static void test_cuts(void **state)
{
    static const struct Case cuts[] = {
        {.name = "window", .files = {GOLDEN "/tied1.json.gz"}, .from = "400us", .to = "440us"},
        {.name = "clock", .files = {GOLDEN "/tied1.json.gz"}, .from = "1400000", .to = "1440000", .streams = "8"},
        {.name = "stream", .files = {GOLDEN "/job/rank0.json.gz"}, .streams = "20"},
        {.name = "step", .files = {GOLDEN "/job/rank1.json.gz"}, .step = "2"},
        {.name = "no-host", .files = {GOLDEN "/memory.json.gz"}, .no_host = true},
        {.name = "no-python", .files = {GOLDEN "/memory.json.gz"}, .no_python = true, .to = "320us"},
        {.name = "flows", .files = {GOLDEN "/flows.json.gz"}, .from = "60us", .to = "140us"},
        {.name = "xla", .files = {GOLDEN "/xla.json.gz"}, .from = "4ms", .to = "4.23ms"},
        {.name = "amd", .files = {GOLDEN "/amd.json.gz"}, .to = "150us", .devices = "0", .streams = "14"},
        {.name = "flows-gpu", .files = {GOLDEN "/flows.json.gz"}, .from = "60us", .to = "140us", .no_host = true},
    };

    (void)state;
    output = str_limited(OUTPUT_MAX);
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++)
        add_cut(&cuts[i], MEMORY);
    add_cut(&cuts[0], 16384);
    add_cut(&cuts[0], 1);
    check_output("cuts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reports), cmocka_unit_test(test_diffs),
                                       cmocka_unit_test(test_cuts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
