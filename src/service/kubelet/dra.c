/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet finds the registration socket, asks there for the service's socket, and calls that. Its calls may come
 * twice, late, or after it has given them up: a claim that is prepared is answered alike each time, and a claim is in
 * the file before anything of it is made on the host.
 */
#include "service/kubelet/dra.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/json.h"
#include "service/kubelet/dra.pb-c.h"
#include "service/kubelet/message.h"
#include "service/kubelet/slicer.h"

enum { LOOK_MS = 500, CLAIMS_MAX = 64, PATH_CAP = 4096, NAME_MAX_BYTES = 256 };
enum { HEALTH_TICKS = 16, HEALTH_TIMEOUT_S = 30, HEALTHY = 1, UNHEALTHY = 2, MESSAGE_CAP = 1024 };

#define SHARE_NS (30 * NS_PER_S) /* a kubelet waits 45 s for a claim */

CLEANUP_POINTER(json_t, json_decref);

typedef struct Preparing Preparing;

/* One claim of a call. */
typedef struct Item {
    Preparing *call;
    const Dra__Claim *claim;
    void *reading; /* the claim is being read from the API server; the port's */
    const Prepared *prepared;
    unsigned slices;      /* time slices that are being set for it */
    uint64_t deadline_ns; /* by then its MPS daemons are ready; 0: it is not so far */
    Err err;
    bool done;
} Item;

/* A NodePrepareResources that is not answered yet. */
struct Preparing {
    Dra *dra;
    GrpcStream *stream;
    Dra__Claims *request;
    size_t left;
    Preparing *next;
    Item items[];
};

struct Dra {
    const DraConfig *config;
    uv_loop_t *loop;
    uv_timer_t timer;
    char folder[PATH_CAP], socket[PATH_CAP], registration[PATH_CAP], claims[PATH_CAP];
    GrpcServer *server, *registrar;
    char serve_error[ERR_TEXT_MAX];
    const Offer *offer;
    json_t *devices;   /* of claim_devices, with what is described alone */
    json_t *described; /* by UUID: devices as they were when they were healthy */
    Prepared *prepared;
    Slicer *slicer;
    Preparing *preparing;
    Watchers watchers;
    unsigned ticks;
    char file_error[ERR_TEXT_MAX];
};

/* --- registration ------------------------------------------------------------------------------------------------- */

static void tell_info(void *self, GrpcStream *stream, const uint8_t *bytes UNUSED, size_t len UNUSED)
{
    Dra *dra = self;
    char type[] = "DRAPlugin", one[] = "v1.DRAPlugin", two[] = "v1beta1.DRAPlugin",
         three[] = "v1alpha1.DRAResourceHealth";
    char *versions[] = {one, two, three};
    Dra__PluginInfo info;

    dra__plugin_info__init(&info);
    info.type = type;
    info.name = (char *)(uintptr_t)dra->config->driver;
    info.endpoint = dra->socket;
    info.n_supported_versions = ARRAY_LEN(versions);
    info.supported_versions = versions;
    answer_call(stream, &info.base);
}

/* A kubelet that registers has just removed the slices, where it has started. */
static void take_status(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    Dra *dra = self;
    Dra__RegistrationStatus *status = dra__registration_status__unpack(NULL, len, bytes);

    if (status && status->plugin_registered)
        log_write(dra->config->log, LOG_LEVEL_INFO, "claims: registered with the kubelet as %s", dra->config->driver);
    else
        log_write(dra->config->log, LOG_LEVEL_WARN, "claims: the kubelet does not take %s: %s", dra->config->driver,
                  status ? status->error : "its word cannot be read");
    if (status)
        dra__registration_status__free_unpacked(status, NULL);
    answer_nothing(stream);
    dra->config->port.look(dra->config->self);
}

/* --- devices by name ---------------------------------------------------------------------------------------------- */

static const char *uuid_of(const json_t *device)
{
    const json_t *uuid = json_object_get(json_object_get(device, "attributes"), "uuid");
    const char *text = json_string_value(json_object_get(uuid, "string"));

    return text ? text : "";
}

