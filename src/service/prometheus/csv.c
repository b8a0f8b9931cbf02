/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as Go's encoding/csv reads it (csv.h says which options). Pure, one thread. */

#include "service/prometheus/csv.h"

#include <string.h>

/* A line with its end: [at, stop) without the LF, CRLF or, at the end of the text, CR that `next` is behind. */
typedef struct Line {
    const char *at, *stop, *next;
    bool ended; /* by a LF */
} Line;

void csv_init(Csv *csv, const char *text, size_t len)
{
    memset(csv, 0, sizeof *csv);
    csv->at = text;
    csv->end = text + len;
    csv->next_line = 1;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        csv->at += 3;
    str_init(&csv->text, CSV_RECORD_MAX);
}

void csv_done(Csv *csv)
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

CsvResult csv_next(Csv *csv)
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
