/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/field.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"

/* Every VEC looks like one of char. */
FieldRows field_rows(const void *owner, size_t offset)
{
    FieldRows rows;

    memcpy(&rows, (const char *)owner + offset, sizeof rows);
    return rows;
}

static const void *at_offset(const void *row, size_t offset)
{
    return row ? (const char *)row + offset : NULL;
}

bool field_is_plain(const Field *field)
{
    return field->type < FIELD_STRUCT;
}

static Value known_value(int64_t value, bool is_known)
{
    return (Value){.is = is_known ? VALUE_I64 : VALUE_NONE, .i64 = value};
}

static Value text_value(const char *text, bool unknown_if_empty)
{
    bool none = !text || (unknown_if_empty && !text[0]);

    return (Value){.is = none ? VALUE_NONE : VALUE_TEXT, .text = text};
}

Value field_read(const Field *field, const void *row)
{
    const void *at = at_offset(row, field->offset);

    if (!row)
        return (Value){.is = VALUE_NONE};
    switch (field->type) {
    case FIELD_I64:
        return known_value(*(const int64_t *)at, true);
    case FIELD_U64:
        return (Value){.is = VALUE_U64, .u64 = *(const uint64_t *)at};
    case FIELD_I32:
        return known_value(*(const int32_t *)at, true);
    case FIELD_U32:
        return known_value(*(const uint32_t *)at, true);
    case FIELD_KNOWN:
        return known_value(*(const int64_t *)at, *(const int64_t *)at >= 0);
    case FIELD_KNOWN32:
        return known_value(*(const int32_t *)at, *(const int32_t *)at >= 0);
    case FIELD_INDEX:
        return known_value(*(const uint32_t *)at, *(const uint32_t *)at != UINT32_MAX);
    case FIELD_LINE:
        return (Value){.is = *(const uint64_t *)at ? VALUE_U64 : VALUE_NONE, .u64 = *(const uint64_t *)at};
    case FIELD_BITS:
        return known_value(__builtin_popcountll(*(const uint64_t *)at), true);
    case FIELD_TIME:
        return known_value(*(const int64_t *)at, *(const int64_t *)at != INT64_MIN);
    case FIELD_DOUBLE:
        return (Value){.is = isfinite(*(const double *)at) ? VALUE_DOUBLE : VALUE_NONE, .number = *(const double *)at};
    case FIELD_TEXT:
        return text_value(*(const char *const *)at, false);
    case FIELD_KNOWN_TEXT:
        return text_value(*(const char *const *)at, true);
    case FIELD_BOOL:
        return (Value){.is = VALUE_BOOL, .truth = *(const bool *)at};
    case FIELD_WORD:
        return text_value(*(const unsigned *)at < field->count ? field->words[*(const unsigned *)at] : NULL, true);
    case FIELD_FLAG:
        return text_value(field->words[*(const bool *)at], false);
    case FIELD_TRIPLE:
        return (Value){.is = *(const uint32_t *)at ? VALUE_TRIPLE : VALUE_NONE, .triple = at};
    default:
        return (Value){.is = VALUE_NONE};
    }
}

/* The row that an index refers to, NULL. */
static const void *referred_row(const Field *field, const void *row, const void *root)
{
    FieldRows rows = field_rows(root, field->list);
    uint32_t index = row ? *(const uint32_t *)at_offset(row, field->offset) : UINT32_MAX;

    return index < rows.len ? rows.at + index * field->size : NULL;
}

static bool is_unknown(const Field *field, const void *row, const void *root)
{
    return field->type == FIELD_REF ? !referred_row(field, row, root) : field_read(field, row).is == VALUE_NONE;
}

/* ---- JSON ---- */

void field_add_json(Str *out, const char *key, const Field *field, const void *row)
{
    Value value = field_read(field, row);

    switch (value.is) {
    case VALUE_NONE:
        json_add_null(out, key);
        break;
    case VALUE_I64:
        json_add_i64(out, key, value.i64);
        break;
    case VALUE_U64:
        json_add_u64(out, key, value.u64);
        break;
    case VALUE_DOUBLE:
        json_add_double(out, key, value.number);
        break;
    case VALUE_TEXT:
        json_add_text(out, key, value.text);
        break;
    case VALUE_BOOL:
        json_add_bool(out, key, value.truth);
        break;
    case VALUE_TRIPLE:
        json_open(out, key, '[');
        for (int i = 0; i < 3; i++)
            json_add_u64(out, NULL, value.triple[i]);
        json_close(out, ']');
        break;
    }
}

static void add_element(Out *out, const Field *fields, const void *row, const void *root)
{
    if (fields->name[0]) {
        json_open(&out->room, NULL, '{');
        field_json(out, fields, row, root);
        json_close(&out->room, '}');
    } else {
        field_add_json(&out->room, NULL, fields, row);
    }
    out_flow(out);
}

static void add_list(Out *out, const Field *field, const char *rows, size_t len, const void *root)
{
    json_open(&out->room, field->name, '[');
    for (size_t i = 0; i < len; i++)
        if (!field->sparse || !is_unknown(field->fields, rows + i * field->size, root))
            add_element(out, field->fields, rows + i * field->size, root);
    json_close(&out->room, ']');
}

static void add_sums(Str *out, const Field *field, const int64_t *sums)
{
    json_open(out, field->name, '{');
    for (unsigned i = 0; i < field->count; i++)
        if (sums[i] || !field->sparse)
            json_add_i64(out, field->words[i], sums[i]);
    json_close(out, '}');
}