static const char *find_uuid(const Dra *dra, const char *name)
{
    const json_t *device;
    size_t i;

    json_array_foreach(dra->devices, i, device)
    {
        const char *own = json_string_value(json_object_get(device, "name"));

        if (own && strcmp(own, name) == 0)
            return uuid_of(device);
    }
    return NULL;
}

static const OfferUnit *find_unit(const Dra *dra, const char *uuid)
{
    return dra->offer ? offer_find_unit(dra->offer, uuid) : NULL;
}

void dra_keep_files(Dra *dra)
{
    CLEANUP(arena_done) Arena arena = {0};
    DriverFiles files;
    Err err = {0};

    if (!dra->prepared || !dra->offer)
        return;
    dra->config->port.find_files(dra->config->self, &arena, &files);
    for (const Prepared *one = dra->prepared; one; one = one->next) {
        Err failed = {0};

        if (!one->leaving && claim_spec_keep(dra->config, one, dra->offer, &files, &failed) < 0)
            err = failed;
    }
    if (err.code && strcmp(dra->file_error, err.text) != 0)
        log_write(dra->config->log, LOG_LEVEL_ERROR, "claims: %s; it is tried again", err.text);
    memcpy(dra->file_error, err.text, sizeof dra->file_error);
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static int check_device(const Dra *dra, Prepared *prepared, size_t i, const DriverFiles *files, Err *err)
{
    const ClaimDevice *device = &prepared->claim.devices[i];
    const char *uuid = find_uuid(dra, device->name);
    const OfferUnit *unit = uuid ? find_unit(dra, uuid) : NULL;
    const Prepared *holder = uuid && !device->admin ? prepared_holder(dra->prepared, uuid) : NULL;

    if (!unit)
        return err_set(err, -ENODEV, "this node has no device %.60s any more: the pod can be created again",
                       device->name);
    if (holder)
        return err_set(err, -EBUSY, "%.60s is held by claim %s/%s (%s), which is still prepared", device->name,
                       holder->claim.namespace, holder->claim.name, holder->claim.uid);
    if (!unit->healthy && !device->tolerates)
        return err_set(err, -EBUSY, "%.60s cannot be used now: %s; the pod can be created again on another device",
                       device->name, unit->why);
    prepared->uuids[i] = arena_strdup(&prepared->arena, uuid);
    return claim_spec_check(files, unit, err);
}

static int save_claims(const Dra *dra, Err *err)
{
    return prepared_save(dra->claims, dra->config->boot_id, dra->prepared, err);
}

static int prepare_claim(Dra *dra, const Dra__Claim *asked, const json_t *object, const Prepared **ret, Err *err)
{
    CLEANUP(prepared_free_at) Prepared *prepared = NULL;
    CLEANUP(arena_done) Arena arena = {0};
    DriverFiles files;

    TRY(prepared_new(object, dra->config->driver, &prepared, err));
    if (strcmp(prepared->claim.uid, asked->uid) != 0)
        return err_set(err, -ESTALE, "the claim of this name is another one now (%s)", prepared->claim.uid);
    dra->config->port.find_files(dra->config->self, &arena, &files);
    for (size_t i = 0; i < prepared->claim.count; i++)
        TRY(check_device(dra, prepared, i, &files, err));
    prepared->next = dra->prepared;
    dra->prepared = prepared;
    int rc = save_claims(dra, err);
    if (rc == 0)
        rc = claim_spec_keep(dra->config, prepared, dra->offer, &files, err);
    if (rc < 0) {
        dra->prepared = prepared->next;
        (void)save_claims(dra, NULL);
        return rc;
    }
    *ret = TAKE(prepared);
    return 0;
}

static Dra__PreparedDevice *make_device(const Dra *dra, const Prepared *prepared, size_t i, Arena *arena)
{
    const ClaimDevice *device = &prepared->claim.devices[i];
    Dra__PreparedDevice *made = NEW_MESSAGE(arena, Dra__PreparedDevice, dra__prepared_device__init);

    made->n_request_names = made->n_cdi_device_ids = 1;
    made->request_names = arena_calloc(arena, 1, sizeof *made->request_names);
    made->cdi_device_ids = arena_calloc(arena, 1, sizeof *made->cdi_device_ids);
    made->request_names[0] = arena_strdup(arena, device->request);
    made->cdi_device_ids[0] = arena_strdup(arena, claim_spec_device(dra->config, prepared, i, arena));
    made->pool_name = arena_strdup(arena, device->pool);
    made->device_name = arena_strdup(arena, device->name);
    made->share_id = arena_strdup(arena, device->share_id);
    return made;
}

static Dra__PreparedEntry *make_entry(const Dra *dra, const Item *item, Arena *arena)
{
    Dra__PreparedEntry *entry = NEW_MESSAGE(arena, Dra__PreparedEntry, dra__prepared_entry__init);
    Dra__Prepared *value = NEW_MESSAGE(arena, Dra__Prepared, dra__prepared__init);

    entry->key = item->claim->uid;
    entry->value = value;
    if (item->err.code) {
        value->error = arena_strdup(arena, item->err.text);
        return entry;
    }
    value->devices = arena_calloc(arena, item->prepared->claim.count + 1, sizeof *value->devices);
    for (size_t i = 0; i < item->prepared->claim.count; i++)
        value->devices[value->n_devices++] = make_device(dra, item->prepared, i, arena);
    return entry;
}

/* What is under way for it tells it nothing any more. */
static void stop_item(Item *item)
{
    const Dra *dra = item->call->dra;

    if (item->reading)
        dra->config->port.cancel(dra->config->self, TAKE(item->reading));
    slicer_forget(dra->slicer, item);
}

static void free_preparing(Preparing *call)
{
    Preparing **at = &call->dra->preparing;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    for (size_t i = 0; i < call->request->n_claims; i++)
        stop_item(&call->items[i]);
    dra__claims__free_unpacked(call->request, NULL);
    free(call);
}

static void answer_preparing(Preparing *call)
{
    CLEANUP(arena_done) Arena arena = {0};
    Dra__PrepareReply reply;

    dra__prepare_reply__init(&reply);
    reply.claims = arena_calloc(&arena, call->request->n_claims + 1, sizeof *reply.claims);
    for (size_t i = 0; i < call->request->n_claims; i++)
        reply.claims[reply.n_claims++] = make_entry(call->dra, &call->items[i], &arena);
    answer_call(call->stream, &reply.base);
    free_preparing(call);
}

/* The call is gone behind this if it was the last one. */
static void finish_item(Item *item)
{
    const Dra *dra = item->call->dra;
    const Dra__Claim *claim = item->claim;

    if (item->err.code)
        log_write(dra->config->log, LOG_LEVEL_WARN, "claim %s/%s: %s", claim->namespace_, claim->name, item->err.text);
    item->done = true;
    if (--item->call->left == 0)
        answer_preparing(item->call);
}

static void want_daemons(const Dra *dra)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP_VEC MpsDaemonConfigs wanted = {0};

    prepared_daemons(dra->prepared, &arena, &wanted);
    mps_keeper_want(dra->config->mps, wanted.at, wanted.len);
}

