/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dynamic resource allocation (resource.k8s.io/v1): the devices of this node as ResourceSlices, claims prepared for the
 * kubelet with CDI, and health. What is there and whether it is healthy, engine/kubelet decides. On the loop's thread;
 * nothing blocks but small files.
 */

#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/kubelet/claim.h"
#include "service/kubelet/kubelet.h"
#include "service/kubelet/mps.h"

/* What it needs of others. */
typedef struct DraPort {
    /* Reads an object of the API server. `done` is called once, later, unless it is cancelled; object NULL: `why`. */
    void *(*read)(void *self, const char *path, void (*done)(void *reader, const json_t *object, const char *why),
                  void *reader);
    void (*cancel)(void *self, void *reading);
    /* The node's pool from now on: an array of devices, and one of what they share; devices in `tainted` (name ->
     * {"key", "value"}) are not for new pods. All are taken over. */
    void (*publish)(void *self, json_t *devices, json_t *counters, json_t *tainted);
    /* The kubelet may have removed what is published. */
    void (*look)(void *self);
    /* What of the driver lies on the host now, in `arena`. */
    void (*find_files)(void *self, Arena *arena, DriverFiles *ret);
} DraPort;

typedef struct DraConfig {
    const char *driver;   /* "gpu.nvidia.com" */
    const char *node;     /* its name, which is the pool's too */
    const char *plugins;  /* the kubelet's folder for plugins: sockets and the file of prepared claims lie below */
    const char *registry; /* the kubelet's folder in which plugins are found */
    const char *cdi_root;
    const char *boot_id;     /* of the running kernel: claims prepared before a reboot are not */
    const char *library;     /* of the driver, for MIG devices that are made; "": where it is looked for */
    const char *driver_root; /* where this process sees the root in which NVIDIA's programs lie; "": "/" */
    MpsKeeper *mps;          /* for the daemons of claims; its root is mps_root */
    const char *mps_root;
    GrantConfig grant;
    DraPort port;
    void *self; /* the port's */
    const Log *log;
} DraConfig;

typedef struct Dra Dra;

/* All texts of `config` are borrowed. Nothing is published before dra_offer and dra_set_devices. -errno. */
int dra_new(uv_loop_t *loop, const DraConfig *config, Dra **ret, Err *err);
/* What is offered, and its health; borrowed until the next call. */
void dra_offer(Dra *dra, const Offer *offer);
/* What claim_devices wrote. -EBADMSG: it is not that, and what was before stays. */
int dra_set_devices(Dra *dra, const Str *devices, Err *err);
/* Writes files of prepared claims that are not there as they should be. */
void dra_keep_files(Dra *dra);
/* Removes the sockets and frees when the loop has closed its handles; accepts NULL. Claims stay prepared, and slices
 * published: the kubelet removes them if nobody comes back. */
void dra_close(Dra *dra);

/* ---- prepared claims (prepared.c) ---- */

typedef struct Prepared {
    json_t *object; /* what is kept of the ResourceClaim */
    Arena arena;
    Claim claim;
    const char *uuids[CLAIM_DEVICES_MAX];   /* of its devices; "": it is not made yet */
    const char *parents[CLAIM_DEVICES_MAX]; /* GPUs of MIG devices that are made for it; "": it was there before */
    bool leaving;      /* it is unprepared, and what was made or set for it is not yet as it was before */
    unsigned resets;   /* of that, how many are under way */
    uint64_t again_ns; /* a MIG device could not be removed: it is tried again then (uv_hrtime); 0: not so */
    struct Dra *dra;   /* of which it leaves */
    struct Prepared *next;
} Prepared;

/* Reads a ResourceClaim. `uuids` is to be filled. -EINVAL. */
int prepared_new(const json_t *object, const char *driver, Prepared **ret, Err *err);
void prepared_free(Prepared *prepared);   /* accepts NULL */
void prepared_free_all(Prepared **first); /* and those behind it */
CLEANUP_POINTER(Prepared, prepared_free);
/* The file of prepared claims of a driver, in the kubelet's folder for plugins. */
const char *prepared_path(const char *plugins, const char *driver, Arena *arena);
/* The file's claims, in their order. None, and 0, where there is no file or it is of another boot. A file that cannot
 * be read is an error: what it holds is not to be lost. */
int prepared_load(const char *path, const char *driver, const char *boot_id, Prepared **ret, Err *err);
int prepared_save(const char *path, const char *boot_id, const Prepared *first, Err *err);

/* The claim with this uid, and that which holds a device other than for looking at it; NULL: none. Not those that are
 * leaving. */
Prepared *prepared_find(const Prepared *first, const char *uid);
const Prepared *prepared_holder(const Prepared *first, const char *uuid);
/* The claim for which a MIG device of this name is made, even if it is leaving, and its position there; NULL: none. */
const Prepared *prepared_maker(const Prepared *first, const char *name, size_t *ret_position);
typedef VEC(ClaimPlace) ClaimPlaces;
/* Where the MIG devices lie that are made for these claims. */
void prepared_places(const Prepared *first, ClaimPlaces *to);

/* Whether this claim decides how its device is shared, and does so in this way. */
bool prepared_shares(const Prepared *prepared, size_t i, OfferSharing way);
/* Whether it sets a time slice other than the default. */
bool prepared_has_slice(const Prepared *prepared, size_t i);
/* The name of the MPS daemon that serves a device: one for all of a claim's with the same configuration. */
const char *prepared_daemon(const Prepared *prepared, size_t i, Arena *arena);
typedef VEC(MpsDaemonConfig) MpsDaemonConfigs;
/* All daemons that these claims need. */
void prepared_daemons(const Prepared *first, Arena *arena, MpsDaemonConfigs *to);

/* ---- their files for the runtime (claim_spec.c) ---- */

enum { CLAIM_UID_MAX = 64 }; /* a part of the file's name */

/* What the Container Device Interface calls a device of a claim. */
const char *claim_spec_device(const DraConfig *config, const Prepared *prepared, size_t i, Arena *arena);
/* -ENOENT: a device file without which a container can do nothing is not there. */
int claim_spec_check(const DriverFiles *files, const OfferUnit *unit, Err *err);
/* Writes the file where it is not there as it should be. One with a device that is not offered now stays as it is. */
int claim_spec_keep(const DraConfig *config, const Prepared *prepared, const Offer *offer, const DriverFiles *files,
                    Err *err);
int claim_spec_remove(const DraConfig *config, const char *uid, Err *err);
/* Removes files of claims that are not prepared: of a reboot, or of an end between two steps. */
void claim_spec_remove_others(const DraConfig *config, const Prepared *first);
