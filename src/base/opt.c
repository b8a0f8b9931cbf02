/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: their names, notes, defaults and environment; and which of some texts was meant. */
#include "base/opt.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"
#include "base/opt_row.h"

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

bool opt_row_has_range(const OptSpec *spec)
{
    return spec->min < 0 || spec->min > 0 || spec->max < 0 || spec->max > 0;
}

bool opt_row_has_max(const OptSpec *spec)
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

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Edits (insert, drop, replace one byte) from `a` to `b`; too large where a text is too long to be meant. */
static size_t distance(const char *a, const char *b)
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

            row[j] = smallest(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
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
        size_t edits = distance(text, names[i]);

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

void opt_row_add_range(const OptSpec *spec, Str *out)
{
    if (!opt_row_has_max(spec))
        str_add(out, "at least ");
    add_bound(spec, spec->min, out);
    if (!opt_row_has_max(spec))
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
    if (opt_row_has_range(spec)) {
        add_note(out, start, "");
        opt_row_add_range(spec, out);
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