/* Ends it when its time slices are set and its MPS daemons are ready, or cannot be. */
static void look_at_item(Item *item)
{
    const Prepared *prepared = item->prepared;
    CLEANUP(arena_done) Arena arena = {0};

    if (item->slices)
        return;
    for (size_t i = 0; i < prepared->claim.count && !item->err.code; i++) {
        char why[MPS_WHY_CAP] = "";

        if (!prepared_shares(prepared, i, OFFER_SHARING_MPS))
            continue;
        const MpsState state = mps_keeper_state(item->call->dra->config->mps, prepared_daemon(prepared, i, &arena),
                                                prepared->uuids[i], why);
        if (state == MPS_READY)
            continue;
        if (state != MPS_FAILED && uv_hrtime() < item->deadline_ns)
            return;
        (void)err_set(&item->err, -EAGAIN, "MPS on %.60s: %.300s", prepared->claim.devices[i].name,
                      why[0] ? why : "its daemon is not ready");
    }
    finish_item(item);
}

static void on_slice(void *self, const Err *err)
{
    Item *item = self;

    item->slices--;
    if (err && !item->err.code)
        item->err = *err;
    look_at_item(item);
}

static void share_item(Item *item)
{
    const Dra *dra = item->call->dra;

    for (size_t i = 0; i < item->prepared->claim.count; i++)
        if (prepared_has_slice(item->prepared, i)) {
            item->slices++;
            slicer_set(dra->slicer, item->prepared->uuids[i], item->prepared->claim.devices[i].config->slice, on_slice,
                       item);
        }
    want_daemons(dra);
    item->deadline_ns = uv_hrtime() + SHARE_NS;
    look_at_item(item);
}

