/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of panels and dashboards, and what is made from them: words filled in, lines filled, needs found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/metric.h"
#include "service/dashboard/panel.h"

enum { OUT_MAX = 4 << 20 };

static const char *const units[] = {"none",  "percentunit", "percent", "bytes", "Bps", "celsius", "watt",
                                    "hertz", "kwatth",      "h",       "s",     "cps", NULL};

static bool is_unit(const char *unit)
{
    for (size_t i = 0; units[i]; i++)
        if (strcmp(units[i], unit) == 0)
            return true;
    return false;
}

static bool is_on(PanelId id)
{
    for (size_t b = 0; b < board_count; b++)
        for (size_t s = 0; s < BOARD_SECTIONS && boards[b].sections[s].title; s++)
            for (size_t i = 0; boards[b].sections[s].panels[i] != PANEL_END; i++)
                if (boards[b].sections[s].panels[i] == id)
                    return true;
    return false;
}

static void every_panel_is_used_and_says_what_it_is(void **state)
{
    (void)state;
    for (PanelId id = 0; id < PANEL_END; id++) {
        const Panel *panel = panel_get(id);

        assert_non_null(panel->title);
        if (!is_on(id))
            fail_msg("'%s' stands on no dashboard", panel->title);
        if (strlen(panel->text) < 25 || panel->text[strlen(panel->text) - 1] != '.')
            fail_msg("'%s' does not say what it means", panel->title);
        if (!is_unit(panel->unit))
            fail_msg("'%s' has the unit '%s'", panel->title, panel->unit);
        assert_true(panel->width > 0 && panel->width <= GRID_WIDTH);
        assert_int_equal(panel->kind == PANEL_TABLE, panel->columns[0].field != NULL);
    }
}

/* Both namings of a query, or either; a legend wherever a name is shown. */
static void every_query_is_whole(void **state)
{
    (void)state;
    for (PanelId id = 0; id < PANEL_END; id++) {
        const Panel *panel = panel_get(id);

        for (size_t q = 0; q < PANEL_QUERIES; q++) {
            const PanelQuery *query = &panel->queries[q];

            if (!query->both && !query->stoker && !query->dcgm) {
                assert_true(q > 0);
                break;
            }
            assert_false(query->both && (query->stoker || query->dcgm));
            if (!query->legend && panel->kind != PANEL_TABLE)
                fail_msg("'%s' has a query without a legend", panel->title);
            if (query->dcgm)
                assert_null(strstr(query->dcgm, "stoker_"));
            if (query->both)
                assert_null(strstr(query->both, "stoker_"));
        }
    }
}

/* Absent data stays absent: no zero is put in its place, and a range of a rate is Grafana's. */
static void nothing_is_made_up(void **state)
{
    (void)state;
    for (PanelId id = 0; id < PANEL_END; id++)
        for (size_t q = 0; q < PANEL_QUERIES; q++) {
            const PanelQuery *query = &panel_get(id)->queries[q];
            const char *const texts[] = {query->both, query->stoker, query->dcgm};

            for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
                if (!texts[i])
                    continue;
                assert_null(strstr(texts[i], "vector("));
                for (const char *at = texts[i]; (at = strstr(at, "rate(")); at++)
                    assert_non_null(strstr(at, "[$__rate_interval]"));
            }
        }
}

static void lines_fill_the_grid(void **state)
{
    (void)state;
    for (size_t b = 0; b < board_count; b++)
        for (size_t s = 0; s < BOARD_SECTIONS && boards[b].sections[s].title; s++)
            for (DashboardNames names = DASHBOARD_STOKER; names <= DASHBOARD_DCGM; names++) {
                Place places[SECTION_PANELS];
                int below = 0, area = 0;
                const size_t count = layout(&boards[b].sections[s], &boards[b], names, 7, places, &below);

                for (size_t i = 0; i < count; i++) {
                    assert_true(places[i].x >= 0 && places[i].x + places[i].width <= GRID_WIDTH);
                    assert_true(places[i].y >= 7 && places[i].y + places[i].height <= below);
                    area += places[i].width * places[i].height;
                    for (size_t k = 0; k < i; k++)
                        assert_true(places[k].y != places[i].y ||
                                    places[k].x + places[k].width <= places[i].x); /* lines are of one height */
                }
                assert_int_equal(area, (below - 7) * GRID_WIDTH);
            }
}

