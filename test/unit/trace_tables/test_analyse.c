/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of a rank together (engine/trace/analyse.c), and of a part of it (engine/trace/pick.c). */
#include "kit.h"
#include "kit_random.h"

#include <string.h>

#include "base/str.h"
#include "engine/trace/pick.h"

enum { ROUNDS = 60, TEXT_BYTES = 1 << 20, THREADS_MAX = 8 };

static void analyse(Kit *kit, TraceRank *rank)
{
    TraceConfig config = trace_config_default;

    config.timeline = true;
    trace_analyse(&(TraceJob){.index = &kit->index, .config = &config, .arena = &kit->arena}, "file.json", 7, rank);
}

static void the_files_words_are_copied(void **state)
{
    TraceRank rank;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit.profile.rank = 3;
    kit.profile.world_size = 8;
    kit.profile.host_name = kit_name(&kit, "node1");
    kit.profile.backend = kit_name(&kit, "nccl");
    kit.profile.framework = kit_name(&kit, "pytorch");
    kit.profile.with_stack = true;
    kit.profile.events = 12;
    vec_push(&kit.profile.devices,
             ((ProfileDevice){
                 .id = 0, .name = kit_name(&kit, "NVIDIA A100"), .memory_bytes = 1000, .sm_count = 108, .major = 8}));
    profile_lose(&kit.profile, PROFILE_LOSS_SYNTAX, 77, "{bad", 4);
    kit_kernel(&kit, 0, 7, "k", 0, 10, 0, NULL);
    kit_kernel(&kit, 1, 7, "k", 0, 10, 0, NULL);
    kit_seal(&kit);
    analyse(&kit, &rank);
    assert_true(rank.rank_known);
    assert_int_equal(rank.rank, 3);
    assert_int_equal(rank.world_size, 8);
    assert_string_equal(rank.file, "file.json");
    assert_string_equal(rank.host, "node1");
    assert_string_equal(rank.backend, "nccl");
    assert_string_equal(rank.framework, "pytorch");
    assert_true(rank.with_stack);
    assert_int_equal(rank.events, 12);
    assert_int_equal(rank.lost, 1);
    assert_int_equal(rank.lost_by_reason[PROFILE_LOSS_SYNTAX], 1);
    assert_int_equal(rank.losses.len, 1);
    assert_string_equal(rank.losses.at[0].excerpt, "{bad");
    assert_true(rank.memory_bytes > 0);
    assert_int_equal(rank.devices.len, 2);
    assert_int_equal(rank.devices.at[0].major, 8);
    assert_int_equal(rank.devices.at[0].sm_count, 108);
    assert_int_equal(rank.devices.at[0].memory_bytes, 1000);
    assert_int_equal(rank.devices.at[1].major, -1);
    assert_int_equal(rank.devices.at[1].memory_bytes, -1);
    trace_rank_done(&rank);
    kit_done(&kit);
}

static void a_file_without_a_rank_takes_the_callers(void **state)
{
    TraceRank rank;
    Kit kit;

    (void)state;
    kit_init(&kit);
    kit_seal(&kit);
    analyse(&kit, &rank);
    assert_false(rank.rank_known);
    assert_int_equal(rank.rank, 7);
    assert_string_equal(rank.host, "");
    assert_int_equal(rank.devices.len, 0);
    trace_rank_done(&rank);
    kit_done(&kit);
}

#define N(value) (long long)(value)

/* The parts that no other test of this folder joins: sums over devices, idle, steps, launches, queues. */
static void dump(const TraceRank *rank, Str *out)
{
    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *d = &rank->devices.at[i];

        str_addf(out, "device %d %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld\n", d->device,
                 N(d->span_ns), N(d->busy_ns), N(d->idle_ns), N(d->compute_ns), N(d->communication_ns), N(d->copy_ns),
                 N(d->exposed_communication_ns), N(d->exposed_copy_ns), N(d->tensor_core_ns), N(d->kernel_sum_ns),
                 N(d->gap_count), N(d->max_gap_ns), N(d->operation_count), N(d->stream_count));
    }
    for (size_t i = 0; i < rank->steps.len; i++) {
        str_addf(out, "step %s %lld %lld\n", rank->steps.at[i].name, N(rank->steps.at[i].duration_ns),
                 N(rank->steps.at[i].to));
        for (size_t j = 0; j < rank->steps.at[i].devices.len; j++) {
            const TraceStepDevice *d = &rank->steps.at[i].devices.at[j];

            str_addf(out, "  %d %lld %lld %lld %lld %lld\n", d->device, N(d->window_ns), N(d->busy_ns), N(d->idle_ns),
                     N(d->compute_ns), N(d->operation_count));
        }
    }
    str_addf(out, "launch %lld %lld %lld %lld %lld\n", N(rank->launch.linked), N(rank->launch.unlinked),
             N(rank->launch.call_count), N(rank->launch.call_ns), N(rank->launch.max_ns));
    for (size_t i = 0; i < rank->queues.len; i++)
        str_addf(out, "queue %d %lld %lld %lld\n", rank->queues.at[i].device, N(rank->queues.at[i].stream),
                 N(rank->queues.at[i].operation_count), N(rank->queues.at[i].busy_ns));
    str_addf(out, "rows %zu %zu %zu %zu %zu %zu\n", rank->kernels.len, rank->copies.len, rank->operators.len,
             rank->calls.len, rank->annotations.len, rank->memory.len);
}