static void look_at_items(Dra *dra)
{
    Preparing *next;

    for (Preparing *call = dra->preparing; call; call = next) {
        const size_t count = call->request->n_claims;

        next = call->next;
        for (size_t i = 0, left = call->left; i < count && left; i++)
            if (!call->items[i].done && call->items[i].deadline_ns) {
                left--; /* the call is gone behind the last one */
                look_at_item(&call->items[i]);
            }
    }
}

static void on_claim(void *reader, const json_t *object, const char *why)
{
    Item *item = reader;

    item->reading = NULL;
    item->prepared = prepared_find(item->call->dra->prepared, item->claim->uid); /* by another call meanwhile */
    if (!object)
        (void)err_set(&item->err, -EIO, "the API server does not give it: %s", why);
    else if (!item->prepared)
        (void)prepare_claim(item->call->dra, item->claim, object, &item->prepared, &item->err);
    if (item->err.code)
        finish_item(item);
    else
        share_item(item);
}

/* Parts of names of files and paths. */
static bool is_name(const char *text)
{
    return text[0] && text[0] != '.' && strlen(text) < NAME_MAX_BYTES &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")];
}

static bool is_claim_uid(const char *text)
{
    return is_name(text) && strlen(text) <= CLAIM_UID_MAX;
}

static void start_item(Item *item)
{
    Dra *dra = item->call->dra;
    const Dra__Claim *claim = item->claim;
    CLEANUP(arena_done) Arena arena = {0};

    item->prepared = prepared_find(dra->prepared, claim->uid);
    if (item->prepared) {
        DriverFiles files;

        dra->config->port.find_files(dra->config->self, &arena, &files);
        if (claim_spec_keep(dra->config, item->prepared, dra->offer, &files, &item->err) < 0)
            finish_item(item);
        else
            share_item(item);
    } else if (!is_claim_uid(claim->uid) || !is_name(claim->name) || !is_name(claim->namespace_)) {
        (void)err_set(&item->err, -EINVAL, "its name, namespace or uid is none");
        finish_item(item);
    } else {
        const char *path = arena_printf(&arena, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
                                        claim->namespace_, claim->name);

        item->reading = dra->config->port.read(dra->config->self, path, on_claim, item);
    }
}

static void prepare_claims(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    Dra *dra = self;
    Dra__Claims *request = dra__claims__unpack(NULL, len, bytes);

    if (!request || request->n_claims > CLAIMS_MAX) {
        if (request)
            dra__claims__free_unpacked(request, NULL);
        grpc_stream_end(stream, GRPC_INVALID_ARGUMENT, "the request cannot be read");
        return;
    }
    const size_t count = request->n_claims;
    Preparing *call = xcalloc(1, sizeof *call + count * sizeof call->items[0]);
    call->dra = dra;
    call->stream = stream;
    call->request = request;
    call->left = count + 1; /* so that it is not answered before all were begun */
    call->next = dra->preparing;
    dra->preparing = call;
    for (size_t i = 0; i < count; i++) {
        call->items[i] = (Item){.call = call, .claim = request->claims[i]};
        start_item(&call->items[i]);
    }
    if (--call->left == 0)
        answer_preparing(call);
}

static void forget_preparing(void *self, GrpcStream *stream)
{
    Dra *dra = self;
    Preparing *next;

    for (Preparing *call = dra->preparing; call; call = next) {
        next = call->next;
        if (call->stream == stream)
            free_preparing(call);
    }
}

/* --- unpreparing -------------------------------------------------------------------------------------------------- */

