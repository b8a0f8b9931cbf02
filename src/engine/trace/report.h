/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The results of the analyses of profiles, as plain data that every output (text, JSON, CSV, HTML) prints.
 * docs/appendix/trace.md defines each number. All texts lie in the report's arena; times are nanoseconds of the rank's
 * own clock, unknown numbers are -1 (integers) or NaN. */

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "engine/trace/classify.h"
#include "engine/trace/inference.h"
#include "model/peak.h"
#include "model/profile.h"

/* ---- one device: busy + idle = span; busy = compute + exposed communication + exposed copy ---- */
typedef struct TraceDevice {
    int32_t device;
    const char *name;               /* "" unknown */
    int32_t major, minor;           /* compute capability, -1 unknown */
    int64_t sm_count, memory_bytes; /* -1 unknown */
    int64_t first, last;            /* first start, last end */
    int64_t span_ns;                /* last - first */
    int64_t busy_ns;                /* union of all operations */
    int64_t idle_ns;
    int64_t compute_ns, communication_ns, copy_ns; /* unions of each class */
    int64_t communication_overlapped_ns;           /* communication while something computed */
    int64_t exposed_communication_ns;              /* communication while nothing computed */
    int64_t exposed_copy_ns;                       /* copies while nothing computed or communicated */
    int64_t tensor_core_ns;                        /* sum over kernels on tensor cores */
    int64_t tensor_unknown_ns;                     /* the same over matrix kernels of which it is not known */
    int64_t kernel_sum_ns;                         /* sum over kernels, overlaps counted each */
    int64_t gap_count, max_gap_ns;                 /* idle times between operations, of any length */
    int64_t operation_count, kernel_count, stream_count;
    int64_t zero_count;              /* operations without duration */
    double sm_efficiency, occupancy; /* duration-weighted 0..1: min(blocks per SM, 1); achieved occupancy; NaN */
} TraceDevice;

/* ---- idle ---- */
typedef enum TraceCause {
    TRACE_CAUSE_DATA_LOADING,
    TRACE_CAUSE_HOST_BOUND,
    TRACE_CAUSE_SYNCHRONISATION,
    TRACE_CAUSE_COPY,
    TRACE_CAUSE_ALLOCATOR,
    TRACE_CAUSE_COLLECTIVE_WAIT,
    TRACE_CAUSE_PYTHON,
    TRACE_CAUSE_COMPILE,
    TRACE_CAUSE_TOKENISING,
    TRACE_CAUSE_COLLECTING, /* Python's garbage collector */
    TRACE_CAUSE_CHECKPOINT,
    TRACE_CAUSE_LOGGING,
    TRACE_CAUSE_LOADING,      /* code of the GPU, at its first use */
    TRACE_CAUSE_INITIALISING, /* a context or a library */
    TRACE_CAUSE_QUEUED,       /* the work had been launched before the gap and started late: launch latency, a wait for
                                 another stream, a full or throttled queue */
    TRACE_CAUSE_BEFORE_PROFILE, /* all that had run was launched before the profile began, and so perhaps work that the
                                   profile does not show */
    TRACE_CAUSE_UNKNOWN,        /* nothing was recorded of what the host did */
    TRACE_CAUSE_SHORT,          /* under the threshold: not looked into */
    TRACE_CAUSE_COUNT
} TraceCause;
extern const char *const trace_cause_words[TRACE_CAUSE_COUNT]; /* "data_loading", "host_bound", ... */

typedef struct TraceGap {
    int32_t device;
    int64_t start, end;
    TraceCause cause;
    int64_t slice_ns[TRACE_CAUSE_COUNT]; /* what the host did during the gap, by cause; sums to the gap */
    bool synced;                         /* a synchronisation was under way as the gap began */
    const char *before, *after;          /* names of the operations around it */
    const char *host;                    /* the host event that took most of it, "" none */
    int64_t host_ns;
    const char *thread; /* "1234" or the thread's name, "" unknown */
    int32_t step;       /* index in steps, -1 */
    bool between;       /* it lies between two decode steps */
    bool optimizer;     /* it ends with an operation that a step of the optimizer launched */
} TraceGap;
typedef VEC(TraceGap) TraceGaps;

typedef struct TraceCauseSum {
    int64_t count, total_ns, max_ns;
} TraceCauseSum;

