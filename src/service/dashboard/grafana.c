/* SPDX-License-Identifier: Apache-2.0 */
/* A dashboard in Grafana's JSON model: variables, annotations, sections. Pure but for memory, any thread. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "service/dashboard/panel.h"

/* Grafana 10.4 and 11 write 39; earlier ones read it, later ones bring it up to their own. */
enum { SCHEMA_VERSION = 39 };

/* The kinds of query a variable has: Grafana's own numbers. */
enum { VALUES_OF_LABEL = 1, RESULT_OF_QUERY = 3 };

enum { SORT_TEXT = 1, SORT_NUMBER = 3 };

typedef struct Variable {
    const char *name, *label, *query, *regex;
    int kind, sort;
    bool many; /* several, and all: also what has no such label */
} Variable;

/* A metric that every GPU has. */
static const char *anchor(const DashboardOptions *options)
{
    return options->names == DASHBOARD_STOKER ? "stoker_gpu_up" : "DCGM_FI_DEV_GPU_TEMP";
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static json_t *source_variable(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{}, s:[], s:i, s:i, s:b, s:b, s:b}", "type", "datasource", "name",
                     "datasource", "label", "Data source", "query", "prometheus", "regex", "", "current", "options",
                     "refresh", 1, "hide", 0, "includeAll", 0, "multi", 0, "skipUrlSync", 0);
}

static json_t *price_variable(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s}, s:[{s:b, s:s, s:s}], s:i, s:b}", "type", "textbox", "name",
                     "price", "label", "Price of a GPU hour", "query", "1", "current", "text", "1", "value", "1",
                     "options", "selected", 1, "text", "1", "value", "1", "hide", 0, "skipUrlSync", 0);
}

/* Asked for again whenever the time shown changes, so that nodes of then are among them. */
static json_t *query_variable(const Variable *variable, const DashboardOptions *options)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:{s:i, s:s, s:s}, s:s, s:i, s:i, s:i, s:b, s:b, s:b, s:[], s:{}}", "type",
                  "query", "name", variable->name, "label", variable->label, "datasource", grafana_source(options),
                  "definition", variable->query, "query", "qryType", variable->kind, "query", variable->query, "refId",
                  "PrometheusVariableQueryEditor-VariableQuery", "regex", variable->regex ? variable->regex : "",
                  "refresh", 2, "sort", variable->sort, "hide", 0, "includeAll", variable->many, "multi",
                  variable->many, "skipUrlSync", 0, "options", "current");

    if (variable->many) {
        json_object_set_new(json, "allValue", json_string(".*"));
        json_object_set_new(json, "current",
                            json_pack("{s:b, s:[s], s:[s]}", "selected", 1, "text", "All", "value", "$__all"));
    }
    return json;
}

/* A node is chosen by its host's name, where its series have one, and told apart by its instance. */
#define NODE_REGEX "/[Hh]ostname=\"(?<text>[^\"]+)|instance=\"(?<value>[^\"]+)/g"

static json_t *variables(const Dashboard *board, const DashboardOptions *options, Arena *arena)
{
    const char *metric = anchor(options);
    const char *owned =
        options->names == DASHBOARD_STOKER || board->scope == BOARD_WORK ? "DCGM_FI_DEV_FB_USED" : metric;
    const char *node = "cluster=~\"$cluster\",job=~\"$scrape\"";
    const char *pod_label = expand("%pod%", board, options, arena);
    const char *namespace_label = expand("%namespace%", board, options, arena);
    const bool one = board->scope == BOARD_GPU;
    const Variable rows[] = {
        {"cluster", "Cluster", arena_printf(arena, "label_values(%s, cluster)", metric), NULL, VALUES_OF_LABEL,
         SORT_TEXT, true},
        {"scrape", "Scrape job", arena_printf(arena, "label_values(%s{cluster=~\"$cluster\"}, job)", metric), NULL,
         VALUES_OF_LABEL, SORT_TEXT, true},
        {"node", "Node",
         arena_printf(arena, "query_result(count by (instance, hostname, Hostname) (last_over_time(%s{%s}[$__range])))",
                      metric, node),
         NODE_REGEX, RESULT_OF_QUERY, SORT_TEXT, !one},
    };
    const Variable gpu = {
        "gpu", "GPU",           arena_printf(arena, "label_values(%s{%s,instance=~\"$node\"}, gpu)", metric, node),
        NULL,  VALUES_OF_LABEL, SORT_NUMBER,
        !one};
    const Variable work[] = {
        {"job", "Job", arena_printf(arena, "label_values(%s{%s,instance=~\"$node\"}, hpc_job)", owned, node), NULL,
         VALUES_OF_LABEL, SORT_NUMBER, true},
        {"namespace", "Namespace",
         arena_printf(arena, "label_values(%s{%s,instance=~\"$node\"}, %s)", owned, node, namespace_label), NULL,
         VALUES_OF_LABEL, SORT_TEXT, true},
        {"pod", "Pod",
         arena_printf(arena, "label_values(%s{%s,instance=~\"$node\",%s=~\"$namespace\"}, %s)", owned, node,
                      namespace_label, pod_label),
         NULL, VALUES_OF_LABEL, SORT_TEXT, true},
    };
    json_t *list = json_array();

    if (!options->datasource)
        json_array_append_new(list, source_variable());
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        json_array_append_new(list, query_variable(&rows[i], options));
    if (board->scope == BOARD_GPUS || one)
        json_array_append_new(list, query_variable(&gpu, options));
    for (size_t i = 0; board->scope == BOARD_WORK && i < ARRAY_LEN(work); i++)
        json_array_append_new(list, query_variable(&work[i], options));
    if (board->priced)
        json_array_append_new(list, price_variable());
    return list;
}

