/* SPDX-License-Identifier: Apache-2.0 */
/* Links go through the rows of either side sorted by correlation. Where several rows of a side share one, the last in
 * the file is the partner, as HTA's joins leave it. */
#include "engine/trace/hta/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

typedef struct Key {
    int64_t correlation;
    uint32_t row;
} Key;

typedef VEC(Key) Keys;

static int by_correlation(const void *a, const void *b)
{
    const Key *left = a, *right = b;

    if (left->correlation != right->correlation)
        return left->correlation < right->correlation ? -1 : 1;
    return left->row < right->row ? -1 : left->row > right->row;
}

static bool on_gpu(const HtaRow *row)
{
    return (row->stream >= 0 && row->correlation >= 0) || row->flags & HTA_WAIT;
}

static void collect(const HtaRows *rows, Keys *host, Keys *gpu)
{
    for (size_t i = 0; i < rows->rows.len; i++) {
        const HtaRow *row = &rows->rows.at[i];
        Key key = {row->correlation, (uint32_t)i};

        if (row->correlation == -1)
            continue;
        if (row->stream == -1)
            vec_push(host, key);
        if (on_gpu(row))
            vec_push(gpu, key);
    }
    if (host->len)
        qsort(host->at, host->len, sizeof *host->at, by_correlation);
    if (gpu->len)
        qsort(gpu->at, gpu->len, sizeof *gpu->at, by_correlation);
}

/* One past the last key with the correlation of keys->at[first]. */
static size_t run_end(const Keys *keys, size_t first)
{
    size_t i = first;

    while (i < keys->len && keys->at[i].correlation == keys->at[first].correlation)
        i++;
    return i;
}

/* How often HTA's join on the correlation repeats a GPU row: once per host row that is left. */
static uint32_t kept_in(const HtaFrame *frame, const Keys *host, size_t from, size_t to)
{
    uint32_t count = 0;

    for (size_t i = from; i < to; i++)
        count += hta_kept_host(frame, &frame->rows->rows.at[host->at[i].row]);
    return count;
}

static void set_partners(HtaFrame *frame, const Keys *from, size_t first, size_t end, uint32_t partner)
{
    for (size_t i = first; i < end; i++)
        frame->partner[from->at[i].row] = partner;
}

/* `times[row]`: how often a GPU row is left where the filter is on. */
static void link_rows(HtaFrame *frame, const Keys *host, const Keys *gpu, uint32_t *times)
{
    size_t h = 0, g = 0;

    while (h < host->len && g < gpu->len) {
        size_t h_end, g_end;

        if (host->at[h].correlation != gpu->at[g].correlation) {
            if (host->at[h].correlation < gpu->at[g].correlation)
                h++;
            else
                g++;
            continue;
        }
        h_end = run_end(host, h);
        g_end = run_end(gpu, g);
        set_partners(frame, host, h, h_end, gpu->at[g_end - 1].row);
        set_partners(frame, gpu, g, g_end, host->at[h_end - 1].row);
        for (uint32_t count = kept_in(frame, host, h, h_end); g < g_end; g++)
            times[gpu->at[g].row] = count;
        h = h_end;
    }
}

/* The filter's moment: start (with last_step: end) of the last step, else of the first host row (end of the last). */
static void find_limit(HtaFrame *frame)
{
    const HtaRows *rows = frame->rows;
    bool steps = false, any = false;
    int64_t limit = 0;

    for (size_t i = 0; i < rows->rows.len; i++) {
        const HtaRow *row = &rows->rows.at[i];
        bool step = row->flags & HTA_STEP;
        int64_t time = frame->last_step ? hta_end(row) : row->start;

        if (row->stream != -1 || (steps && !step))
            continue;
        if (!any || (step && !steps) || ((step || frame->last_step) ? time > limit : time < limit))
            limit = time;
        steps |= step;
        any = true;
    }
    frame->limit = limit;
    frame->filtered &= any;
}

static void see_time(HtaFrame *frame, const HtaRow *row)
{
    if (frame->first == HTA_NO_TIME || row->start < frame->first)
        frame->first = row->start;
    if (frame->last_start == HTA_NO_TIME || row->start > frame->last_start)
        frame->last_start = row->start;
}

static void keep_rows(HtaFrame *frame, const uint32_t *times)
{
    for (size_t i = 0; i < frame->rows->rows.len; i++) {
        const HtaRow *row = &frame->rows->rows.at[i];
        uint32_t count = row->stream == -1 ? hta_kept_host(frame, row) : frame->filtered ? times[i] : 1;

        if (count == 0)
            continue;
        see_time(frame, row);
        if (row->index == 0)
            frame->zero = (uint32_t)i;
        for (uint32_t k = 0; k < count && row->stream != -1; k++)
            vec_push(&frame->gpu, (uint32_t)i);
    }
}

void hta_frame_init(HtaFrame *frame, const HtaRows *rows, bool filtered, bool last_step)
{
    size_t count = rows->rows.len;
    CLEANUP_FREE uint32_t *times = xcalloc(count + 1, sizeof *times);
    Keys host = {0}, gpu = {0};

    *frame = (HtaFrame){.rows = rows,
                        .zero = UINT32_MAX,
                        .filtered = filtered,
                        .last_step = last_step,
                        .first = HTA_NO_TIME,
                        .last_start = HTA_NO_TIME};
    frame->partner = xmalloc((count + 1) * sizeof *frame->partner);
    memset(frame->partner, 0xff, (count + 1) * sizeof *frame->partner);
    if (filtered)
        find_limit(frame);
    collect(rows, &host, &gpu);
    link_rows(frame, &host, &gpu, times);
    keep_rows(frame, times);
    vec_done(&host);
    vec_done(&gpu);
}

void hta_frame_done(HtaFrame *frame)
{
    vec_done(&frame->gpu);
    free(frame->partner);
    *frame = (HtaFrame){0};
}

/* A partner at place 0 of the event list looks to HTA as if it were missing. */
bool hta_linked(const HtaFrame *frame, uint32_t row)
{
    uint32_t partner = frame->partner[row];

    return partner != UINT32_MAX && frame->rows->rows.at[partner].index > 0;
}

/* A missing partner is place 0 to HTA's join, so that the row at place 0, where there is one, stands for the call. */
int64_t hta_call_start(const HtaFrame *frame, uint32_t row)
{
    const HtaRow *of = &frame->rows->rows.at[row];
    const HtaRow *call;

    if (hta_linked(frame, row)) {
        call = &frame->rows->rows.at[frame->partner[row]];
        return call->stream != -1 || hta_kept_host(frame, call) ? call->start : HTA_NO_TIME;
    }
    if (of->correlation < 0 || frame->zero == UINT32_MAX)
        return HTA_NO_TIME;
    return frame->rows->rows.at[frame->zero].start;
}
