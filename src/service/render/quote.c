/* SPDX-License-Identifier: Apache-2.0 */
#include "service/render/quote.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/utf8.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

void quote_shell(const char *text, Str *to)
{
    if (*text && !text[strspn(text, LETTERS DIGITS "_@%+=:,./-")]) {
        str_add(to, text);
        return;
    }
    str_addc(to, '\'');
    for (; *text; text++)
        if (*text == '\'')
            str_add(to, "'\\''");
        else
            str_addc(to, *text);
    str_addc(to, '\'');
}

/* Begins with a letter or a slash, has no character that means something, and is no word that does. */
static bool is_plain(const char *text)
{
    static const char *const words[] = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    if (!*text || !strchr(LETTERS "/", *text))
        return false;
    for (; *text; text++)
        if (!strchr(LETTERS DIGITS "/_.-:", *text) || (*text == ':' && !isalnum((unsigned char)text[1])))
            return false;
    return true;
}

static void add_character(uint32_t c, Str *to)
{
    if (c == '"' || c == '\\')
        str_addf(to, "\\%c", (int)c);
    else if (c == '\n')
        str_add(to, "\\n");
    else if (c >= ' ' && c < 0x7f)
        str_addc(to, (char)c);
    else if (c <= 0xffff)
        str_addf(to, "\\u%04x", c);
    else
        str_addf(to, "\\U%08x", c);
}

static void add_scalar(const char *text, bool literal, Str *to)
{
    if (is_plain(text)) {
        str_add(to, text);
        return;
    }
    str_addc(to, '"');
    for (size_t left = strlen(text), width; left > 0; left -= width, text += width) {
        uint32_t c = 0xfffd;

        width = utf8_read(text, left, &c);
        width += width == 0;
        if (literal && c == '$' && (text[1] == '$' || text[1] == '('))
            str_addc(to, '$');
        add_character(c, to);
    }
    str_addc(to, '"');
}

void quote_yaml(const char *text, Str *to)
{
    add_scalar(text, false, to);
}

void quote_yaml_literal(const char *text, Str *to)
{
    add_scalar(text, true, to);
}
