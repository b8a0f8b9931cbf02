/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of this node: as many slices as its devices take, each written under its own name. The scheduler uses the
 * highest generation of a pool alone, and only if all its slices are there: one slice that differs is changed within
 * its generation, more of them begin a new one. A kubelet that starts deletes the slices of its node: they are made
 * again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "verb/kubelet/publish.h"

#define SLICES "/apis/resource.k8s.io/v1/resourceslices"

enum { SLICE_DEVICES = 64, SLICE_SETS = 8, SLICE_COUNTERS = 1024, SLICES_MAX = 32, NAME_CAP = 256, DOUBLINGS_MAX = 6 };

CLEANUP_POINTER(json_t, json_decref);

/* A slice that was written: what was asked for, which version the server made of it, and of which ("": of none). */
typedef struct Written {
    json_t *spec;
    char version[32], before[32];
} Written;

struct Publisher {
    const PublisherConfig *config;
    Arena arena;
    KubeApi *api;
    KubeCall *call; /* under way */
    uv_timer_t timer;
    unsigned failures;
    json_t *devices, *counters, *tainted;
    json_t *fresh, *there; /* slices of this node, by name: being read, and known */
    bool seen;             /* `there` was read */
    json_t *node_uid;
    bool no_taints, no_counters; /* the server keeps none */
    Written written[SLICES_MAX];
    size_t sending; /* which is being written */
};

/* --- what is wanted ----------------------------------------------------------------------------------------------- */

static json_t *make_device(const Publisher *p, json_t *device)
{
    const char *name = json_string_value(json_object_get(device, "name"));
    const json_t *taint = json_object_get(p->tainted, name);

    if (!taint)
        return json_incref(device);
    json_t *marked = json_copy(device);
    json_object_set_new(marked, "taints",
                        json_pack("[{s:O,s:O,s:s}]", "key", json_object_get(taint, "key"), "value",
                                  json_object_get(taint, "value"), "effect", "NoSchedule"));
    return marked;
}

static size_t count_consumed(const json_t *device)
{
    const json_t *used;
    size_t i, count = 0;

    json_array_foreach(json_object_get(device, "consumesCounters"), i, used)
    {
        count += json_object_size(json_object_get(used, "counters"));
    }
    return count;
}

static json_t *begin_list(json_t *lists, const char *what)
{
    json_t *list = json_array();

    json_array_append_new(lists, json_pack("{s:o}", what, list));
    return list;
}

static void add_counters(const Publisher *p, json_t *lists)
{
    json_t *set, *list = NULL;
    size_t i;

    json_array_foreach(p->counters, i, set)
    {
        if (!list || json_array_size(list) == SLICE_SETS)
            list = begin_list(lists, "sharedCounters");
        json_array_append(list, set);
    }
}

/* What is in each slice: counters, or devices. Where the server keeps no taints, what is not for new pods is not in
 * them, and where it keeps no counters, nothing that shares any. */
static json_t *make_lists(const Publisher *p)
{
    json_t *lists = json_array(), *device, *list = NULL;
    size_t i, counters = 0;

    if (!p->no_counters)
        add_counters(p, lists);
    json_array_foreach(p->devices, i, device)
    {
        const char *name = json_string_value(json_object_get(device, "name"));
        const size_t consumed = count_consumed(device);

        if ((p->no_taints && json_object_get(p->tainted, name)) || (p->no_counters && consumed))
            continue;
        if (!list || json_array_size(list) == SLICE_DEVICES || counters + consumed > SLICE_COUNTERS) {
            list = begin_list(lists, "devices");
            counters = 0;
        }
        counters += consumed;
        json_array_append_new(list, make_device(p, device));
    }
    return lists;
}

static json_t *make_spec(const Publisher *p, json_t *list, json_int_t generation, size_t count)
{
    json_t *spec =
        json_pack("{s:s,s:s,s:{s:s,s:I,s:I}}", "driver", p->config->driver, "nodeName", p->config->node, "pool", "name",
                  p->config->node, "generation", generation, "resourceSliceCount", (json_int_t)count);

    json_object_update(spec, list);
    return spec;
}

static void name_slice(const Publisher *p, size_t i, char to[NAME_CAP])
{
    snprintf(to, NAME_CAP, "%.120s-%.63s-%zu", p->config->node, p->config->driver, i);
}

