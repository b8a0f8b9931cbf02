/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts per GPU from tick to tick: XIDs and clock events, since the start and within a
 * window. XIDs go on where the agent before left off (counts_restore_xid). A window is a ring of COUNT_BUCKETS buckets
 * of whole seconds: exact to the second for up to five minutes, to a COUNT_BUCKETS-th of the window beyond. GPUs are
 * identified by PCI address; another UUID at it begins anew. Pure but for memory (a GPU or XID seen for the first
 * time). One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attribute.h"
#include "base/vec.h"
#include "model/event.h"
#include "model/node.h"

enum { COUNT_BUCKETS = 300, COUNT_XIDS_MAX = 64, CLOCK_EVENTS = 9 };

typedef struct CountWindow {
    uint64_t newest; /* number of the newest bucket */
    uint16_t count[COUNT_BUCKETS];
} CountWindow;

typedef struct XidCount {
    uint64_t xid;
    uint64_t total;
    uint64_t first_ns;              /* when it was counted first, since this start; 0: before it */
    uint64_t last_ns, last_real_ns; /* of the newest one: monotonic, and what the wall clock said then */
    CountWindow window;
} XidCount;

typedef struct ClockCount {
    uint64_t edges;       /* times it became active */
    uint64_t last_second; /* the last one counted in the window */
    CountWindow window;   /* seconds in which it was seen */
} ClockCount;

typedef struct GpuCounts {
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP]; /* "": not known yet */
    VEC(XidCount) xids;         /* by number */
    bool bits_known;
    uint64_t bits;    /* of the clock events, as last read */
    uint64_t read_ns; /* instant of the last reading of the bits */
    ClockCount clock[CLOCK_EVENTS];
    ClockCount readings; /* seconds in which the bits were read at all */
} GpuCounts;

/* Takes the new value of a counter that shall go on after a restart. */
typedef struct CountKeep {
    void (*put)(void *self, const char *key, uint64_t value); /* NULL: nobody does */
    void *self;
} CountKeep;

/* Gives it one, by this key. */
void count_keep(const CountKeep *keep, uint64_t value, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* A count of before the start, until its GPU says who it is. */
typedef struct XidKept {
    char uuid[DEVICE_UUID_CAP];
    uint64_t xid, total, last_real_ns;
} XidKept;

typedef struct Counts {
    uint64_t xid_width_ns, clock_width_ns; /* of a bucket */
    uint64_t now_ns;                       /* of the last tick */
    VEC(GpuCounts *) gpus;
    VEC(XidKept) kept;
} Counts;

/* Sets the lengths of the windows, before anything is counted and later: what was counted stays. Zeroed memory is
 * Counts without windows. */
void counts_set_windows(Counts *counts, uint64_t xid_window_ns, uint64_t clock_window_ns);
void counts_done(Counts *counts);

/* Adds what was counted of a GPU before the start. */
void counts_restore_xid(Counts *counts, const XidKept *kept);

/* Counts the clock events of a tick. */
void counts_tick(Counts *counts, const Node *node, const CountKeep *keep);

/* Counts an XID, once per occurrence (engine/health/xid_merge.h); `keep` takes its count, now or once its GPU says who
 * it is. */
void counts_add_xid(Counts *counts, const Event *event, const CountKeep *keep);

/* The total as it is shown: a series that begins with 1 is no increase to Prometheus, so a number that is new since the
 * start is 0 for its first minute. */
uint64_t xid_count_shown(const Counts *counts, const XidCount *xid);

/* NULL where nothing was ever seen of this GPU. */
const GpuCounts *counts_of(const Counts *counts, const Reading *gpu);

/* What lies in a window of this bucket width at this instant. */
uint64_t count_window_sum(const CountWindow *window, uint64_t width_ns, uint64_t now_ns);

/* "gpu_idle", ... of bit 0, 1, ... */
extern const char *const clock_event_names[CLOCK_EVENTS];
