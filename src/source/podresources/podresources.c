/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the kubelet, and its ListPodResourcesResponse as rows. A tick each second or period looks at the socket's file
 * (one stat): a file that is another one than before means a new kubelet, which is asked at once; a call to the old one
 * is cancelled. Two tables: the one in force and the one that an answer is read into; they change places only where
 * they differ.
 *
 * protobuf-c allocates from an arena with a ceiling, so that a small reply which stands for a large structure (two
 * bytes may be a message) ends as an error. Rows are sorted: the kubelet lists pods in the order of a hash map, another
 * one each time.
 */
#include "source/podresources/podresources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "podresources.pb-c.h"
#include "wire/grpc/grpc.h"

static const char method_list[] = "/v1.PodResourcesLister/List";

enum {
    REPLY_BYTES_MAX = 64 * 1024 * 1024,
    ROWS_KEPT = 4096, /* the memory of a larger table is given back with it */
    LOG_BURST = 6,
};
#define TICK_NS_MAX NS_PER_S
#define LOG_WINDOW_NS (10 * NS_PER_MIN)
#define UIDS_AGAIN_NS_MIN NS_PER_S
#define UIDS_LATE_NS (5 * NS_PER_S)

struct PodResources {
    PodResourcesConfig config;
    Arena arena; /* of its texts */
    uv_timer_t tick;
    GrpcCall *call;   /* under way, or NULL */
    uint64_t file[4]; /* which file the socket was: an inode number alone may be given out again at once */
    PodResourcesState state;
    AllocationTable table, spare;
    PodUids *uids;           /* NULL: not asked for */
    PodResourcesFound found; /* in the last answer */
    uint64_t failures;
    uint64_t ask_ns;    /* the next call is due */
    uint64_t answer_ns; /* of the last good answer, 0 for none */
    LogLimit limit;
};

static const char *const state_keys[] = {
    [PODRESOURCES_WAITING] = "waiting",     [PODRESOURCES_OK] = "ok",
    [PODRESOURCES_NO_SOCKET] = "no_socket", [PODRESOURCES_UNREACHABLE] = "unreachable",
    [PODRESOURCES_TIMED_OUT] = "timed_out", [PODRESOURCES_BAD_REPLY] = "bad_reply",
};

/* -- reading a reply -----------------------------------------------------------------------------------------------
 */

enum {
    DEVICES_MAX = 65536,
    MEMORY_MAX = 48 * 1024 * 1024, /* 65,536 devices in entries of their own, with their topology, are about 25 MiB */
    NAME_MAX_BYTES = 253,          /* Kubernetes: a DNS subdomain name */
    BLOCK_BYTES = 64 * 1024,
};

typedef struct Memory {
    Arena arena;
    bool spent;
} Memory;

typedef struct Decoding {
    const PodResourcesConfig *config;
    AllocationTable *table;
    size_t devices;
    PodResourcesFound found;
    Allocation row;
} Decoding;

static void *memory_take(void *self, size_t size)
{
    Memory *memory = self;

    if (size > MEMORY_MAX || memory->arena.used > MEMORY_MAX - size) {
        memory->spent = true;
        return NULL;
    }
    return arena_alloc(&memory->arena, size);
}

static void memory_return(void *self, void *pointer)
{
    (void)self, (void)pointer; /* the arena goes as a whole */
}

static void memory_done(Memory *memory)
{
    arena_done(&memory->arena);
}

static bool resource_counts(const PodResourcesConfig *config, const char *resource)
{
    static const char mig[] = "nvidia.com/mig-";

    if (strcmp(resource, "nvidia.com/gpu") == 0 || strncmp(resource, mig, sizeof(mig) - 1) == 0)
        return true;
    for (size_t i = 0; i < config->resource_name_count; i++) {
        if (strcmp(resource, config->resource_names[i]) == 0)
            return true;
    }
    return false;
}

/* Kubernetes' names are DNS names; anything that is no printable ASCII word did not come from it. */
static int check_name(const char *what, const char *name, Err *err)
{
    size_t len = strnlen(name, NAME_MAX_BYTES + 1);

    if (!len || len > NAME_MAX_BYTES)
        return err_set(err, -EBADMSG, "a %s name that is empty or over %d bytes long", what, NAME_MAX_BYTES);
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return err_set(err, -EBADMSG, "a %s name with byte 0x%02x in it", what, (unsigned char)name[i]);
    }
    return 0;
}

