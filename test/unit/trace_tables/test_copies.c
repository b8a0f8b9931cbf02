/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that are given twice (engine/trace/report.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/trace/report.h"

enum { ROWS = 3 };

/* A rank with ROWS rows of each kind. */
static void fill_rank(TraceRank *rank)
{
    *rank = (TraceRank){.file = "file.json", .rank = 3, .base_ns = 5, .events = 12, .ignored = 2};
    for (int i = 0; i < ROWS; i++) {
        vec_push(&rank->devices, ((TraceDevice){.device = i,
                                                .first = 1,
                                                .last = 9,
                                                .busy_ns = 5,
                                                .compute_ns = 4,
                                                .operation_count = 3,
                                                .gap_count = 2,
                                                .stream_count = 1}));
        vec_push(&rank->kernels, ((TraceKernel){.name = "k", .total_ns = 10 + i}));
        vec_push(&rank->operators, ((TraceOperator){.name = "o", .host_ns = 20 + i}));
        vec_push(&rank->calls, ((TraceCall){.name = "c", .total_ns = 30 + i}));
        vec_push(&rank->steps, ((TraceStepRow){.name = "s"}));
    }
}

/* Two of them in a report; returns how many are left when copies were dropped. */
static size_t count_kept(void (*change)(TraceRank *, size_t), size_t row)
{
    TraceReport report;
    TraceRank rank;
    size_t kept;

    trace_report_init(&report);
    fill_rank(&rank);
    vec_push(&report.ranks, rank);
    fill_rank(&rank);
    if (change)
        change(&rank, row);
    vec_push(&report.ranks, rank);
    trace_report_drop_copies(&report, &report.arena);
    kept = report.ranks.len;
    assert_int_equal(report.notes.len, 2 - kept);
    trace_report_done(&report);
    return kept;
}

/* Each makes it another recording: CHANGE(name, statement). */
#define CHANGE_TABLE(CHANGE)                                                                                           \
    CHANGE(rank, r->rank++)                                                                                            \
    CHANGE(base, r->base_ns++)                                                                                         \
    CHANGE(events, r->events++)                                                                                        \
    CHANGE(ignored, r->ignored++)                                                                                      \
    CHANGE(device_count, r->devices.len--)                                                                             \
    CHANGE(kernel_count, r->kernels.len--)                                                                             \
    CHANGE(operator_count, r->operators.len--)                                                                         \
    CHANGE(call_count, r->calls.len--)                                                                                 \
    CHANGE(step_count, r->steps.len--)                                                                                 \
    CHANGE(device, r->devices.at[i].device += 10)                                                                      \
    CHANGE(first, r->devices.at[i].first++)                                                                            \
    CHANGE(last, r->devices.at[i].last++)                                                                              \
    CHANGE(busy, r->devices.at[i].busy_ns++)                                                                           \
    CHANGE(compute, r->devices.at[i].compute_ns++)                                                                     \
    CHANGE(operations, r->devices.at[i].operation_count++)                                                             \
    CHANGE(gaps, r->devices.at[i].gap_count++)                                                                         \
    CHANGE(streams, r->devices.at[i].stream_count++)                                                                   \
    CHANGE(operator_name, r->operators.at[i].name = "other")                                                           \
    CHANGE(operator_time, r->operators.at[i].host_ns++)                                                                \
    CHANGE(call_name, r->calls.at[i].name = "other")                                                                   \
    CHANGE(call_time, r->calls.at[i].total_ns++)

#define CHANGE_FUNCTION(name, statement)                                                                               \
    static void change_##name(TraceRank *r, size_t i)                                                                  \
    {                                                                                                                  \
        (void)i;                                                                                                       \
        statement;                                                                                                     \
    }
#define CHANGE_ROW(name, statement) {#name, change_##name},

CHANGE_TABLE(CHANGE_FUNCTION)

static const struct {
    const char *name;
    void (*change)(TraceRank *, size_t);
} changes[] = {CHANGE_TABLE(CHANGE_ROW)};

static void only_equal_profiles_are_copies(void **state)
{
    (void)state;
    assert_int_equal(count_kept(NULL, 0), 1);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++)
        for (size_t row = 0; row < ROWS; row++)
            if (count_kept(changes[i].change, row) != 2)
                fail_msg("%s of row %zu", changes[i].name, row);
}

/* Nothing tells profiles apart in which nothing is. */
static void empty_ones_are_no_copies(void **state)
{
    TraceReport report;

    (void)state;
    trace_report_init(&report);
    for (int i = 0; i < 2; i++)
        vec_push(&report.ranks, ((TraceRank){.file = "file.json"}));
    trace_report_drop_copies(&report, &report.arena);
    assert_int_equal(report.ranks.len, 2);
    trace_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_equal_profiles_are_copies),
        cmocka_unit_test(empty_ones_are_no_copies),
    };

    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
