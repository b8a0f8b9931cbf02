/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a node offers to a kubelet: its GPUs and MIG devices as extended resources, with their health, and which of them
 * a container should get. Pure: the node's snapshot and times are arguments. One thread.
 */

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "engine/place/gpu_links.h"
#include "model/activity.h"
#include "model/make.h"
#include "model/mig.h"
#include "model/snapshot.h"

enum {
    OFFER_NAME_CAP = 80,                /* a resource: "nvidia.com/" and 63 characters */
    OFFER_ID_CAP = DEVICE_UUID_CAP + 8, /* "GPU-...::12" */
    OFFER_WHY_CAP = 512,
    OFFER_REPLICAS_MAX = 1024,
    OFFER_CODES_MAX = 64,
};

/* WORD(id, key): how GPUs in MIG mode are offered, in the device plugin's words. */
#define OFFER_MIG_TABLE(WORD)                                                                                          \
    WORD(OFFER_MIG_NONE, "none")     /* whole GPUs, whatever their mode */                                             \
    WORD(OFFER_MIG_SINGLE, "single") /* MIG devices, all of one profile, as nvidia.com/gpu */                          \
    WORD(OFFER_MIG_MIXED, "mixed")   /* MIG devices as nvidia.com/mig-PROFILE */
typedef enum OfferMig { OFFER_MIG_TABLE(WORD_ID) OFFER_MIG_END } OfferMig;

#define OFFER_SHARING_TABLE(WORD)                                                                                      \
    WORD(OFFER_SHARING_NONE, "none")                                                                                   \
    WORD(OFFER_SHARING_TIME, "time-slicing")                                                                           \
    WORD(OFFER_SHARING_MPS, "mps")
typedef enum OfferSharing { OFFER_SHARING_TABLE(WORD_ID) OFFER_SHARING_END } OfferSharing;

extern const WordRow offer_migs[OFFER_MIG_END], offer_sharings[OFFER_SHARING_END];

/* A resource that is offered several times. */
typedef struct OfferShare {
    const char *resource; /* "nvidia.com/gpu" */
    uint32_t replicas;
} OfferShare;

/* XIDs, from the two variables of the device plugin: a fault whose root is an ignored one counts for nothing, one that
 * has a heeded one counts whatever else it is. */
typedef struct OfferCodes {
    bool ignore_all, heed_all;
    size_t ignored_count, heeded_count;
    int32_t ignored[OFFER_CODES_MAX], heeded[OFFER_CODES_MAX];
} OfferCodes;

/* Reads the values of DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS: "all" or "xids", or XIDs with commas; what is
 * enabled wins. NULL: not set. -EINVAL names the word. */
int offer_read_codes(const char *disabled, const char *enabled, OfferCodes *ret, Err *err);

typedef struct OfferConfig {
    OfferMig mig;
    OfferSharing sharing;
    const OfferShare *shares;
    size_t share_count;
    bool rename;      /* a shared resource is offered as NAME.shared */
    bool one_each;    /* a request for more than one replica is refused */
    OfferCodes codes; /* of no consequence where zeroed */
    uint64_t hold_ns; /* a device is healthy again when nothing was against it for so long */
} OfferConfig;

/* A GPU or MIG device, offered once or in replicas. */
typedef struct OfferUnit {
    Device device;               /* its own identity */
    char profile[MIG_NAME_SIZE]; /* "" of a GPU */
    size_t gpu;                  /* its position among the snapshot's GPUs */
    uint32_t gpu_index;          /* NVML's, of that GPU */
    int32_t numa_node;           /* below 0: not known */
    uint32_t gi_minor, ci_minor; /* of /dev/nvidia-caps/nvidia-capN; 0: none, or not known */
    bool healthy;
    bool unserved; /* not healthy for what the node lacks alone, as its MPS daemon; no incident is against it */
    char incident[ACTIVITY_INCIDENT_CAP]; /* the one that is against it; "" none */
    char why[OFFER_WHY_CAP];              /* not healthy: what is wrong and what to do */
    uint64_t fine_ns;                     /* since when nothing is against it, while it is held back; 0: not so */
} OfferUnit;

typedef VEC(OfferUnit) OfferUnits;

typedef struct OfferResource {
    char name[OFFER_NAME_CAP]; /* as it is offered: "nvidia.com/mig-1g.10gb.shared" */
    uint32_t replicas;         /* of each unit; 1: it is not shared */
    OfferSharing sharing;
    uint32_t clients_max;           /* processes that MPS serves on a GPU; 0: not shared by MPS */
    const char *daemon;             /* state of its MPS daemon; NULL: there is none */
    char daemon_why[OFFER_WHY_CAP]; /* where that is not ready */
    OfferUnits units;               /* by GPU, then by instance */
} OfferResource;

