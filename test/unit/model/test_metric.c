/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the metric catalogue (model/metric.def, metric_alias.def, metric.c) and holds it against fields.csv. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "model/metric.h"
#include "model/reading.h"

static Facts facts;

#define FOR_EACH_METRIC(m) for (const Metric *m = metric_get(0); m; m = m->id + 1 < METRIC_END ? m + 1 : NULL)

static bool well_formed(const char *name)
{
    return strncmp(name, "DCGM_", 5) == 0 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name);
}

/* A row of our own, which DCGM does not have: named as Prometheus wants it, with its unit and "total" in the name. */
static bool own(const Metric *m)
{
    return strncmp(m->name, "stoker_", 7) == 0;
}

static void own_rows_are_whole(void **state)
{
    size_t count = 0;

    (void)state;
    FOR_EACH_METRIC(m)
    {
        size_t len = strlen(m->name);

        if (!own(m))
            continue;
        count++;
        assert_int_equal(strspn(m->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), len);
        assert_int_equal(m->dcgm_id, 0);
        assert_null(m->newer.text);
        assert_int_equal(m->type == METRIC_COUNTER, strcmp(m->name + len - 6, "_total") == 0);
        assert_int_equal(m->unit == UNIT_BYTE, strstr(m->name, "_bytes_") != NULL);
    }
    assert_true(count > 0);
}

static void rows_are_whole(void **state)
{
    size_t row = 0;

    (void)state;
    FOR_EACH_METRIC(m)
    {
        assert_int_equal(m->id, row++);
        assert_ptr_equal(metric_get(m->id), m);
        assert_true(own(m) || well_formed(m->name));
        assert_true(!m->newer.text || well_formed(m->newer.text));
        assert_true(strlen(m->help) > 10);
        assert_null(strpbrk(m->help, "\n\\\""));
        assert_int_equal(m->type == METRIC_LABEL, m->value == METRIC_TEXT);
        assert_int_equal(m->type == METRIC_LABEL, m->unit == UNIT_TEXT);
        assert_false(m->type == METRIC_LABEL && m->history);
        assert_true(m->type == m->csv_type || (m->type == METRIC_GAUGE && m->csv_type == METRIC_COUNTER));
    }
    assert_int_equal(row, METRIC_END);
}

static void sources_are_whole(void **state)
{
    (void)state;
    FOR_EACH_METRIC(m)
    {
        const MetricSource *source = &m->source;
        bool call = source->kind == METRIC_FROM_CALL || source->kind == METRIC_FROM_EVENT;
        bool number = source->kind == METRIC_FROM_FIELD || source->kind == METRIC_FROM_GPM;

        assert_int_equal(call, source->function != NULL);
        assert_true(!call || strncmp(source->function, "nvml", 4) == 0);
        assert_int_equal(number, source->id != 0);
        assert_true(source->kind == METRIC_FROM_FIELD || (source->second_id == 0 && source->scope == 0));
    }
}

/* The pace follows from the source where the source leaves no choice. */
static void paces_fit_their_sources(void **state)
{
    (void)state;
    FOR_EACH_METRIC(m)
    {
        const char *function = m->source.function;
        bool blocks = m->source.kind == METRIC_FROM_CALL && strstr(function, "PcieThroughput");

        assert_int_equal(m->pace == METRIC_PACE_DERIVE, m->source.kind == METRIC_FROM_DERIVED);
        assert_int_equal(m->pace == METRIC_PACE_EVENTS, m->source.kind == METRIC_FROM_EVENT);
        assert_int_equal(m->pace == METRIC_PACE_BLOCKING, blocks);
        assert_true(m->type != METRIC_LABEL || m->pace == METRIC_PACE_ONCE);
        assert_true(m->pace != METRIC_PACE_ONCE || !m->history);
        assert_true(m->pace != METRIC_PACE_FAST || (m->type == METRIC_GAUGE && m->history));
    }
}

