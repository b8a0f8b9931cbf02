/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents as events of the Node object, as `kubectl describe node` shows them: one event for each incident, whose
 * count goes up, and one for its end. An event is named after its incident, so that a restart makes no second one; at
 * most ten requests a minute. On the loop's thread.
 */

#include <uv.h>

#include "base/log.h"
#include "model/snapshot.h"
#include "source/kubernetes/kubernetes.h"

typedef struct NodeEvents NodeEvents;

/* All is borrowed and outlives it; `node` is the node's name in the cluster. */
NodeEvents *node_events_new(uv_loop_t *loop, KubeApi *api, const char *node, const Log *log);
void node_events_close(NodeEvents *events); /* before the API; frees it when the loop has closed its handle; NULL */
void node_events_set(NodeEvents *events, const Snapshot *snapshot);

/* "gpu-lost" as "GpuLost": the reason of an event or a condition is one word. */
enum { NODE_REASON_CAP = 64 };
void node_reason(const char *class, char to[NODE_REASON_CAP]);
