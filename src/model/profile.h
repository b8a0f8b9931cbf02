/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A profile of one process (usually one rank): what its threads and its GPUs did, as compact columns, whatever file it
 * came from. Readers fill it (profile_name, profile_lane, profile_add, ...), profile_seal orders it, analyses read it.
 * Plain data: no I/O. One thread at a time; several threads fill profiles of their own and profile_append joins them.
 *
 * Times are integer nanoseconds of the file's own clock; base_ns says where that clock's zero lies. An event covers
 * [start, start + duration). Sealed, a profile depends on the events alone and not on the order in which they came:
 * names, lanes and rows are in an order of their own.
 * An event takes 33 bytes (PROFILE_EVENT_BYTES; on the GPU 37), its interned texts and details not counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"

#define PROFILE_NONE UINT32_MAX /* no row, no name, no detail */

typedef enum ProfileKind {
    /* table gpu */
    PROFILE_KERNEL,
    PROFILE_COPY, /* memcpy; also kernels that are a copy of the runtime's own (ROCm copyBuffer) stay KERNEL here */
    PROFILE_SET,  /* memset */
    /* table host: what a CPU thread did */
    PROFILE_CALL,       /* CUDA or HIP runtime or driver call, XPU and others alike */
    PROFILE_OP,         /* framework operator (cpu_op) */
    PROFILE_ANNOTATION, /* user_annotation, NVTX range, ProfilerStep */
    PROFILE_PYTHON,     /* python_function */
    PROFILE_OVERHEAD,   /* the profiler's own */
    PROFILE_OTHER,      /* any other complete event on a thread */
    /* table mark */
    PROFILE_GPU_ANNOTATION, /* gpu_user_annotation: a range as the GPU saw it */
    PROFILE_KIND_COUNT
} ProfileKind;

/* Columns of equal length. In the sealed gpu table rows are ordered by (device, start, ...), in the sealed host and
 * mark tables by (lane, start, longest first, kind from Python down to call, ...). */
typedef struct ProfileEvents {
    int64_t *start;     /* ns */
    int64_t *duration;  /* ns, never below 0 */
    uint32_t *name;     /* of profile_text */
    uint32_t *lane;     /* index in Profile.lanes */
    uint32_t *link;     /* gpu and CALL: correlation; OP: external id; 0 none */
    uint32_t *extra;    /* KERNEL: launches; COPY, SET: copies; OP: ops; PROFILE_NONE: none */
    uint32_t *external; /* table gpu alone: external id of the operator, 0 none; elsewhere NULL */
    uint8_t *kind;      /* ProfileKind */
    size_t len, cap;
} ProfileEvents;

/* The columns, but for `external`, which one table has alone. */
#define PROFILE_COLUMNS(COLUMN)                                                                                        \
    COLUMN(start) COLUMN(duration) COLUMN(name) COLUMN(lane) COLUMN(link) COLUMN(extra) COLUMN(kind)

enum { PROFILE_EVENT_BYTES = 33 };

/* One event on its way into a table. */
typedef struct ProfileEvent {
    ProfileKind kind;
    int64_t start, duration;
    uint32_t name, lane, link, extra, external;
} ProfileEvent;

/* A thread of a process or a stream of a device. */
typedef struct ProfileLane {
    bool gpu;
    int32_t device;    /* gpu: device number, -1 unknown */
    int64_t pid;       /* host: process; gpu: context, 0 unknown */
    int64_t tid;       /* host: thread; gpu: stream (0 is a stream) */
    uint32_t pid_name; /* text where pid or tid is not a number ("stream 7", "Spans"), else PROFILE_NONE */
    uint32_t tid_name;
    uint32_t label; /* the thread's or stream's own name, PROFILE_NONE: none */
} ProfileLane;

