/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/nccl_wrap.h"

#include <stdio.h>
#include <string.h>

enum { ROOM_MIN = 20, INDENT_MAX = 40 };

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; i++)
        columns += begins_character(text[i]);
    return columns;
}

/* Bytes of the first `columns` columns. */
static size_t bytes_of(const char *text, size_t len, size_t columns)
{
    size_t i = 0;

    for (; i < len; i++)
        if (begins_character(text[i]) && columns-- == 0)
            break;
    return i;
}

/* Where the writing stands. */
typedef struct Wrap {
    Str *out;
    const char *indent;
    size_t begin, width, column; /* begin: columns of the indent */
    bool fresh;                  /* nothing is on the line yet */
} Wrap;

static void next_line(Wrap *w)
{
    str_addc(w->out, '\n');
    str_add(w->out, w->indent);
    w->column = w->begin;
    w->fresh = true;
}

static void add_word(Wrap *w, const char *word, size_t len)
{
    size_t columns = columns_of(word, len);

    if (!w->fresh && w->column + 1 + columns > w->width)
        next_line(w);
    if (!w->fresh)
        str_addc(w->out, ' ');
    w->column += !w->fresh;
    while (w->column + columns > w->width) {
        size_t part = w->width > w->column ? w->width - w->column : 0, bytes = bytes_of(word, len, part);
        str_addn(w->out, word, bytes);
        word += bytes;
        len -= bytes;
        columns -= part;
        next_line(w);
    }
    str_addn(w->out, word, len);
    w->column += columns;
    w->fresh = false;
}

void nccl_wrap(Str *out, size_t width, const char *text, const char *indent, size_t used)
{
    Wrap w = {.out = out, .indent = indent, .begin = columns_of(indent, strlen(indent)), .column = used};

    w.width = width < w.begin + ROOM_MIN ? w.begin + ROOM_MIN : width;
    w.fresh = used <= w.begin;
    if (used == 0) {
        str_add(out, indent);
        w.column = w.begin;
    }
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");
        add_word(&w, text, len);
        text += len;
    }
    str_addc(out, '\n');
}

void nccl_line_rest(Str *out, size_t width, const char *text, const char *indent, size_t used)
{
    if (used + columns_of(text, strlen(text)) > width) {
        nccl_wrap(out, width, text, indent, used);
        return;
    }
    str_add(out, text);
    str_addc(out, '\n');
}

void nccl_line_fit(Str *out, size_t width, size_t indent, const char *text)
{
    char blanks[INDENT_MAX + 1];

    snprintf(blanks, sizeof blanks, "%*s",
             (int)(indent == 0               ? 0
                   : indent < INDENT_MAX - 2 ? indent + 2
                                             : INDENT_MAX),
             "");
    str_addf(out, "%*s", (int)indent, "");
    nccl_line_rest(out, width, text, blanks, indent);
}
