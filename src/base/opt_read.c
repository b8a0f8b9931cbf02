/* SPDX-License-Identifier: Apache-2.0 */
/* Options from the command line, GNU style, and from a YAML mapping. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/opt_row.h"
#include "base/vec.h"

/* -- the command line ------------------------------------------------------------------------------------------------
 */

typedef struct Walk {
    const OptSet *set;
    char *const *argv;
    int argc;
    int at;     /* next argument */
    bool *seen; /* per row: a list that was given before is appended to */
    Err *err;
} Walk;

static int set_value(Walk *walk, const OptSpec *spec, const char *text)
{
    bool *seen = &walk->seen[spec - walk->set->opts];
    char room[OPT_FLAG_MAX];

    if (opt_row_set(walk->set, spec, text, *seen, walk->err) < 0)
        return err_add(walk->err, "option --%s", opt_flag(spec, room));
    *seen = true;
    return 0;
}

/* The value in the next argument, which there must be. */
static int set_from_next(Walk *walk, const OptSpec *spec)
{
    char room[OPT_FLAG_MAX];

    if (walk->at == walk->argc)
        return err_set(walk->err, -EINVAL, "option --%s needs a value (%s)", opt_flag(spec, room), opt_metavar(spec));
    return set_value(walk, spec, walk->argv[walk->at++]);
}

static const OptSpec *find_long(const OptSet *set, const char *name, size_t len)
{
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < set->count; i++) {
        const char *flag = opt_flag(&set->opts[i], room);

        if (flag && strlen(flag) == len && !memcmp(flag, name, len))
            return &set->opts[i];
    }
    return NULL;
}

static const OptSpec *find_short(const OptSet *set, char name)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->opts[i].short_flag == name && opt_row_has_flag(&set->opts[i]))
            return &set->opts[i];
    return NULL;
}

static int fail_unknown(const Walk *walk, const char *name, size_t len)
{
    CLEANUP(opt_texts_done) OptTexts flags = {0};
    const char *wanted = arena_strndup(walk->set->arena, name, len), *nearest;
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < walk->set->count; i++) {
        const char *flag = opt_flag(&walk->set->opts[i], room);

        if (flag && opt_row_is_shown(&walk->set->opts[i]))
            vec_push(&flags, arena_strdup(walk->set->arena, flag));
    }
    vec_push(&flags, "help");
    nearest = opt_nearest(wanted, flags.at, flags.len);
    if (nearest)
        return err_set(walk->err, -EINVAL, "unknown option --%.60s, did you mean --%s?", wanted, nearest);
    return err_set(walk->err, -EINVAL, "unknown option --%.60s", wanted);
}

/* "--no-key": the row of a bool, or NULL. */
static const OptSpec *find_negated(const OptSet *set, const char *name, size_t len)
{
    const OptSpec *spec = len > 3 && !memcmp(name, "no-", 3) ? find_long(set, name + 3, len - 3) : NULL;

    return spec && spec->type == OPT_BOOL ? spec : NULL;
}

static int take_long(Walk *walk, const char *arg)
{
    size_t len = strcspn(arg, "=");
    const char *value = arg[len] ? arg + len + 1 : NULL;
    const OptSpec *spec = find_long(walk->set, arg, len);
    const OptSpec *negated = spec ? NULL : find_negated(walk->set, arg, len);

    if (negated && value)
        return err_set(walk->err, -EINVAL, "option --%.*s takes no value", (int)len, arg);
    if (negated)
        return set_value(walk, negated, "false");
    if (!spec && !value && !strcmp(arg, "help"))
        return OPT_HELP;
    if (!spec)
        return fail_unknown(walk, arg, len);
    if (value)
        return set_value(walk, spec, value);
    return spec->type == OPT_BOOL ? set_value(walk, spec, "true") : set_from_next(walk, spec);
}

/* "-ab", "-n5", "-n 5"; `arg` is what follows the dash. */
static int take_short(Walk *walk, const char *arg)
{
    for (; *arg; arg++) {
        const OptSpec *spec = find_short(walk->set, *arg);

        if (!spec && *arg == 'h')
            return OPT_HELP;
        if (!spec)
            return err_set(walk->err, -EINVAL, "unknown option -%c", *arg);
        if (spec->type == OPT_BOOL) {
            TRY(set_value(walk, spec, "true"));
            continue;
        }
        return arg[1] ? set_value(walk, spec, arg + 1) : set_from_next(walk, spec);
    }
    return 0;
}

static int walk_args(Walk *walk, OptTexts *ret_rest)
{
    while (walk->at < walk->argc) {
        const char *arg = walk->argv[walk->at++];
        int rc = 0;

        if (!strcmp(arg, "--"))
            break;
        if (arg[0] == '-' && arg[1] == '-')
            rc = take_long(walk, arg + 2);
        else if (arg[0] == '-' && arg[1])
            rc = take_short(walk, arg + 1);
        else
            vec_push(ret_rest, arg);
        if (rc)
            return rc;
    }
    while (walk->at < walk->argc)
        vec_push(ret_rest, walk->argv[walk->at++]);
    return 0;
}

int opt_args(const OptSet *set, int argc, char *const *argv, OptArgs *ret_args, Err *err)
{
    CLEANUP(opt_texts_done) OptTexts rest = {0};
    CLEANUP_FREE bool *seen = xcalloc(set->count, sizeof(*seen));
    Walk walk = {.set = set, .argv = argv, .argc = argc, .at = 1, .seen = seen, .err = err};
    int rc = walk_args(&walk, &rest);

    if (rc)
        return rc;
    *ret_args = (OptArgs){.items = arena_memdup(set->arena, rest.at, rest.len * sizeof(*rest.at)), .len = rest.len};
    return 0;
}

/* -- YAML ------------------------------------------------------------------------------------------------------------
 */

enum { KEY_MAX = 128 };

/* True if `key` is a level with keys of its own below it. */
static bool is_section(const OptSet *set, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < set->count; i++)
        if (opt_row_has_key(&set->opts[i]) && !strncmp(set->opts[i].key, key, len) && set->opts[i].key[len] == '.')
            return true;
    return false;
}

/* The keys that may stand in the section whose keys begin with `prefix` ("" or "sample."). */
static void collect_keys(const OptSet *set, const char *prefix, OptTexts *ret)
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

static int fail_unknown_key(const OptSet *set, const YamlNode *key, const char *prefix, Err *err)
{
    CLEANUP(opt_texts_done) OptTexts names = {0};
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
    CLEANUP(opt_texts_done) OptTexts items = {0};

    for (size_t i = 0; i < value->len; i++) {
        TRY(yaml_want(value->items[i], YAML_SCALAR, spec->key, err));
        vec_push(&items, value->items[i]->text);
    }
    opt_row_set_items(set, spec, items.at, items.len, false);
    return 0;
}

static int set_from_node(const OptSet *set, const OptSpec *spec, const YamlNode *value, Err *err)
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
            return fail_unknown_key(set, pair->key, prefix, err);
        stpcpy(stpcpy(key, prefix), pair->key->text);
        spec = opt_find(set->opts, set->count, key);
        if (spec && opt_row_has_key(spec)) {
            TRY(set_from_node(set, spec, pair->value, err));
            continue;
        }
        if (!is_section(set, key))
            return fail_unknown_key(set, pair->key, prefix, err);
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