static void words_are_filled_in(void **state)
{
    const DashboardOptions plain = {.names = DASHBOARD_STOKER}, exported = {.exported = true};
    Arena arena = {0};

    (void)state;
    assert_string_equal(expand("a 100 % of {{%pod%}}", &boards[0], &plain, &arena), "a 100 % of {{pod}}");
    assert_string_equal(expand("%pod%, %nothing%", &boards[0], &exported, &arena), "exported_pod, %nothing%");
    assert_string_equal(expand("%owner%", &boards[0], &exported, &arena), "exported_namespace, exported_pod, hpc_job");
    assert_non_null(strstr(expand("{%gpu%}", dashboard_find("job"), &exported, &arena), "exported_pod=~\"$pod\""));
    assert_null(strstr(expand("{%node%}", dashboard_find("gpu"), &plain, &arena), "$gpu"));
    assert_non_null(strstr(expand("{%gpu%}", dashboard_find("gpu"), &plain, &arena), "gpu=~\"$gpu\""));
    arena_done(&arena);
}

static void needs_are_what_is_off_by_default(void **state)
{
    Arena arena = {0};
    Needs needs = {{0}};

    (void)state;
    needs_of("max(DCGM_FI_DEV_GPU_TEMP{a=\"DCGM\"}) + rate(DCGM_FI_PROF_SM_ACTIVE[5m]) + stoker_gpu_up", &needs);
    assert_string_equal(needs_text(&needs, &arena), "DCGM_FI_PROF_SM_ACTIVE");
    arena_done(&arena);
}

/* Every DCGM name that a query has is a metric that there is, under the name that it is shown by. */
static void check_names(const char *query)
{
    for (const char *at = query; (at = strstr(at, "DCGM_")); at++) {
        char name[96];
        size_t len = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

        snprintf(name, sizeof name, "%.*s", (int)len, at);
        const MetricName *found = metric_find(name);
        if (!found || strcmp(metric_get(found->metric)->name, name) != 0)
            fail_msg("there is no metric '%s'", name);
    }
}

static void metrics_are_known(void **state)
{
    (void)state;
    for (PanelId id = 0; id < PANEL_END; id++)
        for (size_t q = 0; q < PANEL_QUERIES; q++) {
            const PanelQuery *query = &panel_get(id)->queries[q];

            check_names(query->both ? query->both : "");
            check_names(query->stoker ? query->stoker : "");
            check_names(query->dcgm ? query->dcgm : "");
        }
}

static void the_model_is_json_with_every_panel(void **state)
{
    (void)state;
    for (size_t b = 0; b < board_count; b++)
        for (DashboardNames names = DASHBOARD_STOKER; names <= DASHBOARD_DCGM; names++) {
            const DashboardOptions options = {.names = names, .datasource = b ? "mine" : NULL};
            json_error_t wrong;
            Str out;

            str_init(&out, OUT_MAX);
            dashboard_write(&boards[b], &options, &out);
            json_t *root = json_loads(out.text, JSON_REJECT_DUPLICATES, &wrong);
            if (!root)
                fail_msg("%s: %s", boards[b].name, wrong.text);
            assert_true(json_array_size(json_object_get(root, "panels")) > 10);
            assert_int_equal(strstr(out.text, "${datasource}") != NULL, b == 0);
            if (names == DASHBOARD_DCGM)
                assert_null(strstr(out.text, "stoker_"));
            json_decref(root);
            str_done(&out);
        }
}

static void counters_have_each_metric_once(void **state)
{
    Str out;

    (void)state;
    str_init(&out, OUT_MAX);
    dashboard_write_counters(&out);
    assert_false(out.overflow);
    for (MetricId id = 0; id < METRIC_END; id++) {
        const Metric *metric = metric_get(id);
        char row[128];

        snprintf(row, sizeof row, "\n%s,", metric->name);
        const char *first = strstr(out.text, row);
        if (metric->on && strncmp(metric->name, "DCGM_", 5) == 0)
            assert_non_null(first);
        if (first)
            assert_null(strstr(first + 1, row));
    }
    assert_null(strstr(out.text, "\nstoker_"));
    assert_non_null(strstr(out.text, "\nDCGM_FI_PROF_SM_ACTIVE,gauge,"));
    str_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_panel_is_used_and_says_what_it_is),
        cmocka_unit_test(every_query_is_whole),
        cmocka_unit_test(nothing_is_made_up),
        cmocka_unit_test(lines_fill_the_grid),
        cmocka_unit_test(words_are_filled_in),
        cmocka_unit_test(needs_are_what_is_off_by_default),
        cmocka_unit_test(metrics_are_known),
        cmocka_unit_test(the_model_is_json_with_every_panel),
        cmocka_unit_test(counters_have_each_metric_once),
    };
    return cmocka_run_group_tests_name("dashboard", tests, NULL, NULL);
}
