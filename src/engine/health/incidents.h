/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The incidents of a node: signs and events come in, incidents open, grow, escalate, end and come back. One incident
 * per fault and thing: its key is the device, the class and, where the class says so, code and process; never the text.
 *
 * Rules (docs/faults.md tells them to users):
 *  - a sign of a class with an open parent on the same thing (the same GPU; a node or fabric incident stands above all
 *    its GPUs) within parent_ns is an echo: it is attached there and opens nothing. Where the child came first, it is
 *    merged into the parent when that opens, unless it was told as worse.
 *  - an event that says what it follows (caused_by, XID 154's action) goes to the incident of that code.
 *  - XID 154 and the driver's recovery action decide the action of the GPU's open hardware incident.
 *  - application faults become a hardware suspicion only by locality: the same XID 13 at the same GPC and TPC, or XID
 * 31 on the same GPU under two different processes, within a day.
 *  - events from before the agent's start open incidents only where no reset, reload or reboot lies between and the
 *    journal does not know them already. They are held back until all were read (two seconds without another); what is
 *    not over then is told as OPENED with `before` set, the rest is never told.
 *  - `for`, `keep_firing_for`, quiet times and reopening are the class's.
 *
 * Nothing opens before incidents_turn: of what was read in one go a parent opens and its echoes never do. So call it
 * after every batch of events too, at once.
 *
 * Time is an argument; no I/O; what is told goes through one callback, synchronously, in an order in which a parent
 * comes before its echoes. Memory is bounded: INCIDENTS_MAX are kept, the oldest cleared one gives its place. One
 * thread.
 */

#include "engine/health/catalogue.h"
#include "engine/health/maintenance.h"
#include "engine/health/sign.h"
#include "model/facts.h"
#include "model/node.h"

enum { INCIDENTS_MAX = 224 };                    /* 5.6 KiB each, allocated when one begins: 1.2 MiB at most */
#define INCIDENT_UPDATE_NS UINT64_C(60000000000) /* more of the same is told so often at most */

typedef struct Incidents Incidents;

/* A change is told: `incident` is valid for the call. */
typedef void (*IncidentTold)(void *self, const Incident *incident, IncidentChange change);

/* `catalogue` and `maintenance` are borrowed; incidents_set_catalogue gives another after a reload of the
 * configuration: open incidents keep their verdicts, classes that are gone are cleared by hand. */
Incidents *incidents_new(const Catalogue *catalogue, const Maintenance *maintenance, IncidentTold told, void *self);
void incidents_free(Incidents *incidents);
void incidents_set_catalogue(Incidents *incidents, const Catalogue *catalogue);

/* Takes over incidents that the journal kept: open ones go on where they were (monotonic instants are set anew from the
 * wall clock), cleared ones serve reopening and history. Before the first sign. */
void incidents_restore(Incidents *incidents, const Incident *kept, size_t count, uint64_t now_ns, uint64_t real_ns);

/* Who the GPUs are now: identity for devices that signs name by PCI address, replacement by serial or UUID, driver
 * version; a GPU that was lost and answers again was reset, since the driver does not take one back otherwise. A board
 * that was moved to another slot takes its incidents with it. At every tick before the signs. */
void incidents_look(Incidents *incidents, const Node *node);

/* An event of a log or of the driver; also RESET, REPLACED, REBOOT, MODULE_LOADED, which end what they end (without a
 * PCI address: everywhere). A REBOOT is to be given only where the boot is another than the journal's, with its
 * real_ns: it ends what was last seen before. The same XID of kmsg and NVML within a few seconds counts once. */
void incidents_event(Incidents *incidents, const Event *event);
/* A sign of a detector. */
void incidents_sign(Incidents *incidents, const Sign *sign);
/* After all signs of a tick, and after events in between: what was not seen for its time ends, what has held for its
 * time opens; maintenance begins and ends. */
void incidents_turn(Incidents *incidents, uint64_t now_ns, uint64_t real_ns);

/* By hand: 0, -ENOENT, -EALREADY where it is over. `who` goes into the evidence. */
int incidents_clear(Incidents *incidents, const char *id, const char *who, uint64_t now_ns, uint64_t real_ns, Err *err);

/* Those that are kept, newest first by opening, pending ones last; valid until the next call that changes something. */
size_t incidents_count(const Incidents *incidents);
const Incident *incidents_at(const Incidents *incidents, size_t i);
const Incident *incidents_find(const Incidents *incidents, const char *id); /* NULL */
/* The state of one GPU: the worst severity of the open incidents on it, on its instances and links, and (with `all`) on
 * the node and the fabric. *ret_worst: that incident, NULL where there is none. */
bool incidents_worst(const Incidents *incidents, const PciAddress *gpu, bool all, const Incident **ret_worst);

/* Whether the thing that an incident is about can go on being used. */
typedef enum IncidentUse {
    INCIDENT_USE_GOES_ON,
    INCIDENT_USE_NO_NEW_WORK, /* what runs may end; then somebody has to act */
    INCIDENT_USE_NONE,        /* it cannot be used until somebody acts */
} IncidentUse;
/* By severity and action: a fatal one takes it out of use, an error whose action is to drain, reset, reboot or repair
 * the driver lets no new work in. Of an incident that is not open, and of a program's own fault: GOES_ON. */
IncidentUse incident_use(const Incident *incident);
/* Whether this GPU is the one, or part of the thing, that the incident is about: the node, the fabric, itself, its links
 * and instances. */
bool incident_hits(const Incident *incident, const Device *gpu);

typedef struct IncidentsCounts {
    uint64_t events;          /* that came in */
    uint64_t echoes;          /* that were attached to another */
    uint64_t dropped_repeats; /* the same thing from a second source */
    uint64_t unknown;         /* codes that nothing is known of */
    uint64_t opened, cleared, reopened, evicted;
} IncidentsCounts;
void incidents_counts(const Incidents *incidents, IncidentsCounts *ret);
