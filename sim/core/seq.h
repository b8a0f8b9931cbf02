/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reading the plan without a lock: copy by atomic words between two looks at the sequence counter, and again if it
 * changed. Writers store by atomic words too, so that a torn copy is never undefined, only discarded. Every word is
 * loaded with acquire and stored with release order: who sees a new word sees the odd counter that was stored before
 * it. No fence is needed then, which thread sanitizers do not model; on x86-64 both are plain moves.
 */
#include <stddef.h>

#include "sim/core/image.h"

typedef uint64_t __attribute__((may_alias)) SeqWord;

/* Copies n bytes (a multiple of 8, both sides aligned) out of or into the shared plan. */
static inline void seq_load(void *to, const void *from, size_t n)
{
    SeqWord *d = to;
    const SeqWord *s = from;
    for (size_t i = 0; i < n / 8; i++)
        d[i] = __atomic_load_n(&s[i], __ATOMIC_ACQUIRE);
}

static inline void seq_store(void *to, const void *from, size_t n)
{
    SeqWord *d = to;
    const SeqWord *s = from;
    for (size_t i = 0; i < n / 8; i++)
        __atomic_store_n(&d[i], s[i], __ATOMIC_RELEASE);
}

#define seq_get(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define seq_put(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

/* Waits for an even counter and returns it; takes over from a writer that died. */
uint32_t seq_begin(SimImage *image);
/* 1 if everything read since seq_begin must be read again. */
static inline int seq_retry(SimImage *image, uint32_t seq)
{
    return atomic_load_explicit(&image->plan_seq, memory_order_relaxed) != seq;
}
