/* SPDX-License-Identifier: Apache-2.0 */
/* What is plotted and how rows are shown; and the column that processes are sorted by. */
#include <stdio.h>

#include "service/top/view.h"

/* Rows behind the plots. */
enum { SETUP_BRAILLE, SETUP_COMPACT, SETUP_PROCESSES, SETUP_TREE, SETUP_REVERSE, SETUP_END };

static const char *const names[SETUP_END] = {
    [SETUP_BRAILLE] = "plots as lines of dots (else blocks)",
    [SETUP_COMPACT] = "always one line for a GPU",
    [SETUP_PROCESSES] = "processes below the GPUs",
    [SETUP_TREE] = "processes as a tree by job, pod and container",
    [SETUP_REVERSE] = "processes in the reverse order",
};

static bool is_on(const Top *top, size_t option)
{
    switch (option) {
    case SETUP_BRAILLE:
        return top->plot_style == PLOT_BRAILLE;
    case SETUP_COMPACT:
        return top->compact;
    case SETUP_PROCESSES:
        return !top->hide_processes;
    case SETUP_TREE:
        return top->tree == TREE_OWNER;
    default:
        return top->reverse;
    }
}

static void toggle(Top *top, size_t row)
{
    if (row < plot_count()) {
        top->plotted[row] = !top->plotted[row];
        return;
    }
    switch (row - plot_count()) {
    case SETUP_BRAILLE:
        top->plot_style = top->plot_style == PLOT_BRAILLE ? PLOT_BLOCK : PLOT_BRAILLE;
        break;
    case SETUP_COMPACT:
        top->compact = !top->compact;
        break;
    case SETUP_PROCESSES:
        top->hide_processes = !top->hide_processes;
        break;
    case SETUP_TREE:
        top->tree = top->tree == TREE_OWNER ? TREE_NONE : TREE_OWNER;
        break;
    default:
        top->reverse = !top->reverse;
        break;
    }
}

static void draw_choice(Top *top, Grid *grid, Area area, size_t row, const char *mark, const char *text)
{
    List *list = &top->overlay_list;

    if (row < list->first || row - list->first >= (size_t)area.height)
        return;
    const Area line = area_row(area, (int)(row - list->first));
    const int x = grid_text(grid, line, 1, 0, INK_KEY, mark);
    grid_text(grid, line, x + 1, 0, INK_PLAIN, text);
    if (row == list->selected)
        grid_reverse(grid, line);
    top_zone(top, line, ZONE_OVERLAY, (uint32_t)row);
}

void overlay_setup_draw(Top *top, Grid *grid, Area area)
{
    const Area foot = area_bottom(&area, 1);
    char text[64];

    top->overlay_list.count = plot_count() + SETUP_END;
    list_settle(&top->overlay_list, area.height > 0 ? (size_t)area.height : 1);
    for (size_t i = 0; i < top->overlay_list.count; i++) {
        const bool plot = i < plot_count(), on = plot ? top->plotted[i] : is_on(top, i - plot_count());

        if (plot)
            snprintf(text, sizeof text, "plot %s", plot_title(i));
        draw_choice(top, grid, area, i, on ? "[x]" : "[ ]", plot ? text : names[i - plot_count()]);
    }
    grid_text(grid, foot, 1, 0, INK_DIM, "Space changes it, Escape closes");
}

TopWish overlay_setup_key(Top *top, uint32_t key)
{
    if (list_key(&top->overlay_list, key))
        return TOP_WISH_NONE;
    if (key == ' ' || key == TOP_KEY_ENTER) {
        toggle(top, top->overlay_list.selected);
        processes_see(top);
    }
    return TOP_WISH_NONE;
}

/* --- sort --------------------------------------------------------------------------------------------------------- */

void overlay_sort_draw(Top *top, Grid *grid, Area area)
{
    top->overlay_list.count = process_column_count();
    list_settle(&top->overlay_list, area.height > 0 ? (size_t)area.height : 1);
    for (size_t i = 0; i < process_column_count(); i++)
        draw_choice(top, grid, area, i, i == top->sort ? "*" : " ", process_column_key(i));
}

TopWish overlay_sort_key(Top *top, uint32_t key)
{
    if (list_key(&top->overlay_list, key))
        return TOP_WISH_NONE;
    if (key == ' ' || key == TOP_KEY_ENTER) {
        top->sort = top->overlay_list.selected;
        top->reverse = false;
        processes_see(top);
        top_open(top, OVERLAY_NONE);
    }
    return TOP_WISH_NONE;
}
