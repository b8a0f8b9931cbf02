/* SPDX-License-Identifier: Apache-2.0 */
#include "service/top/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/cleanup.h"

double value_raw(const Reading *reading, MetricId id)
{
    double value = NAN;

    sample_double(&reading->sample[id], &value);
    return value;
}

double value_base(const Reading *reading, MetricId id)
{
    return value_raw(reading, id) * unit_factor(metric_get(id)->unit);
}

char *value_percent(char out[VALUE_CAP], double share)
{
    if (isfinite(share))
        snprintf(out, VALUE_CAP, "%.0f%%", fmin(fmax(share, 0), 99.99) * 100);
    else
        snprintf(out, VALUE_CAP, "-");
    return out;
}

/* "value/limit unit" without a fraction. */
static char *format_pair(char out[VALUE_CAP], double value, double limit, const char *unit)
{
    if (!isfinite(value))
        snprintf(out, VALUE_CAP, "-");
    else if (!isfinite(limit))
        snprintf(out, VALUE_CAP, "%.0f %s", value, unit);
    else
        snprintf(out, VALUE_CAP, "%.0f/%.0f %s", value, limit, unit);
    return out;
}

char *value_memory(char out[VALUE_CAP], const Reading *reading)
{
    const double used = value_raw(reading, METRIC_FB_USED) / 1024, total = value_raw(reading, METRIC_FB_TOTAL) / 1024;

    if (isfinite(used) && (used < 9.95) && (!isfinite(total) || total < 99.5)) {
        if (isfinite(total))
            snprintf(out, VALUE_CAP, "%.1f/%.0f GiB", used, total);
        else
            snprintf(out, VALUE_CAP, "%.1f GiB", used);
        return out;
    }
    return format_pair(out, used, total, "GiB");
}

char *value_power(char out[VALUE_CAP], const Reading *reading)
{
    return format_pair(out, value_raw(reading, METRIC_POWER_USAGE), value_raw(reading, METRIC_ENFORCED_POWER_LIMIT),
                       "W");
}

char *value_temp(char out[VALUE_CAP], const Reading *reading)
{
    return format_pair(out, value_raw(reading, METRIC_GPU_TEMP), value_raw(reading, METRIC_SLOWDOWN_TEMP), "C");
}

char *value_gbs(char out[VALUE_CAP], double bytes_per_second)
{
    const double gbs = bytes_per_second / 1e9;

    if (!isfinite(gbs))
        snprintf(out, VALUE_CAP, "-");
    else
        snprintf(out, VALUE_CAP, "%.*f", gbs < 9.95 ? 1 : 0, fmin(fmax(gbs, 0), 1e6));
    return out;
}

double value_memory_share(const Reading *reading)
{
    const double total = value_raw(reading, METRIC_FB_TOTAL);

    return total > 0 ? value_raw(reading, METRIC_FB_USED) / total : NAN;
}

double value_power_share(const Reading *reading)
{
    const double limit = value_raw(reading, METRIC_ENFORCED_POWER_LIMIT);

    return limit > 0 ? value_raw(reading, METRIC_POWER_USAGE) / limit : NAN;
}

double value_temp_share(const Reading *reading)
{
    const double limit = value_raw(reading, METRIC_SLOWDOWN_TEMP);

    return limit > 0 ? value_raw(reading, METRIC_GPU_TEMP) / limit : NAN;
}

double value_margin(const Reading *reading)
{
    const double told = value_raw(reading, METRIC_GPU_TEMP_LIMIT);

    return isfinite(told) ? told : value_raw(reading, METRIC_SLOWDOWN_TEMP) - value_raw(reading, METRIC_GPU_TEMP);
}

double value_busy(const Reading *reading)
{
    return value_base(reading, METRIC_PROF_SM_ACTIVE);
}

double value_util(const Reading *reading)
{
    return value_base(reading, METRIC_GPU_UTIL);
}

