/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json_walk.h"

CLEANUP_POINTER(json_t, json_decref);

enum { TOKEN_MAX = 8192, VERSION_MAX = 128, KEY_ROOM = 1024 };
#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~="

/* -- what is kept ----------------------------------------------------------------------------------------------------
 */

void kube_objects_init(KubeObjects *objects)
{
    *objects = (KubeObjects){.pages = 0};
    map_init(&objects->kept);
    str_init(&objects->next_page, TOKEN_MAX);
    str_init(&objects->version, VERSION_MAX);
    str_init(&objects->line, KUBE_OBJECTS_LINE_MAX);
}

void kube_objects_clear(KubeObjects *objects)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&objects->kept, &at));)
        free(entry->value);
    map_done(&objects->kept);
    map_init(&objects->kept);
    objects->bytes = objects->pages = 0;
    str_clear(&objects->next_page);
    str_clear(&objects->version);
    str_clear(&objects->line);
}

void kube_objects_done(KubeObjects *objects)
{
    kube_objects_clear(objects);
    str_done(&objects->next_page);
    str_done(&objects->version);
    str_done(&objects->line);
}

/* False where it has no name. */
static bool make_key(const json_t *object, char key[KEY_ROOM])
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *namespace = json_string_value(json_object_get(metadata, "namespace"));
    const char *name = json_string_value(json_object_get(metadata, "name"));

    return name && (size_t)snprintf(key, KEY_ROOM, "%s/%s", namespace ? namespace : "", name) < KEY_ROOM;
}

static void drop_object(KubeObjects *objects, char *text)
{
    objects->bytes -= text ? strlen(text) : 0;
    free(text);
}

static void keep_object(KubeObjects *objects, const json_t *object, char *text)
{
    char key[KEY_ROOM];

    if (!make_key(object, key)) {
        free(text);
        return;
    }
    objects->bytes += strlen(text);
    drop_object(objects, map_put(&objects->kept, key, text));
}

/* A version is a word of the server's; one that would need an escape is none. */
static void keep_version(KubeObjects *objects, const json_t *metadata)
{
    const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));

    if (!version)
        return;
    str_clear(&objects->version);
    if (!version[strspn(version, TOKEN_LETTERS)] && objects->bytes <= KUBE_OBJECTS_KEPT_MAX)
        str_add(&objects->version, version);
}

/* -- an answer, object by object -------------------------------------------------------------------------------------
 */

typedef struct Page {
    KubeObjects *objects;
    KubeAdd add;
    void *self;
} Page;

static int walk_items(const Page *page, JsonWalk *walk, Err *err)
{
    bool more = !json_walk_take(walk, ']');

    while (more) {
        const char *from = walk->at;
        CLEANUP(json_decref_at) json_t *item = json_walk_value(walk, err);

        if (!item)
            return -EBADMSG;
        TRY(page->add(page->self, item, err));
        if (!page->objects->change && page->objects->bytes <= KUBE_OBJECTS_KEPT_MAX)
            keep_object(page->objects, item, xmemdup0(from, (size_t)(walk->at - from)));
        more = json_walk_take(walk, ',');
        if (!more && !json_walk_take(walk, ']'))
            return err_set(err, -EBADMSG, "the answer is no JSON: its list does not end");
    }
    return 0;
}

/* What stands before another page: a word of letters, digits and a few signs. */
static int keep_token(KubeObjects *objects, const json_t *metadata, Err *err)
{
    const char *token = json_string_value(json_object_get(metadata, "continue"));

    if (!token)
        return 0;
    if (token[strspn(token, TOKEN_LETTERS)])
        return err_set(err, -EBADMSG, "the answer names no page to go on with");
    str_add(&objects->next_page, token);
    return str_check(&objects->next_page, "the name of the next page", err);
}

/* {"kind": ..., "metadata": {"continue": ...}, "items": [...]} */
static int walk_list(const Page *page, JsonWalk *walk, Err *err)
{
    bool more = true;

    if (!json_walk_take(walk, '{'))
        return err_set(err, -EBADMSG, "the answer is no JSON object");
    while (more) {
        CLEANUP(json_decref_at) json_t *key = json_walk_value(walk, err), *value = NULL;

        if (!key)
            return -EBADMSG;
        if (!json_is_string(key) || !json_walk_take(walk, ':'))
            return err_set(err, -EBADMSG, "the answer is no JSON object");
        const bool items = strcmp(json_string_value(key), "items") == 0;
        page->objects->pages += items;
        if (items && json_walk_take(walk, '[')) {
            TRY(walk_items(page, walk, err));
        } else {
            value = json_walk_value(walk, err);
            if (!value)
                return -EBADMSG;
            if (strcmp(json_string_value(key), "metadata") == 0) {
                keep_version(page->objects, value);
                TRY(keep_token(page->objects, value, err));
            }
        }
        more = json_walk_take(walk, ',');
    }
    return json_walk_take(walk, '}') ? 0 : err_set(err, -EBADMSG, "the answer is no JSON object: it does not end");
}

