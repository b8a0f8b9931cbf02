/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the board to the node's view, once per tick: rows are copied out and checked, states come from the supervisor,
 * and what is not fresh or belongs to a GPU that is not up becomes absent with its reason. A GPU's identity and texts
 * outlive its readings, so that a lost one is still named; one that nobody misses (supervisor_gpu_is_hidden) is not in
 * it. One thread; memory grows with the number of GPUs alone.
 */

#include "model/node.h"
#include "source/board/board.h"
#include "source/sampler/supervisor.h"

typedef struct View View;

/* `board` and `supervisor` are borrowed. */
View *view_new(const Board *board, Supervisor *supervisor, const char *hostname);
void view_free(View *view);

/* Which counts the node shall have: GPUs on the PCI bus, and those expected (below 0: as many as on the bus). */
void view_set_bus(View *view, uint32_t on_bus, int64_t expected);

/* Who the GPU of a board's entry was when it was last here, where no sampler has said or says more; `gone_why` is said
 * of it while it is GONE. */
void view_know(View *view, uint32_t entry, const Device *device, const char *gone_why);

/* Makes the view of this instant. The node stays the view's; it changes at the next turn. */
const Node *view_turn(View *view, uint64_t time_ns, uint64_t real_ns);
const Node *view_node(const View *view);
/* The node's samplers, to be completed with what they cost. */
NodeSampler *view_samplers(View *view);
