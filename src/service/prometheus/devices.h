/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which devices have series, by dcgm-exporter's selector (exporter.h). Pure, any thread. */

#include "service/prometheus/exporter.h"

/* Whether this GPU (instance NULL) or GPU instance has series of its own. */
bool devices_show(const ExporterDevices *devices, const NodeGpu *gpu, const Reading *instance);

/* Whether DCGM_EXP_ series, which belong to GPUs, are shown for this one: it is shown, or an instance of it. */
bool devices_derive(const ExporterDevices *devices, const NodeGpu *gpu);
