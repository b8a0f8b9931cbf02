/* SPDX-License-Identifier: Apache-2.0 */
/* What the getters say about a node whose condition is known. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
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

/* By NVML index: server GPUs 0, 1 (one root), 3 (other socket), the desk's 2. */
enum { SERVER = 0, NEIGHBOUR = 1, DESK = 2, FAR = 3 };

static void pci_info_of_three_sizes(void **state)
{
    nvmlPciInfo_t pci;
    unsigned char room[68];
    nvmlPciInfoExt_t ext = {.version = nvmlPciInfoExt_v1};
    (void)state;

    assert_int_equal(nvmlDeviceGetPciInfo_v3(device_at(SERVER), &pci), NVML_SUCCESS);
    assert_string_equal(pci.busId, "00000000:1B:00.0");
    assert_string_equal(pci.busIdLegacy, "0000:1B:00.0");
    assert_int_equal(pci.pciDeviceId, 0x233010DE);
    assert_int_equal(pci.pciSubSystemId, 0x16C110DE);
    memset(room, 0xee, sizeof room);
    assert_int_equal(nvmlDeviceGetPciInfo_v2(device_at(SERVER), (nvmlPciInfo_v1_t *)room), NVML_SUCCESS);
    assert_memory_equal(room, &pci, 36);
    for (size_t i = 36; i < sizeof room; i++)
        assert_int_equal(room[i], 0xee);
    assert_int_equal(nvmlDeviceGetPciInfoExt(device_at(SERVER), &ext), NVML_SUCCESS);
    assert_int_equal(ext.baseClass, 3);
    assert_int_equal(ext.subClass, 2);
    assert_string_equal(ext.busId, "00000000:1B:00.0");
    ext.version = 0;
    assert_int_equal(nvmlDeviceGetPciInfoExt(device_at(SERVER), &ext), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void memory_adds_up(void **state)
{
    nvmlMemory_t v1;
    nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
    (void)state;

    assert_int_equal(nvmlDeviceGetMemoryInfo(device_at(SERVER), &v1), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device_at(SERVER), &v2), NVML_SUCCESS);
    assert_int_equal(v1.total, 81559ull << 20);
    assert_int_equal(v1.used + v1.free, v1.total);
    assert_int_equal(v2.used + v2.free + v2.reserved, v2.total);
    assert_int_equal(v2.reserved, 479ull << 20);
    assert_int_equal(v1.used, v2.used + v2.reserved);
    v2.version = 2; /* what a client once passed */
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device_at(SERVER), &v2), nvml_library_generation < 590
                                                                             ? NVML_ERROR_FUNCTION_NOT_FOUND
                                                                             : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static unsigned long long ecc(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                              nvmlMemoryLocation_t location)
{
    unsigned long long count = 0;
    assert_int_equal(nvmlDeviceGetMemoryErrorCounter(device, type, counter, location, &count), NVML_SUCCESS);
    return count;
}

static void ecc_counters(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    const nvmlMemoryErrorType_t corrected = NVML_MEMORY_ERROR_TYPE_CORRECTED,
                                fatal = NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
    unsigned long long count;
    nvmlEccErrorCounts_t detailed;
    nvmlEccSramErrorStatus_t sram = {.version = nvmlEccSramErrorStatus_v1};

    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_DRAM, 0, 7}});
    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_L2, 0, 3}});
    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_REG, 1, 2}});
    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_L2, 1, 1}});
    assert_int_equal(ecc(device, corrected, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DRAM), 7);
    assert_int_equal(ecc(device, corrected, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_SRAM), 3);
    assert_int_equal(ecc(device, fatal, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_SRAM), 3);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(device, corrected, NVML_VOLATILE_ECC, &count), NVML_SUCCESS);
    assert_int_equal(count, 10);
    assert_int_equal(nvmlDeviceGetDetailedEccErrors(device, fatal, NVML_VOLATILE_ECC, &detailed), NVML_SUCCESS);
    assert_int_equal(detailed.registerFile, 2);
    assert_int_equal(detailed.l2Cache, 1);
    assert_int_equal(detailed.deviceMemory, 0);
    assert_int_equal(nvmlDeviceGetSramEccErrorStatus(device, &sram), NVML_SUCCESS);
    assert_int_equal(sram.aggregateUncParity, 2);
    assert_int_equal(sram.aggregateUncSecDed, 1);
    assert_int_equal(sram.aggregateCor, 3);
    assert_int_equal(sram.aggregateUncBucketSm + sram.aggregateUncBucketL2 + sram.aggregateUncBucketOther, 3);
    node_op(image, (SimOp){.type = SIM_OP_CLEAR_ECC, .gpu = NODE_FIRST, .a = {0}});
    assert_int_equal(ecc(device, corrected, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DRAM), 0);
    assert_int_equal(ecc(device, corrected, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_DRAM), 7);
    /* Ampere and later do not tell the places on the chip apart; boards without ECC have no counters. */
    assert_int_equal(
        nvmlDeviceGetMemoryErrorCounter(device, fatal, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_L2_CACHE, &count),
        NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(device_at(DESK), fatal, NVML_VOLATILE_ECC, &count),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetTotalEccErrors(device, (nvmlMemoryErrorType_t)2, NVML_VOLATILE_ECC, &count),
                     NVML_ERROR_INVALID_ARGUMENT);
}

