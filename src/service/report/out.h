/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where an output goes, piece by piece. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Takes the next `len` bytes; 0 or a negative errno, after which it is not called again. */
typedef int (*ReportWrite)(void *context, const char *text, size_t len, Err *err);

typedef struct ReportSink {
    ReportWrite write;
    void *context;
} ReportSink;

/* Into a Str; -EFBIG over its ceiling. */
ReportSink report_sink_str(Str *str);

/* Buffered writing into a sink, and the JSON that the files of this folder share; not for others. The first error of
 * the sink ends all writing; out_done reports it. */

typedef struct Out {
    ReportSink sink;
    Err *err;
    int rc;
    Str room;    /* not yet given to the sink */
    bool comma;  /* the next JSON key or element needs a comma before it */
    bool script; /* the JSON stands in an HTML page: no '<' leaves */
} Out;

void out_init(Out *out, ReportSink sink, Err *err);
int out_done(Out *out); /* gives the rest to the sink, frees, returns 0 or the sink's error */

void out_add(Out *out, const char *text);
void out_addn(Out *out, const char *text, size_t len);
void out_addc(Out *out, char c);
void out_addf(Out *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
void out_i64(Out *out, int64_t value);

/* JSON. Keys are C identifiers; a NULL key makes an element of an array. */
void out_key(Out *out, const char *key);
void out_open(Out *out, const char *key, char bracket);          /* '{' or '[' */
void out_close(Out *out, char bracket);                          /* '}' or ']' */
void out_json_text(Out *out, const char *key, const char *text); /* NULL: null */
void out_json_i64(Out *out, const char *key, int64_t value);
void out_json_u64(Out *out, const char *key, uint64_t value);
void out_json_double(Out *out, const char *key, double value); /* null where it is not finite */
void out_json_bool(Out *out, const char *key, bool value);
void out_json_null(Out *out, const char *key);

/* Cells of CSV (RFC 4180), for the files of this folder. */

/* A text as a CSV cell, quoted where it must be; what is not UTF-8 becomes U+FFFD. */
void cell_text(Out *out, const char *text);
