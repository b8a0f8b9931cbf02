/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators per scraper and GPU, and those of the last minute in twelve parts of five seconds for new scrapers. A
 * GPU keeps its row (by PCI address) while it is gone. Rows have a value per fast metric. The accumulators closed last
 * are kept beside the running ones, for a scraper that repeats its request at once.
 */

#include "engine/store/window.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/map.h"

enum { PARTS = 12, BUFFERS = 2, NO_ROW = NODE_GPUS_MAX };

#define PART_NS (5 * NS_PER_S)
#define MINUTE_NS (PARTS * PART_NS)

typedef struct Scraper {
    char name[WINDOW_NAME_CAP]; /* its beginning */
    uint64_t hash;              /* of the whole name */
    uint64_t seen_ns;           /* last take */
    uint64_t opened_ns;         /* start of the running window */
    uint64_t span_ns;           /* of the closed one */
    uint64_t window;            /* number of the closed one */
    uint64_t connection;        /* of the last take */
    unsigned running;           /* which of the two buffers runs; the other is the closed one */
    bool used, closed;          /* the place is taken; a window was closed yet */
} Scraper;

typedef struct Row {
    PciAddress gpu;
    uint64_t seen; /* number of the windows_add that saw it last; 0: never used */
} Row;

struct Windows {
    unsigned metric_count; /* fast metrics */
    uint64_t adds;         /* windows_add so far */
    uint64_t first_ns;     /* instant of the first windows_add */
    uint64_t closed;       /* windows so far */
    Row rows[NODE_GPUS_MAX];
    unsigned rows_touched;
    Scraper scrapers[WINDOW_SCRAPERS];
    uint64_t part_number[PARTS]; /* instant / PART_NS; of part number % PARTS */
    WindowValue *values;         /* see values_at */
};

/* Sets of values: each scraper's two, then the parts. One set has a row of metric_count values per row of GPUs. */
enum { SETS = WINDOW_SCRAPERS * BUFFERS + PARTS };

static WindowValue *values_at(const Windows *windows, size_t set, size_t row)
{
    return windows->values + (set * NODE_GPUS_MAX + row) * windows->metric_count;
}

static size_t set_of(const Windows *windows, const Scraper *scraper, bool running)
{
    return (size_t)(scraper - windows->scrapers) * BUFFERS + (running ? scraper->running : !scraper->running);
}

static size_t set_of_part(size_t part)
{
    return WINDOW_SCRAPERS * BUFFERS + part;
}

static void clear_row(Windows *windows, size_t set, size_t row)
{
    memset(values_at(windows, set, row), 0, windows->metric_count * sizeof(WindowValue));
}

static void clear_set(Windows *windows, size_t set)
{
    for (size_t row = 0; row < windows->rows_touched; row++)
        clear_row(windows, set, row);
}

Windows *windows_new(void)
{
    Windows *windows = xcalloc(1, sizeof *windows);

    while (metric_fast_at((int)windows->metric_count) != METRIC_END)
        windows->metric_count++;
    assert(windows->metric_count <= READING_FAST_CAP);
    windows->values = xcalloc((size_t)SETS * NODE_GPUS_MAX * windows->metric_count, sizeof *windows->values);
    return windows;
}

void windows_free(Windows *windows)
{
    if (!windows)
        return;
    free(windows->values);
    free(windows);
}

static void merge_values(WindowValue *into, const WindowValue *more)
{
    if (more->count == 0)
        return;
    if (into->count == 0 || more->min < into->min)
        into->min = more->min;
    if (into->count == 0 || more->max > into->max)
        into->max = more->max;
    into->sum += more->sum;
    into->count += more->count;
}

static void merge_row(const Windows *windows, WindowValue *into, const WindowValue *more)
{
    for (size_t m = 0; m < windows->metric_count; m++)
        merge_values(&into[m], &more[m]);
}

/* NO_ROW where this GPU has none. */
static unsigned find_row(const Windows *windows, PciAddress gpu)
{
    for (unsigned row = 0; row < windows->rows_touched; row++)
        if (pci_compare(windows->rows[row].gpu, gpu) == 0)
            return row;
    return NO_ROW;
}

