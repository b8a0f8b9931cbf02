/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of the incident engine, for incidents*.c alone. Each file calls only those above it in this list:
 *   locality.c          whether application XIDs make a GPU suspect
 *   incidents_match.c   which device and class evidence is about; which incident explains another
 *   incidents_update.c  one more piece of evidence in an entry: counts, verdict, echoes
 *   incidents_life.c    entries begin, open, close
 *   incidents.c         what comes in: events, conditions, the node, the journal, time
 *
 * Evidence goes to the entry of its key, or to a parent's. An entry is pending until it is due (an event: at the next
 * incidents_advance; a condition: after its `for`; silent evidence: never), then open, then cleared. Only
 * incidents_advance opens, so that of several that came together the parent opens and its echoes never do.
 */

#include "base/number.h"
#include "base/vec.h"
#include "engine/health/incidents.h"

enum {
    INCIDENTS_HOLDS = 4,       /* conditions (rules) that keep one incident */
    INCIDENTS_FOLLOWERS = 512, /* conditions that are echoes, at most */
    INCIDENTS_RECORDS = 256,   /* records of the kernel log that were read */
    INCIDENTS_DEPTH = 8,       /* of parents' parents */
};

#define INCIDENTS_DECIDE_NS                                                                                            \
    UINT64_C(60000000000)                         /* the driver's action belongs to a fault this long before, at most  \
                                                   */
#define INCIDENTS_SETTLE_NS UINT64_C(10000000000) /* after a reset a condition may still come of old readings */
#define INCIDENTS_GRACE_NS UINT64_C(120000000000) /* detectors need so long to see a condition again */
#define INCIDENTS_REPLAY_NS UINT64_C(2000000000)  /* all old lines were read when none came for so long */
#define INCIDENTS_QUIET_NS UINT64_C(600000000000) /* for classes without `quiet` that nothing else can end */
#define INCIDENTS_KEPT_NS UINT64_C(172800000000000) /* cleared ones leave memory after it; the journal has them */

#define INCIDENTS_RESET_CLASS "reset-required" /* the driver's action where no fault is known */
#define INCIDENTS_SUSPECT_CLASS "gpu-fault-suspected"
#define INCIDENTS_LOST_CLASS "gpu-lost"

enum { LOCALITY_SPOTS = 128 };

/* Where an application XID was seen, of one program. */
typedef struct LocalitySpot {
    uint64_t place, process, last_ns; /* the GPU, the program: 0 unknown */
    uint32_t occurrences;
    int32_t code, gpc, tpc, pid;
    char name[EVENT_NAME_CAP];
} LocalitySpot;

typedef struct Locality {
    LocalitySpot spots[LOCALITY_SPOTS];
} Locality;

/* A condition that holds, by the rule that gives it. */
typedef struct IncidentHold {
    uint64_t rule; /* hash of its id */
    uint64_t since_ns, last_ns, tick, for_ns;
} IncidentHold;

/* How far a pending entry is. */
typedef enum IncidentStage {
    STAGE_SILENT, /* only silent evidence so far */
    STAGE_HOLDS,  /* waits until a condition has held for its time */
    STAGE_DUE,    /* opens at the next incidents_advance */
} IncidentStage;

typedef struct IncidentEntry {
    Incident it;
    IncidentKey key;
    IncidentStage stage;
    bool decided;  /* the driver said what to do */
    bool restored; /* from the journal; none of its conditions was seen since */
    bool dirty;    /* changed since it was last reported */
    bool gone;     /* nothing finds it any more; freed by incidents_sort */
    int32_t caused_by;
    uint64_t onset_ns;     /* first evidence since it was made or reopened */
    uint64_t near_ns;      /* last evidence, echoes included */
    uint64_t last_real_ns; /* wall clock of the last evidence of its own */
    uint64_t cleared_ns;
    uint64_t evidence_ns; /* when a holding condition was last written down */
    uint64_t keep_ns;
    uint64_t grace_ns; /* does not end for lack of a condition before */
    size_t hold_count;
    IncidentHold holds[INCIDENTS_HOLDS];
} IncidentEntry;

/* A condition that is an echo of another class's incident. */
typedef struct IncidentFollower {
    IncidentKey key;
    IncidentEntry *parent;
    uint64_t last_ns;
} IncidentFollower;

typedef struct IncidentGpu {
    Device device;
    bool lost; /* was seen lost since it was last up */
    uint64_t reset_ns;
} IncidentGpu;

struct Incidents {
    const Catalogue *catalogue;
    const Maintenance *maintenance;
    IncidentChanged changed;
    void *self;
    uint64_t now_ns, real_ns;
    uint64_t tick;      /* counts incidents_set_node; without it, incidents_advance */
    uint64_t last_id;   /* number of the last id */
    uint64_t replay_ns; /* first advance after the last line from before the start; 0: none since */
    bool replaying, has_node;
    bool disordered; /* `entries` is to be sorted */
    size_t count;
    IncidentEntry *entries[INCIDENTS_MAX]; /* the reverse of what incidents_at gives; new ones behind it */
    VEC(IncidentFollower) followers;
    Locality locality;
    uint64_t records[INCIDENTS_RECORDS]; /* hashes of records read, by sequence */
    size_t gpu_count;
    IncidentGpu *gpus;
    char driver_version[READING_TEXT_CAP];
    uint32_t driver_major;
};

