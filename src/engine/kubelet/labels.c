/* SPDX-License-Identifier: Apache-2.0 */
/* Labels in the words of gpu-feature-discovery, from what is offered. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/health/incidents.h"
#include "engine/kubelet/offer.h"
#include "model/peak.h"
#include "engine/mig/mig.h"

enum { LABELS_MAX = 1024, LABEL_CAP = 192, VALUE_MAX = 63, MODELS_MAX = 16, ROOMS_MAX = 64 };
#define PREFIX "nvidia.com/"
#define OWN_PREFIX "stoker.dev/"
#define WHOLE "nvidia.com/gpu"

typedef struct Labels {
    size_t count;
    char lines[LABELS_MAX][LABEL_CAP];
} Labels;

/* A value holds at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit. */
static void clean_value(char *value)
{
    size_t n = 0;

    for (const char *at = value; *at && n < VALUE_MAX; at++)
        if (isalnum((unsigned char)*at) || strchr("-_.", *at))
            value[n++] = *at;
        else if (*at == ' ')
            value[n++] = '-';
    while (n > 0 && !isalnum((unsigned char)value[n - 1]))
        n--;
    value[n] = '\0';
    const size_t skip = strcspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    memmove(value, value + skip, strlen(value + skip) + 1);
}

PRINTF_LIKE(3, 4)
static void add_label(Labels *labels, const char *key, const char *fmt, ...)
{
    char value[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    clean_value(value);
    if (labels->count < LABELS_MAX)
        snprintf(labels->lines[labels->count++], LABEL_CAP, "%.100s=%.63s", key, value);
}

PRINTF_LIKE(4, 5)
static void add_under(Labels *labels, const char *group, const char *name, const char *fmt, ...)
{
    char key[128], value[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    snprintf(key, sizeof key, PREFIX "%.63s.%s", group, name);
    add_label(labels, key, "%s", value);
}

/* --- the driver --------------------------------------------------------------------------------------------------- */

/* "580.65.06" has three parts, "570.1" two. */
static void add_versions(Labels *labels, const MakeNode *make)
{
    char parts[3][32] = {"", "", ""};
    const int major = make->cuda_version / 1000, minor = make->cuda_version % 1000 / 10;

    if (sscanf(make->driver_version, "%31[^.].%31[^.].%31[^.]", parts[0], parts[1], parts[2]) >= 2) {
        add_label(labels, PREFIX "cuda.driver.major", "%s", parts[0]);
        add_label(labels, PREFIX "cuda.driver.minor", "%s", parts[1]);
        add_label(labels, PREFIX "cuda.driver.rev", "%s", parts[2]);
        add_label(labels, PREFIX "cuda.driver-version.major", "%s", parts[0]);
        add_label(labels, PREFIX "cuda.driver-version.minor", "%s", parts[1]);
        add_label(labels, PREFIX "cuda.driver-version.revision", "%s", parts[2]);
        add_label(labels, PREFIX "cuda.driver-version.full", "%s", make->driver_version);
    }
    if (make->cuda_version <= 0)
        return;
    add_label(labels, PREFIX "cuda.runtime.major", "%d", major);
    add_label(labels, PREFIX "cuda.runtime.minor", "%d", minor);
    add_label(labels, PREFIX "cuda.runtime-version.major", "%d", major);
    add_label(labels, PREFIX "cuda.runtime-version.minor", "%d", minor);
    add_label(labels, PREFIX "cuda.runtime-version.full", "%d.%d", major, minor);
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

const MakeGpu *offer_find_make(const MakeNode *make, const char *uuid)
{
    for (size_t i = 0; i < make->count; i++)
        if (strcmp(make->gpus[i].uuid, uuid) == 0)
            return &make->gpus[i];
    return NULL;
}

static const MakeInstance *find_instance(const MakeNode *make, const char *uuid)
{
    for (size_t i = 0; i < make->count; i++)
        for (size_t k = 0; k < make->gpus[i].instance_count; k++)
            if (strcmp(make->gpus[i].instances[k].uuid, uuid) == 0)
                return &make->gpus[i].instances[k];
    return NULL;
}

const char *offer_family(const MakeGpu *make)
{
    static const struct {
        int major, minor;
        const char *name;
    } families[] = {{13, 0, "rubin"},  {10, 0, "blackwell"}, {9, 0, "hopper"}, {8, 9, "ada-lovelace"},
                    {8, 0, "ampere"},  {7, 5, "turing"},     {7, 0, "volta"},  {6, 0, "pascal"},
                    {5, 0, "maxwell"}, {3, 0, "kepler"},     {2, 0, "fermi"},  {1, 0, "tesla"}};

    for (size_t i = 0; i < sizeof families / sizeof families[0] && make->compute_major <= 13; i++)
        if (make->compute_major > families[i].major ||
            (make->compute_major == families[i].major && make->compute_minor >= families[i].minor))
            return families[i].name;
    return "undefined";
}

/* The models of the node, each with the first GPU of it; the primary one in *ret_primary. */
static size_t find_models(const Node *node, size_t firsts[MODELS_MAX], size_t counts[MODELS_MAX], size_t *ret_primary)
{
    size_t count = 0;

    *ret_primary = 0;
    for (size_t i = 0; i < node->gpu_count; i++) {
        size_t at = 0;

        if (!node->gpus[i].reading.device.uuid[0])
            continue;
        while (at < count && strcmp(node->gpus[firsts[at]].reading.device.name, node->gpus[i].reading.device.name) != 0)
            at++;
        if (at == MODELS_MAX)
            continue;
        if (at == count) {
            firsts[count] = i;
            counts[count++] = 0;
        }
        counts[at]++;
    }
    for (size_t i = 1; i < count; i++)
        if (counts[i] > counts[*ret_primary])
            *ret_primary = i;
    return count;
}

/* How often each device is offered, and the model's name, which says that it is shared where the resource does not. */
static void add_sharing(Labels *labels, const char *group, const char *model, const OfferResource *resource)
{
    const bool shared = resource->replicas > 1;
    const bool renamed = shared && strstr(resource->name, ".shared");

    add_under(labels, group, "product", "%s%s", model, shared && !renamed ? "-SHARED" : "");
    add_under(labels, group, "replicas", "%" PRIu32, resource->replicas);
    add_under(labels, group, "sharing-strategy", "%s", offer_sharings[resource->sharing].key);
}

/* The labels of a resource whose devices are MIG devices; `product`: the model with the profile. */
static void add_parts(Labels *labels, const char *group, const char *product, const MakeNode *make,
                      const OfferResource *resource)
{
    const MakeInstance *made = find_instance(make, resource->units.at[0].device.uuid);

    add_sharing(labels, group, product, resource);
    add_under(labels, group, "count", "%zu", resource->units.len);
    if (!made)
        return;
    add_under(labels, group, "memory", "%" PRIu64, made->memory_mib);
    add_under(labels, group, "multiprocessors", "%" PRIu32, made->multiprocessors);
    add_under(labels, group, "slices.gi", "%" PRIu32, made->gpu_slices);
    add_under(labels, group, "slices.ci", "%" PRIu32, made->compute_slices);
    add_under(labels, group, "engines.copy", "%" PRIu32, made->copy_engines);
    add_under(labels, group, "engines.decoder", "%" PRIu32, made->decoders);
    add_under(labels, group, "engines.encoder", "%" PRIu32, made->encoders);
    add_under(labels, group, "engines.jpeg", "%" PRIu32, made->jpeg_engines);
    add_under(labels, group, "engines.ofa", "%" PRIu32, made->ofa_engines);
}

static const OfferResource *find_whole(const Offer *offer)
{
    const OfferResource *found = offer_find(offer, WHOLE);

    return found ? found : offer_find(offer, WHOLE ".shared");
}

/* Memory moves twice in a clock, whatever its kind: the driver gives the clock of GDDR6X and HBM alike so. */
static void add_peaks(Labels *labels, const MakeGpu *make, const char *model)
{
    static const PeakType types[] = {PEAK_FP4, PEAK_FP8, PEAK_FP16, PEAK_FP64};
    const uint64_t peak_mb_s = (uint64_t)make->memory_max_mhz * 2 * make->memory_bus_bits / 8;
    const Peak *peak = peak_find(model);
    char key[64];

    if (peak_mb_s)
        add_label(labels, OWN_PREFIX "gpu.peak.memory-gb-s", "%" PRIu64, peak_mb_s / 1000);
    for (size_t i = 0; peak && i < ARRAY_LEN(types); i++) {
        snprintf(key, sizeof key, OWN_PREFIX "gpu.peak.tflops-%s", peak_type_words[types[i]]);
        if (peak->tflops[types[i]] >= 1)
            add_label(labels, key, "%.0f", peak->tflops[types[i]]);
    }
}

/* The part that is the same whatever is offered of the GPU. */
static void add_model(Labels *labels, const MakeGpu *make, const char *model)
{
    add_under(labels, "gpu", "family", "%s", offer_family(make));
    add_under(labels, "gpu", "compute.major", "%d", make->compute_major);
    add_under(labels, "gpu", "compute.minor", "%d", make->compute_minor);
    add_peaks(labels, make, model);
}

static void add_whole(Labels *labels, const Snapshot *snapshot, const MakeNode *make, const OfferConfig *config,
                      const Offer *offer, const LabelHost *host, const Device *model)
{
    const OfferResource *resource = find_whole(offer);
    const MakeGpu *made = offer_find_make(make, model->uuid);
    const OfferUnit *first = resource ? &resource->units.at[0] : NULL;
    bool split = false;

    for (size_t i = 0; i < snapshot->node->gpu_count; i++)
        split |= snapshot->node->gpus[i].reading.mig;
    if (made)
        add_model(labels, made, model->name);
    if (config->mig == OFFER_MIG_SINGLE && split && !resource) {
        add_under(labels, "gpu", "product", "%s-MIG-INVALID", model->name);
        add_under(labels, "gpu", "count", "0");
        add_under(labels, "gpu", "replicas", "0");
        add_under(labels, "gpu", "memory", "0");
        add_under(labels, "gpu", "sharing-strategy", "%s", "");
        return;
    }
    if (first && first->profile[0]) {
        char name[DEVICE_NAME_CAP + MIG_NAME_SIZE + 8];

        snprintf(name, sizeof name, "%s-MIG-%s", model->name, first->profile);
        add_parts(labels, "gpu", name, make, resource);
        return;
    }
    const OfferResource none = {.replicas = 0};
    add_sharing(labels, "gpu", model->name, resource && !(host->physical && split) ? resource : &none);
    add_under(labels, "gpu", "count", "%zu",
              host->physical ? snapshot->node->gpu_count
              : resource     ? resource->units.len
                             : 0);
    if (made)
        add_under(labels, "gpu", "memory", "%" PRIu64, made->memory_mib);
}

/* The resources of MIG devices, each with labels of its own. */
static void add_mixed(Labels *labels, const MakeNode *make, const Offer *offer, const Snapshot *snapshot)
{
    for (size_t i = 0; i < offer->resources.len; i++) {
        const OfferResource *resource = &offer->resources.at[i];
        const char *slash = strchr(resource->name, '/') + 1, *shared = strstr(slash, ".shared");
        const OfferUnit *first = &resource->units.at[0];
        char group[OFFER_NAME_CAP], model[DEVICE_NAME_CAP + MIG_NAME_SIZE + 8];

        if (strncmp(slash, "mig-", 4) != 0)
            continue;
        snprintf(group, sizeof group, "%.*s", shared ? (int)(shared - slash) : (int)strlen(slash), slash);
        snprintf(model, sizeof model, "%s-MIG-%.*s", snapshot->node->gpus[first->gpu].reading.device.name,
                 (int)strlen(group) - 4, group + 4);
        add_parts(labels, group, model, make, resource);
    }
}

/* --- the node ----------------------------------------------------------------------------------------------------- */

/* The worst open problem, but for faults of programs and of the monitoring itself. */
static void add_health(Labels *labels, const Snapshot *snapshot)
{
    FaultSeverity worst = SEVERITY_INFO;

    for (size_t i = 0; i < snapshot->incident_count; i++) {
        const Incident *one = snapshot->incidents[i];

        if (incident_is_problem(one) && one->cause != CAUSE_APPLICATION && one->action != ACTION_CHECK_MONITOR &&
            one->severity > worst)
            worst = one->severity;
    }
    add_label(labels, OWN_PREFIX "gpu.health", "%s", worst > SEVERITY_INFO ? fault_severities[worst].key : "ok");
}

/* The NVLink domain, where all GPUs are in the same: "UUID.CLIQUE". One whose NVLinks do not leave the node has zeros
 * for a UUID, which would make one domain of all such nodes. */
static void add_domain(Labels *labels, const char *fabric)
{
    const size_t len = strcspn(fabric, ".");

    if (strspn(fabric, "0-") == len)
        return;
    add_label(labels, OWN_PREFIX "nvlink.domain", "%.*s", (int)len, fabric);
    add_label(labels, OWN_PREFIX "nvlink.clique", "%s", fabric + len + 1);
}

static void add_clique(Labels *labels, const MakeNode *make)
{
    const char *fabric = "";

    for (size_t i = 0; i < make->count; i++) {
        if (!make->gpus[i].fabric[0] || (fabric[0] && strcmp(fabric, make->gpus[i].fabric) != 0))
            return; /* one that is in none, or in another */
        fabric = make->gpus[i].fabric;
    }
    if (!fabric[0])
        return;
    add_under(labels, "gpu", "clique", "%s", fabric);
    add_domain(labels, fabric);
}

/* --- what MIG has room for ---------------------------------------------------------------------------------------- */

typedef struct Room {
    const char *profile;
    unsigned count;
} Room;

/* Whether MIG devices can be made on it: it was read, is in MIG mode, and nobody and no incident has it out of use. */
static bool has_room(const Snapshot *snapshot, const MigGpu *gpu)
{
    const NodeGpu *seen = NULL;

    for (size_t i = 0; i < snapshot->node->gpu_count; i++)
        if (strcmp(snapshot->node->gpus[i].reading.device.uuid, gpu->uuid) == 0)
            seen = &snapshot->node->gpus[i];
    if (!seen || gpu->why[0] || !gpu->now.enabled || node_is_taken_out(seen))
        return false;
    for (size_t i = 0; i < snapshot->incident_count; i++)
        if (incident_use(snapshot->incidents[i]) != INCIDENT_USE_GOES_ON &&
            snapshot->incidents[i]->device.gpu_instance == DEVICE_NO_NUMBER &&
            incident_hits(snapshot->incidents[i], &seen->reading.device))
            return false;
    return true;
}

static void count_room(const MigGpu *gpu, Room rooms[ROOMS_MAX])
{
    for (uint8_t i = 0; i < gpu->board.profile_count; i++) {
        const char *name = gpu->board.profiles[i].name;
        size_t at = 0;

        while (at < ROOMS_MAX && rooms[at].profile && strcmp(rooms[at].profile, name) != 0)
            at++;
        if (at == ROOMS_MAX)
            return;
        rooms[at].profile = name;
        rooms[at].count += mig_count_free(&gpu->board, &gpu->now, i);
    }
}

static void add_rooms(Labels *labels, const Snapshot *snapshot, const MigNode *mig)
{
    Room rooms[ROOMS_MAX] = {0};
    char key[LABEL_CAP];

    for (size_t i = 0; i < mig->count; i++)
        if (has_room(snapshot, &mig->gpus[i]))
            count_room(&mig->gpus[i], rooms);
    for (size_t i = 0; i < ROOMS_MAX && rooms[i].profile; i++) {
        snprintf(key, sizeof key, OWN_PREFIX "mig.free.%s", rooms[i].profile);
        for (char *at = key; *at; at++)
            if (*at == '+')
                *at = '.';
        if (rooms[i].count)
            add_label(labels, key, "%u", rooms[i].count);
    }
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

void offer_labels(const Snapshot *snapshot, const MakeNode *make, const OfferConfig *config, const Offer *offer,
                  const LabelHost *host, Str *out)
{
    CLEANUP_FREE Labels *labels = xcalloc(1, sizeof *labels);
    size_t firsts[MODELS_MAX], counts[MODELS_MAX], primary, healthy;
    const size_t models = find_models(snapshot->node, firsts, counts, &primary);
    bool capable = false;

    if (host->real_s)
        add_label(labels, PREFIX "gfd.timestamp", "%" PRIu64, host->real_s);
    add_label(labels, PREFIX "vgpu.present", "false");
    if (models > 0) {
        for (size_t i = 0; i < make->count; i++)
            capable |= make->gpus[i].mig_capable;
        add_versions(labels, make);
        add_label(labels, PREFIX "gpu.machine", "%s", host->machine[0] ? host->machine : "unknown");
        add_label(labels, PREFIX "gpu.mode", "%s", host->mode);
        add_label(labels, PREFIX "mig.capable", "%s", capable ? "true" : "false");
        add_label(labels, PREFIX "mps.capable", "%s", config->sharing == OFFER_SHARING_MPS ? "true" : "false");
        if (config->mig != OFFER_MIG_NONE)
            add_label(labels, PREFIX "mig.strategy", "%s", offer_migs[config->mig].key);
        add_whole(labels, snapshot, make, config, offer, host, &snapshot->node->gpus[firsts[primary]].reading.device);
        add_mixed(labels, make, offer, snapshot);
        add_clique(labels, make);
        add_label(labels, OWN_PREFIX "gpu.devices", "%zu", offer_count(offer, &healthy));
        add_label(labels, OWN_PREFIX "gpu.devices.healthy", "%zu", healthy);
        add_health(labels, snapshot);
        if (host->mig)
            add_rooms(labels, snapshot, host->mig);
        for (size_t i = 0; i < models; i++) {
            char name[DEVICE_NAME_CAP], key[LABEL_CAP];

            snprintf(name, sizeof name, "%s", snapshot->node->gpus[firsts[i]].reading.device.name);
            clean_value(name);
            snprintf(key, sizeof key, OWN_PREFIX "gpu.%.40s.count", name);
            add_label(labels, key, "%zu", counts[i]);
        }
    }
    qsort(labels->lines, labels->count, LABEL_CAP, compare_lines);
    for (size_t i = 0; i < labels->count; i++)
        str_addf(out, "%s\n", labels->lines[i]);
}
