/* SPDX-License-Identifier: Apache-2.0 */
/* Covers src/base/gzip.c: round trips, what zlib wrote, and what nobody should have written. */
#include "base/gzip.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cleanup.h"

/* Members as zlib writes them, but for the head of every_header_field: extra field, name, comment and checksum. */
static const unsigned char stored[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x01, 0x60, 0x00, 0x9f, 0xff, 0x73, 0x74,
    0x6f, 0x6b, 0x65, 0x72, 0x5f, 0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x73, 0x74, 0x6f,
    0x6b, 0x65, 0x72, 0x5f, 0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x73, 0x74, 0x6f, 0x6b,
    0x65, 0x72, 0x5f, 0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x73, 0x74, 0x6f, 0x6b, 0x65,
    0x72, 0x5f, 0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x73, 0x74, 0x6f, 0x6b, 0x65, 0x72,
    0x5f, 0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x73, 0x74, 0x6f, 0x6b, 0x65, 0x72, 0x5f,
    0x67, 0x70, 0x75, 0x5f, 0x75, 0x70, 0x20, 0x31, 0x0a, 0x1b, 0x2a, 0xa4, 0x10, 0x60, 0x00, 0x00, 0x00};
static const unsigned char fixed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x2b, 0x2e, 0xc9,
                                      0xcf, 0x4e, 0x2d, 0x8a, 0x4f, 0x2f, 0x28, 0x8d, 0x2f, 0x2d, 0x50, 0x30, 0xe4,
                                      0x2a, 0xa6, 0x32, 0x1f, 0x00, 0x1b, 0x2a, 0xa4, 0x10, 0x60, 0x00, 0x00, 0x00};
static const unsigned char dynamic[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x05, 0xc1, 0x01, 0x11, 0x00, 0x30, 0x10, 0xc2,
    0x30, 0xad, 0xbd, 0x02, 0x3f, 0xff, 0x0a, 0x96, 0x60, 0x71, 0xa4, 0x38, 0x1c, 0x29, 0x3e, 0x3c, 0x3c, 0xf2,
    0xf0, 0xb0, 0x64, 0x58, 0x1c, 0x8e, 0x14, 0x1f, 0x1e, 0x39, 0x7c, 0x78, 0x58, 0x32, 0x2c, 0x8e, 0x0c, 0x8b,
    0x0f, 0x8f, 0x1c, 0x3e, 0x3c, 0x52, 0x1c, 0x16, 0x47, 0x86, 0xc5, 0x47, 0x0e, 0x0f, 0x1f, 0x1e, 0x29, 0x0e,
    0x4b, 0x86, 0xc3, 0xe2, 0x23, 0x87, 0x87, 0x8f, 0x1c, 0x16, 0x87, 0x25, 0xc3, 0x61, 0xc9, 0xc3, 0xc3, 0xc3,
    0x47, 0x0e, 0x8b, 0x23, 0xc5, 0xe1, 0xb0, 0xe4, 0xe1, 0xe1, 0x91, 0x87, 0x87, 0xc5, 0x91, 0xe2, 0x70, 0xa4,
    0xf8, 0xf0, 0xf0, 0xc8, 0xc3, 0xc3, 0x92, 0x61, 0x71, 0x38, 0x52, 0x7c, 0x78, 0xe4, 0xf0, 0xe1, 0x61, 0xc9,
    0xb0, 0x38, 0x32, 0x2c, 0x3e, 0x3c, 0x72, 0xf8, 0xf0, 0x48, 0x71, 0x58, 0x1c, 0x19, 0x16, 0x1f, 0x39, 0x3c,
    0x7c, 0x1f, 0x80, 0x8d, 0xb8, 0xe8, 0x68, 0x01, 0x00, 0x00};
static const unsigned char every_header_field[] = {
    0x1f, 0x8b, 0x08, 0x1e, 0x01, 0x02, 0x03, 0x04, 0x02, 0x03, 0x04, 0x00, 0x61, 0x62, 0x00,
    0x00, 0x6e, 0x61, 0x6d, 0x65, 0x00, 0x63, 0x6f, 0x6d, 0x6d, 0x65, 0x6e, 0x74, 0x00, 0x0b,
    0x90, 0x2b, 0x2e, 0xc9, 0xcf, 0x4e, 0x2d, 0x8a, 0x4f, 0x2f, 0x28, 0x8d, 0x2f, 0x2d, 0x50,
    0x30, 0xe4, 0x2a, 0xa6, 0x32, 0x1f, 0x00, 0x1b, 0x2a, 0xa4, 0x10, 0x60, 0x00, 0x00, 0x00};
