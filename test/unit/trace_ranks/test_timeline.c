/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of streams and threads: engine/trace/timeline.c. */
#include <stdlib.h>
#include <string.h>

#include "engine/trace/analyse.h"
#include "kit.h"

static TraceTimeline *paint(Kit *kit, size_t slices)
{
    kit->config.timeline = true;
    kit->config.timeline_slices = slices;
    kit_seal(kit);
    kit_run(kit, trace_timeline, &kit->rank);
    return &kit->rank.timeline;
}

static const char *text(const TraceTimeline *timeline, const TraceSlice *slice)
{
    return timeline->texts.at[slice->text];
}

/* Stream 7: a [0, 4), b [4, 6) us; thread 100: op [0, 8) with a call [2, 4) inside, within a step [0, 10) us. The range
 * is 10000 ns: buckets of 2 ns, 5000 of them. */
static void lanes_buckets_slices(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_gpu(&kit, 0, 7, "a", 0, 4, 0);
    kit_gpu(&kit, 0, 7, "ncclDevKernel_AllReduce", 4, 2, 0);
    kit_host(&kit, PROFILE_ANNOTATION, 100, "ProfilerStep#1", 0, 10, 0);
    kit_host(&kit, PROFILE_OP, 100, "op", 0, 8, 0);
    kit_host(&kit, PROFILE_CALL, 100, "cudaMalloc", 2, 2, 0);
    TraceTimeline *timeline = paint(&kit, 100);
    assert_int_equal(timeline->lanes.len, 2);
    const TraceTimelineLane *stream = &timeline->lanes.at[0], *thread = &timeline->lanes.at[1];
    assert_true(stream->gpu);
    assert_string_equal(stream->name, "stream 7");
    assert_int_equal(stream->bucket_ns, 2);
    assert_int_equal(stream->first, 0);
    assert_int_equal(stream->busy.len, 3 * 3000); /* up to the last that is busy */
    assert_int_equal(stream->busy.at[3 * 1999 + TRACE_COMPUTE], 255);
    assert_int_equal(stream->busy.at[3 * 2000 + TRACE_COMPUTE], 0);
    assert_int_equal(stream->busy.at[3 * 2000 + TRACE_COMMUNICATION], 255);
    assert_int_equal(stream->slices.len, 2);
    assert_string_equal(text(timeline, &stream->slices.at[1]), "ncclDevKernel_AllReduce");
    assert_int_equal(stream->slices.at[1].kind, TRACE_COMMUNICATION);
    assert_false(thread->gpu);
    assert_string_equal(thread->name, "thread 100");
    assert_int_equal(thread->busy.len, 3 * 4000); /* the step's annotation is no work */
    assert_int_equal(thread->busy.at[3 * 1500], 255);
    assert_int_equal(thread->busy.at[3 * 1500 + 1], 255);
    assert_int_equal(thread->busy.at[3 * 2500 + 1], 0);
    assert_int_equal(thread->slices.len, 3);
    assert_string_equal(text(timeline, &thread->slices.at[2]), "cudaMalloc");
    assert_int_equal(thread->slices.at[0].depth, 0);
    assert_int_equal(thread->slices.at[2].depth, 2);
    assert_int_equal(thread->slices.at[2].kind, TRACE_HOST_ALLOCATOR);
    kit_done(&kit);
}

static void only_when_asked(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    kit_gpu(&kit, 0, 7, "a", 0, 4, 0);
    kit_seal(&kit);
    kit_run(&kit, trace_timeline, &kit.rank);
    assert_int_equal(kit.rank.timeline.lanes.len, 0);
    kit_done(&kit);
    kit_init(&kit); /* nothing to paint */
    assert_int_equal(paint(&kit, 10)->lanes.len, 0);
    kit_done(&kit);
}

