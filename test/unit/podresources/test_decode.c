/* SPDX-License-Identifier: Apache-2.0 */
/* src/source/podresources/podresources.c on bytes put together here. The sharper lies are in test_podresources.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "source/podresources/podresources.h"

typedef struct Decoded {
    AllocationTable table;
    PodResourcesFound found;
    int rc;
    Err err;
} Decoded;

static const char *const names[] = {"example.com/gpu"};
static const PodResourcesConfig config = {.resource_names = names, .resource_name_count = 1};

static void decoded_done(Decoded *decoded)
{
    allocation_table_done(&decoded->table);
}

static void add_varint(Str *out, size_t n)
{
    for (; n > 0x7f; n >>= 7)
        str_addc(out, (char)(n & 0x7f) | (char)0x80);
    str_addc(out, (char)n);
}

static void add_field(Str *out, unsigned number, const char *bytes, size_t len)
{
    add_varint(out, number << 3 | 2);
    add_varint(out, len);
    str_addn(out, bytes, len);
}

static void add_text(Str *out, unsigned number, const char *text)
{
    add_field(out, number, text, strlen(text));
}

/* Adds a pod of one container with one entry of one device. */
static void add_pod(Str *out, const char *name, const char *resource, const char *id)
{
    Str pod, container, devices;

    str_init(&pod, 4096), str_init(&container, 4096), str_init(&devices, 4096);
    add_text(&devices, 1, resource);
    add_text(&devices, 2, id);
    add_text(&container, 1, "main");
    add_field(&container, 2, devices.text, devices.len);
    add_text(&pod, 1, name);
    add_text(&pod, 2, "ns");
    add_field(&pod, 3, container.text, container.len);
    add_field(out, 1, pod.text, pod.len);
    str_done(&pod), str_done(&container), str_done(&devices);
}

static void decode(const Str *in, Decoded *ret)
{
    *ret = (Decoded){.found = {.pods = 77, .odd_ids = 77}};
    allocation_table_init(&ret->table);
    ret->rc = podresources_decode((const uint8_t *)in->text, in->len, &config, &ret->table, &ret->found, &ret->err);
}

static void test_rows_are_sorted_and_single(void **state)
{
    CLEANUP(str_done) Str in;
    CLEANUP(decoded_done) Decoded out;

    (void)state;
    str_init(&in, 1 << 16);
    add_pod(&in, "b", "nvidia.com/gpu", "GPU-2");
    add_pod(&in, "c", "nvidia.com/gpu", "GPU-1");
    add_pod(&in, "a", "nvidia.com/mig-1g.5gb", "GPU-2");
    add_pod(&in, "b", "example.com/gpu", "GPU-2");
    add_pod(&in, "d", "example.com/gpux", "GPU-0");
    add_pod(&in, "e", "nvidia.com/mig", "GPU-0");
    add_pod(&in, "f", "nvidia.com/gpu", "no device");
    decode(&in, &out);
    assert_int_equal(out.rc, 0);
    assert_int_equal(out.table.len, 3);
    assert_string_equal(out.table.at[0].pod, "c");
    assert_string_equal(out.table.at[1].pod, "a");
    assert_string_equal(out.table.at[2].pod, "b");
    assert_string_equal(out.table.at[2].device.uuid, "GPU-2");
    assert_string_equal(out.table.at[2].namespace, "ns");
    assert_string_equal(out.table.at[2].container, "main");
    assert_string_equal(out.table.at[2].pod_uid, "");
    assert_int_equal(out.found.odd_ids, 1);
    assert_int_equal(out.found.pods, 4); /* b counts twice: the same name came twice */
}

static void test_nothing(void **state)
{
    CLEANUP(str_done) Str in;
    CLEANUP(decoded_done) Decoded out;

    (void)state;
    str_init(&in, 16);
    decode(&in, &out);
    assert_int_equal(out.rc, 0);
    assert_int_equal(out.table.len + out.found.pods + out.found.odd_ids, 0);
}

/* Every cut of a good reply is either a good one of fewer pods or refused, with an empty table. */
static void test_cut_short(void **state)
{
    CLEANUP(str_done) Str in;
    size_t whole, good = 0;

    (void)state;
    str_init(&in, 1 << 16);
    add_pod(&in, "one", "nvidia.com/gpu", "GPU-1");
    whole = in.len;
    add_pod(&in, "two", "nvidia.com/gpu", "GPU-2");
    while (in.len) {
        CLEANUP(decoded_done) Decoded out;

        str_cut(&in, in.len - 1);
        decode(&in, &out);
        if (out.rc == 0) {
            assert_true(in.len == whole || in.len == 0);
            assert_int_equal(out.table.len, in.len == whole);
            good++;
            continue;
        }
        assert_int_equal(out.rc, -EBADMSG);
        assert_int_equal(out.err.code, -EBADMSG);
        assert_int_equal(out.table.len, 0);
        assert_int_equal(out.found.pods, 77); /* untouched */
    }
    assert_int_equal(good, 2);
}

