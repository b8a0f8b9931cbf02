/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of keys and words by rows. Everything is checked here once: shape, range, enumeration; the callers only check
 * what needs their own knowledge (a GPU that is not there).
 */
#include "sim/scenario/field.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/opt.h"

/* --- texts of single values -------------------------------------------------------------------------------------- */

/* Copies text without a leading '+' and a trailing unit; 0 if the rest is empty or too long. */
static size_t bare_number(const char *text, const char *unit, char *out, size_t size)
{
    if (text[0] == '+' && text[1] != '-')
        text++;
    size_t len = strlen(text), tail = unit ? strlen(unit) : 0;
    if (tail && len > tail && strcmp(text + len - tail, unit) == 0)
        len -= tail;
    while (len && text[len - 1] == ' ')
        len--;
    if (len == 0 || len >= size)
        return 0;
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

int value_whole(const char *text, const char *unit, int hex, int64_t *ret)
{
    char number[48];
    uint64_t bits = 0;
    if (!bare_number(text, unit, number, sizeof number))
        return -EINVAL;
    if (hex && strncmp(number, "0x", 2) == 0) {
        if (number_parsen_hex(number, strlen(number), INT64_MAX, &bits, NULL) < 0)
            return -EINVAL;
        *ret = (int64_t)bits;
        return 0;
    }
    return number_parse_i64(number, INT64_MIN, INT64_MAX, ret, NULL) < 0 ? -EINVAL : 0;
}

int value_real(const char *text, const char *unit, double *ret)
{
    char number[64];
    double value = 0, scale = 1;
    size_t len = bare_number(text, unit, number, sizeof number);
    if (len > 1 && number[len - 1] == '%') {
        number[--len] = '\0';
        scale = 100;
    }
    if (!len || number_parse_double(number, -1e300, 1e300, &value, NULL) < 0)
        return -EINVAL;
    *ret = value / scale;
    return 0;
}

/* yes/no, on/off, true/false. *ret is 1 or 0. */
static int value_bool(const char *text, uint32_t *ret)
{
    static const char *const words[] = {"no", "yes", "off", "on", "false", "true"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = i & 1;
            return 0;
        }
    return -EINVAL;
}

/* One number or range at *text, which is moved behind it. */
static int range_add(const char **text, uint32_t highest, uint64_t *set)
{
    uint64_t ends[2] = {0, 0};
    size_t len = strspn(*text, "0123456789");
    if (number_parsen_u64(*text, len, 0, highest, &ends[0], NULL) < 0)
        return -EINVAL;
    ends[1] = ends[0];
    *text += len;
    if (**text == '-') {
        len = strspn(++*text, "0123456789");
        if (number_parsen_u64(*text, len, ends[0], highest, &ends[1], NULL) < 0)
            return -EINVAL;
        *text += len;
    }
    for (uint64_t i = ends[0]; i <= ends[1]; i++)
        *set |= UINT64_C(1) << i;
    return 0;
}

int value_indexes(const char *text, uint32_t highest, uint64_t *ret)
{
    uint64_t set = 0;
    if (strcmp(text, "all") == 0) {
        *ret = UINT64_MAX;
        return 0;
    }
    if (highest > 62) /* a full set must differ from "all" */
        highest = 62;
    for (;;) {
        if (range_add(&text, highest, &set) < 0)
            return -EINVAL;
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -EINVAL;
        text += strspn(text, " ");
    }
    *ret = set;
    return 0;
}

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = y / 400, year = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static int month_days(int y, int m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    return days[m - 1] + leap;
}

int value_time(const char *text, uint64_t *ret_us)
{
    int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
    if (strlen(text) != 20 || text[19] != 'Z' || strspn(text, "0123456789-T:Z") != 20 ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &y, &mo, &d, &h, &mi, &s) != 6)
        return -EINVAL;
    if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
        return -EINVAL;
    if (y < 1971 || y > 2100 || mo < 1 || mo > 12 || d < 1 || d > month_days(y, mo))
        return -EINVAL;
    if (h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 59)
        return -EINVAL;
    *ret_us = ((uint64_t)days_of(y, mo, d) * 86400 + (uint64_t)(h * 3600 + mi * 60 + s)) * 1000000;
    return 0;
}

