/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a memory snapshot of PyTorch's allocator says (the pickle of torch.cuda.memory._dump_snapshot): what each
 * device holds, who allocated it, how it is fragmented, and the recorded allocations up to then with their peak.
 * Pure; one thread at a time.
 */

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/vec.h"
#include "engine/nccl/span.h"

enum {
    ALLOCATOR_BYTES_MAX = 1 << 30, /* of a pickle */
    ALLOCATOR_POINTS = 512,
    ALLOCATOR_OOMS_MAX = 64, /* of a device, the last ones */
};

/* A line of code, and what it allocated. */
typedef struct AllocatorSite {
    const char *name; /* "train.py:12 forward"; "" not recorded */
    int64_t bytes, blocks;
} AllocatorSite;

/* After some events: the largest allocated of an equal part of them. */
typedef struct AllocatorPoint {
    int64_t event, time_us; /* time -1 not recorded */
    int64_t allocated, reserved;
} AllocatorPoint;

/* An allocation that failed. */
typedef struct AllocatorOom {
    int64_t time_us;             /* -1 not recorded */
    int64_t asked, device_free;  /* free of the device then, -1 not recorded */
    int64_t allocated, reserved; /* then; -1 not known */
    const char *site;            /* "" not recorded */
} AllocatorOom;

typedef VEC(AllocatorSite) AllocatorSites;

typedef struct AllocatorDevice {
    int64_t device;
    /* At the snapshot. Bytes of blocks, which are rounded up from what was asked for (`requested`). */
    int64_t segments, expandable_segments;
    int64_t reserved, allocated, requested;
    int64_t awaiting;     /* freed, but another stream may still use it */
    int64_t inactive;     /* reserved and free */
    int64_t largest_free; /* block */
    int64_t releasable;   /* free, in segments without anything else: what empty_cache gives back */
    double fragmentation; /* 1 - largest_free / inactive; NaN where nothing is free */
    AllocatorSites sites; /* of allocated blocks, largest first */
    /* Recorded events. Bytes as they were asked for. */
    int64_t events;
    bool timeline; /* the events fit the blocks; else what follows but `ooms` is unknown */
    int64_t peak, peak_event, peak_time_us, peak_reserved; /* of allocated, and what was reserved then; -1 unknown */
    int64_t largest_reserved;
    int64_t before; /* bytes at the peak from before the first event, gone since: nobody knows whose */
    AllocatorSites peak_sites;
    VEC(AllocatorPoint) points;
    VEC(AllocatorOom) ooms;
} AllocatorDevice;

/* A thing to change. */
typedef struct AllocatorFinding {
    const char *id; /* "out-of-memory", "fragmented", "cached" */
    int64_t device, bytes;
    const char *evidence, *advice;
} AllocatorFinding;

typedef struct AllocatorReport {
    Arena arena;
    VEC(AllocatorDevice) devices; /* by number */
    VEC(AllocatorFinding) findings;
} AllocatorReport;

/* Whether the first bytes are those of a pickle. */
bool allocator_is_pickle(const char *head, size_t len);

/* -EBADMSG where the bytes are no pickle of plain values or no snapshot. *ret is the caller's: allocator_done. */
int allocator_read(Span bytes, AllocatorReport *ret, Err *err);
void allocator_done(AllocatorReport *report); /* accepts a zeroed one */
