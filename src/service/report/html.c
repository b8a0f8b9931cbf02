/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/map.h"
#include "engine/trace/select.h"
#include "service/report/allocator.h"
#include "service/report/report.h"
#include "service/report/table.h"
#include "service/report/trace_fields.h"
#include "trace_page.h"

/* The page's state. Texts are written once and referenced by number; times count from the first one, since a
 * browser's numbers are exact below 2^53 only; the timeline is cut down so that a page stays near PAGE_BYTES for any
 * profile. */

enum {
    PAGE_BYTES = 12 << 20,     /* what the limits below come to, in the mean */
    PAGE_SLICES = 400000,      /* of all lanes, about 12 bytes each */
    PAGE_BUSY_BYTES = 2 << 20, /* of all lanes, before base64 */
    PAGE_GAPS = 60000,         /* about 24 bytes each */
    PAGE_ROWS = 12000,         /* of each table, over all ranks */
    PAGE_STEPS = 20000,        /* over all ranks */
    PAGE_POINTS = 40000,       /* memory and queues, over all ranks */
    PAGE_TEXT = 600,           /* bytes of a text: longer ones lose their middle */
    PAGE_TEXT_BYTES = 6 << 20, /* of all texts together; what comes later is "..." */
    PIECE_MAX = 1 << 20,       /* of its own text */
};

typedef struct Page {
    Out out;
    Map numbers; /* text -> its number + 1 */
    VEC(char *) texts;
    size_t text_bytes;
    int64_t origin; /* of the first rank's clock; what time 0 is in the page */
    size_t ranks;
    size_t slices_per_lane;
    unsigned fold; /* buckets of lanes are joined by 2^fold */
} Page;

static const int64_t time_max = INT64_C(1) << 53;

static void keep_earlier(int64_t *first, int64_t time, const TraceRank *rank, bool *any)
{
    __extension__ __int128 here = time;

    here += rank->clock_offset_ns;
    if (here < INT64_MIN || here > INT64_MAX || (*any && here >= *first))
        return;
    *first = (int64_t)here;
    *any = true;
}

/* The first thing that the page draws. */
static int64_t find_origin(const TraceReport *report)
{
    int64_t first = 0;
    bool any = false;

    for (size_t i = 0; i < report->ranks.len; i++) {
        const TraceRank *rank = &report->ranks.at[i];

        for (size_t j = 0; j < rank->devices.len; j++)
            keep_earlier(&first, rank->devices.at[j].first, rank, &any);
        for (size_t j = 0; j < rank->steps.len; j++)
            keep_earlier(&first, rank->steps.at[j].start, rank, &any);
        for (size_t j = 0; j < rank->timeline.lanes.len; j++)
            keep_earlier(&first, rank->timeline.lanes.at[j].first, rank, &any);
    }
    return first;
}

static int page_done(Page *page)
{
    for (size_t i = 0; i < page->texts.len; i++)
        free(page->texts.at[i]);
    vec_done(&page->texts);
    map_done(&page->numbers);
    return out_done(&page->out);
}

/* What a page may show of a text: nothing that turns the direction of writing, and not the middle of a long one. A cut
 * may be inside of a character, which is then mended. */
static char *copy_text(const char *text)
{
    enum { HEAD = PAGE_TEXT * 2 / 3, TAIL = PAGE_TEXT / 3 };
    size_t len = strlen(text);
    CLEANUP(str_done) Str copy = str_limited(PAGE_TEXT + 8);
    Str clean = str_limited((PAGE_TEXT + 8) * 3); /* a byte becomes three at most */

    if (len <= PAGE_TEXT)
        str_addn(&copy, text, len);
    else
        str_addf(&copy, "%.*s ... %s", HEAD, text, text + len - TAIL);
    clean_add(&clean, copy.text, true);
    return str_take(&clean);
}

static void page_json_text(Page *page, const char *key, const char *text)
{
    CLEANUP_FREE char *clean = copy_text(text);

    json_add_text(&page->out.room, key, clean);
}

static uint64_t page_text(Page *page, const char *text)
{
    uintptr_t number;

    text = !text ? "" : page->text_bytes > PAGE_TEXT_BYTES ? "..." : text;
    number = (uintptr_t)map_get(&page->numbers, text);
    if (!number) {
        vec_push(&page->texts, copy_text(text));
        number = page->texts.len;
        page->text_bytes += strlen(page->texts.at[number - 1]);
        map_put(&page->numbers, text, (void *)number);
    }
    return number - 1;
}