/* --- locality.c --- */

/* Notes an application XID 13 or 31 of the kernel log; others do nothing. Returns true if the GPU is suspect now, with
 * the reason in `text`. */
bool locality_note(Locality *locality, const Event *event, uint64_t place, uint64_t process, char text[EVENT_TEXT_CAP]);

/* --- incidents_match.c --- */

uint64_t incident_place(const Device *device);
uint64_t incident_hash(const char *text); /* 0 of "" */
/* Narrows or widens the device to the scope, and adds what is known of it. */
void incidents_complete_device(const Incidents *incidents, FaultScope scope, Device *device);
IncidentKey incident_key(const FaultClass *class, const Device *device, int32_t code, const char *process);
bool incident_key_equal(const IncidentKey *a, const IncidentKey *b);
bool incident_is_wide(const IncidentKey *key); /* of the node or the fabric, not of one GPU */
IncidentGpu *incidents_find_gpu(const Incidents *incidents, uint64_t place);
/* The pending or open entry of a key; NULL. */
IncidentEntry *incidents_find_live(const Incidents *incidents, const IncidentKey *key);
/* The entry of a key that was cleared last, unless it was merged or the board was replaced; NULL. */
IncidentEntry *incidents_find_cleared(const Incidents *incidents, const IncidentKey *key);
/* Whether an incident at `parent` can be behind one at `child`. *ret_peer: only as a lost neighbour at the other end of
 * a link. */
bool incidents_related(const IncidentKey *parent, const IncidentKey *child, bool *ret_peer);
/* Whether `parent` is above `child`, over however many classes in between. */
bool incidents_is_ancestor(const FaultClass *parent, const FaultClass *child);
/* Open, or pending and due. */
bool incident_stands(const IncidentEntry *entry);
/* The entry of a class that stands near the evidence in place and time; NULL. */
const IncidentEntry *incidents_find_explanation(const Incidents *incidents, const Evidence *in,
                                                const FaultClass *class);
/* The standing entry that the evidence is an echo of: NULL none. `pending`: its own entry so far, NULL. */
IncidentEntry *incidents_find_parent(const Incidents *incidents, const Evidence *in, const IncidentEntry *pending);
/* Whether `child` is a consequence of `parent`, by class, place and time. */
bool incidents_is_consequence(const IncidentEntry *parent, const IncidentEntry *child);

/* --- incidents_update.c --- */

/* Gives a new revision of the incident to the callback. */
void incidents_report(Incidents *incidents, IncidentEntry *entry, IncidentChange change);
/* Writes a line of evidence. */
void incident_note(Incident *it, const Evidence *in, bool echo);
/* Evidence of the entry's own class, and of another class. A `repeated` echo is not counted again. */
void incidents_add_own(Incidents *incidents, IncidentEntry *entry, const Evidence *in);
void incidents_add_echo(Incidents *incidents, IncidentEntry *entry, const Evidence *in, bool repeated);
/* Moves what `from` has seen into `into`: as echoes, or as evidence of its own. */
void incidents_absorb(Incidents *incidents, IncidentEntry *into, IncidentEntry *from, bool echo);
/* A condition becomes an echo of `parent`, and is one for as long as that stands. */
void incidents_follow(Incidents *incidents, const IncidentKey *key, IncidentEntry *parent, uint64_t time_ns);
/* The parent of a condition that is an echo already; NULL. */
IncidentEntry *incidents_find_followed(Incidents *incidents, const Evidence *in);
/* Followers of `from` follow `to` (NULL: nobody). */
void incidents_move_followers(Incidents *incidents, const IncidentEntry *from, IncidentEntry *to);

/* --- incidents_life.c --- */

/* Gives evidence to its entry, to a parent, or to a new entry. */
void incidents_assign(Incidents *incidents, const Evidence *in);
void incidents_close(Incidents *incidents, IncidentEntry *entry, IncidentEnd end);
/* Closes what an event of this kind ends: RESET, MODULE_LOADED, REBOOT, REPLACED. `place` 0: everywhere. */
void incidents_close_by(Incidents *incidents, EventKind kind, uint64_t place, uint64_t time_ns, uint64_t real_ns);
void incidents_close_ended(Incidents *incidents);
/* Marks the incident as silenced by the maintenance window that covers it now, or by none; true: that is new. */
bool incidents_note_window(const Incidents *incidents, Incident *it);
void incidents_open_due(Incidents *incidents);
/* Takes an entry into the list (restoring); false: it is full. */
bool incidents_insert(Incidents *incidents, IncidentEntry *entry);
/* Frees entries that are gone, and sorts the others after states have changed. */
void incidents_sort(Incidents *incidents);
