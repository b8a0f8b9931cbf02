/* SPDX-License-Identifier: Apache-2.0 */
/* The walk byte by byte, for any processor; the grammar between two values of an event, and learning it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"
#include "engine/trace/scan/walk.h"
#include "engine/trace/scan/walk_body.h"

/* ---- byte by byte ---- */

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

bool walk_always_usable(void)
{
    return true;
}

/* Behind a text that begins behind the quote at p[-1], NULL if `end` comes first. */
static const char *walk_text(const char *p, const char *end, SliceKind *ret_kind)
{
    const char *q = text_end(p, end, ret_kind);

    return q < end ? q + 1 : NULL;
}

const char *walk_value(const char *p, const char *end, Slice *ret, const char **ret_fault)
{
    SliceKind kind = SLICE_WORD;
    bool fault = false;
    const char *q;

    *ret_fault = NULL;
    if (p >= end)
        return NULL;
    if (*p == '"') {
        q = walk_text(++p, end, &kind);
    } else if (*p == '[' || *p == '{') {
        kind = SLICE_NEST;
        q = nest_stop(p, end, &fault);
    } else {
        q = word_stop(p, end);
        fault = q == p;
        q = q < end ? q : NULL;
    }
    if (fault)
        *ret_fault = q;
    if (fault || !q || q > end)
        return NULL;
    *ret = (Slice){.at = p, .len = (uint32_t)(q - p - (kind <= SLICE_ESCAPED)), .kind = kind};
    return q;
}

/* ---- the grammar ---- */

enum { KEY_BYTES_MAX = 256, LEARN_BYTES_MAX = 128 };

static const struct {
    bool args;
    uint8_t len, slot;
    const char *text;
} keys[] = {
#define EVENT false
#define ARGS true
#define KEY(level, name, value) {.args = level, .len = sizeof(name) - 1, .slot = SLOT_##value, .text = name},
#define ALIAS KEY
#include "engine/trace/scan/key.def"
#undef ALIAS
#undef KEY
#undef ARGS
#undef EVENT
};

static const Edge unknown = {.step = {.kind = BEHIND_UNKNOWN, .keep = UINT64_MAX}};

/* Memory for things with an alignment of their own: *ret_room is to be freed. */
static void *aligned_room(size_t size, size_t align, void **ret_room)
{
    *ret_room = xcalloc(1, size + align);
    return (void *)(((uintptr_t)*ret_room + align - 1) / align * align);
}

Walk *walk_new(void)
{
    void *room;
    Walk *walk = aligned_room(sizeof *walk, _Alignof(Walk), &room);

    walk->room = room;
    walk->unknown = unknown;
    for (unsigned int i = 0; i <= NODE_ARGS; i++) {
        walk->node[i].slot = SLOT_SKIP;
        walk->node[i].edge = &walk->unknown;
    }
    walk->node[NODE_ARGS].args = true;
    walk->nodes = NODE_ARGS + 1;
    walk->pause = walk->until = FUSE_SOON;
    return walk;
}

void walk_free(Walk *walk)
{
    if (!walk)
        return;
    for (unsigned int i = 0; i < walk->nodes; i++) {
        free((void *)(uintptr_t)walk->node[i].key);
        free(walk->node[i].room);
    }
    free(walk->room);
}

static uint8_t key_slot(const char *key, size_t len, bool args)
{
    const Slice written = {.at = key, .len = (uint32_t)len, .kind = SLICE_ESCAPED};
    char plain[KEY_BYTES_MAX + 4];

    if (len > KEY_BYTES_MAX)
        return SLOT_SKIP;
    if (memchr(key, '\\', len)) {
        len = value_unescape(&written, plain, KEY_BYTES_MAX);
        key = plain;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].len == len && keys[i].args == args && memcmp(keys[i].text, key, len) == 0)
            return keys[i].slot;
    return SLOT_SKIP;
}

