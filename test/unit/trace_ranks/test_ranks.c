/* SPDX-License-Identifier: Apache-2.0 */
/* Across ranks: engine/trace/ranks.c, ranks_match.c, ranks_times.c, ranks_late.c, ranks_replay.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) /* nor is NAN near */
        fail_msg("%g is not %g within %g", value, expected, tolerance);
}

/* Every rank's offset is what its clock is ahead by, with the other sign; at the middle of the profile. */
static void check_clocks(const World *world, const TraceReport *report, int64_t tolerance)
{
    for (int i = 0; i < world->ranks; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        if (!rank->clock_aligned)
            fail_msg("rank %d is not aligned", i);
        int64_t expected = world->skew_ns[0] - world->skew_ns[i] - (world->base_ns[0] - world->base_ns[i]);
        assert_near((double)rank->clock_offset_ns, (double)expected, (double)tolerance);
    }
}

static void check_straggler(const TraceReport *report, int64_t rank, const char *cause)
{
    if (report->straggler.rank != rank) {
        for (size_t i = 0; i < report->notes.len; i++)
            print_message("%s\n", report->notes.at[i]);
        fail_msg("straggler is %lld, not %lld", (long long)report->straggler.rank, (long long)rank);
    }
    assert_string_equal(report->straggler.cause, cause);
}

static int64_t matched(const TraceReport *report, int64_t *ret_count)
{
    int64_t sum = 0, count = 0;
    for (size_t i = 0; i < report->collectives.len; i++) {
        sum += report->collectives.at[i].matched;
        count += report->collectives.at[i].count;
    }
    if (ret_count)
        *ret_count = count;
    return sum;
}

/* ---- by hand ---- */

static TraceCollective at(const char *name, int64_t start_us, int64_t end_us, int64_t sequence)
{
    return (TraceCollective){.name = name,
                             .dtype = "Float",
                             .group = "0",
                             .ranks = "[0, 1]",
                             .kernel = "",
                             .group_size = 2,
                             .sequence = sequence,
                             .in_bytes = 1000000,
                             .out_bytes = 1000000,
                             .peer = -1,
                             .start = start_us * US,
                             .end = end_us * US,
                             .launch = INT64_MIN};
}

/* Two ranks; rank 1's clock is 1 s ahead. all_reduces of 1 MB: rank 0 [0, 100) [200, 300) [400, 500), rank 1 comes 60,
 * 60 and 20 later: shortest parts 40, 40, 80. */
static void two_ranks_by_hand(void **state)
{
    (void)state;
    TraceReport report = {0};
    static const int64_t late[] = {60, 60, 20};
    vec_push(&report.ranks, ((TraceRank){.rank = 1, .file = "b"}));
    vec_push(&report.ranks, ((TraceRank){.rank = 0, .file = "a"}));
    for (int i = 0; i < 3; i++) {
        vec_push(&report.ranks.at[0].collectives,
                 at("all_reduce", 1000000 + i * 200 + late[i], 1000000 + i * 200 + 100, 10 + i));
        vec_push(&report.ranks.at[1].collectives, at("all_reduce", i * 200, i * 200 + 100, 10 + i));
    }
    trace_across(&report);
    assert_int_equal(report.ranks.at[0].rank, 0);
    assert_string_equal(report.ranks.at[0].file, "a");
    assert_int_equal(report.ranks.at[0].clock_offset_ns, 0);
    assert_int_equal(report.ranks.at[1].clock_offset_ns, -SECOND);
    assert_true(report.ranks.at[1].clock_aligned);
    assert_int_equal(report.collectives.len, 1);
    const TraceCollectiveSum *sum = &report.collectives.at[0];
    assert_string_equal(sum->name, "all_reduce");
    assert_int_equal(sum->count, 3);
    assert_int_equal(sum->matched, 3);
    assert_int_equal(sum->total_ns, (300 + 40 + 40 + 80) * US);
    assert_int_equal(sum->best_ns, 40 * US);
    assert_int_equal(sum->skew_median_ns, 60 * US);
    assert_int_equal(sum->skew_max_ns, 60 * US);
    assert_int_equal(sum->wait_ns, 140 * US);
    assert_int_equal(sum->bytes, 1000000);
    assert_near(sum->algorithm_gbs, 25, 1e-9); /* 1 MB in 40 us */
    assert_near(sum->bus_gbs, 25, 1e-9);       /* 2 (n - 1) / n = 1 for two */
    assert_near(report.rank_times.at[1].late_ns, 140e3 / 3, 1e-6);
    assert_near(report.rank_times.at[1].last_share, 1, 0);
    assert_near(report.rank_times.at[0].late_ns, 0, 0);
    world_done(&report);
}

