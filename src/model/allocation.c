/* SPDX-License-Identifier: Apache-2.0 */
/* Device ids as device plugins write them, and the table of allocations. No I/O. */

#include "model/allocation.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/vec.h"

/* An id is read from the left: each of these moves *at over what it takes, or leaves it and says no. */
static bool take_word(const char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Decimal digits, DEVICE_NO_NUMBER excluded. */
static bool take_number(const char **at, uint32_t *ret)
{
    size_t len = strspn(*at, "0123456789");
    uint64_t value;

    if (number_parsen_u64(*at, len, 0, DEVICE_NO_NUMBER - 1, &value, NULL) < 0)
        return false;
    *at += len;
    *ret = (uint32_t)value;
    return true;
}

/* What stands behind `prefix` in a UUID: letters, digits and dashes, at least one. Taken with the prefix into `uuid`.
 */
static bool take_uuid(const char **at, const char *prefix, char uuid[DEVICE_UUID_CAP])
{
    const char *start = *at, *end = start;
    size_t len;

    if (!take_word(&end, prefix))
        return false;
    len = (size_t)(end - start);
    while (isalnum((unsigned char)*end) || *end == '-')
        end++;
    if ((size_t)(end - start) == len || end - start >= DEVICE_UUID_CAP)
        return false;
    len = (size_t)(end - start);
    memcpy(uuid, start, len);
    uuid[len] = '\0';
    *at = end;
    return true;
}

/* Digits up to the end of the id. */
static bool take_replica(const char **at, AllocationDevice *device)
{
    size_t len = strspn(*at, "0123456789");

    if (len == 0 || len >= sizeof device->replica || (*at)[len])
        return false;
    memcpy(device->replica, *at, len);
    *at += len;
    return true;
}

/* "GPU-<uuid>" or "MIG-<uuid>", or "MIG-GPU-<uuid>/gi/ci" as drivers before 470 named MIG devices. */
static bool take_uuid_form(const char **at, AllocationDevice *device)
{
    const char *gpu = *at;

    if (take_uuid(at, "GPU-", device->uuid))
        return true;
    if (!take_word(&gpu, "MIG-GPU-"))
        return take_uuid(at, "MIG-", device->uuid);
    *at += strlen("MIG-");
    return take_uuid(at, "GPU-", device->uuid) && take_word(at, "/") && take_number(at, &device->gpu_instance) &&
           take_word(at, "/") && take_number(at, &device->compute_instance);
}

/* GKE: "nvidiaN", then "/giM", then "/vgpuK", which is a replica. */
static bool take_node_form(const char **at, AllocationDevice *device)
{
    if (!take_word(at, "nvidia") || !take_number(at, &device->minor))
        return false;
    if (take_word(at, "/gi") && !take_number(at, &device->gpu_instance))
        return false;
    return !take_word(at, "/vgpu") || take_replica(at, device);
}

int allocation_device_parse(const char *id, AllocationDevice *ret)
{
    AllocationDevice device = {
        .minor = DEVICE_NO_NUMBER, .gpu_instance = DEVICE_NO_NUMBER, .compute_instance = DEVICE_NO_NUMBER};
    const char *at = id;
    bool fine;

    if (id[0] == 'n')
        fine = take_node_form(&at, &device);
    else
        fine = take_uuid_form(&at, &device) && (!take_word(&at, "::") || take_replica(&at, &device));
    if (!fine || *at)
        return -EINVAL;
    *ret = device;
    return 0;
}

/* The GPU that the id speaks of, whole or as the parent of an instance. */
static bool is_gpu(const AllocationDevice *device, const Device *gpu)
{
    if (device->uuid[0])
        return strcmp(device->uuid, gpu->uuid) == 0;
    return device->minor != DEVICE_NO_NUMBER && device->minor == gpu->minor;
}

bool allocation_device_is(const AllocationDevice *device, const Reading *gpu, const Reading *instance)
{
    if (!instance)
        return device->gpu_instance == DEVICE_NO_NUMBER && is_gpu(device, &gpu->device);
    if (device->gpu_instance == DEVICE_NO_NUMBER)
        return device->uuid[0] && strcmp(device->uuid, instance->device.uuid) == 0;
    return is_gpu(device, &gpu->device) && device->gpu_instance == instance->device.gpu_instance &&
           (device->compute_instance == DEVICE_NO_NUMBER ||
            device->compute_instance == instance->device.compute_instance);
}

const Allocation *allocation_find_pod(const AllocationTable *table, const char *uid, const Reading *gpu)
{
    const Allocation *only = NULL;
    bool several = false;

    for (size_t i = 0; uid[0] && table && i < table->len; i++) {
        const Allocation *o = &table->at[i];

        if (strcmp(o->pod_uid, uid) == 0)
            return o;
        if (o->pod_uid[0] || !allocation_device_is(&o->device, gpu, NULL))
            continue;
        several |= only && (strcmp(only->pod, o->pod) != 0 || strcmp(only->namespace, o->namespace) != 0);
        only = o;
    }
    return several ? NULL : only;
}

void allocation_table_init(AllocationTable *table)
{
    *table = (AllocationTable){.at = NULL};
    arena_init(&table->arena, 0);
}

void allocation_table_done(AllocationTable *table)
{
    arena_done(&table->arena);
    free(table->at);
    *table = (AllocationTable){.at = NULL};
}

void allocation_table_clear(AllocationTable *table)
{
    arena_reset(&table->arena);
    table->len = 0;
}

static const char *keep_text(AllocationTable *table, const char *text)
{
    return text && text[0] ? arena_strdup(&table->arena, text) : "";
}

static const AllocationLabel *keep_labels(AllocationTable *table, const Allocation *row)
{
    AllocationLabel *kept = row->label_count ? arena_calloc(&table->arena, row->label_count, sizeof *kept) : NULL;

    for (size_t i = 0; i < row->label_count; i++)
        kept[i] = (AllocationLabel){keep_text(table, row->labels[i].name), keep_text(table, row->labels[i].value)};
    return kept;
}

void allocation_table_add(AllocationTable *table, const Allocation *row)
{
    const AllocationClaim *claim = &row->claim;

    table->at = vec_grow(table->at, &table->cap, table->len + 1, sizeof *table->at);
    table->at[table->len++] = (Allocation){.device = row->device,
                                           .pod = keep_text(table, row->pod),
                                           .namespace = keep_text(table, row->namespace),
                                           .container = keep_text(table, row->container),
                                           .pod_uid = keep_text(table, row->pod_uid),
                                           .owner_kind = keep_text(table, row->owner_kind),
                                           .owner_name = keep_text(table, row->owner_name),
                                           .claim = {.name = keep_text(table, claim->name),
                                                     .namespace = keep_text(table, claim->namespace),
                                                     .driver = keep_text(table, claim->driver),
                                                     .pool = keep_text(table, claim->pool),
                                                     .device = keep_text(table, claim->device),
                                                     .profile = keep_text(table, claim->profile)},
                                           .labels = keep_labels(table, row),
                                           .label_count = row->label_count};
}
