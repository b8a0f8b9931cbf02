/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/table.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "service/report/clean.h"
#include "service/report/shorten.h"

/* Columns are left out for names and bars until they have what is wanted; what is least they always get. */
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

/* Leaves out the column that is missed least; false where none may go. */
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

/* Flexible columns share what is over their least, each up to what it needs. */
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