/* One of four rows of each rank is missing, in other places: three ends at one distance are enough, two are not. */
static void few_rows_agree(void **state)
{
    static const int times[] = {0, 1000, 2300, 3900, 5700};
    static const int missing[] = {2, 3};

    (void)state;
    for (int agree = 3; agree >= 2; agree--) {
        TraceReport report = {0};
        for (int rank = 0; rank < 2; rank++) {
            vec_push(&report.ranks, ((TraceRank){.rank = rank, .file = rank ? "b" : "a"}));
            for (int i = 0; i < 5; i++)
                if (i != missing[rank]) {
                    const int odd = rank && i == 4 && agree == 2 ? 400 : 0;
                    const int end = times[i] + 100 + odd;
                    vec_push(&report.ranks.at[rank].collectives, at("all_reduce", end - 100, end, -1));
                }
        }
        trace_across(&report);
        assert_int_equal(matched(&report, NULL), agree == 3 ? 3 : 4); /* of two: those of one place in the order */
        world_done(&report);
    }
}

/* One rank alone: times and sizes, but nothing about others, and nobody is blamed. */
static void one_rank(void **state)
{
    (void)state;
    World world = world_plain(1);
    TraceReport report;
    world_make(&world, &report);
    trace_across(&report);
    assert_int_equal(report.straggler.rank, -1);
    assert_string_equal(report.straggler.cause, "");
    assert_false(report.ranks.at[0].clock_aligned);
    assert_true(report.collectives.len > 0);
    for (size_t i = 0; i < report.collectives.len; i++) {
        assert_int_equal(report.collectives.at[i].skew_median_ns, -1);
        assert_int_equal(report.collectives.at[i].wait_ns, 0);
        assert_int_equal(report.collectives.at[i].matched, 0);
    }
    assert_true(report.step_ns > 0);
    world_done(&report);
    report = (TraceReport){0};
    trace_across(&report); /* none at all */
    assert_int_equal(report.straggler.rank, -1);
    world_done(&report);
}

/* Two files of a rank are both kept, and it is said; their operations are not taken for two ranks of the group. */
static void two_files_of_a_rank(void **state)
{
    (void)state;
    World world = world_plain(3);
    TraceReport report;
    world_make(&world, &report);
    report.ranks.at[2].rank = 1;
    trace_across(&report);
    assert_int_equal(report.ranks.len, 3);
    bool said = false;
    for (size_t i = 0; i < report.notes.len; i++)
        said = said || strstr(report.notes.at[i], "two files of rank 1");
    assert_true(said);
    int64_t count;
    assert_int_equal(matched(&report, &count), world.steps * world.layers);
    world_done(&report);
}

/* ---- clocks ---- */

static void clocks_are_aligned(void **state)
{
    (void)state;
    static const int64_t skews[] = {3 * MS, -40 * MS, 2 * SECOND, -5 * HOUR, 12 * DAY};
    for (int i = 0; i < 5; i++) {
        for (int ranks = 2; ranks <= 16; ranks *= 2) {
            for (int sequences = 0; sequences < 2; sequences++) {
                World world = world_plain(ranks);
                world.sequences = sequences;
                world.seed = (uint64_t)(i * 100 + ranks);
                world.skew_ns[ranks - 1] = skews[i];
                world.skew_ns[1] = -skews[i] / 3;
                TraceReport report;
                world_make(&world, &report);
                trace_across(&report);
                check_clocks(&world, &report, 1 * US);
                int64_t count;
                assert_int_equal(matched(&report, &count), world.steps * world.layers);
                assert_int_equal(count, world.steps * world.layers);
                check_straggler(&report, -1, "");
                world_done(&report);
            }
        }
    }
}

