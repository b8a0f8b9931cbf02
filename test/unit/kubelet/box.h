/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A small node for tests of what is offered: GPUs in pairs behind a host bridge each, the first half near NUMA node 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kubelet/offer.h"

enum { GPUS_MAX = 16, LINKS = 6, INSTANCES = 7, FAULTS_MAX = 4 };

/* A node whose links are drawn by a seed. */
typedef struct Box {
    Node node;
    NodeGpu gpus[GPUS_MAX];
    NodeLink links[GPUS_MAX][LINKS];
    Reading instances[GPUS_MAX][INSTANCES];
    Place places[GPUS_MAX];
    Incident faults[FAULTS_MAX];
    const Incident *incidents[FAULTS_MAX];
    Snapshot snapshot;
} Box;

static inline PciAddress address(unsigned bus)
{
    return (PciAddress){.bus = (uint8_t)bus};
}

static inline Box *make_box(size_t count)
{
    Box *box = calloc(1, sizeof *box);

    assert_non_null(box);
    box->node.gpus = box->gpus;
    box->node.gpu_count = count;
    for (size_t i = 0; i < count; i++) {
        Device *d = &box->gpus[i].reading.device;

        reading_init(&box->gpus[i].reading, DEVICE_GPU);
        d->index = (uint32_t)i;
        d->has_pci = true;
        d->pci = address((unsigned)i + 1);
        snprintf(d->uuid, sizeof d->uuid, "GPU-%zu", i);
        box->places[i] = (Place){.pci = d->pci, .numa_node = i < count / 2 ? 0 : 1};
        snprintf(box->places[i].path, sizeof box->places[i].path, "pci0000:%02zx/0000:%02zx:00.0", i / 2, i + 1);
    }
    box->snapshot = (Snapshot){.node = &box->node, .places = {box->places, count}, .incidents = box->incidents};
    return box;
}

static inline void link_up(Box *box, size_t gpu, PciAddress to)
{
    NodeLink *link = &box->links[gpu][box->gpus[gpu].link_count];

    if (box->gpus[gpu].link_count == LINKS)
        return;
    sample_set_int64(&link->active, 1, 1);
    sample_set_int64(&link->remote, 1, pci_pack(to));
    box->gpus[gpu].links = box->links[gpu];
    box->gpus[gpu].link_count++;
}

static inline void split(Box *box, size_t gpu, size_t count, const char *profile)
{
    box->gpus[gpu].reading.mig = true;
    box->gpus[gpu].instances = box->instances[gpu];
    box->gpus[gpu].instance_count = count;
    for (size_t i = 0; i < count; i++) {
        Reading *one = &box->instances[gpu][i];

        reading_init(one, DEVICE_COMPUTE_INSTANCE);
        one->device.gpu_instance = (uint32_t)i + 7;
        one->device.compute_instance = 0;
        snprintf(one->device.uuid, sizeof one->device.uuid, "MIG-%zu-%zu", gpu, i);
        snprintf(one->profile, sizeof one->profile, "%s", profile);
    }
}

static inline Offer offer_of(const Box *box, const OfferConfig *config)
{
    Offer offer = {0};

    offer_make(&box->snapshot, config, NULL, 0, &offer);
    return offer;
}

static inline void open_incident(Box *box, size_t gpu, uint32_t gpu_instance, int32_t code)
{
    const size_t at = box->snapshot.incident_count++;
    Incident *incident = &box->faults[at];

    assert_true(at < FAULTS_MAX);
    *incident = (Incident){.state = INCIDENT_OPEN,
                           .cause = CAUSE_MEMORY,
                           .severity = SEVERITY_FATAL,
                           .action = ACTION_DRAIN_AND_RESET,
                           .code = code,
                           .code_count = 1,
                           .codes = {code}};
    incident->device = box->gpus[gpu].reading.device;
    incident->device.gpu_instance = gpu_instance;
    snprintf(incident->title, sizeof incident->title, "a fault");
    snprintf(incident->id, sizeof incident->id, "1abc");
    box->incidents[at] = incident;
}
