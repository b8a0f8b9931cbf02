/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's numbers of GPUs and instances. GPUs are asked for their PCI address one by one, once each, so that a
 * field suffices and no large struct with versions of its own is needed.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "source/dcgm/inside.h"

/* The list has 32 places in DCGM 2 to 4; more are kept free for a library that would write more. */
enum { LIST_CAP = 4 * DCGM_GPUS_MAX };

static const DcgmKnown *find_known_gpu(const Dcgm *dcgm, uint32_t id)
{
    for (uint32_t i = 0; i < dcgm->known_count; i++)
        if (dcgm->known[i].id == id)
            return &dcgm->known[i];
    return NULL;
}

/* False where the engine cannot tell: a GPU that is lost, say. */
static bool ask_address(Dcgm *dcgm, uint32_t id, PciAddress *ret_pci)
{
    DcgmEntity gpu = {.group = DCGM_ENTITY_GPU, .id = id};
    unsigned short field = DCGM_FIELD_PCI;
    DcgmFieldValue *value = &dcgm->values[0];
    int answer;

    *value = (DcgmFieldValue){.status = DCGM_NO_DATA};
    answer = DCGM_CALL(dcgm, dcgmEntitiesGetLatestValues, (dcgm->engine, &gpu, 1, &field, 1, DCGM_FLAG_LIVE, value));
    if (answer != DCGM_OK || value->status != DCGM_OK || value->type != DCGM_TYPE_TEXT ||
        !memchr(value->value.text, '\0', DCGM_TEXT_CAP))
        return false;
    return pci_parse(value->value.text, ret_pci) == 0;
}

static bool is_at(Dcgm *dcgm, uint32_t id, PciAddress gpu)
{
    const DcgmKnown *have = find_known_gpu(dcgm, id);
    PciAddress pci;

    if (have)
        return pci_compare(have->pci, gpu) == 0;
    if (!ask_address(dcgm, id, &pci))
        return false;
    if (dcgm->known_count < DCGM_GPUS_MAX)
        dcgm->known[dcgm->known_count++] = (DcgmKnown){.id = id, .pci = pci};
    return pci_compare(pci, gpu) == 0;
}

int dcgm_find_gpu(Dcgm *dcgm, PciAddress gpu, uint32_t *ret_id, Err *err)
{
    unsigned int ids[LIST_CAP] = {0};
    char text[PCI_TEXT_CAP];
    int count = 0, answer = DCGM_CALL(dcgm, dcgmGetAllDevices, (dcgm->engine, ids, &count));

    if (answer != DCGM_OK)
        return err_set(err, dcgm_answer_errno(answer), "dcgmGetAllDevices: %s (%d)", dcgm_answer_words(answer), answer);
    for (int i = 0; i < count && i < LIST_CAP; i++) {
        if (!is_at(dcgm, ids[i], gpu))
            continue;
        *ret_id = ids[i];
        return 0;
    }
    if (dcgm->lost)
        return err_set(err, -EPIPE, "DCGM's engine went away");
    return err_set(err, -ENODEV, "DCGM does not know a GPU at %s", pci_format(gpu, PCI_FORM_NVML, text));
}

/* An instance of this kind in that parent with NVML's numbers. */
static bool find_in(const DcgmHierarchy *all, DcgmEntity parent, uint32_t kind, const DcgmTarget *target,
                    uint32_t *ret_id)
{
    for (uint32_t i = 0; i < all->count && i < DCGM_HIERARCHY_MAX; i++) {
        const DcgmInstance *at = &all->instances[i];

        if (at->entity.group != kind || at->parent.group != parent.group || at->parent.id != parent.id ||
            at->gpu_instance != target->gpu_instance)
            continue;
        if (kind == DCGM_ENTITY_COMPUTE_INSTANCE && at->compute_instance != target->compute_instance)
            continue;
        *ret_id = at->entity.id;
        return true;
    }
    return false;
}

int dcgm_find_instances(Dcgm *dcgm, uint32_t gpu, const DcgmTarget *target, uint32_t *ret_gpu_instance,
                        uint32_t *ret_compute_instance, Err *err)
{
    CLEANUP_FREE DcgmHierarchy *all = xcalloc(1, sizeof *all);
    DcgmEntity parent = {.group = DCGM_ENTITY_GPU, .id = gpu};
    uint32_t compute_instance = 0;
    int answer;

    if (!dcgm->table_.dcgmGetGpuInstanceHierarchy)
        return err_set(err, -ENODEV, "'%s' cannot tell MIG devices: it has no dcgmGetGpuInstanceHierarchy", dcgm->name);
    all->version = DCGM_VERSION_WORD(DcgmHierarchy, 2);
    answer = DCGM_CALL(dcgm, dcgmGetGpuInstanceHierarchy, (dcgm->engine, all));
    if (answer != DCGM_OK)
        return err_set(err, dcgm_answer_errno(answer), "dcgmGetGpuInstanceHierarchy: %s (%d)",
                       dcgm_answer_words(answer), answer);
    if (find_in(all, parent, DCGM_ENTITY_GPU_INSTANCE, target, &parent.id)) {
        parent.group = DCGM_ENTITY_GPU_INSTANCE;
        if (find_in(all, parent, DCGM_ENTITY_COMPUTE_INSTANCE, target, &compute_instance)) {
            *ret_gpu_instance = parent.id;
            *ret_compute_instance = compute_instance;
            return 0;
        }
    }
    return err_set(err, -ENODEV, "DCGM does not know compute instance %u of GPU instance %u", target->compute_instance,
                   target->gpu_instance);
}
