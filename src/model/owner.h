/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who a device was given to, as the kubelet declares it: pod, namespace, container. A table is filled by its source,
 * read by the outputs and replaced as a whole; texts lie in the table's arena. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/reading.h"

/* Which device an id means. The forms are those of the device plugins; see owner_device_parse. */
typedef struct OwnerDevice {
    char uuid[DEVICE_UUID_CAP];              /* of a GPU or MIG device, "" where the id has a number instead */
    uint32_t minor;                          /* N of nvidiaN, else DEVICE_NO_NUMBER */
    uint32_t gpu_instance, compute_instance; /* with a GPU's uuid or minor: a MIG device of it; else DEVICE_NO_NUMBER */
    char replica[16];                        /* of a time-sliced or MPS device, "" for the whole one */
} OwnerDevice;

typedef struct Owner {
    OwnerDevice device;
    const char *pod, *namespace, *container;
    const char *pod_uid; /* "" where unknown */
} Owner;

typedef struct OwnerTable {
    Arena arena;
    Owner *at;
    size_t len, cap;
} OwnerTable;

/*
 * Parse a device id: "GPU-<uuid>", "GPU-<uuid>::N", "MIG-<uuid>[::N]", "MIG-GPU-<uuid>/gi/ci[::N]", and GKE's
 * "nvidiaN", "nvidiaN/giM", "nvidiaN/vgpuK", "nvidiaN/giM/vgpuK". -EINVAL for anything else, with *ret untouched.
 * A uuid is any letters, digits and dashes; numbers are decimal. K and the N behind "::" are the replica.
 */
int owner_device_parse(const char *id, OwnerDevice *ret);

/* Whether `device` means this MIG device (instance not NULL) or this whole GPU (instance NULL). A GPU instance without
 * the number of a compute instance ("nvidiaN/giM") means each MIG device in it. */
bool owner_device_is(const OwnerDevice *device, const Reading *gpu, const Reading *instance);

void owner_table_init(OwnerTable *table);
void owner_table_done(OwnerTable *table);
/* Empties it; the memory stays. */
void owner_table_clear(OwnerTable *table);
/* Adds a row; texts are copied, NULL becomes "". */
void owner_table_add(OwnerTable *table, const Owner *owner);
