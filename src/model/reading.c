/* SPDX-License-Identifier: Apache-2.0 */
/* Readings and the words of a node's view: tables and small rules, no I/O. Any thread. */

#include "model/reading.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"

void reading_init(Reading *reading, DeviceKind kind)
{
    memset(reading, 0, sizeof *reading);
    device_init(&reading->device, kind);
}

double reading_value(const Reading *reading, MetricId id)
{
    double value = NAN;

    sample_double(&reading->sample[id], &value);
    return value;
}

ReadingText reading_text_of(MetricId id)
{
    switch (id) {
    case METRIC_DRIVER_VERSION:
        return READING_DRIVER_VERSION;
    case METRIC_NVML_VERSION:
        return READING_NVML_VERSION;
    case METRIC_BRAND:
        return READING_BRAND;
    case METRIC_SERIAL:
        return READING_SERIAL;
    case METRIC_OEM_INFOROM_VER:
        return READING_OEM_INFOROM_VER;
    case METRIC_ECC_INFOROM_VER:
        return READING_ECC_INFOROM_VER;
    case METRIC_POWER_INFOROM_VER:
        return READING_POWER_INFOROM_VER;
    case METRIC_INFOROM_IMAGE_VER:
        return READING_INFOROM_IMAGE_VER;
    case METRIC_VBIOS_VERSION:
        return READING_VBIOS_VERSION;
    default:
        return READING_TEXT_END;
    }
}

/* Boards that are split into fewer slices than seven (NVIDIA's MIG user guide, "Supported GPUs"). */
static const struct {
    const char *board;
    double slices;
} small_boards[] = {{"A30", 4}, {"RTX PRO 6000", 4}, {"RTX PRO 5000", 2}, {"RTX PRO 4500", 2}};

double reading_mig_share(const Reading *gpu, const Reading *instance)
{
    const double slices = strtod(instance->profile, NULL);
    double all = 7;

    for (size_t i = 0; i < ARRAY_LEN(small_boards); i++)
        if (strstr(gpu->device.name, small_boards[i].board))
            all = small_boards[i].slices;
    return (slices > 0 ? slices : 1) / all;
}

void reading_lose(Reading *reading, uint64_t time_ns, Absence why)
{
    for (MetricId id = 0; id < METRIC_END; id++)
        sample_set_absent(&reading->sample[id], time_ns, why);
}

uint64_t reading_fresh_ns(MetricPace pace, uint64_t period_ns)
{
    if (pace == METRIC_PACE_ONCE || pace == METRIC_PACE_EVENTS)
        return UINT64_MAX;
    return period_ns < NS_PER_S ? 3 * NS_PER_S : 3 * period_ns;
}
