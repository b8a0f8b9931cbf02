/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An incident: one fault on one thing, from its first evidence to its end, with what was seen of it. Everything that
 * leaves the node (alert, journal, page, verb) is made from this struct. Plain values without pointers, so that it may
 * be copied and queued; made and changed by engine/health/incidents.h alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/device.h"
#include "model/event.h"
#include "model/fault.h"
#include "model/owner.h"
#include "model/reading.h"

enum {
    INCIDENT_ID_CAP = 16,
    INCIDENT_CLASS_CAP = 40,
    INCIDENT_RULE_CAP = 48,
    INCIDENT_TEXT_CAP = 256,
    INCIDENT_VERDICT_CAP = 512,
    INCIDENT_FIRST = 6, /* evidence kept from its beginning */
    INCIDENT_LAST = 6,  /* and from its end: what lies between is counted */
    INCIDENT_COUNTERS = 8,
    INCIDENT_CODES = 12,
    INCIDENT_OWNERS = 8,
};

/* WORD(id, key) */
#define INCIDENT_STATE_TABLE(WORD)                                                                                     \
    WORD(INCIDENT_PENDING, "pending") /* its `for` has not passed: not reported, not shown */                          \
    WORD(INCIDENT_OPEN, "open")                                                                                        \
    WORD(INCIDENT_CLEARED, "cleared")

typedef enum IncidentState { INCIDENT_STATE_TABLE(WORD_ID) INCIDENT_STATE_END } IncidentState;

/* WORD(id, key, text): what ended it. */
#define INCIDENT_END_TABLE(WORD)                                                                                       \
    WORD(INCIDENT_END_NOT_ENDED, "", "")                                                                               \
    WORD(INCIDENT_END_GONE, "gone", "the condition is over")                                                           \
    WORD(INCIDENT_END_QUIET, "quiet", "no further evidence came")                                                      \
    WORD(INCIDENT_END_RESET, "reset", "the GPU was reset")                                                             \
    WORD(INCIDENT_END_DRIVER_RELOAD, "driver-reload", "the driver was reloaded")                                       \
    WORD(INCIDENT_END_REBOOT, "reboot", "the node was rebooted")                                                       \
    WORD(INCIDENT_END_REPLACED, "replaced", "another board is in its place")                                           \
    WORD(INCIDENT_END_HAND, "hand", "cleared by hand")                                                                 \
    WORD(INCIDENT_END_MERGED, "merged", "it turned out to be a consequence of another incident")

typedef enum IncidentEnd { INCIDENT_END_TABLE(WORD_ID) INCIDENT_END_END } IncidentEnd;

/* One thing that was seen. */
typedef struct IncidentEvidence {
    uint64_t real_ns;
    EventOrigin origin;
    bool echo;              /* of another class, attached as a consequence: an XID 45 behind the 79 */
    FaultSeverity severity; /* by itself */
    int32_t code;
    char text[EVENT_TEXT_CAP];
} IncidentEvidence;

/* The part of a wider thing that the first evidence names: of the fabric, a switch and its link. */
typedef struct IncidentPart {
    bool known;
    PciAddress pci;
    uint32_t link; /* DEVICE_NO_NUMBER: none named */
} IncidentPart;

/* A counter or state before and after. NaN: not known. */
typedef struct IncidentCounter {
    char name[48]; /* a metric's classic name, or "aer_correctable" and the like */
    double before, after;
} IncidentCounter;

typedef struct Incident {
    char id[INCIDENT_ID_CAP]; /* unique on this node for ever, sorts by time of opening: "1jf8v3k2m0" */
    uint64_t revision;        /* counts every change that is reported */
    IncidentState state;
    /* what it is about */
    Device device; /* kind by its scope; identity as known when it was opened */
    IncidentPart part;
    char driver_version[READING_TEXT_CAP];
    char process[EVENT_NAME_CAP];  /* the program, of application faults; "" none */
    int32_t pid;                   /* -1 none */
    char job[64];                  /* the first owner's job or pod, "" unknown */
    uint32_t owner_count;          /* INCIDENT_OWNERS + 1: there are more than are kept */
    Owner owners[INCIDENT_OWNERS]; /* whose work was on the device when the fault came */
    /* the verdict */
    char class[INCIDENT_CLASS_CAP]; /* of the catalogue */
    char rule[INCIDENT_RULE_CAP];   /* the catalogue's entry that decided it last: "xid-79", "pcie-width" */
    int32_t code;                   /* XID or SXid at its root, 0 none */
    FAULT_SAYS;
    char title[INCIDENT_TEXT_CAP];      /* one sentence: what is wrong with what */
    char verdict[INCIDENT_VERDICT_CAP]; /* one or two more: why we think so, what to do */
    char runbook[128];                  /* a URL, "" none */
    /* its life; wall clock, and the agent's clock where durations matter */
    uint64_t first_ns, opened_ns, updated_ns; /* first evidence; when `for` had passed; last reported change */
    uint64_t last_evidence_ns;
    uint64_t first_real_ns, opened_real_ns, updated_real_ns, cleared_real_ns; /* 0: not yet */
    IncidentEnd end;
    uint64_t count;       /* pieces of evidence of its own, echoes not included */
    uint64_t echo_count;  /* pieces of evidence of others that were attached */
    uint32_t escalations; /* how often severity, action or route rose */
    uint32_t reopened;    /* how often it came back soon after its end */
    bool before;          /* its first evidence is from before the agent's start */
    /* maintenance */
    bool silenced;                /* a window covers it now: marked, shown, not sent */
    char window[INCIDENT_ID_CAP]; /* that window */
    /* evidence */
    uint32_t code_count;
    int32_t codes[INCIDENT_CODES]; /* every XID and SXid seen in it, its own and echoes', each once */
    uint32_t first_len, last_len;
    IncidentEvidence first[INCIDENT_FIRST];
    IncidentEvidence last[INCIDENT_LAST]; /* oldest first; those already in `first` are not repeated */
    uint32_t counter_len;
    IncidentCounter counters[INCIDENT_COUNTERS];
} Incident;

/* WORD(id, key) */
#define INCIDENT_CHANGE_TABLE(WORD)                                                                                    \
    WORD(INCIDENT_CHANGE_OPENED, "opened")                                                                             \
    WORD(INCIDENT_CHANGE_UPDATED, "updated")     /* more of the same, told at most once per INCIDENT_UPDATE_NS */      \
    WORD(INCIDENT_CHANGE_ESCALATED, "escalated") /* severity, action or route rose */                                  \
    WORD(INCIDENT_CHANGE_SILENCED, "silenced")   /* a maintenance window began or ended to cover it */                 \
    WORD(INCIDENT_CHANGE_CLEARED, "cleared")                                                                           \
    WORD(INCIDENT_CHANGE_REOPENED, "reopened")

typedef enum IncidentChange { INCIDENT_CHANGE_TABLE(WORD_ID) INCIDENT_CHANGE_END } IncidentChange;

/* What to do, in words. */
const char *incident_action(const Incident *incident);

extern const WordRow incident_states[INCIDENT_STATE_END], incident_ends[INCIDENT_END_END],
    incident_changes[INCIDENT_CHANGE_END];
