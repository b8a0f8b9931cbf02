/* SPDX-License-Identifier: Apache-2.0 */
#include "source/pci/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"

enum { ATTRIBUTE_CAP = 64, CONFIG_LEN = 4, PATH_CAP = 4096 };
enum { VENDOR_NVIDIA = 0x10de, CLASS_VGA = 0x0300, CLASS_3D = 0x0302 };

OWNER_POINTER(DIR, closedir);

/* Bytes read, or -errno. */
static ssize_t read_some(int dir, const char *name, void *data, size_t size)
{
    CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, data, size);

    return len < 0 ? -errno : len;
}

/* "" where it cannot be read. */
static void read_text(int dir, const char *name, char text[ATTRIBUTE_CAP])
{
    ssize_t len = read_some(dir, name, text, ATTRIBUTE_CAP - 1);

    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static uint32_t read_number(int dir, const char *name, int base)
{
    char text[ATTRIBUTE_CAP];
    unsigned long value;

    read_text(dir, name, text);
    value = strtoul(text, NULL, base);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* "32.0 GT/s PCIe", "2.5 GT/s", "Unknown" */
static uint32_t read_speed(int dir, const char *name)
{
    char text[ATTRIBUTE_CAP];
    unsigned whole, tenth = 0;

    read_text(dir, name, text);
    if (sscanf(text, "%5u.%1u GT/s", &whole, &tenth) < 1 || !strstr(text, "GT/s"))
        return 0;
    return whole * 1000 + tenth * 100;
}

/* The kernel says 255 (of 8 bits) or 63 (of the register's 6) lanes where the device does not answer. */
static uint32_t read_width(int dir, const char *name)
{
    uint32_t width = read_number(dir, name, 10);

    return width <= 32 ? width : 0;
}

static void read_driver(int dir, char driver[PCI_DRIVER_CAP])
{
    char target[PATH_CAP];
    ssize_t len = readlinkat(dir, "driver", target, sizeof(target) - 1);
    const char *name;

    driver[0] = '\0';
    if (len <= 0)
        return;
    target[len] = '\0';
    name = strrchr(target, '/');
    snprintf(driver, PCI_DRIVER_CAP, "%.*s", PCI_DRIVER_CAP - 1, name ? name + 1 : target);
}

/* Vendor and device id from the device itself, not from what the kernel remembers. */
static bool is_lost(int dir)
{
    static const unsigned char ones[CONFIG_LEN] = {0xff, 0xff, 0xff, 0xff};
    unsigned char config[CONFIG_LEN];

    return read_some(dir, "config", config, sizeof(config)) != CONFIG_LEN || memcmp(config, ones, sizeof(ones)) == 0;
}

static bool is_gpu(int dir)
{
    uint32_t class = read_number(dir, "class", 16) >> 8;

    return read_number(dir, "vendor", 16) == VENDOR_NVIDIA && (class == CLASS_VGA || class == CLASS_3D);
}

/* False where it is no GPU of ours, or went away while it was looked at. */
static bool read_gpu(int devices, const char *name, PciGpu *ret)
{
    CLEANUP_FD int dir = -1;
    char text[ATTRIBUTE_CAP];
    PciGpu gpu = {0};

    if (pci_parse(name, &gpu.address) < 0)
        return false;
    dir = openat(devices, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !is_gpu(dir))
        return false;
    gpu.device = (uint16_t)read_number(dir, "device", 16);
    read_driver(dir, gpu.driver);
    read_text(dir, "power/runtime_status", text);
    gpu.asleep = strcmp(text, "suspended") == 0;
    gpu.lost = !gpu.asleep && is_lost(dir);
    if (!gpu.asleep && !gpu.lost) {
        gpu.current = (PciLink){read_speed(dir, "current_link_speed"), read_width(dir, "current_link_width")};
        gpu.max = (PciLink){read_speed(dir, "max_link_speed"), read_width(dir, "max_link_width")};
    }
    *ret = gpu;
    return true;
}

static int compare(const void *a, const void *b)
{
    return pci_compare(((const PciGpu *)a)->address, ((const PciGpu *)b)->address);
}

int pci_scan(const char *root, PciGpu *gpus, size_t cap, size_t *ret_count, Err *err)
{
    char path[PATH_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;
    size_t count = 0;

    if (snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root) >= (int)sizeof(path))
        return err_set(err, -ENAMETOOLONG, "the path of the PCI bus is too long");
    dir = opendir(path);
    if (!dir && errno != ENOENT)
        return err_errno(err, "open '%s'", path);
    for (size_t seen = 0; dir && seen < PCI_SCAN_MAX && (entry = readdir(dir)); seen++) {
        PciGpu gpu;

        if (!read_gpu(dirfd(dir), entry->d_name, &gpu))
            continue;
        if (count < cap)
            gpus[count] = gpu;
        count++;
    }
    if (count > 0 && cap > 0)
        qsort(gpus, count < cap ? count : cap, sizeof(*gpus), compare);
    *ret_count = count;
    return 0;
}
