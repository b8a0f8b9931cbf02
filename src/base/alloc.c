/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that aborts when there is no memory. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LARGE_PAGE = 2 << 20,
    LARGE_LEAST = 4 * LARGE_PAGE, /* smaller blocks would grow by too much of themselves */
    HEAP_WORDS = 64,              /* what malloc may put in front of and behind a block of whole pages */
};

static _Noreturn void die_out_of_memory(void)
{
    static const char text[] = "out of memory\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

    (void)written;
    abort();
}

void *xmalloc(size_t size)
{
    void *memory = malloc(size ? size : 1);

    if (!memory)
        die_out_of_memory();
    return memory;
}

void *xcalloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);

    if (!memory)
        die_out_of_memory();
    return memory;
}

void *xrealloc(void *old, size_t count, size_t size)
{
    size_t bytes;
    void *memory;

    if (__builtin_mul_overflow(count, size, &bytes))
        die_out_of_memory();
    memory = realloc(old, bytes ? bytes : 1);
    if (!memory)
        die_out_of_memory();
    return memory;
}

/* Whole large pages with what malloc adds: the kernel puts mappings of such lengths where such pages fit. */
static size_t large_size(size_t size)
{
    return size < LARGE_LEAST || size > SIZE_MAX / 2
               ? size
               : (size + HEAP_WORDS + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE - HEAP_WORDS;
}

/* A hint: what comes of it does not matter. */
static void *advise_large(void *memory, size_t size)
{
    const uintptr_t begin = ((uintptr_t)memory - HEAP_WORDS + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)memory + size + HEAP_WORDS) / LARGE_PAGE * LARGE_PAGE;

    if (size >= LARGE_LEAST && begin < end)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    return memory;
}

void *xmalloc_large(size_t size)
{
    const size_t rounded = large_size(size);

    return advise_large(xmalloc(rounded), rounded);
}

void *xrealloc_large(void *old, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        die_out_of_memory();
    bytes = large_size(bytes);
    return advise_large(xrealloc(old, bytes, 1), bytes);
}

char *xstrdup(const char *text)
{
    return xmemdup0(text, strlen(text));
}

char *xmemdup0(const char *text, size_t len)
{
    char *copy;

    if (len == SIZE_MAX)
        die_out_of_memory();
    copy = xmalloc(len + 1);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
