/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the program is not to blame: application XIDs become a suspicion of the GPU only by where they come. An XID 13
 * again at the same GPC and TPC, or an XID 31 on one GPU under two programs that have it nowhere else. A program that
 * has them on several GPUs, or at several places of one, is itself the fault; so is one that is started again and again
 * and always falls over the same.
 */
#include "engine/health/incidents_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { XID_WARP = 13, XID_MMU = 31 };

static bool same_place(const IncidentSpot *spot, const IncidentSpot *other)
{
    return spot->place == other->place && spot->gpc == other->gpc && spot->tpc == other->tpc;
}

static bool fresh(const IncidentSpot *spot, const IncidentSpot *now)
{
    return spot->occurrences > 0 && spot->code == now->code && spot->last_ns + INCIDENTS_DAY_NS >= now->last_ns;
}

/* Another process, or the same after a while: not one more line of the same fall. */
static bool again(const IncidentSpot *spot, const IncidentSpot *now)
{
    bool other = spot->pid >= 0 && now->pid >= 0 && spot->pid != now->pid;

    return now->last_ns > spot->last_ns + (other ? INCIDENTS_TWIN_NS : INCIDENTS_BURST_NS);
}

static IncidentSpot *remember(Incidents *incidents, const IncidentSpot *now)
{
    IncidentSpot *oldest = &incidents->spots[0];

    for (size_t i = 0; i < INCIDENTS_SPOTS; i++) {
        IncidentSpot *spot = &incidents->spots[i];

        if (fresh(spot, now) && same_place(spot, now) && spot->process == now->process) {
            if (spot->last_ns > now->last_ns)
                return NULL; /* told twice, or out of order */
            if (!again(spot, now)) {
                spot->last_ns = now->last_ns;
                return NULL;
            }
            spot->occurrences++;
            spot->last_ns = now->last_ns;
            spot->pid = now->pid;
            return spot;
        }
        if (spot->last_ns < oldest->last_ns)
            oldest = spot;
    }
    *oldest = *now;
    return oldest;
}

/* Whether this program has it at another place too: on another GPU or, of XID 13, elsewhere on this one. */
static bool spreads(const Incidents *incidents, const IncidentSpot *of)
{
    for (size_t i = 0; i < INCIDENTS_SPOTS; i++) {
        const IncidentSpot *spot = &incidents->spots[i];

        if (fresh(spot, of) && spot->process == of->process && !same_place(spot, of))
            return true;
    }
    return false;
}

static bool warp_suspicion(const Incidents *incidents, const IncidentSpot *now, char *text, size_t size)
{
    uint32_t occurrences = 0;

    for (size_t i = 0; now->gpc >= 0 && i < INCIDENTS_SPOTS; i++) {
        const IncidentSpot *spot = &incidents->spots[i];

        if (fresh(spot, now) && same_place(spot, now) && !spreads(incidents, spot))
            occurrences += spot->occurrences;
    }
    snprintf(text, size, "XID 13 came %u times at GPC %d, TPC %d of this GPU within a day and nowhere else",
             occurrences, now->gpc, now->tpc);
    return occurrences >= 2;
}

static bool mmu_suspicion(const Incidents *incidents, const IncidentSpot *now, char *text, size_t size)
{
    const IncidentSpot *first = NULL;

    if (now->process == 0 || spreads(incidents, now))
        return false;
    for (size_t i = 0; i < INCIDENTS_SPOTS; i++) {
        const IncidentSpot *spot = &incidents->spots[i];

        if (fresh(spot, now) && same_place(spot, now) && spot->process != 0 && spot->process != now->process &&
            !spreads(incidents, spot))
            first = spot;
    }
    if (first)
        snprintf(text, size, "XID 31 came on this GPU under '%s' and under '%s' within a day, and of neither elsewhere",
                 first->name, now->name);
    return first != NULL;
}

static void suspect(Incidents *incidents, const IncidentInput *of, const char *text)
{
    const FaultClass *class = catalogue_class(incidents->catalogue, INCIDENTS_SUSPECT_CLASS);
    IncidentInput in = *of;
    bool echo;

    if (!class || !class->enabled)
        return;
    in.class = class;
    in.rule = INCIDENTS_SUSPECT_CLASS;
    in.for_ns = class->for_ns;
    in.keep_ns = class->keep_ns;
    in.cause = class->cause;
    in.severity = class->severity;
    in.action = class->action;
    in.route = class->observe ? ROUTE_NONE : class->route;
    in.silent = false;
    in.caused_by = 0;
    in.pid = -1;
    in.process = "";
    in.text = text;
    in.scope = class->scope;
    incidents_normalise(incidents, in.scope, &in.device);
    in.key = incidents_key(class, &in.device, in.code, "", false);
    incidents_take(incidents, &in, &echo);
}

void incidents_locality(Incidents *incidents, const Event *event, const IncidentInput *in)
{
    char text[EVENT_TEXT_CAP];
    IncidentSpot now = {
        .place = in->key.place,
        .process = incidents_hash(event->process),
        .first_ns = event->time_ns,
        .last_ns = event->time_ns,
        .occurrences = 1,
        .code = event->code,
        .gpc = event->code == XID_WARP ? event->gpc : -1,
        .tpc = event->code == XID_WARP ? event->tpc : -1,
        .pid = event->pid,
    };

    if (event->kind != EVENT_XID || (event->code != XID_WARP && event->code != XID_MMU) || now.place == 0 ||
        in->cause != CAUSE_APPLICATION || event->origin == EVENT_FROM_NVML)
        return; /* the library's word names neither place nor program */
    memcpy(now.name, event->process, sizeof now.name);
    if (!remember(incidents, &now))
        return;
    if (event->code == XID_WARP ? warp_suspicion(incidents, &now, text, sizeof text)
                                : mmu_suspicion(incidents, &now, text, sizeof text))
        suspect(incidents, in, text);
}
