/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/kubelet.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/number.h"

#define SOCKET_NAME "kubelet.sock"

/* --- options: names, variables and keys of the device plugin ------------------------------------------------------- */

static const char *const mig_names[] = {"none", "single", "mixed", NULL};
static const char *const id_names[] = {"uuid", "index", NULL};
static const char *const discovery_names[] = {"auto", "nvml", NULL};
static const char *const spread_names[] = {"distributed", "packed", NULL};

#define ROW(name, kind, member, ...) OPT_ROW(name, kind, KubeletOptions, member, __VA_ARGS__)

#define KUBELET_ROWS \
    ROW("config-file", OPT_STRING, config_file, .flags = OPT_CLI_ONLY, .env = "CONFIG_FILE", .metavar = "FILE",        \
        .help = "a configuration of NVIDIA's device plugin, v1; read again on SIGHUP"),                                \
    ROW("device-plugin-path", OPT_STRING, dir, .flags = OPT_CLI_ONLY, .def = "/var/lib/kubelet/device-plugins",        \
        .metavar = "DIR", .help = "the kubelet's folder of device plugins"),                                           \
    ROW("kubelet-socket", OPT_STRING, socket, .flags = OPT_CLI_ONLY, .env = "KUBELET_SOCKET", .metavar = "FILE",       \
        .help = "where to register; without: " SOCKET_NAME " in --device-plugin-path"),                                \
    ROW("cdi-root", OPT_STRING, cdi_root, .flags = OPT_CLI_ONLY, .def = "/var/run/cdi", .metavar = "DIR",              \
        .help = "where the CDI specification is kept, with cdi-annotations or cdi-cri"),                               \
    ROW("features-file", OPT_STRING, features_file, .flags = OPT_CLI_ONLY, .env = "GFD_OUTPUT_FILE", .metavar = "FILE", \
        .help = "keep labels of the node there, for node-feature-discovery: its features.d/gfd"),                      \
    ROW("machine-type-file", OPT_STRING, machine_file, .flags = OPT_CLI_ONLY, .env = "GFD_MACHINE_TYPE_FILE",          \
        .def = "/sys/class/dmi/id/product_name", .metavar = "FILE", .help = "what kind of machine it is"),             \
    ROW("no-timestamp", OPT_BOOL, no_timestamp, .flags = OPT_CLI_ONLY, .env = "GFD_NO_TIMESTAMP",                      \
        .help = "no label with the time"),                                                                             \
    ROW("physical-counts", OPT_BOOL, physical, .flags = OPT_CLI_ONLY,                                                  \
        .help = "gpu.count and gpu.replicas as gpu-feature-discovery has them, whatever is offered"),                  \
    ROW("driver-library", OPT_STRING, library, .flags = OPT_CLI_ONLY, .env = "STOKER_DRIVER_LIBRARY", .metavar = "FILE", \
        .help = "the driver's library, for labels"),                                                                   \
    ROW("control", OPT_STRING, control, .flags = OPT_CLI_ONLY, .metavar = "FILE", .help = "the agent's control socket"), \
    ROW("root", OPT_STRING, root, .flags = OPT_CLI_ONLY | OPT_HIDDEN, .env = "STOKER_ROOT", .def = "", .metavar = "DIR", \
        .help = "where the host's /dev and /proc lie"),                                                                \
    ROW("version", OPT_STRING, version, .flags = OPT_CONFIG_ONLY, .help = "v1"),                                       \
    ROW("flags.migStrategy", OPT_ENUM, mig, .flag = "mig-strategy", .env = "MIG_STRATEGY", .def = "none",              \
        .names = mig_names, .help = "how MIG devices are offered"),                                                    \
    ROW("flags.failOnInitError", OPT_BOOL, fail_on_init, .flag = "fail-on-init-error", .flags = OPT_HIDDEN,            \
        .env = "FAIL_ON_INIT_ERROR", .def = "true", .help = "taken and not needed: what is missing is waited for"),    \
    ROW("flags.mpsRoot", OPT_STRING, mps_root, .flag = "mps-root", .env = "MPS_ROOT", .metavar = "DIR",                \
        .help = "the host's folder of the MPS daemons"),                                                               \
    ROW("flags.nvidiaDriverRoot", OPT_STRING, driver_root, .flag = "nvidia-driver-root", .env = "NVIDIA_DRIVER_ROOT",  \
        .def = "/", .metavar = "DIR", .help = "the host's folder below which the driver is installed"),                \
    ROW("flags.nvidiaDevRoot", OPT_STRING, dev_root, .flag = "nvidia-dev-root", .env = "NVIDIA_DEV_ROOT",              \
        .metavar = "DIR", .help = "the host's folder in which /dev lies; without: --nvidia-driver-root"),              \
    ROW("flags.gdrcopyEnabled", OPT_BOOL, gdrcopy, .flag = "gdrcopy-enabled", .env = "GDRCOPY_ENABLED",                \
        .help = "containers get GDRCopy"),                                                                             \
    ROW("flags.gdsEnabled", OPT_BOOL, gds, .flag = "gds-enabled", .env = "GDS_ENABLED",                                \
        .help = "containers get GPUDirect Storage"),                                                                   \
    ROW("flags.mofedEnabled", OPT_BOOL, mofed, .flag = "mofed-enabled", .env = "MOFED_ENABLED",                        \
        .help = "containers get the devices of Mellanox's drivers"),                                                   \
    ROW("flags.useNodeFeatureAPI", OPT_BOOL, use_node_features, .flag = "use-node-feature-api", .flags = OPT_CONFIG_ONLY), \
    ROW("flags.deviceDiscoveryStrategy", OPT_ENUM, discovery, .flag = "device-discovery-strategy",                     \
        .env = "DEVICE_DISCOVERY_STRATEGY", .def = "auto", .names = discovery_names, .help = "by NVML, both"),         \
    ROW("flags.plugin.passDeviceSpecs", OPT_BOOL, device_nodes, .flag = "pass-device-specs", .env = "PASS_DEVICE_SPECS", \
        .help = "pass device files, so that a container keeps them when systemd reloads"),                             \
    ROW("flags.plugin.deviceListStrategy", OPT_LIST, list_strategies, .flag = "device-list-strategy",                  \
        .env = "DEVICE_LIST_STRATEGY", .def = "envvar", .metavar = "LIST",                                             \
        .help = "how devices are named to the runtime: envvar, volume-mounts, cdi-annotations, cdi-cri"),              \
    ROW("flags.plugin.deviceIDStrategy", OPT_ENUM, id_strategy, .flag = "device-id-strategy",                          \
        .env = "DEVICE_ID_STRATEGY", .def = "uuid", .names = id_names, .help = "what devices are called there"),       \
    ROW("flags.plugin.cdiAnnotationPrefix", OPT_STRING, cdi_prefix, .flag = "cdi-annotation-prefix",                   \
        .env = "CDI_ANNOTATION_PREFIX", .def = "cdi.k8s.io/", .help = "what the annotation of cdi-annotations begins with"), \
    ROW("flags.plugin.nvidiaCTKPath", OPT_STRING, ctk_path, .flag = "nvidia-cdi-hook-path", .flags = OPT_HIDDEN,       \
        .env = "NVIDIA_CDI_HOOK_PATH", .help = "taken and not needed: no program runs in containers"),                 \
    ROW("flags.plugin.containerDriverRoot", OPT_STRING, container_driver_root, .flag = "driver-root-ctr-path",         \
        .env = "DRIVER_ROOT_CTR_PATH", .def = "/driver-root", .metavar = "DIR",                                        \
        .help = "where --nvidia-driver-root is in this container"),                                                    \
    ROW("flags.plugin.sharedDevicesAllocationPolicy", OPT_ENUM, spread, .flag = "shared-devices-allocation-policy",    \
        .env = "SHARED_DEVICES_ALLOCATION_POLICY", .def = "distributed", .names = spread_names,                        \
        .help = "of which shared devices replicas are taken: those with the fewest taken, or the most"),               \
    ROW("flags.gfd", OPT_NODE, gfd, .flags = OPT_CONFIG_ONLY, .help = "read by gpu-feature-discovery"),                \
    ROW("sharing", OPT_NODE, sharing, .flags = OPT_CONFIG_ONLY, .help = "timeSlicing or mps"),                         \
    ROW("resources", OPT_NODE, resources, .flags = OPT_CONFIG_ONLY, .help = "ignored, as by the device plugin"),       \
    ROW("imex", OPT_NODE, imex, .flags = OPT_CONFIG_ONLY, .help = "IMEX channels"),                                    \
    ROW("healthy-after", OPT_DURATION, hold_ns, .flags = OPT_CLI_ONLY, .def = "10s", .max = 86400e9,                   \
        .help = "a device is healthy again when nothing was against it for so long"),                                  \
    ROW("log-level", OPT_ENUM, log_level, .flags = OPT_CLI_ONLY, .env = "STOKER_LOG_LEVEL", .def = "info",             \
        .names = log_level_names, .help = "the least important message that is written"),                              \
    ROW("log-format", OPT_ENUM, log_format, .flags = OPT_CLI_ONLY, .def = "text", .names = log_format_names,           \
        .help = "how messages are written")