/* --- what is there ------------------------------------------------------------------------------------------------ */

static json_t *pool_member(const json_t *slice, const char *name)
{
    return json_object_get(json_object_get(json_object_get(slice, "spec"), "pool"), name);
}

static const char *version_of(const json_t *slice)
{
    const char *version = json_string_value(json_object_get(json_object_get(slice, "metadata"), "resourceVersion"));

    return version ? version : "";
}

/* The server adds the time to a taint. */
static json_t *spec_without_times(const json_t *slice)
{
    json_t *spec = json_deep_copy(json_object_get(slice, "spec")), *device, *taint;
    size_t i, k;

    json_array_foreach(json_object_get(spec, "devices"), i, device)
    {
        json_array_foreach(json_object_get(device, "taints"), k, taint)
        {
            json_object_del(taint, "timeAdded");
        }
    }
    return spec;
}

/* What the server made of exactly this counts as this, whatever it left out. */
static bool is_as_wanted(const Publisher *p, size_t i, const json_t *slice, const json_t *spec)
{
    const Written *written = &p->written[i];

    if (written->spec && strcmp(written->version, version_of(slice)) == 0 && json_equal(written->spec, spec))
        return true;
    CLEANUP(json_decref_at) json_t *there = spec_without_times(slice);
    return json_equal(there, spec);
}

/* --- one step after the other ------------------------------------------------------------------------------------- */

static void take_step(Publisher *p);

static void retry_later(Publisher *p, uint64_t wait_ns)
{
    const uint64_t grown = NS_PER_S << (p->failures < DOUBLINGS_MAX ? p->failures : DOUBLINGS_MAX);

    p->failures++;
    uv_timer_start(&p->timer, p->timer.timer_cb, (wait_ns > grown ? wait_ns : grown) / NS_PER_MS, 0);
}

/* 409 and 404: somebody else was there; what is there now decides. */
static void fail_step(Publisher *p, const char *what, const KubeReply *reply)
{
    if (p->failures == 0 && reply->state != KUBE_CONFLICT && reply->state != KUBE_NOT_FOUND)
        log_write(p->config->log, LOG_LEVEL_WARN, "claims: %s: %s; it is tried again", what, reply->text);
    p->seen = false;
    retry_later(p, reply->wait_ns);
}

static bool has_counters(const json_t *slice)
{
    return json_object_get(json_object_get(slice, "spec"), "sharedCounters") != NULL;
}

static void drop_counters(Publisher *p, const char *why)
{
    p->no_counters = true;
    log_write(p->config->log, LOG_LEVEL_WARN,
              "claims: this API server does not take counters of devices (DRAPartitionableDevices), so MIG devices are "
              "not made for claims%s%s",
              why[0] ? ": " : "", why);
}

static bool has_taints(const json_t *slice)
{
    const json_t *device;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(slice, "spec"), "devices"), i, device)
    {
        if (json_object_get(device, "taints"))
            return true;
    }
    return false;
}

static void on_written(void *self, const KubeReply *reply)
{
    Publisher *p = self;
    Written *written = &p->written[p->sending];
    char name[NAME_CAP];

    p->call = NULL;
    if (reply->state == KUBE_BAD_REPLY && !p->no_counters && json_array_size(p->counters)) {
        drop_counters(p, reply->text);
        take_step(p);
        return;
    }
    if (reply->state != KUBE_OK || !reply->object) {
        fail_step(p, "the devices cannot be published", reply);
        return;
    }
    p->failures = 0;
    name_slice(p, p->sending, name);
    snprintf(written->version, sizeof written->version, "%s", version_of(reply->object));
    json_object_set(p->there, name, (json_t *)(uintptr_t)reply->object);
    CLEANUP(json_decref_at) json_t *wanted = json_pack("{s:O}", "spec", written->spec);
    if (!p->no_counters && has_counters(wanted) && !has_counters(reply->object))
        drop_counters(p, "");
    if (!p->no_taints && has_taints(wanted) && !has_taints(reply->object)) {
        p->no_taints = true;
        log_write(p->config->log, LOG_LEVEL_INFO,
                  "claims: this API server keeps no taints of devices: those that are unhealthy are not published");
    }
    take_step(p);
}

