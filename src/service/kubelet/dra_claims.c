/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims prepared and unprepared. The kubelet's calls may come twice, late, or after it has given them up: a claim that
 * is prepared is answered alike each time, and a claim is in the file before anything of it is made on the host.
 */
#include "base/cleanup.h"
#include "service/kubelet/dra_inside.h"

enum { CLAIMS_MAX = 64, NAME_MAX_BYTES = 256 };

#define WAIT_NS (30 * NS_PER_S) /* a kubelet waits 45 s for a claim */
#define AGAIN_NS (5 * NS_PER_S)

/* One claim of a call. */
typedef struct Item {
    Preparing *call;
    const Dra__Claim *claim;
    void *reading; /* the claim is being read from the API server; the port's */
    Prepared *prepared;
    size_t made;          /* its devices before this one are made, where they had to be */
    bool shared;          /* all are there, and its sharing was begun */
    unsigned slices;      /* time slices that are being set for it */
    uint64_t deadline_ns; /* by then its MIG devices are offered, or its MPS daemons ready; 0: it is not so far */
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

/* --- devices by name ---------------------------------------------------------------------------------------------- */

static const char *get_attribute(const json_t *device, const char *name)
{
    const json_t *value = json_object_get(json_object_get(device, "attributes"), name);
    const char *text = json_string_value(json_object_get(value, "string"));

    return text ? text : "";
}

const char *dra_uuid(const json_t *device)
{
    return get_attribute(device, "uuid");
}

const char *dra_parent(const json_t *device)
{
    return get_attribute(device, "parentUUID");
}

const char *dra_name(const json_t *device)
{
    const char *name = json_string_value(json_object_get(device, "name"));

    return name ? name : "";
}

static const json_t *find_device(const Dra *dra, const char *name)
{
    const json_t *device;
    size_t i;

    json_array_foreach(dra->devices, i, device)
    {
        if (strcmp(dra_name(device), name) == 0)
            return device;
    }
    return NULL;
}

const OfferUnit *dra_find_unit(const Dra *dra, const char *uuid)
{
    return dra->offer ? offer_find_unit(dra->offer, uuid) : NULL;
}

const OfferUnit *dra_unit(const Dra *dra, const json_t *device)
{
    size_t at;

    if (dra_uuid(device)[0])
        return dra_find_unit(dra, dra_uuid(device));
    const Prepared *maker = prepared_maker(dra->prepared, dra_name(device), &at);
    const OfferUnit *made = maker ? dra_find_unit(dra, maker->uuids[at]) : NULL;
    if (made || !dra->offer)
        return made;
    return offer_find_split(dra->offer, dra_parent(device));
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/* Who only looks at a MIG device that is made for claims has that of the claim. */
static int choose_device(const Dra *dra, Prepared *prepared, size_t i, const json_t *device, Err *err)
{
    size_t at;
    const Prepared *maker = prepared_maker(dra->prepared, dra_name(device), &at);

    if (!prepared->claim.devices[i].admin)
        prepared->parents[i] = arena_strdup(&prepared->arena, dra_parent(device));
    else if (maker && maker->uuids[at][0])
        prepared->uuids[i] = arena_strdup(&prepared->arena, maker->uuids[at]);
    else
        return err_set(err, -ENODEV, "%.60s is not made: no claim has it", dra_name(device));
    return 0;
}

static int check_device(const Dra *dra, Prepared *prepared, size_t i, const DriverFiles *files, Err *err)
{
    const ClaimDevice *device = &prepared->claim.devices[i];
    const json_t *found = find_device(dra, device->name);
    const OfferUnit *unit = found ? dra_unit(dra, found) : NULL;
    const Prepared *holder = NULL;

    if (!unit)
        return err_set(err, -ENODEV, "this node has no device %.60s any more: the pod can be created again",
                       device->name);
    if (!device->admin)
        holder = dra_uuid(found)[0] ? prepared_holder(dra->prepared, dra_uuid(found))
                                    : prepared_maker(dra->prepared, device->name, &(size_t){0});
    if (holder)
        return err_set(err, -EBUSY, "%.60s is held by claim %s/%s (%s), which is %s", device->name,
                       holder->claim.namespace, holder->claim.name, holder->claim.uid,
                       holder->leaving ? "just being unprepared" : "still prepared");
    if (!unit->healthy && !device->tolerates)
        return err_set(err, -EBUSY, "%.60s cannot be used now: %s; the pod can be created again on another device",
                       device->name, unit->why);
    if (!dra_uuid(found)[0])
        return choose_device(dra, prepared, i, found, err);
    prepared->uuids[i] = arena_strdup(&prepared->arena, dra_uuid(found));
    return claim_spec_check(files, unit, err);
}

static int save_claims(const Dra *dra, Err *err)
{
    return prepared_save(dra->claims, dra->config->boot_id, dra->prepared, err);
}

static int prepare_claim(Dra *dra, const Dra__Claim *asked, const json_t *object, Prepared **ret, Err *err)
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
    runner_forget(dra->runner, item);
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
static void await_sharing(Item *item)
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

static void on_slice(void *self, const char *out UNUSED, const Err *err)
{
    Item *item = self;

    item->slices--;
    if (err && !item->err.code)
        item->err = *err;
    await_sharing(item);
}

static void set_slice(const Dra *dra, const char *uuid, ClaimSlice slice, RunnerDone done, void *self)
{
    CLEANUP(arena_done) Arena arena = {0};

    runner_add(dra->runner, &(RunnerSpec){.what = arena_printf(&arena, "the time slice of %.60s cannot be set", uuid),
                                          .of_driver = true,
                                          .argv = {"nvidia-smi", "compute-policy", "-i", uuid, "--set-timeslice",
                                                   arena_printf(&arena, "%d", (int)slice)},
                                          .done = done,
                                          .self = self});
}

static void share_item(Item *item)
{
    const Dra *dra = item->call->dra;

    item->shared = true;
    for (size_t i = 0; i < item->prepared->claim.count; i++)
        if (prepared_has_slice(item->prepared, i)) {
            item->slices++;
            set_slice(dra, item->prepared->uuids[i], item->prepared->claim.devices[i].config->slice, on_slice, item);
        }
    want_daemons(dra);
    item->deadline_ns = uv_hrtime() + WAIT_NS;
    await_sharing(item);
}

/* The first MIG device that was made for it and is not offered yet; NULL: there is none. */
static const char *find_unseen(const Item *item)
{
    const Prepared *prepared = item->prepared;

    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared->parents[i][0] && !dra_find_unit(item->call->dra, prepared->uuids[i]))
            return prepared->claim.devices[i].name;
    return NULL;
}

static int keep_file(const Item *item, Err *err)
{
    const Dra *dra = item->call->dra;
    CLEANUP(arena_done) Arena arena = {0};
    DriverFiles files;

    dra->config->port.find_files(dra->config->self, &arena, &files);
    return claim_spec_keep(dra->config, item->prepared, dra->offer, &files, err);
}

/* Writes its file and shares its devices when all are offered. */
static void await_offer(Item *item)
{
    const char *unseen = find_unseen(item);

    if (unseen && uv_hrtime() < item->deadline_ns)
        return;
    if (unseen)
        (void)err_set(&item->err, -EAGAIN, "%.60s was made, and the agent does not list it yet", unseen);
    else
        (void)keep_file(item, &item->err);
    if (item->err.code)
        finish_item(item);
    else
        share_item(item);
}

/* --- MIG devices that are made ------------------------------------------------------------------------------------ */

/* `way`: "make" or "remove". */
static void order_mig(const Dra *dra, const char *way, const Prepared *prepared, size_t i, RunnerDone done, void *self)
{
    const char *name = prepared->claim.devices[i].name;
    CLEANUP(arena_done) Arena arena = {0};
    ClaimPlace place = {0};

    (void)claim_read_place(name, &place);
    runner_add(dra->runner,
               &(RunnerSpec){.what = arena_printf(&arena, "%.60s cannot be %s", name,
                                                  strcmp(way, "make") == 0 ? "made" : "removed"),
                             .argv = {"/proc/self/exe", "kubelet", "instance", "--driver-library", dra->config->library,
                                      way, prepared->parents[i], arena_printf(&arena, "%" PRIu32, place.profile_id),
                                      arena_printf(&arena, "%u", place.start)},
                             .done = done,
                             .self = self});
}

static void make_next(Item *item);

static void on_made(void *self, const char *uuid, const Err *err)
{
    Item *item = self;
    Prepared *prepared = item->prepared;

    if (err) {
        item->err = *err;
    } else {
        prepared->uuids[item->made++] = arena_strdup(&prepared->arena, uuid);
        (void)save_claims(item->call->dra, &item->err);
    }
    if (item->err.code)
        finish_item(item); /* the claim stays: it is prepared again, or unprepared */
    else
        make_next(item);
}

/* Makes what is not there, one after the other; then it waits until all is offered. */
static void make_next(Item *item)
{
    const Dra *dra = item->call->dra;
    const Prepared *prepared = item->prepared;

    for (; item->made < prepared->claim.count; item->made++)
        if (prepared->parents[item->made][0] && !dra_find_unit(dra, prepared->uuids[item->made])) {
            order_mig(dra, "make", prepared, item->made, on_made, item);
            return;
        }
    item->deadline_ns = uv_hrtime() + WAIT_NS;
    await_offer(item);
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
                (call->items[i].shared ? await_sharing : await_offer)(&call->items[i]);
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
        make_next(item);
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
        make_next(item);
    } else if (!is_claim_uid(claim->uid) || !is_name(claim->name) || !is_name(claim->namespace_)) {
        (void)err_set(&item->err, -EINVAL, "its name, namespace or uid is none");
        finish_item(item);
    } else {
        const char *path = arena_printf(&arena, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
                                        claim->namespace_, claim->name);

        item->reading = dra->config->port.read(dra->config->self, path, on_claim, item);
    }
}

