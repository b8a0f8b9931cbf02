/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the views: areas, texts, lists with a cursor, columns that adapt to the width. */
#include "service/top/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"

/* --- lists -------------------------------------------------------------------------------------------------------- */

void list_move(List *list, long by)
{
    const long last = (long)list->count - 1, to = (long)list->selected + by;

    list->selected = last < 0 || to < 0 ? 0 : (size_t)(to > last ? last : to);
}

bool list_key(List *list, uint32_t key)
{
    const long page = list->page > 1 ? (long)list->page - 1 : 1, all = (long)list->count;
    const long by[] = {[TOP_KEY_UP - TOP_KEY_UP] = -1,         [TOP_KEY_DOWN - TOP_KEY_UP] = 1,
                       [TOP_KEY_PAGE_UP - TOP_KEY_UP] = -page, [TOP_KEY_PAGE_DOWN - TOP_KEY_UP] = page,
                       [TOP_KEY_HOME - TOP_KEY_UP] = -all,     [TOP_KEY_END - TOP_KEY_UP] = all};

    if (key < TOP_KEY_UP || key > TOP_KEY_END || key == TOP_KEY_LEFT || key == TOP_KEY_RIGHT)
        return false;
    list_move(list, by[key - TOP_KEY_UP]);
    return true;
}

void list_settle(List *list, int page)
{
    list->page = page > 0 ? (size_t)page : 1;
    list_move(list, 0);
    if (list->count <= list->page)
        list->first = 0;
    else if (list->first > list->count - list->page)
        list->first = list->count - list->page;
    if (list->selected < list->first)
        list->first = list->selected;
    if (list->selected >= list->first + list->page)
        list->first = list->selected - list->page + 1;
}

void list_mark(const List *list, Grid *grid, Area area)
{
    const size_t end = list->first + list->page;
    char text[80];

    if (list->count <= list->page)
        return;
    snprintf(text, sizeof text, " %zu-%zu/%zu", list->first + 1, end < list->count ? end : list->count, list->count);
    grid_right(grid, area, area.width, 0, INK_DIM, text);
}

void list_draw(Top *top, List *list, Grid *grid, Area area, size_t offset, int mark, RowDraw *draw, const void *context)
{
    list_settle(list, area.height);
    for (size_t i = list->first; i < list->count && (int)(i - list->first) < area.height; i++) {
        Area line = area_row(area, (int)(i - list->first));

        draw(top, grid, line, i, context);
        top_zone(top, line, ZONE_ROW, (uint32_t)(offset + i));
        line.width = mark && mark < line.width ? mark : line.width;
        if (i == list->selected && !list->blurred)
            grid_reverse(grid, line);
    }
}

/* --- areas -------------------------------------------------------------------------------------------------------- */

static int clamp_cut(int wanted, int most)
{
    return wanted < 0 ? 0 : wanted < most ? wanted : most;
}

Area area_top(Area *area, int rows)
{
    Area cut = *area;

    cut.height = clamp_cut(rows, area->height);
    area->y += cut.height;
    area->height -= cut.height;
    return cut;
}

Area area_bottom(Area *area, int rows)
{
    Area rest = *area;

    *area = area_top(&rest, area->height - clamp_cut(rows, area->height));
    return rest;
}

Area area_left(Area *area, int columns)
{
    Area cut = *area;

    cut.width = clamp_cut(columns, area->width);
    area->x += cut.width;
    area->width -= cut.width;
    return cut;
}

Area area_row(Area area, int row)
{
    const bool inside = row >= 0 && row < area.height;

    return (Area){.x = area.x, .y = area.y + (inside ? row : 0), .width = area.width, .height = inside};
}

bool panel_fits(const Grid *grid, Area area, int lines)
{
    return area.width >= 80 && (area.height >= lines || grid->height >= PANEL_MANY);
}

Area panel_open(Grid *grid, Area area, const char *title)
{
    const Area inside = grid_box(grid, area, INK_FRAME, NULL);

    if (area.width > 6 && area.height > 1)
        grid_textf(grid, (Area){area.x + 2, area.y, area.width - 4, 1}, 0, 0, INK_TITLE, " %s ", title);
    return inside;
}

void top_zone(Top *top, Area area, ZoneKind kind, uint32_t value)
{
    if (top->zone_count < TOP_ZONES_MAX && area.width > 0 && area.height > 0)
        top->zones[top->zone_count++] = (Zone){.area = area, .kind = kind, .value = value};
}

Pen pen_begin(List *list, Area area, int across)
{
    list->page = area.height > 0 ? (size_t)area.height * (size_t)across : 1;
    const size_t last = list->count > list->page ? list->count - list->page : 0;
    if (list->selected > last)
        list->selected = last;
    list->first = list->selected;
    area.width /= across;
    return (Pen){.area = area, .across = across, .first = list->first};
}

