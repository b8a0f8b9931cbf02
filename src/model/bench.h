/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What active tests of GPUs (stoker bench) measure and find out, before it is judged: plain data without pointers, as
 * the worker sends it through a pipe (a BenchRecord at a time) and as a BenchRun keeps it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "model/fault.h"
#include "model/word.h"

enum {
    BENCH_GPUS_MAX = 64, /* as NODE_GPUS_MAX */
    BENCH_SMS_MAX = 256,
    BENCH_SAMPLES_MAX = 16,
    BENCH_TEXT_CAP = 160,
    BENCH_NAME_CAP = 96,
};
#define BENCH_NONE UINT32_MAX /* no peer, no SM */

/* WORD(id, key, label): what a measure is about, and what is blamed for it. */
#define BENCH_PART_TABLE(WORD)                                                                                         \
    WORD(BENCH_PART_START, "start", "start of CUDA")                                                                   \
    WORD(BENCH_PART_MEMORY, "memory", "memory")                                                                        \
    WORD(BENCH_PART_L2, "l2", "L2 cache")                                                                              \
    WORD(BENCH_PART_COMPUTE, "compute", "compute")                                                                     \
    WORD(BENCH_PART_HOST_LINK, "host-link", "link to the host")                                                        \
    WORD(BENCH_PART_PEER_LINK, "peer-link", "link to a GPU")                                                           \
    WORD(BENCH_PART_COLLECTIVE, "collective", "all GPUs together")                                                     \
    WORD(BENCH_PART_CLOCK, "clock", "clock")

typedef enum BenchPart { BENCH_PART_TABLE(WORD_ID) BENCH_PART_END } BenchPart;

/*
 * MEASURE(id, key, label, unit, part, per clock, less is better, notice, degraded, fault)
 *
 * Values in `unit`: GB/s (10^9 bytes), TFLOP/s or TOP/s (10^12 operations), ns, ms. Per clock: the work per SM clock is
 * judged, and the clock apart from it. Limits in per cent behind the reference, 0: none. They follow from what healthy
 * boards of one model differ by (memory bandwidth 0.1 %, work per clock 0.01 %, links 0.4 %) and the noise of a repeat.
 */
