/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/cluster_claims.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/str.h"

#define GROUP "resource.k8s.io"
#define GPU_CLASS "gpu.nvidia.com"

enum { COUNT_MAX = 1000 };

struct KubeDevice {
    const char *name, *node, *product;
    unsigned number; /* of a GPU, on its node */
    bool is_gpu, tainted;
    bool split; /* a claim has a MIG device of it */
};

struct KubePool {
    int64_t generation;
    VEC(KubeDevice *) devices;
};

struct KubeClaim {
    const char *name; /* "namespace/name" */
    const char *node; /* of its GPUs; NULL: it has none */
    unsigned asked;   /* GPUs */
    unsigned has;
    uint16_t bits;
    bool parts, allocated, taken;
};

void kube_claims_init(KubeClaims *claims, Arena *arena)
{
    *claims = (KubeClaims){.arena = arena};
    map_init(&claims->pools);
    map_init(&claims->devices);
    map_init(&claims->nodes);
    map_init(&claims->drivers);
    map_init(&claims->claims);
}

void kube_claims_done(KubeClaims *claims)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&claims->pools, &at));)
        vec_done(&((KubePool *)entry->value)->devices);
    map_done(&claims->pools);
    map_done(&claims->devices);
    map_done(&claims->nodes);
    map_done(&claims->drivers);
    map_done(&claims->claims);
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

/* A driver's own attribute stands without its domain, or with it. *ret stays where there is none. */
static int read_attribute(const KubeClaims *c, const KubeField *attributes, const char *driver, const char *name,
                          const char **ret, Err *err)
{
    const char *const names[] = {name, arena_printf(c->arena, "%.253s/%s", driver, name)};
    KubeField value;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        TRY(kube_field_get(attributes, names[i], JSON_OBJECT, &value, err));
        TRY(kube_field_text(&value, "string", ret, err));
    }
    return 0;
}

/* A taint that keeps new claims away. */
static int read_tainted(const KubeField *device, bool *ret, Err *err)
{
    KubeField list, item;

    TRY(kube_field_get(device, "taints", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *effect = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_text(&item, "effect", &effect, err));
        *ret |= strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "NoExecute") == 0;
    }
    return 0;
}

/* As the labels of GPU feature discovery. */
static const char *copy_product(const KubeClaims *c, const char *name)
{
    char *copy = name && *name ? arena_strdup(c->arena, name) : NULL;

    for (char *at = copy; at && *at; at++)
        *at = *at == ' ' ? '-' : *at;
    return copy;
}

static int add_device(KubeClaims *c, const char *driver, const char *node, const KubeField *item, KubePool *pool,
                      Err *err)
{
    KubeDevice *device = arena_calloc(c->arena, 1, sizeof *device);
    const char *type = "", *product = NULL;
    KubeField basic, attributes;

    *device = (KubeDevice){.name = "", .node = node, .number = CLUSTER_GPUS_MAX};
    TRY(kube_field_text(item, "name", &device->name, err));
    TRY(kube_field_get(item, "basic", JSON_OBJECT, &basic, err)); /* v1beta1 */
    const KubeField *in = basic.json ? &basic : item;
    TRY(kube_field_get(in, "attributes", JSON_OBJECT, &attributes, err));
    TRY(read_attribute(c, &attributes, driver, "type", &type, err));
    TRY(read_attribute(c, &attributes, driver, "productName", &product, err));
    TRY(read_tainted(in, &device->tainted, err));
    device->is_gpu = strcmp(type, "gpu") == 0;
    device->product = copy_product(c, product);
    if (device->is_gpu)
        map_put(&c->drivers, driver, c);
    vec_push(&pool->devices, device);
    return 0;
}

/* Of a pool the slices of its highest generation count. */
static int read_slice(KubeClaims *c, const KubeObject *object, Err *err)
{
    const char *driver = "", *name = "", *node = NULL;
    KubeField list, item;
    int64_t generation = 0;

    TRY(kube_field_text(&object->root, "spec driver", &driver, err));
    TRY(kube_field_text(&object->root, "spec pool name", &name, err));
    TRY(kube_field_text(&object->root, "spec nodeName", &node, err));
    TRY(kube_field_int(&object->root, "spec pool generation", 0, INT64_MAX, &generation, err));
    TRY(kube_field_get(&object->root, "spec devices", JSON_ARRAY, &list, err));
    const char *key = arena_printf(c->arena, "%s/%s", driver, name);
    KubePool *pool = map_get(&c->pools, key);
    if (!node)
        return 0; /* devices that are not of a node are no GPUs of it */
    if (!pool) {
        pool = arena_calloc(c->arena, 1, sizeof *pool);
        pool->generation = generation;
        map_put(&c->pools, key, pool);
    }
    if (generation < pool->generation)
        return 0;
    if (generation > pool->generation)
        vec_clear(&pool->devices);
    pool->generation = generation;
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(add_device(c, driver, node, &item, pool, err));
    }
    return 0;
}

static int compare_devices(const void *a, const void *b)
{
    const KubeDevice *const *x = a, *const *y = b;

    return strverscmp((*x)->name, (*y)->name);
}