/* Fast metrics have the places 0, 1, ... of a FastReading in the order of the catalogue; nothing else has one. */
static void fast_metrics_have_places(void **state)
{
    int count = 0;

    (void)state;
    FOR_EACH_METRIC(m)
    {
        if (m->pace != METRIC_PACE_FAST) {
            assert_int_equal(metric_fast_index(m->id), -1);
            continue;
        }
        assert_int_equal(metric_fast_index(m->id), count);
        assert_int_equal(metric_fast_at(count), m->id);
        count++;
    }
    assert_in_range(count, 1, READING_FAST_CAP);
    assert_int_equal(metric_fast_at(count), METRIC_END);
    assert_int_equal(metric_fast_at(-1), METRIC_END);
    assert_true(metric_fast_index(METRIC_POWER_USAGE) >= 0);
}

static void helps_differ(void **state)
{
    (void)state;
    FOR_EACH_METRIC(a)
    {
        for (size_t i = a->id + 1u; i < METRIC_END; i++)
            assert_string_not_equal(a->help, metric_get((MetricId)i)->help);
    }
}

/* Each text names one metric, so the lookup must give back the very name that was asked for. */
static void every_name_is_found(void **state)
{
    (void)state;
    FOR_EACH_METRIC(m)
    {
        const MetricName *classic = metric_find(m->name);
        MetricName newer = metric_name(m->id, METRIC_NAME_NEWER);
        const MetricName *found = metric_find(newer.text);

        assert_non_null(classic);
        assert_int_equal(classic->metric, m->id);
        assert_int_equal(classic->naming, METRIC_NAME_CLASSIC);
        assert_int_equal(classic->unit, m->unit);
        assert_true(classic->factor == 1);
        assert_non_null(found);
        assert_int_equal(found->metric, m->id);
        assert_string_equal(found->text, newer.text);
        assert_int_equal(found->unit, newer.unit);
        assert_int_equal(found->dcgm_id, newer.dcgm_id);
        assert_true(found->factor == newer.factor);
        assert_int_equal(found->naming, m->newer.text ? METRIC_NAME_NEWER : METRIC_NAME_CLASSIC);
    }
}

static void near_misses_are_not_found(void **state)
{
    static const char *const misses[] = {"",
                                         "DCGM",
                                         "GPU_TEMP",
                                         "dcgm_fi_dev_gpu_temp",
                                         " DCGM_FI_DEV_GPU_TEMP",
                                         "DCGM_FI_DEV_NVLINK_BANDWIDTH_L18",
                                         "DCGM_FI_PROF_NVDEC8_ACTIVE"};

    (void)state;
    for (size_t i = 0; i < sizeof misses / sizeof misses[0]; i++)
        assert_null(metric_find(misses[i]));
    FOR_EACH_METRIC(m)
    {
        char text[128];

        snprintf(text, sizeof text, "%s_", m->name);
        assert_null(metric_find(text));
        snprintf(text, sizeof text, "%s", m->name);
        text[0] = 'd';
        assert_null(metric_find(text));
    }
}

/* A newer name in another unit is the same quantity, and its factor is the one between the two units. */
static void factors_follow_the_units(void **state)
{
    size_t scaled = 0;

    (void)state;
    FOR_EACH_METRIC(m)
    {
        MetricName newer = metric_name(m->id, METRIC_NAME_NEWER);
        double ratio = metric_units[m->unit].factor / metric_units[newer.unit].factor;

        assert_string_equal(metric_units[m->unit].suffix, metric_units[newer.unit].suffix);
        assert_true(fabs(newer.factor - ratio) <= 1e-12 * ratio);
        assert_int_equal(m->newer.factor != 0, m->newer.dcgm_id != 0);
        assert_int_equal(m->newer.factor != 0, m->unit != newer.unit);
        scaled += m->newer.factor != 0;
    }
    assert_int_equal(scaled, 8 + 1 + 4 + 2 + 7 + 19 + 1); /* clocks energy util throttle memory nvlink fan */
}