/* Files of different quarters have different zeros; one has absolute times. */
static void bases_differ(void **state)
{
    (void)state;
    World world = world_plain(4);
    TraceReport report;
    world.base_ns[0] = INT64_C(1727000000) * SECOND;
    world.base_ns[1] = INT64_C(1735000000) * SECOND;
    world.base_ns[3] = INT64_C(1727000000) * SECOND;
    for (int i = 0; i < 4; i++)
        world.skew_ns[i] = INT64_C(1735000100) * SECOND + i * MS;
    world_make(&world, &report);
    trace_across(&report);
    for (int i = 0; i < 4; i++) {
        int64_t expected = -i * MS + world.base_ns[i] - world.base_ns[0];
        assert_true(report.ranks.at[i].clock_aligned);
        assert_near((double)(report.ranks.at[i].clock_offset_ns - expected), 0, 1e3);
    }
    world_done(&report);
}

/* 30 us per second: over 20 s the ends drift by 600 us, the offsets in the middle are right, and the late rank is still
 * found. */
static void drift(void **state)
{
    (void)state;
    for (int sequences = 0; sequences < 2; sequences++) {
        World world = world_plain(4);
        TraceReport report;
        world.sequences = sequences;
        world.steps = 500;
        world.compute_ns = 4800 * US;
        world.drift[2] = 30e-6;
        world.skew_ns[2] = 7 * MS;
        world.late_rank = 1;
        world.late_ns = 60 * US;
        world_make(&world, &report);
        trace_across(&report);
        int64_t middle = report.ranks.at[2].collectives.at[report.ranks.at[2].collectives.len / 2].end;
        assert_true(report.ranks.at[2].clock_aligned);
        assert_near((double)report.ranks.at[2].clock_offset_ns, -7e6 - 30e-6 * (double)middle, 3e3);
        check_straggler(&report, 1, "computes_late");
        for (size_t i = 0; i < report.collectives.len; i++) /* aligned all along */
            assert_true(report.collectives.at[i].skew_max_ns < 120 * US);
        world_done(&report);
    }
}

/* Ranks that began to record at different steps, with steps known or not, with sequence numbers or not; clocks as kept
 * by NTP, from zeros that are hours apart. */
static void different_first_steps(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        World world = world_plain(4);
        TraceReport report;
        world.sequences = i & 1;
        world.steps_recorded = i & 2;
        world.same_sizes = i & 4;
        world.first_step[1] = 2;
        world.first_step[2] = 4;
        if (i & 8)
            world.last_step[0] = 7;
        for (int rank = 1; rank < 4; rank++) {
            world.skew_ns[rank] = (rank - 2) * 3 * MS;
            world.base_ns[rank] = (rank - 2) * 5 * HOUR;
        }
        world_make(&world, &report);
        trace_across(&report);
        check_clocks(&world, &report, 2 * US);
        int complete = i & 8 ? 4 : 6; /* steps that all four have */
        int64_t count;
        assert_int_equal(matched(&report, &count), complete * world.layers);
        assert_int_equal(count, world.steps * world.layers);
        world_done(&report);
    }
}

/* Nothing tells the rows apart but the time of day, from zeros of the files' clocks that are hours apart. */
static void the_time_of_day_tells_steps_apart(void **state)
{
    (void)state;
    World world = world_plain(3);
    TraceReport report;
    world.sequences = world.steps_recorded = false;
    world.same_sizes = world.same_kind = true;
    world.jitter_ns = 1 * US;
    world.end_jitter_ns = 300;
    world.first_step[1] = 2;
    world.last_step[2] = 7;
    for (int rank = 1; rank < 3; rank++) {
        world.skew_ns[rank] = rank * 40 * US;
        world.base_ns[rank] = (rank * 2 - 3) * 5 * HOUR;
    }
    world_make(&world, &report);
    trace_across(&report);
    check_clocks(&world, &report, 2 * US);
    world_done(&report);
}

/* Collectives like the ticks of a clock: of one size, of one distance, without sequence numbers, on clocks that differ
 * by many times that distance. Then the steps tell which ones belong together, else that all have as many. */
static void like_ticks(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        World world = world_plain(8);
        TraceReport report;
        world.seed = i;
        world.sequences = false;
        world.same_sizes = world.same_kind = true;
        world.steps_recorded = i & 1;
        world.jitter_ns = 1 * US;
        world.end_jitter_ns = 300;
        for (int rank = 1; rank < 8; rank++)
            world.skew_ns[rank] = (rank - 4) * 900 * US;
        if (world.steps_recorded)
            world.last_step[3] = 7;
        world_make(&world, &report);
        trace_across(&report);
        check_clocks(&world, &report, 2 * US);
        world_done(&report);
    }
}

