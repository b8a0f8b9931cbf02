/* SPDX-License-Identifier: Apache-2.0 */
/* service/kubelet/plugin.c without sockets and a clock: what the kubelet is told, asks for and gets, in order in
 * golden/plugin.txt. */
#include <errno.h>
#include <unistd.h>

#include "doubles.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "service/kubelet/deviceplugin.pb-c.h"
#include "service/kubelet/kubelet.h"

enum { WATCHERS = 8 };

/* --- the doubles -------------------------------------------------------------------------------------------------- */

typedef struct Registration {
    GrpcDone done;
    void *self;
} Registration;

static uv_loop_t loop;
static Registration registration; /* under way; done NULL: none is */
static Log to_file;
static FILE *log_lines;

void grpc_stream_send(GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    str_addf(&trace, "to %s:", stream->name);
    if (strcmp(stream->method, "ListAndWatch") == 0) {
        Deviceplugin__DeviceList *list = deviceplugin__device_list__unpack(NULL, len, bytes);

        for (size_t i = 0; i < list->n_devices; i++) {
            const Deviceplugin__Device *one = list->devices[i];

            str_addf(&trace, " %s %s", one->id, one->health);
            if (one->topology)
                str_addf(&trace, " NUMA %d", (int)one->topology->nodes[0]->id);
        }
        deviceplugin__device_list__free_unpacked(list, NULL);
    } else if (strcmp(stream->method, "GetDevicePluginOptions") == 0) {
        Deviceplugin__Options *options = deviceplugin__options__unpack(NULL, len, bytes);

        str_addf(&trace, " prefers %d, starts %d", options->get_preferred_allocation_available,
                 options->pre_start_required);
        deviceplugin__options__free_unpacked(options, NULL);
    } else if (strcmp(stream->method, "GetPreferredAllocation") == 0) {
        Deviceplugin__PreferReply *reply = deviceplugin__prefer_reply__unpack(NULL, len, bytes);

        for (size_t i = 0; i < reply->n_containers; i++)
            for (size_t k = 0; k < reply->containers[i]->n_ids; k++)
                str_addf(&trace, "%s %s", k ? "" : " |", reply->containers[i]->ids[k]);
        deviceplugin__prefer_reply__free_unpacked(reply, NULL);
    } else if (strcmp(stream->method, "Allocate") == 0) {
        Deviceplugin__AllocateReply *reply = deviceplugin__allocate_reply__unpack(NULL, len, bytes);

        for (size_t i = 0; i < reply->n_containers; i++)
            str_addf(&trace, " | %s=%s", reply->containers[i]->envs[0]->key, reply->containers[i]->envs[0]->value);
        deviceplugin__allocate_reply__free_unpacked(reply, NULL);
    } else {
        str_addf(&trace, " %d bytes", (int)len);
    }
    str_addc(&trace, '\n');
}

GrpcCall *grpc_call_new(uv_loop_t *on, const char *socket, const GrpcRequest *request, GrpcDone done, void *self)
{
    Deviceplugin__RegisterRequest *read = deviceplugin__register_request__unpack(NULL, request->len, request->bytes);

    (void)on;
    str_addf(&trace, "call %s %s within %d ms, %d bytes: %s %s %s, prefers %d\n", strrchr(socket, '/'), request->method,
             (int)(request->timeout_ns / NS_PER_MS), (int)request->reply_max, read->version, read->resource_name,
             read->endpoint, read->options->get_preferred_allocation_available);
    deviceplugin__register_request__free_unpacked(read, NULL);
    assert_null(registration.done);
    registration = (Registration){done, self};
    return (GrpcCall *)&registration;
}

void grpc_call_cancel(GrpcCall *call)
{
    str_addf(&trace, "cancelled%s\n", call ? "" : ": nothing");
    registration = (Registration){0};
}

/* --- the rig ------------------------------------------------------------------------------------------------------ */

static char folder[64], kubelet_socket[96];
static Kubelet *kubelet;
static Box *box;
static Offer offer;

