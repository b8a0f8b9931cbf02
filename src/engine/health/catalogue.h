/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fault catalogue: what can be wrong (classes) and how it is recognised (rules), as data. The files of data/faults
 * are built in; a site's files are read over them, entry by entry, key by key. docs/faults.md describes the format.
 *
 * A class says what an incident is: cause, severity, scope, action, route, when it opens and when it ends, and which
 * classes it is a consequence of. A rule leads from something seen to a class: from an event (XID 79 on drivers since
 * 535, a line of the kernel log) or from a condition of the readings (a detector with its thresholds). A rule may say
 * cause, severity, action and route differently from its class.
 *
 * Made once and then const; texts lie in its arena. Pure: YAML text in, no file is opened here. One thread makes it,
 * any may read it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/yaml.h"
#include "model/event.h"
#include "model/fault.h"

enum { CATALOGUE_PARENTS = 16, CATALOGUE_PARAMS = 12 };

typedef struct FaultClass {
    const char *id;      /* "gpu-lost" */
    const char *text;    /* one sentence without a full stop: "the GPU has fallen off the bus" */
    const char *advice;  /* what to do, one or two sentences for the person on call */
    const char *runbook; /* URL, "" none */
    FaultCause cause;
    FaultSeverity severity;
    FaultScope scope;
    FaultAction action;
    FaultRoute route;
    FaultClear clear;
    uint64_t for_ns;    /* a condition must hold this long before the incident opens (Prometheus' `for`) */
    uint64_t keep_ns;   /* and be gone this long before it is over (`keep_firing_for`) */
    uint64_t quiet_ns;  /* FAULT CLEAR_QUIET: time without a sign; for the others with a reset rule: 0 never */
    uint64_t reopen_ns; /* a sign so soon after the end reopens it with its history instead of opening a new one */
    bool by_code;       /* the code is part of the incident's key: XID 31 and XID 13 are two */
    bool by_process;    /* so is the process */
    bool observe;       /* kept and shown, but its route is none whatever else is said (a check on trial) */
    bool enabled;       /* false: signs of it are dropped (a site's choice) */
    size_t parent_count;
    const char *parents[CATALOGUE_PARENTS]; /* classes that take its signs as echoes while they are open nearby; its
              own id among them: one on a wider thing (the node) takes those on narrower ones (its GPUs) */
    uint64_t parent_ns; /* how long after a parent's last sign, or before its first, it still counts as its echo */
    const char *source; /* where it is known from */
    const char *file;   /* where the entry stands, for messages */
    uint32_t line;
} FaultClass;

typedef enum FaultMatch {
    FAULT_ON_XID,
    FAULT_ON_SXID,
    FAULT_ON_EVENT,    /* any event of a kind, or lines that contain a text */
    FAULT_ON_DETECTOR, /* a condition, by a detector of engine/health/detect */
    FAULT_MATCH_END,
} FaultMatch;

typedef struct FaultParam {
    const char *name;
    double value; /* in the detector's unit; durations in ns */
} FaultParam;