void dra_prepare(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
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

void dra_forget_preparing(void *self, GrpcStream *stream)
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

/* The claim has left when its GPUs have the default again, and no MIG device that was made for it. */
static void end_reset(Prepared *prepared)
{
    Dra *dra = prepared->dra;

    if (--prepared->resets > 0)
        return;
    if (prepared->again_ns)
        return;
    dra->remove_error[0] = '\0';
    remove_prepared(dra, prepared);
    (void)save_claims(dra, NULL); /* it leaves again in the next process */
    prepared_free(prepared);
}

static void on_reset(void *self, const char *out UNUSED, const Err *err)
{
    Prepared *prepared = self;

    if (err)
        log_write(prepared->dra->config->log, LOG_LEVEL_WARN, "claim %s/%s: %s", prepared->claim.namespace,
                  prepared->claim.name, err->text);
    end_reset(prepared);
}

/* It may be in use until the last process of the pod is gone. */
static void on_removed(void *self, const char *out UNUSED, const Err *err)
{
    Prepared *prepared = self;
    Dra *dra = prepared->dra;

    if (err)
        prepared->again_ns = uv_hrtime() + AGAIN_NS;
    if (err && strcmp(dra->remove_error, err->text) != 0)
        log_write(dra->config->log, LOG_LEVEL_WARN, "claim %s/%s: %s; it is tried again", prepared->claim.namespace,
                  prepared->claim.name, err->text);
    if (err)
        snprintf(dra->remove_error, sizeof dra->remove_error, "%s", err->text);
    end_reset(prepared);
}

static void remove_made(Dra *dra, Prepared *prepared)
{
    prepared->again_ns = 0;
    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared->parents[i][0]) {
            prepared->resets++;
            order_mig(dra, "remove", prepared, i, on_removed, prepared);
        }
}