static int decode_rc(const Str *in)
{
    CLEANUP(decoded_done) Decoded out;

    decode(in, &out);
    assert_true(out.rc == 0 || out.table.len == 0);
    return out.rc;
}

/* True where the pod with a device is in the table; an odd one is left out and counted, and costs no other. */
static bool is_taken(const Str *pods)
{
    CLEANUP(str_done) Str in;
    CLEANUP(decoded_done) Decoded out;

    str_init(&in, 1 << 16);
    add_pod(&in, "before", "nvidia.com/gpu", "GPU-7");
    str_addn(&in, pods->text, pods->len);
    add_pod(&in, "after", "nvidia.com/gpu", "GPU-8");
    decode(&in, &out);
    assert_int_equal(out.rc, 0);
    assert_int_equal(out.table.len, out.found.pods);
    assert_int_equal(out.found.pods + out.found.odd_pods, 3);
    assert_true(out.found.odd_pods == (out.found.odd_why[0] != '\0'));
    return out.table.len == 3;
}

static void test_names(void **state)
{
    char name[256];

    (void)state;
    for (size_t len = 252; len < 256; len++) {
        CLEANUP(str_done) Str in;

        str_init(&in, 1 << 16);
        memset(name, 'n', len);
        name[len] = '\0';
        add_pod(&in, name, "nvidia.com/gpu", "GPU-1");
        assert_true(is_taken(&in) == (len <= 253));
    }
    for (int c = 1; c < 256; c++) {
        CLEANUP(str_done) Str in, other;

        str_init(&in, 1 << 16);
        str_init(&other, 1 << 16);
        (void)snprintf(name, sizeof(name), "a%cb", c);
        add_pod(&in, name, "nvidia.com/gpu", "GPU-1");
        add_pod(&other, name, "cpu", "1"); /* a pod without our devices may be called anything */
        assert_true(is_taken(&in) == (c > ' ' && c <= '~'));
        assert_int_equal(decode_rc(&other), 0);
    }
}

static void test_limits(void **state)
{
    CLEANUP(str_done) Str in, devices, container, pod;
    CLEANUP(decoded_done) Decoded out;
    char id[32];

    (void)state;
    str_init(&in, 8 << 20), str_init(&devices, 8 << 20), str_init(&container, 8 << 20), str_init(&pod, 8 << 20);
    add_text(&container, 1, "c");
    add_text(&pod, 1, "p");
    add_text(&pod, 2, "n");
    for (int i = 0; i < 65536; i++) {
        (void)snprintf(id, sizeof(id), "GPU-%05d", i);
        str_clear(&devices);
        add_text(&devices, 1, "nvidia.com/gpu");
        add_text(&devices, 2, id);
        add_field(&container, 2, devices.text, devices.len); /* an entry of its own for each, as the kubelet does */
    }
    add_field(&pod, 3, container.text, container.len);
    add_field(&in, 1, pod.text, pod.len);
    assert_int_equal(str_check(&in, "the reply", NULL), 0);
    decode(&in, &out);
    assert_int_equal(out.rc, 0);
    assert_int_equal(out.table.len, 65536);
    add_pod(&in, "one-more", "nvidia.com/gpu", "GPU-x");
    assert_int_equal(decode_rc(&in), -E2BIG);
}

/* Two bytes on the wire may be a message of a hundred: refused before it has cost that much. */
static void test_bomb(void **state)
{
    CLEANUP(str_done) Str in;

    (void)state;
    str_init(&in, 4 << 20);
    for (int i = 0; i < 1 << 20; i++)
        str_addn(&in, "\x0a\x00", 2);
    assert_int_equal(decode_rc(&in), -E2BIG);
}

static void test_state_keys(void **state)
{
    (void)state;
    assert_string_equal(podresources_state_key(PODRESOURCES_WAITING), "waiting");
    assert_string_equal(podresources_state_key(PODRESOURCES_BAD_REPLY), "bad_reply");
    assert_string_equal(podresources_state_key((PodResourcesState)99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_sorted_and_single),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_state_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
