/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar between two values of an event, and learning it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/owner.h"
#include "engine/trace/scan/walk.h"

enum { KEY_BYTES_MAX = 256 };

static const struct {
    bool args;
    uint8_t len, slot;
    const char *text;
} keys[] = {
#define EVENT false
#define ARGS true
#define KEY(level, name, value) {.args = level, .len = sizeof(name) - 1, .slot = SLOT_##value, .text = name},
#include "engine/trace/scan/key.def"
#undef KEY
#undef ARGS
#undef EVENT
};

const Walker *walker_best(void)
{
    size_t i = 0;

    while (!walkers[i].usable())
        i++;
    return &walkers[i];
}

Walk *walk_new(void)
{
    void *room = xcalloc(1, sizeof(Walk) + EDGE_BYTES); /* pages that are not used stay untouched */
    Walk *walk = (Walk *)(((uintptr_t)room + EDGE_BYTES - 1) / EDGE_BYTES * EDGE_BYTES);

    walk->room = room;
    for (unsigned int i = 0; i <= NODE_ARGS; i++)
        walk->node[i].slot = SLOT_SKIP;
    walk->node[NODE_ARGS].args = true;
    walk->nodes = NODE_ARGS + 1;
    return walk;
}

void walk_free(Walk *walk)
{
    if (!walk)
        return;
    for (unsigned int i = 0; i < walk->nodes; i++)
        free((void *)(uintptr_t)walk->node[i].key);
    free(walk->room);
}

/* A key may be written with escapes; \" \\ \/ and \uXXXX of ASCII are all that ours could be spelled with. */
static size_t plain_key(const char *key, size_t len, char out[KEY_BYTES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < KEY_BYTES_MAX; i++) {
        char c = key[i];

        if (c == '\\' && i + 1 < len) {
            c = key[++i];
            if (c == 'u' && len - i > 4) {
                char digits[5] = {key[i + 1], key[i + 2], key[i + 3], key[i + 4], 0};

                c = (char)strtoul(digits, NULL, 16);
                i += 4;
            }
        }
        out[n++] = c;
    }
    return n;
}

static uint8_t key_slot(const char *key, size_t len, bool args)
{
    char plain[KEY_BYTES_MAX];

    if (len > KEY_BYTES_MAX)
        return SLOT_SKIP;
    if (memchr(key, '\\', len)) {
        len = plain_key(key, len, plain);
        key = plain;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].len == len && keys[i].args == args && memcmp(keys[i].text, key, len) == 0)
            return keys[i].slot;
    return SLOT_SKIP;
}

/* The node of a key; where there is no room for more, the one that all such keys share (it learns nothing). */
static uint8_t node_of(Walk *walk, const char *key, size_t len, bool args)
{
    const uint8_t shared = args ? NODE_ARGS : NODE_EVENT;

    if (len > KEY_BYTES_MAX)
        return shared;
    for (uint64_t h = map_hash(key, len, args);; h++) {
        uint8_t *at = &walk->table[h % NODE_TABLE];

        if (*at == 0) {
            if (walk->nodes == NODES)
                return shared;
            *at = (uint8_t)walk->nodes++;
            walk->node[*at] =
                (Node){.slot = key_slot(key, len, args), .args = args, .len = (uint16_t)len, .key = xmemdup0(key, len)};
            return *at;
        }
        const Node *node = &walk->node[*at];

        if (node->args == args && node->len == len && memcmp(node->key, key, len) == 0)
            return *at;
    }
}

static void learn(Node *node, const char *text, size_t len, size_t advance, const Step *step)
{
    if (len > EDGE_BYTES)
        return;
    if (node->edges == EDGES) {
        const unsigned int gone = node->oldest++ % EDGES;

        memmove(&node->edge[gone], &node->edge[gone + 1], (EDGES - gone - 1) * sizeof node->edge[0]);
        node->edges--;
    }
    unsigned int at = 0; /* before its own beginnings, which would match in its place */

    while (at < node->edges &&
           !(node->edge[at].len <= len && memcmp(node->edge[at].text, text, node->edge[at].len) == 0))
        at++;
    memmove(&node->edge[at + 1], &node->edge[at], (node->edges - at) * sizeof node->edge[0]);
    node->edges++;
    node->edge[at] =
        (Edge){.mask = len == 64 ? UINT64_MAX : (UINT64_C(1) << len) - 1, .step = *step, .len = (uint8_t)len};
    node->edge[at].step.advance = (uint8_t)advance;
    memcpy(node->edge[at].text, text, len);
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
                step->next = NODE_END;
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

WalkResult learn_step(Walk *walk, unsigned int node, const char **p, const char *end, Step *ret)
{
    Reader r = {.p = *p, .end = end, .args = walk->node[node].args};
    Step step = {.keep = UINT64_MAX, .slot = SLOT_SKIP};

    if (node == NODE_START) {
        r.p++;
        r.opened = true;
    }
    const WalkResult result = read_step(walk, &r, &step);

    if (result == WALK_FAULT)
        *p = r.p;
    if (result != WALK_DONE)
        return result;
    const char *learned = r.p;

    if (step.next != NODE_END) {
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
    if (node == NODE_START || node > NODE_ARGS)
        learn(&walk->node[node], *p, (size_t)(learned - *p), (size_t)(r.p - *p), &step);
    *p = r.p;
    *ret = step;
    return WALK_DONE;
}