static const OptSpec kubelet_opts[] = {KUBELET_ROWS};
static const OptSpec explain_opts[] = {ROW("json", OPT_BOOL, json, .flags = OPT_CLI_ONLY, .help = "as JSON"), KUBELET_ROWS};

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

static int check_settings(const OptSet *set, KubeletSettings *s, Err *err)
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

static void use_settings(KubeletSettings *s)
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

void kubelet_settings_free(KubeletSettings *s)
{
    arena_done(&s->arena);
    free(s);
}

int kubelet_settings_load(VerbCall *call, KubeletSettings **ret, Err *err)
{
    CLEANUP(kubelet_settings_free_at) KubeletSettings *s = calloc(1, sizeof *s);
    OptPlace places[ARRAY_LEN(explain_opts)] = {0};
    const OptSet set = {.opts = explain_opts, .count = ARRAY_LEN(explain_opts), .into = &s->o, .arena = &s->arena,
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

int kubelet_read_answer(const Str *answer, SnapshotBuffer *ret, uint64_t *ret_revision, Err *err)
{
    const char *json = strchr(answer->text, '\n');

    if (!json || number_parsen_u64(answer->text, (size_t)(json - answer->text), 0, UINT64_MAX, ret_revision, NULL) < 0)
        return err_set(err, -EPROTO, "the agent's answer has no revision: is it of this version?");
    if (snapshot_read(ret, json + 1, answer->len - (size_t)(json + 1 - answer->text), err) < 0)
        return err_add(err, "the agent's answer");
    return 0;
}

static const Verb verb_labels = {
    .name = "labels",
    .summary = "print or write the labels of this node",
    .usage = "[--features-file FILE]",
    .description =
        "Prints the labels of NVIDIA's gpu-feature-discovery for this node, a line each, or keeps them in a file for "
        "node-feature-discovery. They agree with what 'stoker kubelet' offers with the same options. The agent says what "
        "there is; what it is made of is read from the driver, in a process of its own.",
    .examples = "stoker kubelet labels\n"
                "stoker kubelet labels --mig-strategy mixed \\\n"
                "    --features-file /etc/kubernetes/node-feature-discovery/features.d/gfd",
    VERB_OPTS(kubelet_opts, KubeletOptions),
    .no_args = "",
    .run = kubelet_labels_run,
};

static const Verb verb_explain = {
    .name = "explain",
    .summary = "show what this node offers to pods, who has it and what is unhealthy",
    .usage = "[--json] [POD]",
    .description =
        "Shows each resource that 'stoker kubelet' offers with the same options: its devices, which of them are free, "
        "which pod has which, and which are unhealthy and why. With POD, as NAME or NAMESPACE/NAME: what that pod has.",
    .examples = "stoker kubelet explain\n"
                "stoker kubelet explain training/llm-0\n"
                "stoker kubelet explain --json | jq '.resources[] | {name, free}'",
    .exit_codes = "0  shown\n"
                  "1  that pod has no device here\n"
                  "2  the command line or the configuration is wrong\n"
                  "3  unknown: the agent does not answer",
    VERB_OPTS(explain_opts, KubeletOptions),
    .run = kubelet_explain_run,
};

static const Verb *const kubelet_subs[] = {&verb_explain, &verb_labels, NULL};

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
    .subs = kubelet_subs,
    .run = kubelet_run,
};
