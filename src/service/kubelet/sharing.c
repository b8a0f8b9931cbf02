/* SPDX-License-Identifier: Apache-2.0 */
#include "service/kubelet/kubelet.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct SharedRow {
    const char *name, *rename;
    uint64_t replicas;
    const YamlNode *devices;
} SharedRow;

static const OptSpec shared_opts[] = {
    OPT_ROW("name", OPT_STRING, SharedRow, name, .help = "the resource"),
    OPT_ROW("rename", OPT_STRING, SharedRow, rename, .help = "ignored, as by the device plugin"),
    OPT_ROW("replicas", OPT_UINT, SharedRow, replicas, .min = 2, .max = OFFER_REPLICAS_MAX),
    OPT_ROW("devices", OPT_NODE, SharedRow, devices, .help = "ignored, as by the device plugin: all"),
};

typedef struct SharedRows {
    bool rename, one_each;
    const YamlNode *resources;
} SharedRows;

static const OptSpec kind_opts[] = {
    OPT_ROW("renameByDefault", OPT_BOOL, SharedRows, rename, .help = "offered as NAME.shared"),
    OPT_ROW("failRequestsGreaterThanOne", OPT_BOOL, SharedRows, one_each, .help = "one replica for a container"),
    OPT_ROW("resources", OPT_NODE, SharedRows, resources, .help = "what is shared"),
};

static int read_row(const YamlNode *node, Arena *arena, OfferShare *ret, Err *err)
{
    SharedRow row = {0};
    const OptSet set = {.opts = shared_opts, .count = ARRAY_LEN(shared_opts), .into = &row, .arena = arena};

    TRY(yaml_want(node, YAML_MAP, "an entry of resources", err));
    TRY(opt_yaml(&set, node, err));
    if (!row.name || !row.replicas)
        return yaml_fail(node, err, "an entry of resources needs 'name' and 'replicas'");
    const char *slash = strchr(row.name, '/'); /* as the device plugin: a name without a domain is NVIDIA's */
    ret->resource = slash ? row.name : arena_printf(arena, "nvidia.com/%s", row.name);
    ret->replicas = (uint32_t)row.replicas;
    if (strncmp(ret->resource, "nvidia.com/", strlen("nvidia.com/")) != 0 ||
        strlen(ret->resource) + strlen(".shared") >= OFFER_NAME_CAP)
        return yaml_fail(node, err, "'%.80s' is no resource of this node: nvidia.com/gpu or nvidia.com/mig-PROFILE",
                         row.name);
    return 0;
}

static int read_kind(const YamlNode *map, OfferSharing kind, Arena *arena, OfferConfig *ret, Err *err)
{
    SharedRows rows = {.one_each = kind == OFFER_SHARING_MPS};
    const OptSet set = {.opts = kind_opts, .count = ARRAY_LEN(kind_opts), .into = &rows, .arena = arena};

    TRY(yaml_want(map, YAML_MAP, offer_sharings[kind].key, err));
    TRY(opt_yaml(&set, map, err));
    if (!rows.resources || rows.resources->kind != YAML_SEQ || rows.resources->len == 0)
        return yaml_fail(map, err, "'resources' must be a list of at least one entry");
    OfferShare *shares = arena_calloc(arena, rows.resources->len, sizeof *shares);
    for (size_t i = 0; i < rows.resources->len; i++) {
        TRY(read_row(rows.resources->items[i], arena, &shares[i], err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(shares[k].resource, shares[i].resource) == 0)
                return yaml_fail(rows.resources->items[i], err, "%s is there twice", shares[i].resource);
    }
    ret->sharing = kind;
    ret->shares = shares;
    ret->share_count = rows.resources->len;
    ret->rename = rows.rename;
    ret->one_each = rows.one_each;
    return 0;
}

int kubelet_read_sharing(const YamlNode *sharing, Arena *arena, OfferConfig *ret, Err *err)
{
    struct {
        const YamlNode *time_slicing, *mps;
    } kinds = {0};
    const OptSpec opts[] = {
        {.key = "timeSlicing", .type = OPT_NODE, .off = 0},
        {.key = "mps", .type = OPT_NODE, .off = sizeof kinds.time_slicing},
    };
    const OptSet set = {.opts = opts, .count = ARRAY_LEN(opts), .into = &kinds, .arena = arena};

    ret->sharing = OFFER_SHARING_NONE;
    ret->share_count = 0;
    if (yaml_is_null(sharing))
        return 0;
    TRY(yaml_want(sharing, YAML_MAP, "sharing", err));
    TRY(opt_yaml(&set, sharing, err));
    if (!yaml_is_null(kinds.mps)) /* which wins in the device plugin too */
        return read_kind(kinds.mps, OFFER_SHARING_MPS, arena, ret, err);
    return yaml_is_null(kinds.time_slicing) ? 0 : read_kind(kinds.time_slicing, OFFER_SHARING_TIME, arena, ret, err);
}
