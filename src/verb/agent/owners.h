/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose work is and was on each GPU, for incidents, from the holdings (engine/owner). A fault ends processes, often
 * before it is read: those that were there are known for OWNERS_KEPT_NS more, and for as long as the GPU cannot be
 * asked. Belongs to the triage; the loop's thread.
 */

#include "base/vec.h"
#include "model/incident.h"
#include "model/node.h"

#define OWNERS_KEPT_NS UINT64_C(30000000000)

typedef struct OwnedPart {
    uint32_t gpu_instance; /* DEVICE_NO_NUMBER: the whole GPU */
    uint64_t last_ns;      /* when it was seen */
    Owner owner;
} OwnedPart;

typedef struct OwnedGpu {
    PciAddress pci;
    uint64_t look_ns; /* when it could be asked last */
    VEC(OwnedPart) parts;
} OwnedGpu;

typedef struct Owners {
    VEC(OwnedGpu) gpus;
} Owners;

/* One tick. */
void owners_note(Owners *owners, const Node *node, const Holding *holdings, size_t count);
/* IncidentOwnersOf: of the Owners `self`. */
uint32_t owners_find(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS]);
void owners_done(Owners *owners); /* accepts a zeroed one */
