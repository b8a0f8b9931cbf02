/* SPDX-License-Identifier: Apache-2.0 */
/* MIG from a client's side: mode, profiles, the life of instances, MIG devices, handles of what is gone. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

enum { ID_1G = 19, ID_3G = 9, ID_7G = 0, INDEX_1G = 0, INDEX_3G = 2, INDEX_8 = 5 };

static void enable(const Rig *rig)
{
    nvmlReturn_t activation = NVML_ERROR_UNKNOWN;
    rig_need_root();
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_HOPPER], 1, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_SUCCESS);
}

static nvmlGpuInstance_t make_gi(const Rig *rig, unsigned int profile_id)
{
    nvmlGpuInstance_t gi = NULL;
    assert_int_equal(nvmlDeviceCreateGpuInstance(rig->gpu[RIG_HOPPER], profile_id, &gi), NVML_SUCCESS);
    assert_non_null(gi);
    return gi;
}

static nvmlComputeInstance_t make_ci(nvmlGpuInstance_t gi, unsigned int profile_id)
{
    nvmlComputeInstance_t ci = NULL;
    assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, profile_id, &ci), NVML_SUCCESS);
    assert_non_null(ci);
    return ci;
}

/* ---- mode ---- */
static void mode_is_immediate_on_hopper(void **state)
{
    const Rig *rig = *state;
    unsigned int current = 9, pending = 9, max = 9;
    assert_int_equal(nvmlDeviceGetMigMode(rig->gpu[RIG_HOPPER], &current, &pending), NVML_SUCCESS);
    assert_int_equal(current | pending, 0);
    assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(rig->gpu[RIG_HOPPER], &max), NVML_SUCCESS);
    assert_int_equal(max, 0);
    enable(rig);
    assert_int_equal(nvmlDeviceGetMigMode(rig->gpu[RIG_HOPPER], &current, &pending), NVML_SUCCESS);
    assert_int_equal(current & pending, 1);
    assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(rig->gpu[RIG_HOPPER], &max), NVML_SUCCESS);
    assert_int_equal(max, 7);
}

static void mode_waits_for_a_reset_on_ampere(void **state)
{
    const Rig *rig = *state;
    nvmlReturn_t activation = NVML_SUCCESS;
    unsigned int current = 9, pending = 9;
    rig_need_root();
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_AMPERE], 1, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_ERROR_RESET_REQUIRED);
    assert_int_equal(nvmlDeviceGetMigMode(rig->gpu[RIG_AMPERE], &current, &pending), NVML_SUCCESS);
    assert_int_equal(current, 0);
    assert_int_equal(pending, 1);
    rig_op(rig, (SimOp){.type = SIM_OP_RESET, .gpu = RIG_AMPERE});
    assert_int_equal(nvmlDeviceGetMigMode(rig->gpu[RIG_AMPERE], &current, &pending), NVML_SUCCESS);
    assert_int_equal(current, 1);
}

static void mode_refuses(void **state)
{
    const Rig *rig = *state;
    nvmlReturn_t activation = NVML_ERROR_UNKNOWN;
    unsigned int value;
    assert_int_equal(nvmlDeviceGetMigMode(rig->gpu[RIG_DESK], &value, &value), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_DESK], 1, &activation), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_HOPPER], 2, &activation), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_HOPPER], 1, NULL), NVML_ERROR_INVALID_ARGUMENT);
    rig_need_root();
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_BUSY], 1, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_ERROR_IN_USE);
}

static nvmlReturn_t set_mode(const Rig *rig)
{
    nvmlReturn_t activation;
    return nvmlDeviceSetMigMode(rig->gpu[RIG_HOPPER], 1, &activation);
}

static nvmlReturn_t list_instances(const Rig *rig)
{
    nvmlGpuInstance_t gi[7];
    unsigned int n;
    return nvmlDeviceGetGpuInstances(rig->gpu[RIG_HOPPER], ID_1G, gi, &n);
}

