/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVIDIA's GPUs on the PCI bus as sysfs has them: what is there whether or not a driver is. Reads attributes of the
 * kernel and of the port alone, nothing that could wait for a driver; a GPU that sleeps is not woken up. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* ---- more of one function ---- */

enum { PCI_CLASS_NVSWITCH = 0x0680 };

/* Kinds of errors, in the kernel's order. */
typedef enum PciAer { PCI_AER_CORRECTABLE, PCI_AER_NONFATAL, PCI_AER_FATAL, PCI_AER_END } PciAer;

typedef struct PciDetail {
    PciLink slot; /* the port's maximum; 0 without a port, as in a virtual machine */
    bool has_aer;
    uint64_t aer[PCI_AER_END], port_aer[PCI_AER_END]; /* totals since boot */
} PciDetail;

/* False, with *ret zeroed, where there is no such function. */
bool pci_read_detail(const char *root, PciAddress address, PciDetail *ret);

/* ---- files of a function's folder in sysfs, whose descriptor is `dir` ---- */

enum { PCI_ATTRIBUTE_CAP = 64, PCI_VENDOR_NVIDIA = 0x10de };

/* Bytes read, or -errno. */
ssize_t pci_read_some(int dir, const char *name, void *data, size_t size);
/* The first line, "" where it cannot be read. */
void pci_read_text(int dir, const char *name, char text[PCI_ATTRIBUTE_CAP]);