/* The figures a user of the newer names sees. */
static void newer_names_carry_their_scale(void **state)
{
    static const struct {
        const char *classic, *newer;
        double value, expected;
        Unit unit;
    } rows[] = {
        {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1980, 1.98e9, UNIT_HERTZ},
        {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 55491, 55.491, UNIT_JOULE},
        {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", 97, 0.97, UNIT_RATIO},
        {"DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_CAPACITY_BYTES", 81559, 85520809984., UNIT_BYTE},
        {"DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_FAN_SPEED_RATIO", 104, 1.04, UNIT_RATIO},
        {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1000, 1.024e9,
         UNIT_BYTES_PER_SECOND},
        {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", 312.5, 312.5, UNIT_WATT},
        {"DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", 25e8, 2.5, UNIT_SECOND},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const MetricName *newer = metric_find(rows[i].newer);

        assert_non_null(newer);
        assert_string_equal(metric_get(newer->metric)->name, rows[i].classic);
        assert_true(fabs(rows[i].value * newer->factor - rows[i].expected) <= 1e-9 * rows[i].expected);
        assert_int_equal(newer->unit, rows[i].unit);
    }
}

static void aliases_are_understood(void **state)
{
    static const struct {
        const char *alias;
        MetricId metric;
    } rows[] = {
        {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", METRIC_CLOCKS_EVENT_REASONS},
        {"DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", METRIC_NVLINK_BANDWIDTH_TOTAL},
        {"DCGM_FI_DEV_NVLINK_THROUGHPUT_L17", METRIC_NVLINK_BANDWIDTH_L17},
        {"dcgm_power_usage", METRIC_POWER_USAGE},
        {"dcgm_gpu_utilization", METRIC_GPU_UTIL},
        {"dcgm_fi_prof_pcie_rx_bytes", METRIC_PROF_PCIE_RX_BYTES},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const MetricName *name = metric_find(rows[i].alias);

        assert_non_null(name);
        assert_int_equal(name->metric, rows[i].metric);
        assert_int_equal(name->naming, METRIC_NAME_ALIAS);
        assert_true(name->factor == 1);
        assert_int_equal(name->dcgm_id, metric_get(rows[i].metric)->dcgm_id);
    }
}

/* Every alias row by itself: found as an alias of its metric, so no alias collides with another name. */
static void no_alias_hides_a_name(void **state)
{
    static const struct {
        MetricId metric;
        const char *text;
    } rows[] = {
#define METRIC_ALIAS(of, name) {METRIC_##of, name},
#include "model/metric_alias.def"
#undef METRIC_ALIAS
    };
    size_t lower_case = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const MetricName *name = metric_find(rows[i].text);

        assert_non_null(name);
        assert_int_equal(name->metric, rows[i].metric);
        assert_int_equal(name->naming, METRIC_NAME_ALIAS);
        for (size_t k = i + 1; k < sizeof rows / sizeof rows[0]; k++)
            assert_string_not_equal(rows[i].text, rows[k].text);
        lower_case += strncmp(rows[i].text, "dcgm_", 5) == 0;
    }
    assert_true(lower_case > 0);
}

static const Metric *fact_metric(size_t row)
{
    const MetricName *name = metric_find(facts.rows[row].cell[FACT_NAME]);

    if (!name)
        fail_msg("%s is not in the catalogue", facts.rows[row].cell[FACT_NAME]);
    return metric_get(name->metric);
}

static void every_fact_is_present(void **state)
{
    (void)state;
    assert_int_equal(facts.count, 149);
    for (size_t i = 0; i < facts.count; i++) {
        char *const *cell = facts.rows[i].cell;
        const Metric *m = fact_metric(i);
        bool legacy = strcmp(cell[FACT_NAME], "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") == 0;

        assert_true(legacy || strcmp(cell[FACT_NAME], m->name) == 0);
        assert_int_equal(m->dcgm_id, atoi(cell[FACT_ID]));
        assert_string_equal(metric_types[m->csv_type].key, cell[FACT_TYPE]);
        assert_int_equal(m->on, atoi(cell[FACT_ON]));
        if (strcmp(cell[FACT_UNIT], "bool/pages") == 0)
            assert_int_equal(m->unit, UNIT_PAGES);
        else
            assert_string_equal(metric_units[m->unit].symbol, cell[FACT_UNIT]);
    }
}

/* Rows beyond the facts are the numbered ones, whose first is a fact, one clock, and our own. */
static void nothing_else_is_present(void **state)
{
    static const char *const numbered[] = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_L", "DCGM_FI_PROF_NVDEC", "DCGM_FI_PROF_NVJPG",
                                           "DCGM_FI_PROF_NVOFA"};
    size_t beyond = 0;

    (void)state;
    FOR_EACH_METRIC(m)
    {
        bool known = own(m) || strcmp(m->name, "DCGM_FI_DEV_MAX_VIDEO_CLOCK") == 0;

        for (size_t i = 0; i < facts.count && !known; i++)
            known = strcmp(facts.rows[i].cell[FACT_NAME], m->name) == 0;
        for (size_t i = 0; i < 4 && !known; i++) {
            known = strncmp(m->name, numbered[i], strlen(numbered[i])) == 0;
            beyond += known;
        }
        assert_true(known);
    }
    assert_int_equal(beyond, 17 + 7 + 7 + 1);
}

static MetricSourceKind source_kind(const char *text)
{
    if (strcmp(text, "nvml") == 0)
        return METRIC_FROM_CALL;
    if (strcmp(text, "nvml-field-value") == 0)
        return METRIC_FROM_FIELD;
    if (strcmp(text, "gpm") == 0)
        return METRIC_FROM_GPM;
    assert_string_equal(text, "derived");
    return METRIC_FROM_DERIVED;
}

static void sources_agree_with_the_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < facts.count; i++) {
        char *const *cell = facts.rows[i].cell;
        const Metric *m = fact_metric(i);
        const char *equals = strchr(cell[FACT_SOURCE], '=');

        if (m->id == METRIC_XID_ERRORS)
            assert_int_equal(m->source.kind, METRIC_FROM_EVENT);
        else
            assert_int_equal(m->source.kind, source_kind(cell[FACT_SOURCE_KIND]));
        if (m->source.id != 0 && m->id != METRIC_NVLINK_BANDWIDTH_L0) { /* "same as TOTAL" */
            assert_non_null(equals);
            assert_int_equal(m->source.id, atoi(equals + 1));
        }
        if (m->source.kind == METRIC_FROM_FIELD)
            assert_int_equal(m->source.scope == METRIC_ALL_LINKS, strstr(cell[FACT_SOURCE], "UINT_MAX") != NULL);
        if (m->source.function)
            assert_memory_equal(m->source.function, cell[FACT_SOURCE], strlen(m->source.function));
    }
}

