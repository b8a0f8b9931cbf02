/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who a device is: a GPU, a MIG instance of one, a link of one, an NVSwitch, or the node itself. Identity only, no
 * readings; what stays the same while the device exists. Plain values without pointers, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/pci.h"
#include "model/word.h"

#define DEVICE_KIND_TABLE(WORD)                                                                                        \
    WORD(DEVICE_NODE, "node")                                                                                          \
    WORD(DEVICE_GPU, "gpu")                                                                                            \
    WORD(DEVICE_GPU_INSTANCE, "gpu_instance")         /* a MIG slice of memory and engines */                          \
    WORD(DEVICE_COMPUTE_INSTANCE, "compute_instance") /* what NVML calls a MIG device */                               \
    WORD(DEVICE_LINK, "link")                         /* one NVLink of a GPU */                                        \
    WORD(DEVICE_SWITCH, "switch")                                                                                      \
    WORD(DEVICE_SWITCH_LINK, "switch_link") /* one port of an NVSwitch */

typedef enum DeviceKind { DEVICE_KIND_TABLE(WORD_ID) DEVICE_KIND_END } DeviceKind;

typedef enum DeviceVendor { DEVICE_VENDOR_UNKNOWN, DEVICE_NVIDIA, DEVICE_AMD, DEVICE_VENDOR_END } DeviceVendor;

/* NVIDIA architectures with NVML's numbers (nvmlDeviceArchitecture_t); newer ones keep their number. */
typedef enum DeviceArch {
    DEVICE_ARCH_UNKNOWN = 0,
    DEVICE_ARCH_KEPLER = 2,
    DEVICE_ARCH_MAXWELL = 3,
    DEVICE_ARCH_PASCAL = 4,
    DEVICE_ARCH_VOLTA = 5,
    DEVICE_ARCH_TURING = 6,
    DEVICE_ARCH_AMPERE = 7,
    DEVICE_ARCH_ADA = 8,
    DEVICE_ARCH_HOPPER = 9,
    DEVICE_ARCH_BLACKWELL = 10,
    DEVICE_ARCH_RUBIN = 13,
} DeviceArch;

/* A number that this device does not have. */
#define DEVICE_NO_NUMBER UINT32_MAX

/* Sizes as in nvml.h (uuid 96, name 96, serial 30), with their end. */
#define DEVICE_UUID_CAP 96
#define DEVICE_NAME_CAP 96
#define DEVICE_SERIAL_CAP 32
/* Room for any key and its end. */
#define DEVICE_KEY_CAP 160

/* Texts are "" where unknown, numbers DEVICE_NO_NUMBER. Start from device_init, not from zeroes. */
typedef struct Device {
    DeviceKind kind;
    DeviceVendor vendor;
    uint32_t arch;             /* DeviceArch, or a number newer than this list */
    uint32_t index;            /* order of enumeration; changes over restarts, so never identity */
    uint32_t minor;            /* N of /dev/nvidiaN */
    uint32_t gpu_instance;     /* GI id */
    uint32_t compute_instance; /* CI id within the GI */
    uint32_t link;             /* link number, from 0 */
    bool has_pci;              /* pci is known; instances and links carry their parent's */
    PciAddress pci;
    char uuid[DEVICE_UUID_CAP];        /* its own: GPU-..., MIG-... */
    char parent_uuid[DEVICE_UUID_CAP]; /* the GPU or switch that an instance or link is part of */
    char name[DEVICE_NAME_CAP];        /* product: NVIDIA H100 80GB HBM3 */
    char board[DEVICE_NAME_CAP];       /* board part number */
    char serial[DEVICE_SERIAL_CAP];
} Device;

/* An unknown device of this kind. */
void device_init(Device *device, DeviceKind kind);

/* Whether it is the GPU with this UUID; if one of both UUIDs is not known: with this address. */
bool device_is_gpu(const Device *device, const char *uuid, PciAddress pci);
bool device_is_part(const Device *device);   /* an instance or a link, of whatever */
bool device_is_switch(const Device *device); /* or a port of one */
/* The UUID of the whole GPU or switch that it is or is part of. */
const char *device_whole_uuid(const Device *device);
/* Makes a whole device, or another part, a part of this kind; its number is the caller's. */
void device_make_part(Device *device, DeviceKind kind);

/*
 * Whether two describe the same thing: same kind, same GPU or switch (by UUID where both have one, else by PCI
 * address), same instance and link numbers. Index, minor and names do not matter. Two that say too little are not
 * equal.
 */
bool device_equal(const Device *a, const Device *b);

/*
 * The key that names a device in the store, in JSON and in incidents: "node", "gpu/GPU-..", "gpu/GPU-../gi/7",
 * "gpu/GPU-../gi/7/ci/0", "gpu/GPU-../link/3", "switch/0000:05:00.0", "switch/0000:05:00.0/link/12". Without a UUID the
 * PCI address stands for it. Returns the length written into text, or -EINVAL where the device says too little for a
 * key.
 */
int device_key(const Device *device, char text[DEVICE_KEY_CAP]);

extern const WordRow device_kinds[DEVICE_KIND_END];

/* "hopper", ...; "unknown" for a number that is not in the list. */
const char *device_arch_text(uint32_t arch);
bool device_arch_find(const char *text, DeviceArch *ret_arch);
