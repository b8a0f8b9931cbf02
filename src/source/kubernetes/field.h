/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fields of Kubernetes objects by their path, with their type checked. An error names input, object and field:
 * "cluster.json: Pod team-a/x: spec.containers[0].resources: must be an object, not a text". Parts of a path are parted
 * by a blank, as keys contain dots and slashes. A field that is absent or null is no error. Pure; any thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Plain data; refers to the field that it lies in, which must live as long. */
typedef struct KubeField {
    const struct KubeField *in; /* NULL: a whole object */
    const char *key;            /* path from `in`; of a whole object what errors call it; NULL: an item of a list */
    size_t index;
    const json_t *json; /* NULL: absent */
} KubeField;

/* JSON_TRUE stands for both booleans, JSON_INTEGER and JSON_REAL only for themselves. -EINVAL: another type. */
int kube_field_get(const KubeField *in, const char *path, json_type type, KubeField *ret, Err *err);
int kube_field_item(const KubeField *list, size_t index, json_type type, KubeField *ret, Err *err);
size_t kube_field_len(const KubeField *list); /* items; 0 where it is absent */

/* These leave *ret as it is where the field is absent. The text lives as long as the JSON. */
int kube_field_text(const KubeField *in, const char *path, const char **ret, Err *err);
int kube_field_int(const KubeField *in, const char *path, int64_t min, int64_t max, int64_t *ret, Err *err);
int kube_field_bool(const KubeField *in, const char *path, bool *ret, Err *err);
int kube_field_time(const KubeField *in, const char *path, uint64_t *ret_s, Err *err);     /* RFC 3339 */
int kube_field_duration(const KubeField *in, const char *path, uint64_t *ret_s, Err *err); /* "30m" */
int kube_field_quantity(const KubeField *in, const char *path, double *ret, Err *err);     /* "500m", "1Gi", 2 */

/* "<object>: <field>: <what>" with -EINVAL, which it returns. */
int kube_field_fail(const KubeField *field, Err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
