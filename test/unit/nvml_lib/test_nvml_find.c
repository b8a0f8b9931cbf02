/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices, and MIG devices among them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "sim/nvml/generation.h"
#include "sim/nvml/lib.h"

static int setup(void **state)
{
    *state = node_new(nvml_library_generation);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    return 0;
}

static int teardown(void **state)
{
    nvmlShutdown();
    node_free(*state);
    return 0;
}

static nvmlDevice_t device_at(unsigned int index)
{
    nvmlDevice_t device;
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

static void the_index_follows_the_bus(void **state)
{
    static const unsigned int buses[NODE_GPUS] = {0x1b, 0x43, 0x63, 0x83};
    static const unsigned int minors[NODE_GPUS] = {1, 2, 3, 0};
    nvmlDevice_t none = NULL;
    (void)state;

    for (unsigned int i = 0; i < NODE_GPUS; i++) {
        nvmlPciInfo_t pci;
        unsigned int index, minor, board_id;
        assert_int_equal(nvmlDeviceGetPciInfo_v3(device_at(i), &pci), NVML_SUCCESS);
        assert_int_equal(pci.bus, buses[i]);
        assert_int_equal(nvmlDeviceGetIndex(device_at(i), &index), NVML_SUCCESS);
        assert_int_equal(index, i);
        assert_int_equal(nvmlDeviceGetMinorNumber(device_at(i), &minor), NVML_SUCCESS);
        assert_int_equal(minor, minors[i]);
        assert_int_equal(nvmlDeviceGetBoardId(device_at(i), &board_id), NVML_SUCCESS);
        assert_int_equal(board_id, buses[i] << 8);
    }
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(NODE_GPUS, &none), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_null(none);
}

static void bus_ids_have_many_spellings(void **state)
{
    static const struct {
        const char *text;
        nvmlReturn_t wanted;
    } rows[] = {
        {"00000000:1B:00.0", NVML_SUCCESS},
        {"0000:1b:00.0", NVML_SUCCESS},
        {"0000:1B:00", NVML_SUCCESS},
        {"1b:00.0", NVML_SUCCESS},
        {"1b:00", NVML_SUCCESS},
        {"00000000:1B:00.1", NVML_ERROR_NOT_FOUND},
        {"00000001:1B:00.0", NVML_ERROR_NOT_FOUND},
        {"00000000:1C:00.0", NVML_ERROR_NOT_FOUND},
        {"", NVML_ERROR_INVALID_ARGUMENT},
        {"1b", NVML_ERROR_INVALID_ARGUMENT},
        {"1b.0", NVML_ERROR_INVALID_ARGUMENT},
        {"0:0:0:0:1b:00.0", NVML_ERROR_INVALID_ARGUMENT},
        {"0000:1b:00.0x", NVML_ERROR_INVALID_ARGUMENT},
        {"0000:-1b:00.0", NVML_ERROR_INVALID_ARGUMENT},
        {"GPU-0", NVML_ERROR_INVALID_ARGUMENT},
        {NULL, NVML_ERROR_INVALID_ARGUMENT},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nvmlDevice_t device = NULL;
        if (nvmlDeviceGetHandleByPciBusId_v2(rows[i].text, &device) != rows[i].wanted)
            fail_msg("%s", rows[i].text ? rows[i].text : "NULL");
        assert_int_equal(nvmlDeviceGetHandleByPciBusId(rows[i].text, &device), rows[i].wanted);
        if (rows[i].wanted == NVML_SUCCESS)
            assert_ptr_equal(device, device_at(0));
        else
            assert_null(device);
    }
}

static void by_serial_and_uuid(void **state)
{
    SimImage *image = *state;
    nvmlDevice_t device = NULL;

    assert_int_equal(nvmlDeviceGetHandleBySerial(image->gpus[2].serial, &device), NVML_SUCCESS);
    assert_ptr_equal(device, device_at(1));
    assert_int_equal(nvmlDeviceGetHandleBySerial("1", &device), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetHandleBySerial("", &device), NVML_ERROR_INVALID_ARGUMENT); /* GPU 3 has none */
    assert_int_equal(nvmlDeviceGetHandleByUUID(image->gpus[0].uuid, &device), NVML_SUCCESS);
    assert_ptr_equal(device, device_at(3));
    assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-0", &device), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetHandleByUUID(NULL, &device), NVML_ERROR_INVALID_ARGUMENT);
}

static void by_uuid_as_text_or_bytes(void **state)
{
    SimImage *image = *state;
    nvmlDevice_t device = NULL;
    nvmlUUID_t uuid = {.version = nvmlUUID_v1, .type = NVML_UUID_TYPE_ASCII};

    memcpy(uuid.value.str, image->gpus[2].uuid, sizeof uuid.value.str - 1);
    assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &device), NVML_SUCCESS);
    assert_ptr_equal(device, device_at(1));
    static const unsigned char bytes[16] = {0x00, 0x00, 0x00, 0x03, 0x11, 0x11, 0x22, 0x22,
                                            0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66, 0x63};
    uuid.type = NVML_UUID_TYPE_BINARY;
    memcpy(uuid.value.bytes, bytes, sizeof bytes);
    assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &device), NVML_SUCCESS);
    assert_ptr_equal(device, device_at(2));
    uuid.value.bytes[0] = 1;
    assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &device), NVML_ERROR_NOT_FOUND);
    uuid.type = NVML_UUID_TYPE_NONE;
    assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &device), NVML_ERROR_INVALID_ARGUMENT);
    uuid.version = 1;
    assert_int_equal(nvmlDeviceGetHandleByUUIDV(&uuid, &device), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* ---- MIG ---- */

/* Turns MIG on for NVML index 0 and makes one 3g instance with a compute instance of `ci_profile`. */
static nvmlDevice_t make_mig(SimImage *image, int ci_profile)
{
    SimOp mode = {.type = SIM_OP_MIG_MODE, .gpu = NODE_FIRST, .a = {1}};
    SimOp gi = {.type = SIM_OP_GI_CREATE, .gpu = NODE_FIRST, .a = {1, SIM_NONE}};
    uint32_t gi_id = 0, ci_id = 0;

    node_op(image, mode);
    assert_int_equal(sim_op_apply(image, &gi, NULL, 0, &gi_id), SIM_OK);
    SimOp ci = {.type = SIM_OP_CI_CREATE, .gpu = NODE_FIRST, .a = {(int32_t)gi_id, ci_profile, SIM_NONE}};
    assert_int_equal(sim_op_apply(image, &ci, NULL, 0, &ci_id), SIM_OK);
    sim_clock_advance(image, SIM_TICK_NS);
    return nvml_handle_mig(NODE_FIRST, gi_id, ci_id);
}

static void a_mig_device_has_a_name_and_uuid_of_its_own(void **state)
{
    char name[96], uuid[80];
    nvmlDevice_t found;
    const nvmlDevice_t mig = make_mig(*state, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);

    assert_int_equal(nvmlDeviceGetName(mig, name, sizeof name), NVML_SUCCESS);
    assert_string_equal(name, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    assert_int_equal(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), NVML_SUCCESS);
    assert_memory_equal(uuid, "MIG-", 4);
    assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
    assert_ptr_equal(found, mig);
}

static void a_smaller_compute_instance_shows_in_the_name(void **state)
{
    char name[96];
    const nvmlDevice_t mig = make_mig(*state, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);

    assert_int_equal(nvmlDeviceGetName(mig, name, sizeof name), NVML_SUCCESS);
    assert_string_equal(name, "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb");
}

static void what_works_on_a_mig_device(void **state)
{
    const nvmlDevice_t mig = make_mig(*state, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory2 = {.version = nvmlMemory_v2};
    nvmlBAR1Memory_t bar1;
    nvmlBrandType_t brand;
    unsigned long long errors;
    unsigned int value;
    int major, minor;
    nvmlUtilization_t utilization;
    nvmlPciInfo_t pci;

    assert_int_equal(nvmlDeviceGetMemoryInfo(mig, &memory), NVML_SUCCESS);
    assert_int_equal(memory.total, 40448ull << 20);
    assert_int_equal(memory.free + memory.used, memory.total);
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(mig, &memory2), NVML_SUCCESS);
    assert_int_equal(memory2.total, 40448ull << 20);
    assert_int_equal(nvmlDeviceGetBAR1MemoryInfo(mig, &bar1), NVML_SUCCESS);
    assert_in_range(bar1.bar1Total >> 20, 24700, 24800); /* 24739 on the real board */
    assert_int_equal(nvmlDeviceGetBrand(mig, &brand), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCudaComputeCapability(mig, &major, &minor), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMemoryErrorCounter(mig, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                                                     NVML_MEMORY_LOCATION_SRAM, &errors),
                     NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMemoryErrorCounter(mig, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC,
                                                     NVML_MEMORY_LOCATION_SRAM, &errors),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetIndex(mig, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetPciInfo_v3(mig, &pci), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetTemperature(mig, NVML_TEMPERATURE_GPU, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetUtilizationRates(mig, &utilization), NVML_ERROR_NOT_SUPPORTED);
}

static void what_mig_takes_from_the_gpu(void **state)
{
    nvmlUtilization_t utilization;
    unsigned int a, b, c, d;
    nvmlEnableState_t active = NVML_FEATURE_ENABLED;
    unsigned long long errors;
    nvmlMemory_t memory;
    nvmlRowRemapperHistogramValues_t rows;
    const nvmlDevice_t gpu = device_at(0);

    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu, &utilization), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetRemappedRows(gpu, &a, &b, &c, &d), NVML_SUCCESS);
    make_mig(*state, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu, &utilization), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetEncoderUtilization(gpu, &a, &b), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetOfaUtilization(gpu, &a, &b), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetRemappedRows(gpu, &a, &b, &c, &d), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetRowRemapperHistogram(gpu, &rows),
                     NVML_SUCCESS); /* as a capture of an H100 with MIG */
    assert_int_equal(rows.max, 2560);
    assert_int_equal(nvmlDeviceGetNvLinkState(gpu, 0, &active), NVML_SUCCESS);
    assert_int_equal(active, NVML_FEATURE_DISABLED);
    assert_int_equal(nvmlDeviceGetNvLinkErrorCounter(gpu, 0, NVML_NVLINK_ERROR_DL_REPLAY, &errors),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetMemoryInfo(gpu, &memory), NVML_SUCCESS);
    assert_int_equal(memory.total, 81559ull << 20);
}

static void a_destroyed_mig_device_is_no_device(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t mig = make_mig(image, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
    char uuid[80], again[80];
    nvmlDevice_t found;

    assert_int_equal(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), NVML_SUCCESS);
    node_op(image, (SimOp){.type = SIM_OP_CI_DESTROY, .gpu = NODE_FIRST, .a = {mig->gi_id, mig->ci_id}});
    assert_int_equal(nvmlDeviceGetUUID(mig, again, sizeof again), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_ERROR_NOT_FOUND);
}

int main(void)
{
#define ON_A_NODE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_A_NODE(the_index_follows_the_bus),
        ON_A_NODE(bus_ids_have_many_spellings),
        ON_A_NODE(by_serial_and_uuid),
        ON_A_NODE(by_uuid_as_text_or_bytes),
        ON_A_NODE(a_mig_device_has_a_name_and_uuid_of_its_own),
        ON_A_NODE(a_smaller_compute_instance_shows_in_the_name),
        ON_A_NODE(what_works_on_a_mig_device),
        ON_A_NODE(what_mig_takes_from_the_gpu),
        ON_A_NODE(a_destroyed_mig_device_is_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
