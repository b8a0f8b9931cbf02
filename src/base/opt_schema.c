/* SPDX-License-Identifier: Apache-2.0 */
/* The config file's schema (JSON Schema 2020-12) from a table. Each level of dotted keys is an object. */
#include <string.h>

#include "base/number.h"
#include "base/opt_row.h"

typedef struct Schema {
    const OptSpec *opts;
    size_t count;
    Str *out;
} Schema;

static void add_json_number(Str *out, const char *name, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    str_addf(out, ",\"%s\":", name);
    str_addn(out, text, number_write_double(text, value));
}

static void add_type(const OptSpec *spec, Str *out)
{
    switch (spec->type) {
    case OPT_BOOL:
        str_add(out, "\"type\":\"boolean\"");
        break;
    case OPT_INT:
        str_add(out, "\"type\":\"integer\"");
        break;
    case OPT_UINT:
        str_add(out, "\"type\":\"integer\"");
        if (!opt_row_has_range(spec))
            add_json_number(out, "minimum", 0);
        break;
    case OPT_DOUBLE:
        str_add(out, "\"type\":\"number\"");
        break;
    case OPT_DURATION:
        str_add(out, "\"type\":[\"string\",\"integer\"],\"pattern\":\"^(0|([0-9]+(y|w|d|h|ms|m|us|ns|s))+)$\"");
        break;
    case OPT_SIZE:
        str_add(out, "\"type\":[\"string\",\"integer\"],\"pattern\":\"^[0-9.]+(B|[KMGT](iB)?|kB|[MGT]B)?$\"");
        break;
    case OPT_STRING:
        str_add(out, "\"type\":[\"string\",\"number\",\"boolean\"]");
        break;
    case OPT_ENUM:
        str_add(out, "\"enum\":[");
        for (size_t i = 0; spec->names[i]; i++) {
            str_add(out, i ? "," : "");
            str_add_json(out, spec->names[i]);
        }
        str_addc(out, ']');
        break;
    case OPT_LIST:
        str_add(out, "\"type\":[\"array\",\"string\"],\"items\":{\"type\":[\"string\",\"number\",\"boolean\"]}");
        break;
    case OPT_NODE:
        str_add(out, "\"type\":[\"object\",\"array\"]");
        break;
    }
}

static bool is_plain_default(const OptSpec *spec)
{
    if (spec->type == OPT_BOOL)
        return !strcmp(spec->def, "true") || !strcmp(spec->def, "false");
    return spec->type == OPT_INT || spec->type == OPT_UINT || spec->type == OPT_DOUBLE;
}

static void add_leaf(const OptSpec *spec, Str *out)
{
    bool number = spec->type == OPT_INT || spec->type == OPT_UINT || spec->type == OPT_DOUBLE;

    str_addc(out, '{');
    add_type(spec, out);
    if (number && opt_row_has_range(spec)) {
        add_json_number(out, "minimum", spec->min);
        if (opt_row_has_max(spec))
            add_json_number(out, "maximum", spec->max);
    }
    if (spec->help) {
        str_add(out, ",\"description\":");
        str_add_json(out, spec->help);
    }
    if (spec->def) {
        str_add(out, ",\"default\":");
        if (is_plain_default(spec))
            str_add(out, spec->def);
        else
            str_add_json(out, spec->def);
    }
    str_addc(out, '}');
}

static bool in_section(const OptSpec *spec, const char *prefix, size_t len)
{
    return opt_row_has_key(spec) && opt_row_is_shown(spec) && !strncmp(spec->key, prefix, len);
}

/* True where an earlier row has the same first `len` bytes of key, as a section. */
static bool was_written(const Schema *schema, size_t row, size_t len)
{
    for (size_t i = 0; i < row; i++)
        if (in_section(&schema->opts[i], schema->opts[row].key, len))
            return true;
    return false;
}

/* The object whose keys begin with the first `len` bytes of `prefix`. */
static void add_object(const Schema *schema, const char *prefix, size_t len)
{
    const char *comma = "";

    str_add(schema->out, "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
    for (size_t i = 0; i < schema->count; i++) {
        const OptSpec *spec = &schema->opts[i];
        size_t name;
        bool leaf;

        if (!in_section(spec, prefix, len))
            continue;
        name = strcspn(spec->key + len, ".");
        leaf = !spec->key[len + name];
        if (!leaf && was_written(schema, i, len + name + 1))
            continue;
        str_add(schema->out, comma);
        str_addn_json(schema->out, spec->key + len, name);
        str_addc(schema->out, ':');
        comma = ",";
        if (leaf) {
            add_leaf(spec, schema->out);
            continue;
        }
        str_addc(schema->out, '{');
        add_object(schema, spec->key, len + name + 1);
        str_addc(schema->out, '}');
    }
    str_addc(schema->out, '}');
}

void opt_schema(const OptSpec *opts, size_t count, const char *title, Str *out)
{
    Schema schema = {.opts = opts, .count = count, .out = out};

    str_add(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":");
    str_add_json(out, title);
    str_addc(out, ',');
    add_object(&schema, "", 0);
    str_add(out, "}\n");
}
