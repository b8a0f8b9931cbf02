/* SPDX-License-Identifier: Apache-2.0 */
/* What a sign is about: its device as the class's scope wants it, and the key of its incident. */
#include "engine/health/incidents_inside.h"

#include <string.h>

#include "base/map.h"

#define PLACE_PCI (UINT64_C(1) << 63)

uint64_t incidents_hash(const char *text)
{
    return text[0] != '\0' ? map_hash(text, strlen(text), 0) | 1 : 0;
}

static bool is_part(const Device *device)
{
    return device->kind == DEVICE_GPU_INSTANCE || device->kind == DEVICE_COMPUTE_INSTANCE ||
           device->kind == DEVICE_LINK || device->kind == DEVICE_SWITCH_LINK;
}

static bool is_switch(const Device *device)
{
    return device->kind == DEVICE_SWITCH || device->kind == DEVICE_SWITCH_LINK;
}

uint64_t incidents_place(const Device *device)
{
    const char *uuid = is_part(device) ? device->parent_uuid : device->uuid;

    if (device->kind == DEVICE_NODE)
        return 0;
    if (device->has_pci)
        return PLACE_PCI | (uint64_t)device->pci.domain << 16 | (uint64_t)device->pci.bus << 8 |
               (uint64_t)device->pci.device << 3 | device->pci.function;
    return incidents_hash(uuid) & ~PLACE_PCI;
}

const IncidentGpu *incidents_gpu(const Incidents *incidents, uint64_t place)
{
    for (size_t i = 0; i < incidents->gpu_count; i++)
        if (place != 0 && incidents_place(&incidents->gpus[i].device) == place)
            return &incidents->gpus[i];
    return NULL;
}

/* A device that was named by its UUID alone gets the address of the GPU that has it. */
static const IncidentGpu *find_gpu(const Incidents *incidents, const Device *device)
{
    const char *uuid = is_part(device) ? device->parent_uuid : device->uuid;

    if (device->has_pci)
        return incidents_gpu(incidents, incidents_place(device));
    for (size_t i = 0; uuid[0] != '\0' && i < incidents->gpu_count; i++)
        if (strcmp(incidents->gpus[i].device.uuid, uuid) == 0)
            return &incidents->gpus[i];
    return NULL;
}

/* The whole that a device is part of, and from a fabric or node the node. */
static void widen(Device *device, DeviceKind kind)
{
    if (is_part(device)) {
        memcpy(device->uuid, device->parent_uuid, sizeof device->uuid);
        device->parent_uuid[0] = '\0';
    }
    device->kind = kind;
    device->gpu_instance = device->compute_instance = device->link = DEVICE_NO_NUMBER;
}

static void narrow(FaultScope scope, Device *device)
{
    bool link = device->link != DEVICE_NO_NUMBER, on_switch = is_switch(device);

    if (device->kind == DEVICE_NODE)
        return;
    if (scope == SCOPE_NODE || scope == SCOPE_FABRIC)
        device_init(device, DEVICE_NODE);
    else if (scope == SCOPE_LINK && link && !is_part(device)) {
        memcpy(device->parent_uuid, device->uuid, sizeof device->uuid);
        device->uuid[0] = '\0';
        device->kind = on_switch ? DEVICE_SWITCH_LINK : DEVICE_LINK;
    } else if (scope == SCOPE_LINK && link && (device->kind == DEVICE_LINK || on_switch))
        return;
    else if (scope == SCOPE_INSTANCE && !on_switch && device->gpu_instance != DEVICE_NO_NUMBER) {
        if (!is_part(device)) {
            memcpy(device->parent_uuid, device->uuid, sizeof device->uuid);
            device->uuid[0] = '\0';
        }
        device->kind = device->compute_instance != DEVICE_NO_NUMBER ? DEVICE_COMPUTE_INSTANCE : DEVICE_GPU_INSTANCE;
        device->link = DEVICE_NO_NUMBER;
    } else
        widen(device, on_switch ? DEVICE_SWITCH : DEVICE_GPU);
}

void incidents_normalise(const Incidents *incidents, FaultScope scope, Device *device)
{
    const IncidentGpu *gpu;
    Device whole;

    narrow(scope, device);
    if (device->kind != DEVICE_NODE && incidents_place(device) == 0)
        device_init(device, DEVICE_NODE); /* it says of nothing in particular */
    if (device->kind == DEVICE_NODE || is_switch(device))
        return;
    gpu = find_gpu(incidents, device);
    if (!gpu)
        return;
    whole = gpu->device;
    whole.kind = device->kind;
    whole.gpu_instance = device->gpu_instance;
    whole.compute_instance = device->compute_instance;
    whole.link = device->link;
    if (is_part(device)) {
        memcpy(whole.parent_uuid, gpu->device.uuid, sizeof whole.parent_uuid);
        memcpy(whole.uuid, device->uuid, sizeof whole.uuid);
    }
    *device = whole;
}

IncidentKey incidents_key(const FaultClass *class, const Device *device, int32_t code, const char *process, bool silent)
{
    return (IncidentKey){
        .class = incidents_hash(class->id),
        .place = incidents_place(device),
        .process = class->by_process && !silent ? incidents_hash(process) : 0,
        .kind = device->kind,
        .link = device->link,
        .gpu_instance = device->gpu_instance,
        .compute_instance = device->compute_instance,
        .code = class->by_code ? code : 0,
    };
}

bool incidents_key_equal(const IncidentKey *a, const IncidentKey *b)
{
    return a->class == b->class && a->place == b->place && a->process == b->process && a->kind == b->kind &&
           a->link == b->link && a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance &&
           a->code == b->code;
}

static bool same_part(const IncidentKey *a, const IncidentKey *b)
{
    return a->kind == b->kind && a->link == b->link && a->gpu_instance == b->gpu_instance &&
           a->compute_instance == b->compute_instance;
}

bool incidents_related(const IncidentKey *parent, const IncidentKey *child, bool *ret_peer)
{
    bool wide = parent->kind == DEVICE_NODE || parent->kind == DEVICE_SWITCH || parent->kind == DEVICE_SWITCH_LINK;

    *ret_peer = false;
    if (wide && parent->place == child->place)
        return parent->kind != DEVICE_SWITCH_LINK || child->kind == DEVICE_SWITCH || same_part(parent, child);
    if (wide || child->kind == DEVICE_NODE) /* one switch is not above another */
        return parent->kind == DEVICE_NODE || (child->kind != DEVICE_SWITCH && child->kind != DEVICE_SWITCH_LINK);
    if (parent->place == child->place) /* a GPU and its parts, in both directions; not one part and another */
        return parent->kind == DEVICE_GPU || child->kind == DEVICE_GPU || same_part(parent, child) ||
               (parent->kind == DEVICE_GPU_INSTANCE && parent->gpu_instance == child->gpu_instance);
    *ret_peer = parent->kind == DEVICE_GPU && child->kind == DEVICE_LINK;
    return *ret_peer;
}
