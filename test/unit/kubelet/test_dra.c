/* SPDX-License-Identifier: Apache-2.0 */
/* service/kubelet/{dra,dra_claims}.c without sockets, programs, daemons and a clock: what the kubelet and the API
 * server are told, and what is done on the host, in order in golden/dra.txt. */
#include <errno.h>
#include <unistd.h>

#include "doubles.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "service/kubelet/dra.h"
#include "service/kubelet/dra.pb-c.h"
#include "service/kubelet/runner.h"

enum { READS_MAX = 80, ORDERS_MAX = 16 };

#define DRIVER "gpu.nvidia.com"

/* --- the doubles -------------------------------------------------------------------------------------------------- */

typedef struct Read {
    void (*done)(void *reader, const json_t *object, const char *why);
    void *reader;
} Read;

typedef struct Order {
    char what[128];
    RunnerDone done;
    void *self;
} Order;

static uv_loop_t loop;
static Read reads[READS_MAX];
static size_t read_count;
static Order orders[ORDERS_MAX];
static size_t order_count;
static MpsState daemon_state;
static bool quiet;
static DriverFiles driver_files;
static Log to_file;
static FILE *log_lines;
static char root[64];

static void show_prepared(size_t len, const uint8_t *bytes)
{
    Dra__PrepareReply *reply = dra__prepare_reply__unpack(NULL, len, bytes);

    for (size_t i = 0; i < reply->n_claims; i++) {
        const Dra__Prepared *value = reply->claims[i]->value;

        str_addf(&trace, " | %s %s", reply->claims[i]->key, value->error);
        for (size_t k = 0; k < value->n_devices; k++)
            str_addf(&trace, " [%s %s %s %s%s]", value->devices[k]->request_names[0], value->devices[k]->pool_name,
                     value->devices[k]->device_name, value->devices[k]->cdi_device_ids[0], value->devices[k]->share_id);
    }
    dra__prepare_reply__free_unpacked(reply, NULL);
}

static void show_unprepared(size_t len, const uint8_t *bytes)
{
    Dra__UnprepareReply *reply = dra__unprepare_reply__unpack(NULL, len, bytes);

    for (size_t i = 0; i < reply->n_claims; i++)
        str_addf(&trace, " | %s %s", reply->claims[i]->key, reply->claims[i]->value->error);
    dra__unprepare_reply__free_unpacked(reply, NULL);
}

static void show_health(size_t len, const uint8_t *bytes)
{
    Dra__HealthList *list = dra__health_list__unpack(NULL, len, bytes);

    for (size_t i = 0; i < list->n_devices; i++) {
        const Dra__DeviceHealth *one = list->devices[i];

        assert_true(one->last_updated_time > 0);
        str_addf(&trace, " | %s %s %d %s within %d s", one->device->pool_name, one->device->device_name, one->health,
                 one->message, (int)one->health_check_timeout_seconds);
    }
    dra__health_list__free_unpacked(list, NULL);
}

static void show_info(size_t len, const uint8_t *bytes)
{
    Dra__PluginInfo *info = dra__plugin_info__unpack(NULL, len, bytes);

    str_addf(&trace, " %s %s %s", info->type, info->name, info->endpoint);
    for (size_t i = 0; i < info->n_supported_versions; i++)
        str_addf(&trace, " %s", info->supported_versions[i]);
    dra__plugin_info__free_unpacked(info, NULL);
}

void grpc_stream_send(GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    str_addf(&trace, "to %s:", stream->name);
    if (strcmp(stream->method, "NodePrepareResources") == 0)
        show_prepared(len, bytes);
    else if (strcmp(stream->method, "NodeUnprepareResources") == 0)
        show_unprepared(len, bytes);
    else if (strcmp(stream->method, "NodeWatchResources") == 0)
        show_health(len, bytes);
    else if (strcmp(stream->method, "GetInfo") == 0)
        show_info(len, bytes);
    else
        str_addf(&trace, " %d bytes", (int)len);
    str_addc(&trace, '\n');
}

Runner *runner_new(uv_loop_t *on, const char *driver_root)
{
    static int it;

    (void)on, (void)driver_root;
    return (Runner *)&it;
}

