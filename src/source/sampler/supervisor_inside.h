/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the supervisor*.c files alone: state of each sampler and GPU, and the functions that these files share. The
 * supervisor keeps its own copy of all it ever wrote on the board; what samplers write there is read, never trusted.
 */

#include "base/attribute.h"
#include "base/log.h"
#include "source/sampler/supervisor.h"

#define NO_SLOT UINT32_MAX
#define NO_GPU UINT32_MAX

#define FIRST_DELAY_NS NS_PER_S
#define STEADY_NS (5 * NS_PER_S) /* a sampler that ran for so long did not end for the reason of the one before */

enum {
    SLOTS_RESERVED = 4, /* free slots that tries of hung GPUs leave to the shared sampler, and one per GPU it has */
    ENDS_AT_ONCE = 3,   /* samplers that end one soon after the other, and are replaced at once */
    STUCK_MAX = 3,      /* samplers that never ended: with so many, a GPU (or the driver) is not tried again */
};

/* A driver call that missed its deadline. */
typedef struct Miss {
    uint32_t slot;
    uint64_t order;    /* of the slot's sampler: a later one in the same slot is another */
    uint64_t start_ns; /* BoardSampler.call_start_ns; 0: it was no call */
    uint32_t function;
} Miss;

typedef struct Slot {
    SamplerState state;
    uint64_t since_ns; /* of the state; all instants here are the kernel's */
    pid_t pid;
    uint64_t order; /* which start this was, from 1 */
    uint64_t started_ns;
    uint64_t ending_ns;      /* when it was asked to end; 0: it was not */
    bool closed;             /* its socket is */
    bool lost;               /* it ended, or closed its socket, without being asked to */
    uint32_t lost_in;        /* the function that it was in then; 0: none */
    bool attaches;           /* its init wakes every GPU up */
    uint32_t solo;           /* the GPU whose own sampler it is, or NO_GPU */
    bool probe;              /* a probe, which owns no GPU and ends */
    bool forgiven;           /* an abandoned one that no longer counts against its GPU */
    uint64_t beat_ns;        /* as last seen */
    uint64_t life_ns;        /* last sign of life */
    uint64_t late_ns;        /* BoardSampler.call_start_ns of the last call of a slow GPU that was late */
    Miss miss;               /* the call that it is stuck in */
    uint32_t miss_gpu;       /* whose, or NO_GPU */
    uint32_t found_sequence; /* BoardSampler.found_sequence of what was taken */
    char wchan[NODE_WCHAN_CAP];
} Slot;

typedef struct Gpu {
    PciAddress pci;
    uint32_t slot; /* of its sampler, or NO_SLOT */
    uint32_t last; /* its last one */
    GpuState state;
    uint64_t since_ns;
    bool on_bus;    /* a scan has seen it at least once; others are known from the driver alone */
    bool gone;      /* the last scan did not */
    bool hidden;    /* gone, and forgotten */
    bool isolated;  /* has or gets a sampler of its own */
    bool apart;     /* isolated although no call about it missed its deadline: it goes back soon */
    bool hung;      /* a call about it missed its deadline, and no pass was completed since */
    bool for_reset; /* the driver's last answer while it was lost: it needs a reset */
    Miss miss;
    uint64_t retry_ns; /* isolated, without a sampler: when to try */
    uint64_t delay_ns; /* the next delay */
    uint32_t ends;     /* times in a row that its own sampler ended */
    uint64_t good_ns;  /* isolated: first pass after the trouble; 0 not yet */
    uint64_t missed_calls;
    uint64_t slow_ns;       /* isolated: the longest call of its own sampler that came back late; 0: none did */
    uint32_t slow_function; /* the last late one */
} Gpu;

/* Those that ask as new clients do. */
typedef struct Probing {
    uint32_t slot;   /* of the one that is there, or NO_SLOT */
    uint64_t order;  /* of the last one */
    uint64_t due_ns; /* of the agent's clock: when the next is sent; 0: not set yet */
} Probing;

struct Supervisor {
    Board *board;
    SupervisorLimits limits;
    const SupervisorOps *ops;
    void *self;
    char library[SAMPLER_LIBRARY_CAP];
    SupervisorDcgm dcgm;    /* library NULL: not asked for */
    uint64_t dcgm_after_ns; /* it is left alone until then */

    uint64_t pairs_after_ns; /* calls about two GPUs are not made until then */

    uint64_t now_ns, checked_ns; /* of this pass; of the last check of the samplers */
    uint64_t resumed_ns;         /* when we last went on after a long stop of our own */
    Slot slots[NODE_SAMPLERS_MAX];
    Gpu gpus[NODE_GPUS_MAX];
    uint32_t gpu_count;
    bool gpus_full; /* logged */

    uint32_t shared;    /* slot of the shared sampler, or NO_SLOT */
    uint64_t shared_ns; /* when it may be started again */
    uint32_t fails;     /* times in a row that it failed */
    uint32_t crash_gpu; /* the GPU in whose call the last one ended, or NO_GPU */
    bool attach_hung;   /* an init that attaches missed its deadline: no more of that */
    bool driver_hung;   /* a call about no one GPU missed its deadline */
    Miss driver_miss;

    bool stopping, released;
    uint64_t release_until_ns; /* of the agent's clock */
    uint64_t orders, found_order;
    Probing probing;
    char start_why[NODE_WHY_CAP];
    SupervisorView view;
};

static inline bool slot_alive(const Slot *slot) /* may sample */
{
    return slot->ending_ns == 0 && (slot->state == SAMPLER_STARTING || slot->state == SAMPLER_RUNNING);
}

/* supervisor_gpu.c: GPUs, and what the other files share. Calls neither of them. */
void supervisor_log(Supervisor *s, LogLevel level, const char *fmt, ...) PRINTF_LIKE(3, 4);
const char *supervisor_function_text(uint32_t function);
uint32_t supervisor_count_abandoned(const Supervisor *s, uint32_t solo); /* abandoned samplers of a GPU that count */
void supervisor_forgive_abandoned(Supervisor *s, uint32_t solo);         /* they no longer count */
void supervisor_slot_end(Supervisor *s, uint32_t at);                    /* asks the sampler to end */
/* `ended`: by itself, or somebody ended it; else it hung. */
void supervisor_delay_shared(Supervisor *s, uint64_t ran_ns, bool ended);
void supervisor_gpu_assign(Supervisor *s, uint32_t gpu, uint32_t slot); /* NO_SLOT takes it away */
void supervisor_gpus_unassign(Supervisor *s, uint32_t slot, uint32_t but);
void supervisor_gpu_note_hang(Supervisor *s, uint32_t gpu, const Miss *miss);
void supervisor_gpu_isolate(Supervisor *s, uint32_t gpu);
void supervisor_gpu_note_slow_call(Supervisor *s, uint32_t gpu, uint32_t function,
                                   uint64_t took_ns); /* a late call returned */
void supervisor_gpu_delay_retry(Supervisor *s, uint32_t gpu);
void supervisor_gpus_add_found(Supervisor *s, uint32_t slot);
void supervisor_gpus_update_states(Supervisor *s);
bool supervisor_gpus_in_trouble(const Supervisor *s);

/* supervisor_slot.c: processes and their calls. Calls supervisor_gpu.c. */
uint32_t supervisor_slot_start(Supervisor *s, uint32_t solo); /* NO_SLOT where that failed: start_why */
void supervisor_slot_check(Supervisor *s, uint32_t at);
void supervisor_probe_send(Supervisor *s);
