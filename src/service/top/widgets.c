/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the views: areas, texts, lists with a cursor, columns that adapt to the width. */
#include "service/top/inside.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"

void list_move(List *list, long by)
{
    const long last = (long)list->count - 1, to = (long)list->selected + by;

    list->selected = last < 0 || to < 0 ? 0 : (size_t)(to > last ? last : to);
}

bool list_key(List *list, uint32_t key)
{
    const long page = list->page > 1 ? (long)list->page - 1 : 1;

    switch (key) {
    case TOP_KEY_UP:
        list_move(list, -1);
        return true;
    case TOP_KEY_DOWN:
        list_move(list, 1);
        return true;
    case TOP_KEY_PAGE_UP:
        list_move(list, -page);
        return true;
    case TOP_KEY_PAGE_DOWN:
        list_move(list, page);
        return true;
    case TOP_KEY_HOME:
        list_move(list, -(long)list->count);
        return true;
    case TOP_KEY_END:
        list_move(list, (long)list->count);
        return true;
    default:
        return false;
    }
}

enum { NARROW = 80 }; /* columns, under which headings need the room */

void list_settle(List *list, size_t page)
{
    list->page = page > 0 ? page : 1;
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

void list_mark(const List *list, Grid *grid, Area area, int y)
{
    const size_t end = list->first + list->page;
    char number[80], text[96];

    if (list->count <= list->page)
        return;
    snprintf(number, sizeof number, area.width < NARROW ? "%zu-%zu/%zu" : "%zu-%zu of %zu", list->first + 1,
             end < list->count ? end : list->count, list->count);
    snprintf(text, sizeof text, area.width < NARROW ? " %s" : "  %12s", number);
    grid_right(grid, area, area.width, y, INK_DIM, text);
}

bool thing_equal(const Thing *a, const Thing *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == THING_DEVICE)
        return device_equal(&a->device, &b->device);
    if (a->kind == THING_PROCESS)
        return a->pid == b->pid && a->start_ns == b->start_ns && a->gpu_instance == b->gpu_instance &&
               a->compute_instance == b->compute_instance && device_equal(&a->device, &b->device);
    return strcmp(a->text, b->text) == 0;
}

/* --- areas -------------------------------------------------------------------------------------------------------- */

Area area_top(Area *area, int rows)
{
    Area cut = *area;

    cut.height = rows < 0 ? 0 : rows < area->height ? rows : area->height;
    area->y += cut.height;
    area->height -= cut.height;
    return cut;
}

Area area_bottom(Area *area, int rows)
{
    Area cut = *area;

    cut.height = rows < 0 ? 0 : rows < area->height ? rows : area->height;
    area->height -= cut.height;
    cut.y += area->height;
    return cut;
}

Area area_left(Area *area, int columns)
{
    Area cut = *area;

    cut.width = columns < 0 ? 0 : columns < area->width ? columns : area->width;
    area->x += cut.width;
    area->width -= cut.width;
    return cut;
}

Area area_row(Area area, int row)
{
    const bool inside = row >= 0 && row < area.height;

    return (Area){.x = area.x, .y = area.y + (inside ? row : 0), .width = area.width, .height = inside};
}

