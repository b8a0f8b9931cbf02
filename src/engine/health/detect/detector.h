/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the detectors share. A watch is a rule of the catalogue with its detector at work: parameters, and for each GPU
 * and for the node a finding and the detector's own memory. A detector is a function that looks at one case (a GPU, or
 * the node) and returns an outcome; detect.c keeps the finding and reports it. For the files of this folder alone.
 *
 * How long a finding is kept without data: a day while the GPU does not answer (hung, lost, driver away), since silence
 * proves nothing and the fault that causes it is reported by itself; an hour while the driver was released on purpose
 * or the GPU is off the bus; five minutes where the GPU answers, or answers again, and only this value is missing.
 * Where the driver says that it has no such value, the finding ends at once. A reset of the GPU ends all findings about
 * it.
 */

#include <stdalign.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/health/detect.h"

enum { DETECT_SLOTS = NODE_GPUS_MAX, DETECT_NODE = DETECT_SLOTS };

typedef enum DetectOutcome {
    DETECT_FINE,    /* the condition does not hold */
    DETECT_HOLDS,   /* it holds; detect_hold has written the finding */
    DETECT_NO_DATA, /* nothing to decide by: the finding is kept for a while */
    DETECT_NEVER,   /* the driver has no such value, or it means nothing here: the finding ends */
    DETECT_SAME,    /* nothing new, or nothing of its own to report: the finding stays */
} DetectOutcome;

typedef struct DetectFinding {
    bool holds;
    uint64_t decided_ns; /* when there was data last; 0: never */
    FaultAction action;  /* instead of the rule's; ACTION_NONE: the rule's */
    size_t counter_count;
    IncidentCounter counters[EVIDENCE_COUNTERS];
    char text[EVENT_TEXT_CAP];
} DetectFinding;

typedef struct DetectWatch DetectWatch;
typedef struct DetectTick DetectTick;

/* What a detector looks at, and where it keeps what it knows. */
typedef struct DetectCase {
    const NodeGpu *gpu;    /* NULL: the node */
    const FactsGpu *facts; /* NULL: the bus was not scanned lately, or does not have it */
    size_t slot;           /* its place in the states of a watch */
    uint64_t up_ns;        /* since when the GPU has been up without a break; 0: it is not */
    uint64_t reset_ns;     /* when its last reset was seen: older readings say nothing; 0: none was seen */
    /* in a detector's hands */
    DetectWatch *watch;
    const DetectTick *tick;
    DetectFinding *finding;
    void *memory; /* of the detector for this GPU or the node; zeroes at first */
} DetectCase;

struct DetectTick {
    const Node *node;
    const Facts *facts; /* all zeroes where they are too old */
    bool facts_known;
    bool released; /* the driver was released on purpose */
    uint64_t now_ns, real_ns;
    size_t count;
    DetectCase gpus[NODE_GPUS_MAX];
    const DetectorSink *sink;
};

typedef DetectOutcome (*DetectFunction)(const DetectCase *c);

typedef struct DetectImpl {
    size_t size;             /* of the memory */
    DetectFunction of_node;  /* once per tick, before the GPUs; NULL: none */
    DetectFunction of_gpu;   /* once per tick and GPU; NULL: none */
    const MetricId *metrics; /* that it reads; NULL: none. See DETECT_METRICS */
    bool links;              /* it reads the node's NVLinks */
    bool alone;              /* while the node's finding holds, those of GPUs are not reported */
} DetectImpl;
#define DETECT_METRICS(...) ((const MetricId[]){__VA_ARGS__, METRIC_END})

typedef struct DetectState {
    DetectFinding finding;
    alignas(max_align_t) char memory[];
} DetectState;

struct DetectWatch {
    const FaultRule *rule;
    const DetectImpl *impl;
    double share;         /* of the GPUs from which on it is the node; below 0: the detector has no such parameter */
    DetectWatch *wide;    /* the rule that reports the same of the whole node, NULL: none */
    DetectFinding whole;  /* of the node, as so many of its GPUs are hit */
    DetectState **states; /* DETECT_SLOTS + 1; NULL: nothing is known yet */
};