void runner_add(Runner *runner, const RunnerSpec *spec)
{
    (void)runner;
    assert_true(order_count < ORDERS_MAX);
    str_addf(&trace, "%zu run%s", order_count, spec->of_driver ? " of the driver" : "");
    for (size_t i = 0; i < RUNNER_ARGS_MAX && spec->argv[i]; i++)
        str_addf(&trace, " %s", spec->argv[i]);
    str_addc(&trace, '\n');
    Order *order = &orders[order_count++];
    *order = (Order){.done = spec->done, .self = spec->self};
    snprintf(order->what, sizeof order->what, "%s", spec->what);
}

void runner_forget(Runner *runner, const void *self)
{
    (void)runner;
    for (size_t i = 0; i < order_count; i++)
        if (orders[i].self == self)
            orders[i].done = NULL;
}

void runner_close(Runner *runner)
{
    (void)runner;
}

void mps_keeper_want(MpsKeeper *keeper, const MpsDaemonConfig *configs, size_t count)
{
    (void)keeper;
    str_add(&trace, "daemons:");
    for (size_t i = 0; i < count; i++)
        str_addf(&trace, " %s", configs[i].name);
    str_addc(&trace, '\n');
}

MpsState mps_keeper_state(const MpsKeeper *keeper, const char *name, const char *uuid, char why[MPS_WHY_CAP])
{
    (void)keeper;
    str_addf(&trace, "daemon %s of %s: %s\n", name, uuid, mps_states[daemon_state].key);
    snprintf(why, MPS_WHY_CAP, "%s", daemon_state == MPS_FAILED ? "no program" : "");
    return daemon_state;
}

const WordRow mps_states[MPS_STATE_END] = {
    {"absent", NULL}, {"starting", NULL}, {"ready", NULL}, {"failed", NULL}, {"ending", NULL}};

static void *read_object(void *self, const char *path,
                         void (*done)(void *reader, const json_t *object, const char *why), void *reader)
{
    (void)self;
    assert_true(read_count < READS_MAX);
    if (!quiet)
        str_addf(&trace, "%zu read %s\n", read_count, path);
    reads[read_count] = (Read){done, reader};
    return &reads[read_count++];
}

static void cancel_read(void *self, void *reading)
{
    (void)self;
    if (!quiet)
        str_addf(&trace, "%td cancelled\n", (Read *)reading - reads);
}

static void publish(void *self, json_t *devices, json_t *counters, json_t *tainted)
{
    char *texts[] = {json_dumps(devices, JSON_COMPACT), json_dumps(counters, JSON_COMPACT),
                     json_dumps(tainted, JSON_COMPACT)};

    (void)self;
    str_addf(&trace, "publish %s\n  counters %s\n  tainted %s\n", texts[0], texts[1], texts[2]);
    for (size_t i = 0; i < 3; i++)
        free(texts[i]);
    json_decref(devices);
    json_decref(counters);
    json_decref(tainted);
}

static void look_at_slices(void *self)
{
    (void)self;
    str_add(&trace, "look at what is published\n");
}

static void find_files(void *self, Arena *arena, DriverFiles *ret)
{
    (void)self, (void)arena;
    *ret = driver_files;
}

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static DraConfig config;
static Dra *dra;
static Box *box;
static Offer offer;
static char plugins[96], registry[96], cdi[96], claims_file[160];

static void add_log(void)
{
    char line[1024];

    rewind(log_lines);
    while (fgets(line, sizeof line, log_lines)) {
        const char *text = strstr(line, "claim");

        str_addf(&trace, "log %s", text ? text : line);
    }
    assert_int_equal(ftruncate(fileno(log_lines), 0), 0);
    rewind(log_lines);
}

