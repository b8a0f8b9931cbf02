/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: XLA's planes as trace text. Any bytes give text that the scanner reads, and the same text whatever the
 * size of the pieces it is read in. */
#include <stdlib.h>
#include <string.h>

#include "source/profile/xplane.h"
#include "test/unit/trace_scan/kit.h"

enum { TEXT_MAX = 64 << 20, PIECE = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Bytes {
    const uint8_t *at;
    size_t left;
} Bytes;

static ssize_t pull_bytes(void *context, void *buffer, size_t len, Err *err)
{
    Bytes *bytes = context;
    const size_t n = len < bytes->left ? len : bytes->left;

    (void)err;
    if (n)
        memcpy(buffer, bytes->at, n);
    bytes->at += n;
    bytes->left -= n;
    return (ssize_t)n;
}

static Str read_text(const uint8_t *data, size_t size, size_t piece)
{
    Bytes bytes = {data, size};
    Xplane *xplane = xplane_new(pull_bytes, &bytes);
    char buffer[PIECE];
    Str text;
    ssize_t n;

    str_init(&text, TEXT_MAX);
    while ((n = xplane_read(xplane, buffer, piece, NULL)) > 0)
        str_addn(&text, buffer, (size_t)n);
    if (n < 0 || xplane_given(xplane) != text.len)
        abort();
    xplane_free(xplane);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str text = read_text(data, size, PIECE);
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
