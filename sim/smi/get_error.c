/* SPDX-License-Identifier: Apache-2.0 */
/* ECC, retired pages, remapped rows. */
#include "sim/smi/get.h"

#include "base/owner.h"

void get_ecc_mode(const Subject *of, int arg, Value *ret)
{
    nvmlEnableState_t mode[2] = {NVML_FEATURE_DISABLED, NVML_FEATURE_DISABLED};
    nvmlReturn_t rc = NV(DeviceGetEccMode, of->gpu->handle, &mode[0], &mode[1]);

    value_enabled(ret, rc, mode[arg]);
}

void get_ecc(const Subject *of, int arg, Value *ret)
{
    nvmlMemoryErrorType_t error = (nvmlMemoryErrorType_t)(arg >> 8);
    nvmlEccCounterType_t counter = (nvmlEccCounterType_t)(arg >> 4 & 15);
    int location = arg & 15;
    unsigned long long count = 0;
    nvmlReturn_t rc = location == ECC_TOTAL ? NV(DeviceGetTotalEccErrors, of->gpu->handle, error, counter, &count)
                                            : NV(DeviceGetMemoryErrorCounter, of->gpu->handle, error, counter,
                                                 (nvmlMemoryLocation_t)location, &count);

    value_uint(ret, rc, count);
}

void get_sram(const Subject *of, int arg, Value *ret)
{
    const nvmlEccSramErrorStatus_t *sram;
    nvmlReturn_t rc = gpu_sram(of->gpu, &sram);
    const unsigned long long parts[] = {
        [SRAM_AGG_PARITY] = sram->aggregateUncParity, [SRAM_AGG_SECDED] = sram->aggregateUncSecDed,
        [SRAM_VOL_PARITY] = sram->volatileUncParity,  [SRAM_VOL_SECDED] = sram->volatileUncSecDed,
        [SRAM_L2] = sram->aggregateUncBucketL2,       [SRAM_SM] = sram->aggregateUncBucketSm,
        [SRAM_PCIE] = sram->aggregateUncBucketPcie,   [SRAM_MCU] = sram->aggregateUncBucketMcu,
        [SRAM_OTHER] = sram->aggregateUncBucketOther, [SRAM_THRESHOLD] = sram->bThresholdExceeded,
        [SRAM_AGG_COR] = sram->aggregateCor,          [SRAM_VOL_COR] = sram->volatileCor,
    };

    if (arg == SRAM_THRESHOLD)
        value_yes(ret, rc, parts[arg]);
    else
        value_uint(ret, rc, parts[arg]);
}

void get_retired(const Subject *of, int arg, Value *ret)
{
    unsigned int count = 0;
    nvmlReturn_t rc = NV(DeviceGetRetiredPages_v2, of->gpu->handle, (nvmlPageRetirementCause_t)arg, &count, NULL, NULL);

    value_uint(ret, rc == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_SUCCESS : rc, count);
}

void get_retired_pending(const Subject *of, int arg, Value *ret)
{
    nvmlEnableState_t pending = NVML_FEATURE_DISABLED;

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetRetiredPagesPendingStatus, of->gpu->handle, &pending);
    value_yes(ret, rc, pending);
}

void get_remapped(const Subject *of, int arg, Value *ret)
{
    const GpuRemap *remap;
    nvmlReturn_t rc = gpu_remap(of->gpu, &remap);
    const unsigned int parts[] = {[REMAP_COR] = remap->correctable,
                                  [REMAP_UNC] = remap->uncorrectable,
                                  [REMAP_PENDING] = remap->pending,
                                  [REMAP_FAILURE] = remap->failure};

    if (arg == REMAP_PENDING || arg == REMAP_FAILURE)
        value_yes(ret, rc, parts[arg]);
    else
        value_uint(ret, rc, parts[arg]);
}

/* arg 0: after corrected errors; 1: after uncorrected ones. */
void get_remapped_inactive(const Subject *of, int arg, Value *ret)
{
    nvmlRemappedRowsInfo_v2_t info = {0};
    nvmlReturn_t rc = NV(DeviceGetRemappedRows_v2, of->gpu->handle, &info);

    value_uint(ret, rc, arg ? info.uncInactiveRemaps : info.corrInactiveRemaps);
}

void get_histogram(const Subject *of, int arg, Value *ret)
{
    const nvmlRowRemapperHistogramValues_t *banks;
    nvmlReturn_t rc = gpu_histogram(of->gpu, &banks);
    const unsigned int parts[] = {[BANKS_MAX] = banks->max,
                                  [BANKS_HIGH] = banks->high,
                                  [BANKS_PARTIAL] = banks->partial,
                                  [BANKS_LOW] = banks->low,
                                  [BANKS_NONE] = banks->none};

    value_uint(ret, rc, parts[arg]);
}

/* arg 0: a memory channel waits for repair; 1: a TPC. */
void get_repair(const Subject *of, int arg, Value *ret)
{
    const nvmlRepairStatus_t *status;
    nvmlReturn_t rc = gpu_repair(of->gpu, &status);

    value_yes(ret, rc, arg ? status->bTpcRepairPending : status->bChannelRepairPending);
}

void get_unrepairable(const Subject *of, int arg, Value *ret)
{
    nvmlUnrepairableMemoryStatus_v1_t status = {0};

    (void)arg;
    nvmlReturn_t rc = NV(DeviceGetUnrepairableMemoryFlag_v1, of->gpu->handle, &status);
    value_yes(ret, rc, status.bUnrepairableMemory);
}