/* A row for a new GPU: an unused one, or that of the GPU that is gone for longest. A node has no more GPUs than there
 * are rows, and those that are there have been marked, so there is one. */
static unsigned new_row(Windows *windows, PciAddress gpu)
{
    unsigned oldest = 0;

    if (windows->rows_touched < NODE_GPUS_MAX) {
        oldest = windows->rows_touched++;
    } else {
        for (unsigned row = 1; row < NODE_GPUS_MAX; row++)
            if (windows->rows[row].seen < windows->rows[oldest].seen)
                oldest = row;
        assert(windows->rows[oldest].seen < windows->adds);
        for (size_t set = 0; set < SETS; set++)
            clear_row(windows, set, oldest);
    }
    windows->rows[oldest] = (Row){.gpu = gpu, .seen = windows->adds};
    return oldest;
}

static void add_reading(const Windows *windows, WindowValue *values, const FastReading *reading)
{
    for (size_t m = 0; m < windows->metric_count; m++) {
        double value = reading->value[m];

        if (reading->valid >> m & 1 && !isnan(value))
            merge_values(&values[m], &(WindowValue){.min = value, .max = value, .sum = value, .count = 1});
    }
}

/* The part of the last minute that this instant is in, emptied where it was that of an earlier minute; NULL where the
 * instant is older than what the parts hold. */
static WindowValue *part_row(Windows *windows, uint64_t time_ns, unsigned row)
{
    uint64_t number = time_ns / PART_NS;
    size_t part = number % PARTS;

    if (windows->part_number[part] > number)
        return NULL;
    if (windows->part_number[part] < number) {
        clear_set(windows, set_of_part(part));
        windows->part_number[part] = number;
    }
    return values_at(windows, set_of_part(part), row);
}

static void add_gpu(Windows *windows, const NodeGpu *gpu, unsigned row)
{
    WindowValue tick[READING_FAST_CAP] = {{.count = 0}};

    for (size_t i = 0; i < gpu->fast_count; i++) {
        WindowValue *part = part_row(windows, gpu->fast[i].time_ns, row);

        add_reading(windows, tick, &gpu->fast[i]);
        if (part)
            add_reading(windows, part, &gpu->fast[i]);
    }
    for (size_t i = 0; i < WINDOW_SCRAPERS; i++)
        if (windows->scrapers[i].used)
            merge_row(windows, values_at(windows, set_of(windows, &windows->scrapers[i], true), row), tick);
}

/* The GPUs that the windows can hold: with an address, and no more than there are rows. */
static size_t usable_gpus(const Node *node, const NodeGpu *ret_gpus[NODE_GPUS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < node->gpu_count && count < NODE_GPUS_MAX; i++)
        if (node->gpus[i].reading.device.has_pci)
            ret_gpus[count++] = &node->gpus[i];
    return count;
}

/* The oldest instant of a tick's readings. */
static uint64_t oldest_of(const Node *node, const NodeGpu *const *gpus, size_t count)
{
    uint64_t oldest = node->time_ns;

    for (size_t i = 0; i < count; i++)
        if (gpus[i]->fast_count > 0 && gpus[i]->fast[0].time_ns < oldest)
            oldest = gpus[i]->fast[0].time_ns;
    return oldest;
}

void windows_add(Windows *windows, const Node *node)
{
    const NodeGpu *gpus[NODE_GPUS_MAX];
    size_t count = usable_gpus(node, gpus);

    if (windows->adds++ == 0)
        windows->first_ns = oldest_of(node, gpus, count);
    for (size_t i = 0; i < count; i++) {
        unsigned row = find_row(windows, gpus[i]->reading.device.pci);

        if (row != NO_ROW)
            windows->rows[row].seen = windows->adds;
    }
    for (size_t i = 0; i < count; i++) {
        PciAddress gpu = gpus[i]->reading.device.pci;
        unsigned row = find_row(windows, gpu);

        if (row == NO_ROW)
            row = new_row(windows, gpu);
        add_gpu(windows, gpus[i], row);
    }
}

