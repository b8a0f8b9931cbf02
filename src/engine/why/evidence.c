/* SPDX-License-Identifier: Apache-2.0 */
/* What rules have in common: their numbers, their texts, and means over the window. */
#include "engine/why/rule.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void why_cite_number(WhyVerdict *v, const char *counter, const char *label, WhyUnit unit, double value)
{
    if (isfinite(value) && v->evidence_count < WHY_EVIDENCE_MAX)
        v->evidence[v->evidence_count++] =
            (WhyEvidence){.counter = counter, .label = label, .unit = unit, .value = value};
}

void why_cite_named(WhyVerdict *v, const char *name, const char *counter, const char *label, WhyUnit unit, double value)
{
    const uint32_t count = v->evidence_count;
    uint8_t at = 0;

    while (at < WHY_NAMES_MAX && v->names[at][0] && strncmp(v->names[at], name, sizeof v->names[at] - 1) != 0)
        at++;
    why_cite_number(v, counter, label, unit, value);
    if (v->evidence_count == count || at == WHY_NAMES_MAX)
        return;
    snprintf(v->names[at], sizeof v->names[at], "%s", name);
    v->evidence[count].name = (uint8_t)(at + 1);
}

static const struct {
    MetricId metric;
    const char *label;
    WhyUnit unit;
} series_names[WHY_SERIES_END] = {
    [WHY_OF_SM] = {METRIC_PROF_SM_ACTIVE, "SM active", WHY_UNIT_RATIO},
    [WHY_OF_UTIL] = {METRIC_GPU_UTIL, "utilisation", WHY_UNIT_RATIO},
    [WHY_OF_TENSOR] = {METRIC_PROF_PIPE_TENSOR_ACTIVE, "tensor cores active", WHY_UNIT_RATIO},
    [WHY_OF_FP32] = {METRIC_PROF_PIPE_FP32_ACTIVE, "FP32 pipe active", WHY_UNIT_RATIO},
    [WHY_OF_FP64] = {METRIC_PROF_PIPE_FP64_ACTIVE, "FP64 pipe active", WHY_UNIT_RATIO},
    [WHY_OF_OCCUPANCY] = {METRIC_PROF_SM_OCCUPANCY, "occupancy", WHY_UNIT_RATIO},
    [WHY_OF_DRAM] = {METRIC_PROF_DRAM_ACTIVE, "memory interface active", WHY_UNIT_RATIO},
    [WHY_OF_COPY] = {METRIC_MEM_COPY_UTIL, "memory controller busy", WHY_UNIT_RATIO},
    [WHY_OF_POWER] = {METRIC_POWER_USAGE, "power (of its limit)", WHY_UNIT_RATIO},
    [WHY_OF_CLOCK] = {METRIC_SM_CLOCK, "SM clock, of the highest", WHY_UNIT_RATIO},
    [WHY_OF_REASONS] = {METRIC_CLOCKS_EVENT_REASONS, "clock event reasons", WHY_UNIT_COUNT},
    [WHY_OF_LINK] = {METRIC_NVLINK_TX_BYTES_COUNT, "NVLink, both directions", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_TX] = {METRIC_PROF_PCIE_TX_BYTES, "PCIe sent", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_RX] = {METRIC_PROF_PCIE_RX_BYTES, "PCIe received", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_GEN] = {METRIC_PCIE_LINK_GEN, "PCIe generation", WHY_UNIT_COUNT},
    [WHY_OF_VIDEO] = {METRIC_ENC_UTIL, "video engines busy", WHY_UNIT_RATIO},
};

void why_cite_means(const WhyCase *c, WhyVerdict *v, const WhySeries *list)
{
    for (; *list != WHY_SERIES_END; list++)
        if (*list == WHY_OF_UTIL && c->in->instance)
            why_cite_number(v, metric_get(METRIC_PROF_GR_ENGINE_ACTIVE)->name, "engine active", WHY_UNIT_RATIO,
                            c->mean[*list]);
        else
            why_cite_number(v, metric_get(series_names[*list].metric)->name, series_names[*list].label,
                            series_names[*list].unit, c->mean[*list]);
}

void why_write_text(WhyVerdict *v, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}

void why_add_between(WhyVerdict *v, WhyCause cause)
{
    if (v->between_count < WHY_BETWEEN_MAX)
        v->between[v->between_count++] = cause;
}

int why_percent(double share)
{
    return (int)lround(100 * share);
}

WhyConfidence why_choose_confidence(bool sure)
{
    return sure ? WHY_HIGH : WHY_MEDIUM;
}

double why_share_of_seconds(const WhyCase *c, bool (*fits)(const WhyInput *in, int i), double *ret_count)
{
    double known = 0, count = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++) {
        const bool has = isfinite(c->in->rows[WHY_OF_UTIL][i]) || isfinite(c->in->rows[WHY_OF_SM][i]);

        known += has;
        count += has && fits(c->in, i);
    }
    if (ret_count)
        *ret_count = count;
    return known > 0 ? count / known : 0;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double why_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

bool why_is_pause(double sm, double util)
{
    return !(sm > ACTIVITY_IDLE_SM) && !(util > ACTIVITY_IDLE_UTIL);
}

bool why_is_stall(double seconds)
{
    return seconds >= limit_PAUSE_S;
}

bool why_second_is_pause(const WhyInput *in, int i)
{
    return why_is_pause(in->rows[WHY_OF_SM][i], in->rows[WHY_OF_UTIL][i]);
}