/* ---- steps ---- */
typedef struct TraceStepDevice {
    int32_t device;
    int64_t window_ns; /* to - start: busy + idle */
    int64_t busy_ns, idle_ns, compute_ns, exposed_communication_ns, exposed_copy_ns, communication_ns, copy_ns;
    int64_t operation_count;                        /* that start in the window */
    TraceCauseSum idle_by_cause[TRACE_CAUSE_COUNT]; /* idle before the first and after the last operation included */
    double flops, mfu_percent;                      /* of the calls whose first operation starts in it; NaN unknown */
} TraceStepDevice;

typedef struct TraceStepRow {
    const char *name;
    int64_t number;
    int64_t start, duration_ns; /* of the annotation */
    int64_t to;                 /* end of the window, see TraceStep */
    TraceBatch batch;           /* of an inference engine's step */
    VEC(TraceStepDevice) devices;
} TraceStepRow;

/* ---- inference: the steps of an engine by kind ---- */
typedef struct TraceInference {
    TraceStepKind kind;
    int64_t steps, tokens; /* tokens that they compute; -1 where that of a step is unknown */
    double mean_sequences;
    int64_t sequences_min, sequences_max;
    /* Of the steps with another step behind them: the window of the last one ends with the GPU's work. */
    int64_t timed, total_ns;     /* their number; of their windows */
    int64_t median_ns, p99_ns;   /* of a window; -1 */
    double mean_ns;              /* NaN */
    double tokens_per_second;    /* NaN */
    double token_ns;             /* per output token of a sequence: of decode steps of one token each, else NaN */
    int64_t idle_ns;             /* in the windows of all steps, over devices */
    int64_t between_count;       /* steps behind one of their kind, times devices */
    int64_t between_ns;          /* idle time between the two */
    double between_mean_ns;      /* NaN */
    int64_t gpu_ns, graph_ns;    /* sum over operations launched in the steps; of these, by graphs */
    double graph_percent;        /* NaN unknown */
    int64_t graph_steps;         /* that launched a graph */
    const char *eager_sequences; /* numbers of sequences of steps that launched none: "3, 7" */
} TraceInference;

typedef struct TraceDecodeGap { /* idle times between decode steps by where the host was */
    const char *name;           /* what took most of it, "" unknown */
    int64_t count, total_ns;    /* idle times of TraceRank.gaps */
} TraceDecodeGap;

/* ---- kernels, copies, operators, annotations ---- */
typedef struct TraceKernel {
    const char *name;
    TraceClass class;
    int64_t count, total_ns, min_ns, max_ns;
    double mean_ns, sd_ns; /* sample deviation (n - 1), 0 for one */
    int64_t short_count;   /* under the short-kernel threshold */
    bool tensor_core;
    bool tensor_unknown;             /* the name says a matrix product, and not on what it runs */
    bool float_matrix;               /* the name says: matrix product or convolution in 32-bit float, no tensor core */
    uint32_t grid[3], block[3];      /* of the launch that took most time; 0 unknown */
    int64_t shapes;                  /* how many different launch shapes (grid and block) */
    double occupancy_percent;        /* duration-weighted, NaN unknown */
    double blocks_per_sm;            /* duration-weighted, NaN */
    double sm_efficiency;            /* duration-weighted min(blocks per SM, 1), 0..1, NaN */
    double empty_ns;                 /* sum of (1 - blocks per SM) x time in which no other kernel ran */
    int64_t registers, shared_bytes; /* of the same launch as grid; -1 */
    int32_t device_count;
    const char *op, *line;           /* the operator, and the innermost line of the user's, that launched most of its
                                        time (of what has one); "" unknown */
    int64_t occupancy_ns, blocks_ns; /* time behind occupancy_percent, and blocks_per_sm and sm_efficiency */
} TraceKernel;

extern const char *const trace_copy_words[PROFILE_COPY_KIND_COUNT];

typedef struct TraceCopy {
    const char *kind;            /* "HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "set", "unknown" */
    const char *source, *target; /* "pageable", "pinned", "device", "managed", "array", "" unknown */
    int64_t count, bytes, total_ns, min_ns, max_ns;
    int64_t sized_bytes, sized_ns; /* of those whose size is known and duration is not 0: what the bandwidth is from */
    double bandwidth_gbs;          /* sized bytes / sized time, NaN */
    int64_t small_count, small_ns; /* of known size under 64 KiB */
    int64_t exposed_ns;            /* time of these copies while the device neither computed nor communicated; of copies
                                      at the same time each counts */
} TraceCopy;

