/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as resource slices name them. A version must be a semantic one: "580.65.06" is "580.65.6" there. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "engine/kubelet/claim.h"

enum { VERSION_CAP = 64, NAME_CAP = 64, CUDA_MAJOR = 1000, CUDA_MINOR = 10 };

static void add_attribute(Str *out, const char *name, const char *type, const char *value)
{
    if (!value[0])
        return;
    json_open(out, name, '{');
    json_add_text(out, type, value);
    json_close(out, '}');
}

static void add_version(Str *out, const char *name, const char *text)
{
    unsigned parts[3] = {0};
    char version[VERSION_CAP];

    if (sscanf(text, "%6u.%6u.%6u", &parts[0], &parts[1], &parts[2]) < 1)
        return;
    snprintf(version, sizeof version, "%u.%u.%u", parts[0], parts[1], parts[2]);
    add_attribute(out, name, "version", version);
}

static void add_capacity(Str *out, const char *name, uint64_t value, const char *unit)
{
    char text[NAME_CAP];

    snprintf(text, sizeof text, "%" PRIu64 "%s", value, unit);
    json_open(out, name, '{');
    json_add_text(out, "value", text);
    json_close(out, '}');
}

/* --- where a device is -------------------------------------------------------------------------------------------- */

static void add_place(Str *out, const Snapshot *snapshot, const Device *gpu)
{
    const Place *place = gpu->has_pci ? place_list_gpu(&snapshot->places, gpu->pci) : NULL;
    char pci[PCI_TEXT_CAP], root[PLACE_PATH_CAP];

    if (gpu->has_pci)
        add_attribute(out, "resource.kubernetes.io/pciBusID", "string", pci_format(gpu->pci, PCI_FORM_SYSFS, pci));
    if (!place)
        return;
    snprintf(root, sizeof root, "%.*s", (int)strcspn(place->path, "/"), place->path);
    add_attribute(out, "resource.kubernetes.io/pcieRoot", "string", root);
    if (place->numa_node >= 0) {
        json_open(out, "resource.kubernetes.io/numaNode", '{');
        json_add_i64(out, "int", place->numa_node);
        json_close(out, '}');
    }
}

/* --- what it is --------------------------------------------------------------------------------------------------- */

static const MakeInstance *find_instance(const MakeGpu *made, const char *uuid)
{
    for (size_t i = 0; made && i < made->instance_count; i++)
        if (strcmp(made->instances[i].uuid, uuid) == 0)
            return &made->instances[i];
    return NULL;
}

/* "Ada Lovelace" of the label's "ada-lovelace". */
static void add_architecture(Str *out, const MakeGpu *made)
{
    char text[NAME_CAP];

    snprintf(text, sizeof text, "%s", offer_family(made));
    for (char *at = text; *at; at++) {
        if (*at == '-')
            *at = ' ';
        if (at == text || at[-1] == ' ')
            *at = (char)toupper((unsigned char)*at);
    }
    add_attribute(out, "architecture", "string", text);
}

/* What GPUs and their MIG devices have in common. */
static void add_common(Str *out, const Snapshot *snapshot, const MakeNode *make, const MakeGpu *made,
                       const OfferUnit *unit)
{
    const Device *gpu = &snapshot->node->gpus[unit->gpu].reading.device;
    char text[VERSION_CAP];

    add_attribute(out, "type", "string", unit->profile[0] ? "mig" : "gpu");
    add_attribute(out, "uuid", "string", unit->device.uuid);
    add_attribute(out, "productName", "string", gpu->name);
    if (made && made->compute_major) {
        add_architecture(out, made);
        snprintf(text, sizeof text, "%d.%d", made->compute_major, made->compute_minor);
        add_version(out, "cudaComputeCapability", text);
    }
    add_version(out, "driverVersion", make->driver_version);
    if (make->cuda_version > 0) {
        snprintf(text, sizeof text, "%d.%d", make->cuda_version / CUDA_MAJOR,
                 make->cuda_version % CUDA_MAJOR / CUDA_MINOR);
        add_version(out, "cudaDriverVersion", text);
    }
    add_place(out, snapshot, gpu);
}

/* --- MIG devices -------------------------------------------------------------------------------------------------- */

/* Where the GPU instance lies; NULL: not known. */
static const MigInstance *find_place(const MigNode *mig, const OfferUnit *unit, const char *gpu,
                                     const MigProfile **ret_profile)
{
    for (size_t i = 0; i < mig->count; i++)
        for (size_t k = 0; strcmp(mig->gpus[i].uuid, gpu) == 0 && k < mig->gpus[i].now.count; k++) {
            const MigInstance *one = &mig->gpus[i].now.instances[k];

            *ret_profile = &mig->gpus[i].board.profiles[one->profile];
            if (one->id == unit->device.gpu_instance)
                return one;
        }
    return NULL;
}