static int set_up(void **state)
{
    static const DriverNode nodes[] = {{"/dev/nvidia-uvm", 511, 0}, {"/dev/nvidiactl", 195, 255}};
    static const DriverNode gpu_nodes[] = {
        {"/dev/nvidia0", 195, 0}, {"/dev/nvidia1", 195, 1}, {"/dev/nvidia2", 195, 2}};

    (void)state;
    now_ns = 1000 * NS_PER_S;
    server_count = read_count = order_count = 0;
    daemon_state = MPS_READY;
    refuse = quiet = false;
    driver_files = (DriverFiles){.nodes = nodes, .node_count = 2, .gpus = gpu_nodes, .gpu_count = 3};
    snprintf(root, sizeof root, "/tmp/stoker-dra-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(plugins, sizeof plugins, "%s/plugins", root);
    snprintf(registry, sizeof registry, "%s/registry", root);
    snprintf(cdi, sizeof cdi, "%s/cdi", root);
    snprintf(claims_file, sizeof claims_file, "%s/%s/claims.json", plugins, DRIVER);
    log_lines = tmpfile();
    assert_non_null(log_lines);
    log_init(&to_file, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    to_file.fd = fileno(log_lines);
    box = make_box(3);
    for (uint32_t i = 0; i < 3; i++)
        box->gpus[i].reading.device.minor = i;
    offer = offer_of(box, &(OfferConfig){0});
    config = (DraConfig){.driver = DRIVER,
                         .node = "node-7",
                         .plugins = plugins,
                         .registry = registry,
                         .cdi_root = cdi,
                         .boot_id = "boot-1",
                         .library = "/lib/nvml",
                         .mps_root = "/run/mps",
                         .grant = {.dev_root = ""},
                         .port = {read_object, cancel_read, publish, look_at_slices, find_files},
                         .log = &to_file};
    return uv_loop_init(&loop);
}

static void close_dra(void)
{
    dra_close(dra);
    dra = NULL;
    uv_run(&loop, UV_RUN_NOWAIT);
}

static int tear_down(void **state)
{
    (void)state;
    str_add(&trace, "# the end\n");
    close_dra();
    assert_int_equal(uv_loop_close(&loop), 0);
    offer_done(&offer);
    offer = (Offer){0};
    free(box);
    fclose(log_lines);
    return file_remove_tree("/tmp", root + strlen("/tmp/"), NULL);
}

static void begin(const char *title)
{
    str_addf(&trace, "# %s\n", title);
}

static void set_devices(const char *json)
{
    CLEANUP(str_done) Str text = str_limited(10000);
    Err err = {0};

    str_add(&text, json);
    if (dra_set_devices(dra, &text, &err) < 0)
        str_addf(&trace, "error %s\n", err.text);
    add_log();
}

#define GPU(n) "{\"name\":\"gpu-" n "\",\"attributes\":{\"uuid\":{\"string\":\"GPU-" n "\"}}}"
#define LIST(devices) "{\"devices\":[" devices "],\"sharedCounters\":[]}"
#define ALL LIST(GPU("0") "," GPU("1") "," GPU("2"))

static void open_dra(void)
{
    Err err = {0};

    if (dra_new(&loop, &config, &dra, &err) < 0) {
        str_addf(&trace, "error %s\n", err.text);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    add_log();
}

/* With all three GPUs, and without what was told of them. */
static void open_with_gpus(void)
{
    const size_t from = trace.len;

    open_dra();
    dra_offer(dra, &offer);
    set_devices(ALL);
    str_cut(&trace, from);
}

static void look(uint64_t ns)
{
    now_ns += ns;
    timer->timer_cb(timer);
    add_log();
}

static void call(GrpcStream *stream, const void *bytes, size_t len)
{
    for (size_t s = server_count; s-- > 0;) /* the newest first */
        for (size_t i = 0; i < servers[s].count; i++)
            if (strcmp(strrchr(servers[s].methods[i].path, '/') + 1, stream->method) == 0) {
                servers[s].methods[i].call(servers[s].self, stream, bytes, len);
                add_log();
                return;
            }
    fail_msg("no method %s", stream->method);
}

static void give_up(GrpcStream *stream)
{
    for (size_t s = server_count; s-- > 0;)
        for (size_t i = 0; i < servers[s].count; i++)
            if (strcmp(strrchr(servers[s].methods[i].path, '/') + 1, stream->method) == 0) {
                servers[s].methods[i].gone(servers[s].self, stream);
                return;
            }
}

/* The claims "u", "v", ... of a call are named after their uids. */
static void ask(const char *method, GrpcStream *stream, const char *uids)
{
    char uid[16][80], name[16][16], namespace[] = "ml";
    Dra__Claim claims[16], *at[16];
    Dra__Claims request;
    uint8_t bytes[4096];
    size_t count = 0;
    int len;

    for (; sscanf(uids, "%79s%n", uid[count], &len) == 1; uids += len, count++) {
        dra__claim__init(&claims[count]);
        snprintf(name[count], sizeof name[count], "c-%.8s", uid[count]);
        claims[count].uid = uid[count];
        claims[count].name = name[count];
        claims[count].namespace_ = namespace;
        at[count] = &claims[count];
    }
    dra__claims__init(&request);
    request.claims = at;
    request.n_claims = count;
    stream->method = method;
    call(stream, bytes, dra__claims__pack(&request, bytes));
}

static GrpcStream pod = {"a pod", "NodePrepareResources"};

static void prepare(const char *uids)
{
    ask("NodePrepareResources", &pod, uids);
}

static void unprepare(const char *uids)
{
    ask("NodeUnprepareResources", &pod, uids);
}

#define RESULT(request, device)                                                                                        \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"node-7\",\"device\":\"" device "\"}"
#define ADMIN(request, device)                                                                                         \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"node-7\",\"device\":\"" device                  \
    "\",\"adminAccess\":true}"
#define TOLERATES(request, device)                                                                                     \
    "{\"request\":\"" request "\",\"driver\":\"" DRIVER "\",\"pool\":\"node-7\",\"device\":\"" device                  \
    "\",\"tolerations\":[{\"operator\":\"Exists\"}]}"
#define CONFIG(sharing)                                                                                                \
    "{\"source\":\"FromClaim\",\"requests\":[],\"opaque\":{\"driver\":\"" DRIVER                                       \
    "\",\"parameters\":{\"apiVersion\":\"resource.nvidia.com/v1beta1\",\"kind\":\"GpuConfig\",\"sharing\":" sharing    \
    "}}}"
#define SLICE(interval) "{\"strategy\":\"TimeSlicing\",\"timeSlicingConfig\":{\"interval\":\"" interval "\"}}"
#define MPS "{\"strategy\":\"MPS\",\"mpsConfig\":{}}"

/* The API server's answer to a reading; results NULL: it has none. */
static void answer(size_t i, const char *uid, const char *results, const char *configs)
{
    char text[4096];

    snprintf(text, sizeof text,
             "{\"metadata\":{\"uid\":\"%s\",\"name\":\"c-%.8s\",\"namespace\":\"ml\"},"
             "\"status\":{\"allocation\":{\"devices\":{\"results\":[%s],\"config\":[%s]}}}}",
             uid, uid, results ? results : "", configs);
    json_t *object = results ? json_loads(text, 0, NULL) : NULL;
    assert_true(object || !results);
    assert_true(i < read_count && reads[i].done);
    reads[i].done(reads[i].reader, object, "no such claim");
    reads[i].done = NULL;
    json_decref(object);
    add_log();
}

/* The last reading's. */
static void answer_last(const char *uid, const char *results, const char *configs)
{
    answer(read_count - 1, uid, results, configs);
}

/* A program ends, having printed `out`; why NULL: well. */
static void end_order(size_t i, const char *out, const char *why)
{
    Err err = {0};

    assert_true(i < order_count);
    str_addf(&trace, "%zu ended: %s\n", i, why ? why : out);
    if (why)
        (void)err_set(&err, -EIO, "%s: %s", orders[i].what, why);
    if (orders[i].done)
        orders[i].done(orders[i].self, out, why ? &err : NULL);
    orders[i].done = NULL;
    add_log();
}

/* --- registration ------------------------------------------------------------------------------------------------- */

static void the_kubelet_finds_it_when_devices_are_known(void **state)
{
    GrpcStream info = {"the kubelet", "GetInfo"}, status = {"the kubelet", "NotifyRegistrationStatus"};
    Dra__RegistrationStatus words;
    char why[] = "no room";
    uint8_t bytes[64];

    (void)state;
    begin("registration");
    open_dra();
    look(0);
    dra_offer(dra, &offer);
    set_devices("{\"devices\":[]}");
    set_devices(LIST(""));
    call(&info, NULL, 0);
    dra__registration_status__init(&words);
    words.plugin_registered = true;
    call(&status, bytes, dra__registration_status__pack(&words, bytes));
    words.plugin_registered = false;
    words.error = why;
    call(&status, bytes, dra__registration_status__pack(&words, bytes));
    call(&status, "\xff", 1);
    begin("its sockets are removed, and cannot be made");
    servers[0].there = false;
    refuse = true;
    look(0);
    look(0); /* it is said once */
    refuse = false;
    look(0);
    begin("that of the registration alone");
    servers[1].there = false;
    look(0);
    look(0);
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

static void set_healthy(size_t i, bool healthy)
{
    OfferUnit *unit = &offer.resources.at[0].units.at[i];

    unit->healthy = healthy;
    snprintf(unit->why, sizeof unit->why, "%s", healthy ? "" : "it hangs: reset it");
    snprintf(unit->incident, sizeof unit->incident, "%s", healthy ? "" : "1abc");
}

/* One that is lost is described as before, and has a taint; one that is not offered any more is gone. */
static void devices_are_published_with_their_taints(void **state)
{
    static const char full[] =
        "{\"devices\":[{\"name\":\"gpu-0\",\"attributes\":{\"uuid\":{\"string\":\"GPU-0\"},\"arch\":{\"string\":"
        "\"Hopper\"}},"
        "\"consumesCounters\":[{\"counterSet\":\"set-0\"}]}," GPU("1") ",{\"name\":\"gpu-9\"}],\"sharedCounters\":[{"
                                                                       "\"name\":\"set-0\"},{\"name\":\"set-1\"}]}";

    (void)state;
    begin("devices");
    open_dra();
    set_devices(full);
    dra_offer(dra, &offer);
    begin("one hangs, and says less of itself");
    set_healthy(0, false);
    dra_offer(dra, &offer);
    set_devices(ALL);
    begin("it says nothing any more");
    set_devices(LIST(GPU("1")));
    begin("it is well again");
    set_healthy(0, true);
    set_devices(ALL);
    begin("one is not offered any more");
    offer.resources.at[0].units.len = 2;
    set_devices(LIST(GPU("0") "," GPU("1")));
    dra_offer(dra, &offer);
}

static void health_is_told_to_who_watches(void **state)
{
    static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    GrpcStream streams[ARRAY_LEN(names)];

    (void)state;
    begin("health");
    open_with_gpus();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        streams[i] = (GrpcStream){names[i], "NodeWatchResources"};
        call(&streams[i], NULL, 0); /* the ninth is one too many */
    }
    for (size_t i = 1; i < 8; i++)
        give_up(&streams[i]);
    begin("a change");
    set_healthy(1, false);
    dra_offer(dra, &offer);
    begin("again every 8 s");
    for (int i = 0; i < 15; i++)
        look(0);
    begin("now");
    look(0);
    for (int i = 0; i < 15; i++)
        look(0);
    begin("now");
    look(0);
}

/* --- claims ------------------------------------------------------------------------------------------------------- */

static void show_files(void)
{
    static const char *const uids[] = {"u", "v", "w"};
    char path[256];

    for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
        snprintf(path, sizeof path, "%s/k8s." DRIVER "-claim_%s.json", cdi, uids[i]);
        str_addf(&trace, "%s%s", i ? " " : "files: ", access(path, F_OK) == 0 ? uids[i] : "-");
    }
    str_addc(&trace, '\n');
}

static void a_claim_is_prepared_and_unprepared(void **state)
{
    GrpcStream late = {"a pod that waits", "NodePrepareResources"};

    (void)state;
    begin("claims");
    open_with_gpus();
    prepare("u v");
    answer(0, "u", RESULT("a", "gpu-0") "," RESULT("b/x", "gpu-2"), "");
    answer(1, "v", RESULT("a", "gpu-1"), "");
    show_files();
    begin("again: the same answer, without a reading");
    prepare("v");
    begin("what another has");
    prepare("w");
    answer_last("w", RESULT("a", "gpu-1"), "");
    begin("to look at it alone");
    prepare("w");
    answer_last("w", ADMIN("a", "gpu-1"), "");
    show_files();
    begin("unprepared, also twice and where it is not known");
    unprepare("v w x");
    unprepare("v");
    show_files();
    begin("unprepared while it is being prepared");
    ask("NodePrepareResources", &late, "v");
    unprepare("v");
    begin("by two calls at once");
    ask("NodePrepareResources", &late, "v");
    prepare("v");
    answer(read_count - 2, "v", RESULT("a", "gpu-1"), "");
    answer_last("v", RESULT("a", "gpu-1"), "");
    begin("a pod that gives up");
    ask("NodePrepareResources", &late, "w");
    give_up(&late);
    begin("none at all");
    prepare("");
    unprepare("");
}

static void what_cannot_be_prepared_is_said(void **state)
{
    char large[80], path[256];

    (void)state;
    begin("what cannot be prepared");
    open_with_gpus();
    prepare("u");
    answer_last("u", NULL, "");
    prepare("u");
    answer_last("other", RESULT("a", "gpu-0"), "");
    prepare("u");
    answer_last("u", RESULT("a", "gpu-7"), "");
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), CONFIG("{}"));
    set_healthy(0, false);
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
    begin("unhealthy, and wanted so");
    prepare("u");
    answer_last("u", TOLERATES("a", "gpu-0"), "");
    unprepare("u");
    set_healthy(0, true);
    begin("no device file");
    driver_files.gpu_count = 0;
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
    driver_files.gpu_count = 3;
    begin("names that are none");
    prepare(".u");
    prepare("u/v");
    call(&pod, "\x0a\x02\x12\x00", 4); /* a claim without names */
    begin("a uid of 64 characters, and of one more: that is nobody's");
    memset(large, 'u', 65);
    for (size_t len = 65; len >= 64; len--) {
        large[len] = '\0';
        snprintf(path, sizeof path, "%s/k8s." DRIVER "-claim_%s.json", cdi, large);
        assert_int_equal(file_write(path, "", 0, 0644, NULL), 0);
        unprepare(large);
        assert_int_equal(access(path, F_OK), len == 64 ? -1 : 0);
    }
    begin("nonsense");
    call(&(GrpcStream){"nonsense", "NodePrepareResources"}, "\xff", 1);
    call(&(GrpcStream){"nonsense", "NodeUnprepareResources"}, "\xff", 1);
    begin("as many as there can be, and one more");
    uint8_t many[65 * 11];
    for (size_t i = 0; i < 65; i++)
        memcpy(many + 11 * i,
               "\x0a\x09\x0a\x01n\x12\x01u\x1a\x01"
               "c",
               11);
    quiet = true;
    call(&(GrpcStream){"many", "NodePrepareResources"}, many, 64 * 11);
    assert_true(read_count >= 64);
    call(&(GrpcStream){"too many", "NodePrepareResources"}, many, 65 * 11);
}

