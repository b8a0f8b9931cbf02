/* SPDX-License-Identifier: Apache-2.0 */
/* The walk with AVX2 (x86-64-v3). Compiled with those instructions on; called where the processor has them. */
#include <immintrin.h>

#include "engine/trace/scan/walk.h"
#include "engine/trace/scan/walk_body.h"

static inline __m256i load_block(const char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline uint32_t equal_bytes(__m256i v, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(c)));
}

/* Bits of the bytes that are equal. */
static inline uint32_t same_masked(const char *a, const char *b)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_block(a), load_block(b)));
}

static inline bool edge_matches(const Edge *edge, const char *p)
{
    const char *text = edge->text;
    unsigned int left = edge->len;

    for (; left > 64; left -= 64, text += 64, p += 64)
        if ((same_masked(text, p) & same_masked(text + 32, p + 32)) != UINT32_MAX)
            return false;
    if (~same_masked(text, p) & (uint32_t)edge->mask)
        return false;
    return left <= 32 || !(~same_masked(text + 32, p + 32) & (uint32_t)(edge->mask >> 32));
}

static inline const char *text_stop(const char *p, const char *end)
{
    for (; p < end; p += 32) {
        const __m256i v = load_block(p);
        const uint32_t hit = equal_bytes(v, '"') | equal_bytes(v, '\\');

        if (hit)
            return p + __builtin_ctz(hit);
    }
    return p;
}

/* Bytes of words: two tables, by the low and by the high half of a byte, share a bit. Bit 0: digits; 1: + - . /;
 * 2: A-O a-o; 3: P-Z p-z; 4: _. */
static inline uint32_t word_bytes(__m256i v)
{
    const __m256i low = _mm256_setr_epi8(9, 13, 13, 13, 13, 13, 13, 13, 13, 13, 12, 6, 4, 6, 6, 22, 9, 13, 13, 13, 13,
                                         13, 13, 13, 13, 13, 12, 6, 4, 6, 6, 22);
    const __m256i high = _mm256_setr_epi8(0, 0, 2, 1, 4, 24, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 4, 24, 4, 8, 0,
                                          0, 0, 0, 0, 0, 0, 0);
    const __m256i half = _mm256_set1_epi8(15);
    const __m256i a = _mm256_shuffle_epi8(low, _mm256_and_si256(v, half));
    const __m256i b = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), half));

    return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(a, b), _mm256_setzero_si256()));
}

static inline const char *word_stop(const char *p, const char *end)
{
    for (; p < end; p += 32) {
        const uint32_t other = ~word_bytes(load_block(p));

        if (other)
            return p + __builtin_ctz(other);
    }
    return p;
}

static inline void half_masks(__m256i v, unsigned int shift, NestMasks *masks)
{
    const __m256i folded = _mm256_or_si256(v, _mm256_set1_epi8(0x20));
    const __m256i blank = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(' ')), v);
    const uint64_t close = equal_bytes(folded, '}');

    masks->quote |= (uint64_t)equal_bytes(v, '"') << shift;
    masks->escape |= (uint64_t)equal_bytes(v, '\\') << shift;
    masks->open |= (uint64_t)equal_bytes(folded, '{') << shift;
    masks->close |= close << shift;
    masks->behind |= (close | equal_bytes(v, ',') | equal_bytes(v, ':') | (uint32_t)_mm256_movemask_epi8(blank))
                     << shift;
}

static inline void nest_masks(const char *p, NestMasks *masks)
{
    *masks = (NestMasks){0};
    half_masks(load_block(p), 0, masks);
    half_masks(load_block(p + 32), 32, masks);
}

WalkResult walk_event_avx2(Walk *walk, const char *p, const char *end)
{
    return walk_event(walk, p, end);
}