static void scopes_agree_with_the_facts(void **state)
{
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < facts.count; i++) {
        const char *notes = facts.rows[i].cell[FACT_NOTES];
        const Metric *m = fact_metric(i);

        if (strstr(notes, "entity GPU_CI") || strstr(notes, "entity level GPU_CI")) {
            assert_int_equal(m->scope, METRIC_SCOPE_COMPUTE_INSTANCE);
            seen++;
        } else if (strstr(notes, "entity level GPU_I")) {
            assert_int_equal(m->scope, METRIC_SCOPE_GPU_INSTANCE);
            seen++;
        } else if (strstr(notes, "entity LINK")) {
            assert_int_equal(m->scope, METRIC_SCOPE_LINK);
            seen++;
        }
    }
    assert_int_equal(seen, 1 + 4 + 12 + 5);
}

/* Integers are printed without decimals in the classic format, so the kind of value is visible. */
static void values_agree_with_the_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < facts.count; i++) {
        const char *notes = facts.rows[i].cell[FACT_NOTES];
        const Metric *m = fact_metric(i);

        if (strstr(notes, "int64"))
            assert_int_equal(m->value, METRIC_INT64);
        if (strstr(notes, "double"))
            assert_int_equal(m->value, METRIC_DOUBLE);
        if (strstr(facts.rows[i].cell[FACT_SOURCE], "as double"))
            assert_int_equal(m->value, METRIC_DOUBLE);
    }
}

/* "alias X", "name X" and "twin X(id)" in the notes: X is another name of the same metric. */
static void check_note(const Metric *m, const char *word)
{
    size_t length = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    bool prof = strncmp(m->name, "DCGM_FI_PROF_", 13) == 0;
    bool whole = strncmp(word, "DCGM_", 5) == 0;
    char text[128];
    const MetricName *name;

    snprintf(text, sizeof text, "%s%.*s", whole ? "" : prof ? "DCGM_FI_PROF_" : "DCGM_FI_DEV_", (int)length, word);
    name = metric_find(text);
    if (!name)
        fail_msg("%s, said to be %s, is not found", text, m->name);
    assert_int_equal(name->metric, m->id);
    if (word[length] == '(')
        assert_int_equal(name->dcgm_id, atoi(word + length + 1));
}

