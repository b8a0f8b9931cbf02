/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text on a terminal: styles, aligned tables, bars, wrapped paragraphs. Not for others than the files of this folder.
 */

#include "base/arena.h"
#include "base/human.h"
#include "service/report/out.h"
#include "service/report/report.h"

typedef enum Style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_GOOD, /* compute */
    STYLE_COMMUNICATION,
    STYLE_COPY,
    STYLE_IDLE,
    STYLE_BAD, /* bold red */
} Style;

/* Where text is written, and how. */
typedef struct Pen {
    Out out;
    ReportOptions options; /* width and top made whole */
    Arena arena;           /* texts of the table that is being made; reset by table_print */
} Pen;

void pen_init(Pen *pen, const ReportOptions *options, ReportSink sink, Err *err);
int pen_done(Pen *pen);

/* A text as it is (clean already) in a style. */
void pen_text(Pen *pen, Style style, const char *text);
void pen_textf(Pen *pen, Style style, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A text of a profile, made safe. */
void pen_foreign(Pen *pen, Style style, const char *text);
/* A blank line, a title, and what it is about in a quiet style ("" none). */
void pen_section(Pen *pen, const char *title, const char *about);
/* Words of a text that may be foreign, wrapped into the width, every line but the first indented by `indent`; the
 * first line begins at column `indent` already. Ends the line. */
void pen_wrap(Pen *pen, Style style, size_t indent, const char *text);
void pen_wrapf(Pen *pen, Style style, size_t indent, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Before a piece of `columns` that must not be split: a blank of three columns, or a new line where it does not fit.
 * *used counts the line's columns and begins as 0. */
void pen_piece(Pen *pen, size_t *used, size_t columns);
/* " · " or ", ". */
const char *pen_dot(const Pen *pen);
/* Texts for cells, in the pen's arena. */
const char *pen_ns(Pen *pen, double ns);
const char *pen_bytes(Pen *pen, double bytes);
const char *pen_count(Pen *pen, int64_t count);
const char *pen_share(Pen *pen, double part, double whole);
const char *pen_percent(Pen *pen, double percent);
const char *pen_rate(Pen *pen, double gbs);

/* A part of a bar, in the order of drawing. */
typedef struct BarPart {
    double share; /* of `whole` */
    Style style;
    char ascii;
    const char *utf8;
} BarPart;
/* `columns` wide; parts are rounded so that together they are as long as they should be. */
void pen_bar(Pen *pen, const BarPart *parts, size_t count, double whole, size_t columns);

/* One share, 0..1, of `columns`, as long as it is in eighths of a character. */
void pen_gauge(Pen *pen, Style style, double share, size_t columns);

typedef enum ColumnKind {
    COLUMN_LEFT,
    COLUMN_RIGHT,
    COLUMN_NAME, /* takes what the others leave, shortened; one per table, or two which share it */
    COLUMN_BAR,  /* takes what the others leave, 40 at most */
} ColumnKind;

typedef struct Column {
    const char *title;
    ColumnKind kind;
    unsigned drop; /* left out where the width does not do, highest first; 0: never */
} Column;

enum { TABLE_COLUMNS_MAX = 16 };

typedef struct TableCell {
    const char *text; /* clean, but in COLUMN_NAME foreign; NULL: empty */
    Style style;
    double bar; /* COLUMN_BAR: 0..1 */
} TableCell;

typedef struct Table {
    Pen *pen;
    const Column *columns;
    size_t column_count;
    VEC(TableCell) cells; /* row by row */
} Table;

void table_init(Table *table, Pen *pen, const Column *columns, size_t count);
/* The next row's cells to be filled in, valid until the next call. */
TableCell *table_row(Table *table);
/* Prints, indented by two, with a quiet header, and frees. A column whose cells are all empty is left out. */
void table_print(Table *table);
