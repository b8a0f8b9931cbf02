/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one group of processes (a command and all that it started) did with the GPUs and MIG instances of a node, from
 * the first tick to the last. Pure: time is that of the node, the pids are an argument. Plain values without pointers,
 * so that it may lie in memory that two processes share. One writer.
 */

#include "engine/ledger/price.h"
#include "model/activity.h"
#include "model/incident.h"
#include "model/owner.h"
#include "model/snapshot.h"

enum {
    USAGE_DEVICES_MAX = 128,
    USAGE_XIDS_MAX = 16,     /* kinds of XID per device */
    USAGE_PROBLEMS_MAX = 16, /* incidents */
    USAGE_COUNTERS = 4,      /* of time with clocks held down */
    USAGE_VERDICTS_MAX = ACTIVITY_END * WHY_END,
};

/* WORD(id, key, text): what held the clocks down. The power limit is the board's rating: that is not throttled. */
#define USAGE_THROTTLE_TABLE(WORD)                                                                                     \
    WORD(USAGE_THROTTLE_POWER, "power", "power limit")                                                                 \
    WORD(USAGE_THROTTLE_THERMAL, "thermal", "temperature")                                                             \
    WORD(USAGE_THROTTLE_BRAKE, "power_brake", "power brake")

typedef enum UsageThrottle { USAGE_THROTTLE_TABLE(WORD_ID) USAGE_THROTTLE_END } UsageThrottle;

/* WORD(id, key): readings whose mean over time is kept; shares are 0 to 1. */
#define USAGE_MEAN_TABLE(WORD)                                                                                         \
    WORD(USAGE_SM, "sm_active")                                                                                        \
    WORD(USAGE_UTIL, "utilization")                                                                                    \
    WORD(USAGE_TENSOR, "tensor_active")                                                                                \
    WORD(USAGE_DRAM, "dram_active")                                                                                    \
    WORD(USAGE_POWER, "power_mean_w") /* watt; of the whole GPU */

typedef enum UsageMean { USAGE_MEAN_TABLE(WORD_ID) USAGE_MEAN_END } UsageMean;

/* WORD(id, key): where joules came from. */
#define USAGE_ENERGY_TABLE(WORD)                                                                                       \
    WORD(USAGE_ENERGY_UNKNOWN, "unknown")                                                                              \
    WORD(USAGE_ENERGY_COUNTER, "counter") /* the difference of the driver's counter */                                 \
    WORD(USAGE_ENERGY_POWER, "power") /* power times time, all or part of it: there is no counter, or it was reset */

typedef enum UsageEnergy { USAGE_ENERGY_TABLE(WORD_ID) USAGE_ENERGY_END } UsageEnergy;

/* The part of the group in a device at one instant. */
typedef struct UsagePart {
    bool held;               /* one of its processes is on the device, or the device was selected */
    Attribution attribution; /* how `share` was found; UNKNOWN: the device is counted whole */
    double share;            /* 0 to 1 of the device */
    uint64_t memory_bytes;   /* of its processes, as the driver says; UINT64_MAX: not known */
    uint32_t processes;      /* its own */
} UsagePart;

typedef struct UsageXid {
    uint64_t xid, count, first_real_ns;
} UsageXid;

/* Seconds are of the device while it was held. */
typedef struct UsageDevice {
    Device device;                                             /* a GPU, or a MIG instance of one */
    char profile[READING_PROFILE_CAP], board[DEVICE_NAME_CAP]; /* board: the product's name */
    uint32_t gpu_index;                                        /* of the GPU that it is or is part of */
    double gpu_share; /* of that GPU, by slices of compute: 1 the whole. The driver measures power of the GPU alone */
    UsagePart now;    /* as of the last tick */
    double held_s, gap_s;                           /* gap: held, and the driver gave no reading */
    double attribution_s[ATTRIBUTION_END], share_s; /* share_s: the integral of the share */
    /* integrals of the device's readings and of the group's part in them, and the seconds in which they were known */
    double sum[USAGE_MEAN_END], own[USAGE_MEAN_END], known_s[USAGE_MEAN_END];
    double activity_s[ACTIVITY_END][ACTIVITY_CAUSE_END];
    double verdict_s[ACTIVITY_END][WHY_END][WHY_CONFIDENCE_END]; /* by the first verdict of engine/why at each tick */
    double energy_j;                                             /* the group's part */
    UsageEnergy energy_basis;
    double throttled_s, throttle_s[USAGE_THROTTLE_END]; /* by CLOCK_REASONS_THROTTLED; each */
    bool throttle_known;
    double temperature_max_c;                       /* NaN: not known */
    double memory_before_bytes, memory_total_bytes; /* in use when the group came; NaN: not known */
    double memory_peak_bytes, device_peak_bytes;    /* of the group; of all on the device. NaN: not known */
    uint32_t processes;                             /* the most at one instant */
    uint32_t xid_count;
    UsageXid xids[USAGE_XIDS_MAX];
    char price[PRICE_TEXT_CAP]; /* of a whole GPU's hour, as prices_find writes it; "" not known */
    /* of the tick before; NaN: no value */
    uint64_t energy_time_ns;
    double span_s, span_share_s; /* since then: the time, and the integral of the group's share */
    double energy_mj, power_w, throttle_ns[USAGE_COUNTERS];
} UsageDevice;

