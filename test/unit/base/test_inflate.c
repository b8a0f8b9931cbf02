/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/gzip.c: a text comes back whatever the sizes of the pieces, from several members too; a cut or
 * damaged one gives what could be read and then says where it failed. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/gzip.h"
#include "base/cleanup.h"
#include "../slow.h"

enum { TEXT_BYTES = (1 << 20) / TEST_SLOW, ROOM = 4 << 20 };

/* Packed bytes that come in pieces of `piece`; at `fail_at` the source fails. */
typedef struct Feed {
    const char *bytes;
    size_t len, at, piece, fail_at;
} Feed;

static ssize_t pull(void *context, void *buffer, size_t len, Err *err)
{
    Feed *feed = context;
    size_t n = feed->len - feed->at;

    if (feed->at >= feed->fail_at)
        return err_set(err, -EIO, "the disk is gone");
    if (n > len)
        n = len;
    if (n > feed->piece)
        n = feed->piece;
    memcpy(buffer, feed->bytes + feed->at, n);
    feed->at += n;
    return (ssize_t)n;
}

static Feed feed_of(const Str *packed, size_t piece)
{
    return (Feed){.bytes = packed->text, .len = packed->len, .piece = piece, .fail_at = SIZE_MAX};
}

/* Lines that a trace could hold, and a stretch that does not compress. */
static void make_text(Str *text)
{
    uint32_t state = 1;

    for (int i = 0; text->len < TEXT_BYTES / 2; i++)
        str_addf(text, "{\"ph\": \"X\", \"name\": \"kernel_%d\", \"ts\": %d},\n", i % 17, i * 13);
    while (text->len < TEXT_BYTES) {
        state = state * 1664525 + 1013904223;
        str_addc(text, (char)(state >> 24));
    }
}

/* Reads all in pieces of `step`; returns the last result. */
static ssize_t read_all(Inflate *inflate, size_t step, Str *out, Err *err)
{
    CLEANUP_FREE char *room = xmalloc(step);
    ssize_t n;

    while ((n = inflate_read(inflate, room, step, err)) > 0)
        str_addn(out, room, (size_t)n);
    return n;
}

static void setup_texts(Str *text, Str *packed, Str *out)
{
    str_init(text, ROOM);
    str_init(packed, ROOM);
    str_init(out, ROOM);
    make_text(text);
    assert_int_equal(gzip_pack(text->text, text->len, packed, NULL), 0);
}

static void any_size_of_pieces(void **state)
{
    static const size_t pieces[] = {1, 7, 4096, INFLATE_INPUT * 2}, steps[] = {1000, 65536, INFLATE_OUTPUT * 3 + 1};
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    for (size_t p = 0; p < ARRAY_LEN(pieces); p++) {
        for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
            Feed feed = feed_of(&packed, pieces[p]);
            CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
            str_clear(&out);
            assert_int_equal(read_all(inflate, steps[s], &out, NULL), 0);
            assert_int_equal(out.len, text.len);
            assert_memory_equal(out.text, text.text, text.len);
            assert_int_equal(inflate_given(inflate), text.len);
            assert_int_equal(inflate_garbage(inflate), 0);
        }
    }
}

static void members_are_one_text(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    assert_int_equal(gzip_pack("", 0, &packed, NULL), 0);
    assert_int_equal(gzip_pack("tail", 4, &packed, NULL), 0);
    for (size_t piece = 1; piece < 4; piece++) {
        Feed feed = feed_of(&packed, piece);
        CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
        str_clear(&out);
        assert_int_equal(read_all(inflate, 4096, &out, NULL), 0);
        assert_int_equal(out.len, text.len + 4);
        assert_string_equal(out.text + text.len, "tail");
    }
}

/* Extra field, name, comment and checksum, then a text of 96 bytes; in pieces the header is cut everywhere. */
static void a_header_in_parts(void **state)
{
    static const char member[] =
        "\x1f\x8b\x08\x1e\x01\x02\x03\x04\x02\x03\x04\x00\x61\x62\x00\x00\x6e\x61\x6d\x65\x00"
        "\x63\x6f\x6d\x6d\x65\x6e\x74\x00\x0b\x90\x2b\x2e\xc9\xcf\x4e\x2d\x8a\x4f\x2f\x28\x8d\x2f\x2d"
        "\x50\x30\xe4\x2a\xa6\x32\x1f\x00\x1b\x2a\xa4\x10\x60\x00\x00\x00";
    CLEANUP(str_done) Str out = {0};

    (void)state;
    str_init(&out, ROOM);
    for (size_t piece = 1; piece < sizeof member; piece++) {
        Feed feed = {.bytes = member, .len = sizeof member - 1, .piece = piece, .fail_at = SIZE_MAX};
        CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
        str_clear(&out);
        assert_int_equal(read_all(inflate, 4096, &out, NULL), 0);
        assert_int_equal(out.len, 96);
        assert_memory_equal(out.text, "stoker_gpu_up 1\n", 16);
    }
}

/* With little room of its own the text is the same; a header that does not fit is one without end. */
static void little_room(void **state)
{
    static const char long_name[] = "\x1f\x8b\x08\x08\0\0\0\0\0\x03 a name of forty bytes, which is too long";
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};
    Err err = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    for (size_t room = 0; room < 40; room += 13) {
        Feed feed = feed_of(&packed, 100);
        CLEANUP(inflate_free_at) Inflate *inflate = inflate_new_sized(pull, &feed, room);
        str_clear(&out);
        assert_int_equal(read_all(inflate, 4096, &out, NULL), 0);
        assert_int_equal(out.len, text.len);
        assert_memory_equal(out.text, text.text, text.len);
    }
    Feed feed = {.bytes = long_name, .len = sizeof long_name, .piece = 100, .fail_at = SIZE_MAX};
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new_sized(pull, &feed, 32);
    assert_int_equal(read_all(inflate, 100, &out, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "its header has no end"));
}