/* What cannot be kept is not prepared, and what cannot be taken from the file stays prepared. */
static void claims_are_in_the_file_first(void **state)
{
    (void)state;
    begin("the file of claims cannot be written");
    open_with_gpus();
    assert_int_equal(file_make_dirs(claims_file, 0755, NULL), 0); /* a folder is in its place */
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
    show_files();
    assert_int_equal(rmdir(claims_file), 0);
    begin("now it can");
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
    prepare("v");
    answer_last("v", RESULT("a", "gpu-1"), "");
    show_files();
    begin("and again not");
    assert_int_equal(unlink(claims_file), 0);
    assert_int_equal(file_make_dirs(claims_file, 0755, NULL), 0);
    unprepare("u");
    assert_int_equal(rmdir(claims_file), 0);
    begin("both are still prepared");
    prepare("u v");
    unprepare("v");
    begin("its file for the runtime is written again");
    dra_keep_files(dra);
    show_files();
    begin("without a device file it is not, which is said once");
    driver_files.gpu_count = 0;
    dra_keep_files(dra);
    dra_keep_files(dra);
    add_log();
    driver_files.gpu_count = 3;
    unprepare("u");
    begin("the file for the runtime cannot be written");
    assert_int_equal(rmdir(cdi), 0);
    assert_int_equal(file_write(cdi, "", 0, 0644, NULL), 0);
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
    assert_int_equal(unlink(cdi), 0);
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), "");
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

