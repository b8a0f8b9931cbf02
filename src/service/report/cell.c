/* SPDX-License-Identifier: Apache-2.0 */
#include "service/report/cell.h"

#include <string.h>

#include "base/utf8.h"

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
