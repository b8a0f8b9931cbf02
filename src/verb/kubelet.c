/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker kubelet`: this node's GPUs for its kubelet. The agent says what there is and what is wrong with it; while it
 * says nothing, what it said last stays in force. One loop; nothing in it calls a driver.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "base/yaml.h"
#include "service/api/snapshot_read.h"
#include "service/kubelet/kubelet.h"
#include "source/host/driver_files.h"
#include "source/host/minors.h"
#include "verb/agent/control.h"
#include "verb/verb.h"

enum { ASK_MS = 100, ANSWER_MS = 30000, SILENT_ASKS = 50, CDI_MS = 5000, CDI_MAX = 4 << 20 }; /* an answer waits for a change, 20 s at most */
#define SOCKET_NAME "kubelet.sock"

typedef struct KubeletOptions {
    const char *config_file, *dir, *socket, *cdi_root, *control, *root;
    int mig, id_strategy, discovery, spread, log_level, log_format;
    bool fail_on_init, device_nodes, gdrcopy, gds, mofed, use_node_features;
    OptList list_strategies;
    const char *version, *mps_root, *driver_root, *dev_root, *container_driver_root, *cdi_prefix, *ctk_path;
    const YamlNode *sharing, *resources, *imex, *gfd;
    uint64_t hold_ns;
} KubeletOptions;

/* --- options: names, variables and keys of the device plugin ------------------------------------------------------- */

static const char *const mig_names[] = {"none", "single", "mixed", NULL};
static const char *const id_names[] = {"uuid", "index", NULL};
static const char *const discovery_names[] = {"auto", "nvml", NULL};
static const char *const spread_names[] = {"distributed", "packed", NULL};

#define ROW(name, kind, member, ...) OPT_ROW(name, kind, KubeletOptions, member, __VA_ARGS__)

static const OptSpec kubelet_opts[] = {
    ROW("config-file", OPT_STRING, config_file, .flags = OPT_CLI_ONLY, .env = "CONFIG_FILE", .metavar = "FILE",
        .help = "a configuration of NVIDIA's device plugin, v1; read again on SIGHUP"),
    ROW("device-plugin-path", OPT_STRING, dir, .flags = OPT_CLI_ONLY, .def = "/var/lib/kubelet/device-plugins",
        .metavar = "DIR", .help = "the kubelet's folder of device plugins"),
    ROW("kubelet-socket", OPT_STRING, socket, .flags = OPT_CLI_ONLY, .env = "KUBELET_SOCKET", .metavar = "FILE",
        .help = "where to register; without: " SOCKET_NAME " in --device-plugin-path"),
    ROW("cdi-root", OPT_STRING, cdi_root, .flags = OPT_CLI_ONLY, .def = "/var/run/cdi", .metavar = "DIR",
        .help = "where the CDI specification is kept, with cdi-annotations or cdi-cri"),
    ROW("control", OPT_STRING, control, .flags = OPT_CLI_ONLY, .metavar = "FILE", .help = "the agent's control socket"),
    ROW("root", OPT_STRING, root, .flags = OPT_CLI_ONLY | OPT_HIDDEN, .env = "STOKER_ROOT", .def = "", .metavar = "DIR",
        .help = "where the host's /dev and /proc lie"),
    ROW("version", OPT_STRING, version, .flags = OPT_CONFIG_ONLY, .help = "v1"),
    ROW("flags.migStrategy", OPT_ENUM, mig, .flag = "mig-strategy", .env = "MIG_STRATEGY", .def = "none",
        .names = mig_names, .help = "how MIG devices are offered"),
    ROW("flags.failOnInitError", OPT_BOOL, fail_on_init, .flag = "fail-on-init-error", .flags = OPT_HIDDEN,
        .env = "FAIL_ON_INIT_ERROR", .def = "true", .help = "taken and not needed: what is missing is waited for"),
    ROW("flags.mpsRoot", OPT_STRING, mps_root, .flag = "mps-root", .env = "MPS_ROOT", .metavar = "DIR",
        .help = "the host's folder of the MPS daemons"),
    ROW("flags.nvidiaDriverRoot", OPT_STRING, driver_root, .flag = "nvidia-driver-root", .env = "NVIDIA_DRIVER_ROOT",
        .def = "/", .metavar = "DIR", .help = "the host's folder below which the driver is installed"),
    ROW("flags.nvidiaDevRoot", OPT_STRING, dev_root, .flag = "nvidia-dev-root", .env = "NVIDIA_DEV_ROOT",
        .metavar = "DIR", .help = "the host's folder in which /dev lies; without: --nvidia-driver-root"),
    ROW("flags.gdrcopyEnabled", OPT_BOOL, gdrcopy, .flag = "gdrcopy-enabled", .env = "GDRCOPY_ENABLED",
        .help = "containers get GDRCopy"),
    ROW("flags.gdsEnabled", OPT_BOOL, gds, .flag = "gds-enabled", .env = "GDS_ENABLED",
        .help = "containers get GPUDirect Storage"),
    ROW("flags.mofedEnabled", OPT_BOOL, mofed, .flag = "mofed-enabled", .env = "MOFED_ENABLED",
        .help = "containers get the devices of Mellanox's drivers"),
    ROW("flags.useNodeFeatureAPI", OPT_BOOL, use_node_features, .flag = "use-node-feature-api", .flags = OPT_CONFIG_ONLY),
    ROW("flags.deviceDiscoveryStrategy", OPT_ENUM, discovery, .flag = "device-discovery-strategy",
        .env = "DEVICE_DISCOVERY_STRATEGY", .def = "auto", .names = discovery_names, .help = "by NVML, both"),
    ROW("flags.plugin.passDeviceSpecs", OPT_BOOL, device_nodes, .flag = "pass-device-specs", .env = "PASS_DEVICE_SPECS",
        .help = "pass device files, so that a container keeps them when systemd reloads"),
    ROW("flags.plugin.deviceListStrategy", OPT_LIST, list_strategies, .flag = "device-list-strategy",
        .env = "DEVICE_LIST_STRATEGY", .def = "envvar", .metavar = "LIST",
        .help = "how devices are named to the runtime: envvar, volume-mounts, cdi-annotations, cdi-cri"),
    ROW("flags.plugin.deviceIDStrategy", OPT_ENUM, id_strategy, .flag = "device-id-strategy",
        .env = "DEVICE_ID_STRATEGY", .def = "uuid", .names = id_names, .help = "what devices are called there"),
    ROW("flags.plugin.cdiAnnotationPrefix", OPT_STRING, cdi_prefix, .flag = "cdi-annotation-prefix",
        .env = "CDI_ANNOTATION_PREFIX", .def = "cdi.k8s.io/", .help = "what the annotation of cdi-annotations begins with"),
    ROW("flags.plugin.nvidiaCTKPath", OPT_STRING, ctk_path, .flag = "nvidia-cdi-hook-path", .flags = OPT_HIDDEN,
        .env = "NVIDIA_CDI_HOOK_PATH", .help = "taken and not needed: no program runs in containers"),
    ROW("flags.plugin.containerDriverRoot", OPT_STRING, container_driver_root, .flag = "driver-root-ctr-path",
        .env = "DRIVER_ROOT_CTR_PATH", .def = "/driver-root", .metavar = "DIR",
        .help = "where --nvidia-driver-root is in this container"),
    ROW("flags.plugin.sharedDevicesAllocationPolicy", OPT_ENUM, spread, .flag = "shared-devices-allocation-policy",
        .env = "SHARED_DEVICES_ALLOCATION_POLICY", .def = "distributed", .names = spread_names,
        .help = "of which shared devices replicas are taken: those with the fewest taken, or the most"),
    ROW("flags.gfd", OPT_NODE, gfd, .flags = OPT_CONFIG_ONLY, .help = "read by gpu-feature-discovery"),
    ROW("sharing", OPT_NODE, sharing, .flags = OPT_CONFIG_ONLY, .help = "timeSlicing or mps"),
    ROW("resources", OPT_NODE, resources, .flags = OPT_CONFIG_ONLY, .help = "ignored, as by the device plugin"),
    ROW("imex", OPT_NODE, imex, .flags = OPT_CONFIG_ONLY, .help = "IMEX channels"),
    ROW("healthy-after", OPT_DURATION, hold_ns, .flags = OPT_CLI_ONLY, .def = "10s", .max = 86400e9,
        .help = "a device is healthy again when nothing was against it for so long"),
    ROW("log-level", OPT_ENUM, log_level, .flags = OPT_CLI_ONLY, .env = "STOKER_LOG_LEVEL", .def = "info",
        .names = log_level_names, .help = "the least important message that is written"),
    ROW("log-format", OPT_ENUM, log_format, .flags = OPT_CLI_ONLY, .def = "text", .names = log_format_names,
        .help = "how messages are written"),
};

/* What the options make, with the memory of their texts. */
typedef struct Settings {
    Arena arena;
    KubeletOptions o;
    OfferConfig offer;
    KubeletConfig kubelet;
} Settings;

static int read_strategies(const OptSet *set, const KubeletOptions *o, GrantConfig *ret, Err *err)
{
    const struct {
        const char *name;
        bool *on;
    } known[] = {{"envvar", &ret->envvar},
                 {"volume-mounts", &ret->volume_mounts},
                 {"cdi-annotations", &ret->cdi_annotations},
                 {"cdi-cri", &ret->cdi_cri}};

    for (size_t i = 0; i < o->list_strategies.len; i++) {
        size_t k = 0;

        while (k < ARRAY_LEN(known) && strcmp(known[k].name, o->list_strategies.items[i]) != 0)
            k++;
        if (k == ARRAY_LEN(known))
            return opt_fail(set, "flags.plugin.deviceListStrategy", i, err,
                            "'%s' is none of envvar, volume-mounts, cdi-annotations, cdi-cri",
                            o->list_strategies.items[i]);
        *known[k].on = true;
    }
    return 0;
}

static int check_settings(const OptSet *set, Settings *s, Err *err)
{
    KubeletOptions *o = &s->o;

    if (o->version && strcmp(o->version, "v1") != 0)
        return opt_fail(set, "version", 0, err, "'%s' is not v1", o->version);
    TRY(offer_read_codes(getenv("DP_DISABLE_HEALTHCHECKS"), getenv("DP_ENABLE_HEALTHCHECKS"), &s->offer.codes, err));
    TRY(kubelet_read_sharing(o->sharing, &s->arena, &s->offer, err));
    TRY(read_strategies(set, o, &s->kubelet.grant, err));
    if (s->offer.sharing == OFFER_SHARING_MPS && o->mig != OFFER_MIG_NONE)
        return err_set(err, -EINVAL, "sharing by MPS needs migStrategy none: MIG devices cannot be shared so");
    if (s->offer.sharing == OFFER_SHARING_MPS && !o->mps_root)
        return err_set(err, -EINVAL, "sharing by MPS needs --mps-root, the host's folder of the MPS daemons");
    return 0;
}

static void use_settings(Settings *s)
{
    const KubeletOptions *o = &s->o;
    GrantConfig *grant = &s->kubelet.grant;

    s->offer.mig = (OfferMig)o->mig;
    s->offer.hold_ns = o->hold_ns;
    grant->by_index = o->id_strategy == 1;
    grant->device_nodes = o->device_nodes;
    grant->gdrcopy = o->gdrcopy;
    grant->gds = o->gds;
    grant->mofed = o->mofed;
    grant->cdi_prefix = o->cdi_prefix;
    grant->dev_root = o->dev_root ? o->dev_root : o->driver_root;
    grant->root = o->root;
    grant->mps_root = o->mps_root;
    s->kubelet.dir = o->dir;
    s->kubelet.socket = o->socket ? o->socket : arena_printf(&s->arena, "%s/" SOCKET_NAME, o->dir);
    s->kubelet.spread = (OfferSpread)o->spread;
    s->kubelet.one_each = s->offer.one_each;
}

static void free_settings(Settings *s)
{
    arena_done(&s->arena);
    free(s);
}
CLEANUP_POINTER(Settings, free_settings);

/* Command line over environment over file. */
static int load_settings(VerbCall *call, Settings **ret, Err *err)
{
    CLEANUP(free_settings_at) Settings *s = calloc(1, sizeof *s);
    OptPlace places[ARRAY_LEN(kubelet_opts)] = {0};
    const OptSet set = {.opts = kubelet_opts, .count = ARRAY_LEN(kubelet_opts), .into = &s->o, .arena = &s->arena,
                        .places = places};
    const YamlNode *file = NULL;
    OptArgs args;

    TRY(opt_defaults(&set, err));
    TRY(opt_env(&set, environ, err));
    TRY(opt_args(&set, call->argc, call->argv, &args, err));
    if (s->o.config_file && s->o.config_file[0]) {
        TRY(yaml_load_file(s->o.config_file, &s->arena, &file, err));
        TRY(opt_yaml(&set, file, err));
        TRY(opt_env(&set, environ, err));
        TRY(opt_args(&set, call->argc, call->argv, &args, err));
    }
    TRY(check_settings(&set, s, err));
    use_settings(s);
    *ret = TAKE(s);
    return 0;
}

/* --- the process --------------------------------------------------------------------------------------------------- */

typedef struct Kube {
    VerbCall *call;
    Settings *settings;
    Log log;
    uv_loop_t loop;
    uv_timer_t timer, cdi_timer;
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
    char missing[OFFER_WHY_CAP], cdi_error[ERR_TEXT_MAX];
    Kubelet *kubelet;
} Kube;

static const int signals_taken[] = {SIGHUP, SIGINT, SIGTERM};

/* Device files of MIG devices; without the driver's list they stay unknown. */
static void find_minors(const Kube *kube, Offer *offer)
{
    CLEANUP(str_done) Str list = str_limited(MINORS_MAX);
    bool read = false;

    for (size_t i = 0; i < offer->resources.len; i++)
        for (size_t k = 0; k < offer->resources.at[i].units.len; k++) {
            OfferUnit *unit = &offer->resources.at[i].units.at[k];
            const Device *d = &unit->device;

            if (!unit->profile[0])
                continue;
            if (!read && minors_read(kube->settings->o.root, &list, NULL) < 0)
                return;
            read = true;
            unit->gi_minor = minors_find(list.text, d->minor, d->gpu_instance, DEVICE_NO_NUMBER);
            unit->ci_minor = minors_find(list.text, d->minor, d->gpu_instance, d->compute_instance);
        }
}

static void log_health(const Kube *kube, const Offer *before, const Offer *now)
{
    for (size_t i = 0; i < now->resources.len; i++) {
        const OfferResource *resource = &now->resources.at[i], *was = offer_find(before, resource->name);

        if (!was)
            log_write(&kube->log, LOG_LEVEL_INFO, "%s: %zu devices, in %u replicas each", resource->name,
                      resource->units.len, (unsigned)resource->replicas);
        for (size_t k = 0; k < resource->units.len; k++) {
            const OfferUnit *unit = &resource->units.at[k];
            const OfferUnit *old = NULL;

            for (size_t m = 0; was && m < was->units.len && !old; m++)
                old = strcmp(was->units.at[m].device.uuid, unit->device.uuid) == 0 ? &was->units.at[m] : NULL;
            if (!unit->healthy && (!old || old->healthy))
                log_write(&kube->log, LOG_LEVEL_WARN, "%s: %s is unhealthy: %s", resource->name, unit->device.uuid,
                          unit->why);
            else if (unit->healthy && old && !old->healthy)
                log_write(&kube->log, LOG_LEVEL_INFO, "%s: %s is healthy again", resource->name, unit->device.uuid);
        }
    }
}

static bool has_cdi(const Kube *kube)
{
    return kube->settings->kubelet.grant.cdi_annotations || kube->settings->kubelet.grant.cdi_cri;
}

/* Where this process sees the host's folder of the driver: in a container it is mounted there. */
static const char *see_driver_root(const KubeletOptions *o)
{
    if (strcmp(o->driver_root, "/") == 0 && access(o->container_driver_root, F_OK) < 0)
        return o->root;
    return access(o->container_driver_root, F_OK) == 0 ? o->container_driver_root : o->driver_root;
}

/* Writes the specification where it is not yet what it has to be, whoever changed it. */
static void keep_cdi(Kube *kube)
{
    const KubeletOptions *o = &kube->settings->o;
    const DriverFilesPlace place = {.root = see_driver_root(o),
                                    .driver_root = o->driver_root,
                                    .dev = o->root,
                                    .version = kube->now->node.driver_version};
    CLEANUP(str_done) Str spec = str_limited(CDI_MAX), there = str_limited(CDI_MAX);
    CLEANUP(arena_done) Arena arena = {0};
    char path[4096];
    DriverFiles files;
    Err err = {0};

    if (!has_cdi(kube) || !kube->known)
        return;
    snprintf(path, sizeof path, "%s/" CDI_FILE, o->cdi_root);
    driver_files_find(&place, &arena, &files);
    if (strcmp(kube->missing, files.missing) != 0 && files.missing[0])
        log_write(&kube->log, LOG_LEVEL_WARN, "CDI: containers will not find all of the driver: %s", files.missing);
    snprintf(kube->missing, sizeof kube->missing, "%s", files.missing);
    cdi_spec(&kube->offer, &kube->settings->kubelet.grant, &files, &spec);
    if (file_read(path, CDI_MAX, &there, NULL) == 0 && there.len == spec.len && memcmp(there.text, spec.text, spec.len) == 0)
        return;
    if (file_make_dirs(o->cdi_root, 0755, &err) == 0 && file_write(path, spec.text, spec.len, 0644, &err) == 0)
        log_write(&kube->log, LOG_LEVEL_INFO, "CDI: '%s' is written", path);
    else if (strcmp(kube->cdi_error, err.text) != 0)
        log_write(&kube->log, LOG_LEVEL_ERROR, "CDI: %s; it is tried again", err.text);
    memcpy(kube->cdi_error, err.text, sizeof kube->cdi_error);
}

/* What is offered, by what is known now. */
static void offer_again(Kube *kube)
{
    Offer made = {0};

    offer_make(&kube->now->snapshot, &kube->settings->offer, &kube->offer, uv_hrtime(), &made);
    find_minors(kube, &made);
    log_health(kube, &kube->offer, &made);
    if (strcmp(kube->why, made.why) != 0 && made.why[0])
        log_write(&kube->log, LOG_LEVEL_WARN, "less is offered than there is: %s", made.why);
    memcpy(kube->why, made.why, sizeof kube->why);
    Offer before = kube->offer;
    kube->offer = made;
    keep_cdi(kube); /* before a container can ask for what is new */
    kubelet_offer(kube->kubelet, &kube->offer, &kube->now->snapshot);
    offer_done(&before);
}

static int take_answer(Kube *kube, const Str *answer, Err *ret_err)
{
    SnapshotBuffer *read = kube->spare;
    const char *json = strchr(answer->text, '\n');
    uint64_t revision;
    Err err = {0};

    if (!json || number_parsen_u64(answer->text, (size_t)(json - answer->text), 0, UINT64_MAX, &revision, NULL) < 0)
        return err_set(ret_err, -EPROTO, "the agent's answer has no revision: is it of this version?");
    if (snapshot_read(read, json + 1, answer->len - (size_t)(json + 1 - answer->text), &err) < 0)
        return err_set(ret_err, err.code, "the agent's answer: %s", err.text);
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

static void ask(Kube *kube);

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
    ask(kube);
}

static void ask(Kube *kube)
{
    char line[64];
    Err err = {0};

    snprintf(line, sizeof line, "devices %" PRIu64, kube->revision);
    if (control_call_new(&kube->loop, kube->control, line, ANSWER_MS, on_answer, kube, &kube->asking, &err) < 0)
        count_failure(kube, err.text);
}

static void on_timer(uv_timer_t *timer)
{
    Kube *kube = timer->data;

    if (kube->known && uv_hrtime() >= offer_due(&kube->offer, kube->settings->offer.hold_ns))
        offer_again(kube);
    if (!kube->asking)
        ask(kube);
}

static void on_cdi_timer(uv_timer_t *timer)
{
    keep_cdi(timer->data);
}

static void reload(Kube *kube)
{
    Settings *fresh = NULL;
    Err err = {0};

    if (load_settings(kube->call, &fresh, &err) < 0) {
        log_write(&kube->log, LOG_LEVEL_ERROR, "%s; the configuration stays as it was", err.text);
        return;
    }
    fresh->kubelet.log = &kube->log;
    Settings *before = kube->settings;
    kube->settings = fresh;
    kubelet_configure(kube->kubelet, &fresh->kubelet);
    log_write(&kube->log, LOG_LEVEL_INFO, "the configuration was read again");
    if (kube->known)
        offer_again(kube);
    free_settings(before);
}

static void stop(Kube *kube)
{
    if (uv_is_closing((uv_handle_t *)&kube->timer))
        return;
    if (kube->asking)
        control_call_cancel(TAKE(kube->asking));
    kubelet_close(TAKE(kube->kubelet));
    uv_close((uv_handle_t *)&kube->timer, NULL);
    uv_close((uv_handle_t *)&kube->cdi_timer, NULL);
    for (size_t i = 0; i < ARRAY_LEN(kube->signals); i++)
        uv_close((uv_handle_t *)&kube->signals[i], NULL);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    if (signum == SIGHUP)
        reload(handle->data);
    else
        stop(handle->data);
}

static int kubelet_run(VerbCall *call, const void *options UNUSED)
{
    Kube *kube = arena_calloc(call->arena, 1, sizeof *kube);

    if (load_settings(call, &kube->settings, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    (void)signal(SIGPIPE, SIG_IGN);
    kube->call = call;
    log_init(&kube->log, (LogLevel)kube->settings->o.log_level, (LogFormat)kube->settings->o.log_format, "stoker",
             clock_kernel());
    kube->control = control_path(kube->settings->o.control, call->arena);
    kube->now = snapshot_buffer_new();
    kube->spare = snapshot_buffer_new();
    kube->settings->kubelet.log = &kube->log;
    uv_loop_init(&kube->loop);
    kube->kubelet = kubelet_new(&kube->loop, &kube->settings->kubelet);
    uv_timer_init(&kube->loop, &kube->timer);
    kube->timer.data = kube;
    uv_timer_start(&kube->timer, on_timer, 0, ASK_MS);
    uv_timer_init(&kube->loop, &kube->cdi_timer);
    kube->cdi_timer.data = kube;
    uv_timer_start(&kube->cdi_timer, on_cdi_timer, CDI_MS, CDI_MS);
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
    free_settings(kube->settings);
    log_done(&kube->log);
    return EXIT_FINE;
}

const Verb verb_kubelet = {
    .name = "kubelet",
    .summary = "offer this node's GPUs and MIG devices to its kubelet",
    .usage = "[--config-file FILE] [--mig-strategy NAME]",
    .description =
        "Takes the place of NVIDIA's Kubernetes device plugin: its configuration, flags and variables are read, its "
        "resources and ids are the same. What there is and what is wrong with it says the running agent. A device is "
        "unhealthy while an open incident takes it out of use, and healthy again when the incident has ended; a fault "
        "of one MIG instance takes that one alone.",
    .examples = "stoker kubelet\n"
                "stoker kubelet --config-file config.yaml --mig-strategy mixed",
    VERB_OPTS(kubelet_opts, KubeletOptions),
    .config = true,
    .no_args = "",
    .run = kubelet_run,
};