typedef struct TraceOperator {
    const char *name;
    int64_t count;
    int64_t host_ns;             /* with the operators inside it; an operator inside one of its own name adds nothing */
    int64_t host_self_ns;        /* without the operators inside it */
    int64_t device_ns;           /* GPU time launched from inside it, others inside it included; each GPU operation
                                    counts once per operator name */
    int64_t device_self_ns;      /* launched by it and by no operator inside it */
    int64_t kernel_count;        /* GPU operations behind device_self_ns */
    int64_t tensor_core_ns;      /* of device_self_ns */
    int64_t float_ns;            /* of device_self_ns: matrix operators' kernels off the tensor cores, where the inputs
                                    are recorded as 32-bit float (or, without types, the kernel's name says so) */
    bool matrix;                 /* could use tensor cores */
    int64_t shaped_count;        /* of count: matrix operators whose shapes and types are recorded */
    int64_t misaligned_count;    /* of those in a type for tensor cores: with a dimension that is no multiple of 8
                                    (16-bit types) or 16 (8-bit types); -1 where shaped_count is 0 */
    int64_t misaligned_ns;       /* of device_self_ns: behind these */
    const char *misaligned_dims; /* the shapes of the one with the most GPU time, "" none */
    int64_t misaligned_dims_ns;  /* its GPU time */
} TraceOperator;

/* An operator with inputs of one shape and type: a GPU operation belongs to the operator around it whose arithmetic is
 * known, else to the innermost. Numbers of arithmetic are NaN where it is not known (flops.def). */
typedef struct TraceShape {
    const char *op;
    const char *dims, *types, *arguments; /* as recorded; "" not recorded */
    int64_t count;                        /* of calls with GPU work */
    int64_t total_ns, kernel_count;       /* of GPU operations, overlaps counted each */
    int64_t helper_ns;                    /* of total_ns: copies, transposes, reductions beside the product itself */
    const char *kernel;                   /* the longest one */
    const char *type;                     /* of the arithmetic: "bf16", "" unknown */
    double flops, bytes;                  /* of one call; inputs read once and the result written once */
    double intensity;                     /* flops / bytes */
    double tflops;                        /* 10^12 per second of total_ns */
    double roof_tflops;                   /* the most that board, type and intensity allow */
    double roof_percent, peak_percent;    /* tflops of that, and of the board's peak for the type */
    const char *bound;                    /* "memory", "compute": what makes the roof; "" unknown */
} TraceShape;

/* A module ("nn.Module: Linear_3") by the modules around it. GPU time of work launched within it, on its own thread or,
 * joined by sequence number and thread, in the backward pass of what ran within it. */
typedef struct TraceModule {
    const char *path, *name;              /* "Net_0/Linear_3", "Linear_3" */
    int depth;                            /* 0: in no other */
    int64_t calls;                        /* of the forward pass */
    int64_t kernel_count;                 /* GPU operations behind own_ns */
    int64_t own_ns, total_ns;             /* without and with the modules in it */
    int64_t own_backward_ns, backward_ns; /* of these: in the backward pass */
    double per_step_ns;                   /* total_ns, NaN without steps */
} TraceModule;

/* GPU operations by kernel and all that is known of where they came from. */
typedef struct TraceOrigin {
    const char *kernel, *op, *dims, *module, *line; /* "" unknown; dims as recorded */
    bool backward;                                  /* in the backward pass: module and line are the forward's */
    int64_t count, total_ns;
} TraceOrigin;

/* Time of GPU operations: of all, of those in a module, in the backward pass, and of these with a module or line. */
typedef struct TraceOriginSum {
    int64_t total_ns, module_ns, backward_ns, joined_ns;
} TraceOriginSum;

/* What the rank's GPUs can do, and what they did of it. NaN: not known. */
typedef struct TraceRoof {
    const char *board;              /* as in peak.def, "" unknown */
    double memory_gbs;              /* 10^9 bytes per second */
    double tflops[PEAK_TYPE_COUNT]; /* 10^12 per second, dense */
    int64_t matrix_ns, known_ns;    /* time of matrix kernels, and of those whose arithmetic is known */
    double flops_per_step;          /* mean over devices and steps but a warm-up; without steps of everything */
    double mfu_percent;             /* the same, of what the board could have done in that time */
} TraceRoof;

