/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What goes into the page besides the report's plain fields. Texts are written once and named by their number; times
 * are counted from the first one, since a browser's numbers are exact below 2^53 alone; and what is drawn is cut down
 * so that a page stays near PAGE_BYTES however long the profile is. Not for others. */

#include "base/map.h"
#include "service/report/field.h"

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

void page_init(Page *page, const TraceReport *report, ReportSink sink, Err *err);
int page_done(Page *page);

/* The number of a text. */
uint64_t page_text(Page *page, const char *text);
/* "key":"text" of what a page may show of a text. */
void page_json_text(Page *page, const char *key, const char *text);
/* A time of a rank's clock as the page counts it; far ones are clamped. */
int64_t page_time(const Page *page, const TraceRank *rank, int64_t time);
/* "key":{"columns":[..],"rows":[[..]],"left_out":n} of the first `limit` rows. Texts are numbers: columns end with '#'.
 * `rank` is whose clock times are of, NULL where there are none. */
void page_table(Page *page, const char *key, const Field *fields, const void *rows, size_t len, size_t size,
                size_t limit, const TraceRank *rank);
/* All texts that have a number, last. */
void page_texts(Page *page);

/* page_timeline.c: "gaps" and "lanes" of a rank. */
void page_gaps(Page *page, const TraceRank *rank);
void page_lanes(Page *page, const TraceRank *rank);
/* Chooses slices_per_lane and fold. */
void page_budget(Page *page, const TraceReport *report);