/* --- annotations -------------------------------------------------------------------------------------------------- */

typedef struct Mark {
    DashboardNames names;
    const char *name, *color, *expr, *title, *text, *tags;
    bool on;
} Mark;

/* A series that is there for a while is drawn as a region. */
static const Mark marks[] = {
    {DASHBOARD_STOKER, "Incidents", "red",
     "max by (%by%, class, severity, action) (stoker_incident_open{%gpu%,severity!=\"info\"})", "{{class}}",
     "%name%: {{severity}}, {{action}}", "severity,class", true},
    {DASHBOARD_STOKER, "Maintenance", "blue",
     "max by (instance, hostname, Hostname, gpu, id) (stoker_maintenance_active{%node%})", "maintenance {{id}}",
     "%name%", "id", true},
    {DASHBOARD_DCGM, "New XIDs", "red",
     "max by (%by%, err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS{%gpu%}) > 0 unless max by (%by%, err_code, err_msg) "
     "(DCGM_FI_DEV_XID_ERRORS{%gpu%} offset 5m) > 0",
     "XID {{err_code}}", "%name%: {{err_msg}}", "err_code", true},
    {DASHBOARD_DCGM, "Alerts", "orange", "max by (%by%, alertname, severity) (ALERTS{%gpu%,alertstate=\"firing\"})",
     "{{alertname}}", "%name%: {{severity}}", "severity,alertname", true},
};

/* Incidents have no owner: on the dashboard of a job they are those of the GPUs it has. */
static const char *mark_expr(const Mark *mark, const Dashboard *board, const DashboardOptions *options, Arena *arena)
{
    static const char of_work[] =
        "max by (%by%, class, severity, action) (stoker_incident_open{%node%,severity!=\"info\"}) "
        "and on (%by%) max by (%by%) (DCGM_FI_DEV_FB_USED{%gpu%})";
    const bool unowned = board->scope == BOARD_WORK && strstr(mark->expr, "stoker_incident_open");

    return expand(unowned ? of_work : mark->expr, board, options, arena);
}

static json_t *annotations(const Dashboard *board, const DashboardOptions *options, Arena *arena)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (marks[i].names == options->names)
            json_array_append_new(list,
                                  json_pack("{s:s, s:b, s:b, s:s, s:o, s:s, s:s, s:s, s:s, s:b}", "name", marks[i].name,
                                            "enable", marks[i].on, "hide", 0, "iconColor", marks[i].color, "datasource",
                                            grafana_source(options), "expr",
                                            mark_expr(&marks[i], board, options, arena), "titleFormat", marks[i].title,
                                            "textFormat", expand(marks[i].text, board, options, arena), "tagKeys",
                                            marks[i].tags, "useValueForTime", 0));
    return list;
}

/* --- sections ----------------------------------------------------------------------------------------------------- */

static json_t *row(const Section *section, int id, int y)
{
    return json_pack("{s:i, s:s, s:s, s:b, s:{s:i, s:i, s:i, s:i}, s:[]}", "id", id, "type", "row", "title",
                     section->title, "collapsed", section->folded, "gridPos", "h", 1, "w", GRID_WIDTH, "x", 0, "y", y,
                     "panels");
}

