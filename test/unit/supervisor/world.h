/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A made-up machine for the supervisor: a clock, processes that behave as samplers do and GPUs that hang on demand. One
 * step is 50 ms: the samplers work, then the supervisor takes its turn, then what must always hold is asserted.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/duration.h"
#include "source/sampler/supervisor.h"

enum { WORLD_CALL = 7, WORLD_PAIR = 8, WORLD_ATTACH = 9, WORLD_INIT = 1, WORLD_LOGS = 64 };
#define WORLD_STEP (50 * NS_PER_MS)

typedef struct WorldGpu {
    bool hangs;      /* calls about it do not return */
    bool unkillable; /* nor end on SIGKILL */
    BoardOutcome outcome;
    int32_t code;
} WorldGpu;

typedef struct WorldProcess {
    bool running, killed, closed, stopped, no_attach;
    pid_t pid;
    uint32_t call_gpu; /* in a call about this one; UINT32_MAX - 1: in none */
    bool initialised;
    uint32_t known; /* GPUs of the driver's list as it was initialised */
    bool probe;
    uint64_t attached; /* GPUs to which it has attached, by a mask */
    bool in_pair;      /* the call is about two GPUs, announced as about none */
} WorldProcess;

typedef struct World {
    Board *board;
    int fd;
    Supervisor *supervisor;
    uint64_t now_ns;
    WorldGpu gpus[NODE_GPUS_MAX];
    WorldProcess processes[NODE_SAMPLERS_MAX];
    bool init_hangs, init_hangs_attaching, init_unkillable, init_fails, no_library;
    bool pair_hangs, pair_unkillable, pair_crashes; /* a call about two GPUs, which a sampler of two GPUs makes */
    bool crashes;                                   /* every sampler ends right after its start */
    bool probe_hangs, probe_unkillable, probe_crashes;
    bool probe_stopped;     /* it does not even get to the driver */
    BoardDriver probe_says; /* RELEASED: all is well */
    NodeDriver probe_trouble;
    uint32_t probes;    /* that were started */
    uint32_t crash_gpu; /* a call about it ends the process; UINT32_MAX: none */
    bool start_fails;   /* no process can be made */
    bool deaf;          /* processes do not end when their socket is closed */
    bool mute;          /* closed sockets are not told */
    uint32_t attach_ms; /* the limit of the first call of a sampler about a GPU; 0: there is no such call */
    uint64_t probe_ns;  /* set before world_init: the time between two probes; 0: none */
    uint32_t starts, kills, late;
    pid_t last_pid;
    SubprocEnd end; /* how they end; zeroed: that is not known */
    PciAddress found[NODE_GPUS_MAX];
    uint32_t found_len;
    bool found_only; /* a process can only ask about GPUs that were in the list as it began, the first ones */
    char log[WORLD_LOGS][256]; /* the last ones of level INFO and louder */
    uint32_t log_count;
} World;

/* With `gpus` GPUs on the bus. */
void world_init(World *world, uint32_t gpus);
void world_done(World *world);
/* All its processes end, and another supervisor starts with a new board. */
void world_restart(World *world, uint32_t gpus);
PciAddress world_pci(uint32_t gpu);
/* The GPUs on the bus, by a mask. */
void world_bus(World *world, uint64_t mask);
void world_step(World *world);
void world_run(World *world, uint64_t ns);
/* Steps until the GPU is in this state; fails after `ns`. Returns the time it took. */
uint64_t world_until(World *world, uint32_t gpu, GpuState state, uint64_t ns);

const NodeGpu *world_gpu(World *world, uint32_t gpu);
/* Fails unless `part` is in what is said of the GPU. */
void world_assert_why(World *world, uint32_t gpu, const char *part);
uint32_t world_owner(const World *world, uint32_t gpu);
uint32_t world_running(const World *world); /* processes that are there */
uint32_t world_in_state(World *world, SamplerState state);
const NodeSampler *world_sampler(World *world, SamplerState state); /* the first in this state */
bool world_logged(const World *world, const char *text);