static void on_deleted(void *self, const KubeReply *reply)
{
    Publisher *p = self;

    p->call = NULL;
    if (reply->state != KUBE_OK && reply->state != KUBE_NOT_FOUND) {
        fail_step(p, "a slice of devices cannot be removed", reply);
        return;
    }
    take_step(p);
}

static void on_node(void *self, const KubeReply *reply)
{
    Publisher *p = self;

    p->call = NULL;
    if (reply->state != KUBE_OK) {
        fail_step(p, "this node cannot be read", reply);
        return;
    }
    p->node_uid = json_incref(json_object_get(json_object_get(reply->object, "metadata"), "uid"));
    if (p->node_uid)
        take_step(p);
}

static void send_request(Publisher *p, const char *method, const char *path, json_t *body,
                         void (*done)(void *self, const KubeReply *reply))
{
    CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    kube_call_new(p->api, &(KubeRequest){.method = method, .path = path, .body = text}, done, p, &p->call);
}

/* Takes `spec` over. */
static void write_slice(Publisher *p, size_t i, json_t *spec)
{
    char name[NAME_CAP], path[NAME_CAP + sizeof SLICES];
    name_slice(p, i, name);
    const json_t *there = json_object_get(p->there, name);
    CLEANUP(json_decref_at)
    json_t *body =
        json_pack("{s:s,s:s,s:{s:s,s:[{s:s,s:s,s:s,s:O,s:b}]},s:O}", "apiVersion", "resource.k8s.io/v1", "kind",
                  "ResourceSlice", "metadata", "name", name, "ownerReferences", "apiVersion", "v1", "kind", "Node",
                  "name", p->config->node, "uid", p->node_uid, "controller", 1, "spec", spec);

    if (there)
        json_object_set_new(json_object_get(body, "metadata"), "resourceVersion", json_string(version_of(there)));
    snprintf(path, sizeof path, there ? SLICES "/%s" : "%s", there ? name : SLICES);
    json_decref(p->written[i].spec);
    p->written[i].spec = spec;
    p->written[i].version[0] = '\0';
    snprintf(p->written[i].before, sizeof p->written[i].before, "%s", there ? version_of(there) : "");
    p->sending = i;
    send_request(p, there ? "PUT" : "POST", path, body, on_written);
}

/* The generation in which these `count` slices are to be. */
static json_int_t choose_generation(const Publisher *p, json_t *lists)
{
    const size_t count = json_array_size(lists);
    json_int_t highest = 0;
    size_t at_highest = 0, differing = 0;
    bool older = false, other_count = false;
    const char *name;
    json_t *slice, *list;
    size_t i;

    json_object_foreach(p->there, name, slice)
    {
        const json_int_t generation = json_integer_value(pool_member(slice, "generation"));

        older |= highest > 0 && generation != highest;
        highest = generation > highest ? generation : highest;
    }
    json_object_foreach(p->there, name, slice)
    {
        if (json_integer_value(pool_member(slice, "generation")) != highest)
            continue;
        at_highest++;
        other_count |= json_integer_value(pool_member(slice, "resourceSliceCount")) != (json_int_t)count;
    }
    json_array_foreach(lists, i, list)
    {
        CLEANUP(json_decref_at) json_t *spec = make_spec(p, list, highest, count);
        char own[NAME_CAP];

        name_slice(p, i, own);
        slice = json_object_get(p->there, own);
        differing += slice && !is_as_wanted(p, i, slice, spec);
    }
    if (highest > 0 && !other_count && (older || at_highest < count || differing <= 1))
        return highest;
    return highest + 1;
}

