/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/vec.h"
#include "model/cluster.h"
#include "service/kubelet/kubelet.h"

typedef struct Pod {
    json_t *uid, *limits; /* `limits`: of each container */
    json_t *since;        /* when it was scheduled, a time of RFC 3339 in UTC, or NULL */
    uint16_t gpus;        /* chosen for it; 0: none */
    bool granted;         /* a container of it has them */
} Pod;

typedef VEC(Pod) Pods;

struct Chosen {
    Pods pods, fresh; /* known, and being read */
    uint64_t counts[CHOSEN_OUTCOME_END];
};

const WordRow chosen_outcomes[CHOSEN_OUTCOME_END] = {CHOSEN_OUTCOME_TABLE(WORD_ROW)};

/* --- the pods ----------------------------------------------------------------------------------------------------- */

static void clear_pods(Pods *pods)
{
    for (size_t i = 0; i < pods->len; i++) {
        json_decref(pods->at[i].uid);
        json_decref(pods->at[i].limits);
        json_decref(pods->at[i].since);
    }
    vec_clear(pods);
}

void chosen_begin(void *self)
{
    clear_pods(&((Chosen *)self)->fresh);
}

static void add_limits(json_t *limits, const json_t *containers)
{
    for (size_t i = 0; i < json_array_size(containers); i++)
        json_array_append(limits,
                          json_object_get(json_object_get(json_array_get(containers, i), "resources"), "limits"));
}

static json_t *find_scheduled(const json_t *status)
{
    const json_t *conditions = json_object_get(status, "conditions");

    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *one = json_array_get(conditions, i);
        const char *type = json_string_value(json_object_get(one, "type"));

        if (type && strcmp(type, "PodScheduled") == 0)
            return json_object_get(one, "lastTransitionTime");
    }
    return NULL;
}

static bool was_granted(const Chosen *chosen, const json_t *uid)
{
    for (size_t i = 0; i < chosen->pods.len; i++)
        if (json_equal(chosen->pods.at[i].uid, uid))
            return chosen->pods.at[i].granted;
    return false;
}

/* A kubelet sets the time of start when it takes a pod in; the devices are given out before that. */
int chosen_add(void *self, const json_t *pod, Err *err)
{
    Chosen *chosen = self;
    const json_t *metadata = json_object_get(pod, "metadata"), *spec = json_object_get(pod, "spec"),
                 *status = json_object_get(pod, "status");
    const char *gpus = json_string_value(json_object_get(json_object_get(metadata, "annotations"), CLUSTER_GPUS_KEY));
    json_t *uid = json_object_get(metadata, "uid");
    Pod row = {.gpus = 0};

    if (!json_is_string(uid) || !json_is_object(spec))
        return err_set(err, -EBADMSG, "an object of the list is no pod: it has no UID or no spec");
    if (json_object_get(status, "startTime") || chosen->fresh.len == CHOSEN_PODS_MAX)
        return 0;
    if (gpus)
        (void)cluster_read_gpus(gpus, &row.gpus); /* by a text that is not understood none is chosen */
    row.uid = json_incref(uid);
    row.since = json_incref(find_scheduled(status));
    row.limits = json_array();
    row.granted = was_granted(chosen, uid);
    add_limits(row.limits, json_object_get(spec, "initContainers"));
    add_limits(row.limits, json_object_get(spec, "containers"));
    vec_push(&chosen->fresh, row);
    return 0;
}

bool chosen_end(void *self)
{
    Chosen *chosen = self;
    const Pods before = chosen->pods;

    chosen->pods = chosen->fresh;
    chosen->fresh = before;
    return true;
}

/* --- which of them ------------------------------------------------------------------------------------------------ */

/* One of its containers asks for so many. */
static bool asks_for(const Pod *pod, const char *resource, size_t count)
{
    for (size_t i = 0; i < json_array_size(pod->limits); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(pod->limits, i), resource));
        uint64_t asked;

        if (text && number_parse_u64(text, 0, UINT32_MAX, &asked, NULL) == 0 && asked == count)
            return true;
    }
    return false;
}