static const unsigned char empty[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff,
                                      0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
enum { MANY = 16 * 1024 * 1024 };

static uint64_t random_state = 88172645463325252u;

static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

/* The checksum of RFC 1952, section 8, bit by bit. */
static uint32_t crc_of(const char *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint32_t little_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;

    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void assert_text(const Str *str, const char *bytes, size_t len)
{
    assert_int_equal(str->len, len);
    assert_true(len == 0 || memcmp(str->text, bytes, len) == 0);
}

/* Packs, checks the frame of RFC 1952, packs again elsewhere for the same bytes, unpacks. */
static void round_trip(const char *bytes, size_t len)
{
    CLEANUP(str_done) Str packed, again, back;

    str_init(&packed, MANY);
    str_init(&again, MANY);
    str_init(&back, MANY);
    assert_int_equal(gzip_pack(bytes, len, &packed, NULL), 0);
    assert_true(packed.len >= 18);
    assert_memory_equal(packed.text, "\x1f\x8b\x08\x00\x00\x00\x00\x00", 8); /* no flags, no time */
    assert_int_equal(little_u32(packed.text + packed.len - 8), crc_of(bytes, len));
    assert_int_equal(little_u32(packed.text + packed.len - 4), (uint32_t)len);

    str_add(&again, "before");
    assert_int_equal(gzip_pack(bytes, len, &again, NULL), 0);
    assert_int_equal(again.len, packed.len + 6);
    assert_memory_equal(again.text + 6, packed.text, packed.len);

    assert_int_equal(gzip_unpack(packed.text, packed.len, &back, NULL), 0);
    assert_text(&back, bytes, len);
}

static void test_round_trips_of_pages(void **state)
{
    CLEANUP(str_done) Str page;

    (void)state;
    str_init(&page, MANY);
    round_trip("", 0);
    round_trip("x", 1);
    for (unsigned i = 0; page.len < 400000; i++) {
        str_addf(&page, "DCGM_FI_DEV_POWER_USAGE{gpu=\"%u\",UUID=\"GPU-%08x\"} %u.%03u\n", i % 8, i % 8 * 2654435761u,
                 random_u32() % 700, random_u32() % 1000);
        if (i % 400 == 0)
            round_trip(page.text, page.len);
    }
}

static void test_round_trips_of_noise(void **state)
{
    CLEANUP_FREE char *bytes = xmalloc(1 << 20);

    (void)state;
    for (int round = 0; round < 60; round++) {
        size_t len = random_u32() % (round < 50 ? 4000 : 1 << 20);
        unsigned letters = 1 + random_u32() % 256;

        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(random_u32() % letters);
        round_trip(bytes, len);
    }
    memset(bytes, 0, 1 << 20);
    round_trip(bytes, 1 << 20);
}

/* One beginning with several ends: each pair is a member of its own. */
static void test_parts(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 300000};
    CLEANUP(str_done) Str page;

    (void)state;
    str_init(&page, MANY);
    while (page.len < 400000)
        str_addf(&page, "DCGM_FI_DEV_POWER_USAGE{gpu=\"%zu\"} %u\n", page.len % 8, random_u32() % 700);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        CLEANUP(str_done) Str first;
        GzipBeginning beginning;

        str_init(&first, MANY);
        assert_int_equal(gzip_begin(page.text, sizes[i], &first, &beginning, NULL), 0);
        for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
            CLEANUP(str_done) Str both, back;
            Str small = str_limited(10);

            str_init(&both, MANY);
            str_init(&back, MANY);
            str_addn(&both, first.text, first.len);
            assert_int_equal(gzip_finish(&beginning, page.text + sizes[i], sizes[k] / 2, &both, NULL), 0);
            assert_int_equal(gzip_unpack(both.text, both.len, &back, NULL), 0);
            assert_text(&back, page.text, sizes[i] + sizes[k] / 2);
            assert_int_equal(little_u32(both.text + both.len - 8), crc_of(page.text, sizes[i] + sizes[k] / 2));
            assert_int_equal(gzip_finish(&beginning, page.text, 100, &small, NULL), -EFBIG);
            assert_int_equal(small.len, 0);
            str_done(&small);
        }
    }
}

