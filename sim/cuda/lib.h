/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What all of the simulated libcuda.so.1 shares: the process (image, lock, its own place in virtual time), the devices
 * it sees, and the way into and out of every exported function. One lock is held from cu_enter to cu_leave, and given
 * away while a call waits; what is not exported expects it to be held.
 */
#include <pthread.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

/* What a device is busy with, as NVML sees it. */
typedef enum CuActivity {
    CU_IDLE,
    CU_MEMORY,
    CU_FLOAT,
    CU_TENSOR,
    CU_GEMM,
    CU_COPY,
    CU_PEER,
    CU_ACTIVITIES
} CuActivity;

/* The process as a work of the node: one for each activity, of which one runs (activity.c). */
typedef struct CuWork {
    int32_t slot[CU_ACTIVITIES]; /* index in the image's works; SIM_NONE: not there yet */
    CuActivity kind;
    bool runs;        /* the node shows it */
    double shown_mib; /* memory that it shows */
    double busy_s[CU_ACTIVITIES], window_s;
    uint64_t end_ns;   /* when the last operation ended */
    uint64_t lag_ns;   /* the node's clock was so far ahead of ours when the work last changed */
    uint32_t event_at; /* events of the node before it began */
} CuWork;

/* A device and its primary context, which are one here: a CUcontext is the address of its device. */
typedef struct CUctx_st {
    uint32_t ordinal, gpu;
    int32_t gi, ci; /* SIM_NONE: a whole GPU */
    int32_t mig;    /* number of the MIG device on its GPU, SIM_NONE */
    const SimBoard *board;
    const SimGpuId *id;
    char uuid[48];
    uint32_t first_sm; /* of the board */
    uint32_t sm_count;
    double mem_share; /* of the GPU's memory system */
    uint64_t memory_bytes;
    /* the context */
    uint32_t retained, flags, launches;
    CUresult sticky;
    bool peers[SIM_GPU_MAX]; /* access enabled, by ordinal */
    uint64_t held_bytes;     /* by allocations */
    CuWork work;
    SimNow now; /* see cu_state */
    bool has_now;
} CuDevice;

typedef struct CuProcess {
    SimImage *image; /* NULL until cuInit */
    bool ready;
    bool mps; /* CUDA_MPS_PIPE_DIRECTORY has a daemon's pipe */
    pid_t pid;
    uint64_t cursor_ns;
    uint32_t device_count;
    CuDevice devices[SIM_GPU_MAX];
} CuProcess;
extern CuProcess cu_process;

/* ---- the way in and out ---- */
enum { CU_NEEDS_NOTHING, CU_NEEDS_INIT, CU_NEEDS_CONTEXT };

/* Takes the lock and counts the call; a result other than 0 is what the call returns. */
CUresult cu_enter(CudaFunction fn, int needs);
/* Traces the call and gives the lock back. */
CUresult cu_leave(CudaFunction fn, CUresult result);
#define CU_RETURN(fn, needs, call)                                                                                     \
    do {                                                                                                               \
        CUresult result_ = cu_enter(CUDA_FN_##fn, needs);                                                              \
        if (result_ == CUDA_SUCCESS)                                                                                   \
            result_ = (call);                                                                                          \
        return cu_leave(CUDA_FN_##fn, result_);                                                                        \
    } while (0)

/* The calling thread's context. */
CuDevice *cu_current(void);
void cu_make_current(CuDevice *device);
/* Maps the node that STOKER_SIM names; NULL with errno. */
SimImage *cu_map_image(void);
/* Strict mode: reports what a client did wrong. `what` is a function's name. */
void cu_strict(const char *what, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Never returns while a rule of the scenario says that this function hangs on the device. */
void cu_hang(CudaFunction fn, CuDevice *device);

/* ---- time ---- */
/* The process has a time of its own. It moves on when a call waits, not with the CPU time of the simulation, which
 * would spoil what is measured; it follows the node's clock where a client does nothing for a while. */
uint64_t cu_now(void);
/* Waits until t_ns: on a paused clock by moving it, if it is not there already. */
void cu_wait(uint64_t t_ns);
/* Waits towards t_ns for some milliseconds of real time at most; true: it is reached. */
bool cu_wait_a_bit(uint64_t t_ns);
/* Sleeps some milliseconds of real time without the lock. */
void cu_nap(void);
/* The node's state of the device at a time of the process. */
const SimNow *cu_state(CuDevice *device, uint64_t t_ns);

/* The exported functions. */
#define CU_DECLARE(name, arguments) __attribute__((visibility("default"))) CUresult name arguments;
CUDA_FUNCTION_TABLE(CU_DECLARE)
#undef CU_DECLARE
