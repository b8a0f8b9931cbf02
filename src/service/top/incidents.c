/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: the view of incidents, the sheet of one, and the line of one above every view. */
#include "service/top/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/incident/incident.h"
#include "service/runbook/runbook.h"

enum { COLUMN_SEVERITY, COLUMN_WHERE, COLUMN_SINCE, COLUMN_SEEN, COLUMN_CLASS, COLUMN_TITLE, COLUMN_DO };

static const Column columns[] = {
    [COLUMN_SEVERITY] = {"severity", "", 7, 0, 0, false}, [COLUMN_WHERE] = {"where", "WHERE", 6, 0, 0, false},
    [COLUMN_SINCE] = {"since", "SINCE", 7, 0, 1, true},   [COLUMN_SEEN] = {"seen", "SEEN", 5, 0, 4, true},
    [COLUMN_CLASS] = {"class", "CLASS", 18, 0, 5, false}, [COLUMN_TITLE] = {"title", "WHAT", 24, 76, 0, false},
    [COLUMN_DO] = {"do", "DO", 17, 60, 3, false},
};

/* The action's text, or its key if that does not fit. */
static const char *action_in(const Incident *incident, int width)
{
    const char *text = fault_actions[incident->action].text;

    return (int)strlen(text) > width ? fault_actions[incident->action].key : text;
}

static void write_cell(const Top *top, size_t column, int width, const Incident *incident, char out[TOP_TEXT_CAP * 3],
                       Ink *ink)
{
    const bool over = incident->state != INCIDENT_OPEN;
    char text[TOP_TEXT_CAP];

    *ink = over ? INK_DIM : INK_PLAIN;
    out[0] = '\0';
    switch (column) {
    case COLUMN_SEVERITY:
        *ink = over ? INK_DIM : severity_ink(incident->severity);
        snprintf(out, TOP_TEXT_CAP, "%s", over ? "over" : fault_severities[incident->severity].key);
        break;
    case COLUMN_WHERE:
        snprintf(out, TOP_TEXT_CAP, "%s", incident_where(incident, text));
        break;
    case COLUMN_SINCE:
        if (top->real_ns > incident->opened_real_ns)
            text_age(top->real_ns - incident->opened_real_ns, out);
        break;
    case COLUMN_SEEN:
        snprintf(out, TOP_TEXT_CAP, "%llu", (unsigned long long)incident->count);
        break;
    case COLUMN_CLASS:
        snprintf(out, TOP_TEXT_CAP, "%s", incident->class);
        break;
    case COLUMN_TITLE:
        snprintf(out, TOP_TEXT_CAP * 3, "%s", incident->title);
        break;
    default:
        *ink = over ? INK_DIM : INK_STRONG;
        snprintf(out, TOP_TEXT_CAP * 3, "%s", over ? incident_end_text(incident->end) : action_in(incident, width));
        break;
    }
}

static void draw_row(const Top *top, Grid *grid, Area line, const Layout *layout, const Incident *incident)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const Area cell = layout_cell(layout, line, i);
        char text[TOP_TEXT_CAP * 3];
        Ink ink;

        if (cell.width == 0)
            continue;
        write_cell(top, i, cell.width, incident, text, &ink);
        column_text(grid, cell, columns[i].right, ink, text);
    }
}

