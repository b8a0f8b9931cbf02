/* SPDX-License-Identifier: Apache-2.0 */
/* The walk itself, compiled once for each kind of processor. The file that includes it has defined, for its vectors:
 *
 *   bool edge_matches(const Edge *edge, const char *p)         the edge's bytes stand at p
 *   const char *text_stop(const char *p, const char *end)      the first quote or backslash, or something >= end
 *   const char *word_stop(const char *p, const char *end)      the first byte that is in no word, or something >= end
 *   void nest_masks(const char *p, NestMasks *masks)           of the 64 bytes at p
 *
 * All may read up to SCAN_PAD bytes behind `end`. */

typedef struct NestMasks {
    uint64_t quote, escape, open, close;
    uint64_t behind; /* what may stand behind a text: blank , : ] } */
} NestMasks;

static bool edge_matches(const Edge *edge, const char *p);
static const char *text_stop(const char *p, const char *end);
static const char *word_stop(const char *p, const char *end);
static void nest_masks(const char *p, NestMasks *masks);

/* Bit i becomes the xor of bits 0..i: set inside of texts, their first quote included. */
static inline uint64_t prefix_xor(uint64_t bits)
{
    for (unsigned int shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

/* Bytes escaped by a backslash; *carry: the first byte of the next block is escaped. */
static inline uint64_t escaped_bytes(uint64_t escapes, bool *carry)
{
    uint64_t escaped = *carry;

    escapes &= ~escaped;
    *carry = false;
    while (escapes) {
        const unsigned int at = (unsigned int)__builtin_ctzll(escapes);

        escapes &= escapes - 1;
        if (at == 63) {
            *carry = true;
            break;
        }
        escaped |= UINT64_C(2) << at;
        escapes &= ~(UINT64_C(2) << at);
    }
    return escaped;
}

/* Behind the bracket that closes the one at p; NULL: not before `end`. On a fault, near it. */
static inline const char *nest_stop(const char *p, const char *end, bool *fault)
{
    uint64_t inside = 0, behind = 0; /* carried: within a text; a text has just ended */
    bool escape = false;
    uint64_t depth = 0;

    for (; p < end; p += 64) {
        NestMasks m;

        nest_masks(p, &m);
        const uint64_t valid = end - p >= 64 ? UINT64_MAX : (UINT64_C(1) << (end - p)) - 1;
        uint64_t text = inside;

        if (m.quote | m.escape | inside | escape) {
            if (m.escape | escape)
                m.quote &= ~escaped_bytes(m.escape, &escape);
            text ^= prefix_xor(m.quote);
        }
        uint64_t brackets = (m.open | m.close) & ~text & valid;
        uint64_t here = valid;

        for (; brackets; brackets &= brackets - 1) {
            const uint64_t bit = brackets & (~brackets + 1);

            if (m.open & bit) {
                depth++;
            } else if (--depth == 0) {
                here = bit | (bit - 1);
                break;
            }
        }
        const uint64_t ends = m.quote & ~text;

        if (((ends << 1) | behind) & ~m.behind & here) {
            *fault = true;
            return p;
        }
        if (brackets)
            return p + 1 + __builtin_ctzll(brackets);
        behind = ends >> 63;
        inside = text >> 63 ? UINT64_MAX : 0;
    }
    return NULL;
}

static inline const char *text_end(const char *p, const char *end, SliceKind *kind)
{
    const char *q = text_stop(p, end);

    *kind = SLICE_TEXT;
    while (q < end && *q == '\\') {
        *kind = SLICE_ESCAPED;
        if (end - q <= 2)
            return end;
        q = text_stop(q + 2, end);
    }
    return q;
}

static inline void note_step(Trail *trail, const Walk *walk, const Node *node, const Edge *edge, const char *from)
{
    if (trail->steps < TRAIL_STEPS) {
        trail->step[trail->steps].from = from;
        trail->step[trail->steps].node = (uint8_t)(node - walk->node);
        trail->step[trail->steps].edge = (uint8_t)(edge - node->edge);
    }
    trail->steps++;
}

static inline void note_kind(Trail *trail, SliceKind kind)
{
    if (trail->steps <= TRAIL_STEPS)
        trail->step[trail->steps - 1].kind = (uint8_t)kind;
}

static inline void take_constants(Walk *walk, const Edge *edge, const char *p)
{
    const Constant *end = edge->constant + edge->constants;

    for (const Constant *constant = edge->constant; constant < end; constant++)
        walk->slot[constant->slot] = (Slice){.at = p + constant->at, .len = constant->len, .kind = constant->kind};
}

/* One step of `node` at p, which no edge knows, into walk->slow. */
__attribute__((noinline)) static WalkResult by_the_grammar(Walk *walk, Node *node, const char *p, const char *end)
{
    walk->after = p;
    return learn_step(walk, node, &walk->after, end, &walk->slow);
}

__attribute__((noinline)) static WalkResult walk_over_nest(Walk *walk, const char *p, const char *end)
{
    bool fault = false;

    walk->after = nest_stop(p, end, &fault);
    if (fault)
        return WALK_FAULT;
    return walk->after && walk->after <= end ? WALK_DONE : WALK_MORE;
}

/* With `trail` (known when this is compiled) the way is noted. */
__attribute__((always_inline)) static inline WalkResult walk_over(Walk *walk, const char *p, const char *end,
                                                                  Trail *trail)
{
    Node *node = &walk->node[NODE_START];
    uint64_t present = 0;

    for (;;) {
        Edge *edge = node->edge;
        const char *before = p, *q;

        while (!edge_matches(edge, p))
            edge++;
        const Step *step = &edge->step;

        present = (present & step->keep) | edge->add;
        take_constants(walk, edge, p);
        p += step->advance;
        if (trail)
            note_step(trail, walk, node, edge, before);
    go_on:;
        Slice *slice = &walk->slot[step->slot];
        SliceKind kind = SLICE_WORD;

        if (step->kind == SLICE_TEXT) {
            q = text_end(p, end, &kind);
            if (q >= end)
                return WALK_MORE;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = kind};
            p = q + 1;
        } else if (step->kind == SLICE_WORD && (q = word_stop(p, end)) != p) {
            if (q >= end)
                return WALK_MORE;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = SLICE_WORD};
            p = q;
        } else if (step->kind == SLICE_NEST) {
            const WalkResult result = walk_over_nest(walk, p, end);

            if (result != WALK_DONE)
                return result;
            q = walk->after;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = kind = SLICE_NEST};
            p = q;
        } else if (step->kind == BEHIND_END) {
            break;
        } else { /* unknown bytes, or an edge learned before a word and something else here */
            const WalkResult result = by_the_grammar(walk, node, before, end);

            if (result != WALK_DONE)
                return result;
            p = walk->after;
            step = &walk->slow;
            present = (present & step->keep) | (step->kind <= SLICE_NEST ? SLOT_BIT(step->slot) : 0);
            if (trail)
                trail->learned = true;
            goto go_on;
        }
        if (trail && !trail->learned)
            note_kind(trail, kind);
        node = step->next;
    }
    if (p > end)
        return WALK_MORE;
    walk->present = present & ~SLOT_BIT(SLOT_SKIP);
    walk->after = p;
    return WALK_DONE;
}

__attribute__((noinline)) static WalkResult walk_noting(Walk *walk, const char *p, const char *end)
{
    Trail trail = {.steps = 0};
    const WalkResult result = walk_over(walk, p, end, &trail);

    if (result == WALK_DONE)
        fuse(walk, &trail);
    walk->until = walk->pause;
    return result;
}

/* Text that comes from another processor's cache: a few events ahead, as much as one of them is long. */
static inline void fetch_ahead(const char *p)
{
    enum { AHEAD = 2048, EVENT = 320, LINE = 64 };

    for (unsigned int at = AHEAD; at < AHEAD + EVENT; at += LINE)
        __builtin_prefetch(p + at);
}

static inline WalkResult walk_event(Walk *walk, const char *p, const char *end)
{
    fetch_ahead(p);
    if (--walk->until == 0)
        return walk_noting(walk, p, end);
    return walk_over(walk, p, end, NULL);
}