static void time_slices_are_set_and_reset(void **state)
{
    (void)state;
    begin("time slices");
    open_with_gpus();
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0") "," RESULT("b", "gpu-1"), CONFIG(SLICE("Long")));
    end_order(0, "", NULL);
    end_order(1, "", "exit code 2");
    begin("the claim stays, and is tried again");
    prepare("u");
    end_order(2, "", NULL);
    end_order(3, "", NULL);
    begin("it leaves when both are as before");
    unprepare("u");
    prepare("v");
    answer_last("v", RESULT("a", "gpu-0"), "");
    end_order(4, "", NULL);
    end_order(5, "", "exit code 3");
    begin("unprepared while they are set");
    prepare("w");
    answer_last("w", RESULT("a", "gpu-2"), CONFIG(SLICE("Short")));
    unprepare("w");
    end_order(6, "", NULL);
    end_order(7, "", NULL);
}

static void a_claim_waits_for_its_daemon(void **state)
{
    (void)state;
    begin("daemons");
    open_with_gpus();
    daemon_state = MPS_STARTING;
    prepare("u");
    answer_last("u", RESULT("a", "gpu-0"), CONFIG(MPS));
    look(30 * NS_PER_S - 1);
    begin("after 30 s");
    look(1);
    begin("it is ready");
    prepare("u");
    daemon_state = MPS_READY;
    look(0);
    begin("it has failed");
    daemon_state = MPS_FAILED;
    prepare("u");
    begin("unprepared");
    unprepare("u");
}

