/* SPDX-License-Identifier: Apache-2.0 */
#include "source/host/places.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/owner.h"
#include "source/pci/attribute.h"

OWNER_POINTER(DIR, closedir);

enum { PATH_CAP = 4096, TARGET_CAP = 512, NUMA_NODE_MAX = 1 << 16 };

static void read_near(int dir, Place *place)
{
    char text[PCI_ATTRIBUTE_CAP];
    char *end;

    pci_read_text(dir, "numa_node", text);
    const long node = strtol(text, &end, 10);
    place->numa_node = end > text && node >= 0 && node <= NUMA_NODE_MAX ? (int32_t)node : -1;

    const ssize_t len = pci_read_some(dir, "local_cpulist", place->cpus, sizeof place->cpus);
    if (len <= 0 || (size_t)len == sizeof place->cpus) {
        place->cpus[0] = '\0'; /* half of a list would be another one */
        return;
    }
    place->cpus[len] = '\0';
    place->cpus[strcspn(place->cpus, "\n")] = '\0';
}

/* `name` in the folder `parent` is a link into the tree of devices; `device` leads from there to the PCI function. */
static bool read_place(int parent, const char *name, const char *device, Place *place)
{
    char target[TARGET_CAP], path[TARGET_CAP];
    const ssize_t len = readlinkat(parent, name, target, sizeof target);

    if (len <= 0 || (size_t)len >= sizeof target ||
        snprintf(path, sizeof path, "%s%s", name, device) >= (int)sizeof path)
        return false;
    target[len] = '\0';
    if (!place_set_path(place, target))
        return false;
    CLEANUP_FD int dir = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place->numa_node = -1;
    if (dir >= 0)
        read_near(dir, place);
    return true;
}

static int open_dir(const char *root, const char *below)
{
    char path[PATH_CAP];

    if (snprintf(path, sizeof path, "%s%s", root, below) >= (int)sizeof path)
        return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void look_gpus(const char *root, const PciAddress *gpus, size_t count, HostPlaces *places)
{
    CLEANUP_FD int devices = open_dir(root, "/sys/bus/pci/devices");
    char name[PCI_TEXT_CAP];

    for (size_t i = 0; devices >= 0 && i < count; i++) {
        Place place = {0};

        if (read_place(devices, pci_format(gpus[i], PCI_FORM_SYSFS, name), "", &place))
            vec_push(places, place);
    }
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const Place *)a)->adapter, ((const Place *)b)->adapter);
}

static void look_adapters(const char *root, HostPlaces *places)
{
    const int fd = open_dir(root, "/sys/class/infiniband");
    CLEANUP(closedir_at) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const size_t first = places->len;
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        close(fd);
    while (dir && places->len < first + PLACE_ADAPTERS_MAX && (entry = readdir(dir))) {
        Place place = {0};
        const size_t len = strlen(entry->d_name);

        if (entry->d_name[0] == '.' || len >= sizeof place.adapter)
            continue;
        memcpy(place.adapter, entry->d_name, len + 1);
        if (read_place(dirfd(dir), entry->d_name, "/device", &place))
            vec_push(places, place);
    }
    if (places->len > first)
        qsort(places->at + first, places->len - first, sizeof *places->at, by_name);
}

void host_places_look(const char *root, const PciAddress *gpus, size_t count, HostPlaces *places)
{
    vec_clear(places);
    look_gpus(root, gpus, count, places);
    look_adapters(root, places);
}

/* A GPU that was there at an earlier look. */
static bool is_gone(const Facts *facts, const Place *place)
{
    for (size_t i = 0; !place->adapter[0] && i < facts->gpu_count; i++)
        if (pci_compare(facts->gpus[i].pci, place->pci) == 0)
            return !facts->gpus[i].present;
    return false;
}

void host_places_take(HostPlaces *known, HostPlaces *fresh, const Facts *facts)
{
    const HostPlaces before = *known;
    size_t gone = 0;

    for (size_t i = 0; i < before.len; i++)
        gone += is_gone(facts, &before.at[i]);
    vec_reserve(fresh, fresh->len + gone);
    if (gone > 0)
        memmove(fresh->at + gone, fresh->at, fresh->len * sizeof *fresh->at);
    for (size_t i = 0, to = 0; i < before.len; i++)
        if (is_gone(facts, &before.at[i]))
            fresh->at[to++] = before.at[i];
    fresh->len += gone;
    *known = *fresh;
    *fresh = before; /* its room is used again */
}
