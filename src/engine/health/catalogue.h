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

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml.h"
#include "model/event.h"
#include "model/fault.h"

enum { CATALOGUE_PARENTS = 20, CATALOGUE_PARAMS = 12 };

typedef struct FaultClass {
    const char *id;      /* "gpu-lost" */
    const char *text;    /* one sentence without a full stop: "the GPU has fallen off the bus" */
    const char *advice;  /* what to do, one or two sentences for the person on call */
    const char *runbook; /* URL, "" none */
    FAULT_SAYS;
    FaultClear clear;
    uint64_t for_ns;    /* a condition must hold this long before the incident opens (Prometheus' `for`) */
    uint64_t keep_ns;   /* and be gone this long before it is over (`keep_firing_for`) */
    uint64_t quiet_ns;  /* FAULT CLEAR_QUIET: time without evidence; for the others with a reset rule: 0 never */
    uint64_t reopen_ns; /* evidence so soon after the end reopens it with its history instead of opening a new one */
    bool by_code;       /* the code is part of the incident's key: XID 31 and XID 13 are two */
    bool by_process;    /* so is the process */
    bool by_owner;      /* so is whose work it is */
    bool observe;       /* kept and shown, but its route is none whatever else is said (a check on trial) */
    bool enabled;       /* false: its evidence is dropped (a site's choice) */
    size_t parent_count;
    const struct FaultClass *parents[CATALOGUE_PARENTS]; /* classes that take its evidence as echoes while they are open
            nearby; itself among them: one on a wider thing (the node) takes those on narrower ones (its GPUs) */
    uint64_t parent_ns; /* how long after a parent's last evidence, or before its first, it still counts as its echo */
    const char *source; /* where it is known from */
    const char *file;   /* where the entry stands, for messages */
    uint32_t line;
} FaultClass;

/* A detector of engine/health/detect with its parameters, as detect.def has them. */
typedef struct DetectorParam {
    const char *name;
    enum {
        DETECTOR_NUMBER,
        DETECTOR_CHOICE,   /* a number that says what is looked at, not how much of it is too much */
        DETECTOR_DURATION, /* in ns */
        DETECTOR_METRIC,   /* a metric's name; the value is its MetricId */
    } type;
    double value, min, max; /* default and bounds */
    const char *help;
} DetectorParam;

typedef struct DetectorSpec {
    const char *name, *help;
    size_t param_count;
    const DetectorParam *params;
} DetectorSpec;

extern const DetectorSpec detector_specs[];
extern const size_t detector_spec_count;

/* Of a register: the bits of the mask have the value; mask 0: whatever they have. */
typedef struct FaultBits {
    uint32_t value, mask;
} FaultBits;

/* From inclusive, below exclusive; 0: no bound. */
typedef struct FaultRange {
    uint32_t from, below;
} FaultRange;

typedef struct FaultRule {
    const char *id;          /* "xid-79", "sxid-20034", "pcie-width" */
    const char *name;        /* a few words: "GPU has fallen off the bus" */
    const char *text;        /* what it means, a sentence or two, for `stoker xid`; "" none */
    const FaultClass *fault; /* NULL: known, and no fault at all (kept as an event only), or switched off by a site */
    /* of events */
    EventKind event;
    int32_t code_from, code_to;     /* inclusive; both 0 for other events than XIDs and SXids: any */
    FaultRange driver;              /* major driver version */
    FaultRange arch;                /* DeviceArch */
    EventWord word;                 /* only where the line says this; EVENT_NO_WORD: whatever it says */
    const char *contains;           /* only where the line contains this; "" */
    const char *unit;               /* XID 144-150: only this unit's; "" */
    FaultBits intr_old, intr_new;   /* XID 144-150: intrInfo before R575 and since */
    uint32_t status_bit;            /* XID 144-150: bit of errorStatus; 0: any */
    uint32_t status_is;             /* the whole errorStatus; 0: any */
    uint32_t only;                  /* of the first register only such bits are set, and none of the others; 0: any */
    const FaultClass *explained_by; /* class of an incident nearby that makes its evidence silent; NULL none */
    uint32_t many;      /* so many events within within_ns; or, with remedies, the same fault so many times; 0: any */
    uint64_t within_ns; /* for many */
    uint64_t remedies;  /* a bit per FaultAction: faults that this was done about; 0: it is about an event */
    bool silent;        /* counts and is kept, but opens nothing by itself (an XID 45, 43, 154) */
    /* of detectors */
    const DetectorSpec *detector; /* NULL: of an event */
    double *params;               /* all that the detector has, in its order, defaults filled in */
    /* what it says differently from its class; the class's where it says nothing */
    FAULT_SAYS;
    uint64_t for_ns, keep_ns; /* of the class where not said */
    const char *source;
    const char *file;
    uint32_t line;
    bool any_class; /* of a fault that comes back: whatever its class */
    bool enabled;   /* false: a site has switched it off */
    size_t number;  /* in the order of reading */
} FaultRule;

