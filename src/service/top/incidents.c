/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: the view of incidents, the sheet of one, and the line of one above every view. */
#include "service/top/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "service/incident/incident.h"

void incidents_see(Top *top)
{
    const Snapshot *snapshot = top->snapshot;

    vec_clear(&top->incidents);
    vec_reserve(&top->incidents, snapshot->incident_count);
    top->incidents.len = snapshot->incident_count;
    incidents_urgent(snapshot->incidents, snapshot->incident_count, top->incidents.at);
}

size_t incidents_wrong(const Top *top)
{
    size_t count = 0;

    while (count < top->incidents.len && incident_is_problem(top->incidents.at[count]))
        count++;
    return count;
}

Thing incident_thing(const Incident *incident)
{
    Thing thing = {.kind = THING_INCIDENT};

    snprintf(thing.text, sizeof thing.text, "%s", incident->id);
    return thing;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

enum { COLUMN_SEVERITY, COLUMN_WHERE, COLUMN_SINCE, COLUMN_SEEN, COLUMN_CLASS, COLUMN_TITLE, COLUMN_DO };

static const Column columns[] = {
    [COLUMN_SEVERITY] = {"severity", "", 7, 0, 0, false}, [COLUMN_WHERE] = {"where", "WHERE", 6, 0, 0, false},
    [COLUMN_SINCE] = {"since", "SINCE", 7, 0, 1, true},   [COLUMN_SEEN] = {"seen", "SEEN", 5, 0, 4, true},
    [COLUMN_CLASS] = {"class", "CLASS", 18, 0, 5, false}, [COLUMN_TITLE] = {"title", "WHAT", 24, 76, 0, false},
    [COLUMN_DO] = {"do", "DO", 17, 60, 3, false},
};

static void draw_cell(Top *top, Grid *grid, Area cell, size_t column, const void *row)
{
    const Incident *incident = row;
    const bool over = incident->state != INCIDENT_OPEN;
    char room[STATUS_NAME_CAP] = "";
    const char *text = room;
    Ink ink = INK_PLAIN;

    switch (column) {
    case COLUMN_SEVERITY:
        ink = severity_ink(incident->severity);
        text = over ? "over" : fault_severities[incident->severity].key;
        break;
    case COLUMN_WHERE:
        status_name_place(incident, room);
        break;
    case COLUMN_SINCE:
        if (top->real_ns > incident->opened_real_ns)
            human_age(room, top->real_ns - incident->opened_real_ns);
        break;
    case COLUMN_SEEN:
        snprintf(room, sizeof room, "%llu", (unsigned long long)incident->count);
        break;
    case COLUMN_CLASS:
        text = incident->class;
        break;
    case COLUMN_TITLE:
        text = incident->title;
        break;
    default: /* the action's text, or its key if that does not fit */
        ink = INK_STRONG;
        text = over ? incident_ends[incident->end].text : incident_action(incident);
        if (!over && (int)strlen(text) > cell.width)
            text = fault_actions[incident->action].key;
        break;
    }
    column_text(grid, cell, columns[column].right, over ? INK_DIM : ink, text);
}

static const Table table = {columns, sizeof columns[0], ARRAY_LEN(columns), draw_cell};

static void draw_row(Top *top, Grid *grid, Area line, size_t i, const void *layout)
{
    columns_row(&table, layout, top, grid, line, top->incidents.at[i]);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* What to do and all that is known of it. */
static void draw_sheet(Top *top, Grid *grid, Area area, const Incident *incident, List *scroll)
{
    const Area line = area_top(&area, 1);
    const size_t width = area.width > 1 ? (size_t)area.width : 1;
    const IncidentStyle style = {.width = width, .utf8 = grid->utf8, .real_ns = top->real_ns};
    Pen pen = pen_begin(scroll, area, 1);

    grid_text(grid, line, grid_text(grid, line, 0, 0, INK_KEY, "→ DO "), 0, INK_STRONG, incident_action(incident));
    str_clear(&top->sheet);
    incident_sheet(incident, &style, &top->sheet);
    for (const char *at = top->sheet.text; *at;) {
        const size_t len = strcspn(at, "\n");
        const bool head = strncmp(at, "what was seen", 13) == 0 || strncmp(at, "before and after", 16) == 0;
        const Ink ink = pen.line == 0                ? severity_ink(incident->severity)
                        : strncmp(at, "do ", 3) == 0 ? INK_STRONG
                        : head                       ? INK_TITLE
                                                     : INK_PLAIN;

        grid_textf(grid, pen_line(&pen, false), 0, 0, ink, "%.*s", (int)len, at);
        at += len + (at[len] == '\n');
    }
    pen_end(&pen, scroll);
}

void incident_draw(Top *top, Grid *grid, Area *area, const Incident *incident)
{
    const char *title = incident->title, *action = incident_action(incident);
    const bool one = area->width > 16 + grid_text_width(title) + grid_text_width(action);
    Area place = *area;

    grid_text(grid, area_left(&place, 8), 0, 0, severity_ink(incident->severity),
              fault_severities[incident->severity].key);
    const Area two = {.x = place.x, .y = place.y, .width = place.width, .height = place.height > 2 ? 2 : place.height};
    const int lines = text_wrap(grid, two, 0, INK_PLAIN, title);
    Area row = area_row(place, one ? 0 : lines);
    int x = one ? grid_text_width(title) + 1 : 0;
    x = grid_text(grid, row, x, 0, INK_KEY, "→ DO ");
    grid_text(grid, row, x, 0, INK_STRONG, action);
    top_zone(top, area_top(area, one ? 1 : lines + 1), ZONE_KEY, '4');
}

void view_incidents_draw(Top *top, Grid *grid, Area area)
{
    const bool framed = panel_fits(grid, area, PANEL_MANY / 2);
    const int wish = 1 + (int)top->incidents.len + (framed ? PANEL_EDGES : 0), half = area.height / 2;
    Layout layout;

    if (top->incidents.len == 0) {
        grid_text(grid, area, 1, 1, INK_GOOD, "no open incident");
        return;
    }
    Area list = area_top(&area, wish < half ? wish : half);
    if (framed)
        list = panel_open(grid, list, "Incidents");
    const Area head = area_top(&list, 1);
    columns_fit(&table, head.width, (Fit){0}, &layout);
    columns_head(&table, &layout, grid, head);
    list_draw(top, &top->incident_list, grid, list, 0, 0, draw_row, &layout);
    list_mark(&top->incident_list, grid, head);
    if (framed) {
        area = panel_open(grid, area, "This incident; Enter: all of it");
    } else {
        const Area rule = area_top(&area, 1);
        grid_fill(grid, rule, INK_FRAME, "─");
        grid_text(grid, rule, 2, 0, INK_TITLE, " This incident; Enter: all of it ");
    }
    if (top->incident_list.selected < top->incidents.len)
        draw_sheet(top, grid, area, top->incidents.at[top->incident_list.selected], &(List){.page = 1});
}

void overlay_incident_draw(Top *top, Grid *grid, Area area)
{
    for (size_t i = 0; i < top->incidents.len; i++)
        if (strcmp(top->incidents.at[i]->id, top->target.text) == 0) {
            draw_sheet(top, grid, area, top->incidents.at[i], &top->overlay_list);
            return;
        }
    grid_text(grid, area, 0, 0, INK_WARN, "it is no longer listed: stoker incidents --all");
}