/* Idle time by cause adds up to the idle time. */
static void assert_idle_adds_up(const TraceRank *rank)
{
    int64_t idle = 0, causes = 0;

    for (size_t i = 0; i < rank->devices.len; i++) {
        idle += rank->devices.at[i].idle_ns;
        assert_int_equal(rank->devices.at[i].busy_ns + rank->devices.at[i].idle_ns, rank->devices.at[i].span_ns);
    }
    for (int cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
        causes += rank->idle_by_cause[cause].total_ns;
    assert_int_equal(idle, causes);
}

static void idle_time_has_causes(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        TraceRank rank;
        Kit kit;

        kit_init(&kit);
        for (int64_t i = 0; i < 3; i++)
            kit_host(&kit, PROFILE_ANNOTATION, 300,
                     i == 0   ? "ProfilerStep#1"
                     : i == 1 ? "ProfilerStep#2"
                              : "ProfilerStep#3",
                     i * 1300, 1200, 0);
        kit_fill_random(&kit, &(KitRecipe){.seed = round + 500, .totals = true}, false);
        analyse(&kit, &rank);
        assert_idle_adds_up(&rank);
        trace_rank_done(&rank);
        kit_done(&kit);
    }
}

/* What dump() leaves out: every row of a table by its name and its numbers. */
static void dump_rows(const TraceRank *rank, Str *out)
{
    for (size_t i = 0; i < rank->kernels.len; i++) {
        const TraceKernel *k = &rank->kernels.at[i];

        str_addf(out, "kernel %s %lld %lld %.17g %.17g %.17g %.17g %lld %d\n", k->name, N(k->count), N(k->total_ns),
                 k->sd_ns, k->occupancy_percent, k->blocks_per_sm, k->sm_efficiency, N(k->shapes), k->device_count);
    }
    for (size_t i = 0; i < rank->copies.len; i++)
        str_addf(out, "copy %s %s %lld %lld\n", rank->copies.at[i].kind, rank->copies.at[i].source,
                 N(rank->copies.at[i].total_ns), N(rank->copies.at[i].exposed_ns));
    for (size_t i = 0; i < rank->operators.len; i++)
        str_addf(out, "operator %s %lld %lld %lld %lld\n", rank->operators.at[i].name, N(rank->operators.at[i].host_ns),
                 N(rank->operators.at[i].host_self_ns), N(rank->operators.at[i].device_ns),
                 N(rank->operators.at[i].device_self_ns));
    for (size_t i = 0; i < rank->calls.len; i++)
        str_addf(out, "call %s %s %s %lld\n", rank->calls.at[i].name, rank->calls.at[i].inner, rank->calls.at[i].outer,
                 N(rank->calls.at[i].total_ns));
    for (size_t i = 0; i < rank->annotations.len; i++)
        str_addf(out, "annotation %s %lld %lld %lld\n", rank->annotations.at[i].name,
                 N(rank->annotations.at[i].total_ns), N(rank->annotations.at[i].device_ns),
                 N(rank->annotations.at[i].busy_ns));
    for (size_t i = 0; i < rank->memory.len; i++)
        str_addf(out, "memory %lld %lld\n", N(rank->memory.at[i].allocated_bytes), N(rank->memory.at[i].growth_bytes));
}