typedef struct Catalogue {
    Arena keep;
    size_t class_count, rule_count;
    FaultClass *classes;
    FaultRule *rules;   /* of events first, by kind and first code; then those of detectors */
    size_t event_count; /* rules of events */
    const FaultRule *unknown_xid, *unknown_sxid;
} Catalogue;

/* The built-in documents, made at build time and packed by gzip: as text they would be a twentieth of the program. */
typedef struct CatalogueText {
    const char *name;
    const char *packed;
    size_t len;
} CatalogueText;
extern const CatalogueText catalogue_texts[];
extern const size_t catalogue_text_count;

/* The built-in catalogue with `count` documents of the site over it, in their order (each a mapping with `classes` and
 * `rules`; roots come from yaml_load, NULL for an empty file; nothing of them is kept). -EINVAL with file, line and
 * column of what is wrong: unknown keys, words, classes, detectors, parameters out of bounds, circles among parents. */
int catalogue_new(const YamlNode *const *site, size_t count, Catalogue **ret, Err *err);
void catalogue_free(Catalogue *catalogue);
/* Drops the `for` of every class and rule: for a single sample, which cannot wait. */
void catalogue_open_at_once(Catalogue *catalogue);

const FaultClass *catalogue_class(const Catalogue *catalogue, const char *id); /* NULL: none */
const FaultRule *catalogue_rule(const Catalogue *catalogue, const char *id);   /* NULL: none */

/* The rule for an event: the most special one that matches; of an XID or SXid that nothing is known of, the rule
 * "xid-unknown" or "sxid-unknown", never NULL for these two. `driver_major` 0: not known (then entries without a range
 * come first, else the newest). The driver's own word (event->word) stands above the table: a line that says Fatal is
 * never milder than ERROR, one that says Non-fatal never FATAL. That is settled in *ret_verdict. */
typedef struct FaultVerdict {
    const FaultRule *rule;
    const FaultClass *fault; /* the rule's, unless something stands above it; NULL: no fault at all */
    FAULT_SAYS;
    bool silent;
} FaultVerdict;

/* What to do in a sentence or two: the class's advice or, where another action was decided on, how that is done. */
static inline const char *fault_advice(const FaultClass *class, FaultAction action)
{
    return action == class->action ? class->advice : fault_steps[action];
}

/* What a rule says by itself. */
static inline FaultVerdict fault_verdict(const FaultRule *rule)
{
    return (FaultVerdict){.rule = rule, .fault = rule->fault, .says = rule->says, .silent = rule->silent};
}

/* The same of a class, by whatever rule it was found. */
static inline FaultVerdict fault_verdict_of_class(const FaultRule *rule, const FaultClass *class)
{
    FaultVerdict verdict = {.rule = rule, .fault = class, .says = class->says};

    verdict.route = class->observe ? ROUTE_NONE : class->route;
    return verdict;
}

/* Rules that want many of an event within a time are left out. */
bool catalogue_match(const Catalogue *catalogue, const Event *event, uint32_t driver_major, uint32_t arch,
                     FaultVerdict *ret_verdict);
/* Of those that are left out: the next behind `after` (NULL: the first) that fits the event; NULL: no more. */
const FaultRule *catalogue_next_counted(const Catalogue *catalogue, const Event *event, uint32_t driver_major,
                                        uint32_t arch, const FaultRule *after);
/* The next rule behind `after` (NULL: the first) about a fault of the class that comes back; NULL: no more. */
const FaultRule *catalogue_next_repeat(const Catalogue *catalogue, const FaultClass *class, const FaultRule *after);
/* The rules for a number whatever driver and line: for `stoker xid 79`. Returns how many there are; at most `cap` into
 * out, the one for this driver first. */
size_t catalogue_find_code(const Catalogue *catalogue, EventKind kind, int32_t code, uint32_t driver_major,
                           const FaultRule **out, size_t cap);
