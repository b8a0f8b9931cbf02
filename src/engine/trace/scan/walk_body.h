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

/* Bytes that a backslash takes its meaning from; *carry: the first byte of the next block is one. */
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

/* How far the values behind an edge are from having one length: a change counts as much as CHANGE_POINTS values without
 * one. */
enum { CHANGE_POINTS = 8, WILD_POINTS = 24, MOST_POINTS = 64 };

/* q, the end of the value at p. Where values mostly have the length of the last one, the processor may go on from there
 * without waiting until q is known; where they do not, that would cost more than it gains. */
static inline const char *as_usual(Edge *edge, const char *p, const char *q)
{
    const char *usual = p + edge->usual;
    const unsigned int points = edge->points;

    if (points < WILD_POINTS && __builtin_expect(q == usual, 1)) {
        __asm__("" : "+r"(usual)); /* not q again */
        edge->points = (uint8_t)(points - (points > 0));
        return usual;
    }
    edge->points = (uint8_t)(q == usual ? points - 1 : points < MOST_POINTS ? points + CHANGE_POINTS : points);
    edge->usual = (uint32_t)(q - p);
    return q;
}

static WalkResult walk_over(Walk *walk, const char *p, const char *end)
{
    Node *node = &walk->node[NODE_START];
    uint64_t present = 0;
    Step slow;

    for (;;) {
        Edge *edge = node->edge;
        const Edge *last = edge + node->edges;
        const Step *step;
        const char *before = p, *q;
        bool fault = false;

        while (edge < last && !edge_matches(edge, p))
            edge++;
        if (__builtin_expect(edge < last, 1)) {
            step = &edge->step;
            p += step->advance;
        } else {
        by_the_grammar:
            p = before;
            const WalkResult result = learn_step(walk, (unsigned int)(node - walk->node), &p, end, &slow);
            walk->after = p;
            if (result != WALK_DONE)
                return result;
            step = &slow;
            edge = node->edge; /* any: there is one of each node */
        }
        present &= step->keep;
        if (p >= end) {
            if (p > end || step->next != NODE_END)
                return WALK_MORE;
        }
        if (step->next == NODE_END)
            break;
        Slice *slice = &walk->slot[step->slot];
        SliceKind kind = SLICE_WORD;

        if (step->kind == SLICE_TEXT) {
            q = text_end(p, end, &kind);
            if (q >= end)
                return WALK_MORE;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = kind};
            p = as_usual(edge, p, q) + 1;
        } else if (step->kind == SLICE_WORD) {
            q = word_stop(p, end);
            if (q == p)
                goto by_the_grammar; /* learned before a word, but here is something else */
            if (q >= end)
                return WALK_MORE;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = SLICE_WORD};
            p = as_usual(edge, p, q);
        } else {
            q = nest_stop(p, end, &fault);
            walk->after = q;
            if (fault)
                return WALK_FAULT;
            if (!q || q > end)
                return WALK_MORE;
            *slice = (Slice){.at = p, .len = (uint32_t)(q - p), .kind = SLICE_NEST};
            p = q;
        }
        present |= SLOT_BIT(step->slot);
        node = &walk->node[step->next];
    }
    walk->present = present & ~SLOT_BIT(SLOT_SKIP);
    walk->after = p;
    return WALK_DONE;
}