/* The profiler lost a tenth of one rank's kernels. */
static void missing_rows(void **state)
{
    (void)state;
    for (int sequences = 0; sequences < 2; sequences++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            World world = world_plain(4);
            TraceReport report;
            world.sequences = sequences;
            world.same_sizes = true;
            world.seed = seed;
            world.drop_percent[2] = 10;
            world.skew_ns[2] = 5 * MS;
            world.late_rank = 3;
            world.late_ns = 200 * US;
            world_make(&world, &report);
            size_t left = report.ranks.at[2].collectives.len;
            trace_across(&report);
            check_clocks(&world, &report, 2 * US);
            check_straggler(&report, 3, "computes_late");
            assert_int_equal(matched(&report, NULL), left);
            world_done(&report);
        }
    }
}

/* ---- the straggler ---- */

static void the_late_rank_is_found(void **state)
{
    (void)state;
    static const char *const causes[] = {"computes_late", "host_late", "copies_late"};
    static const int64_t delays[] = {30 * US, 100 * US, 300 * US, 800 * US, 2000 * US};
    for (int delay = 0; delay < 5; delay++) {
        for (int ranks = 2; ranks <= 16; ranks *= 2) {
            for (int by = 0; by < 6; by++) {
                World world = world_plain(ranks);
                TraceReport report;
                world.late_rank = ranks * 5 / 8;
                world.late_ns = delays[delay];
                world.late_by = by % 3;
                world.late_once = by >= 3;
                world.steps = delay >= 2 && by % 2 ? 3 : 10;
                world.seed = (uint64_t)(delay * 100 + ranks + by);
                world.skew_ns[ranks - 1] = by * MS;
                world_make(&world, &report);
                trace_across(&report);
                check_straggler(&report, world.late_rank, causes[by % 3]);
                assert_true(report.straggler.confidence > 0.5 && report.straggler.confidence <= 1);
                assert_near(report.straggler.late_ns, (double)delays[delay], 20e3);
                double step = (double)world.layers * (double)(world.compute_ns + delays[delay] + 200 * US);
                assert_near(report.straggler.percent_of_step, 100 * (double)(world.layers * delays[delay]) / step, 2.5);
                world_done(&report);
            }
        }
    }
}

/* Ranks that differ by chance: nobody is blamed. */
static void chance_is_no_straggler(void **state)
{
    (void)state;
    int blamed = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        World world = world_plain(2 << seed % 4);
        TraceReport report;
        world.seed = seed;
        world.steps = 3 + (int)(seed % 11);
        world.layers = 1 + (int)(seed % 7);
        world.steps_recorded = seed % 3;
        world.jitter_ns = (int64_t)(seed % 5) * 40 * US;
        world_make(&world, &report);
        trace_across(&report);
        blamed += report.straggler.rank >= 0;
        world_done(&report);
    }
    assert_in_range(blamed, 0, 3); /* of 600: chance has its share */
}

/* One rank stalls once, for 100 ms: that is no straggler. */
static void one_stall_is_no_straggler(void **state)
{
    (void)state;
    World world = world_plain(4);
    TraceReport report;
    world_make(&world, &report);
    for (int i = 0; i < 4; i++) {
        if (i != 2)
            report.ranks.at[i].collectives.at[40].start -= 100 * MS;
    }
    trace_across(&report);
    check_straggler(&report, -1, "");
    world_done(&report);
}

/* Tensor-parallel groups of 2 or 4, data-parallel ones across: rank 1 holds up its own group, which then holds up the
 * others. */
static void groups_hand_lateness_on(void **state)
{
    (void)state;
    for (int parallel = 2; parallel <= 4; parallel += 2) {
        for (int sequences = 0; sequences < 2; sequences++) {
            World world = world_plain(8);
            TraceReport report;
            world.tensor_parallel = parallel;
            world.sequences = sequences;
            world.late_rank = 1;
            world.late_ns = 150 * US;
            world.skew_ns[6] = 30 * MS;
            world_make(&world, &report);
            trace_across(&report);
            check_clocks(&world, &report, 3 * US);
            check_straggler(&report, 1, "computes_late");
            world_done(&report);
        }
    }
}

