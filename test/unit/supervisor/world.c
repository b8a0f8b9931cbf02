/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define NO_CALL (UINT32_MAX - 1)

const char *sampler_function_name(uint32_t index)
{
    static const char *const names[] = {"",
                                        "nvmlInitWithFlags",
                                        "a",
                                        "b",
                                        "c",
                                        "d",
                                        "e",
                                        "nvmlDeviceGetPowerUsage",
                                        "nvmlDeviceGetP2PStatus",
                                        "nvmlDeviceGetHandleByPciBusId_v2"};

    return index < sizeof(names) / sizeof(names[0]) ? names[index] : NULL;
}

/* ---- what the supervisor does to it ---- */

static uint64_t now_ns(void *self)
{
    return ((World *)self)->now_ns;
}

static int start(void *self, const SamplerHello *hello, pid_t *ret_pid, Err *err)
{
    World *world = self;
    WorldProcess *process = &world->processes[hello->slot];

    assert_int_equal(hello->protocol, SAMPLER_PROTOCOL);
    assert_false(process->running);
    if (world->start_fails)
        return err_set(err, -EAGAIN, "fork: no more processes");
    *process =
        (WorldProcess){.running = true, .pid = ++world->last_pid, .no_attach = hello->no_attach, .call_gpu = NO_CALL};
    *ret_pid = process->pid;
    process->probe = hello->probe != 0;
    for (uint32_t i = 0; process->probe && i < NODE_SAMPLERS_MAX; i++)
        assert_true(i == hello->slot || !world->processes[i].running || !world->processes[i].probe);
    world->probes += process->probe;
    world->starts += !process->probe;
    return 0;
}

static void kill_it(void *self, uint32_t slot, pid_t pid)
{
    World *world = self;

    assert_true(world->processes[slot].running);
    assert_int_equal(world->processes[slot].pid, pid);
    world->processes[slot].killed = true;
    world->kills++;
}

static bool gone(void *self, uint32_t slot, pid_t pid, SubprocEnd *ret_end)
{
    World *world = self;

    if (world->processes[slot].running)
        assert_int_equal(world->processes[slot].pid, pid);
    *ret_end = world->end;
    return !world->processes[slot].running;
}

static void forget(void *self, uint32_t slot)
{
    ((World *)self)->processes[slot].closed = true;
}

static void wchan(void *self, pid_t pid, char text[NODE_WCHAN_CAP])
{
    (void)self;
    (void)pid;
    snprintf(text, NODE_WCHAN_CAP, "nv_wait_forever");
}

static void keep_log(void *self, int level, const char *text)
{
    World *world = self;

    if (level <= LOG_LEVEL_INFO)
        snprintf(world->log[world->log_count++ % WORLD_LOGS], sizeof(world->log[0]), "%s", text);
}

static const SupervisorOps ops = {
    .now_ns = now_ns,
    .start = start,
    .kill = kill_it,
    .gone = gone,
    .forget = forget,
    .wchan = wchan,
    .log = keep_log,
};

/* ---- samplers ---- */

static bool call_hangs(const World *world, const WorldProcess *process, uint32_t gpu)
{
    if (process->probe)
        return world->probe_hangs;
    if (process->in_pair)
        return world->pair_hangs;
    if (gpu != UINT32_MAX)
        return world->gpus[gpu].hangs;
    return world->init_hangs && !(world->init_hangs_attaching && process->no_attach);
}

static bool unkillable(const World *world, const WorldProcess *process)
{
    if (process->call_gpu == NO_CALL || !call_hangs(world, process, process->call_gpu))
        return false;
    if (process->probe)
        return world->probe_unkillable;
    if (process->in_pair)
        return world->pair_unkillable;
    return process->call_gpu == UINT32_MAX ? world->init_unkillable : world->gpus[process->call_gpu].unkillable;
}

static void die(World *world, uint32_t slot)
{
    world->processes[slot].running = false;
    if (!world->processes[slot].closed && !world->mute)
        supervisor_note_close(world->supervisor, slot);
}

