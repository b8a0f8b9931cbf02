/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The input as a source that readers pull from, and what a reader makes of it as one text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

typedef struct FuzzSource {
    const uint8_t *at;
    size_t left;
} FuzzSource;

static inline ssize_t fuzz_source_pull(void *context, void *buffer, size_t len, Err *err)
{
    FuzzSource *source = context;
    const size_t n = len < source->left ? len : source->left;

    (void)err;
    if (n)
        memcpy(buffer, source->at, n);
    source->at += n;
    source->left -= n;
    return (ssize_t)n;
}

/* The text of a reader NAME_new, NAME_read, NAME_given, NAME_free, read in pieces of at most 4096 bytes. */
#define FUZZ_SOURCE_TEXT(name, Type)                                                                                   \
    static Str read_text(const uint8_t *data, size_t size, size_t piece)                                               \
    {                                                                                                                  \
        FuzzSource source = {data, size};                                                                              \
        Type *reader = name##_new(fuzz_source_pull, &source);                                                          \
        char buffer[4096];                                                                                             \
        Str text;                                                                                                      \
        ssize_t n;                                                                                                     \
                                                                                                                       \
        str_init(&text, 64 << 20);                                                                                     \
        while ((n = name##_read(reader, buffer, piece, NULL)) > 0)                                                     \
            str_addn(&text, buffer, (size_t)n);                                                                        \
        if (n < 0 || name##_given(reader) != text.len)                                                                 \
            abort();                                                                                                   \
        name##_free(reader);                                                                                           \
        return text;                                                                                                   \
    }
