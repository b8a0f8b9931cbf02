/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a stream of gzip that nobody packed, or its blocks alone, in pieces and with room whose sizes the first
 * bytes choose; for a share of the inputs it is seen to give what unpacking it at once gives, or to fail where that
 * fails, and what was packed in pieces comes back. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "base/cleanup.h"
#include "test/fuzz/share.h"

enum { TEXT_MAX = 1 << 20, STEP_MAX = 5000, MEMBER_MAX = 4096 };

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

/* A way of reading a stream and what came of it. */
typedef struct Way {
    size_t piece, step, room; /* bytes that the source gives, that are asked for, and of the stream's own input */
    Str out;                  /* at most up to its ceiling */
    uint64_t garbage;
    ssize_t rc;
    Err err;
} Way;

static void unpack(const uint8_t *data, size_t size, Way *way)
{
    Feed feed = {.bytes = data, .len = size, .piece = way->piece};
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new_sized(pull, &feed, way->room);
    char room[STEP_MAX];
    ssize_t n;

    str_init(&way->out, TEXT_MAX);
    while ((n = inflate_read(inflate, room, way->step, &way->err)) > 0 && !way->out.overflow)
        str_addn(&way->out, room, (size_t)n);
    must(n >= 0 || n == -EBADMSG);
    must(n < 0 || way->out.overflow || inflate_given(inflate) == way->out.len);
    way->garbage = inflate_garbage(inflate);
    way->rc = n;
}

/* A header that does not fit the room is a fault of that way alone. */
static bool fits(const Way *way)
{
    return !way->out.overflow && (way->rc >= 0 || !strstr(way->err.text, "its header has no end"));
}

static void compare(const Way *one, const Way *other)
{
    if (!fits(one) || !fits(other))
        return;
    must(one->rc == other->rc && !one->garbage == !other->garbage);
    must(one->rc < 0 || (one->out.len == other->out.len && memcmp(one->out.text, other->out.text, one->out.len) == 0));
}

static void and_back(const uint8_t *data, size_t size, size_t piece)
{
    CLEANUP(str_done) Str packed = {0}, back = {0};
    CLEANUP(deflate_free_at) Deflate *deflate = deflate_new(push, &packed);

    str_init(&packed, 2 * TEXT_MAX);
    str_init(&back, TEXT_MAX);
    for (size_t at = 0; at < size; at += piece)
        must(deflate_write(deflate, data + at, size - at < piece ? size - at : piece, NULL) == 0);
    must(deflate_end(deflate, NULL) == 0);
    must(gzip_unpack(packed.text, packed.len, &back, NULL) == 0);
    must(back.len == size && memcmp(back.text, data, size) == 0);
}

static void check(const uint8_t *data, size_t size, size_t piece, size_t step, size_t room, bool compared)
{
    Way pieces = {.piece = piece, .step = step, .room = room};

    unpack(data, size, &pieces);
    if (compared) {
        Way whole = {.piece = SIZE_MAX, .step = STEP_MAX, .room = size};
        unpack(data, size, &whole);
        compare(&pieces, &whole);
        str_done(&whole.out);
    }
    str_done(&pieces.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    uint8_t member[sizeof header + MEMBER_MAX];
    uint32_t dice = share_dice(data, size);
    const bool compared = share_drawn(&dice, 4);

    if (size < 2)
        return 0;
    const size_t piece = data[0] + 1u, step = data[1] * 19u + 1, len = size - 2;
    const size_t room = data[0] % 4 ? size + sizeof header : data[1];
    if (data[1] % 2 == 0 && len <= MEMBER_MAX) { /* behind a header that is right: blocks */
        memcpy(member, header, sizeof header);
        memcpy(member + sizeof header, data + 2, len);
        check(member, sizeof header + len, piece, step, room, compared);
    } else {
        check(data + 2, len, piece, step, room, compared);
    }
    if (share_drawn(&dice, 64))
        and_back(data, size, piece);
    return 0;
}