/* In a pipeline the next stage always waits for the one before: that alone blames nobody. */
static void pipelines(void **state)
{
    (void)state;
    World world = world_plain(4);
    TraceReport report;
    world.pipeline = true;
    world.steps = 20;
    world.skew_ns[3] = -2 * SECOND;
    world_make(&world, &report);
    trace_across(&report);
    check_clocks(&world, &report, 2 * US);
    int64_t transfers = 0;
    for (size_t i = 0; i < report.collectives.len; i++) {
        const TraceCollectiveSum *sum = &report.collectives.at[i];
        if (strcmp(sum->name, "send") == 0 || strcmp(sum->name, "recv") == 0) {
            transfers += sum->matched;
            assert_int_equal(sum->count, sum->matched);
        }
    }
    assert_int_equal(transfers, 3 * world.layers * world.steps);
    world_done(&report);
}

/* Names of groups that several groups share, without members: nothing is matched, nobody blamed. */
static void ambiguous_groups(void **state)
{
    (void)state;
    World world = world_plain(8);
    TraceReport report;
    world.tensor_parallel = 2;
    world_make(&world, &report);
    for (int i = 0; i < 8; i++) {
        for (size_t k = 0; k < report.ranks.at[i].collectives.len; k++)
            report.ranks.at[i].collectives.at[k].ranks = "";
    }
    trace_across(&report);
    assert_int_equal(matched(&report, NULL), 0);
    check_straggler(&report, -1, "");
    world_done(&report);
}

/* Two ranks without jitter, of which the second computes 100 us longer. */
static void make_late_world(TraceReport *report)
{
    World world = world_plain(2);

    world.jitter_ns = world.end_jitter_ns = 0;
    world.late_rank = 1;
    world.late_ns = 100 * US;
    world_make(&world, report);
}

/* Step times: means per step, who computed longest. */
static void times(void **state)
{
    (void)state;
    TraceReport report;
    make_late_world(&report);
    trace_across(&report);
    /* 8 times 500 + 100 us, and 200 us of transfer */
    assert_near(report.step_ns, 8 * 800e3, 1);
    assert_near(report.rank_times.at[0].compute_ns, 8 * 500e3, 1);
    assert_near(report.rank_times.at[1].compute_ns, 8 * 600e3, 1);
    assert_near(report.rank_times.at[0].communication_ns, 8 * 300e3, 1);
    assert_near(report.rank_times.at[1].slowest_share, 1, 0);
    assert_near(report.rank_times.at[0].slowest_share, 0, 0);
    assert_near(report.rank_times.at[1].late_ns, 100e3, 1);
    assert_near(report.straggler.late_ns, 100e3, 1);
    assert_near(report.straggler.percent_of_step, 12.5, 1e-6);
    world_done(&report);
}

/* Makes a rank late before each operation, by no more than the late one of the world is. */
static void make_rank_late(TraceReport *report, int rank, int64_t ns)
{
    TraceRank *file = &report->ranks.at[rank];
    for (size_t i = 0; i < file->collectives.len; i++)
        file->collectives.at[i].start += ns;
}

/* 8 ranks without jitter, of which rank 2 computes 100 us longer before each of 8 operations of a step. */
static void make_late_world_of_eight(TraceReport *report)
{
    World world = world_plain(8);

    world.jitter_ns = world.end_jitter_ns = 0;
    world.late_rank = 2;
    world.late_ns = 100 * US;
    world_make(&world, report);
}

/* Of two ranks that are late alike, mending one gives nothing, and both all of it. */
static void two_late_ranks_are_one_group(void **state)
{
    (void)state;
    TraceReport report;
    make_late_world_of_eight(&report);
    make_rank_late(&report, 6, 100 * US);
    trace_across(&report);
    check_straggler(&report, 2, "unknown"); /* of rank 6 the devices do not say it */
    assert_int_equal(report.more_stragglers.len, 0);
    assert_int_equal(report.straggler.ranks.len, 2);
    assert_int_equal(report.straggler.ranks.at[1], 6);
    assert_string_equal(report.straggler.group, "ranks");
    assert_string_equal(report.straggler.label, "ranks 2, 6");
    assert_near(report.straggler.late_step_ns, 8 * 100e3, 1);
    assert_near(report.straggler.percent_of_step, 12.5, 1e-6);
    assert_near(report.straggler.alone_percent, 0, 1e-6);
    world_done(&report);
}

