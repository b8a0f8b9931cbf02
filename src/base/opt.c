/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: their names, their values from text, and what fills them: defaults, environment, command line (GNU style) and
 * a YAML mapping. */
#include "base/opt.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "base/vec.h"

/* -- rows ------------------------------------------------------------------------------------------------------------
 */

enum { NEAREST_LEN_MAX = 63 };

typedef VEC(const char *) Texts;

static const char *const metavars[] = {
    [OPT_BOOL] = NULL,           [OPT_INT] = "NUMBER", [OPT_UINT] = "NUMBER", [OPT_DOUBLE] = "NUMBER",
    [OPT_DURATION] = "DURATION", [OPT_SIZE] = "SIZE",  [OPT_STRING] = "TEXT", [OPT_ENUM] = "NAME",
    [OPT_LIST] = "LIST",         [OPT_NODE] = NULL,
};

static bool has_flag(const OptSpec *spec)
{
    return !(spec->flags & OPT_CONFIG_ONLY) && spec->type != OPT_NODE;
}

static bool has_key(const OptSpec *spec)
{
    return !(spec->flags & OPT_CLI_ONLY);
}

static void *field_of(const OptSet *set, const OptSpec *spec)
{
    return (char *)set->into + spec->off;
}

bool opt_has_range(const OptSpec *spec)
{
    if (spec->type == OPT_STRING)
        return false;
    return spec->min < 0 || spec->min > 0 || spec->max < 0 || spec->max > 0;
}

static bool has_max(const OptSpec *spec)
{
    return spec->max >= spec->min;
}

const char *opt_metavar(const OptSpec *spec)
{
    if (spec->type == OPT_BOOL)
        return NULL;
    return spec->metavar ? spec->metavar : metavars[spec->type];
}

const char *opt_flag(const OptSpec *spec, char out[OPT_FLAG_MAX])
{
    size_t len = 0;

    if (!has_flag(spec))
        return NULL;
    if (spec->flag)
        return spec->flag;
    for (const char *at = spec->key; *at && len < OPT_FLAG_MAX - 1; at++)
        out[len++] = *at == '.' || *at == '_' ? '-' : *at;
    out[len] = '\0';
    return out;
}

const OptSpec *opt_find(const OptSpec *opts, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(opts[i].key, key))
            return &opts[i];
    return NULL;
}

static const size_t field_sizes[] = {
    [OPT_BOOL] = sizeof(bool),       [OPT_INT] = sizeof(int64_t),   [OPT_UINT] = sizeof(uint64_t),
    [OPT_DOUBLE] = sizeof(double),   [OPT_SIZE] = sizeof(uint64_t), [OPT_DURATION] = sizeof(uint64_t),
    [OPT_STRING] = sizeof(char *),   [OPT_ENUM] = sizeof(int),      [OPT_LIST] = sizeof(OptList),
    [OPT_NODE] = sizeof(YamlNode *),
};

static bool same_list(const OptList *a, const OptList *b)
{
    bool same = a->len == b->len;

    for (size_t i = 0; same && i < a->len; i++)
        same = !strcmp(a->items[i], b->items[i]);
    return same;
}

bool opt_same(const OptSpec *spec, const void *a, const void *b)
{
    const void *left = (const char *)a + spec->off, *right = (const char *)b + spec->off;
    const char *left_text, *right_text;

    if (spec->type == OPT_NODE)
        return false;
    if (spec->type == OPT_LIST)
        return same_list(left, right);
    if (spec->type != OPT_STRING)
        return !memcmp(left, right, field_sizes[spec->type]);
    left_text = *(const char *const *)left;
    right_text = *(const char *const *)right;
    return !strcmp(left_text ? left_text : "", right_text ? right_text : "");
}

