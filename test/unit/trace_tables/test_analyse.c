/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of a rank together (engine/trace/analyse.c), and joined from windows (merge.c). */
#include "kit.h"
#include "kit_random.h"

#include <string.h>

#include "base/str.h"

enum { ROUNDS = 60, TEXT_BYTES = 1 << 20 };

static void analyse(Kit *kit, TraceScope scope, TraceRank *rank)
{
    TraceConfig config = trace_config_default;

    config.timeline = true;
    trace_analyse(&(TraceJob){.index = &kit->index, .config = &config, .scope = scope, .arena = &kit->arena},
                  "file.json", 7, rank);
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
    analyse(&kit, TRACE_WHOLE, &rank);
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
    assert_int_equal(rank.windows, 1);
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
    analyse(&kit, TRACE_WHOLE, &rank);
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

/* Idle time by cause adds up to the idle time, in windows too. */
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

static void assert_same(const TraceRank *got, const TraceRank *want, uint64_t round)
{
    Str a, b;

    str_init(&a, TEXT_BYTES);
    str_init(&b, TEXT_BYTES);
    dump(got, &a);
    dump(want, &b);
    if (strcmp(a.text, b.text) != 0)
        fail_msg("round %llu:\n%s\ninstead of\n%s", (unsigned long long)round, a.text, b.text);
    str_done(&a);
    str_done(&b);
}

static void ranks_joined_from_windows_are_whole(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        KitRandom random = {round + 5};
        int64_t borders[KIT_CUTS_MAX + 2];
        TraceRank whole, joined, part;
        size_t windows;
        Kit kit;

        kit_init(&kit);
        for (int64_t i = 0; i < 3; i++)
            kit_host(&kit, PROFILE_ANNOTATION, 300,
                     i == 0   ? "ProfilerStep#1"
                     : i == 1 ? "ProfilerStep#2"
                              : "ProfilerStep#3",
                     i * 1300, 1200, 0);
        kit_fill_random(&kit, &(KitRecipe){.seed = round + 500, .totals = true}, false);
        analyse(&kit, TRACE_WHOLE, &whole);
        assert_idle_adds_up(&whole);
        windows = kit_random_cuts(&random, borders);
        for (size_t i = 0; i < windows; i++) {
            analyse(&kit, (TraceScope){borders[i], borders[i + 1]}, i == 0 ? &joined : &part);
            if (i > 0)
                trace_rank_merge(&joined, &part, &trace_config_default, &kit.arena);
        }
        assert_int_equal(joined.windows, windows);
        assert_idle_adds_up(&joined);
        assert_same(&joined, &whole, round);
        trace_rank_done(&whole);
        trace_rank_done(&joined);
        kit_done(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_words_are_copied),
        cmocka_unit_test(a_file_without_a_rank_takes_the_callers),
        cmocka_unit_test(ranks_joined_from_windows_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
