/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the trace scanner. Whatever the bytes are, the result is the same in one piece, in pieces of any size,
 * with any way of walking, and in parts read by several threads; and the counts fit together. */
#include <stdlib.h>
#include <string.h>

#include "engine/trace/scan/inside.h"
#include "test/unit/trace_scan/kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The profile as text, or what went wrong. */
static Str print(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way)
{
    Profile profile;
    Err err = {0};
    Str out;

    str_init(&out, (size_t)256 << 20);
    if (kit_scan(text, len, options, way, &profile, &err) < 0) {
        str_add(&out, err.text);
    } else {
        const size_t rows = profile.gpu.len + profile.host.len + profile.mark.len + profile.syncs.len;

        if (rows > profile.events || profile.ignored > profile.events || (profile.bytes != len && !options->owner))
            abort();
        kit_print(&profile, &out);
    }
    profile_done(&profile);
    return out;
}

/* Ways that must say the same. */
static void compare(const char *text, size_t size, const TraceScanOptions *options, uint32_t seed)
{
    const KitWay ways[] = {
        {.piece = 0},
        {.piece = SIZE_MAX, .seed = seed, .walker = seed},
        {.threads = 2 + seed / 8 % 2, .part_bytes = 1 + size / (2 + seed / 8 % 7), .streamed = seed / 64 % 2},
    };
    const size_t tried = seed % 8 ? 2 : 3; /* threads are slow: not each time */
    const Str whole = print(text, size, options, &ways[0]);

    for (size_t i = 1; i < tried; i++) {
        const TraceScanOptions again = {.known = options->known,
                                        .owner = options->owner}; /* what learns does so once */
        Str other = print(text, size, &again, &ways[i]);

        if (other.len != whole.len || memcmp(other.text, whole.text, whole.len) != 0)
            abort();
        str_done(&other);
    }
    str_done(&(Str){.text = whole.text, .cap = whole.cap});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t seed = size ? data[size - 1] : 0;
    TraceKnown *known = trace_known_new();

    compare((const char *)data, size, &(TraceScanOptions){.learn = known}, seed);
    if (trace_known_owners(known))
        compare((const char *)data, size,
                &(TraceScanOptions){.known = known, .owner = seed % (trace_known_owners(known) + 1)}, seed);
    trace_known_free(known);
    return 0;
}
