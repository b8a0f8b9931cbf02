/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Minimum, mean and maximum of each fast metric since the last scrape of the same scraper. A scraper has a name of its
 * own, or is known by its address and program while it keeps its connection. Each has accumulators; when all are in
 * use, those of the one that was not seen for longest are reused. A new scraper gets the last minute. So does one that
 * cannot be told from others: it came without a name on another connection than the last of its address and program, so
 * that two may share what it is known by, and neither must take from the other. Fixed memory (GPUs without a PCI
 * address and those beyond NODE_GPUS_MAX are left out). Pure, one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/node.h"

enum { WINDOW_SCRAPERS = 16, WINDOW_NAME_CAP = 192, WINDOW_AGAIN_NS = 100000000 };

typedef struct WindowValue {
    double min, max, sum;
    uint64_t count; /* 0: no reading in this window; the others mean nothing then */
} WindowValue;

/* Of one GPU: a value per fast metric. */
typedef struct WindowGpu {
    PciAddress gpu;
    WindowValue value[READING_FAST_CAP];
} WindowGpu;

/* Who asks. */
typedef struct WindowScraper {
    const char *name;    /* its own, or address and program */
    bool named;          /* its own: no other scraper has it */
    uint64_t connection; /* by which it asks, of one that is not named */
} WindowScraper;

typedef struct WindowSpan {
    uint64_t ns;     /* its length */
    uint64_t window; /* a number for each window that was closed; 0: the last minute, the same for all who get it */
} WindowSpan;

typedef struct Windows Windows;

Windows *windows_new(void);
void windows_free(Windows *windows);

/* Fold the fast readings of a tick into every scraper's accumulators. NaN is no reading. */
void windows_add(Windows *windows, const Node *node);

/* Closes this scraper's window at now_ns and opens the next: copies what it held of the GPUs of the last windows_add,
 * at most `cap`, into out, in any order; returns how many. The last minute is 55 s to 60 s, or all the time since the
 * first windows_add. Who has no name and comes on another connection gets that, or its own window where it is longer
 * than a minute. A reading is in the window in which it was added, so that each is in exactly one. Scrapes within
 * WINDOW_AGAIN_NS of the one that closed a window get that window again, with its span. What was read of a GPU that is
 * no longer in the node is left out and gone with the window. */
size_t windows_read(Windows *windows, const WindowScraper *scraper, uint64_t now_ns, WindowGpu *out, size_t cap,
                    WindowSpan *ret);
