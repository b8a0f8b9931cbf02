/* SPDX-License-Identifier: Apache-2.0 */
/* Whole outputs of jobs and their exit codes: what test/data/nccl/ has. An input is there as kit_read takes it. */
#include "test/unit/golden_json.h"

#include "kit.h"
#include "service/report/nccl.h"
#include "test/unit/report_sink.h"

enum { OUTPUT_MAX = 1 << 22 };

CLEANUP_POINTER(NcclJob, nccl_free);

static const char *const names[] = {"job",    "sockets", "many-communicators", "many-settings", "benches",
                                    "behind", "sizes",   "complete",           "links",         "odd",
                                    "waits",  "flights"};

static void add_text(Str *output, const NcclReport *report, unsigned width, bool verbose)
{
    const ReportOptions options = {.width = width, .verbose = verbose, .utf8 = verbose};

    str_addf(output, "==== %u columns\n", width);
    assert_int_equal(nccl_report_text(report, &options, report_sink_str(output), NULL), 0);
}

static void test_screens(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CLEANUP(str_done) Str input = str_limited(OUTPUT_MAX);
        CLEANUP(str_done) Str output = str_limited(OUTPUT_MAX);
        CLEANUP(str_done) Str json = str_limited(OUTPUT_MAX);
        char path[256];

        snprintf(path, sizeof path, GOLDEN "/%s.in", names[i]);
        assert_int_equal(file_read(path, OUTPUT_MAX, &input, NULL), 0);
        CLEANUP(nccl_free_at) NcclJob *job = kit_read(input.text);
        const NcclReport *report = nccl_finish(job);

        str_addf(&output, "exit code %d\n", nccl_exit_code(report));
        add_text(&output, report, 100, false);
        add_text(&output, report, 60, true);
        assert_int_equal(nccl_report_json(report, report_sink_str(&json), NULL), 0);
        golden_add_json(&output, &json);
        assert_int_equal(nccl_report_csv(report, report_sink_str(&output), NULL), 0);
        snprintf(path, sizeof path, GOLDEN "/%s.txt", names[i]);
        assert_golden(path, &output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_screens)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
