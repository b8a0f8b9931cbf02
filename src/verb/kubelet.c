/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker kubelet`: this node's GPUs for its kubelet. The agent says what there is and what is wrong with it; while it
 * says nothing, what it said last stays in force. One loop; nothing in it calls a driver, what does is a process of
 * its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/log.h"
#include "source/host/minors.h"
#include "verb/agent/control.h"
#include "verb/kubelet/child.h"
#include "verb/kubelet/claims.h"
#include "verb/kubelet/placed.h"
#include "verb/kubelet/kubelet.h"
#include "verb/kubelet/node.h"

enum { ASK_MS = 100, ANSWER_MS = 30000, SILENT_ASKS = 50 }; /* an answer waits for a change, 20 s at most */
enum { CONFIG_CAP = 256, FILES_MS = 2000, LABELS_MAX = 256 << 10 };

#define CONFIG_LABEL "nvidia.com/device-plugin.config"

/* --- the process ---------------------------------------------------------------------------------------------------
 */

typedef struct Kube {
    VerbCall *call;
    KubeletSettings *settings;
    Log log;
    uv_loop_t loop;
    uv_timer_t timer, files_timer;
    uv_signal_t signals[3];
    const char *control;
    ControlCall *asking;
    unsigned failures; /* of asking, in a row */
    bool warned;
    uint64_t revision;
    SnapshotBuffer *now, *spare;
    bool known; /* `now` holds what the agent said */
    Offer offer;
    char why[OFFER_WHY_CAP]; /* as it was logged last */
    char missing[OFFER_WHY_CAP], cdi_error[ERR_TEXT_MAX], link_error[ERR_TEXT_MAX];
    Kubelet *kubelet;
    Child labels;
    Claims *claims;          /* NULL: devices are offered by the device plugin */
    NodeKeeper *node;        /* NULL: the node is left alone */
    PlacedPods *placed;      /* NULL: what the scheduler chose is not followed */
    MpsKeeper *mps;          /* NULL: no folder for MPS is given */
    bool mps_changed;        /* a daemon's state, since the devices were offered */
    char config[CONFIG_CAP]; /* the configuration that the node's label names; "" none */
} Kube;

static const int signals_taken[] = {SIGHUP, SIGINT, SIGTERM};

static bool has_cdi(const KubeletSettings *s)
{
    return s->kubelet.grant.cdi_annotations || s->kubelet.grant.cdi_cri;
}

/* A container would get a MIG device without its device files. */
static void refuse_unlisted(Offer *offer, OfferUnit *unit)
{
    snprintf(offer->why, sizeof offer->why,
             "GPU %" PRIu32
             ": /proc/driver/nvidia-caps/mig-minors has no device files of MIG device %s: check that the "
             "NVIDIA kernel module is loaded and that this process sees the node's /proc/driver",
             unit->gpu_index, unit->profile);
    offer_unserve(unit, offer->why);
}

void kubelet_find_minors(const KubeletSettings *s, Offer *offer)
{
    CLEANUP(str_done) Str list = str_limited(MINORS_MAX);
    bool read = false;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++) {
            OfferUnit *unit = &offer->resources.at[i].units.at[k];
            const Device *d = &unit->device;

            if (!unit->profile[0])
                continue;
            if (!read)
                (void)minors_read(s->o.root, &list, NULL); /* without it none is listed */
            read = true;
            unit->gi_minor = minors_find(list.text, d->minor, d->gpu_instance, DEVICE_NO_NUMBER);
            unit->ci_minor = minors_find(list.text, d->minor, d->gpu_instance, d->compute_instance);
            if ((!unit->gi_minor || !unit->ci_minor) && (s->kubelet.grant.device_nodes || has_cdi(s)))
                refuse_unlisted(offer, unit);
        }
}

static void log_health(const Kube *kube, const Offer *before, const Offer *now)
{
    for (size_t i = 0; i < now->resources.len; i++) {
        const OfferResource *resource = &now->resources.at[i], *was = offer_find(before, resource->name);

        const bool fresh = !was || was->replicas != resource->replicas;

        if (fresh)
            log_write(&kube->log, LOG_LEVEL_INFO, "%s: %zu devices, in %u replicas each", resource->name,
                      resource->units.len, (unsigned)resource->replicas);
        if (fresh && resource->clients_max && resource->replicas > resource->clients_max)
            log_write(&kube->log, LOG_LEVEL_WARN,
                      "%s: MPS serves %u processes on a GPU, fewer than its %u replicas: in the others CUDA will fail",
                      resource->name, (unsigned)resource->clients_max, (unsigned)resource->replicas);
        for (size_t k = 0; k < resource->units.len; k++) {
            const OfferUnit *unit = &resource->units.at[k];
            const OfferUnit *old = was ? offer_find_unit(before, unit->device.uuid) : NULL;

            if (!unit->healthy && !unit->unserved && (!old || old->healthy || old->unserved))
                log_write(&kube->log, LOG_LEVEL_WARN, "%s: %s is unhealthy: %s", resource->name, unit->device.uuid,
                          unit->why);
            else if (unit->healthy && old && !old->healthy && !old->unserved)
                log_write(&kube->log, LOG_LEVEL_INFO, "%s: %s is healthy again", resource->name, unit->device.uuid);
        }
    }
}

static void keep_cdi(Kube *kube, const DriverFiles *files)
{
    const KubeletOptions *o = &kube->settings->o;
    CLEANUP(str_done) Str spec = str_limited(CDI_SPEC_MAX);
    char path[4096];
    Err err = {0};

    if (strcmp(kube->missing, files->missing) != 0 && files->missing[0])
        log_write(&kube->log, LOG_LEVEL_WARN, "CDI: containers will not find all of the driver: %s", files->missing);
    snprintf(kube->missing, sizeof kube->missing, "%s", files->missing);
    snprintf(path, sizeof path, "%s/" CDI_FILE, o->cdi_root);
    cdi_spec(&kube->offer, &kube->settings->kubelet.grant, files, &spec);
    const int rc = cdi_keep(o->cdi_root, path, &spec, &err);
    if (rc == 0)
        return;
    if (rc > 0)
        log_write(&kube->log, LOG_LEVEL_INFO, "CDI: '%s' is written", path);
    else if (strcmp(kube->cdi_error, err.text) != 0)
        log_write(&kube->log, LOG_LEVEL_ERROR, "CDI: %s; it is tried again", err.text);
    memcpy(kube->cdi_error, err.text, sizeof kube->cdi_error);
}

/* The device files of all that is offered, for systemd. */
static void keep_links(Kube *kube, const DriverFilesPlace *place, const DriverFiles *files, Arena *arena)
{
    CLEANUP_VEC VEC(DriverNode) nodes = {0};
    Err err = {0};

    for (size_t i = 0; i < files->node_count; i++)
        vec_push(&nodes, files->nodes[i]);
    for (size_t i = 0; i < files->gpu_count; i++)
        vec_push(&nodes, files->gpus[i]);
    for (size_t i = 0; i < kube->offer.resources.len && files->caps_major; i++)
        for (size_t k = 0; k < kube->offer.resources.at[i].units.len; k++) {
            const OfferUnit *unit = &kube->offer.resources.at[i].units.at[k];
            const uint32_t minors[] = {unit->gi_minor, unit->ci_minor};

            for (size_t m = 0; m < ARRAY_LEN(minors) && minors[m]; m++)
                vec_push(&nodes, ((DriverNode){arena_printf(arena, "/dev/nvidia-caps/nvidia-cap%" PRIu32, minors[m]),
                                               files->caps_major, minors[m]}));
        }
    const int made = driver_files_link(place, nodes.at, nodes.len, &err);
    if (made > 0)
        log_write(&kube->log, LOG_LEVEL_INFO,
                  "%d links are made in /dev/char: without them a reload of systemd takes GPUs from containers", made);
    if (made < 0 && strcmp(kube->link_error, err.text) != 0)
        log_write(&kube->log, LOG_LEVEL_WARN, "a reload of systemd may take GPUs from containers: %s", err.text);
    memcpy(kube->link_error, err.text, sizeof kube->link_error);
}

static DriverFilesPlace find_place(const Kube *kube)
{
    const KubeletOptions *o = &kube->settings->o;

    return (DriverFilesPlace){.root = kubelet_driver_root(o),
                              .driver_root = o->driver_root,
                              .dev = kubelet_dev_root(o),
                              .proc = o->root,
                              .version = kube->now->node.driver_version};
}

static void find_files(void *self, Arena *arena, DriverFiles *ret)
{
    const DriverFilesPlace place = find_place(self);

    driver_files_find(&place, true, arena, ret);
}

/* What has to lie on the host for the devices that are offered. */
static void keep_files(Kube *kube)
{
    const DriverFilesPlace place = find_place(kube);
    CLEANUP(arena_done) Arena arena = {0};
    DriverFiles files;

    if (!kube->known)
        return;
    driver_files_find(&place, has_cdi(kube->settings), &arena, &files);
    if (has_cdi(kube->settings))
        keep_cdi(kube, &files);
    keep_links(kube, &place, &files, &arena);
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

/* What the process has written, to the node. */
static void pass_labels(void *self, const Str *out UNUSED)
{
    Kube *kube = self;
    CLEANUP(str_done) Str labels = str_limited(LABELS_MAX);
    Err err;

    if (!kube->node)
        return;
    if (file_read(kube->settings->o.features_file, LABELS_MAX, &labels, &err) < 0)
        log_write(&kube->log, LOG_LEVEL_WARN, "labels: %s", err.text);
    else
        node_keeper_set_labels(kube->node, &labels);
}

/* The daemons that share devices by MPS; what they do not serve is unhealthy. */
static void keep_mps(Kube *kube, Offer *offer)
{
    const KubeletSettings *s = kube->settings;

    if (!kube->mps && s->o.mps_root)
        kube->mps = kubelet_open_mps(&kube->loop, &s->o, s->o.mps_root, false, &kube->mps_changed, &kube->log);
    if (!kube->mps)
        return;
    kube->mps_changed = false;
    kubelet_want_mps(kube->mps, &s->offer, offer, &kube->now->snapshot);
    kubelet_judge_mps(kube->mps, NULL, &kube->now->snapshot, offer);
}

/* What is offered, by what is known now. */
static void offer_again(Kube *kube)
{
    Offer made = {0};

    offer_make(&kube->now->snapshot, &kube->settings->offer, &kube->offer, uv_hrtime(), &made);
    kubelet_find_minors(kube->settings, &made);
    keep_mps(kube, &made);
    log_health(kube, &kube->offer, &made);
    if (strcmp(kube->why, made.why) != 0 && made.why[0])
        log_write(&kube->log, LOG_LEVEL_WARN, "less is offered than there is: %s", made.why);
    memcpy(kube->why, made.why, sizeof kube->why);
    Offer before = kube->offer;
    kube->offer = made;
    keep_files(kube); /* before a container can ask for what is new */
    if (kube->claims)
        claims_offer(kube->claims, &kube->offer);
    else
        kubelet_offer(kube->kubelet, &kube->offer, &kube->now->snapshot);
    child_want(&kube->labels);
    if (kube->node)
        node_keeper_set_health(kube->node, &kube->offer, &kube->now->snapshot);
    offer_done(&before);
}

static int take_answer(Kube *kube, const Str *answer, Err *ret_err)
{
    SnapshotBuffer *read = kube->spare;
    uint64_t revision;

    TRY(kubelet_read_answer(answer, read, &revision, ret_err));
    kube->revision = revision;
    kube->spare = kube->now;
    kube->now = read;
    kube->known = true;
    offer_again(kube);
    return 0;
}

static void count_failure(Kube *kube, const char *text)
{
    if (++kube->failures < SILENT_ASKS || kube->warned)
        return;
    kube->warned = true;
    log_write(&kube->log, LOG_LEVEL_WARN, "%s; %s", text,
              kube->known ? "what it said last stays in force" : "nothing is offered until it answers");
}

static void ask_agent(Kube *kube);

static void on_answer(void *self, int rc, const Str *answer, const Err *err)
{
    Kube *kube = self;
    Err unread = {0};

    kube->asking = NULL;
    if (rc == 0 && answer->len > 0)
        rc = take_answer(kube, answer, &unread);
    if (rc < 0) {
        count_failure(kube, unread.code ? unread.text : err->text);
        return;
    }
    if (kube->warned)
        log_write(&kube->log, LOG_LEVEL_INFO, "the agent answers again");
    kube->failures = 0;
    kube->warned = false;
    ask_agent(kube);
}

static void ask_agent(Kube *kube)
{
    CLEANUP(str_done) Str line = str_limited(CONTROL_LINE_MAX);
    Err err = {0};

    str_addf(&line, "devices %" PRIu64, kube->revision);
    placed_pods_describe(kube->placed, &line);
    if (control_call_new(&kube->loop, kube->control, line.text, ANSWER_MS, on_answer, kube, &kube->asking, &err) < 0)
        count_failure(kube, err.text);
}

static void on_timer(uv_timer_t *timer)
{
    Kube *kube = timer->data;

    placed_pods_tick(kube->placed);
    if (kube->known && (kube->mps_changed || uv_hrtime() >= offer_due(&kube->offer, kube->settings->offer.hold_ns)))
        offer_again(kube);
    if (!kube->asking)
        ask_agent(kube);
}

/* Every few seconds: what lies in files. */
static void on_files_timer(uv_timer_t *timer)
{
    Kube *kube = timer->data;

    keep_files(kube);
    if (kube->settings->o.features_file)
        child_tick(&kube->labels);
    if (kube->claims)
        claims_tick(kube->claims);
}

static void reload_settings(Kube *kube)
{
    KubeletSettings *fresh = NULL;
    Err err = {0};

    if (kubelet_settings_load(kube->call, kube->config, &fresh, &err) < 0) {
        log_write(&kube->log, LOG_LEVEL_ERROR, "%s; the configuration stays as it was", err.text);
        return;
    }
    if (kube->settings->o.mps_root && fresh->o.mps_root && strcmp(kube->settings->o.mps_root, fresh->o.mps_root) != 0) {
        log_write(&kube->log, LOG_LEVEL_ERROR,
                  "flags.mpsRoot can be another one after a restart only; the configuration stays as it was");
        kubelet_settings_free(fresh);
        return;
    }
    fresh->kubelet.log = &kube->log;
    KubeletSettings *before = kube->settings;
    kube->settings = fresh;
    kubelet_configure(kube->kubelet, &fresh->kubelet);
    if (kube->claims)
        claims_configure(kube->claims, &fresh->kubelet.grant);
    log_write(&kube->log, LOG_LEVEL_INFO, "the configuration was read again");
    if (kube->known)
        offer_again(kube);
    kubelet_settings_free(before);
}

static void stop_all(Kube *kube)
{
    if (uv_is_closing((uv_handle_t *)&kube->timer))
        return;
    if (kube->asking)
        control_call_cancel(TAKE(kube->asking));
    placed_pods_close(TAKE(kube->placed));
    kubelet_close(TAKE(kube->kubelet));
    node_keeper_close(TAKE(kube->node));
    mps_keeper_close(TAKE(kube->mps)); /* the daemons go on, as their clients do */
    uv_close((uv_handle_t *)&kube->timer, NULL);
    uv_close((uv_handle_t *)&kube->files_timer, NULL);
    child_close(&kube->labels);
    claims_close(kube->claims);
    if (kube->settings->o.features_file)
        (void)unlink(kube->settings->o.features_file); /* as gpu-feature-discovery: what nobody keeps true any more */
    for (size_t i = 0; i < ARRAY_LEN(kube->signals); i++)
        uv_close((uv_handle_t *)&kube->signals[i], NULL);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    if (signum == SIGHUP)
        reload_settings(handle->data);
    else
        stop_all(handle->data);
}

/* The node's label names this configuration. */
static void follow_label(void *self, const char *value)
{
    Kube *kube = self;

    if (!kube->settings->o.config_dir || strcmp(kube->config, value) == 0)
        return;
    snprintf(kube->config, sizeof kube->config, "%s", value);
    log_write(&kube->log, LOG_LEVEL_INFO, "the label " CONFIG_LABEL " is '%s'", value);
    reload_settings(kube);
}

static int open_node(Kube *kube, Err *err)
{
    const KubeletOptions *o = &kube->settings->o;
    const NodeKeeperConfig config = {.node = o->node,
                                     .account = o->account,
                                     .kubeconfig = o->kubeconfig,
                                     .period_ns = o->node_period_ns,
                                     .write = o->update_node,
                                     .label = CONFIG_LABEL,
                                     .labelled = follow_label,
                                     .self = kube,
                                     .log = &kube->log};

    return o->update_node || (o->config_dir && o->config_dir[0])
               ? node_keeper_new(&kube->loop, &config, &kube->node, err)
               : 0;
}

int kubelet_run(VerbCall *call, const void *options UNUSED)
{
    Kube *kube = arena_calloc(call->arena, 1, sizeof *kube);

    if (kubelet_settings_load(call, NULL, &kube->settings, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    (void)signal(SIGPIPE, SIG_IGN);
    kube->call = call;
    log_init(&kube->log, (LogLevel)kube->settings->o.log_level, (LogFormat)kube->settings->o.log_format, "stoker",
             clock_kernel());
    kube->control = arena_strdup(call->arena, control_path(kube->settings->o.control, call->arena));
    kube->now = snapshot_buffer_new();
    kube->spare = snapshot_buffer_new();
    kube->settings->kubelet.log = &kube->log;
    uv_loop_init(&kube->loop);
    kube->kubelet = kubelet_new(&kube->loop, &kube->settings->kubelet);
    if (open_node(kube, &call->err) < 0)
        log_write(&kube->log, LOG_LEVEL_ERROR, "the node is left alone: %s", call->err.text);
    if (kube->settings->o.follow_placement &&
        placed_pods_new(&kube->loop, &kube->settings->o, kube->kubelet, &kube->log, &kube->placed, &call->err) < 0)
        log_write(&kube->log, LOG_LEVEL_ERROR, "--follow-placement is without effect: %s", call->err.text);
    if (kube->settings->o.dra_driver &&
        claims_new(&kube->loop, call, kube->settings, &kube->log, find_files, kube, &kube->claims, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    uv_timer_init(&kube->loop, &kube->timer);
    kube->timer.data = kube;
    uv_timer_start(&kube->timer, on_timer, 0, ASK_MS);
    kube->labels.call = call;
    kube->labels.sub = "labels";
    kube->labels.done = pass_labels;
    kube->labels.self = kube;
    kube->labels.log = &kube->log;
    child_init(&kube->labels, &kube->loop);
    uv_timer_init(&kube->loop, &kube->files_timer);
    kube->files_timer.data = kube;
    uv_timer_start(&kube->files_timer, on_files_timer, FILES_MS, FILES_MS);
    for (size_t i = 0; i < ARRAY_LEN(kube->signals); i++) {
        uv_signal_init(&kube->loop, &kube->signals[i]);
        kube->signals[i].data = kube;
        uv_signal_start(&kube->signals[i], on_signal, signals_taken[i]);
    }
    uv_run(&kube->loop, UV_RUN_DEFAULT);
    uv_loop_close(&kube->loop);
    offer_done(&kube->offer);
    snapshot_buffer_free(kube->now);
    snapshot_buffer_free(kube->spare);
    kubelet_settings_free(kube->settings);
    log_done(&kube->log);
    return EXIT_FINE;
}
