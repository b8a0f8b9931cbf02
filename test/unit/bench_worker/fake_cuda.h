/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A CUDA of our own behind a CudaTable: memory is the host's, kernels do by name what cuda_kernel.h says of them, and
 * time is counted, not spent. Everything that is taken is counted until it is given back. Faults are fields, set by a
 * test after fake_reset.
 */

#include <signal.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "cuda_kernel.h"

enum { FAKE_GPUS = 4, FAKE_SMS = 12, FAKE_NONE = -1 };

typedef struct FakeGpu {
    uint64_t free_bytes, total_bytes, refused_over; /* refused_over: memory that can be had, 0: all that is free */
    int major, minor;
    uint64_t now_ns;
    int contexts;
    double gb_per_s, gemm_ms;
    uint32_t *first; /* its first allocation */
    /* faults */
    int64_t stuck_word; /* index of a 32-bit word in this GPU's first allocation that reads as `stuck_value` */
    uint32_t stuck_value;
    int stuck_times;                                   /* how often; < 0: always */
    int missing_sm, slow_sm, wrong_sm, wrong_probe_sm; /* FAKE_NONE */
    int wrong_times, wrong_after; /* of wrong_sm: how many products are, < 0: all; after how many */
} FakeGpu;

typedef struct Fake {
    int count;
    FakeGpu gpus[FAKE_GPUS];
    bool lazy; /* kernels take time but do nothing */
    /* the fault of a call: its `fail_at`-th use (from 1) gives `fail_result` */
    int fail_function; /* CudaFunction; FAKE_NONE */
    int fail_at, fail_result;
    int uses[CUDA_FUNCTION_COUNT];
    int sticky;                       /* what every call gives since */
    int refused_text, refused_result; /* of cuModuleLoadDataEx; FAKE_NONE */
    bool no_peer[FAKE_GPUS][FAKE_GPUS], corrupt[FAKE_GPUS][FAKE_GPUS];
    double copy_share[FAKE_GPUS][FAKE_GPUS]; /* of the rate of copies between GPUs; 0: whole */
    bool corrupt_to_host, corrupt_to_gpu;
    int term_after; /* launches, then this process gets SIGTERM; 0: never */
    /* what was seen */
    int launches, stopped_launches, loaded_texts;
    int broken_chains; /* of memory_chase: left its buffer, or came back too early */
    int live_memory, live_host, live_events, live_streams, live_modules;
    double longest_kernel_ms, gemms;
    int pinned_on[FAKE_GPUS];   /* processor on which a GPU's last host memory was taken */
    uint64_t most_bytes, bytes; /* of all GPUs together */
} Fake;

extern Fake fake;
extern const CudaTable fake_table;

void fake_reset(void);
/* All that is still held, contexts too. */
int fake_leaks(void);