/* Calls of the runtime or driver, by the operators that they were made from, and by class (an asynchronous copy from or
 * to pageable memory is another class than one of pinned memory). */
typedef struct TraceCall {
    const char *name;
    const char *inner, *outer; /* innermost and outermost operator around it, "" none */
    TraceHostClass class;
    int64_t count, total_ns, min_ns, max_ns;
    int64_t step_count, step_ns; /* of those that start in a step */
} TraceCall;

typedef struct TraceAnnotation {
    const char *name;
    bool on_gpu;
    int64_t count, total_ns, min_ns, max_ns; /* of the range */
    int64_t device_ns; /* GPU time launched from inside it on its thread (host ranges), or of what starts inside it on
                          its stream (GPU ranges); each GPU operation once per name */
    int64_t busy_ns;   /* union of the GPU time on its stream inside a GPU range's extent; host ranges: -1 */
    int64_t operation_count; /* GPU operations of device_ns */
} TraceAnnotation;

typedef struct TraceOptimizer {
    int64_t steps, operations; /* ranges "Optimizer.step...", GPU operations launched in them */
} TraceOptimizer;

/* ---- launches and queues ---- */
typedef struct TraceLaunch {
    int64_t linked, unlinked;          /* GPU operations */
    int64_t median_ns, p99_ns, max_ns; /* from the call's end to the operation's start, not below 0; of linked ones */
    int64_t negative; /* operations that start before their call does: clock skew, counted, taken as 0 */
    int64_t call_count, call_ns, call_median_ns, call_p99_ns, call_max_ns; /* launch calls themselves */
    int64_t graph_launches, graph_operations;
    int64_t short_kernels, short_kernel_ns; /* under the threshold */
    int64_t launch_bound_kernels;           /* kernels shorter than the call that launched them; graphs' not counted */
} TraceLaunch;

typedef struct TraceQueue {
    int32_t device;
    int64_t stream;
    int64_t operation_count, busy_ns; /* union on this stream */
    int64_t max_length;               /* launched and not started */
    double mean_length;               /* over time, from the first launch to the last start */
    int64_t full_ns;                  /* time with 1024 or more */
    int64_t empty_launches;           /* instants of launches that met an empty queue and an idle stream */
} TraceQueue;

typedef struct TraceQueuePoint { /* over time, 512 or fewer equal parts, all streams of a device; by device, start */
    int64_t start;               /* a multiple of width_ns */
    double length;               /* mean over the part */
    int64_t width_ns;            /* a power of two, the same for all parts of a device */
    int32_t device;
} TraceQueuePoint;

/* ---- collectives ---- */
typedef struct TraceCollective { /* one operation of one rank */
    const char *name; /* all_reduce, all_gather, reduce_scatter, ..., see classify.h; else as it was recorded */
    const char *dtype, *group, *kernel;
    int64_t group_size, sequence, in_bytes, out_bytes; /* -1 unknown */
    int64_t start, end;                                /* on the GPU */
    int64_t launch;                                    /* start of the call, INT64_MIN unknown */
    int32_t device;
    bool matched; /* found on other ranks too */
    int64_t stream;
    int64_t ordinal;   /* n-th of its (group, name) on this rank, from 0 */
    const char *ranks; /* members of the group as the framework writes them, "[0, 1]"; may be cut with "..."; "" */
    int64_t peer;      /* of a send or receive: the other side, as a rank of the group; -1 */
    int64_t parts;     /* kernels that it was made of */
    int64_t hidden_ns; /* from its start to the last moment at which something computed on its device; 0: nothing did */
    int64_t queued_ns; /* how long before its start it was launched and all compute launched before it was done */
} TraceCollective;

typedef struct TraceCollectiveSum { /* by name, group size and size class over all that was matched */
    const char *name, *group;
    int64_t group_size;
    int64_t bytes; /* per operation, of the size that bus bandwidth is defined on; -1 unknown */
    int64_t count, total_ns;
    int64_t matched;                     /* in how many all given ranks of the group were found */
    int64_t best_ns;                     /* median over operations of the shortest duration over ranks */
    double algorithm_gbs, bus_gbs;       /* bytes / best and times the factor of the collective; NaN */
    int64_t skew_median_ns, skew_max_ns; /* last start - first start over ranks; -1 one rank alone */
    int64_t wait_ns;                     /* sum over operations and ranks of (last start - own start) */
} TraceCollectiveSum;

