/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered writing, JSON and CSV cells. */
#include "service/report/out.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

enum { OUT_PIECE = 64 * 1024 };
/* Over any text that a profile can hold; a sink sees pieces of about OUT_PIECE. */
static const size_t out_room_max = (size_t)1 << 31;

static int write_str(void *context, const char *text, size_t len, Err *err)
{
    Str *str = context;

    str_addn(str, text, len);
    return str_check(str, "the report", err);
}

ReportSink report_sink_str(Str *str)
{
    return (ReportSink){.write = write_str, .context = str};
}

void out_init(Out *out, ReportSink sink, Err *err)
{
    *out = (Out){.sink = sink, .err = err};
    str_init(&out->room, out_room_max);
}

static void send_room(Out *out)
{
    if (!out->rc && out->room.len)
        out->rc = out->sink.write(out->sink.context, out->room.text, out->room.len, out->err);
    if (!out->rc)
        out->rc = str_check(&out->room, "a text of the report", out->err);
    str_clear(&out->room);
}

/* Sends off what others wrote into `room`; call between two pieces. */
static void out_flow(Out *out)
{
    if (out->room.len >= OUT_PIECE)
        send_room(out);
}

int out_done(Out *out)
{
    send_room(out);
    str_done(&out->room);
    return out->rc;
}

void out_addn(Out *out, const char *text, size_t len)
{
    str_addn(&out->room, text, len);
    out_flow(out);
}

void out_add(Out *out, const char *text)
{
    out_addn(out, text, strlen(text));
}

void out_addc(Out *out, char c)
{
    str_addc(&out->room, c);
}

void out_addf(Out *out, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    str_addv(&out->room, fmt, args);
    va_end(args);
    out_flow(out);
}

void out_i64(Out *out, int64_t value)
{
    char text[NUMBER_I64_MAX];

    str_addn(&out->room, text, number_write_i64(text, value));
}

/* Quotes of JSON stay; '<' occurs in texts alone, so its escape is JSON too. */
static void add_quoted(Out *out, const char *text)
{
    size_t from = out->room.len, more = 0;

    str_add_json(&out->room, text);
    if (out->script)
        for (size_t i = from; i < out->room.len; i++)
            more += out->room.text[i] == '<';
    if (more && str_reserve(&out->room, more * 5)) {
        size_t to = out->room.len + more * 5, at = out->room.len;

        out->room.text[to] = '\0';
        out->room.len = to;
        while (at-- > from)
            if (out->room.text[at] == '<')
                memcpy(out->room.text + (to -= 6), "\\u003c", 6);
            else
                out->room.text[--to] = out->room.text[at];
    }
    out_flow(out);
}

void out_key(Out *out, const char *key)
{
    if (out->comma)
        out_addc(out, ',');
    out->comma = true;
    if (!key)
        return;
    out_addc(out, '"');
    out_add(out, key);
    str_addn(&out->room, "\":", 2);
}

void out_open(Out *out, const char *key, char bracket)
{
    out_key(out, key);
    out_addc(out, bracket);
    out->comma = false;
}

void out_close(Out *out, char bracket)
{
    out_addc(out, bracket);
    out->comma = true;
    out_flow(out);
}

void out_json_null(Out *out, const char *key)
{
    out_key(out, key);
    out_add(out, "null");
}

void out_json_text(Out *out, const char *key, const char *text)
{
    if (!text) {
        out_json_null(out, key);
        return;
    }
    out_key(out, key);
    add_quoted(out, text);
}

void out_json_i64(Out *out, const char *key, int64_t value)
{
    out_key(out, key);
    out_i64(out, value);
}

void out_json_u64(Out *out, const char *key, uint64_t value)
{
    char text[NUMBER_U64_MAX];

    out_key(out, key);
    str_addn(&out->room, text, number_write_u64(text, value));
}

void out_json_double(Out *out, const char *key, double value)
{
    char text[NUMBER_DOUBLE_MAX];

    if (!isfinite(value)) {
        out_json_null(out, key);
        return;
    }
    out_key(out, key);
    str_addn(&out->room, text, number_write_double(text, value));
}

void out_json_bool(Out *out, const char *key, bool value)
{
    out_key(out, key);
    out_add(out, value ? "true" : "false");
}

/* ---- CSV ---- */

void cell_text(Out *out, const char *text)
{
    size_t len = strlen(text);
    bool quote = strpbrk(text, ",\"\r\n") || (len && (text[0] == ' ' || text[len - 1] == ' '));

    if (quote)
        out_addc(out, '"');
    for (size_t at = 0, step; at < len; at += step) {
        uint32_t c = 0;

        step = utf8_read(text + at, len - at, &c);
        if (step)
            out_addn(out, text + at, step);
        else
            out_add(out, UTF8_REPLACEMENT);
        if (c == '"')
            out_addc(out, '"');
        step += step == 0;
    }
    if (quote)
        out_addc(out, '"');
}
