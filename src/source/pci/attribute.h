/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files of a PCI function's folder in sysfs, whose descriptor is `dir`. Any thread. */

#include <stdint.h>
#include <sys/types.h>

enum { PCI_ATTRIBUTE_CAP = 64, PCI_VENDOR_NVIDIA = 0x10de };

/* Bytes read, or -errno. */
ssize_t pci_read_some(int dir, const char *name, void *data, size_t size);
/* The first line, "" where it cannot be read. */
void pci_read_text(int dir, const char *name, char text[PCI_ATTRIBUTE_CAP]);
/* 0 where there is none. */
uint32_t pci_read_number(int dir, const char *name, int base);
/* A link's speed in megatransfers a second, and its lanes; 0 unknown. */
uint32_t pci_read_speed(int dir, const char *name);
uint32_t pci_read_width(int dir, const char *name);