static void sram_errors_have_places(void **state)
{
    SimImage *image = *state;
    nvmlEccSramUniqueUncorrectedErrorEntry_v1_t entries[8];
    nvmlEccSramUniqueUncorrectedErrorCounts_t counts = {.version = nvmlEccSramUniqueUncorrectedErrorCounts_v1};

    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_REG, 1, 2}});
    node_op(image, (SimOp){.type = SIM_OP_ECC, .gpu = NODE_FIRST, .a = {SIM_ECC_L2, 1, 1}});
    assert_int_equal(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(device_at(SERVER), &counts), NVML_SUCCESS);
    assert_int_equal(counts.entryCount, 2);
    counts.entries = entries;
    counts.entryCount = 1;
    assert_int_equal(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(device_at(SERVER), &counts),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(device_at(SERVER), &counts), NVML_SUCCESS);
    assert_int_equal(entries[0].count + entries[1].count, 3);
}

static void remapped_rows(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    unsigned int cor, unc, pending, failure;
    nvmlRemappedRowsInfo_v2_t v2;
    nvmlRowRemapperHistogramValues_t histogram;
    nvmlUnrepairableMemoryStatus_v1_t flag;

    assert_int_equal(nvmlDeviceGetRowRemapperHistogram(device, &histogram), NVML_SUCCESS);
    assert_int_equal(histogram.max, 2560);
    node_op(image, (SimOp){.type = SIM_OP_REMAP, .gpu = NODE_FIRST, .a = {1, 2, 0}});
    assert_int_equal(nvmlDeviceGetRemappedRows(device, &cor, &unc, &pending, &failure), NVML_SUCCESS);
    assert_int_equal(cor, 0);
    assert_int_equal(unc, 2);
    assert_int_equal(pending, 1);
    assert_int_equal(failure, 0);
    assert_int_equal(nvmlDeviceGetRemappedRows_v2(device, &v2), NVML_SUCCESS);
    assert_int_equal(v2.uncActiveRemaps + v2.uncInactiveRemaps, 2);
    assert_int_equal(nvmlDeviceGetRowRemapperHistogram(device, &histogram), NVML_SUCCESS);
    assert_int_equal(histogram.max + histogram.high + histogram.partial + histogram.low + histogram.none, 2560);
    assert_true(histogram.max < 2560);
    assert_int_equal(nvmlDeviceGetUnrepairableMemoryFlag_v1(device, &flag), NVML_SUCCESS);
    assert_int_equal(flag.bUnrepairableMemory, 0);
    assert_int_equal(nvmlDeviceGetRemappedRows(device_at(DESK), &cor, &unc, &pending, &failure),
                     NVML_ERROR_NOT_SUPPORTED);
}

