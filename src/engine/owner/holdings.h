/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who holds each GPU and MIG instance: what was declared (pods of the kubelet, jobs of a workload manager) joined with
 * what was observed (the driver's processes and their identities). The only place that joins them. A process that can
 * no longer be identified keeps the owner that it had while the driver lists it without a break. Pure: time and inputs
 * are those of the snapshot. One thread.
 */

#include "model/snapshot.h"

/* An owner that shares a device and ran nothing on it for so long holds it idle. */
#define HOLDING_IDLE_NS UINT64_C(60000000000)

typedef struct Holdings Holdings;

Holdings *holdings_new(void);
void holdings_free(Holdings *holdings); /* accepts NULL */

/* Joins; once per tick. Of the snapshot it reads node, processes and what is declared. A GPU whose processes cannot be
 * listed now keeps those that it had. On a GPU with MIG instances a process without an instance is left out. */
void holdings_update(Holdings *holdings, const Snapshot *snapshot);

/* Whether somebody who is not listed may hold a GPU: it was held when its activity was decided last, it can be asked, and
 * has no process. */
bool holdings_want_holders(const Holdings *holdings, const Node *node);

/* Sets the states from the activities in the node. holdings_update does this with those that the node has then: where they
 * are decided behind it, as in the agent, whose node has none until then, no state is read before this call. */
void holdings_decide_states(Holdings *holdings, const Node *node);

/* Valid until the next update. */
const Holding *holdings_list(const Holdings *holdings, size_t *ret_count);

/* What the owner's part of the device does: the device's word; "idle held" for one that only holds a device which
 * others use. */
ActivityWord holding_activity(const Holding *holding, const Node *node);
