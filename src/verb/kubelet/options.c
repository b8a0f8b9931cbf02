/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/kubelet.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "base/log.h"

/* --- options: names, variables and keys of the device plugin -------------------------------------------------------
 */

static const char *const mig_names[] = {"none", "single", "mixed", NULL};
static const char *const id_names[] = {"uuid", "index", NULL};
static const char *const discovery_names[] = {"auto", "nvml", NULL};
static const char *const spread_names[] = {"distributed", "packed", NULL};

#define ROW(name, kind, member, ...) OPT_ROW(name, kind, KubeletOptions, member, __VA_ARGS__)

#define KUBELET_ROWS                                                                                                   \
    ROW("config-file", OPT_STRING, config_file, .flags = OPT_CLI_ONLY, .env = "CONFIG_FILE", .metavar = "FILE",        \
        .help = "a configuration of NVIDIA's device plugin, v1; read again on SIGHUP"),                                \
        ROW("config-dir", OPT_STRING, config_dir, .flags = OPT_CLI_ONLY, .env = "CONFIG_FILE_SRCDIR",                  \
            .metavar = "DIR",                                                                                          \
            .help = "configurations, of which the node's label nvidia.com/device-plugin.config names one"),            \
        ROW("default-config", OPT_STRING, default_config, .flags = OPT_CLI_ONLY, .env = "DEFAULT_CONFIG",              \
            .metavar = "NAME", .help = "the one where the label names none"),                                          \
        ROW("device-plugin-path", OPT_STRING, dir, .flags = OPT_CLI_ONLY, .def = "/var/lib/kubelet/device-plugins",    \
            .metavar = "DIR", .help = "the kubelet's folder of device plugins"),                                       \
        ROW("kubelet-socket", OPT_STRING, socket, .flags = OPT_CLI_ONLY, .env = "KUBELET_SOCKET", .metavar = "FILE",   \
            .help = "where to register; without: " KUBELET_SOCKET_NAME " in --device-plugin-path"),                    \
        ROW("dra-driver", OPT_STRING, dra_driver, .flags = OPT_CLI_ONLY, .env = "STOKER_DRA_DRIVER",                   \
            .metavar = "NAME",                                                                                         \
            .help = "offer devices by dynamic resource allocation under this driver's name, as gpu.nvidia.com, and "   \
                    "not by the device plugin; needs --node-name"),                                                    \
        ROW("dra-dynamic-mig", OPT_BOOL, make_mig, .flags = OPT_CLI_ONLY, .env = "STOKER_DRA_DYNAMIC_MIG",             \
            .help = "make MIG devices for claims on GPUs in MIG mode that have none, and remove them after; needs an " \
                    "API server with DRAPartitionableDevices"),                                                        \
        ROW("plugins-path", OPT_STRING, plugins, .flags = OPT_CLI_ONLY, .def = "/var/lib/kubelet/plugins",             \
            .metavar = "DIR", .help = "the kubelet's folder in which plugins keep what is theirs"),                    \
        ROW("plugins-registry", OPT_STRING, registry, .flags = OPT_CLI_ONLY,                                           \
            .def = "/var/lib/kubelet/plugins_registry", .metavar = "DIR",                                              \
            .help = "the kubelet's folder in which it looks for plugins"),                                             \
        ROW("cdi-root", OPT_STRING, cdi_root, .flags = OPT_CLI_ONLY, .def = "/var/run/cdi", .metavar = "DIR",          \
            .help = "where the CDI specification is kept, with cdi-annotations or cdi-cri"),                           \
        ROW("features-file", OPT_STRING, features_file, .flags = OPT_CLI_ONLY, .env = "GFD_OUTPUT_FILE",               \
            .metavar = "FILE",                                                                                         \
            .help = "keep labels of the node there, for node-feature-discovery: its features.d/gfd"),                  \
        ROW("update-node", OPT_BOOL, update_node, .flags = OPT_CLI_ONLY, .env = "STOKER_UPDATE_NODE",                  \
            .help = "write labels, the condition GPUsHealthy and events of the node by the API server; needs "         \
                    "--features-file"),                                                                                \
        ROW("follow-placement", OPT_BOOL, follow_placement, .flags = OPT_CLI_ONLY, .env = "STOKER_FOLLOW_PLACEMENT",   \
            .help = "give pods the GPUs that 'stoker place serve' chose for them; needs --node-name, and that the "    \
                    "account may list and watch pods; to be used with --update-node"),                                 \
        ROW("node-name", OPT_STRING, node, .flags = OPT_CLI_ONLY, .env = "NODE_NAME",                                  \
            .help = "the name of this node in the cluster"),                                                           \
        ROW("node-period", OPT_DURATION, node_period_ns, .flags = OPT_CLI_ONLY, .def = "1m", .min = 50e6,              \
            .max = 86400e9, .help = "time between two looks at the node where it cannot be watched"),                  \
        ROW("kubernetes-account", OPT_STRING, account, .flags = OPT_CLI_ONLY, .env = "STOKER_KUBERNETES_ACCOUNT",      \
            .def = "/var/run/secrets/kubernetes.io/serviceaccount", .metavar = "DIR",                                  \
            .help = "folder of the service account: token and ca.crt for the API server"),                             \
        ROW("kubeconfig", OPT_STRING, kubeconfig, .flags = OPT_CLI_ONLY, VERB_KUBECONFIG),                             \
        ROW("machine-type-file", OPT_STRING, machine_file, .flags = OPT_CLI_ONLY, .env = "GFD_MACHINE_TYPE_FILE",      \
            .def = "/sys/class/dmi/id/product_name", .metavar = "FILE", .help = "what kind of machine it is"),         \
        ROW("no-timestamp", OPT_BOOL, no_timestamp, .flags = OPT_CLI_ONLY, .env = "GFD_NO_TIMESTAMP",                  \
            .help = "no label with the time"),                                                                         \
        ROW("physical-counts", OPT_BOOL, physical, .flags = OPT_CLI_ONLY,                                              \
            .help = "gpu.count and gpu.replicas as gpu-feature-discovery has them, whatever is offered"),              \
        ROW("driver-library", OPT_STRING, library, .flags = OPT_CLI_ONLY, .env = "STOKER_DRIVER_LIBRARY",              \
            .metavar = "FILE", .help = "the driver's library, for labels"),                                            \
        ROW("control", OPT_STRING, control, .flags = OPT_CLI_ONLY, .metavar = "FILE",                                  \
            .help = "the agent's control socket"),                                                                     \
        ROW("root", OPT_STRING, root, .flags = OPT_CLI_ONLY | OPT_HIDDEN, .env = "STOKER_ROOT", .def = "",             \
            .metavar = "DIR", .help = "where the host's /dev and /proc lie"),                                          \
        ROW("version", OPT_STRING, version, .flags = OPT_CONFIG_ONLY, .help = "v1"),                                   \
        ROW("flags.migStrategy", OPT_ENUM, mig, .flag = "mig-strategy", .env = "MIG_STRATEGY", .def = "none",          \
            .names = mig_names, .help = "how MIG devices are offered"),                                                \
        ROW("flags.failOnInitError", OPT_BOOL, fail_on_init, .flag = "fail-on-init-error", .flags = OPT_HIDDEN,        \
            .env = "FAIL_ON_INIT_ERROR", .def = "true",                                                                \
            .help = "taken and not needed: what is missing is waited for"),                                            \
        ROW("flags.mpsRoot", OPT_STRING, mps_root, .flag = "mps-root", .env = "MPS_ROOT", .metavar = "DIR",            \
            .help = "the host's folder of the MPS daemons"),                                                           \
        ROW("flags.nvidiaDriverRoot", OPT_STRING, driver_root, .flag = "nvidia-driver-root",                           \
            .env = "NVIDIA_DRIVER_ROOT", .def = "/", .metavar = "DIR",                                                 \
            .help = "the host's folder below which the driver is installed"),                                          \
        ROW("flags.nvidiaDevRoot", OPT_STRING, dev_root, .flag = "nvidia-dev-root", .env = "NVIDIA_DEV_ROOT",          \
            .metavar = "DIR", .help = "the host's folder in which /dev lies; without: --nvidia-driver-root"),          \
        ROW("flags.gdrcopyEnabled", OPT_BOOL, gdrcopy, .flag = "gdrcopy-enabled", .env = "GDRCOPY_ENABLED",            \
            .help = "containers get GDRCopy"),                                                                         \
        ROW("flags.gdsEnabled", OPT_BOOL, gds, .flag = "gds-enabled", .env = "GDS_ENABLED",                            \
            .help = "containers get GPUDirect Storage"),                                                               \
        ROW("flags.mofedEnabled", OPT_BOOL, mofed, .flag = "mofed-enabled", .env = "MOFED_ENABLED",                    \
            .help = "containers get the devices of Mellanox's drivers"),                                               \
        ROW("flags.useNodeFeatureAPI", OPT_BOOL, use_node_features, .flag = "use-node-feature-api",                    \
            .flags = OPT_CONFIG_ONLY),                                                                                 \
        ROW("flags.deviceDiscoveryStrategy", OPT_ENUM, discovery, .flag = "device-discovery-strategy",                 \
            .env = "DEVICE_DISCOVERY_STRATEGY", .def = "auto", .names = discovery_names, .help = "by NVML, both"),     \
        ROW("flags.plugin.passDeviceSpecs", OPT_BOOL, device_nodes, .flag = "pass-device-specs",                       \
            .env = "PASS_DEVICE_SPECS",                                                                                \
            .help = "pass device files, so that a container keeps them when systemd reloads"),                         \
        ROW("flags.plugin.deviceListStrategy", OPT_LIST, list_strategies, .flag = "device-list-strategy",              \
            .env = "DEVICE_LIST_STRATEGY", .def = "envvar", .metavar = "LIST",                                         \
            .help = "how devices are named to the runtime: envvar, volume-mounts, cdi-annotations, cdi-cri"),          \
        ROW("flags.plugin.deviceIDStrategy", OPT_ENUM, id_strategy, .flag = "device-id-strategy",                      \
            .env = "DEVICE_ID_STRATEGY", .def = "uuid", .names = id_names, .help = "what devices are called there"),   \
        ROW("flags.plugin.cdiAnnotationPrefix", OPT_STRING, cdi_prefix, .flag = "cdi-annotation-prefix",               \
            .env = "CDI_ANNOTATION_PREFIX", .def = "cdi.k8s.io/",                                                      \
            .help = "what the annotation of cdi-annotations begins with"),                                             \
        ROW("flags.plugin.nvidiaCTKPath", OPT_STRING, ctk_path, .flag = "nvidia-cdi-hook-path", .flags = OPT_HIDDEN,   \
            .env = "NVIDIA_CDI_HOOK_PATH", .help = "taken and not needed: no program runs in containers"),             \
        ROW("flags.plugin.containerDriverRoot", OPT_STRING, container_driver_root, .flag = "driver-root-ctr-path",     \
            .env = "DRIVER_ROOT_CTR_PATH", .def = "/driver-root", .metavar = "DIR",                                    \
            .help = "where --nvidia-driver-root is in this container"),                                                \
        ROW("flags.plugin.sharedDevicesAllocationPolicy", OPT_ENUM, spread,                                            \
            .flag = "shared-devices-allocation-policy", .env = "SHARED_DEVICES_ALLOCATION_POLICY",                     \
            .def = "distributed", .names = spread_names,                                                               \
            .help = "of which shared devices replicas are taken: those with the fewest taken, or the most"),           \
        ROW("spread-heat", OPT_BOOL, spread_heat, .flags = OPT_CLI_ONLY, .env = "STOKER_SPREAD_HEAT",                  \
            .help = "of equally linked GPUs choose those far from each other and from those in use"),                  \
        ROW("flags.gfd", OPT_NODE, gfd, .flags = OPT_CONFIG_ONLY, .help = "read by gpu-feature-discovery"),            \
        ROW("sharing", OPT_NODE, sharing, .flags = OPT_CONFIG_ONLY, .help = "timeSlicing or mps"),                     \
        ROW("resources", OPT_NODE, resources, .flags = OPT_CONFIG_ONLY, .help = "ignored, as by the device plugin"),   \
        ROW("imex", OPT_NODE, imex, .flags = OPT_CONFIG_ONLY, .help = "IMEX channels"),                                \
        ROW("healthy-after", OPT_DURATION, hold_ns, .flags = OPT_CLI_ONLY, .def = "10s", .max = 86400e9,               \
            .help = "a device is healthy again when nothing was against it for so long"),                              \
        ROW("log-level", OPT_ENUM, log_level, .flags = OPT_CLI_ONLY, .env = "STOKER_LOG_LEVEL", .def = "info",         \
            .names = log_level_names, .help = "the least important message that is written"),                          \
        ROW("log-format", OPT_ENUM, log_format, .flags = OPT_CLI_ONLY, .def = "text", .names = log_format_names,       \
            .help = "how messages are written")

