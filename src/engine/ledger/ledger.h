/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ledger: whose GPU time it was. Each tick adds the time since the one before to rows, one per device and owner.
 * The law that holds for each GPU: the time of owners, of nobody, of unusable devices and of what is not known adds up
 * to the time that passed, to the nanosecond. Pure: time is that of the node, what must survive goes to a callback. One
 * thread.
 */

#include "base/vec.h"
#include "engine/ledger/price.h"
#include "model/node.h"
#include "model/owner.h"

/* WORD(id, key): what SM activity was read from; the key is for JSON and the journal. */
#define LEDGER_QUALITY_TABLE(WORD)                                                                                     \
    WORD(LEDGER_QUALITY_NONE, "none")                                                                                  \
    WORD(LEDGER_QUALITY_UTIL, "util") /* time in which any kernel ran: more than was used */                           \
    WORD(LEDGER_QUALITY_DCP, "dcp")   /* profiling counters, through libdcgm */                                        \
    WORD(LEDGER_QUALITY_GPM, "gpm")   /* GPU performance monitoring of NVML */

typedef enum LedgerQuality { LEDGER_QUALITY_TABLE(WORD_ID) LEDGER_QUALITY_END } LedgerQuality;

/*
 * WORD(id, key): amounts of a row, whole numbers. Times are GPU time: seconds passed times the share of the GPU. The
 * first three partition the row's time; those behind are parts of `alloc_ns`, or sums.
 */
#define LEDGER_AMOUNT_TABLE(WORD)                                                                                      \
    WORD(LEDGER_ALLOC_NS, "alloc_ns")         /* its owner held it; without an owner: nobody did */                    \
    WORD(LEDGER_UNHEALTHY_NS, "unhealthy_ns") /* it could not be used, whoever held it */                              \
    WORD(LEDGER_GAPS_NS, "gaps_ns")           /* not known: no agent ran, or the GPU could not be asked */             \
    WORD(LEDGER_BUSY_NS, "busy_ns")           /* a kernel ran */                                                       \
    WORD(LEDGER_MEASURED_NS, "measured_ns")   /* SM activity was known */                                              \
    WORD(LEDGER_EFF_NS, "eff_ns")             /* time times SM activity */                                             \
    WORD(LEDGER_TENSOR_NS, "tensor_ns")       /* time times tensor core activity */                                    \
    WORD(LEDGER_IDLE_NS, "idle_ns")           /* held and nothing ran */                                               \
    WORD(LEDGER_THROTTLED_NS, "throttled_ns") /* heat or a power brake held the clocks down */                         \
    WORD(LEDGER_MEMORY_BYTE_S, "memory_byte_s")                                                                        \
    WORD(LEDGER_ACTIVE_MJ, "energy_active_mj") /* above what an idle GPU takes */                                      \
    WORD(LEDGER_IDLE_MJ, "energy_idle_mj")

typedef enum LedgerAmount { LEDGER_AMOUNT_TABLE(WORD_ID) LEDGER_AMOUNT_END } LedgerAmount;

/* WORD(id, key): the largest of a row. A peak of 0 beside an amount that is not 0 was not kept (an older Stoker). */
#define LEDGER_PEAK_TABLE(WORD)                                                                                        \
    WORD(LEDGER_PEAK_MEMORY, "memory_peak_bytes") /* at one tick */                                                    \
    WORD(LEDGER_PEAK_SM, "sm_peak_ppm")           /* SM activity of the device, the mean of a minute; millionths */

typedef enum LedgerPeak { LEDGER_PEAK_TABLE(WORD_ID) LEDGER_PEAK_END } LedgerPeak;

enum { LEDGER_BOOT_CAP = 40 };

/* The time of one owner, or of nobody, on one device, [from, until). Texts are "" where not known. */
typedef struct LedgerRow {
    uint64_t id;                          /* unique in the journal; a row that grows keeps it */
    uint64_t from_real_ns, until_real_ns; /* wall clock; the length is measured with the monotonic one */
    uint64_t until_ns;                    /* the same instant of the monotonic clock, in this boot: */
    char boot_id[LEDGER_BOOT_CAP];        /* "" unknown */
    char device[DEVICE_KEY_CAP];          /* "gpu/GPU-..", "gpu/GPU-../gi/7/ci/0" */
    char name[DEVICE_NAME_CAP];           /* product */
    char profile[READING_PROFILE_CAP];    /* of a MIG device */
    bool held;                            /* by the owner, which need not be known; else nobody holds it */
    Owner owner;                          /* its process is not kept */
    Attribution share_kind;
    LedgerQuality quality;
    char price[PRICE_TEXT_CAP]; /* price_text of the price in force, "" none */
    uint64_t amounts[LEDGER_AMOUNT_END];
    uint64_t peaks[LEDGER_PEAK_END];
} LedgerRow;

/* Called for each row that changed, at the end of a tick. False: it cannot be kept now; the row is put again at each
 * tick until it is. */
typedef bool (*LedgerPut)(void *self, const LedgerRow *row);

/* What a tick gave to the owner of one holding. GPU time is time on the device times its share of the GPU. */
typedef struct LedgerCharge {
    int64_t gpu_ns;         /* GPU time that is charged, `begin_ns` included; may be negative */
    uint64_t energy_mj;     /* all of it */
    int64_t begin_ns;       /* the job began so much earlier than its first tick; negative: later, within that tick */
    uint64_t begin_real_ns; /* where `begin_ns` is not 0: when it began, wall clock */
} LedgerCharge;

typedef struct Ledger Ledger;

typedef VEC(LedgerRow) LedgerRows;

/* Of the rows that are kept, given by falling id, finds for each GPU the one that ends last. */
void ledger_find_last(LedgerRows *last, const LedgerRow *row);

/* `last`: from ledger_find_last; the time from there on, in which no agent ran, is not known. `boot_id` as rows have
 * it; `next_id`: larger than those of all rows that are kept. */
Ledger *ledger_new(const LedgerRows *last, const char *boot_id, uint64_t next_id);
void ledger_free(Ledger *ledger); /* accepts NULL */

/* What a GPU takes while nothing runs on it. */
typedef struct LedgerIdle {
    double mw; /* 0: not known */
    bool held; /* measured while it was held and nothing ran: more than a GPU takes that nobody holds */
} LedgerIdle;

/* By the GPU's UUID: before the first tick what is known from before; later what is known now. */
void ledger_set_idle(Ledger *ledger, const char *uuid, LedgerIdle idle);
LedgerIdle ledger_idle(const Ledger *ledger, const char *uuid);

/* Prices for the rows from now on; borrowed, NULL: none. */
void ledger_set_prices(Ledger *ledger, const Prices *prices);

/* The metrics that this needs: a bit per MetricId, added to `wanted`. */
void ledger_add_wanted(uint64_t wanted[METRIC_SET_WORDS]);

/* One tick, after the activities were decided: the time since the last one is of the `holdings` as they are now. */
void ledger_update(Ledger *ledger, const Node *node, const Holding *holdings, size_t holding_count, LedgerPut put,
                   void *self);

/* Of the last update: one for each of its holdings, in their order. */
const LedgerCharge *ledger_charges(const Ledger *ledger);

/* Ids below this one belong to rows that change no more. */
uint64_t ledger_closed_id(const Ledger *ledger);

/* The GPU of a row's device: the length of its key. */
size_t ledger_gpu_key_len(const char *device);

extern const WordRow ledger_qualities[LEDGER_QUALITY_END], ledger_amounts[LEDGER_AMOUNT_END],
    ledger_peaks[LEDGER_PEAK_END];