static void retired_pages(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    unsigned long long a[4] = {0}, b[4] = {0}, t[4];
    unsigned int count = 0;
    nvmlEnableState_t pending;
    const nvmlPageRetirementCause_t cause = NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR;

    assert_int_equal(nvmlDeviceGetRetiredPages(device, cause, &count, NULL), NVML_ERROR_NOT_SUPPORTED);
    image->boards[0].has_retired_pages = 1;
    assert_int_equal(nvmlDeviceGetRetiredPages(device, cause, &count, NULL), NVML_SUCCESS); /* nothing: never 7 */
    node_op(image, (SimOp){.type = SIM_OP_RETIRE, .gpu = NODE_FIRST, .a = {1, 3}});
    assert_int_equal(nvmlDeviceGetRetiredPages(device, cause, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 3);
    count = 4;
    assert_int_equal(nvmlDeviceGetRetiredPages_v2(device, cause, &count, a, t), NVML_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(nvmlDeviceGetRetiredPages(device, cause, &count, b), NVML_SUCCESS);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(a[i] % 4096, 0);
        assert_true(a[i] < 81559ull << 20);
        assert_true(t[i] >= image->epoch_us);
    }
    assert_int_equal(nvmlDeviceGetRetiredPagesPendingStatus(device, &pending), NVML_SUCCESS);
    assert_int_equal(pending, NVML_FEATURE_ENABLED);
    assert_int_equal(nvmlDeviceGetRetiredPages(device, (nvmlPageRetirementCause_t)2, &count, a),
                     NVML_ERROR_INVALID_ARGUMENT);
}

static void links(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    nvmlEnableState_t active;
    unsigned int version, capable;
    nvmlIntNvLinkDeviceType_t type;
    nvmlPciInfo_t pci, other;
    unsigned long long errors;

    assert_int_equal(nvmlDeviceGetNvLinkState(device, NODE_LINKS - 1, &active), NVML_SUCCESS);
    assert_int_equal(active, NVML_FEATURE_ENABLED);
    assert_int_equal(nvmlDeviceGetNvLinkState(device, NODE_LINKS, &active), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetNvLinkState(device, 36, &active), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetNvLinkState(device_at(DESK), 0, &active), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetNvLinkVersion(device, 0, &version), NVML_SUCCESS);
    assert_int_equal(version, NVML_NVLINK_VERSION_4_0);
    assert_int_equal(nvmlDeviceGetNvLinkCapability(device, 0, NVML_NVLINK_CAP_P2P_SUPPORTED, &capable), NVML_SUCCESS);
    assert_int_equal(capable, 1);
    assert_int_equal(nvmlDeviceGetNvLinkRemoteDeviceType(device, 0, &type), NVML_SUCCESS);
    assert_int_equal(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, &pci), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, NODE_LINKS - 1, &other), NVML_SUCCESS);
    assert_string_not_equal(pci.busId, other.busId);
    assert_int_equal(pci.pciDeviceId & 0xffff, 0x10de);
    node_op(image, (SimOp){.type = SIM_OP_LINK,
                           .gpu = NODE_FIRST,
                           .a = {4, SIM_LINK_ERRORS, NVML_NVLINK_ERROR_DL_CRC_FLIT},
                           .u = 5});
    assert_int_equal(nvmlDeviceGetNvLinkErrorCounter(device, 4, NVML_NVLINK_ERROR_DL_CRC_FLIT, &errors), NVML_SUCCESS);
    assert_int_equal(errors, 5);
    assert_int_equal(nvmlDeviceGetNvLinkErrorCounter(device, 4, NVML_NVLINK_ERROR_COUNT, &errors),
                     NVML_ERROR_INVALID_ARGUMENT);
    node_op(image, (SimOp){.type = SIM_OP_LINK, .gpu = NODE_FIRST, .a = {4, SIM_LINK_DOWN}});
    assert_int_equal(nvmlDeviceGetNvLinkState(device, 4, &active), NVML_SUCCESS);
    assert_int_equal(active, NVML_FEATURE_DISABLED);
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 4, &pci), NVML_ERROR_NOT_SUPPORTED);
}

/* Bridges join two cards: of the three of a kind the first two, with all links, and the third stays alone. */
static void links_to_peers(void **state)
{
    SimImage *image = *state;
    nvmlPciInfo_t pci;
    nvmlPciInfo_v1_t old;
    nvmlIntNvLinkDeviceType_t type;
    nvmlDevice_t peer;
    nvmlGpuP2PStatus_t status;

    image->boards[0].link_to_switch = 0;
    assert_int_equal(nvmlDeviceGetNvLinkRemoteDeviceType(device_at(SERVER), 0, &type), NVML_SUCCESS);
    assert_int_equal(type, NVML_NVLINK_DEVICE_TYPE_GPU);
    for (unsigned int link = 0; link < NODE_LINKS; link++) {
        assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device_at(SERVER), link, &pci), NVML_SUCCESS);
        assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo(device_at(SERVER), link, &old), NVML_SUCCESS);
        assert_string_equal(old.busId, pci.busIdLegacy);
        assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &peer), NVML_SUCCESS);
        assert_ptr_equal(peer, device_at(NEIGHBOUR));
    }
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device_at(NEIGHBOUR), 0, &pci), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &peer), NVML_SUCCESS);
    assert_ptr_equal(peer, device_at(SERVER));
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(device_at(FAR), 0, &pci), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(
        nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(NEIGHBOUR), NVML_P2P_CAPS_INDEX_NVLINK, &status),
        NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(FAR), NVML_P2P_CAPS_INDEX_NVLINK, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_NOT_SUPPORTED);
}