/* ---- critical path of one step (or the whole) ---- */
typedef enum TracePathKind {
    TRACE_PATH_HOST,
    TRACE_PATH_DATA,
    TRACE_PATH_COMPUTE,
    TRACE_PATH_COMMUNICATION,
    TRACE_PATH_COPY,
    TRACE_PATH_LAUNCH,
    TRACE_PATH_QUEUE,
    TRACE_PATH_KIND_COUNT
} TracePathKind;
extern const char *const trace_path_words[TRACE_PATH_KIND_COUNT];

typedef struct TracePathName {
    const char *name;
    TracePathKind kind;
    int64_t count, total_ns;
} TracePathName;

typedef struct TracePath {
    const char *what; /* the step's name, "all" */
    int64_t total_ns; /* length in time: what follows sums to it */
    int64_t by_kind_ns[TRACE_PATH_KIND_COUNT];
    VEC(TracePathName) names; /* by time, largest first */
} TracePath;

/* ---- memory ---- */
typedef struct TraceMemoryPoint {
    int64_t start, allocated, reserved;
} TraceMemoryPoint;

typedef enum TraceMemoryCategory {
    TRACE_MEMORY_BEFORE,     /* allocated before the profile's first event: parameters and other state */
    TRACE_MEMORY_ACTIVATION, /* allocated in the forward pass, released in the backward pass */
    TRACE_MEMORY_GRADIENT,   /* allocated in the backward pass, and there when the optimizer's step begins */
    TRACE_MEMORY_OPTIMIZER,  /* allocated in the optimizer's step, and there after it */
    TRACE_MEMORY_TEMPORARY,  /* released in the same operator, backward pass or step of the optimizer */
    TRACE_MEMORY_UNKNOWN,
    TRACE_MEMORY_CATEGORY_COUNT
} TraceMemoryCategory;
extern const char *const trace_memory_words[TRACE_MEMORY_CATEGORY_COUNT];

typedef struct TraceMemoryHolder { /* blocks that stood at the peak */
    const char *name;              /* innermost operator that allocated them, "" */
    TraceMemoryCategory category;
    int64_t bytes, blocks;
} TraceMemoryHolder;

typedef struct TraceMemoryDevice {
    int32_t device;                                   /* -1 host */
    int64_t peak_allocated, peak_reserved, peak_at;   /* -1 unknown; time of the first */
    int64_t allocations, releases, allocated_bytes;   /* sum of sizes allocated */
    int64_t growth_bytes;                             /* last allocated - first allocated */
    int64_t capacity_bytes;                           /* of the device, -1 */
    const char *peak_op;                              /* innermost operator at the peak, "" */
    int64_t reserved_at_peak;                         /* of allocated; -1 unknown */
    int64_t by_category[TRACE_MEMORY_CATEGORY_COUNT]; /* bytes at the peak */
    VEC(TraceMemoryHolder) holders;                   /* at the peak, by bytes */
    VEC(TraceMemoryPoint) points;                     /* at most 512: of each equal part of the span the largest */
    bool totals; /* peaks are from the file's own totals; else from sums of the sizes since the first event */
} TraceMemoryDevice;

/* ---- a picture of a device's or thread's time, for the page ---- */
typedef struct TraceSlice {
    int64_t start, end;
    uint32_t text; /* index in TraceTimeline.texts */
    uint8_t kind;  /* TraceClass on a stream, TraceHostClass on a thread */
    uint8_t depth; /* 0 outermost */
} TraceSlice;

typedef struct TraceTimelineLane {
    bool gpu;
    int32_t device;
    const char *name; /* "stream 7", "thread 1234 (pt_main_thread)" */
    int64_t first,
        bucket_ns;          /* busy[i][c]: share of bucket i, 0..255, in class c (TraceClass or: op, runtime, other) */
    VEC(uint8_t) busy;      /* 3 bytes per bucket */
    VEC(TraceSlice) slices; /* the longest events, by start */
    uint64_t slices_left_out;
} TraceTimelineLane;

typedef struct TraceTimeline {
    VEC(TraceTimelineLane) lanes;
    VEC(const char *) texts;
} TraceTimeline;