/* A claim that is still being prepared for somebody who has given up must not be prepared behind this. */
static void stop_preparing(Dra *dra, const char *uid)
{
    Preparing *next;

    for (Preparing *call = dra->preparing; call; call = next) {
        Item *found = NULL;

        next = call->next;
        for (size_t i = 0; i < call->request->n_claims; i++)
            if (!call->items[i].done && strcmp(call->items[i].claim->uid, uid) == 0)
                found = &call->items[i];
        if (!found)
            continue;
        stop_item(found);
        (void)err_set(&found->err, -ECANCELED, "it was unprepared meanwhile");
        finish_item(found);
    }
}

static void remove_prepared(Dra *dra, Prepared *gone)
{
    Prepared **at = &dra->prepared;

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
}

/* The claim has left when its GPUs have the default again. */
static void on_reset(void *self, const Err *err)
{
    Prepared *prepared = self;
    Dra *dra = prepared->dra;

    if (err)
        log_write(dra->config->log, LOG_LEVEL_WARN, "claim %s/%s: %s", prepared->claim.namespace, prepared->claim.name,
                  err->text);
    if (--prepared->resets > 0)
        return;
    remove_prepared(dra, prepared);
    (void)save_claims(dra, NULL); /* it leaves again in the next process */
    prepared_free(prepared);
}

static void reset_slices(Dra *dra, Prepared *prepared)
{
    prepared->dra = dra;
    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared_has_slice(prepared, i)) {
            prepared->resets++;
            slicer_set(dra->slicer, prepared->uuids[i], CLAIM_SLICE_DEFAULT, on_reset, prepared);
        }
}

static bool has_slices(const Prepared *prepared)
{
    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared_has_slice(prepared, i))
            return true;
    return false;
}

static int unprepare_claim(Dra *dra, const char *uid, Err *err)
{
    stop_preparing(dra, uid);
    Prepared *gone = prepared_find(dra->prepared, uid);
    if (!is_claim_uid(uid))
        return 0;
    TRY(claim_spec_remove(dra->config, uid, err)); /* NVIDIA's driver may have prepared what is not known here */
    if (!gone)
        return 0;
    gone->leaving = true;
    const bool stays = has_slices(gone);
    if (!stays)
        remove_prepared(dra, gone);
    const int rc = save_claims(dra, err);
    if (rc < 0) {
        if (!stays) {
            gone->next = dra->prepared;
            dra->prepared = gone;
        }
        gone->leaving = false;
        return rc;
    }
    want_daemons(dra);
    if (stays)
        reset_slices(dra, gone);
    else
        prepared_free(gone);
    return 0;
}

static void unprepare_claims(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    Dra *dra = self;
    Dra__Claims *request = dra__claims__unpack(NULL, len, bytes);
    CLEANUP(arena_done) Arena arena = {0};
    Dra__UnprepareReply reply;

    if (!request) {
        grpc_stream_end(stream, GRPC_INVALID_ARGUMENT, "the request cannot be read");
        return;
    }
    dra__unprepare_reply__init(&reply);
    reply.claims = arena_calloc(&arena, request->n_claims + 1, sizeof *reply.claims);
    for (size_t i = 0; i < request->n_claims; i++) {
        Dra__UnpreparedEntry *entry = NEW_MESSAGE(&arena, Dra__UnpreparedEntry, dra__unprepared_entry__init);
        Err err = {0};

        entry->key = request->claims[i]->uid;
        entry->value = NEW_MESSAGE(&arena, Dra__Unprepared, dra__unprepared__init);
        if (unprepare_claim(dra, request->claims[i]->uid, &err) < 0)
            entry->value->error = arena_strdup(&arena, err.text);
        reply.claims[reply.n_claims++] = entry;
    }
    answer_call(stream, &reply.base);
    dra__claims__free_unpacked(request, NULL);
}

/* --- health ------------------------------------------------------------------------------------------------------- */

static Dra__DeviceHealth *make_health(const Dra *dra, const json_t *device, Arena *arena)
{
    const OfferUnit *unit = find_unit(dra, uuid_of(device));
    Dra__DeviceHealth *made = NEW_MESSAGE(arena, Dra__DeviceHealth, dra__device_health__init);

    made->device = NEW_MESSAGE(arena, Dra__DeviceName, dra__device_name__init);
    made->device->pool_name = (char *)(uintptr_t)dra->config->node;
    made->device->device_name = (char *)(uintptr_t)json_string_value(json_object_get(device, "name"));
    made->health = unit && unit->healthy ? HEALTHY : UNHEALTHY;
    made->last_updated_time = (int64_t)(clock_real(clock_kernel()) / NS_PER_S);
    made->health_check_timeout_seconds = HEALTH_TIMEOUT_S;
    made->message = arena_printf(arena, "%.*s", MESSAGE_CAP, unit ? unit->why : "it is not there any more");
    return made;
}