static int64_t page_time(const Page *page, const TraceRank *rank, int64_t time)
{
    __extension__ __int128 here = time;

    here += rank->clock_offset_ns;
    here -= page->origin;
    return here > time_max ? time_max : here < -time_max ? -time_max : (int64_t)here;
}

static void write_value(Page *page, const Field *field, const void *row, const TraceRank *rank)
{
    const void *at = (const char *)row + field->offset;

    if (field->type == FIELD_TEXT || field->type == FIELD_KNOWN_TEXT)
        json_add_u64(&page->out.room, NULL, page_text(page, *(const char *const *)at));
    else if (field->type == FIELD_TIME && rank && *(const int64_t *)at != INT64_MIN)
        json_add_i64(&page->out.room, NULL, page_time(page, rank, *(const int64_t *)at));
    else
        field_add_json(&page->out.room, NULL, field, row);
}

static void write_columns(Page *page, const Field *fields)
{
    char name[64];

    json_open(&page->out.room, "columns", '[');
    for (const Field *field = fields; field->name && field_is_plain(field); field++) {
        bool text = field->type == FIELD_TEXT || field->type == FIELD_KNOWN_TEXT;

        snprintf(name, sizeof(name), "%s%s", field->name, text ? "#" : "");
        json_add_text(&page->out.room, NULL, name);
    }
    json_close(&page->out.room, ']');
}

static void page_table(Page *page, const char *key, const Field *fields, const void *rows, size_t len, size_t size,
                       size_t limit, const TraceRank *rank)
{
    size_t shown = len < limit ? len : limit;

    json_open(&page->out.room, key, '{');
    write_columns(page, fields);
    json_open(&page->out.room, "rows", '[');
    for (size_t i = 0; i < shown; i++) {
        json_open(&page->out.room, NULL, '[');
        for (const Field *field = fields; field->name && field_is_plain(field); field++)
            write_value(page, field, (const char *)rows + i * size, rank);
        json_close(&page->out.room, ']');
        out_flow(&page->out);
    }
    json_close(&page->out.room, ']');
    json_add_u64(&page->out.room, "left_out", len - shown);
    json_close(&page->out.room, '}');
}

static void page_texts(Page *page)
{
    json_open(&page->out.room, "texts", '[');
    for (size_t i = 0; i < page->texts.len; i++) {
        json_add_text(&page->out.room, NULL, page->texts.at[i]);
        out_flow(&page->out);
    }
    json_close(&page->out.room, ']');
}

/* ---- budget of the timeline ---- */

/* Timelines for the page: busy shares and the longest slices of each lane, and the gaps of each device, packed. */

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

static void page_budget(Page *page, const TraceReport *report)
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

static void page_gaps(Page *page, const TraceRank *rank)
{
    const size_t limit = PAGE_GAPS / page->ranks + 20, all = rank->gaps.len + rank->edges.len;
    const size_t count = all < limit ? all : limit;
    TraceIdleCursor cursor = {0};
    CLEANUP_FREE GapOrder *order = xcalloc(count + 1, sizeof(*order));
    int64_t before = 0;
    Pack pack;

    for (size_t i = 0; i < count; i++) { /* the longest come first */
        const TraceGap *gap = trace_next_idle(rank, &cursor);

        order[i] = (GapOrder){.start = page_time(page, rank, gap->start), .gap = gap};
    }
    qsort(order, count, sizeof(*order), by_start);
    before = count ? order[0].start : 0;
    json_open(&page->out.room, "gaps", '{');
    json_add_u64(&page->out.room, "count", count);
    json_add_i64(&page->out.room, "from", before);
    json_add_u64(&page->out.room, "left_out", all - count);
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
    json_close(&page->out.room, '}');
}

/* ---- lanes ---- */

static int64_t slice_length(const TraceSlice *slice)
{
    return slice->end - slice->start;
}

