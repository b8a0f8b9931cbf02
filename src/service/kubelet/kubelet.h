/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's device plugin API v1beta1: a server per resource, the registration of each with the kubelet, and what a
 * container gets. What is offered and whether it is healthy, engine/kubelet decides. On the loop's thread; nothing
 * blocks.
 */

#include <jansson.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/yaml.h"
#include "engine/kubelet/offer.h"
#include "model/driver_files.h"

/* ---- sharing, as the device plugin's configuration says it (sharing.c) ---- */

/* Reads the mapping `sharing` (NULL: none): timeSlicing or mps. Texts lie in `arena`. -EINVAL: file, line and key. */
int kubelet_read_sharing(const YamlNode *sharing, Arena *arena, OfferConfig *ret, Err *err);

/* ---- what a container gets (grant.c) ---- */

typedef struct GrantConfig {
    bool envvar, volume_mounts, cdi_annotations, cdi_cri; /* how devices are named to the container's runtime */
    bool by_index;                                        /* by index instead of UUID */
    bool device_nodes;                                    /* device files are passed too */
    bool gdrcopy, gds, mofed;
    const char *cdi_prefix; /* of the annotation's name */
    const char *dev_root;   /* the host's folder in which its /dev lies; "": "/" */
    const char *root;       /* where this process sees that folder; "": at "/" */
    const char *mps_root;   /* the host's folder of the MPS daemons; NULL: none */
} GrantConfig;

/* What a device is called there: its UUID, or "3" and "3:1" by index. Returns `to`. */
enum { GRANT_NAME_CAP = OFFER_ID_CAP };
const char *grant_name(const GrantConfig *config, const OfferUnit *unit, char to[GRANT_NAME_CAP]);

/* ---- the Container Device Interface (cdi.c) ---- */

/* The specification of all that is offered: kind k8s.device-plugin.nvidia.com/gpu, a device for each GPU and MIG
 * device. The same offer and files give the same text. */
#define CDI_FILE "k8s.device-plugin.nvidia.com-gpu.json" /* as the device plugin calls it */
void cdi_spec(const Offer *offer, const GrantConfig *config, const DriverFiles *files, Str *out);

/* A device under a name of its own. */
typedef struct CdiDevice {
    const char *name;
    const OfferUnit *unit;
    const char *mps; /* the host's folder of its MPS daemon; NULL: it has none */
} CdiDevice;

/* Writes a specification where it is not there as it should be, whoever changed it. 1: it was written. -errno. */
enum { CDI_SPEC_MAX = 4 << 20 };
int cdi_keep(const char *folder, const char *path, const Str *spec, Err *err);

/* The specification of the devices of a claim. */
void cdi_claim_spec(const char *kind, const CdiDevice *devices, size_t count, const GrantConfig *config,
                    const DriverFiles *files, Str *out);

/* ---- for people (explain.c) ---- */

/* What is offered, who has it, what is unhealthy and why; with `pod` ("NAME" or "NAMESPACE/NAME") what that one has, in
 * text alone. False: the pod has nothing here. */
bool kubelet_explain(const Offer *offer, const Snapshot *snapshot, const char *pod, bool json, Str *out);

/* ---- pods whose GPUs the scheduler chose (chosen.c) ---- */

/*
 * Pods of this node that the kubelet has not taken in yet. It does not say for which of them it asks for devices: of
 * those that ask for as many, it is taken to be the one that was scheduled first and whose GPUs, as its annotation
 * stoker.dev/gpus names them, are all available. A pod that has its GPUs has none of them available any more. A wrong
 * guess gives a pod other GPUs than were chosen, never too few. Whole GPUs alone: not in replicas, no MIG devices.
 */
typedef struct Chosen Chosen;

#define CHOSEN_OUTCOME_TABLE(WORD)                                                                                     \
    WORD(CHOSEN_AS_CHOSEN, "as_chosen")                                                                                \
    WORD(CHOSEN_OTHER, "other")     /* than were chosen for the pods that ask for as many */                           \
    WORD(CHOSEN_UNKNOWN, "unknown") /* for no pod that is known */
typedef enum ChosenOutcome { CHOSEN_OUTCOME_TABLE(WORD_ID) CHOSEN_OUTCOME_END } ChosenOutcome;
extern const WordRow chosen_outcomes[CHOSEN_OUTCOME_END];

enum { CHOSEN_PODS_MAX = 1024 };
#define KUBELET_PODS_READ "the node's pods that wait" /* what the list is called in the log and in a metric */

Chosen *chosen_new(void);
void chosen_free(Chosen *chosen); /* accepts NULL */
/* A list of pods: begin, add for each, end. Those that run are left out. -EBADMSG: it is no pod. */
void chosen_begin(void *chosen);
int chosen_add(void *chosen, const json_t *pod, Err *err);
bool chosen_end(void *chosen); /* true */
/* Whether a pod is known that waits for so many devices of this resource, chosen or not. */
bool chosen_is_awaited(const Chosen *chosen, const char *resource, size_t count);
/* False: none of them is for `size` of these ids, those of `must` among them, and `ret` is untouched. */
bool chosen_find(const Chosen *chosen, const OfferResource *resource, const char *const *available,
                 size_t available_count, const char *const *must, size_t must_count, size_t size, const char **ret);
/* A container got these. */
void chosen_note(Chosen *chosen, const OfferResource *resource, char *const *ids, size_t count);
const uint64_t *chosen_counts(const Chosen *chosen); /* by outcome */

/* ---- the servers (plugin.c) ---- */

typedef struct KubeletConfig {
    const char *dir;    /* of the sockets; copied, as the next */
    const char *socket; /* the kubelet's; "": nothing is registered */
    GrantConfig grant;
    OfferPolicy policy;
    bool one_each; /* of a shared resource a container gets one replica */
    const Log *log;
} KubeletConfig;

typedef struct Kubelet Kubelet;

/* Nothing is served until something is offered. */
Kubelet *kubelet_new(uv_loop_t *loop, const KubeletConfig *config);
/* Takes another configuration over; `dir` and `socket` stay as they were. */
void kubelet_configure(Kubelet *kubelet, const KubeletConfig *config);
/* Serves this from now on; both are borrowed until the next call. A resource that is not in it any more is served
 * without devices. */
void kubelet_offer(Kubelet *kubelet, const Offer *offer, const Snapshot *snapshot);
/* From now on pods get what was chosen for them; `chosen` is borrowed, NULL: not so. Called every 100 ms or so. `live`:
 * the list of pods follows the API server, so that a pod which is asked for and not in it will come: the answer is held
 * back until it has, for KUBELET_HOLD_CALLS calls at most. */
enum { KUBELET_HOLD_CALLS = 2 };
void kubelet_follow(Kubelet *kubelet, Chosen *chosen, bool live);
/* Removes the sockets and frees when the loop has closed its handles. */
void kubelet_close(Kubelet *kubelet);
