/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a stream of gzip that nobody packed, in pieces whose sizes the first bytes choose, gives what unpacking
 * it at once gives, or fails where that fails; and what was packed in pieces comes back. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "base/inflate.h"
#include "base/owner.h"

enum { TEXT_MAX = 1 << 20, STEP_MAX = 5000 };

OWNER_POINTER(Inflate, inflate_free);
OWNER_POINTER(Deflate, deflate_free);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Feed {
    const uint8_t *bytes;
    size_t len, at, piece;
} Feed;

static void must(int holds)
{
    if (!holds)
        abort();
}

static ssize_t pull(void *context, void *buffer, size_t len, Err *err)
{
    Feed *feed = context;
    size_t n = feed->len - feed->at;

    (void)err;
    n = n < len ? n : len;
    n = n < feed->piece ? n : feed->piece;
    memcpy(buffer, feed->bytes + feed->at, n);
    feed->at += n;
    return (ssize_t)n;
}

static int push(void *context, const void *bytes, size_t len, Err *err)
{
    Str *out = context;

    str_addn(out, bytes, len);
    return str_check(out, "the packed text", err);
}

/* Unpacks with the pieces given, at most up to the ceiling of `out`. */
static ssize_t unpack(const uint8_t *data, size_t size, size_t piece, size_t step, Str *out, uint64_t *garbage)
{
    Feed feed = {.bytes = data, .len = size, .piece = piece};
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
    char room[STEP_MAX];
    ssize_t n;

    while ((n = inflate_read(inflate, room, step, NULL)) > 0 && !out->overflow)
        str_addn(out, room, (size_t)n);
    must(n >= 0 || n == -EBADMSG);
    must(n < 0 || out->overflow || inflate_given(inflate) == out->len);
    must(inflate_taken(inflate) <= size);
    *garbage = inflate_garbage(inflate);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(str_done) Str out = {0}, other = {0}, packed = {0}, back = {0};
    uint64_t garbage, other_garbage;

    if (size < 2)
        return 0;
    const size_t piece = data[0] + 1u, step = data[1] * 19u + 1;
    str_init(&out, TEXT_MAX);
    str_init(&other, TEXT_MAX);
    str_init(&packed, 2 * TEXT_MAX);
    str_init(&back, TEXT_MAX);
    ssize_t rc = unpack(data + 2, size - 2, piece, step, &out, &garbage);
    ssize_t other_rc = unpack(data + 2, size - 2, SIZE_MAX, STEP_MAX, &other, &other_garbage);
    if (out.overflow || other.overflow)
        return 0;
    must(rc == other_rc && !garbage == !other_garbage);
    must(rc < 0 || (out.len == other.len && memcmp(out.text, other.text, out.len) == 0));
    CLEANUP(deflate_free_at) Deflate *deflate = deflate_new(push, &packed);
    for (size_t at = 0; at < size; at += piece)
        must(deflate_write(deflate, data + at, size - at < piece ? size - at : piece, NULL) == 0);
    must(deflate_end(deflate, NULL) == 0);
    must(gzip_unpack(packed.text, packed.len, &back, NULL) == 0);
    must(back.len == size && memcmp(back.text, data, size) == 0);
    return 0;
}