static void noted_names_lead_back(void **state)
{
    static const char *const marks[] = {"alias ", "twin ", "4.6 name "};
    size_t checked = 0;

    (void)state;
    for (size_t i = 0; i < facts.count; i++) {
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++) {
            const char *at = facts.rows[i].cell[FACT_NOTES];

            while ((at = strstr(at, marks[k]))) {
                at += strlen(marks[k]);
                if (*at < 'A' || *at > 'Z')
                    continue;
                check_note(fact_metric(i), at);
                checked++;
            }
        }
    }
    assert_int_equal(checked, 52);
}

static void numbered_rows_count_up(void **state)
{
    static const struct {
        MetricId first;
        int count, dcgm_id, source_id;
    } ranges[] = {
        {METRIC_PROF_NVDEC0_ACTIVE, 8, 1017, 30},
        {METRIC_PROF_NVJPG0_ACTIVE, 8, 1025, 40},
        {METRIC_PROF_NVOFA0_ACTIVE, 2, 1033, 50},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int k = 0; k < ranges[i].count; k++) {
            const Metric *m = metric_get(ranges[i].first + (MetricId)k);

            assert_int_equal(m->dcgm_id, ranges[i].dcgm_id + k);
            assert_int_equal(m->source.id, ranges[i].source_id + k);
        }
    }
    for (uint32_t link = 0; link < 18; link++) {
        const Metric *m = metric_get(METRIC_NVLINK_BANDWIDTH_L0 + link);

        assert_int_equal(m->source.scope, link);
        assert_int_equal(m->source.id, 138);
        assert_int_equal(m->source.second_id, 139);
        assert_int_equal(m->newer.dcgm_id, 1630 + link);
        assert_int_equal(strtoul(strrchr(m->name, 'L') + 1, NULL, 10), link);
    }
}

/* What the exporter's rows call a counter although it goes down; nothing else may differ from them. */
static void only_these_types_were_wrong(void **state)
{
    (void)state;
    FOR_EACH_METRIC(m)
    {
        bool wrong = strncmp(m->name, "DCGM_FI_DEV_NVLINK_BANDWIDTH_", 29) == 0 || m->id == METRIC_RETIRED_PENDING ||
                     m->id == METRIC_EXP_XID_ERRORS_COUNT || m->id == METRIC_EXP_CLOCK_EVENTS_COUNT ||
                     m->id == METRIC_EXP_GPU_HEALTH_STATUS || m->id == METRIC_EXP_P2P_STATUS;

        assert_int_equal(m->type != m->csv_type, wrong);
    }
}

static int read_facts(void **state)
{
    (void)state;
    return facts.count > 0 ? 0 : -1;
}

static int drop_facts(void **state)
{
    (void)state;
    facts_done(&facts);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(own_rows_are_whole),
        cmocka_unit_test(sources_are_whole),
        cmocka_unit_test(paces_fit_their_sources),
        cmocka_unit_test(fast_metrics_have_places),
        cmocka_unit_test(helps_differ),
        cmocka_unit_test(every_name_is_found),
        cmocka_unit_test(near_misses_are_not_found),
        cmocka_unit_test(factors_follow_the_units),
        cmocka_unit_test(newer_names_carry_their_scale),
        cmocka_unit_test(aliases_are_understood),
        cmocka_unit_test(no_alias_hides_a_name),
        cmocka_unit_test(every_fact_is_present),
        cmocka_unit_test(nothing_else_is_present),
        cmocka_unit_test(sources_agree_with_the_facts),
        cmocka_unit_test(scopes_agree_with_the_facts),
        cmocka_unit_test(values_agree_with_the_facts),
        cmocka_unit_test(noted_names_lead_back),
        cmocka_unit_test(numbered_rows_count_up),
        cmocka_unit_test(only_these_types_were_wrong),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s fields.csv\n", argv[0]);
        return 2;
    }
    facts_read(&facts, argv[1]);
    return cmocka_run_group_tests(tests, read_facts, drop_facts);
}