typedef struct FaultRule {
    const char *id;          /* "xid-79", "sxid-20034", "pcie-width" */
    const char *name;        /* a few words: "GPU has fallen off the bus" */
    const char *text;        /* what it means, a sentence or two, for `stoker xid`; "" none */
    const FaultClass *fault; /* NULL: known, and no fault at all (kept as an event only), or switched off by a site */
    FaultMatch match;
    /* of events */
    EventKind event;
    int32_t code_from, code_to;         /* inclusive; both 0 for other events than XIDs and SXids: any */
    uint32_t driver_from, driver_below; /* major driver version, 0: any */
    EventWord word;                     /* only where the line says this; EVENT_NO_WORD: whatever it says */
    const char *contains;               /* only where the line contains this; "" */
    const char *unit;                   /* XID 144-150: only this unit's; "" */
    uint32_t intr_mask_old, intr_value_old, intr_mask_new, intr_value_new; /* before R575 and since; mask 0: any */
    uint32_t status_mask;                                                  /* XID 144-150: bit of errorStatus; 0: any */
    bool status_whole;              /* status_mask is the whole errorStatus, not a bit of it */
    uint32_t arch_from, arch_below; /* DeviceArch, 0 any */
    const char *explained_by;       /* class of an incident nearby that makes a sign silent; "" none */
    bool silent;                    /* counts and is kept, but opens nothing by itself (an XID 45, 43, 154) */
    /* of detectors */
    const char *detector;
    size_t param_count;
    const FaultParam *params; /* all that the detector knows, in its order, defaults filled in */
    /* what it says differently from its class; the class's where it says nothing */
    FaultCause cause;
    FaultSeverity severity;
    FaultScope scope;
    FaultAction action;
    FaultRoute route;
    uint64_t for_ns, keep_ns; /* of the class where not said */
    const char *source;
    const char *file;
    uint32_t line;
} FaultRule;

typedef struct Catalogue Catalogue;

/* A detector, for checking the `with` of a rule: its name, its parameters with unit and default. The table is
 * engine/health/detect.h's; given here so that the catalogue does not know it. */
typedef struct DetectorParam {
    const char *name;
    enum { DETECTOR_NUMBER, DETECTOR_DURATION, DETECTOR_METRIC } type; /* METRIC: a metric's name, value its MetricId */
    double value, min, max;                                            /* default and bounds; durations in ns */
    const char *help;
} DetectorParam;
typedef struct DetectorSpec {
    const char *name, *help;
    size_t param_count;
    const DetectorParam *params;
} DetectorSpec;

/* The built-in catalogue with `count` documents of the site over it, in their order (each a mapping with `classes` and
 * `rules`; roots come from yaml_load, NULL for an empty file; nothing of them is kept). -EINVAL with file, line and
 * column of what is wrong: unknown keys, words, classes, detectors, parameters out of bounds, circles among parents.
 * With detector_count 0 nothing is known of detectors: their names and parameters are taken as they stand. */
int catalogue_new(const YamlNode *const *site, size_t count, const DetectorSpec *detectors, size_t detector_count,
                  Catalogue **ret, Err *err);
void catalogue_free(Catalogue *catalogue);
/* Drops the `for` of every class and rule: for a single sample, which cannot wait. */
void catalogue_open_at_once(Catalogue *catalogue);

size_t catalogue_class_count(const Catalogue *catalogue);
const FaultClass *catalogue_class_at(const Catalogue *catalogue, size_t i);
const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id); /* NULL: none */
size_t catalogue_rule_count(const Catalogue *catalogue);
const FaultRule *catalogue_rule_at(const Catalogue *catalogue, size_t i);
const FaultRule *catalogue_rule(const Catalogue *catalogue, const char *id); /* NULL: none */

/* The rule for an event: the most special one that matches; of an XID or SXid that nothing is known of, the rule
 * "xid-unknown" or "sxid-unknown", never NULL for these two. `driver_major` 0: not known (then entries without a range
 * come first, else the newest). The driver's own word (event->word) stands above the table: a line that says Fatal is
 * never milder than ERROR, one that says Non-fatal never FATAL. That is settled in *ret_verdict. */
typedef struct FaultVerdict {
    const FaultRule *rule;
    FaultCause cause;
    FaultSeverity severity;
    FaultAction action;
    FaultRoute route;
} FaultVerdict;
bool catalogue_judge(const Catalogue *catalogue, const Event *event, uint32_t driver_major, uint32_t arch,
                     FaultVerdict *ret_verdict);
/* The rules for a number whatever driver and line: for `stoker xid 79`. Returns how many there are; at most `cap` into
 * out, the one for this driver first. */
size_t catalogue_find_code(const Catalogue *catalogue, EventKind kind, int32_t code, uint32_t driver_major,
                           const FaultRule **out, size_t cap);