#define BENCH_MEASURE_TABLE(MEASURE)                                                                                   \
    MEASURE(BENCH_CONTEXT, "context", "time to the first context", "ms", BENCH_PART_START, 0, 1, 0, 0, 0)              \
    MEASURE(BENCH_MEMORY_WRITE, "memory.write", "memory, write", "GB/s", BENCH_PART_MEMORY, 0, 0, 1.5, 3, 10)          \
    MEASURE(BENCH_MEMORY_READ, "memory.read", "memory, read", "GB/s", BENCH_PART_MEMORY, 0, 0, 1.5, 3, 10)             \
    MEASURE(BENCH_MEMORY_COPY, "memory.copy", "memory, copy", "GB/s", BENCH_PART_MEMORY, 0, 0, 1.5, 3, 10)             \
    MEASURE(BENCH_MEMORY_TRIAD, "memory.triad", "memory, triad", "GB/s", BENCH_PART_MEMORY, 0, 0, 1.5, 3, 10)          \
    MEASURE(BENCH_MEMORY_LATENCY, "memory.latency", "memory, latency", "ns", BENCH_PART_MEMORY, 0, 1, 5, 10, 0)        \
    MEASURE(BENCH_L2_READ, "l2.read", "L2, read", "GB/s", BENCH_PART_L2, 1, 0, 1.5, 3, 0)                              \
    MEASURE(BENCH_FMA_FP32, "fma.fp32", "multiply-add, fp32", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)          \
    MEASURE(BENCH_FMA_FP64, "fma.fp64", "multiply-add, fp64", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)          \
    MEASURE(BENCH_MMA_FP16, "mma.fp16", "mma.sync, fp16", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)              \
    MEASURE(BENCH_MMA_BF16, "mma.bf16", "mma.sync, bf16", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)              \
    MEASURE(BENCH_MMA_TF32, "mma.tf32", "mma.sync, tf32", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)              \
    MEASURE(BENCH_MMA_INT8, "mma.int8", "mma.sync, int8", "TOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)                \
    MEASURE(BENCH_MMA_FP64, "mma.fp64", "mma.sync, fp64", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)              \
    MEASURE(BENCH_MMA_FP8, "mma.fp8", "mma.sync, fp8", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)                 \
    MEASURE(BENCH_WGMMA_BF16, "wgmma.bf16", "wgmma, bf16", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)             \
    MEASURE(BENCH_WGMMA_FP8, "wgmma.fp8", "wgmma, fp8", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)                \
    MEASURE(BENCH_TCGEN05_BF16, "tcgen05.bf16", "tcgen05, bf16", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 0.5, 1, 0)       \
    MEASURE(BENCH_GEMM_BF16, "gemm.bf16", "matrix product, bf16", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 1.5, 3, 0)      \
    MEASURE(BENCH_GEMM_LIBRARY, "gemm.library", "cuBLASLt, bf16", "TFLOP/s", BENCH_PART_COMPUTE, 0, 0, 0, 0, 0)        \
    MEASURE(BENCH_BURN, "burn", "matrix product under load", "TFLOP/s", BENCH_PART_COMPUTE, 1, 0, 1.5, 3, 0)           \
    MEASURE(BENCH_HOST_TO_GPU, "host.to", "host to GPU, alone", "GB/s", BENCH_PART_HOST_LINK, 0, 0, 3, 8, 50)          \
    MEASURE(BENCH_GPU_TO_HOST, "host.from", "GPU to host, alone", "GB/s", BENCH_PART_HOST_LINK, 0, 0, 3, 8, 50)        \
    MEASURE(BENCH_HOST_TO_ALL, "host.to-all", "host to all GPUs", "GB/s", BENCH_PART_HOST_LINK, 0, 0, 0, 0, 0)         \
    MEASURE(BENCH_ALL_TO_HOST, "host.from-all", "all GPUs to host", "GB/s", BENCH_PART_HOST_LINK, 0, 0, 0, 0, 0)       \
    MEASURE(BENCH_PEER, "peer", "GPU to GPU", "GB/s", BENCH_PART_PEER_LINK, 0, 0, 3, 8, 0)                             \
    MEASURE(BENCH_PEER_BOTH, "peer.both", "GPU to GPU, both ways", "GB/s", BENCH_PART_PEER_LINK, 0, 0, 3, 8, 0)        \
    MEASURE(BENCH_PEER_SM, "peer.sm", "GPU to GPU, by SMs", "GB/s", BENCH_PART_PEER_LINK, 0, 0, 3, 8, 0)               \
    MEASURE(BENCH_RING, "ring", "ring, per GPU", "GB/s", BENCH_PART_COLLECTIVE, 0, 0, 5, 12, 0)                        \
    MEASURE(BENCH_ALL_TO_ALL, "all-to-all", "all to all, per GPU", "GB/s", BENCH_PART_COLLECTIVE, 0, 0, 5, 12, 0)      \
    MEASURE(BENCH_ALL_REDUCE, "all-reduce", "all-reduce, bus bandwidth", "GB/s", BENCH_PART_COLLECTIVE, 0, 0, 5, 12,   \
            0)                                                                                                         \
    MEASURE(BENCH_LAUNCH, "launch", "launch of one block, median", "us", BENCH_PART_START, 0, 1, 0, 0, 0)              \
    MEASURE(BENCH_LAUNCH_P99, "launch.p99", "launch of one block, 99 %", "us", BENCH_PART_START, 0, 1, 0, 0, 0)        \
    MEASURE(BENCH_FOREIGN, "memory.foreign", "a neighbour's words in new memory", "", BENCH_PART_MEMORY, 0, 1, 0, 0, 0)

typedef enum BenchMeasureId {
#define MEASURE_ID(id, ...) id,
    BENCH_MEASURE_TABLE(MEASURE_ID)
#undef MEASURE_ID
        BENCH_MEASURE_END
} BenchMeasureId;

typedef struct BenchMeasureRow {
    const char *key, *label, *unit;
    BenchPart part;
    bool per_clock, less_is_better;
    double notice, degraded, fault;
} BenchMeasureRow;
extern const BenchMeasureRow bench_measures[BENCH_MEASURE_END];
BenchMeasureId bench_measure_find(const char *key); /* BENCH_MEASURE_END: no such */

/* WORD(id, key, label): a part of a test, in the order of `ready`. */
#define BENCH_STAGE_TABLE(WORD)                                                                                        \
    WORD(BENCH_STAGE_START, "start", "start of CUDA")                                                                  \
    WORD(BENCH_STAGE_PATTERNS, "patterns", "memory patterns")                                                          \
    WORD(BENCH_STAGE_MEMORY, "memory", "memory bandwidth")                                                             \
    WORD(BENCH_STAGE_PROBES, "probes", "arithmetic of each SM")                                                        \
    WORD(BENCH_STAGE_GEMM, "gemm", "matrix product")                                                                   \
    WORD(BENCH_STAGE_BURN, "burn", "burn")                                                                             \
    WORD(BENCH_STAGE_HOST, "host", "copies from and to the host")                                                      \
    WORD(BENCH_STAGE_PAIRS, "pairs", "copies between GPUs")                                                            \
    WORD(BENCH_STAGE_COLLECTIVES, "collectives", "all GPUs together")                                                  \
    WORD(BENCH_STAGE_FRESH, "fresh", "memory of a neighbour looked for")                                               \
    WORD(BENCH_STAGE_VICTIM, "victim", "what a neighbour can slow down")                                               \
    WORD(BENCH_STAGE_FILL, "fill", "memory filled by the neighbour")                                                   \
    WORD(BENCH_STAGE_FLOOD, "flood", "load by the neighbour")                                                          \
    WORD(BENCH_STAGE_LIBRARY, "library", "matrix product by cuBLASLt")                                                 \
    WORD(BENCH_STAGE_END_OF_WORK, "end", "end")

typedef enum BenchStage { BENCH_STAGE_TABLE(WORD_ID) BENCH_STAGE_COUNT } BenchStage;

/* WORD(id, key, label): what is no number. */
#define BENCH_ERROR_TABLE(WORD)                                                                                        \
    WORD(BENCH_ERROR_CALL, "call", "a call of CUDA failed")                                                            \
    WORD(BENCH_ERROR_HUNG, "hung", "no answer within its time")                                                        \
    WORD(BENCH_ERROR_ENDED, "ended", "the test's process ended")                                                       \
    WORD(BENCH_ERROR_MISCOMPARE, "miscompare", "wrong values")                                                         \
    WORD(BENCH_ERROR_NO_PEER, "no-peer", "no access between two GPUs")                                                 \
    WORD(BENCH_ERROR_STAGED, "staged", "copies between two GPUs go through the host")                                  \
    WORD(BENCH_ERROR_MISSING_SM, "missing-sm", "fewer SMs answered than the GPU has")                                  \
    WORD(BENCH_ERROR_LESS_MEMORY, "less-memory", "less memory could be had than is free")                              \
    WORD(BENCH_ERROR_OLDER_TEXT, "older-text", "older kernels had to be used")                                         \
    WORD(BENCH_ERROR_STOPPED, "stopped", "stopped before its end")

typedef enum BenchErrorKind { BENCH_ERROR_TABLE(WORD_ID) BENCH_ERROR_END } BenchErrorKind;

/* WORD(id, key, label): what a neighbour does meanwhile. */
#define BENCH_FLOOD_TABLE(WORD)                                                                                        \
    WORD(BENCH_FLOOD_MEMORY, "memory", "memory flood")                                                                 \
    WORD(BENCH_FLOOD_L2, "l2", "L2 flood")                                                                             \
    WORD(BENCH_FLOOD_COMPUTE, "compute", "mma burn")                                                                   \
    WORD(BENCH_FLOOD_COPY, "copy", "host copies")

typedef enum BenchFlood { BENCH_FLOOD_TABLE(WORD_ID) BENCH_FLOOD_END } BenchFlood;

extern const WordRow bench_parts[], bench_stages[], bench_errors[], bench_floods[];

/* ---- records ---- */

typedef enum BenchRecordKind {
    BENCH_RECORD_DEVICE,  /* BenchDevice: the worker has this GPU */
    BENCH_RECORD_STAGE,   /* a stage begins; the one before it ended well */
    BENCH_RECORD_MEASURE, /* BenchMeasure */
    BENCH_RECORD_ERROR,   /* BenchError */
} BenchRecordKind;

/* A GPU (or the one MIG device) as CUDA describes it. */
typedef struct BenchDevice {
    char uuid[BENCH_NAME_CAP]; /* "GPU-..." or "MIG-..." */
    char name[BENCH_NAME_CAP];
    char pci[32];          /* as CUDA writes it: "0000:1b:00.0" */
    uint32_t major, minor; /* compute capability */
    uint32_t sm_count;
    uint32_t sm_clock_mhz, memory_clock_mhz, bus_bits;
    uint32_t cuda_version; /* 13010: 13.1, of the driver */
    bool ecc;
    uint64_t memory_bytes, free_bytes, l2_bytes;
} BenchDevice;

/* The results of one measure: `count` windows. What is not known is NAN. */
typedef struct BenchMeasure {
    BenchMeasureId id;
    uint32_t gpu, peer; /* place in the run; BENCH_NONE: no peer */
    uint32_t count;
    double samples[BENCH_SAMPLES_MAX]; /* in the measure's unit */
    double sm_mhz;                     /* clock held meanwhile, from %clock64 and %globaltimer */
    uint64_t bytes;                    /* moved, or in the buffers; 0: none */
    uint32_t sm_count;                 /* of `per_clock`; 0: not told by SM */
    float per_clock[BENCH_SMS_MAX];    /* operations per clock of each SM, by %smid; 0: it gave none */
} BenchMeasure;

typedef struct BenchError {
    BenchErrorKind kind;
    BenchStage stage;
    uint32_t gpu, peer; /* BENCH_NONE: none */
    uint32_t sm;        /* BENCH_NONE: not known, or several */
    int32_t code;       /* CUresult of CALL; 0: none */
    bool repeats;       /* MISCOMPARE: each repeat gives the same wrong value */
    bool path;          /* MISCOMPARE: of a copy, memory itself is right */
    uint64_t count;     /* of wrong values, SMs, ... */
    uint64_t address;   /* byte offset in the buffer, or index */
    uint64_t want, got;
    BenchMeasureId measure; /* BENCH_MEASURE_END: none */
    char what[48];          /* a function of CUDA, a pattern, a kernel */
} BenchError;

typedef struct BenchRecord {
    BenchRecordKind kind;
    uint32_t gpu;
    union {
        BenchDevice device;
        BenchStage stage;
        BenchMeasure measure;
        BenchError error;
    };
} BenchRecord;
_Static_assert(sizeof(BenchRecord) <= 4096, "a pipe takes it whole (PIPE_BUF)");

/* ---- a run: what the workers sent, and what the driver's library said meanwhile ---- */

/* Readings while a stage ran. NAN: not known. */
typedef struct BenchWatch {
    BenchStage stage;
    uint32_t samples;
    double sm_mhz, power_w, temp_c, memory_temp_c; /* of clock the median, of the others the highest */
    double limit_w;
    uint64_t reasons;              /* clocks event reasons seen, bits as in NVML */
    uint32_t pcie_gen, pcie_width; /* the highest seen; 0: not known */
} BenchWatch;

/* WORD(id, key): counters that should not grow; read before and after. */
#define BENCH_COUNTER_TABLE(WORD)                                                                                      \
    WORD(BENCH_ECC_CORRECTED, "ecc_corrected")                                                                         \
    WORD(BENCH_ECC_UNCORRECTED, "ecc_uncorrected")                                                                     \
    WORD(BENCH_REMAPPED, "remapped_rows")                                                                              \
    WORD(BENCH_REMAP_PENDING, "remap_pending")                                                                         \
    WORD(BENCH_PCIE_REPLAYS, "pcie_replays")                                                                           \
    WORD(BENCH_NVLINK_ERRORS, "nvlink_errors")                                                                         \
    WORD(BENCH_NVLINKS_DOWN, "nvlinks_down")

typedef enum BenchCounter { BENCH_COUNTER_TABLE(WORD_ID) BENCH_COUNTER_END } BenchCounter;
extern const WordRow bench_counters[];

enum { BENCH_XIDS_MAX = 16 };

/* An XID, and what the fault catalogue says of it. */
typedef struct BenchXid {
    uint32_t code;
    bool fault; /* false: by itself it is none */
    FaultCause cause;
    FaultSeverity severity;
    char name[BENCH_NAME_CAP]; /* "GPU has fallen off the bus" */
} BenchXid;

typedef struct BenchGpu {
    uint32_t index; /* NVML's */
    BenchDevice device;
    bool known;     /* the worker sent its DEVICE record; else only uuid and name */
    bool shared;    /* other processes ran on it meanwhile: its rates say nothing */
    uint32_t ended; /* bits of BenchStage that ended well on it: the next one began */
    char vbios[32];
    double limit_w, temp_slowdown_c;                            /* NAN: not known */
    double before[BENCH_COUNTER_END], after[BENCH_COUNTER_END]; /* NAN: not known */
    uint32_t watch_count;
    BenchWatch watch[BENCH_STAGE_COUNT];
    uint32_t xid_count;
    BenchXid xids[BENCH_XIDS_MAX];      /* during the test, in their order */
    char library_error[BENCH_NAME_CAP]; /* why there is no BENCH_GEMM_LIBRARY; "": there is, or no library */
} BenchGpu;

typedef struct BenchRun {
    char rung[16];                           /* "ready", "memory", ... */
    char node[256], driver[80], version[32]; /* of Stoker */
    char data[24];                           /* distribution that rates were measured with: "normal" */
    uint64_t real_ns;                        /* when it began */
    double seconds;                          /* how long it took */
    uint32_t stages;                         /* bits of BenchStage that were asked for */
    VEC(BenchGpu) gpus;
    VEC(BenchMeasure) measures;
    VEC(BenchError) errors;
} BenchRun;

void bench_run_done(BenchRun *run);
/* The measure of GPU and peer (BENCH_NONE: none); NULL: was not made. */
const BenchMeasure *bench_run_find(const BenchRun *run, BenchMeasureId id, uint32_t gpu, uint32_t peer);
/* Of values, which are sorted; NAN for none. */
double bench_sort_median(double *values, size_t count);
/* Median of its samples; NAN where it has none. */
double bench_measure_median(const BenchMeasure *measure);