/* The kubelet wants all of them each time, and forgets what it was not told for a while. */
static void send_health(const Dra *dra, GrpcStream *stream)
{
    CLEANUP(arena_done) Arena arena = {0};
    Dra__HealthList list;
    const json_t *device;
    size_t i;

    dra__health_list__init(&list);
    list.devices = arena_calloc(&arena, json_array_size(dra->devices) + 1, sizeof *list.devices);
    json_array_foreach(dra->devices, i, device)
    {
        list.devices[list.n_devices++] = make_health(dra, device, &arena);
    }
    send_message(stream, &list.base);
}

static void send_health_to_all(const Dra *dra)
{
    for (size_t i = 0; i < WATCHERS_MAX; i++)
        if (dra->watchers.at[i])
            send_health(dra, dra->watchers.at[i]);
}

static void watch_health(void *self, GrpcStream *stream, const uint8_t *bytes UNUSED, size_t len UNUSED)
{
    Dra *dra = self;

    if (watchers_add(&dra->watchers, stream, "health"))
        send_health(dra, stream);
}

static void forget_watcher(void *self, GrpcStream *stream)
{
    Dra *dra = self;

    watchers_forget(&dra->watchers, stream);
}

/* --- servers ------------------------------------------------------------------------------------------------------ */

static const GrpcMethod registration_methods[] = {
    {"/pluginregistration.Registration/GetInfo", tell_info, NULL},
    {"/pluginregistration.Registration/NotifyRegistrationStatus", take_status, NULL},
};

