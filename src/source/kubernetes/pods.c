/* SPDX-License-Identifier: Apache-2.0 */
/* See kubernetes.h. A reading fills a map of its own, which replaces the known one only when all of it was read. */
#include "source/kubernetes/kubernetes.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"

enum { KEY_ROOM = 512, SET_BLOCK = 1024 };

/* Those of one pod, in an allocation of its own with its texts. */
typedef struct LabelSet {
    Arena arena;
    AllocationLabel *at;
    size_t len;
    const char *owner_kind, *owner_name; /* "" none */
} LabelSet;

struct KubePods {
    regex_t *patterns;
    size_t pattern_count;
    Map known; /* "namespace/name" -> LabelSet, for every pod of interest; &unknown: not read yet */
    Map fresh; /* the same of the reading under way */
    LabelSet unknown;
    void (*changed)(void *self);
    void *self;
};

/* -- sets ------------------------------------------------------------------------------------------------------------
 */

static void free_set(KubePods *pods, LabelSet *set)
{
    if (!set || set == &pods->unknown)
        return;
    arena_done(&set->arena);
    free(set);
}

static void clear_sets(KubePods *pods, Map *map)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(map, &at));)
        free_set(pods, entry->value);
    map_done(map);
    map_init(map);
}

static bool same_set(const LabelSet *a, const LabelSet *b)
{
    if (a->len != b->len)
        return false;
    if (strcmp(a->owner_kind, b->owner_kind) != 0 || strcmp(a->owner_name, b->owner_name) != 0)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (strcmp(a->at[i].name, b->at[i].name) != 0 || strcmp(a->at[i].value, b->at[i].value) != 0)
            return false;
    return true;
}

static const char *metric_label_name(Arena *arena, const char *name)
{
    char *out = arena_printf(arena, "%s%s", isdigit((unsigned char)*name) ? "_" : "", name);

    for (char *at = out; *at; at++)
        if (!isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80)
            *at = '_';
    return out;
}

static bool is_allowed(const KubePods *pods, const char *name)
{
    for (size_t i = 0; i < pods->pattern_count; i++)
        if (regexec(&pods->patterns[i], name, 0, NULL, 0) == 0)
            return true;
    return pods->pattern_count == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const AllocationLabel *)a)->name, ((const AllocationLabel *)b)->name);
}

/* The object that controls the pod. Of a ReplicaSet that a Deployment made the Deployment: its name ends in the hash of
 * the pod's label. */
static void set_owner(LabelSet *set, const json_t *metadata)
{
    const char *hash = json_string_value(json_object_get(json_object_get(metadata, "labels"), "pod-template-hash"));
    const json_t *references = json_object_get(metadata, "ownerReferences");

    set->owner_kind = set->owner_name = "";
    for (size_t i = 0; i < json_array_size(references); i++) {
        const json_t *one = json_array_get(references, i);
        const char *kind = json_string_value(json_object_get(one, "kind"));
        const char *name = json_string_value(json_object_get(one, "name"));
        const size_t len = name ? strlen(name) : 0, tail = hash ? strlen(hash) + 1 : SIZE_MAX;

        if (!kind || !name || !json_is_true(json_object_get(one, "controller")))
            continue;
        const bool deployed = strcmp(kind, "ReplicaSet") == 0 && len > tail && name[len - tail] == '-' &&
                              strcmp(name + len - tail + 1, hash) == 0;
        set->owner_kind = arena_strdup(&set->arena, deployed ? "Deployment" : kind);
        set->owner_name = arena_strndup(&set->arena, name, deployed ? len - tail : len);
        return;
    }
}

/* In the order of their own names, so that it does not depend on the server which of two is kept. */
static LabelSet *make_set(const KubePods *pods, const json_t *metadata)
{
    json_t *labels = json_object_get(metadata, "labels");
    LabelSet *set = xcalloc(1, sizeof *set);
    VEC(AllocationLabel) found = {0};
    const char *name;
    json_t *value;

    json_object_foreach(labels, name, value)
    {
        if (json_is_string(value) && is_allowed(pods, name))
            vec_push(&found, ((AllocationLabel){.name = name, .value = json_string_value(value)}));
    }
    vec_sort(&found, compare_names);
    arena_init(&set->arena, SET_BLOCK);
    set_owner(set, metadata);
    set->at = arena_calloc(&set->arena, number_min_u64(found.len, KUBE_LABELS_MAX), sizeof *set->at);
    for (size_t i = 0; i < found.len && set->len < KUBE_LABELS_MAX; i++) {
        const char *made = metric_label_name(&set->arena, found.at[i].name);
        size_t at = 0;

        while (at < set->len && strcmp(set->at[at].name, made) != 0)
            at++;
        if (at == set->len)
            set->at[set->len++] = (AllocationLabel){made, arena_strdup(&set->arena, found.at[i].value)};
    }
    vec_done(&found);
    return set;
}

/* -- a reading -------------------------------------------------------------------------------------------------------
 */

static void begin_reading(void *self)
{
    KubePods *pods = self;

    clear_sets(pods, &pods->fresh);
}