/* Numbers the GPUs of a pool's node. */
static void place_devices(KubeClaims *c, const char *pool_key, KubePool *pool)
{
    vec_sort(&pool->devices, compare_devices);
    for (size_t i = 0; i < pool->devices.len; i++) {
        KubeDevice *device = pool->devices.at[i];
        KubeDeviceNode *node = map_get(&c->nodes, device->node);

        if (map_put(&c->devices, arena_printf(c->arena, "%s/%s", pool_key, device->name), device) || !device->is_gpu)
            continue; /* a name that comes twice, or no GPU */
        if (!node) {
            node = arena_calloc(c->arena, 1, sizeof *node);
            map_put(&c->nodes, device->node, node);
        }
        node->product = node->product ? node->product : device->product;
        if (node->count == CLUSTER_GPUS_MAX)
            continue;
        device->number = node->count++;
        node->broken = (uint16_t)(node->broken | (unsigned)device->tainted << device->number);
    }
}

KubeDeviceNode *kube_claims_node(const KubeClaims *c, const char *name)
{
    return map_get(&c->nodes, name);
}

/* --- claims ------------------------------------------------------------------------------------------------------- */

static bool is_gpu_class(const KubeClaims *c, const char *class)
{
    return strcmp(class, GPU_CLASS) == 0 || map_get(&c->drivers, class);
}

/* One request; the alternatives of one are such too. */
static int count_request(const KubeClaims *c, const KubeField *in, KubeClaim *claim, Err *err)
{
    const char *class = "", *mode = "";
    bool admin = false;
    int64_t count = 1;

    TRY(kube_field_text(in, "deviceClassName", &class, err));
    TRY(kube_field_text(in, "allocationMode", &mode, err));
    TRY(kube_field_bool(in, "adminAccess", &admin, err));
    TRY(kube_field_int(in, "count", 0, COUNT_MAX, &count, err));
    if (admin)
        return 0;
    claim->parts |= strncmp(class, "mig.", 4) == 0 || (is_gpu_class(c, class) && strcmp(mode, "All") == 0);
    if (is_gpu_class(c, class) && strcmp(mode, "All") != 0)
        claim->asked += (unsigned)count;
    return 0;
}

/* `devices` of a claim's spec. Of alternatives the first counts. */
static int count_asked(const KubeClaims *c, const KubeField *devices, KubeClaim *claim, Err *err)
{
    KubeField list, item, exactly, first, alternative;

    TRY(kube_field_get(devices, "requests", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_get(&item, "exactly", JSON_OBJECT, &exactly, err));
        TRY(kube_field_get(&item, "firstAvailable", JSON_ARRAY, &first, err));
        if (kube_field_len(&first) > 0) {
            TRY(kube_field_item(&first, 0, JSON_OBJECT, &alternative, err));
            TRY(count_request(c, &alternative, claim, err));
        } else
            TRY(count_request(c, exactly.json ? &exactly : &item, claim, err)); /* v1beta1 has no `exactly` */
    }
    return 0;
}

/* A MIG device takes its GPU, which is then not whole, once. */
static KubeDevice *find_gpu(const KubeClaims *c, const char *pool_key, const char *name)
{
    const char *mig = strstr(name, "-mig-");
    KubeDevice *device = map_get(&c->devices, arena_printf(c->arena, "%s/%s", pool_key, name));

    if (device && device->is_gpu)
        return device;
    if (!mig)
        return NULL;
    device = map_get(&c->devices, arena_printf(c->arena, "%s/%.*s", pool_key, (int)(mig - name), name));
    if (!device || !device->is_gpu || device->split)
        return NULL;
    device->split = true;
    return device;
}

static int read_result(const KubeClaims *c, const KubeField *result, KubeClaim *claim, Err *err)
{
    const char *driver = "", *pool = "", *name = "";
    bool admin = false;

    TRY(kube_field_text(result, "driver", &driver, err));
    TRY(kube_field_text(result, "pool", &pool, err));
    TRY(kube_field_text(result, "device", &name, err));
    TRY(kube_field_bool(result, "adminAccess", &admin, err));
    const KubeDevice *gpu = admin ? NULL : find_gpu(c, arena_printf(c->arena, "%s/%s", driver, pool), name);
    if (!gpu)
        return 0;
    claim->node = gpu->node;
    claim->has++;
    if (gpu->number < CLUSTER_GPUS_MAX)
        claim->bits = (uint16_t)(claim->bits | 1u << gpu->number);
    return 0;
}

