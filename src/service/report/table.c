/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/table.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

typedef struct Name {
    const char *full;  /* cleaned */
    const char *plain; /* without argument list and name spaces */
    const char *text;  /* what is shown */
    size_t index;
} Name;

typedef struct Cut {
    size_t columns;
    const char *dots;
    size_t dots_columns;
    Arena *arena;
    size_t numbered;
} Cut;

/* ---- C++ symbols ---- */

/* Where the argument list that ends the name begins; `len` where there is none. */
static size_t argument_list(const char *name, size_t len)
{
    size_t depth = 0;

    if (!len || name[len - 1] != ')')
        return len;
    for (size_t at = len; at-- > 1;) {
        depth += name[at] == ')';
        depth -= name[at] == '(';
        if (!depth)
            return name[at - 1] == ' ' || name[at - 1] == ':' ? len : at;
    }
    return len;
}

static bool is_identifier(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Bytes of "name::" (or "(anonymous namespace)::") at `text`, 0 where there is none. */
static size_t qualifier_length(const char *text)
{
    static const char *const nameless[] = {"(anonymous namespace)::", "<unnamed>::"};
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_LEN(nameless); i++)
        if (!strncmp(text, nameless[i], strlen(nameless[i])))
            return strlen(nameless[i]);
    while (is_identifier(text[len]))
        len++;
    return len && !isdigit((unsigned char)text[0]) && !strncmp(text + len, "::", 2) ? len + 2 : 0;
}

/* "void a::b<c::d, e>(f)" to "b<d, e>"; what is no C++ symbol stays: "aten::mm". */
static const char *simplify_symbol(const char *name, Arena *arena)
{
    size_t len = strlen(name), end;
    bool symbol = !strncmp(name, "void ", 5);
    char *text;
    size_t to = 0;

    name += symbol ? 5 : 0;
    len -= symbol ? 5 : 0;
    end = argument_list(name, len);
    if (!symbol && end == len && !memchr(name, '<', len))
        return name;
    text = arena_alloc(arena, end + 1);
    for (size_t at = 0; at < end;) {
        size_t skip = at && is_identifier(name[at - 1]) ? 0 : qualifier_length(name + at);

        if (skip && at + skip < end)
            at += skip;
        else if (name[at] == ' ' && at + 1 < end && name[at + 1] == '>' && to && text[to - 1] == '>')
            at++;
        else
            text[to++] = name[at++];
    }
    text[to] = '\0';
    return to ? text : name;
}

/* ---- cutting ---- */

/* Where the longest end of `text` in at most `columns` begins. */
static size_t tail_start(const char *text, size_t columns)
{
    size_t all = clean_width(text), len = strlen(text), at = 0, skip = all > columns ? all - columns : 0;

    while (at < len && skip) {
        uint32_t c;

        at += clean_next(text + at, len - at, &c);
        skip -= clean_columns(c) < skip ? clean_columns(c) : skip;
    }
    return at;
}

/* Three fifths of the beginning, the rest from the end. */
static const char *cut_middle(const char *text, const Cut *cut)
{
    size_t room = cut->columns - cut->dots_columns, head = room * 3 / 5;

    if (clean_width(text) <= cut->columns)
        return text;
    return arena_printf(cut->arena, "%.*s%s%s", (int)clean_head(text, strlen(text), head), text, cut->dots,
                        text + tail_start(text, room - head));
}

