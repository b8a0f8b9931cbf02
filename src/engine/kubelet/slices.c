/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as resource slices name them. A version must be a semantic one: "580.65.06" is "580.65.6" there. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/number.h"
#include "engine/kubelet/claim.h"

enum { VERSION_CAP = 64, NAME_CAP = 64, CUDA_MAJOR = 1000, CUDA_MINOR = 10 };

/* One device of the list. */
typedef struct Listed {
    const Device *gpu;
    const MakeGpu *made;       /* NULL: the driver did not say */
    const OfferUnit *unit;     /* NULL: a MIG device that is made when a claim has it */
    const MigProfile *profile; /* of a MIG device; NULL: not known */
    const MigBoard *board;
    unsigned start; /* MIG_START_ANY: not known */
    uint64_t memory_mib;
    unsigned blocked; /* places for MIG devices that it takes */
    size_t at;
} Listed;

typedef VEC(Listed) ListedAll;

static bool is_mig(const Listed *one)
{
    return !one->unit || one->unit->profile[0];
}

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
static void add_common(Str *out, const ClaimNode *node, const Listed *one)
{
    char text[VERSION_CAP];

    add_attribute(out, "type", "string", is_mig(one) ? "mig" : "gpu");
    add_attribute(out, "uuid", "string", one->unit ? one->unit->device.uuid : "");
    add_attribute(out, "productName", "string", one->gpu->name);
    if (one->made && one->made->compute_major) {
        add_architecture(out, one->made);
        snprintf(text, sizeof text, "%d.%d", one->made->compute_major, one->made->compute_minor);
        add_version(out, "cudaComputeCapability", text);
    }
    add_version(out, "driverVersion", node->make->driver_version);
    if (node->make->cuda_version > 0) {
        snprintf(text, sizeof text, "%d.%d", node->make->cuda_version / CUDA_MAJOR,
                 node->make->cuda_version % CUDA_MAJOR / CUDA_MINOR);
        add_version(out, "cudaDriverVersion", text);
    }
    add_place(out, node->snapshot, one->gpu);
}

/* --- MIG devices -------------------------------------------------------------------------------------------------- */

static const MigGpu *find_mig(const MigNode *mig, const char *uuid)
{
    for (size_t i = 0; mig && i < mig->count; i++)
        if (strcmp(mig->gpus[i].uuid, uuid) == 0)
            return &mig->gpus[i];
    return NULL;
}

/* Where its GPU instance lies. */
static void find_place(const MigNode *mig, Listed *one)
{
    const MigGpu *gpu = find_mig(mig, one->gpu->uuid);

    one->start = MIG_START_ANY;
    for (size_t k = 0; gpu && k < gpu->now.count; k++) {
        const MigInstance *instance = &gpu->now.instances[k];

        if (instance->id != one->unit->device.gpu_instance)
            continue;
        one->board = &gpu->board;
        one->profile = &gpu->board.profiles[instance->profile];
        one->start = instance->start;
    }
}

/* "gpu-0-mig-1g10gb-19-4": profile and place stand in it, so that it means the same after MIG devices are made anew. */
static bool name_mig(const Listed *one, char to[NAME_CAP])
{
    char word[MIG_NAME_SIZE];
    size_t n = 0;

    if (!one->profile || one->start == MIG_START_ANY)
        return false;
    for (const char *at = one->unit ? one->unit->profile : one->profile->name; *at && n + 1 < sizeof word; at++)
        if (*at != '.')
            word[n++] = (char)(*at == '+' ? '-' : *at);
    word[n] = '\0';
    snprintf(to, NAME_CAP, "gpu-%" PRIu32 "-mig-%s-%" PRIu32 "-%u", one->gpu->minor, word, one->profile->id,
             one->start);
    return true;
}

bool claim_read_place(const char *name, ClaimPlace *ret)
{
    const char *start = strrchr(name, '-'), *id = start;
    uint64_t numbers[2];

    while (id > name && id[-1] != '-')
        id--;
    if (!start || id == name || !strstr(name, "-mig-") ||
        number_parsen_u64(id, (size_t)(start - id), 0, UINT32_MAX, &numbers[0], NULL) < 0 ||
        number_parse_u64(start + 1, 0, MIG_GRID_MAX, &numbers[1], NULL) < 0)
        return false;
    ret->profile_id = (uint32_t)numbers[0];
    ret->start = (unsigned)numbers[1];
    return true;
}

static void add_made_capacity(Str *out, const Listed *one, const MakeInstance *made)
{
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
    for (unsigned i = 0; one->profile && i < one->profile->size; i++) {
        snprintf(name, sizeof name, "memorySlice%u", one->start + i);
        add_capacity(out, name, 1, "");
    }
}

