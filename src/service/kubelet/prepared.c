/* SPDX-License-Identifier: Apache-2.0 */
/* The file of prepared claims holds of each what the scheduler decided, as the API server had it, and which device each
 * name was: everything else is read from that again. Members that are not known are left alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "service/kubelet/dra.h"

enum { FILE_MAX = 16 << 20, FILE_VERSION = 1 };

CLEANUP_POINTER(json_t, json_decref);

/* What is needed to read the claim again. */
static json_t *trim_claim(const json_t *object)
{
    const json_t *metadata = json_object_get(object, "metadata"), *status = json_object_get(object, "status");

    return json_pack("{s:{s:O?,s:O?,s:O?},s:{s:O?}}", "metadata", "uid", json_object_get(metadata, "uid"), "namespace",
                     json_object_get(metadata, "namespace"), "name", json_object_get(metadata, "name"), "status",
                     "allocation", json_object_get(status, "allocation"));
}

int prepared_new(const json_t *object, const char *driver, Prepared **ret, Err *err)
{
    CLEANUP(prepared_free_at) Prepared *prepared = xcalloc(1, sizeof *prepared);

    prepared->object = trim_claim(object);
    TRY(claim_read(prepared->object, driver, &prepared->arena, &prepared->claim, err));
    for (size_t i = 0; i < prepared->claim.count; i++)
        prepared->uuids[i] = prepared->parents[i] = "";
    *ret = TAKE(prepared);
    return 0;
}

void prepared_free(Prepared *prepared)
{
    if (!prepared)
        return;
    json_decref(prepared->object);
    arena_done(&prepared->arena);
    free(prepared);
}

void prepared_free_all(Prepared **first)
{
    while (*first) {
        Prepared *one = *first;

        *first = one->next;
        prepared_free(one);
    }
}

const char *prepared_path(const char *plugins, const char *driver, Arena *arena)
{
    return arena_printf(arena, "%s/%s/claims.json", plugins, driver);
}

static int read_entry(const json_t *entry, const char *driver, Prepared **ret, Err *err)
{
    const json_t *uuids = json_object_get(entry, "uuids"), *parents = json_object_get(entry, "parents");

    TRY(prepared_new(json_object_get(entry, "claim"), driver, ret, err));
    (*ret)->leaving = json_is_true(json_object_get(entry, "leaving"));
    for (size_t i = 0; i < (*ret)->claim.count; i++) {
        const char *uuid = json_string_value(json_array_get(uuids, i));
        const char *parent = json_string_value(json_array_get(parents, i));

        if (!uuid)
            return err_set(err, -EBADMSG, "claim '%.60s' has no UUID for %.60s", (*ret)->claim.name,
                           (*ret)->claim.devices[i].name);
        (*ret)->uuids[i] = arena_strdup(&(*ret)->arena, uuid);
        (*ret)->parents[i] = arena_strdup(&(*ret)->arena, parent ? parent : "");
    }
    return 0;
}

int prepared_load(const char *path, const char *driver, const char *boot_id, Prepared **ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(FILE_MAX);
    const json_t *entry;
    size_t i;
    int rc = file_read(path, FILE_MAX, &text, err);

    *ret = NULL;
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return rc;
    CLEANUP(json_decref_at) json_t *root = json_loadb(text.text, text.len, 0, NULL);
    const char *boot = json_string_value(json_object_get(root, "boot_id"));
    if (!boot)
        return err_set(err, -EBADMSG, "'%s' is no file of prepared claims; where no pod has a claim, it can be removed",
                       path);
    if (strcmp(boot, boot_id) != 0)
        return 0;
    Prepared **end = ret;
    json_array_foreach(json_object_get(root, "claims"), i, entry)
    {
        rc = read_entry(entry, driver, end, err);
        if (rc < 0)
            return err_add(err, "%s", path);
        end = &(*end)->next;
    }
    return 0;
}