static void changes_need_root(void **state)
{
    const Rig *rig = *state;
    assert_int_equal(rig_as_nobody(rig, set_mode), NVML_ERROR_NO_PERMISSION);
    enable(rig);
    assert_int_equal(rig_as_nobody(rig, list_instances), NVML_ERROR_NO_PERMISSION);
    assert_int_equal(list_instances(rig), NVML_SUCCESS);
}

/* ---- profiles ---- */
static void profiles_by_index_and_id(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER];
    nvmlGpuInstanceProfileInfo_t info;
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(dev, INDEX_3G, &info), NVML_SUCCESS);
    assert_int_equal(info.id, ID_3G);
    assert_int_equal(info.sliceCount, 3);
    assert_int_equal(info.instanceCount, 2);
    assert_int_equal(info.multiprocessorCount, 60);
    assert_int_equal(info.memorySizeMB, 40448);
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(dev, INDEX_8, &info), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(dev, NVML_GPU_INSTANCE_PROFILE_COUNT, &info),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(rig->gpu[RIG_DESK], INDEX_1G, &info),
                     NVML_ERROR_NOT_SUPPORTED);

    nvmlGpuInstanceProfileInfo_v2_t v2 = {.version = nvmlGpuInstanceProfileInfo_v2};
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(dev, INDEX_1G, &v2), NVML_SUCCESS);
    assert_string_equal(v2.name, "MIG 1g.10gb");
    assert_int_equal(v2.id, ID_1G);
    v2.version = 2;
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(dev, INDEX_1G, &v2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

    union {
        nvmlGpuInstanceProfileInfo_v2_t v2;
        nvmlGpuInstanceProfileInfo_v3_t v3;
    } u = {.v3 = {.version = nvmlGpuInstanceProfileInfo_v3}};
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoByIdV(dev, ID_7G, &u.v2), NVML_SUCCESS);
    assert_int_equal(u.v3.sliceCount, 7);
    assert_int_equal(u.v3.capabilities, NVML_GPU_INSTANCE_PROFILE_CAPS_P2P);
    assert_string_equal(u.v3.name, "MIG 7g.80gb");
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoByIdV(dev, 77, &u.v2), NVML_ERROR_NOT_SUPPORTED);
}

static void placements_say_their_number(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER];
    unsigned int n = 0;
    nvmlGpuInstancePlacement_t at[8];
    assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(dev, ID_3G, NULL, &n), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(dev, ID_3G, at, &n), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(at[1].start, 4);
    assert_int_equal(at[1].size, 4);
    n = 0; /* not a capacity */
    assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements(dev, ID_3G, at, &n), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements(dev, 77, at, &n), NVML_ERROR_NOT_SUPPORTED);
}

/* ---- GPU instances ---- */
static void nothing_without_the_mode(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER], mig;
    nvmlGpuInstance_t gi;
    unsigned int n;
    assert_int_equal(nvmlDeviceCreateGpuInstance(dev, ID_1G, &gi), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetGpuInstanceById(dev, 1, &gi), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetGpuInstances(dev, ID_1G, &gi, &n), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(dev, ID_1G, &n), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 0, &mig), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(rig->gpu[RIG_DESK], 0, &mig), NVML_ERROR_NOT_SUPPORTED);
}

