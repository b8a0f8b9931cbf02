/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: XLA's planes as trace text. Any bytes give text that the scanner reads, and the same text whatever the
 * size of the pieces it is read in. */
#include "source/profile/xplane.h"
#include "test/fuzz/source.h"
#include "test/unit/trace_scan/kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

FUZZ_SOURCE_TEXT(xplane, Xplane)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str text = read_text(data, size, 4096);
    CLEANUP(str_done) Str same = read_text(data, size, 1 + size % 61);
    CLEANUP(profile_done) Profile profile = {0};
    Err err = {0};

    if (text.len != same.len || memcmp(text.text, same.text, text.len) != 0)
        abort();
    if (kit_scan(text.text, text.len, NULL, &(KitWay){0}, &profile, &err) < 0)
        abort();
    if (profile.lost_by_reason[PROFILE_LOSS_SYNTAX]) /* whatever it is, it is well-formed */
        abort();
    xplane_is_xspace((const char *)data, size);
    return 0;
}
