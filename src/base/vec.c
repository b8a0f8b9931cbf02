/* SPDX-License-Identifier: Apache-2.0 */
/* The untyped parts of VEC. */
#include "base/vec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

enum { VEC_CAP_MIN = 8 };

void *vec_grow(void *at, size_t *cap, size_t count, size_t size)
{
    size_t wanted = *cap * 2;

    if (count <= *cap)
        return at;
    if (wanted < count)
        wanted = count;
    if (wanted < VEC_CAP_MIN)
        wanted = VEC_CAP_MIN;
    at = xrealloc(at, wanted, size);
    *cap = wanted;
    return at;
}

size_t vec_close_gap(void *at, size_t len, size_t i, size_t size)
{
    char *bytes = at;

    assert(i < len);
    memmove(bytes + i * size, bytes + (i + 1) * size, (len - i - 1) * size);
    return len - 1;
}
