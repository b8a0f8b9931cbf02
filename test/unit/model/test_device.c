/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of devices (model/device.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/device.h"

static Device make(DeviceKind kind, const char *whole, unsigned bus, uint32_t gi, uint32_t ci_or_link)
{
    Device device;
    bool part = kind != DEVICE_GPU && kind != DEVICE_SWITCH && kind != DEVICE_NODE;

    device_init(&device, kind);
    snprintf(part ? device.parent_uuid : device.uuid, DEVICE_UUID_CAP, "%s", whole);
    device.has_pci = bus != 0;
    device.pci.bus = (uint8_t)bus;
    device.gpu_instance = gi;
    if (kind == DEVICE_COMPUTE_INSTANCE)
        device.compute_instance = ci_or_link;
    if (kind == DEVICE_LINK || kind == DEVICE_SWITCH_LINK)
        device.link = ci_or_link;
    return device;
}

#define NONE DEVICE_NO_NUMBER

/* In the order in which they sort; the last column is the key. */
static const struct {
    DeviceKind kind;
    const char *whole;
    unsigned bus;
    uint32_t gi, number;
    const char *key;
} rows[] = {
    {DEVICE_NODE, "", 0, NONE, NONE, "node"},
    {DEVICE_GPU, "GPU-b", 1, NONE, NONE, "gpu/GPU-b"},
    {DEVICE_GPU_INSTANCE, "GPU-b", 1, 1, NONE, "gpu/GPU-b/gi/1"},
    {DEVICE_COMPUTE_INSTANCE, "GPU-b", 1, 1, 0, "gpu/GPU-b/gi/1/ci/0"},
    {DEVICE_COMPUTE_INSTANCE, "GPU-b", 1, 1, 1, "gpu/GPU-b/gi/1/ci/1"},
    {DEVICE_GPU_INSTANCE, "GPU-b", 1, 13, NONE, "gpu/GPU-b/gi/13"},
    {DEVICE_COMPUTE_INSTANCE, "GPU-b", 1, 13, 0, "gpu/GPU-b/gi/13/ci/0"},
    {DEVICE_LINK, "GPU-b", 1, NONE, 0, "gpu/GPU-b/link/0"},
    {DEVICE_LINK, "GPU-b", 1, NONE, 17, "gpu/GPU-b/link/17"},
    {DEVICE_GPU, "GPU-a", 2, NONE, NONE, "gpu/GPU-a"},
    {DEVICE_LINK, "GPU-a", 2, NONE, 0, "gpu/GPU-a/link/0"},
    {DEVICE_GPU, "", 3, NONE, NONE, "gpu/0000:03:00.0"},
    {DEVICE_LINK, "", 3, NONE, 5, "gpu/0000:03:00.0/link/5"},
    {DEVICE_GPU, "GPU-0", 0, NONE, NONE, "gpu/GPU-0"},
    {DEVICE_SWITCH, "", 1, NONE, NONE, "switch/0000:01:00.0"},
    {DEVICE_SWITCH_LINK, "", 1, NONE, 12, "switch/0000:01:00.0/link/12"},
    {DEVICE_SWITCH, "SWX-1", 5, NONE, NONE, "switch/SWX-1"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static Device row(int i)
{
    return make(rows[i].kind, rows[i].whole, rows[i].bus, rows[i].gi, rows[i].number);
}

static void keys(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        Device device = row(i);
        char text[DEVICE_KEY_CAP];

        assert_int_equal(device_key(&device, text), strlen(rows[i].key));
        assert_string_equal(text, rows[i].key);
    }
}

static void the_longest_key_fits(void **state)
{
    char uuid[DEVICE_UUID_CAP], text[DEVICE_KEY_CAP];
    Device device;
    int length;

    (void)state;
    memset(uuid, 'u', sizeof uuid - 1);
    uuid[sizeof uuid - 1] = '\0';
    device = make(DEVICE_COMPUTE_INSTANCE, uuid, 1, NONE - 1, NONE - 1);
    length = device_key(&device, text);
    assert_int_equal(length, strlen(text));
    assert_string_equal(text + length - 28, "/gi/4294967294/ci/4294967294");
}

static void too_little_for_a_key(void **state)
{
    (void)state;
    for (DeviceKind kind = DEVICE_GPU; kind < DEVICE_KIND_END; kind++) {
        char text[DEVICE_KEY_CAP] = "untouched";
        Device device;

        device_init(&device, kind);
        assert_int_equal(device_key(&device, text), -EINVAL);
        assert_string_equal(text, "untouched");
        assert_false(device_equal(&device, &device));
    }
    for (DeviceKind kind = DEVICE_GPU_INSTANCE; kind <= DEVICE_LINK; kind++) {
        char text[DEVICE_KEY_CAP];
        Device device = make(kind, "GPU-a", 1, NONE, NONE);

        assert_int_equal(device_key(&device, text), -EINVAL);
    }
}

static void equality(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < ROWS; k++) {
            Device a = row(i), b = row(k);

            assert_int_equal(device_equal(&a, &b), i == k);
        }
    }
}