/* --- MIG devices that are made ------------------------------------------------------------------------------------ */

#define SLOT(start) "gpu-0-mig-1g10gb-19-" start
#define MIG(start) "{\"name\":\"" SLOT(start) "\",\"attributes\":{\"parentUUID\":{\"string\":\"GPU-0\"}}}"

/* GPU 0 in MIG mode, with the instances that are there. */
static void offer_mig(size_t instances)
{
    Offer before = offer;

    split(box, 0, instances, "1g.10gb");
    for (size_t i = 0; i < instances; i++)
        box->instances[0][i].device.minor = 0;
    offer = (Offer){0};
    offer = offer_of(box, &(OfferConfig){.mig = OFFER_MIG_MIXED});
    for (size_t r = 0; r < offer.resources.len; r++)
        for (size_t i = 0; i < offer.resources.at[r].units.len; i++)
            if (offer.resources.at[r].units.at[i].profile[0]) {
                offer.resources.at[r].units.at[i].gi_minor = 30;
                offer.resources.at[r].units.at[i].ci_minor = 31;
                offer.resources.at[r].units.at[i].device.minor = 0;
            }
    dra_offer(dra, &offer);
    offer_done(&before);
    add_log();
}

static void instances_are_made_for_a_claim(void **state)
{
    (void)state;
    begin("instances");
    open_dra();
    set_devices(LIST(MIG("4") "," MIG("5") "," GPU("1")));
    offer_mig(0);
    prepare("u");
    answer_last("u", RESULT("a", SLOT("4")) "," RESULT("b", SLOT("5")) "," RESULT("c", "gpu-1"), "");
    begin("nobody else gets them, and nobody looks at them yet");
    prepare("v");
    answer_last("v", RESULT("a", SLOT("4")), "");
    prepare("v");
    answer_last("v", ADMIN("a", SLOT("4")), "");
    begin("one is made, the other is not");
    end_order(0, "MIG-0-0", NULL);
    end_order(1, "", "no room");
    begin("the first is offered; tried again, the second is made");
    offer_mig(1);
    prepare("u");
    end_order(2, "MIG-0-1", NULL);
    begin("30 s later it is not offered yet");
    look(30 * NS_PER_S - 1);
    begin("now");
    look(1);
    begin("again: what is not offered is made again, and then it is");
    prepare("u");
    end_order(3, "MIG-0-1", NULL);
    offer_mig(2);
    show_files();
    begin("looked at by another");
    prepare("v");
    answer_last("v", ADMIN("a", SLOT("4")), "");
    unprepare("v");
    begin("removed when it is unprepared; one is in use");
    order_count = 0;
    unprepare("u");
    prepare("v");
    answer_last("v", RESULT("a", SLOT("4")), "");
    end_order(0, "", "in use");
    end_order(1, "", NULL);
    look(5 * NS_PER_S - 1);
    begin("again after 5 s, both; it is said once");
    look(1);
    end_order(2, "", "in use");
    end_order(3, "", NULL);
    look(5 * NS_PER_S);
    end_order(4, "", NULL);
    end_order(5, "", NULL);
    begin("it has left");
    prepare("v");
    answer_last("v", RESULT("a", SLOT("4")), "");
}