static void one_place_for_the_driver_model_is_enough(void **state)
{
    nvmlDriverModel_t model;
    (void)state;

    assert_int_equal(nvmlDeviceGetDriverModel(device_at(SERVER), NULL, &model), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetDriverModel(device_at(SERVER), &model, NULL), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetDriverModel(device_at(SERVER), NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void the_default_of_auto_boost_need_not_be_asked(void **state)
{
    SimImage *image = *state;
    nvmlEnableState_t on = NVML_FEATURE_ENABLED;

    assert_int_equal(nvmlDeviceGetAutoBoostedClocksEnabled(device_at(SERVER), &on, NULL), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetAutoBoostedClocksEnabled(device_at(SERVER), NULL, &on), NVML_ERROR_INVALID_ARGUMENT);
    image->boards[0].arch = NVML_DEVICE_ARCH_MAXWELL;
    assert_int_equal(nvmlDeviceGetAutoBoostedClocksEnabled(device_at(SERVER), &on, NULL), NVML_SUCCESS);
    assert_int_equal(on, NVML_FEATURE_DISABLED);
}

/* Where captures of H100 and H200 at driver 590.48.01, and of Ada's boards at 595 (nvidia_gpu_exporter), have a value
 * or none. */
static void what_captures_show(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    static const unsigned char zeros[16];
    unsigned int n = 1, fps = 1, latency = 1;
    unsigned long long reasons;
    nvmlRepairStatus_t repair = {.version = nvmlRepairStatus_v1, .bChannelRepairPending = 1};
    nvmlPlatformInfo_t place = {.version = nvmlPlatformInfo_v2};
    nvmlEccSramErrorStatus_t sram = {.version = nvmlEccSramErrorStatus_v1, .aggregateUncSecDed = 1};
    nvmlPdi_t pdi = {.version = nvmlPdi_v1}, other = {.version = nvmlPdi_v1};
    nvmlHostname_v1_t hostname;

    assert_int_equal(nvmlDeviceGetEncoderStats(device, &n, &fps, &latency), NVML_SUCCESS);
    assert_int_equal(n + fps + latency, 0);
    assert_int_equal(nvmlDeviceGetSupportedClocksThrottleReasons(device, &reasons), NVML_SUCCESS);
    assert_int_equal(reasons, 0x1ff);
    assert_int_equal(nvmlDeviceGetRepairStatus(device, &repair), NVML_SUCCESS);
    assert_int_equal(repair.bChannelRepairPending, 0);
    assert_int_equal(nvmlDeviceGetRepairStatus(device_at(DESK), &repair), NVML_SUCCESS); /* Ada, without ECC */
    assert_int_equal(nvmlDeviceGetSramEccErrorStatus(device_at(DESK), &sram), NVML_SUCCESS);
    assert_int_equal(sram.aggregateUncSecDed, 0);
    assert_int_equal(nvmlDeviceGetPlatformInfo(device, &place), NVML_SUCCESS);
    assert_int_equal(place.hostId, 1);
    assert_int_equal(place.slotNumber + place.peerType, 0);
    assert_int_equal(place.moduleId, image->gpus[NODE_FIRST].module_id);
    assert_memory_equal(place.ibGuid, zeros, 16);
    assert_memory_equal(place.chassisSerialNumber, zeros, 16);
    assert_int_equal(nvmlDeviceGetPdi(device, &pdi), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPdi(device_at(NEIGHBOUR), &other), NVML_SUCCESS);
    assert_true(pdi.value != 0 && pdi.value != other.value);
    pdi.version = 0;
    assert_int_equal(nvmlDeviceGetPdi(device, &pdi), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    assert_int_equal(nvmlDeviceGetHostname_v1(device, &hostname), NVML_ERROR_NOT_SUPPORTED);
}

/* NVIDIA's own tool of 535.274.02 asks for both states of a reset. */
static void an_older_driver_knows_fewer_fields(void **state)
{
    nvmlFieldValue_t v[] = {{.fieldId = NVML_FI_DEV_RESET_STATUS},
                            {.fieldId = NVML_FI_DEV_DRAIN_AND_RESET_STATUS},
                            {.fieldId = NVML_FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK}};
    (void)state;

    assert_int_equal(nvmlDeviceGetFieldValues(device_at(SERVER), 3, v), NVML_SUCCESS);
    assert_int_equal(v[0].nvmlReturn, NVML_SUCCESS);
    assert_int_equal(v[1].nvmlReturn, NVML_SUCCESS);
    assert_int_equal(v[2].nvmlReturn, nvml_library_generation < 590 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS);
}

static void fabric(void **state)
{
    SimImage *image = *state;
    static const unsigned char zeros[16];
    nvmlGpuFabricInfo_t v1, other;
    nvmlGpuFabricInfoV_t v3 = {.version = nvmlGpuFabricInfo_v3};
    union {
        nvmlGpuFabricInfoV_t info;
        unsigned char bytes[40];
    } v2;

    assert_int_equal(nvmlDeviceGetGpuFabricInfo(device_at(SERVER), &v1), NVML_SUCCESS);
    assert_int_equal(v1.state, NVML_GPU_FABRIC_STATE_COMPLETED);
    assert_memory_equal(v1.clusterUuid, zeros, 16); /* no NVLink leaves a baseboard that stands alone */
    assert_int_equal(v1.cliqueId, 0);
    assert_int_equal(nvmlDeviceGetGpuFabricInfo(device_at(FAR), &other), NVML_SUCCESS);
    assert_memory_equal(&v1, &other, 25);
    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = NODE_FIRST, .a = {SIM_KEY_FABRIC_HEALTH}, .u = 1});
    assert_int_equal(nvmlDeviceGetGpuFabricInfoV(device_at(SERVER), &v3), NVML_SUCCESS);
    assert_int_equal(v3.healthMask, 1);
    assert_int_equal(v3.healthSummary, NVML_GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY);
    memset(&v2, 0xee, sizeof v2);
    v2.info.version = nvmlGpuFabricInfo_v2;
    assert_int_equal(nvmlDeviceGetGpuFabricInfoV(device_at(SERVER), &v2.info), NVML_SUCCESS);
    assert_int_equal(v2.bytes[36], 0xee); /* the older struct ends here */
    v3.version = 5;
    assert_int_equal(nvmlDeviceGetGpuFabricInfoV(device_at(SERVER), &v3), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    node_op(image, (SimOp){.type = SIM_OP_SET,
                           .gpu = NODE_FIRST,
                           .a = {SIM_KEY_FABRIC_STATE},
                           .u = NVML_GPU_FABRIC_STATE_IN_PROGRESS});
    assert_int_equal(nvmlDeviceGetGpuFabricInfo(device_at(SERVER), &v1), NVML_SUCCESS);
    assert_memory_equal(v1.clusterUuid, zeros, 16);
    assert_int_equal(nvmlDeviceGetGpuFabricInfo(device_at(DESK), &v1), NVML_ERROR_NOT_SUPPORTED);
}

static void topology(void **state)
{
    static const struct {
        unsigned int first, second;
        nvmlGpuTopologyLevel_t wanted;
    } rows[] = {
        {SERVER, SERVER, NVML_TOPOLOGY_INTERNAL}, {SERVER, NEIGHBOUR, NVML_TOPOLOGY_SINGLE},
        {SERVER, DESK, NVML_TOPOLOGY_NODE},       {SERVER, FAR, NVML_TOPOLOGY_SYSTEM},
        {FAR, SERVER, NVML_TOPOLOGY_SYSTEM},
    };
    SimImage *image = *state;
    nvmlGpuTopologyLevel_t level;
    nvmlDevice_t found[NODE_GPUS];
    unsigned int count = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            nvmlDeviceGetTopologyCommonAncestor(device_at(rows[i].first), device_at(rows[i].second), &level),
            NVML_SUCCESS);
        assert_int_equal(level, rows[i].wanted);
    }
    image->gpus[2].switch_group = 7;
    assert_int_equal(nvmlDeviceGetTopologyCommonAncestor(device_at(SERVER), device_at(NEIGHBOUR), &level),
                     NVML_SUCCESS);
    assert_int_equal(level, NVML_TOPOLOGY_HOSTBRIDGE);
    assert_int_equal(nvmlDeviceGetTopologyNearestGpus(device_at(SERVER), NVML_TOPOLOGY_SYSTEM, &count, NULL),
                     NVML_SUCCESS);
    assert_int_equal(count, 1);
    count = 0;
    assert_int_equal(nvmlDeviceGetTopologyNearestGpus(device_at(SERVER), NVML_TOPOLOGY_SYSTEM, &count, found),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 1);
    assert_int_equal(nvmlDeviceGetTopologyNearestGpus(device_at(SERVER), NVML_TOPOLOGY_SYSTEM, &count, found),
                     NVML_SUCCESS);
    assert_ptr_equal(found[0], device_at(FAR));
    assert_int_equal(nvmlDeviceGetTopologyNearestGpus(device_at(SERVER), (nvmlGpuTopologyLevel_t)5, &count, found),
                     NVML_ERROR_INVALID_ARGUMENT);
    count = 0;
    assert_int_equal(nvmlSystemGetTopologyGpuSet(70, &count, NULL), NVML_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(nvmlSystemGetTopologyGpuSet(70, &count, found), NVML_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(nvmlSystemGetTopologyGpuSet(999, &count, found), NVML_SUCCESS);
    assert_int_equal(count, 0);
}

static void affinity(void **state)
{
    unsigned long cpus[3] = {~0ul, ~0ul, ~0ul}, nodes[1];
    (void)state;

    assert_int_equal(nvmlDeviceGetCpuAffinity(device_at(FAR), 3, cpus), NVML_SUCCESS);
    assert_int_equal(cpus[0], 0xffffffff00000000ul);
    assert_int_equal(cpus[1], 0xffffffff00000000ul);
    assert_int_equal(cpus[2], 0);
    cpus[1] = 5;
    assert_int_equal(nvmlDeviceGetCpuAffinity(device_at(SERVER), 1, cpus), NVML_SUCCESS);
    assert_int_equal(cpus[0], 0xfffffffful);
    assert_int_equal(cpus[1], 5);
    assert_int_equal(nvmlDeviceGetMemoryAffinity(device_at(FAR), 1, nodes, NVML_AFFINITY_SCOPE_NODE), NVML_SUCCESS);
    assert_int_equal(nodes[0], 2);
    assert_int_equal(nvmlDeviceGetCpuAffinityWithinScope(device_at(FAR), 1, nodes, 2), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetCpuAffinity(device_at(FAR), 0, cpus), NVML_ERROR_INVALID_ARGUMENT);
}

static void peer_to_peer(void **state)
{
    SimImage *image = *state;
    nvmlGpuP2PStatus_t status;

    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(FAR), NVML_P2P_CAPS_INDEX_NVLINK, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(DESK), NVML_P2P_CAPS_INDEX_READ, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_GPU_NOT_SUPPORTED);
    node_op(image, (SimOp){.type = SIM_OP_LINK, .gpu = NODE_FIRST, .a = {SIM_NONE, SIM_LINK_DOWN}});
    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(FAR), NVML_P2P_CAPS_INDEX_NVLINK, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), device_at(FAR), NVML_P2P_CAPS_INDEX_READ, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetP2PStatus(device_at(SERVER), NULL, NVML_P2P_CAPS_INDEX_READ, &status),
                     NVML_ERROR_INVALID_ARGUMENT);
}