/* Parts of a stream: each can be read as soon as it is there, in any order, and an end fits behind all of them. */
static void test_parts_of_a_stream(void **state)
{
    static const char *const texts[] = {"event: tick\n\n", "event: incident\n\n", "x"};
    static const size_t order[] = {0, 1, 0, 2, 0, 1};
    CLEANUP(str_done)
    Str packed = str_limited(MANY), all = str_limited(MANY), back = str_limited(MANY), small = str_limited(3);
    Err err;

    (void)state;
    str_addn(&packed, gzip_stream_head, GZIP_STREAM_HEAD);
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        const char *text = texts[order[i]];

        assert_int_equal(gzip_part(text, strlen(text), &packed, &err), 0);
        str_add(&all, text);
        CLEANUP(str_done) Str whole = str_limited(MANY);
        str_addn(&whole, packed.text, packed.len);
        const GzipBeginning beginning = {crc_of(all.text, all.len), (uint32_t)all.len};
        assert_int_equal(gzip_finish(&beginning, "end", 3, &whole, &err), 0);
        str_clear(&back);
        assert_int_equal(gzip_unpack(whole.text, whole.len, &back, &err), 0);
        assert_int_equal(back.len, all.len + 3);
        assert_memory_equal(back.text, all.text, all.len);
    }
    assert_int_equal(gzip_part(texts[0], strlen(texts[0]), &small, &err), -EFBIG);
    assert_int_equal(small.len, 0);
}

static void test_a_page_shrinks(void **state)
{
    CLEANUP(str_done) Str page, packed;

    (void)state;
    str_init(&page, MANY);
    str_init(&packed, MANY);
    while (page.len < 70000)
        str_addf(&page, "DCGM_FI_DEV_GPU_TEMP{gpu=\"%zu\",modelName=\"NVIDIA H100 80GB HBM3\"} %u\n", page.len % 8,
                 30 + random_u32() % 50);
    assert_int_equal(gzip_pack(page.text, page.len, &packed, NULL), 0);
    assert_true(packed.len < page.len / 8);
}

static void test_reads_what_zlib_wrote(void **state)
{
    static const char six[] = "stoker_gpu_up 1\nstoker_gpu_up 1\nstoker_gpu_up 1\nstoker_gpu_up 1\nstoker_gpu_up 1\n"
                              "stoker_gpu_up 1\n";
    char skew[360];
    const struct {
        const unsigned char *bytes;
        size_t size;
        const char *text;
        size_t len;
    } rows[] = {
        {stored, sizeof stored, six, sizeof six - 1},
        {fixed, sizeof fixed, six, sizeof six - 1},
        {dynamic, sizeof dynamic, skew, sizeof skew},
        {every_header_field, sizeof every_header_field, six, sizeof six - 1},
        {empty, sizeof empty, "", 0},
    };

    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        skew[3 * i] = "aab"[i * i % 3];
        skew[3 * i + 1] = "ccd"[i % 7 % 3];
        skew[3 * i + 2] = "efgh"[i * i * i % 11 % 4];
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(str_done) Str out, two;

        str_init(&out, 1000);
        str_init(&two, 2000);
        assert_int_equal(gzip_unpack((const char *)rows[i].bytes, rows[i].size, &out, NULL), 0);
        assert_text(&out, rows[i].text, rows[i].len);

        for (size_t k = 0; k < ARRAY_LEN(rows); k++) { /* members one behind the other are one text */
            CLEANUP(str_done) Str both;

            str_init(&both, 2000);
            str_addn(&both, (const char *)rows[i].bytes, rows[i].size);
            str_addn(&both, (const char *)rows[k].bytes, rows[k].size);
            str_clear(&two);
            assert_int_equal(gzip_unpack(both.text, both.len, &two, NULL), 0);
            assert_int_equal(two.len, rows[i].len + rows[k].len);
            assert_memory_equal(two.text, rows[i].text, rows[i].len);
            assert_memory_equal(two.text + rows[i].len, rows[k].text, rows[k].len);
        }
    }
}

