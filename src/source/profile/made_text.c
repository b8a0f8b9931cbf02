/* SPDX-License-Identifier: Apache-2.0 */
#include "source/profile/made_text.h"

#include <string.h>

#include "base/number.h"

size_t made_text_read(MadeText *made, void (*write_part)(void *of), void *of, void *buffer, size_t len)
{
    char *out = buffer;
    size_t got = 0;

    while (got < len && !(made->ended && made->sent == made->text.len)) {
        if (made->sent == made->text.len) {
            str_clear(&made->text);
            made->sent = 0;
            write_part(of);
            continue;
        }
        const size_t n = number_min_u64(made->text.len - made->sent, len - got);

        memcpy(out + got, made->text.text + made->sent, n);
        made->sent += n;
        got += n;
    }
    made->given += got;
    return got;
}
