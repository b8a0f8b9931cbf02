/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the trace scanner. Whatever the bytes are, the result is the same in one piece, in pieces of any size,
 * with any way of walking, and in parts read by several threads; and the counts fit together. */
#include <stdlib.h>
#include <string.h>

#include "engine/trace/scan/inside.h"
#include "test/unit/trace_scan/kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The profile as text, or what went wrong. */
static Str print(const char *text, size_t len, const KitWay *way)
{
    Profile profile;
    Err err = {0};
    Str out;

    str_init(&out, (size_t)256 << 20);
    if (kit_scan(text, len, NULL, way, &profile, &err) < 0) {
        str_add(&out, err.text);
    } else {
        const size_t rows = profile.gpu.len + profile.host.len + profile.mark.len + profile.syncs.len;

        if (rows > profile.events || profile.ignored > profile.events || profile.bytes != len)
            abort();
        kit_print(&profile, &out);
    }
    profile_done(&profile);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t seed = size ? data[size - 1] : 0;
    const KitWay ways[] = {
        {.piece = 0},
        {.piece = SIZE_MAX, .seed = seed, .walker = seed},
        {.threads = 2 + seed % 2, .part_bytes = 1 + size / (2 + seed % 7)},
    };
    const Str whole = print((const char *)data, size, &ways[0]);

    for (size_t i = 1; i < sizeof ways / sizeof ways[0]; i++) {
        Str other = print((const char *)data, size, &ways[i]);

        if (other.len != whole.len || memcmp(other.text, whole.text, whole.len) != 0)
            abort();
        str_done(&other);
    }
    str_done(&(Str){.text = whole.text, .cap = whole.cap});
    return 0;
}
