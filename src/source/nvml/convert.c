/* SPDX-License-Identifier: Apache-2.0 */
/* Units, types, rates and texts. */

#include "source/nvml/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/cleanup.h"
#include "source/nvml/library.h"

enum { MIB = 1048576, CELSIUS_MAX = 200, KIB_PER_MB = 1000, US_PER_S = 1000000 };
#define RATE_HOLD_NS (10 * NS_PER_S)

NvmlNumber nvml_whole_unsigned(uint64_t value)
{
    return value > INT64_MAX ? nvml_lacking(ABSENCE_NO_DATA) : nvml_whole((int64_t)value);
}

NvmlNumber nvml_field_number(const nvmlFieldValue_t *entry)
{
    if (entry->nvmlReturn != NVML_SUCCESS)
        return nvml_lacking(nvml_answer_absence(entry->nvmlReturn));
    switch ((int)entry->valueType) {
    case NVML_VALUE_TYPE_DOUBLE:
        return (NvmlNumber){.valid = true, .is_double = true, .d = entry->value.dVal};
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        return nvml_whole(entry->value.uiVal);
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
        return nvml_whole_unsigned(entry->value.ulVal);
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        return nvml_whole_unsigned(entry->value.ullVal);
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        return nvml_whole(entry->value.sllVal);
    case NVML_VALUE_TYPE_SIGNED_INT:
        return nvml_whole(entry->value.siVal);
    case NVML_VALUE_TYPE_UNSIGNED_SHORT:
        return nvml_whole(entry->value.usVal);
    default:
        return nvml_lacking(ABSENCE_NO_DATA);
    }
}

static double as_double(NvmlNumber number)
{
    return number.is_double ? number.d : (double)number.i;
}

/* Toward zero; what does not fit is no data. */
static NvmlNumber whole_of(double value)
{
    if (isnan(value) || value >= 9223372036854775808.0 || value < -9223372036854775808.0)
        return nvml_lacking(ABSENCE_NO_DATA);
    return nvml_whole((int64_t)value);
}

NvmlNumber nvml_add(NvmlNumber a, NvmlNumber b)
{
    NvmlNumber sum = {.valid = true};

    if (!a.valid)
        return a;
    if (!b.valid)
        return b;
    if (a.is_double || b.is_double)
        return (NvmlNumber){.valid = true, .is_double = true, .d = as_double(a) + as_double(b)};
    if (__builtin_add_overflow(a.i, b.i, &sum.i))
        return nvml_lacking(ABSENCE_NO_DATA);
    return sum;
}

void nvml_sample_set_whole(NvmlNumber number, uint64_t time_ns, Sample *sample)
{
    const NvmlNumber whole = number.valid && number.is_double ? whole_of(number.d) : number;

    if (whole.valid)
        sample_set_int64(sample, time_ns, whole.i);
    else
        sample_set_absent(sample, time_ns, whole.absence);
}

void nvml_sample_set(const Metric *metric, NvmlNumber number, uint64_t time_ns, Sample *sample)
{
    if (metric->unit == UNIT_MEBIBYTE)
        number.i /= MIB;
    if (metric->unit == UNIT_CELSIUS && number.valid && as_double(number) > CELSIUS_MAX)
        number = nvml_lacking(ABSENCE_NO_DATA);
    if (number.valid && metric->unit == UNIT_WATT)
        sample_set_double(sample, time_ns, as_double(number) / 1000);
    else if (number.valid && metric->value == METRIC_DOUBLE)
        sample_set_double(sample, time_ns, as_double(number));
    else
        nvml_sample_set_whole(number, time_ns, sample);
}

void nvml_sample_set_gpm(const Metric *metric, double value, uint64_t time_ns, Sample *sample)
{
    if (isnan(value) || value < 0)
        sample_set_absent(sample, time_ns, ABSENCE_NO_DATA);
    else if (metric->unit == UNIT_RATIO)
        sample_set_double(sample, time_ns, value > 100 ? 1 : value / 100);
    else
        nvml_sample_set_whole(whole_of(metric->unit == UNIT_BYTES_PER_SECOND ? value * MIB : value), time_ns, sample);
}

/* ---- rates ---- */

static NvmlNumber seed_rate(NvmlRate *rate, uint64_t kib, int64_t stamp_us, uint64_t now_ns)
{
    *rate = (NvmlRate){.seeded = true, .kib = kib, .stamp_us = stamp_us, .read_ns = now_ns};
    return nvml_lacking(ABSENCE_NO_DATA);
}

