/* SPDX-License-Identifier: Apache-2.0 */
/* The list of metrics to export, from a CSV of dcgm-exporter or built in. Pure but for memory, one thread. */

#include "service/prometheus/counters.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "service/prometheus/csv.h"

enum { COLUMNS = 3, TEXT_SHOWN = 80 };

/* One reading of a file. */
typedef struct Reader {
    Counters *counters;
    const char *file;
    bool strict;
    size_t records;
    Err *err;
} Reader;

static const char *const type_names[] = {
    [COUNTER_GAUGE] = "gauge",     [COUNTER_COUNTER] = "counter", [COUNTER_HISTOGRAM] = "histogram",
    [COUNTER_SUMMARY] = "summary", [COUNTER_LABEL] = "label",
};

static const CounterType types[] = {
    [METRIC_GAUGE] = COUNTER_GAUGE,
    [METRIC_COUNTER] = COUNTER_COUNTER,
    [METRIC_LABEL] = COUNTER_LABEL,
};

void counters_init(Counters *counters)
{
    memset(counters, 0, sizeof *counters);
}

void counters_done(Counters *counters)
{
    arena_done(&counters->arena);
    free(counters->rows);
    free(counters->warnings);
    counters_init(counters);
}

/* Room for one more in an array that grows by doubling and knows its length alone. */
static void *grow_array(void *array, size_t len, size_t size)
{
    if (len && (len & (len - 1)))
        return array;
    return xrealloc(array, len ? 2 * len : 1, size);
}

static void add_row(Counters *counters, CounterRow row)
{
    counters->rows = grow_array(counters->rows, counters->len, sizeof *counters->rows);
    counters->rows[counters->len++] = row;
}

void counters_default(Counters *counters)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (metric->on && strncmp(metric->name, "DCGM_", 5) == 0)
            add_row(counters, (CounterRow){.name = metric_name(id, METRIC_NAME_CLASSIC),
                                           .type = types[metric->csv_type],
                                           .help = metric->help});
    }
}

/* A row that cannot be used: ends the reading where it is strict, else is noted. */
static PRINTF_LIKE(3, 4) int refuse(Reader *reader, unsigned line, const char *fmt, ...)
{
    Counters *counters = reader->counters;
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (reader->strict)
        return err_set(reader->err, -EINVAL, "%s:%u: %s", reader->file, line, text);
    if (counters->warning_count == COUNTERS_WARNINGS_MAX)
        return 0;
    counters->warnings = grow_array(counters->warnings, counters->warning_count, sizeof *counters->warnings);
    counters->warnings[counters->warning_count++] = (CounterWarning){
        .line = line,
        .text = arena_printf(&counters->arena, "%s:%u: %s; the row is left out", reader->file, line, text),
    };
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A copy of a field without the blanks around it. */
static const char *copy_trimmed(Arena *arena, const char *field)
{
    size_t len;

    while (is_blank(*field))
        field++;
    len = strlen(field);
    while (len && is_blank(field[len - 1]))
        len--;
    return arena_strndup(arena, field, len);
}

static bool find_type(const char *text, CounterType *ret)
{
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++)
        if (strcmp(type_names[i], text) == 0) {
            *ret = (CounterType)i;
            return true;
        }
    return false;
}

static bool has_counter(const Counters *counters, const char *name)
{
    for (size_t i = 0; i < counters->len; i++)
        if (strcmp(counters->rows[i].name.text, name) == 0)
            return true;
    return false;
}

static int use_record(Reader *reader, unsigned line, const char *const field[COLUMNS])
{
    Counters *counters = reader->counters;
    Arena *arena = &counters->arena;
    CounterRow row = {.line = line};
    const char *name = copy_trimmed(arena, field[0]), *type = copy_trimmed(arena, field[1]);
    const MetricName *found;
    bool text_metric;

    if (*name == '\0' || *name == '#')
        return 0;
    found = metric_find(name);
    if (!found)
        return refuse(reader, line, "no metric is called '%.*s'", TEXT_SHOWN, name);
    /* dcgm-exporter does not look at the type of its derived rows; such a row is a gauge at heart */
    if (!find_type(type, &row.type)) {
        if (strncmp(name, "DCGM_EXP_", 9) != 0)
            return refuse(reader, line, "'%.*s' is not a type: gauge, counter, histogram, summary, label", TEXT_SHOWN,
                          type);
        row.type = COUNTER_GAUGE;
    }
    text_metric = metric_get(found->metric)->type == METRIC_LABEL;
    if (text_metric && row.type != COUNTER_LABEL)
        return refuse(reader, line, "%s is a text: its type must be label", name);
    if (has_counter(counters, name))
        return refuse(reader, line, "%s was there before", name);
    row.name = *found;
    row.name.text = name;
    row.help = copy_trimmed(arena, field[2]);
    add_row(counters, row);
    return 0;
}

/* The first record fixes the number of fields, upstream; as it must be three, all must have three. */
static int take_record(Reader *reader, const Csv *csv)
{
    if (csv->count != COLUMNS)
        return refuse(reader, csv->line,
                      "%zu fields where name, type and help are expected (a help with a comma needs quotes, the first "
                      "right behind the comma)",
                      csv->count);
    return use_record(reader, csv->line, csv->field);
}

static int read_all(Reader *reader, Csv *csv)
{
    for (;;) {
        CsvResult result = csv_next(csv);

        if (result == CSV_END)
            return 0;
        reader->records++;
        switch (result) {
        case CSV_RECORD:
            TRY(take_record(reader, csv));
            break;
        case CSV_BARE_QUOTE:
            TRY(refuse(reader, csv->line, "a quote within a field that does not start with one"));
            break;
        case CSV_WRONG_QUOTE:
            TRY(refuse(reader, csv->line, "a closing quote must be followed by a comma or the end of the line"));
            break;
        case CSV_OPEN_QUOTE:
            TRY(refuse(reader, csv->line, "a quote that is not closed"));
            break;
        default:
            TRY(refuse(reader, csv->line, "a row of more than %d bytes", CSV_RECORD_MAX));
            break;
        }
    }
}

int counters_read(Counters *counters, const char *text, size_t len, const char *file, bool strict, Err *err)
{
    Reader reader = {.counters = counters, .file = file, .strict = strict, .err = err};
    size_t rows = counters->len;
    Csv csv;
    int rc;

    csv_init(&csv, text, len);
    rc = read_all(&reader, &csv);
    csv_done(&csv);
    if (rc >= 0 && reader.records && counters->len == rows)
        rc = err_set(err, -EINVAL, "%s: no row of it could be used%s%s", file,
                     counters->warning_count ? "; the first: " : "",
                     counters->warning_count ? counters->warnings[0].text : "");
    if (rc < 0)
        counters->len = rows;
    return rc < 0 ? rc : 0;
}