/* --- fields ------------------------------------------------------------------------------------------------------ */

int field_fail(const YamlNode *node, Err *err, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return node ? yaml_fail(node, err, "%s", text) : err_set(err, -EINVAL, "%s", text);
}

static size_t names_count(const char *const *names)
{
    size_t n = 0;
    while (names[n])
        n++;
    return n;
}

/* "a, b, c", cut with "..." where it would not fit. */
static void names_join(const char *const *names, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; names[i]; i++) {
        size_t need = strlen(names[i]) + (i ? 2 : 0);
        if (used + need + sizeof ", ..." > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", names[i]);
    }
}

int field_unknown(const YamlNode *node, Err *err, const char *what, const char *text, const char *const *names)
{
    char allowed[360];
    names_join(names, allowed, sizeof allowed);
    const char *near = opt_nearest(text, names, names_count(names));
    if (near)
        return field_fail(node, err, "unknown %s '%.40s' (did you mean '%s'?); allowed: %s", what, text, near, allowed);
    return field_fail(node, err, "unknown %s '%.40s'; allowed: %s", what, text, allowed);
}

static int range_fail(const Field *f, const char *text, const YamlNode *node, Err *err)
{
    return field_fail(node, err, "'%s' must be from %.10g to %.10g%s%s, not %.40s", f->key, f->min, f->max,
                      f->unit ? " " : "", f->unit ? f->unit : "", text);
}

static bool out_of_range(const Field *f, double value)
{
    return (f->min < 0 || f->min > 0 || f->max > 0) && !(value >= f->min && value <= f->max);
}

static int whole_read(const Field *f, const char *text, const YamlNode *node, void *at, Err *err)
{
    double lowest = f->type == FIELD_I32 ? INT32_MIN : 0, highest = f->type == FIELD_I32 ? INT32_MAX : UINT32_MAX;
    int64_t value = 0;
    if (value_whole(text, f->unit, f->type == FIELD_HEX, &value) < 0)
        return field_fail(node, err, "'%s' must be a whole number%s%s, not '%.40s'", f->key, f->unit ? " of " : "",
                          f->unit ? f->unit : "", text);
    if (out_of_range(f, (double)value))
        return range_fail(f, text, node, err);
    if (f->type != FIELD_U64 && ((double)value < lowest || (double)value > highest))
        return field_fail(node, err, "'%s' must be from %.10g to %.10g, not %.40s", f->key, lowest, highest, text);
    if (f->type == FIELD_U64 && value < 0)
        return field_fail(node, err, "'%s' must not be negative", f->key);
    if (f->type == FIELD_U64)
        *(uint64_t *)at = (uint64_t)value;
    else if (f->type == FIELD_I32)
        *(int32_t *)at = (int32_t)value;
    else
        *(uint32_t *)at = (uint32_t)value;
    return 0;
}

static int real_read(const Field *f, const char *text, const YamlNode *node, void *at, Err *err)
{
    double value = 0;
    if (value_real(text, f->unit, &value) < 0)
        return field_fail(node, err, "'%s' must be a number%s%s, not '%.40s'", f->key, f->unit ? " of " : "",
                          f->unit ? f->unit : "", text);
    if (out_of_range(f, value))
        return range_fail(f, text, node, err);
    if (f->type == FIELD_DOUBLE)
        *(double *)at = value;
    else if (value < 0 || value > (double)UINT32_MAX / 1000)
        return field_fail(node, err, "'%s' must be from 0 to %u, not %.40s", f->key, UINT32_MAX / 1000, text);
    else
        *(uint32_t *)at = (uint32_t)(value * 1000 + 0.5);
    return 0;
}

