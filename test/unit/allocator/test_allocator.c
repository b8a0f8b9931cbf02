/* SPDX-License-Identifier: Apache-2.0 */
/* Whole outputs of memory snapshots: what test/data/allocator/ has, whose make.py makes the snapshots. */
#include "test/unit/golden_json.h"

#include <errno.h>

#include "base/gzip.h"
#include "service/report/allocator.h"
#include "service/report/report.h"
#include "test/unit/report_sink.h"

enum { SNAPSHOT_MAX = 1 << 22 };

static void read_snapshot(const char *name, Str *ret)
{
    CLEANUP(str_done) Str packed = str_limited(SNAPSHOT_MAX);
    char path[256];

    snprintf(path, sizeof path, GOLDEN "/%s.pickle.gz", name);
    assert_int_equal(file_read(path, SNAPSHOT_MAX, &packed, NULL), 0);
    assert_int_equal(gzip_unpack(packed.text, packed.len, ret, NULL), 0);
}

static void add_text(Str *output, const AllocatorReport *report, const ReportOptions *options)
{
    str_addf(output, "==== %u columns\n", options->width);
    assert_int_equal(allocator_text(report, options, report_sink_str(output), NULL), 0);
}

static void test_outputs(void **state)
{
    static const char *const names[] = {"story", "busy", "failed", "failed-more", "older", "odd", "limits", "wild"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CLEANUP(str_done) Str snapshot = str_limited(SNAPSHOT_MAX);
        CLEANUP(str_done) Str output = str_limited(GOLDEN_MAX);
        CLEANUP(str_done) Str json = str_limited(GOLDEN_MAX);
        CLEANUP(str_done) Str page = str_limited(GOLDEN_MAX);
        CLEANUP(allocator_done) AllocatorReport report = {0};
        char path[256];

        read_snapshot(names[i], &snapshot);
        assert_true(allocator_is_pickle(snapshot.text, snapshot.len));
        assert_int_equal(allocator_read((Span){snapshot.text, snapshot.len}, &report, NULL), 0);
        add_text(&output, &report, &(ReportOptions){.width = 100, .utf8 = true});
        add_text(&output, &report, &(ReportOptions){.width = 60, .top = 2});
        assert_int_equal(allocator_json(&report, report_sink_str(&json), NULL), 0);
        golden_add_json(&output, &json);
        str_add(&output, "==== page\n");
        assert_int_equal(trace_snapshot_html(&report, "a & b", report_sink_str(&page), NULL), 0);
        golden_add_page(&output, &page);
        snprintf(path, sizeof path, GOLDEN "/%s.txt", names[i]);
        assert_golden(path, &output);
    }
}

#define BYTES(text)                                                                                                    \
    {                                                                                                                  \
        text, sizeof(text) - 1                                                                                         \
    }
#define OF_DEVICE(number) "\200\002}X\010\0\0\0segments]}X\006\0\0\0deviceK" number "sas."

static void test_no_snapshots(void **state)
{
    static const struct {
        Span bytes;
        bool pickle;
        const char *why;
    } cases[] = {
        {BYTES("\200\002}."), true, "it has no list \"segments\""},
        {BYTES("\200\002]."), true, "it has no list \"segments\""},
        {BYTES("\200\002}"), true, "it ends in the middle"},
        {BYTES("\200\002cos\nsystem\n."), true, "it wants to call a function: refused"},
        {BYTES(OF_DEVICE("\100")), true, "more than 64 devices"},
        {BYTES("\200\001}."), false, ""},
        {BYTES("\200\006}."), false, ""},
        {{"\200\002", 1}, false, ""},
        {BYTES("{\"traceEvents\":[]}"), false, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(allocator_done) AllocatorReport report = {0};
        Err err = {0};

        assert_int_equal(allocator_is_pickle(cases[i].bytes.at, cases[i].bytes.len), cases[i].pickle);
        assert_int_equal(allocator_read(cases[i].bytes, &report, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(report.devices.len, 0);
    }
}

static void test_as_many_devices_as_may_be(void **state)
{
    static const Span bytes = BYTES(OF_DEVICE("\077"));
    CLEANUP(allocator_done) AllocatorReport report = {0};

    (void)state;
    assert_int_equal(allocator_read(bytes, &report, NULL), 0);
    assert_int_equal(report.devices.len, 1);
    assert_int_equal(report.devices.at[0].device, 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_outputs), cmocka_unit_test(test_no_snapshots),
                                       cmocka_unit_test(test_as_many_devices_as_may_be)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
