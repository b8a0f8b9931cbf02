/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered writing, and numbers packed for the page. */
#include "service/report/out.h"

#include <string.h>

#include "base/json.h"

enum { OUT_PIECE = 64 * 1024 };
/* Over any text that a profile can hold; a sink sees pieces of about OUT_PIECE. */
static const size_t out_room_max = (size_t)1 << 31;

void out_init(Out *out, ReportSink sink, Err *err)
{
    *out = (Out){.sink = sink, .err = err};
    str_init(&out->room, out_room_max);
}

static void send_text(Out *out, const char *text, size_t len)
{
    if (!out->rc && len)
        out->rc = out->sink.write(out->sink.context, text, len, out->err);
}

/* '<' occurs in texts of JSON alone, so its escape is JSON too. */
static void send_script(Out *out, const char *text, size_t len)
{
    const char *end = text + len, *tag;
    Str safe;

    str_init(&safe, out_room_max);
    for (; (tag = memchr(text, '<', (size_t)(end - text))); text = tag + 1) {
        str_addn(&safe, text, (size_t)(tag - text));
        str_add(&safe, "\\u003c");
    }
    str_addn(&safe, text, (size_t)(end - text));
    send_text(out, safe.text, safe.len);
    str_done(&safe);
}

/* Sends all but the last `kept` bytes. */
static void send_room(Out *out, size_t kept)
{
    size_t len = out->room.len - kept;
    char last = kept ? out->room.text[len] : '\0';

    if (len)
        (out->script ? send_script : send_text)(out, out->room.text, len);
    if (!out->rc)
        out->rc = str_check(&out->room, "a text of the report", out->err);
    str_clear(&out->room);
    if (kept)
        str_addc(&out->room, last);
}

void out_flow(Out *out)
{
    if (out->room.len > OUT_PIECE)
        send_room(out, 1);
}

void out_set_script(Out *out, bool script)
{
    send_room(out, 0);
    out->script = script;
}

int out_done(Out *out)
{
    send_room(out, 0);
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

/* ---- numbers in few bytes ---- */

void pack_begin(Pack *pack, Out *out, const char *key)
{
    *pack = (Pack){.out = out};
    json_add_key(&out->room, key);
    out_addc(out, '"');
}

/* Three bytes, or the last one or two, as four characters. */
static void flush_triple(Pack *pack)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = (uint32_t)pack->bytes[0] << 16 | (uint32_t)pack->bytes[1] << 8 | pack->bytes[2];
    char text[] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63], digits[bits & 63]};

    if (pack->count < 3)
        text[3] = '=';
    if (pack->count < 2)
        text[2] = '=';
    if (pack->count)
        out_addn(pack->out, text, sizeof(text));
    *pack = (Pack){.out = pack->out};
}

void pack_byte(Pack *pack, uint8_t byte)
{
    pack->bytes[pack->count++] = byte;
    if (pack->count == 3)
        flush_triple(pack);
}

void pack_u64(Pack *pack, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        pack_byte(pack, (uint8_t)(value | 128));
    pack_byte(pack, (uint8_t)value);
}

void pack_end(Pack *pack)
{
    flush_triple(pack);
    out_addc(pack->out, '"');
}
