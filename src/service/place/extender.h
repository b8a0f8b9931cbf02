/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1): JSON in, JSON out, decided by a Live. Only
 * names of nodes are spoken of (nodeCacheCapable: true): whole node objects of a large cluster would be tens of MB.
 *
 * filter answers every node that a pod fits on, and prioritize gives 10 to the best of them and at most 9 to each other
 * one: with the weight of `stoker place config` kube-scheduler then takes the best. To answer the best one alone would
 * decide too, but tell users that all other nodes had failed, and leave nothing where another check fails after it.
 * Both change nothing, so that they can be asked for a pod that may never come. Which GPUs, bind decides, on whatever
 * node was taken.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "service/place/live.h"

enum { EXTENDER_NAME_MAX = 253, EXTENDER_ANSWER_MAX = 4 << 20 };

/* What came of a request; a label of a metric. */
#define EXTENDER_OUTCOME_TABLE(WORD)                                                                                   \
    WORD(EXTENDER_DECIDED, "decided")                                                                                  \
    WORD(EXTENDER_PASSED, "passed") /* it asks for no GPU: every node fits */                                          \
    WORD(EXTENDER_OPEN, "open")     /* the facts are too old, or not there yet: every node fits */                     \
    WORD(EXTENDER_REFUSED, "refused")
typedef enum ExtenderOutcome { EXTENDER_OUTCOME_TABLE(WORD_ID) EXTENDER_OUTCOME_END } ExtenderOutcome;
extern const WordRow extender_outcomes[EXTENDER_OUTCOME_END];

/* Writes the answer to an ExtenderArgs. `trusted` false: fails open. What is wrong with the request is in the answer's
 * Error; prioritize has no such member: EXTENDER_REFUSED, `err` set and nothing written. */
ExtenderOutcome extender_filter(Live *live, bool trusted, const char *body, size_t len, Str *out);
ExtenderOutcome extender_prioritize(Live *live, bool trusted, const char *body, size_t len, Str *out, Err *err);

/* An ExtenderBindingArgs. */
typedef struct ExtenderBind {
    char pod[EXTENDER_NAME_MAX + 1], namespace[EXTENDER_NAME_MAX + 1], node[EXTENDER_NAME_MAX + 1];
    char uid[LIVE_UID_MAX + 1];
} ExtenderBind;

/* Names are checked: they are safe in a path. -EINVAL. */
int extender_read_bind(const char *body, size_t len, ExtenderBind *ret, Err *err);

/* What a pod that is to be bound, as the API server has it, needs. 0: `request` is set; 1: it is bound to this node
 * already; -errno: it is another pod, or is on another node. */
int extender_read_pod(const Live *live, const ExtenderBind *bind, const json_t *pod, ClusterRequest *ret, Err *err);

/* The Binding, with the GPUs as an annotation, which the API server puts on the pod in the same write. */
void extender_write_binding(const ExtenderBind *bind, uint16_t gpus, Str *out);
/* An ExtenderBindingResult; NULL: it is bound. */
void extender_write_result(const char *error, Str *out);
