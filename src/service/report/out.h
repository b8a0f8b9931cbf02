/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where an output goes, piece by piece, and how it is to look. */

#include <stdbool.h>
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

enum { REPORT_WIDTH_MIN = 60, REPORT_WIDTH_MAX = 300, REPORT_TOP_DEFAULT = 10 };

/* How text is written. */
typedef struct ReportOptions {
    unsigned width; /* columns, taken into REPORT_WIDTH_MIN..MAX; 0: 100 */
    bool colour;    /* SGR colours; NO_COLOR and whether it is a terminal are the caller's business */
    bool utf8;      /* block characters and µ; otherwise ASCII alone */
    size_t top;     /* rows per table; 0: REPORT_TOP_DEFAULT */
    bool verbose;   /* every section, of every rank */
    bool one_step;  /* tables of steps, gaps and paths show step number `step` alone */
    int64_t step;
    const char *also; /* a line under the headline, "" or NULL none: "only steps 5 to 7" */
} ReportOptions;

/* Buffered writing into a sink; not for others than the files of this folder. JSON is written into `room` by base/json,
 * with an out_flow between two rows. The first error of the sink ends all writing; out_done reports it. */
typedef struct Out {
    ReportSink sink;
    Err *err;
    int rc;
    Str room;    /* not yet given to the sink; its last byte stays until more follows, for base/json looks at it */
    bool script; /* what is written is JSON in an HTML page: no '<' leaves */
} Out;

void out_init(Out *out, ReportSink sink, Err *err);
int out_done(Out *out); /* gives the rest to the sink, frees, returns 0 or the sink's error */
void out_flow(Out *out);
void out_set_script(Out *out, bool script); /* for what is written from here on */

void out_add(Out *out, const char *text);
void out_addn(Out *out, const char *text, size_t len);
void out_addc(Out *out, char c);
void out_addf(Out *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Numbers for the page in few bytes: variable-length integers (seven bits a byte, the low ones first, the top bit says
 * that more follow), as base64. */
typedef struct Pack {
    Out *out;
    uint8_t bytes[3];
    unsigned count;
} Pack;

/* Writes "key":" and takes numbers until pack_end. */
void pack_begin(Pack *pack, Out *out, const char *key);
void pack_byte(Pack *pack, uint8_t byte);
void pack_u64(Pack *pack, uint64_t value);
void pack_end(Pack *pack);
