/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that cannot fail: out of memory prints one line on stderr and aborts. Sizes that come from outside are
 * checked against a named cap by the caller, before. Any thread. Results are released with free(). */
#pragma once

#include <stddef.h>

/* `size` bytes, uninitialised; size 0 gives a pointer that can be freed. Never NULL. */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));

/* count * size zeroed bytes; an overflow of the product aborts. Never NULL. */
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));

/* Grows or shrinks `old` (may be NULL) to count * size bytes; an overflow of the product aborts. Never NULL. */
void *xrealloc(void *old, size_t count, size_t size) __attribute__((returns_nonnull));

/* The same for memory that is filled from its beginning on: where it is several MiB, it asks the kernel for large
 * pages, so that filling it costs few faults. Up to one such page (2 MiB) more than what was filled may be held. */
void *xmalloc_large(size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc_large(void *old, size_t count, size_t size) __attribute__((returns_nonnull));

/* Copy of `text`. Never NULL. */
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));

/* Copy of the first `len` bytes of `text` and a NUL; all `len` bytes must be readable. Never NULL. */
char *xmemdup0(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