static void add_log(void)
{
    char line[1024];

    rewind(log_lines);
    while (fgets(line, sizeof line, log_lines)) {
        const char *text = strstr(line, "nvidia.com/");

        str_addf(&trace, "log %s", text ? text : line);
    }
    assert_int_equal(ftruncate(fileno(log_lines), 0), 0);
    rewind(log_lines);
}

/* The kubelet starts: its socket is another file. */
static void start_kubelet(void)
{
    char old[128];

    snprintf(old, sizeof old, "%s.old", kubelet_socket);
    (void)rename(kubelet_socket, old); /* so that its inode is not used again */
    assert_int_equal(file_write(kubelet_socket, "", 0, 0644, NULL), 0);
}

static int set_up(void **state)
{
    (void)state;
    now_ns = 1000 * NS_PER_S;
    server_count = 0;
    registration = (Registration){0};
    refuse = false;
    snprintf(folder, sizeof folder, "/tmp/stoker-plugin-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(kubelet_socket, sizeof kubelet_socket, "%s/kubelet.sock", folder);
    log_lines = tmpfile();
    assert_non_null(log_lines);
    log_init(&to_file, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "test", clock_kernel());
    to_file.fd = fileno(log_lines);
    box = make_box(3);
    box->places[1].numa_node = -1;
    offer = offer_of(box, &(OfferConfig){0});
    return uv_loop_init(&loop);
}

static int tear_down(void **state)
{
    (void)state;
    kubelet_close(kubelet);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&loop), 0);
    offer_done(&offer);
    offer = (Offer){0};
    free(box);
    fclose(log_lines);
    return file_remove_tree("/tmp", folder + strlen("/tmp/"), NULL);
}

static void begin(const char *title)
{
    str_addf(&trace, "# %s\n", title);
}

static void open_kubelet(const char *socket)
{
    kubelet = kubelet_new(&loop, &(KubeletConfig){.dir = "/plugins",
                                                  .socket = socket,
                                                  .grant = {.envvar = true, .root = "", .dev_root = ""},
                                                  .log = &to_file});
    kubelet_offer(kubelet, &offer, &box->snapshot);
    add_log();
}

/* Time passes, and it is looked after all. */
static void look(uint64_t ns)
{
    now_ns += ns;
    timer->timer_cb(timer);
    add_log();
}

static void answer(GrpcOutcome outcome, GrpcStatus status, const char *text)
{
    const Registration it = registration;

    assert_non_null(it.done);
    registration = (Registration){0};
    it.done(it.self, &(GrpcReply){.outcome = outcome, .status = status, .text = text});
    add_log();
}

static void call(size_t server, GrpcStream *stream, const void *bytes, size_t len)
{
    const struct GrpcServer *at = &servers[server];

    for (size_t i = 0; i < at->count; i++)
        if (strcmp(strrchr(at->methods[i].path, '/') + 1, stream->method) == 0) {
            at->methods[i].call(at->self, stream, bytes, len);
            add_log();
            return;
        }
    fail_msg("no method %s", stream->method);
}

static void give_up(size_t server, GrpcStream *stream)
{
    for (size_t i = 0; i < servers[server].count; i++)
        if (strcmp(strrchr(servers[server].methods[i].path, '/') + 1, stream->method) == 0)
            servers[server].methods[i].gone(servers[server].self, stream);
}

/* --- registration ------------------------------------------------------------------------------------------------- */

/* A kubelet that took it asks for the list within 5 s, and is told again after longer and longer times where it does
 * not; a new one is told at once. */
