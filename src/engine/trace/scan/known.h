/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* TraceKnown within this folder: filled at the end of one scan, asked by another one. Texts are its own. */

#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "engine/trace/scan/scan.h"

enum { KNOWN_OWNERS_MAX = 1024 }; /* a text with more marks than these is nobody's */

/* A process by its number, or by its text where it has none. */
typedef struct KnownProcess {
    int64_t pid;
    const char *text; /* NULL: the number */
    uint32_t owner;   /* 0: nobody's */
} KnownProcess;

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
    uint32_t owner, number;
} KnownId;

typedef struct KnownOwner {
    const char *mark;
    size_t len;
    int64_t rank;
} KnownOwner;

struct TraceKnown {
    Arena arena;
    VEC(KnownOwner) owners;      /* by mark */
    VEC(KnownProcess) processes; /* of owners, by process; empty where marks stand in front of the process */
    VEC(KnownDevice) devices;    /* by process */
    VEC(KnownLane) lanes;        /* by process and thread */
    VEC(KnownId) ids;            /* by owner and id */
    uint64_t nobodys;
    int64_t other_rank;
};

/* Takes over what a scan has found out, behind labels_settle. */
void known_learn(TraceKnown *known, const TraceScan *scan);

/* In ascending order. */
void known_add_id(TraceKnown *known, uint32_t owner, uint64_t id, uint32_t number);
uint32_t known_number(const TraceKnown *known, uint32_t owner, uint64_t id); /* 0: not known */

/* The owner (from 1) with this mark, of this process; 0 none. `text` NULL: the number. */
uint32_t known_owner(const TraceKnown *known, const char *mark, size_t len);
uint32_t known_process(const TraceKnown *known, int64_t pid, const char *text);

/* What a thread is, HOST where its process is no GPU. */
KnownPlace known_place(const TraceKnown *known, const KnownThread *thread);
