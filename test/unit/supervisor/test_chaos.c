/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Days in which one to eight of eight GPUs hang at once, samplers are killed and the agent is started anew, all at
 * random: no number of a healthy GPU is ever older than two periods, one that hangs is named within five seconds and
 * never up without samples. `test_supervisor_chaos DAYS` runs longer.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"
#include "../slow.h"

enum { GPUS = 8, STEPS_PER_S = 20, ROW_MAX = 3 };

#define PERIOD_NS NS_PER_S
#define NAMED_NS (5 * NS_PER_S)
#define ROW_NS (6 * NS_PER_S) /* ends that come sooner are a row, of which a longer one is for a reason */

typedef struct Fate {
    bool settled;      /* it was up since it last hung */
    bool was_settled;  /* when it began to hang */
    uint64_t until_ns; /* it hangs until then; 0: it does not */
    uint64_t since_ns; /* it hangs since then */
} Fate;

static World w;
static Fate fates[GPUS];
static uint64_t started_ns, killed_ns;
static uint32_t hangs, kills, row, starts, seed = 1;
static uint32_t days = 1;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)rand_r(&seed) % n;
}

/* About once in so many seconds. */
static bool comes_every(uint32_t seconds)
{
    return pick(seconds * STEPS_PER_S) == 0;
}

static void set_hang(uint32_t gpu, uint64_t until_ns)
{
    Fate *fate = &fates[gpu];

    if (until_ns && !fate->until_ns) {
        fate->since_ns = w.now_ns;
        fate->was_settled = fate->settled && !world_gpu(&w, gpu)->own_sampler; /* a slow one is given longer */
    }
    fate->until_ns = until_ns;
    fate->settled = false;
    w.gpus[gpu].hangs = until_ns != 0;
    w.gpus[gpu].unkillable = until_ns && pick(8) == 0;
    w.init_hangs = false;
    for (uint32_t i = 0; i < GPUS; i++)
        w.init_hangs |= w.gpus[i].hangs;
}

/* One to eight of them at once. */
static void hang_some(void)
{
    const uint32_t count = 1 + pick(GPUS);

    hangs++;
    for (uint32_t i = 0, gpu = pick(GPUS); i < count; i++, gpu = (gpu + 1 + pick(2)) % GPUS)
        if (!fates[gpu].until_ns)
            set_hang(gpu, w.now_ns + (1 + pick(120)) * NS_PER_S);
}

static void end_hangs(void)
{
    for (uint32_t i = 0; i < GPUS; i++)
        if (fates[i].until_ns && w.now_ns >= fates[i].until_ns)
            set_hang(i, 0);
}

/* From outside, whichever it is. */
static void kill_sampler(void)
{
    const uint32_t slot = world_owner(&w, pick(GPUS));

    if (w.now_ns - killed_ns > ROW_NS)
        row = 0;
    if (slot >= NODE_SAMPLERS_MAX || !w.processes[slot].running || w.processes[slot].killed || row == ROW_MAX)
        return;
    row++;
    kills++;
    killed_ns = w.now_ns;
    w.processes[slot].running = false;
    if (pick(2))
        supervisor_note_close(w.supervisor, slot);
}

static void start_agent(void)
{
    starts++;
    started_ns = w.now_ns;
    world_restart(&w, GPUS);
    for (uint32_t i = 0; i < GPUS; i++) {
        fates[i].settled = !fates[i].until_ns;
        fates[i].was_settled = false;
        w.gpus[i].unkillable = false;
    }
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void check_gpu(uint32_t gpu)
{
    const NodeGpu *seen = world_gpu(&w, gpu);
    const uint64_t now = board_at(w.board, w.now_ns);
    const uint64_t begun_ns = killed_ns - started_ns < 2 * PERIOD_NS ? killed_ns : started_ns; /* killed as it began */
    const uint64_t last = latest(atomic_load(&w.board->gpus[gpu].last_sample_ns), board_at(w.board, begun_ns));
    Fate *fate = &fates[gpu];

    if (fate->until_ns == 0)
        fate->settled |= seen->state == GPU_UP;
    if (fate->settled && now - last > 2 * PERIOD_NS)
        fail_msg("healthy GPU %u is %s (%s), not sampled for %u ms", gpu, gpu_states[seen->state].key, seen->why,
                 (unsigned)((now - last) / NS_PER_MS));
    const uint64_t silent_ns = strstr(seen->why, "took as long") ? 3 * PERIOD_NS : 2 * PERIOD_NS; /* a slow one */
    if (fate->until_ns && seen->state == GPU_UP && now - last > silent_ns)
        fail_msg("hung GPU %u is up, not sampled for %u ms", gpu, (unsigned)((now - last) / NS_PER_MS));
    if (fate->until_ns && fate->was_settled &&
        w.now_ns - latest(fate->since_ns, latest(killed_ns, started_ns)) > NAMED_NS)
        if (seen->state != GPU_HUNG)
            fail_msg("GPU %u hangs for %u ms and is %s (%s)", gpu, (unsigned)((w.now_ns - fate->since_ns) / NS_PER_MS),
                     gpu_states[seen->state].key, seen->why);
}

static void healthy_gpus_go_on_through_chaos(void **state)
{
    (void)state;
    world_init(&w, GPUS);
    w.attach_ms = 3000;
    w.init_hangs_attaching = true;
    w.end = (SubprocEnd){.signal = SIGKILL};
    for (uint64_t step = 0; step < (uint64_t)days * 24 * 3600 * STEPS_PER_S / TEST_SLOW; step++) {
        if (comes_every(120))
            hang_some();
        if (comes_every(60))
            kill_sampler();
        if (comes_every(1800))
            start_agent();
        end_hangs();
        world_step(&w);
        for (uint32_t i = 0; i < GPUS; i++)
            check_gpu(i);
    }
    assert_true(hangs > 100 && kills > 100 && starts > 5);
    world_done(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(healthy_gpus_go_on_through_chaos)};

    if (argc > 1)
        days = (uint32_t)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
