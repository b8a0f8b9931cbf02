/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: element i lies at position (head + i) modulo cap. */
#include "base/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

int ring_init(Ring *ring, size_t size, size_t cap, Err *err)
{
    if (!size || !cap)
        return err_set(err, -EINVAL, "a ring of %zu elements of %zu bytes", cap, size);
    if (cap > RING_CAP_MAX)
        return err_set(err, -E2BIG, "a ring of %zu elements, the most is %d", cap, RING_CAP_MAX);
    *ring = (Ring){.data = xcalloc(cap, size), .size = size, .cap = cap};
    return 0;
}

void ring_done(Ring *ring)
{
    free(ring->data);
    *ring = (Ring){0};
}

void ring_clear(Ring *ring)
{
    ring->head = 0;
    ring->len = 0;
}

void *ring_at(const Ring *ring, size_t i)
{
    size_t position = ring->head + i;

    assert(i < ring->len);
    if (position >= ring->cap)
        position -= ring->cap;
    return ring->data + position * ring->size;
}

void *ring_newest(const Ring *ring)
{
    return ring->len ? ring_at(ring, ring->len - 1) : NULL;
}

void *ring_push(Ring *ring, const void *element)
{
    if (ring->len == ring->cap)
        ring_drop(ring, 1);
    ring->len++;
    return memcpy(ring_at(ring, ring->len - 1), element, ring->size);
}

void ring_drop(Ring *ring, size_t count)
{
    assert(count <= ring->len);
    ring->len -= count;
    ring->head += count;
    if (ring->head >= ring->cap)
        ring->head -= ring->cap;
}

size_t ring_len(const Ring *ring)
{
    return ring->len;
}