/* The first of two that is known. */
static double either_of(const Reading *reading, MetricId first, MetricId second)
{
    const double value = value_base(reading, first);

    return isfinite(value) ? value : value_base(reading, second);
}

double value_pcie(const Reading *reading, bool sent)
{
    return sent ? either_of(reading, METRIC_PROF_PCIE_TX_BYTES, METRIC_PCIE_TX_THROUGHPUT)
                : either_of(reading, METRIC_PROF_PCIE_RX_BYTES, METRIC_PCIE_RX_THROUGHPUT);
}

static double value_nvlink(const Reading *reading, bool sent)
{
    return sent ? either_of(reading, METRIC_PROF_NVLINK_TX_BYTES, METRIC_NVLINK_TX_BANDWIDTH_TOTAL)
                : either_of(reading, METRIC_PROF_NVLINK_RX_BYTES, METRIC_NVLINK_RX_BANDWIDTH_TOTAL);
}

double value_nvlink_all(const Reading *reading)
{
    const double both = value_nvlink(reading, true) + value_nvlink(reading, false);

    return isfinite(both) ? both : value_base(reading, METRIC_NVLINK_BANDWIDTH_TOTAL);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Bits of nvmlClocksEventReasons (nvml.h), the worst first. */
static const struct {
    unsigned bit;
    Ink ink;
    const char *brief, *word; /* brief: of at most 11 columns */
} reasons[] = {
    {0x40, INK_BAD, "hot (hw)", "heat (hardware)"},
    {0x80, INK_BAD, "power brake", "power brake"},
    {0x08, INK_BAD, "hw slowdown", "hardware slowdown"},
    {0x20, INK_BAD, "hot", "heat (driver)"},
    {0x04, INK_PLAIN, "power limit", "power limit"},
    {0x10, INK_PLAIN, "sync boost", "sync boost"},
    {0x02, INK_PLAIN, "clocks set", "clocks set by hand"},
    {0x100, INK_DIM, "display", "display clocks"},
    {0x01, INK_DIM, "idle", "idle"},
};

const char *value_throttle(const Reading *reading, Ink *ret_ink)
{
    const double bits = value_raw(reading, METRIC_CLOCKS_EVENT_REASONS);

    *ret_ink = INK_DIM;
    for (size_t i = 0; isfinite(bits) && i < ARRAY_LEN(reasons); i++)
        if ((unsigned)(int64_t)bits & reasons[i].bit) {
            *ret_ink = reasons[i].ink;
            return reasons[i].brief;
        }
    return "";
}

/* All reasons, joined by commas; "none"; "-". */
static char *value_reasons(char out[VALUE_CAP], double bits)
{
    size_t len = 0;

    snprintf(out, VALUE_CAP, isfinite(bits) ? "none" : "-");
    for (size_t i = 0; isfinite(bits) && i < ARRAY_LEN(reasons) && len < VALUE_CAP; i++)
        if ((unsigned)(int64_t)bits & reasons[i].bit)
            len += (size_t)snprintf(out + len, VALUE_CAP - len, "%s%s", len ? ", " : "", reasons[i].word);
    return out;
}

Ink value_temp_ink(const Reading *reading)
{
    const double margin = value_margin(reading);
    const double bits = value_raw(reading, METRIC_CLOCKS_EVENT_REASONS);

    if (margin <= 0 || (isfinite(bits) && ((unsigned)(int64_t)bits & 0x60)))
        return INK_BAD;
    return margin <= 5 ? INK_WARN : INK_PLAIN;
}

typedef struct EccWord {
    MetricId id;
    Ink ink;
    const char *text; /* %.0f: its value */
} EccWord;

/* The worst first. */
static const EccWord ecc_words[] = {
    {METRIC_ROW_REMAP_FAILURE, INK_BAD, "remap failed"},
    {METRIC_UNREPAIRABLE_MEMORY, INK_BAD, "unrepairable"},
    {METRIC_SRAM_THRESHOLD, INK_BAD, "SRAM worn"},
    {METRIC_ECC_DBE_VOL_TOTAL, INK_BAD, "uncorrected"},
    {METRIC_ROW_REMAP_PENDING, INK_WARN, "remap pending"},
    {METRIC_RETIRED_PENDING, INK_WARN, "retire pending"},
    {METRIC_CHANNEL_REPAIR_PENDING, INK_WARN, "repair pending"},
    {METRIC_ECC_SBE_VOL_TOTAL, INK_DIM, "corrected"},
};

char *value_ecc(char out[VALUE_CAP], const Reading *reading, Ink *ret_ink)
{
    bool known = false;

    *ret_ink = INK_DIM;
    for (size_t i = 0; i < ARRAY_LEN(ecc_words); i++) {
        const double value = value_raw(reading, ecc_words[i].id);

        known |= isfinite(value);
        if (!(value > 0))
            continue;
        *ret_ink = ecc_words[i].ink;
        if (metric_get(ecc_words[i].id)->unit == UNIT_COUNT)
            snprintf(out, VALUE_CAP, "%.0f %s", value, ecc_words[i].text);
        else
            snprintf(out, VALUE_CAP, "%s", ecc_words[i].text);
        return out;
    }
    if (value_raw(reading, METRIC_ECC_CURRENT) == 0)
        snprintf(out, VALUE_CAP, "off");
    else
        snprintf(out, VALUE_CAP, known ? "ok" : "-");
    return out;
}

const char *value_model(const Device *device)
{
    static const char *const fronts[] = {"NVIDIA ", "Tesla "};
    const char *name = device->name;

    for (size_t i = 0; i < ARRAY_LEN(fronts); i++)
        if (strncmp(name, fronts[i], strlen(fronts[i])) == 0)
            name += strlen(fronts[i]);
    return name;
}

/* --- with their units --------------------------------------------------------------------------------------------- */

static char *format_other(char out[VALUE_CAP], const Metric *metric, double value)
{
    if (metric->value == METRIC_INT64)
        snprintf(out, VALUE_CAP, "%.0f", value);
    else
        snprintf(out, VALUE_CAP, "%.4g", value);
    if (unit_suffix(metric->unit)[0])
        snprintf(out + strlen(out), VALUE_CAP - strlen(out), " %s", unit_symbol(metric->unit));
    return out;
}

char *value_text(char out[VALUE_CAP], MetricId id, const Sample *sample)
{
    const Metric *metric = metric_get(id);
    const double factor = unit_factor(metric->unit);
    double value;

    if (!sample_double(sample, &value)) {
        snprintf(out, VALUE_CAP, "-");
        return out;
    }
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
        return human_ns(out, value, false);
    case UNIT_MILLIJOULE:
        snprintf(out, VALUE_CAP, "%.2f kWh", value / 3.6e9);
        return out;
    case UNIT_WATT:
        snprintf(out, VALUE_CAP, "%.1f W", value);
        return out;
    case UNIT_BOOL:
        snprintf(out, VALUE_CAP, value != 0 ? "yes" : "no");
        return out;
    case UNIT_PSTATE:
        snprintf(out, VALUE_CAP, "P%.0f", value);
        return out;
    case UNIT_LANES:
        snprintf(out, VALUE_CAP, "x%.0f", value);
        return out;
    case UNIT_BITMASK:
        if (id == METRIC_CLOCKS_EVENT_REASONS)
            return value_reasons(out, value);
        snprintf(out, VALUE_CAP, "0x%" PRIx64, (uint64_t)value);
        return out;
    case UNIT_COUNT:
    case UNIT_ROWS:
    case UNIT_PAGES:
    case UNIT_BANKS:
        return human_count(out, (int64_t)value);
    default:
        return format_other(out, metric, value);
    }
}