/* A rank that is less late is a group of its own: mending it gives something once the first is mended. */
static void less_late_ranks_are_the_next_group(void **state)
{
    (void)state;
    TraceReport report;
    make_late_world_of_eight(&report);
    make_rank_late(&report, 6, 40 * US);
    make_rank_late(&report, 7, 40 * US);
    trace_across(&report);
    check_straggler(&report, 2, "computes_late");
    assert_near(report.straggler.percent_of_step, 7.5, 1e-6);
    assert_near(report.straggler.cost_percent, 12.5, 1e-6);
    assert_int_equal(report.more_stragglers.len, 1);
    const TraceStraggler *next = &report.more_stragglers.at[0];
    assert_string_equal(next->label, "ranks 6-7 (a block of 2)");
    assert_near(next->late_step_ns, 8 * 40e3, 1);
    assert_near(next->percent_of_step, 5, 1e-6);
    assert_near(next->cost_percent, 5, 1e-6);
    assert_near(next->alone_percent, 0, 1e-6);
    assert_true(trace_straggler_of(&report, 7) == next && trace_straggler_of(&report, 3) == NULL);
    world_done(&report);
}

/* Gives a step's idle time of the rank a cause. */
static void make_host_late(TraceReport *report, int rank, TraceCause cause, int64_t ns)
{
    TraceRank *file = &report->ranks.at[rank];
    for (size_t i = 0; i < file->steps.len; i++) {
        file->steps.at[i].devices.at[0].idle_ns += ns;
        file->steps.at[i].devices.at[0].idle_by_cause[cause].total_ns += ns;
    }
}

/* Ranks that are late alike, one by its GPU, two by their hosts: groups by what is to be mended. Causes of the host
 * that do not name that are one. */
static void late_ranks_are_told_apart_by_cause(void **state)
{
    static const struct {
        TraceCause one, other;
        size_t groups;
    } cases[] = {{TRACE_CAUSE_DATA_LOADING, TRACE_CAUSE_DATA_LOADING, 2},
                 {TRACE_CAUSE_DATA_LOADING, TRACE_CAUSE_COLLECTING, 3},
                 {TRACE_CAUSE_HOST_BOUND, TRACE_CAUSE_PYTHON, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TraceReport report;
        make_late_world_of_eight(&report);
        for (int rank = 5; rank < 7; rank++) {
            make_rank_late(&report, rank, 100 * US);
            make_host_late(&report, rank, rank == 5 ? cases[i].one : cases[i].other, 8 * 100 * US);
        }
        trace_across(&report);
        check_straggler(&report, 2, "computes_late");
        assert_near(report.straggler.cost_percent, 12.5, 1e-6);
        assert_int_equal(report.more_stragglers.len, cases[i].groups - 1);
        assert_string_equal(report.more_stragglers.at[0].cause, "host_late");
        assert_int_equal(report.more_stragglers.at[0].ranks.len, cases[i].groups == 2 ? 2 : 1);
        assert_near(report.more_stragglers.at[cases[i].groups - 2].percent_of_step, 12.5, 1e-6);
        world_done(&report);
    }
}

/* One or two steps, or none, of many operations are enough. */
static void few_steps_are_enough(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 3; steps++) {
        World world = world_plain(4);
        TraceReport report;
        world.steps = steps;
        world.steps_recorded = steps < 3;
        world.layers = 16;
        world.late_rank = 2;
        world.late_ns = 300 * US;
        world_make(&world, &report);
        trace_across(&report);
        assert_int_equal(report.straggler.rank, 2);
        assert_near(report.straggler.percent_of_step, 29, 2.5);
        world_done(&report);
    }
}

/* What is hidden by compute beside it makes nobody wait: all of each part but its end is. */
static void hidden_lateness_costs_nothing(void **state)
{
    (void)state;
    TraceReport report;
    make_late_world(&report);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < report.ranks.at[i].collectives.len; k++) {
            TraceCollective *row = &report.ranks.at[i].collectives.at[k];
            row->hidden_ns = row->end - row->start;
        }
    }
    trace_across(&report);
    check_straggler(&report, -1, "");
    world_done(&report);
}

static bool has_note(const TraceReport *report, const char *text)
{
    for (size_t i = 0; i < report->notes.len; i++)
        if (strcmp(report->notes.at[i], text) == 0)
            return true;
    return false;
}