static void a_kubelet_is_told_until_it_asks(void **state)
{
    GrpcStream list = {"the kubelet", "ListAndWatch"}, second = {"the next kubelet", "ListAndWatch"};

    (void)state;
    begin("no kubelet yet");
    open_kubelet(kubelet_socket);
    look(NS_PER_S / 2);
    begin("it starts, and refuses");
    start_kubelet();
    look(NS_PER_S / 2);
    look(NS_PER_S / 2); /* under way */
    answer(GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "connection refused");
    look(NS_PER_S - 1);
    begin("after a second, then after two");
    look(1);
    answer(GRPC_ANSWERED, GRPC_UNKNOWN, "no");
    look(2 * NS_PER_S - 1);
    look(1);
    begin("it takes it and does not ask for the list: told again after 20 s, as these were two failures");
    answer(GRPC_ANSWERED, GRPC_OK, "");
    look(20 * NS_PER_S - 1);
    look(1);
    answer(GRPC_ANSWERED, GRPC_OK, "");
    begin("it asks");
    call(0, &list, NULL, 0);
    look(3600 * NS_PER_S);
    begin("it gives up, and has 5 s to ask again");
    give_up(0, &list);
    look(5 * NS_PER_S - 1);
    look(1);
    answer(GRPC_ANSWERED, GRPC_OK, "");
    call(0, &list, NULL, 0);
    begin("another kubelet starts");
    start_kubelet();
    look(NS_PER_S / 2);
    answer(GRPC_ANSWERED, GRPC_OK, "");
    call(0, &second, NULL, 0);
    begin("that removed our socket");
    servers[0].there = false;
    look(NS_PER_S / 2);
    answer(GRPC_ANSWERED, GRPC_OK, "");
    begin("again, and it cannot be made");
    servers[1].there = false;
    refuse = true;
    look(NS_PER_S / 2);
    refuse = false;
    look(NS_PER_S / 2);
}

/* The pauses are doubled six times at most. */
static void pauses_have_an_end(void **state)
{
    (void)state;
    begin("pauses");
    start_kubelet();
    open_kubelet(kubelet_socket);
    for (unsigned tries = 0; tries < 9; tries++) {
        const uint64_t pause = NS_PER_S << (tries < 6 ? tries : 6);

        answer(GRPC_ANSWERED, GRPC_UNKNOWN, "no");
        look(pause - 1);
        assert_null(registration.done);
        look(1);
        assert_non_null(registration.done);
    }
}