static void dump_events(const TraceRank *rank, Str *out)
{
    for (size_t i = 0; i < rank->gaps.len; i++) {
        const TraceGap *g = &rank->gaps.at[i];

        str_addf(out, "gap %d %lld %lld %d %s %s %s %s %lld %d\n", g->device, N(g->start), N(g->end), (int)g->cause,
                 g->before, g->after, g->host, g->thread, N(g->host_ns), g->step);
    }
    for (size_t i = 0; i < rank->collectives.len; i++)
        str_addf(out, "collective %s %lld %lld %lld\n", rank->collectives.at[i].name, N(rank->collectives.at[i].start),
                 N(rank->collectives.at[i].end), N(rank->collectives.at[i].ordinal));
    for (size_t i = 0; i < rank->queue_points.len; i++)
        str_addf(out, "point %lld %.17g\n", N(rank->queue_points.at[i].start), rank->queue_points.at[i].length);
    for (size_t i = 0; i < rank->paths.len; i++)
        for (size_t k = 0; k < rank->paths.at[i].names.len; k++)
            str_addf(out, "path %s %s %lld\n", rank->paths.at[i].what, rank->paths.at[i].names.at[k].name,
                     N(rank->paths.at[i].names.at[k].total_ns));
    for (size_t i = 0; i < rank->timeline.texts.len; i++)
        str_addf(out, "text %s\n", rank->timeline.texts.at[i]);
    for (size_t i = 0; i < rank->timeline.lanes.len; i++)
        for (size_t k = 0; k < rank->timeline.lanes.at[i].slices.len; k++)
            str_addf(out, "slice %s %lld\n", rank->timeline.lanes.at[i].name,
                     N(rank->timeline.lanes.at[i].slices.at[k].start));
}

static void dump_on(Kit *kit, unsigned int threads, size_t memory, Str *out)
{
    TraceConfig config = trace_config_default;
    Arena arenas[THREADS_MAX] = {0};
    TraceIndex index;
    TraceRank rank;

    config.timeline = true;
    trace_index_init(&index, &kit->profile, threads);
    trace_analyse(
        &(TraceJob){.index = &index, .config = &config, .arena = arenas, .threads = threads, .memory = memory},
        "file.json", 7, &rank);
    trace_index_done(&index); /* the rank needs it no more */
    dump(&rank, out);
    dump_rows(&rank, out);
    dump_events(&rank, out);
    trace_rank_done(&rank);
    for (size_t i = 0; i < THREADS_MAX; i++)
        arena_done(&arenas[i]);
}

static void threads_do_not_matter(void **state)
{
    static const unsigned int threads[] = {2, 3, THREADS_MAX};

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        Str one, many;
        Kit kit;

        kit_init(&kit);
        for (int64_t i = 0; i < 3; i++)
            kit_host(&kit, PROFILE_ANNOTATION, 300, i ? "ProfilerStep#2" : "ProfilerStep#1", i * 1300, 1200, 0);
        kit_fill_random(&kit, &(KitRecipe){.seed = round + 900, .totals = true}, false);
        str_init(&one, TEXT_BYTES);
        dump_on(&kit, 1, SIZE_MAX, &one);
        for (size_t i = 0; i < 3; i++) {
            str_init(&many, TEXT_BYTES);
            dump_on(&kit, threads[i], round % 3 ? SIZE_MAX : 0, &many);
            assert_string_equal(many.text, one.text);
            str_done(&many);
        }
        str_done(&one);
        kit_done(&kit);
    }
}

/* Asked while other analyses run: the rank has its steps, and not yet its devices. */
static void warm_up_is_told_from_steps(void **state)
{
    TraceRank rank = {0};

    (void)state;
    for (int64_t i = 0; i < 4; i++) {
        TraceStepRow row = {.start = i * 1000, .to = i * 1000 + (i ? 100 : 900)};

        vec_push(&row.devices, ((TraceStepDevice){.window_ns = row.to - row.start}));
        vec_push(&rank.steps, row);
    }
    assert_true(trace_warm_up(&rank));
    rank.steps.at[0].to = 100;
    assert_false(trace_warm_up(&rank));
    for (size_t i = 0; i < rank.steps.len; i++)
        vec_done(&rank.steps.at[i].devices);
    vec_done(&rank.steps);
}

/* ---- a part of a profile (engine/trace/pick.c) ---- */

