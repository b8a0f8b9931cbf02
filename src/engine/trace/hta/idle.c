/* SPDX-License-Identifier: Apache-2.0 */
/* Idle time of each stream between one row and the next, by what it was spent on. A row that runs beside the one before
 * it has a negative idle time, and HTA keeps it. */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>

enum { HOST_WAIT, KERNEL_WAIT, OTHER, CATEGORIES };

static const char *const words[CATEGORIES] = {"host_wait", "kernel_wait", "other"};

typedef struct Item {
    int64_t stream, start, end, call;
    uint32_t row;
} Item;

static int by_stream(const void *a, const void *b)
{
    const Item *left = a, *right = b;

    if (left->stream != right->stream)
        return left->stream < right->stream ? -1 : 1;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    if (left->end != right->end)
        return left->end < right->end ? -1 : 1;
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static int category(const Item *item, int64_t before, int64_t delay_ns)
{
    if (item->call != HTA_NO_TIME && item->call > before)
        return HOST_WAIT;
    return item->start - before < delay_ns ? KERNEL_WAIT : OTHER;
}

/* The rows of one stream. Its first row has no idle time, and yet makes a row of category "other". */
static void breakdown(const Item *items, size_t count, const HtaOptions *options, HtaRank *rank)
{
    HtaNumbers intervals[CATEGORIES] = {0};
    int64_t sums[CATEGORIES] = {0}, all = 0;

    for (size_t i = 1; i < count; i++) {
        int64_t before = items[i - 1].end, idle = items[i].start - before;
        int of = category(&items[i], before, options->kernel_delay_ns);

        sums[of] = hta_sum(sums[of], idle);
        all = hta_sum(all, idle);
        vec_push(&intervals[of], (double)idle);
    }
    for (int i = 0; i < CATEGORIES; i++) {
        HtaIdleRow row = {.stream = items[0].stream, .category = words[i], .idle_ns = sums[i], .ratio = NAN};

        if (intervals[i].len || i == OTHER) {
            row.ratio = all ? hta_round((double)sums[i] / (double)all, 2) : NAN;
            row.intervals = hta_describe(&intervals[i]);
            vec_push(&rank->idle, row);
        }
        vec_done(&intervals[i]);
    }
}

void hta_idle(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank)
{
    VEC(Item) items = {0};

    for (size_t i = 0; i < frame->gpu.len; i++) {
        const HtaRow *row = hta_gpu(frame, i);

        if (row->flags & HTA_IDLE)
            vec_push(&items, ((Item){row->stream, row->start, hta_end(row), hta_call_start(frame, frame->gpu.at[i]),
                                     frame->gpu.at[i]}));
    }
    if (items.len)
        qsort(items.at, items.len, sizeof *items.at, by_stream);
    for (size_t first = 0, end; first < items.len; first = end) {
        for (end = first; end < items.len && items.at[end].stream == items.at[first].stream;)
            end++;
        breakdown(items.at + first, end - first, options, rank);
    }
    vec_done(&items);
}
