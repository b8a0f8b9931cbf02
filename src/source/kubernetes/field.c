/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kubernetes/field.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "base/str.h"

enum { PATH_ROOM = 256 };

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",       [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
    [JSON_INTEGER] = "a whole number", [JSON_REAL] = "a number", [JSON_TRUE] = "true or false",
};

static const char *name_type(json_type type)
{
    return type_names[type == JSON_FALSE ? JSON_TRUE : type];
}

/* -- errors ------------------------------------------------------------------------------------------------------- */

static void add_place(const KubeField *field, Str *to)
{
    if (field->in)
        add_place(field->in, to);
    if (!field->key) {
        str_addf(to, "[%zu]", field->index);
        return;
    }
    str_add(to, !field->in ? "" : field->in->in ? "." : ": ");
    for (const char *at = field->key; *at; at++)
        str_addc(to, *at == ' ' && field->in ? '.' : *at);
}

int kube_field_fail(const KubeField *field, Err *err, const char *fmt, ...)
{
    char room[PATH_ROOM];
    Str place;
    va_list args;

    str_init_room(&place, room, sizeof room);
    add_place(field, &place);
    va_start(args, fmt);
    err_setv(err, -EINVAL, fmt, args);
    va_end(args);
    return err_add(err, "%s", place.text);
}

static int check_type(const KubeField *field, json_type type, Err *err)
{
    const json_t *json = field->json;

    if (!json || json_typeof(json) == type || (type == JSON_TRUE && json_is_false(json)))
        return 0;
    return kube_field_fail(field, err, "must be %s, not %s", name_type(type), name_type(json_typeof(json)));
}

/* -- a field ------------------------------------------------------------------------------------------------------- */

/* A path "a b": where a is no object, the error names a alone. */
static int walk_path(const KubeField *in, const char *path, KubeField *ret, Err *err)
{
    char key[PATH_ROOM], above[PATH_ROOM];

    ret->json = in->json;
    for (const char *at = path;; at++) {
        const char *blank = strchrnul(at, ' ');

        snprintf(key, sizeof key, "%.*s", (int)(blank - at), at);
        ret->json = json_object_get(ret->json, key);
        if (json_is_null(ret->json))
            ret->json = NULL;
        if (!*blank || !ret->json)
            return 0;
        snprintf(above, sizeof above, "%.*s", (int)(blank - path), path);
        TRY(check_type(&(KubeField){.in = in, .key = above, .json = ret->json}, JSON_OBJECT, err));
        at = blank;
    }
}

int kube_field_get(const KubeField *in, const char *path, json_type type, KubeField *ret, Err *err)
{
    KubeField found = {.in = in, .key = path};

    TRY(walk_path(in, path, &found, err));
    TRY(check_type(&found, type, err));
    *ret = found;
    return 0;
}

int kube_field_item(const KubeField *list, size_t index, json_type type, KubeField *ret, Err *err)
{
    KubeField found = {.in = list, .index = index, .json = json_array_get(list->json, index)};

    TRY(check_type(&found, type, err));
    *ret = found;
    return 0;
}

size_t kube_field_len(const KubeField *list)
{
    return json_array_size(list->json);
}

/* -- values -------------------------------------------------------------------------------------------------------- */

int kube_field_text(const KubeField *in, const char *path, const char **ret, Err *err)
{
    KubeField field;

    TRY(kube_field_get(in, path, JSON_STRING, &field, err));
    if (field.json)
        *ret = json_string_value(field.json);
    return 0;
}

int kube_field_int(const KubeField *in, const char *path, int64_t min, int64_t max, int64_t *ret, Err *err)
{
    KubeField field;

    TRY(kube_field_get(in, path, JSON_INTEGER, &field, err));
    if (!field.json)
        return 0;
    const int64_t value = json_integer_value(field.json);
    if (value < min || value > max)
        return kube_field_fail(&field, err, "%lld is not in %lld to %lld", (long long)value, (long long)min,
                               (long long)max);
    *ret = value;
    return 0;
}

int kube_field_bool(const KubeField *in, const char *path, bool *ret, Err *err)
{
    KubeField field;

    TRY(kube_field_get(in, path, JSON_TRUE, &field, err));
    if (field.json)
        *ret = json_is_true(field.json);
    return 0;
}

static int read_seconds(const KubeField *in, const char *path,
                        int (*parse)(const char *text, uint64_t *ret_ns, Err *err), uint64_t *ret_s, Err *err)
{
    KubeField field;
    uint64_t ns;
    Err why;

    TRY(kube_field_get(in, path, JSON_STRING, &field, err));
    if (!field.json)
        return 0;
    if (parse(json_string_value(field.json), &ns, &why) < 0)
        return kube_field_fail(&field, err, "%s", why.text);
    *ret_s = ns / NS_PER_S;
    return 0;
}

int kube_field_time(const KubeField *in, const char *path, uint64_t *ret_s, Err *err)
{
    return read_seconds(in, path, clock_parse, ret_s, err);
}

int kube_field_duration(const KubeField *in, const char *path, uint64_t *ret_s, Err *err)
{
    return read_seconds(in, path, duration_parse, ret_s, err);
}

int kube_field_quantity(const KubeField *in, const char *path, double *ret, Err *err)
{
    KubeField field = {.in = in, .key = path};
    Err why;

    TRY(walk_path(in, path, &field, err));
    if (json_is_number(field.json)) {
        const double value = json_number_value(field.json);

        if (!(value >= 0 && value <= 1e18))
            return kube_field_fail(&field, err, "must be 0 to 1e18");
        *ret = value;
        return 0;
    }
    TRY(check_type(&field, JSON_STRING, err));
    if (field.json && quantity_parse(json_string_value(field.json), ret, &why) < 0)
        return kube_field_fail(&field, err, "%s", why.text);
    return 0;
}
