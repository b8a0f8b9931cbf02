/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what clean_json makes of any text is JSON that it leaves as it is, and is UTF-8 without control
 * characters in texts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "verb/trace/clean_json.h"

enum { TEXT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str once = {0}, twice = {0};

    str_init(&once, TEXT_MAX);
    str_init(&twice, TEXT_MAX);
    str_add(&once, "before");
    if (!clean_json((const char *)data, size, &once)) {
        must(strcmp(once.text, "before") == 0);
        return 0;
    }
    must(clean_json(once.text + 6, once.len - 6, &twice));
    must(twice.len == once.len - 6 && memcmp(twice.text, once.text + 6, twice.len) == 0);
    for (size_t i = 0; i < once.len; i++)
        must((unsigned char)once.text[i] >= 0x20 || strchr("\n\r\t", once.text[i]));
    return 0;
}