static size_t back_to_character(const char *text, size_t at)
{
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* The beginning, then what follows from byte `from` on. */
static const char *cut_to(const char *text, size_t from, const Cut *cut)
{
    size_t head = cut->columns / 3, rest = cut->columns - head - cut->dots_columns;
    const char *tail = text + back_to_character(text, from);
    bool whole = clean_width(tail) <= rest;

    if (clean_head(text, strlen(text), head) >= (size_t)(tail - text))
        return cut_middle(text, cut);
    if (whole)
        tail = text + tail_start(text, rest);
    else
        rest -= cut->dots_columns;
    return arena_printf(cut->arena, "%.*s%s%.*s%s", (int)clean_head(text, strlen(text), head), text, cut->dots,
                        (int)clean_head(tail, strlen(tail), rest), tail, whole ? "" : cut->dots);
}

/* ---- names that a cut made equal ---- */

static int by_text(const void *a, const void *b)
{
    const Name *left = a, *right = b;
    int order = strcmp(left->text, right->text);

    return order ? order : strcmp(left->full, right->full);
}

static size_t common_prefix(const char *a, const char *b)
{
    size_t len = 0;

    while (a[len] && a[len] == b[len])
        len++;
    return len;
}

/* Moves the cut of names[0..count-1] (all shown alike, at least two of them different) to where they differ first. */
static void part_names(Name *names, size_t count, Cut *cut)
{
    bool plain = true;
    size_t from = SIZE_MAX;

    for (size_t i = 1; i < count; i++)
        plain =
            plain && (strcmp(names[i].plain, names[i - 1].plain) != 0 || strcmp(names[i].full, names[i - 1].full) == 0);
    for (size_t i = 1; i < count; i++) {
        size_t same =
            plain ? common_prefix(names[0].plain, names[i].plain) : common_prefix(names[0].full, names[i].full);

        if (strcmp(names[0].full, names[i].full) != 0 && same < from)
            from = same;
    }
    for (size_t i = 0; i < count; i++)
        names[i].text = cut_to(plain ? names[i].plain : names[i].full, from > 2 ? from - 2 : 0, cut);
}

/* Different names that still look alike get numbers, all of their own. */
static void number_names(Name *names, size_t count, Cut *cut)
{
    Cut less = *cut;
    char tag[24] = "";

    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[i].full, names[i - 1].full) != 0) {
            int len = snprintf(tag, sizeof(tag), " ~%zu", ++cut->numbered + 1);

            if ((size_t)len + cut->dots_columns + 2 > cut->columns)
                return;
            less.columns = cut->columns - (size_t)len;
        }
        if (tag[0])
            names[i].text = arena_printf(cut->arena, "%s%s", cut_middle(names[i].text, &less), tag);
    }
}

static void each_group(Name *names, size_t count, Cut *cut, void (*what)(Name *, size_t, Cut *))
{
    size_t from = 0;

    if (count)
        qsort(names, count, sizeof(*names), by_text);
    for (size_t i = 1; i <= count; i++) {
        if (i < count && !strcmp(names[i].text, names[from].text))
            continue;
        if (strcmp(names[from].full, names[i - 1].full) != 0)
            what(names + from, i - from, cut);
        from = i;
    }
}

void shorten(const char **names, size_t count, size_t columns, bool utf8, Arena *arena)
{
    Cut cut = {.columns = columns, .dots = utf8 ? "\xe2\x80\xa6" : "..", .dots_columns = utf8 ? 1 : 2, .arena = arena};
    CLEANUP_FREE Name *list = xcalloc(count, sizeof(*list));
    CLEANUP(str_done) Str clean = str_limited((size_t)1 << 30);

    assert(columns >= 8);
    for (size_t i = 0; i < count; i++) {
        str_clear(&clean);
        clean_add(&clean, names[i], utf8);
        list[i].index = i;
        list[i].full = list[i].plain = list[i].text = arena_strdup(arena, clean.text);
        if (clean_width(list[i].full) > columns) {
            list[i].plain = simplify_symbol(list[i].full, arena);
            list[i].text = cut_middle(list[i].plain, &cut);
        }
    }
    each_group(list, count, &cut, part_names);
    each_group(list, count, &cut, number_names);
    for (size_t i = 0; i < count; i++)
        names[list[i].index] = list[i].text;
}

/* ---- table ---- */

/* Columns are dropped until names and bars have their wanted width; the least width is guaranteed. */
enum { INDENT = 2, BETWEEN = 2, NAME_MIN = 14, NAME_WANTED = 38, BAR_MIN = 8, BAR_WANTED = 16, BAR_MAX = 40 };

/* One column as it is printed. */
typedef struct Shown {
    size_t column, width;
} Shown;

typedef struct Layout {
    Shown shown[TABLE_COLUMNS_MAX];
    size_t count;
} Layout;

void table_init(Table *table, Pen *pen, const Column *columns, size_t count)
{
    assert(count <= TABLE_COLUMNS_MAX);
    *table = (Table){.pen = pen, .columns = columns, .column_count = count};
}

TableCell *table_row(Table *table)
{
    TableCell *first = NULL;

    vec_reserve(&table->cells, table->cells.len + table->column_count);
    for (size_t i = 0; i < table->column_count; i++) {
        TableCell *cell = vec_add(&table->cells);

        first = first ? first : cell;
    }
    return first;
}

static double read_number(const Field *field, const void *row)
{
    Value value = field_read(field, row);

    return value.is == VALUE_DOUBLE ? value.number : value.is == VALUE_I64 ? (double)value.i64 : NAN;
}

