/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/agent/owners.h"

#include <string.h>

static OwnedGpu *find_gpu(Owners *owners, PciAddress pci)
{
    for (size_t i = 0; i < owners->gpus.len; i++)
        if (pci_compare(owners->gpus.at[i].pci, pci) == 0)
            return &owners->gpus.at[i];
    return NULL;
}

/* Notes a part as seen now. */
static void note_part(OwnedGpu *gpu, uint32_t gpu_instance, const Owner *owner)
{
    OwnedPart *part = NULL;

    if (!owner_is_known(owner))
        return;
    for (size_t i = 0; i < gpu->parts.len && !part; i++) {
        OwnedPart *old = &gpu->parts.at[i];

        if (old->gpu_instance == gpu_instance && old->owner.pid == owner->pid &&
            (owner->pid >= 0 ? old->owner.start_ns == owner->start_ns : owner_is_same(&old->owner, owner)))
            part = old;
    }
    if (!part)
        part = vec_add(&gpu->parts);
    *part = (OwnedPart){.gpu_instance = gpu_instance, .last_ns = gpu->look_ns, .owner = *owner};
}

/* Each of its processes, or the one to whom the device was given and who has none. A test of ours is nobody's work. */
static void note_holding(OwnedGpu *mine, const Holding *holding)
{
    Owner owner = holding->owner;

    if (holding->process_count == 0)
        note_part(mine, holding->gpu_instance, &owner);
    for (size_t i = 0; i < holding->process_count; i++) {
        const HoldingProcess *process = &holding->processes[i];

        if (holding_process_is_test(process))
            continue;
        owner.pid = (int32_t)process->pid;
        owner.start_ns = process->start_ns;
        memcpy(owner.user, process->user, sizeof owner.user);
        memcpy(owner.process, process->name, sizeof owner.process);
        note_part(mine, holding->gpu_instance, &owner);
    }
}

static void forget_old(OwnedGpu *gpu)
{
    for (size_t i = gpu->parts.len; i-- > 0;)
        if (gpu->look_ns - gpu->parts.at[i].last_ns > OWNERS_KEPT_NS)
            vec_remove(&gpu->parts, i);
}

void owners_note(Owners *owners, const Node *node, const Holding *holdings, size_t count)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];
        OwnedGpu *mine = gpu->reading.device.has_pci ? find_gpu(owners, gpu->reading.device.pci) : NULL;

        if (gpu->state != GPU_UP || !gpu->process_list.valid || !gpu->reading.device.has_pci)
            continue; /* what is known of it stays */
        if (!mine) {
            vec_push(&owners->gpus, ((OwnedGpu){.pci = gpu->reading.device.pci}));
            mine = &owners->gpus.at[owners->gpus.len - 1];
        }
        mine->look_ns = node->time_ns;
        for (size_t k = 0; k < count; k++)
            if (holdings[k].gpu == i)
                note_holding(mine, &holdings[k]);
        forget_old(mine);
    }
}

void owners_done(Owners *owners)
{
    for (size_t i = 0; i < owners->gpus.len; i++)
        vec_done(&owners->gpus.at[i].parts);
    vec_done(&owners->gpus);
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

typedef struct Found {
    Owner *out;
    uint32_t count;
} Found;

/* Each owner once. */
static void add_found(Found *found, const Owner *owner)
{
    for (uint32_t i = 0; i < found->count && i < INCIDENT_OWNERS; i++)
        if (owner_is_same(&found->out[i], owner))
            return;
    if (found->count < INCIDENT_OWNERS)
        found->out[found->count] = *owner;
    found->count += found->count <= INCIDENT_OWNERS;
}

static bool is_on(const OwnedPart *part, const Device *device)
{
    return device->gpu_instance == DEVICE_NO_NUMBER || part->gpu_instance == DEVICE_NO_NUMBER ||
           device->gpu_instance == part->gpu_instance;
}

/* Of those at the last look or, where there was nobody, of those shortly before. */
static void find_on_gpu(const OwnedGpu *gpu, const Device *device, Found *found)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < gpu->parts.len; i++)
        if (is_on(&gpu->parts.at[i], device) && gpu->parts.at[i].last_ns > last_ns)
            last_ns = gpu->parts.at[i].last_ns;
    for (size_t i = 0; i < gpu->parts.len; i++)
        if (is_on(&gpu->parts.at[i], device) && gpu->parts.at[i].last_ns == last_ns)
            add_found(found, &gpu->parts.at[i].owner);
}

uint32_t owners_find(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS])
{
    const Owners *owners = self;
    const bool wide = device->kind == DEVICE_NODE || device_is_switch(device);
    Found found = {.out = out};

    for (size_t i = 0; pid >= 0 && i < owners->gpus.len; i++) /* whoever it is, wherever it was seen */
        for (size_t k = 0; k < owners->gpus.at[i].parts.len && found.count == 0; k++)
            if (owners->gpus.at[i].parts.at[k].owner.pid == pid)
                add_found(&found, &owners->gpus.at[i].parts.at[k].owner);
    for (size_t i = 0; i < owners->gpus.len; i++)
        if (wide || (device->has_pci && pci_compare(owners->gpus.at[i].pci, device->pci) == 0))
            find_on_gpu(&owners->gpus.at[i], device, &found);
    return found.count;
}