/* Every beginning of a member, every byte of it changed, and something behind it: never taken for whole. */
static void check_damage(const unsigned char *bytes, size_t size, size_t unchecked)
{
    CLEANUP(str_done) Str out;
    CLEANUP_FREE char *copy = xmalloc(size + 1);
    Err err = {0};

    str_init(&out, 1000);
    str_add(&out, "kept");
    for (size_t len = 0; len < size; len++) {
        CLEANUP_FREE char *exact = xmalloc(len);

        memcpy(exact, bytes, len);
        assert_int_equal(gzip_unpack(exact, len, &out, &err), -EBADMSG);
        assert_non_null(strstr(err.text, "damaged"));
        assert_string_equal(out.text, "kept");
    }
    for (size_t i = 0; i < size; i++) {
        memcpy(copy, bytes, size);
        copy[i] ^= 0x41;
        if (i < 4 || i >= unchecked)
            assert_int_equal(gzip_unpack(copy, size, &out, NULL), -EBADMSG);
        else if (gzip_unpack(copy, size, &out, NULL) == 0)
            str_cut(&out, 4);
        assert_string_equal(out.text, "kept");
    }
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    assert_int_equal(gzip_unpack(copy, size + 1, &out, NULL), -EBADMSG);
    assert_string_equal(out.text, "kept");
}

static void test_damage_is_seen(void **state)
{
    (void)state;
    check_damage(stored, sizeof stored, 10);
    check_damage(fixed, sizeof fixed, 10);
    check_damage(dynamic, sizeof dynamic, 10);
    check_damage(every_header_field, sizeof every_header_field, 31);
}

static void test_ceilings(void **state)
{
    CLEANUP(str_done) Str packed, out, small;
    char text[5000];
    Err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)random_u32();
    str_init(&packed, MANY);
    assert_int_equal(gzip_pack(text, sizeof text, &packed, NULL), 0);

    for (size_t less = 0; less < 3; less++) {
        str_init(&out, sizeof text - less);
        assert_int_equal(gzip_unpack(packed.text, packed.len, &out, &err), less ? -EFBIG : 0);
        assert_int_equal(out.len, less ? 0 : sizeof text);
        assert_false(out.overflow);
        assert_true(!less || strstr(err.text, "unpacked"));
        str_done(&out);

        str_init(&small, packed.len - less);
        assert_int_equal(gzip_pack(text, sizeof text, &small, &err), less ? -EFBIG : 0);
        assert_int_equal(small.len, less ? 0 : packed.len);
        str_done(&small);
    }
    /* a bomb stops at the ceiling */
    {
        CLEANUP_FREE char *zeros = xcalloc(1, MANY);

        str_clear(&packed);
        assert_int_equal(gzip_pack(zeros, MANY, &packed, NULL), 0);
        assert_true(packed.len < MANY / 50);
        str_init(&out, 100000);
        assert_int_equal(gzip_unpack(packed.text, packed.len, &out, NULL), -EFBIG);
        assert_true(out.cap <= 200002);
    }
}

static void *pack_many(void *unused)
{
    char text[20000];

    (void)unused;
    for (unsigned round = 0; round < 20; round++) {
        CLEANUP(str_done) Str packed, back;

        str_init(&packed, MANY);
        str_init(&back, sizeof text);
        for (unsigned i = 0; i < sizeof text; i++)
            text[i] = (char)(i * i * (round + 1) >> 7);
        if (gzip_pack(text, sizeof text, &packed, NULL) < 0 || gzip_unpack(packed.text, packed.len, &back, NULL) < 0 ||
            memcmp(back.text, text, sizeof text) != 0)
            return NULL;
    }
    return &random_state;
}

static void test_any_thread(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pack_many, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *result = NULL;

        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips_of_pages), cmocka_unit_test(test_round_trips_of_noise),
        cmocka_unit_test(test_a_page_shrinks),       cmocka_unit_test(test_reads_what_zlib_wrote),
        cmocka_unit_test(test_damage_is_seen),       cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_any_thread),           cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_of_a_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
