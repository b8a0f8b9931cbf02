/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "service/kubelet/kubelet.h"

enum { NAME_MAX_BYTES = 512 };

typedef struct Explaining {
    const Snapshot *snapshot;
    const Offer *offer;
    const char *pod; /* "NAME" or "NAMESPACE/NAME"; NULL: all */
    bool json;
    Str *out;
    bool told;    /* it is known which pods have which devices */
    size_t shown; /* allocations */
} Explaining;

/* --- who has what ------------------------------------------------------------------------------------------------- */

static bool is_of(const Explaining *e, const OfferUnit *unit, const Allocation *allocation)
{
    const NodeGpu *gpu = &e->snapshot->node->gpus[unit->gpu];
    const Reading *instance =
        unit->profile[0] ? node_find_instance(gpu, unit->device.gpu_instance, unit->device.compute_instance) : NULL;

    return allocation_device_is(&allocation->device, &gpu->reading, instance);
}

/* The next allocation of a unit, from *at on, which is 0 at first; NULL: there is no further one. */
static const Allocation *next_owner(const Explaining *e, const OfferUnit *unit, size_t *at)
{
    const AllocationTable *table = e->snapshot->allocations;

    while (table && *at < table->len) {
        const Allocation *one = &table->at[(*at)++];

        if (is_of(e, unit, one))
            return one;
    }
    return NULL;
}

static size_t count_owners(const Explaining *e, const OfferUnit *unit)
{
    size_t count = 0, at = 0;

    while (next_owner(e, unit, &at))
        count++;
    return count;
}

static bool is_named(const Explaining *e, const Allocation *owner)
{
    char full[NAME_MAX_BYTES];

    snprintf(full, sizeof full, "%s/%s", owner->namespace, owner->pod);
    return !e->pod || strcmp(e->pod, full) == 0 || strcmp(e->pod, owner->pod) == 0;
}

static uint32_t count_free(const Explaining *e, const OfferResource *resource, const OfferUnit *unit)
{
    const size_t taken = count_owners(e, unit);

    return unit->healthy && taken < resource->replicas ? resource->replicas - (uint32_t)taken : 0;
}

/* --- one resource ------------------------------------------------------------------------------------------------- */

/* "GPU 3", "GPU 3 1g.10gb" */
static void add_name(Str *out, const OfferUnit *unit)
{
    str_addf(out, "GPU %" PRIu32 "%s%s", unit->gpu_index, unit->profile[0] ? " " : "", unit->profile);
}

static void explain_unit_text(Explaining *e, const OfferResource *resource, const OfferUnit *unit)
{
    const uint32_t left = count_free(e, resource, unit);
    const Allocation *owner;
    size_t at = 0;

    str_add(e->out, "  ");
    add_name(e->out, unit);
    str_addf(e->out, "  %s  ", unit->device.uuid);
    if (!unit->healthy)
        str_addf(e->out, "unhealthy: %s", unit->why);
    else if (!e->told)
        str_add(e->out, "healthy");
    else if (resource->replicas > 1)
        str_addf(e->out, "%" PRIu32 " of %" PRIu32 " replicas free", left, resource->replicas);
    else
        str_add(e->out, left ? "free" : "taken");
    str_addc(e->out, '\n');
    while ((owner = next_owner(e, unit, &at))) {
        str_addf(e->out, "      %s/%s, container %s\n", owner->namespace, owner->pod, owner->container);
        e->shown++;
    }
}

static void add_free(Explaining *e, size_t count)
{
    if (e->told)
        json_add_u64(e->out, "free", count);
    else
        json_add_null(e->out, "free");
}

static void explain_unit_json(Explaining *e, const OfferResource *resource, const OfferUnit *unit)
{
    const Allocation *owner;
    size_t at = 0;

    json_open(e->out, NULL, '{');
    json_add_u64(e->out, "gpu", unit->gpu_index);
    json_add_text(e->out, "uuid", unit->device.uuid);
    json_add_text(e->out, "profile", unit->profile[0] ? unit->profile : NULL);
    json_add_bool(e->out, "healthy", unit->healthy);
    json_add_text(e->out, "why", unit->why[0] ? unit->why : NULL);
    json_add_text(e->out, "incident", unit->incident[0] ? unit->incident : NULL);
    add_free(e, count_free(e, resource, unit));
    json_open(e->out, "owners", '[');
    while ((owner = next_owner(e, unit, &at))) {
        json_open(e->out, NULL, '{');
        json_add_text(e->out, "namespace", owner->namespace);
        json_add_text(e->out, "pod", owner->pod);
        json_add_text(e->out, "container", owner->container);
        json_close(e->out, '}');
    }
    json_close(e->out, ']');
    json_close(e->out, '}');
}