/* False for names that no pod has. */
static bool make_key(const char *namespace, const char *name, char key[KEY_ROOM])
{
    return (size_t)snprintf(key, KEY_ROOM, "%s/%s", namespace, name) < KEY_ROOM;
}

static int add_pod(void *self, const json_t *object, Err *err)
{
    KubePods *pods = self;
    const json_t *metadata = json_object_get(object, "metadata");
    const char *namespace = json_string_value(json_object_get(metadata, "namespace"));
    const char *name = json_string_value(json_object_get(metadata, "name"));
    char key[KEY_ROOM];

    if (!namespace || !name)
        return err_set(err, -EBADMSG, "an object of the list is no pod: it has no namespace or name");
    if (make_key(namespace, name, key) && map_get(&pods->known, key))
        free_set(pods, map_put(&pods->fresh, key, make_set(pods, metadata)));
    return 0;
}

/* A pod that the list lacks keeps what is known of it: it may be ending, or younger than the server's cache. */
static bool end_reading(void *self)
{
    KubePods *pods = self;
    const MapEntry *entry;
    bool changed = false, complete = true;

    for (size_t at = 0; (entry = map_next(&pods->fresh, &at));) {
        LabelSet *now = entry->value, *before = map_get(&pods->known, entry->key);

        if (!before) { /* forgotten meanwhile */
            free_set(pods, now);
            continue;
        }
        changed |= before == &pods->unknown || !same_set(before, now);
        free_set(pods, map_put(&pods->known, entry->key, now));
    }
    map_done(&pods->fresh);
    map_init(&pods->fresh);
    for (size_t at = 0; (entry = map_next(&pods->known, &at));)
        complete &= entry->value != &pods->unknown;
    if (changed && pods->changed)
        pods->changed(pods->self);
    return complete;
}

/* -- the header's functions ------------------------------------------------------------------------------------------
 */

/* Go's expressions have more escapes than extended ones, which would take the letter behind the backslash itself. */
static int compile_pattern(regex_t *ret, const char *text, Err *err)
{
    char why[128];
    int rc;

    for (const char *at = text; (at = strchr(at, '\\')); at += 1 + (at[1] != '\0'))
        if (isalnum((unsigned char)at[1]) && !strchr("wWsSbB", at[1]))
            return err_set(err, -EINVAL, "'%s': \\%c is not understood, write a class such as [0-9]", text, at[1]);
    rc = regcomp(ret, text, REG_EXTENDED | REG_NOSUB);
    if (rc == 0)
        return 0;
    regerror(rc, ret, why, sizeof why);
    return err_set(err, -EINVAL, "'%s' is no extended regular expression: %s", text, why);
}

int kube_pods_new(const char *const *patterns, size_t count, KubePods **ret, Err *err)
{
    KubePods *pods = xcalloc(1, sizeof *pods);

    pods->patterns = xcalloc(count + 1, sizeof *pods->patterns);
    map_init(&pods->known);
    map_init(&pods->fresh);
    for (; pods->pattern_count < count; pods->pattern_count++) {
        const int rc = compile_pattern(&pods->patterns[pods->pattern_count], patterns[pods->pattern_count], err);

        if (rc < 0) {
            kube_pods_free(pods);
            return rc;
        }
    }
    *ret = pods;
    return 0;
}

void kube_pods_free(KubePods *pods)
{
    if (!pods)
        return;
    clear_sets(pods, &pods->known);
    clear_sets(pods, &pods->fresh);
    for (size_t i = 0; i < pods->pattern_count; i++)
        regfree(&pods->patterns[i]);
    free(pods->patterns);
    free(pods);
}

KubeRead kube_pods_read(KubePods *pods, const char *path, void (*changed)(void *self), void *self)
{
    pods->changed = changed;
    pods->self = self;
    return (KubeRead){.what = "pods",
                      .path = path,
                      .list = true,
                      .metadata_alone = true,
                      .begin = begin_reading,
                      .add = add_pod,
                      .end = end_reading,
                      .self = pods};
}

bool kube_pods_want(KubePods *pods, const AllocationTable *table)
{
    Map before = pods->known;
    bool unknown = false;
    char key[KEY_ROOM];

    map_init(&pods->known);
    for (size_t i = 0; i < table->len && pods->known.len < KUBE_PODS_MAX; i++) {
        if (!make_key(table->at[i].namespace, table->at[i].pod, key) || map_get(&pods->known, key))
            continue;
        LabelSet *known = map_del(&before, key);
        unknown |= !known || known == &pods->unknown;
        map_put(&pods->known, key, known ? known : &pods->unknown);
    }
    clear_sets(pods, &before);
    return unknown;
}

void kube_pods_label(const KubePods *pods, Allocation *row)
{
    char key[KEY_ROOM];
    const LabelSet *set = make_key(row->namespace, row->pod, key) ? map_get(&pods->known, key) : NULL;

    if (!set || set == &pods->unknown)
        return;
    row->owner_kind = set->owner_kind;
    row->owner_name = set->owner_name;
    row->labels = set->at;
    row->label_count = set->len;
}
