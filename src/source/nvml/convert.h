/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the driver's numbers to the catalogue's: units, types of field values, rates from counters, texts. Pure, any
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/sample.h"
#include "nvml_abi.h"

/* A number of the driver, or the reason why it is absent. */
typedef struct NvmlNumber {
    bool valid;
    bool is_double;
    Absence absence; /* where not valid */
    int64_t i;
    double d;
} NvmlNumber;

static inline NvmlNumber nvml_whole(int64_t value)
{
    return (NvmlNumber){.valid = true, .i = value};
}
static inline NvmlNumber nvml_lacking(Absence why)
{
    return (NvmlNumber){.absence = why};
}
/* As nvml_whole; what does not fit into an int64_t is no data. */
NvmlNumber nvml_whole_unsigned(uint64_t value);

/* The value of one entry of nvmlDeviceGetFieldValues, by its type; absent with the entry's own answer. */
NvmlNumber nvml_field_number(const nvmlFieldValue_t *entry);

/* Both, or the reason of the first that is absent. */
NvmlNumber nvml_add(NvmlNumber a, NvmlNumber b);

/* Sets a sample from the driver's number as a whole one, unchanged. */
void nvml_sample_set_whole(NvmlNumber number, uint64_t time_ns, Sample *sample);

/* Sets a metric's sample from the driver's number: power from mW to W, memory from bytes to MiB (truncated), a
 * temperature over 200 is absent, all else is unchanged. */
void nvml_sample_set(const Metric *metric, NvmlNumber number, uint64_t time_ns, Sample *sample);

/* Sets a GPM metric's sample: percent to a ratio of at most 1, MiB/s to bytes per second, counters unchanged. NaN and
 * numbers below 0 are no data. */
void nvml_sample_set_gpm(const Metric *metric, double value, uint64_t time_ns, Sample *sample);

/* A rate made of a counter in KiB. All zero: nothing read yet. */
typedef struct NvmlRate {
    bool seeded, known;
    uint64_t kib;
    int64_t stamp_us; /* the driver's time of the reading, 0: it has none */
    uint64_t read_ns; /* ours */
    int64_t value;
} NvmlRate;

/* From a counter in KiB to thousands of KiB per second since the reading before. No data at the first reading, after a
 * counter that decreased, and when the driver has not updated its counter for 10 s; when it has only not updated it
 * since the last reading, the last rate. */
NvmlNumber nvml_rate_next(NvmlRate *rate, NvmlNumber kib, int64_t stamp_us, uint64_t now_ns);

/* The brand in words, as nvidia-smi writes it; "" for a number that is not known. */
const char *nvml_brand_text(nvmlBrandType_t brand);

/* A MIG profile: what stands behind "MIG " at the end of the device's name, "" where nothing does. */
void nvml_profile_from_name(const char *name, char *profile, size_t cap);
/* The same made of the device's attributes. */
void nvml_profile_from_attributes(const nvmlDeviceAttributes_t *attributes, char *profile, size_t cap);

/* Fields (NVML_FI_*) and GPM metrics below these numbers are known to drivers of this major version. A driver between
 * two that were measured is taken for the newer. */
unsigned int nvml_known_fields(unsigned int driver_major);
unsigned int nvml_known_gpm(unsigned int driver_major);