static const OptSpec kubelet_opts[] = {KUBELET_ROWS};
const OptSpec kubelet_all_opts[] = {ROW("json", OPT_BOOL, json, .flags = OPT_CLI_ONLY, .help = "as JSON"),
                                    KUBELET_ROWS};

const size_t kubelet_all_count = ARRAY_LEN(kubelet_all_opts);

static const Verb verb_labels = {
    .name = "labels",
    .summary = "print or write the labels of this node",
    .usage = "[--features-file FILE]",
    .description =
        "Prints the labels of NVIDIA's gpu-feature-discovery for this node, a line each, or keeps them in a file for "
        "node-feature-discovery. They agree with what 'stoker kubelet' offers with the same options. The agent says "
        "what "
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
    VERB_OPTS(kubelet_all_opts, KubeletOptions),
    .run = kubelet_explain_run,
};

static const Verb verb_devices = {
    .name = "devices",
    .summary = "print the devices of this node as a ResourceSlice names them",
    .usage = "[--dra-driver NAME] [--dra-dynamic-mig]",
    .description =
        "Prints the node's GPUs and MIG devices as JSON, with the names, attributes and capacities that "
        "'stoker kubelet --dra-driver' publishes, and the counters that they share. The agent says what there is; what "
        "it is made of is read from the driver, in a process of its own.",
    .examples = "stoker kubelet devices | jq -r '.devices[] | .name, .attributes'",
    VERB_OPTS(kubelet_opts, KubeletOptions),
    .no_args = "",
    .run = kubelet_devices_run,
};

