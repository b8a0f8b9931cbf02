/* SPDX-License-Identifier: Apache-2.0 */
/* Device ids of the kubelet and the table of owners (model/allocation.c). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/allocation.h"

#define UUID "7c2e3f1a-0b4d-4c7e-9f10-3a5b6c7d8e9f"
#define NONE DEVICE_NO_NUMBER

static void every_form_is_understood(void **state)
{
    static const struct {
        const char *id;
        AllocationDevice device;
    } rows[] = {
        {"GPU-" UUID, {"GPU-" UUID, NONE, NONE, NONE, ""}},
        {"GPU-" UUID "::0", {"GPU-" UUID, NONE, NONE, NONE, "0"}},
        {"GPU-" UUID "::17", {"GPU-" UUID, NONE, NONE, NONE, "17"}},
        {"GPU-" UUID "::123456789012345", {"GPU-" UUID, NONE, NONE, NONE, "123456789012345"}},
        {"MIG-" UUID, {"MIG-" UUID, NONE, NONE, NONE, ""}},
        {"MIG-" UUID "::3", {"MIG-" UUID, NONE, NONE, NONE, "3"}},
        {"MIG-GPU-" UUID "/7/0", {"GPU-" UUID, NONE, 7, 0, ""}},
        {"MIG-GPU-" UUID "/13/2::1", {"GPU-" UUID, NONE, 13, 2, "1"}},
        {"nvidia0", {"", 0, NONE, NONE, ""}},
        {"nvidia15", {"", 15, NONE, NONE, ""}},
        {"nvidia0/gi9", {"", 0, 9, NONE, ""}},
        {"nvidia4294967294/gi4294967294", {"", 4294967294u, 4294967294u, NONE, ""}},
        {"nvidia2/vgpu1", {"", 2, NONE, NONE, "1"}},
        {"nvidia2/gi1/vgpu0", {"", 2, 1, NONE, "0"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        AllocationDevice device;

        memset(&device, 0x5a, sizeof device);
        assert_int_equal(allocation_device_parse(rows[i].id, &device), 0);
        assert_string_equal(device.uuid, rows[i].device.uuid);
        assert_int_equal(device.minor, rows[i].device.minor);
        assert_int_equal(device.gpu_instance, rows[i].device.gpu_instance);
        assert_int_equal(device.compute_instance, rows[i].device.compute_instance);
        assert_string_equal(device.replica, rows[i].device.replica);
    }
}

static void assert_refused(const char *id)
{
    AllocationDevice device, before;
    char *exact = strdup(id); /* a byte read too far is seen */

    memset(&device, 0x5a, sizeof device);
    memset(&before, 0x5a, sizeof before);
    if (allocation_device_parse(exact, &device) != -EINVAL)
        fail_msg("'%s' was taken", id);
    assert_memory_equal(&device, &before, sizeof device);
    free(exact);
}

static void anything_else_is_refused(void **state)
{
    static const char *const ids[] = {
        "",
        "G",
        "GPU",
        "GPU-",
        "GPU-::1",
        "gpu-" UUID,
        " GPU-" UUID,
        "GPU-" UUID " ",
        "GPU-" UUID "\n",
        "GPU-" UUID ":",
        "GPU-" UUID "::",
        "GPU-" UUID ":1",
        "GPU-" UUID "::1::2",
        "GPU-" UUID "::-1",
        "GPU-" UUID "::+1",
        "GPU-" UUID "::1x",
        "GPU-" UUID "::1234567890123456",
        "GPU-" UUID "/1/0",
        "GPU-\xc3\xa9",
        "GPU-a\"b",
        "GPU-../../etc",
        "MIG-",
        "MIG-GPU-",
        "MIG-" UUID "/1/0",
        "MIG-GPU-" UUID,
        "MIG-GPU-" UUID "/",
        "MIG-GPU-" UUID "/1",
        "MIG-GPU-" UUID "/1/",
        "MIG-GPU-" UUID "//0",
        "MIG-GPU-" UUID "/1/0/",
        "MIG-GPU-" UUID "/1/0:",
        "MIG-GPU-" UUID "/-1/0",
        "MIG-GPU-" UUID "/4294967295/0",
        "MIG-GPU-" UUID "/0/4294967295",
        "MIG-GPU-" UUID "/99999999999999999999/0",
        "MIG-MIG-GPU-" UUID "/1/0/0",
        "nvidia",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia0/",
        "nvidia0/gi",
        "nvidia0/vgpu",
        "nvidia0/vgpu1/gi1",
        "nvidia0/gi1/",
        "nvidia0/gi1/vgpu",
        "nvidia0/gi1/vgpu1x",
        "nvidia0::1",
        "nvidia0x",
        "nvidia 0",
        "nvidia4294967295",
        "/dev/nvidia0",
        "0000:1b:00.0",
    };
    char longer[200];

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_refused(ids[i]);
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "GPU-", 4);
    for (size_t len = DEVICE_UUID_CAP; len < sizeof longer; len++) {
        char id[256];

        snprintf(id, sizeof id, "%.*s", (int)len, longer);
        assert_refused(id);
        snprintf(id, sizeof id, "MIG-%.*s/1/0", (int)len, longer);
        assert_refused(id);
    }
}

/* The longest uuid that has room, whole. */
static void a_uuid_fills_its_room(void **state)
{
    char id[DEVICE_UUID_CAP];
    AllocationDevice device;

    (void)state;
    memset(id, 'b', sizeof id);
    memcpy(id, "MIG-", 4);
    id[sizeof id - 1] = '\0';
    assert_int_equal(allocation_device_parse(id, &device), 0);
    assert_string_equal(device.uuid, id);
}

