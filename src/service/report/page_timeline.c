/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines for the page: busy shares and the longest slices of each lane, and the gaps of each device, packed. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "service/report/pack.h"
#include "service/report/page.h"

enum { CLASSES = 3 };

/* Slices of all lanes where each keeps at most `quota`. */
static size_t count_kept(const TraceReport *report, size_t quota)
{
    size_t sum = 0;

    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].timeline.lanes.len; j++) {
            size_t len = report->ranks.at[i].timeline.lanes.at[j].slices.len;

            sum += len < quota ? len : quota;
        }
    return sum;
}

void page_budget(Page *page, const TraceReport *report)
{
    size_t low = 0, high = PAGE_SLICES, busy = 0;

    while (low < high) {
        size_t middle = (low + high + 1) / 2;

        if (count_kept(report, middle) <= PAGE_SLICES)
            low = middle;
        else
            high = middle - 1;
    }
    page->slices_per_lane = low;
    for (size_t i = 0; i < report->ranks.len; i++)
        for (size_t j = 0; j < report->ranks.at[i].timeline.lanes.len; j++)
            busy += report->ranks.at[i].timeline.lanes.at[j].busy.len;
    while (page->fold < 32 && busy >> page->fold > PAGE_BUSY_BYTES)
        page->fold++;
}

/* ---- gaps ---- */

typedef struct GapOrder {
    int64_t start;
    const TraceGap *gap;
} GapOrder;

static int by_start(const void *a, const void *b)
{
    const GapOrder *left = a, *right = b;

    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->gap < right->gap ? -1 : left->gap > right->gap;
}

/* Starts as differences, which are never below 0. */
static void pack_start(Pack *pack, int64_t start, int64_t *before)
{
    pack_u64(pack, (uint64_t)(start - *before));
    *before = start;
}

void page_gaps(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_GAPS / page->ranks + 20, count = rank->gaps.len < limit ? rank->gaps.len : limit;
    CLEANUP_FREE GapOrder *order = xcalloc(count + 1, sizeof(*order));
    int64_t before = 0;
    Pack pack;

    for (size_t i = 0; i < count; i++) /* the longest come first */
        order[i] = (GapOrder){.start = page_time(page, rank, rank->gaps.at[i].start), .gap = &rank->gaps.at[i]};
    qsort(order, count, sizeof(*order), by_start);
    before = count ? order[0].start : 0;
    out_open(&page->out, "gaps", '{');
    out_json_u64(&page->out, "count", count);
    out_json_i64(&page->out, "from", before);
    out_json_u64(&page->out, "left_out", rank->gaps.len - count);
    pack_begin(&pack, &page->out, "data");
    for (size_t i = 0; i < count; i++) {
        const TraceGap *gap = order[i].gap;
        int64_t end = page_time(page, rank, gap->end);

        pack_start(&pack, order[i].start, &before);
        pack_u64(&pack, (uint64_t)(end > order[i].start ? end - order[i].start : 0));
        pack_byte(&pack, (uint8_t)gap->cause);
        pack_u64(&pack, (uint64_t)(gap->device + 1 > 0 ? gap->device + 1 : 0));
        pack_u64(&pack, page_text(page, gap->host));
        pack_u64(&pack, page_text(page, gap->thread));
        pack_u64(&pack, page_text(page, gap->before));
        pack_u64(&pack, page_text(page, gap->after));
    }
    pack_end(&pack);
    out_close(&page->out, '}');
}

/* ---- lanes ---- */

