/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What every exported function shares: the mapped image, the init count, handles, hang rules, call counters, strict
 * mode. Any thread may call; nothing here allocates after init except event sets and GPM samples.
 */
#include "nvml_abi.h"
#include "nvml_names.h"
#include "sim/core/control.h"
#include "sim/core/state.h"

/* Handles are addresses of these: the same for the same thing during the life of the process, safe to look at whatever
 * a client passes (an address outside the tables is refused before it is read). */
struct nvmlDevice_st {
    uint32_t gpu;
    int32_t gi_id, ci_id; /* SIM_NONE: a whole GPU */
};

/* What a call works on. */
typedef struct NvmlCall {
    SimImage *image;
    const SimBoard *board;
    const SimGpuId *id;
    const SimNow *now; /* this thread's snapshot of the GPU */
    uint32_t gpu;
    int mig;  /* the handle is a MIG device */
    SimGi gi; /* of the MIG device */
    SimCi ci;
} NvmlCall;

/* Which handles a function takes. What it does not take is refused as the real library does. */
typedef enum NvmlTakes {
    NVML_TAKES_GPU,    /* a whole GPU; a MIG handle gets NVML_ERROR_INVALID_ARGUMENT */
    NVML_TAKES_GPU_NS, /* a whole GPU; a MIG handle gets NVML_ERROR_NOT_SUPPORTED */
    NVML_TAKES_ANY,    /* both */
    NVML_TAKES_NO_MIG, /* a whole GPU without MIG: a MIG-enabled parent gets NVML_ERROR_NOT_SUPPORTED too */
} NvmlTakes;

/* Counts the call, honours hang rules for the node, checks init. 0 or the error to return. */
nvmlReturn_t nvml_enter(NvmlFn fn, SimImage **ret_image);

/* The same for a function with a device: checks the handle and its liveness (lost 15, reset required 16, MIG device
 * gone 2), honours hang rules for the GPU, fills *ret. */
nvmlReturn_t nvml_enter_device(NvmlFn fn, nvmlDevice_t device, NvmlTakes takes, NvmlCall *ret);

/* 0 when the caller may change things (effective root), else NVML_ERROR_NO_PERMISSION. */
nvmlReturn_t nvml_need_root(void);

/* Copies `text` into a client's buffer: INVALID_ARGUMENT for NULL, INSUFFICIENT_SIZE when it does not fit. */
nvmlReturn_t nvml_copy_text(char *out, unsigned int length, const char *text);

/* Checks a struct's version tag: 0, or 25 ARGUMENT_VERSION_MISMATCH (reported in strict mode). */
nvmlReturn_t nvml_check_tag(NvmlFn fn, unsigned int got, unsigned int wanted);

/* Strict mode: reports something a client did wrong, once per function and reason. */
void nvml_strict(NvmlFn fn, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Handles. NULL when there is none. */
nvmlDevice_t nvml_handle_gpu(uint32_t gpu);
/* The GPU that NVLink bridges join to `gpu` where links lead to peers: the boards of one kind go in pairs, in the
 * order of their buses; -1: the last one of an odd number. */
int nvml_bridged_gpu(const SimImage *image, uint32_t gpu);
nvmlDevice_t nvml_handle_mig(uint32_t gpu, uint32_t gi_id, uint32_t ci_id);
/* GPUs this process sees (fixed at init): count, and the image's gpu number of NVML index i. */
uint32_t nvml_visible_count(void);
uint32_t nvml_visible_gpu(uint32_t index);

/* Microseconds since 1970 for a virtual time of the image. */
unsigned long long nvml_stamp(SimImage *image, uint64_t t_ns);

/*
 * What the function `name` (its exported name, static storage) answers: NVML_ERROR_UNINITIALIZED before init, then what
 * a rule of the scenario orders (a hang, a lost device), else `refusal`. Counts and traces the call.
 */
nvmlReturn_t nvml_stub_enter(const char *name, nvmlReturn_t refusal);
