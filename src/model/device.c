/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of devices: equality, order, keys, names. No state, any thread. */

#include "model/device.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"

static const WordRow archs[] = {
    [DEVICE_ARCH_KEPLER] = {.key = "kepler"},
    [DEVICE_ARCH_MAXWELL] = {.key = "maxwell"},
    [DEVICE_ARCH_PASCAL] = {.key = "pascal"},
    [DEVICE_ARCH_VOLTA] = {.key = "volta"},
    [DEVICE_ARCH_TURING] = {.key = "turing"},
    [DEVICE_ARCH_AMPERE] = {.key = "ampere"},
    [DEVICE_ARCH_ADA] = {.key = "ada"},
    [DEVICE_ARCH_HOPPER] = {.key = "hopper"},
    [DEVICE_ARCH_BLACKWELL] = {.key = "blackwell"},
    [DEVICE_ARCH_RUBIN] = {.key = "rubin"},
};

void device_init(Device *device, DeviceKind kind)
{
    *device = (Device){
        .kind = kind,
        .index = DEVICE_NO_NUMBER,
        .minor = DEVICE_NO_NUMBER,
        .gpu_instance = DEVICE_NO_NUMBER,
        .compute_instance = DEVICE_NO_NUMBER,
        .link = DEVICE_NO_NUMBER,
    };
}

static bool is_instance(const Device *device)
{
    return device->kind == DEVICE_GPU_INSTANCE || device->kind == DEVICE_COMPUTE_INSTANCE;
}

static bool is_link(const Device *device)
{
    return device->kind == DEVICE_LINK || device->kind == DEVICE_SWITCH_LINK;
}

bool device_is_switch(const Device *device)
{
    return device->kind == DEVICE_SWITCH || device->kind == DEVICE_SWITCH_LINK;
}

bool device_is_part(const Device *device)
{
    return is_instance(device) || is_link(device);
}

const char *device_whole_uuid(const Device *device)
{
    return device_is_part(device) ? device->parent_uuid : device->uuid;
}

void device_make_part(Device *device, DeviceKind kind)
{
    if (!device_is_part(device)) {
        memcpy(device->parent_uuid, device->uuid, sizeof device->parent_uuid);
        device->uuid[0] = '\0';
    }
    device->kind = kind;
}

/* The numbers that tell the parts of one GPU apart; those that a kind does not use do not count. */
static int compare_part(const Device *a, const Device *b)
{
    int order = 0;

    if (is_link(a) && is_link(b))
        return number_compare_u64(a->link, b->link);
    if (is_instance(a) && is_instance(b))
        order = number_compare_u64(a->gpu_instance, b->gpu_instance);
    if (order == 0) /* a GPU before its instances, a GPU instance before its compute instances, links at the end */
        order = (int)a->kind - (int)b->kind;
    if (order == 0 && a->kind == DEVICE_COMPUTE_INSTANCE)
        order = number_compare_u64(a->compute_instance, b->compute_instance);
    return order;
}

static bool same_whole(const Device *a, const Device *b)
{
    const char *left = device_whole_uuid(a), *right = device_whole_uuid(b);

    if (left[0] != '\0' && right[0] != '\0')
        return strcmp(left, right) == 0;
    return a->has_pci && b->has_pci && pci_compare(a->pci, b->pci) == 0;
}

bool device_is_gpu(const Device *device, const char *uuid, PciAddress pci)
{
    return uuid[0] && device->uuid[0] ? strcmp(uuid, device->uuid) == 0 : pci_compare(pci, device->pci) == 0;
}

bool device_equal(const Device *a, const Device *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == DEVICE_NODE || (same_whole(a, b) && compare_part(a, b) == 0);
}

/* snprintf that appends; the cap holds every key that can be built. */
static int key_part(char text[DEVICE_KEY_CAP], int at, const char *word, uint32_t number)
{
    int length = snprintf(text + at, DEVICE_KEY_CAP - (size_t)at, "/%s/%" PRIu32, word, number);

    assert(length > 0 && at + length < DEVICE_KEY_CAP);
    return at + length;
}

static bool knows_parts(const Device *device)
{
    switch (device->kind) {
    case DEVICE_GPU_INSTANCE:
        return device->gpu_instance != DEVICE_NO_NUMBER;
    case DEVICE_COMPUTE_INSTANCE:
        return device->gpu_instance != DEVICE_NO_NUMBER && device->compute_instance != DEVICE_NO_NUMBER;
    case DEVICE_LINK:
    case DEVICE_SWITCH_LINK:
        return device->link != DEVICE_NO_NUMBER;
    default:
        return true;
    }
}

int device_key(const Device *device, char text[DEVICE_KEY_CAP])
{
    char pci[PCI_TEXT_CAP];
    const char *whole = device_whole_uuid(device);
    int at;

    if (device->kind == DEVICE_NODE)
        return snprintf(text, DEVICE_KEY_CAP, "node");
    if (!knows_parts(device) || (whole[0] == '\0' && !device->has_pci))
        return -EINVAL;
    if (whole[0] == '\0')
        whole = pci_format(device->pci, PCI_FORM_SYSFS, pci);
    at = snprintf(text, DEVICE_KEY_CAP, "%s/%s", device_is_switch(device) ? "switch" : "gpu", whole);
    assert(at > 0 && at < DEVICE_KEY_CAP);
    if (is_instance(device))
        at = key_part(text, at, "gi", device->gpu_instance);
    if (device->kind == DEVICE_COMPUTE_INSTANCE)
        at = key_part(text, at, "ci", device->compute_instance);
    if (is_link(device))
        at = key_part(text, at, "link", device->link);
    return at;
}

const char *device_arch_text(uint32_t arch)
{
    return arch < ARRAY_LEN(archs) && archs[arch].key ? archs[arch].key : "unknown";
}

bool device_arch_find(const char *text, DeviceArch *ret_arch)
{
    const int found = word_find(archs, ARRAY_LEN(archs), text);

    if (found >= 0)
        *ret_arch = (DeviceArch)found;
    return found >= 0;
}
