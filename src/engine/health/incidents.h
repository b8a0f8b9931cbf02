/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The incidents of a node: evidence and events come in; incidents open, grow, escalate, end and come back. One incident
 * per fault and thing: its key is the device, the class and, where the class says so, code and process; never the text.
 *
 * Rules (docs/faults.md explains them to users):
 *  - evidence of a class with an open parent on the same thing (the same GPU; a node or fabric incident stands above
 * all its GPUs) within parent_ns is an echo: it is attached there and opens nothing. A child that came first is merged
 *    into the parent when that opens, unless it was reported as worse.
 *  - an event that names its cause (caused_by, XID 154's action) goes to the incident of that code.
 *  - XID 154 and the driver's recovery action decide the action of the GPU's open hardware incident.
 *  - application faults become a hardware suspicion only by locality (locality.c).
 *  - events from before the agent's start open incidents only where no reset, reload or reboot lies between and the
 *    journal does not have them already. They are held back until all were read (two seconds without another); what is
 *    not over then is reported as OPENED with `before` set, the rest never.
 *  - `for`, `keep_firing_for`, quiet times and reopening are the class's.
 *
 * Only incidents_advance opens: of what was read together a parent opens and its echoes never do. Call it after every
 * batch of events too.
 *
 * Time is an argument; no I/O. Changes are reported through one callback, synchronously, a parent before its echoes.
 * Memory is bounded: INCIDENTS_MAX are kept, the oldest cleared one is evicted. One thread.
 */

#include "engine/health/catalogue.h"
#include "engine/health/detect.h"
#include "engine/health/maintenance.h"
#include "model/facts.h"
#include "model/node.h"
#include "model/place.h"

enum { INCIDENTS_MAX = 224 };                    /* 10 KiB each, allocated when one begins: 2.2 MiB at most */
#define INCIDENT_UPDATE_NS UINT64_C(60000000000) /* repetitions are reported at most so often */

#define INCIDENTS_RESET_CLASS "reset-required" /* the driver's action where no fault is known */

typedef struct Incidents Incidents;

/* A change: `incident` is valid for the call. */
typedef void (*IncidentChanged)(void *self, const Incident *incident, IncidentChange change);

/* Whose work is on a device now (of the node, a switch or the fabric: on all GPUs), at most INCIDENT_OWNERS into `out`;
 * that of the process `pid` first (-1: none is known). Returns how many; INCIDENT_OWNERS + 1: there are more. */
typedef uint32_t (*IncidentOwnersOf)(void *self, const Device *device, int32_t pid, Owner out[INCIDENT_OWNERS]);

/* `catalogue` and `maintenance` are borrowed; `changed` may be NULL. */
Incidents *incidents_new(const Catalogue *catalogue, const Maintenance *maintenance, IncidentChanged changed,
                         void *self);
void incidents_free(Incidents *incidents);
/* Who is asked for owners, once per incident, at its first evidence. */
void incidents_set_owners(Incidents *incidents, IncidentOwnersOf owners_of, void *self);
/* After a reload of the configuration; the old catalogue must last until it returns. Open incidents keep their
 * verdicts, those whose class is gone are cleared by hand. */
void incidents_set_catalogue(Incidents *incidents, const Catalogue *catalogue);

/* Takes over incidents from the journal: open ones go on (monotonic times are set anew from the wall clock), cleared
 * ones serve reopening and history. Before the first evidence. */
void incidents_restore(Incidents *incidents, const Incident *kept, size_t count, uint64_t now_ns, uint64_t real_ns);

/* The GPUs as they are now: identity for devices that evidence names by PCI address, replacement by serial or UUID,
 * driver version. A lost GPU that answers again was reset, since the driver does not recover one otherwise; a board
 * that was moved to another slot takes its incidents with it. At every tick, before the evidence. */
void incidents_set_node(Incidents *incidents, const Node *node);

/* Where the GPUs are on the PCI bus: what a port reports belongs to the GPUs below it. And when this boot began (0
 * unknown): a fault that is back after a reboot. At every tick, behind incidents_set_node; nothing is kept of it. */
void incidents_set_host(Incidents *incidents, const PlaceList *places, uint64_t boot_real_ns);

/* An event of a log or of the driver (xid_merge.h: each XID once); also RESET, REPLACED, REBOOT, MODULE_LOADED, which
 * end incidents (without a PCI address: everywhere). Give a REBOOT only if the boot is not the journal's, with its
 * real_ns: it ends what was last seen before. */
void incidents_add_event(Incidents *incidents, const Event *event);
/* Evidence of a detector. */
void incidents_add_evidence(Incidents *incidents, const Evidence *evidence);
/* After all evidence of a tick, and after events in between: ends what was not seen for its time, opens what has held
 * for its time, applies maintenance windows. */
void incidents_advance(Incidents *incidents, uint64_t now_ns, uint64_t real_ns);

/* By hand: 0, -ENOENT, -EALREADY if it is over. `who` goes into the evidence. */
int incidents_clear(Incidents *incidents, const char *id, const char *who, uint64_t now_ns, uint64_t real_ns, Err *err);

/* Newest first by opening, pending ones last; valid until the next call that changes something. */
size_t incidents_count(const Incidents *incidents);
const Incident *incidents_at(const Incidents *incidents, size_t i);
const Incident *incidents_find(const Incidents *incidents, const char *id); /* NULL */
/* The open ones, in this order; returns how many. */
size_t incidents_list_open(const Incidents *incidents, const Incident *out[INCIDENTS_MAX]);

/* Whether the thing that an incident is about can go on being used. */
typedef enum IncidentUse {
    INCIDENT_USE_GOES_ON,
    INCIDENT_USE_NO_NEW_WORK, /* what runs may end; then somebody has to act */
    INCIDENT_USE_NONE,        /* it cannot be used until somebody acts */
} IncidentUse;
/* By severity and action: a fatal one takes it out of use; an error lets no new work in, unless what is to be done is
 * about a program, or nothing. Of an incident that is not open, and of a program's own fault: GOES_ON. */
IncidentUse incident_use(const Incident *incident);
/* Open and WARNING or worse: what every output calls a problem. */
bool incident_is_problem(const Incident *incident);
/* Whether a code is among those that it has seen. */
bool incident_has_code(const Incident *incident, int32_t code);
/* Whether this GPU is the one, or part of the thing, that the incident is about: the node, the fabric, itself, its
 * links and instances. */
bool incident_hits(const Incident *incident, const Device *gpu);
/* The same for a GPU instance of it (DEVICE_NO_NUMBER: the GPU itself): not where it is about another instance. */
bool incident_hits_instance(const Incident *incident, const Device *gpu, uint32_t gpu_instance);

/* --- incident_text.c --- */

/* Ids (of maintenance windows too) are the wall clock's milliseconds in base 32 (digits and lower case letters without
 * i, l, o and u), at least nine of them, so that they sort by time as texts. Each is larger than the one before it,
 * even if the clock goes back. */

/* Writes the next id after `last` (0: none yet) at this instant, and returns its number. */
uint64_t incident_id_next(uint64_t last, uint64_t real_ns, char out[INCIDENT_ID_CAP]);
/* The number of an id; 0 where the text is none. */
uint64_t incident_id_number(const char *id);
/* Writes title and verdict from the class (NULL: it is gone from the catalogue, the texts stay). */
void incident_text(Incident *incident, const FaultClass *class);
