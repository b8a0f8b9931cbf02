/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text on a terminal: styles, aligned tables, bars, wrapped paragraphs. Not for others than the files of this folder.
 */

#include "base/arena.h"
#include "base/human.h"
#include "base/vec.h"
#include "service/report/field.h"

/* ---- texts of profiles: bytes that anyone may have chosen, as UTF-8 and as columns of a terminal ---- */

#define CLEAN_BAD UINT32_MAX /* no character of UTF-8 */

/* The character at `text`, of `len` >= 1 bytes, and how many bytes it takes; CLEAN_BAD takes one. */
size_t clean_next(const char *text, size_t len, uint32_t *ret);

/* Columns of a terminal that a character takes: 0 (marks that combine), 1 or 2. */
unsigned clean_columns(uint32_t c);
/* Columns of a text that clean_add wrote. */
size_t clean_width(const char *text);
/* Bytes of the longest beginning of `text`, `len` bytes long, that takes at most `columns`. */
size_t clean_head(const char *text, size_t len, size_t columns);

/* Appends `text` so that a terminal cannot be led astray by it: control characters and those that turn the direction
 * of writing become a replacement character; without `utf8` so does all that is not ASCII ('?'). */
void clean_add(Str *str, const char *text, bool utf8);

/* Names of kernels in few columns: they differ mostly in their template arguments, which are also the longest part. */

/* Shortens names[0..count-1], in place, to at most `columns` (at least 8) each: what fits stays as it is; then return
 * type, argument list and name spaces go; then the middle. Names that differ stay different: where a cut made them
 * equal, what is kept moves to where they differ. New texts lie in the arena and are safe for a terminal. */
void shorten(const char **names, size_t count, size_t columns, bool utf8, Arena *arena);

/* ---- writing ---- */

typedef enum Style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_GOOD, /* compute */
    STYLE_COMMUNICATION,
    STYLE_COPY,
    STYLE_IDLE,
    STYLE_BAD,  /* bold red */
    STYLE_WARN, /* bold yellow */
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
/* The same with `front` (NULL: blanks) as these columns of every line but the first. */
void pen_wrap_behind(Pen *pen, Style style, size_t indent, const char *front, const char *text);
void pen_wrapf(Pen *pen, Style style, size_t indent, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Before a piece of `columns` that must not be split: a blank of three columns, or a new line where it does not fit.
 * *used counts the line's columns and begins as 0. */
void pen_piece(Pen *pen, size_t *used, size_t columns);
/* " · " or ", ". */
const char *pen_dot(const Pen *pen);
/* "data_loading" as "data loading", and other texts for cells, in the pen's arena. */
const char *pen_words(Pen *pen, const char *word);
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
    const char *word; /* what it is, for a legend */
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

/* How a column shows a field of the row; SHOW_NOTHING: its cells are filled in by hand. */
typedef enum Show {
    SHOW_NOTHING,
    SHOW_TEXT,   /* unknown: empty */
    SHOW_WORDS,  /* the same with blanks for '_' */
    SHOW_NUMBER, /* an int64_t as it is; unknown: empty */
    SHOW_SHAPE,  /* "128x2", without ones behind; unknown: empty */
    SHOW_NS,
    SHOW_BYTES,
    SHOW_COUNT,
    SHOW_SOME, /* a count, empty at 0 */
    SHOW_RATE,
    SHOW_PERCENT,  /* unknown: empty */
    SHOW_FRACTION, /* 0..1 as a percentage */
    SHOW_SHARE,    /* of the field `of`, else of the table's whole */
} Show;

typedef struct Column {
    const char *title;
    ColumnKind kind;
    unsigned drop; /* left out where the width does not do, highest first; 0: never */
    Show show;
    Field value, of;
    Style style;
} Column;

/* Rows of a list of Column; the second also with how it shows a member of ROW: SHOWN(NS, I64, total_ns). */
#define HEAD(text, side, order)                                                                                        \
    {                                                                                                                  \
        .title = text, .kind = COLUMN_##side, .drop = order                                                            \
    }
#define COLUMN(text, side, order, ...)                                                                                 \
    {                                                                                                                  \
        .title = text, .kind = COLUMN_##side, .drop = order, __VA_ARGS__                                               \
    }
#define SHOWN(as, kind, member) .show = SHOW_##as, .value = F(kind, member, #member)

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
    double whole;
    VEC(TableCell) cells; /* row by row */
} Table;

void table_init(Table *table, Pen *pen, const Column *columns, size_t count);
/* The next row's cells to be filled in, valid until the next call. */
TableCell *table_row(Table *table);
/* The same with the cells of all columns that show a field of `row`. */
TableCell *table_fill(Table *table, const void *row);
/* Prints, indented by two, with a quiet header, and frees. A column whose cells are all empty is left out. */
void table_print(Table *table);