/* Of one that is not there yet. */
static void add_profile_capacity(Str *out, const MigProfile *profile)
{
    add_capacity(out, "memory", profile->memory_mib, "Mi");
    add_capacity(out, "multiprocessors", profile->sm_count, "");
    add_capacity(out, "copyEngines", profile->copy_engines, "");
    add_capacity(out, "decoders", profile->engines[MIG_DECODER], "");
    add_capacity(out, "encoders", profile->engines[MIG_ENCODER], "");
    add_capacity(out, "jpegEngines", profile->engines[MIG_JPEG], "");
    add_capacity(out, "ofaEngines", profile->engines[MIG_OFA], "");
}

/* --- what MIG devices take of their GPU --------------------------------------------------------------------------- */

static const char *const engine_counters[MIG_ENGINE_END] = {"decoders", "encoders", "jpeg-engines", "ofa-engines"};

static void name_counters(const Device *gpu, char to[NAME_CAP])
{
    snprintf(to, NAME_CAP, "gpu-%" PRIu32 "-counter-set", gpu->minor);
}

/* Fewer of it can be made than have a place. */
static bool is_limited(const MigProfile *profile)
{
    return profile->max < (unsigned)__builtin_popcount(profile->starts);
}

static void name_limit(const MigProfile *profile, char to[NAME_CAP])
{
    snprintf(to, NAME_CAP, "profile-%" PRIu32, profile->id);
}

static void add_amounts(Str *out, unsigned slices, const uint8_t engines[MIG_ENGINE_END], unsigned start, unsigned size)
{
    char name[NAME_CAP];

    add_capacity(out, "compute-slices", slices, "");
    for (size_t i = 0; i < MIG_ENGINE_END; i++)
        if (engines[i])
            add_capacity(out, engine_counters[i], engines[i], "");
    for (unsigned i = start; i < start + size; i++) {
        snprintf(name, sizeof name, "memory-slice-%u", i);
        add_capacity(out, name, 1, "");
    }
}

static void add_consumed(Str *out, const Listed *one)
{
    const MigProfile *profile = one->profile;
    char name[NAME_CAP];

    name_counters(one->gpu, name);
    json_open(out, "consumesCounters", '[');
    json_open(out, NULL, '{');
    json_add_text(out, "counterSet", name);
    json_open(out, "counters", '{');
    add_amounts(out, profile->slices, profile->engines, one->start, profile->size);
    if (is_limited(profile)) {
        name_limit(profile, name);
        add_capacity(out, name, 1, "");
    }
    json_close(out, '}');
    json_close(out, '}');
    json_close(out, ']');
}

static void add_counter_set(Str *out, const Device *gpu, const MigBoard *board)
{
    char name[NAME_CAP];

    name_counters(gpu, name);
    json_open(out, NULL, '{');
    json_add_text(out, "name", name);
    json_open(out, "counters", '{');
    add_amounts(out, board->slices, board->engines, 0, board->grid);
    for (size_t i = 0; i < board->profile_count; i++)
        if (is_limited(&board->profiles[i])) {
            name_limit(&board->profiles[i], name);
            add_capacity(out, name, board->profiles[i].max, "");
        }
    json_close(out, '}');
    json_close(out, '}');
}

/* --- what there is to list ---------------------------------------------------------------------------------------- */

static bool is_claimed(const ClaimNode *node, const MigGpu *gpu, const MigInstance *instance)
{
    for (size_t i = 0; i < node->place_count; i++)
        if (strcmp(node->places[i].gpu, gpu->uuid) == 0 && node->places[i].start == instance->start &&
            node->places[i].profile_id == gpu->board.profiles[instance->profile].id)
            return true;
    return false;
}

/* Whether MIG devices are made on it; with what an operator made there it is left as it is. */
static bool is_divided(const ClaimNode *node, const MigGpu *gpu)
{
    if (!node->makes_mig || !gpu || !gpu->now.enabled || gpu->why[0])
        return false;
    for (size_t i = 0; i < gpu->now.count; i++)
        if (!is_claimed(node, gpu, &gpu->now.instances[i]))
            return false;
    return true;
}

static unsigned count_blocked(const MigBoard *board, const MigProfile *profile, unsigned start)
{
    const uint32_t taken = ((1u << profile->size) - 1) << start;
    unsigned count = 0;

    for (size_t i = 0; i < board->profile_count; i++)
        for (unsigned s = 0; s < MIG_GRID_MAX; s++)
            count += board->profiles[i].starts >> s & 1 && (((1u << board->profiles[i].size) - 1) << s & taken);
    return count;
}

static void list_places(const Listed *gpu, const MigBoard *board, ListedAll *to)
{
    for (size_t i = 0; i < board->profile_count; i++)
        for (unsigned start = 0; start < MIG_GRID_MAX; start++)
            if (board->profiles[i].starts >> start & 1) {
                Listed one = *gpu;

                one.board = board;
                one.profile = &board->profiles[i];
                one.start = start;
                one.memory_mib = one.profile->memory_mib;
                one.blocked = count_blocked(board, one.profile, start);
                one.at = to->len;
                vec_push(to, one);
            }
}

