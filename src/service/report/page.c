/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/page.h"

#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "service/report/clean.h"

static const int64_t time_max = INT64_C(1) << 53;

static void take_earlier(int64_t *first, int64_t time, const TraceRank *rank, bool *any)
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
            take_earlier(&first, rank->devices.at[j].first, rank, &any);
        for (size_t j = 0; j < rank->steps.len; j++)
            take_earlier(&first, rank->steps.at[j].start, rank, &any);
        for (size_t j = 0; j < rank->timeline.lanes.len; j++)
            take_earlier(&first, rank->timeline.lanes.at[j].first, rank, &any);
    }
    return first;
}

void page_init(Page *page, const TraceReport *report, ReportSink sink, Err *err)
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

int page_done(Page *page)
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
    Str copy, clean;

    str_init(&copy, PAGE_TEXT + 8);
    str_init(&clean, (PAGE_TEXT + 8) * 3); /* a byte becomes three at most */
    if (len <= PAGE_TEXT)
        str_addn(&copy, text, len);
    else
        str_addf(&copy, "%.*s ... %s", HEAD, text, text + len - TAIL);
    clean_add(&clean, copy.text, true);
    str_done(&copy);
    return str_take(&clean);
}

void page_json_text(Page *page, const char *key, const char *text)
{
    CLEANUP_FREE char *clean = copy_text(text);

    out_json_text(&page->out, key, clean);
}

uint64_t page_text(Page *page, const char *text)
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

int64_t page_time(const Page *page, const TraceRank *rank, int64_t time)
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
        out_json_u64(&page->out, NULL, page_text(page, *(const char *const *)at));
    else if (field->type == FIELD_TIME && rank && *(const int64_t *)at != INT64_MIN)
        out_json_i64(&page->out, NULL, page_time(page, rank, *(const int64_t *)at));
    else
        field_json_one(&page->out, NULL, field, row);
}

static void write_columns(Page *page, const Field *fields)
{
    char name[64];

    out_open(&page->out, "columns", '[');
    for (const Field *field = fields; field->name; field++) {
        bool text = field->type == FIELD_TEXT || field->type == FIELD_KNOWN_TEXT;

        snprintf(name, sizeof(name), "%s%s", field->name, text ? "#" : "");
        out_json_text(&page->out, NULL, name);
    }
    out_close(&page->out, ']');
}

void page_table(Page *page, const char *key, const Field *fields, const void *rows, size_t len, size_t size,
                size_t limit, const TraceRank *rank)
{
    size_t shown = len < limit ? len : limit;

    out_open(&page->out, key, '{');
    write_columns(page, fields);
    out_open(&page->out, "rows", '[');
    for (size_t i = 0; i < shown; i++) {
        out_open(&page->out, NULL, '[');
        for (const Field *field = fields; field->name; field++)
            write_value(page, field, (const char *)rows + i * size, rank);
        out_close(&page->out, ']');
    }
    out_close(&page->out, ']');
    out_json_u64(&page->out, "left_out", len - shown);
    out_close(&page->out, '}');
}

void page_texts(Page *page)
{
    out_open(&page->out, "texts", '[');
    for (size_t i = 0; i < page->texts.len; i++)
        out_json_text(&page->out, NULL, page->texts.at[i]);
    out_close(&page->out, ']');
}