static int check_names(const Decoding *decoding, Err *err)
{
    TRY(check_name("pod", decoding->row.pod, err));
    TRY(check_name("namespace", decoding->row.namespace, err));
    return check_name("container", decoding->row.container, err);
}

static int add_device(Decoding *decoding, const char *id, Err *err)
{
    if (++decoding->devices > DEVICES_MAX)
        return err_set(err, -E2BIG, "the reply names more than %d devices", DEVICES_MAX);
    if (allocation_device_parse(id, &decoding->row.device) < 0)
        decoding->found.odd_ids++;
    else
        allocation_table_add(decoding->table, &decoding->row);
    return 0;
}

/* All devices of a claim are listed in each container that uses it. */
static int add_claim(Decoding *decoding, const Podresources__Claim *claim, Err *err)
{
    const PodResourcesConfig *config = decoding->config;

    for (size_t i = 0; i < claim->n_devices; i++) {
        const Podresources__ClaimDevice *device = claim->devices[i];
        Allocation row = decoding->row;

        if (++decoding->devices > DEVICES_MAX)
            return err_set(err, -E2BIG, "the reply names more than %d devices", DEVICES_MAX);
        row.claim = (AllocationClaim){.name = claim->name,
                                      .namespace = claim->namespace_,
                                      .driver = device->driver,
                                      .pool = device->pool,
                                      .device = device->device};
        if (config->find_device(config->self, &row.claim, &row.device, &row.claim.profile))
            allocation_table_add(decoding->table, &row);
    }
    return 0;
}

/* Adds the devices of a container that count, or only checks the names by which they would be. */
static int add_container(Decoding *decoding, const Podresources__Container *container, bool only_check, Err *err)
{
    decoding->row.container = container->name;
    for (size_t i = 0; i < container->n_devices; i++) {
        const Podresources__Devices *devices = container->devices[i];

        if (!resource_counts(decoding->config, devices->resource_name))
            continue;
        if (only_check)
            TRY(check_names(decoding, err));
        for (size_t n = 0; !only_check && n < devices->n_device_ids; n++)
            TRY(add_device(decoding, devices->device_ids[n], err));
    }
    for (size_t i = 0; decoding->config->find_device && i < container->n_dynamic_resources; i++)
        TRY(only_check ? check_names(decoding, err) : add_claim(decoding, container->dynamic_resources[i], err));
    return 0;
}

static int add_containers(Decoding *decoding, const Podresources__Pod *pod, bool only_check, Err *err)
{
    for (size_t i = 0; i < pod->n_containers; i++)
        TRY(add_container(decoding, pod->containers[i], only_check, err));
    return 0;
}

/* A pod with a name that is none is left out, all of it; the others count. */
static int add_pod(Decoding *decoding, const Podresources__Pod *pod, Err *err)
{
    PodResourcesFound *found = &decoding->found;
    size_t before = decoding->table->len;
    Err odd;

    decoding->row = (Allocation){.pod = pod->name, .namespace = pod->namespace_, .pod_uid = ""};
    if (add_containers(decoding, pod, true, &odd) < 0) {
        if (found->odd_pods++ == 0)
            snprintf(found->odd_why, sizeof found->odd_why, "%.*s", (int)sizeof found->odd_why - 1, odd.text);
        return 0;
    }
    TRY(add_containers(decoding, pod, false, err));
    found->pods += decoding->table->len > before;
    return 0;
}

static int compare_device(const AllocationDevice *a, const AllocationDevice *b)
{
    int order = strcmp(a->uuid, b->uuid);

    if (!order)
        order = number_compare_u64(a->minor, b->minor);
    if (!order)
        order = number_compare_u64(a->gpu_instance, b->gpu_instance);
    if (!order)
        order = number_compare_u64(a->compute_instance, b->compute_instance);
    return order ? order : strcmp(a->replica, b->replica);
}

static int compare_claims(const AllocationClaim *a, const AllocationClaim *b)
{
    const char *const texts[][2] = {{a->namespace, b->namespace}, {a->name, b->name},     {a->driver, b->driver},
                                    {a->pool, b->pool},           {a->device, b->device}, {a->profile, b->profile}};
    int order = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts) && !order; i++)
        order = strcmp(texts[i][0], texts[i][1]);
    return order;
}