Area pen_line(Pen *pen, bool blank)
{
    if (pen->line++ < pen->first || pen->x >= pen->across || (blank && pen->y == 0))
        return (Area){0};
    Area line = area_row(pen->area, pen->y);
    line.x += pen->x * pen->area.width;
    if (++pen->y >= pen->area.height) {
        pen->y = 0;
        pen->x++;
    }
    return line;
}

void pen_title(Pen *pen, Grid *grid, const char *title)
{
    if (pen->line > 0)
        pen_line(pen, true);
    grid_text(grid, pen_line(pen, false), 0, 0, INK_TITLE, title);
}

void pen_end(const Pen *pen, List *list)
{
    list->count = pen->line;
    list_move(list, 0);
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

int text_wrap(Grid *grid, Area area, int y, Ink ink, const char *text)
{
    for (; *text && y < area.height; y++) {
        const size_t len = y + 1 < area.height ? grid_text_fit(text, area.width > 1 ? area.width : 1, 1) : strlen(text);

        grid_textf(grid, area, 0, y, ink, "%.*s", (int)len, text);
        text += len;
        text += strspn(text, " ");
    }
    return y;
}

const char *text_branch(bool last)
{
    return last ? "└─" : "├─";
}

int text_badge(Grid *grid, Area line, Ink ink, const char *text)
{
    const int x = grid_text(grid, line, 0, 0, ink, text);

    line.width = x < line.width ? x : line.width;
    grid_reverse(grid, line);
    return x;
}

Ink severity_ink(FaultSeverity severity)
{
    return severity >= SEVERITY_ERROR ? INK_BAD : severity == SEVERITY_WARNING ? INK_WARN : INK_DIM;
}

Ink activity_ink(ActivityWord word)
{
    static const Ink inks[ACTIVITY_END] = {
        [ACTIVITY_WORKING] = INK_STRONG, [ACTIVITY_WAITING] = INK_WARN, [ACTIVITY_IDLE_HELD] = INK_WARN,
        [ACTIVITY_FREE] = INK_PLAIN,     [ACTIVITY_UNUSABLE] = INK_BAD, [ACTIVITY_UNKNOWN] = INK_DIM,
    };

    return word < ACTIVITY_END ? inks[word] : INK_PLAIN;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static const Column *column_at(const Table *table, size_t i)
{
    return (const Column *)(const void *)((const char *)table->columns + i * table->stride);
}

/* Of the column where there is `room`: its own, more of the last one. 0: it has no place. */
static int find_width(const Table *table, size_t i, Fit fit, int room)
{
    const int least = column_at(table, i)->width, wish = i + 1 == table->count && fit.last > least ? fit.last : least;

    return (fit.hidden >> i & 1) || least > room ? 0 : wish < room ? wish : room;
}

void columns_fit(const Table *table, int width, Fit fit, Layout *ret)
{
    int used = 0, x = 0;

    memset(ret, 0, sizeof *ret);
    for (unsigned priority = 0; priority < 16; priority++)
        for (size_t i = 0; i < table->count; i++) {
            if (column_at(table, i)->priority != priority)
                continue;
            ret->width[i] = find_width(table, i, fit, width - used - (used > 0));
            used += ret->width[i] ? ret->width[i] + (used > 0) : 0;
        }
    for (size_t i = 0; i < table->count; i++) { /* from the left, those that can grow take what is left */
        const int more = column_at(table, i)->most - ret->width[i], left = width - used;
        const int taken = ret->width[i] == 0 || more < 0 ? 0 : more < left ? more : left;

        ret->width[i] += taken;
        used += taken;
        ret->x[i] = x;
        x += ret->width[i] ? ret->width[i] + 1 : 0;
    }
}

Area layout_cell(const Layout *layout, Area row, size_t i)
{
    area_left(&row, layout->x[i]);
    row.width = layout->width[i] < row.width ? layout->width[i] : row.width;
    return row;
}

void column_text(Grid *grid, Area cell, bool right, Ink ink, const char *text)
{
    if (right && grid_text_width(text) <= cell.width)
        grid_right(grid, cell, cell.width, 0, ink, text);
    else
        grid_text(grid, cell, 0, 0, ink, text);
}

void columns_head(const Table *table, const Layout *layout, Grid *grid, Area line)
{
    for (size_t i = 0; i < table->count; i++)
        column_text(grid, layout_cell(layout, line, i), column_at(table, i)->right, INK_TITLE,
                    column_at(table, i)->title);
}

void columns_row(const Table *table, const Layout *layout, Top *top, Grid *grid, Area line, const void *row)
{
    for (size_t i = 0; i < table->count; i++) {
        const Area cell = layout_cell(layout, line, i);

        if (cell.width > 0 && cell.height > 0)
            table->cell(top, grid, cell, i, row);
    }
}