static const char *shape_text(Pen *pen, const uint32_t triple[3])
{
    if (triple[1] <= 1 && triple[2] <= 1)
        return arena_printf(&pen->arena, "%" PRIu32, triple[0]);
    if (triple[2] <= 1)
        return arena_printf(&pen->arena, "%" PRIu32 "x%" PRIu32, triple[0], triple[1]);
    return arena_printf(&pen->arena, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, triple[0], triple[1], triple[2]);
}

/* Texts of fields are foreign; those of COLUMN_NAME are cleaned when they are shortened. */
static const char *clean_text(const Column *column, Pen *pen, const char *text)
{
    CLEANUP(str_done) Str clean = str_limited((size_t)1 << 30);

    if (column->kind == COLUMN_NAME)
        return text;
    clean_add(&clean, text, pen->options.utf8);
    return arena_strdup(&pen->arena, clean.text);
}

static const char *show_field(const Table *table, const Column *column, const void *row)
{
    Value value = field_read(&column->value, row);
    double number = read_number(&column->value, row);
    Pen *pen = table->pen;

    switch (column->show) {
    case SHOW_TEXT:
        return value.is == VALUE_TEXT ? clean_text(column, pen, value.text) : NULL;
    case SHOW_WORDS:
        return value.is == VALUE_TEXT ? pen_words(pen, value.text) : NULL;
    case SHOW_NUMBER:
        return value.is == VALUE_I64 ? arena_printf(&pen->arena, "%" PRId64, value.i64) : NULL;
    case SHOW_SHAPE:
        return value.is == VALUE_TRIPLE ? shape_text(pen, value.triple) : NULL;
    case SHOW_NS:
        return pen_ns(pen, number);
    case SHOW_BYTES:
        return pen_bytes(pen, number);
    case SHOW_SOME:
        return number > 0 ? pen_count(pen, value.i64) : NULL;
    case SHOW_COUNT:
        return pen_count(pen, value.is == VALUE_I64 ? value.i64 : -1);
    case SHOW_RATE:
        return pen_rate(pen, number);
    case SHOW_PERCENT:
        return value.is == VALUE_NONE ? NULL : pen_percent(pen, number);
    case SHOW_FRACTION:
        return pen_percent(pen, 100 * number);
    case SHOW_SHARE:
        return pen_share(pen, number, column->of.name ? read_number(&column->of, row) : table->whole);
    case SHOW_NOTHING:
        break;
    }
    return NULL;
}

TableCell *table_fill(Table *table, const void *row)
{
    TableCell *cells = table_row(table);

    for (size_t i = 0; i < table->column_count; i++)
        cells[i] = (TableCell){.text = show_field(table, &table->columns[i], row), .style = table->columns[i].style};
    return cells;
}

static bool is_flexible(ColumnKind kind)
{
    return kind == COLUMN_NAME || kind == COLUMN_BAR;
}

/* Widest cell of a column, its title included; 0 where all are empty. */
static size_t natural_width(const Table *table, size_t column)
{
    size_t title = clean_width(table->columns[column].title), width = 0;

    for (size_t i = column; i < table->cells.len; i += table->column_count) {
        const TableCell *cell = &table->cells.at[i];
        size_t own = cell->text ? clean_width(cell->text) : 0;

        if (table->columns[column].kind == COLUMN_BAR)
            own = BAR_MAX;
        width = own > width ? own : width;
    }
    return width ? width > title ? width : title : 0;
}

static size_t least_width(ColumnKind kind, size_t natural)
{
    size_t min = kind == COLUMN_NAME ? NAME_MIN : kind == COLUMN_BAR ? BAR_MIN : natural;

    return natural < min ? natural : min;
}

static size_t wanted_width(ColumnKind kind, size_t natural)
{
    size_t want = kind == COLUMN_NAME ? NAME_WANTED : kind == COLUMN_BAR ? BAR_WANTED : natural;

    return natural < want ? natural : want;
}

static size_t total_width(const Table *table, const Layout *layout, size_t (*width)(ColumnKind, size_t))
{
    size_t total = INDENT;

    for (size_t i = 0; i < layout->count; i++)
        total += width(table->columns[layout->shown[i].column].kind, layout->shown[i].width) + (i ? BETWEEN : 0);
    return total;
}

/* Drops the least important column; false if none may go. */
static bool drop_column(const Table *table, Layout *layout)
{
    size_t which = 0;

    for (size_t i = 1; i < layout->count; i++)
        if (table->columns[layout->shown[i].column].drop >= table->columns[layout->shown[which].column].drop)
            which = i;
    if (!layout->count || !table->columns[layout->shown[which].column].drop)
        return false;
    memmove(&layout->shown[which], &layout->shown[which + 1], (layout->count - which - 1) * sizeof(Shown));
    layout->count--;
    return true;
}

