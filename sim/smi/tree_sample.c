/* SPDX-License-Identifier: Apache-2.0 */
/* What -q -d POWER, UTILIZATION and CLOCK add: the driver's buffers of samples, as highest, lowest and mean. */
#include "sim/smi/tree.h"

#include <stdlib.h>

#include "base/owner.h"

typedef struct SampleSpec {
    nvmlSamplingType_t type;
    const char *label, *unit;
    double scale;
    int digits;
} SampleSpec;

typedef struct SampleStats {
    unsigned int count;
    double seconds, max, min, sum;
} SampleStats;

static double number(nvmlValueType_t type, const nvmlValue_t *value)
{
    return gpu_field_number(&(nvmlFieldValue_t){.valueType = type, .value = *value});
}

static nvmlReturn_t read_stats(Gpu *gpu, nvmlSamplingType_t type, SampleStats *ret)
{
    nvmlValueType_t value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    unsigned int count = 0;
    nvmlReturn_t rc = NV(DeviceGetSamples, gpu->handle, type, 0, &value_type, &count, NULL);

    if (rc != NVML_SUCCESS || !count)
        return rc == NVML_SUCCESS ? NVML_ERROR_NO_DATA : rc;
    nvmlSample_t *samples = calloc(count, sizeof(*samples));
    rc = samples ? NV(DeviceGetSamples, gpu->handle, type, 0, &value_type, &count, samples) : NVML_ERROR_MEMORY;
    if (rc == NVML_SUCCESS && !count)
        rc = NVML_ERROR_NO_DATA;
    if (rc == NVML_SUCCESS) {
        double first = number(value_type, &samples[0].sampleValue);
        *ret = (SampleStats){.count = count, .max = first, .min = first};
        ret->seconds = (double)(samples[count - 1].timeStamp - samples[0].timeStamp) / 1e6;
        for (unsigned int i = 0; i < count; i++) {
            double one = number(value_type, &samples[i].sampleValue);
            ret->sum += one;
            ret->max = one > ret->max ? one : ret->max;
            ret->min = one < ret->min ? one : ret->min;
        }
    }
    free(samples);
    return rc;
}

static void write_line(Out *out, const char *label, nvmlReturn_t rc, double value, int digits, const char *unit)
{
    Value line;

    value_text(&line, "%.*f", digits, value);
    line.rc = rc;
    out_value(out, NULL, label, &line, unit);
}

static void write_samples(Out *out, const Subject *of, const SampleSpec *spec)
{
    SampleStats stats = {0};
    nvmlReturn_t rc = read_stats(of->gpu, spec->type, &stats);
    double mean = stats.count ? stats.sum / stats.count : 0;

    out_open(out, NULL, spec->label);
    write_line(out, "Duration", rc, stats.seconds, 2, " sec");
    write_line(out, "Number of Samples", rc, stats.count, 0, NULL);
    write_line(out, "Max", rc, stats.max * spec->scale, spec->digits, spec->unit);
    write_line(out, "Min", rc, stats.min * spec->scale, spec->digits, spec->unit);
    write_line(out, "Avg", rc, mean * spec->scale, spec->digits, spec->unit);
    out_close(out, NULL, spec->label);
}

static void write_all(Out *out, const Subject *of, const SampleSpec *specs, size_t count)
{
    for (size_t i = 0; !out->xml && i < count; i++)
        write_samples(out, of, &specs[i]);
}

void tree_power_samples(Out *out, const Subject *of)
{
    static const SampleSpec specs[] = {{NVML_TOTAL_POWER_SAMPLES, "Power Samples", " W", 0.001, 2}};

    write_all(out, of, specs, ARRAY_LEN(specs));
}

void tree_utilization_samples(Out *out, const Subject *of)
{
    static const SampleSpec specs[] = {{NVML_GPU_UTILIZATION_SAMPLES, "GPU Utilization Samples", " %", 1, 0},
                                       {NVML_MEMORY_UTILIZATION_SAMPLES, "Memory Utilization Samples", " %", 1, 0},
                                       {NVML_ENC_UTILIZATION_SAMPLES, "ENC Utilization Samples", " %", 1, 0},
                                       {NVML_DEC_UTILIZATION_SAMPLES, "DEC Utilization Samples", " %", 1, 0}};

    write_all(out, of, specs, ARRAY_LEN(specs));
}

void tree_clock_samples(Out *out, const Subject *of)
{
    static const SampleSpec specs[] = {{NVML_PROCESSOR_CLK_SAMPLES, "SM Clock Samples", " MHz", 1, 0},
                                       {NVML_MEMORY_CLK_SAMPLES, "Memory Clock Samples", " MHz", 1, 0}};

    write_all(out, of, specs, ARRAY_LEN(specs));
}