/* "gpu-0-mig-1g10gb-19-4": profile and place stand in it, so that it means the same after MIG devices are made anew. */
static bool name_mig(const MigNode *mig, const Device *gpu, const OfferUnit *unit, char to[NAME_CAP])
{
    const MigProfile *profile;
    const MigInstance *place = find_place(mig, unit, gpu->uuid, &profile);
    char word[MIG_NAME_SIZE];
    size_t n = 0;

    if (!place || place->start == MIG_START_ANY)
        return false;
    for (const char *at = unit->profile; *at && n + 1 < sizeof word; at++)
        if (*at != '.')
            word[n++] = (char)(*at == '+' ? '-' : *at);
    word[n] = '\0';
    snprintf(to, NAME_CAP, "gpu-%" PRIu32 "-mig-%s-%" PRIu32 "-%u", gpu->minor, word, profile->id, place->start);
    return true;
}

static void add_mig_capacity(Str *out, const MigNode *mig, const Device *gpu, const OfferUnit *unit,
                             const MakeInstance *made)
{
    const MigProfile *profile;
    const MigInstance *place = find_place(mig, unit, gpu->uuid, &profile);
    char name[NAME_CAP];

    if (!made)
        return;
    add_capacity(out, "memory", made->memory_mib, "Mi");
    add_capacity(out, "multiprocessors", made->multiprocessors, "");
    add_capacity(out, "copyEngines", made->copy_engines, "");
    add_capacity(out, "decoders", made->decoders, "");
    add_capacity(out, "encoders", made->encoders, "");
    add_capacity(out, "jpegEngines", made->jpeg_engines, "");
    add_capacity(out, "ofaEngines", made->ofa_engines, "");
    for (unsigned i = 0; place && i < profile->size; i++) {
        snprintf(name, sizeof name, "memorySlice%u", place->start + i);
        add_capacity(out, name, 1, "");
    }
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void add_device(Str *out, const Snapshot *snapshot, const MakeNode *make, const MigNode *mig,
                       const OfferUnit *unit)
{
    const Device *gpu = &snapshot->node->gpus[unit->gpu].reading.device;
    const MakeGpu *made = offer_find_make(make, gpu->uuid);
    const MakeInstance *instance = find_instance(made, unit->device.uuid);
    char name[NAME_CAP];

    if (gpu->minor == DEVICE_NO_NUMBER || (unit->profile[0] && !name_mig(mig, gpu, unit, name)))
        return;
    if (!unit->profile[0])
        snprintf(name, sizeof name, "gpu-%" PRIu32, gpu->minor);
    json_open(out, NULL, '{');
    json_add_text(out, "name", name);
    json_open(out, "attributes", '{');
    add_common(out, snapshot, make, made, unit);
    if (unit->profile[0]) {
        add_attribute(out, "parentUUID", "string", gpu->uuid);
        add_attribute(out, "profile", "string", unit->profile);
    }
    json_close(out, '}');
    json_open(out, "capacity", '{');
    if (unit->profile[0])
        add_mig_capacity(out, mig, gpu, unit, instance);
    else if (made)
        add_capacity(out, "memory", made->memory_mib, "Mi");
    json_close(out, '}');
    json_close(out, '}');
}

/* Small ones first; of the same memory in the order of the GPUs. */
typedef struct Ranked {
    const OfferUnit *unit;
    uint64_t memory_mib;
    size_t at;
} Ranked;

static int compare_ranked(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    const bool x_whole = !x->unit->profile[0], y_whole = !y->unit->profile[0];

    if (x_whole != y_whole)
        return x_whole - y_whole;
    if (!x_whole && x->memory_mib != y->memory_mib)
        return x->memory_mib < y->memory_mib ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

void claim_devices(const Snapshot *snapshot, const MakeNode *make, const MigNode *mig, const Offer *offer, Str *out)
{
    CLEANUP_VEC VEC(Ranked) all = {0};

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++) {
            const OfferUnit *unit = &offer->resources.at[i].units.at[k];
            const MakeGpu *made = offer_find_make(make, snapshot->node->gpus[unit->gpu].reading.device.uuid);
            const MakeInstance *instance = find_instance(made, unit->device.uuid);

            vec_push(&all, ((Ranked){unit, instance ? instance->memory_mib : 0, all.len}));
        }
    vec_sort(&all, compare_ranked);
    json_open(out, NULL, '[');
    for (size_t i = 0; i < all.len; i++)
        add_device(out, snapshot, make, mig, all.at[i].unit);
    json_close(out, ']');
}
