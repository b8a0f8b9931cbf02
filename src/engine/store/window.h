/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Minimum, mean and maximum of each fast metric since the last scrape of the same scraper. A scraper is identified by a
 * text (address and user agent) and has accumulators of its own; when all are in use, the one that was not seen for
 * longest is reused. A new scraper gets the last minute. Fixed memory (GPUs without a PCI address and those beyond
 * NODE_GPUS_MAX are left out). Pure, one thread.
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

typedef struct Windows Windows;

Windows *windows_new(void);
void windows_free(Windows *windows);

/* Fold the fast readings of a tick into every scraper's accumulators. NaN is no reading. */
void windows_add(Windows *windows, const Node *node);

/* Closes this scraper's window at now_ns and opens the next: copies what it held of the GPUs of the last windows_add,
 * at most `cap`, into out, in any order; returns how many. *ret_span_ns is the window's length, for a new
 * scraper 55 s to 60 s or all the time since the first windows_add. A reading is in the window in which it was added,
 * so that each is in exactly one. Scrapes within WINDOW_AGAIN_NS of the one that closed a window get that window again,
 * with its span. What was read of a GPU that is no longer in the node is left out and gone with the window. */
size_t windows_read(Windows *windows, const char *scraper, uint64_t now_ns, WindowGpu *out, size_t cap,
                    uint64_t *ret_span_ns);
