/* SPDX-License-Identifier: Apache-2.0 */
/* The walk with NEON, which every arm64 has. */
#include <arm_neon.h>

#include "base/cleanup.h"
#include "engine/trace/scan/walk.h"
#include "engine/trace/scan/walk_body.h"

static inline uint8x16_t load_16(const char *p)
{
    return vld1q_u8((const uint8_t *)p);
}

/* Four bits for each byte of a comparison's result. */
static inline uint64_t nibble_mask(uint8x16_t v)
{
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(v), 4)), 0);
}

static inline bool edge_matches(const Edge *edge, const char *p)
{
    for (unsigned int at = 0; at < edge->len; at += 16) {
        const uint64_t other = ~nibble_mask(vceqq_u8(load_16(edge->text + at), load_16(p + at)));

        if (!other)
            continue;
        if (at + (unsigned int)__builtin_ctzll(other) / 4 < edge->len)
            return false;
    }
    return true;
}

static inline const char *text_stop(const char *p, const char *end)
{
    for (; p < end; p += 16) {
        const uint8x16_t v = load_16(p);
        const uint64_t hit = nibble_mask(vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')), vceqq_u8(v, vdupq_n_u8('\\'))));

        if (hit)
            return p + __builtin_ctzll(hit) / 4;
    }
    return p;
}

static inline uint8x16_t is_between(uint8x16_t v, uint8_t low, uint8_t high)
{
    return vcleq_u8(vsubq_u8(v, vdupq_n_u8(low)), vdupq_n_u8((uint8_t)(high - low)));
}

static inline uint8x16_t word_bytes(uint8x16_t v)
{
    const uint8x16_t letter = is_between(vorrq_u8(v, vdupq_n_u8(0x20)), 'a', 'z');
    const uint8x16_t number = vbicq_u8(is_between(v, '+', '9'), vceqq_u8(v, vdupq_n_u8(',')));

    return vorrq_u8(vorrq_u8(letter, number), vceqq_u8(v, vdupq_n_u8('_')));
}

static inline const char *word_stop(const char *p, const char *end)
{
    for (; p < end; p += 16) {
        const uint64_t other = ~nibble_mask(word_bytes(load_16(p)));

        if (other)
            return p + __builtin_ctzll(other) / 4;
    }
    return p;
}

/* One bit for each of 64 bytes that are 0 or 255. */
static inline uint64_t bit_mask(const uint8x16_t v[4])
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t weight = vld1q_u8(weights);
    const uint8x16_t low = vpaddq_u8(vandq_u8(v[0], weight), vandq_u8(v[1], weight));
    const uint8x16_t high = vpaddq_u8(vandq_u8(v[2], weight), vandq_u8(v[3], weight));
    const uint8x16_t four = vpaddq_u8(low, high);

    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(four, four)), 0);
}

static inline void nest_masks(const char *p, NestMasks *masks)
{
    uint8x16_t quote[4], escape[4], open[4], close[4], behind[4];

    for (unsigned int i = 0; i < 4; i++) {
        const uint8x16_t v = load_16(p + 16 * i);
        const uint8x16_t folded = vorrq_u8(v, vdupq_n_u8(0x20));

        quote[i] = vceqq_u8(v, vdupq_n_u8('"'));
        escape[i] = vceqq_u8(v, vdupq_n_u8('\\'));
        open[i] = vceqq_u8(folded, vdupq_n_u8('{'));
        close[i] = vceqq_u8(folded, vdupq_n_u8('}'));
        behind[i] = vorrq_u8(vorrq_u8(close[i], vceqq_u8(v, vdupq_n_u8(','))),
                             vorrq_u8(vceqq_u8(v, vdupq_n_u8(':')), vcleq_u8(v, vdupq_n_u8(' '))));
    }
    *masks = (NestMasks){bit_mask(quote), bit_mask(escape), bit_mask(open), bit_mask(close), bit_mask(behind)};
}

WalkResult walk_event_neon(Walk *walk, const char *p, const char *end)
{
    return walk_event(walk, p, end);
}

const Walker walkers[] = {
    {.name = "neon", .event = walk_event_neon, .usable = walk_always_usable},
    {.name = "plain", .event = walk_event_plain, .usable = walk_always_usable},
};
const size_t walkers_count = ARRAY_LEN(walkers);
