/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A node's life from bytes: events, conditions, ticks, resets, restarts, clock jumps. What the incident engine promises
 * is checked at each step, and abort() called where it is broken. For the random test and the fuzz target. */

#include <stddef.h>
#include <stdint.h>

void stream_run(const uint8_t *data, size_t size);
