/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What came of simulations of one plan, side by side: text, JSON and a page with curves. Pure. */

#include "base/str.h"
#include "engine/place/simulate.h"

enum { SIMULATE_RUNS_MAX = 12 };

typedef struct SimulateRun {
    const char *label; /* "pack", "fgd", "pack +16xH100x8" */
    const Cluster *cluster;
    const Simulation *result;
} SimulateRun;

void simulate_text(const SimulateRun *runs, size_t count, Str *out);
void simulate_json(const SimulateRun *runs, size_t count, Str *out);
void simulate_page(const SimulateRun *runs, size_t count, const char *title, Str *out);

/* Hours that all jobs of a run waited together. */
double simulate_waited_h(const Simulation *result);

/* Nodes that could be bought, beside the cluster as it is: over several seeds. */
typedef struct SimulateOffer {
    const char *label;
    double price;                 /* of these nodes, an hour; 0: the cluster as it is */
    double wait_p95_s;            /* mean */
    double less_h, less_spread_h; /* hours less that jobs waited: mean and standard deviation */
    double less_for_money;        /* for each unit of money */
} SimulateOffer;

/* The best first, behind the cluster as it is. */
void simulate_rank_offers(SimulateOffer *offers, size_t count);
void simulate_offers_text(const SimulateOffer *offers, size_t count, Str *out);
void simulate_offers_json(const SimulateOffer *offers, size_t count, Str *out);
