/* SPDX-License-Identifier: Apache-2.0 */
#include "model/place.h"

#include <string.h>

/* Of a device's parts below the last one that two share: a port of the switch and itself. */
enum { PARTS_OF_ONE_SWITCH = 2 };

static size_t part_len(const char *path)
{
    return strcspn(path, "/");
}

static const char *next_part(const char *path)
{
    const size_t len = part_len(path);

    return path[len] ? path + len + 1 : path + len;
}

static bool part_pci(const char *part, PciAddress *ret)
{
    char text[PCI_TEXT_CAP];
    const size_t len = part_len(part);

    if (len >= sizeof text)
        return false;
    memcpy(text, part, len);
    text[len] = '\0';
    return strchr(text, '.') && pci_parse(text, ret) == 0;
}

static bool is_host_bridge(const char *part)
{
    const size_t len = part_len(part);

    return len > strlen("pci") && strncmp(part, "pci", strlen("pci")) == 0 && memchr(part, ':', len);
}

bool place_set_path(Place *place, const char *target)
{
    const char *first = target, *end = NULL;
    PciAddress last;

    place->path[0] = '\0';
    while (*first && !is_host_bridge(first))
        first = next_part(first);
    for (const char *part = first; *part; part = next_part(part))
        if (part_pci(part, &last))
            end = part + part_len(part);
    if (!end || (size_t)(end - first) >= sizeof place->path)
        return false;
    memcpy(place->path, first, (size_t)(end - first));
    place->path[end - first] = '\0';
    place->pci = last;
    return true;
}

const Place *place_list_gpu(const PlaceList *list, PciAddress pci)
{
    for (size_t i = 0; i < list->len; i++)
        if (!list->at[i].adapter[0] && pci_compare(list->at[i].pci, pci) == 0)
            return &list->at[i];
    return NULL;
}

static size_t count_parts(const char *path)
{
    size_t count = 0;

    for (; *path; path = next_part(path))
        count++;
    return count;
}

static size_t shared_parts(const char **a, const char **b)
{
    size_t count = 0;

    while (**a && **b && part_len(*a) == part_len(*b) && strncmp(*a, *b, part_len(*a)) == 0) {
        *a = next_part(*a);
        *b = next_part(*b);
        count++;
    }
    return count;
}

TopologyPath place_between(const Place *a, const Place *b)
{
    const char *left = a->path, *right = b->path;

    if (!left[0] || !right[0])
        return TOPOLOGY_UNKNOWN;
    const size_t shared = shared_parts(&left, &right), below_a = count_parts(left), below_b = count_parts(right);
    if (below_a == 0 && below_b == 0)
        return TOPOLOGY_SELF;
    if (shared == 0)
        return a->numa_node == b->numa_node ? TOPOLOGY_NODE : TOPOLOGY_SYS;
    if (shared == 1)
        return TOPOLOGY_PHB;
    return below_a <= PARTS_OF_ONE_SWITCH && below_b <= PARTS_OF_ONE_SWITCH ? TOPOLOGY_PIX : TOPOLOGY_PXB;
}
