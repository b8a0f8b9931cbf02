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
#include "model/facts.h"

enum { PCI_SCAN_MAX = 4096 };

/*
 * Functions of vendor 0x10de and class VGA (0x0300) or 3D controller (0x0302) under ROOT/sys/bus/pci/devices ("" is the
 * real one), sorted by address: at most `cap` into gpus, all of them counted; slot and AER are left to pci_read_detail.
 * A bus that is not there has none. *ret_switches (NULL: not wanted): NVIDIA's functions of class 0x0680, its
 * NVSwitches. -errno.
 */
int pci_scan(const char *root, FactsGpu *gpus, size_t cap, size_t *ret_count, size_t *ret_switches, Err *err);

/* ---- more of one function ---- */

/* Fills slot (0 without a port, as in a virtual machine) and AER of the GPU at gpu->pci, where it is there. */
void pci_read_detail(const char *root, FactsGpu *gpu);

/* ---- files of a function's folder in sysfs, whose descriptor is `dir` ---- */

enum { PCI_ATTRIBUTE_CAP = 64, PCI_VENDOR_NVIDIA = 0x10de };

/* Bytes read, or -errno. */
ssize_t pci_read_some(int dir, const char *name, void *data, size_t size);
/* The first line, "" where it cannot be read. */
void pci_read_text(int dir, const char *name, char text[PCI_ATTRIBUTE_CAP]);
