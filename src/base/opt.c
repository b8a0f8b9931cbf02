/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: their names, notes, defaults, environment and values; and the text nearest to one. */
#include "base/opt.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/opt_row.h"
#include "base/vec.h"

/* -- rows ------------------------------------------------------------------------------------------------------------
 */

enum { NEAREST_LEN_MAX = 63 };

static const char *const metavars[] = {
    [OPT_BOOL] = NULL,           [OPT_INT] = "NUMBER", [OPT_UINT] = "NUMBER", [OPT_DOUBLE] = "NUMBER",
    [OPT_DURATION] = "DURATION", [OPT_SIZE] = "SIZE",  [OPT_STRING] = "TEXT", [OPT_ENUM] = "NAME",
    [OPT_LIST] = "LIST",         [OPT_NODE] = NULL,
};

bool opt_row_has_flag(const OptSpec *spec)
{
    return !(spec->flags & OPT_CONFIG_ONLY) && spec->type != OPT_NODE;
}

bool opt_row_has_key(const OptSpec *spec)
{
    return !(spec->flags & OPT_CLI_ONLY);
}

bool opt_row_is_shown(const OptSpec *spec)
{
    return !(spec->flags & OPT_HIDDEN);
}

void *opt_row_field(const OptSet *set, const OptSpec *spec)
{
    return (char *)set->into + spec->off;
}

static bool has_range(const OptSpec *spec)
{
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

    if (!opt_row_has_flag(spec))
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

static int set_default(const OptSet *set, const OptSpec *spec, Err *err)
{
    if (spec->def)
        return opt_row_set(set, spec, spec->def, false, err);
    memset(opt_row_field(set, spec), 0, field_sizes[spec->type]);
    return 0;
}

int opt_defaults(const OptSet *set, Err *err)
{
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

        if (value && *value && opt_row_set(set, spec, value, false, err) < 0)
            return err_add(err, "environment variable %s", spec->env);
    }
    return 0;
}

static size_t least_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Edits (insert, drop, replace one byte) from `a` to `b`; too large where a text is too long to be meant. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NEAREST_LEN_MAX + 1], a_len = strlen(a), b_len = strlen(b);

    if (a_len > NEAREST_LEN_MAX || b_len > NEAREST_LEN_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];

            row[j] = least_of(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[b_len];
}

const char *opt_nearest(const char *text, const char *const *names, size_t count)
{
    size_t best = strlen(text) / 3 + 1; /* one edit in a short word, one more for every three letters */
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

static void add_range(const OptSpec *spec, Str *out)
{
    if (!has_max(spec))
        str_add(out, "at least ");
    add_bound(spec, spec->min, out);
    if (!has_max(spec))
        return;
    str_add(out, " to ");
    add_bound(spec, spec->max, out);
}

static void add_note(Str *out, size_t start, const char *text)
{
    if (out->len > start)
        str_add(out, "; ");
    str_add(out, text);
}

void opt_row_add_notes(const OptSpec *spec, bool key, Str *out)
{
    size_t start = out->len;

    if (spec->type == OPT_ENUM) {
        add_note(out, start, "one of ");
        for (size_t i = 0; spec->names[i]; i++)
            str_addf(out, "%s%s", i ? ", " : "", spec->names[i]);
    }
    if (has_range(spec)) {
        add_note(out, start, "");
        add_range(spec, out);
    }
    if (spec->def && *spec->def && !(spec->type == OPT_BOOL && !strcmp(spec->def, "false"))) {
        add_note(out, start, "default ");
        str_add(out, spec->def);
    }
    if (spec->env) {
        add_note(out, start, "env ");
        str_add(out, spec->env);
    }
    if (key && opt_row_has_key(spec)) {
        add_note(out, start, "config ");
        str_add(out, spec->key);
    }
}

void opt_row_add_flags(const OptSpec *spec, Str *out)
{
    char room[OPT_FLAG_MAX];
    const char *metavar = opt_metavar(spec);
    bool negated = spec->type == OPT_BOOL && spec->def && !strcmp(spec->def, "true");

    if (spec->short_flag)
        str_addf(out, "-%c, ", spec->short_flag);
    str_addf(out, "--%s%s", negated ? "[no-]" : "", opt_flag(spec, room));
    if (metavar)
        str_addf(out, " %s", metavar);
}

void opt_row_add_name(const OptPage *page, const char *between, Str *out)
{
    str_add(out, page->program);
    if (page->verb)
        str_addf(out, "%s%s", between, page->verb);
}

const char *opt_row_usage(const OptPage *page)
{
    if (page->usage)
        return page->usage;
    return page->count ? "[OPTION...]" : "";
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

    if (!has_range(spec) || (value >= spec->min && (value <= spec->max || !has_max(spec))))
        return 0;
    str_init_room(&range, room, sizeof(room));
    add_range(spec, &range);
    return err_set(err, -ERANGE, "'%.60s' is out of range, %s is allowed", text, range.text);
}

static int set_bool(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1", "f", "t"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!strcasecmp(words[i], text)) {
            *(bool *)opt_row_field(set, spec) = i % 2;
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
    *(int64_t *)opt_row_field(set, spec) = value;
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
    *(uint64_t *)opt_row_field(set, spec) = value;
    return 0;
}

static int set_double(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    double value = 0;

    TRY(number_parse_double(text, -INFINITY, INFINITY, &value, err));
    TRY(check_range(spec, value, text, err));
    *(double *)opt_row_field(set, spec) = value;
    return 0;
}

static int set_enum(const OptSet *set, const OptSpec *spec, const char *text, Err *err)
{
    char room[256];
    Str all;

    str_init_room(&all, room, sizeof(room));
    for (int i = 0; spec->names[i]; i++) {
        if (!strcmp(spec->names[i], text)) {
            *(int *)opt_row_field(set, spec) = i;
            return 0;
        }
        str_addf(&all, "%s%s", i ? ", " : "", spec->names[i]);
    }
    return err_set(err, -EINVAL, "'%.60s' is none of %s", text, all.text);
}

void opt_row_set_items(const OptSet *set, const OptSpec *spec, const char *const *items, size_t count, bool append)
{
    OptList *list = opt_row_field(set, spec);
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
    CLEANUP(opt_texts_done) OptTexts items = {0};

    if (spec->flags & OPT_WHOLE) {
        opt_row_set_items(set, spec, &text, 1, append);
        return;
    }
    while (*text) {
        size_t len = strcspn(text, ",");

        if (len)
            vec_push(&items, arena_strndup(set->arena, text, len));
        text += len + (text[len] == ',');
    }
    opt_row_set_items(set, spec, items.at, items.len, append);
}

int opt_row_set(const OptSet *set, const OptSpec *spec, const char *text, bool append, Err *err)
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
        *(const char **)opt_row_field(set, spec) = arena_strdup(set->arena, text);
        return 0;
    case OPT_LIST:
        set_list(set, spec, text, append);
        return 0;
    case OPT_NODE:
        break;
    }
    return err_set(err, -EINVAL, "only a config file can hold this");
}