/* ---- a rank ---- */
typedef struct TraceLossRow {
    const char *reason, *excerpt;
    uint64_t byte, event;
} TraceLossRow;

typedef struct TraceRank {
    int64_t rank; /* as the file says, else by the order of files */
    bool rank_known;
    const char *file;
    int64_t world_size; /* -1 */
    const char *framework, *backend, *host;
    uint64_t bytes, events, ignored, lost;
    uint64_t counter_ranges; /* of the profile: kernels with counters and no times */
    uint64_t lost_by_reason[PROFILE_LOSS_COUNT];
    VEC(TraceLossRow) losses;
    bool with_stack, with_shapes, with_memory, rocm, microseconds;
    int64_t base_ns;
    int64_t clock_offset_ns; /* to be added to this rank's times to meet the first rank's clock; 0 unless aligned */
    bool clock_aligned;
    bool warm_up;          /* the first step is one, and the verdicts are about the others */
    uint64_t memory_bytes; /* largest memory of its events */

    VEC(TraceDevice) devices;
    VEC(TraceStepRow) steps;
    TraceCauseSum idle_by_cause[TRACE_CAUSE_COUNT]; /* over devices; sums to their idle */
    TraceGaps gaps;                                 /* the longest, longest first; at most TraceConfig.gaps_kept */
    TraceGaps edges; /* idle before the first and behind the last operation of a device, as far as the host's events
                        and the steps reach, divided at the first step's start and the last one's end; longest first */
    VEC(TraceInference) inference;   /* by kind; none without steps of an inference engine */
    VEC(TraceDecodeGap) decode_gaps; /* by total */
    VEC(TraceKernel) kernels;        /* by total, largest first, then name */
    VEC(TraceCopy) copies;
    VEC(TraceOperator) operators; /* by device_self_ns, then host_self_ns, then name */
    VEC(TraceShape) shapes;       /* by total, then operator, shapes, types, arguments */
    TraceRoof roof;
    VEC(TraceModule) modules; /* each before those in it; of one module the largest first */
    VEC(TraceOrigin) origins; /* by total */
    TraceOriginSum origin_sum;
    VEC(TraceCall) calls; /* by total, then name, inner, outer */
    VEC(TraceAnnotation) annotations;
    TraceOptimizer optimizer;
    TraceLaunch launch;
    VEC(TraceQueue) queues;
    VEC(TraceQueuePoint) queue_points;
    VEC(TraceCollective) collectives; /* by start */
    VEC(TracePath) paths;             /* per step, then "all" where there is no step */
    VEC(TraceMemoryDevice) memory;
    TraceTimeline timeline;
} TraceRank;

/* ---- all ranks ---- */
typedef struct TraceRankTime { /* of one rank, per step in the mean */
    int64_t rank;
    double step_ns, compute_ns, communication_ns, exposed_communication_ns, idle_ns;
    double late_ns;       /* mean start behind the first rank in matched collectives */
    double last_share;    /* share of matched collectives in which it came last */
    double slowest_share; /* share of steps in which it computed longest */
    /* Per measured step; NaN where unknown. */
    double own_ns;     /* what is no waiting for other ranks */
    double waiting_ns; /* for other ranks, in operations while nothing computes */
    /* How much more than the median of the ranks that are not late. */
    double late_compute_ns, late_idle_ns, late_copy_ns, late_transfer_ns;
} TraceRankTime;

typedef struct TraceStraggler { /* a rank, or several that are late together */
    int64_t rank;               /* the latest one, -1: none */
    VEC(int64_t) ranks;         /* all of them, ascending */
    const char *group;          /* "rank", "host", "stage", "block", "rail", "pair", "ranks"; "" none */
    const char *label;          /* "rank 3", "ranks 8-15 (host node1)"; "" none */
    const char *cause; /* "computes_late" (more or slower compute), "host_late" (its host or its data), "copies_late",
                          "transfers_late" (transfers among them), "unknown"; "" none */
    const char *host_cause; /* of host_late: the largest part, a word of trace_cause_words; else "" */
    double late_ns;         /* per matched operation, against the median of the other ranks */
    double late_step_ns;    /* per step */
    double share;           /* of operations with lateness in which one of them was last */
    int64_t matched;        /* operations it rests on */
    double confidence;      /* 0..1 */
    double percent_of_step; /* what a step would save if they were as the others, once those named before are */
    double cost_percent;    /* the same once all others that are late are */
    double alone_percent;   /* if `rank` alone were */
} TraceStraggler;

