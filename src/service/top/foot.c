/* SPDX-License-Identifier: Apache-2.0 */
/* The last line: keys that can be pressed or clicked; a prompt while one types; for a while how a signal went. */
#include <stdio.h>
#include <string.h>

#include "service/top/view.h"

static void draw_prompt(const Top *top, Grid *grid, Area area)
{
    const bool search = top->prompt == PROMPT_SEARCH;
    int x = grid_text(grid, area, 0, 0, INK_KEY, search ? "Search: " : "Filter: ");

    x = grid_text(grid, area, x, 0, INK_STRONG, search ? top->search : top->filter);
    if (x < area.width)
        grid_reverse(grid, (Area){.x = area.x + x, .y = area.y, .width = 1, .height = area.height});
    grid_right(grid, area, area.width, 0, INK_DIM, search ? "F3: next, Enter: stay" : "Enter: keep, Escape: none");
}

/* "F1" of "F1 ? h" */
static size_t first_word(const char *label)
{
    return strcspn(label, " ");
}

static int draw_key(Top *top, Grid *grid, Area area, int x, const KeyRow *row)
{
    const int width = (int)first_word(row->label) + (int)strlen(row->foot);
    char key[16];

    if (x + width > area.width)
        return x;
    snprintf(key, sizeof key, "%.*s", (int)first_word(row->label), row->label);
    const int after = grid_text(grid, area, x, 0, INK_KEY, key);
    grid_text(grid, area, after, 0, INK_PLAIN, row->foot);
    const Area place = {.x = area.x + x, .y = area.y, .width = width, .height = area.height};
    grid_reverse(grid, (Area){.x = area.x + after, .y = area.y, .width = x + width - after, .height = area.height});
    top_zone(top, place, ZONE_KEY, row->keys[0]);
    return x + width + 1;
}

void foot_draw(Top *top, Grid *grid, Area area)
{
    int x = 0;

    if (area.height == 0)
        return;
    if (top->prompt != PROMPT_NONE) {
        draw_prompt(top, grid, area);
        return;
    }
    if (top->said_left > 0) {
        grid_text(grid, area, 0, 0, top->said_ink, top->said);
        return;
    }
    for (size_t i = 0; i < top_key_count; i++)
        if (top_keys[i].foot && (top_keys[i].views >> top->view & 1))
            x = draw_key(top, grid, area, x, &top_keys[i]);
}
