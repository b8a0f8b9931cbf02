/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kubelet/offer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "engine/health/incidents.h"

#define PREFIX "nvidia.com/"
#define WHOLE "nvidia.com/gpu"

const WordRow offer_migs[OFFER_MIG_END] = {OFFER_MIG_TABLE(WORD_ROW)};
const WordRow offer_sharings[OFFER_SHARING_END] = {OFFER_SHARING_TABLE(WORD_ROW)};

/* --- which faults count ------------------------------------------------------------------------------------------- */

static int read_code_list(const char *text, bool *all, int32_t codes[OFFER_CODES_MAX], size_t *count, Err *err)
{
    while (*text) {
        const size_t len = strcspn(text, ",");
        const size_t blanks = strspn(text, " "), word = len > blanks ? len - blanks : 0;
        uint64_t code;

        if ((word == 3 && memcmp(text + blanks, "all", 3) == 0) || (word == 4 && memcmp(text + blanks, "xids", 4) == 0))
            *all = true;
        else if (word > 0 &&
                 (*count == OFFER_CODES_MAX || number_parsen_u64(text + blanks, word, 0, INT32_MAX, &code, NULL) < 0))
            return err_set(err, -EINVAL, "'%.*s' is neither 'all', 'xids' nor an XID, or one too many", (int)word,
                           text + blanks);
        else if (word > 0)
            codes[(*count)++] = (int32_t)code;
        text += len + (text[len] == ',');
    }
    return 0;
}

int offer_read_codes(const char *disabled, const char *enabled, OfferCodes *ret, Err *err)
{
    *ret = (OfferCodes){0};
    TRY(read_code_list(disabled ? disabled : "", &ret->ignore_all, ret->ignored, &ret->ignored_count, err));
    return read_code_list(enabled ? enabled : "", &ret->heed_all, ret->heeded, &ret->heeded_count, err);
}

static bool has_code(const Incident *incident, const int32_t *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (incident_has_code(incident, codes[i]))
            return true;
    return false;
}

static bool is_ignored(const Incident *incident, const OfferCodes *codes)
{
    for (size_t i = 0; i < codes->ignored_count; i++)
        if (codes->ignored[i] == incident->code)
            return true;
    return codes->ignore_all;
}

/* Whether an open incident takes what it is about out of use, by this configuration. */
static bool is_counted(const Incident *incident, const OfferCodes *codes)
{
    if (has_code(incident, codes->heeded, codes->heeded_count) || (codes->heed_all && incident->code_count > 0))
        return incident->state == INCIDENT_OPEN;
    return !is_ignored(incident, codes) && incident_use(incident) != INCIDENT_USE_GOES_ON;
}

static const Incident *find_against(const Snapshot *snapshot, const OfferCodes *codes, const Device *gpu,
                                    uint32_t gpu_instance)
{
    const Incident *worst = NULL;

    for (size_t i = 0; i < snapshot->incident_count; i++) {
        const Incident *one = snapshot->incidents[i];

        if (incident_hits_instance(one, gpu, gpu_instance) && is_counted(one, codes) &&
            (!worst || one->severity > worst->severity))
            worst = one;
    }
    return worst;
}

static void judge_unit(const Snapshot *snapshot, const OfferCodes *codes, OfferUnit *unit)
{
    const NodeGpu *gpu = &snapshot->node->gpus[unit->gpu];
    const Incident *against = find_against(snapshot, codes, &gpu->reading.device, unit->device.gpu_instance);

    unit->healthy = !against && !node_is_taken_out(gpu);
    if (against) {
        memcpy(unit->incident, against->id, sizeof unit->incident);
        snprintf(unit->why, sizeof unit->why, "%s: %s (incident %s)", against->title, incident_action(against),
                 against->id);
    } else if (!unit->healthy) {
        snprintf(unit->why, sizeof unit->why, "an operator has taken it out of the node");
    }
}

/* --- resources ---------------------------------------------------------------------------------------------------- */

static const OfferShare *find_share(const OfferConfig *config, const char *name)
{
    for (size_t i = 0; i < config->share_count && config->sharing != OFFER_SHARING_NONE; i++)
        if (strcmp(config->shares[i].resource, name) == 0)
            return &config->shares[i];
    return NULL;
}

static OfferResource *find_resource(Offer *offer, const OfferConfig *config, const char *name)
{
    const OfferShare *share = find_share(config, name);
    char offered[OFFER_NAME_CAP];

    snprintf(offered, sizeof offered, "%s%s", name, share && config->rename ? ".shared" : "");
    for (size_t i = 0; i < offer->resources.len; i++)
        if (strcmp(offer->resources.at[i].name, offered) == 0)
            return &offer->resources.at[i];
    OfferResource *added = vec_add(&offer->resources);
    memcpy(added->name, offered, sizeof offered);
    added->replicas = share ? share->replicas : 1;
    added->sharing = share ? config->sharing : OFFER_SHARING_NONE;
    return added;
}