int prepared_save(const char *path, const char *boot_id, const Prepared *first, Err *err)
{
    CLEANUP(json_decref_at)
    json_t *root = json_pack("{s:i,s:s,s:[]}", "version", FILE_VERSION, "boot_id", boot_id, "claims");

    for (const Prepared *one = first; one; one = one->next) {
        json_t *uuids = json_array(), *parents = json_array();

        for (size_t i = 0; i < one->claim.count; i++) {
            json_array_append_new(uuids, json_string(one->uuids[i]));
            json_array_append_new(parents, json_string(one->parents[i]));
        }
        json_array_append_new(json_object_get(root, "claims"),
                              json_pack("{s:O,s:o,s:o,s:b}", "claim", one->object, "uuids", uuids, "parents", parents,
                                        "leaving", (int)one->leaving));
    }
    CLEANUP_FREE char *text = json_dumps(root, JSON_INDENT(1));
    return file_write(path, text, strlen(text), 0600, err);
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

bool prepared_shares(const Prepared *prepared, size_t i, OfferSharing way)
{
    const ClaimDevice *device = &prepared->claim.devices[i];

    return !device->admin && device->config && device->config->sharing == way;
}

/* The first device with the same configuration, which gives their MPS daemon its name. */
static size_t find_leader(const Prepared *prepared, size_t i)
{
    size_t first = 0;

    while (prepared->claim.devices[first].admin ||
           prepared->claim.devices[first].config != prepared->claim.devices[i].config)
        first++;
    return first;
}

const char *prepared_daemon(const Prepared *prepared, size_t i, Arena *arena)
{
    return arena_printf(arena, "%s-%zu", prepared->claim.uid, find_leader(prepared, i));
}

static uint64_t find_limit(const Prepared *prepared, size_t i, size_t position)
{
    const ClaimConfig *config = prepared->claim.devices[i].config;
    char index[32];

    snprintf(index, sizeof index, "%zu", position);
    for (size_t k = 0; k < config->limit_count; k++)
        if (strcmp(config->limits[k].device, prepared->uuids[i]) == 0 || strcmp(config->limits[k].device, index) == 0)
            return config->limits[k].bytes;
    return config->limit_bytes;
}

/* The daemon of all devices with the configuration of device `leader`. */
static void add_daemon(const Prepared *prepared, size_t leader, Arena *arena, MpsDaemonConfigs *to)
{
    const char **uuids = arena_calloc(arena, CLAIM_DEVICES_MAX, sizeof *uuids);
    uint64_t *limits = arena_calloc(arena, CLAIM_DEVICES_MAX, sizeof *limits);
    size_t count = 0;

    for (size_t i = leader; i < prepared->claim.count; i++)
        if (prepared_shares(prepared, i, OFFER_SHARING_MPS) && find_leader(prepared, i) == leader) {
            limits[count] = find_limit(prepared, i, count);
            uuids[count++] = prepared->uuids[i];
        }
    vec_push(to, ((MpsDaemonConfig){.name = prepared_daemon(prepared, leader, arena),
                                    .uuids = uuids,
                                    .uuid_count = count,
                                    .limit_bytes = limits,
                                    .thread_percent = prepared->claim.devices[leader].config->thread_percent}));
}

void prepared_daemons(const Prepared *first, Arena *arena, MpsDaemonConfigs *to)
{
    for (const Prepared *one = first; one; one = one->next)
        for (size_t i = 0; i < one->claim.count && !one->leaving; i++)
            if (prepared_shares(one, i, OFFER_SHARING_MPS) && find_leader(one, i) == i)
                add_daemon(one, i, arena, to);
}

bool prepared_has_slice(const Prepared *prepared, size_t i)
{
    return prepared_shares(prepared, i, OFFER_SHARING_TIME) &&
           prepared->claim.devices[i].config->slice != CLAIM_SLICE_DEFAULT;
}

/* --- searches ----------------------------------------------------------------------------------------------------- */

Prepared *prepared_find(const Prepared *first, const char *uid)
{
    for (const Prepared *one = first; one; one = one->next)
        if (!one->leaving && strcmp(one->claim.uid, uid) == 0)
            return (Prepared *)(uintptr_t)one;
    return NULL;
}

const Prepared *prepared_holder(const Prepared *first, const char *uuid)
{
    for (const Prepared *one = first; one; one = one->next)
        for (size_t i = 0; i < one->claim.count; i++)
            if (!one->leaving && !one->claim.devices[i].admin && strcmp(one->uuids[i], uuid) == 0)
                return one;
    return NULL;
}

const Prepared *prepared_maker(const Prepared *first, const char *name, size_t *ret_position)
{
    for (const Prepared *one = first; one; one = one->next)
        for (size_t i = 0; i < one->claim.count; i++)
            if (one->parents[i][0] && strcmp(one->claim.devices[i].name, name) == 0) {
                *ret_position = i;
                return one;
            }
    return NULL;
}

void prepared_places(const Prepared *first, ClaimPlaces *to)
{
    for (const Prepared *one = first; one; one = one->next)
        for (size_t i = 0; i < one->claim.count; i++) {
            ClaimPlace place = {.gpu = one->parents[i]};

            if (place.gpu[0] && claim_read_place(one->claim.devices[i].name, &place))
                vec_push(to, place);
        }
}
