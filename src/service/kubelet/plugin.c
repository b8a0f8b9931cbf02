/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubelet that starts removes all sockets of the folder and makes its own anew, maybe with the old inode number. So
 * twice a second both are looked at: a socket of ours that is gone is made again, and a kubelet whose socket is another
 * one, or that does not ask for the list of devices, is told of the resource again.
 *
 * The kubelet and the list of pods hear of a pod at about the same time. So a preference for a pod that nobody has told
 * of yet is held back for a moment: the kubelet has no deadline for it, and does nothing else meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "service/kubelet/grant.h"
#include "service/kubelet/message.h"
#include "wire/grpc/server.h"

enum { LOOK_MS = 500, REPLY_MAX = 4096, CONTAINERS_MAX = 256, DOUBLINGS_MAX = 6, LOG_BURST = 4 };
#define REGISTER_NS (5 * NS_PER_S)
#define RETRY_NS NS_PER_S             /* after a failure, then twice as long each time, */
#define LIST_WANTED_NS (5 * NS_PER_S) /* a kubelet that took a registration asks for the list within */
#define LOG_WINDOW_NS (10 * NS_PER_MIN)

/* Which file a socket is; ctime too, as an inode number is used again. */
typedef struct SocketFile {
    bool there;
    dev_t device;
    ino_t inode;
    struct timespec changed;
} SocketFile;

typedef struct Plugin {
    Kubelet *kubelet;
    char name[OFFER_NAME_CAP]; /* of the resource */
    char endpoint[OFFER_NAME_CAP + 16], socket[4096];
    const OfferResource *resource; /* NULL: not offered any more */
    GrpcServer *server;
    Watchers watchers;
    uint8_t *list; /* as it was sent last */
    size_t list_len;
    GrpcStream *held; /* of a preference that is held back; NULL: none is */
    char *held_bytes;
    size_t held_len, held_size; /* `held_size`: how many devices it is for */
    unsigned held_calls;        /* of kubelet_follow since then */
    GrpcCall *call;             /* a registration under way */
    SocketFile told;            /* the kubelet that was told of it last */
    uint64_t retry_ns;
    uint32_t tries;
    LogLimit limit;
    struct Plugin *next;
} Plugin;

struct Kubelet {
    KubeletConfig config;
    char *dir, *socket;
    uv_loop_t *loop;
    uv_timer_t timer;
    Plugin *plugins;
    const Snapshot *snapshot;
    Chosen *chosen; /* NULL: what was chosen for pods is not known */
    bool live;      /* `chosen` follows the API server */
};

static SocketFile look_at(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return (SocketFile){0};
    return (SocketFile){.there = true, .device = st.st_dev, .inode = st.st_ino, .changed = st.st_ctim};
}