static void a_late_begin_is_a_note(void **state)
{
    (void)state;
    World world = world_plain(4);
    TraceReport report;
    world.jitter_ns = world.end_jitter_ns = 0;
    world_make(&world, &report);
    for (int i = 0; i < 4; i++) /* the others wait for rank 3 */
        if (i != 3)
            report.ranks.at[i].collectives.at[0].start -= 3 * SECOND;
    trace_across(&report);
    check_straggler(&report, -1, "");
    assert_true(has_note(&report, "rank 3 began 3.00 s late once: not counted"));
    world_done(&report);
}

static void a_step_without_a_number_is_compared_with_none(void **state)
{
    (void)state;
    TraceReport report;
    make_late_world(&report);
    for (size_t i = 0; i < 2; i++) {
        TraceStepRow *step = &report.ranks.at[i].steps.at[0];
        step->number = -1;
        step->devices.at[0].compute_ns += i == 0 ? 10000 * US : 0;
    }
    trace_across(&report);
    assert_near(report.rank_times.at[1].slowest_share, 1, 0);
    assert_near(report.rank_times.at[0].slowest_share, 0, 0);
    world_done(&report);
}

/* Times from one end of what readers let through to the other, bases anywhere: no overflow, and nobody to blame. */
static void hostile_times(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        World world = world_plain(2 + (int)(seed % 4));
        TraceReport report;
        KitRandom random = {.state = seed};
        world.sequences = seed % 2;
        world_make(&world, &report);
        for (int i = 0; i < world.ranks; i++) {
            report.ranks.at[i].base_ns = (int64_t)kit_random(&random);
            for (size_t k = 0; k < report.ranks.at[i].collectives.len; k++) {
                TraceCollective *row = &report.ranks.at[i].collectives.at[k];
                int64_t limit = INT64_C(1) << (seed % 3 ? 61 : 40);
                row->start = kit_between(&random, -limit, limit);
                row->end = row->start + kit_between(&random, 0, limit);
            }
        }
        trace_across(&report);
        for (size_t i = 0; i < report.collectives.len; i++)
            assert_true(report.collectives.at[i].wait_ns >= 0);
        world_done(&report);
    }
}

/* The order in which files are given changes nothing. */
static void order_of_files(void **state)
{
    (void)state;
    World world = world_plain(8);
    TraceReport a, b;
    world.late_rank = 5;
    world.late_ns = 40 * US;
    world.sequences = false;
    world_make(&world, &a);
    world_make(&world, &b);
    for (int i = 0; i < 4; i++) {
        TraceRank other = b.ranks.at[i];
        b.ranks.at[i] = b.ranks.at[7 - i];
        b.ranks.at[7 - i] = other;
    }
    trace_across(&a);
    trace_across(&b);
    assert_int_equal(a.straggler.rank, b.straggler.rank);
    assert_true(a.straggler.confidence == b.straggler.confidence);
    assert_int_equal(a.collectives.len, b.collectives.len);
    for (size_t i = 0; i < a.collectives.len; i++) {
        assert_string_equal(a.collectives.at[i].name, b.collectives.at[i].name);
        assert_int_equal(a.collectives.at[i].wait_ns, b.collectives.at[i].wait_ns);
    }
    world_done(&a);
    world_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_by_hand),
        cmocka_unit_test(few_rows_agree),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(two_files_of_a_rank),
        cmocka_unit_test(clocks_are_aligned),
        cmocka_unit_test(bases_differ),
        cmocka_unit_test(drift),
        cmocka_unit_test(different_first_steps),
        cmocka_unit_test(the_time_of_day_tells_steps_apart),
        cmocka_unit_test(like_ticks),
        cmocka_unit_test(missing_rows),
        cmocka_unit_test(the_late_rank_is_found),
        cmocka_unit_test(chance_is_no_straggler),
        cmocka_unit_test(one_stall_is_no_straggler),
        cmocka_unit_test(two_late_ranks_are_one_group),
        cmocka_unit_test(less_late_ranks_are_the_next_group),
        cmocka_unit_test(late_ranks_are_told_apart_by_cause),
        cmocka_unit_test(few_steps_are_enough),
        cmocka_unit_test(hidden_lateness_costs_nothing),
        cmocka_unit_test(a_late_begin_is_a_note),
        cmocka_unit_test(groups_hand_lateness_on),
        cmocka_unit_test(pipelines),
        cmocka_unit_test(ambiguous_groups),
        cmocka_unit_test(times),
        cmocka_unit_test(a_step_without_a_number_is_compared_with_none),
        cmocka_unit_test(order_of_files),
        cmocka_unit_test(hostile_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
