/* SPDX-License-Identifier: Apache-2.0 */
/* A growable array of any type: a struct with `at`, `len` and `cap`, and the few things done with it. A zeroed one is
 * empty. The owner embeds it and calls vec_done. Growing moves the elements: keep indices, not pointers.
 * Built with AddressSanitizer, the room that was not yet used or reserved is poisoned. One thread at a time.
 *
 *     typedef VEC(int) IntVec;
 *     IntVec ids = {0};
 *     vec_push(&ids, 7);
 *     for (size_t i = 0; i < ids.len; i++)
 *         use(ids.at[i]);
 *     vec_done(&ids);
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/redzone.h"

#define VEC(type)                                                                                                      \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        size_t len;                                                                                                    \
        size_t cap;                                                                                                    \
    }

/* Room for `count` elements in all. Aborts when out of memory. */
#define vec_reserve(vec, count) ((vec)->at = vec_grow((vec)->at, &(vec)->cap, (count), sizeof(*(vec)->at)))

/* Appends a copy of `value`. */
#define vec_push(vec, value) (vec_reserve((vec), (vec)->len + 1), (vec)->at[(vec)->len++] = (value))

/* Appends a zeroed element and gives its address, valid until the next push. */
#define vec_add(vec)                                                                                                   \
    (vec_reserve((vec), (vec)->len + 1), memset(&(vec)->at[(vec)->len], 0, sizeof(*(vec)->at)),                        \
     &(vec)->at[(vec)->len++])

/* Removes element i, closing the gap; the order is kept. */
#define vec_remove(vec, i) ((vec)->len = vec_close_gap((vec)->at, (vec)->len, (i), sizeof(*(vec)->at)))

/* Sorts by a comparison of two elements, as qsort. */
#define vec_sort(vec, compare) ((vec)->len > 1 ? qsort((vec)->at, (vec)->len, sizeof(*(vec)->at), (compare)) : (void)0)

/* Length 0, memory kept. */
#define vec_clear(vec) (redzone_close((vec)->at, (vec)->cap * sizeof(*(vec)->at)), (void)((vec)->len = 0))

/* Frees the array (not what its elements own); the vector is empty again. */
#define vec_done(vec) (free((vec)->at), (vec)->at = NULL, (void)((vec)->len = (vec)->cap = 0))

/* The parts of the macros that are functions; not for direct use. vec_grow returns the array, moved where *cap was
 * under `count` (it at least doubles); vec_close_gap returns the new length. */
void *vec_grow(void *at, size_t *cap, size_t count, size_t size);
size_t vec_close_gap(void *at, size_t len, size_t i, size_t size);