static int read_claim(KubeClaims *c, const KubeObject *object, Err *err)
{
    const bool is_template = strcmp(object->kind, "ResourceClaimTemplate") == 0;
    KubeClaim *claim = arena_calloc(c->arena, 1, sizeof *claim);
    KubeField devices, allocation, list, item;

    claim->name = arena_printf(c->arena, "%s/%s", object->namespace, object->name);
    TRY(kube_field_get(&object->root, is_template ? "spec spec devices" : "spec devices", JSON_OBJECT, &devices, err));
    TRY(count_asked(c, &devices, claim, err));
    TRY(kube_field_get(&object->root, "status allocation", JSON_OBJECT, &allocation, err));
    claim->allocated = allocation.json != NULL;
    TRY(kube_field_get(&allocation, "devices results", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(read_result(c, &item, claim, err));
    }
    map_put(&c->claims, arena_printf(c->arena, "%s %s", object->kind, claim->name), claim);
    return 0;
}

int kube_claims_read(KubeClaims *c, const KubeObject *objects, size_t count, Err *err)
{
    const MapEntry *entry;

    for (size_t i = 0; i < count; i++)
        if (kube_object_is(&objects[i], "ResourceSlice", GROUP))
            TRY(read_slice(c, &objects[i], err));
    for (size_t at = 0; (entry = map_next(&c->pools, &at));)
        place_devices(c, entry->key, entry->value);
    for (size_t i = 0; i < count; i++)
        if (kube_object_is(&objects[i], "ResourceClaim", GROUP) ||
            kube_object_is(&objects[i], "ResourceClaimTemplate", GROUP))
            TRY(read_claim(c, &objects[i], err));
    return 0;
}

/* --- pods --------------------------------------------------------------------------------------------------------- */

static KubeClaim *find_claim(const KubeClaims *c, const char *kind, const char *namespace, const char *name)
{
    return name ? map_get(&c->claims, arena_printf(c->arena, "%s %s/%s", kind, namespace, name)) : NULL;
}

/* The claim that was made from a template for a pod. */
static int find_made(const KubeField *status, const char *name, const char **ret, Err *err)
{
    KubeField list, item;

    if (!status)
        return 0;
    TRY(kube_field_get(status, "resourceClaimStatuses", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *of = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_text(&item, "name", &of, err));
        if (strcmp(of, name) == 0)
            TRY(kube_field_text(&item, "resourceClaimName", ret, err));
    }
    return 0;
}

static void take_claim(const KubeClaims *c, KubeClaim *claim, const char *node, KubeClaimed *ret)
{
    const KubeDeviceNode *there = node ? kube_claims_node(c, node) : NULL;

    if (claim->taken || (claim->allocated && !node))
        return; /* what it has is counted already, or with the claim */
    claim->taken = true;
    ret->gpus += claim->has ? claim->has : claim->asked;
    ret->parts |= claim->parts && !claim->has;
    if (there && there->numbered && claim->node && strcmp(claim->node, node) == 0)
        ret->bits |= claim->bits;
}

/* The claim of a template is another one for each pod. */
static void take_template(const KubeClaim *claim, KubeClaimed *ret)
{
    ret->gpus += claim->asked;
    ret->parts |= claim->parts;
}

/* A claim that the scheduler made for nvidia.com/gpu: the pod has asked for it already. */
static int take_extended(const KubeClaims *c, const char *namespace, const KubeField *status, const char *node,
                         KubeClaimed *ret, Err *err)
{
    const char *name = NULL;
    KubeClaimed has = {.gpus = 0};

    TRY(kube_field_text(status, "extendedResourceClaimStatus resourceClaimName", &name, err));
    KubeClaim *claim = find_claim(c, "ResourceClaim", namespace, name);
    if (claim && node)
        take_claim(c, claim, node, &has);
    ret->bits |= has.bits;
    return 0;
}

int kube_claims_of_pod(KubeClaims *c, const char *namespace, const KubeField *spec, const KubeField *status,
                       const char *node, KubeClaimed *ret, Err *err)
{
    KubeField list, item;

    *ret = (KubeClaimed){.gpus = 0};
    TRY(kube_field_get(spec, "resourceClaims", JSON_ARRAY, &list, err));
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *name = "", *made = NULL, *template = NULL;

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, err));
        TRY(kube_field_text(&item, "name", &name, err));
        TRY(kube_field_text(&item, "resourceClaimName", &made, err));
        TRY(kube_field_text(&item, "resourceClaimTemplateName", &template, err));
        TRY(find_made(status, name, &made, err));
        KubeClaim *claim = find_claim(c, "ResourceClaim", namespace, made);
        const KubeClaim *of = find_claim(c, "ResourceClaimTemplate", namespace, template);
        if (claim && status)
            take_claim(c, claim, node, ret);
        else if (claim || of)
            take_template(claim ? claim : of, ret);
        else
            ret->unknown = true;
    }
    return status ? take_extended(c, namespace, status, node, ret, err) : 0;
}

bool kube_claims_next(const KubeClaims *c, size_t *at, const char **ret_name, const char **ret_node, KubeClaimed *ret)
{
    const MapEntry *entry;

    while ((entry = map_next(&c->claims, at))) {
        const KubeClaim *claim = entry->value;
        const KubeDeviceNode *node = claim->node ? kube_claims_node(c, claim->node) : NULL;

        if (!node || claim->taken)
            continue;
        *ret_name = claim->name;
        *ret_node = claim->node;
        *ret = (KubeClaimed){.gpus = claim->has, .bits = node->numbered ? claim->bits : 0};
        return true;
    }
    return false;
}
