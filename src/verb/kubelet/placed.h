/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pods of this node that wait to be started, followed by the API server, so that they get the GPUs that
 * `stoker place serve` chose for them. On the loop's thread.
 */

#include <uv.h>

#include "verb/kubelet/kubelet.h"

typedef struct PlacedPods PlacedPods;

/* `kubelet` is borrowed and closed after it. -errno: there is no way to ask an API server. */
int placed_pods_new(uv_loop_t *loop, const KubeletOptions *o, Kubelet *kubelet, const Log *log, PlacedPods **ret,
                    Err *err);
/* Several times a second: whether the list follows the API server. NULL: nothing. */
void placed_pods_tick(PlacedPods *placed);
/* How it is doing, as words of a question to the agent; NULL: none. */
void placed_pods_describe(const PlacedPods *placed, Str *out);
void placed_pods_close(PlacedPods *placed); /* accepts NULL */
