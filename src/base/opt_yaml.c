/* SPDX-License-Identifier: Apache-2.0 */
/* Options from a mapping of the config file. The dots of a key are the levels of the file. */
#include <errno.h>
#include <string.h>

#include "base/opt_row.h"
#include "base/cleanup.h"
#include "base/vec.h"

enum { KEY_MAX = 128 };

typedef VEC(const char *) Texts;

static void texts_done(Texts *texts)
{
    vec_done(texts);
}

/* True where `key` is a level with keys of its own below it. */
static bool is_section(const OptSet *set, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < set->count; i++)
        if (opt_row_has_key(&set->opts[i]) && !strncmp(set->opts[i].key, key, len) && set->opts[i].key[len] == '.')
            return true;
    return false;
}

/* The keys that may stand in the section whose keys begin with `prefix` ("" or "sample."). */
static void collect_keys(const OptSet *set, const char *prefix, Texts *ret)
{
    size_t prefix_len = strlen(prefix);

    for (size_t i = 0; i < set->count; i++) {
        const OptSpec *spec = &set->opts[i];
        const char *name;
        size_t known = 0;

        if (!opt_row_has_key(spec) || !opt_row_is_shown(spec) || strncmp(spec->key, prefix, prefix_len) != 0)
            continue;
        name = arena_strndup(set->arena, spec->key + prefix_len, strcspn(spec->key + prefix_len, "."));
        while (known < ret->len && strcmp(ret->at[known], name) != 0)
            known++;
        if (known == ret->len)
            vec_push(ret, name);
    }
}

static int fail_unknown(const OptSet *set, const YamlNode *key, const char *prefix, Err *err)
{
    CLEANUP(texts_done) Texts names = {0};
    CLEANUP(str_done) Str text;
    const char *nearest;

    collect_keys(set, prefix, &names);
    nearest = opt_nearest(key->text, names.at, names.len);
    str_init(&text, ERR_TEXT_MAX);
    str_addf(&text, "unknown key '%.60s'", key->text);
    if (*prefix)
        str_addf(&text, " in '%.*s'", (int)strlen(prefix) - 1, prefix);
    if (nearest)
        str_addf(&text, ", did you mean '%s'?", nearest);
    str_add(&text, nearest ? " Allowed: " : "; allowed: ");
    for (size_t i = 0; i < names.len; i++)
        str_addf(&text, "%s%s", i ? ", " : "", names.at[i]);
    return yaml_fail(key, err, "%s", text.text);
}

static int set_list(const OptSet *set, const OptSpec *spec, const YamlNode *value, Err *err)
{
    CLEANUP(texts_done) Texts items = {0};

    for (size_t i = 0; i < value->len; i++) {
        TRY(yaml_want(value->items[i], YAML_SCALAR, spec->key, err));
        vec_push(&items, value->items[i]->text);
    }
    opt_row_set_items(set, spec, items.at, items.len, false);
    return 0;
}

static int set_value(const OptSet *set, const OptSpec *spec, const YamlNode *value, Err *err)
{
    Err why = {0};

    if (spec->type == OPT_NODE) {
        *(const YamlNode **)opt_row_field(set, spec) = value;
        return 0;
    }
    if (yaml_is_null(value))
        return yaml_fail(value, err, "'%s' has no value", spec->key);
    if (spec->type == OPT_LIST && value->kind == YAML_SEQ)
        return set_list(set, spec, value, err);
    TRY(yaml_want(value, YAML_SCALAR, spec->key, err));
    if (opt_row_set(set, spec, value->text, false, &why) < 0)
        return yaml_fail(value, err, "'%s': %s", spec->key, why.text);
    return 0;
}

/* `prefix` is "" at the top and "sample." in section sample. Recursion ends where the table's keys have no more dots.
 */
static int set_section(const OptSet *set, const YamlNode *map, const char *prefix, Err *err)
{
    for (size_t i = 0; i < map->len; i++) {
        const YamlPair *pair = &map->pairs[i];
        char key[KEY_MAX], below[KEY_MAX];
        const OptSpec *spec;

        if (strlen(prefix) + pair->key->len + 2 > sizeof(key) || strchr(pair->key->text, '.'))
            return fail_unknown(set, pair->key, prefix, err);
        stpcpy(stpcpy(key, prefix), pair->key->text);
        spec = opt_find(set->opts, set->count, key);
        if (spec && opt_row_has_key(spec)) {
            TRY(set_value(set, spec, pair->value, err));
            continue;
        }
        if (!is_section(set, key))
            return fail_unknown(set, pair->key, prefix, err);
        if (yaml_is_null(pair->value))
            continue;
        TRY(yaml_want(pair->value, YAML_MAP, key, err));
        stpcpy(stpcpy(below, key), ".");
        TRY(set_section(set, pair->value, below, err));
    }
    return 0;
}

int opt_yaml(const OptSet *set, const YamlNode *map, Err *err)
{
    if (yaml_is_null(map))
        return 0;
    if (map->kind != YAML_MAP)
        return yaml_fail(map, err, "a mapping of options is expected here, not %s", yaml_kind_name(map->kind));
    return set_section(set, map, "", err);
}