static size_t least_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Edits (insert, drop, replace one byte, swap two neighbours) from `a` to `b`; too large where a text is too long to be
 * meant. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_LEN_MAX + 1], a_len = strlen(a), b_len = strlen(b);

    if (a_len > NEAREST_LEN_MAX || b_len > NEAREST_LEN_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        const size_t *above = rows[(i - 1) % 3], *swapped = rows[(i + 1) % 3]; /* of i - 1 and i - 2 */
        size_t *row = rows[i % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least_of(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && swapped[j - 2] + 1 < row[j])
                row[j] = swapped[j - 2] + 1;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *opt_nearest(const char *text, const char *const *names, size_t count)
{
    size_t best = (strlen(text) + 3) / 4; /* an edit for every four letters or part of them */
    const char *nearest = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t edits = edit_distance(text, names[i]);

        if (edits < best || (edits == best && !nearest && edits < strlen(names[i]))) {
            best = edits;
            nearest = names[i];
        }
    }
    return nearest;
}

static void add_bound(const OptSpec *spec, double bound, Str *out)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    char text[DURATION_TEXT_MAX];
    size_t unit = 0;

    if (spec->type == OPT_DURATION) {
        str_addn(out, text, duration_format(text, (uint64_t)bound));
        return;
    }
    if (spec->type == OPT_SIZE)
        for (; unit < 4 && bound >= 1024 && (uint64_t)bound % 1024 == 0; unit++)
            bound /= 1024;
    str_addn(out, text, number_write_double(text, bound));
    str_add(out, units[unit]);
}

void opt_add_range(const OptSpec *spec, Str *out)
{
    if (!has_max(spec))
        str_add(out, "at least ");
    add_bound(spec, spec->min, out);
    if (!has_max(spec))
        return;
    str_add(out, " to ");
    add_bound(spec, spec->max, out);
}

/* -- values from text, by type, in the range of the row --------------------------------------------------------------
 */

enum { RANGE_TEXT_MAX = 128 };

typedef struct SizeUnit {
    const char *name;
    double bytes;
} SizeUnit;

static const SizeUnit size_units[] = {
    {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"M", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},
    {"GiB", 0x1p30}, {"T", 0x1p40}, {"TiB", 0x1p40}, {"kB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12},
};

int opt_parse_size(const char *text, uint64_t *ret_bytes, Err *err)
{
    size_t digits = strspn(text, "0123456789."), unit = 0;
    double number = 0, bytes;

    while (unit < ARRAY_LEN(size_units) && strcmp(size_units[unit].name, text + digits) != 0)
        unit++;
    if (unit == ARRAY_LEN(size_units) || number_parsen_double(text, digits, 0, INFINITY, &number, NULL) < 0)
        return err_set(err, -EINVAL, "'%.60s' is not a size such as 64MiB, 1.5GiB or 4096", text);
    /* Whole bytes keep all 64 bits; with a unit 53 are enough. */
    if (size_units[unit].bytes <= 1 && !memchr(text, '.', digits)) {
        if (number_parsen_u64(text, digits, 0, UINT64_MAX, ret_bytes, NULL) == 0)
            return 0;
        return err_set(err, -ERANGE, "'%.60s' is larger than 16 EiB", text);
    }
    bytes = number * size_units[unit].bytes;
    if (bytes >= 0x1p64)
        return err_set(err, -ERANGE, "'%.60s' is larger than 16 EiB", text);
    if (bytes != floor(bytes))
        return err_set(err, -EINVAL, "'%.60s' is no whole number of bytes", text);
    *ret_bytes = (uint64_t)bytes;
    return 0;
}

static int check_range(const OptSpec *spec, double value, const char *text, Err *err)
{
    char room[RANGE_TEXT_MAX];
    Str range;

    if (!opt_has_range(spec) || (value >= spec->min && (value <= spec->max || !has_max(spec))))
        return 0;
    str_init_room(&range, room, sizeof(room));
    opt_add_range(spec, &range);
    return err_set(err, -ERANGE, "'%.60s' is out of range, %s is allowed", text, range.text);
}

static int set_bool(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1", "f", "t"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!strcasecmp(words[i], text)) {
            *(bool *)field_of(set, spec) = i % 2;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "'%.60s' is neither true nor false", text);
}

static int set_int(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    int64_t value = 0;

    TRY(number_parse_i64(text, INT64_MIN, INT64_MAX, &value, err));
    TRY(check_range(spec, (double)value, text, err));
    *(int64_t *)field_of(set, spec) = value;
    return 0;
}

/* The three types kept as uint64_t. */
static int set_uint(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    uint64_t value = 0;

    if (spec->type == OPT_DURATION)
        TRY(duration_parse(text, &value, err));
    else if (spec->type == OPT_SIZE)
        TRY(opt_parse_size(text, &value, err));
    else
        TRY(number_parse_u64(text, 0, UINT64_MAX, &value, err));
    TRY(check_range(spec, (double)value, text, err));
    *(uint64_t *)field_of(set, spec) = value;
    return 0;
}