void top_zone(Top *top, Area area, ZoneKind kind, uint32_t value)
{
    if (top->zone_count < TOP_ZONES_MAX && area.width > 0 && area.height > 0)
        top->zones[top->zone_count++] = (Zone){.area = area, .kind = kind, .value = value};
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

/* Bytes of the words that `room` columns hold, at least one word or as much of it as there is room for. */
static size_t words_that_fit(const char *text, int room)
{
    size_t best = 0, len = 0;
    int columns = 0;

    while (text[len] && text[len] != '\n') {
        columns += ((unsigned char)text[len] & 0xc0) != 0x80;
        if (columns > room)
            return best ? best : len;
        len++;
        if (text[len] == ' ' || text[len] == '\0' || text[len] == '\n')
            best = len;
    }
    return len;
}

int text_wrap(Grid *grid, Area area, int y, int indent, Ink ink, const char *text)
{
    char line[1024];

    for (int x = 0; *text && y < area.height; x = indent, y++) {
        size_t len = words_that_fit(text, area.width - x > 1 ? area.width - x : 1);

        if (len == 0 && *text != '\n')
            break;
        if (len >= sizeof line)
            len = sizeof line - 1;
        memcpy(line, text, len);
        line[len] = '\0';
        grid_text(grid, area, x, y, ink, line);
        text += len;
        while (*text == ' ' || *text == '\n')
            text++;
    }
    return y;
}

bool text_has(const char *text, const char *word)
{
    const size_t len = strlen(word);

    for (; *text; text++)
        if (strncasecmp(text, word, len) == 0)
            return true;
    return len == 0;
}

const char *text_age(uint64_t ns, char out[32])
{
    const unsigned long long s = ns / NS_PER_S;

    if (s < 120)
        snprintf(out, 32, "%llu s", s);
    else if (s < 120 * 60)
        snprintf(out, 32, "%llu min", s / 60);
    else if (s < 48 * 3600)
        snprintf(out, 32, "%llu h", s / 3600);
    else
        snprintf(out, 32, "%llu d", s / 86400);
    return out;
}

const char *text_dot(const Grid *grid)
{
    return grid->utf8 ? " \xc2\xb7 " : ", ";
}

const char *text_arrow(const Grid *grid)
{
    return grid->utf8 ? "\xe2\x86\x92" : "->";
}

const char *text_branch(const Grid *grid, bool last)
{
    if (!grid->utf8)
        return last ? "`-" : "|-";
    return last ? "\xe2\x94\x94\xe2\x94\x80" : "\xe2\x94\x9c\xe2\x94\x80";
}

Ink severity_ink(FaultSeverity severity)
{
    return severity >= SEVERITY_ERROR ? INK_BAD : severity == SEVERITY_WARNING ? INK_WARN : INK_DIM;
}

Ink activity_ink(ActivityWord word)
{
    switch (word) {
    case ACTIVITY_WORKING:
        return INK_STRONG;
    case ACTIVITY_WAITING:
    case ACTIVITY_IDLE_HELD:
        return INK_WARN;
    case ACTIVITY_UNUSABLE:
        return INK_BAD;
    case ACTIVITY_UNKNOWN:
        return INK_DIM;
    case ACTIVITY_FREE:
    case ACTIVITY_END:
        break;
    }
    return INK_PLAIN;
}

/* --- columns -------------------------------------------------------------------------------------------------------
 */

static const Column *column_at(const void *columns, size_t stride, size_t i)
{
    return (const Column *)(const void *)((const char *)columns + i * stride);
}

/* Gives remaining width to columns that can grow, from the left. */
static void widen_columns(const void *columns, size_t stride, size_t count, int left, Layout *layout)
{
    for (size_t i = 0; i < count && left > 0; i++) {
        const int more = column_at(columns, stride, i)->most - layout->width[i];
        const int taken = more < left ? more : left;

        if (layout->width[i] > 0 && taken > 0) {
            layout->width[i] += taken;
            left -= taken;
        }
    }
}

void layout_fit(const void *columns, size_t stride, size_t count, int width, Layout *ret)
{
    unsigned last = 0;
    int used = 0;

    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < count; i++)
        last = column_at(columns, stride, i)->priority > last ? column_at(columns, stride, i)->priority : last;
    for (unsigned priority = 0; priority <= last; priority++)
        for (size_t i = 0; i < count && i < COLUMNS_MAX; i++) {
            const Column *column = column_at(columns, stride, i);

            if (column->priority == priority && used + column->width + (used > 0) <= width) {
                ret->width[i] = column->width;
                used += column->width + (used > 0);
            }
        }
    widen_columns(columns, stride, count, width - used, ret);
    for (size_t i = 0, x = 0; i < count && i < COLUMNS_MAX; i++) {
        ret->x[i] = (int)x;
        if (ret->width[i] > 0)
            x += (size_t)ret->width[i] + 1;
    }
}

Area layout_cell(const Layout *layout, Area row, size_t i)
{
    Area cell = {.x = row.x + layout->x[i], .y = row.y, .width = layout->width[i], .height = row.height};

    if (layout->x[i] + cell.width > row.width)
        cell.width = row.width > layout->x[i] ? row.width - layout->x[i] : 0;
    return cell;
}

void column_text(Grid *grid, Area cell, bool right, Ink ink, const char *text)
{
    if (cell.width <= 0 || cell.height <= 0)
        return;
    if (right && grid_text_width(text) <= cell.width)
        grid_right(grid, cell, cell.width, 0, ink, text);
    else
        grid_text(grid, cell, 0, 0, ink, text);
}
