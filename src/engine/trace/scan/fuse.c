/* SPDX-License-Identifier: Apache-2.0 */
/* Longer edges. Now and then an event is looked at: where the same value stood behind an edge several times, with the
 * same edge behind it, all three become one. An edge is used as often as it matches and less where it is tried in vain;
 * a long one that is hardly used goes. What is the same changes within a text (first the operators, then the kernels),
 * so the pauses between two looks grow only up to a bound. */
#include <string.h>

#include "base/map.h"
#include "engine/trace/scan/walk.h"

enum {
    FUSE_AT = 4,     /* times that the same was met */
    PAUSE_MAX = 128, /* events */
    USES_HIT = 5,    /* an edge pays where it matches once for so many vain tries */
    TOUCHED_WORDS = NODES / 64
};

/* The edge that was taken, and those that were tried before it. */
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

/* The edge that was taken goes one place to the front: those that are used most are tried first. */
static void prefer_edge(Node *node, unsigned int taken)
{
    if (taken == 0 || taken >= node->edges || edge_continues(&node->edge[taken - 1], &node->edge[taken]))
        return;
    const Edge before = node->edge[taken - 1];

    node->edge[taken - 1] = node->edge[taken];
    node->edge[taken] = before;
}

static void drop_unused(Node *node)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < node->edges; i++) {
        if (node->edge[i].fused && node->edge[i].uses == 0)
            continue;
        if (kept != i)
            node->edge[kept] = node->edge[i];
        kept++;
    }
    if (kept < node->edges)
        learn_cut(node, kept);
}

/* Whether it is often so; what comes seldom makes room for others. */
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

/* Step i, the value behind it and step i + 1 as one edge. Returns false where that is not often so, or too long. */
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

    fused->fused = true;
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
    for (unsigned int i = 0; i < trail->steps; i++) {
        Node *node = &walk->node[trail->step[i].node];

        prefer_edge(node, trail->step[i].edge);
        drop_unused(node);
    }
    walk->pause = fused ? FUSE_SOON : walk->pause < PAUSE_MAX ? walk->pause + walk->pause / 4 : PAUSE_MAX;
}