typedef struct TraceVerdict {
    const char *id;         /* "data-loading", see verdict.def */
    double percent_of_step; /* what it costs */
    double gain_percent;    /* upper bound of what the change gives back */
    const char *evidence;   /* times and names */
    const char *advice;
    int64_t rank;     /* -1: all */
    int64_t cost_ns;  /* per step */
    bool once;        /* most of the cost is one idle time: nothing shows that it comes back */
    TraceCause cause; /* of idle time that it is about; TRACE_CAUSE_COUNT: another matter */
} TraceVerdict;

typedef struct TraceDiffRow {
    const char *name, *was; /* was: its name before, where that is another one; "" */
    int64_t count_before, count_after, total_before_ns, total_after_ns;
    double per_step_before_ns, per_step_after_ns; /* NaN without steps */
} TraceDiffRow;
typedef VEC(TraceDiffRow) TraceDiffRows;

typedef struct TraceDiff {
    TraceDiffRows kernels, operators;     /* by difference, largest loss first */
    TraceDiffRows modules;                /* the same: GPU time of operators within modules, "PATH: OPERATOR" */
    double step_before_ns, step_after_ns; /* NaN */
    int64_t busy_before_ns, busy_after_ns, idle_before_ns, idle_after_ns;
    bool per_step; /* differences are per step */
} TraceDiff;

typedef struct TraceReport {
    Arena arena;
    VEC(TraceRank) ranks; /* by rank */
    TraceCauseSum gaps_by_cause[TRACE_CAUSE_COUNT];
    VEC(TraceCollectiveSum) collectives;
    VEC(TraceRankTime) rank_times;
    TraceStraggler straggler;            /* the first group of late ranks */
    VEC(TraceStraggler) more_stragglers; /* the others: less late, or late by something else */
    VEC(TraceVerdict) verdicts;          /* by percent_of_step */
    double step_ns;                      /* mean step over ranks; without steps the whole time */
    double measured_step_ns;             /* the same without warm-ups: what the verdicts' percentages are of */
    VEC(const char *) notes;             /* what a reader must know: no steps, two files of one rank, ... */
    double seconds;                      /* how long the analysis took */
} TraceReport;

/* The row of the decode steps, NULL: none. */
const TraceInference *trace_find_decode(const TraceRank *rank);

/* The devices of a rank added; without steps with what is idle around them: then the whole time is the host's and the
 * GPU's, whichever is longer. */
TraceDevice trace_sum_devices(const TraceRank *rank);
/* Idle times of the rank by cause, those around the operations included where the whole time is looked at. */
void trace_sum_causes(const TraceRank *rank, TraceCauseSum ret[TRACE_CAUSE_COUNT]);

/* The groups of late ranks in their order, NULL behind the last one; and the group of a rank, NULL: it is in none. */
const TraceStraggler *trace_straggler_at(const TraceReport *report, size_t nth);
const TraceStraggler *trace_straggler_of(const TraceReport *report, int64_t rank);

/* Whether the rank is one of those that the others wait for. */
bool trace_is_late(const TraceReport *report, int64_t rank);

void trace_report_init(TraceReport *report);
void trace_report_done(TraceReport *report);
void trace_rank_done(TraceRank *rank); /* its vectors; texts are the arena's */

/* A rank's gaps and edges together, longest first; a zeroed cursor begins. NULL at the end. */
typedef struct TraceIdleCursor {
    size_t gap, edge;
} TraceIdleCursor;
const TraceGap *trace_next_idle(const TraceRank *rank, TraceIdleCursor *cursor);

/* Drops each rank that equals an earlier one (a profile given packed and not, or a copy), and notes it. Other files
 * of the same rank stay. Texts go to `arena`. */
void trace_report_drop_copies(TraceReport *report, Arena *arena);

/* Leaves in the tables of names (kernels, operators, runtime calls, annotations, collectives) the rows whose name fits.
 * Sums, gaps and verdicts stay those of the whole. */
void trace_report_filter(TraceReport *report, const regex_t *names);
void trace_diff_filter(TraceDiff *diff, const regex_t *names);