/* An incident that was open on a device of the group. */
typedef struct UsageProblem {
    char class[INCIDENT_CLASS_CAP], title[INCIDENT_TEXT_CAP];
    FaultSeverity severity;
    uint32_t gpu_index; /* DEVICE_NO_NUMBER: the node, or not of one GPU */
    uint64_t first_real_ns;
} UsageProblem;

typedef struct Usage {
    uint64_t first_ns, last_ns; /* node's clock, of the ticks with a driver that answers; 0: none */
    double measured_s, gap_s;   /* with readings; between two ticks, but without */
    double memory_peak_bytes;   /* of the group on all devices at one instant; NaN: not known */
    uint32_t lost_devices;      /* devices beyond USAGE_DEVICES_MAX */
    char driver_version[READING_TEXT_CAP], hostname[256], driver_why[NODE_WHY_CAP];
    UsageProblem problems[USAGE_PROBLEMS_MAX];
    uint32_t problem_count, device_count;
    UsageDevice devices[USAGE_DEVICES_MAX]; /* every one of the node; held_s 0: not used. Valid up to device_count */
} Usage;

/* A part of a device's time. */
typedef struct UsageVerdict {
    ActivityWord activity;
    WhyCause cause;
    WhyConfidence confidence; /* of most of that time */
    double seconds;
} UsageVerdict;

/* What belongs to the group at one tick. */
typedef struct UsageGroup {
    const uint32_t *pids; /* ascending, each once */
    size_t pid_count;
    const char *const *selected; /* count these GPUs, whoever is on them: indexes, UUIDs or PCI addresses. NULL: the
                                    GPUs that its processes are on */
    size_t selected_count;
    bool all; /* count every GPU: its processes cannot be recognised */
} UsageGroup;

extern const WordRow usage_throttles[USAGE_THROTTLE_END], usage_means[USAGE_MEAN_END], usage_energies[USAGE_ENERGY_END];

void usage_init(Usage *usage);

/* The group's part in one GPU, or with `instance` in one MIG instance of it. */
UsagePart usage_find_part(const NodeGpu *gpu, const Reading *instance, const UsageGroup *group);

/* Whether a GPU of this index, UUID or PCI address gave readings. */
bool usage_has_gpu(const Usage *usage, const char *name);

/* The GPU or MIG instance, where the group holds it now; NULL. */
const UsageDevice *usage_find_held(const Usage *usage, const Device *device);

/* Adds the time since the tick before; call it about once a second, after the activities are decided. Longer than ten
 * seconds since the last tick is a gap. */
void usage_update(Usage *usage, const Snapshot *snapshot, const UsageGroup *group);

/* The driver reported an XID; `real_ns`: wall clock of it. Kept if the group holds the device or did. */
void usage_add_xid(Usage *usage, const XidEvent *event, uint64_t real_ns);

/* Adds an incident if the group holds what it is about or did; one of a class per GPU. */
void usage_add_problem(Usage *usage, const Incident *incident);

/* The group ended at time_ns of the node's clock: adds the energy since the last reading of the counter. */
void usage_end(Usage *usage, uint64_t time_ns);

/* The prices in force at real_ns, by board and profile. NULL: none. */
void usage_find_prices(Usage *usage, const Prices *prices, uint64_t real_ns);
/* The price of the GPU or MIG instance with this UUID, as prices_find writes it. */
void usage_set_price(Usage *usage, const char *uuid, const char *text);

/* --- one device, for who finds the parts himself (engine/jobs) ---------------------------------------------------- */

/* A GPU, or a MIG instance `reading` of it, that the group has not held yet. */
void usage_device_init(UsageDevice *device, const Reading *gpu, const Reading *reading);

/* One tick. `part`: the group's part now; NULL: it is not known and is what it was. */
void usage_device_update(UsageDevice *device, const NodeGpu *gpu, const Reading *instance, const UsagePart *part,
                         double tick_s);

/* The group had the device for `seconds` before the first tick and did nothing on it; negative: it came later. */
void usage_device_begin(UsageDevice *device, double seconds);

/* --- numbers of a report ------------------------------------------------------------------------------------------ */

/* Mean while held, of the device and of the group's part in it; NaN: not known. */
double usage_mean(const UsageDevice *device, UsageMean mean);
double usage_own_mean(const UsageDevice *device, UsageMean mean);
/* The attribution of most of its time. */
Attribution usage_attribution(const UsageDevice *device);
/* What took its time while held, the longest first. Returns how many. */
size_t usage_verdicts(const UsageDevice *device, UsageVerdict out[USAGE_VERDICTS_MAX]);
/* What to change, of the cause that took the most time and has advice; "" where none took a tenth of its time or is
 * sure enough. */
const char *usage_advice(const UsageDevice *device);
/* The group's part of the device's time, at its price; NaN: it has none. ret_tag may be NULL. */
double usage_device_cost(const UsageDevice *device, PriceTag *ret_tag);
/* Of all devices that have a price, and its currency; NaN: none has one, or they have several currencies. */
double usage_cost(const Usage *usage, char currency[PRICE_CURRENCY_CAP]);
/* Joules of all devices; NaN where none has any. */
double usage_energy_j(const Usage *usage);
