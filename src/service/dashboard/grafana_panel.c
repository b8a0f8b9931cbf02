/* SPDX-License-Identifier: Apache-2.0 */
/* One panel as Grafana has it in its JSON model (schema version 39). Pure but for memory, any thread. */
#include <jansson.h>
#include <string.h>

#include "base/owner.h"
#include "service/dashboard/panel.h"

/* What a panel is made from. */
typedef struct Maker {
    const Place *place;
    const Panel *panel;
    const Dashboard *board;
    const DashboardOptions *options;
    Arena *arena;
} Maker;

static const char *const kind_types[PANEL_KIND_END] = {
    [PANEL_STAT] = "stat",     [PANEL_TIME] = "timeseries", [PANEL_STACK] = "timeseries",
    [PANEL_BARS] = "bargauge", [PANEL_TABLE] = "table",     [PANEL_STATES] = "state-timeline",
};

static bool over_time(PanelKind kind)
{
    return kind == PANEL_TIME || kind == PANEL_STACK || kind == PANEL_STATES;
}

json_t *grafana_source(const DashboardOptions *options)
{
    return json_pack("{s:s, s:s}", "type", "prometheus", "uid",
                     options->datasource ? options->datasource : "${datasource}");
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

/* A number that says "now" is asked for at one time: what is gone is absent, and not its last value. */
static json_t *targets(const Maker *maker)
{
    json_t *array = json_array();
    const char *legend, *text;

    for (size_t i = 0; (text = panel_query(maker->panel, i, maker->board, maker->options->names, &legend)); i++) {
        const bool range = over_time(maker->panel->kind);
        const char ref[2] = {(char)('A' + i), '\0'};

        json_array_append_new(array, json_pack("{s:s, s:o, s:s, s:s, s:s, s:b, s:b, s:s}", "refId", ref, "datasource",
                                               grafana_source(maker->options), "editorMode", "code", "expr",
                                               expand(text, maker->board, maker->options, maker->arena), "legendFormat",
                                               expand(legend ? legend : "", maker->board, maker->options, maker->arena),
                                               "instant", !range, "range", range, "format",
                                               maker->panel->kind == PANEL_TABLE ? "table" : "time_series"));
    }
    return array;
}

static const char *description(const Maker *maker)
{
    Needs needs = {{0}};
    const char *legend, *text;

    for (size_t i = 0; (text = panel_query(maker->panel, i, maker->board, maker->options->names, &legend)); i++)
        needs_of(text, &needs);
    text = needs_text(&needs, maker->arena);
    if (!*text)
        return maker->panel->text;
    return arena_printf(maker->arena,
                        "%s\n\nNeeds %s, not on by default: `stoker dashboard counters` prints a list with it.",
                        maker->panel->text, text);
}

/* --- looks -------------------------------------------------------------------------------------------------------- */

static json_t *thresholds(const PanelLook *look)
{
    json_t *steps = json_array();

    json_array_append_new(steps, json_pack("{s:s, s:n}", "color", look && look->base ? look->base : "text", "value"));
    for (size_t i = 0; look && i < PANEL_STEPS && look->steps[i].color; i++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:f}", "color", look->steps[i].color, "value", look->steps[i].from));
    return json_pack("{s:s, s:o}", "mode", "absolute", "steps", steps);
}

static json_t *mappings(const PanelLook *look)
{
    json_t *words = json_object();

    for (size_t i = 0; look && i < PANEL_VALUES && look->values[i].text; i++) {
        char value[24];

        snprintf(value, sizeof value, "%g", look->values[i].value);
        json_object_set_new(words, value,
                            json_pack("{s:s, s:s, s:i}", "text", look->values[i].text, "color", look->values[i].color,
                                      "index", (int)i));
    }
    if (json_object_size(words) == 0) {
        json_decref(words);
        return json_array();
    }
    return json_pack("[{s:s, s:o}]", "type", "value", "options", words);
}

static json_t *color(const Panel *panel)
{
    if (panel->kind == PANEL_TIME || panel->kind == PANEL_STACK || (panel->kind == PANEL_BARS && !panel->look))
        return json_pack("{s:s}", "mode", "palette-classic");
    if (panel->look && panel->kind != PANEL_TABLE)
        return json_pack("{s:s}", "mode", "thresholds");
    return json_pack("{s:s, s:s}", "mode", "fixed", "fixedColor", "text");
}

static json_t *custom(const Panel *panel)
{
    const bool stack = panel->kind == PANEL_STACK;

    if (panel->kind == PANEL_STATES)
        return json_pack("{s:i, s:i}", "fillOpacity", 80, "lineWidth", 0);
    if (panel->kind == PANEL_TABLE)
        return json_pack("{s:s, s:b, s:{s:s}}", "align", "auto", "filterable", 1, "cellOptions", "type", "auto");
    if (!over_time(panel->kind))
        return json_object();
    json_t *drawn = json_pack("{s:s, s:s, s:i, s:i, s:s, s:b, s:{s:s, s:s}, s:{s:s}}", "drawStyle", "line",
                              "lineInterpolation", "linear", "lineWidth", 1, "fillOpacity", stack ? 40 : 0,
                              "showPoints", "auto", "spanNulls", 0, "stacking", "mode", stack ? "normal" : "none",
                              "group", "A", "thresholdsStyle", "mode", panel->look ? "dashed" : "off");

    /* soft: what goes beyond is shown */
    if (strcmp(panel->unit, "celsius") != 0)
        json_object_set_new(drawn, "axisSoftMin", json_integer(0));
    if (strcmp(panel->unit, "percentunit") == 0)
        json_object_set_new(drawn, "axisSoftMax", json_integer(1));
    return drawn;
}

/* --- ways on ------------------------------------------------------------------------------------------------------ */

static json_t *link_to_gpu(const Maker *maker, const char *node, const char *gpu)
{
    const char *source = maker->options->datasource ? "" : "&var-datasource=${datasource}";
    const char *uid = dashboard_uid(dashboard_find("gpu"), maker->options->names, maker->arena);

    return json_pack(
        "[{s:s, s:s}]", "title", "This GPU", "url",
        arena_printf(maker->arena, "/d/%s?var-node=%s&var-gpu=%s%s&${__url_time_range}", uid, node, gpu, source));
}

static bool of_gpus(const Maker *maker)
{
    const char *legend;

    if (maker->board->scope == BOARD_GPU || !over_time(maker->panel->kind) ||
        !panel_query(maker->panel, 0, maker->board, maker->options->names, &legend))
        return false;
    return legend && (strstr(legend, "%name%") || strstr(legend, "%mig%"));
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static json_t *property(const char *id, json_t *value)
{
    return json_pack("{s:s, s:o}", "id", id, "value", value);
}

static json_t *column_properties(const Maker *maker, const PanelColumn *column)
{
    const Panel *panel = maker->panel;
    json_t *list = json_array();

    if (column->unit)
        json_array_append_new(list, property("unit", json_string(column->unit)));
    if (strcmp(column->field, "Value") == 0 && panel->look) {
        json_array_append_new(list, property("thresholds", thresholds(panel->look)));
        json_array_append_new(list, property("mappings", mappings(panel->look)));
        json_array_append_new(list, property("color", json_pack("{s:s}", "mode", "thresholds")));
        json_array_append_new(list, property("custom.cellOptions", json_pack("{s:s}", "type", "color-background")));
    }
    if (strcmp(column->field, "gpu") == 0 && maker->board->scope != BOARD_GPU)
        json_array_append_new(
            list, property("links", link_to_gpu(maker, "${__data.fields.Instance}", "${__data.fields.GPU}")));
    return list;
}

static json_t *overrides(const Maker *maker)
{
    json_t *array = json_array();

    for (size_t i = 0; i < PANEL_COLUMNS && maker->panel->columns[i].field; i++) {
        json_t *properties = column_properties(maker, &maker->panel->columns[i]);

        if (json_array_size(properties))
            json_array_append_new(array, json_pack("{s:{s:s, s:s}, s:O}", "matcher", "id", "byName", "options",
                                                   maker->panel->columns[i].title, "properties", properties));
        json_decref(properties);
    }
    return array;
}

/* One row per thing, the columns of the table alone, in its order and under its titles. */
static json_t *transformations(const Maker *maker, size_t queries)
{
    json_t *names = json_array(), *index = json_object(), *titles = json_object(), *array = json_array();

    for (size_t i = 0; i < PANEL_COLUMNS && maker->panel->columns[i].field; i++) {
        const char *field = expand(maker->panel->columns[i].field, maker->board, maker->options, maker->arena);

        json_array_append_new(names, json_string(field));
        json_object_set_new(index, field, json_integer((json_int_t)i));
        json_object_set_new(titles, field, json_string(maker->panel->columns[i].title));
    }
    if (queries > 1)
        json_array_append_new(array, json_pack("{s:s, s:{}}", "id", "merge", "options"));
    json_array_append_new(
        array, json_pack("{s:s, s:{s:{s:o}}}", "id", "filterFieldsByName", "options", "include", "names", names));
    json_array_append_new(array, json_pack("{s:s, s:{s:{}, s:o, s:o}}", "id", "organize", "options", "excludeByName",
                                           "indexByName", index, "renameByName", titles));
    return array;
}

/* --- the panel ---------------------------------------------------------------------------------------------------- */

static json_t *options_of(const Panel *panel, size_t queries)
{
    const char *const now[] = {"lastNotNull"}; /* of an instant query there is but one */

    switch (panel->kind) {
    case PANEL_STAT:
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:[s], s:s, s:b}}", "colorMode", panel->look ? "value" : "none",
                         "graphMode", "none", "justifyMode", "auto", "orientation", "auto", "textMode",
                         queries > 1 ? "value_and_name" : "value", "reduceOptions", "calcs", now[0], "fields", "",
                         "values", 0);
    case PANEL_BARS:
        return json_pack("{s:s, s:s, s:s, s:{s:[s], s:s, s:b}}", "displayMode", "basic", "orientation", "horizontal",
                         "valueMode", "color", "reduceOptions", "calcs", now[0], "fields", "", "values", 0);
    case PANEL_TABLE:
        return json_pack("{s:b, s:s}", "showHeader", 1, "cellHeight", "sm");
    case PANEL_STATES:
        return json_pack("{s:b, s:f, s:s, s:{s:s, s:s, s:b}}", "mergeValues", 1, "rowHeight", 0.8, "showValue", "auto",
                         "legend", "displayMode", "list", "placement", "bottom", "showLegend", 1);
    default:
        return json_pack("{s:{s:s, s:s, s:b, s:[s,s,s]}, s:{s:s, s:s}}", "legend", "displayMode", "table", "placement",
                         "bottom", "showLegend", 1, "calcs", "min", "mean", "max", "tooltip", "mode", "multi", "sort",
                         "desc");
    }
}

