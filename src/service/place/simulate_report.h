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

/* Nodes that could be bought: the first run is of the cluster as it is, each other one with an offer's nodes besides,
 * worth `budgets` an hour. The best first. */
void simulate_advice_text(const SimulateRun *runs, const double *budgets, size_t count, Str *out);
void simulate_advice_json(const SimulateRun *runs, const double *budgets, size_t count, Str *out);
