/* SPDX-License-Identifier: Apache-2.0 */
/* Where panels stand: from left to right in lines, each line made to fill the grid. Pure, any thread. */
#include "service/dashboard/panel.h"

enum { HEIGHT_STAT = 4, HEIGHT = 8 };

static bool is_shown(const Panel *panel, const Dashboard *board, DashboardNames names)
{
    const char *legend;

    return panel_query(panel, 0, board, names, &legend) != NULL;
}

static int height_of(const Panel *panel)
{
    return panel->kind == PANEL_STAT ? HEIGHT_STAT : HEIGHT;
}

/* The columns that are left over go to the panels of the line in turn, the last ones first. */
static void fill(Place *line, size_t count)
{
    int left = GRID_WIDTH, x = 0;

    for (size_t i = 0; i < count; i++)
        left -= line[i].width;
    for (size_t i = 0; i < count; i++) {
        const int more = left / (int)(count - i);

        line[i].width += more;
        left -= more;
        line[i].x = x;
        x += line[i].width;
    }
}

/* How many panels from the first one on stand in one line: of one height, as many as fit. */
static size_t line_of(const Place *places, size_t count)
{
    size_t n = 0;

    for (int width = 0; n < count; n++) {
        width += places[n].width;
        if (width > GRID_WIDTH || places[n].height != places[0].height)
            break;
    }
    return n;
}

size_t layout(const Section *section, const Dashboard *board, DashboardNames names, int y, Place places[SECTION_PANELS],
              int *ret_y)
{
    size_t count = 0;

    for (size_t i = 0; section->panels[i] != PANEL_END; i++) {
        const Panel *panel = panel_get(section->panels[i]);

        if (is_shown(panel, board, names))
            places[count++] = (Place){.panel = panel, .width = panel->width, .height = height_of(panel)};
    }
    for (size_t at = 0; at < count;) {
        const size_t n = line_of(places + at, count - at);

        fill(places + at, n);
        for (size_t i = at; i < at + n; i++)
            places[i].y = y;
        y += places[at].height;
        at += n;
    }
    *ret_y = y;
    return count;
}