/* Flexible columns share the width above their least, each up to its need. */
static void share_rest(const Table *table, Layout *layout, size_t width)
{
    size_t total = total_width(table, layout, least_width), rest = width > total ? width - total : 0, takers = 0;

    for (size_t i = 0; i < layout->count; i++)
        takers += is_flexible(table->columns[layout->shown[i].column].kind);
    for (size_t i = 0; i < layout->count; i++) {
        Shown *shown = &layout->shown[i];
        ColumnKind kind = table->columns[shown->column].kind;
        size_t want = shown->width - least_width(kind, shown->width), get;

        if (!is_flexible(kind))
            continue;
        get = rest / takers < want ? rest / takers : want;
        shown->width = least_width(kind, shown->width) + get;
        rest -= get;
        takers--;
    }
}

static Layout lay_out(const Table *table)
{
    Layout layout = {.count = 0};

    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = natural_width(table, i);

        if (width)
            layout.shown[layout.count++] = (Shown){.column = i, .width = width};
    }
    while (total_width(table, &layout, wanted_width) > table->pen->options.width && drop_column(table, &layout))
        ;
    share_rest(table, &layout, table->pen->options.width);
    return layout;
}

/* Names of a column in its width; they are foreign until then. */
static void fit_names(Table *table, const Shown *shown)
{
    size_t rows = table->cells.len / table->column_count;
    CLEANUP_FREE const char **names = xcalloc(rows, sizeof(*names));

    for (size_t i = 0; i < rows; i++) {
        const char *text = table->cells.at[i * table->column_count + shown->column].text;

        names[i] = text ? text : "";
    }
    shorten(names, rows, shown->width > 8 ? shown->width : 8, table->pen->options.utf8, &table->pen->arena);
    for (size_t i = 0; i < rows; i++)
        table->cells.at[i * table->column_count + shown->column].text = names[i];
}

static void pad_columns(Pen *pen, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        out_addc(&pen->out, ' ');
}

static void print_cell(const Table *table, const Layout *layout, size_t i, const TableCell *cell, bool last)
{
    Pen *pen = table->pen;
    ColumnKind kind = table->columns[layout->shown[i].column].kind;
    size_t width = layout->shown[i].width, own;
    const char *text = cell->text ? cell->text : "";

    if (kind == COLUMN_BAR && !cell->text) {
        pen_gauge(pen, cell->style, cell->bar, width);
        return;
    }
    own = clean_width(text);
    if (kind == COLUMN_RIGHT && own < width)
        pad_columns(pen, width - own);
    pen_text(pen, cell->style, text);
    if (kind != COLUMN_RIGHT && own < width && !last)
        pad_columns(pen, width - own);
}

/* Whether a cell, or (without cells) a title, prints nothing. */
static bool is_empty_cell(const Table *table, size_t column, const TableCell *cells)
{
    if (!cells)
        return !table->columns[column].title[0];
    return !cells[column].text && table->columns[column].kind != COLUMN_BAR;
}

static void print_row(const Table *table, const Layout *layout, const TableCell *cells)
{
    size_t last = layout->count;

    while (last && is_empty_cell(table, layout->shown[last - 1].column, cells))
        last--;
    pad_columns(table->pen, INDENT);
    for (size_t i = 0; i < last; i++) {
        const Column *column = &table->columns[layout->shown[i].column];
        TableCell title = {.text = column->title, .style = STYLE_DIM};

        if (i)
            pad_columns(table->pen, BETWEEN);
        print_cell(table, layout, i, cells ? &cells[layout->shown[i].column] : &title, i + 1 == last);
    }
    out_add(&table->pen->out, "\n");
}

static bool has_titles(const Table *table)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].title[0])
            return true;
    return false;
}

void table_print(Table *table)
{
    Layout layout = lay_out(table);

    for (size_t i = 0; i < layout.count; i++)
        if (table->columns[layout.shown[i].column].kind == COLUMN_NAME)
            fit_names(table, &layout.shown[i]);
    if (has_titles(table) && table->cells.len)
        print_row(table, &layout, NULL);
    for (size_t row = 0; row < table->cells.len; row += table->column_count)
        print_row(table, &layout, &table->cells.at[row]);
    vec_done(&table->cells);
    arena_reset(&table->pen->arena);
}
