/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that aborts when there is no memory. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void die(void)
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
        die();
    return memory;
}

void *xcalloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);

    if (!memory)
        die();
    return memory;
}

void *xrealloc(void *old, size_t count, size_t size)
{
    size_t bytes;
    void *memory;

    if (__builtin_mul_overflow(count, size, &bytes))
        die();
    memory = realloc(old, bytes ? bytes : 1);
    if (!memory)
        die();
    return memory;
}

char *xstrdup(const char *text)
{
    return xmemdup0(text, strlen(text));
}

char *xmemdup0(const char *text, size_t len)
{
    char *copy;

    if (len == SIZE_MAX)
        die();
    copy = xmalloc(len + 1);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
