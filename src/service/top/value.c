/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/cleanup.h"

double value_base(const Reading *reading, MetricId id)
{
    return reading_value(reading, id) * metric_units[metric_get(id)->unit].factor;
}

char *value_percent(char out[VALUE_CAP], double share)
{
    if (isfinite(share))
        snprintf(out, VALUE_CAP, "%.0f%%", fmin(fmax(share, 0), 99.99) * 100);
    else
        snprintf(out, VALUE_CAP, "-");
    return out;
}

bool value_is_supported(const Reading *reading, MetricId id)
{
    return reading->sample[id].valid || reading->sample[id].absence != ABSENCE_NOT_SUPPORTED;
}

/* "value/limit unit" without a fraction. */
static char *format_pair(char out[VALUE_CAP], double value, double limit, const char *unit)
{
    if (!isfinite(value))
        snprintf(out, VALUE_CAP, "-");
    else if (!isfinite(limit))
        snprintf(out, VALUE_CAP, "%.0f%s", value, unit);
    else
        snprintf(out, VALUE_CAP, "%.0f/%.0f%s", value, limit, unit);
    return out;
}

char *value_memory(char out[VALUE_CAP], const Reading *reading)
{
    const double used = reading_value(reading, METRIC_FB_USED) / 1024,
                 total = reading_value(reading, METRIC_FB_TOTAL) / 1024;

    if (!(used < 9.95) || total >= 99.5)
        return format_pair(out, used, total, " GiB");
    if (isfinite(total))
        snprintf(out, VALUE_CAP, "%.1f/%.0f GiB", used, total);
    else
        snprintf(out, VALUE_CAP, "%.1f GiB", used);
    return out;
}

char *value_power(char out[VALUE_CAP], const Reading *reading)
{
    return format_pair(out, reading_value(reading, METRIC_POWER_USAGE),
                       reading_value(reading, METRIC_ENFORCED_POWER_LIMIT), " W");
}

char *value_temp(char out[VALUE_CAP], const Reading *reading)
{
    return format_pair(out, reading_value(reading, METRIC_GPU_TEMP), reading_value(reading, METRIC_SLOWDOWN_TEMP),
                       "°C");
}

char *value_clock(char out[VALUE_CAP], const Reading *reading)
{
    const double mhz = reading_value(reading, METRIC_SM_CLOCK);

    snprintf(out, VALUE_CAP, isfinite(mhz) ? "%.0f" : "-", mhz);
    return out;
}

static char *format_gbs(char out[VALUE_CAP], double bytes_per_second)
{
    const double gbs = bytes_per_second / 1e9;

    if (!isfinite(gbs))
        snprintf(out, VALUE_CAP, "-");
    else
        snprintf(out, VALUE_CAP, "%.*f", gbs < 9.95 ? 1 : 0, fmin(fmax(gbs, 0), 1e6));
    return out;
}

/* The first of two that is known. */
static double either_of(const Reading *reading, MetricId first, MetricId second)
{
    const double value = value_base(reading, first);

    return isfinite(value) ? value : value_base(reading, second);
}

char *value_pcie(char out[VALUE_CAP], const Reading *reading)
{
    const double received = either_of(reading, METRIC_PROF_PCIE_RX_BYTES, METRIC_PCIE_RX_THROUGHPUT);
    const double sent = either_of(reading, METRIC_PROF_PCIE_TX_BYTES, METRIC_PCIE_TX_THROUGHPUT);
    char in[VALUE_CAP], other[VALUE_CAP];

    snprintf(out, VALUE_CAP, isfinite(received) || isfinite(sent) ? "%.30s/%.30s" : "-", format_gbs(in, received),
             format_gbs(other, sent));
    return out;
}

char *value_nvlink(char out[VALUE_CAP], const Reading *reading)
{
    const double both = either_of(reading, METRIC_PROF_NVLINK_TX_BYTES, METRIC_NVLINK_TX_BANDWIDTH_TOTAL) +
                        either_of(reading, METRIC_PROF_NVLINK_RX_BYTES, METRIC_NVLINK_RX_BANDWIDTH_TOTAL);

    return format_gbs(out, isfinite(both) ? both : value_base(reading, METRIC_NVLINK_BANDWIDTH_TOTAL));
}

