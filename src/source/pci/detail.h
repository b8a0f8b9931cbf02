/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * More of one PCI function than a scan reads: what the port above it can do, and how many errors the kernel has counted
 * of both (AER). These are numbers of the kernel's own and of the port; a device that does not answer is not asked, and
 * none is woken up. Any thread.
 */

#include "source/pci/scan.h"

enum { PCI_CLASS_NVSWITCH = 0x0680 };

/* Kinds of errors, in the kernel's order. */
typedef enum PciAer { PCI_AER_CORRECTABLE, PCI_AER_NONFATAL, PCI_AER_FATAL, PCI_AER_END } PciAer;

typedef struct PciDetail {
    PciLink slot; /* most that the port can do; 0 where there is none, as in a virtual machine */
    bool has_aer;
    uint64_t aer[PCI_AER_END], port_aer[PCI_AER_END]; /* totals since boot */
} PciDetail;

/* False, with *ret zeroed, where there is no such function. */
bool pci_detail(const char *root, PciAddress address, PciDetail *ret);