static int duration_read(const Field *f, const char *text, const YamlNode *node, void *at, Err *err)
{
    uint64_t ns = 0;
    if (strcmp(text, "forever") == 0) {
        if (!isinf(f->max))
            return field_fail(node, err, "'%s' must end: 'forever' is not allowed here", f->key);
        *(uint64_t *)at = UINT64_MAX;
        return 0;
    }
    if (duration_parse(text, &ns, NULL) < 0)
        return field_fail(node, err, "'%s' must be a duration like 90s, 5m or 1h30m, not '%.40s'", f->key, text);
    if (out_of_range(f, (double)ns / 1e9))
        return range_fail(f, text, node, err);
    *(uint64_t *)at = ns;
    return 0;
}

static int name_read(const Field *f, const char *text, const YamlNode *node, void *at, Err *err)
{
    for (uint32_t i = 0; f->names[i]; i++)
        if (strcmp(f->names[i], text) == 0) {
            *(uint32_t *)at = i;
            return 0;
        }
    char what[64];
    snprintf(what, sizeof what, "value of '%s'", f->key);
    return field_unknown(node, err, what, text, f->names);
}

static int chars_read(const Field *f, const char *text, const YamlNode *node, void *at, Err *err)
{
    size_t len = strlen(text);
    if (len == 0 || len >= f->size)
        return field_fail(node, err, "'%s' must have 1 to %zu bytes, not %zu", f->key, f->size - 1, len);
    memset(at, 0, f->size);
    memcpy(at, text, len);
    return 0;
}

static int other_read(const Field *f, const char *text, const YamlNode *node, Arena *arena, void *at, Err *err)
{
    uint64_t bytes = 0;
    if (f->type == FIELD_BOOL) {
        if (value_bool(text, at) < 0)
            return field_fail(node, err, "'%s' must be yes or no, not '%.40s'", f->key, text);
        return 0;
    }
    if (f->type == FIELD_MIB) {
        if (opt_parse_size(text, &bytes, NULL) < 0)
            return field_fail(node, err, "'%s' must be a size like 512MiB or 60GiB, not '%.40s'", f->key, text);
        if (out_of_range(f, (double)bytes / 1048576))
            return range_fail(f, text, node, err);
        *(double *)at = (double)bytes / 1048576;
        return 0;
    }
    if (f->type == FIELD_INDEXES) {
        if (value_indexes(text, (uint32_t)f->max, at) < 0)
            return field_fail(node, err,
                              "'%s' must be a number, a range like 0-3, a list or all, up to %.0f, not '%.40s'", f->key,
                              f->max, text);
        return 0;
    }
    if (f->type == FIELD_NODE)
        return field_fail(node, err, "'%s' must be a list or a mapping", f->key);
    if (strlen(text) > FIELD_TEXT_MAX)
        return field_fail(node, err, "'%s' is longer than %d bytes", f->key, FIELD_TEXT_MAX);
    *(const char **)at = arena_strdup(arena, text);
    return 0;
}

int field_read_text(const Field *f, const char *text, const YamlNode *node, Arena *arena, void *into, Err *err)
{
    void *at = (char *)into + f->off;
    switch (f->type) {
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_U64:
    case FIELD_HEX:
        return whole_read(f, text, node, at, err);
    case FIELD_MILLI:
    case FIELD_DOUBLE:
        return real_read(f, text, node, at, err);
    case FIELD_DURATION:
        return duration_read(f, text, node, at, err);
    case FIELD_ENUM:
        return name_read(f, text, node, at, err);
    case FIELD_CHARS:
        return chars_read(f, text, node, at, err);
    default:
        return other_read(f, text, node, arena, at, err);
    }
}

int field_defaults(const FieldSet *set, Arena *arena, void *into, Err *err)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->fields[i].def)
            TRY(field_read_text(&set->fields[i], set->fields[i].def, NULL, arena, into, err));
    return 0;
}

/* ---- from YAML ----------------------------------------------------------------------------------------------------
 */
static int list_read(const Field *f, const YamlNode *list, void *into, Err *err)
{
    uint64_t all = 0;
    for (size_t i = 0; i < list->len; i++) {
        uint64_t one = 0;
        const char *text = yaml_text(list->items[i]);
        if (!text || value_indexes(text, (uint32_t)f->max, &one) < 0 || one == FIELD_ALL)
            return field_fail(list->items[i], err, "'%s' must list numbers from 0 to %.0f", f->key, f->max);
        all |= one;
    }
    if (!all)
        return field_fail(list, err, "'%s' must not be empty", f->key);
    *(uint64_t *)(void *)((char *)into + f->off) = all;
    return 0;
}