/* --- restarts ----------------------------------------------------------------------------------------------------- */

static void claims_outlive_the_process(void **state)
{
    (void)state;
    begin("a restart");
    open_with_gpus();
    prepare("u v");
    answer(0, "u", RESULT("a", "gpu-0"), CONFIG(MPS));
    answer(1, "v", RESULT("a", "gpu-1"), CONFIG(SLICE("Short")));
    end_order(0, "", NULL);
    unprepare("v");
    close_dra();
    open_dra();
    set_devices(ALL);
    dra_offer(dra, &offer);
    show_files();
    end_order(2, "", NULL);
    prepare("u");
    begin("after a reboot there are none");
    close_dra();
    config.boot_id = "boot-2";
    open_dra();
    show_files();
    close_dra();
    begin("a file that cannot be read");
    assert_int_equal(file_write(claims_file, "{}", 2, 0600, NULL), 0);
    open_dra();
    dra = NULL;
    dra_close(dra);
}

/* Calls that are under way end with the server. */
static void a_lost_socket_ends_its_calls(void **state)
{
    GrpcStream watcher = {"a watcher", "NodeWatchResources"};

    (void)state;
    begin("a socket is lost");
    open_with_gpus();
    call(&watcher, NULL, 0);
    prepare("u");
    servers[0].there = false;
    look(0);
    dra_offer(dra, &offer);
}