static void clock_lists(void **state)
{
    const nvmlDevice_t device = device_at(SERVER);
    unsigned int count = 0, memory[4], graphics[256], current, top;
    (void)state;

    assert_int_equal(nvmlDeviceGetSupportedMemoryClocks(device, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 2);
    assert_int_equal(nvmlDeviceGetSupportedMemoryClocks(device, &count, memory), NVML_SUCCESS);
    assert_int_equal(memory[0], 2619);
    count = 1;
    assert_int_equal(nvmlDeviceGetSupportedGraphicsClocks(device, 2619, &count, graphics),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, (1980 - 345) / 15 + 1);
    count = 256;
    assert_int_equal(nvmlDeviceGetSupportedGraphicsClocks(device, 2619, &count, graphics), NVML_SUCCESS);
    assert_int_equal(graphics[0], 1980);
    assert_int_equal(graphics[count - 1], 345);
    assert_int_equal(nvmlDeviceGetSupportedGraphicsClocks(device, 100, &count, graphics), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetClockInfo(device, NVML_CLOCK_COUNT, &current), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &current), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &top), NVML_SUCCESS);
    assert_int_equal(top, 1980);
    assert_true(current > 0 && current <= top);
}

static void power_and_limits(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    unsigned int usage, low, high, limit, enforced, standard;
    unsigned long long energy, later;

    assert_int_equal(nvmlDeviceGetPowerUsage(device, &usage), NVML_SUCCESS);
    assert_in_range(usage, 40000, 130000);
    assert_int_equal(nvmlDeviceGetPowerManagementLimitConstraints(device, &low, &high), NVML_SUCCESS);
    assert_int_equal(low, 200000);
    assert_int_equal(high, 700000);
    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = NODE_FIRST, .a = {SIM_KEY_POWER_LIMIT_MW}, .u = 450000});
    assert_int_equal(nvmlDeviceGetPowerManagementLimit(device, &limit), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetEnforcedPowerLimit(device, &enforced), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPowerManagementDefaultLimit(device, &standard), NVML_SUCCESS);
    assert_int_equal(limit, 450000);
    assert_int_equal(enforced, 450000);
    assert_int_equal(standard, 700000);
    assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(device, &energy), NVML_SUCCESS);
    sim_clock_advance(image, 10 * SIM_NS);
    assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(device, &later), NVML_SUCCESS);
    assert_in_range(later - energy, 400000, 1300000); /* ten seconds of it, in mJ */
}

