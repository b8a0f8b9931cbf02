/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The metric catalogue: what can be measured, under which names, from where. One row per metric in metric.def.
 * Names follow DCGM 4 ("classic", what dashboards use today); where DCGM 4.6 renamed a field or DCGM 4.7 gave it a
 * base unit, the row also has its newer name. Const data; the lookup index is built once. Any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/word.h"

/* The units that metrics are in. */
typedef enum Unit {
#define UNIT(id, symbol, base, factor) UNIT_##id,
#include "model/unit.def"
#undef UNIT
    UNIT_END,
} Unit;

extern const struct UnitRow {
    const char *symbol; /* shown beside a value: "MHz", "%", "bytes/s" */
    const char *suffix; /* the Prometheus base unit as names spell it: "bytes_per_second"; "" for things counted */
    double factor;      /* what a value is multiplied by to be in the base unit: MHz 1e6, mJ 1e-3, MiB 1048576 */
} metric_units[UNIT_END];

/* Bits of nvmlClocksEventReasons (nvml.h), the value of METRIC_CLOCKS_EVENT_REASONS. */
enum {
    CLOCK_REASON_IDLE = 0x1,
    CLOCK_REASON_SETTING = 0x2,
    CLOCK_REASON_POWER_CAP = 0x4,
    CLOCK_REASON_HW_SLOWDOWN = 0x8, /* of any kind */
    CLOCK_REASON_SYNC_BOOST = 0x10,
    CLOCK_REASON_SW_HEAT = 0x20,
    CLOCK_REASON_HW_HEAT = 0x40,
    CLOCK_REASON_POWER_BRAKE = 0x80,
    CLOCK_REASON_DISPLAY = 0x100,
    /* Heat: a hardware slowdown that is no brake is heat too. */
    CLOCK_REASONS_HEAT = CLOCK_REASON_SW_HEAT | CLOCK_REASON_HW_HEAT | CLOCK_REASON_HW_SLOWDOWN,
    /* What "throttled" means in the ledger and in reports. A power cap is the board's rating, not a fault. */
    CLOCK_REASONS_THROTTLED = CLOCK_REASONS_HEAT | CLOCK_REASON_POWER_BRAKE,
};

typedef enum MetricId {
#define METRIC(id, ...) METRIC_##id,
#include "model/metric.def"
#undef METRIC
    METRIC_END,
} MetricId;

/* A set of metrics: a bit per MetricId. Adds one; METRIC_END is none. */
enum { METRIC_SET_WORDS = (METRIC_END + 63) / 64 };
static inline void metric_set_add(uint64_t set[METRIC_SET_WORDS], MetricId id)
{
    if (id < METRIC_END)
        set[id / 64] |= UINT64_C(1) << (id % 64);
}

#define METRIC_TYPE_TABLE(WORD)                                                                                        \
    WORD(METRIC_GAUGE, "gauge")                                                                                        \
    WORD(METRIC_COUNTER, "counter")                                                                                    \
    WORD(METRIC_LABEL, "label") /* a text that becomes a label of the series, not a series */

typedef enum MetricType { METRIC_TYPE_TABLE(WORD_ID) METRIC_TYPE_END } MetricType;
extern const WordRow metric_types[METRIC_TYPE_END];

typedef enum MetricValue { METRIC_INT64, METRIC_DOUBLE, METRIC_TEXT } MetricValue;

/* The smallest thing the value belongs to. */
typedef enum MetricScope {
    METRIC_SCOPE_NODE,
    METRIC_SCOPE_GPU,
    METRIC_SCOPE_GPU_INSTANCE,
    METRIC_SCOPE_COMPUTE_INSTANCE,
    METRIC_SCOPE_LINK,
} MetricScope;

/* How often a value is worth reading. The periods are the sampler's; these are their names. */
typedef enum MetricPace {
    METRIC_PACE_FAST,     /* ten times a second: what has a sawtooth */
    METRIC_PACE_NORMAL,   /* every second */
    METRIC_PACE_SLOW,     /* every ten seconds or more: changes only when something happens */
    METRIC_PACE_ONCE,     /* when a device is found: stays as long as the driver does */
    METRIC_PACE_BLOCKING, /* the driver measures while the caller waits (20 ms): one such call at a time */
    METRIC_PACE_EVENTS,   /* when the driver tells */
    METRIC_PACE_DERIVE,   /* never read */
    METRIC_PACE_END,
} MetricPace;

typedef enum MetricSourceKind {
    METRIC_FROM_CALL,    /* an NVML function of its own */
    METRIC_FROM_FIELD,   /* nvmlDeviceGetFieldValues */
    METRIC_FROM_GPM,     /* GPU performance monitoring, Hopper and newer */
    METRIC_FROM_EVENT,   /* an NVML event */
    METRIC_FROM_DERIVED, /* computed from other metrics and events */
} MetricSourceKind;

/* Scopes of a field value beside a plain number: one read gives the sum over the links; each link must be read. */
#define METRIC_ALL_LINKS UINT32_MAX
#define METRIC_EACH_LINK (UINT32_MAX - 1)

typedef struct MetricSource {
    MetricSourceKind kind;
    const char *function; /* calls and events, else NULL */
    uint16_t id;          /* NVML field id or GPM metric id, else 0 */
    uint16_t second_id;   /* a field that is added to the first, else 0 */
    uint32_t scope;       /* scopeId of the field value: 0, a link, METRIC_ALL_LINKS or METRIC_EACH_LINK */
} MetricSource;

typedef enum MetricNaming {
    METRIC_NAME_CLASSIC,
    METRIC_NAME_NEWER,
    METRIC_NAME_ALIAS, /* understood when read, never chosen for output */
} MetricNaming;

/* One name of a metric. The value under this name is the metric's value times the factor, in this unit. */
typedef struct MetricName {
    MetricId metric;
    MetricNaming naming;
    const char *text;
    uint16_t dcgm_id; /* 0 if none is known */
    Unit unit;
    double factor;
} MetricName;

typedef struct Metric {
    MetricId id;
    const char *name; /* classic */
    uint16_t dcgm_id; /* 0 if none is known */
    MetricType type;
    MetricType csv_type; /* as the exporter's own rows put it, which is wrong in places */
    Unit unit;
    MetricValue value;
    MetricScope scope;
    MetricSource source;
    MetricPace pace;
    bool on;      /* collected and exported unless the user says otherwise */
    bool history; /* kept for seconds and minutes, not only the latest value */
    struct {
        const char *text; /* NULL: no newer name */
        uint16_t dcgm_id; /* 0: the same */
        Unit unit;        /* only where factor is not 0 */
        double factor;    /* 0: same unit */
    } newer;
    const char *help;
} Metric;

/* The row of a metric. */
const Metric *metric_get(MetricId id);

/* The name to print. A metric that was never renamed has the same name under CLASSIC and NEWER; not for ALIAS. */
MetricName metric_name(MetricId id, MetricNaming naming);

/*
 * The metric that a text names: classic, newer, alias or DCGM 1.x spelling, case and all. NULL if none does.
 * DCGM_FI_DEV_GPU_UTIL_RATIO is a percentage in DCGM 4.6 and a ratio in 4.7 and its exporter; here it is the ratio.
 */
const MetricName *metric_find(const char *text);

/* Where the metrics of pace FAST lie in a FastReading (model/reading.h): 0.. in the order of the catalogue, or -1. */
int metric_fast_index(MetricId id);
/* The other way; METRIC_END if there is none. */
MetricId metric_fast_at(int index);
