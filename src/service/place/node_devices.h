/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The GPUs that a node has by its ResourceSlices (devices whose attribute `type` is "gpu"), and how many of them
 * ResourceClaims have. resource.k8s.io/v1 and v1beta1. The owner embeds it. One thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/vec.h"

typedef struct NodeSlice NodeSlice;
typedef struct NodeClaim NodeClaim;

typedef struct NodeDevices {
    VEC(NodeSlice *) slices;
    VEC(NodeClaim *) claims;
    /* Of the pools' last generations: GPUs, those without a taint against new claims, and those that claims have. A MIG
     * device of a claim takes its GPU. */
    size_t gpus, usable, claimed;
    const char *product; /* "NVIDIA-H100-80GB-HBM3", as labels write it; NULL: not said */
} NodeDevices;

void node_devices_done(NodeDevices *devices);
bool node_devices_empty(const NodeDevices *devices);

/* `object` NULL: it is gone. `key` is the object's name, or its UID. */
void node_devices_put_slice(NodeDevices *devices, const char *key, const json_t *object);
void node_devices_put_claim(NodeDevices *devices, const char *key, const json_t *object);
