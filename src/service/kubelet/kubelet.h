/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's device plugin API v1beta1: a server per resource, the registration of each with the kubelet, and what a
 * container gets. What is offered and whether it is healthy, engine/kubelet decides. On the loop's thread; nothing
 * blocks.
 */

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

typedef struct Deviceplugin__Grant Deviceplugin__Grant;

/* What a container gets with these devices, packed by `arena`. -EINVAL or -EBUSY: a text for the pod's owner. */
int grant_devices(const GrantConfig *config, const OfferResource *resource, bool one_each, char *const *ids,
                  size_t count, Arena *arena, Deviceplugin__Grant **ret, Err *err);

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
/* Removes the sockets and frees when the loop has closed its handles. */
void kubelet_close(Kubelet *kubelet);