static void without_a_kubelet_devices_are_served_alone(void **state)
{
    GrpcStream stream = {"a client", "GetDevicePluginOptions"}, start = {"a client", "PreStartContainer"};

    (void)state;
    begin("no registration");
    start_kubelet();
    open_kubelet("");
    look(NS_PER_S);
    call(0, &stream, NULL, 0);
    call(0, &start, NULL, 0);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void who_watches_hears_of_changes(void **state)
{
    static const char *const names[WATCHERS + 1] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    GrpcStream streams[WATCHERS + 1];
    Offer mig;

    (void)state;
    begin("a list");
    open_kubelet("");
    for (size_t i = 0; i <= WATCHERS; i++) {
        streams[i] = (GrpcStream){names[i], "ListAndWatch"};
        call(0, &streams[i], NULL, 0); /* the ninth is one too many */
    }
    for (size_t i = 2; i < WATCHERS; i++)
        give_up(0, &streams[i]);
    begin("the same again");
    kubelet_offer(kubelet, &offer, &box->snapshot);
    begin("one is unhealthy");
    offer.resources.at[0].units.at[2].healthy = false;
    kubelet_offer(kubelet, &offer, &box->snapshot);
    begin("in replicas");
    offer.resources.at[0].replicas = 2;
    offer.resources.at[0].sharing = OFFER_SHARING_TIME;
    kubelet_offer(kubelet, &offer, &box->snapshot);
    begin("another resource instead");
    for (size_t i = 0; i < 3; i++)
        split(box, i, 1, "1g.10gb");
    mig = offer_of(box, &(OfferConfig){.mig = OFFER_MIG_MIXED});
    kubelet_offer(kubelet, &mig, &box->snapshot);
    call(1, &(GrpcStream){"of instances", "ListAndWatch"}, NULL, 0);
    call(0, &(GrpcStream){"of GPUs", "Allocate"}, NULL, 0);
    call(0, &(GrpcStream){"of GPUs", "GetPreferredAllocation"}, (const uint8_t[]){0x0a, 0}, 2);
    begin("and nothing");
    offer_done(&mig);
    kubelet_offer(kubelet, &mig, &box->snapshot);
}

/* --- devices for containers --------------------------------------------------------------------------------------- */

static char gpu0[] = "GPU-0", gpu1[] = "GPU-1", gpu2[] = "GPU-2", gpu9[] = "GPU-9";

/* Two containers, of which the first gets GPU 0 and 2, the second `last`. */
static void allocate(char *last)
{
    char *pair[] = {gpu0, gpu2}, *one[] = {last};
    Deviceplugin__IdList lists[2], *at[] = {&lists[0], &lists[1]};
    Deviceplugin__AllocateRequest request;
    uint8_t bytes[512];

    deviceplugin__allocate_request__init(&request);
    deviceplugin__id_list__init(&lists[0]);
    deviceplugin__id_list__init(&lists[1]);
    lists[0].ids = pair;
    lists[0].n_ids = 2;
    lists[1].ids = one;
    lists[1].n_ids = 1;
    request.containers = at;
    request.n_containers = 2;
    call(0, &(GrpcStream){"a pod", "Allocate"}, bytes, deviceplugin__allocate_request__pack(&request, bytes));
}

static void prefer(int32_t size, char *must)
{
    char *all[] = {gpu0, gpu1, gpu2}, *in[] = {must};
    Deviceplugin__PreferContainer container, *at[] = {&container, &container};
    Deviceplugin__PreferRequest request;
    uint8_t bytes[512];

    deviceplugin__prefer_request__init(&request);
    deviceplugin__prefer_container__init(&container);
    container.available_ids = all;
    container.n_available_ids = 3;
    container.must_include_ids = in;
    container.n_must_include_ids = must != NULL;
    container.size = size;
    request.containers = at;
    request.n_containers = 2;
    call(0, &(GrpcStream){"a pod", "GetPreferredAllocation"}, bytes,
         deviceplugin__prefer_request__pack(&request, bytes));
}

/* Requests of as many containers as are allowed, and of one more. */
static void ask_for_many(const char *method)
{
    uint8_t bytes[2 * 257];

    for (size_t i = 0; i < 257; i++) {
        bytes[2 * i] = 0x0a;  /* field 1, a message, */
        bytes[2 * i + 1] = 0; /* empty */
    }
    const size_t from = trace.len;
    call(0, &(GrpcStream){"many", method}, bytes, 2 * 256);
    assert_non_null(strstr(trace.text + from, "end many: 0"));
    str_cut(&trace, from);
    call(0, &(GrpcStream){"too many", method}, bytes, 2 * 257);
    call(0, &(GrpcStream){"nonsense", method}, (const uint8_t[]){0x0a, 9}, 2);
}

static void containers_get_devices(void **state)
{
    (void)state;
    begin("devices of containers");
    open_kubelet("");
    allocate(gpu1);
    allocate(gpu9);
    begin("none for a container");
    call(0, &(GrpcStream){"a pod", "Allocate"}, NULL, 0);
    prefer(2, NULL);
    prefer(1, gpu2);
    prefer(4, NULL);
    prefer(-1, NULL);
    ask_for_many("Allocate");
    ask_for_many("GetPreferredAllocation");
    begin("one replica for each");
    offer.resources.at[0].sharing = OFFER_SHARING_TIME;
    kubelet_configure(kubelet, &(KubeletConfig){.one_each = true, .grant = {.envvar = true}, .log = &to_file});
    allocate(gpu1);
}

/* --- what was chosen for pods ------------------------------------------------------------------------------------- */

/* A pod waits for two GPUs, for which 1 and 2 were chosen. */
static void add_pod(Chosen *chosen)
{
    json_t *pod = json_pack("{s:{s:s,s:{s:s}},s:{s:[{s:{s:{s:s}}}]},s:{}}", "metadata", "uid", "a", "annotations",
                            "stoker.dev/gpus", "1,2", "spec", "containers", "resources", "limits", "nvidia.com/gpu",
                            "2", "status");

    chosen_begin(chosen);
    assert_int_equal(chosen_add(chosen, pod, NULL), 0);
    assert_true(chosen_end(chosen));
    json_decref(pod);
}

static void ask(GrpcStream *stream, int32_t size)
{
    static char shared[3][16] = {"GPU-0::0", "GPU-1::0", "GPU-2::1"};
    char *whole[] = {gpu0, gpu1, gpu2}, *parts[] = {shared[0], shared[1], shared[2]};
    char **all = offer.resources.at[0].replicas > 1 ? parts : whole;
    Deviceplugin__PreferContainer container, *at[] = {&container};
    Deviceplugin__PreferRequest request;
    uint8_t bytes[512];

    deviceplugin__prefer_request__init(&request);
    deviceplugin__prefer_container__init(&container);
    container.available_ids = all;
    container.n_available_ids = 3;
    container.size = size;
    request.containers = at;
    request.n_containers = 1;
    call(0, stream, bytes, deviceplugin__prefer_request__pack(&request, bytes));
}

static void pods_get_what_was_chosen(void **state)
{
    GrpcStream first = {"the first", "GetPreferredAllocation"}, second = {"the second", "GetPreferredAllocation"};
    Chosen *chosen = chosen_new();

    (void)state;
    begin("what was chosen, of a list that does not follow");
    open_kubelet("");
    kubelet_follow(kubelet, chosen, false);
    ask(&first, 2);
    begin("of one that does: it is waited for");
    kubelet_follow(kubelet, chosen, true);
    ask(&first, 2);
    kubelet_follow(kubelet, chosen, true);
    begin("not for long");
    kubelet_follow(kubelet, chosen, true);
    begin("nor a second one, one in error, or one for which there is no request");
    ask(&first, 2);
    ask(&second, 1);
    ask(&second, 4);
    ask(&second, 0);
    begin("the pod comes");
    kubelet_follow(kubelet, chosen, true);
    add_pod(chosen);
    kubelet_follow(kubelet, chosen, true);
    begin("it is there");
    ask(&first, 2);
    begin("another is waited for, and the list does not follow any more");
    ask(&first, 1);
    kubelet_follow(kubelet, chosen, false);
    begin("it is given up, or its server is closed");
    kubelet_follow(kubelet, chosen, true);
    ask(&first, 1);
    give_up(0, &second);
    give_up(0, &first);
    ask(&first, 1);
    servers[0].there = false;
    kubelet_offer(kubelet, &offer, &box->snapshot);
    kubelet_follow(kubelet, chosen, true);
    kubelet_follow(kubelet, chosen, true);
    begin("shared ones are not waited for");
    offer.resources.at[0].sharing = OFFER_SHARING_TIME;
    offer.resources.at[0].replicas = 2;
    ask(&first, 1);
    offer.resources.at[0].sharing = OFFER_SHARING_NONE;
    offer.resources.at[0].replicas = 1;
    begin("the end");
    allocate(gpu1);
    assert_int_equal(chosen_counts(chosen)[CHOSEN_OTHER] + chosen_counts(chosen)[CHOSEN_UNKNOWN], 2);
    ask(&first, 1);
    kubelet_follow(kubelet, NULL, false);
    chosen_free(chosen);
    allocate(gpu1);
    ask(&first, 1);
}

static void all_of_it_is_as_in_the_file(void **state)
{
    (void)state;
    assert_golden(GOLDEN "/plugin.txt", &trace);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(a_kubelet_is_told_until_it_asks),
        TEST(pauses_have_an_end),
        TEST(without_a_kubelet_devices_are_served_alone),
        TEST(who_watches_hears_of_changes),
        TEST(containers_get_devices),
        TEST(pods_get_what_was_chosen),
        cmocka_unit_test(all_of_it_is_as_in_the_file), /* the last: of the trace of all before it */
    };

    return cmocka_run_group_tests(tests, open_trace, close_trace);
}