static void temperatures_and_fans(void **state)
{
    const nvmlDevice_t server = device_at(SERVER), desk = device_at(DESK);
    nvmlTemperature_t t = {.version = nvmlTemperature_v1};
    nvmlMarginTemperature_t margin = {.version = nvmlMarginTemperature_v1};
    unsigned int celsius, value, low, high;
    nvmlGpuThermalSettings_t settings;
    (void)state;

    assert_int_equal(nvmlDeviceGetTemperature(server, NVML_TEMPERATURE_GPU, &celsius), NVML_SUCCESS);
    assert_in_range(celsius, 30, 60);
    assert_int_equal(nvmlDeviceGetTemperatureV(server, &t), NVML_SUCCESS);
    assert_int_equal(t.temperature, celsius);
    assert_int_equal(nvmlDeviceGetMarginTemperature(server, &margin), NVML_SUCCESS);
    assert_int_equal(margin.marginTemperature, 87 - (int)celsius);
    assert_int_equal(nvmlDeviceGetMarginTemperature(desk, &margin), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetTemperature(server, NVML_TEMPERATURE_COUNT, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetTemperatureThreshold(server, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &value),
                     NVML_SUCCESS);
    assert_int_equal(value, 89);
    assert_int_equal(nvmlDeviceGetTemperatureThreshold(server, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR, &value),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetTemperatureThreshold(server, NVML_TEMPERATURE_THRESHOLD_COUNT, &value),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetThermalSettings(server, NVML_THERMAL_TARGET_ALL, &settings), NVML_SUCCESS);
    assert_int_equal(settings.sensor[0].currentTemp, celsius);
    assert_int_equal(nvmlDeviceGetFanSpeed(server, &value), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetFanSpeed_v2(desk, 1, &value), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetFanSpeed_v2(desk, 2, &value), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetNumFans(desk, &value), NVML_SUCCESS);
    assert_int_equal(value, 2);
    assert_int_equal(nvmlDeviceGetMinMaxFanSpeed(desk, &low, &high), NVML_SUCCESS);
    assert_true(low < high);
}

/* ---- under load ---- */

static void put_load_on(SimImage *image)
{
    SimWork work = {.kind = "test",
                    .name = "load",
                    .gpu = NODE_FIRST,
                    .mig = SIM_NONE,
                    .job = SIM_NONE,
                    .fixed_pid = 4711,
                    .memory_mib = 1000,
                    .slow = 1,
                    .phase_count = 1};
    work.phases[0] = (SimPhase){.seconds = 0.5, .bound = SIM_BOUND_FIXED};
    work.phases[0].act[SIM_CH_KERNEL] = 0.75;
    work.phases[0].act[SIM_CH_SM] = 0.5;
    work.phases[0].act[SIM_CH_DRAM_T] = 0.25;
    work.phases[0].act[SIM_CH_DEC] = 0.5;
    work.phases[0].act[SIM_CH_PCIE_TX] = 2e9;
    work.phases[0].act[SIM_CH_PCIE_RX] = 1e9;
    const int32_t index = sim_work_add(image, &work);
    assert_int_not_equal(index, SIM_NONE);
    node_op(image, (SimOp){.type = SIM_OP_WORK_START, .gpu = NODE_FIRST, .a = {index}});
    sim_clock_advance(image, 2 * SIM_NS);
}

static void utilisation_under_load(void **state)
{
    const nvmlDevice_t device = device_at(SERVER);
    nvmlUtilization_t rates;
    nvmlGpuDynamicPstatesInfo_t domains;
    unsigned int percent, period, tx, rx;
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    unsigned long long reasons;

    assert_int_equal(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
    assert_int_equal(rates.gpu, 0);
    assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), NVML_SUCCESS);
    assert_true(reasons & nvmlClocksEventReasonGpuIdle);
    put_load_on(*state);
    assert_int_equal(nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
    assert_in_range(rates.gpu, 74, 76);
    assert_in_range(rates.memory, 24, 26);
    assert_int_equal(nvmlDeviceGetDecoderUtilization(device, &percent, &period), NVML_SUCCESS);
    assert_in_range(percent, 49, 51);
    assert_true(period > 0);
    assert_int_equal(nvmlDeviceGetDynamicPstatesInfo(device, &domains), NVML_SUCCESS);
    assert_int_equal(domains.utilization[0].percentage, rates.gpu);
    assert_int_equal(nvmlDeviceGetPcieThroughput(device, NVML_PCIE_UTIL_TX_BYTES, &tx), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPcieThroughput(device, NVML_PCIE_UTIL_RX_BYTES, &rx), NVML_SUCCESS);
    assert_in_range(tx, 1900000, 2100000);
    assert_in_range(rx, 950000, 1050000);
    assert_int_equal(nvmlDeviceGetPcieThroughput(device, NVML_PCIE_UTIL_COUNT, &rx), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
    assert_in_range(memory.used >> 20, 1000, 3000);
    assert_int_equal(nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons), NVML_SUCCESS);
    assert_false(reasons & nvmlClocksEventReasonGpuIdle);
}

static void violations(void **state)
{
    SimImage *image = *state;
    const nvmlDevice_t device = device_at(SERVER);
    nvmlViolationTime_t time;

    assert_int_equal(nvmlDeviceGetViolationStatus(device, NVML_PERF_POLICY_POWER, &time), NVML_SUCCESS);
    assert_int_equal(time.violationTime, 0);
    assert_int_equal(time.referenceTime, image->epoch_us + 3000000);
    assert_int_equal(nvmlDeviceGetViolationStatus(device, (nvmlPerfPolicyType_t)7, &time), NVML_ERROR_INVALID_ARGUMENT);
    node_op(image, (SimOp){.type = SIM_OP_SET, .gpu = NODE_FIRST, .a = {SIM_KEY_HW_SLOWDOWN}, .u = 1});
    sim_clock_advance(image, 5 * SIM_NS);
    unsigned long long reasons;
    assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(device, &reasons), NVML_SUCCESS);
    assert_true(reasons & nvmlClocksThrottleReasonHwThermalSlowdown);
    assert_true(reasons & nvmlClocksThrottleReasonHwSlowdown);
}

