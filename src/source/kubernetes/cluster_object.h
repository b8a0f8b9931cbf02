/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An object of the input and what all kinds have alike. Plain data; refers to the JSON and the reader's arena. */

#include "base/arena.h"
#include "source/kubernetes/field.h"

typedef struct KubeObject {
    KubeField root;
    const char *kind, *group; /* "Job", "batch"; of the core group "" */
    const char *namespace, *name;
} KubeObject;

typedef struct KubeOwner {
    const char *kind, *group, *name; /* "" none */
} KubeOwner;

/* "batch/v1" -> "batch", "v1" -> "". */
const char *kube_api_group(Arena *arena, const char *version);

bool kube_object_is(const KubeObject *object, const char *kind, const char *group);

/* The object that controls it. */
int kube_object_controller(const KubeObject *object, Arena *arena, KubeOwner *ret, Err *err);

/* Whether it has a condition with this status; *ret is then its message, and stays where it has none. */
int kube_object_condition(const KubeObject *object, const char *type, const char *status, const char **ret,
                          bool *ret_found, Err *err);