static void reset_claim(Dra *dra, Prepared *prepared)
{
    prepared->dra = dra;
    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared_has_slice(prepared, i)) {
            prepared->resets++;
            set_slice(dra, prepared->uuids[i], CLAIM_SLICE_DEFAULT, on_reset, prepared);
        }
    remove_made(dra, prepared);
}

static void look_at_leaving(Dra *dra)
{
    for (Prepared *one = dra->prepared; one; one = one->next)
        if (one->again_ns && !one->resets && uv_hrtime() >= one->again_ns)
            remove_made(dra, one);
}

static bool takes_reset(const Prepared *prepared)
{
    for (size_t i = 0; i < prepared->claim.count; i++)
        if (prepared_has_slice(prepared, i) || prepared->parents[i][0])
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
    const bool stays = takes_reset(gone);
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
        reset_claim(dra, gone);
    else
        prepared_free(gone);
    return 0;
}

void dra_unprepare(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
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

/* --- for dra.c ---------------------------------------------------------------------------------------------------- */

void dra_stop_preparing(Dra *dra)
{
    while (dra->preparing)
        free_preparing(dra->preparing);
}

void dra_look_at_claims(Dra *dra)
{
    look_at_items(dra);
    look_at_leaving(dra);
}

void dra_resume_claims(Dra *dra)
{
    claim_spec_remove_others(dra->config, dra->prepared);
    for (Prepared *one = dra->prepared; one; one = one->next)
        if (one->leaving)
            reset_claim(dra, one);
    want_daemons(dra);
}