int kube_objects_read_page(KubeObjects *objects, const char *text, size_t len, KubeAdd add, void *self, Err *err)
{
    JsonWalk walk = {.at = text, .end = text + len, .what = "the answer"};
    const Page page = {.objects = objects, .add = add, .self = self};
    const size_t before = objects->pages;

    str_clear(&objects->next_page);
    TRY(walk_list(&page, &walk, err));
    if (objects->bytes > KUBE_OBJECTS_KEPT_MAX)
        str_clear(&objects->version);
    return objects->pages > before ? 0 : err_set(err, -EBADMSG, "the answer is no list");
}

int kube_objects_read_one(KubeObjects *objects, const char *text, size_t len, KubeAdd add, void *self, Err *err)
{
    JsonWalk walk = {.at = text, .end = text + len, .what = "the answer"};
    CLEANUP(json_decref_at) json_t *object = json_walk_value(&walk, err);

    if (!object)
        return -EBADMSG;
    TRY(add(self, object, err));
    keep_object(objects, object, xmemdup0(text, (size_t)(walk.at - text)));
    keep_version(objects, json_object_get(object, "metadata"));
    return 0;
}

/* -- a watch ---------------------------------------------------------------------------------------------------------
 */

static int refuse_event(const json_t *status, Err *err)
{
    const char *message = json_string_value(json_object_get(status, "message"));
    const json_int_t code = json_integer_value(json_object_get(status, "code"));

    return code == 410 ? KUBE_OBJECTS_GONE
                       : err_set(err, -EPROTO, "the watch failed: %d %.150s", (int)code, message ? message : "");
}

static int apply_event(KubeObjects *objects, const char *type, const json_t *object, bool *ret_changed, Err *err)
{
    char key[KEY_ROOM];

    if (strcmp(type, "ERROR") == 0)
        return refuse_event(object, err);
    if (strcmp(type, "BOOKMARK") != 0) {
        if (!make_key(object, key))
            return err_set(err, -EBADMSG, "an event of the watch has no object with a name");
        if (objects->change)
            TRY(objects->change(objects->change_self, object, strcmp(type, "DELETED") == 0, err));
        else if (strcmp(type, "DELETED") == 0)
            drop_object(objects, map_del(&objects->kept, key));
        else
            keep_object(objects, object, json_dumps(object, JSON_COMPACT));
        *ret_changed = *ret_changed || !objects->change;
    }
    keep_version(objects, json_object_get(object, "metadata"));
    return objects->bytes <= KUBE_OBJECTS_KEPT_MAX ? 0 : err_set(err, -E2BIG, "the watch brought too many objects");
}

/* {"type": "MODIFIED", "object": {...}} */
static int read_event(KubeObjects *objects, const char *line, size_t len, bool *ret_changed, Err *err)
{
    json_error_t error;
    CLEANUP(json_decref_at) json_t *event = json_loadb(line, len, 0, &error);
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *object = json_object_get(event, "object");

    if (!type || !json_is_object(object))
        return err_set(err, -EBADMSG, "an event of the watch is no JSON, or none that is known: %.100s",
                       event ? "" : error.text);
    return apply_event(objects, type, object, ret_changed, err);
}

int kube_objects_watch(KubeObjects *objects, const char *bytes, size_t len, bool *ret_changed, Err *err)
{
    const char *end = bytes + len, *cut;
    Str *line = &objects->line;

    for (; (cut = memchr(bytes, '\n', (size_t)(end - bytes))); bytes = cut + 1) {
        str_addn(line, bytes, (size_t)(cut - bytes));
        TRY(str_check(line, "an event of the watch", err));
        const int rc = line->len ? read_event(objects, line->text, line->len, ret_changed, err) : 0;
        str_clear(line);
        if (rc != 0)
            return rc;
    }
    str_addn(line, bytes, (size_t)(end - bytes));
    return str_check(line, "an event of the watch", err);
}

int kube_objects_tell(const KubeObjects *objects, KubeAdd add, void *self, Err *err)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&objects->kept, &at));) {
        CLEANUP(json_decref_at) json_t *object = json_loads(entry->value, 0, NULL);

        if (!object) /* a NUL in it, which ended the text */
            return err_set(err, -EBADMSG, "'%.100s' is no JSON", entry->key);
        TRY(add(self, object, err));
    }
    return 0;
}