/* The next slice that is not as it is to be, then one that is too many. */
static void take_step(Publisher *p)
{
    if (p->call || !p->seen || !p->devices)
        return;
    CLEANUP(json_decref_at) json_t *lists = make_lists(p);
    const size_t count = json_array_size(lists);
    const json_int_t generation = choose_generation(p, lists);
    char name[NAME_CAP], path[NAME_CAP + sizeof SLICES];
    const char *there;
    json_t *slice;
    void *next;

    if (!p->node_uid && count) {
        snprintf(path, sizeof path, "/api/v1/nodes/%s", p->config->node);
        send_request(p, "GET", path, NULL, on_node);
        return;
    }
    for (size_t i = 0; i < count && i < SLICES_MAX; i++) {
        json_t *spec = make_spec(p, json_array_get(lists, i), generation, count);

        name_slice(p, i, name);
        slice = json_object_get(p->there, name);
        if (!slice || !is_as_wanted(p, i, slice, spec)) {
            write_slice(p, i, spec);
            return;
        }
        json_decref(spec);
    }
    json_object_foreach_safe(p->there, next, there, slice)
    {
        bool wanted = false;

        for (size_t i = 0; i < count && !wanted; i++) {
            name_slice(p, i, name);
            wanted = strcmp(name, there) == 0;
        }
        if (wanted)
            continue;
        snprintf(path, sizeof path, SLICES "/%s", there);
        json_object_del(p->there, there);
        send_request(p, "DELETE", path, NULL, on_deleted);
        return;
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void begin_reading(void *self)
{
    json_object_clear(((Publisher *)self)->fresh);
}

static int add_slice(void *self, const json_t *object, Err *err)
{
    Publisher *p = self;
    const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
    const char *driver = json_string_value(json_object_get(json_object_get(object, "spec"), "driver"));

    if (!name)
        return err_set(err, -EBADMSG, "an object of the list has no name");
    if (driver && strcmp(driver, p->config->driver) == 0)
        json_object_set(p->fresh, name, (json_t *)(uintptr_t)object);
    return 0;
}

/* A watch may tell of a change before that which was written last: of a slice that was written since, this counts. */
static void keep_newer(const Publisher *p)
{
    for (size_t i = 0; i < SLICES_MAX; i++) {
        const Written *written = &p->written[i];
        char name[NAME_CAP];

        name_slice(p, i, name);
        json_t *fresh = json_object_get(p->fresh, name), *known = json_object_get(p->there, name);
        if (fresh && known && written->before[0] && strcmp(version_of(fresh), written->before) == 0 &&
            strcmp(version_of(known), written->version) == 0)
            json_object_set(p->fresh, name, known);
    }
}

static bool end_reading(void *self)
{
    Publisher *p = self;

    if (p->call) /* a change is under way: what was read may be older than it */
        return false;
    keep_newer(p);
    json_t *before = p->there;
    p->there = p->fresh;
    p->fresh = before;
    p->seen = true;
    take_step(p);
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    kube_api_ask(((Publisher *)timer->data)->api, 0);
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

int publisher_new(uv_loop_t *loop, const PublisherConfig *config, Publisher **ret, Err *err)
{
    Publisher *p = xcalloc(1, sizeof *p);
    const KubeRead read = {.what = "resourceslices of this node",
                           .path =
                               arena_printf(&p->arena, SLICES "?fieldSelector=spec.nodeName%%3D%s,spec.driver%%3D%s",
                                            config->node, config->driver),
                           .list = true,
                           .begin = begin_reading,
                           .add = add_slice,
                           .end = end_reading,
                           .self = p};

    p->config = config;
    p->fresh = json_object();
    p->there = json_object();
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    p->timer.timer_cb = on_timer;
    const int rc = kube_api_new(loop, &config->api, &read, 1, &p->api, err);
    *ret = p;
    if (rc < 0)
        publisher_close(TAKE(*ret));
    return rc;
}

KubeApi *publisher_api(Publisher *publisher)
{
    return publisher->api;
}

void publisher_set(Publisher *p, json_t *devices, json_t *counters, json_t *tainted)
{
    json_decref(p->devices);
    json_decref(p->counters);
    json_decref(p->tainted);
    p->devices = devices;
    p->counters = counters;
    p->tainted = tainted;
    take_step(p);
}

void publisher_ask(Publisher *publisher)
{
    kube_api_ask(publisher->api, 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    Publisher *p = handle->data;

    for (size_t i = 0; i < SLICES_MAX; i++)
        json_decref(p->written[i].spec);
    json_decref(p->devices);
    json_decref(p->counters);
    json_decref(p->tainted);
    json_decref(p->fresh);
    json_decref(p->there);
    json_decref(p->node_uid);
    arena_done(&p->arena);
    free(p);
}

void publisher_close(Publisher *p)
{
    if (!p)
        return;
    kube_call_cancel(TAKE(p->call));
    kube_api_close(TAKE(p->api));
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}
