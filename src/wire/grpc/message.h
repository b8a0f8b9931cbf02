/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What client and server do alike: fields, and the prefix of a message. For this folder's files.
 */

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

enum { PREFIX_BYTES = 5 }; /* before a message: a flag for compression, the length, big-endian */

/* nghttp2 fails in the calls that this is put around only for want of memory. */
static inline void check_memory(int rc)
{
    if (rc < 0)
        (void)xcalloc(SIZE_MAX, SIZE_MAX);
}

/* nghttp2 copies names and values, and does not write to them. */
static inline nghttp2_nv make_field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

static inline bool is_word(const uint8_t *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* Of a message that has its prefix. */
static inline size_t announced_length(const Str *message)
{
    const uint8_t *prefix = (const uint8_t *)message->text;

    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}