static int compare_rows(const void *left, const void *right)
{
    const Allocation *a = left, *b = right;
    int order = compare_device(&a->device, &b->device);

    if (!order)
        order = strcmp(a->namespace, b->namespace);
    if (!order)
        order = strcmp(a->pod, b->pod);
    if (!order)
        order = strcmp(a->container, b->container);
    return order ? order : compare_claims(&a->claim, &b->claim);
}

/* Sorts, and leaves out rows that say the same. */
static void sort_rows(AllocationTable *table)
{
    size_t len = 0;

    vec_sort(table, compare_rows);
    for (size_t i = 0; i < table->len; i++) {
        if (!len || compare_rows(&table->at[len - 1], &table->at[i]) != 0)
            table->at[len++] = table->at[i];
    }
    table->len = len;
}

static int unpack_reply(const uint8_t *bytes, size_t len, Decoding *decoding, Err *err)
{
    CLEANUP(memory_done) Memory memory = {0};
    ProtobufCAllocator allocator = {.alloc = memory_take, .free = memory_return, .allocator_data = &memory};
    const Podresources__ListReply *reply;

    arena_init(&memory.arena, BLOCK_BYTES);
    reply = podresources__list_reply__unpack(&allocator, len, bytes);
    if (!reply && memory.spent)
        return err_set(err, -E2BIG, "the reply (%zu bytes) needs more than %d MiB to be read", len, MEMORY_MAX >> 20);
    if (!reply)
        return err_set(err, -EBADMSG, "the reply (%zu bytes) is damaged", len);
    for (size_t i = 0; i < reply->n_pods; i++)
        TRY(add_pod(decoding, reply->pods[i], err));
    return 0;
}

int podresources_decode(const uint8_t *bytes, size_t len, const PodResourcesConfig *config, AllocationTable *table,
                        PodResourcesFound *ret, Err *err)
{
    Decoding decoding = {.config = config, .table = table};
    int rc;

    allocation_table_clear(table);
    rc = unpack_reply(bytes, len, &decoding, err);
    if (rc < 0) {
        allocation_table_clear(table);
        return rc;
    }
    sort_rows(table);
    *ret = decoding.found;
    return 0;
}

/* -- the tables ---------------------------------------------------------------------------------------------------- */

/* Apart from UIDs and labels, which no answer holds. Both are sorted (podresources_decode). */
static bool same_table(const AllocationTable *a, const AllocationTable *b)
{
    if (a->len != b->len)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (compare_rows(&a->at[i], &b->at[i]) != 0)
            return false;
    return true;
}

static void empty_table(AllocationTable *table)
{
    if (table->cap <= ROWS_KEPT) {
        allocation_table_clear(table);
        return;
    }
    allocation_table_done(table);
    allocation_table_init(table);
}

static void notify_table(const PodResources *pods)
{
    if (pods->config.on_table)
        pods->config.on_table(pods->config.self);
}

/* The table that was filled comes into force, the other one is emptied. */
static void swap_tables(PodResources *pods)
{
    AllocationTable old = pods->table;

    pods->table = pods->spare;
    pods->spare = old;
    empty_table(&pods->spare);
}

/* The same rows with the UIDs and labels that are known now. */
static void apply_facts(PodResources *pods)
{
    for (size_t i = 0; i < pods->table.len; i++) {
        Allocation row = pods->table.at[i];

        if (pods->uids)
            row.pod_uid = pod_uids_get(pods->uids, row.namespace, row.pod);
        if (pods->config.add_labels)
            pods->config.add_labels(pods->config.self, &row);
        allocation_table_add(&pods->spare, &row);
    }
    swap_tables(pods);
}

/* Puts the table that was read into force. True if it says something else than the last one. */
static bool replace_table(PodResources *pods)
{
    if (same_table(&pods->table, &pods->spare)) {
        empty_table(&pods->spare);
        return false;
    }
    swap_tables(pods);
    if (pods->uids)
        pod_uids_want(pods->uids, &pods->table);
    if (pods->uids || pods->config.add_labels)
        apply_facts(pods);
    return true;
}

