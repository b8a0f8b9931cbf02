/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Streams: queues of operations, run in virtual time. Kernels of a device run one after the other, copies share the
 * links they use evenly. Nothing happens before a call waits for it, or asks: then the queues are run up to there, and
 * what an operation does is done at its end.
 */
#include "sim/cuda/physics.h"

typedef struct CuOp CuOp;

typedef enum CuOpKind { CU_OP_TIMED, CU_OP_MOVE, CU_OP_RECORD, CU_OP_AWAIT } CuOpKind;

/* A kernel. */
typedef struct CuLaunch {
    CudaKernel kernel;
    uint32_t blocks;
    CudaKernelArgs args;
    double mhz;   /* of its SMs */
    uint32_t nth; /* launch of the device */
} CuLaunch;

/* A copy or a fill. */
typedef struct CuTransfer {
    CUdeviceptr to, from;
    void *host_to; /* NULL: to */
    const void *host_from;
    uint64_t bytes;
    uint32_t fill;
} CuTransfer;

struct CuOp {
    CuOp *next;
    CUstream stream;
    CuDevice *device;
    CuOpKind kind;
    CuActivity activity;
    bool exclusive; /* needs the SMs */
    bool begun, stopped, forever;
    uint64_t number, from_ns, begin_ns, end_ns;
    double left; /* bytes to move */
    CuRoute route;
    CUevent event;
    uint64_t count; /* which recording of it */
    const volatile uint32_t *stop;
    void (*begin)(CuOp *op);  /* sets end_ns or left; begin_ns is set */
    void (*finish)(CuOp *op); /* does what it does; also when stopped */
    union {
        CuLaunch launch;
        CuTransfer transfer;
    };
};

struct CUstream_st {
    CuDevice *device;
    CuOp *head, *tail;
    struct CUstream_st *next;
};

struct CUevent_st {
    CuDevice *device;
    uint64_t recorded, done; /* times */
    uint64_t at_ns;
    struct CUevent_st *next;
};

CUstream cu_stream_new(CuDevice *device);
CUevent cu_event_new(CuDevice *device);
/* Waits for what is in it first. */
void cu_stream_free(CUstream stream);
void cu_event_free(CUevent event);
/* The stream of a handle of the current context, NULL being its own one; NULL: it is none. */
CUstream cu_stream_find(CUstream handle);
bool cu_event_exists(CUevent event);

/* Appends a copy of the operation. */
void cu_queue_add(CUstream stream, const CuOp *op);
/* Runs the queues up to now; on a paused clock time moves on a little, so that a client that asks again and again gets
 * there. */
void cu_queue_look(void);
/* Wait; the result of the device's context. */
CUresult cu_queue_wait_stream(CUstream stream);
CUresult cu_queue_wait_event(CUevent event);
CUresult cu_queue_wait_device(CuDevice *device);
/* Forgets all streams and events of a device. */
void cu_queue_clear(CuDevice *device);
