/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver tells of pairs is whether peer to peer over NVLink works, and of links where they lead. Where it does
 * not tell the latter it is known only if all lead to one place: to NVSwitches, or to the only other GPU. Paths over
 * PCIe are the kernel's.
 */
#include "service/top/joined.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/top/value.h"

JoinedLinks joined_links(const NodeGpu *gpu)
{
    JoinedLinks links = {0};

    for (uint32_t i = 0; i < gpu->link_count; i++) {
        const NodeLink *link = &gpu->links[i];
        int64_t up;

        if (sample_int64(&link->active, &up)) {
            links.all++;
            links.up += up != 0;
        } else if (link->active.absence != ABSENCE_NOT_SUPPORTED) {
            links.all++;
            links.unknown++;
        }
        for (size_t k = 0; k < NODE_LINK_ERROR_END; k++) {
            double errors;
            if (sample_double(&link->errors[k], &errors))
                links.errors += errors;
        }
    }
    return links;
}

bool joined_links_missing(const JoinedLinks *links)
{
    return links->up + links->unknown < links->all;
}

/* 3 is complete (nvmlGpuFabricState_t, nvml.h). */
bool joined_on_fabric(const NodeGpu *gpu)
{
    return value_raw(&gpu->reading, METRIC_FABRIC_MANAGER_STATUS) == 3;
}

void joined_find(const Snapshot *snapshot, JoinedList *ret)
{
    const Node *node = snapshot->node;
    const PlaceList *places = &snapshot->places;
    uint32_t adapters = 0;

    ret->len = 0;
    for (size_t i = 0; i < node->gpu_count && i < NODE_GPUS_MAX; i++) {
        const Device *device = &node->gpus[i].reading.device;

        ret->at[ret->len++] = (Joined){.gpu = &node->gpus[i],
                                       .place = device->has_pci ? place_list_gpu(places, device->pci) : NULL,
                                       .number = device->index};
    }
    for (size_t i = 0; i < places->len && ret->len < JOINED_MAX; i++)
        if (places->at[i].adapter[0])
            ret->at[ret->len++] = (Joined){.place = &places->at[i], .number = adapters++};
}

const char *joined_name(const Joined *one, char out[JOINED_TEXT_CAP])
{
    if (one->number == DEVICE_NO_NUMBER)
        return strcpy(out, "GPU?");
    snprintf(out, JOINED_TEXT_CAP, "%s%" PRIu32, one->gpu ? "GPU" : "NIC", one->number);
    return out;
}

static bool peer_status(const NodeGpu *a, const NodeGpu *b, PeerStatus *ret)
{
    for (size_t i = 0; i < a->peer_count; i++) {
        int64_t status;

        if (a->peers[i].index == b->reading.device.index && sample_int64(&a->peers[i].status, &status) && status >= 0 &&
            status < PEER_STATUS_END) {
            *ret = (PeerStatus)status;
            return true;
        }
    }
    return false;
}

static const char *pcie_text(const Joined *a, const Joined *b, char out[JOINED_TEXT_CAP])
{
    const TopologyPath path = a->place && b->place ? place_between(a->place, b->place) : TOPOLOGY_UNKNOWN;

    return strcpy(out, topology_path_text(path));
}

static bool is_gpu(const Node *node, PciAddress pci)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].reading.device.has_pci && pci_compare(node->gpus[i].reading.device.pci, pci) == 0)
            return true;
    return false;
}

/* Links of `a` that are up and lead to `b`, or to what is no GPU: a switch. False where of one it is not known. */
static bool links_towards(const Node *node, const NodeGpu *a, const NodeGpu *b, uint32_t *ret)
{
    *ret = 0;
    for (uint32_t i = 0; i < a->link_count; i++) {
        const NodeLink *link = &a->links[i];
        int64_t up, remote;
        PciAddress pci;

        if (!sample_int64(&link->active, &up) || !up)
            continue;
        if (!sample_int64(&link->remote, &remote) || !pci_unpack(remote, &pci))
            return false;
        *ret += (b->reading.device.has_pci && pci_compare(pci, b->reading.device.pci) == 0) || !is_gpu(node, pci);
    }
    return true;
}

static uint32_t links_between(const Node *node, const NodeGpu *a, const NodeGpu *b)
{
    const bool all_lead_there = node->gpu_count == 2 || (joined_on_fabric(a) && joined_on_fabric(b));
    uint32_t there, back;

    if (!links_towards(node, a, b, &there) || !links_towards(node, b, a, &back)) {
        there = all_lead_there ? joined_links(a).up : 0;
        back = joined_links(b).up;
    }
    return there < back ? there : back;
}

static const char *nvlink_text(const Node *node, const NodeGpu *a, const NodeGpu *b, char out[JOINED_TEXT_CAP],
                               Ink *ink)
{
    const JoinedLinks left = joined_links(a), right = joined_links(b);
    const uint32_t count = links_between(node, a, b);

    *ink = joined_links_missing(&left) || joined_links_missing(&right) ? INK_BAD : INK_GOOD;
    if (count > 0)
        snprintf(out, JOINED_TEXT_CAP, "NV%" PRIu32, count);
    else
        strcpy(out, "NV");
    return out;
}

const char *joined_pair(const Node *node, const Joined *a, const Joined *b, char out[JOINED_TEXT_CAP], Ink *ink)
{
    PeerStatus status = PEER_UNKNOWN;

    *ink = INK_DIM;
    if (a == b)
        return strcpy(out, "X");
    if ((a->gpu && a->gpu->state != GPU_UP) || (b->gpu && b->gpu->state != GPU_UP)) {
        *ink = INK_BAD;
        return strcpy(out, "down");
    }
    if (a->gpu && b->gpu && (!peer_status(a->gpu, b->gpu, &status) || status == PEER_UNKNOWN) &&
        joined_on_fabric(a->gpu) && joined_on_fabric(b->gpu))
        status = PEER_OK; /* nobody asked about the pair; the fabric joins them */
    if (status == PEER_OK)
        return nvlink_text(node, a->gpu, b->gpu, out, ink);
    if (status == PEER_DISABLED_BY_REGKEY) {
        *ink = INK_WARN;
        return strcpy(out, "off");
    }
    pcie_text(a, b, out);
    return status != PEER_UNKNOWN && strcmp(out, "?") == 0 ? strcpy(out, "no") : out;
}

const Joined *joined_nearest(const JoinedList *list, const Joined *gpu, size_t *ret_more)
{
    const Joined *nearest = NULL;
    TopologyPath best = TOPOLOGY_NODE;

    *ret_more = 0;
    for (size_t i = 0; i < list->len; i++) {
        const Joined *one = &list->at[i];

        if (one->gpu || !gpu->place)
            continue;
        const TopologyPath path = place_between(gpu->place, one->place);
        if (path < best) {
            nearest = one;
            best = path;
            *ret_more = 0;
        } else if (nearest && path == best) {
            ++*ret_more;
        }
    }
    return nearest;
}