static void expire_table(PodResources *pods, uint64_t now)
{
    if (!pods->table.len || pods->state == PODRESOURCES_OK || now - pods->answer_ns <= pods->config.keep_ns)
        return;
    log_write(pods->config.log, LOG_LEVEL_WARN,
              "pods of the GPUs are unknown: no good answer from '%s' for too long, the last one is dropped",
              pods->config.socket);
    empty_table(&pods->table);
    pods->found = (PodResourcesFound){0};
    if (pods->uids)
        pod_uids_want(pods->uids, &pods->table);
    notify_table(pods);
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static void log_change(PodResources *pods, LogLevel level, const char *text)
{
    uint64_t held = 0;

    if (!log_limit(&pods->limit, uv_hrtime(), &held))
        return;
    if (held)
        log_write(pods->config.log, level, "pod-resources: %s (%llu messages like this were held back)", text,
                  (unsigned long long)held);
    else
        log_write(pods->config.log, level, "pod-resources: %s", text);
}

static void record_failure(PodResources *pods, PodResourcesState state, const char *text)
{
    bool changed = pods->state != state;

    pods->failures++;
    pods->state = state;
    if (changed)
        log_change(pods, state == PODRESOURCES_NO_SOCKET ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, text);
}

static void record_answer(PodResources *pods, const PodResourcesFound *found)
{
    bool changed = pods->state != PODRESOURCES_OK;
    char text[256];

    if (found->odd_ids && found->odd_ids != pods->found.odd_ids) {
        (void)snprintf(text, sizeof(text), "%zu device ids of an unknown form are left out", found->odd_ids);
        log_change(pods, LOG_LEVEL_WARN, text);
    }
    if (found->odd_pods && found->odd_pods != pods->found.odd_pods) {
        (void)snprintf(text, sizeof(text), "%zu pods with devices are left out: %s", found->odd_pods, found->odd_why);
        log_change(pods, LOG_LEVEL_WARN, text);
    }
    pods->state = PODRESOURCES_OK;
    pods->answer_ns = uv_hrtime();
    pods->found = *found;
    if (changed) {
        (void)snprintf(text, sizeof(text), "the kubelet answers: %zu pods with devices", found->pods);
        log_change(pods, LOG_LEVEL_INFO, text);
    }
}

static PodResourcesState state_of(const GrpcReply *reply)
{
    switch (reply->outcome) {
    case GRPC_NO_SOCKET:
        return PODRESOURCES_NO_SOCKET;
    case GRPC_UNREACHABLE:
        return PODRESOURCES_UNREACHABLE;
    case GRPC_TIMED_OUT:
        return PODRESOURCES_TIMED_OUT;
    case GRPC_ANSWERED:
        if (reply->status == GRPC_DEADLINE_EXCEEDED)
            return PODRESOURCES_TIMED_OUT;
        /* RESOURCE_EXHAUSTED is the kubelet's rate limit */
        if (reply->status == GRPC_UNAVAILABLE || reply->status == GRPC_RESOURCE_EXHAUSTED)
            return PODRESOURCES_UNREACHABLE;
        return PODRESOURCES_BAD_REPLY;
    default:
        return PODRESOURCES_BAD_REPLY;
    }
}

static void on_reply(void *self, const GrpcReply *reply)
{
    PodResources *pods = self;
    PodResourcesFound found;
    Err err = {0};

    pods->call = NULL;
    if (reply->outcome != GRPC_ANSWERED || reply->status != GRPC_OK) {
        record_failure(pods, state_of(reply), reply->text);
        return;
    }
    if (podresources_decode(reply->bytes, reply->len, &pods->config, &pods->spare, &found, &err) < 0) {
        empty_table(&pods->spare);
        record_failure(pods, PODRESOURCES_BAD_REPLY, err.text);
        return;
    }
    record_answer(pods, &found);
    if (replace_table(pods))
        notify_table(pods);
}

/* -- asking -------------------------------------------------------------------------------------------------------- */

/* Looks at the socket's file. True if it is there and another one than before. */
static bool socket_was_replaced(PodResources *pods)
{
    struct stat now;

    if (stat(pods->config.socket, &now) < 0)
        return false;
    const uint64_t file[] = {now.st_dev, now.st_ino, (uint64_t)now.st_ctim.tv_sec, (uint64_t)now.st_ctim.tv_nsec};
    const bool other = memcmp(file, pods->file, sizeof(file)) != 0;

    memcpy(pods->file, file, sizeof(file));
    return other;
}

static void on_tick(uv_timer_t *tick)
{
    PodResources *pods = tick->data;
    const GrpcRequest request = {
        .method = method_list, .timeout_ns = pods->config.timeout_ns, .reply_max = pods->config.reply_bytes};
    uint64_t now = uv_hrtime();

    if (socket_was_replaced(pods)) {
        if (pods->call)
            grpc_call_cancel(TAKE(pods->call));
        pods->ask_ns = now;
    }
    if (!pods->call && now >= pods->ask_ns) {
        pods->ask_ns = now + pods->config.period_ns;
        pods->call = grpc_call_new(tick->loop, pods->config.socket, &request, on_reply, pods);
    }
    expire_table(pods, now);
    if (pods->uids && pod_uids_tick(pods->uids)) {
        apply_facts(pods);
        notify_table(pods);
    }
}

/* -- the header's functions ---------------------------------------------------------------------------------------- */

static void copy_config(PodResources *pods, const PodResourcesConfig *config)
{
    const char **names = arena_calloc(&pods->arena, config->resource_name_count, sizeof(*names));

    for (size_t i = 0; i < config->resource_name_count; i++)
        names[i] = arena_strdup(&pods->arena, config->resource_names[i]);
    pods->config = *config;
    pods->config.resource_names = names;
    pods->config.socket = arena_strdup(&pods->arena, config->socket);
    pods->config.pod_logs = NULL; /* poduid.c keeps a copy */
    pods->config.reply_bytes = number_min_u64(config->reply_bytes, REPLY_BYTES_MAX);
}

static void pods_free(PodResources *pods)
{
    pod_uids_free(pods->uids);
    allocation_table_done(&pods->table);
    allocation_table_done(&pods->spare);
    arena_done(&pods->arena);
    free(pods);
}
CLEANUP_POINTER(PodResources, pods_free);

int podresources_new(uv_loop_t *loop, const PodResourcesConfig *config, PodResources **ret, Err *err)
{
    CLEANUP(pods_free_at) PodResources *pods = xcalloc(1, sizeof(*pods));
    uint64_t tick_ns = number_min_u64(config->period_ns, TICK_NS_MAX), tick_ms = number_max_u64(tick_ns / NS_PER_MS, 1);

    if (grpc_check_socket(config->socket, err) < 0)
        return err_add(err, "pod-resources");
    allocation_table_init(&pods->table);
    allocation_table_init(&pods->spare);
    copy_config(pods, config);
    pods->limit = (LogLimit){.window_ns = LOG_WINDOW_NS, .burst = LOG_BURST};
    if (config->pod_logs)
        TRY(pod_uids_new(&(PodUidsConfig){.dir = config->pod_logs,
                                          .again_ns = number_max_u64(config->period_ns, UIDS_AGAIN_NS_MIN),
                                          .late_ns = UIDS_LATE_NS,
                                          .log = config->log},
                         &pods->uids, err));
    uv_timer_init(loop, &pods->tick); /* cannot fail */
    pods->tick.data = pods;
    uv_timer_start(&pods->tick, on_tick, 0, tick_ms);
    *ret = TAKE(pods);
    return 0;
}

static void on_tick_closed(uv_handle_t *handle)
{
    pods_free(handle->data);
}

void podresources_close(PodResources *pods)
{
    if (pods->call)
        grpc_call_cancel(TAKE(pods->call));
    uv_close((uv_handle_t *)&pods->tick, on_tick_closed);
}

const AllocationTable *podresources_table(const PodResources *pods)
{
    return &pods->table;
}

void podresources_label_again(PodResources *pods)
{
    apply_facts(pods);
}

void podresources_ask_again(PodResources *pods)
{
    pods->ask_ns = 0;
}

PodResourcesState podresources_state(const PodResources *pods)
{
    return pods->state;
}

const char *podresources_state_key(PodResourcesState state)
{
    return state < ARRAY_LEN(state_keys) ? state_keys[state] : "?";
}

void podresources_counts(const PodResources *pods, uint64_t *ret_age_ns, uint64_t *ret_failures, size_t *ret_pods)
{
    *ret_age_ns = pods->answer_ns ? uv_hrtime() - pods->answer_ns : UINT64_MAX;
    *ret_failures = pods->failures;
    *ret_pods = pods->found.pods;
}
