/* SPDX-License-Identifier: Apache-2.0 */
/* The walk with what every x86-64 has. */
#include <emmintrin.h>

#include "engine/trace/scan/walk.h"
#include "engine/trace/scan/walk_body.h"
#include "engine/trace/scan/walk_x86.h"

static inline __m128i load(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline uint32_t equal_bytes(__m128i a, __m128i b)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b));
}

static inline uint32_t equal(__m128i v, char c)
{
    return equal_bytes(v, _mm_set1_epi8(c));
}

static inline bool edge_matches(const Edge *edge, const char *p)
{
    for (unsigned int at = 0; at < edge->len; at += 16) {
        const uint32_t other = ~equal_bytes(load(edge->text + at), load(p + at)) & 0xffff;

        if (other && at + (unsigned int)__builtin_ctz(other) < edge->len)
            return false;
    }
    return true;
}

static inline const char *text_stop(const char *p, const char *end)
{
    for (; p < end; p += 16) {
        const __m128i v = load(p);
        const uint32_t hit = equal(v, '"') | equal(v, '\\');

        if (hit)
            return p + __builtin_ctz(hit);
    }
    return p;
}

/* low <= bytes of v <= high. */
static inline __m128i between(__m128i v, char low, char high)
{
    const __m128i from = _mm_sub_epi8(v, _mm_set1_epi8(low));

    return _mm_cmpeq_epi8(_mm_min_epu8(from, _mm_set1_epi8((char)(high - low))), from);
}

static inline uint32_t word_bytes(__m128i v)
{
    const __m128i letter = between(_mm_or_si128(v, _mm_set1_epi8(0x20)), 'a', 'z');
    const __m128i number = _mm_andnot_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(',')), between(v, '+', '9'));
    const __m128i line = _mm_cmpeq_epi8(v, _mm_set1_epi8('_'));

    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letter, number), line));
}

static inline const char *word_stop(const char *p, const char *end)
{
    for (; p < end; p += 16) {
        const uint32_t other = word_bytes(load(p)) ^ 0xffff;

        if (other)
            return p + __builtin_ctz(other);
    }
    return p;
}

static inline void nest_masks(const char *p, NestMasks *masks)
{
    *masks = (NestMasks){0};
    for (unsigned int at = 0; at < 64; at += 16) {
        const __m128i v = load(p + at);
        const __m128i folded = _mm_or_si128(v, _mm_set1_epi8(0x20));
        const __m128i blank = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(' ')), v);
        const uint64_t close = equal(folded, '}');

        masks->quote |= (uint64_t)equal(v, '"') << at;
        masks->escape |= (uint64_t)equal(v, '\\') << at;
        masks->open |= (uint64_t)equal(folded, '{') << at;
        masks->close |= close << at;
        masks->behind |= (close | equal(v, ',') | equal(v, ':') | (uint32_t)_mm_movemask_epi8(blank)) << at;
    }
}

WalkResult walk_event_sse2(Walk *walk, const char *p, const char *end)
{
    return walk_event(walk, p, end);
}
