/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The options of `stoker kubelet` and its sub verbs, and what is made of them.
 */

#include "base/cleanup.h"
#include "base/yaml.h"
#include "model/driver_files.h"
#include "service/api/snapshot_read.h"
#include "service/kubelet/kubelet.h"
#include "service/kubelet/mps.h"
#include "source/host/driver_files.h"
#include "source/mig/mig_driver.h"
#include "verb/verb.h"

typedef struct KubeletOptions {
    const char *config_file, *config_dir, *default_config, *dir, *socket, *cdi_root, *features_file, *machine_file,
        *library, *node, *account, *kubeconfig, *control, *root, *dra_driver, *plugins, *registry;
    int mig, id_strategy, discovery, spread, log_level, log_format;
    bool json, fail_on_init, device_nodes, gdrcopy, gds, mofed, use_node_features, no_timestamp, physical, update_node,
        spread_heat, make_mig, follow_placement;
    OptList list_strategies;
    const char *version, *mps_root, *driver_root, *dev_root, *container_driver_root, *cdi_prefix, *ctk_path;
    const YamlNode *sharing, *resources, *imex, *gfd;
    uint64_t hold_ns, node_period_ns;
} KubeletOptions;

typedef struct KubeletInstanceOptions {
    const char *library;
} KubeletInstanceOptions;

#define KUBELET_SOCKET_NAME "kubelet.sock"

/* The rows of all of them. */
extern const OptSpec kubelet_all_opts[];
extern const size_t kubelet_all_count;

typedef struct KubeletSettings {
    Arena arena; /* of the options' texts */
    KubeletOptions o;
    OfferConfig offer;
    KubeletConfig kubelet; /* without its log */
} KubeletSettings;

/* Command line over environment over file; `name` (NULL or "": the default one) of --config-dir, where that is given.
 * -errno says what is wrong, and where. */
int kubelet_settings_load(VerbCall *call, const char *name, KubeletSettings **ret, Err *err);
void kubelet_settings_free(KubeletSettings *settings);
CLEANUP_POINTER(KubeletSettings, kubelet_settings_free);

/* Where this process sees the host's folder of the driver, and that in which /dev lies: a container has both
 * mounted at --driver-root-ctr-path. */
const char *kubelet_driver_root(const KubeletOptions *o);
const char *kubelet_dev_root(const KubeletOptions *o);

/* Device files of MIG devices. Without them a device is not healthy where containers get device files from us. */
void kubelet_find_minors(const KubeletSettings *settings, Offer *offer);

/* A keeper of MPS daemons below `root`, which sets *changed (NULL: nothing) when a state is another one. */
MpsKeeper *kubelet_open_mps(uv_loop_t *loop, const KubeletOptions *o, const char *root, bool own_shm, bool *changed,
                            const Log *log);
/* What is offered says which daemons have to run. */
void kubelet_want_mps(MpsKeeper *keeper, const OfferConfig *config, const Offer *offer, const Snapshot *snapshot);
/* Devices that no daemon serves are unhealthy. Without a keeper what another process has noted below `root` counts. */
void kubelet_judge_mps(const MpsKeeper *keeper, const char *root, const Snapshot *snapshot, Offer *offer);

/* Reads an answer to `devices`: its revision and the snapshot. -errno. */
int kubelet_read_answer(const Str *answer, SnapshotBuffer *ret, uint64_t *ret_revision, Err *err);

/* Which boot of the kernel this is; "" where it does not say. */
const char *kubelet_boot_id(const KubeletOptions *o, Arena *arena);

/* What the agent says of the node now, and what the driver says that it is made of (devices.c). */
typedef struct KubeletMade {
    SnapshotBuffer *now;
    MigDriver *driver; /* whose the next two are */
    const MakeNode *make;
    const MigNode *mig; /* NULL: no GPU is in MIG mode */
} KubeletMade;

/* Blocks, for as long as the driver does, up to a limit. -errno, said in call->err; to be ended in each case. */
int kubelet_made_read(VerbCall *call, const KubeletOptions *o, KubeletMade *ret);
void kubelet_made_done(KubeletMade *made);

int kubelet_run(VerbCall *call, const void *options);
int kubelet_explain_run(VerbCall *call, const void *options);
int kubelet_labels_run(VerbCall *call, const void *options);
int kubelet_devices_run(VerbCall *call, const void *options);
int kubelet_instance_run(VerbCall *call, const void *options);
