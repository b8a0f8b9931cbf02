/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: rocprofv3's JSON as trace text. Any bytes give text that the scanner reads, the same text whatever the
 * size of the pieces it is read in, and well-formed but for the lines that say what is damaged. */
#include "source/profile/rocprof.h"
#include "test/fuzz/source.h"
#include "test/unit/trace_scan/kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

FUZZ_SOURCE_TEXT(rocprof, Rocprof)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str text = read_text(data, size, 4096);
    CLEANUP(str_done) Str same = read_text(data, size, 1 + size % 61);
    CLEANUP(profile_done) Profile profile = {0};
    static const char damage[] = "\"damaged at byte ";
    Err err = {0};

    if (text.len != same.len || memcmp(text.text, same.text, text.len) != 0)
        abort();
    if (kit_scan(text.text, text.len, NULL, &(KitWay){0}, &profile, &err) < 0)
        abort();
    if (profile.lost_by_reason[PROFILE_LOSS_SYNTAX] && !memmem(text.text, text.len, damage, sizeof damage - 1))
        abort();
    rocprof_is_results((const char *)data, size);
    return 0;
}
