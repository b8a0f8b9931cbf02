/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that is known of one GPU or MIG device: who it is, its texts and the latest sample of every metric. Zeroed memory
 * (after device_init) is a valid Reading in which everything is absent. No pointers, so it may lie in shared memory.
 * One writer.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/device.h"
#include "model/metric.h"
#include "model/sample.h"

/* The longest text of NVML that becomes a label: versions are 80 bytes (nvml.h). */
enum { READING_TEXT_CAP = 80, READING_PROFILE_CAP = 32, READING_FAST_CAP = 16 };

/* Metrics of type LABEL, each a text of the device. */
typedef enum ReadingText {
    READING_DRIVER_VERSION,
    READING_NVML_VERSION,
    READING_BRAND,
    READING_SERIAL,
    READING_OEM_INFOROM_VER,
    READING_ECC_INFOROM_VER,
    READING_POWER_INFOROM_VER,
    READING_INFOROM_IMAGE_VER,
    READING_VBIOS_VERSION,
    READING_TEXT_END,
} ReadingText;

typedef struct Reading {
    Device device;                                 /* kind DEVICE_GPU, or DEVICE_COMPUTE_INSTANCE for a MIG device */
    char profile[READING_PROFILE_CAP];             /* of a MIG device: "1g.10gb"; else "" */
    bool mig;                                      /* of a GPU: MIG mode is on */
    bool mig_known;                                /* of a GPU with MIG: its mode and all MIG devices were read */
    bool instance_head;                            /* of a MIG device: the first one of its GPU instance */
    char text[READING_TEXT_END][READING_TEXT_CAP]; /* "" where unknown */
    Sample sample[METRIC_END];                     /* metrics of type LABEL stay absent here */
} Reading;

/* The values of pace FAST at one instant; value[i] is metric_fast_at(i), there where bit i of `valid` is set. */
typedef struct FastReading {
    uint64_t time_ns;
    uint32_t valid;
    double value[READING_FAST_CAP];
} FastReading;

/* An event that the driver reported. */
typedef struct XidEvent {
    uint64_t time_ns;
    PciAddress gpu;
    uint64_t xid;
    uint32_t gpu_instance, compute_instance; /* DEVICE_NO_NUMBER where not attributable */
} XidEvent;

/* An empty reading of a GPU or MIG device. */
void reading_init(Reading *reading, DeviceKind kind);

/* Which text a metric of type LABEL is; READING_TEXT_END for every other metric. */
ReadingText reading_text_of(MetricId id);

/* The share of its GPU that a MIG device is, by slices of compute: of seven "1c.3g.40gb" has 1, "3g.40gb" 3. */
double reading_mig_share(const Reading *gpu, const Reading *instance);

/* A metric's value in its own unit; NAN: absent. */
double reading_value(const Reading *reading, MetricId id);

/* Makes every value absent from time_ns on, because of `why`; identity and texts stay. */
void reading_lose(Reading *reading, uint64_t time_ns, Absence why);

/* How long after it was read a sample of this pace may still be shown: three of its periods, at least 3 s; values of
 * pace ONCE and EVENTS do not age (UINT64_MAX). */
uint64_t reading_fresh_ns(MetricPace pace, uint64_t period_ns);
