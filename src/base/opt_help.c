/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --help, wrapped at the width of the terminal. */
#include <string.h>

#include "base/opt_row.h"
#include "base/cleanup.h"

enum {
    WIDTH_DEFAULT = 80,
    WIDTH_MIN = 40,
    WIDTH_MAX = 120,
    HELP_COLUMN = 30,
    HELP_COLUMN_NARROW = 12,
    WIDTH_NARROW = 64,
    LINE_MAX_BYTES = 4096
};

/* Columns of a UTF-8 text without wide characters. */
static size_t columns(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void add_blanks(Str *out, size_t count)
{
    while (count--)
        str_addc(out, ' ');
}

/* Appends words from column `at` on, breaking before `width`; further lines begin at `indent`. Ends the line. */
static void add_wrapped(Str *out, const char *text, size_t at, size_t indent, size_t width)
{
    bool first = true;

    while (*text) {
        size_t len = strcspn(text, " \n"), wide = columns(text, len);

        if (!first && at + 1 + wide > width) {
            str_addc(out, '\n');
            add_blanks(out, indent);
            at = indent;
        } else if (!first) {
            str_addc(out, ' ');
            at++;
        }
        str_addn(out, text, len);
        at += wide;
        text += len;
        text += strspn(text, " \n");
        first = false;
    }
    str_addc(out, '\n');
}

static void add_row(Str *out, const char *left, const char *right, size_t width)
{
    size_t at = columns(left, strlen(left)), column = width < WIDTH_NARROW ? HELP_COLUMN_NARROW : HELP_COLUMN;

    str_add(out, left);
    if (at + 2 > column) {
        str_addc(out, '\n');
        at = 0;
    }
    add_blanks(out, column - at);
    add_wrapped(out, right, column, column, width);
}

static void add_option(Str *out, const OptSpec *spec, size_t width)
{
    CLEANUP(str_done) Str left;
    CLEANUP(str_done) Str right;
    size_t before;

    str_init(&left, LINE_MAX_BYTES);
    str_init(&right, LINE_MAX_BYTES);
    str_add(&left, spec->short_flag ? "  " : "      ");
    opt_row_add_flags(spec, &left);
    str_add(&right, spec->help ? spec->help : "");
    before = right.len;
    str_add(&right, " (");
    opt_row_add_notes(spec, false, &right);
    if (right.len == before + 2)
        str_cut(&right, before);
    else
        str_addc(&right, ')');
    add_row(out, left.text, right.text, width);
}

static void add_options(Str *out, const OptPage *page, size_t width)
{
    bool help = true;

    str_add(out, "\nOptions:\n");
    for (size_t i = 0; i < page->count; i++) {
        const OptSpec *spec = &page->opts[i];

        if (!opt_row_has_flag(spec) || !opt_row_is_shown(spec))
            continue;
        add_option(out, spec, width);
        help &= spec->short_flag != 'h';
    }
    add_row(out, help ? "  -h, --help" : "      --help", "show this help", width);
}

/* Paragraphs are wrapped one by one; lines that begin with a blank stay as they are. */
static void add_paragraphs(Str *out, const char *text, size_t width)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        CLEANUP(str_done) Str part;

        str_init(&part, LINE_MAX_BYTES * 4);
        str_addn(&part, text, len);
        str_addc(out, '\n');
        if (part.text[0] == ' ')
            str_addf(out, "%s\n", part.text);
        else
            add_wrapped(out, part.text, 0, 0, width);
        text += len;
        text += strspn(text, "\n");
    }
}

static void add_lines(Str *out, const char *title, const char *text)
{
    str_addf(out, "\n%s:\n", title);
    while (*text) {
        size_t len = strcspn(text, "\n");

        str_addf(out, "  %.*s\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

void opt_help(const OptPage *page, size_t width, Str *out)
{
    if (!width)
        width = WIDTH_DEFAULT;
    if (width < WIDTH_MIN)
        width = WIDTH_MIN;
    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    str_add(out, "Usage: ");
    opt_row_add_name(page, " ", out);
    if (*opt_row_usage(page))
        str_addf(out, " %s", opt_row_usage(page));
    str_add(out, "\n\n");
    opt_row_add_name(page, " ", out);
    str_add(out, " - ");
    add_wrapped(out, page->summary, strlen(page->program) + (page->verb ? strlen(page->verb) + 1 : 0) + 3, 4, width);
    if (page->description)
        add_paragraphs(out, page->description, width);
    add_options(out, page, width);
    if (page->exit_codes)
        add_lines(out, "Exit codes", page->exit_codes);
    if (page->examples)
        add_lines(out, "Examples", page->examples);
}
