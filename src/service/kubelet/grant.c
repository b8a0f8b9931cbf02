/* SPDX-License-Identifier: Apache-2.0 */
/* The answers are those of NVIDIA's device plugin, name by name. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "service/kubelet/grant.h"
#include "service/kubelet/message.h"

#define VISIBLE "NVIDIA_VISIBLE_DEVICES"
#define VOLUMES "/var/run/nvidia-container-devices"
#define CDI_KIND "k8s.device-plugin.nvidia.com/"

enum { LIST_MAX = 1 << 20, PAIRS_MAX = 8, FIXED_NODES = 4, NODES_PER_UNIT = 3 };

/* A container's answer while it is made. */
typedef struct Making {
    const GrantConfig *config;
    const OfferResource *resource;
    Arena *arena;
    const OfferUnit **units; /* each once */
    size_t unit_count;
    Deviceplugin__Grant *grant;
} Making;

/* --- lists of the message: room is made for all that can come ----------------------------------------------------- */

static void add_pair(Arena *arena, Deviceplugin__Pair ***list, size_t *count, const char *key, const char *value)
{
    if (!*list)
        *list = arena_calloc(arena, PAIRS_MAX, sizeof **list);
    Deviceplugin__Pair *pair = NEW_MESSAGE(arena, Deviceplugin__Pair, deviceplugin__pair__init);
    pair->key = arena_strdup(arena, key);
    pair->value = arena_strdup(arena, value);
    (*list)[(*count)++] = pair;
}

static void add_env(Making *m, const char *key, const char *value)
{
    add_pair(m->arena, &m->grant->envs, &m->grant->n_envs, key, value);
}

static void add_mount(Making *m, char *host, char *container)
{
    Deviceplugin__Mount *mount = NEW_MESSAGE(m->arena, Deviceplugin__Mount, deviceplugin__mount__init);

    if (!m->grant->mounts)
        m->grant->mounts = arena_calloc(m->arena, m->unit_count + FIXED_NODES, sizeof(Deviceplugin__Mount *));
    mount->host_path = host;
    mount->container_path = container;
    m->grant->mounts[m->grant->n_mounts++] = mount;
}

static void add_node(Making *m, const char *path, bool if_there)
{
    Deviceplugin__DeviceNode *node = NEW_MESSAGE(m->arena, Deviceplugin__DeviceNode, deviceplugin__device_node__init);
    const char *here = arena_printf(m->arena, "%s%s", m->config->root, path);

    if (if_there && access(here, F_OK) < 0)
        return;
    if (!m->grant->devices)
        m->grant->devices =
            arena_calloc(m->arena, FIXED_NODES + NODES_PER_UNIT * m->unit_count, sizeof(Deviceplugin__DeviceNode *));
    node->container_path = arena_strdup(m->arena, path);
    node->host_path = arena_printf(m->arena, "%s%s", m->config->dev_root, path);
    node->permissions = arena_strdup(m->arena, "rw");
    m->grant->devices[m->grant->n_devices++] = node;
}

/* --- the parts of an answer --------------------------------------------------------------------------------------- */

const char *grant_name(const GrantConfig *config, const OfferUnit *unit, char to[GRANT_NAME_CAP])
{
    if (!config->by_index)
        snprintf(to, GRANT_NAME_CAP, "%s", unit->device.uuid);
    else if (unit->profile[0])
        snprintf(to, GRANT_NAME_CAP, "%" PRIu32 ":%" PRIu32, unit->gpu_index, unit->device.index);
    else
        snprintf(to, GRANT_NAME_CAP, "%" PRIu32, unit->device.index);
    return to;
}

static const char *name_unit(const Making *m, const OfferUnit *unit)
{
    return grant_name(m->config, unit, arena_alloc(m->arena, GRANT_NAME_CAP));
}

static char *list_names(const Making *m)
{
    CLEANUP(str_done) Str list = str_limited(LIST_MAX);

    for (size_t i = 0; i < m->unit_count; i++)
        str_addf(&list, "%s%s", i ? "," : "", name_unit(m, m->units[i]));
    return arena_strdup(m->arena, list.text);
}

static void name_cdi_devices(const Making *m, const char **names, size_t *count)
{
    const struct {
        bool on;
        const char *name;
    } more[] = {{m->config->gdrcopy, CDI_KIND "gdrcopy=all"},
                {m->config->gds, CDI_KIND "gds=all"},
                {m->config->mofed, CDI_KIND "mofed=all"}};

    for (size_t i = 0; i < m->unit_count; i++)
        names[(*count)++] = arena_printf(m->arena, CDI_KIND "gpu=%s", name_unit(m, m->units[i]));
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        if (more[i].on)
            names[(*count)++] = more[i].name;
}

