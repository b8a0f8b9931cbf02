/* SPDX-License-Identifier: Apache-2.0 */
/* The untyped parts of VEC. */
#include "base/vec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/redzone.h"

enum { VEC_CAP_MIN = 8 };

/* Opens the last of `count` elements and those before it that are closed. */
static void *open_elements(void *at, size_t count, size_t size)
{
    for (char *last = at; count > 0 && redzone_hit(last + count * size - 1); count--)
        redzone_open(last + (count - 1) * size, size);
    return at;
}

void *vec_grow(void *at, size_t *cap, size_t count, size_t size)
{
    size_t wanted = *cap * 2;

    if (count <= *cap)
        return open_elements(at, count, size);
    if (wanted < count)
        wanted = count;
    if (wanted < VEC_CAP_MIN)
        wanted = VEC_CAP_MIN;
    at = xrealloc(at, wanted, size);
    *cap = wanted;
    redzone_close((char *)at + count * size, (wanted - count) * size);
    return at;
}

size_t vec_close_gap(void *at, size_t len, size_t i, size_t size)
{
    char *bytes = at;

    assert(i < len);
    memmove(bytes + i * size, bytes + (i + 1) * size, (len - i - 1) * size);
    return len - 1;
}
