/* SPDX-License-Identifier: Apache-2.0 */
/* One option's value from text, by type, checked against the row's range. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/opt_row.h"
#include "base/cleanup.h"
#include "base/vec.h"

enum { RANGE_TEXT_MAX = 128 };

typedef VEC(const char *) Texts;

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

    if (!opt_row_has_range(spec) || (value >= spec->min && (value <= spec->max || !opt_row_has_max(spec))))
        return 0;
    str_init_room(&range, room, sizeof(room));
    opt_row_add_range(spec, &range);
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

static void texts_done(Texts *texts)
{
    vec_done(texts);
}

static void set_list(const OptSet *set, const OptSpec *spec, const char *text, bool append)
{
    CLEANUP(texts_done) Texts items = {0};

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