static void capacity_shrinks_with_instances(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER];
    nvmlGpuInstance_t gi;
    unsigned int n = 0;
    enable(rig);
    assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(dev, ID_1G, &n), NVML_SUCCESS);
    assert_int_equal(n, 7);
    make_gi(rig, ID_3G);
    make_gi(rig, ID_1G);
    assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(dev, ID_1G, &n), NVML_SUCCESS);
    assert_in_range(n, 2, 3);
    assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(dev, ID_7G, &n), NVML_SUCCESS);
    assert_int_equal(n, 0);
    assert_int_equal(nvmlDeviceCreateGpuInstance(dev, ID_7G, &gi), NVML_ERROR_INSUFFICIENT_RESOURCES);
    assert_int_equal(nvmlDeviceCreateGpuInstance(dev, 77, &gi), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceCreateGpuInstance(dev, ID_1G, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void placement_decides_start_and_id(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER];
    nvmlGpuInstance_t gi = NULL, again = NULL, list[2] = {NULL, NULL};
    nvmlGpuInstanceInfo_t info;
    unsigned int n = 99;
    enable(rig);
    nvmlGpuInstancePlacement_t at = {.start = 4, .size = 4};
    assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(dev, ID_3G, &at, &gi), NVML_SUCCESS);
    assert_int_equal(nvmlGpuInstanceGetInfo(gi, &info), NVML_SUCCESS);
    assert_ptr_equal(info.device, dev);
    assert_int_equal(info.profileId, ID_3G);
    assert_int_equal(info.placement.start, 4);
    assert_int_equal(info.placement.size, 4);
    assert_int_equal(info.id, 2); /* the second half */
    assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(dev, ID_3G, &at, &again),
                     NVML_ERROR_INSUFFICIENT_RESOURCES);
    at.start = 3;
    assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(dev, ID_3G, &at, &again), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetGpuInstanceById(dev, 2, &again), NVML_SUCCESS);
    assert_ptr_equal(again, gi);
    assert_int_equal(nvmlDeviceGetGpuInstanceById(dev, 7, &again), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetGpuInstances(dev, ID_3G, list, &n), NVML_SUCCESS);
    assert_int_equal(n, 1);
    assert_ptr_equal(list[0], gi);
    assert_int_equal(nvmlDeviceGetGpuInstances(dev, ID_1G, list, &n), NVML_SUCCESS);
    assert_int_equal(n, 0);
}

/* The clock stands between two ticks of the sensors: what one call makes the next must see. */
static void changes_are_seen_at_once(void **state)
{
    const Rig *rig = *state;
    nvmlGpuInstanceInfo_t a, b;
    rig_step_ms(rig, 7);
    enable(rig);
    nvmlGpuInstance_t first = make_gi(rig, ID_1G), second = make_gi(rig, ID_1G);
    assert_ptr_not_equal(first, second);
    assert_int_equal(nvmlGpuInstanceGetInfo(first, &a), NVML_SUCCESS);
    assert_int_equal(nvmlGpuInstanceGetInfo(second, &b), NVML_SUCCESS);
    assert_int_not_equal(a.placement.start, b.placement.start);
}

/* ---- compute instances ---- */
static void compute_profiles(void **state)
{
    const Rig *rig = *state;
    nvmlComputeInstanceProfileInfo_t info;
    enable(rig);
    nvmlGpuInstance_t gi = make_gi(rig, ID_3G);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 2, 0, &info), NVML_SUCCESS);
    assert_int_equal(info.id, 2);
    assert_int_equal(info.sliceCount, 3);
    assert_int_equal(info.instanceCount, 1);
    assert_int_equal(info.multiprocessorCount, 60);
    assert_int_equal(info.sharedDecoderCount, 3);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 0, 0, &info), NVML_SUCCESS);
    assert_int_equal(info.multiprocessorCount, 16);
    assert_int_equal(info.instanceCount, 3);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 4, 0, &info), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, NVML_COMPUTE_INSTANCE_PROFILE_COUNT, 0, &info),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 0, 1, &info), NVML_ERROR_INVALID_ARGUMENT);

    nvmlComputeInstanceProfileInfo_v2_t v2 = {.version = nvmlComputeInstanceProfileInfo_v2};
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, &v2), NVML_SUCCESS);
    assert_string_equal(v2.name, "MIG 1c.3g.40gb");
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 2, 0, &v2), NVML_SUCCESS);
    assert_string_equal(v2.name, "MIG 3g.40gb");
    v2.version = 0;
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 2, 0, &v2),
                     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void compute_capacity_and_placements(void **state)
{
    const Rig *rig = *state;
    unsigned int n = 0;
    nvmlComputeInstancePlacement_t at[4];
    enable(rig);
    nvmlGpuInstance_t gi = make_gi(rig, ID_3G);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0, &n), NVML_SUCCESS);
    assert_int_equal(n, 3);
    assert_int_equal(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 0, NULL, &n), NVML_SUCCESS);
    assert_int_equal(n, 3);
    n = 2;
    assert_int_equal(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 0, at, &n), NVML_SUCCESS);
    assert_int_equal(at[2].start, 2);
    assert_int_equal(at[2].size, 1);
    nvmlComputeInstance_t ci;
    assert_int_equal(nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 0, &at[2], &ci), NVML_SUCCESS);
    nvmlComputeInstanceInfo_t info;
    assert_int_equal(nvmlComputeInstanceGetInfo_v2(ci, &info), NVML_SUCCESS);
    assert_int_equal(info.placement.start, 2);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0, &n), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 2, &n), NVML_SUCCESS);
    assert_int_equal(n, 0);
    assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, 2, &ci), NVML_ERROR_INSUFFICIENT_RESOURCES);
    assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, 8, &ci), NVML_ERROR_INVALID_ARGUMENT);
}

