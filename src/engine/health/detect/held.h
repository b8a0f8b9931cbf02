/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The share of time in which clocks were held down for a reason: by the driver's counters of nanoseconds or, if those
 * are missing or stand still, by sampled bits. For the detectors.
 */

#include "engine/health/detect/detect_inside.h"

typedef enum HeldReason { HELD_HEAT, HELD_BRAKE, HELD_LIMIT, HELD_ANY, HELD_REASON_END } HeldReason;

typedef struct Held {
    Trail counted[2]; /* two counters of one reason may run at the same time: the larger share counts */
    Trail sampled;
} Held;

/* Adds the newest values. False: neither counter nor bits. HELD_ANY has bits alone. */
bool held_step(const DetectTurn *turn, const DetectSeen *seen, HeldReason reason, uint64_t window_ns, Held *held);
/* Over the window, 0 to 1; false while less than half of it is known. */
bool held_share(const Held *held, uint64_t window_ns, double *ret);