static int node_read(const Field *f, const YamlNode *value, Arena *arena, void *into, Err *err)
{
    if (f->type == FIELD_NODE) {
        *(const YamlNode **)(void *)((char *)into + f->off) = value;
        return 0;
    }
    if (f->type == FIELD_INDEXES && value->kind == YAML_SEQ)
        return list_read(f, value, into, err);
    if (value->kind != YAML_SCALAR)
        return field_fail(value, err, "'%s' must be a text, not %s", f->key, yaml_kind_name(value->kind));
    if (yaml_is_null(value))
        return field_fail(value, err, "'%s' must have a value", f->key);
    return field_read_text(f, value->text, value, arena, into, err);
}

/* The names a key may have below `prefix`: whole keys, or the groups on the way to them. */
static int unknown_key(const FieldSet *set, const char *prefix, const YamlNode *key, Err *err)
{
    const char *names[FIELD_MAX + 1] = {0};
    char groups[FIELD_MAX][32];
    size_t n = 0, skip = strlen(prefix);
    for (size_t i = 0; i < set->count; i++) {
        if (strncmp(set->fields[i].key, prefix, skip) != 0)
            continue;
        const char *rest = set->fields[i].key + skip;
        int len = (int)strcspn(rest, ".");
        snprintf(groups[n], sizeof groups[n], "%.*s", len, rest);
        if (n == 0 || strcmp(groups[n], groups[n - 1]) != 0) {
            names[n] = groups[n];
            n++;
        }
    }
    char what[96];
    snprintf(what, sizeof what, "key of %s", set->what);
    return field_unknown(key, err, what, yaml_text(key) ? yaml_text(key) : "", names);
}

static int group_read(const FieldSet *set, const char *prefix, const YamlNode *map, Arena *arena, void *into,
                      bool seen[FIELD_MAX], Err *err)
{
    for (size_t p = 0; p < map->len; p++) {
        const YamlPair *pair = &map->pairs[p];
        char key[96];
        if (snprintf(key, sizeof key, "%s%s", prefix, pair->key->text) >= (int)sizeof key - 1)
            return unknown_key(set, prefix, pair->key, err);
        size_t i = 0, len = strlen(key);
        while (i < set->count && strcmp(set->fields[i].key, key) != 0)
            i++;
        if (i < set->count) {
            TRY(node_read(&set->fields[i], pair->value, arena, into, err));
            seen[i] = true;
            continue;
        }
        key[len] = '.';
        key[len + 1] = '\0';
        for (i = 0; i < set->count && strncmp(set->fields[i].key, key, len + 1) != 0;)
            i++;
        if (i == set->count || *prefix)
            return unknown_key(set, prefix, pair->key, err);
        TRY(yaml_want(pair->value, YAML_MAP, pair->key->text, err));
        TRY(group_read(set, key, pair->value, arena, into, seen, err));
    }
    return 0;
}

static int needed_check(const FieldSet *set, const YamlNode *node, const bool seen[FIELD_MAX], Err *err)
{
    for (size_t i = 0; i < set->count; i++)
        if ((set->fields[i].flags & FIELD_NEEDED) && !seen[i])
            return field_fail(node, err, "%s needs '%s': %s", set->what, set->fields[i].key, set->fields[i].help);
    return 0;
}

int field_read_map(const FieldSet *set, const YamlNode *map, Arena *arena, void *into, bool seen[FIELD_MAX], Err *err)
{
    memset(seen, 0, FIELD_MAX * sizeof *seen);
    if (!yaml_is_null(map)) {
        TRY(yaml_want(map, YAML_MAP, set->what, err));
        TRY(group_read(set, "", map, arena, into, seen, err));
    }
    return needed_check(set, map, seen, err);
}

/* ---- from words ---------------------------------------------------------------------------------------------------
 */