static TraceLongest choose_slices(const TraceTimelineLane *lane, size_t quota)
{
    CLEANUP_FREE int64_t *lengths = xcalloc(lane->slices.len + 1, sizeof(*lengths));

    for (size_t i = 0; i < lane->slices.len; i++)
        lengths[i] = slice_length(&lane->slices.at[i]);
    return trace_find_longest(lengths, lane->slices.len, quota);
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
    TraceLongest kept = choose_slices(lane, page->slices_per_lane);
    int64_t before = 0;
    size_t count = 0;
    bool first = true;
    Pack pack;

    pack_begin(&pack, &page->out, "slices");
    for (size_t i = 0; i < lane->slices.len; i++) {
        const TraceSlice *slice = &lane->slices.at[i];
        int64_t start, end;

        if (!trace_is_longest(&kept, slice_length(slice)))
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
    json_add_u64(&page->out.room, "count", count);
    json_add_u64(&page->out.room, "left_out", lane->slices_left_out + (lane->slices.len - count));
}

static void write_busy(Page *page, const TraceRank *rank, const TraceTimelineLane *lane)
{
    size_t step = (size_t)1 << page->fold, buckets = lane->busy.len / CLASSES;
    int64_t bucket_ns = lane->bucket_ns > 0 ? lane->bucket_ns : 1;
    Pack pack;

    json_add_i64(&page->out.room, "first", page_time(page, rank, lane->first));
    json_add_double(&page->out.room, "bucket_ns", (double)bucket_ns * (double)step);
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

static void page_lanes(Page *page, const TraceRank *rank)
{
    CLEANUP_FREE uint64_t *numbers = xcalloc(rank->timeline.texts.len + 1, sizeof(*numbers));
    Texts texts = {.numbers = numbers, .timeline = &rank->timeline};

    json_open(&page->out.room, "lanes", '[');
    for (size_t i = 0; i < rank->timeline.lanes.len; i++) {
        const TraceTimelineLane *lane = &rank->timeline.lanes.at[i];

        json_open(&page->out.room, NULL, '{');
        json_add_bool(&page->out.room, "gpu", lane->gpu);
        json_add_i64(&page->out.room, "device", lane->device);
        page_json_text(page, "name", lane->name);
        write_busy(page, rank, lane);
        write_slices(page, rank, lane, &texts);
        json_close(&page->out.room, '}');
    }
    json_close(&page->out.room, ']');
}

static void page_init(Page *page, const TraceReport *report, ReportSink sink, Err *err)
{
    *page = (Page){.ranks = 1};
    out_init(&page->out, sink, err);
    map_init(&page->numbers);
    if (!report)
        return;
    page->ranks = report->ranks.len ? report->ranks.len : 1;
    page->origin = find_origin(report);
    page_budget(page, report);
}

/* ---- the page ---- */

/* The page: web/trace with the report as data in it. Loads nothing when opened; its Content-Security-Policy fixes
 * scripts and styles by hash, so that no name can become code. */

enum { HTML_VERSION = 1 };

#define TABLE(page, key, fields, vec, limit, rank)                                                                     \
    page_table((page), (key), (fields), (vec).at, (vec).len, sizeof(*(vec).at), (limit), (rank))

static void write_words(Page *page, const char *key, const char *const *words, size_t count)
{
    json_open(&page->out.room, key, '[');
    for (size_t i = 0; i < count; i++)
        page_json_text(page, NULL, words[i]);
    json_close(&page->out.room, ']');
}

static void write_causes(Page *page, const char *key, const TraceCauseSum sums[TRACE_CAUSE_COUNT])
{
    page_table(page, key, field_cause_sum, sums, TRACE_CAUSE_COUNT, sizeof(*sums), TRACE_CAUSE_COUNT, NULL);
}

/* A step's devices together: what the page shows of it, then its idle time by cause. */
static void write_step(Page *page, const TraceRank *rank, const TraceStepRow *step)
{
    const TraceStepDevice sum = trace_step_sum(step);
    const int64_t numbers[] = {page_time(page, rank, step->start),
                               page_time(page, rank, step->to),
                               step->to - step->start,
                               sum.window_ns,
                               sum.busy_ns,
                               sum.idle_ns,
                               sum.compute_ns,
                               sum.exposed_communication_ns,
                               sum.exposed_copy_ns,
                               sum.operation_count};

    json_open(&page->out.room, NULL, '[');
    json_add_u64(&page->out.room, NULL, page_text(page, step->name));
    json_add_i64(&page->out.room, NULL, step->number);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        json_add_i64(&page->out.room, NULL, numbers[i]);
    for (int i = 0; i < TRACE_CAUSE_COUNT; i++)
        json_add_i64(&page->out.room, NULL, sum.idle_by_cause[i].total_ns);
    json_close(&page->out.room, ']');
}

static void write_steps(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_STEPS / page->ranks + 20, shown = rank->steps.len < limit ? rank->steps.len : limit;

    json_open(&page->out.room, "steps", '[');
    for (size_t i = 0; i < shown; i++) {
        write_step(page, rank, &rank->steps.at[i]);
        out_flow(&page->out);
    }
    json_close(&page->out.room, ']');
    json_add_u64(&page->out.room, "steps_left_out", rank->steps.len - shown);
}

/* The critical path of all steps together: sums by kind, and each step's own. */
static void write_paths(Page *page, const TraceRank *rank)
{
    size_t limit = PAGE_STEPS / page->ranks / 8 + 4;

    json_open(&page->out.room, "paths", '[');
    for (size_t i = 0; i < rank->paths.len && i < limit; i++) {
        const TracePath *path = &rank->paths.at[i];

        json_open(&page->out.room, NULL, '{');
        json_add_u64(&page->out.room, "what", page_text(page, path->what));
        json_add_i64(&page->out.room, "total_ns", path->total_ns);
        json_open(&page->out.room, "by_kind_ns", '[');
        for (int kind = 0; kind < TRACE_PATH_KIND_COUNT; kind++)
            json_add_i64(&page->out.room, NULL, path->by_kind_ns[kind]);
        json_close(&page->out.room, ']');
        TABLE(page, "names", field_path_name, path->names, 20, rank);
        json_close(&page->out.room, '}');
    }
    json_close(&page->out.room, ']');
}

static void write_memory(Page *page, const TraceRank *rank)
{
    const size_t parts = page->ranks * (rank->memory.len + 1);

    json_open(&page->out.room, "memory", '[');
    for (size_t i = 0; i < rank->memory.len; i++) {
        const TraceMemoryDevice *memory = &rank->memory.at[i];

        json_open(&page->out.room, NULL, '{');
        page_table(page, "sums", field_memory, memory, 1, sizeof(*memory), 1, rank);
        TABLE(page, "points", field_memory_point, memory->points, PAGE_POINTS / parts + 16, rank);
        json_open(&page->out.room, "by_category", '{');
        for (size_t c = 0; c < TRACE_MEMORY_CATEGORY_COUNT; c++)
            if (memory->by_category[c])
                json_add_i64(&page->out.room, trace_memory_words[c], memory->by_category[c]);
        json_close(&page->out.room, '}');
        TABLE(page, "holders", field_memory_holder, memory->holders, PAGE_ROWS / parts + 10, rank);
        json_close(&page->out.room, '}');
    }
    json_close(&page->out.room, ']');
}

static void write_rank(Page *page, const TraceRank *rank)
{
    const size_t limit = PAGE_ROWS / page->ranks + 10;
    const TraceDevice sum = trace_sum_devices(rank);
    TraceCauseSum causes[TRACE_CAUSE_COUNT];

    trace_sum_causes(rank, causes);
    json_open(&page->out.room, NULL, '{');
    page_table(page, "about", field_rank, rank, 1, sizeof(*rank), 1, NULL);
    page_table(page, "sum", field_device, &sum, 1, sizeof(sum), 1, NULL);
    TABLE(page, "losses", field_loss, rank->losses, limit, rank);
    TABLE(page, "devices", field_device, rank->devices, limit, rank);
    write_causes(page, "idle_by_cause", causes);
    write_steps(page, rank);
    TABLE(page, "inference", field_inference, rank->inference, limit, rank);
    TABLE(page, "decode_gaps", field_decode_gap, rank->decode_gaps, limit, rank);
    TABLE(page, "kernels", field_kernel, rank->kernels, limit, rank);
    TABLE(page, "operators", field_operator, rank->operators, limit, rank);
    page_table(page, "roof", field_roof, &rank->roof, 1, sizeof(rank->roof), 1, rank);
    TABLE(page, "shapes", field_shape, rank->shapes, limit, rank);
    TABLE(page, "modules", field_module, rank->modules, limit, rank);
    page_table(page, "origin_sum", field_origin_sum, &rank->origin_sum, 1, sizeof(rank->origin_sum), 1, rank);
    TABLE(page, "origins", field_origin, rank->origins, limit, rank);
    TABLE(page, "calls", field_call, rank->calls, limit, rank);
    TABLE(page, "annotations", field_annotation, rank->annotations, limit, rank);
    TABLE(page, "copies", field_copy, rank->copies, limit, rank);
    page_table(page, "launch", field_launch, &rank->launch, 1, sizeof(rank->launch), 1, rank);
    TABLE(page, "queues", field_queue, rank->queues, limit, rank);
    TABLE(page, "queue_points", field_queue_point, rank->queue_points, PAGE_POINTS / page->ranks + 16, rank);
    write_paths(page, rank);
    write_memory(page, rank);
    page_gaps(page, rank);
    page_lanes(page, rank);
    json_close(&page->out.room, '}');
}

static void write_report(Page *page, const TraceReport *report)
{
    json_add_double(&page->out.room, "step_ns", report->measured_step_ns);
    json_add_double(&page->out.room, "seconds", report->seconds);
    write_words(page, "causes", trace_cause_words, TRACE_CAUSE_COUNT);
    write_words(page, "classes", trace_class_words, TRACE_CLASS_COUNT);
    write_words(page, "hosts", trace_host_words, TRACE_HOST_CLASS_COUNT);
    write_words(page, "path_kinds", trace_path_words, TRACE_PATH_KIND_COUNT);
    write_words(page, "notes", report->notes.at, report->notes.len);
    TABLE(page, "verdicts", field_verdict, report->verdicts, PAGE_ROWS, NULL);
    page_table(page, "straggler", field_straggler, &report->straggler, 1, sizeof(report->straggler), 1, NULL);
    TABLE(page, "more_stragglers", field_straggler, report->more_stragglers, PAGE_ROWS, NULL);
    TABLE(page, "collectives", field_collective_sum, report->collectives, PAGE_ROWS, NULL);
    TABLE(page, "rank_times", field_rank_time, report->rank_times, PAGE_ROWS, NULL);
    json_open(&page->out.room, "ranks", '[');
    for (size_t i = 0; i < report->ranks.len; i++)
        write_rank(page, &report->ranks.at[i]);
    json_close(&page->out.room, ']');
}

/* Text between tags. */
static void write_markup(Out *out, const char *text)
{
    CLEANUP(str_done) Str clean = str_limited((size_t)1 << 30);

    clean_add(&clean, text, true);
    str_add_html(&out->room, clean.text);
    out_flow(out);
}

/* A piece of the page that is in the program. */
static void write_piece(Out *out, const unsigned char *packed, size_t len)
{
    CLEANUP(str_done) Str text = str_limited(PIECE_MAX);
    Err err;
    const int rc = gzip_unpack((const char *)packed, len, &text, &err);

    assert(rc == 0);
    (void)rc;
    out_addn(out, text.text, text.len);
}

static void begin_page(Page *page, const char *title)
{
    write_piece(&page->out, trace_page_head, sizeof(trace_page_head));
    write_markup(&page->out, title);
    write_piece(&page->out, trace_page_middle, sizeof(trace_page_middle));
    out_set_script(&page->out, true);
    json_open(&page->out.room, NULL, '{');
    json_add_i64(&page->out.room, "version", HTML_VERSION);
    page_json_text(page, "title", title);
}

static int end_page(Page *page)
{
    page_texts(page);
    json_close(&page->out.room, '}');
    out_set_script(&page->out, false);
    write_piece(&page->out, trace_page_tail, sizeof(trace_page_tail));
    return page_done(page);
}

int trace_html(const TraceReport *report, const char *title, ReportSink sink, Err *err)
{
    Page page;

    page_init(&page, report, sink, err);
    begin_page(&page, title);
    write_report(&page, report);
    return end_page(&page);
}

int trace_diff_html(const TraceDiff *diff, const char *title, ReportSink sink, Err *err)
{
    Page page;

    page_init(&page, NULL, sink, err);
    begin_page(&page, title);
    json_open(&page.out.room, "diff", '{');
    for (const Field *field = field_diff; field_is_plain(field); field++)
        field_add_json(&page.out.room, field->name, field, diff);
    TABLE(&page, "kernels", field_diff_row, diff->kernels, PAGE_ROWS, NULL);
    TABLE(&page, "operators", field_diff_row, diff->operators, PAGE_ROWS, NULL);
    TABLE(&page, "modules", field_diff_row, diff->modules, PAGE_ROWS, NULL);
    json_close(&page.out.room, '}');
    return end_page(&page);
}

int trace_snapshot_html(const AllocatorReport *report, const char *title, ReportSink sink, Err *err)
{
    Page page;

    page_init(&page, NULL, sink, err);
    begin_page(&page, title);
    json_open(&page.out.room, "snapshot", '{');
    TABLE(&page, "findings", allocator_finding_fields, report->findings, PAGE_ROWS, NULL);
    json_open(&page.out.room, "devices", '[');
    for (size_t i = 0; i < report->devices.len; i++) {
        const AllocatorDevice *device = &report->devices.at[i];
        const size_t limit = PAGE_ROWS / report->devices.len;

        json_open(&page.out.room, NULL, '{');
        page_table(&page, "sums", allocator_device_fields, device, 1, sizeof(*device), 1, NULL);
        TABLE(&page, "sites", allocator_site_fields, device->sites, limit, NULL);
        TABLE(&page, "peak_sites", allocator_site_fields, device->peak_sites, limit, NULL);
        TABLE(&page, "points", allocator_point_fields, device->points, limit, NULL);
        TABLE(&page, "ooms", allocator_oom_fields, device->ooms, limit, NULL);
        json_close(&page.out.room, '}');
    }
    json_close(&page.out.room, ']');
    json_close(&page.out.room, '}');
    return end_page(&page);
}
