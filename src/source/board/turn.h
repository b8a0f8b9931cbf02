/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The board's sequence counters. What lies under a counter is copied by atomic words: the writer makes the counter odd,
 * stores every word with release order, makes it even; the reader loads every word with acquire order between two looks
 * at the counter. Who sees a new word therefore sees the odd counter before it, and no fence is needed. On x86-64 all
 * of these are plain moves. A writer may be killed anywhere: the reader gives up after BOARD_TRIES, and the next writer
 * goes on from an odd counter. And what makes any bytes that were copied safe to use.
 */

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "model/sample.h"
#include "source/board/words.h"

enum { BOARD_TRIES = 4 };

/* The two sequentially consistent accesses keep what is stored later, also by plain stores, behind the odd counter: a
 * store-release and a later load-acquire do not pass each other, and nothing passes a load-acquire upwards. */
static inline void turn_begin(_Atomic uint32_t *turn)
{
    atomic_store(turn, (atomic_load_explicit(turn, memory_order_relaxed) + 1) | 1);
    (void)atomic_load(turn);
}

static inline void turn_commit(_Atomic uint32_t *turn)
{
    uint32_t now = atomic_load_explicit(turn, memory_order_relaxed);

    assert(now & 1);
    atomic_store_explicit(turn, now + 1, memory_order_release);
}

/* One try: `size` bytes at `from` as they were while the counter was even and the same. */
static inline bool turn_copy(const _Atomic uint32_t *turn, void *to, const void *from, size_t size)
{
    uint32_t before = atomic_load_explicit(turn, memory_order_acquire);

    if (before & 1)
        return false;
    words_load(to, from, size);
    return atomic_load_explicit(turn, memory_order_relaxed) == before;
}

static inline bool turn_is_torn(const _Atomic uint32_t *turn)
{
    return atomic_load_explicit(turn, memory_order_acquire) & 1;
}

static inline void tame_bool(bool *value)
{
    unsigned char byte;

    memcpy(&byte, value, 1);
    *value = byte != 0;
}

static inline void tame_sample(Sample *sample)
{
    tame_bool(&sample->valid);
    if (sample->valid && sample->kind != SAMPLE_INT64 && sample->kind != SAMPLE_DOUBLE)
        sample_set_absent(sample, sample->time_ns, ABSENCE_FAILED);
    if (sample->absence >= ABSENCE_END)
        sample->absence = ABSENCE_FAILED;
}