static void garbage_behind_is_counted(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    str_addn(&packed, "\0\0\0\0\0\0\0\0", 8);
    Feed feed = feed_of(&packed, 100);
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
    assert_int_equal(read_all(inflate, 4096, &out, NULL), 0);
    assert_int_equal(out.len, text.len);
    assert_true(inflate_garbage(inflate) > 0);
}

/* Cut anywhere, what came out is the beginning of the text, and it is said that the end is missing. */
static void a_cut_text(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};
    Err err = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    for (size_t cut = 2; cut < packed.len; cut += cut < 64 ? 1 : packed.len / 50) {
        Feed feed = feed_of(&packed, 1000);
        feed.len = cut;
        CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
        str_clear(&out);
        assert_int_equal(read_all(inflate, 5000, &out, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "its end is missing"));
        assert_memory_equal(out.text, text.text, out.len);
        if (cut > packed.len / 2)
            assert_true(out.len > text.len / 8);
        assert_int_equal(inflate_read(inflate, &(char){0}, 1, &err), -EBADMSG); /* and it stays so */
    }
}

static void a_damaged_text(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};
    Err err = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    packed.text[packed.len - 6] ^= 1; /* of the checksum */
    Feed feed = feed_of(&packed, 4096);
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
    assert_int_equal(read_all(inflate, 4096, &out, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "checksum"));
    assert_int_equal(out.len, text.len);
}

static void what_is_no_gzip(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *said;
    } cases[] = {
        {"", 0, "empty"},
        {"{}", 2, "does not begin"},
        {"\x1f", 1, "does not begin"},
        {"\x1f\x8b\x07\0\0\0\0\0\0\0", 10, "another way"},
        {"\x1f\x8b\x08\xe0\0\0\0\0\0\0", 10, "flags"},
    };
    Err err = {0};
    char room[16];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Feed feed = {.bytes = cases[i].bytes, .len = cases[i].len, .piece = 1, .fail_at = SIZE_MAX};
        CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
        assert_int_equal(inflate_read(inflate, room, sizeof room, &err), -EBADMSG);
        assert_non_null(strstr(err.text, cases[i].said));
        assert_int_equal(inflate_given(inflate), 0);
    }
}

static void a_source_that_fails(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};
    Err err = {0};

    (void)state;
    setup_texts(&text, &packed, &out);
    Feed feed = feed_of(&packed, 4096);
    feed.fail_at = packed.len / 2;
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new(pull, &feed);
    assert_int_equal(read_all(inflate, 4096, &out, &err), -EIO);
    assert_string_equal(err.text, "the disk is gone");
    assert_true(out.len > 0);
}

static int push(void *context, const void *bytes, size_t len, Err *err)
{
    Str *out = context;

    str_addn(out, bytes, len);
    return str_check(out, "the packed text", err);
}

static void packing_in_pieces(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0}, out = {0};

    (void)state;
    str_init(&text, ROOM);
    str_init(&packed, ROOM);
    str_init(&out, ROOM);
    make_text(&text);
    for (size_t piece = 100; piece <= TEXT_BYTES * 2; piece *= 41) {
        CLEANUP(deflate_free_at) Deflate *deflate = deflate_new(push, &packed);
        str_clear(&packed);
        str_clear(&out);
        for (size_t at = 0; at < text.len; at += piece)
            assert_int_equal(
                deflate_write(deflate, text.text + at, text.len - at < piece ? text.len - at : piece, NULL), 0);
        assert_int_equal(deflate_end(deflate, NULL), 0);
        assert_true(packed.len < text.len);
        assert_int_equal(gzip_unpack(packed.text, packed.len, &out, NULL), 0);
        assert_int_equal(out.len, text.len);
        assert_memory_equal(out.text, text.text, text.len);
    }
}

static void packing_for_one_who_refuses(void **state)
{
    CLEANUP(str_done) Str text = {0}, packed = {0};

    (void)state;
    str_init(&text, ROOM);
    str_init(&packed, 1000);
    make_text(&text);
    CLEANUP(deflate_free_at) Deflate *deflate = deflate_new(push, &packed);
    assert_int_equal(deflate_write(deflate, text.text, text.len, NULL), -EFBIG);
}

static void packing_nothing(void **state)
{
    CLEANUP(str_done) Str packed = {0}, out = {0};

    (void)state;
    str_init(&packed, ROOM);
    str_init(&out, ROOM);
    CLEANUP(deflate_free_at) Deflate *deflate = deflate_new(push, &packed);
    assert_int_equal(deflate_end(deflate, NULL), 0);
    assert_int_equal(gzip_unpack(packed.text, packed.len, &out, NULL), 0);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size_of_pieces),
        cmocka_unit_test(members_are_one_text),
        cmocka_unit_test(a_header_in_parts),
        cmocka_unit_test(little_room),
        cmocka_unit_test(garbage_behind_is_counted),
        cmocka_unit_test(a_cut_text),
        cmocka_unit_test(a_damaged_text),
        cmocka_unit_test(what_is_no_gzip),
        cmocka_unit_test(a_source_that_fails),
        cmocka_unit_test(packing_in_pieces),
        cmocka_unit_test(packing_for_one_who_refuses),
        cmocka_unit_test(packing_nothing),
    };
    return cmocka_run_group_tests_name("inflate", tests, NULL, NULL);
}