/* The field a bare word belongs to: a switch of that name, an enumeration that holds it, the first field. */
static const Field *bare_field(const FieldSet *set, const char *word, const bool *seen, const char **ret_text)
{
    *ret_text = word;
    for (size_t i = 0; i < set->count; i++) {
        const Field *f = &set->fields[i];
        if (f->type == FIELD_BOOL && strcmp(f->key, word) == 0) {
            *ret_text = "yes";
            return f;
        }
        if (f->type == FIELD_DURATION && isinf(f->max) && strcmp(word, "forever") == 0)
            return f;
        for (size_t k = 0; f->type == FIELD_ENUM && f->names[k]; k++)
            if (!seen[i] && strcmp(f->names[k], word) == 0)
                return f;
    }
    for (size_t i = 0; i < set->count; i++)
        if ((set->fields[i].flags & FIELD_FIRST) && !seen[i])
            return &set->fields[i];
    return NULL;
}

static const Field *key_field(const FieldSet *set, const char *word, size_t len)
{
    for (size_t i = 0; i < set->count; i++)
        if (strlen(set->fields[i].key) == len && strncmp(set->fields[i].key, word, len) == 0)
            return &set->fields[i];
    return NULL;
}

static int word_unknown(const FieldSet *set, const char *word, Err *err)
{
    const char *names[FIELD_MAX + 1] = {0};
    for (size_t i = 0; i < set->count; i++)
        names[i] = set->fields[i].key;
    char what[96], name[48];
    snprintf(what, sizeof what, "key of %s", set->what);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    return field_unknown(NULL, err, what, name, names);
}

int field_read_words(const FieldSet *set, int argc, const char *const *argv, Arena *arena, void *into,
                     bool seen[FIELD_MAX], Err *err)
{
    memset(seen, 0, FIELD_MAX * sizeof *seen);
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *text = strchr(word, '=');
        const Field *f = text ? key_field(set, word, (size_t)(text - word)) : NULL;
        if (f)
            text++;
        else
            f = bare_field(set, word, seen, &text);
        if (!f)
            return word_unknown(set, word, err);
        if (seen[f - set->fields])
            return field_fail(NULL, err, "%s: '%s' is given twice", set->what, f->key);
        TRY(field_read_text(f, text, NULL, arena, into, err));
        seen[f - set->fields] = true;
    }
    return needed_check(set, NULL, seen, err);
}

/* ---- documentation ------------------------------------------------------------------------------------------------
 */
static void takes_page(const Field *f, Str *out)
{
    static const char *const words[] = {
        [FIELD_U32] = "number",
        [FIELD_I32] = "number",
        [FIELD_U64] = "number",
        [FIELD_HEX] = "hex number",
        [FIELD_MILLI] = "number",
        [FIELD_DOUBLE] = "number",
        [FIELD_BOOL] = "yes, no",
        [FIELD_ENUM] = "",
        [FIELD_CHARS] = "text",
        [FIELD_TEXT] = "text",
        [FIELD_DURATION] = "duration",
        [FIELD_MIB] = "size",
        [FIELD_INDEXES] = "number, range, list or all",
        [FIELD_NODE] = "list or mapping",
    };
    str_add(out, words[f->type]);
    for (size_t i = 0; f->type == FIELD_ENUM && f->names[i]; i++)
        str_addf(out, "%s`%s`", i ? ", " : "", f->names[i]);
    if (f->unit)
        str_addf(out, " (%s)", f->unit);
    if (f->type == FIELD_DURATION && isinf(f->max))
        str_add(out, " or forever");
    else if (f->type != FIELD_INDEXES && out_of_range(f, HUGE_VAL))
        str_addf(out, ", %.10g to %.10g%s", f->min, f->max, f->type == FIELD_DURATION ? " s" : "");
}

void fields_page(const Field *fields, size_t count, Str *out)
{
    str_add(out, "| key | takes | default | what |\n|---|---|---|---|\n");
    for (const Field *f = fields; f < fields + count; f++) {
        str_addf(out, "| `%s`%s | ", f->key, f->flags & FIELD_NEEDED ? " (needed)" : "");
        takes_page(f, out);
        str_addf(out, " | %s | %s |\n", f->def ? f->def : "", f->help);
    }
}
