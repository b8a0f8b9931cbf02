/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the trace scanner. Whatever the bytes are, the counts fit together; and, for shares of the inputs, the
 * result is the same in one piece, in pieces of any size, with any way of walking, and in parts read by several
 * threads. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"
#include "test/fuzz/share.h"
#include "test/unit/trace_scan/kit.h"

enum { PRINT_MAX = 256 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came of a scan as text, or nothing where `out` is NULL. */
static void scan(const char *text, size_t len, const TraceScanOptions *options, const KitWay *way, Str *out)
{
    Profile profile;
    Err err = {0};
    const int rc = kit_scan(text, len, options, way, &profile, &err);

    if (rc >= 0) {
        const size_t rows = profile.gpu.len + profile.host.len + profile.mark.len + profile.syncs.len;

        if (rows > profile.events || profile.ignored > profile.events || profile.bytes != len)
            abort();
    }
    if (out && rc < 0)
        str_add(out, err.text);
    else if (out)
        kit_print(&profile, out);
    profile_done(&profile);
}

/* Two ways that must say the same. What learns does so once, the first time. */
static void compare(const char *text, size_t size, TraceScanOptions *options, const KitWay *one, const KitWay *other)
{
    CLEANUP(str_done) Str first = {0}, second = {0};

    str_init(&first, PRINT_MAX);
    str_init(&second, PRINT_MAX);
    scan(text, size, options, one, &first);
    options->learn = NULL;
    scan(text, size, options, other, &second);
    if (first.len != second.len || memcmp(first.text, second.text, first.len) != 0)
        abort();
}

static void check(const char *text, size_t size, TraceScanOptions options, uint32_t dice)
{
    const uint32_t seed = dice;
    const KitWay whole = {.piece = 0};
    const KitWay pieces = {.piece = SIZE_MAX, .seed = seed, .walker = seed};
    const KitWay threads = {.threads = 2 + seed / 8 % 2, .part_bytes = 1 + size / (2 + seed / 8 % 7)};
    const bool in_pieces = share_drawn(&dice, 6), in_threads = share_drawn(&dice, 64);

    if (in_pieces)
        compare(text, size, &options, &whole, &pieces);
    if (in_threads)
        compare(text, size, &options, &whole, &threads);
    if (!in_pieces && !in_threads)
        scan(text, size, &options, share_drawn(&dice, 2) ? &whole : &pieces, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t dice = share_dice(data, size);
    TraceKnown *known = share_drawn(&dice, 6) ? trace_known_new() : NULL;

    check((const char *)data, size, (TraceScanOptions){.learn = known}, dice);
    if (known)
        check((const char *)data, size, (TraceScanOptions){.known = known}, dice);
    trace_known_free(known);
    return 0;
}
