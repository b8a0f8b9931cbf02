/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of the incident engine, for incidents*.c alone. Each file calls only those above it in this list:
 *   incidents_match.c   which device, class and work evidence is about; which incident explains another
 *   locality.c          whether application XIDs make a GPU suspect
 *   incidents_update.c  one more piece of evidence in an entry: counts, verdict, echoes
 *   incidents_life.c    entries begin, open, close; faults from before the start, or back after their remedy; time
 *   incidents.c         what comes in: events, conditions, the node, the journal
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
    INCIDENTS_TELLINGS = 4,    /* readings that speak for a fault until the GPU is reset */
};

#define INCIDENTS_DECIDE_NS                                                                                            \
    UINT64_C(60000000000)                         /* the driver's action belongs to a fault this long before, at most  \
                                                   */
#define INCIDENTS_SETTLE_NS UINT64_C(10000000000) /* after a reset a condition may still come of old readings */
#define INCIDENTS_GRACE_NS UINT64_C(120000000000) /* detectors need so long to see a condition again */
#define INCIDENTS_REPLAY_NS UINT64_C(2000000000)  /* all old lines were read when none came for so long */
#define INCIDENTS_PAST_NS UINT64_C(60000000000)   /* after the start, readings are waited for so long */
#define INCIDENTS_QUIET_NS UINT64_C(600000000000) /* for classes without `quiet` that nothing else can end */
#define INCIDENTS_KEPT_NS UINT64_C(172800000000000)    /* cleared ones leave memory after it; the journal has them */
#define INCIDENTS_HISTORY_NS UINT64_C(691200000000000) /* the same of those with a reboot or more for a remedy */

#define INCIDENTS_SUSPECT_CLASS "gpu-fault-suspected"
#define INCIDENTS_LOST_CLASS "gpu-lost"

enum { LOCALITY_SPOTS = 128 };

/* Where an application XID was seen, of one program. */
typedef struct LocalitySpot {
    uint64_t place, last_ns; /* the GPU */
    uint64_t start_ns;       /* of the process; 0 unknown */
    uint64_t program;        /* by its name, 0 unknown; names that many programs have are one */
    uint64_t owner, user;    /* the job, pod or container that it runs in, and whose it is; 0 unknown */
    uint32_t occurrences;
    int32_t code, gpc, tpc, pid;
    char name[EVENT_NAME_CAP];
} LocalitySpot;

typedef struct Locality {
    LocalitySpot spots[LOCALITY_SPOTS];
} Locality;

enum { INCIDENTS_TALLIES = 16, TALLY_PARTS = 10 };

/* How many events of a rule and a place came within its time, in tenths of that. */
typedef struct IncidentTally {
    bool older; /* of such events, see Event */
    uint64_t key, part, last_real_ns;
    bool many;
    uint64_t counts[TALLY_PARTS];
} IncidentTally;

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
    char path[PLACE_PATH_CAP]; /* the bridges above it, as Place has them; "" unknown */
    bool lost;                 /* was seen lost since it was last up */
    bool let_go;               /* an operator drains it, or has let the driver go: it may be taken out */
    uint64_t reset_ns;
    /* at the last tick */
    GpuState state;
    uint64_t sampled_ns; /* of the last pass; 0: never */
    bool link_down;
    Sample told[INCIDENTS_TELLINGS];
} IncidentGpu;

/* What the readings of now say of a fault from before the agent's start. */
typedef enum IncidentPast { PAST_STANDS, PAST_WAITS, PAST_OVER } IncidentPast;

struct Incidents {
    const Catalogue *catalogue;
    const Maintenance *maintenance;
    IncidentChanged changed;
    void *self;
    IncidentOwnersOf owners_of; /* NULL: nobody knows */
    void *owners_self;
    uint64_t now_ns, real_ns;
    uint64_t tick;      /* counts incidents_set_node; without it, incidents_advance */
    uint64_t last_id;   /* number of the last id */
    uint64_t began_ns;  /* the first tick; 0: none yet */
    uint64_t replay_ns; /* first advance after the last line from before the start; 0: none since */
    bool replaying, has_node;
    bool disordered; /* `entries` is to be sorted */
    size_t count;
    IncidentEntry *entries[INCIDENTS_MAX]; /* the reverse of what incidents_at gives; new ones behind it */
    VEC(IncidentFollower) followers;
    Locality locality;
    IncidentTally tallies[INCIDENTS_TALLIES];
    uint64_t boot_real_ns; /* 0: unknown */
    size_t gpu_count;
    IncidentGpu *gpus;
    char driver_version[READING_TEXT_CAP];
    uint32_t driver_major;
};

/* --- locality.c --- */

