/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker mig manage`: NVIDIA's mig-manager. The label nvidia.com/mig.config of this node names a configuration, the
 * label .state says what became of it. One thread: the loop for the API server stands still while the driver is called.
 * What a restart has to know is in the node's labels, in --state and in the list of stopped units.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "source/kubernetes/kubernetes.h"
#include "verb/mig/mig.h"
#include "verb/mig/units.h"

#define CONFIG_LABEL "nvidia.com/mig.config"
#define STATE_LABEL "nvidia.com/mig.config.state"
#define MESSAGE "stoker.dev/mig.config.message"
#define PAUSED "paused-for-mig-change"

enum { PATCH_MAX = 16 << 10, PODS_MAX = 400, CONFIG_CAP = 256, TIMEOUT_S = 10, SOON_PER_PERIOD = 5 };
#define RETRY_NS_MAX (16 * NS_PER_MIN)

/* The labels that keep the GPU operator's clients on the node, and the label `app` of their pods; NULL: not known. */
static const struct {
    const char *label, *app;
} clients[] = {
    {"nvidia.com/gpu.deploy.device-plugin", "nvidia-device-plugin-daemonset"},
    {"nvidia.com/gpu.deploy.gpu-feature-discovery", "gpu-feature-discovery"},
    {"nvidia.com/gpu.deploy.dcgm-exporter", "nvidia-dcgm-exporter"},
    {"nvidia.com/gpu.deploy.dcgm", "nvidia-dcgm"},
    {"nvidia.com/gpu.deploy.nvsm", NULL},
    {"nvidia.com/gpu.deploy.client", NULL},
};

typedef struct ManageOptions {
    MigVerbOptions mig; /* first: rows of its options are used */
    const char *node, *namespace, *units_file, *host_root, *account, *kubeconfig;
    bool stop_units;
    uint64_t period_ns, pods_wait_ns, retry_ns;
} ManageOptions;

enum { READ_NODE, READ_PODS, READ_COUNT };

typedef struct Manage {
    VerbCall *call;
    const ManageOptions *options;
    MigUnits units;
    Log log;
    uv_loop_t loop;
    KubeApi *api;
    json_t *metadata;  /* of the node, as last read or written */
    uint64_t readings; /* of the node, so far */
    /* what the node is to have: clients paused or not; NULL: this stays as it is */
    bool pause;
    const char *state, *message;
    bool writing; /* the node is to be changed */
    Str patch;
    bool pods_wanted, pods_read;
    Str pods; /* of paused clients that are still there */
    /* the label that was followed last, and when it is followed again, as it could not be: 0 never */
    char followed[CONFIG_CAP];
    uint64_t retry_at_ns, retry_ns;
} Manage;

/* --- the node's labels -------------------------------------------------------------------------------------------- */

static const char *read_text(const Manage *manage, const char *kind, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(manage->metadata, kind), name));
    return text ? text : "";
}

static const char *read_label(const Manage *manage, const char *name)
{
    return read_text(manage, "labels", name);
}

static bool is_paused(const Manage *manage, size_t client)
{
    return strcmp(read_label(manage, clients[client].label), PAUSED) == 0;
}

static int add_node(void *self, const json_t *object, Err *err)
{
    Manage *manage = self;
    json_t *metadata = json_object_get(object, "metadata");
    if (!json_is_object(metadata))
        return err_set(err, -EBADMSG, "the answer is no node: it has no metadata");
    json_decref(manage->metadata);
    manage->metadata = json_incref(metadata);
    manage->readings++;
    return 0;
}

/* A label that is neither "true" nor ours stays as it is: somebody else decides about that client. */
static size_t add_client_labels(Manage *manage)
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        const bool runs = strcmp(read_label(manage, clients[i].label), "true") == 0;
        if (!(manage->pause ? runs : is_paused(manage, i)))
            continue;
        json_add_text(&manage->patch, clients[i].label, manage->pause ? PAUSED : "true");
        count++;
    }
    return count;
}

/* Writes the merge patch from what the node has to what it is to have; false: it has it. The version in it makes the
 * server refuse the patch where somebody has changed the node since. */
static bool find_changes(Manage *manage)
{
    Str *patch = &manage->patch;
    const char *version = json_string_value(json_object_get(manage->metadata, "resourceVersion"));
    const char *message = read_text(manage, "annotations", MESSAGE);
    str_clear(patch);
    json_open(patch, NULL, '{');
    json_open(patch, "metadata", '{');
    if (version)
        json_add_text(patch, "resourceVersion", version);
    json_open(patch, "labels", '{');
    size_t changes = add_client_labels(manage);
    if (manage->state && strcmp(read_label(manage, STATE_LABEL), manage->state) != 0) {
        json_add_text(patch, STATE_LABEL, manage->state);
        changes++;
    }
    json_close(patch, '}');
    json_open(patch, "annotations", '{');
    if (manage->message && strcmp(message, manage->message) != 0) {
        json_add_text(patch, MESSAGE, manage->message[0] ? manage->message : NULL);
        changes++;
    }
    json_close(patch, '}');
    json_close(patch, '}');
    json_close(patch, '}');
    return changes > 0;
}

static const char *make_patch(void *self)
{
    Manage *manage = self;
    return manage->writing && find_changes(manage) ? manage->patch.text : NULL;
}

static bool await_written(Manage *manage)
{
    while (find_changes(manage)) {
        const KubeState now = kube_api_state(manage->api, READ_NODE);
        if (now == KUBE_OK || now == KUBE_CONFLICT)
            kube_api_ask(manage->api, READ_NODE);
        else if (mig_interrupted())
            return false;
        uv_run(&manage->loop, UV_RUN_ONCE);
    }
    return true;
}

/* Changes the node, in one step, and waits until the server has done so. False: interrupted. */
static bool write_node(Manage *manage, bool pause, const char *state, const char *message)
{
    manage->pause = pause;
    manage->state = state;
    manage->message = message;
    manage->writing = true;
    const bool done = await_written(manage);
    manage->writing = false;
    return done;
}

/* --- the pods of the GPU's clients -------------------------------------------------------------------------------- */

static void begin_pods(void *self)
{
    str_clear(&((Manage *)self)->pods);
}

static int add_pod(void *self, const json_t *object, Err *err)
{
    Manage *manage = self;
    const json_t *metadata = json_object_get(object, "metadata");
    const char *name = json_string_value(json_object_get(metadata, "name"));
    const char *app = json_string_value(json_object_get(json_object_get(metadata, "labels"), "app"));
    if (!name)
        return err_set(err, -EBADMSG, "an object of the list is no pod: it has no name");
    for (size_t i = 0; app && i < ARRAY_LEN(clients); i++)
        if (clients[i].app && strcmp(app, clients[i].app) == 0 && is_paused(manage, i))
            str_addf(&manage->pods, "%s%s", manage->pods.len ? ", " : "", name);
    return 0;
}

static bool end_pods(void *self)
{
    Manage *manage = self;
    manage->pods_read = true;
    return !manage->pods_wanted || !manage->pods.len;
}

static int wait_pods(Manage *manage, VerbCall *call)
{
    const uint64_t until = uv_hrtime() + manage->options->pods_wait_ns;
    char limit[DURATION_TEXT_MAX];
    manage->pods_wanted = true;
    manage->pods_read = false;
    kube_api_ask(manage->api, READ_PODS);
    while ((!manage->pods_read || manage->pods.len) && uv_hrtime() < until && !mig_interrupted())
        uv_run(&manage->loop, UV_RUN_ONCE);
    manage->pods_wanted = false;
    if (manage->pods_read && !manage->pods.len)
        return EXIT_FINE;
    duration_format(limit, manage->options->pods_wait_ns);
    if (mig_interrupted())
        return verb_failf(call, MIG_EXIT_BUSY, "interrupted; nothing was changed");
    if (manage->pods_read)
        return verb_failf(call, MIG_EXIT_BUSY, "pods of GPU clients are still there after %s: %s; nothing was changed",
                          limit, manage->pods.text);
    return verb_failf(call, MIG_EXIT_BUSY,
                      "the API server did not list the pods of GPU clients for %s; nothing was changed", limit);
}

/* --- one configuration -------------------------------------------------------------------------------------------- */

typedef struct Work {
    Manage *manage;
    const MigRequest *request; /* NULL: no layout is wanted, a change that was cut off is ended */
    bool begun;                /* clients were paused for it */
} Work;

static int plan_work(MigSession *session, void *at)
{
    const Work *work = at;
    return work->request ? mig_session_plan(session, work->request) : EXIT_FINE;
}

/* Nothing is touched before the node's labels say so. */
static int stop_clients(MigSession *session, void *at)
{
    Work *work = at;
    Manage *manage = work->manage;
    VerbCall *call = session->call;
    work->begun = true;
    log_write(&manage->log, LOG_LEVEL_INFO, "%s=%s: pending: GPU clients are paused", CONFIG_LABEL, manage->followed);
    if (!write_node(manage, true, "pending", ""))
        return verb_failf(call, MIG_EXIT_BUSY, "interrupted; nothing was changed");
    const int code = wait_pods(manage, call);
    if (code == EXIT_FINE && manage->options->stop_units && mig_units_stop(&manage->units, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    return code;
}

static int apply_config(Work *work, VerbCall *call, const char *config)
{
    const MigSteps steps = {.plan = plan_work, .before = stop_clients, .at = work};
    MigVerbOptions o = work->manage->options->mig;
    MigRequest request;
    o.config = config;
    if (config[0] && mig_read_request(call, &o, &request, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    work->request = config[0] ? &request : NULL;
    return mig_apply(call, &o, &steps);
}

/* A driver that does not answer, or another apply that runs: not the configuration's fault. */
static void schedule_retry(Manage *manage, const Work *work, int code)
{
    const bool again = code == MIG_EXIT_PARTIAL || (!work->begun && (code == EXIT_UNKNOWN || code == MIG_EXIT_BUSY));
    manage->retry_at_ns = again ? uv_hrtime() + manage->retry_ns : 0;
    manage->retry_ns = again ? number_min_u64(2 * manage->retry_ns, RETRY_NS_MAX) : manage->options->retry_ns;
}

/* The name of a process or of a profile may be any bytes, cut anywhere; what is written to the node has to come back as
 * it was. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static int run_work(Work *work, VerbCall *call, const char *config)
{
    Manage *manage = work->manage;
    Err err = {0};
    int code = apply_config(work, call, config);
    if (code == EXIT_FINE && !config[0])
        code = verb_failf(call, MIG_EXIT_RESTORED, "the label was removed while its configuration was applied");
    if (mig_units_start(&manage->units, &err) < 0 && code == EXIT_FINE)
        code = verb_failf(call, EXIT_UNKNOWN, "the layout stands, but a unit of the host does not start: %s", err.text);
    make_plain(call->err.text);
    return code;
}

static void follow_config(Manage *manage, const char *config)
{
    Arena arena = {0};
    VerbCall *call = &(VerbCall){.path = manage->call->path, .arena = &arena};
    Work work = {.manage = manage};
    const int code = run_work(&work, call, config);
    if (code == EXIT_FINE) {
        log_write(&manage->log, LOG_LEVEL_INFO, "%s=%s: success", CONFIG_LABEL, config);
        (void)write_node(manage, false, "success", "");
    } else if (mig_interrupted()) { /* the next start goes on with it */
        (void)write_node(manage, false, work.begun ? "pending" : NULL, NULL);
    } else {
        log_write(&manage->log, LOG_LEVEL_ERROR, "%s=%s: failed: %s", CONFIG_LABEL, config, call->err.text);
        (void)write_node(manage, false, "failed", call->err.text);
    }
    schedule_retry(manage, &work, code);
    arena_done(&arena);
}

/* Whether an earlier run of this program has left something to end. */
static bool was_cut_off(const Manage *manage)
{
    bool paused = false;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        paused |= is_paused(manage, i);
    return paused || strcmp(read_label(manage, STATE_LABEL), "pending") == 0 ||
           access(manage->options->mig.state, F_OK) == 0 || access(manage->units.file, F_OK) == 0;
}

static bool is_retry_due(const Manage *manage)
{
    return manage->retry_at_ns && uv_hrtime() >= manage->retry_at_ns;
}

static void follow_label(Manage *manage)
{
    char config[CONFIG_CAP];
    const bool retry = is_retry_due(manage);
    snprintf(config, sizeof config, "%s", read_label(manage, CONFIG_LABEL));
    if (strcmp(config, manage->followed) == 0 && !retry)
        return;
    const bool first = manage->followed[0] == '\n';
    memcpy(manage->followed, config, sizeof config);
    if (config[0] || (first && was_cut_off(manage)) || retry)
        follow_config(manage, config);
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int open_api(Manage *manage, Err *err)
{
    const ManageOptions *o = manage->options;
    Arena *arena = manage->call->arena;
    const char *node = arena_printf(arena, "/api/v1/nodes/%s", o->node);
    const char *pods = arena_printf(arena, "/api/v1/namespaces/%s/pods", o->namespace);
    const KubeApiConfig config = {.account = o->account,
                                  .kubeconfig = o->kubeconfig,
                                  .soon_ns = o->period_ns / SOON_PER_PERIOD,
                                  .again_ns = o->period_ns,
                                  .timeout_ns = TIMEOUT_S * NS_PER_S,
                                  .log = &manage->log};
    const KubeRead reads[READ_COUNT] = {
        [READ_NODE] = {.what = "the node",
                       .path = node,
                       .metadata_alone = true,
                       .patch = make_patch,
                       .add = add_node,
                       .self = manage},
        [READ_PODS] = {.what = "pods of GPU clients",
                       .path = arena_printf(arena, "%s&labelSelector=app",
                                            kube_node_path(arena, pods, "spec.nodeName", o->node)),
                       .list = true,
                       .metadata_alone = true,
                       .on_demand = true,
                       .begin = begin_pods,
                       .add = add_pod,
                       .end = end_pods,
                       .self = manage},
    };
    return kube_api_new(&manage->loop, &config, reads, READ_COUNT, &manage->api, err);
}

static void run_loop(Manage *manage)
{
    uint64_t followed = 0;

    while (!mig_interrupted()) {
        while (manage->readings == followed && !is_retry_due(manage) && !mig_interrupted())
            uv_run(&manage->loop, UV_RUN_ONCE);
        followed = manage->readings; /* what is read while a label is followed comes after it */
        if (!mig_interrupted())
            follow_label(manage);
    }
}

static void close_all(Manage *manage)
{
    kube_api_close(manage->api);
    uv_run(&manage->loop, UV_RUN_DEFAULT);
    uv_loop_close(&manage->loop);
    json_decref(manage->metadata);
    str_done(&manage->patch);
    str_done(&manage->pods);
    log_done(&manage->log);
}

static int check_options(VerbCall *call, const ManageOptions *o)
{
    if (!o->mig.file || strcmp(o->mig.file, "-") == 0)
        return verb_failf(call, EXIT_USAGE, "--config-file is needed: it is read for each change");
    if (!kube_is_node_name(o->node))
        return verb_failf(call, EXIT_USAGE, "--node-name (NODE_NAME) is needed: the name of this node in the cluster");
    if (!verb_is_id(o->namespace, 63))
        return verb_failf(call, EXIT_USAGE, "--default-gpu-clients-namespace is not the name of a namespace");
    if (o->stop_units && !o->units_file)
        return verb_failf(call, EXIT_USAGE, "--with-shutdown-host-gpu-clients needs --gpu-clients-file");
    return EXIT_FINE;
}

static int manage_run(VerbCall *call, const void *options)
{
    const ManageOptions *o = options;
    Manage *manage = arena_calloc(call->arena, 1, sizeof *manage);
    int code = check_options(call, o);
    if (code != EXIT_FINE)
        return code;
    manage->call = call;
    manage->options = o;
    manage->retry_ns = o->retry_ns;
    manage->followed[0] = '\n'; /* no label */
    manage->units.root = o->host_root;
    manage->units.file = arena_printf(call->arena, "%s.units", o->mig.state);
    if (o->stop_units && mig_units_read(o->units_file, call->arena, &manage->units.names, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (mig_make_folder(o->mig.state, call) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    str_init(&manage->patch, PATCH_MAX);
    str_init(&manage->pods, PODS_MAX);
    log_init(&manage->log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "stoker", clock_kernel());
    uv_loop_init(&manage->loop);
    mig_catch_signals();
    code = open_api(manage, &call->err) < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
    if (code == EXIT_FINE)
        run_loop(manage);
    close_all(manage);
    return code;
}

/* The names of mig-manager's flags and variables. */
static const OptSpec manage_opts[] = {
    OPT_ROW("config-file", OPT_STRING, ManageOptions, mig.file, .short_flag = 'f', .env = "CONFIG_FILE",
            .metavar = "FILE", .help = "configurations in mig-parted's format v1"),
    OPT_ROW("node-name", OPT_STRING, ManageOptions, node, .short_flag = 'n', .env = "NODE_NAME",
            .help = "the name of this node in the cluster"),
    OPT_ROW("default-gpu-clients-namespace", OPT_STRING, ManageOptions, namespace, .short_flag = 'p',
            .env = "DEFAULT_GPU_CLIENTS_NAMESPACE", .def = "gpu-operator",
            .help = "the namespace of the GPU operator's pods"),
    OPT_ROW("gpu-clients-file", OPT_STRING, ManageOptions, units_file, .short_flag = 'g', .env = "GPU_CLIENTS_FILE",
            .metavar = "FILE", .help = "systemd units of the host that hold GPUs"),
    OPT_ROW("with-shutdown-host-gpu-clients", OPT_BOOL, ManageOptions, stop_units, .short_flag = 'd',
            .env = "WITH_SHUTDOWN_HOST_GPU_CLIENTS", .help = "stop these units during a change"),
    OPT_ROW("host-root-mount", OPT_STRING, ManageOptions, host_root, .env = "HOST_ROOT_MOUNT", .def = "/host",
            .metavar = "DIR", .help = "where the host's root is mounted"),
    OPT_ROW("pods-wait", OPT_DURATION, ManageOptions, pods_wait_ns, .def = "5m", .max = 86400e9,
            .help = "how long to wait until the pods of paused GPU clients are gone"),
    OPT_ROW("period", OPT_DURATION, ManageOptions, period_ns, .def = "5s", .min = 50e6, .max = 3600e9,
            .help = "time between two readings of the node's labels, where the API server lets them not be watched"),
    OPT_ROW("retry", OPT_DURATION, ManageOptions, retry_ns, .flags = OPT_HIDDEN, .def = "1m", .min = 50e6,
            .help = "when to try again after a driver that did not answer; then twice as long each time"),
    OPT_ROW("kubernetes-account", OPT_STRING, ManageOptions, account, .env = "STOKER_KUBERNETES_ACCOUNT",
            .def = "/var/run/secrets/kubernetes.io/serviceaccount", .metavar = "DIR",
            .help = "folder of the service account: token and ca.crt for the API server"),
    OPT_ROW("kubeconfig", OPT_STRING, ManageOptions, kubeconfig, VERB_KUBECONFIG),
    MIG_CHANGE_OPTS("5m"),
    MIG_NODE_OPTS,
};

const Verb verb_mig_manage = {
    .name = "manage",
    .summary = "apply the layout that a label of this Kubernetes node names",
    .usage = "--config-file FILE --node-name NAME",
    .description =
        "Does the work of NVIDIA's mig-manager, in a pod of each node. Where the label nvidia.com/mig.config names "
        "another configuration, GPU clients are paused by their labels nvidia.com/gpu.deploy.*, the configuration is "
        "applied as 'stoker mig apply' does, and the clients run again. nvidia.com/mig.config.state says pending, "
        "success or failed; the annotation stoker.dev/mig.config.message says why it failed. A configuration that "
        "stands already, or cannot be had, pauses nothing.",
    .examples = "stoker mig manage -f /mig-parted-config/config.yaml -n worker-7",
    VERB_OPTS(manage_opts, ManageOptions),
    .no_args = "",
    .run = manage_run,
};