static bool is_same(const SocketFile *a, const SocketFile *b)
{
    return a->there && b->there && a->device == b->device && a->inode == b->inode &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

PRINTF_LIKE(3, 4)
static void log_plugin(Plugin *plugin, LogLevel level, const char *fmt, ...)
{
    char text[LOG_TEXT_MAX];
    va_list args;

    if (!log_limit(&plugin->limit, uv_hrtime(), &(uint64_t){0}))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_write(plugin->kubelet->config.log, level, "%s: %s", plugin->name, text);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void tell_options(void *self UNUSED, GrpcStream *stream, const uint8_t *bytes UNUSED, size_t len UNUSED)
{
    Deviceplugin__Options options;

    deviceplugin__options__init(&options);
    options.get_preferred_allocation_available = true;
    answer_call(stream, &options.base);
}

static void prepare_start(void *self UNUSED, GrpcStream *stream, const uint8_t *bytes UNUSED, size_t len UNUSED)
{
    answer_nothing(stream);
}

/* --- the list of devices ------------------------------------------------------------------------------------------ */

static Deviceplugin__Device *make_device(const OfferResource *resource, size_t unit, uint32_t replica, Arena *arena)
{
    const int32_t numa = resource->units.at[unit].numa_node;
    Deviceplugin__Device *device = arena_alloc(arena, sizeof *device);
    char id[OFFER_ID_CAP];

    deviceplugin__device__init(device);
    offer_id(resource, unit, replica, id);
    device->id = arena_strdup(arena, id);
    device->health = arena_strdup(arena, resource->units.at[unit].healthy ? "Healthy" : "Unhealthy");
    if (numa >= 0) {
        Deviceplugin__NumaNode *node = arena_alloc(arena, sizeof *node);

        deviceplugin__numa_node__init(node);
        node->id = numa;
        device->topology = arena_alloc(arena, sizeof *device->topology);
        deviceplugin__topology__init(device->topology);
        device->topology->nodes = arena_memdup(arena, &node, sizeof node);
        device->topology->n_nodes = 1;
    }
    return device;
}

/* True where the list is another than before. */
static bool pack_list(Plugin *plugin)
{
    const OfferResource *resource = plugin->resource;
    Deviceplugin__DeviceList list;
    CLEANUP(arena_done) Arena arena = {0};

    deviceplugin__device_list__init(&list);
    if (resource) {
        list.devices = arena_calloc(&arena, resource->units.len * resource->replicas + 1, sizeof *list.devices);
        for (size_t i = 0; i < resource->units.len; i++)
            for (uint32_t k = 0; k < resource->replicas; k++)
                list.devices[list.n_devices++] = make_device(resource, i, k, &arena);
    }
    const size_t len = deviceplugin__device_list__get_packed_size(&list);
    uint8_t *bytes = xcalloc(len + 1, 1);
    deviceplugin__device_list__pack(&list, bytes);
    const bool same = plugin->list && len == plugin->list_len && memcmp(bytes, plugin->list, len) == 0;
    free(plugin->list);
    plugin->list = bytes;
    plugin->list_len = len;
    return !same;
}

static void watch_list(void *self, GrpcStream *stream, const uint8_t *bytes UNUSED, size_t len UNUSED)
{
    Plugin *plugin = self;

    if (watchers_add(&plugin->watchers, stream, "list"))
        grpc_stream_send(stream, plugin->list, plugin->list_len);
}

static void forget_watcher(void *self, GrpcStream *stream)
{
    Plugin *plugin = self;

    watchers_forget(&plugin->watchers, stream);
    plugin->retry_ns = uv_hrtime() + LIST_WANTED_NS; /* the kubelet has so long to ask again */
}

static bool is_watched(const Plugin *plugin)
{
    for (size_t i = 0; i < WATCHERS_MAX; i++)
        if (plugin->watchers.at[i])
            return true;
    return false;
}

/* --- devices for a container -------------------------------------------------------------------------------------- */

static void refuse_call(Plugin *plugin, GrpcStream *stream, const char *what, const Err *err)
{
    log_plugin(plugin, LOG_LEVEL_WARN, "%s: %s", what, err->text);
    grpc_stream_end(stream, GRPC_INVALID_ARGUMENT, err->text);
}

static int prefer_devices(const Plugin *plugin, const Deviceplugin__PreferContainer *request, Arena *arena,
                          Deviceplugin__IdList *ret, Err *err)
{
    const size_t size = request->size > 0 ? (size_t)request->size : 0;
    const char **ids = arena_calloc(arena, number_min_u64(size, request->n_available_ids) + 1, sizeof *ids);

    deviceplugin__id_list__init(ret);
    if (!plugin->resource)
        return err_set(err, -EINVAL, "this node does not offer %s any more", plugin->name);
    TRY(offer_prefer(plugin->resource, plugin->kubelet->snapshot, plugin->kubelet->config.policy,
                     (const char *const *)request->available_ids, request->n_available_ids,
                     (const char *const *)request->must_include_ids, request->n_must_include_ids, size, ids, err));
    if (plugin->kubelet->chosen)
        (void)chosen_find(plugin->kubelet->chosen, plugin->resource, (const char *const *)request->available_ids,
                          request->n_available_ids, (const char *const *)request->must_include_ids,
                          request->n_must_include_ids, size, ids);
    ret->ids = arena_calloc(arena, size + 1, sizeof *ret->ids);
    for (size_t i = 0; i < size; i++)
        ret->ids[ret->n_ids++] = arena_strdup(arena, ids[i]);
    return 0;
}

/* It is for a pod that will be told of. */
static bool is_early(const Plugin *plugin, const Deviceplugin__PreferRequest *request)
{
    const Kubelet *kubelet = plugin->kubelet;

    return kubelet->chosen && kubelet->live && !plugin->held && plugin->resource &&
           plugin->resource->sharing == OFFER_SHARING_NONE && request && request->n_containers == 1 &&
           request->containers[0]->size > 0 &&
           !chosen_is_awaited(kubelet->chosen, plugin->name, (size_t)request->containers[0]->size);
}

static void hold_call(Plugin *plugin, GrpcStream *stream, const uint8_t *bytes, size_t len, size_t size)
{
    plugin->held = stream;
    plugin->held_bytes = xmemdup0((const char *)bytes, len);
    plugin->held_len = len;
    plugin->held_size = size;
    plugin->held_calls = 0;
}

static void drop_held(Plugin *plugin)
{
    free(TAKE(plugin->held_bytes));
    plugin->held = NULL;
}

static void forget_held(void *self, GrpcStream *stream)
{
    Plugin *plugin = self;

    if (plugin->held == stream)
        drop_held(plugin);
}

static void answer_prefer(Plugin *plugin, GrpcStream *stream, const uint8_t *bytes, size_t len, bool may_wait)
{
    Deviceplugin__PreferRequest *request = deviceplugin__prefer_request__unpack(NULL, len, bytes);
    Deviceplugin__PreferReply reply;
    CLEANUP(arena_done) Arena arena = {0};
    Err err = {0};
    int rc =
        request && request->n_containers <= CONTAINERS_MAX ? 0 : err_set(&err, -EINVAL, "the request cannot be read");

    deviceplugin__prefer_reply__init(&reply);
    if (rc == 0)
        reply.containers = arena_calloc(&arena, request->n_containers + 1, sizeof *reply.containers);
    for (size_t i = 0; rc == 0 && i < request->n_containers; i++) {
        reply.containers[i] = arena_alloc(&arena, sizeof **reply.containers);
        rc = prefer_devices(plugin, request->containers[i], &arena, reply.containers[i], &err);
        reply.n_containers += rc == 0;
    }
    if (may_wait && rc == 0 && is_early(plugin, request))
        hold_call(plugin, stream, bytes, len, (size_t)request->containers[0]->size);
    else if (rc == 0)
        answer_call(stream, &reply.base);
    else
        refuse_call(plugin, stream, "no devices can be preferred", &err);
    if (request)
        deviceplugin__prefer_request__free_unpacked(request, NULL);
}

static void take_prefer(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    answer_prefer(self, stream, bytes, len, true);
}

static void answer_allocate(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    Plugin *plugin = self;
    const KubeletConfig *config = &plugin->kubelet->config;
    Deviceplugin__AllocateRequest *request = deviceplugin__allocate_request__unpack(NULL, len, bytes);
    Deviceplugin__AllocateReply reply;
    CLEANUP(arena_done) Arena arena = {0};
    Err err = {0};
    int rc =
        request && request->n_containers <= CONTAINERS_MAX ? 0 : err_set(&err, -EINVAL, "the request cannot be read");

    deviceplugin__allocate_reply__init(&reply);
    if (rc == 0 && !plugin->resource)
        rc = err_set(&err, -EINVAL, "this node does not offer %s any more", plugin->name);
    if (rc == 0)
        reply.containers = arena_calloc(&arena, request->n_containers + 1, sizeof *reply.containers);
    for (size_t i = 0; rc == 0 && i < request->n_containers; i++) {
        rc = grant_devices(&config->grant, plugin->resource, config->one_each, request->containers[i]->ids,
                           request->containers[i]->n_ids, &arena, &reply.containers[i], &err);
        reply.n_containers += rc == 0;
        if (rc == 0 && plugin->kubelet->chosen)
            chosen_note(plugin->kubelet->chosen, plugin->resource, request->containers[i]->ids,
                        request->containers[i]->n_ids);
    }
    if (rc == 0)
        answer_call(stream, &reply.base);
    else
        refuse_call(plugin, stream, "a container gets no devices", &err);
    if (request)
        deviceplugin__allocate_request__free_unpacked(request, NULL);
}

static const GrpcMethod methods[] = {
    {"/v1beta1.DevicePlugin/GetDevicePluginOptions", tell_options, NULL},
    {"/v1beta1.DevicePlugin/ListAndWatch", watch_list, forget_watcher},
    {"/v1beta1.DevicePlugin/GetPreferredAllocation", take_prefer, forget_held},
    {"/v1beta1.DevicePlugin/Allocate", answer_allocate, NULL},
    {"/v1beta1.DevicePlugin/PreStartContainer", prepare_start, NULL},
};

/* --- registration ------------------------------------------------------------------------------------------------- */

/* The next try comes after `wait_ns`, then after twice as long each time. */
static void wait_longer(Plugin *plugin, uint64_t wait_ns)
{
    plugin->retry_ns = uv_hrtime() + (wait_ns << number_min_u64(plugin->tries++, DOUBLINGS_MAX));
}

static void on_registered(void *self, const GrpcReply *reply)
{
    Plugin *plugin = self;
    const bool taken = reply->outcome == GRPC_ANSWERED && reply->status == GRPC_OK;

    plugin->call = NULL;
    wait_longer(plugin, taken ? LIST_WANTED_NS : RETRY_NS);
    if (taken)
        log_plugin(plugin, LOG_LEVEL_INFO, "registered with the kubelet");
    else
        log_plugin(plugin, LOG_LEVEL_WARN, "the kubelet does not take it: %s; it is tried again", reply->text);
}

static void register_plugin(Plugin *plugin, const SocketFile *kubelet)
{
    Deviceplugin__RegisterRequest request;
    Deviceplugin__Options options;
    char version[] = "v1beta1";

    deviceplugin__register_request__init(&request);
    deviceplugin__options__init(&options);
    options.get_preferred_allocation_available = true;
    request.version = version;
    request.endpoint = plugin->endpoint;
    request.resource_name = plugin->name;
    request.options = &options;
    const size_t len = deviceplugin__register_request__get_packed_size(&request);
    CLEANUP_FREE uint8_t *bytes = xcalloc(len, 1);
    deviceplugin__register_request__pack(&request, bytes);
    plugin->told = *kubelet;
    plugin->call = grpc_call_new(plugin->kubelet->loop, plugin->kubelet->socket,
                                 &(GrpcRequest){.method = "/v1beta1.Registration/Register",
                                                .bytes = bytes,
                                                .len = (uint32_t)len,
                                                .timeout_ns = REGISTER_NS,
                                                .reply_max = REPLY_MAX},
                                 on_registered, plugin);
}

/* Serves the resource again where its socket is gone. */
static bool keep_server(Plugin *plugin)
{
    Err err = {0};

    if (plugin->server && grpc_server_is_there(plugin->server))
        return true;
    if (plugin->server)
        plugin->watchers = (Watchers){0};
    drop_held(plugin);
    grpc_server_close(TAKE(plugin->server));
    plugin->told = (SocketFile){0};
    if (grpc_server_new(plugin->kubelet->loop, plugin->socket, methods, ARRAY_LEN(methods), plugin, &plugin->server,
                        &err) == 0)
        return true;
    log_plugin(plugin, LOG_LEVEL_ERROR, "%s; it is tried again", err.text);
    return false;
}

static void look_after(Plugin *plugin, const SocketFile *kubelet, uint64_t now)
{
    if (plugin->call || !keep_server(plugin) || !kubelet->there || plugin->kubelet->socket[0] == '\0')
        return;
    const bool known = is_same(&plugin->told, kubelet);

    if (!known || is_watched(plugin)) /* another kubelet is told at once */
        plugin->tries = 0;
    if (!known || (!is_watched(plugin) && now >= plugin->retry_ns))
        register_plugin(plugin, kubelet);
}

static void look_after_all(Kubelet *kubelet)
{
    const SocketFile there = look_at(kubelet->socket);
    const uint64_t now = uv_hrtime();

    for (Plugin *plugin = kubelet->plugins; plugin; plugin = plugin->next)
        look_after(plugin, &there, now);
}

static void on_timer(uv_timer_t *timer)
{
    look_after_all(timer->data);
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

Kubelet *kubelet_new(uv_loop_t *loop, const KubeletConfig *config)
{
    Kubelet *kubelet = xcalloc(1, sizeof *kubelet);

    kubelet->config = *config;
    kubelet->dir = xstrdup(config->dir);
    kubelet->socket = xstrdup(config->socket);
    kubelet->loop = loop;
    uv_timer_init(loop, &kubelet->timer);
    kubelet->timer.data = kubelet;
    uv_timer_start(&kubelet->timer, on_timer, LOOK_MS, LOOK_MS);
    return kubelet;
}

void kubelet_configure(Kubelet *kubelet, const KubeletConfig *config)
{
    kubelet->config = *config;
}

static Plugin *add_plugin(Kubelet *kubelet, const char *resource)
{
    const char *slash = strchr(resource, '/');
    Plugin *plugin = xcalloc(1, sizeof *plugin);

    plugin->kubelet = kubelet;
    snprintf(plugin->name, sizeof plugin->name, "%s", resource);
    snprintf(plugin->endpoint, sizeof plugin->endpoint, "nvidia-%s.sock", slash ? slash + 1 : resource);
    snprintf(plugin->socket, sizeof plugin->socket, "%s/%s", kubelet->dir, plugin->endpoint);
    plugin->limit = (LogLimit){.window_ns = LOG_WINDOW_NS, .burst = LOG_BURST};
    plugin->next = kubelet->plugins;
    kubelet->plugins = plugin;
    return plugin;
}

void kubelet_offer(Kubelet *kubelet, const Offer *offer, const Snapshot *snapshot)
{
    kubelet->snapshot = snapshot;
    for (size_t i = 0; i < offer->resources.len; i++) {
        bool known = false;

        for (Plugin *plugin = kubelet->plugins; plugin; plugin = plugin->next)
            known |= strcmp(plugin->name, offer->resources.at[i].name) == 0;
        if (!known)
            add_plugin(kubelet, offer->resources.at[i].name);
    }
    for (Plugin *plugin = kubelet->plugins; plugin; plugin = plugin->next) {
        plugin->resource = offer_find(offer, plugin->name);
        if (!pack_list(plugin))
            continue;
        for (size_t i = 0; i < WATCHERS_MAX; i++)
            if (plugin->watchers.at[i])
                grpc_stream_send(plugin->watchers.at[i], plugin->list, plugin->list_len);
    }
    look_after_all(kubelet);
}

void kubelet_follow(Kubelet *kubelet, Chosen *chosen, bool live)
{
    kubelet->chosen = chosen;
    kubelet->live = live;
    for (Plugin *plugin = kubelet->plugins; plugin; plugin = plugin->next) {
        if (!plugin->held || (live && ++plugin->held_calls < KUBELET_HOLD_CALLS &&
                              !chosen_is_awaited(chosen, plugin->name, plugin->held_size)))
            continue;
        CLEANUP_FREE char *bytes = TAKE(plugin->held_bytes);
        answer_prefer(plugin, TAKE(plugin->held), (const uint8_t *)bytes, plugin->held_len, false);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    Kubelet *kubelet = handle->data;

    for (Plugin *plugin = kubelet->plugins, *next; plugin; plugin = next) {
        next = plugin->next;
        free(plugin->list);
        drop_held(plugin);
        free(plugin);
    }
    free(kubelet->dir);
    free(kubelet->socket);
    free(kubelet);
}

void kubelet_close(Kubelet *kubelet)
{
    for (Plugin *plugin = kubelet->plugins; plugin; plugin = plugin->next) {
        grpc_server_close(TAKE(plugin->server));
        if (plugin->call)
            grpc_call_cancel(TAKE(plugin->call));
    }
    uv_close((uv_handle_t *)&kubelet->timer, on_timer_closed);
}
