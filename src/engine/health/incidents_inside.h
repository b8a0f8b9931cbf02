/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the incident engine share; for incidents*.c alone.
 *
 * Everything that comes in becomes an IncidentInput: one sign of one class on one thing. It is taken by the entry of
 * its key, or by a parent's. An entry lives from its first sign on: pending until it is due (a moment: at the next
 * turn; a condition: when its `for` has passed; a silent sign: never), then open, then cleared. Only incidents_turn
 * opens, so that of several signs which came together the parent opens and its echoes never do.
 */

#include "engine/health/incident_id.h"
#include "engine/health/incidents.h"

enum {
    INCIDENTS_HOLDS = 4,       /* conditions (rules) that keep one incident */
    INCIDENTS_TWINS = 64,      /* XIDs that may come a second time from the other source */
    INCIDENTS_SPOTS = 128,     /* places where application XIDs were seen */
    INCIDENTS_FOLLOWERS = 512, /* conditions that were taken as echoes */
    INCIDENTS_RECORDS = 256,   /* records of the kernel log that were seen */
    INCIDENTS_DEPTH = 8,       /* of parents' parents */
};

#define INCIDENTS_TWIN_NS UINT64_C(5000000000)    /* the second source comes within this time */
#define INCIDENTS_DECIDE_NS UINT64_C(60000000000) /* what the driver asks for belongs to a fault this long before */
#define INCIDENTS_SETTLE_NS UINT64_C(10000000000) /* after a reset a condition may still be that of old readings */
#define INCIDENTS_GRACE_NS UINT64_C(120000000000) /* after a restart detectors need so long to see again */
#define INCIDENTS_REPLAY_NS UINT64_C(2000000000)  /* so long without a line from before the start: all were read */
#define INCIDENTS_QUIET_NS UINT64_C(600000000000) /* where a class says no time and nothing else can end it */
#define INCIDENTS_KEPT_NS                                                                                              \
    UINT64_C(172800000000000)                     /* cleared ones are kept in memory so long; the journal has them     \
                                                   */
#define INCIDENTS_DAY_NS UINT64_C(86400000000000) /* of the rules of locality */
#define INCIDENTS_BURST_NS UINT64_C(180000000000) /* of one process: what comes closer is the same occurrence */

/* The class of what the driver asks for where no fault is known; its signs say what to do about the others. */
#define INCIDENTS_RESET_CLASS "reset-required"
#define INCIDENTS_SUSPECT_CLASS "gpu-fault-suspected"
#define INCIDENTS_LOST_CLASS "gpu-lost"

/* What an incident is about: two with the same key are one. */
typedef struct IncidentKey {
    uint64_t class;   /* hash of its id */
    uint64_t place;   /* of the whole GPU or switch; 0 the node */
    uint64_t process; /* hash, 0 where the class does not ask */
    uint32_t kind, link, gpu_instance, compute_instance;
    int32_t code; /* 0 where the class does not ask */
} IncidentKey;

typedef struct IncidentInput {
    const FaultClass *class;
    const char *rule;
    uint64_t for_ns, keep_ns;
    FaultCause cause;
    FaultSeverity severity;
    FaultScope scope; /* of the rule */
    FaultAction action;
    FaultRoute route;
    bool silent;  /* opens nothing */
    bool holds;   /* a condition */
    bool decides; /* its action is the driver's own word */
    bool before;
    EventOrigin origin;
    uint64_t time_ns, real_ns;
    Device device;
    IncidentKey key;
    int32_t code, pid, caused_by;
    const char *process, *text;
    size_t counter_count;
    const IncidentCounter *counters;
} IncidentInput;

/* A condition that holds, by the rule that gives it. */
typedef struct IncidentHold {
    uint64_t rule; /* hash of its id */
    uint64_t since_ns, last_ns, tick, for_ns;
} IncidentHold;

typedef struct IncidentEntry {
    Incident it;
    IncidentKey key;
    const FaultClass *class;
    bool due;      /* pending: opens at the next turn */
    bool silent;   /* pending: only silent signs so far */
    bool decided;  /* the driver said what to do */
    bool restored; /* from the journal, and not looked at since */
    bool dirty;    /* more was seen than was told */
    bool fed;      /* a condition has held since it was opened or restored */
    int32_t caused_by;
    uint64_t onset_ns;     /* first sign since it was made or reopened */
    uint64_t near_ns;      /* last sign, echoes included */
    uint64_t last_real_ns; /* wall clock of the last sign of its own */
    uint64_t cleared_ns;
    uint64_t evidence_ns; /* last time a holding condition was written down */
    uint64_t keep_ns;
    uint64_t grace_ns; /* does not end for want of a condition before */
    size_t hold_count;
    IncidentHold holds[INCIDENTS_HOLDS];
} IncidentEntry;

/* An XID that one source told and the other may tell again. */
typedef struct IncidentTwin {
    uint64_t place, log_ns, library_ns;
    uint32_t log_count, library_count; /* not yet matched */
    int32_t code;
    bool echo; /* the library's went there as an echo */
    IncidentEntry *entry;
    uint64_t sign_ns, sign_real_ns, near_ns; /* of the entry, before */
    uint32_t code_count;
} IncidentTwin;

/* A condition that goes to another class's incident. */
typedef struct IncidentFollower {
    IncidentKey key;
    IncidentEntry *parent; /* NULL: free */
    uint64_t last_ns;
} IncidentFollower;