/* The node of a key; if the table is full, the one shared by all other keys (it learns nothing). */
static Node *node_of(Walk *walk, const char *key, size_t len, bool args)
{
    Node *shared = &walk->node[args ? NODE_ARGS : NODE_EVENT];

    if (len > KEY_BYTES_MAX)
        return shared;
    for (uint64_t h = map_hash(key, len, args);; h++) {
        uint8_t *at = &walk->table[h % NODE_TABLE];

        if (*at == NODE_NONE) {
            if (walk->nodes == NODES)
                return shared;
            *at = (uint8_t)walk->nodes++;
            Node *fresh = &walk->node[*at];

            fresh->slot = key_slot(key, len, args);
            fresh->args = args;
            fresh->len = (uint16_t)len;
            fresh->key = xmemdup0(key, len);
            fresh->edge = &walk->unknown;
            return fresh;
        }
        Node *node = &walk->node[*at];

        if (node->args == args && node->len == len && memcmp(node->key, key, len) == 0)
            return node;
    }
}

/* The least used one goes. */
static void make_room(Node *node)
{
    unsigned int gone = 0;

    for (unsigned int i = 1; i < node->edges; i++)
        if (node->edge[i].uses < node->edge[gone].uses)
            gone = i;
    memmove(&node->edge[gone], &node->edge[gone + 1], (node->edges - gone) * sizeof node->edge[0]);
    node->edges--;
}

static void grow_edges(Node *node)
{
    const unsigned int cap = node->cap ? node->cap * 2 : EDGES_FIRST;
    void *room;

    node->cap = (uint8_t)(cap < EDGES ? cap : EDGES);
    Edge *edges = aligned_room((node->cap + 1U) * sizeof(Edge), _Alignof(Edge), &room);

    memcpy(edges, node->edge, (node->edges + 1U) * sizeof(Edge));
    free(node->room);
    node->edge = edges;
    node->room = room;
}

/* A new edge of a node, which makes room for it. len <= EDGE_BYTES. */
static Edge *learn_edge(Node *node, const char *text, size_t len, const Step *step)
{
    unsigned int at = 0;

    if (node->edges == EDGES)
        make_room(node);
    if (node->edges == node->cap)
        grow_edges(node);
    for (unsigned int i = 0; i < node->edges; i++) /* behind its own continuations, which it would hide */
        if (node->edge[i].len > len && memcmp(node->edge[i].text, text, len) == 0)
            at = i + 1;
    memmove(&node->edge[at + 1], &node->edge[at], (node->edges - at + 1) * sizeof node->edge[0]);
    node->edges++;
    Edge *edge = &node->edge[at];

    *edge = (Edge){.step = *step,
                   .add = step->kind <= SLICE_NEST ? SLOT_BIT(step->slot) : 0,
                   .mask = UINT64_MAX >> (EDGE_BLOCK - 1 - (len - 1) % EDGE_BLOCK),
                   .len = (uint16_t)len,
                   .uses = USES_FIRST};
    memcpy(edge->text, text, len);
    return edge;
}

static void store_step(Walk *walk, Node *node, const char *text, size_t len, const Step *step)
{
    if (len > LEARN_BYTES_MAX)
        return;
    learn_edge(node, text, len, step);
    walk->pause = walk->until = FUSE_SOON;
}

typedef struct Reader {
    const char *p, *end;
    bool args;   /* within "args" */
    bool opened; /* just behind a '{' */
} Reader;

static bool skip_blanks(Reader *r)
{
    while (r->p < r->end && walk_blank(*r->p))
        r->p++;
    return r->p < r->end;
}

/* `"key" :` up to the value. */
static WalkResult read_key(Reader *r, const char **key, size_t *len)
{
    SliceKind kind;

    if (*r->p != '"')
        return WALK_FAULT;
    *key = r->p + 1;
    r->p = walk_text(*key, r->end, &kind);
    if (!r->p)
        return WALK_MORE;
    *len = (size_t)(r->p - 1 - *key);
    if (!skip_blanks(r))
        return WALK_MORE;
    if (*r->p++ != ':')
        return WALK_FAULT;
    return skip_blanks(r) ? WALK_DONE : WALK_MORE;
}