/* The k-th smallest of at[0..len-1], which are put in another order (Hoare). */
static int64_t select_nth(int64_t *at, size_t len, size_t k)
{
    size_t low = 0, high = len - 1;

    while (low < high) {
        int64_t pivot = at[low + (high - low) / 2];
        size_t i = low, j = high;

        for (;; i++, j--) {
            while (at[i] < pivot)
                i++;
            while (at[j] > pivot)
                j--;
            if (i >= j)
                break;
            int64_t swap = at[i];
            at[i] = at[j];
            at[j] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return at[low];
}

/* Which slices of a lane are kept: all that are longer than `least`, and of those as long `ties_kept` of `ties`, spread
 * evenly over the lane. */
typedef struct Choice {
    int64_t least; /* -1: all are kept */
    size_t ties, ties_kept, ties_seen;
} Choice;

static int64_t slice_length(const TraceSlice *slice)
{
    return slice->end - slice->start;
}

static Choice choose_slices(const TraceTimelineLane *lane, size_t quota)
{
    size_t len = lane->slices.len, longer = 0;
    CLEANUP_FREE int64_t *lengths = NULL;
    Choice choice = {.least = -1};

    if (len <= quota)
        return choice;
    lengths = xcalloc(len, sizeof(*lengths));
    for (size_t i = 0; i < len; i++)
        lengths[i] = slice_length(&lane->slices.at[i]);
    choice.least = quota ? select_nth(lengths, len, len - quota) : INT64_MAX;
    for (size_t i = 0; i < len; i++) {
        longer += slice_length(&lane->slices.at[i]) > choice.least;
        choice.ties += slice_length(&lane->slices.at[i]) == choice.least;
    }
    choice.ties_kept = quota - longer;
    return choice;
}

static bool keeps_slice(Choice *choice, const TraceSlice *slice)
{
    int64_t length = slice_length(slice);
    size_t at = choice->ties_seen;

    if (length != choice->least || choice->least < 0)
        return length > choice->least || choice->least < 0;
    choice->ties_seen++;
    return at * choice->ties_kept / choice->ties != (at + 1) * choice->ties_kept / choice->ties;
}

/* The timeline's texts by their number in the page, looked up once each. */
typedef struct Texts {
    uint64_t *numbers; /* + 1; 0: not looked up */
    const TraceTimeline *timeline;
} Texts;

static uint64_t text_number(Page *page, const Texts *texts, uint32_t text)
{
    if (text >= texts->timeline->texts.len)
        return page_text(page, "");
    if (!texts->numbers[text])
        texts->numbers[text] = page_text(page, texts->timeline->texts.at[text]) + 1;
    return texts->numbers[text] - 1;
}

static void write_slices(Page *page, const TraceRank *rank, const TraceTimelineLane *lane, const Texts *texts)
{
    Choice choice = choose_slices(lane, page->slices_per_lane);
    int64_t before = 0;
    size_t count = 0;
    bool first = true;
    Pack pack;

    pack_begin(&pack, &page->out, "slices");
    for (size_t i = 0; i < lane->slices.len; i++) {
        const TraceSlice *slice = &lane->slices.at[i];
        int64_t start, end;

        if (!keeps_slice(&choice, slice))
            continue;
        start = page_time(page, rank, slice->start);
        end = page_time(page, rank, slice->end);
        start = !first && start < before ? before : start;
        end = end < start ? start : end;
        if (first) { /* the first may lie before the page's time 0 */
            pack_u64(&pack, (uint64_t)start << 1 ^ (uint64_t)(start >> 63));
            before = start;
        } else {
            pack_start(&pack, start, &before);
        }
        first = false;
        pack_u64(&pack, (uint64_t)(end - start));
        pack_u64(&pack, text_number(page, texts, slice->text));
        pack_byte(&pack, slice->kind);
        pack_byte(&pack, slice->depth);
        count++;
    }
    pack_end(&pack);
    out_json_u64(&page->out, "count", count);
    out_json_u64(&page->out, "left_out", lane->slices_left_out + (lane->slices.len - count));
}

static void write_busy(Page *page, const TraceRank *rank, const TraceTimelineLane *lane)
{
    size_t step = (size_t)1 << page->fold, buckets = lane->busy.len / CLASSES;
    int64_t bucket_ns = lane->bucket_ns > 0 ? lane->bucket_ns : 1;
    Pack pack;

    out_json_i64(&page->out, "first", page_time(page, rank, lane->first));
    out_json_double(&page->out, "bucket_ns", (double)bucket_ns * (double)step);
    pack_begin(&pack, &page->out, "busy");
    for (size_t i = 0; i < buckets; i += step)
        for (size_t class = 0; class < CLASSES; class ++) {
            size_t sum = 0;

            for (size_t j = i; j < i + step && j < buckets; j++)
                sum += lane->busy.at[j * CLASSES + class];
            pack_byte(&pack, (uint8_t)(sum / step));
        }
    pack_end(&pack);
}

void page_lanes(Page *page, const TraceRank *rank)
{
    CLEANUP_FREE uint64_t *numbers = xcalloc(rank->timeline.texts.len + 1, sizeof(*numbers));
    Texts texts = {.numbers = numbers, .timeline = &rank->timeline};

    out_open(&page->out, "lanes", '[');
    for (size_t i = 0; i < rank->timeline.lanes.len; i++) {
        const TraceTimelineLane *lane = &rank->timeline.lanes.at[i];

        out_open(&page->out, NULL, '{');
        out_json_bool(&page->out, "gpu", lane->gpu);
        out_json_i64(&page->out, "device", lane->device);
        page_json_text(page, "name", lane->name);
        write_busy(page, rank, lane);
        write_slices(page, rank, lane, &texts);
        out_close(&page->out, '}');
    }
    out_close(&page->out, ']');
}