NvmlNumber nvml_rate_next(NvmlRate *rate, NvmlNumber kib, int64_t stamp_us, uint64_t now_ns)
{
    const uint64_t now_kib = (uint64_t)kib.i;
    double seconds, value;

    if (!kib.valid || kib.is_double || kib.i < 0) {
        *rate = (NvmlRate){0};
        return kib.valid ? nvml_lacking(ABSENCE_NO_DATA) : kib;
    }
    if (!rate->seeded || now_kib < rate->kib || (stamp_us > 0) != (rate->stamp_us > 0) || stamp_us < rate->stamp_us)
        return seed_rate(rate, now_kib, stamp_us, now_ns);
    if (now_ns <= rate->read_ns || (stamp_us > 0 && stamp_us == rate->stamp_us)) {
        if (!rate->known || now_ns - rate->read_ns > RATE_HOLD_NS)
            return nvml_lacking(ABSENCE_NO_DATA);
        return nvml_whole(rate->value);
    }
    seconds = stamp_us > 0 ? (double)(stamp_us - rate->stamp_us) / US_PER_S
                           : (double)(now_ns - rate->read_ns) / (double)NS_PER_S;
    value = (double)(now_kib - rate->kib) / seconds / KIB_PER_MB;
    seed_rate(rate, now_kib, stamp_us, now_ns);
    rate->known = value < 9e18;
    rate->value = rate->known ? (int64_t)value : 0;
    return rate->known ? nvml_whole(rate->value) : nvml_lacking(ABSENCE_NO_DATA);
}

/* ---- texts ---- */

const char *nvml_brand_text(nvmlBrandType_t brand)
{
    static const char *const texts[] = {
        [NVML_BRAND_UNKNOWN] = "Unknown",
        [NVML_BRAND_QUADRO] = "Quadro",
        [NVML_BRAND_TESLA] = "Tesla",
        [NVML_BRAND_NVS] = "NVS",
        [NVML_BRAND_GRID] = "GRID",
        [NVML_BRAND_GEFORCE] = "GeForce",
        [NVML_BRAND_TITAN] = "Titan",
        [NVML_BRAND_NVIDIA_VAPPS] = "NVIDIA Virtual Applications",
        [NVML_BRAND_NVIDIA_VPC] = "NVIDIA Virtual PC",
        [NVML_BRAND_NVIDIA_VCS] = "NVIDIA Virtual Compute Server",
        [NVML_BRAND_NVIDIA_VWS] = "NVIDIA RTX Virtual Workstation",
        [NVML_BRAND_NVIDIA_CLOUD_GAMING] = "NVIDIA Cloud Gaming",
        [NVML_BRAND_QUADRO_RTX] = "Quadro RTX",
        [NVML_BRAND_NVIDIA_RTX] = "NVIDIA RTX",
        [NVML_BRAND_NVIDIA] = "NVIDIA",
        [NVML_BRAND_GEFORCE_RTX] = "GeForce RTX",
        [NVML_BRAND_TITAN_RTX] = "Titan RTX",
    };

    return (size_t)brand < ARRAY_LEN(texts) ? texts[brand] : "";
}

void nvml_profile_from_name(const char *name, char *profile, size_t cap)
{
    const char *found = NULL;

    for (const char *p = strstr(name, "MIG "); p; p = strstr(p + 1, "MIG "))
        found = p + strlen("MIG ");
    snprintf(profile, cap, "%s", found ? found : "");
}

void nvml_profile_from_attributes(const nvmlDeviceAttributes_t *attributes, char *profile, size_t cap)
{
    const unsigned long long gib = (attributes->memorySizeMB + 1023) / 1024;
    const unsigned int gpu = attributes->gpuInstanceSliceCount, compute = attributes->computeInstanceSliceCount;

    if (compute < gpu)
        snprintf(profile, cap, "%uc.%ug.%llugb", compute, gpu, gib);
    else
        snprintf(profile, cap, "%ug.%llugb", gpu, gib);
}

/* ---- what drivers know ---- */

typedef struct Known {
    unsigned int driver_major, count;
} Known;

/* NVML_FI_MAX of the headers that came with these drivers. */
static const Known known_fields[] = {{450, 146}, {520, 167}, {550, 200}, {570, 269}, {590, 289}, {610, 303}};
/* NVML_GPM_METRIC_MAX of these headers, up to the first with all metrics of the catalogue. */
static const Known known_gpm[] = {{570, 98}, {575, 210}};

static unsigned int count_known(const Known *rows, size_t count, unsigned int driver_major)
{
    for (size_t i = 0; driver_major > 0 && i < count; i++)
        if (driver_major <= rows[i].driver_major)
            return rows[i].count;
    return UINT16_MAX;
}

unsigned int nvml_known_fields(unsigned int driver_major)
{
    return count_known(known_fields, ARRAY_LEN(known_fields), driver_major);
}

unsigned int nvml_known_gpm(unsigned int driver_major)
{
    return count_known(known_gpm, ARRAY_LEN(known_gpm), driver_major);
}