/* Names that are drawn are left out: of the folder of a test, and of a file before it is renamed. */
static void all_of_it_is_as_in_the_file(void **state)
{
    static const char *const drawn[] = {"/tmp/stoker-dra-XXXXXX", "claims.json.XXXXXX"};
    CLEANUP(str_done) Str out = str_limited(GOLDEN_MAX);

    (void)state;
    for (const char *at = trace.text; *at;) {
        size_t i = 0;

        while (i < ARRAY_LEN(drawn) && strncmp(at, drawn[i], strlen(drawn[i]) - 6) != 0)
            i++;
        if (i == ARRAY_LEN(drawn))
            str_addc(&out, *at++);
        else
            at += strlen(drawn[i]);
    }
    assert_golden(GOLDEN "/dra.txt", &out);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(the_kubelet_finds_it_when_devices_are_known),
        TEST(devices_are_published_with_their_taints),
        TEST(health_is_told_to_who_watches),
        TEST(a_claim_is_prepared_and_unprepared),
        TEST(what_cannot_be_prepared_is_said),
        TEST(claims_are_in_the_file_first),
        TEST(time_slices_are_set_and_reset),
        TEST(a_claim_waits_for_its_daemon),
        TEST(instances_are_made_for_a_claim),
        TEST(claims_outlive_the_process),
        TEST(a_lost_socket_ends_its_calls),
        cmocka_unit_test(all_of_it_is_as_in_the_file), /* the last: of the trace of all before it */
    };

    return cmocka_run_group_tests(tests, open_trace, close_trace);
}