static void fill_unit(const OfferConfig *config, const Snapshot *snapshot, size_t at, const Reading *reading,
                      OfferUnit *unit)
{
    const NodeGpu *gpu = &snapshot->node->gpus[at];
    const Place *place =
        gpu->reading.device.has_pci ? place_list_gpu(&snapshot->places, gpu->reading.device.pci) : NULL;

    unit->device = reading->device;
    unit->device.minor = gpu->reading.device.minor;
    unit->gpu = at;
    unit->gpu_index = gpu->reading.device.index;
    unit->numa_node = place ? place->numa_node : -1;
    snprintf(unit->profile, sizeof unit->profile, "%s", reading->profile);
    judge_unit(snapshot, &config->codes, unit);
}

static void add_unit(Offer *offer, const OfferConfig *config, const Snapshot *snapshot, size_t at,
                     const Reading *reading, const char *name)
{
    fill_unit(config, snapshot, at, reading, vec_add(&find_resource(offer, config, name)->units));
}

/* "nvidia.com/mig-1g.10gb.me" of "1g.10gb+me"; false for a compute instance that is only a part of its GPU instance. */
static bool name_of_profile(const char *profile, char to[OFFER_NAME_CAP])
{
    if (!profile[0] || strstr(profile, "c."))
        return false;
    snprintf(to, OFFER_NAME_CAP, PREFIX "mig-%s", profile);
    for (char *at = to; *at; at++)
        if (*at == '+')
            *at = '.';
    return true;
}

static void add_mixed(Offer *offer, const OfferConfig *config, const Snapshot *snapshot, size_t at)
{
    const NodeGpu *gpu = &snapshot->node->gpus[at];
    char name[OFFER_NAME_CAP];

    fill_unit(config, snapshot, at, &gpu->reading, vec_add(&offer->split));
    for (size_t i = 0; i < gpu->instance_count; i++) {
        const Reading *instance = &gpu->instances[i];

        if (!instance->device.uuid[0])
            continue;
        if (name_of_profile(instance->profile, name))
            add_unit(offer, config, snapshot, at, instance, name);
        else
            snprintf(offer->why, sizeof offer->why,
                     "GPU %" PRIu32 ": MIG device %s has a part of its GPU instance, for which there is no resource",
                     gpu->reading.device.index, instance->profile);
    }
}

/* Why the MIG devices of the node cannot be offered as one resource; NULL: they can. */
static const char *refuse_single(const Node *node, Offer *offer)
{
    const char *profile = NULL;
    size_t whole = 0, split = 0;

    for (size_t i = 0; i < node->gpu_count; i++) {
        const NodeGpu *gpu = &node->gpus[i];

        whole += !gpu->reading.mig;
        split += gpu->reading.mig;
        if (gpu->reading.mig && gpu->instance_count == 0)
            return snprintf(offer->why, sizeof offer->why, "GPU %" PRIu32 " is in MIG mode and has no MIG device",
                            gpu->reading.device.index),
                   offer->why;
        for (size_t k = 0; k < gpu->instance_count; k++) {
            if (profile && strcmp(profile, gpu->instances[k].profile) != 0)
                return snprintf(offer->why, sizeof offer->why, "there are MIG devices of more than one profile: %s, %s",
                                profile, gpu->instances[k].profile),
                       offer->why;
            profile = gpu->instances[k].profile;
        }
    }
    if (whole > 0 && split > 0)
        return snprintf(offer->why, sizeof offer->why, "%zu GPUs are in MIG mode and %zu are not", split, whole),
               offer->why;
    return NULL;
}

static void add_single(Offer *offer, const OfferConfig *config, const Snapshot *snapshot, size_t at)
{
    const NodeGpu *gpu = &snapshot->node->gpus[at];

    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].device.uuid[0])
            add_unit(offer, config, snapshot, at, &gpu->instances[i], WHOLE);
}

static int compare_resources(const void *a, const void *b)
{
    const OfferResource *left = a, *right = b;
    const bool left_mig = strstr(left->name, "/mig-"), right_mig = strstr(right->name, "/mig-");

    return left_mig != right_mig ? left_mig - right_mig : strcmp(left->name, right->name);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* A device that was unhealthy stays so until nothing was against it for a while. */
static void hold_back(const OfferUnit *was, uint64_t hold_ns, uint64_t now_ns, OfferUnit *unit)
{
    if (!unit->healthy || !was || was->healthy || was->unserved)
        return;
    unit->fine_ns = was->fine_ns ? was->fine_ns : now_ns;
    if (now_ns - unit->fine_ns >= hold_ns) {
        unit->fine_ns = 0;
        return;
    }
    unit->healthy = false;
    memcpy(unit->incident, was->incident, sizeof unit->incident);
    memcpy(unit->why, was->why, sizeof unit->why);
}

uint64_t offer_due(const Offer *offer, uint64_t hold_ns)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++)
            if (offer->resources.at[i].units.at[k].fine_ns)
                due = number_min_u64(due, offer->resources.at[i].units.at[k].fine_ns + hold_ns);
    for (size_t i = 0; i < offer->split.len; i++)
        if (offer->split.at[i].fine_ns)
            due = number_min_u64(due, offer->split.at[i].fine_ns + hold_ns);
    return due;
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

