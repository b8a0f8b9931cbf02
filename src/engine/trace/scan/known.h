/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* TraceKnown within this folder: filled at the end of one scan, asked by another one. Texts are its own. */

#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "engine/trace/scan/scan.h"

/* What the rows of a thread are. */
typedef enum LaneUse { LANE_HOST, LANE_OPERATIONS, LANE_STEPS, LANE_REPEATS } LaneUse;

typedef struct KnownPlace {
    LaneUse use;
    int32_t device;
    int64_t stream; /* -1 unknown */
    const char *label;
} KnownPlace;

/* A thread by numbers, or by texts where it has none (NULL: the number). */
typedef struct KnownThread {
    int64_t pid, tid;
    const char *pid_text, *tid_text;
} KnownThread;

/* A process that is a GPU; `streams`: some of its threads are called streams. */
typedef struct KnownDevice {
    KnownThread process;
    int32_t device;
    bool streams;
} KnownDevice;

/* A named thread of such a process. */
typedef struct KnownLane {
    KnownThread thread;
    const char *label;
} KnownLane;

typedef struct KnownId {
    uint64_t id;
    uint32_t number;
} KnownId;

struct TraceKnown {
    Arena arena;
    VEC(KnownDevice) devices; /* by process */
    VEC(KnownLane) lanes;     /* by process and thread */
    VEC(KnownId) ids;         /* by id */
};

/* Takes over what a scan has found out, behind labels_settle. */
void known_learn(TraceKnown *known, const TraceScan *scan);

/* In ascending order. */
void known_add_id(TraceKnown *known, uint64_t id, uint32_t number);
uint32_t known_number(const TraceKnown *known, uint64_t id); /* 0: not known */

/* What a thread is, HOST where its process is no GPU. */
KnownPlace known_place(const TraceKnown *known, const KnownThread *thread);
