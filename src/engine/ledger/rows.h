/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rows of one GPU that can still grow: a part of each tick is added to the row of its owner, the first seconds of a
 * new owner become its own when it is known, and the begin of a job is corrected to what its workload manager says.
 * Inside engine/ledger. One thread.
 */

#include <math.h>

#include "engine/ledger/ledger.h"

#define ROWS_SHARE_MIN 1e-9 /* of a GPU: less is an error of rounding */

enum { ROWS_NEW_PIDS = 32 }; /* of a row */

typedef struct OpenRow {
    LedgerRow row;
    uint32_t gpu_instance, compute_instance;
    uint64_t from_ns;                 /* monotonic */
    uint32_t new_pids[ROWS_NEW_PIDS]; /* it is of these processes, whose owners are not known (yet); [0] 0: none */
    size_t new_count;                 /* of so many in all */
    uint64_t run_ns;                  /* since when it grew without a break, as held or free time */
    uint64_t tick_ns;                 /* the length of the first tick of that */
    uint64_t sm_ns, sm_measured_ns;   /* time times SM activity, and time, of the minute that runs */
    uint64_t sm_peak_ppm;             /* of the minutes before */
    bool begun;                       /* that begins when the workload manager says */
    bool touched;                     /* in this tick */
    bool known;                       /* it was kept once; it may have grown since */
    bool late;                        /* as it is now, it is not kept */
    bool over;                        /* nothing is added any more */
} OpenRow;

typedef VEC(OpenRow) OpenRows;

/* An owner's, or nobody's, part of a GPU in this tick. */
typedef struct LedgerPart {
    const Reading *reading; /* of the GPU or instance */
    const Activity *activity;
    const Holding *holding; /* NULL: nobody */
    double share;           /* of the whole GPU */
    double of_device;       /* of the device */
    double slices;          /* share of the whole GPU that the device is */
    double weight;          /* of the total that is split now */
    uint64_t ns, idle_mj, active_mj;
} LedgerPart;

/* A tick of one GPU. */
typedef struct RowsTick {
    const Node *node;
    const NodeGpu *gpu;
    uint64_t dt_ns;
    OpenRows *rows;
    const LedgerPart *parts; /* of the GPU, in this tick */
    size_t part_count;
    const Holding *holdings; /* of the node */
    LedgerCharge *charges;   /* one for each holding; changed */
    const Prices *prices;
    const char *boot_id;
    uint64_t *next_id;
    double idle_mw; /* what the GPU takes while nothing runs; 0: not known */
} RowsTick;

/* Before the tick is added: closes rows whose owner left, of an hour that is over, or of a clock that was set. One that
 * is not kept yet stays until it is. */
void rows_close(const RowsTick *t);

/* A process is on the GPU a tick or two before its owner is known: the row of that time becomes the owner's. */
void rows_learn_owners(const RowsTick *t);

/* What a tick adds to a row. */
typedef struct RowsAdd {
    LedgerAmount kind;
    LedgerQuality quality; /* NONE: SM activity is not known */
    uint64_t amounts[LEDGER_AMOUNT_END];
    uint64_t memory_bytes;
    double sm;
} RowsAdd;

/* Adds to the row of a part, a new one if need be, and to the charge of its holding. */
void rows_add(const RowsTick *t, const LedgerPart *part, const RowsAdd *add);

/* Gives the rows that have changed, or could not be kept before, to `put`. */
void rows_put(OpenRows *rows, LedgerPut put, void *self);

/* Nothing is added to the rows any more. Those that are not kept yet stay until they are. */
void rows_end(OpenRows *rows);

static inline uint64_t rows_scale(uint64_t ns, double share)
{
    return (uint64_t)llround((double)ns * share);
}
