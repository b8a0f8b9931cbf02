/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ListPodResourcesResponse as rows. protobuf-c allocates from an arena with a ceiling, so that a small reply which
 * stands for a large structure (two bytes may be a message) ends as an error. Rows are sorted: the kubelet lists pods
 * in the order of a hash map, another one each time.
 */
#include "source/podresources/podresources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "podresources.pb-c.h"

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
    OwnerTable *table;
    size_t devices, odd_ids, pods;
    Owner row;
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

static int add_device(Decoding *decoding, const char *id, Err *err)
{
    if (++decoding->devices > DEVICES_MAX)
        return err_set(err, -E2BIG, "the reply names more than %d devices", DEVICES_MAX);
    if (owner_device_parse(id, &decoding->row.device) < 0)
        decoding->odd_ids++;
    else
        owner_table_add(decoding->table, &decoding->row);
    return 0;
}

static int add_container(Decoding *decoding, const Podresources__Container *container, Err *err)
{
    for (size_t i = 0; i < container->n_devices; i++) {
        const Podresources__Devices *devices = container->devices[i];

        if (!resource_counts(decoding->config, devices->resource_name))
            continue;
        TRY(check_name("pod", decoding->row.pod, err));
        TRY(check_name("namespace", decoding->row.namespace, err));
        TRY(check_name("container", container->name, err));
        decoding->row.container = container->name;
        for (size_t n = 0; n < devices->n_device_ids; n++)
            TRY(add_device(decoding, devices->device_ids[n], err));
    }
    return 0;
}

static int add_pod(Decoding *decoding, const Podresources__Pod *pod, Err *err)
{
    size_t before = decoding->table->len;

    decoding->row = (Owner){.pod = pod->name, .namespace = pod->namespace_, .pod_uid = ""};
    for (size_t i = 0; i < pod->n_containers; i++)
        TRY(add_container(decoding, pod->containers[i], err));
    decoding->pods += decoding->table->len > before;
    return 0;
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_device(const OwnerDevice *a, const OwnerDevice *b)
{
    int order = strcmp(a->uuid, b->uuid);

    if (!order)
        order = compare_u32(a->minor, b->minor);
    if (!order)
        order = compare_u32(a->gpu_instance, b->gpu_instance);
    if (!order)
        order = compare_u32(a->compute_instance, b->compute_instance);
    return order ? order : strcmp(a->replica, b->replica);
}

static int compare_rows(const void *left, const void *right)
{
    const Owner *a = left, *b = right;
    int order = compare_device(&a->device, &b->device);

    if (!order)
        order = strcmp(a->namespace, b->namespace);
    if (!order)
        order = strcmp(a->pod, b->pod);
    return order ? order : strcmp(a->container, b->container);
}

/* Sorts, and leaves out rows that say the same. */
static void sort_rows(OwnerTable *table)
{
    size_t len = 0;

    if (table->len)
        qsort(table->at, table->len, sizeof(table->at[0]), compare_rows);
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

int podresources_decode(const uint8_t *bytes, size_t len, const PodResourcesConfig *config, OwnerTable *table,
                        size_t *ret_pods, size_t *ret_odd_ids, Err *err)
{
    Decoding decoding = {.config = config, .table = table};
    int rc;

    owner_table_clear(table);
    rc = unpack_reply(bytes, len, &decoding, err);
    if (rc < 0) {
        owner_table_clear(table);
        return rc;
    }
    sort_rows(table);
    *ret_pods = decoding.pods;
    *ret_odd_ids = decoding.odd_ids;
    return 0;
}
