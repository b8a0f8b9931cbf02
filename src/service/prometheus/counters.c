/* SPDX-License-Identifier: Apache-2.0 */
/* The list of metrics to export, from a CSV of dcgm-exporter or built in. Pure but for memory, one thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
    Str text; /* the fields, each with its NUL */
} Csv;

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

/* The next byte; -1 at the end. The CR before a LF or the end is no byte. */
static int read_byte(Csv *csv)
{
    if (csv->at < csv->end && *csv->at == '\r' && (csv->at + 1 == csv->end || csv->at[1] == '\n'))
        csv->at++;
    if (csv->at == csv->end)
        return -1;
    csv->next_line += *csv->at == '\n';
    return (unsigned char)*csv->at++;
}

/* Reads a field, whose first byte is `c`, without its quotes. *ret_last: what ends it is no comma. */
static CsvResult read_field(Csv *csv, int c, bool *ret_last)
{
    const bool quoted = c == '"';

    if (quoted)
        c = read_byte(csv);
    for (;; c = read_byte(csv)) {
        bool inside = quoted && c != '"';

        if (quoted && c == '"') {
            c = read_byte(csv);
            inside = c == '"'; /* "" is a quote */
            if (!inside && c != ',' && c != '\n' && c >= 0)
                return CSV_WRONG_QUOTE;
        }
        if (inside && c < 0)
            return CSV_OPEN_QUOTE;
        if (!inside && (c == ',' || c == '\n' || c < 0))
            break;
        if (!quoted && c == '"')
            return CSV_BARE_QUOTE;
        str_addc(&csv->text, (char)c);
    }
    str_addc(&csv->text, '\0');
    csv->count++;
    *ret_last = c != ',';
    return CSV_RECORD;
}

static CsvResult read_record(Csv *csv, int first)
{
    size_t start[CSV_FIELDS_MAX];
    bool last = false;

    csv->count = 0;
    str_clear(&csv->text);
    for (int c = first; !last; c = last ? 0 : read_byte(csv)) {
        if (csv->count < CSV_FIELDS_MAX)
            start[csv->count] = csv->text.len;
        CsvResult result = read_field(csv, c, &last);

        if (result != CSV_RECORD)
            return result;
    }
    for (size_t i = 0; i < csv->count && i < CSV_FIELDS_MAX; i++)
        csv->field[i] = csv->text.text + start[i];
    return csv->text.overflow ? CSV_TOO_LARGE : CSV_RECORD;
}

static void skip_line(Csv *csv)
{
    for (int c = 0; c >= 0 && c != '\n';)
        c = read_byte(csv);
}

/* The next record. After an error the reader goes on with the line after the one on which the record started. */
static CsvResult csv_next(Csv *csv)
{
    const char *start;
    CsvResult result;
    int first;

    do {
        start = csv->at;
        csv->line = csv->next_line;
        first = read_byte(csv);
        if (first == '#')
            skip_line(csv);
    } while (first == '#' || first == '\n');
    if (first < 0)
        return CSV_END;
    result = read_record(csv, first);
    if (result != CSV_RECORD) {
        csv->at = start;
        csv->next_line = csv->line;
        skip_line(csv);
    }
    return result;
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

static const WordRow type_words[] = {COUNTER_TYPE_TABLE(WORD_ROW)};

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
    vec_done(&counters->rows);
    vec_done(&counters->warnings);
    counters_init(counters);
}

void counters_default(Counters *counters)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);

        if (metric->on && strncmp(metric->name, "DCGM_", 5) == 0)
            vec_push(&counters->rows, ((CounterRow){.name = metric_name(id, METRIC_NAME_CLASSIC),
                                                    .type = types[metric->csv_type],
                                                    .help = metric->help}));
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
    if (counters->warnings.len == COUNTERS_WARNINGS_MAX)
        return 0;
    vec_push(&counters->warnings,
             ((CounterWarning){
                 .line = line,
                 .text = arena_printf(&counters->arena, "%s:%u: %s; the row is left out", reader->file, line, text),
             }));
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

static bool has_counter(const Counters *counters, const char *name)
{
    for (size_t i = 0; i < counters->rows.len; i++)
        if (strcmp(counters->rows.at[i].name.text, name) == 0)
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
    int kind;

    if (*name == '\0' || *name == '#')
        return 0;
    found = metric_find(name);
    if (!found)
        return refuse(reader, line, "no metric is called '%.*s'", TEXT_SHOWN, name);
    /* dcgm-exporter ignores the type of its derived rows, which are gauges */
    kind = word_find(type_words, COUNTER_TYPE_END, type);
    if (kind < 0) {
        if (strncmp(name, "DCGM_EXP_", 9) != 0)
            return refuse(reader, line, "'%.*s' is not a type: gauge, counter, histogram, summary, label", TEXT_SHOWN,
                          type);
        kind = COUNTER_GAUGE;
    }
    row.type = (CounterType)kind;
    text_metric = metric_get(found->metric)->type == METRIC_LABEL;
    if (text_metric && row.type != COUNTER_LABEL)
        return refuse(reader, line, "%s is a text: its type must be label", name);
    if (has_counter(counters, name))
        return refuse(reader, line, "%s was there before", name);
    row.name = *found;
    row.name.text = name;
    row.help = copy_trimmed(arena, field[2]);
    vec_push(&counters->rows, row);
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
    static const char *const problems[] = {
        [CSV_BARE_QUOTE] = "a quote within a field that does not start with one",
        [CSV_WRONG_QUOTE] = "a closing quote must be followed by a comma or the end of the line",
        [CSV_OPEN_QUOTE] = "a quote that is not closed",
        [CSV_TOO_LARGE] = "a row of more than 65536 bytes",
    };
    CsvResult result;

    _Static_assert(CSV_RECORD_MAX == 65536, "as the text says");
    for (; (result = csv_next(csv)) != CSV_END; reader->records++)
        if (result == CSV_RECORD)
            TRY(read_row(reader, csv));
        else
            TRY(refuse(reader, csv->line, "%s", problems[result]));
    return 0;
}

int counters_read(Counters *counters, const char *text, size_t len, const char *file, bool strict, Err *err)
{
    Reader reader = {.counters = counters, .file = file, .strict = strict, .err = err};
    size_t rows = counters->rows.len;
    Csv csv;
    int rc;

    csv_init(&csv, text, len);
    rc = read_all(&reader, &csv);
    str_done(&csv.text);
    if (rc >= 0 && reader.records && counters->rows.len == rows)
        rc = err_set(err, -EINVAL, "%s: no row of it could be used%s%s", file,
                     counters->warnings.len ? "; the first: " : "",
                     counters->warnings.len ? counters->warnings.at[0].text : "");
    if (rc < 0)
        counters->rows.len = rows;
    return rc < 0 ? rc : 0;
}