/* How a kernel was launched. Equal ones are stored once. */
typedef struct ProfileLaunch {
    uint32_t grid[3], block[3];        /* 0: unknown */
    uint32_t registers;                /* per thread, 0 unknown */
    uint32_t shared_bytes;             /* per block */
    float occupancy_percent;           /* estimated achieved; < 0: unknown */
    float blocks_per_sm, warps_per_sm; /* < 0: unknown */
    uint32_t collective;               /* index in collectives, PROFILE_NONE */
    uint32_t in_graph;                 /* 1: part of a graph launch */
} ProfileLaunch;

typedef enum ProfileCopyKind {
    PROFILE_COPY_UNKNOWN,
    PROFILE_COPY_HTOD,
    PROFILE_COPY_DTOH,
    PROFILE_COPY_DTOD,
    PROFILE_COPY_PTOP,
    PROFILE_COPY_HTOH,
    PROFILE_COPY_SET,
    PROFILE_COPY_KIND_COUNT
} ProfileCopyKind;

typedef enum ProfileMemoryKind {
    PROFILE_MEMORY_UNKNOWN,
    PROFILE_MEMORY_PAGEABLE,
    PROFILE_MEMORY_PINNED,
    PROFILE_MEMORY_DEVICE,
    PROFILE_MEMORY_ARRAY,
    PROFILE_MEMORY_MANAGED,
    PROFILE_MEMORY_KIND_COUNT
} ProfileMemoryKind;

typedef struct ProfileCopy {
    int64_t bytes;           /* -1: unknown */
    double reported_gbs;     /* the file's own "memory bandwidth (GB/s)"; NaN: none */
    uint32_t kind;           /* ProfileCopyKind */
    uint16_t source, target; /* ProfileMemoryKind */
} ProfileCopy;

/* Arguments of an operator; equal ones are stored once. Texts as in the file ("[[32, 128], [128, 64]]"). */
typedef struct ProfileOp {
    uint32_t dims, types; /* "Input Dims", "Input type"; PROFILE_NONE: not recorded */
    uint32_t arguments;   /* "Concrete Inputs", only kept of convolutions and attention; else PROFILE_NONE */
    uint32_t collective;  /* of record_param_comms; PROFILE_NONE */
    int64_t sequence;     /* "Sequence number" (joins forward and backward); only kept with a collective, else -1 */
} ProfileOp;

/* The step of automatic differentiation that an operator belongs to: its forward pass and its backward pass have the
 * number and the thread of the forward pass in common. */
typedef struct ProfileNode {
    uint32_t op_id;          /* its external id */
    uint32_t sequence;       /* "Sequence number" */
    uint32_t forward_thread; /* "Fwd thread id", a number of the framework's; 0: the operator is of the forward pass */
} ProfileNode;

/* The modules around an operator of TorchScript, as "TOP(Net)::forward.fc1(Linear)::forward". */
typedef struct ProfilePlace {
    uint32_t op_id; /* its external id */
    uint32_t modules;
} ProfilePlace;

/* Arguments of one collective or point-to-point transfer. Names: PROFILE_NONE unknown; numbers: -1 unknown. */
typedef struct ProfileCollective {
    uint32_t name;               /* "allreduce", "_allgather_base", "send" as the framework says it */
    uint32_t dtype;              /* "Float", "c10::BFloat16" */
    uint32_t group, group_label; /* process group's name and description */
    uint32_t ranks;              /* "[0, 1]", may be cut with "..." by the framework */
    int64_t in_elements, out_elements;
    int64_t group_size;
    int64_t sequence;       /* "Seq": equal on all ranks for the same collective */
    int64_t source, target; /* ranks of a point-to-point transfer */
} ProfileCollective;

/* What a host thread or a stream waited for (cat cuda_sync). */
typedef struct ProfileSync {
    int64_t start, duration;
    uint32_t name; /* "Stream Sync", "Event Sync", "Context Sync", "Stream Wait Event" */
    int32_t device;
    int64_t stream;      /* -1 unknown */
    int64_t wait_stream; /* whose event is waited for; -1 */
    uint32_t link;       /* correlation of the call, 0 */
    uint32_t wait_link;  /* correlation of the cudaEventRecord waited for, 0 */
} ProfileSync;

