/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies into and out of shared memory by atomic words, so that a copy which is torn by a writer is never undefined,
 * only of no use. Loads acquire, stores release: see board.c. Any alignment and size; words where both sides have them.
 */

#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) Word;

static inline size_t words_in(const void *a, const void *b, size_t size)
{
    return ((uintptr_t)a | (uintptr_t)b) % sizeof(Word) ? 0 : size / sizeof(Word);
}

static inline void words_load(void *to, const void *from, size_t size)
{
    size_t words = words_in(to, from, size);
    unsigned char *to_byte = to;
    const unsigned char *from_byte = from;

    for (size_t i = 0; i < words; i++)
        ((Word *)to)[i] = __atomic_load_n((const Word *)from + i, __ATOMIC_ACQUIRE);
    for (size_t i = words * sizeof(Word); i < size; i++)
        to_byte[i] = __atomic_load_n(&from_byte[i], __ATOMIC_ACQUIRE);
}

static inline void words_store(void *to, const void *from, size_t size)
{
    size_t words = words_in(to, from, size);
    unsigned char *to_byte = to;
    const unsigned char *from_byte = from;

    for (size_t i = 0; i < words; i++)
        __atomic_store_n((Word *)to + i, ((const Word *)from)[i], __ATOMIC_RELEASE);
    for (size_t i = words * sizeof(Word); i < size; i++)
        __atomic_store_n(&to_byte[i], from_byte[i], __ATOMIC_RELEASE);
}
