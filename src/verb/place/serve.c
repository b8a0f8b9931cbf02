/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker place serve`: a scheduler extender. One loop: facts come from the API server's lists and watches, questions
 * over HTTP. filter and prioritize are answered at once from memory. bind reads the pod, takes GPUs and writes the
 * binding; its answer is a stream until then. Nothing here may keep a pod from being scheduled: without facts every
 * node fits, and kube-scheduler binds itself where bind has an error (ignorable: true).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/log.h"
#include "service/place/extender.h"
#include "source/kubernetes/kubernetes.h"
#include "verb/place/place.h"
#include "wire/http/server.h"

enum { BINDS_MAX = 256, PATH_ROOM = 1024, BINDING_MAX = 8192, METRICS_MAX = 16384, POST_MAX = 1 << 20 };
enum { ANSWERS_MAX = 8 << 20, TICK_MS = 1000 };
#define HOLD_NS (30 * NS_PER_S)      /* until a bound pod has to be seen on its node */
#define API_NS (3 * NS_PER_S)        /* for one request: two of them within kube-scheduler's httpTimeout */
#define API_WATCH_NS (60 * NS_PER_S) /* a connection that has died is noticed so late */
#define GRACE_NS (5 * NS_PER_S)

enum { READ_NODES, READ_PODS, READ_SLICES, READ_CLAIMS, READ_COUNT };
#define DRA "/apis/resource.k8s.io/"
typedef enum Ask { ASK_FILTER, ASK_PRIORITIZE, ASK_BIND, ASK_END } Ask;

static const char *const paths[ASK_END + 1] = {"/filter", "/prioritize", "/bind", NULL};

typedef struct ServeOptions {
    OptList listen;
    const char *web_config, *account, *kubeconfig, *resource, *mode;
    uint64_t stale_ns;
    int log_level;
} ServeOptions;

typedef struct Serve {
    const ServeOptions *o;
    Log log;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    HttpServer *http;
    KubeApi *api;
    Live *live;
    uint64_t contact_ns; /* when the API server was last known to answer */
    size_t binds;        /* not ended */
    bool stopping;       /* when the last one has */
    uint64_t counts[ASK_END][EXTENDER_OUTCOME_END];
} Serve;

static const int signals_taken[] = {SIGINT, SIGTERM};

/* --- facts -------------------------------------------------------------------------------------------------------- */

static bool is_trusted(Serve *serve)
{
    const uint64_t now = uv_hrtime();

    if (kube_api_state(serve->api, READ_NODES) == KUBE_OK && kube_api_state(serve->api, READ_PODS) == KUBE_OK)
        serve->contact_ns = now;
    return live_counts(serve->live).known && now - serve->contact_ns < serve->o->stale_ns;
}

static int open_api(Serve *serve, Err *err)
{
    const KubeApiConfig config = {.account = serve->o->account,
                                  .kubeconfig = serve->o->kubeconfig,
                                  .soon_ns = NS_PER_S,
                                  .again_ns = 10 * NS_PER_S,
                                  .timeout_ns = API_NS,
                                  .watch_ns = API_WATCH_NS,
                                  .log = &serve->log};
    const KubeRead reads[READ_COUNT] = {
        [READ_NODES] = {.what = "the cluster's nodes",
                        .path = "/api/v1/nodes?pretty=false",
                        .list = true,
                        .begin = live_begin_nodes,
                        .add = live_add_node,
                        .end = live_end_nodes,
                        .change = live_change_node,
                        .self = serve->live},
        [READ_PODS] = {.what = "the cluster's pods",
                       .path = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded"
                               "%2Cstatus.phase%21%3DFailed",
                       .list = true,
                       .begin = live_begin_pods,
                       .add = live_add_pod,
                       .end = live_end_pods,
                       .change = live_change_pod,
                       .self = serve->live},
        [READ_SLICES] = {.what = "resource slices",
                         .path = DRA "v1/resourceslices?pretty=false",
                         .older_path = DRA "v1beta1/resourceslices?pretty=false",
                         .list = true,
                         .optional = true,
                         .begin = live_begin_slices,
                         .add = live_add_slice,
                         .end = live_end_slices,
                         .change = live_change_slice,
                         .self = serve->live},
        [READ_CLAIMS] = {.what = "resource claims",
                         .path = DRA "v1/resourceclaims?pretty=false",
                         .older_path = DRA "v1beta1/resourceclaims?pretty=false",
                         .list = true,
                         .optional = true,
                         .begin = live_begin_claims,
                         .add = live_add_claim,
                         .end = live_end_claims,
                         .change = live_change_claim,
                         .self = serve->live},
    };

    return kube_api_new(&serve->loop, &config, reads, READ_COUNT, &serve->api, err);
}

/* --- bind --------------------------------------------------------------------------------------------------------- */

typedef struct Bind {
    Serve *serve;
    ExtenderBind what;
    HttpStream *stream; /* NULL: who asked has gone */
    KubeCall *call;
    bool again; /* the pod was read once more after a conflict */
    bool ended;
    ExtenderOutcome outcome;
} Bind;

/* It lives until both the call and the stream have ended. */
static void free_ended(Bind *bind)
{
    if (bind->ended && !bind->stream)
        free(bind);
}

static void on_stream_closed(void *self, HttpStream *stream UNUSED)
{
    Bind *bind = self;

    bind->stream = NULL;
    free_ended(bind);
}

static void end_bind(Bind *bind, const char *error)
{
    Serve *serve = bind->serve;
    CLEANUP(str_done) Str out = str_limited(BINDING_MAX);

    serve->binds--;
    serve->counts[ASK_BIND][error ? EXTENDER_REFUSED : bind->outcome]++;
    if (error)
        log_write(&serve->log, LOG_LEVEL_WARN, "bind %s/%s to %s: %s", bind->what.namespace, bind->what.pod,
                  bind->what.node, error);
    extender_write_result(error, &out);
    if (bind->stream) {
        const size_t len = out.len;
        HttpBody *body = http_body_new(str_take(&out), len);

        http_stream_send(bind->stream, body);
        http_stream_close(bind->stream);
        http_body_unref(body);
    }
    bind->ended = true;
    free_ended(bind);
}

static void read_pod(Bind *bind);

/* Where no answer came, it may be bound: what was taken is kept for its time. */
static void on_bound(void *self, const KubeReply *reply)
{
    Bind *bind = self;

    if (reply->state == KUBE_OK) {
        end_bind(bind, NULL);
        return;
    }
    if (reply->state == KUBE_CONFLICT && !bind->again) { /* bound meanwhile: by an earlier call? */
        bind->again = true;
        read_pod(bind);
        return;
    }
    if (reply->state != KUBE_UNREACHABLE)
        live_release(bind->serve->live, bind->what.uid);
    end_bind(bind, reply->text);
}

static void send_binding(Bind *bind, uint16_t gpus)
{
    CLEANUP(str_done) Str body = str_limited(BINDING_MAX);
    char path[PATH_ROOM];

    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s/binding", bind->what.namespace, bind->what.pod);
    extender_write_binding(&bind->what, gpus, &body);
    kube_call_new(bind->serve->api, &(KubeRequest){.method = "POST", .path = path, .body = body.text}, on_bound, bind,
                  &bind->call);
}

static void on_pod(void *self, const KubeReply *reply)
{
    Bind *bind = self;
    Serve *serve = bind->serve;
    ClusterRequest request;
    uint16_t gpus = 0;
    Err err = {0};

    if (reply->state != KUBE_OK) {
        end_bind(bind, reply->text);
        return;
    }
    const int rc = extender_read_pod(serve->live, &bind->what, reply->object, &request, &err);
    if (rc < 0)
        live_release(serve->live, bind->what.uid);
    if (rc != 0) {
        end_bind(bind, rc < 0 ? err.text : NULL);
        return;
    }
    bind->outcome = request.gpu_count == 0 ? EXTENDER_PASSED : is_trusted(serve) ? EXTENDER_DECIDED : EXTENDER_OPEN;
    if (bind->outcome == EXTENDER_DECIDED &&
        live_reserve(serve->live, bind->what.uid, &request, bind->what.node, uv_hrtime() + HOLD_NS, &gpus, &err) < 0)
        end_bind(bind, err.text);
    else
        send_binding(bind, gpus);
}

static void read_pod(Bind *bind)
{
    char path[PATH_ROOM];

    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", bind->what.namespace, bind->what.pod);
    kube_call_new(bind->serve->api, &(KubeRequest){.method = "GET", .path = path}, on_pod, bind, &bind->call);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void answer_json(HttpRequest *request, Str *out)
{
    const size_t len = out->len;

    http_answer(request, 200, "application/json", http_body_new(str_take(out), len), NULL, 0);
}

static void answer_text(HttpRequest *request, unsigned status, const char *text)
{
    http_answer(request, status, "text/plain; charset=utf-8", http_body_new(xstrdup(text), strlen(text)), NULL, 0);
}

static void answer_bind(Serve *serve, HttpRequest *request, const char *body, size_t len)
{
    CLEANUP(str_done) Str out = str_limited(BINDING_MAX);
    ExtenderBind what;
    Err err = {0};

    if (extender_read_bind(body, len, &what, &err) == 0 && (serve->binds == BINDS_MAX || serve->stopping))
        (void)err_set(&err, -EAGAIN, serve->stopping ? "it is stopping" : "too many pods are being bound");
    if (err.code) {
        serve->counts[ASK_BIND][EXTENDER_REFUSED]++;
        extender_write_result(err.text, &out);
        answer_json(request, &out);
        return;
    }
    Bind *bind = xcalloc(1, sizeof *bind);
    *bind = (Bind){.serve = serve, .what = what, .outcome = EXTENDER_DECIDED};
    bind->stream = http_stream(request, "application/json", NULL, 1, on_stream_closed, bind);
    serve->binds++;
    read_pod(bind);
}

static void answer_ask(Serve *serve, HttpRequest *request, Ask ask)
{
    CLEANUP(str_done) Str out = str_limited(EXTENDER_ANSWER_MAX);
    const char *type = http_header(request, "Content-Type");
    size_t len;
    const char *body = http_body(request, &len);
    ExtenderOutcome outcome;
    Err err = {0};

    if (strcmp(http_method(request), "POST") != 0) {
        http_answer(request, 405, "text/plain; charset=utf-8", NULL, &(HttpField){"Allow", "POST"}, 1);
        return;
    }
    if (!type || strncmp(type, "application/json", strlen("application/json")) != 0) { /* no page of a browser */
        answer_text(request, 415, "the request has to be application/json\n");
        return;
    }
    if (ask == ASK_BIND) {
        answer_bind(serve, request, body, len);
        return;
    }
    outcome = ask == ASK_FILTER ? extender_filter(serve->live, is_trusted(serve), body, len, &out)
                                : extender_prioritize(serve->live, is_trusted(serve), body, len, &out, &err);
    serve->counts[ask][outcome]++;
    if (err.text[0] || out.overflow)
        answer_text(request, 400, err.text[0] ? err.text : "the answer is too large");
    else
        answer_json(request, &out);
}

static void write_metrics(Serve *serve, Str *out)
{
    const LiveCounts counts = live_counts(serve->live);
    const struct {
        const char *name, *help;
        uint64_t value;
    } gauges[] = {{"trusted", "1: decisions are made; 0: every node fits.", is_trusted(serve)},
                  {"nodes", "Nodes known.", counts.nodes},
                  {"gpu_nodes", "Nodes whose GPUs are decided on.", counts.gpu_nodes},
                  {"pods", "Pods known.", counts.pods},
                  {"reserved_pods", "Pods that were bound and not yet seen.", counts.reserved}};

    str_add(out, "# HELP stoker_place_requests_total Requests of kube-scheduler, by what came of them.\n"
                 "# TYPE stoker_place_requests_total counter\n");
    for (size_t i = 0; i < ASK_END; i++)
        for (size_t k = 0; k < EXTENDER_OUTCOME_END; k++)
            str_addf(out, "stoker_place_requests_total{verb=\"%s\",outcome=\"%s\"} %llu\n", paths[i] + 1,
                     extender_outcomes[k].key, (unsigned long long)serve->counts[i][k]);
    for (size_t i = 0; i < ARRAY_LEN(gauges); i++)
        str_addf(out, "# HELP stoker_place_%s %s\n# TYPE stoker_place_%s gauge\nstoker_place_%s %llu\n", gauges[i].name,
                 gauges[i].help, gauges[i].name, gauges[i].name, (unsigned long long)gauges[i].value);
}

static void on_request(void *self, HttpRequest *request)
{
    Serve *serve = self;
    const char *path = http_path(request);
    CLEANUP(str_done) Str out = str_limited(METRICS_MAX);

    for (Ask ask = 0; ask < ASK_END; ask++)
        if (strcmp(path, paths[ask]) == 0) {
            answer_ask(serve, request, ask);
            return;
        }
    if (strcmp(path, "/healthz") == 0) {
        answer_text(request, 200, "ok\n");
    } else if (strcmp(path, "/metrics") == 0) {
        write_metrics(serve, &out);
        answer_text(request, 200, out.text);
    } else {
        answer_text(request, 404, "there are /filter, /prioritize, /bind, /metrics and /healthz\n");
    }
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static int open_http(Serve *serve, Err *err)
{
    static const char *const hosts[] = {"*.svc", "*.cluster.local", NULL};
    static const char *const kept[] = {"/healthz", "/metrics", NULL};
    HttpConfig http = {.kept = kept,
                       .posts = paths,
                       .hosts = hosts,
                       .listen = serve->o->listen.items,
                       .listen_count = serve->o->listen.len,
                       .web_config = serve->o->web_config && serve->o->web_config[0] ? serve->o->web_config : NULL,
                       .limits = http_default_limits,
                       .handler = on_request,
                       .self = serve,
                       .log = &serve->log};

    http.limits.post_bytes = POST_MAX;
    http.limits.answer_bytes = ANSWERS_MAX;
    return http_server_new(&serve->loop, &http, &serve->http, err);
}

static void on_http_closed(void *self)
{
    Serve *serve = self;

    kube_api_close(TAKE(serve->api));
    uv_close((uv_handle_t *)&serve->timer, NULL);
    for (size_t i = 0; i < ARRAY_LEN(serve->signals); i++)
        uv_close((uv_handle_t *)&serve->signals[i], NULL);
}

static void on_timer(uv_timer_t *timer)
{
    Serve *serve = timer->data;

    (void)is_trusted(serve);
    live_tick(serve->live, uv_hrtime());
    if (serve->stopping && serve->binds == 0 && serve->http)
        http_server_close(TAKE(serve->http), GRACE_NS, on_http_closed, serve);
}

static void on_signal(uv_signal_t *handle, int number UNUSED)
{
    Serve *serve = handle->data;

    serve->stopping = true;
    uv_timer_start(&serve->timer, on_timer, 0, TICK_MS);
}

static void start_handles(Serve *serve)
{
    uv_timer_init(&serve->loop, &serve->timer);
    serve->timer.data = serve;
    uv_timer_start(&serve->timer, on_timer, TICK_MS, TICK_MS);
    for (size_t i = 0; i < ARRAY_LEN(serve->signals); i++) {
        uv_signal_init(&serve->loop, &serve->signals[i]);
        serve->signals[i].data = serve;
        uv_signal_start(&serve->signals[i], on_signal, signals_taken[i]);
    }
}

static int serve_run(VerbCall *call, const void *options)
{
    Serve *serve = arena_calloc(call->arena, 1, sizeof *serve);
    const ServeOptions *o = serve->o = options;
    const PlacementMode *mode = placement_mode_find(o->mode);

    if (!mode)
        return verb_failf(call, EXIT_USAGE, "--mode: no mode '%s'; 'stoker place modes' lists them", o->mode);
    (void)signal(SIGPIPE, SIG_IGN);
    log_init(&serve->log, (LogLevel)o->log_level, LOG_FORMAT_TEXT, "stoker", clock_kernel());
    uv_loop_init(&serve->loop);
    if (open_http(serve, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    serve->live = live_new(o->resource, mode);
    if (open_api(serve, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    start_handles(serve);
    for (size_t i = 0; http_server_url(serve->http, i); i++)
        log_write(&serve->log, LOG_LEVEL_INFO, "listening on %s", http_server_url(serve->http, i));
    uv_run(&serve->loop, UV_RUN_DEFAULT);
    uv_loop_close(&serve->loop);
    live_free(serve->live);
    log_done(&serve->log);
    return EXIT_FINE;
}

static const OptSpec serve_opts[] = {
    OPT_ROW("listen", OPT_LIST, ServeOptions, listen, .def = "127.0.0.1:" PLACE_EXTENDER_PORT, .metavar = "ADDRESS",
            .help = "where kube-scheduler asks: 'ADDRESS:PORT', ':PORT'; several with commas"),
    OPT_ROW("web-config-file", OPT_STRING, ServeOptions, web_config, .metavar = "FILE",
            .help = "Prometheus's web-config file: TLS, client certificates, basic auth"),
    OPT_ROW("kubernetes-account", OPT_STRING, ServeOptions, account, .env = "STOKER_KUBERNETES_ACCOUNT",
            .def = "/var/run/secrets/kubernetes.io/serviceaccount", .metavar = "DIR",
            .help = "folder of the service account: token and ca.crt for the API server"),
    OPT_ROW("kubeconfig", OPT_STRING, ServeOptions, kubeconfig, VERB_KUBECONFIG),
    OPT_ROW("resource", OPT_STRING, ServeOptions, resource, .def = PLACE_RESOURCE, .metavar = "NAME",
            .help = "what pods ask for: whole GPUs"),
    OPT_ROW("mode", OPT_STRING, ServeOptions, mode, .metavar = "MODE", .def = "churn",
            .help = "what to aim for; 'stoker place modes' lists them"),
    OPT_ROW("stale", OPT_DURATION, ServeOptions, stale_ns, .def = "1m", .min = 100e6, .max = 3600e9,
            .help = "after so long without the API server every node fits"),
    OPT_ROW("log-level", OPT_ENUM, ServeOptions, log_level, .env = "STOKER_LOG_LEVEL", .def = "info",
            .names = log_level_names, .help = "the least important message that is written"),
};

const Verb verb_place_serve = {
    .name = "serve",
    .summary = "decide for kube-scheduler on which node and GPUs a pod goes",
    .usage = "[--listen ADDRESS] [--mode MODE] [--resource NAME] [--stale DURATION]",
    .description =
        "A scheduler extender: kube-scheduler asks it about pods that ask for GPUs. It scores the nodes that "
        "kube-scheduler has found fitting, binds the pod, and writes the GPUs that were chosen for it into the pod's "
        "annotation stoker.dev/gpus. 'stoker kubelet --follow-placement' gives it these; with another device plugin "
        "the kubelet takes any. 'stoker place config' prints the configuration that kube-scheduler needs.\n\n"
        "It never holds a pod up: while it knows too little, every node fits; and where it does not answer, or a "
        "binding fails, kube-scheduler goes on alone.\n\n"
        "Whoever can reach it can have pods bound: listen on 127.0.0.1 beside kube-scheduler, or use client "
        "certificates. Its account may list and watch nodes, pods and, where there is dynamic resource allocation, "
        "resourceslices and resourceclaims, get pods and create pods/binding. /metrics says what was decided, /healthz "
        "that it runs.",
    .examples = "stoker place serve\n"
                "stoker place serve --kubeconfig /etc/kubernetes/scheduler.conf --mode balanced",
    .exit_codes = "0  ended by a signal\n"
                  "2  the command line is wrong, or an address cannot be listened on\n"
                  "3  there is no way to ask an API server",
    VERB_OPTS(serve_opts, ServeOptions),
    .no_args = "",
    .run = serve_run,
};
