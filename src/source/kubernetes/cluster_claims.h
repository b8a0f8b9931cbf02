/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dynamic resource allocation: which GPUs nodes have by their ResourceSlices, and which of them pods ask for and have
 * by ResourceClaims. A device whose attribute `type` is "gpu" is a GPU, whoever its driver is; its number on the node
 * follows the names of the devices (gpu-0, gpu-1). resource.k8s.io/v1, v1beta2 and v1beta1. Of a claim that is not
 * allocated the classes count, not their selectors. Pure; one thread.
 */

#include "base/map.h"
#include "base/vec.h"
#include "model/cluster.h"
#include "source/kubernetes/cluster_object.h"

typedef struct KubeDevice KubeDevice;
typedef struct KubePool KubePool;
typedef struct KubeClaim KubeClaim;

/* The GPUs of a node. */
typedef struct KubeDeviceNode {
    const char *product; /* "NVIDIA-H100-80GB-HBM3", as labels write it; NULL: not said */
    unsigned count;
    uint16_t broken; /* a bit per GPU with a taint against new claims */
    bool numbered;   /* the node has these GPUs: set by the reader; else their numbers mean nothing on it */
} KubeDeviceNode;

typedef struct KubeClaims {
    Arena *arena;
    Map pools;   /* "driver/pool" -> KubePool */
    Map devices; /* "driver/pool/device" -> KubeDevice, of the pools' last generations */
    Map nodes;   /* name -> KubeDeviceNode */
    Map drivers; /* with GPUs */
    Map claims;  /* "kind namespace/name" -> KubeClaim */
} KubeClaims;

void kube_claims_init(KubeClaims *claims, Arena *arena);
void kube_claims_done(KubeClaims *claims);

/* Reads all ResourceSlices, ResourceClaims and ResourceClaimTemplates among the objects. */
int kube_claims_read(KubeClaims *claims, const KubeObject *objects, size_t count, Err *err);

/* NULL: its slices name none. */
KubeDeviceNode *kube_claims_node(const KubeClaims *claims, const char *name);

/* What a pod asks for, or has, by its claims. */
typedef struct KubeClaimed {
    unsigned gpus; /* those of a claim of several pods are of the first */
    uint16_t bits; /* which of its node; fewer than `gpus` where not all are known */
    bool parts;    /* MIG devices, or as many as there are */
    bool unknown;  /* a claim that is not in the input */
} KubeClaimed;

/* Of a pod on `node`, NULL: none yet. `status` NULL: it is a template of pods. */
int kube_claims_of_pod(KubeClaims *claims, const char *namespace, const KubeField *spec, const KubeField *status,
                       const char *node, KubeClaimed *ret, Err *err);

/* Goes through claims that have GPUs and no pod that runs has been asked about: *at is 0 at first. False: there are no
 * more. */
bool kube_claims_next(const KubeClaims *claims, size_t *at, const char **ret_name, const char **ret_node,
                      KubeClaimed *ret);
