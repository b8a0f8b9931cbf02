/* SPDX-License-Identifier: Apache-2.0 */
/* The bandwidth of copies and sets that run at an instant, by kind: up by each one's own at its start, down at its end.
 * One without duration lasts a microsecond. */
#include "engine/trace/hta/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

typedef struct Change {
    const char *kind;
    int64_t time;
    double gbs;
    bool end;
    uint32_t row;
} Change;

typedef VEC(Change) Changes;

static int by_kind(const void *a, const void *b)
{
    const Change *left = a, *right = b;
    int order = strcmp(left->kind, right->kind);

    if (order != 0)
        return order;
    if (left->time != right->time)
        return left->time < right->time ? -1 : 1;
    if (left->end != right->end)
        return left->end ? 1 : -1;
    if (left->gbs != right->gbs)
        return left->gbs < right->gbs ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static void collect(const HtaFrame *frame, Arena *arena, Changes *ret)
{
    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);
        const HtaName *name = &frame->rows->names.at[row->name];
        int64_t end = hta_end(row) + (row->duration == 0 ? 1000 : 0);
        char room[16];
        const char *kind;

        if (name->type != HTA_MEMORY)
            continue;
        kind = arena_strdup(arena, hta_memory_kind(name->text, room));
        vec_push(ret, ((Change){kind, row->start, row->bandwidth, false, frame->gpu.at[i]}));
        vec_push(ret, ((Change){kind, end, -row->bandwidth, true, frame->gpu.at[i]}));
    }
    if (ret->len)
        qsort(ret->at, ret->len, sizeof *ret->at, by_kind);
}

static void add_kind(const Change *changes, size_t count, HtaRank *rank)
{
    HtaBandwidthRow row = {.name = changes[0].kind};
    HtaNumbers numbers = {0};
    double gbs = 0;

    for (size_t i = 0; i < count; i++) {
        gbs += changes[i].gbs;
        vec_push(&row.points, ((HtaPoint){changes[i].time, gbs < 0 ? 0 : gbs}));
        if (gbs > 0)
            vec_push(&numbers, gbs);
    }
    row.gbs = hta_describe(&numbers);
    vec_push(&rank->bandwidth, row);
    vec_done(&numbers);
}

void hta_bandwidth(const HtaFrame *frame, Arena *arena, HtaRank *rank)
{
    Changes changes = {0};

    collect(frame, arena, &changes);
    for (size_t first = 0, end; first < changes.len; first = end) {
        for (end = first; end < changes.len && strcmp(changes.at[end].kind, changes.at[first].kind) == 0;)
            end++;
        add_kind(changes.at + first, end - first, rank);
    }
    vec_done(&changes);
}
