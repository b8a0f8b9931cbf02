/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVIDIA's GPUs on the PCI bus as sysfs has them: what is there whether or not a driver is. Reads a few attributes of
 * each and nothing that could wait for a driver; a GPU that sleeps is not woken up. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/pci.h"

enum { PCI_DRIVER_CAP = 32, PCI_SCAN_MAX = 4096 };

typedef struct PciLink {
    uint32_t speed_mts; /* megatransfers per second: 32000 for "32.0 GT/s"; 0 unknown */
    uint32_t width;     /* lanes; 0 unknown */
} PciLink;

typedef struct PciGpu {
    PciAddress address;
    uint16_t device;             /* PCI device id */
    char driver[PCI_DRIVER_CAP]; /* bound to it: "nvidia", "vfio-pci"; "" none */
    bool asleep;                 /* runtime suspended: lost and current are not known then */
    bool lost;                   /* its configuration space reads as all ones, or not at all: fell off the bus */
    PciLink current, max;
} PciGpu;

/*
 * Functions of vendor 0x10de and class VGA (0x0300) or 3D controller (0x0302) under ROOT/sys/bus/pci/devices ("" is the
 * real one), sorted by address: at most `cap` into gpus, all of them counted. A bus that is not there has none. -errno.
 */
int pci_scan(const char *root, PciGpu *gpus, size_t cap, size_t *ret_count, Err *err);

/* NVIDIA's functions of a class: 0x0680, its NVSwitches. The same. */
int pci_count(const char *root, uint16_t class, size_t *ret_count, Err *err);
