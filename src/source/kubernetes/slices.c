/* SPDX-License-Identifier: Apache-2.0 */
/* See kubernetes.h. resource.k8s.io/v1 (Kubernetes 1.34) and v1beta1, which has a device's attributes one level deeper.
 * Of two slices that name a device the one of the pool's higher generation holds. */
#include "source/kubernetes/kubernetes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/alloc.h"

enum { KEY_ROOM = 512 };

typedef struct SliceDevice {
    AllocationDevice device;
    json_int_t generation;
    char profile[32];
} SliceDevice;

struct KubeSlices {
    Map known, fresh; /* "driver/pool/device" -> SliceDevice */
    void (*changed)(void *self);
    void *self;
};

static void clear_devices(Map *map)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(map, &at));)
        free(entry->value);
    map_done(map);
    map_init(map);
}

static void begin_reading(void *self)
{
    clear_devices(&((KubeSlices *)self)->fresh);
}

/* A driver's own attribute stands without its domain, or with it. "" where there is none. */
static const char *attribute_text(const json_t *attributes, const char *driver, const char *name)
{
    const json_t *value = json_object_get(attributes, name);
    char full[KEY_ROOM];
    const char *text;

    (void)snprintf(full, sizeof full, "%s/%s", driver, name);
    if (!value)
        value = json_object_get(attributes, full);
    text = json_string_value(json_object_get(value, "string"));
    return text ? text : "";
}

/* False for names that no device has. */
static bool make_key(const char *driver, const char *pool, const char *device, char key[KEY_ROOM])
{
    return (size_t)snprintf(key, KEY_ROOM, "%s/%s/%s", driver, pool, device) < KEY_ROOM;
}

static void add_device(KubeSlices *slices, const char *driver, const json_t *pool, const json_t *object)
{
    const json_t *basic = json_object_get(object, "basic");
    const json_t *attributes = json_object_get(basic ? basic : object, "attributes");
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *pool_name = json_string_value(json_object_get(pool, "name"));
    char key[KEY_ROOM];
    SliceDevice found = {.generation = json_integer_value(json_object_get(pool, "generation"))};

    if (!name || !pool_name || !make_key(driver, pool_name, name, key) ||
        allocation_device_parse(attribute_text(attributes, driver, "uuid"), &found.device) < 0)
        return;
    const SliceDevice *other = map_get(&slices->fresh, key);
    if (other && other->generation > found.generation)
        return;
    (void)snprintf(found.profile, sizeof found.profile, "%s", attribute_text(attributes, driver, "profile"));
    SliceDevice *kept = xcalloc(1, sizeof *kept);
    *kept = found;
    free(map_put(&slices->fresh, key, kept));
}

static int add_slice(void *self, const json_t *object, Err *err)
{
    const json_t *spec = json_object_get(object, "spec"), *device;
    const char *driver = json_string_value(json_object_get(spec, "driver"));
    size_t i;

    if (!driver)
        return err_set(err, -EBADMSG, "an object of the list is no resource slice: it has no driver");
    json_array_foreach(json_object_get(spec, "devices"), i, device)
    {
        add_device(self, driver, json_object_get(spec, "pool"), device);
    }
    return 0;
}

static bool same_devices(const Map *a, const Map *b)
{
    const MapEntry *entry;

    if (a->len != b->len)
        return false;
    for (size_t at = 0; (entry = map_next(a, &at));) {
        const SliceDevice *one = entry->value, *two = map_get(b, entry->key);

        if (!two || memcmp(&one->device, &two->device, sizeof one->device) != 0 ||
            strcmp(one->profile, two->profile) != 0)
            return false;
    }
    return true;
}

static bool end_reading(void *self)
{
    KubeSlices *slices = self;
    const bool changed = !same_devices(&slices->known, &slices->fresh);

    clear_devices(&slices->known);
    slices->known = slices->fresh;
    map_init(&slices->fresh);
    if (changed && slices->changed)
        slices->changed(slices->self);
    return true;
}

KubeSlices *kube_slices_new(void)
{
    KubeSlices *slices = xcalloc(1, sizeof *slices);

    map_init(&slices->known);
    map_init(&slices->fresh);
    return slices;
}

void kube_slices_free(KubeSlices *slices)
{
    if (!slices)
        return;
    clear_devices(&slices->known);
    clear_devices(&slices->fresh);
    free(slices);
}

KubeRead kube_slices_read(KubeSlices *slices, const char *path, const char *older_path, void (*changed)(void *self),
                          void *self)
{
    slices->changed = changed;
    slices->self = self;
    return (KubeRead){.what = "resourceslices",
                      .path = path,
                      .older_path = older_path,
                      .list = true,
                      .begin = begin_reading,
                      .add = add_slice,
                      .end = end_reading,
                      .self = slices};
}

bool kube_slices_find(const KubeSlices *slices, const char *driver, const char *pool, const char *device,
                      AllocationDevice *ret, const char **ret_profile)
{
    char key[KEY_ROOM];
    const SliceDevice *found = make_key(driver, pool, device, key) ? map_get(&slices->known, key) : NULL;

    if (!found)
        return false;
    *ret = found->device;
    *ret_profile = found->profile;
    return true;
}