/* Number of the oldest part of the last minute. */
static uint64_t oldest_part(uint64_t now_ns)
{
    uint64_t newest = now_ns / PART_NS;

    return newest < PARTS ? 0 : newest - PARTS + 1;
}

static void merge_minute(const Windows *windows, uint64_t now_ns, size_t row, WindowValue *into)
{
    for (size_t part = 0; part < PARTS; part++)
        if (windows->part_number[part] >= oldest_part(now_ns))
            merge_row(windows, into, values_at(windows, set_of_part(part), row));
}

/* Since when the last minute is known. */
static uint64_t find_minute_start(const Windows *windows, uint64_t now_ns)
{
    const uint64_t start_ns = oldest_part(now_ns) * PART_NS;

    if (windows->adds == 0)
        return now_ns;
    return start_ns < windows->first_ns ? windows->first_ns : start_ns;
}

/* As if the scraper had come a minute ago. */
static void open_with_minute(Windows *windows, Scraper *scraper, uint64_t now_ns)
{
    size_t set = set_of(windows, scraper, true);

    for (size_t row = 0; row < windows->rows_touched; row++)
        merge_minute(windows, now_ns, row, values_at(windows, set, row));
    scraper->opened_ns = find_minute_start(windows, now_ns);
}

/* The scraper's place; a new one gets a free place or that of the one not seen for longest. */
static Scraper *scraper_for(Windows *windows, const char *name, uint64_t now_ns)
{
    uint64_t hash = map_hash(name, strlen(name), 0);
    Scraper *oldest = &windows->scrapers[0];
    size_t len = strnlen(name, WINDOW_NAME_CAP - 1);

    for (Scraper *s = windows->scrapers; s < windows->scrapers + WINDOW_SCRAPERS; s++) {
        if (s->used && s->hash == hash && strncmp(s->name, name, len) == 0)
            return s;
        if (oldest->used && (!s->used || s->seen_ns < oldest->seen_ns))
            oldest = s;
    }
    *oldest = (Scraper){.hash = hash, .used = true};
    memcpy(oldest->name, name, len);
    clear_set(windows, set_of(windows, oldest, true));
    open_with_minute(windows, oldest, now_ns);
    return oldest;
}

static void close_window(Windows *windows, Scraper *scraper, uint64_t now_ns)
{
    scraper->span_ns = now_ns > scraper->opened_ns ? now_ns - scraper->opened_ns : 0;
    scraper->opened_ns = now_ns;
    scraper->closed = true;
    scraper->window = ++windows->closed;
    scraper->running = !scraper->running;
    clear_set(windows, set_of(windows, scraper, true));
}

/* Whether what was added since the scraper's last take is its alone. */
static bool is_own(const Scraper *scraper, const WindowScraper *who, uint64_t now_ns)
{
    if (who->named)
        return true;
    return scraper->closed && (scraper->connection == who->connection || now_ns >= scraper->seen_ns + MINUTE_NS);
}

size_t windows_read(Windows *windows, const WindowScraper *who, uint64_t now_ns, WindowGpu *out, size_t cap,
                    WindowSpan *ret)
{
    Scraper *scraper = scraper_for(windows, who->name, now_ns);
    const bool own = is_own(scraper, who, now_ns);
    size_t count = 0;

    if (!scraper->closed || now_ns >= scraper->opened_ns + WINDOW_AGAIN_NS)
        close_window(windows, scraper, now_ns);
    scraper->seen_ns = now_ns;
    scraper->connection = who->connection;
    for (unsigned row = 0; row < windows->rows_touched && count < cap; row++) {
        WindowGpu *gpu = &out[count];

        if (windows->rows[row].seen != windows->adds)
            continue; /* it is no longer in the node */
        memset(gpu, 0, sizeof *gpu);
        gpu->gpu = windows->rows[row].gpu;
        if (own)
            merge_row(windows, gpu->value, values_at(windows, set_of(windows, scraper, false), row));
        else
            merge_minute(windows, now_ns, row, gpu->value);
        count++;
    }
    *ret = own ? (WindowSpan){scraper->span_ns, scraper->window}
               : (WindowSpan){now_ns - find_minute_start(windows, now_ns), 0};
    return count;
}