/* One allocation (+) or release (-) of device or host memory. Ordered by start once sealed. */
typedef struct ProfileMemory {
    int64_t start;
    int64_t bytes;               /* below 0: released */
    int64_t allocated, reserved; /* totals after it; -1 unknown */
    uint64_t address;
    uint32_t lane;
    int16_t device;      /* -1: host */
    int16_t device_type; /* 0 CPU, 1 CUDA, as the framework numbers them */
} ProfileMemory;

typedef struct ProfileDevice {
    int32_t id;
    uint32_t name;
    uint64_t memory_bytes;
    uint32_t sm_count, warp_size, threads_per_sm;
    int32_t major, minor; /* compute capability */
} ProfileDevice;

typedef struct ProfileGroup {
    uint32_t name, label; /* pg_name, pg_desc */
    uint32_t ranks;       /* text */
    int64_t size;
} ProfileGroup;

/* Why something in the file was not used. */
typedef enum ProfileLossReason {
    PROFILE_LOSS_SYNTAX,       /* not JSON: skipped up to the next event */
    PROFILE_LOSS_TRUNCATED,    /* the file ends inside an event or without its closing brackets */
    PROFILE_LOSS_COMPRESSION,  /* gzip data damaged or cut */
    PROFILE_LOSS_NO_TIME,      /* start or duration missing, not a number or over seven days; a GPU operation at 0 */
    PROFILE_LOSS_BAD_DURATION, /* negative: taken as 0, used, not lost */
    PROFILE_LOSS_UNPAIRED,     /* a begin without its end or the reverse */
    PROFILE_LOSS_DUPLICATE,    /* the same GPU operation or call twice: used once */
    PROFILE_LOSS_TOO_LONG,     /* a text or an event over the reader's limit */
    PROFILE_LOSS_PROFILER,     /* the profiler itself says that it dropped records */
    PROFILE_LOSS_COUNT
} ProfileLossReason;

enum { PROFILE_LOSSES_KEPT = 64, PROFILE_EXCERPT_MAX = 80 };

typedef struct ProfileLoss {
    ProfileLossReason reason;
    uint64_t byte;                         /* where, in the uncompressed text */
    uint64_t event;                        /* how many events had been read before */
    char excerpt[PROFILE_EXCERPT_MAX + 1]; /* of the text there; "" none */
} ProfileLoss;

/* A set of byte strings: equal ones get the same number, numbers count up from 0. */
typedef struct ProfileSet {
    Arena arena; /* the strings, each with a NUL behind */
    VEC(const char *) texts;
    VEC(uint32_t) lens;
    struct ProfileSlot {
        uint32_t hash, id; /* id + 1; 0: empty */
    } * slots;
    size_t slot_count; /* power of two, 0 before the first */
    uint64_t seed;
    size_t bytes; /* of strings */
} ProfileSet;

typedef struct Profile {
    ProfileEvents gpu, host, mark;
    ProfileSet names, lane_keys, launch_keys, copy_keys, op_keys; /* numbers of keys are indices of the lists below */
    VEC(ProfileLane) lanes;
    VEC(ProfileLaunch) launches;
    VEC(ProfileCopy) copies;
    VEC(ProfileOp) ops;
    VEC(ProfileCollective) collectives;
    VEC(ProfileNode) nodes;
    VEC(ProfilePlace) places;
    VEC(ProfileSync) syncs;
    VEC(ProfileMemory) memory;
    VEC(ProfileDevice) devices;
    VEC(ProfileGroup) groups;

    /* what the file says about itself; texts PROFILE_NONE, numbers -1 where it does not */
    int64_t rank, world_size;
    int64_t base_ns; /* UTC of the clock's zero, 0 unknown (times may be absolute already) */
    uint32_t backend, nccl_version, host_name, trace_id, framework; /* framework: "pytorch", "nsys", ... */
    bool rocm, with_stack, with_shapes, with_memory;
    bool microseconds; /* times have no digits below a microsecond */

    uint64_t bytes;   /* of text read, uncompressed */
    uint64_t events;  /* objects in the event list, used or not */
    uint64_t ignored; /* of those: flows, counters, instants, metadata and the like, which no analysis needs */
    uint64_t counter_ranges; /* of the ignored ones: kernels measured by CUPTI's range profiler, without times */
    uint64_t lost_by_reason[PROFILE_LOSS_COUNT];
    VEC(ProfileLoss) losses; /* the first PROFILE_LOSSES_KEPT */
    bool sealed;
} Profile;

