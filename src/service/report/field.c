/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/field.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "service/report/out.h"

#define F(type, member, name)                                                                                          \
    {                                                                                                                  \
        name, FIELD_##type, offsetof(ROW, member)                                                                      \
    }
#define N(type, member) F(type, member, #member)
#define END                                                                                                            \
    {                                                                                                                  \
        NULL, FIELD_I64, 0                                                                                             \
    }
#include "service/report/field.def"

/* A value read by its type: what is to be written, as one of three. */
typedef struct Value {
    enum { VALUE_NONE, VALUE_I64, VALUE_U64, VALUE_DOUBLE, VALUE_TEXT, VALUE_BOOL, VALUE_TRIPLE } is;
    int64_t i64;
    uint64_t u64;
    double number;
    const char *text;
    const uint32_t *triple;
} Value;

static Value known_value(int64_t value, bool is_known)
{
    return (Value){.is = is_known ? VALUE_I64 : VALUE_NONE, .i64 = value};
}

static Value word_value(const char *const *words, unsigned index, unsigned count)
{
    return (Value){.is = index < count ? VALUE_TEXT : VALUE_NONE, .text = index < count ? words[index] : NULL};
}

static Value text_value(const char *text, bool unknown_if_empty)
{
    bool none = !text || (unknown_if_empty && !text[0]);

    return (Value){.is = none ? VALUE_NONE : VALUE_TEXT, .text = text};
}

static Value read_value(const Field *field, const void *row)
{
    const void *at = (const char *)row + field->offset;
    const uint32_t *triple = at;

    switch (field->type) {
    case FIELD_I64:
        return known_value(*(const int64_t *)at, true);
    case FIELD_U64:
        return (Value){.is = VALUE_U64, .u64 = *(const uint64_t *)at};
    case FIELD_KNOWN:
        return known_value(*(const int64_t *)at, *(const int64_t *)at >= 0);
    case FIELD_I32:
        return known_value(*(const int32_t *)at, true);
    case FIELD_KNOWN32:
        return known_value(*(const int32_t *)at, *(const int32_t *)at >= 0);
    case FIELD_TIME:
        return known_value(*(const int64_t *)at, *(const int64_t *)at != INT64_MIN);
    case FIELD_DOUBLE:
        return (Value){.is = isfinite(*(const double *)at) ? VALUE_DOUBLE : VALUE_NONE, .number = *(const double *)at};
    case FIELD_TEXT:
        return text_value(*(const char *const *)at, false);
    case FIELD_KNOWN_TEXT:
        return text_value(*(const char *const *)at, true);
    case FIELD_BOOL:
        return (Value){.is = VALUE_BOOL, .i64 = *(const bool *)at};
    case FIELD_CAUSE:
        return word_value(trace_cause_words, *(const TraceCause *)at, TRACE_CAUSE_COUNT);
    case FIELD_CLASS:
        return word_value(trace_class_words, *(const TraceClass *)at, TRACE_CLASS_COUNT);
    case FIELD_HOST:
        return word_value(trace_host_words, *(const TraceHostClass *)at, TRACE_HOST_CLASS_COUNT);
    case FIELD_PATH:
        return word_value(trace_path_words, *(const TracePathKind *)at, TRACE_PATH_KIND_COUNT);
    case FIELD_TRIPLE:
        return (Value){.is = triple[0] ? VALUE_TRIPLE : VALUE_NONE, .triple = triple};
    }
    return (Value){.is = VALUE_NONE};
}

static void json_value(Out *out, const char *key, const Value *value)
{
    switch (value->is) {
    case VALUE_NONE:
        out_json_null(out, key);
        break;
    case VALUE_I64:
        out_json_i64(out, key, value->i64);
        break;
    case VALUE_U64:
        out_json_u64(out, key, value->u64);
        break;
    case VALUE_DOUBLE:
        out_json_double(out, key, value->number);
        break;
    case VALUE_TEXT:
        out_json_text(out, key, value->text);
        break;
    case VALUE_BOOL:
        out_json_bool(out, key, value->i64);
        break;
    case VALUE_TRIPLE:
        out_open(out, key, '[');
        for (int i = 0; i < 3; i++)
            out_json_u64(out, NULL, value->triple[i]);
        out_close(out, ']');
        break;
    }
}

void field_json_one(Out *out, const char *key, const Field *field, const void *row)
{
    Value value = read_value(field, row);

    json_value(out, key, &value);
}

void field_json(Out *out, const Field *fields, const void *row)
{
    for (const Field *field = fields; field->name; field++)
        field_json_one(out, field->name, field, row);
}

void field_cell(Out *out, const Field *field, const void *row)
{
    Value value = read_value(field, row);
    char text[NUMBER_DOUBLE_MAX];

    switch (value.is) {
    case VALUE_NONE:
        break;
    case VALUE_I64:
        out_i64(out, value.i64);
        break;
    case VALUE_U64:
        out_addn(out, text, number_write_u64(text, value.u64));
        break;
    case VALUE_DOUBLE:
        out_addn(out, text, number_write_double(text, value.number));
        break;
    case VALUE_TEXT:
        cell_text(out, value.text);
        break;
    case VALUE_BOOL:
        out_add(out, value.i64 ? "true" : "false");
        break;
    case VALUE_TRIPLE:
        out_addf(out, "%ux%ux%u", value.triple[0], value.triple[1], value.triple[2]);
        break;
    }
}
