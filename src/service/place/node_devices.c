/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/node_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { KEY_ROOM = 512, ENTRIES_MAX = 4096 /* slices or claims of a node, devices of one of them */ };

typedef struct SliceDevice {
    char *name;
    bool gpu, tainted;
} SliceDevice;

struct NodeSlice {
    char *key, *pool; /* "driver/pool" */
    char *product;
    json_int_t generation;
    VEC(SliceDevice) devices;
};

struct NodeClaim {
    char *key;
    VEC(char *) devices; /* "driver/pool/device" */
};

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void free_slice(NodeSlice *slice)
{
    for (size_t i = 0; i < slice->devices.len; i++)
        free(slice->devices.at[i].name);
    vec_done(&slice->devices);
    free(slice->key);
    free(slice->pool);
    free(slice->product);
    free(slice);
}

static void free_claim(NodeClaim *claim)
{
    for (size_t i = 0; i < claim->devices.len; i++)
        free(claim->devices.at[i]);
    vec_done(&claim->devices);
    free(claim->key);
    free(claim);
}

void node_devices_done(NodeDevices *d)
{
    for (size_t i = 0; i < d->slices.len; i++)
        free_slice(d->slices.at[i]);
    for (size_t i = 0; i < d->claims.len; i++)
        free_claim(d->claims.at[i]);
    vec_done(&d->slices);
    vec_done(&d->claims);
}