static const OptSpec instance_opts[] = {
    OPT_ROW("driver-library", OPT_STRING, KubeletInstanceOptions, library, .flags = OPT_CLI_ONLY,
            .env = "STOKER_DRIVER_LIBRARY", .metavar = "FILE", .help = "the driver's library"),
};

static const Verb verb_instance = {
    .name = "instance",
    .summary = "make or remove the MIG device of a claim",
    .usage = "make|remove GPU-UUID PROFILE-ID START",
    .description =
        "Makes the MIG device with this profile (its number, as nvidia-smi shows it) at this memory slice, and prints "
        "its UUID; where it is there already, that of it. Or removes it; where it is not there, nothing is done. "
        "'stoker kubelet --dra-dynamic-mig' runs this for claims.",
    .examples = "stoker kubelet instance remove GPU-55b9b2c6-2b4f-4c5e-9a80-55c3a7a1f5d2 19 4",
    .exit_codes = "0  it is so\n"
                  "2  the command line is wrong\n"
                  "3  the driver refuses, or does not answer",
    VERB_OPTS(instance_opts, KubeletInstanceOptions),
    .run = kubelet_instance_run,
};

static const Verb *const kubelet_subs[] = {&verb_devices, &verb_explain, &verb_instance, &verb_labels, NULL};

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
