/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/pack.h"

void pack_begin(Pack *pack, Out *out, const char *key)
{
    *pack = (Pack){.out = out};
    out_key(out, key);
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
