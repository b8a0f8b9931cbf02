/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the detectors share. A watch is a rule of the catalogue with its detector at work: parameters, and a piece of
 * memory for each GPU and one for the node. A verdict is what a detector thinks of one thing: it is judged anew while
 * there is data, and kept while there is none. Not for others.
 *
 * How long a verdict is kept without data: a day while the GPU does not answer (hung, lost, driver away), since silence
 * proves nothing and the fault that causes it is told by itself; an hour while the driver was let go on purpose or the
 * GPU is off the bus; five minutes where the GPU answers, or answers again, and only this value is missing. Where the
 * driver says that it has no such value, the verdict ends at once. A reset of the GPU ends all verdicts about it.
 */

#include "base/duration.h"
#include "base/cleanup.h"
#include "base/alloc.h"
#include "engine/health/detect.h"
#include "engine/health/detect/trail.h"

enum { DETECT_SLOTS = NODE_GPUS_MAX, DETECT_NODE = DETECT_SLOTS, DETECT_COUNTERS = 2 };

typedef struct DetectVerdict {
    bool holds;
    uint64_t judged_ns; /* when there was data last; 0: never */
    FaultAction action; /* what to do instead of what the rule says; ACTION_NONE: that */
    size_t counter_count;
    IncidentCounter counters[DETECT_COUNTERS];
    char text[EVENT_TEXT_CAP];
} DetectVerdict;

/* A GPU at this tick. */
typedef struct DetectSeen {
    const NodeGpu *gpu;
    const FactsGpu *facts; /* NULL: the bus has not been looked at lately, or does not have it */
    size_t slot;           /* its place in the memory */
    uint64_t up_ns;        /* since when it has been up without a break; 0: it is not */
    uint64_t reset_ns;     /* its last reset was seen then: what was read before says nothing; 0: none was seen */
} DetectSeen;

typedef struct DetectTurn {
    const Node *node;
    const Facts *facts; /* all zeroes where they are too old */
    bool facts_known;
    bool released; /* the driver was let go on purpose */
    uint64_t now_ns, real_ns;
    size_t count;
    DetectSeen at[NODE_GPUS_MAX];
    DetectorSign give;
    void *self;
} DetectTurn;

typedef struct DetectWatch DetectWatch;

typedef struct DetectImpl {
    size_t
        size; /* of the memory for a GPU; begins with a DetectVerdict where `each` is used; zeroes are its beginning */
    void (*look)(DetectWatch *watch, const DetectTurn *turn); /* first, once a tick; may be NULL */
    void (*each)(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen); /* then, per GPU; may be NULL */
    const MetricId *metrics; /* that it reads, up to METRIC_END; NULL: none */
    bool links;              /* so are the node's NVLinks */
    bool alone;              /* while the node's verdict holds, those of GPUs are not told */
} DetectImpl;

typedef struct DetectRow {
    const char *name;
    const DetectImpl *impl;
} DetectRow;

struct DetectWatch {
    const FaultRule *rule;
    const DetectImpl *impl;
    size_t row;
    double params[CATALOGUE_PARAMS];
    int gpus;            /* the parameter with which many GPUs become the node, -1: none */
    DetectWatch *wide;   /* the rule that tells the same of the whole node, NULL: none */
    DetectVerdict node;  /* of the node itself, by `look` */
    DetectVerdict whole; /* of the node, as so many of its GPUs are hit */
    void **memory;       /* DETECT_SLOTS + 1, NULL where nothing is known yet */
};

/* The parameters of each detector by name, in the order of detect.def. */
#define NUMBER(id, ...) id,
#define TIME(id, ...) id,
#define METRIC_NAME(id, ...) id,
#define NO_PARAMS
#define DETECTOR(id, name, help, ...)                                                                                  \
    extern const DetectImpl detect_##id;                                                                               \
    enum { __VA_ARGS__ detect_##id##_params_end };
#include "engine/health/detect/detect.def"
#undef DETECTOR
#undef NUMBER
#undef TIME
#undef METRIC_NAME
#undef NO_PARAMS

/* Whether a rule is about the node as a whole, its fabric included. */
static inline bool detect_is_of_node(const FaultRule *rule)
{
    return rule->scope == SCOPE_NODE || rule->scope == SCOPE_FABRIC;
}

static inline double detect_param(const DetectWatch *watch, size_t id)
{
    return watch->params[id];
}

static inline uint64_t detect_time(const DetectWatch *watch, size_t id)
{
    return (uint64_t)watch->params[id];
}

/* Made when a GPU is met for the first time: most nodes have far fewer than there is room for. */
static inline void *detect_memory(const DetectWatch *watch, size_t slot)
{
    void **memory = &watch->memory[slot];

    if (!*memory)
        *memory = xcalloc(1, watch->impl->size ? watch->impl->size : 1);
    return *memory;
}

/* Nanoseconds from `then` to `now`; 0 where that lies ahead. */
static inline uint64_t detect_since(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The condition holds now; the text is the evidence, one sentence. */
void detect_holds(const DetectTurn *turn, DetectVerdict *verdict, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* After detect_holds. `before` NaN: not known. */
void detect_counter(DetectVerdict *verdict, const char *name, double before, double after);
/* The condition does not hold now. */
void detect_fine(const DetectTurn *turn, DetectVerdict *verdict);
/* There is no data of this GPU (NULL: of the node) to decide by. */
void detect_silent(const DetectTurn *turn, DetectVerdict *verdict, const DetectSeen *seen);
/* The same; this value is missing. */
void detect_absent(const DetectTurn *turn, DetectVerdict *verdict, const DetectSeen *seen, const Sample *sample);

/* Gives the sign of a verdict that holds. `device` NULL: the node. */
void detect_give_sign(const DetectTurn *turn, const DetectWatch *watch, const DetectVerdict *verdict,
                      const Device *device, int32_t pid);
/* Gives a sign of a moment. */
void detect_give_event(const DetectTurn *turn, const DetectWatch *watch, const DetectVerdict *verdict,
                       const Device *device, int32_t pid);
/* Gives the signs of all GPUs' verdicts: one each, or one of the node. */
void detect_give_signs(DetectWatch *watch, const DetectTurn *turn);

/* The value of a metric, if it is there and not too old. */
bool detect_value(const DetectTurn *turn, const DetectSeen *seen, MetricId id, double *ret);
bool detect_int(const DetectTurn *turn, const DetectSeen *seen, MetricId id, int64_t *ret);
static inline const Sample *detect_sample(const DetectSeen *seen, MetricId id)
{
    return &seen->gpu->reading.sample[id];
}
/* Whether a sample of one of the node's lists is there and not too old. */
bool detect_fresh(const DetectTurn *turn, const Sample *sample, MetricPace pace);

/* A time as "1m30s", in whole minutes from ten on; "1.6 s" below ten seconds. */
const char *detect_span_text(uint64_t ns, char out[DURATION_TEXT_MAX]);
/* The median of the numbers, which are sorted by it; 0 of none. */
double detect_median(double *numbers, size_t count);