/* Up to a value, or behind the event: step->next and keep. */
static WalkResult read_step(Walk *walk, Reader *r, Step *step)
{
    for (;;) {
        const char *key;
        size_t len;

        if (!skip_blanks(r))
            return WALK_MORE;
        if (*r->p == '}') {
            r->p++;
            r->opened = false;
            if (!r->args) {
                step->kind = BEHIND_END;
                return WALK_DONE;
            }
            r->args = false;
            continue;
        }
        if (!r->opened) {
            if (*r->p++ != ',')
                return WALK_FAULT;
            if (!skip_blanks(r))
                return WALK_MORE;
        }
        const WalkResult result = read_key(r, &key, &len);

        if (result != WALK_DONE)
            return result;
        r->opened = false;
        step->slot = key_slot(key, len, r->args);
        if (step->slot == SLOT_ARGS)
            step->keep = SLOTS_EVENT;
        if (step->slot == SLOT_ARGS && *r->p == '{') {
            r->p++;
            r->args = r->opened = true;
            continue;
        }
        step->next = node_of(walk, key, len, r->args);
        return WALK_DONE;
    }
}

WalkResult learn_step(Walk *walk, Node *node, const char **p, const char *end, Step *ret)
{
    const bool first = node == &walk->node[NODE_START];
    Reader r = {.p = *p, .end = end, .args = node->args, .opened = first};
    Step step = {.keep = UINT64_MAX, .slot = SLOT_SKIP};

    r.p += first;
    const WalkResult result = read_step(walk, &r, &step);

    if (result == WALK_FAULT)
        *p = r.p;
    if (result != WALK_DONE)
        return result;
    const char *learned = r.p;

    if (step.kind != BEHIND_END) {
        if (*r.p == '"') {
            step.kind = SLICE_TEXT;
            learned = ++r.p;
        } else if (*r.p == '[' || *r.p == '{') {
            step.kind = SLICE_NEST;
            learned = r.p + 1;
        } else if (walk_word_byte(*r.p)) {
            step.kind = SLICE_WORD;
        } else {
            return WALK_FAULT;
        }
    }
    step.advance = (uint16_t)(r.p - *p);
    if (first || node->key)
        store_step(walk, node, *p, (size_t)(learned - *p), &step);
    *p = r.p;
    *ret = step;
    return WALK_DONE;
}

/* Longer edges. Now and then an event is sampled: if the same value stood behind an edge several times, with the
 * same edge behind it, all three become one. An edge gains uses when it matches and loses them when it is tried in
 * vain; the least used one is evicted. Frequent values change within a text (first operators, then
 * kernels), so the pauses between samples grow only up to a bound. */

enum {
    FUSE_AT = 4,     /* times that the same was met */
    PAUSE_MAX = 128, /* events */
    USES_HIT = 5,    /* an edge pays where it matches once for so many vain tries */
    TOUCHED_WORDS = NODES / 64
};

/* The matched edge, and those tried before it. */
static void count_uses(Walk *walk, const Trail *trail, unsigned int i)
{
    Node *node = &walk->node[trail->step[i].node];
    Edge *taken = &node->edge[trail->step[i].edge];

    taken->uses = taken->uses + USES_HIT < USES_MAX ? taken->uses + USES_HIT : USES_MAX;
    for (Edge *edge = node->edge; edge < taken; edge++)
        if (edge->uses > 0)
            edge->uses--;
}

static bool edge_continues(const Edge *edge, const Edge *of)
{
    return edge->len > of->len && memcmp(edge->text, of->text, of->len) == 0;
}

