/* SPDX-License-Identifier: Apache-2.0 */
/* The walk byte by byte, for any processor, and what else reads text slowly. */
#include <string.h>

#include "engine/trace/scan/walk.h"
#include "engine/trace/scan/walk_body.h"

WalkEvent walk_event_plain;

static inline bool edge_matches(const Edge *edge, const char *p)
{
    return memcmp(edge->text, p, edge->len) == 0;
}

static inline const char *text_stop(const char *p, const char *end)
{
    while (p < end && *p != '"' && *p != '\\')
        p++;
    return p;
}

static inline const char *word_stop(const char *p, const char *end)
{
    while (p < end && walk_word_byte(*p))
        p++;
    return p;
}

static inline void nest_masks(const char *p, NestMasks *masks)
{
    *masks = (NestMasks){0};
    for (unsigned int i = 0; i < 64; i++) {
        const unsigned char c = (unsigned char)p[i];
        const uint64_t bit = UINT64_C(1) << i;

        masks->quote |= c == '"' ? bit : 0;
        masks->escape |= c == '\\' ? bit : 0;
        masks->open |= (c | 0x20) == '{' ? bit : 0;
        masks->close |= (c | 0x20) == '}' ? bit : 0;
        masks->behind |= c <= ' ' || c == ',' || c == ':' || (c | 0x20) == '}' ? bit : 0;
    }
}

WalkResult walk_event_plain(Walk *walk, const char *p, const char *end)
{
    return walk_event(walk, p, end);
}

const char *walk_text(const char *p, const char *end, SliceKind *ret_kind)
{
    const char *q = text_end(p, end, ret_kind);

    return q < end ? q + 1 : NULL;
}

const char *walk_nest(const char *p, const char *end, const char **ret_fault)
{
    bool fault = false;
    const char *q = nest_stop(p, end, &fault);

    *ret_fault = fault ? q : NULL;
    return q && q <= end && !fault ? q : NULL;
}

const char *walk_value(const char *p, const char *end, Slice *ret, const char **ret_fault)
{
    SliceKind kind = SLICE_WORD;
    const char *q = NULL;

    *ret_fault = NULL;
    if (p >= end)
        return NULL;
    if (*p == '"') {
        q = walk_text(++p, end, &kind);
    } else if (*p == '[' || *p == '{') {
        kind = SLICE_NEST;
        q = walk_nest(p, end, ret_fault);
    } else {
        q = word_stop(p, end);
        *ret_fault = q == p ? p : NULL;
        if (q >= end || q == p)
            q = NULL;
    }
    if (!q)
        return NULL;
    *ret = (Slice){.at = p, .len = (uint32_t)(q - p - (kind <= SLICE_ESCAPED)), .kind = kind};
    return q;
}