bool node_devices_empty(const NodeDevices *d)
{
    return d->slices.len + d->claims.len == 0;
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

/* Another slice of its pool is of a later generation. */
static bool is_outdated(const NodeDevices *d, const NodeSlice *slice)
{
    for (size_t i = 0; i < d->slices.len; i++)
        if (d->slices.at[i]->generation > slice->generation && strcmp(d->slices.at[i]->pool, slice->pool) == 0)
            return true;
    return false;
}

/* "driver/pool/gpu-0-mig-1g10gb-19-4" is of gpu-0. */
static bool is_of(const char *device, const char *pool, const char *name)
{
    const size_t pool_len = strlen(pool), name_len = strlen(name);

    if (strncmp(device, pool, pool_len) != 0 || device[pool_len] != '/' ||
        strncmp(device + pool_len + 1, name, name_len) != 0)
        return false;
    const char *rest = device + pool_len + 1 + name_len;
    return !*rest || strncmp(rest, "-mig-", 5) == 0;
}

static bool is_claimed(const NodeDevices *d, const char *pool, const char *name)
{
    for (size_t i = 0; i < d->claims.len; i++)
        for (size_t k = 0; k < d->claims.at[i]->devices.len; k++)
            if (is_of(d->claims.at[i]->devices.at[k], pool, name))
                return true;
    return false;
}

static void count_devices(NodeDevices *d)
{
    d->gpus = d->usable = d->claimed = 0;
    d->product = NULL;
    for (size_t i = 0; i < d->slices.len; i++) {
        const NodeSlice *slice = d->slices.at[i];

        for (size_t k = 0; k < slice->devices.len && !is_outdated(d, slice); k++) {
            const SliceDevice *device = &slice->devices.at[k];

            if (!device->gpu)
                continue;
            d->gpus++;
            d->usable += !device->tainted;
            d->claimed += !device->tainted && is_claimed(d, slice->pool, device->name);
            d->product = slice->product ? slice->product : d->product;
        }
    }
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

/* A driver's own attribute stands without its domain, or with it. NULL where there is none. */
static const char *find_attribute(const json_t *attributes, const char *driver, const char *name)
{
    char full[KEY_ROOM];

    (void)snprintf(full, sizeof full, "%s/%s", driver, name);
    const json_t *value = json_object_get(attributes, name);
    return json_string_value(json_object_get(value ? value : json_object_get(attributes, full), "string"));
}

static bool is_tainted(const json_t *device)
{
    const json_t *taint;
    size_t i;

    json_array_foreach(json_object_get(device, "taints"), i, taint)
    {
        const char *effect = json_string_value(json_object_get(taint, "effect"));

        if (effect && (strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "NoExecute") == 0))
            return true;
    }
    return false;
}

static void add_device(NodeSlice *slice, const char *driver, const json_t *object)
{
    const json_t *basic = json_object_get(object, "basic"); /* v1beta1 */
    const json_t *in = basic ? basic : object, *attributes = json_object_get(in, "attributes");
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *type = find_attribute(attributes, driver, "type");
    const char *product = find_attribute(attributes, driver, "productName");

    if (!name || slice->devices.len == ENTRIES_MAX)
        return;
    const SliceDevice device = {
        .name = xstrdup(name), .gpu = type && strcmp(type, "gpu") == 0, .tainted = is_tainted(in)};
    vec_push(&slice->devices, device);
    if (!device.gpu || !product || !*product || slice->product)
        return;
    slice->product = xstrdup(product);
    for (char *at = slice->product; *at; at++)
        *at = *at == ' ' ? '-' : *at;
}

static char *join_pool(const char *driver, const char *pool)
{
    char key[KEY_ROOM];

    (void)snprintf(key, sizeof key, "%s/%s", driver ? driver : "", pool ? pool : "");
    return xstrdup(key);
}

static NodeSlice *read_slice(const char *key, const json_t *object)
{
    const json_t *spec = json_object_get(object, "spec"), *pool = json_object_get(spec, "pool"), *device;
    const char *driver = json_string_value(json_object_get(spec, "driver"));
    NodeSlice *slice = xcalloc(1, sizeof *slice);
    size_t i;

    slice->key = xstrdup(key);
    slice->pool = join_pool(driver, json_string_value(json_object_get(pool, "name")));
    slice->generation = json_integer_value(json_object_get(pool, "generation"));
    json_array_foreach(json_object_get(spec, "devices"), i, device)
    {
        add_device(slice, driver ? driver : "", device);
    }
    return slice;
}

void node_devices_put_slice(NodeDevices *d, const char *key, const json_t *object)
{
    for (size_t i = 0; i < d->slices.len; i++)
        if (strcmp(d->slices.at[i]->key, key) == 0) {
            free_slice(d->slices.at[i]);
            d->slices.at[i] = d->slices.at[--d->slices.len];
            break;
        }
    if (object && d->slices.len < ENTRIES_MAX)
        vec_push(&d->slices, read_slice(key, object));
    count_devices(d);
}

/* --- claims ------------------------------------------------------------------------------------------------------- */

static NodeClaim *read_claim(const char *key, const json_t *object)
{
    const json_t *allocation = json_object_get(json_object_get(object, "status"), "allocation"), *result;
    NodeClaim *claim = xcalloc(1, sizeof *claim);
    size_t i;

    claim->key = xstrdup(key);
    json_array_foreach(json_object_get(json_object_get(allocation, "devices"), "results"), i, result)
    {
        const char *device = json_string_value(json_object_get(result, "device"));
        CLEANUP_FREE char *pool = join_pool(json_string_value(json_object_get(result, "driver")),
                                            json_string_value(json_object_get(result, "pool")));
        char full[2 * KEY_ROOM];

        if (!device || json_is_true(json_object_get(result, "adminAccess")) || claim->devices.len == ENTRIES_MAX)
            continue;
        (void)snprintf(full, sizeof full, "%s/%s", pool, device);
        vec_push(&claim->devices, xstrdup(full));
    }
    return claim;
}

void node_devices_put_claim(NodeDevices *d, const char *key, const json_t *object)
{
    for (size_t i = 0; i < d->claims.len; i++)
        if (strcmp(d->claims.at[i]->key, key) == 0) {
            free_claim(d->claims.at[i]);
            d->claims.at[i] = d->claims.at[--d->claims.len];
            break;
        }
    if (object && d->claims.len < ENTRIES_MAX)
        vec_push(&d->claims, read_claim(key, object));
    count_devices(d);
}
