/* SPDX-License-Identifier: Apache-2.0 */
#include "source/pci/pci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

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

/* 0 where there is none. */
static uint32_t pci_read_number(int dir, const char *name, int base)
{
    char text[PCI_ATTRIBUTE_CAP];
    unsigned long value;

    pci_read_text(dir, name, text);
    value = strtoul(text, NULL, base);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* "32.0 GT/s PCIe", "2.5 GT/s", "Unknown" */
static uint32_t pci_read_speed(int dir, const char *name)
{
    char text[PCI_ATTRIBUTE_CAP];
    unsigned whole, tenth = 0;

    pci_read_text(dir, name, text);
    if (sscanf(text, "%5u.%1u GT/s", &whole, &tenth) < 1 || !strstr(text, "GT/s"))
        return 0;
    return whole * 1000 + tenth * 100;
}

/* The kernel says 255 (of 8 bits) or 63 (of the register's 6) lanes where the device does not answer. */
static uint32_t pci_read_width(int dir, const char *name)
{
    uint32_t width = pci_read_number(dir, name, 10);

    return width <= 32 ? width : 0;
}

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

static bool read_aer(int dir, uint64_t aer[FACTS_AER_END])
{
    static const char *const names[FACTS_AER_END] = {"aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"};
    bool any = false;

    for (size_t i = 0; i < FACTS_AER_END; i++)
        any |= read_total(dir, names[i], &aer[i]);
    return any;
}

void pci_read_detail(const char *root, FactsGpu *gpu)
{
    char path[PATH_CAP], name[PCI_TEXT_CAP];
    CLEANUP_FD int dir = -1;
    CLEANUP_FD int port = -1;

    if (snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, pci_format(gpu->pci, PCI_FORM_SYSFS, name)) >=
        (int)sizeof(path))
        return;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    gpu->has_aer = read_aer(dir, gpu->aer);
    /* the entry is a link into the tree of ports */
    port = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (port >= 0) {
        gpu->slot = (FactsPcie){pci_read_speed(port, "max_link_speed"), pci_read_width(port, "max_link_width")};
        read_aer(port, gpu->port_aer);
    }
}

enum { CONFIG_LEN = 4 };
enum { CLASS_VGA = 0x0300, CLASS_3D = 0x0302, CLASS_SWITCH = 0x0680 };

static void read_driver(int dir, char driver[FACTS_DRIVER_CAP])
{
    char target[PATH_CAP];
    ssize_t len = readlinkat(dir, "driver", target, sizeof(target) - 1);
    const char *name;

    driver[0] = '\0';
    if (len <= 0)
        return;
    target[len] = '\0';
    name = strrchr(target, '/');
    snprintf(driver, FACTS_DRIVER_CAP, "%.*s", FACTS_DRIVER_CAP - 1, name ? name + 1 : target);
}

/* Vendor and device id from the device itself, not from what the kernel remembers. */
static bool is_lost(int dir)
{
    static const unsigned char ones[CONFIG_LEN] = {0xff, 0xff, 0xff, 0xff};
    unsigned char config[CONFIG_LEN];

    return pci_read_some(dir, "config", config, sizeof(config)) != CONFIG_LEN ||
           memcmp(config, ones, sizeof(ones)) == 0;
}

/* The class of a function of NVIDIA's, 0 for one of another's. */
static uint32_t read_class(int dir)
{
    return pci_read_number(dir, "vendor", 16) == PCI_VENDOR_NVIDIA ? pci_read_number(dir, "class", 16) >> 8 : 0;
}

static void read_gpu(int dir, FactsGpu *gpu)
{
    char text[PCI_ATTRIBUTE_CAP];

    read_driver(dir, gpu->driver);
    pci_read_text(dir, "power/runtime_status", text);
    gpu->asleep = strcmp(text, "suspended") == 0;
    gpu->config_lost = !gpu->asleep && is_lost(dir);
    if (gpu->asleep || gpu->config_lost)
        return;
    gpu->current = (FactsPcie){pci_read_speed(dir, "current_link_speed"), pci_read_width(dir, "current_link_width")};
    gpu->max = (FactsPcie){pci_read_speed(dir, "max_link_speed"), pci_read_width(dir, "max_link_width")};
}

static int compare_gpus(const void *a, const void *b)
{
    return pci_compare(((const FactsGpu *)a)->pci, ((const FactsGpu *)b)->pci);
}

int pci_scan(const char *root, FactsGpu *gpus, size_t cap, size_t *ret_count, size_t *ret_switches, Err *err)
{
    char path[PATH_CAP];
    const struct dirent *entry;
    size_t count = 0, switches = 0;

    if (snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root) >= (int)sizeof(path))
        return err_set(err, -ENAMETOOLONG, "the path of the PCI bus is too long");
    CLEANUP(closedir_at) DIR *dir = opendir(path);
    if (!dir && errno != ENOENT)
        return err_errno(err, "open '%s'", path);
    for (size_t seen = 0; dir && seen < PCI_SCAN_MAX && (entry = readdir(dir)); seen++) {
        FactsGpu gpu = {.present = true};

        if (pci_parse(entry->d_name, &gpu.pci) < 0)
            continue;
        CLEANUP_FD int function = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const uint32_t class = function >= 0 ? read_class(function) : 0; /* removed meanwhile */

        switches += class == CLASS_SWITCH;
        if (class != CLASS_VGA && class != CLASS_3D)
            continue;
        read_gpu(function, &gpu);
        if (count < cap)
            gpus[count] = gpu;
        count++;
    }
    if (count > 0 && cap > 0)
        qsort(gpus, count < cap ? count : cap, sizeof(*gpus), compare_gpus);
    *ret_count = count;
    if (ret_switches)
        *ret_switches = switches;
    return 0;
}