static void performance_states(void **state)
{
    nvmlPstates_t states[NVML_MAX_GPU_PERF_PSTATES], now;
    (void)state;

    assert_int_equal(nvmlDeviceGetSupportedPerformanceStates(device_at(DESK), states, sizeof states), NVML_SUCCESS);
    assert_int_equal(states[0], NVML_PSTATE_0);
    assert_int_equal(states[4], NVML_PSTATE_8);
    assert_int_equal(states[5], NVML_PSTATE_UNKNOWN);
    assert_int_equal(nvmlDeviceGetSupportedPerformanceStates(device_at(DESK), states, 4), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(nvmlDeviceGetSupportedPerformanceStates(device_at(SERVER), states, 8), NVML_SUCCESS);
    assert_int_equal(states[1], NVML_PSTATE_UNKNOWN);
    assert_int_equal(nvmlDeviceGetPowerState(device_at(SERVER), &now), NVML_SUCCESS);
    assert_int_equal(now, NVML_PSTATE_0);
}

int main(void)
{
#define ON_A_NODE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_A_NODE(pci_info_of_three_sizes),
        ON_A_NODE(memory_adds_up),
        ON_A_NODE(ecc_counters),
        ON_A_NODE(sram_errors_have_places),
        ON_A_NODE(remapped_rows),
        ON_A_NODE(retired_pages),
        ON_A_NODE(links),
        ON_A_NODE(links_to_peers),
        ON_A_NODE(one_place_for_the_driver_model_is_enough),
        ON_A_NODE(the_default_of_auto_boost_need_not_be_asked),
        ON_A_NODE(what_captures_show),
        ON_A_NODE(an_older_driver_knows_fewer_fields),
        ON_A_NODE(fabric),
        ON_A_NODE(topology),
        ON_A_NODE(affinity),
        ON_A_NODE(peer_to_peer),
        ON_A_NODE(clock_lists),
        ON_A_NODE(power_and_limits),
        ON_A_NODE(temperatures_and_fans),
        ON_A_NODE(utilisation_under_load),
        ON_A_NODE(violations),
        ON_A_NODE(performance_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
