/* SPDX-License-Identifier: Apache-2.0 */
/* The list of metrics to export, from a CSV of dcgm-exporter or built in. Pure but for memory, one thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "service/prometheus/counters.h"

/*
 * Records of CSV by the rules of Go's encoding/csv: a line that starts with '#' is a comment, an empty one is skipped,
 * a field is quoted only where its first byte is a quote, "" is a quote inside, a quoted field may go over lines, CRLF
 * counts as LF, leading blanks are kept. A BOM at the start is skipped. Fields live in the reader until the next
 * record.
 */
enum { CSV_FIELDS_MAX = 16, CSV_RECORD_MAX = 64 * 1024 };

typedef enum CsvResult {
    CSV_END,
    CSV_RECORD,
    CSV_BARE_QUOTE,  /* a quote within a field that does not start with one */
    CSV_WRONG_QUOTE, /* something other than a comma behind a closing quote */
    CSV_OPEN_QUOTE,  /* no closing quote before the end */
    CSV_TOO_LARGE,   /* more bytes than CSV_RECORD_MAX */
} CsvResult;

typedef struct Csv {
    const char *at, *end;
    unsigned next_line; /* number of the line at `at` */
    unsigned line;      /* of the record that was read last, where it starts */
    size_t count;       /* of its fields, of which the first CSV_FIELDS_MAX are kept */
    const char *field[CSV_FIELDS_MAX];
    Str text; /* what the fields point to, each with its NUL */
    size_t start[CSV_FIELDS_MAX];
} Csv;

/* A line with its end: [at, stop) without the LF, CRLF or, at the end of the text, CR that `next` is behind. */
typedef struct Line {
    const char *at, *stop, *next;
    bool ended; /* by a LF */
} Line;

/* `text` must outlive the reader. */
static void csv_init(Csv *csv, const char *text, size_t len)
{
    memset(csv, 0, sizeof *csv);
    csv->at = text;
    csv->end = text + len;
    csv->next_line = 1;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        csv->at += 3;
    str_init(&csv->text, CSV_RECORD_MAX);
}

static void csv_done(Csv *csv)
{
    str_done(&csv->text);
}

static Line line_at(const Csv *csv, const char *at)
{
    const char *lf = memchr(at, '\n', (size_t)(csv->end - at));
    Line line = {.at = at, .stop = lf ? lf : csv->end, .next = lf ? lf + 1 : csv->end, .ended = lf != NULL};

    if (line.stop > at && line.stop[-1] == '\r')
        line.stop--;
    return line;
}

static void field_begin(Csv *csv)
{
    if (csv->count < CSV_FIELDS_MAX)
        csv->start[csv->count] = csv->text.len;
}

static void field_end(Csv *csv)
{
    str_addc(&csv->text, '\0');
    csv->count++;
}

/* Reads the rest of a quoted field; line->at is behind its opening quote, afterwards behind the comma or at the end of
 * the line. *ret_more: a comma follows. */
static CsvResult quoted_field(Csv *csv, Line *line, bool *ret_more)
{
    for (;;) {
        const char *quote = memchr(line->at, '"', (size_t)(line->stop - line->at));

        if (!quote) {
            str_addn(&csv->text, line->at, (size_t)(line->stop - line->at));
            if (line->ended)
                str_addc(&csv->text, '\n');
            if (line->next == csv->end)
                return CSV_OPEN_QUOTE;
            *line = line_at(csv, line->next);
            csv->next_line++;
            continue;
        }
        str_addn(&csv->text, line->at, (size_t)(quote - line->at));
        line->at = quote + 1;
        if (line->at == line->stop || *line->at == ',') {
            *ret_more = line->at < line->stop;
            line->at += *ret_more;
            field_end(csv);
            return CSV_RECORD;
        }
        if (*line->at != '"')
            return CSV_WRONG_QUOTE;
        str_addc(&csv->text, '"');
        line->at++;
    }
}

static CsvResult plain_field(Csv *csv, Line *line, bool *ret_more)
{
    const char *comma = memchr(line->at, ',', (size_t)(line->stop - line->at));
    const char *stop = comma ? comma : line->stop;

    if (memchr(line->at, '"', (size_t)(stop - line->at)))
        return CSV_BARE_QUOTE;
    str_addn(&csv->text, line->at, (size_t)(stop - line->at));
    field_end(csv);
    line->at = comma ? comma + 1 : stop;
    *ret_more = comma != NULL;
    return CSV_RECORD;
}

static CsvResult read_record(Csv *csv, Line *line)
{
    CsvResult result;
    bool more = true;

    do {
        field_begin(csv);
        if (line->at < line->stop && *line->at == '"') {
            line->at++;
            result = quoted_field(csv, line, &more);
        } else {
            result = plain_field(csv, line, &more);
        }
    } while (result == CSV_RECORD && more);
    return result == CSV_RECORD && csv->text.overflow ? CSV_TOO_LARGE : result;
}

/* The next record. After an error the reader goes on with the line after the one on which the record started. */
static CsvResult csv_next(Csv *csv)
{
    CsvResult result;
    Line first, line;

    do {
        if (csv->at == csv->end)
            return CSV_END;
        first = line_at(csv, csv->at);
        csv->line = csv->next_line++;
        csv->at = first.next;
    } while (first.at == first.stop || *first.at == '#');
    csv->count = 0;
    str_clear(&csv->text);
    line = first;
    result = read_record(csv, &line);
    if (result != CSV_RECORD) {
        csv->next_line = csv->line + 1;
        return result;
    }
    csv->at = line.next;
    for (size_t i = 0; i < csv->count && i < CSV_FIELDS_MAX; i++)
        csv->field[i] = csv->text.text + csv->start[i];
    return CSV_RECORD;
}

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

/* An unusable row: an error where strict, else a warning. */
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
    /* dcgm-exporter ignores the type of its derived rows, which are gauges */
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
static int read_row(Reader *reader, const Csv *csv)
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
            TRY(read_row(reader, csv));
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