static void list_unit(const ClaimNode *node, const OfferUnit *unit, ListedAll *to)
{
    const Device *gpu = &node->snapshot->node->gpus[unit->gpu].reading.device;
    Listed one = {.gpu = gpu, .made = offer_find_make(node->make, gpu->uuid), .unit = unit, .at = to->len};
    const MakeInstance *instance = find_instance(one.made, unit->device.uuid);

    if (unit->profile[0] && is_divided(node, find_mig(node->mig, gpu->uuid)))
        return;
    if (unit->profile[0])
        find_place(node->mig, &one);
    one.memory_mib = instance ? instance->memory_mib : 0;
    vec_push(to, one);
}

static void list_all(const ClaimNode *node, ListedAll *to)
{
    const Offer *offer = node->offer;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++)
            list_unit(node, &offer->resources.at[i].units.at[k], to);
    for (size_t i = 0; i < offer->split.len; i++) {
        const Device *gpu = &node->snapshot->node->gpus[offer->split.at[i].gpu].reading.device;
        const MigGpu *mig = find_mig(node->mig, gpu->uuid);

        if (is_divided(node, mig))
            list_places(&(Listed){.gpu = gpu, .made = offer_find_make(node->make, gpu->uuid)}, &mig->board, to);
    }
}

/* Small ones first; of the same memory in the order of the GPUs, there the one first that leaves the most room. */
static int compare_listed(const void *a, const void *b)
{
    const Listed *x = a, *y = b;

    if (is_mig(x) != is_mig(y))
        return is_mig(x) ? -1 : 1;
    if (is_mig(x) && x->memory_mib != y->memory_mib)
        return x->memory_mib < y->memory_mib ? -1 : 1;
    if (x->gpu == y->gpu && x->blocked != y->blocked)
        return x->blocked < y->blocked ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void add_device(Str *out, const ClaimNode *node, const Listed *one)
{
    char name[NAME_CAP];

    if (one->gpu->minor == DEVICE_NO_NUMBER || (is_mig(one) && !name_mig(one, name)))
        return;
    if (!is_mig(one))
        snprintf(name, sizeof name, "gpu-%" PRIu32, one->gpu->minor);
    json_open(out, NULL, '{');
    json_add_text(out, "name", name);
    json_open(out, "attributes", '{');
    add_common(out, node, one);
    if (is_mig(one)) {
        add_attribute(out, "parentUUID", "string", one->gpu->uuid);
        add_attribute(out, "profile", "string", one->unit ? one->unit->profile : one->profile->name);
    }
    json_close(out, '}');
    json_open(out, "capacity", '{');
    if (!one->unit)
        add_profile_capacity(out, one->profile);
    else if (is_mig(one))
        add_made_capacity(out, one, find_instance(one->made, one->unit->device.uuid));
    else if (one->made)
        add_capacity(out, "memory", one->made->memory_mib, "Mi");
    json_close(out, '}');
    if (!one->unit)
        add_consumed(out, one);
    json_close(out, '}');
}

static void add_counter_sets(Str *out, const ClaimNode *node)
{
    for (size_t i = 0; i < node->offer->split.len; i++) {
        const Device *gpu = &node->snapshot->node->gpus[node->offer->split.at[i].gpu].reading.device;
        const MigGpu *mig = find_mig(node->mig, gpu->uuid);

        if (is_divided(node, mig) && gpu->minor != DEVICE_NO_NUMBER)
            add_counter_set(out, gpu, &mig->board);
    }
}

/* Whether the driver did not say, or not in full, what there is to say of a GPU: it may have been lost since it was
 * sampled. */
static bool is_unread(const ClaimNode *node, const NodeGpu *gpu)
{
    const MigGpu *mig = find_mig(node->mig, gpu->reading.device.uuid);

    return !offer_find_make(node->make, gpu->reading.device.uuid) || (gpu->reading.mig && (!mig || mig->why[0]));
}

static void add_unread(Str *out, const ClaimNode *node)
{
    const Node *all = node->snapshot->node;

    for (size_t i = 0; i < all->gpu_count; i++)
        if (is_unread(node, &all->gpus[i]))
            json_add_text(out, NULL, all->gpus[i].reading.device.uuid);
}

void claim_devices(const ClaimNode *node, Str *out)
{
    CLEANUP_VEC ListedAll all = {0};

    list_all(node, &all);
    vec_sort(&all, compare_listed);
    json_open(out, NULL, '{');
    json_open(out, "devices", '[');
    for (size_t i = 0; i < all.len; i++)
        add_device(out, node, &all.at[i]);
    json_close(out, ']');
    json_open(out, "sharedCounters", '[');
    add_counter_sets(out, node);
    json_close(out, ']');
    json_open(out, "unread", '[');
    add_unread(out, node);
    json_close(out, ']');
    json_close(out, '}');
}