static void life_of_instances(void **state)
{
    const Rig *rig = *state;
    nvmlComputeInstance_t list[3], again;
    unsigned int n = 0;
    enable(rig);
    nvmlGpuInstance_t gi = make_gi(rig, ID_3G);
    nvmlComputeInstance_t a = make_ci(gi, 0), b = make_ci(gi, 0);
    assert_int_equal(nvmlGpuInstanceGetComputeInstances(gi, 0, list, &n), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_ptr_equal(list[0], a);
    assert_ptr_equal(list[1], b);
    struct {
        nvmlComputeInstanceInfo_v1_t info;
        unsigned char canary[8];
    } old;
    memset(&old, 0x5a, sizeof old);
    assert_int_equal(nvmlComputeInstanceGetInfo(b, &old.info), NVML_SUCCESS);
    assert_ptr_equal(old.info.device, rig->gpu[RIG_HOPPER]);
    assert_ptr_equal(old.info.gpuInstance, gi);
    assert_int_equal(old.info.id, 1);
    assert_int_equal(old.info.profileId, 0);
    assert_int_equal(old.canary[0], 0x5a);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceById(gi, 1, &again), NVML_SUCCESS);
    assert_ptr_equal(again, b);
    assert_int_equal(nvmlGpuInstanceGetComputeInstanceById(gi, 5, &again), NVML_ERROR_NOT_FOUND);

    assert_int_equal(nvmlGpuInstanceDestroy(gi), NVML_ERROR_IN_USE);
    assert_int_equal(nvmlComputeInstanceDestroy(a), NVML_SUCCESS);
    nvmlComputeInstanceInfo_t info;
    assert_int_equal(nvmlComputeInstanceGetInfo_v2(a, &info), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlComputeInstanceDestroy(a), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlComputeInstanceDestroy(b), NVML_SUCCESS);
    assert_int_equal(nvmlGpuInstanceDestroy(gi), NVML_SUCCESS);
    nvmlGpuInstanceInfo_t gi_info;
    assert_int_equal(nvmlGpuInstanceGetInfo(gi, &gi_info), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpuInstanceDestroy(gi), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, 0, &again), NVML_ERROR_INVALID_ARGUMENT);
}

