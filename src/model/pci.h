/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A PCI address (domain, bus, device, function) and the ways in which NVML, sysfs, lspci and the kernel log write one.
 * Plain values, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PciAddress {
    uint32_t domain;
    uint8_t bus;
    uint8_t device;   /* 0..31 */
    uint8_t function; /* 0..7 */
} PciAddress;

typedef enum PciForm {
    PCI_FORM_NVML,  /* 00000000:1B:00.0, also the label pci_bus_id */
    PCI_FORM_SYSFS, /* 0000:1b:00.0 */
    PCI_FORM_SHORT, /* 1b:00.0, as lspci prints domain 0; other domains are printed as SYSFS */
    PCI_FORM_XID,   /* PCI:0000:1b:00, as the driver's lines in the kernel log */
} PciForm;

/* Room for any form and its end. */
#define PCI_TEXT_CAP 24

/*
 * Parse a whole text in any of the forms above, upper or lower case. The function may be missing where the domain is
 * given (it is 0), the domain may be missing where the function is given (it is 0); "PCI:" may stand before a full one.
 * 0, or -EINVAL with ret_address untouched.
 */
int pci_parse(const char *text, PciAddress *ret_address);

/* Write the address into text, which holds PCI_TEXT_CAP bytes. Returns text. XID leaves the function out. */
const char *pci_format(PciAddress address, PciForm form, char text[PCI_TEXT_CAP]);

/* The address as one number, and back; a number that is none (below 0, or beyond the largest) is refused. */
int64_t pci_pack(PciAddress address);
bool pci_unpack(int64_t number, PciAddress *ret);

/* Below 0, 0 or above 0: by domain, bus, device, function. */
int pci_compare(PciAddress a, PciAddress b);
