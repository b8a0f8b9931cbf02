/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, GNU style. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opt_row.h"
#include "base/cleanup.h"
#include "base/vec.h"

typedef struct Walk {
    const OptSet *set;
    char *const *argv;
    int argc;
    int at;     /* next argument */
    bool *seen; /* per row: a list that was given before is appended to */
    Err *err;
} Walk;

typedef VEC(const char *) Texts;

static void texts_done(Texts *texts)
{
    vec_done(texts);
}

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
    CLEANUP(texts_done) Texts flags = {0};
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

static int walk_args(Walk *walk, Texts *ret_rest)
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
    CLEANUP(texts_done) Texts rest = {0};
    CLEANUP_FREE bool *seen = xcalloc(set->count, sizeof(*seen));
    Walk walk = {.set = set, .argv = argv, .argc = argc, .at = 1, .seen = seen, .err = err};
    int rc = walk_args(&walk, &rest);

    if (rc)
        return rc;
    *ret_args = (OptArgs){.items = arena_memdup(set->arena, rest.at, rest.len * sizeof(*rest.at)), .len = rest.len};
    return 0;
}