static void random_events(Kit *kit, KitRandom *random, int count)
{
    static const char *const names[] = {"gemm", "ncclDevKernel_AllReduce", "add"};
    for (int i = 0; i < count; i++) {
        int64_t length = kit_between(random, 0, kit_random(random) % 5 ? 30 : 3000);
        kit_gpu(kit, 0, kit_between(random, 7, 9), names[kit_random(random) % 3], kit_between(random, -40000, 40000),
                length, 0);
        kit_host(kit, kit_random(random) % 2 ? PROFILE_OP : PROFILE_CALL, kit_between(random, 100, 101), "host",
                 kit_between(random, -40000, 40000), length, 0);
    }
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* How much of [from, from + length) a class of a stream covers: a mark for each nanosecond. */
static double plain_share(const Kit *kit, uint32_t lane, size_t class, int64_t from, int64_t length)
{
    static char covered[1 << 16];
    const ProfileEvents *gpu = &kit->profile.gpu;
    int64_t sum = 0;
    assert_true(length <= (int64_t)sizeof(covered));
    memset(covered, 0, (size_t)length);
    for (size_t row = 0; row < gpu->len; row++) {
        int64_t start = gpu->start[row] > from ? gpu->start[row] : from, end = profile_end(gpu, row);
        end = end < from + length ? end : from + length;
        if (gpu->lane[row] == lane && kit->index.gpu_class[row] == class && start < end)
            memset(covered + (start - from), 1, (size_t)(end - start));
    }
    for (int64_t i = 0; i < length; i++)
        sum += covered[i];
    return (double)sum / (double)length;
}

static void shares_and_longest_are_right(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        KitRandom random = {.state = seed};
        Kit kit;
        kit_init(&kit);
        random_events(&kit, &random, 300);
        TraceTimeline *timeline = paint(&kit, 20);
        for (size_t i = 0; i < 3; i++) {
            const TraceTimelineLane *lane = &timeline->lanes.at[i];
            uint32_t number = 0;
            while (!kit.profile.lanes.at[number].gpu || kit.profile.lanes.at[number].tid != 7 + (int64_t)i)
                number++;
            for (size_t at = 0; at < lane->busy.len; at += 29) {
                double share = plain_share(&kit, number, at % 3, lane->first + (int64_t)(at / 3) * lane->bucket_ns,
                                           lane->bucket_ns);
                double painted = lane->busy.at[at] / 255.0;
                assert_true(share - painted < 0.005 && painted - share < 0.005);
            }
            int64_t lengths[600];
            size_t count = 0;
            for (size_t row = 0; row < kit.profile.gpu.len; row++) {
                if (kit.profile.gpu.lane[row] == number)
                    lengths[count++] = kit.profile.gpu.duration[row];
            }
            qsort(lengths, count, sizeof(*lengths), descending);
            assert_int_equal(lane->slices.len, count < 20 ? count : 20);
            assert_int_equal(lane->slices_left_out, count - lane->slices.len);
            int64_t sum = 0, expected = 0;
            for (size_t k = 0; k < lane->slices.len; k++) {
                sum += lane->slices.at[k].end - lane->slices.at[k].start;
                expected += lengths[k];
                assert_true(k == 0 || lane->slices.at[k].start >= lane->slices.at[k - 1].start);
            }
            assert_int_equal(sum, expected);
        }
        kit_done(&kit);
    }
}

/* Times at the ends of what a reader lets through. */
static void hostile_times(void **state)
{
    (void)state;
    Kit kit;
    kit_init(&kit);
    uint32_t lane = profile_stream(&kit.profile, 0, 7);
    int64_t limit = INT64_C(1) << 61;
    for (int i = 0; i < 3; i++)
        profile_add(&kit.profile, &(ProfileEvent){.kind = PROFILE_KERNEL,
                                                  .start = (i - 1) * (limit - 1),
                                                  .duration = i == 1 ? 0 : limit - 1,
                                                  .name = kit_name(&kit, "k"),
                                                  .lane = lane,
                                                  .extra = PROFILE_NONE});
    TraceTimeline *timeline = paint(&kit, 2);
    assert_int_equal(timeline->lanes.at[0].slices.len, 2);
    assert_true(timeline->lanes.at[0].busy.len <= (size_t)3 * 8192);
    kit_run(&kit, trace_paths, &kit.rank);
    assert_int_equal(kit.rank.paths.at[0].total_ns, 3 * (limit - 1));
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_buckets_slices),
        cmocka_unit_test(only_when_asked),
        cmocka_unit_test(shares_and_longest_are_right),
        cmocka_unit_test(hostile_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