/* Begins a call; false where it does not return now. */
static bool call(World *world, uint32_t slot, uint32_t gpu, uint32_t function)
{
    BoardSampler *board = &world->board->samplers[slot];

    if (!call_hangs(world, &world->processes[slot], gpu))
        return true;
    atomic_store(&board->call_gpu, gpu);
    atomic_store(&board->call_function, function);
    atomic_store(&board->call_start_ns, world->now_ns);
    world->processes[slot].call_gpu = gpu;
    return false;
}

static bool initialise(World *world, uint32_t slot)
{
    BoardSampler *board = &world->board->samplers[slot];
    BoardFound found = {.count = world->found_len, .len = world->found_len};

    if (world->no_library || world->init_fails) {
        if (world->no_library)
            board_set_driver(board, BOARD_DRIVER_NO_LIBRARY, NODE_DRIVER_NO_LIBRARY, 0, "no library here");
        else
            board_set_driver(board, BOARD_DRIVER_INIT_FAILED, NODE_DRIVER_UNLOADED, 9, "driver not loaded");
        return false;
    }
    atomic_store(&world->board->samplers[slot].call_limit_ms, 3000); /* as a sampler announces it */
    if (!call(world, slot, UINT32_MAX, WORLD_INIT))
        return false;
    atomic_store(&world->board->samplers[slot].call_limit_ms, 0);
    memcpy(found.gpus, world->found, sizeof(found.gpus));
    board_set_found(board, &found);
    atomic_store(&board->driver, BOARD_DRIVER_FINE);
    world->processes[slot].initialised = true;
    world->processes[slot].known = found.len;
    return true;
}

/* The first call about a GPU attaches to it, and may take long. */
static bool attach(World *world, uint32_t slot, uint32_t gpu)
{
    WorldProcess *process = &world->processes[slot];

    if (world->attach_ms == 0 || process->attached >> gpu & 1)
        return true;
    atomic_store(&world->board->samplers[slot].call_limit_ms, world->attach_ms);
    if (!call(world, slot, gpu, WORLD_ATTACH))
        return false;
    atomic_store(&world->board->samplers[slot].call_limit_ms, 0);
    process->attached |= UINT64_C(1) << gpu;
    return true;
}

static void publish(World *world, uint32_t slot, uint32_t gpu)
{
    BoardGpu *board = &world->board->gpus[gpu];
    const bool known = !world->found_only || gpu < world->processes[slot].known;
    const BoardOutcome outcome = known ? world->gpus[gpu].outcome : BOARD_NOT_FOUND;

    if (atomic_load(&board->slot) != slot) {
        world->late++;
        return;
    }
    atomic_store(&board->code, world->gpus[gpu].code);
    atomic_store(&board->outcome, outcome);
    if (outcome == BOARD_FINE)
        atomic_store(&board->last_sample_ns, board_at(world->board, world->now_ns));
    else
        atomic_fetch_add(&board->failed_passes, 1);
}

/* Asks about a pair where it has one; false where that does not return, or ends it. */
static bool ask_pair(World *world, uint32_t slot, uint32_t owned)
{
    WorldProcess *process = &world->processes[slot];
    bool hangs = false;

    if (owned < 2 || world->now_ns < atomic_load(&world->board->pairs_after_ns))
        return true;
    if (world->pair_crashes) {
        atomic_store(&world->board->samplers[slot].call_gpu, UINT32_MAX);
        atomic_store(&world->board->samplers[slot].call_function, WORLD_PAIR);
        atomic_store(&world->board->samplers[slot].call_start_ns, world->now_ns);
        die(world, slot);
        return false;
    }
    process->in_pair = true;
    hangs = !call(world, slot, UINT32_MAX, WORLD_PAIR);
    process->in_pair = hangs;
    return !hangs;
}

