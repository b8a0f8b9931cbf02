/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/table.h"

#include <string.h>

const Column *column_at(const void *columns, size_t stride, size_t i)
{
    return (const Column *)(const void *)((const char *)columns + i * stride);
}

/* What is left over goes to those that can take it, the first ones first. */
static void widen(const void *columns, size_t stride, size_t count, int left, Layout *layout)
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
    widen(columns, stride, count, width - used, ret);
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