/* A section without a panel under this naming is left out. What is folded lies in its row and takes no room. */
static json_t *sections(const Dashboard *board, const DashboardOptions *options, Arena *arena)
{
    json_t *panels = json_array();
    int id = 1, y = 0;

    for (size_t s = 0; s < BOARD_SECTIONS && board->sections[s].title; s++) {
        const Section *section = &board->sections[s];
        Place places[SECTION_PANELS];
        int below;
        const size_t count = layout(section, board, options->names, y + 1, places, &below);

        if (count == 0)
            continue;
        json_t *head = row(section, id++, y);
        json_array_append_new(panels, head);
        for (size_t i = 0; i < count; i++)
            grafana_panel(section->folded ? json_object_get(head, "panels") : panels, &places[i], id++, board, options,
                          arena);
        y = section->folded ? y + 1 : below;
    }
    return panels;
}

void dashboard_write(const Dashboard *dashboard, const DashboardOptions *options, Str *out)
{
    const bool dcgm = options->names == DASHBOARD_DCGM;
    const char *tag = dcgm ? "stoker-dcgm" : "stoker";
    Arena arena = {0};
    json_t *root = json_pack("{s:n, s:s, s:s, s:s, s:[s], s:i, s:i, s:b, s:i, s:b, s:s, s:s, s:{s:s, s:s}, s:{}}", "id",
                             "uid", dashboard_uid(dashboard, options->names, &arena), "title",
                             arena_printf(&arena, "%s%s", dashboard->title, dcgm ? " (DCGM)" : ""), "description",
                             dashboard->text, "tags", tag, "schemaVersion", SCHEMA_VERSION, "version", 1, "editable", 1,
                             "graphTooltip", 1, "liveNow", 0, "timezone", "browser", "refresh", dashboard->refresh,
                             "time", "from", dashboard->from, "to", "now", "timepicker");

    json_object_set_new(root, "links",
                        json_pack("[{s:s, s:s, s:[s], s:b, s:b, s:b, s:b, s:s, s:s, s:s}]", "type", "dashboards",
                                  "title", "Stoker", "tags", tag, "asDropdown", 1, "includeVars", 1, "keepTime", 1,
                                  "targetBlank", 0, "icon", "external link", "tooltip", "", "url", ""));
    json_object_set_new(root, "templating", json_pack("{s:o}", "list", variables(dashboard, options, &arena)));
    json_object_set_new(root, "annotations", json_pack("{s:o}", "list", annotations(dashboard, options, &arena)));
    json_object_set_new(root, "panels", sections(dashboard, options, &arena));
    CLEANUP_FREE char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    assert(text); /* all texts are UTF-8: the tables' own, and a uid that was checked */
    str_add(out, text);
    str_addc(out, '\n');
    json_decref(root);
    arena_done(&arena);
}

/* --- documentation ------------------------------------------------------------------------------------------------ */

static const char *whose(const Panel *panel, const Dashboard *board)
{
    const char *legend;
    const bool stoker = panel_query(panel, 0, board, DASHBOARD_STOKER, &legend) != NULL;
    const bool dcgm = panel_query(panel, 0, board, DASHBOARD_DCGM, &legend) != NULL;

    return stoker && dcgm ? "both" : stoker ? "stoker" : "dcgm";
}

static void markdown_row(const Panel *panel, const Dashboard *board, Arena *arena, Str *out)
{
    Needs needs = {{0}};
    const char *legend, *text;

    for (DashboardNames names = DASHBOARD_STOKER; names <= DASHBOARD_DCGM; names++)
        for (size_t i = 0; (text = panel_query(panel, i, board, names, &legend)); i++)
            needs_of(text, &needs);
    text = needs_text(&needs, arena);
    str_addf(out, "| %s | %s | %s | %s |\n", panel->title, whose(panel, board), panel->text, *text ? text : "");
}

void dashboard_write_markdown(Str *out)
{
    Arena arena = {0};

    for (size_t b = 0; b < board_count; b++) {
        str_addf(out, "%s### `%s`: %s\n\n%s\n\n| panel | names | what it says | needs also |\n|---|---|---|---|\n",
                 b ? "\n" : "", boards[b].name, boards[b].title, boards[b].text);
        for (size_t s = 0; s < BOARD_SECTIONS && boards[b].sections[s].title; s++)
            for (size_t i = 0; boards[b].sections[s].panels[i] != PANEL_END; i++)
                markdown_row(panel_get(boards[b].sections[s].panels[i]), &boards[b], &arena, out);
    }
    arena_done(&arena);
}