/* Notes an application XID 13 or 31 of the kernel log; others do nothing. `who` runs the process, NULL: not known.
 * Returns true if the GPU is suspect now, with the reason in `text`. */
bool locality_note(Locality *locality, const Event *event, uint64_t place, const Owner *who, char text[EVENT_TEXT_CAP]);

/* --- incidents_match.c --- */

uint64_t incident_place(const Device *device);
uint64_t incident_hash(const char *text); /* 0 of "" */
/* Whose work the evidence hits, as of now; a fault of one program has its owner alone. Returns how many; those kept are
 * in `out`. */
uint32_t incidents_find_owners(const Incidents *incidents, const Evidence *in, Owner out[INCIDENT_OWNERS]);
/* Owners and job of the incident. */
void incident_set_owners(Incident *it, const Owner *owners, uint32_t count);
/* Narrows or widens the device to the scope, and adds what is known of it. */
void incidents_complete_device(const Incidents *incidents, FaultScope scope, Device *device);
/* Of an event of a PCIe port, the GPU below it, or the node if there are several; of others nothing changes. A port
 * that other devices share counts only where its link is down or the error fatal. False: no GPU has to do with it, or
 * an operator takes it out. */
bool incidents_find_reporter(const Incidents *incidents, const Event *event, Device *device);
/* `owner` NULL: not known. */
IncidentKey incident_key(const FaultClass *class, const Device *device, int32_t code, const char *process,
                         const Owner *owner);
bool incident_key_equal(const IncidentKey *a, const IncidentKey *b);
bool incident_is_wide(const IncidentKey *key); /* of the node or the fabric, not of one GPU */
IncidentGpu *incidents_find_gpu(const Incidents *incidents, uint64_t place);
/* The pending or open entry of a key; NULL. */
IncidentEntry *incidents_find_live(const Incidents *incidents, const IncidentKey *key);
/* The entry of a key that was cleared last, unless it was merged or the board was replaced; NULL. */
IncidentEntry *incidents_find_cleared(const Incidents *incidents, const IncidentKey *key);
/* A line that does not name its GPU is about the one that has this fault already, the latest of several; else nothing
 * changes. */
void incidents_find_unnamed(const Incidents *incidents, const FaultClass *class, Device *device);
/* Whether the fabric manager repeats in its own log what the driver has said of a switch in the kernel's. */
bool incidents_is_said_twice(const Incidents *incidents, const Evidence *in);
/* Whether an incident at `parent` can be behind one at `child`. *ret_peer: only as a lost neighbour at the other end of
 * a link. */
bool incidents_related(const IncidentKey *parent, const IncidentKey *child, bool *ret_peer);
/* Whether `parent` is above `child`, over however many classes in between. */
bool incidents_is_ancestor(const FaultClass *parent, const FaultClass *child);
/* Open, or pending and due. */
bool incident_stands(const IncidentEntry *entry);
/* The entry of a class that stands near the evidence in place and time; NULL. Of a count that is first seen, whose time
 * nobody knows: also one of long ago, and one that is quiet by now. */
const IncidentEntry *incidents_find_explanation(const Incidents *incidents, const Evidence *in,
                                                const FaultClass *class);
/* The standing entry that the evidence is an echo of: NULL none. `pending`: its own entry so far, NULL. */
IncidentEntry *incidents_find_parent(const Incidents *incidents, const Evidence *in, const IncidentEntry *pending);
/* Whether `child` is a consequence of `parent`, by class, place and time. */
bool incidents_is_consequence(const IncidentEntry *parent, const IncidentEntry *child);

/* --- incidents_update.c --- */

/* Gives a new revision of the incident to the callback. */
void incidents_report(Incidents *incidents, IncidentEntry *entry, IncidentChange change);
/* How deep an action goes: 1 a reset, 2 a reboot, 3 a replacement; 0 none of these. */
unsigned incidents_action_depth(FaultAction action);
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

/* Keeps what a GPU's readings of this tick say. */
void incidents_note_readings(IncidentGpu *gpu, const NodeGpu *now);
/* Gives evidence to its entry, to a parent, or to a new entry. */
void incidents_assign(Incidents *incidents, const Evidence *in);
void incidents_close(Incidents *incidents, IncidentEntry *entry, IncidentEnd end);
/* Closes what an event of this kind ends: RESET, MODULE_LOADED, REBOOT, REPLACED. `place` 0: everywhere. */
void incidents_close_by(Incidents *incidents, EventKind kind, uint64_t place, uint64_t time_ns, uint64_t real_ns);
/* Takes an entry into the list (restoring); false: it is full. */
bool incidents_insert(Incidents *incidents, IncidentEntry *entry);
/* Frees entries that are gone, and sorts the others after states have changed. */
void incidents_sort(Incidents *incidents);
