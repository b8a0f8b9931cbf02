/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Application XIDs become a suspicion of the GPU only by where they occur: an XID 13 again at the same GPC and TPC, or
 * an XID 31 on one GPU under two programs that have it nowhere else, within a day. A program that has them on several
 * GPUs, or at several places of one, is itself at fault; so is one that is restarted again and again and always fails
 * the same way. A process is its pid and start, whatever it is called (the driver prints the name of a thread, and
 * programs change it); two programs are two jobs, pods, containers or users, and only without these two names. Pure.
 */
#include "engine/health/incidents_entry.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { XID_WARP = 13, XID_MMU = 31 };

#define DAY_NS UINT64_C(86400000000000)
#define OTHER_PROCESS_NS UINT64_C(5000000000) /* lines of one failure of several processes come within it */
#define BURST_NS UINT64_C(180000000000)       /* what comes closer, of one process, is the same occurrence */

static bool is_same_place(const LocalitySpot *spot, const LocalitySpot *other)
{
    return spot->place == other->place && spot->gpc == other->gpc && spot->tpc == other->tpc;
}

static bool is_recent(const LocalitySpot *spot, const LocalitySpot *now)
{
    return spot->occurrences > 0 && spot->code == now->code && spot->last_ns + DAY_NS >= now->last_ns;
}

/* Names that say nothing of the program: the interpreter's, and those of the threads that frameworks make. */
static bool is_common_name(const char *name)
{
    static const char *const begins[] = {"python", "pt_", "cuda-", "ray::"};

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static bool is_same_process(const LocalitySpot *a, const LocalitySpot *b)
{
    return a->pid >= 0 && a->pid == b->pid && (a->start_ns == b->start_ns || a->start_ns == 0 || b->start_ns == 0);
}

/* Whose they are, as far as both are known: below 0 another's, above 0 one's. */
static int compare_owners(const LocalitySpot *a, const LocalitySpot *b)
{
    if (a->owner != 0 && b->owner != 0)
        return a->owner == b->owner ? 1 : -1;
    return a->user != 0 && b->user != 0 && a->user != b->user ? -1 : 0;
}

static bool is_same_program(const LocalitySpot *a, const LocalitySpot *b)
{
    const int owners = compare_owners(a, b);

    return is_same_process(a, b) || owners > 0 || (owners == 0 && a->program == b->program);
}

/* Whether they are two programs beyond doubt. */
static bool is_other_program(const LocalitySpot *a, const LocalitySpot *b)
{
    if (is_same_program(a, b))
        return false;
    return compare_owners(a, b) < 0 ||
           (a->program != 0 && b->program != 0 && !is_common_name(a->name) && !is_common_name(b->name));
}

/* Another process, or the same one after a while: not one more line of the same failure. */
static bool is_new_occurrence(const LocalitySpot *spot, const LocalitySpot *now)
{
    bool other = spot->pid >= 0 && now->pid >= 0 && spot->pid != now->pid;

    return now->last_ns > spot->last_ns + (other ? OTHER_PROCESS_NS : BURST_NS);
}

static LocalitySpot *note_spot(Locality *locality, const LocalitySpot *now)
{
    LocalitySpot *oldest = &locality->spots[0];

    for (size_t i = 0; i < LOCALITY_SPOTS; i++) {
        LocalitySpot *spot = &locality->spots[i];

        if (is_recent(spot, now) && is_same_place(spot, now) && is_same_program(spot, now)) {
            if (spot->last_ns > now->last_ns)
                return NULL; /* repeated or out of order */
            if (!is_new_occurrence(spot, now)) {
                spot->last_ns = now->last_ns;
                return NULL;
            }
            spot->occurrences++;
            spot->last_ns = now->last_ns;
            spot->pid = now->pid;
            spot->start_ns = now->start_ns;
            return spot;
        }
        if (spot->last_ns < oldest->last_ns)
            oldest = spot;
    }
    *oldest = *now;
    return oldest;
}

/* Whether this program has it at another place too: on another GPU or, for XID 13, elsewhere on this one. */
static bool has_other_place(const Locality *locality, const LocalitySpot *of)
{
    for (size_t i = 0; i < LOCALITY_SPOTS; i++) {
        const LocalitySpot *spot = &locality->spots[i];

        if (is_recent(spot, of) && is_same_program(spot, of) && !is_same_place(spot, of))
            return true;
    }
    return false;
}

static bool check_warp(const Locality *locality, const LocalitySpot *now, char *text, size_t size)
{
    uint32_t occurrences = 0;

    for (size_t i = 0; now->gpc >= 0 && i < LOCALITY_SPOTS; i++) {
        const LocalitySpot *spot = &locality->spots[i];

        if (is_recent(spot, now) && is_same_place(spot, now) && !has_other_place(locality, spot))
            occurrences += spot->occurrences;
    }
    snprintf(text, size, "XID 13 came %u times at GPC %d, TPC %d of this GPU within a day and nowhere else",
             occurrences, now->gpc, now->tpc);
    return occurrences >= 2;
}

static bool check_mmu(const Locality *locality, const LocalitySpot *now, char *text, size_t size)
{
    const LocalitySpot *first = NULL;

    if (has_other_place(locality, now))
        return false;
    for (size_t i = 0; i < LOCALITY_SPOTS; i++) {
        const LocalitySpot *spot = &locality->spots[i];

        if (is_recent(spot, now) && is_same_place(spot, now) && is_other_program(spot, now) &&
            is_new_occurrence(spot, now) && !has_other_place(locality, spot))
            first = spot;
    }
    if (first)
        snprintf(text, size, "XID 31 came on this GPU under '%s' and under '%s' within a day, and of neither elsewhere",
                 first->name, now->name);
    return first != NULL;
}

bool locality_note(Locality *locality, const Event *event, uint64_t place, const Owner *who, char text[EVENT_TEXT_CAP])
{
    LocalitySpot now = {
        .place = place,
        .start_ns = who ? who->start_ns : 0,
        .program = incident_hash(is_common_name(event->process) ? "python" : event->process),
        .owner = who ? owner_work_hash(who) : 0,
        .user = who ? incident_hash(who->user) : 0,
        .last_ns = event->time_ns,
        .occurrences = 1,
        .code = event->code,
        .gpc = event->code == XID_WARP ? event->gpc : -1,
        .tpc = event->code == XID_WARP ? event->tpc : -1,
        .pid = event->pid,
    };

    if (event->kind != EVENT_XID || (event->code != XID_WARP && event->code != XID_MMU) || place == 0 ||
        event->origin == EVENT_FROM_NVML)
        return false; /* an event of the driver's library names neither place nor program */
    memcpy(now.name, event->process, sizeof now.name);
    if (!note_spot(locality, &now))
        return false;
    return event->code == XID_WARP ? check_warp(locality, &now, text, EVENT_TEXT_CAP)
                                   : check_mmu(locality, &now, text, EVENT_TEXT_CAP);
}
