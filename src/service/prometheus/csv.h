/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A reader of CSV records with the rules of Go's encoding/csv, comment '#', no lazy quotes, leading blanks kept:
 * a line that starts with '#' is a comment, an empty one is skipped, a field is quoted only where its first byte is a
 * quote, "" is a quote inside, a quoted field may go over lines, CRLF counts as LF. A BOM at the start is skipped.
 * Fields live in the reader until the next record. Pure, one thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

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

/* Reads `len` bytes of `text`, which stay the caller's and must outlive the reader. csv_done frees. */
void csv_init(Csv *csv, const char *text, size_t len);
void csv_done(Csv *csv);

/* The next record. After an error the reader goes on with the line after the one on which the record started. */
CsvResult csv_next(Csv *csv);
