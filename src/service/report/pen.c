/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "service/report/table.h"

size_t clean_next(const char *text, size_t len, uint32_t *ret)
{
    const size_t bytes = utf8_read(text, len, ret);

    if (bytes)
        return bytes;
    *ret = CLEAN_BAD;
    return 1;
}

unsigned clean_columns(uint32_t c)
{
    int columns = utf8_columns(c == CLEAN_BAD ? '?' : c);

    return columns < 0 ? 0 : (unsigned)columns;
}

static size_t width_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t at = 0; at < len;) {
        uint32_t c;

        at += clean_next(text + at, len - at, &c);
        columns += clean_columns(c);
    }
    return columns;
}

size_t clean_width(const char *text)
{
    return width_of(text, strlen(text));
}

size_t clean_head(const char *text, size_t len, size_t columns)
{
    size_t at = 0;

    while (at < len) {
        uint32_t c;
        size_t step = clean_next(text + at, len - at, &c), more = clean_columns(c);

        if (more > columns)
            break;
        columns -= more;
        at += step;
    }
    return at;
}

/* C0, DEL and C1, line and paragraph ends, and the marks and brackets that turn the direction (UAX 9). */
static bool leads_astray(uint32_t c)
{
    return c == CLEAN_BAD || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

void clean_add(Str *str, const char *text, bool utf8)
{
    size_t len = strlen(text);

    for (size_t at = 0, step; at < len; at += step) {
        uint32_t c;

        step = clean_next(text + at, len - at, &c);
        if (c == '\n' || c == '\t')
            str_addc(str, ' ');
        else if (leads_astray(c))
            str_add(str, utf8 ? UTF8_REPLACEMENT : "?");
        else if (c >= 0x80 && !utf8)
            str_addc(str, '?');
        else
            str_addn(str, text + at, step);
    }
}

/* ---- pen ---- */

void pen_init(Pen *pen, const ReportOptions *options, ReportSink sink, Err *err)
{
    ReportOptions *own = &pen->options;

    out_init(&pen->out, sink, err);
    arena_init(&pen->arena, 0);
    *own = *options;
    own->width = own->width ? own->width : 100;
    own->width = own->width < REPORT_WIDTH_MIN ? REPORT_WIDTH_MIN : own->width;
    own->width = own->width > REPORT_WIDTH_MAX ? REPORT_WIDTH_MAX : own->width;
    own->top = own->top ? own->top : REPORT_TOP_DEFAULT;
    own->also = own->also ? own->also : "";
}

int pen_done(Pen *pen)
{
    arena_done(&pen->arena);
    return out_done(&pen->out);
}

static const char *const styles[] = {
    [STYLE_PLAIN] = "",           [STYLE_BOLD] = "1",  [STYLE_DIM] = "2",    [STYLE_GOOD] = "32",   [STYLE_COPY] = "33",
    [STYLE_COMMUNICATION] = "36", [STYLE_IDLE] = "31", [STYLE_BAD] = "1;31", [STYLE_WARN] = "1;33",
};

void pen_text(Pen *pen, Style style, const char *text)
{
    bool coloured = pen->options.colour && styles[style][0] && text[0];

    if (coloured)
        out_addf(&pen->out, "\033[%sm", styles[style]);
    out_add(&pen->out, text);
    if (coloured)
        out_add(&pen->out, "\033[0m");
}

void pen_textf(Pen *pen, Style style, const char *fmt, ...)
{
    CLEANUP(str_done) Str text = str_limited((size_t)1 << 20);
    va_list args;

    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    pen_text(pen, style, text.text);
}

void pen_foreign(Pen *pen, Style style, const char *text)
{
    CLEANUP(str_done) Str clean = str_limited((size_t)1 << 30);

    clean_add(&clean, text, pen->options.utf8);
    pen_text(pen, style, clean.text);
}

enum { WRAP_MIN = 20 }; /* columns that are used in any case */

/* Whether the blank at `at` may become the end of a line: not between a number and its unit. */
static bool may_break(const char *text, const char *at)
{
    bool unit = isalpha((unsigned char)at[1]) || at[1] == '%';

    return at == text || !isdigit((unsigned char)at[-1]) || !unit;
}

/* Bytes up to the next blank that may end a line. */
static size_t word_len(const char *text, const char *at)
{
    size_t len = strcspn(at, " ");

    while (at[len] == ' ' && !may_break(text, at + len))
        len += 1 + strcspn(at + len + 1, " ");
    return len;
}

void pen_wrap_behind(Pen *pen, Style style, size_t indent, const char *front, const char *text)
{
    size_t width = pen->options.width, limit = width < indent + WRAP_MIN ? WRAP_MIN : width - indent, used = 0;
    CLEANUP(str_done) Str clean = str_limited((size_t)1 << 30);
    CLEANUP(str_done) Str line = str_limited((size_t)1 << 20);

    clean_add(&clean, text, pen->options.utf8);
    for (const char *at = clean.text + strspn(clean.text, " "); *at;) {
        size_t len = word_len(clean.text, at), own = width_of(at, len);

        if (used && used + 1 + own > limit) {
            pen_text(pen, style, line.text);
            if (front)
                out_addf(&pen->out, "\n%s", front);
            else
                out_addf(&pen->out, "\n%*s", (int)indent, "");
            str_clear(&line);
            used = 0;
        }
        if (own > limit) {
            len = clean_head(at, len, limit);
            own = width_of(at, len);
        }
        str_addf(&line, "%s%.*s", used ? " " : "", (int)len, at);
        used += own + (used != 0);
        at += len;
        at += strspn(at, " ");
    }
    pen_text(pen, style, line.text);
    out_add(&pen->out, "\n");
}

void pen_wrap(Pen *pen, Style style, size_t indent, const char *text)
{
    pen_wrap_behind(pen, style, indent, NULL, text);
}

void pen_wrapf(Pen *pen, Style style, size_t indent, const char *fmt, ...)
{
    va_list args;
    CLEANUP(str_done) Str text = str_limited((size_t)1 << 20);

    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    pen_wrap(pen, style, indent, text.text);
}

void pen_piece(Pen *pen, size_t *used, size_t columns)
{
    if (*used && *used + 3 + columns > pen->options.width) {
        out_add(&pen->out, "\n");
        *used = 0;
    }
    out_add(&pen->out, *used ? "   " : "  ");
    *used += columns + (*used ? 3 : 2);
}

void pen_section(Pen *pen, const char *title, const char *about)
{
    out_add(&pen->out, "\n");
    pen_text(pen, STYLE_BOLD, title);
    if (about[0]) {
        out_add(&pen->out, "  ");
        pen_wrap(pen, STYLE_DIM, strlen(title) + 2, about);
    } else {
        out_add(&pen->out, "\n");
    }
}

const char *pen_dot(const Pen *pen)
{
    return pen->options.utf8 ? " \xc2\xb7 " : ", ";
}

const char *pen_words(Pen *pen, const char *word)
{
    char *text = arena_strdup(&pen->arena, word);

    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return text;
}

#define CELL(pen, call)                                                                                                \
    char text[HUMAN_MAX];                                                                                              \
    return arena_strdup(&(pen)->arena, call)

const char *pen_ns(Pen *pen, double ns)
{
    CELL(pen, human_ns(text, ns));
}

const char *pen_bytes(Pen *pen, double bytes)
{
    CELL(pen, human_bytes(text, bytes));
}

const char *pen_count(Pen *pen, int64_t count)
{
    CELL(pen, human_count(text, count));
}

const char *pen_share(Pen *pen, double part, double whole)
{
    CELL(pen, human_share(text, part, whole));
}

const char *pen_percent(Pen *pen, double percent)
{
    CELL(pen, human_percent(text, percent));
}

const char *pen_rate(Pen *pen, double gbs)
{
    CELL(pen, human_rate(text, gbs));
}

static void repeat_part(Pen *pen, const BarPart *part, size_t count)
{
    CLEANUP(str_done) Str text = str_limited((size_t)1 << 16);

    for (size_t i = 0; i < count; i++)
        if (pen->options.utf8)
            str_add(&text, part->utf8);
        else
            str_addc(&text, part->ascii);
    pen_text(pen, part->style, text.text);
}

void pen_bar(Pen *pen, const BarPart *parts, size_t count, double whole, size_t columns)
{
    double sum = 0;
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        size_t to;

        sum += whole > 0 && parts[i].share > 0 ? parts[i].share / whole : 0;
        to = (size_t)lround(fmin(fmax(sum, 0), 1) * (double)columns);
        repeat_part(pen, &parts[i], to - at);
        at = to;
    }
}

void pen_gauge(Pen *pen, Style style, double share, size_t columns)
{
    static const char *const eighths[] = {"",
                                          "\xe2\x96\x8f",
                                          "\xe2\x96\x8e",
                                          "\xe2\x96\x8d",
                                          "\xe2\x96\x8c",
                                          "\xe2\x96\x8b",
                                          "\xe2\x96\x8a",
                                          "\xe2\x96\x89"};
    BarPart full = {.style = style, .ascii = '#', .utf8 = "\xe2\x96\x88"};
    long length = lround(fmin(fmax(share, 0), 1) * 8 * (double)columns);

    if (!pen->options.utf8)
        length = (length + 4) / 8 * 8;
    if (share > 0 && !length)
        length = pen->options.utf8 ? 1 : 0;
    repeat_part(pen, &full, (size_t)length / 8);
    pen_text(pen, style, eighths[length % 8]);
}
