/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/claims.h"

#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "verb/kubelet/child.h"
#include "verb/kubelet/publish.h"

enum { TIMEOUT_S = 10, AGAIN_S = 30 };

struct Claims {
    Arena arena; /* of the configuration's texts */
    DraConfig config;
    PublisherConfig publishing;
    void (*find_files)(void *self, Arena *arena, DriverFiles *ret);
    void *self;
    Dra *dra;
    Publisher *publisher;
    MpsKeeper *mps;
    Child devices;
};

/* --- what the Dra needs ------------------------------------------------------------------------------------------- */

typedef struct ObjectRead {
    KubeCall *call;
    void (*done)(void *reader, const json_t *object, const char *why);
    void *reader;
} ObjectRead;

static void on_read(void *self, const KubeReply *reply)
{
    ObjectRead *reading = self;

    reading->done(reading->reader, reply->state == KUBE_OK ? reply->object : NULL, reply->text);
    free(reading);
}

static void *read_object(void *self, const char *path,
                         void (*done)(void *reader, const json_t *object, const char *why), void *reader)
{
    const Claims *claims = self;
    ObjectRead *reading = xcalloc(1, sizeof *reading);

    reading->done = done;
    reading->reader = reader;
    kube_call_new(publisher_api(claims->publisher), &(KubeRequest){.method = "GET", .path = path}, on_read, reading,
                  &reading->call);
    return reading;
}

static void cancel_reading(void *self UNUSED, void *reading)
{
    kube_call_cancel(((ObjectRead *)reading)->call);
    free(reading);
}

static void publish_devices(void *self, json_t *devices, json_t *counters, json_t *tainted)
{
    publisher_set(((Claims *)self)->publisher, devices, counters, tainted);
}

static void look_again(void *self)
{
    publisher_ask(((Claims *)self)->publisher);
}

static void find_driver(void *self, Arena *arena, DriverFiles *ret)
{
    const Claims *claims = self;

    claims->find_files(claims->self, arena, ret);
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

static void take_devices(void *self, const Str *out)
{
    Claims *claims = self;
    Err err;

    if (dra_set_devices(claims->dra, out, &err) < 0)
        log_write(claims->config.log, LOG_LEVEL_ERROR, "claims: %s", err.text);
}

int claims_new(uv_loop_t *loop, const VerbCall *call, const KubeletSettings *settings, const Log *log,
               void (*find_files)(void *self, Arena *arena, DriverFiles *ret), void *self, Claims **ret, Err *err)
{
    const KubeletOptions *o = &settings->o;
    Claims *claims = arena_calloc(call->arena, 1, sizeof *claims);

    claims->config = (DraConfig){.driver = arena_strdup(&claims->arena, o->dra_driver),
                                 .node = arena_strdup(&claims->arena, o->node),
                                 .plugins = arena_strdup(&claims->arena, o->plugins),
                                 .registry = arena_strdup(&claims->arena, o->registry),
                                 .cdi_root = arena_strdup(&claims->arena, o->cdi_root),
                                 .boot_id = kubelet_boot_id(o, &claims->arena),
                                 .library = arena_strdup(&claims->arena, o->library ? o->library : ""),
                                 .driver_root = arena_strdup(&claims->arena, kubelet_driver_root(o)),
                                 .mps_root = arena_printf(&claims->arena, "%s/%s/mps", o->plugins, o->dra_driver),
                                 .grant = settings->kubelet.grant,
                                 .port = {read_object, cancel_reading, publish_devices, look_again, find_driver},
                                 .self = claims,
                                 .log = log};
    claims->publishing = (PublisherConfig){.driver = claims->config.driver,
                                           .node = claims->config.node,
                                           .api = {.account = o->account,
                                                   .kubeconfig = o->kubeconfig,
                                                   .soon_ns = NS_PER_S,
                                                   .again_ns = AGAIN_S * NS_PER_S,
                                                   .timeout_ns = TIMEOUT_S * NS_PER_S,
                                                   .log = log},
                                           .log = log};
    claims->find_files = find_files;
    claims->self = self;
    claims->devices = (Child){.call = call, .sub = "devices", .done = take_devices, .self = claims, .log = log};
    TRY(publisher_new(loop, &claims->publishing, &claims->publisher, err));
    claims->config.mps = claims->mps = kubelet_open_mps(loop, o, claims->config.mps_root, true, NULL, log);
    TRY(dra_new(loop, &claims->config, &claims->dra, err));
    child_init(&claims->devices, loop);
    *ret = claims;
    return 0;
}

void claims_offer(Claims *claims, const Offer *offer)
{
    dra_offer(claims->dra, offer);
    child_want(&claims->devices);
    child_tick(&claims->devices);
}

void claims_configure(Claims *claims, const GrantConfig *grant)
{
    claims->config.grant = *grant;
}

void claims_tick(Claims *claims)
{
    child_tick(&claims->devices);
    dra_keep_files(claims->dra);
}

void claims_close(Claims *claims)
{
    if (!claims)
        return;
    child_close(&claims->devices);
    dra_close(claims->dra);
    mps_keeper_close(claims->mps);
    publisher_close(claims->publisher);
}