static void pass(World *world, uint32_t slot)
{
    uint32_t count = atomic_load(&world->board->gpu_count), owned = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load(&world->board->gpus[i].slot) != slot)
            continue;
        if (i == world->crash_gpu) {
            atomic_store(&world->board->samplers[slot].call_gpu, i);
            atomic_store(&world->board->samplers[slot].call_function, WORLD_CALL);
            atomic_store(&world->board->samplers[slot].call_start_ns, world->now_ns);
            die(world, slot);
            return;
        }
        if (!attach(world, slot, i) || !call(world, slot, i, WORLD_CALL))
            return;
        publish(world, slot, i);
        owned++;
    }
    if (!ask_pair(world, slot, owned))
        return;
    atomic_fetch_add(&world->board->samplers[slot].passes, 1);
}

static bool let_go(World *world, uint32_t slot)
{
    BoardSampler *board = &world->board->samplers[slot];

    if (board_at(world->board, world->now_ns) >= atomic_load(&world->board->release_until_ns))
        return false;
    world->processes[slot].initialised = false;
    atomic_store(&board->driver, BOARD_DRIVER_RELEASED);
    return true;
}

static void probe(World *world, uint32_t slot)
{
    BoardSampler *board = &world->board->samplers[slot];

    if (world->probe_stopped || !call(world, slot, UINT32_MAX, WORLD_INIT))
        return;
    atomic_store(&board->call_start_ns, 0);
    if (world->probe_says == BOARD_DRIVER_RELEASED)
        board_set_found(board, &(BoardFound){.count = world->found_len});
    if (!world->probe_crashes)
        board_set_driver(board, world->probe_says, world->probe_trouble,
                         world->probe_says == BOARD_DRIVER_INIT_FAILED ? 999 : 0,
                         world->probe_says == BOARD_DRIVER_INIT_FAILED ? "Unknown Error (error 999)" : "");
    die(world, slot);
}

static void work(World *world, uint32_t slot)
{
    WorldProcess *process = &world->processes[slot];
    BoardSampler *board = &world->board->samplers[slot];

    if (process->probe) {
        probe(world, slot);
        return;
    }
    if (process->call_gpu != NO_CALL) {
        uint32_t gpu = process->call_gpu;

        if (call_hangs(world, process, gpu))
            return;
        atomic_store(&board->call_start_ns, 0);
        atomic_store(&board->call_limit_ms, 0);
        process->call_gpu = NO_CALL;
        process->in_pair = false;
        if (gpu != UINT32_MAX)
            publish(world, slot, gpu);
    }
    if (process->closed && !world->deaf) {
        die(world, slot);
        return;
    }
    atomic_store(&board->beat_ns, world->now_ns);
    if (world->crashes)
        die(world, slot);
    else if (!let_go(world, slot) && (process->initialised || initialise(world, slot)))
        pass(world, slot);
}

/* ---- what must always hold ---- */

static void assert_rules(const World *world)
{
    uint32_t count = atomic_load(&world->board->gpu_count);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t owner = world_owner(world, i);
        uint32_t holders = 0;

        if (owner != BOARD_NO_SLOT) {
            assert_true(owner < NODE_SAMPLERS_MAX);
            assert_false(world->processes[owner].killed);
            assert_false(world->processes[owner].closed);
        }
        for (uint32_t k = 0; k < NODE_SAMPLERS_MAX; k++) {
            const WorldProcess *process = &world->processes[k];
            bool touches = process->running && !process->killed && !process->closed && process->call_gpu == i;

            holders += touches || owner == k;
        }
        assert_true(holders <= 1);
    }
}

/* ---- the world ---- */

PciAddress world_pci(uint32_t gpu)
{
    return (PciAddress){.domain = 0, .bus = (uint8_t)(0x10 + gpu), .device = 0, .function = 0};
}

void world_bus(World *world, uint64_t mask)
{
    PciAddress list[64];
    size_t count = 0;

    for (uint32_t i = 0; i < 64; i++)
        if (mask >> i & 1)
            list[count++] = world_pci(i);
    supervisor_set_bus(world->supervisor, list, count);
}