static int set_double(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    double value = 0;

    TRY(number_parse_double(text, -INFINITY, INFINITY, &value, err));
    TRY(check_range(spec, value, text, err));
    *(double *)field_of(set, spec) = value;
    return 0;
}

static int set_enum(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    char room[256];
    Str all;

    str_init_room(&all, room, sizeof(room));
    for (int i = 0; spec->names[i]; i++) {
        if (!strcmp(spec->names[i], text)) {
            *(int *)field_of(set, spec) = i;
            return 0;
        }
        str_addf(&all, "%s%s", i ? ", " : "", spec->names[i]);
    }
    return err_set(err, -EINVAL, "'%.60s' is none of %s", text, all.text);
}

static int set_text(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    const double len = (double)strlen(text);

    if (len < spec->min)
        return err_set(err, -EINVAL, "it must not be empty");
    if (spec->max > 0 && len > spec->max)
        return err_set(err, -ENAMETOOLONG, "'%.60s...' is longer than %g bytes", text, spec->max);
    *(const char **)field_of(set, spec) = arena_strdup(set->arena, text);
    return 0;
}

static void set_items(const OptSet *set, const OptSpec *spec, const char *const *items, size_t count, bool append)
{
    OptList *list = field_of(set, spec);
    size_t kept = append ? list->len : 0;
    const char **all = arena_calloc(set->arena, kept + count, sizeof(*all));

    for (size_t i = 0; i < kept; i++)
        all[i] = list->items[i];
    for (size_t i = 0; i < count; i++)
        all[kept + i] = arena_strdup(set->arena, items[i]);
    *list = (OptList){.items = all, .len = kept + count};
}

static void set_list(const OptSet *set, const OptSpec *spec, const char *text, bool append)
{
    CLEANUP_VEC Texts items = {0};

    if (spec->flags & OPT_WHOLE) {
        set_items(set, spec, &text, 1, append);
        return;
    }
    while (*text) {
        size_t len = strcspn(text, ",");

        if (len)
            vec_push(&items, arena_strndup(set->arena, text, len));
        text += len + (text[len] == ',');
    }
    set_items(set, spec, items.at, items.len, append);
}

static int set_field(const OptSet *set, const OptSpec *spec, const char *text, bool append, Err *err)
{
    switch (spec->type) {
    case OPT_BOOL:
        return set_bool(set, spec, text, err);
    case OPT_INT:
        return set_int(set, spec, text, err);
    case OPT_UINT:
    case OPT_DURATION:
    case OPT_SIZE:
        return set_uint(set, spec, text, err);
    case OPT_DOUBLE:
        return set_double(set, spec, text, err);
    case OPT_ENUM:
        return set_enum(set, spec, text, err);
    case OPT_STRING:
        return set_text(set, spec, text, err);
    case OPT_LIST:
        set_list(set, spec, text, append);
        return 0;
    case OPT_NODE:
        break;
    }
    return err_set(err, -EINVAL, "only a config file can hold this");
}

/* -- places ----------------------------------------------------------------------------------------------------------
 */

static int add_place(const OptPlace *place, const char *key, size_t item, Err *err)
{
    const YamlNode *node = place->node;
    char room[OPT_FLAG_MAX];

    if (node && node->kind == YAML_SEQ && item < node->len)
        node = node->items[item];
    if (node)
        return err_add(err, "%s:%u:%u: '%s'", node->file, node->line, node->column, key);
    return place->env ? err_add(err, "environment variable %s", place->row->env)
                      : err_add(err, "option --%s", opt_flag(place->row, room));
}

int opt_add_place(const OptSet *set, const char *key, size_t item, Err *err)
{
    const OptPlace *place = &set->places[opt_find(set->opts, set->count, key) - set->opts];

    if (place->row)
        return add_place(place, key, item, err);
    return err ? err->code : -EIO;
}

int opt_fail(const OptSet *set, const char *key, size_t item, Err *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)err_setv(err, -EINVAL, fmt, args);
    va_end(args);
    (void)opt_add_place(set, key, item, err);
    return -EINVAL;
}

/* Of every row that has the field: aliases share it. */
static void keep_place(const OptSet *set, const OptPlace *place)
{
    for (size_t i = 0; set->places && i < set->count; i++)
        if (set->opts[i].off == place->row->off)
            set->places[i] = *place;
}

static int set_given(const OptSet *set, const OptPlace *place, const char *text, bool append, Err *err)
{
    if (set_field(set, place->row, text, append, err) < 0)
        return add_place(place, place->row->key, 0, err);
    keep_place(set, place);
    return 0;
}