static void draw_list(Top *top, Grid *grid, Area area)
{
    const Area head = area_top(&area, 1);
    List *list = &top->incident_list;
    Layout layout;

    layout_fit(columns, sizeof columns[0], ARRAY_LEN(columns), area.width, &layout);
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        column_text(grid, layout_cell(&layout, head, i), columns[i].right, INK_TITLE, columns[i].title);
    list_settle(list, area.height > 0 ? (size_t)area.height : 1);
    for (size_t i = list->first; i < top->incidents.len && (int)(i - list->first) < area.height; i++) {
        const Area line = area_row(area, (int)(i - list->first));

        draw_row(top, grid, line, &layout, top->incidents.at[i]);
        top_zone(top, line, ZONE_ROW, (uint32_t)i);
        if (i == list->selected)
            grid_reverse(grid, line);
    }
    list_mark(list, grid, head, 0);
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* The ink of a line of incident_sheet(). */
static Ink line_ink(const char *line, size_t number, const Incident *incident)
{
    if (number == 0)
        return severity_ink(incident->severity);
    if (strncmp(line, "do ", 3) == 0)
        return INK_STRONG;
    if (strncmp(line, "what was seen", 13) == 0 || strncmp(line, "before and after", 16) == 0)
        return INK_TITLE;
    return INK_PLAIN;
}

static void make_sheet(Top *top, const Grid *grid, int width, const Incident *incident)
{
    const IncidentStyle style = {.width = (size_t)(width > 1 ? width : 1), .utf8 = grid->utf8, .real_ns = top->real_ns};

    str_clear(&top->sheet);
    incident_sheet(incident, &style, &top->sheet);
}

/* Lines from `first` on; returns how many there are. */
static size_t draw_sheet(Top *top, Grid *grid, Area area, const Incident *incident, size_t first)
{
    size_t number = 0;
    char line[1024];

    make_sheet(top, grid, area.width, incident);
    for (const char *at = top->sheet.text; *at; number++) {
        const size_t len = strcspn(at, "\n");

        snprintf(line, sizeof line, "%.*s", (int)len, at);
        if (number >= first && (int)(number - first) < area.height)
            grid_text(grid, area, 0, (int)(number - first), line_ink(line, number, incident), line);
        at += len + (at[len] == '\n');
    }
    return number;
}

static const char *steps_of(const Incident *incident, char out[TOP_TEXT_CAP * 2])
{
    if (runbook_find(incident->class))
        snprintf(out, TOP_TEXT_CAP * 2, "stoker runbook %s", incident->class);
    else
        snprintf(out, TOP_TEXT_CAP * 2, "stoker incidents show %s", incident->id);
    return out;
}

static void draw_open(Top *top, Grid *grid, Area area, const Incident *incident, List *scroll)
{
    char steps[TOP_TEXT_CAP * 2];
    const Area line = area_top(&area, 1);

    int x = grid_textf(grid, line, 0, 0, INK_KEY, "%s DO ", text_arrow(grid));
    x = grid_text(grid, line, x, 0, INK_STRONG, fault_actions[incident->action].text);
    const char *command = steps_of(incident, steps);
    const bool one = x + 17 + grid_text_width(command) <= line.width;
    const Area place = one ? line : area_top(&area, 1);
    x = grid_text(grid, place, one ? x + 3 : 0, 0, INK_DIM, "step by step: ");
    grid_text(grid, place, x, 0, INK_PLAIN, command);
    const size_t page = area.height > 0 ? (size_t)area.height : 1;
    const size_t lines = draw_sheet(top, grid, area, incident, scroll ? scroll->first : 0);
    if (!scroll)
        return;
    scroll->page = page;
    scroll->count = lines > page ? lines - page + 1 : 1;
    list_move(scroll, 0);
    scroll->first = scroll->selected;
}

/* "GPU 3 (0000:61:00.0) has ..." without the address, for small screens. */
static const char *without_address(const char *title, char out[INCIDENT_TEXT_CAP])
{
    const char *open = strstr(title, " ("), *close = open ? strchr(open, ')') : NULL;

    if (!close || !strchr(open, ':') || strchr(open, ':') > close)
        return title;
    snprintf(out, INCIDENT_TEXT_CAP, "%.*s%s", (int)(open - title), title, close + 1);
    return out;
}

/* Draws the title in at most two lines; returns how many. */
static int draw_title(Grid *grid, Area place, const char *title)
{
    char brief[INCIDENT_TEXT_CAP];

    if (grid_text_width(title) > place.width)
        title = without_address(title, brief);
    place.height = place.height > 2 ? 2 : place.height;
    return text_wrap(grid, place, 0, 0, INK_PLAIN, title);
}

void incident_draw(Top *top, Grid *grid, Area *area, const Incident *incident)
{
    const char *title = incident->title, *action = fault_actions[incident->action].text;
    const bool one = area->width > 16 + grid_text_width(title) + grid_text_width(action);
    Area place = *area;

    grid_text(grid, area_left(&place, 8), 0, 0, severity_ink(incident->severity),
              fault_severities[incident->severity].key);
    const int lines = draw_title(grid, place, title);
    Area row = area_row(place, one ? 0 : lines);
    int x = one ? grid_text_width(title) + 1 : 0;
    x = grid_text(grid, row, x, 0, INK_KEY, grid->utf8 ? "\xe2\x86\x92 DO " : "-> DO ");
    grid_text(grid, row, x, 0, INK_STRONG, action);
    top_zone(top, area_top(area, one ? 1 : lines + 1), ZONE_KEY, '4');
}

void view_incidents_draw(Top *top, Grid *grid, Area area)
{
    const int wish = 1 + (int)top->incidents.len, half = area.height / 2;

    if (top->incidents.len == 0) {
        grid_text(grid, area, 1, 1, INK_GOOD, "no open incident");
        return;
    }
    draw_list(top, grid, area_top(&area, wish < half ? wish : half));
    const Area rule = area_top(&area, 1);
    grid_fill(grid, rule, INK_TITLE, grid->utf8 ? "\xe2\x94\x80" : "-");
    grid_text(grid, rule, 2, 0, INK_DIM, " Enter: all of it ");
    if (top->incident_list.selected < top->incidents.len)
        draw_open(top, grid, area, top->incidents.at[top->incident_list.selected], NULL);
}

void overlay_incident_draw(Top *top, Grid *grid, Area area)
{
    for (size_t i = 0; i < top->incidents.len; i++) {
        const Thing thing = incident_thing(top->incidents.at[i]);

        if (thing_equal(&thing, &top->target)) {
            draw_open(top, grid, area, top->incidents.at[i], &top->overlay_list);
            return;
        }
    }
    grid_text(grid, area, 0, 0, INK_WARN, "it is no longer listed: stoker incidents --all");
}
