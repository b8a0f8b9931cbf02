/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts per GPU from tick to tick: XIDs and clock events, since the start and within a
 * window. A window is a ring of COUNT_BUCKETS buckets of whole seconds: exact to the second for up to five
 * minutes, to a COUNT_BUCKETS-th of the window beyond. GPUs are identified by PCI address, so counts last as long as
 * the agent. Pure but for memory (a GPU or XID seen for the first time). One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    VEC(XidCount) xids; /* by number */
    bool bits_known;
    uint64_t bits;    /* of the clock events, as last read */
    uint64_t read_ns; /* instant of the last reading of the bits */
    ClockCount clock[CLOCK_EVENTS];
    ClockCount readings; /* seconds in which the bits were read at all */
} GpuCounts;

typedef struct Counts {
    uint64_t xid_width_ns, clock_width_ns; /* of a bucket */
    VEC(GpuCounts *) gpus;
} Counts;

/* Sets the lengths of the windows, before anything is counted and later: what was counted stays. Zeroed memory is
 * Counts without windows. */
void counts_set_windows(Counts *counts, uint64_t xid_window_ns, uint64_t clock_window_ns);
void counts_done(Counts *counts);

/* Counts the clock events of a tick. */
void counts_tick(Counts *counts, const Node *node);

/* Counts an XID, once per occurrence (engine/health/xid_merge.h). */
void counts_add_xid(Counts *counts, const Event *event);

/* NULL where nothing was ever seen of this GPU. */
const GpuCounts *counts_of(const Counts *counts, const Reading *gpu);

/* What lies in a window of this bucket width at this instant. */
uint64_t count_window_sum(const CountWindow *window, uint64_t width_ns, uint64_t now_ns);

/* "gpu_idle", ... of bit 0, 1, ... */
extern const char *const clock_event_names[CLOCK_EVENTS];
