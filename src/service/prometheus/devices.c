/* SPDX-License-Identifier: Apache-2.0 */
/* dcgm-exporter's device selector. Pure, any thread. */

#include "service/prometheus/devices.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"
#include "base/owner.h"

enum { GPU_ID_MAX = 63, INSTANCE_ID_MAX = 255 };

static int refuse_selector(const char *text, Err *err)
{
    return err_set(err, -EINVAL, "'%s' selects no devices: use f, g, i, g:0,2-4, i:7, i:0.7 or two of them as g:0+i:7",
                   text);
}

/* Reads digits from *at; false where there are none or too many. */
static bool take_number(const char **at, uint64_t max, uint32_t *ret)
{
    size_t len = strspn(*at, "0123456789");
    uint64_t value;

    if (!len || number_parsen_u64(*at, len, 0, max, &value, NULL) < 0)
        return false;
    *at += len;
    *ret = (uint32_t)value;
    return true;
}

/* N, N-M and, of instances, G.N and G.N-M. */
static bool take_range(const char **at, ExporterDevices *devices, bool instances)
{
    uint32_t gpu = DEVICE_NO_NUMBER, first, last;

    if (!take_number(at, instances ? INSTANCE_ID_MAX : GPU_ID_MAX, &first))
        return false;
    if (instances && **at == '.') {
        (*at)++;
        gpu = first;
        if (gpu > GPU_ID_MAX || !take_number(at, INSTANCE_ID_MAX, &first))
            return false;
    }
    last = first;
    if (**at == '-') {
        (*at)++;
        if (!take_number(at, instances ? INSTANCE_ID_MAX : GPU_ID_MAX, &last) || last < first)
            return false;
    }
    for (uint32_t id = first; id <= last; id++) {
        if (!instances) {
            devices->gpu_ids |= UINT64_C(1) << id;
        } else {
            if (devices->instance_id_count == ARRAY_LEN(devices->instance_ids))
                return false;
            devices->instance_ids[devices->instance_id_count].gpu = gpu;
            devices->instance_ids[devices->instance_id_count++].instance = id;
        }
    }
    return true;
}

/* One of the parts between '+'. */
static bool take_part(const char **at, ExporterDevices *devices)
{
    bool instances = **at == 'i';
    bool *kind = instances ? &devices->instances : &devices->gpus;

    if ((**at != 'g' && !instances) || *kind)
        return false;
    *kind = true;
    if (*++*at != ':')
        return true;
    do {
        (*at)++;
        if (!take_range(at, devices, instances))
            return false;
    } while (**at == ',');
    return true;
}

int exporter_devices_parse(const char *text, ExporterDevices *ret, Err *err)
{
    ExporterDevices devices = {0};
    const char *at = text;

    if (strcmp(text, "f") == 0) {
        devices.flex = true;
        *ret = devices;
        return 0;
    }
    if (!take_part(&at, &devices))
        return refuse_selector(text, err);
    if (*at == '+') {
        at++;
        if (!take_part(&at, &devices))
            return refuse_selector(text, err);
    }
    if (*at)
        return refuse_selector(text, err);
    *ret = devices;
    return 0;
}

static bool has_instances(const NodeGpu *gpu)
{
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].instance_head)
            return true;
    return false;
}

static bool wants_instance(const ExporterDevices *devices, uint32_t gpu, uint32_t instance)
{
    if (!devices->instance_id_count)
        return true;
    for (size_t i = 0; i < devices->instance_id_count; i++) {
        uint32_t of = devices->instance_ids[i].gpu;

        if (devices->instance_ids[i].instance == instance && (of == DEVICE_NO_NUMBER || of == gpu))
            return true;
    }
    return false;
}

bool devices_show(const ExporterDevices *devices, const NodeGpu *gpu, const Reading *instance)
{
    uint32_t index = gpu->reading.device.index;

    if (devices->flex)
        return instance || !has_instances(gpu);
    if (instance)
        return devices->instances && wants_instance(devices, index, instance->device.gpu_instance);
    if (!devices->gpus)
        return false;
    return !devices->gpu_ids || (index <= GPU_ID_MAX && devices->gpu_ids >> index & 1);
}

bool devices_derive(const ExporterDevices *devices, const NodeGpu *gpu)
{
    if (devices->flex || devices_show(devices, gpu, NULL))
        return true;
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (devices_show(devices, gpu, &gpu->instances[i]))
            return true;
    return false;
}