static void names_and_places_are_not_identity(void **state)
{
    Device a = make(DEVICE_GPU, "GPU-a", 1, NONE, NONE), b = make(DEVICE_GPU, "GPU-a", 9, NONE, NONE);

    (void)state;
    b.index = 3;
    b.minor = 5;
    snprintf(b.name, sizeof b.name, "NVIDIA H100 80GB HBM3");
    assert_true(device_equal(&a, &b)); /* the same board in another slot */
}

/* A GPU that was lost before its UUID was read is known by its PCI address. */
static void the_address_stands_in_for_the_uuid(void **state)
{
    Device known = make(DEVICE_GPU, "GPU-a", 1, NONE, NONE), lost = make(DEVICE_GPU, "", 1, NONE, NONE);
    Device other = make(DEVICE_GPU, "", 2, NONE, NONE);

    (void)state;
    assert_true(device_equal(&known, &lost));
    assert_false(device_equal(&known, &other));
}

static void texts_lead_back(void **state)
{
    DeviceArch arch = DEVICE_ARCH_UNKNOWN;
    uint32_t named = 0;

    (void)state;
    for (DeviceKind i = 0; i < DEVICE_KIND_END; i++)
        assert_int_equal(word_find(device_kinds, DEVICE_KIND_END, device_kinds[i].key), i);
    assert_int_equal(word_find(device_kinds, DEVICE_KIND_END, "GPU"), -1);
    for (uint32_t i = 0; i < 100; i++) {
        if (strcmp(device_arch_text(i), "unknown") != 0) {
            assert_true(device_arch_find(device_arch_text(i), &arch));
            assert_int_equal(arch, i);
            named++;
        }
    }
    assert_int_equal(named, 10);
    assert_string_equal(device_arch_text(9), "hopper");
    assert_string_equal(device_arch_text(UINT32_MAX), "unknown");
    assert_false(device_arch_find("unknown", &arch));
}

static void a_new_device_has_no_numbers(void **state)
{
    Device device;

    (void)state;
    device_init(&device, DEVICE_GPU);
    assert_int_equal(device.index, NONE);
    assert_int_equal(device.minor, NONE);
    assert_int_equal(device.gpu_instance, NONE);
    assert_int_equal(device.compute_instance, NONE);
    assert_int_equal(device.link, NONE);
    assert_false(device.has_pci);
    assert_string_equal(device.uuid, "");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(the_longest_key_fits),
        cmocka_unit_test(too_little_for_a_key),
        cmocka_unit_test(equality),
        cmocka_unit_test(names_and_places_are_not_identity),
        cmocka_unit_test(the_address_stands_in_for_the_uuid),
        cmocka_unit_test(texts_lead_back),
        cmocka_unit_test(a_new_device_has_no_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
