/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of equal elements with a fixed capacity, allocated once; a push into a full one drops the oldest.
 * The owner embeds it. One thread at a time. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { RING_CAP_MAX = 16 * 1024 * 1024 }; /* elements */

typedef struct Ring {
    unsigned char *data;
    size_t size; /* bytes of an element */
    size_t cap;  /* elements */
    size_t head; /* position of the oldest element */
    size_t len;  /* elements held */
} Ring;

/* A ring of `cap` elements of `size` bytes. -EINVAL for a size or cap of 0, -E2BIG over RING_CAP_MAX. */
int ring_init(Ring *ring, size_t size, size_t cap, Err *err);

/* Frees; accepts a zeroed or done one. */
void ring_done(Ring *ring);

/* Forgets all elements, keeps the memory. */
void ring_clear(Ring *ring);

/* Copies one element in. Returns its place, valid until it is overwritten, cap pushes later. */
void *ring_push(Ring *ring, const void *element);

/* Drops the `count` oldest elements; count must not be over ring_len. */
void ring_drop(Ring *ring, size_t count);

/* Element i, 0 the oldest; i must be under ring_len. ring_newest gives NULL on an empty ring. */
void *ring_at(const Ring *ring, size_t i);
void *ring_newest(const Ring *ring);

size_t ring_len(const Ring *ring);