/* Moves the matched edge one place to the front: frequent edges are tried first. */
static void prefer_edge(Node *node, unsigned int taken)
{
    if (taken == 0 || taken >= node->edges || edge_continues(&node->edge[taken - 1], &node->edge[taken]))
        return;
    const Edge before = node->edge[taken - 1];

    node->edge[taken - 1] = node->edge[taken];
    node->edge[taken] = before;
}

/* Whether the value is frequent; rare ones are evicted. */
static bool is_often(Edge *edge, uint32_t hash)
{
    Often *empty = NULL;

    for (Often *often = edge->often; often < edge->often + OFTEN; often++) {
        if (often->count && often->hash == hash)
            return ++often->count >= FUSE_AT;
        if (!often->count)
            empty = often;
    }
    if (empty)
        *empty = (Often){hash, 1};
    for (Often *often = edge->often; !empty && often < edge->often + OFTEN; often++)
        often->count--;
    return false;
}

static void add_constants(Edge *fused, const Edge *edge, size_t at)
{
    for (unsigned int i = 0; i < edge->constants; i++) {
        Constant constant = edge->constant[i];

        constant.at += (uint32_t)at;
        fused->constant[fused->constants++] = constant;
    }
}

/* Joins step i, the value behind it and step i + 1 into one edge. Returns false if the value is not frequent or too
 * long. */
static bool fuse_step(Walk *walk, const Trail *trail, unsigned int i)
{
    Node *node = &walk->node[trail->step[i].node];
    Edge *edge = &node->edge[trail->step[i].edge];
    const Edge *behind = &walk->node[trail->step[i + 1].node].edge[trail->step[i + 1].edge];
    const char *from = trail->step[i].from, *middle = trail->step[i + 1].from, *value = from + edge->step.advance;
    const size_t shift = (size_t)(middle - from), len = shift + behind->len;

    if (len > EDGE_BYTES || edge->constants + 1 + behind->constants > CONSTANTS ||
        !is_often(edge, (uint32_t)map_hash(value, len - edge->step.advance, 0)))
        return false;
    memset(edge->often, 0, sizeof edge->often);
    const Edge first = *edge, last = *behind; /* they move */
    const SliceKind kind = (SliceKind)trail->step[i].kind;
    const Constant between = {.at = first.step.advance,
                              .slot = first.step.slot,
                              .len = (uint32_t)(middle - value) - (kind <= SLICE_ESCAPED),
                              .kind = kind};
    Step step = last.step;

    step.advance = (uint16_t)(last.step.advance + shift);
    step.keep = first.step.keep & last.step.keep;
    Edge *fused = learn_edge(node, from, len, &step);

    fused->add = (first.add & last.step.keep) | last.add;
    add_constants(fused, &first, 0);
    if (first.step.slot != SLOT_SKIP)
        fused->constant[fused->constants++] = between;
    add_constants(fused, &last, shift);
    return true;
}

void fuse(Walk *walk, const Trail *trail)
{
    uint64_t touched[TOUCHED_WORDS] = {0};
    bool fused = false;

    if (trail->learned || trail->steps >= TRAIL_STEPS)
        return;
    for (unsigned int i = 0; i < trail->steps; i++)
        count_uses(walk, trail, i);
    for (unsigned int i = trail->steps - 1; i-- > 0;) { /* from behind: places of the edges before stay */
        const uint8_t node = trail->step[i].node, next = trail->step[i + 1].node;

        if ((touched[node / 64] >> node % 64 | touched[next / 64] >> next % 64) & 1 || !fuse_step(walk, trail, i))
            continue;
        touched[node / 64] |= UINT64_C(1) << node % 64;
        fused = true;
    }
    for (unsigned int i = 0; i < trail->steps; i++)
        prefer_edge(&walk->node[trail->step[i].node], trail->step[i].edge);
    walk->pause = fused ? FUSE_SOON : walk->pause < PAUSE_MAX ? walk->pause + walk->pause / 4 : PAUSE_MAX;
}