/* The parameters of each detector by name, in the order of detect.def. */
#define NUMBER(id, ...) id,
#define CHOICE(id, ...) id,
#define TIME(id, ...) id,
#define METRIC_NAME(id, ...) id,
#define NO_PARAMS
#define DETECTOR(id, name, help, ...)                                                                                  \
    extern const DetectImpl detect_##id;                                                                               \
    enum { __VA_ARGS__ detect_##id##_params_end };
#include "engine/health/detect/detect.def"
#undef DETECTOR
#undef NUMBER
#undef CHOICE
#undef TIME
#undef METRIC_NAME
#undef NO_PARAMS

static inline double detect_param(const DetectCase *c, size_t id)
{
    return c->watch->rule->params[id];
}

/* A limit that is multiplied by `easier` while the condition holds, so that it does not flicker. */
static inline double detect_limit(const DetectCase *c, size_t id, double easier)
{
    return c->watch->rule->params[id] * (c->finding->holds ? easier : 1);
}

static inline int detect_choice(const DetectCase *c, size_t id)
{
    return (int)c->watch->rule->params[id];
}

static inline uint64_t detect_time(const DetectCase *c, size_t id)
{
    return (uint64_t)c->watch->rule->params[id];
}

/* Nanoseconds since `then`; 0 where that lies ahead. */
static inline uint64_t detect_age(const DetectCase *c, uint64_t then_ns)
{
    return c->tick->now_ns > then_ns ? c->tick->now_ns - then_ns : 0;
}

/* How long `now` has been true without a break; *since_ns keeps when it began, 0: it is not true. */
static inline uint64_t detect_lasts(const DetectCase *c, bool now, uint64_t *since_ns)
{
    *since_ns = !now ? 0 : *since_ns ? *since_ns : c->tick->now_ns;
    return now ? detect_age(c, *since_ns) : 0;
}

/* The case of the tick's GPU number i for the same watch. */
DetectCase detect_peer(const DetectCase *c, size_t i);
/* Whether a GPU is up that was so at this instant already; UINT64_MAX: now. */
bool detect_is_any_up(const DetectTick *tick, uint64_t then_ns);
/* The detector's memory of the node. */
void *detect_node_memory(const DetectCase *c);

/* Writes the finding: the evidence, one sentence. Returns DETECT_HOLDS, as the next does. */
DetectOutcome detect_hold(const DetectCase *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* After detect_hold. `before` NaN: not known; below 0, where the counter began anew since: 0. */
DetectOutcome detect_counter(const DetectCase *c, const char *name, double before, double after);
/* The value is missing: NO_DATA, or NEVER where the driver does not have it. */
DetectOutcome detect_absent(const DetectCase *c, const Sample *sample);
/* Puts an outcome in force; for detectors with findings of their own. */
void detect_settle(const DetectCase *c, DetectOutcome outcome);

/* Reports the case's finding, if it holds, of a device (NULL: the node). */
void detect_report(const DetectCase *c, const Device *device, int32_t pid);
/* Reports what detect_hold has written as a moment: afterwards nothing holds. */
void detect_report_moment(const DetectCase *c, const Device *device, int32_t pid);

static inline const Sample *detect_sample(const DetectCase *c, MetricId id)
{
    return &c->gpu->reading.sample[id];
}
/* The value of a metric, if it is there and not too old. */
bool detect_value(const DetectCase *c, MetricId id, double *ret);
bool detect_int(const DetectCase *c, MetricId id, int64_t *ret);
/* Whether a sample of one of the node's lists is there and not too old. */
bool detect_fresh(const DetectCase *c, const Sample *sample, MetricPace pace);

/* A time as "1m30s", in whole minutes from ten on; "1.6 s" below ten seconds. */
const char *detect_span_text(uint64_t ns, char out[DURATION_TEXT_MAX]);
/* The median of the numbers, which are sorted by it; 0 of none. */
double detect_median(double *numbers, size_t count);

/* --- trail.c ------------------------------------------------------------------------------------------------------ */

/*
 * The recent past of one number in a few points: how far a counter rose within a window, what a gauge was on average.
 * A window is covered to a tenth of its length. A counter that falls began anew (driver reloaded, GPU reset): what it
 * rises from there counts, the fall does not. Embedded, zeroes are a valid empty one; nothing is allocated.
 */

enum { TRAIL_POINTS = 12 };

typedef struct Trail {
    uint64_t last_ns; /* of the newest value, 0: none */
    double last;      /* that value */
    double total;     /* what was added up since the first */
    uint8_t first, len;
    struct {
        uint64_t time_ns;
        double total;
    } at[TRAIL_POINTS];
} Trail;

void trail_forget(Trail *trail);

/* A counter's value as it was read at time_ns. One that was given before (same instant or older) changes nothing; after
 * a silence longer than the window the past is forgotten. */
void trail_count(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns);
/* A gauge's value, taken to have held since the one before. */
void trail_gauge(Trail *trail, uint64_t time_ns, double value, uint64_t window_ns);
/* The value of a metric as a counter; false: there is none. */
bool trail_count_metric(Trail *trail, const DetectCase *c, MetricId id, uint64_t window_ns);

typedef struct TrailSpan {
    double sum;       /* rise of the counter, or integral of the gauge in value seconds */
    double seconds;   /* that it covers, at most about the window */
    double rate;      /* per second: the rate of a counter, the mean of a gauge */
    unsigned rises;   /* in how many of its parts there was any */
    uint64_t from_ns; /* where it begins */
} TrailSpan;

/* Sums up the window before the newest value. False, with *ret untouched, if less than `part` of it is covered. */
bool trail_span(const Trail *trail, uint64_t window_ns, double part, TrailSpan *ret);
/* Its rate alone. */
bool trail_rate(const Trail *trail, uint64_t window_ns, double part, double *ret);

/* The mean of the fast readings since the tick before or, without any, the value `now`. With `bits`: not of the values,
 * but of whether one of these bits is set. */
double detect_fast_mean(const NodeGpu *gpu, MetricId id, uint64_t bits, double now);

/* The share of time in which clocks were held down for a reason: by the driver's counters of nanoseconds or, if those
 * are missing or stand still, by sampled bits. HELD_ANY has bits alone. */
typedef enum HeldReason { HELD_HEAT, HELD_BRAKE, HELD_LIMIT, HELD_ANY, HELD_REASON_END } HeldReason;

typedef struct Held {
    Trail counted[2]; /* two counters of one reason may run at the same time: the larger share counts */
    Trail sampled;
} Held;

/* Adds the newest values. False: neither counter nor bits. */
bool held_step(const DetectCase *c, HeldReason reason, uint64_t window_ns, Held *held);
/* Over the window, 0 to 1; false while less than half of it is known. */
bool held_share(const Held *held, uint64_t window_ns, double *ret);