void profile_init(Profile *profile);
void profile_done(Profile *profile); /* accepts a zeroed one */

/* The id of a text, the same for equal texts; bytes that are not UTF-8 are kept as they are. profile_text gives a
 * NUL-terminated text ("" for PROFILE_NONE), valid as long as the profile; its length in *ret_len (may be NULL). */
uint32_t profile_name(Profile *profile, const char *text, size_t len);
const char *profile_text(const Profile *profile, uint32_t name, size_t *ret_len);
uint32_t profile_name_find(const Profile *profile, const char *text); /* PROFILE_NONE for none */
size_t profile_name_count(const Profile *profile);

/* The lane with these numbers (and texts, where a number is missing); made where it is new. profile_thread with
 * texts: give pid_name/tid_name as names and the numbers 0. */
uint32_t profile_thread(Profile *profile, int64_t pid, uint32_t pid_name, int64_t tid, uint32_t tid_name);
uint32_t profile_stream(Profile *profile, int32_t device, int64_t stream);

/* Appends to the table that the kind belongs to; an event without a name gets the empty one. Durations below 0 are the
 * caller's fault (assert). */
void profile_add(Profile *profile, const ProfileEvent *event);

/* The index of an equal detail, added where it is new. */
uint32_t profile_launch(Profile *profile, const ProfileLaunch *launch);
uint32_t profile_copy(Profile *profile, const ProfileCopy *copy);
uint32_t profile_op(Profile *profile, const ProfileOp *op);
uint32_t profile_collective(Profile *profile, const ProfileCollective *collective); /* always a new one */

/* Fills kind, source and target of a copy from its name as CUPTI, roctracer and nsys write it ("Memcpy HtoD (Pageable
 * -> Device)", "CopyHostToDevice", "[CUDA memcpy Host-to-Device]", "Memset (Device)"). */
void profile_copy_words(const char *name, size_t len, ProfileCopy *copy);
ProfileMemoryKind profile_memory_word(const char *text, size_t len); /* "Pageable" and the like, in any case */

/* Counts a loss and keeps the first ones. `excerpt` may be NULL. */
void profile_lose(Profile *profile, ProfileLossReason reason, uint64_t byte, const char *excerpt, size_t len);
uint64_t profile_lost(const Profile *profile); /* events not used: all reasons but BAD_DURATION, PROFILER */
extern const char *const profile_loss_words[PROFILE_LOSS_COUNT]; /* "syntax", "no_time", ... */

/* Moves everything of `part` to the end of `into` (both unsealed); `part` is empty afterwards. What the file says about
 * itself is taken from `part` where that knows it. Losses' event numbers are moved by into->events. */
void profile_append(Profile *into, Profile *part);

/* Orders names, lanes and rows, removes duplicates (counted), with up to two threads. Once. */
void profile_seal(Profile *profile, unsigned int threads);

/* Gives all names of an unsealed profile's rows, lanes, details and records new numbers: to[old]. */
void profile_rename(Profile *profile, const uint32_t *to);

/* Keeps the rows for which keep(context, profile, table, row) returns true; sealed or not. The tables come in the order
 * gpu, host, mark; `keep` may add rows to an earlier one. */
typedef bool (*ProfileKeep)(void *context, const Profile *profile, const ProfileEvents *table, size_t row);
void profile_filter(Profile *profile, ProfileKeep keep, void *context);

/* Bytes of memory held, columns as far as they are filled. */
size_t profile_bytes(const Profile *profile);

/* The row's end. */
static inline int64_t profile_end(const ProfileEvents *table, size_t row)
{
    return table->start[row] + table->duration[row];
}
