/* SPDX-License-Identifier: Apache-2.0 */
#include "source/pci/detail.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "source/pci/attribute.h"

enum { PATH_CAP = 4096, AER_CAP = 1024 };

/* "RxErr 0\nBadTLP 3\n...\nTOTAL_ERR_COR 3" */
static bool read_total(int dir, const char *name, uint64_t *ret)
{
    char text[AER_CAP];
    const ssize_t len = pci_read_some(dir, name, text, sizeof(text) - 1);
    const char *total, *number;

    if (len <= 0)
        return false;
    text[len] = '\0';
    total = strstr(text, "TOTAL_ERR_");
    number = total ? strchr(total, ' ') : NULL;
    if (!number)
        return false;
    *ret = strtoull(number, NULL, 10);
    return true;
}

static bool read_aer(int dir, uint64_t aer[PCI_AER_END])
{
    static const char *const names[PCI_AER_END] = {"aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"};
    bool any = false;

    for (size_t i = 0; i < PCI_AER_END; i++)
        any |= read_total(dir, names[i], &aer[i]);
    return any;
}

bool pci_detail(const char *root, PciAddress address, PciDetail *ret)
{
    char path[PATH_CAP], name[PCI_TEXT_CAP];
    CLEANUP_FD int dir = -1;
    CLEANUP_FD int port = -1;

    memset(ret, 0, sizeof(*ret));
    if (snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, pci_format(address, PCI_FORM_SYSFS, name)) >=
        (int)sizeof(path))
        return false;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return false;
    ret->has_aer = read_aer(dir, ret->aer);
    /* the entry is a link into the tree of ports */
    port = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (port >= 0) {
        ret->slot = (PciLink){pci_read_speed(port, "max_link_speed"), pci_read_width(port, "max_link_width")};
        read_aer(port, ret->port_aer);
    }
    return true;
}
