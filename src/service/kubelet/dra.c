/* SPDX-License-Identifier: Apache-2.0 */
/* What the kubelet finds: the registration socket, which names the service's, and there health; and the node's devices
 * as they are published. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "service/kubelet/dra_inside.h"

enum { LOOK_MS = 500, HEALTH_TICKS = 16, HEALTH_TIMEOUT_S = 30, HEALTHY = 1, UNHEALTHY = 2, MESSAGE_CAP = 1024 };

CLEANUP_POINTER(json_t, json_decref);

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

/* --- health ------------------------------------------------------------------------------------------------------- */

static Dra__DeviceHealth *make_health(const Dra *dra, const json_t *device, Arena *arena)
{
    const OfferUnit *unit = dra_unit(dra, device);
    Dra__DeviceHealth *made = NEW_MESSAGE(arena, Dra__DeviceHealth, dra__device_health__init);

    made->device = NEW_MESSAGE(arena, Dra__DeviceName, dra__device_name__init);
    made->device->pool_name = (char *)(uintptr_t)dra->config->node;
    made->device->device_name = (char *)(uintptr_t)dra_name(device);
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
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", dra_prepare, dra_forget_preparing},
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", dra_unprepare, NULL},
    {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", dra_prepare, dra_forget_preparing},
    {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", dra_unprepare, NULL},
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
        dra_stop_preparing(dra);
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
    dra_look_at_claims(dra);
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
        const OfferUnit *unit = dra_unit(dra, device);

        if (!unit || !unit->healthy)
            json_object_set_new(tainted, dra_name(device),
                                json_pack("{s:s,s:s}", "key", key, "value", unit ? unit->incident : ""));
    }
    return tainted;
}

static void publish_devices(Dra *dra)
{
    if (!dra->devices || !dra->offer)
        return;
    dra->config->port.publish(dra->config->self, json_incref(dra->devices), json_incref(dra->counters),
                              make_tainted(dra));
    send_health_to_all(dra);
    keep_servers(dra);
}

void dra_offer(Dra *dra, const Offer *offer)
{
    dra->offer = offer;
    dra_keep_files(dra);
    publish_devices(dra);
    dra_look_at_claims(dra);
}

static const char *key_of(const json_t *device)
{
    return dra_uuid(device)[0] ? dra_uuid(device) : dra_name(device);
}

/* Whether the driver says little or nothing of the device: its GPU is known to be lost, or was lost before anybody
 * noticed. */
static bool is_unread(const Dra *dra, const json_t *unread, const json_t *device)
{
    const OfferUnit *unit = dra_unit(dra, device);
    const json_t *uuid;
    size_t i;

    json_array_foreach(unread, i, uuid)
    {
        const char *text = json_string_value(uuid);

        if (text && (strcmp(text, dra_uuid(device)) == 0 || strcmp(text, dra_parent(device)) == 0))
            return true;
    }
    return unit && !unit->healthy;
}

/* A device of which the driver says nothing stays as it was described before. */
static json_t *complete_devices(Dra *dra, json_t *fresh, const json_t *unread)
{
    json_t *all = json_array(), *kept = json_object(), *device;
    const char *key;
    size_t i;

    json_array_foreach(fresh, i, device)
    {
        json_t *before = json_object_get(dra->described, key_of(device));

        device = before && is_unread(dra, unread, device) ? before : device;
        json_object_set(kept, key_of(device), device);
        json_array_append(all, device);
    }
    json_object_foreach(dra->described, key, device)
    {
        /* One that is made for claims alone is on no list of the agent's. */
        if (json_object_get(kept, key) || !dra_unit(dra, device) ||
            (!dra_uuid(device)[0] && !is_unread(dra, unread, device)))
            continue;
        json_object_set(kept, key, device);
        json_array_append(all, device);
    }
    json_decref(dra->described);
    dra->described = kept;
    return all;
}

static bool is_shared_by_any(json_t *devices, const char *set)
{
    json_t *device, *used;
    size_t i, k;

    json_array_foreach(devices, i, device)
    {
        json_array_foreach(json_object_get(device, "consumesCounters"), k, used)
        {
            const char *name = json_string_value(json_object_get(used, "counterSet"));

            if (name && strcmp(name, set) == 0)
                return true;
        }
    }
    return false;
}

/* And so do the counters of its devices. Takes `fresh` over. */
static void complete_counters(Dra *dra, json_t *fresh)
{
    json_t *set, *old;
    size_t i, k;

    json_array_foreach(dra->counters, i, old)
    {
        bool there = false;

        json_array_foreach(fresh, k, set)
        {
            there |= strcmp(dra_name(set), dra_name(old)) == 0;
        }
        if (!there && is_shared_by_any(dra->devices, dra_name(old)))
            json_array_append(fresh, old);
    }
    json_decref(dra->counters);
    dra->counters = fresh;
}

int dra_set_devices(Dra *dra, const Str *devices, Err *err)
{
    CLEANUP(json_decref_at) json_t *read = json_loadb(devices->text, devices->len, 0, NULL);
    json_t *list = json_object_get(read, "devices"), *counters = json_object_get(read, "sharedCounters");

    if (!json_is_array(list) || !json_is_array(counters))
        return err_set(err, -EBADMSG, "the list of devices cannot be read");
    json_decref(dra->devices);
    dra->devices = complete_devices(dra, list, json_object_get(read, "unread"));
    complete_counters(dra, json_incref(counters));
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
    dra->claims = prepared_path(config->plugins, config->driver, &dra->arena);
    snprintf(dra->registration, sizeof dra->registration, "%s/%s-reg.sock", config->registry, config->driver);
    dra->runner = runner_new(loop, config->driver_root);
    uv_timer_init(loop, &dra->timer);
    dra->timer.data = dra;
    uv_timer_start(&dra->timer, on_timer, LOOK_MS, LOOK_MS);
    const int rc = prepared_load(dra->claims, config->driver, config->boot_id, &dra->prepared, err);
    if (rc < 0) {
        dra_close(dra);
        return rc;
    }
    dra_resume_claims(dra);
    *ret = dra;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    Dra *dra = handle->data;

    prepared_free_all(&dra->prepared);
    arena_done(&dra->arena);
    json_decref(dra->devices);
    json_decref(dra->counters);
    json_decref(dra->described);
    free(dra);
}

void dra_close(Dra *dra)
{
    if (!dra)
        return;
    grpc_server_close(TAKE(dra->registrar));
    grpc_server_close(TAKE(dra->server));
    dra_stop_preparing(dra);
    runner_close(TAKE(dra->runner));
    uv_close((uv_handle_t *)&dra->timer, on_timer_closed);
}