static const GrpcMethod service_methods[] = {
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", prepare_claims, forget_preparing},
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", unprepare_claims, NULL},
    {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", prepare_claims, forget_preparing},
    {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", unprepare_claims, NULL},
    {"/v1alpha1.DRAResourceHealth/NodeWatchResources", watch_health, forget_watcher},
};

static int open_server(const Dra *dra, const char *socket, const GrpcMethod *methods, size_t count, GrpcServer **server,
                       Err *err)
{
    if (*server && grpc_server_is_there(*server))
        return 0;
    grpc_server_close(TAKE(*server));
    return grpc_server_new(dra->loop, socket, methods, count, (void *)(uintptr_t)dra, server, err);
}

/* Before it is known what is here, nothing can be prepared, and the kubelet finds nobody. */
static void keep_servers(Dra *dra)
{
    const bool lost = dra->server && !grpc_server_is_there(dra->server);
    Err err = {0};

    if (!dra->devices || !dra->offer)
        return;
    if (lost) { /* its calls end without a word */
        dra->watchers = (Watchers){0};
        while (dra->preparing)
            free_preparing(dra->preparing);
    }
    if (file_make_dirs(dra->folder, 0750, &err) == 0 &&
        open_server(dra, dra->socket, service_methods, ARRAY_LEN(service_methods), &dra->server, &err) == 0)
        (void)open_server(dra, dra->registration, registration_methods, ARRAY_LEN(registration_methods),
                          &dra->registrar, &err);
    if (err.code && strcmp(dra->serve_error, err.text) != 0)
        log_write(dra->config->log, LOG_LEVEL_ERROR, "claims: %s; it is tried again", err.text);
    memcpy(dra->serve_error, err.text, sizeof dra->serve_error);
}

static void on_timer(uv_timer_t *timer)
{
    Dra *dra = timer->data;

    keep_servers(dra);
    look_at_items(dra);
    if (++dra->ticks % HEALTH_TICKS == 0)
        send_health_to_all(dra);
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

/* Incidents as taints, for new pods alone: what runs is not taken from a device. */
static json_t *make_tainted(const Dra *dra)
{
    json_t *tainted = json_object(), *device;
    char key[128];
    size_t i;

    snprintf(key, sizeof key, "%.80s/unhealthy", dra->config->driver);
    json_array_foreach(dra->devices, i, device)
    {
        const OfferUnit *unit = find_unit(dra, uuid_of(device));

        if (!unit || !unit->healthy)
            json_object_set_new(tainted, json_string_value(json_object_get(device, "name")),
                                json_pack("{s:s,s:s}", "key", key, "value", unit ? unit->incident : ""));
    }
    return tainted;
}

static void publish_devices(Dra *dra)
{
    if (!dra->devices || !dra->offer)
        return;
    dra->config->port.publish(dra->config->self, json_incref(dra->devices), make_tainted(dra));
    send_health_to_all(dra);
    keep_servers(dra);
}

void dra_offer(Dra *dra, const Offer *offer)
{
    dra->offer = offer;
    dra_keep_files(dra);
    publish_devices(dra);
}

/* The driver says little or nothing of a GPU that is lost: it stays as it was described before. */
static json_t *complete_devices(Dra *dra, json_t *fresh)
{
    json_t *all = json_array(), *kept = json_object(), *device;
    const char *uuid;
    size_t i;

    json_array_foreach(fresh, i, device)
    {
        const OfferUnit *unit = find_unit(dra, uuid_of(device));
        json_t *before = json_object_get(dra->described, uuid_of(device));

        device = before && unit && !unit->healthy ? before : device;
        json_object_set(kept, uuid_of(device), device);
        json_array_append(all, device);
    }
    json_object_foreach(dra->described, uuid, device)
    {
        if (json_object_get(kept, uuid) || !find_unit(dra, uuid))
            continue;
        json_object_set(kept, uuid, device);
        json_array_append(all, device);
    }
    json_decref(dra->described);
    dra->described = kept;
    return all;
}

int dra_set_devices(Dra *dra, const Str *devices, Err *err)
{
    CLEANUP(json_decref_at) json_t *read = json_loadb(devices->text, devices->len, 0, NULL);

    if (!json_is_array(read))
        return err_set(err, -EBADMSG, "the list of devices cannot be read");
    json_decref(dra->devices);
    dra->devices = complete_devices(dra, read);
    publish_devices(dra);
    return 0;
}

int dra_new(uv_loop_t *loop, const DraConfig *config, Dra **ret, Err *err)
{
    Dra *dra = xcalloc(1, sizeof *dra);

    dra->config = config;
    dra->loop = loop;
    snprintf(dra->folder, sizeof dra->folder, "%s/%s", config->plugins, config->driver);
    snprintf(dra->socket, sizeof dra->socket, "%s/%s/dra.sock", config->plugins, config->driver);
    snprintf(dra->claims, sizeof dra->claims, "%s/%s/claims.json", config->plugins, config->driver);
    snprintf(dra->registration, sizeof dra->registration, "%s/%s-reg.sock", config->registry, config->driver);
    dra->slicer = slicer_new(loop, config->driver_root);
    uv_timer_init(loop, &dra->timer);
    dra->timer.data = dra;
    uv_timer_start(&dra->timer, on_timer, LOOK_MS, LOOK_MS);
    const int rc = prepared_load(dra->claims, config->driver, config->boot_id, &dra->prepared, err);
    if (rc < 0) {
        dra_close(dra);
        return rc;
    }
    claim_spec_remove_others(dra->config, dra->prepared);
    for (Prepared *one = dra->prepared; one; one = one->next)
        if (one->leaving)
            reset_slices(dra, one);
    want_daemons(dra);
    *ret = dra;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    Dra *dra = handle->data;
    Prepared *next;

    for (Prepared *one = dra->prepared; one; one = next) {
        next = one->next;
        prepared_free(one);
    }
    json_decref(dra->devices);
    json_decref(dra->described);
    free(dra);
}

void dra_close(Dra *dra)
{
    if (!dra)
        return;
    grpc_server_close(TAKE(dra->registrar));
    grpc_server_close(TAKE(dra->server));
    while (dra->preparing)
        free_preparing(dra->preparing);
    slicer_close(TAKE(dra->slicer));
    uv_close((uv_handle_t *)&dra->timer, on_timer_closed);
}