static void add_rows(Out *out, const Field *field, const char *rows, const void *root)
{
    json_open(&out->room, field->name, '[');
    for (unsigned i = 0; i < field->count; i++) {
        json_open(&out->room, NULL, '{');
        json_add_text(&out->room, "cause", field->words[i]);
        field_json(out, field->fields, rows + i * field->size, root);
        json_close(&out->room, '}');
    }
    json_close(&out->room, ']');
}

void field_json(Out *out, const Field *fields, const void *row, const void *root)
{
    for (const Field *field = fields; field->name; field++) {
        const void *at = at_offset(row, field->offset);
        FieldRows list;

        switch (field->type) {
        case FIELD_STRUCT:
            json_open(&out->room, field->name, '{');
            field_json(out, field->fields, at, root);
            json_close(&out->room, '}');
            break;
        case FIELD_INLINE:
            field_json(out, field->fields, at, root);
            break;
        case FIELD_REF:
            field_json(out, field->fields, referred_row(field, row, root), root);
            break;
        case FIELD_LIST:
            list = field_rows(row, field->offset);
            add_list(out, field, list.at, list.len, root);
            break;
        case FIELD_ARRAY:
            add_list(out, field, at, field->count ? field->count : *(const unsigned *)((const char *)row + field->list),
                     root);
            break;
        case FIELD_SUMS:
            add_sums(&out->room, field, at);
            break;
        case FIELD_ROWS:
            add_rows(out, field, at, root);
            break;
        default:
            field_add_json(&out->room, field->name, field, row);
        }
    }
}

/* ---- CSV ---- */

/* What is not UTF-8 becomes U+FFFD. */
void csv_add_text(Str *line, const char *text)
{
    static const char *const escapes[STR_ESCAPES] = {['"'] = "\"\""};
    size_t len = strlen(text);
    bool quote = strpbrk(text, ",\"\r\n") || (len && (text[0] == ' ' || text[len - 1] == ' '));

    if (quote)
        str_addc(line, '"');
    str_add_escaped(line, text, NULL, escapes);
    str_add(line, quote ? "\"," : ",");
}

static void add_cell(Str *line, const Value *value)
{
    char text[NUMBER_DOUBLE_MAX];
    size_t len = 0;

    switch (value->is) {
    case VALUE_TEXT:
        csv_add_text(line, value->text);
        return;
    case VALUE_BOOL:
        str_add(line, value->truth ? "true" : "false");
        break;
    case VALUE_TRIPLE:
        str_addf(line, "%ux%ux%u", value->triple[0], value->triple[1], value->triple[2]);
        break;
    case VALUE_I64:
        len = number_write_i64(text, value->i64);
        break;
    case VALUE_U64:
        len = number_write_u64(text, value->u64);
        break;
    case VALUE_DOUBLE:
        len = number_write_double(text, value->number);
        break;
    case VALUE_NONE:
        break;
    }
    str_addn(line, text, len);
    str_addc(line, ',');
}

static void csv_add_names(Str *line, const Field *fields)
{
    for (const Field *field = fields; field->name; field++) {
        if (field->type == FIELD_REF || field->type == FIELD_INLINE)
            csv_add_names(line, field->fields);
        else if (field_is_plain(field))
            str_addf(line, "%s,", field->name);
        for (unsigned i = 0; i < field->count && field->column; i++)
            str_addf(line, "%s%s_ns,", field->column, field->words[i]);
    }
}

void csv_add_cells(Str *line, const Field *fields, const void *row, const void *root)
{
    for (const Field *field = fields; field->name; field++) {
        if (field->type == FIELD_REF) {
            csv_add_cells(line, field->fields, referred_row(field, row, root), root);
        } else if (field->type == FIELD_INLINE) {
            csv_add_cells(line, field->fields, at_offset(row, field->offset), root);
        } else if (field_is_plain(field)) {
            Value value = field_read(field, row);

            add_cell(line, &value);
        }
        for (unsigned i = 0; i < field->count && field->column; i++) {
            const Field cell = {.type = FIELD_I64, .offset = field->offset + i * field->size + field->cell};
            Value value = field_read(&cell, row);

            add_cell(line, &value);
        }
    }
}

void csv_end_line(Out *out, Str *line, const char *end)
{
    out_addn(out, line->text, line->len - 1);
    out_add(out, end);
}

static void write_rows(Out *out, Str *line, const CsvLevel *level, const void *above, const void *root)
{
    FieldRows rows = level->size ? field_rows(above, level->offset) : (FieldRows){.len = 1};
    size_t before = line->len;

    for (size_t i = 0; i < rows.len; i++) {
        const void *row = level->size ? rows.at + i * level->size : at_offset(above, level->offset);

        csv_add_cells(line, level->columns, row, root);
        if (level[1].columns)
            write_rows(out, line, level + 1, row, root);
        else
            csv_end_line(out, line, "\r\n");
        str_cut(line, before);
    }
}

void csv_write(Out *out, const CsvLevel *levels, const void *root)
{
    CLEANUP(str_done) Str line = str_limited((size_t)1 << 31);

    for (const CsvLevel *level = levels; level->columns; level++)
        csv_add_names(&line, level->columns);
    csv_end_line(out, &line, "\r\n");
    str_clear(&line);
    write_rows(out, &line, levels, root, root);
}