void offer_done(Offer *offer)
{
    for (size_t i = 0; i < offer->resources.len; i++)
        vec_done(&offer->resources.at[i].units);
    vec_done(&offer->resources);
    vec_done(&offer->split);
    *offer = (Offer){0};
}

static void hold_back_all(const Offer *before, uint64_t hold_ns, uint64_t now_ns, Offer *made)
{
    for (size_t i = 0; i < made->resources.len; i++)
        for (size_t k = 0; k < made->resources.at[i].units.len; k++) {
            OfferUnit *unit = &made->resources.at[i].units.at[k];

            hold_back(offer_find_unit(before, unit->device.uuid), hold_ns, now_ns, unit);
        }
    for (size_t i = 0; i < made->split.len; i++)
        hold_back(offer_find_split(before, made->split.at[i].device.uuid), hold_ns, now_ns, &made->split.at[i]);
}

void offer_make(const Snapshot *snapshot, const OfferConfig *config, const Offer *before, uint64_t now_ns, Offer *ret)
{
    const Node *node = snapshot->node;
    Offer made = {0};
    bool split = false;

    for (size_t i = 0; node && i < node->gpu_count; i++)
        split |= node->gpus[i].reading.mig;
    const bool single = config->mig == OFFER_MIG_SINGLE && split;
    const bool refused = single && refuse_single(node, &made);

    for (size_t i = 0; node && !refused && i < node->gpu_count; i++) {
        const Reading *gpu = &node->gpus[i].reading;

        if (!gpu->device.uuid[0])
            continue;
        if (single)
            add_single(&made, config, snapshot, i);
        else if (config->mig == OFFER_MIG_MIXED && gpu->mig)
            add_mixed(&made, config, snapshot, i);
        else
            add_unit(&made, config, snapshot, i, gpu, WHOLE);
    }
    vec_sort(&made.resources, compare_resources);
    if (before)
        hold_back_all(before, config->hold_ns, now_ns, &made);
    offer_done(ret);
    *ret = made;
}

const OfferResource *offer_find(const Offer *offer, const char *name)
{
    for (size_t i = 0; i < offer->resources.len; i++)
        if (strcmp(offer->resources.at[i].name, name) == 0)
            return &offer->resources.at[i];
    return NULL;
}

static const OfferUnit *find_among(const OfferUnits *units, const char *uuid)
{
    for (size_t i = 0; i < units->len; i++)
        if (strcmp(units->at[i].device.uuid, uuid) == 0)
            return &units->at[i];
    return NULL;
}

const OfferUnit *offer_find_unit(const Offer *offer, const char *uuid)
{
    const OfferUnit *found = NULL;

    for (size_t i = 0; i < offer->resources.len && !found; i++)
        found = find_among(&offer->resources.at[i].units, uuid);
    return found;
}

const OfferUnit *offer_find_split(const Offer *offer, const char *uuid)
{
    return find_among(&offer->split, uuid);
}

void offer_unserve(OfferUnit *unit, const char *why)
{
    if (!unit->healthy)
        return;
    unit->healthy = false;
    unit->unserved = true;
    snprintf(unit->why, sizeof unit->why, "%s", why);
}

size_t offer_count(const Offer *offer, size_t *ret_healthy)
{
    size_t count = 0;

    *ret_healthy = 0;
    for (size_t i = 0; i < offer->resources.len; i++) {
        const OfferUnits *units = &offer->resources.at[i].units;

        count += units->len;
        for (size_t k = 0; k < units->len; k++)
            *ret_healthy += units->at[k].healthy;
    }
    return count;
}

void offer_id(const OfferResource *resource, size_t unit, uint32_t replica, char to[OFFER_ID_CAP])
{
    const char *uuid = resource->units.at[unit].device.uuid;

    if (resource->sharing == OFFER_SHARING_NONE)
        snprintf(to, OFFER_ID_CAP, "%s", uuid);
    else
        snprintf(to, OFFER_ID_CAP, "%s::%" PRIu32, uuid, replica);
}

const OfferUnit *offer_unit(const OfferResource *resource, const char *id)
{
    const char *colons = strstr(id, "::");
    const size_t len = colons ? (size_t)(colons - id) : strlen(id);
    uint64_t replica;

    if ((colons != NULL) != (resource->sharing != OFFER_SHARING_NONE) ||
        (colons && number_parse_u64(colons + 2, 0, resource->replicas - 1, &replica, NULL) < 0))
        return NULL;
    for (size_t i = 0; i < resource->units.len; i++) {
        const char *uuid = resource->units.at[i].device.uuid;

        if (strlen(uuid) == len && memcmp(uuid, id, len) == 0)
            return &resource->units.at[i];
    }
    return NULL;
}
