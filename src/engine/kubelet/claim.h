/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dynamic resource allocation (resource.k8s.io/v1) without its wires: what a node publishes of its devices, and what an
 * allocated claim has of them. Pure. One thread.
 */

#include <jansson.h>

#include "base/arena.h"
#include "engine/kubelet/offer.h"

enum { CLAIM_DEVICES_MAX = 32 }; /* as the API server allows */

/* Time slices of NVIDIA's driver, by the numbers that nvidia-smi takes. */
#define CLAIM_SLICE_TABLE(WORD)                                                                                        \
    WORD(CLAIM_SLICE_DEFAULT, "Default")                                                                               \
    WORD(CLAIM_SLICE_SHORT, "Short")                                                                                   \
    WORD(CLAIM_SLICE_MEDIUM, "Medium")                                                                                 \
    WORD(CLAIM_SLICE_LONG, "Long")
typedef enum ClaimSlice { CLAIM_SLICE_TABLE(WORD_ID) CLAIM_SLICE_END } ClaimSlice;
extern const WordRow claim_slices[CLAIM_SLICE_END];

/* One entry of defaultPerDevicePinnedMemoryLimit. */
typedef struct ClaimLimit {
    const char *device; /* a UUID, or a position among the claim's devices */
    uint64_t bytes;
} ClaimLimit;

/* A GpuConfig or MigDeviceConfig of resource.nvidia.com/v1beta1. */
typedef struct ClaimConfig {
    OfferSharing sharing;
    ClaimSlice slice;        /* of TIME */
    unsigned thread_percent; /* of MPS; 0: not set */
    uint64_t limit_bytes;    /* of MPS: pinned memory of each device; 0: not set */
    const ClaimLimit *limits;
    size_t limit_count;
} ClaimConfig;

typedef struct ClaimDevice {
    const char *request;                /* without what stands behind its '/' */
    const char *pool, *name, *share_id; /* share_id: "" none */
    bool admin;                         /* it may be held by others, and its sharing is theirs */
    bool tolerates;                     /* it is wanted unhealthy too */
    const ClaimConfig *config;          /* NULL: none asked for */
} ClaimDevice;

typedef struct Claim {
    const char *uid, *namespace, *name;
    size_t count; /* of one driver's devices */
    ClaimDevice devices[CLAIM_DEVICES_MAX];
} Claim;

/* Reads a ResourceClaim that is allocated, the devices of `driver` alone. Texts lie in `arena`, or in `object`, which
 * has to live as long. -EINVAL: what is wrong with it, for the pod's owner. */
int claim_read(const json_t *object, const char *driver, Arena *arena, Claim *ret, Err *err);

/* Where a MIG device lies that is made for a claim. */
typedef struct ClaimPlace {
    const char *gpu;     /* its UUID */
    uint32_t profile_id; /* the driver's number of the profile */
    unsigned start;      /* memory slice */
} ClaimPlace;

/* Profile and start as the name of a MIG device tells them, "gpu-0-mig-1g10gb-19-4"; false: it is none. */
bool claim_read_place(const char *name, ClaimPlace *ret);

/* What a node publishes: a JSON object of `devices` and `sharedCounters`, as ResourceSlices have them, and `unread`: the
 * UUIDs of GPUs of which the driver said little or nothing, for one was lost since it was sampled. */
typedef struct ClaimNode {
    const Snapshot *snapshot;
    const MakeNode *make;
    const MigNode *mig; /* where MIG devices lie */
    const Offer *offer;
    bool makes_mig;           /* MIG devices are made for claims: on GPUs in MIG mode that have none but those of ... */
    const ClaimPlace *places; /* ... claims, all that could be made are devices, held apart by counters */
    size_t place_count;
} ClaimNode;

/* With NVIDIA's names and attributes; small MIG devices first and whole GPUs last, as the scheduler takes the first
 * that fits. */
void claim_devices(const ClaimNode *node, Str *out);