static void garbage_is_refused(void **state)
{
    const Rig *rig = *state;
    nvmlGpuInstanceInfo_t gi_info;
    nvmlComputeInstanceInfo_t ci_info;
    nvmlGpuInstance_t odd[] = {NULL, (nvmlGpuInstance_t)(uintptr_t)8, (nvmlGpuInstance_t)(uintptr_t)rig,
                               (nvmlGpuInstance_t)(uintptr_t)rig->gpu[0]};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(nvmlGpuInstanceGetInfo(odd[i], &gi_info), NVML_ERROR_INVALID_ARGUMENT);
        assert_int_equal(nvmlComputeInstanceGetInfo_v2((nvmlComputeInstance_t)(uintptr_t)odd[i], &ci_info),
                         NVML_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlGpuInstanceGetInfo(NULL, NULL), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlComputeInstanceDestroy(NULL), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

/* ---- MIG devices ---- */
static void devices_are_compute_instances(void **state)
{
    const Rig *rig = *state;
    nvmlDevice_t dev = rig->gpu[RIG_HOPPER], mig = NULL, again = NULL, parent = NULL;
    unsigned int id = 99, is = 9;
    enable(rig);
    nvmlGpuInstance_t gi = make_gi(rig, ID_3G);
    nvmlComputeInstance_t ci = make_ci(gi, 1);
    nvmlGpuInstanceInfo_t info;
    assert_int_equal(nvmlGpuInstanceGetInfo(gi, &info), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 0, &mig), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 0, &again), NVML_SUCCESS);
    assert_ptr_equal(again, mig);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 1, &again), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(dev, 7, &again), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceIsMigDeviceHandle(mig, &is), NVML_SUCCESS);
    assert_int_equal(is, 1);
    assert_int_equal(nvmlDeviceIsMigDeviceHandle(dev, &is), NVML_SUCCESS);
    assert_int_equal(is, 0);
    assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &parent), NVML_SUCCESS);
    assert_ptr_equal(parent, dev);
    assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(dev, &parent), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetGpuInstanceId(mig, &id), NVML_SUCCESS);
    assert_int_equal(id, info.id);
    assert_int_equal(nvmlDeviceGetComputeInstanceId(mig, &id), NVML_SUCCESS);
    assert_int_equal(id, 0);
    assert_int_equal(nvmlDeviceGetGpuInstanceId(dev, &id), NVML_ERROR_NOT_SUPPORTED);

    nvmlDeviceAttributes_t attr;
    assert_int_equal(nvmlDeviceGetAttributes_v2(mig, &attr), NVML_SUCCESS);
    assert_int_equal(attr.multiprocessorCount, 32);
    assert_int_equal(attr.gpuInstanceSliceCount, 3);
    assert_int_equal(attr.computeInstanceSliceCount, 2);
    assert_int_equal(attr.memorySizeMB, 40448);
    assert_int_equal(nvmlDeviceGetAttributes_v2(dev, &attr), NVML_ERROR_NOT_SUPPORTED);
    struct {
        nvmlDeviceAttributes_v1_t attr;
        unsigned char canary[16];
    } old;
    memset(&old, 0x5a, sizeof old);
    assert_int_equal(nvmlDeviceGetAttributes(mig, &old.attr), NVML_SUCCESS);
    assert_int_equal(old.attr.sharedDecoderCount, 3);
    assert_int_equal(old.canary[0], 0x5a);

    assert_int_equal(nvmlComputeInstanceDestroy(ci), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetGpuInstanceId(mig, &id), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetAttributes_v2(mig, &attr), NVML_ERROR_INVALID_ARGUMENT);
}

/* What runs on an instance keeps it, and the mode, in place. */
static void instances_in_use_stay(void **state)
{
    const Rig *rig = *state;
    enable(rig);
    nvmlGpuInstance_t gi = make_gi(rig, ID_3G);
    nvmlComputeInstance_t ci = make_ci(gi, 2);
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_START, .gpu = SIM_NONE, .a = {WORK_TENANT}});
    rig_step_ms(rig, 100);
    assert_int_equal(nvmlComputeInstanceDestroy(ci), NVML_ERROR_IN_USE);
    nvmlReturn_t activation = NVML_SUCCESS;
    assert_int_equal(nvmlDeviceSetMigMode(rig->gpu[RIG_HOPPER], 0, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_ERROR_IN_USE);
    rig_op(rig, (SimOp){.type = SIM_OP_WORK_STOP, .gpu = SIM_NONE, .a = {WORK_TENANT}});
    assert_int_equal(nvmlComputeInstanceDestroy(ci), NVML_SUCCESS);
    assert_int_equal(nvmlGpuInstanceDestroy(gi), NVML_SUCCESS);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(mode_is_immediate_on_hopper),
        T(mode_waits_for_a_reset_on_ampere),
        T(mode_refuses),
        T(changes_need_root),
        T(profiles_by_index_and_id),
        T(placements_say_their_number),
        T(nothing_without_the_mode),
        T(capacity_shrinks_with_instances),
        T(placement_decides_start_and_id),
        T(changes_are_seen_at_once),
        T(compute_profiles),
        T(compute_capacity_and_placements),
        T(life_of_instances),
        T(garbage_is_refused),
        T(devices_are_compute_instances),
        T(instances_in_use_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
