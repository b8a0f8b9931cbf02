/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whose each second of a played node was, by the agent's own join and ledger, held against the scenario's `owners`.
 * Also stands in for the kubelet and for job files, as `given` says. One thread.
 */

#include "engine/owner/holdings.h"
#include "sim/scenario/scenario.h"

typedef struct Whose Whose;

/* NULL where the scenario says nothing of owners. `root` is the node's tree: the kubelet's links to logs go there. */
Whose *whose_new(const Scenario *scenario, const SimImage *image, const char *root);

/* Sets in `ret` what is declared `t_ns` after the start. */
void whose_declare(Whose *whose, const Node *node, uint64_t t_ns, Snapshot *ret);

/* The second that ends `t_ns` after the start, after the states were decided. */
void whose_tick(Whose *whose, const Node *node, const Holdings *holdings, uint64_t t_ns);

/* Prints what was wrong; returns how much. */
int whose_end(const Whose *whose);