/* -- defaults and the environment ----------------------------------------------------------------------------------
 */

static int set_default(const OptSet *set, const OptSpec *spec, Err *err)
{
    if (spec->def)
        return set_field(set, spec, spec->def, false, err);
    memset(field_of(set, spec), 0, field_sizes[spec->type]);
    return 0;
}

int opt_defaults(const OptSet *set, Err *err)
{
    if (set->places)
        memset(set->places, 0, set->count * sizeof(*set->places));
    for (size_t i = 0; i < set->count; i++)
        if (!(set->opts[i].flags & OPT_ALIAS) && set_default(set, &set->opts[i], err) < 0)
            return err_add(err, "default of '%s'", set->opts[i].key);
    return 0;
}

static const char *find_env(char *const *envp, const char *name)
{
    size_t len = strlen(name);

    for (; *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

int opt_env(const OptSet *set, char *const *envp, Err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        const OptSpec *spec = &set->opts[i];
        const char *value = spec->env ? find_env(envp, spec->env) : NULL;

        if (value && *value)
            TRY(set_given(set, &(OptPlace){.row = spec, .env = true}, value, false, err));
    }
    return 0;
}

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

    TRY(set_given(walk->set, &(OptPlace){.row = spec}, text, *seen, walk->err));
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

bool opt_has_folded(const OptSpec *opts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (opts[i].flags & OPT_FOLDED)
            return true;
    return false;
}

static const OptSpec *find_short(const OptSet *set, char name)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->opts[i].short_flag == name && has_flag(&set->opts[i]))
            return &set->opts[i];
    return NULL;
}

static int fail_unknown(const Walk *walk, const char *name, size_t len)
{
    CLEANUP_VEC Texts flags = {0};
    const char *wanted = arena_strndup(walk->set->arena, name, len), *nearest;
    char room[OPT_FLAG_MAX];

    for (size_t i = 0; i < walk->set->count; i++) {
        const char *flag = opt_flag(&walk->set->opts[i], room);

        if (flag && !(walk->set->opts[i].flags & OPT_HIDDEN))
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
    if (!spec && !value && !strcmp(arg, "help-all") && opt_has_folded(walk->set->opts, walk->set->count))
        return OPT_HELP_ALL;
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
        if (walk->set->command && ret_rest->len > 0)
            break;
    }
    while (walk->at < walk->argc)
        vec_push(ret_rest, walk->argv[walk->at++]);
    return 0;
}

int opt_args(const OptSet *set, int argc, char *const *argv, OptArgs *ret_args, Err *err)
{
    CLEANUP_VEC Texts rest = {0};
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
        if (has_key(&set->opts[i]) && !strncmp(set->opts[i].key, key, len) && set->opts[i].key[len] == '.')
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

        if (!has_key(spec) || (spec->flags & OPT_HIDDEN) || strncmp(spec->key, prefix, prefix_len) != 0)
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
    CLEANUP_VEC Texts names = {0};
    CLEANUP(str_done) Str text = str_limited(ERR_TEXT_MAX);
    const char *nearest;

    collect_keys(set, prefix, &names);
    nearest = opt_nearest(key->text, names.at, names.len);
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

static int set_list_from_node(const OptSet *set, const OptSpec *spec, const YamlNode *value, Err *err)
{
    CLEANUP_VEC Texts items = {0};

    for (size_t i = 0; i < value->len; i++) {
        TRY(yaml_want(value->items[i], YAML_SCALAR, spec->key, err));
        vec_push(&items, value->items[i]->text);
    }
    set_items(set, spec, items.at, items.len, false);
    return 0;
}

static int set_from_node(const OptSet *set, const OptSpec *spec, const YamlNode *value, Err *err)
{
    const OptPlace place = {.row = spec, .node = value};

    if (spec->type == OPT_NODE) {
        *(const YamlNode **)field_of(set, spec) = value;
        keep_place(set, &place);
        return 0;
    }
    if (yaml_is_null(value))
        return yaml_fail(value, err, "'%s' has no value", spec->key);
    if (spec->type == OPT_LIST && value->kind == YAML_SEQ) {
        TRY(set_list_from_node(set, spec, value, err));
        keep_place(set, &place);
        return 0;
    }
    TRY(yaml_want(value, YAML_SCALAR, spec->key, err));
    return set_given(set, &place, value->text, false, err);
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
        if (spec && has_key(spec)) {
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