static json_t *field_config(const Maker *maker)
{
    const Panel *panel = maker->panel;
    const PanelLook *look = panel->kind == PANEL_TABLE ? NULL : panel->look;
    json_t *defaults = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "unit", panel->unit, "noValue",
                                 panel->empty ? panel->empty : "no data", "thresholds", thresholds(look), "mappings",
                                 mappings(look), "color", color(panel), "custom", custom(panel));

    if (of_gpus(maker))
        json_object_set_new(defaults, "links",
                            link_to_gpu(maker, "${__field.labels.instance}", "${__field.labels.gpu}"));
    return json_pack("{s:o, s:o}", "defaults", defaults, "overrides", overrides(maker));
}

void grafana_panel(json_t *panels, const Place *place, int id, const Dashboard *board, const DashboardOptions *options,
                   Arena *arena)
{
    const Maker maker = {.place = place, .panel = place->panel, .board = board, .options = options, .arena = arena};
    json_t *asked = targets(&maker);
    const size_t queries = json_array_size(asked);
    json_t *panel = json_pack("{s:i, s:s, s:s, s:s, s:o, s:{s:i, s:i, s:i, s:i}, s:o, s:o, s:o}", "id", id, "type",
                              kind_types[place->panel->kind], "title", place->panel->title, "description",
                              description(&maker), "datasource", grafana_source(options), "gridPos", "h", place->height,
                              "w", place->width, "x", place->x, "y", place->y, "targets", asked, "fieldConfig",
                              field_config(&maker), "options", options_of(place->panel, queries));

    if (place->panel->kind == PANEL_TABLE)
        json_object_set_new(panel, "transformations", transformations(&maker, queries));
    json_array_append_new(panels, panel);
}