/* The window is [100, 200), device 1, stream 7; a GPU operation with link 5 is in it. */
static const struct {
    ProfileKind kind;
    int64_t start, duration;
    int32_t device;
    int64_t stream;
    uint32_t link;
    bool wanted, without_host, without_python;
} picked[] = {
    {PROFILE_KERNEL, 99, 50, 1, 7, 0, false, false, false},
    {PROFILE_KERNEL, 100, 0, 1, 7, 0, true, true, true},
    {PROFILE_COPY, 199, 50, 1, 7, 0, true, true, true},
    {PROFILE_SET, 200, 0, 1, 7, 0, false, false, false},
    {PROFILE_KERNEL, 100, 0, 0, 7, 0, false, false, false},
    {PROFILE_KERNEL, 100, 0, 1, 0, 0, false, false, false},
    {PROFILE_KERNEL, 100, 0, -1, -1, 0, true, true, true},
    {PROFILE_GPU_ANNOTATION, 50, 50, 1, 7, 0, false, false, false},
    {PROFILE_GPU_ANNOTATION, 50, 51, 1, 7, 0, true, true, true},
    {PROFILE_GPU_ANNOTATION, 50, 51, 0, 7, 0, false, false, false},
    {PROFILE_GPU_ANNOTATION, 199, 9, 1, 8, 0, false, false, false},
    {PROFILE_GPU_ANNOTATION, 200, 9, 1, 7, 0, false, false, false},
    {PROFILE_OP, 50, 50, 0, 0, 5, false, false, false},
    {PROFILE_OP, 50, 51, 0, 0, 0, true, false, true},
    {PROFILE_OP, 100, 0, -1, -1, 0, true, false, true},
    {PROFILE_OP, 200, 9, -1, -1, 0, false, false, false},
    {PROFILE_PYTHON, 150, 9, -1, -1, 0, true, false, false},
    {PROFILE_ANNOTATION, 150, 9, -1, -1, 0, true, true, true},
    {PROFILE_CALL, 10, 9, -1, -1, 5, true, false, true},
    {PROFILE_CALL, 10, 9, -1, -1, 4, false, false, false},
    {PROFILE_CALL, 10, 9, -1, -1, 0, false, false, false},
};

static void a_part_is_picked(void **state)
{
    TraceAsk ask = {.devices = {.first = {1}, .last = {1}, .len = 1}, .streams = {.first = {7}, .last = {7}, .len = 1}};
    TracePick pick = {.ask = &ask, .from = 100, .to = 200};

    (void)state;
    vec_push(&pick.links, 5);
    for (size_t i = 0; i < sizeof picked / sizeof picked[0]; i++) {
        const TracePicked event = {.kind = picked[i].kind,
                                   .start = picked[i].start,
                                   .duration = picked[i].duration,
                                   .device = picked[i].device,
                                   .stream = picked[i].stream,
                                   .link = picked[i].link};
        bool got[3];

        for (int k = 0; k < 3; k++) {
            ask.no_host = k == 1;
            ask.no_python = k == 2;
            got[k] = trace_pick_event(&pick, &event);
        }
        if (got[0] != picked[i].wanted || got[1] != picked[i].without_host || got[2] != picked[i].without_python)
            fail_msg("row %zu: %d %d %d", i, got[0], got[1], got[2]);
    }
    trace_pick_done(&pick);
}

static void lists_keep_what_is_picked(void **state)
{
    TraceAsk ask = {.streams = {.first = {7}, .last = {7}, .len = 1}};
    const TracePick pick = {.ask = &ask, .from = 100 * US, .to = 200 * US};
    Kit kit;

    (void)state;
    kit_init(&kit);
    for (int64_t i = 0; i < 4; i++) {
        kit_kernel(&kit, 0, i % 2 ? 7 : 8, "k", 60 + i * 40, 10, 0, NULL);
        vec_push(&kit.profile.syncs,
                 ((ProfileSync){.start = (60 + i * 40) * US, .duration = US, .stream = i % 2 ? 7 : 8}));
        kit_memory(&kit, 0, 100, 60 + i * 40, 1, -1, -1);
    }
    kit_seal(&kit);
    trace_pick_apply(&pick, &kit.profile);
    assert_int_equal(kit.profile.gpu.len, 2);
    assert_int_equal(kit.profile.gpu.start[1], 180 * US);
    assert_int_equal(kit.profile.syncs.len, 2);
    assert_int_equal(kit.profile.syncs.at[0].start, 100 * US);
    assert_int_equal(kit.profile.syncs.at[1].start, 180 * US);
    assert_int_equal(kit.profile.memory.len, 3);
    assert_int_equal(kit.profile.memory.at[0].start, 100 * US);
    assert_int_equal(kit.profile.memory.at[2].start, 180 * US);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_words_are_copied), cmocka_unit_test(a_file_without_a_rank_takes_the_callers),
        cmocka_unit_test(idle_time_has_causes),       cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(warm_up_is_told_from_steps), cmocka_unit_test(a_part_is_picked),
        cmocka_unit_test(lists_keep_what_is_picked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