/* Where an application XID was seen, of one program. */
typedef struct IncidentSpot {
    uint64_t place, process, first_ns, last_ns;
    uint32_t occurrences;
    int32_t code, gpc, tpc, pid;
    char name[EVENT_NAME_CAP];
} IncidentSpot;

typedef struct IncidentGpu {
    Device device;
    uint64_t reset_ns;
    bool lost; /* seen so since it was last up */
} IncidentGpu;

struct Incidents {
    const Catalogue *catalogue;
    const Maintenance *maintenance;
    IncidentTold told;
    void *self;
    uint64_t now_ns, real_ns;
    uint64_t tick;      /* counts incidents_look; where nobody looks, turns */
    uint64_t last_id;   /* number of the last id */
    uint64_t replay_ns; /* last turn that saw lines from before the start */
    bool replaying, looked;
    bool disordered; /* `order` is to be sorted */
    IncidentsCounts counts;
    IncidentEntry *entries[INCIDENTS_MAX]; /* NULL: free */
    size_t order_count;
    IncidentEntry *order[INCIDENTS_MAX]; /* as incidents_at gives them */
    IncidentTwin twins[INCIDENTS_TWINS];
    IncidentFollower *followers; /* INCIDENTS_FOLLOWERS, NULL before the first */
    IncidentSpot spots[INCIDENTS_SPOTS];
    uint64_t records[INCIDENTS_RECORDS]; /* hashes of what was read, by sequence */
    size_t gpu_count;
    IncidentGpu *gpus;
    char driver_version[READING_TEXT_CAP];
    uint32_t driver_major;
};

/* incidents_list.c */
bool incidents_key_equal(const IncidentKey *a, const IncidentKey *b);
/* The live entry (pending or open) of a key, NULL. */
IncidentEntry *incidents_live(const Incidents *incidents, const IncidentKey *key);
/* A place for a new one; NULL where every one that is kept is as bad as this. */
IncidentEntry *incidents_make(Incidents *incidents, const IncidentInput *in);
void incidents_release(Incidents *incidents, IncidentEntry *entry);
/* Puts the order right where states have changed. */
void incidents_arrange(Incidents *incidents);
/* Where a child went, as an echo or as itself, for everything that pointed to it; `parent` may be NULL. */
void incidents_forward(Incidents *incidents, const IncidentEntry *child, IncidentEntry *parent, bool echo);

/* incidents_key.c */
uint64_t incidents_place(const Device *device);
uint64_t incidents_hash(const char *text);
/* The device as the class's scope wants it, with all that is known of it. */
void incidents_normalise(const Incidents *incidents, FaultScope scope, Device *device);
IncidentKey incidents_key(const FaultClass *class, const Device *device, int32_t code, const char *process,
                          bool silent);
/* Whether an incident there can be behind one here. *ret_peer: only as a lost neighbour on the other end of a link. */
/* The incident of this class that stands near what is told, NULL none. */
const IncidentEntry *incidents_explains(const Incidents *incidents, const IncidentInput *in, const char *class);
bool incidents_related(const IncidentKey *parent, const IncidentKey *child, bool *ret_peer);
const IncidentGpu *incidents_gpu(const Incidents *incidents, uint64_t place);

/* incidents_grow.c: what one more sign does to an entry */
void incidents_note(Incident *it, const IncidentInput *in, bool echo); /* into the evidence */
void incidents_own(Incidents *incidents, IncidentEntry *entry, const IncidentInput *in);
void incidents_echo(Incidents *incidents, IncidentEntry *entry, const IncidentInput *in, bool count);
/* Raises severity, action and route where the other's are worse. Whether any rose. */
bool incidents_raise(IncidentEntry *entry, const IncidentInput *in);
/* A second source says it better: its text takes the place of the first's. */
void incidents_refine(Incidents *incidents, IncidentEntry *entry, const IncidentInput *in);
/* Takes the library's sign back out of an entry where it does not belong. */
void incidents_unsay(IncidentEntry *entry, const IncidentTwin *twin);
/* What one has seen goes to another: as its echoes, or as signs of its own. */
void incidents_absorb(Incidents *incidents, IncidentEntry *into, IncidentEntry *from, bool echo);
void incidents_tell(Incidents *incidents, IncidentEntry *entry, IncidentChange change);

/* incidents_take.c */
/* Which entry took it; NULL: none did. */
IncidentEntry *incidents_take(Incidents *incidents, const IncidentInput *in, bool *ret_echo);
/* Which entry there is that would take it: its own, or a parent's; NULL: a new one. */
IncidentEntry *incidents_taker(const Incidents *incidents, const IncidentInput *in);
/* Whether a class of this id stands above, over however many between; how near in time is the child's matter. */
bool incidents_ancestor(const Incidents *incidents, const FaultClass *child, const char *id, uint64_t *ret_window_ns);
void incidents_open(Incidents *incidents, IncidentEntry *entry);
/* Whether another that is due is above this one and is to be opened first. */
bool incidents_waits(const Incidents *incidents, const IncidentEntry *entry);
bool incidents_due(const Incidents *incidents, const IncidentEntry *entry);

/* incidents_end.c */
void incidents_close(Incidents *incidents, IncidentEntry *entry, IncidentEnd end);
/* What an event of this kind ends: RESET, MODULE_LOADED, REBOOT, REPLACED; others nothing. `place` 0: everywhere. */
void incidents_end_by(Incidents *incidents, EventKind kind, uint64_t place, uint64_t time_ns, uint64_t real_ns);

/* incidents_locality.c: remembers an application XID, and takes a suspicion where the rules of locality say so. */
void incidents_locality(Incidents *incidents, const Event *event, const IncidentInput *in);