double value_margin(const Reading *reading)
{
    const double told = reading_value(reading, METRIC_GPU_TEMP_LIMIT);

    return isfinite(told) ? told
                          : reading_value(reading, METRIC_SLOWDOWN_TEMP) - reading_value(reading, METRIC_GPU_TEMP);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* All reasons, joined by commas; "none". */
static char *format_reasons(char out[VALUE_CAP], double value)
{
    const unsigned bits = (unsigned)(int64_t)value;
    size_t len = 0;

    snprintf(out, VALUE_CAP, "none");
    for (size_t i = 0; i < throttle_reason_count && len < VALUE_CAP; i++)
        if (bits & throttle_reasons[i].bit)
            len += (size_t)snprintf(out + len, VALUE_CAP - len, "%s%s", len ? ", " : "", throttle_reasons[i].word);
    return out;
}

/* In the order of the remedy that they ask for; counts with their value. */
static const struct {
    MetricId id;
    const char *text;
} ecc_words[] = {
    {METRIC_ROW_REMAP_FAILURE, "remap failed"},
    {METRIC_UNREPAIRABLE_MEMORY, "unrepairable"},
    {METRIC_SRAM_THRESHOLD, "SRAM worn"},
    {METRIC_ECC_DBE_VOL_TOTAL, "uncorrected"},
    {METRIC_ROW_REMAP_PENDING, "remap pending"},
    {METRIC_RETIRED_PENDING, "retire pending"},
    {METRIC_CHANNEL_REPAIR_PENDING, "repair pending"},
    {METRIC_ECC_SBE_VOL_TOTAL, "corrected"},
};

char *value_ecc(char out[VALUE_CAP], const Reading *reading)
{
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(ecc_words); i++) {
        const double value = reading_value(reading, ecc_words[i].id);

        known |= isfinite(value);
        if (!(value > 0))
            continue;
        if (metric_get(ecc_words[i].id)->unit == UNIT_COUNT)
            snprintf(out, VALUE_CAP, "%.0f %s", value, ecc_words[i].text);
        else
            snprintf(out, VALUE_CAP, "%s", ecc_words[i].text);
        return out;
    }
    if (reading_value(reading, METRIC_ECC_CURRENT) == 0)
        snprintf(out, VALUE_CAP, "off");
    else
        snprintf(out, VALUE_CAP, known ? "ok" : "-");
    return out;
}

/* --- with their units --------------------------------------------------------------------------------------------- */

char *value_text(char out[VALUE_CAP], MetricId id, const Sample *sample)
{
    const Metric *metric = metric_get(id);
    const double factor = metric_units[metric->unit].factor;
    double value;

    if (!sample_double(sample, &value))
        return strcpy(out, "-");
    switch (metric->unit) {
    case UNIT_MEBIBYTE:
    case UNIT_BYTE:
        return human_bytes(out, value * factor);
    case UNIT_BYTES_PER_SECOND:
    case UNIT_KB_PER_SECOND:
    case UNIT_NVLINK_MB_PER_SECOND:
        return human_rate(out, value * factor / 1e9);
    case UNIT_PERCENT:
    case UNIT_RATIO:
        return human_percent(out, value * factor * 100);
    case UNIT_NANOSECOND:
        return human_ns(out, value);
    case UNIT_COUNT:
    case UNIT_ROWS:
    case UNIT_PAGES:
    case UNIT_BANKS:
        return human_count(out, (int64_t)value);
    case UNIT_BOOL:
        return strcpy(out, value != 0 ? "yes" : "no");
    case UNIT_BITMASK:
        if (id == METRIC_CLOCKS_EVENT_REASONS)
            return format_reasons(out, value);
        snprintf(out, VALUE_CAP, "0x%" PRIx64, (uint64_t)value);
        break;
    case UNIT_MILLIJOULE:
        snprintf(out, VALUE_CAP, "%.2f kWh", value / 3.6e9);
        break;
    case UNIT_WATT:
        snprintf(out, VALUE_CAP, "%.1f W", value);
        break;
    case UNIT_CELSIUS:
        snprintf(out, VALUE_CAP, "%.0f °C", value);
        break;
    case UNIT_PSTATE:
        snprintf(out, VALUE_CAP, "P%.0f", value);
        break;
    case UNIT_LANES:
        snprintf(out, VALUE_CAP, "x%.0f", value);
        break;
    default:
        snprintf(out, VALUE_CAP, metric->value == METRIC_INT64 ? "%.0f" : "%.4g", value);
        if (metric_units[metric->unit].suffix[0])
            snprintf(out + strlen(out), VALUE_CAP - strlen(out), " %s", metric_units[metric->unit].symbol);
    }
    return out;
}