static int add_cdi(Making *m, Err *err)
{
    const char **names = arena_calloc(m->arena, m->unit_count + PAIRS_MAX, sizeof *names);
    CLEANUP(str_done) Str list = str_limited(LIST_MAX), key = str_limited(256);
    uint8_t random[8];
    size_t count = 0;

    name_cdi_devices(m, names, &count);
    if (m->config->cdi_cri) {
        m->grant->cdi_devices = arena_calloc(m->arena, count, sizeof(Deviceplugin__CdiDevice *));
        for (size_t i = 0; i < count; i++) {
            Deviceplugin__CdiDevice *one =
                NEW_MESSAGE(m->arena, Deviceplugin__CdiDevice, deviceplugin__cdi_device__init);

            one->name = arena_strdup(m->arena, names[i]);
            m->grant->cdi_devices[m->grant->n_cdi_devices++] = one;
        }
    }
    if (!m->config->cdi_annotations)
        return 0;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_errno(err, "name the annotation of a container");
    str_addf(&key, "%snvidia-device-plugin_", m->config->cdi_prefix);
    for (size_t i = 0; i < sizeof random; i++)
        str_addf(&key, "%02x", random[i]);
    for (size_t i = 0; i < count; i++)
        str_addf(&list, "%s%s", i ? "," : "", names[i]);
    add_pair(m->arena, &m->grant->annotations, &m->grant->n_annotations, key.text, list.text);
    return 0;
}

static void add_nodes(Making *m)
{
    static const char *const common[] = {DRIVER_COMMON_NODES};

    for (size_t i = 0; i < ARRAY_LEN(common); i++)
        add_node(m, common[i], true);
    for (size_t i = 0; i < m->unit_count; i++) {
        const Device *device = &m->units[i]->device;

        if (device->minor != DEVICE_NO_NUMBER)
            add_node(m, arena_printf(m->arena, "/dev/nvidia%" PRIu32, device->minor), false);
        if (m->units[i]->gi_minor)
            add_node(m, arena_printf(m->arena, "/dev/nvidia-caps/nvidia-cap%" PRIu32, m->units[i]->gi_minor), false);
        if (m->units[i]->ci_minor)
            add_node(m, arena_printf(m->arena, "/dev/nvidia-caps/nvidia-cap%" PRIu32, m->units[i]->ci_minor), false);
    }
}

static void add_mps(Making *m)
{
    add_env(m, "CUDA_MPS_PIPE_DIRECTORY", arena_printf(m->arena, "/mps/%s/pipe", m->resource->name));
    add_mount(m, arena_printf(m->arena, "%s/%s/pipe", m->config->mps_root, m->resource->name),
              arena_printf(m->arena, "/mps/%s/pipe", m->resource->name));
    add_mount(m, arena_printf(m->arena, "%s/shm", m->config->mps_root), arena_strdup(m->arena, "/dev/shm"));
}

static void add_extras(Making *m)
{
    const struct {
        bool on;
        const char *name;
    } extras[] = {
        {m->config->gdrcopy, "NVIDIA_GDRCOPY"}, {m->config->gds, "NVIDIA_GDS"}, {m->config->mofed, "NVIDIA_MOFED"}};

    for (size_t i = 0; i < ARRAY_LEN(extras); i++)
        if (extras[i].on)
            add_env(m, extras[i].name, "enabled");
}

/* --- the request -------------------------------------------------------------------------------------------------- */

static int add_unit(Making *m, const char *id, Err *err)
{
    const OfferUnit *unit = offer_unit(m->resource, id);

    if (!unit)
        return err_set(err, -EINVAL, "this node has no device '%.100s' of %s any more: the pod can be created again",
                       id, m->resource->name);
    if (!unit->healthy)
        return err_set(err, -EBUSY, "%s cannot be used now: %s; the pod can be created again on another device",
                       unit->device.uuid, unit->why);
    for (size_t i = 0; i < m->unit_count; i++)
        if (m->units[i] == unit)
            return 0;
    m->units[m->unit_count++] = unit;
    return 0;
}

int grant_devices(const GrantConfig *config, const OfferResource *resource, bool one_each, char *const *ids,
                  size_t count, Arena *arena, Deviceplugin__Grant **ret, Err *err)
{
    Making m = {.config = config, .resource = resource, .arena = arena};

    if (resource->sharing != OFFER_SHARING_NONE && one_each && count > 1)
        return err_set(
            err, -EINVAL,
            "%zu of %s are asked for, and its devices are shared: the most of one container is 1, since more "
            "give no larger part of a GPU",
            count, resource->name);
    m.grant = NEW_MESSAGE(arena, Deviceplugin__Grant, deviceplugin__grant__init);
    m.units = arena_calloc(arena, count + 1, sizeof *m.units);
    for (size_t i = 0; i < count; i++)
        TRY(add_unit(&m, ids[i], err));
    if (config->envvar || config->volume_mounts)
        add_env(&m, VISIBLE, config->volume_mounts ? VOLUMES : list_names(&m));
    if (config->volume_mounts)
        for (size_t i = 0; i < m.unit_count; i++)
            add_mount(&m, arena_strdup(arena, "/dev/null"),
                      arena_printf(arena, VOLUMES "/%s", name_unit(&m, m.units[i])));
    if (config->cdi_annotations || config->cdi_cri)
        TRY(add_cdi(&m, err));
    if (resource->sharing == OFFER_SHARING_MPS)
        add_mps(&m);
    if (config->envvar || config->volume_mounts) { /* with CDI alone, its specification has all of this */
        add_extras(&m);
        if (config->device_nodes)
            add_nodes(&m);
    }
    *ret = m.grant;
    return 0;
}
