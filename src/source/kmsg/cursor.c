/* SPDX-License-Identifier: Apache-2.0 */
#include "source/kmsg/cursor.h"

#include <ctype.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

enum { DIGITS_MAX = 9, HEX_MAX = 8, PCI_MAX = 32 };

bool cursor_skip(Cursor *c, const char *word)
{
    const size_t len = strlen(word);

    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

bool cursor_find(Cursor *c, const char *word)
{
    const char *at = memmem(c->at, (size_t)(c->end - c->at), word, strlen(word));

    if (!at)
        return false;
    c->at = at + strlen(word);
    return true;
}

bool cursor_has(Cursor c, const char *word)
{
    return cursor_find(&c, word);
}

void cursor_blanks(Cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
}

bool cursor_number(Cursor *c, uint32_t *ret)
{
    const char *at = c->at;
    uint32_t value = 0;

    while (at < c->end && *at >= '0' && *at <= '9' && at - c->at < DIGITS_MAX)
        value = value * 10 + (uint32_t)(*at++ - '0');
    if (at == c->at || (at < c->end && *at >= '0' && *at <= '9'))
        return false;
    c->at = at;
    *ret = value;
    return true;
}

bool cursor_hex(Cursor *c, uint32_t *ret)
{
    Cursor in = *c;
    size_t digits = 0;
    uint64_t value;

    if (!cursor_skip(&in, "0x"))
        return false;
    while (in.at + digits < in.end && isxdigit((unsigned char)in.at[digits]))
        digits++;
    if (digits > HEX_MAX || number_parsen_hex(in.at, digits, UINT32_MAX, &value, NULL) < 0)
        return false;
    c->at = in.at + digits;
    *ret = (uint32_t)value;
    return true;
}

bool cursor_pci(Cursor *c, PciAddress *ret)
{
    char text[PCI_MAX];
    const char *at = c->at;
    size_t n = 0;

    if (c->end - at > 4 && memcmp(at, "PCI:", 4) == 0)
        at += 4;
    while (at < c->end && n + 1 < sizeof text && (isxdigit((unsigned char)*at) || *at == ':' || *at == '.'))
        text[n++] = *at++;
    /* The full stop of a sentence, the colon behind a name. */
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':')) {
        n--;
        at--;
    }
    text[n] = '\0';
    if (n == 0 || pci_parse(text, ret) < 0)
        return false;
    c->at = at;
    return true;
}

void cursor_show(const char *text, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t at = 0, step; at < len; at += step) {
        uint32_t c;

        step = utf8_read(text + at, len - at, &c);
        if (step == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            if (n + 2 > cap)
                break;
            out[n++] = step && (c == '\t' || c == '\n') ? ' ' : '?';
            step = step ? step : 1;
            continue;
        }
        if (n + step + 1 > cap)
            break;
        memcpy(out + n, text + at, step);
        n += step;
    }
    out[n] = '\0';
}

bool cursor_until(Cursor *c, const char *stop, bool open, char *out, size_t cap)
{
    const char *at = memmem(c->at, (size_t)(c->end - c->at), stop, strlen(stop));

    if (!at && !open)
        return false;
    const char *end = at ? at : c->end;

    cursor_show(c->at, (size_t)(end - c->at), out, cap);
    c->at = at ? at + strlen(stop) : c->end;
    return true;
}
