/* SPDX-License-Identifier: Apache-2.0 */
/* The writer has no state: the last byte tells whether a comma is due. */
#include "base/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"

static bool ends_with_value(const Str *out)
{
    const unsigned char last = out->len ? (unsigned char)out->text[out->len - 1] : 0;

    return isalnum(last) || last == '"' || last == '}' || last == ']';
}

void json_add_key(Str *out, const char *name)
{
    if (ends_with_value(out))
        str_addc(out, ',');
    if (!name)
        return;
    str_addc(out, '"');
    str_add(out, name);
    str_addn(out, "\":", 2);
}

void json_open(Str *out, const char *name, char bracket)
{
    json_add_key(out, name);
    str_addc(out, bracket);
}

void json_close(Str *out, char bracket)
{
    str_addc(out, bracket);
}

void json_add_null(Str *out, const char *name)
{
    json_add_key(out, name);
    str_addn(out, "null", 4);
}

void json_add_bool(Str *out, const char *name, bool value)
{
    json_add_key(out, name);
    str_add(out, value ? "true" : "false");
}

void json_add_text(Str *out, const char *name, const char *text)
{
    json_add_key(out, name);
    if (text)
        str_add_json(out, text);
    else
        str_addn(out, "null", 4);
}

void json_add_i64(Str *out, const char *name, int64_t value)
{
    char text[NUMBER_I64_MAX];

    json_add_key(out, name);
    str_addn(out, text, number_write_i64(text, value));
}

void json_add_u64(Str *out, const char *name, uint64_t value)
{
    char text[NUMBER_U64_MAX];

    json_add_key(out, name);
    str_addn(out, text, number_write_u64(text, value));
}

void json_add_double(Str *out, const char *name, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    json_add_key(out, name);
    if (isfinite(value))
        str_addn(out, text, number_write_double(text, value));
    else
        str_addn(out, "null", 4);
}

void json_add_time(Str *out, const char *name, uint64_t real_ns)
{
    char text[CLOCK_TEXT_MAX];

    if (real_ns)
        clock_format(text, real_ns);
    json_add_text(out, name, real_ns ? text : NULL);
}

void json_add_seconds(Str *out, const char *name, uint64_t ns)
{
    json_add_key(out, name);
    str_addf(out, "%" PRIu64 ".%03u", ns / NS_PER_S, (unsigned)(ns % NS_PER_S / NS_PER_MS));
}
