/* SPDX-License-Identifier: Apache-2.0 */
#include "source/pci/attribute.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"

ssize_t pci_read_some(int dir, const char *name, void *data, size_t size)
{
    CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, data, size);

    return len < 0 ? -errno : len;
}

void pci_read_text(int dir, const char *name, char text[PCI_ATTRIBUTE_CAP])
{
    ssize_t len = pci_read_some(dir, name, text, PCI_ATTRIBUTE_CAP - 1);

    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

uint32_t pci_read_number(int dir, const char *name, int base)
{
    char text[PCI_ATTRIBUTE_CAP];
    unsigned long value;

    pci_read_text(dir, name, text);
    value = strtoul(text, NULL, base);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* "32.0 GT/s PCIe", "2.5 GT/s", "Unknown" */
uint32_t pci_read_speed(int dir, const char *name)
{
    char text[PCI_ATTRIBUTE_CAP];
    unsigned whole, tenth = 0;

    pci_read_text(dir, name, text);
    if (sscanf(text, "%5u.%1u GT/s", &whole, &tenth) < 1 || !strstr(text, "GT/s"))
        return 0;
    return whole * 1000 + tenth * 100;
}

/* The kernel says 255 (of 8 bits) or 63 (of the register's 6) lanes where the device does not answer. */
uint32_t pci_read_width(int dir, const char *name)
{
    uint32_t width = pci_read_number(dir, name, 10);

    return width <= 32 ? width : 0;
}