typedef struct Offer {
    VEC(OfferResource) resources; /* those with units, by name; "nvidia.com/gpu" first */
    OfferUnits split;             /* GPUs in MIG mode, where their MIG devices are offered in their place */
    char why[OFFER_WHY_CAP];      /* why less is offered than there is; "" */
} Offer;

/* What is offered of this snapshot. `before` (NULL: nothing) is what was offered until now, for the time that a device
 * which was unhealthy is still held back. *ret is empty or holds an offer, which is replaced. */
void offer_make(const Snapshot *snapshot, const OfferConfig *config, const Offer *before, uint64_t now_ns, Offer *ret);
void offer_done(Offer *offer);
/* When (by offer_make's clock) a device that is held back becomes healthy; UINT64_MAX: none is. */
uint64_t offer_due(const Offer *offer, uint64_t hold_ns);
const OfferResource *offer_find(const Offer *offer, const char *name);   /* NULL */
const OfferUnit *offer_find_unit(const Offer *offer, const char *uuid);  /* NULL */
const OfferUnit *offer_find_split(const Offer *offer, const char *uuid); /* NULL */
/* Makes a unit that is healthy unhealthy for what the node lacks, as `why` says; nothing is held back after. */
void offer_unserve(OfferUnit *unit, const char *why);
/* How many devices are offered, and how many of them are healthy. */
size_t offer_count(const Offer *offer, size_t *ret_healthy);

/* Ids are those of NVIDIA's device plugin: the UUID, of a shared device "UUID::N" from 0. */
void offer_id(const OfferResource *resource, size_t unit, uint32_t replica, char to[OFFER_ID_CAP]);
/* The unit that an id means; NULL: none of this resource. */
const OfferUnit *offer_unit(const OfferResource *resource, const char *id);

/* ---- labels of the node (labels.c) ---- */

/* What else is known of the node. */
typedef struct LabelHost {
    const char *machine; /* the product's name by its firmware; "" not known */
    const char *mode;    /* "compute", "graphics", or "unknown": the PCI class of all its GPUs */
    uint64_t real_s;     /* Unix time; 0: no timestamp */
    bool physical;       /* gpu.count and gpu.replicas as gpu-feature-discovery has them: of all GPUs, whatever of
                            them is offered */
    const MigNode *mig;  /* how its GPUs are split; NULL: not read */
} LabelHost;

/* gpu-feature-discovery's labels, a line "KEY=VALUE" each, by key; where those would not agree with what is offered,
 * what is offered. Of several models the one with the most GPUs counts, then the first by index; each has a label
 * stoker.dev/gpu.PRODUCT.count. And those for schedulers, stoker.dev/...: docs/kubelet.md lists them. */
void offer_labels(const Snapshot *snapshot, const MakeNode *make, const OfferConfig *config, const Offer *offer,
                  const LabelHost *host, Str *out);

/* What the GPU with this UUID is made of; NULL: the driver did not say. */
const MakeGpu *offer_find_make(const MakeNode *make, const char *uuid);
/* The architecture by the compute capability, "hopper"; "undefined" where it is not known. */
const char *offer_family(const MakeGpu *make);

/* ---- which devices are best together (prefer.c) ---- */

enum { OFFER_EXACT_MAX = GPU_LINKS_MAX }; /* of so many free GPUs all sets are compared */

/* Of which devices replicas are taken. */
typedef enum OfferSpread {
    OFFER_SPREAD_DISTRIBUTED, /* those with the fewest taken */
    OFFER_SPREAD_PACKED,      /* those with the most taken */
} OfferSpread;

typedef struct OfferPolicy {
    OfferSpread spread;
    bool apart; /* of sets of whole GPUs with equally fast links that whose GPUs are far from each other and from those
                   in use, by PCIe and NUMA; the PCIe path between GPUs that have NVLink is no link then */
} OfferPolicy;

/*
 * Chooses `size` of the ids in `available`, those of `must` among them, into `ret` (room for size), in the order of the
 * units. Whole GPUs: the set with the fastest links among its members, of equal ones that nearest to the network, then
 * that which leaves the fastest among the others (or `policy.apart`), then the first. MIG devices: those of the GPU
 * with the fewest that are free, so that others stay whole. Replicas: by `policy.spread`. -EINVAL: an id is not known,
 * or there are not enough.
 */
int offer_prefer(const OfferResource *resource, const Snapshot *snapshot, OfferPolicy policy,
                 const char *const *available, size_t available_count, const char *const *must, size_t must_count,
                 size_t size, const char **ret, Err *err);
/* How well two GPUs of a snapshot reach each other; more is better. */
unsigned offer_link_score(const Snapshot *snapshot, size_t a, size_t b);
/* The same of all of a node's GPUs, by NVML's index, for those who choose elsewhere. */
void offer_links(const Snapshot *snapshot, GpuLinks *ret);
