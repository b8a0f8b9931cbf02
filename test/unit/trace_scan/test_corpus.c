/* SPDX-License-Identifier: Apache-2.0 */
/* What the scanner makes of the inputs that fuzzing has kept, in one piece and in small ones:
 * test/data/trace/corpus.txt. */
#include "test/unit/golden_corpus.h"

#include "kit.h"

static void add_scan(const Str *input, const TraceScanOptions *options, const KitWay *way, Str *line, Str *outputs)
{
    Profile profile;
    Err err = {0};
    const int rc = kit_scan(input->text, input->len, options, way, &profile, &err);

    if (rc < 0)
        str_add(outputs, err.text);
    else
        kit_print(&profile, outputs);
    str_addf(line, " %d %zu+%zu", rc, profile.gpu.len, profile.host.len);
    profile_done(&profile);
}

/* With what is known of ends from a first pass, a pair of events is two. Several threads read parts. */
static void read_trace(const Str *input, Str *line)
{
    static const KitWay whole = {.piece = 0}, small = {.piece = 7}, parts = {.threads = 2, .part_bytes = 40};
    CLEANUP(str_done) Str outputs = str_limited(1 << 26);
    TraceKnown *known = trace_known_new();

    add_scan(input, &(TraceScanOptions){.learn = known}, &whole, line, &outputs);
    add_scan(input, &(TraceScanOptions){.known = known, .skip_host = input->len % 2}, &small, line, &outputs);
    add_scan(input, NULL, &parts, line, &outputs);
    trace_known_free(known);
    assert_false(outputs.overflow);
    str_addf(line, " %" PRIx64, golden_sum(0, outputs.text));
}

static void test_corpora(void **state)
{
    CLEANUP(str_done) Str golden = str_limited(GOLDEN_MAX);

    (void)state;
    golden_add_corpus(&golden, CORPUS "/trace_scan", read_trace);
    assert_golden(GOLDEN "/corpus.txt", &golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpora)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