/* Two GPUs; the first has instances 1/0, 1/1 and 2/0. */
typedef struct Rig {
    Reading gpu[2], instance[3];
} Rig;

static void rig_make(Rig *rig)
{
    static const uint32_t gi[] = {1, 1, 2}, ci[] = {0, 1, 0};

    for (size_t i = 0; i < 2; i++) {
        reading_init(&rig->gpu[i], DEVICE_GPU);
        rig->gpu[i].device.minor = (uint32_t)i + 4;
        snprintf(rig->gpu[i].device.uuid, DEVICE_UUID_CAP, "GPU-%zu", i);
    }
    for (size_t i = 0; i < 3; i++) {
        reading_init(&rig->instance[i], DEVICE_COMPUTE_INSTANCE);
        rig->instance[i].device.gpu_instance = gi[i];
        rig->instance[i].device.compute_instance = ci[i];
        snprintf(rig->instance[i].device.uuid, DEVICE_UUID_CAP, "MIG-%zu", i);
        snprintf(rig->instance[i].device.parent_uuid, DEVICE_UUID_CAP, "GPU-0");
    }
}

/* Which of the rig's five things an id means, a bit each: GPUs 0 and 1, instances 2 to 4. */
static unsigned meant_by(const Rig *rig, const char *id)
{
    AllocationDevice device;
    unsigned bits = 0;

    assert_int_equal(allocation_device_parse(id, &device), 0);
    for (size_t i = 0; i < 2; i++)
        bits |= (unsigned)allocation_device_is(&device, &rig->gpu[i], NULL) << i;
    for (size_t i = 0; i < 3; i++)
        bits |= (unsigned)allocation_device_is(&device, &rig->gpu[0], &rig->instance[i]) << (2 + i);
    return bits;
}

static void ids_mean_their_devices(void **state)
{
    static const struct {
        const char *id;
        unsigned bits;
    } rows[] = {
        {"GPU-0", 1},         {"GPU-1", 2},
        {"GPU-1::5", 2},      {"GPU-2", 0},
        {"nvidia4", 1},       {"nvidia5", 2},
        {"nvidia0", 0},       {"MIG-0", 4},
        {"MIG-1::1", 8},      {"MIG-2", 16},
        {"MIG-3", 0},         {"MIG-GPU-0/1/0", 4},
        {"MIG-GPU-0/1/1", 8}, {"MIG-GPU-0/2/0", 16},
        {"MIG-GPU-0/2/1", 0}, {"MIG-GPU-1/1/0", 0},
        {"nvidia4/gi1", 12},  {"nvidia4/gi2", 16},
        {"nvidia4/gi3", 0},   {"nvidia5/gi1", 0},
        {"nvidia4/vgpu0", 1}, {"nvidia4/gi2/vgpu1", 16},
    };
    Rig rig;

    (void)state;
    rig_make(&rig);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (meant_by(&rig, rows[i].id) != rows[i].bits)
            fail_msg("%s means %#x, not %#x", rows[i].id, meant_by(&rig, rows[i].id), rows[i].bits);
}

/* What nobody knows of a device never makes it equal to anything. */
static void unknown_devices_match_nothing(void **state)
{
    static const char *const ids[] = {"GPU-0", "MIG-0", "MIG-GPU-0/1/0", "nvidia0", "nvidia0/gi1"};
    AllocationDevice nothing = {.minor = NONE, .gpu_instance = NONE, .compute_instance = NONE};
    Reading gpu, instance;

    (void)state;
    reading_init(&gpu, DEVICE_GPU);
    reading_init(&instance, DEVICE_COMPUTE_INSTANCE);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        AllocationDevice device;

        assert_int_equal(allocation_device_parse(ids[i], &device), 0);
        assert_false(allocation_device_is(&device, &gpu, NULL));
        assert_false(allocation_device_is(&device, &gpu, &instance));
    }
    assert_false(allocation_device_is(&nothing, &gpu, NULL));
    assert_false(allocation_device_is(&nothing, &gpu, &instance));
}

static void the_table_keeps_copies(void **state)
{
    AllocationTable table;
    Allocation owner = {.pod_uid = NULL};

    (void)state;
    allocation_table_init(&table);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++) {
            char pod[32], container[32];

            snprintf(pod, sizeof pod, "train-%d", i);
            snprintf(container, sizeof container, "c%d", i);
            owner.pod = pod;
            owner.container = container;
            owner.namespace = i % 2 ? "ml" : NULL;
            assert_int_equal(allocation_device_parse("GPU-" UUID "::2", &owner.device), 0);
            allocation_table_add(&table, &owner);
            memset(pod, 'x', sizeof pod - 1);
        }
        assert_int_equal(table.len, 300);
        for (size_t i = 0; i < table.len; i++) {
            char pod[32];

            snprintf(pod, sizeof pod, "train-%zu", i);
            assert_string_equal(table.at[i].pod, pod);
            assert_string_equal(table.at[i].namespace, i % 2 ? "ml" : "");
            assert_int_equal(table.at[i].container[0], 'c');
            assert_string_equal(table.at[i].pod_uid, "");
            assert_string_equal(table.at[i].device.replica, "2");
        }
        allocation_table_clear(&table);
        assert_int_equal(table.len, 0);
    }
    allocation_table_done(&table);
    allocation_table_done(&table);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),      cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(a_uuid_fills_its_room),         cmocka_unit_test(ids_mean_their_devices),
        cmocka_unit_test(unknown_devices_match_nothing), cmocka_unit_test(the_table_keeps_copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
