/* SPDX-License-Identifier: Apache-2.0 */
/* What the page leaves out of large reports (service/report/html.c); what it shows is in test_report_html.py and in
 * test/unit/trace/test_outputs.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "sample.h"
#include "service/report/report.h"
#include "../report_sink.h"

enum { PAGE_MAX = 64 << 20 };

/* The page's data; json_decref ends it. */
static json_t *data_of(const TraceReport *report)
{
    static const char mark[] = "<script type=\"application/json\" id=\"data\">";
    Str page = str_limited(PAGE_MAX);
    Err err = {0};

    assert_int_equal(trace_html(report, "large", report_sink_str(&page), &err), 0);
    const char *from = strstr(page.text, mark);
    assert_non_null(from);
    from += sizeof mark - 1;
    json_t *data = json_loadb(from, (size_t)(strstr(from, "</script>") - from), 0, NULL);
    assert_non_null(data);
    str_done(&page);
    return data;
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const json_t *rank_of(const json_t *data)
{
    return json_array_get(json_object_get(data, "ranks"), 0);
}

static const char *text(const json_t *data, json_int_t index)
{
    return json_string_value(json_array_get(json_object_get(data, "texts"), (size_t)index));
}

static TraceTimelineLane *add_lane(TraceRank *rank, size_t slices, size_t buckets)
{
    TraceTimelineLane *lane = vec_add(&rank->timeline.lanes);

    *lane = (TraceTimelineLane){.name = "lane", .gpu = true, .bucket_ns = 100};
    for (size_t i = 0; i < slices; i++)
        vec_push(&lane->slices, ((TraceSlice){.start = (int64_t)i * 10, .end = (int64_t)i * 10 + 5}));
    for (size_t i = 0; i < buckets; i++) {
        vec_push(&lane->busy, (uint8_t)(i % 2 ? 20 : 10));
        vec_push(&lane->busy, 0);
        vec_push(&lane->busy, 255);
    }
    return lane;
}

/* Each lane has the same number of slices at most, so that all have 400000 together. */
static void lanes_share_the_slices(void **state)
{
    static const struct {
        size_t has[3];
        json_int_t shown[3];
    } cases[] = {
        {{300000, 100000, 0}, {300000, 100000, 0}},
        {{300001, 100000, 0}, {300000, 100000, 0}},
        {{300000, 200001, 3}, {199998, 199998, 3}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TraceReport report;

        sample_empty(&report);
        for (size_t lane = 0; lane < 3; lane++)
            add_lane(&report.ranks.at[0], cases[i].has[lane], 0)->slices_left_out = 7;
        json_t *data = data_of(&report);
        for (size_t lane = 0; lane < 3; lane++) {
            const json_t *is = json_array_get(json_object_get(rank_of(data), "lanes"), lane);

            assert_int_equal(number(is, "count"), cases[i].shown[lane]);
            assert_int_equal(number(is, "left_out"), 7 + (json_int_t)cases[i].has[lane] - cases[i].shown[lane]);
        }
        json_decref(data);
        trace_report_done(&report);
    }
}

/* Buckets are joined by two, and by two again, until all lanes' have 2 MiB. */
static void buckets_are_joined(void **state)
{
    static const struct {
        size_t buckets;
        double bucket_ns;
        size_t chars; /* of base64 */
        const char *begin, *end;
    } cases[] = {
        {699050, 100, 4 * 699050, "CgD/FAD/", "CgD/FAD/"},
        {699051, 200, 4 * 349526, "DwD/DwD/", "DwD/BQB/"}, /* of the last pair one is missing */
        {1398102, 400, 4 * 349526, "DwD/DwD/", "DwD/BwB/"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TraceReport report;

        sample_empty(&report);
        add_lane(&report.ranks.at[0], 0, cases[i].buckets);
        json_t *data = data_of(&report);
        const json_t *lane = json_array_get(json_object_get(rank_of(data), "lanes"), 0);
        const char *busy = json_string_value(json_object_get(lane, "busy"));

        assert_true(json_number_value(json_object_get(lane, "bucket_ns")) == cases[i].bucket_ns);
        assert_int_equal(strlen(busy), cases[i].chars);
        assert_memory_equal(busy, cases[i].begin, 8);
        assert_string_equal(busy + cases[i].chars - 8, cases[i].end);
        json_decref(data);
        trace_report_done(&report);
    }
}

static const char *name_of(TraceReport *report, size_t number, size_t len)
{
    char name[2048];

    snprintf(name, sizeof name, "%08zu%0*d", number, (int)len - 8, 7);
    return arena_strdup(&report->arena, name);
}

static void add_kernel(TraceReport *report, const char *name)
{
    vec_push(&report->ranks.at[0].kernels, ((TraceKernel){.name = name, .op = "", .line = ""}));
}

static json_int_t kernel_name(const json_t *data, size_t row)
{
    const json_t *rows = json_object_get(json_object_get(rank_of(data), "kernels"), "rows");

    return json_integer_value(json_array_get(json_array_get(rows, row), 0));
}

static void long_names_lose_their_middle(void **state)
{
    TraceReport report;
    char wanted[606];

    (void)state;
    sample_empty(&report);
    add_kernel(&report, name_of(&report, 0, 600));
    add_kernel(&report, name_of(&report, 1, 601));
    json_t *data = data_of(&report);

    assert_string_equal(text(data, kernel_name(data, 0)), report.ranks.at[0].kernels.at[0].name);
    const char *name = report.ranks.at[0].kernels.at[1].name;
    snprintf(wanted, sizeof wanted, "%.400s ... %s", name, name + 401);
    assert_string_equal(text(data, kernel_name(data, 1)), wanted);
    json_decref(data);
    trace_report_done(&report);
}

/* Rows in the order of the report, up to a number; names up to a number of bytes of all. */
static void many_rows_and_names_are_left_out(void **state)
{
    enum { KERNELS = 12100, SHOWN = 12010, NAMED = 6 * 1024 * 1024 / 600 };
    TraceReport report;

    (void)state;
    sample_empty(&report);
    for (size_t i = 0; i < KERNELS; i++)
        add_kernel(&report, name_of(&report, i, 600));
    json_t *data = data_of(&report);
    const json_t *kernels = json_object_get(rank_of(data), "kernels");

    assert_int_equal(json_array_size(json_object_get(kernels, "rows")), SHOWN);
    assert_int_equal(number(kernels, "left_out"), KERNELS - SHOWN);
    assert_string_equal(text(data, kernel_name(data, NAMED - 1)), report.ranks.at[0].kernels.at[NAMED - 1].name);
    assert_string_equal(text(data, kernel_name(data, NAMED + 1)), "...");
    assert_int_equal(kernel_name(data, NAMED + 1), kernel_name(data, SHOWN - 1));
    json_decref(data);
    trace_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_share_the_slices),
        cmocka_unit_test(buckets_are_joined),
        cmocka_unit_test(long_names_lose_their_middle),
        cmocka_unit_test(many_rows_and_names_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