static bool is_chosen_for(const Pod *pod, const char *resource, size_t count)
{
    return (size_t)__builtin_popcount(pod->gpus) == count && asks_for(pod, resource, count);
}

bool chosen_is_awaited(const Chosen *chosen, const char *resource, size_t count)
{
    for (size_t i = 0; i < chosen->pods.len; i++)
        if (!chosen->pods.at[i].granted && asks_for(&chosen->pods.at[i], resource, count))
            return true;
    return false;
}

/* 0: it is no whole GPU, or not healthy. */
static uint16_t bit_of(const OfferUnit *unit)
{
    const bool whole = unit && unit->healthy && !unit->profile[0] && unit->gpu_index < CLUSTER_GPUS_MAX;

    return (uint16_t)(whole ? 1u << unit->gpu_index : 0);
}

static uint16_t find_gpus(const OfferResource *resource, const char *const *ids, size_t count)
{
    uint16_t gpus = 0;

    for (size_t i = 0; i < count; i++)
        gpus |= bit_of(offer_unit(resource, ids[i]));
    return gpus;
}

static bool was_before(const Pod *pod, const Pod *other)
{
    const char *a = json_string_value(pod->since), *b = json_string_value(other->since);

    return a && (!b || strcmp(a, b) < 0);
}

bool chosen_find(const Chosen *chosen, const OfferResource *resource, const char *const *available,
                 size_t available_count, const char *const *must, size_t must_count, size_t size, const char **ret)
{
    const uint16_t free_gpus = find_gpus(resource, available, available_count);
    const uint16_t needed = find_gpus(resource, must, must_count);
    const Pod *found = NULL;

    if (resource->sharing != OFFER_SHARING_NONE || (size_t)__builtin_popcount(needed) != must_count)
        return false;
    for (size_t i = 0; i < chosen->pods.len; i++) {
        const Pod *pod = &chosen->pods.at[i];

        if (is_chosen_for(pod, resource->name, size) && !(pod->gpus & ~free_gpus) && !(needed & ~pod->gpus) &&
            (!found || was_before(pod, found)))
            found = pod;
    }
    uint16_t left = found ? found->gpus : 0;
    for (size_t i = 0; i < resource->units.len; i++) {
        const OfferUnit *unit = &resource->units.at[i];

        if (left & bit_of(unit))
            *ret++ = unit->device.uuid;
        left &= (uint16_t)~bit_of(unit);
    }
    return found;
}

void chosen_note(Chosen *chosen, const OfferResource *resource, char *const *ids, size_t count)
{
    const uint16_t gpus = find_gpus(resource, (const char *const *)ids, count);
    ChosenOutcome outcome = CHOSEN_UNKNOWN;

    if (resource->sharing != OFFER_SHARING_NONE || (size_t)__builtin_popcount(gpus) != count)
        return;
    for (size_t i = 0; i < chosen->pods.len && outcome != CHOSEN_AS_CHOSEN; i++) {
        Pod *pod = &chosen->pods.at[i];

        if (!is_chosen_for(pod, resource->name, count) || (pod->granted && pod->gpus != gpus))
            continue;
        outcome = pod->gpus == gpus ? CHOSEN_AS_CHOSEN : CHOSEN_OTHER;
        pod->granted = pod->gpus == gpus;
    }
    chosen->counts[outcome]++;
}

const uint64_t *chosen_counts(const Chosen *chosen)
{
    return chosen->counts;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

Chosen *chosen_new(void)
{
    return xcalloc(1, sizeof(Chosen));
}

void chosen_free(Chosen *chosen)
{
    if (!chosen)
        return;
    clear_pods(&chosen->pods);
    clear_pods(&chosen->fresh);
    vec_done(&chosen->pods);
    vec_done(&chosen->fresh);
    free(chosen);
}
