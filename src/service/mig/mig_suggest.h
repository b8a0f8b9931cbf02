/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `stoker mig suggest`: the ledger's rows as demands for engine/mig/suggest, and its answer as text and JSON. Decides
 * nothing about layouts. One thread.
 */

#include "base/map.h"
#include "base/vec.h"
#include "engine/ledger/ledger.h"
#include "engine/mig/suggest.h"

/* What is known of a demand while rows are added; beside the demand of the same position. */
typedef struct MigWork {
    char device[DEVICE_KEY_CAP];
    Owner owner;
    uint64_t alloc_ns, idle_ns, measured_ns, util_ns, eff_ns; /* util: measured by utilisation */
    uint64_t first_real_ns, last_real_ns;
} MigWork;

typedef struct MigPast {
    uint64_t since_real_ns;
    const char *period;    /* "the last 24h" */
    const char *node_name; /* of the host */
    bool agent;            /* one runs */
    MigNode *node;         /* GPUs are added to it where `table` is set */
    const MigTable *table; /* the board of --board; NULL: the driver's node */
    Arena *arena;
    VEC(MigDemand) demands;
    VEC(MigWork) works;
    VEC(MigUse) uses;
    Map known;                             /* by device and owner: position + 1 */
    VEC(char *) gpus, lost;                /* keys of GPUs in the ledger; those that the node does not have */
    double known_ns;                       /* GPU time that the ledger knows of */
    uint64_t first_real_ns, until_real_ns; /* of the ledger in this time */
} MigPast;

/* `past` has its members up to `arena` already. */
void mig_past_init(MigPast *past);
void mig_past_done(MigPast *past);
/* A row of the ledger as it is kept, not merged; `self` is the MigPast. */
void mig_past_add(void *self, const LedgerRow *row);
/* An incident of memory shortage on a device, or what is on it, of these owners (0: of all there). */
void mig_past_add_shortage(MigPast *past, const char *device, const Owner *owners, size_t owner_count);
/* After the last row and before shortages. */
void mig_past_finish(MigPast *past);

void mig_suggest_text(const MigPast *past, const MigSuggestion *s, Str *to);
/* Ended by a newline: docs/mig.schema.json. */
void mig_suggest_json(const MigPast *past, const MigSuggestion *s, Str *to);