/* null where it is not shared by MPS. */
static void add_mps_json(Explaining *e, const OfferResource *resource)
{
    if (!resource->daemon) {
        json_add_null(e->out, "mps");
        return;
    }
    json_open(e->out, "mps", '{');
    json_add_text(e->out, "state", resource->daemon);
    json_add_text(e->out, "why", resource->daemon_why[0] ? resource->daemon_why : NULL);
    json_add_u64(e->out, "clients_max", resource->clients_max);
    json_close(e->out, '}');
}

static void add_mps_text(Explaining *e, const OfferResource *resource)
{
    if (!resource->daemon)
        return;
    str_addf(e->out, "  MPS daemon: %s%s%s\n", resource->daemon, resource->daemon_why[0] ? ": " : "",
             resource->daemon_why);
    if (resource->replicas > resource->clients_max)
        str_addf(e->out, "  MPS serves %" PRIu32 " processes on a GPU, fewer than its %" PRIu32 " replicas.\n",
                 resource->clients_max, resource->replicas);
}

static void explain_resource(Explaining *e, const OfferResource *resource)
{
    size_t healthy = 0, left = 0;

    for (size_t i = 0; i < resource->units.len; i++) {
        healthy += resource->units.at[i].healthy;
        left += count_free(e, resource, &resource->units.at[i]);
    }
    if (e->json) {
        json_open(e->out, NULL, '{');
        json_add_text(e->out, "name", resource->name);
        json_add_u64(e->out, "replicas", resource->replicas);
        json_add_text(e->out, "sharing", offer_sharings[resource->sharing].key);
        add_mps_json(e, resource);
        json_add_u64(e->out, "devices", resource->units.len);
        json_add_u64(e->out, "healthy", healthy);
        add_free(e, left);
        json_open(e->out, "units", '[');
        for (size_t i = 0; i < resource->units.len; i++)
            explain_unit_json(e, resource, &resource->units.at[i]);
        json_close(e->out, ']');
        json_close(e->out, '}');
        return;
    }
    str_addf(e->out, "%s: %zu device%s, %zu healthy", resource->name, resource->units.len,
             resource->units.len == 1 ? "" : "s", healthy);
    if (e->told)
        str_addf(e->out, ", %zu free", left);
    str_addc(e->out, '\n');
    add_mps_text(e, resource);
    for (size_t i = 0; i < resource->units.len; i++)
        explain_unit_text(e, resource, &resource->units.at[i]);
    if (!e->told)
        str_add(e->out, "  Which of them are free is not known: the agent does not read the kubelet's pod-resources "
                        "(stoker agent --kubernetes).\n");
    else if (left == 0)
        str_add(e->out, "  A pod that asks for it stays Pending: nothing is free.\n");
    else if (resource->sharing == OFFER_SHARING_NONE)
        str_addf(e->out, "  A pod can ask for up to %zu.\n", left);
}

/* --- one pod ------------------------------------------------------------------------------------------------------ */

static void explain_unit_of_pod(Explaining *e, const OfferResource *resource, const OfferUnit *unit)
{
    const Allocation *owner;
    size_t at = 0;

    while ((owner = next_owner(e, unit, &at))) {
        if (!is_named(e, owner))
            continue;
        str_addf(e->out, "%s/%s, container %s: ", owner->namespace, owner->pod, owner->container);
        add_name(e->out, unit);
        str_addf(e->out, "  %s (%s)%s%s\n", unit->device.uuid, resource->name,
                 unit->healthy ? "" : ", unhealthy: ", unit->healthy ? "" : unit->why);
        e->shown++;
    }
}

static void explain_pod(Explaining *e)
{
    for (size_t i = 0; i < e->offer->resources.len; i++)
        for (size_t k = 0; k < e->offer->resources.at[i].units.len; k++)
            explain_unit_of_pod(e, &e->offer->resources.at[i], &e->offer->resources.at[i].units.at[k]);
}

bool kubelet_explain(const Offer *offer, const Snapshot *snapshot, const char *pod, bool json, Str *out)
{
    Explaining e = {
        .snapshot = snapshot, .offer = offer, .pod = pod, .json = json, .out = out, .told = snapshot->pods_told};

    if (pod && !json) {
        explain_pod(&e);
        return e.shown > 0;
    }
    if (json) {
        json_open(out, NULL, '{');
        json_add_text(out, "why_less", offer->why[0] ? offer->why : NULL);
        json_open(out, "resources", '[');
    }
    for (size_t i = 0; i < offer->resources.len; i++)
        explain_resource(&e, &offer->resources.at[i]);
    if (json) {
        json_close(out, ']');
        json_close(out, '}');
        str_addc(out, '\n');
    } else if (offer->why[0] || offer->resources.len == 0) {
        str_addf(out, "Less is offered than there is: %s\n", offer->why[0] ? offer->why : "this node has no GPUs");
    }
    return true;
}