void world_init(World *world, uint32_t gpus)
{
    const uint64_t probe_ns = world->probe_ns;
    SupervisorLimits limits = supervisor_default_limits;
    Err err;

    memset(world, 0, sizeof(*world));
    world->probe_ns = probe_ns;
    assert_int_equal(board_new(&world->board, &world->fd, &err), 0);
    world->now_ns = 1000 * NS_PER_S;
    world->board->clock = (BoardClock){.start_ns = 5 * NS_PER_S, .kernel_start_ns = world->now_ns, .speed = 1};
    world->crash_gpu = UINT32_MAX;
    world->probe_says = BOARD_DRIVER_RELEASED;
    world->last_pid = 100;
    for (uint32_t i = 0; i < NODE_GPUS_MAX; i++)
        world->gpus[i].outcome = BOARD_FINE;
    limits.probe_ns = world->probe_ns;
    world->supervisor = supervisor_new(world->board, &limits, &ops, world, "/lib/libnvidia-ml.so.1");
    world_bus(world, gpus >= 64 ? UINT64_MAX : (UINT64_C(1) << gpus) - 1);
}

void world_done(World *world)
{
    supervisor_free(world->supervisor);
    board_unmap(world->board);
    close(world->fd);
}

void world_restart(World *world, uint32_t gpus)
{
    World after = *world;

    world_done(world);
    world_init(world, gpus);
    after.board = world->board;
    after.fd = world->fd;
    after.supervisor = world->supervisor;
    after.board->clock.kernel_start_ns = after.now_ns;
    memset(after.processes, 0, sizeof(after.processes));
    *world = after;
}

void world_step(World *world)
{
    world->now_ns += WORLD_STEP;
    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++) {
        WorldProcess *process = &world->processes[i];

        if (process->running && process->killed && !unkillable(world, process))
            die(world, i);
        else if (process->running && !process->killed && !process->stopped)
            work(world, i);
    }
    supervisor_pass(world->supervisor);
    assert_rules(world);
}

void world_run(World *world, uint64_t ns)
{
    for (uint64_t end = world->now_ns + ns; world->now_ns < end;)
        world_step(world);
}

uint64_t world_until(World *world, uint32_t gpu, GpuState state, uint64_t ns)
{
    uint64_t begin = world->now_ns;

    while (world_gpu(world, gpu)->state != state) {
        if (world->now_ns - begin > ns)
            fail_msg("GPU %u is %s (%s) instead of %s", gpu, gpu_states[world_gpu(world, gpu)->state].key,
                     world_gpu(world, gpu)->why, gpu_states[state].key);
        world_step(world);
    }
    return world->now_ns - begin;
}

const NodeGpu *world_gpu(World *world, uint32_t gpu)
{
    static NodeGpu gpus[NODE_GPUS_MAX];

    supervisor_view_gpu(world->supervisor, gpu, &gpus[gpu]);
    return &gpus[gpu];
}

uint32_t world_owner(const World *world, uint32_t gpu)
{
    return atomic_load(&world->board->gpus[gpu].slot);
}

uint32_t world_running(const World *world)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NODE_SAMPLERS_MAX; i++)
        count += world->processes[i].running;
    return count;
}

static NodeSampler samplers[NODE_SAMPLERS_MAX];

uint32_t world_in_state(World *world, SamplerState state)
{
    size_t count = supervisor_view_samplers(world->supervisor, samplers);
    uint32_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += samplers[i].state == state;
    return found;
}

const NodeSampler *world_sampler(World *world, SamplerState state)
{
    size_t count = supervisor_view_samplers(world->supervisor, samplers);

    for (size_t i = 0; i < count; i++)
        if (samplers[i].state == state)
            return &samplers[i];
    fail_msg("no sampler is %s", sampler_states[state].key);
    return NULL;
}

bool world_logged(const World *world, const char *text)
{
    for (uint32_t i = 0; i < WORLD_LOGS; i++)
        if (strstr(world->log[i], text))
            return true;
    return false;
}

void world_assert_why(World *world, uint32_t gpu, const char *part)
{
    const char *why = world_gpu(world, gpu)->why;

    if (!strstr(why, part))
        fail_msg("'%s' is not in '%s'", part, why);
}
