/* SPDX-License-Identifier: Apache-2.0 */
/* Frame buffer, BAR1, and memory errors. */
#include <string.h>

#include "sim/nvml/getter.h"

/* --- sizes and use ----------------------------------------------------------------------------------------------- */

/* A MIG device has the memory of its GPU instance, whose compute instances share it. */

#define MIB (1024ull * 1024)

typedef struct Usage {
    unsigned long long total, reserved, used; /* bytes; used without reserved */
} Usage;

static Usage usage_of_instance(const NvmlCall *c)
{
    double mib = 0;

    for (uint32_t i = 0; i < c->now->proc_count; i++)
        if (c->now->proc[i].gi == (int32_t)c->gi.id)
            mib += c->now->proc[i].mem_mib;
    return (Usage){.total = c->board->profiles[c->gi.profile].memory_mib * MIB, .used = nvml_round(mib * (double)MIB)};
}

/* Whole bytes that add up: never more used than there is. */
static Usage usage_of(const NvmlCall *c)
{
    Usage u = {.total = c->board->memory_mib * MIB,
               .reserved = c->board->reserved_mib * MIB,
               .used = nvml_round((c->now->used_mib + c->now->cond.set[SIM_KEY_ORPHAN_MIB]) * (double)MIB)};

    if (c->mig)
        u = usage_of_instance(c);
    if (u.reserved > u.total)
        u.reserved = u.total;
    if (u.used > u.total - u.reserved)
        u.used = u.total - u.reserved;
    return u;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetMemoryInfo, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    const Usage u = usage_of(&c);
    memory->total = u.total;
    memory->used = u.used + u.reserved; /* the older form counts the reservation as used */
    memory->free = u.total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetMemoryInfo_v2;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, memory->version, nvmlMemory_v2);
    if (r != NVML_SUCCESS) /* seen in the field on drivers up to R5xx; clients test for either */
        return nvml_library_generation < 590 ? NVML_ERROR_FUNCTION_NOT_FOUND : r;
    const Usage u = usage_of(&c);
    memory->total = u.total;
    memory->reserved = u.reserved;
    memory->used = u.used;
    memory->free = u.total - u.reserved - u.used;
    return NVML_SUCCESS;
}

/* An instance's share by memory slices of what the window has beyond the frame buffer (6184 of 49478 MiB on an H100).
 */
static unsigned long long bar1_of_instance(const NvmlCall *c)
{
    const SimBoard *b = c->board;
    const unsigned long long mib = b->bar1_mib > b->memory_mib ? b->bar1_mib - b->memory_mib : b->bar1_mib;
    return b->mig_grid ? mib * c->gi.size / b->mig_grid : mib;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetBAR1MemoryInfo, device, NVML_TAKES_ANY, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned long long total = c.mig ? bar1_of_instance(&c) : c.board->bar1_mib;
    unsigned long long used = c.mig ? 0 : 1 + 2ull * c.now->proc_count; /* each context maps a little */
    if (used > total)
        used = total;
    memory->bar1Total = total * MIB;
    memory->bar1Used = used * MIB;
    memory->bar1Free = (total - used) * MIB;
    return NVML_SUCCESS;
}

NVML_GETTER(nvmlDeviceGetMemoryBusWidth, NVML_TAKES_GPU, unsigned int, c.board->bus_width_bits != 0,
            c.board->bus_width_bits)

/* ---- confidential computing is off ---- */

NVML_GETTER_STRUCT(nvmlDeviceGetConfComputeProtectedMemoryUsage, NVML_TAKES_GPU, nvmlMemory_t, 1,
                   (nvmlMemory_t){.total = 0})
NVML_GETTER_STRUCT(nvmlDeviceGetConfComputeMemSizeInfo, NVML_TAKES_GPU, nvmlConfComputeMemSizeInfo_t, 1,
                   (nvmlConfComputeMemSizeInfo_t){.protectedMemSizeKib = 0})

nvmlReturn_t nvmlDeviceGetDramEncryptionMode(nvmlDevice_t device, nvmlDramEncryptionInfo_t *current,
                                             nvmlDramEncryptionInfo_t *pending)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetDramEncryptionMode;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((r = nvml_check_tag(fn, current->version, nvmlDramEncryptionInfo_v1)) != NVML_SUCCESS)
        return r;
    if ((r = nvml_check_tag(fn, pending->version, nvmlDramEncryptionInfo_v1)) != NVML_SUCCESS)
        return r;
    if (c.board->arch < NVML_DEVICE_ARCH_BLACKWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    current->encryptionState = NVML_FEATURE_DISABLED;
    pending->encryptionState = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

/* --- errors ------------------------------------------------------------------------------------------------------ */

/*
 * Memory errors: ECC counters, retired pages (before Ampere) and remapped rows (since). From Ampere on the driver tells
 * apart only DRAM and SRAM; what the simulation counts in finer places shows up in SRAM.
 */

typedef struct Counters {
    const uint64_t *loc; /* by SimEccLoc */
} Counters;

static int has_coarse_ecc(const SimBoard *board)
{
    return board->arch >= NVML_DEVICE_ARCH_AMPERE;
}

static Counters counters_of(const NvmlCall *c, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter)
{
    const SimCond *cond = &c->now->cond;
    return (Counters){counter == NVML_VOLATILE_ECC ? cond->ecc_volatile[error] : cond->ecc_aggregate[error]};
}

/* Sum over the chip's own memories. */
static uint64_t sram_sum(Counters n)
{
    uint64_t sum = 0;
    for (unsigned int i = 0; i < SIM_ECC_LOCS; i++)
        if (i != SIM_ECC_DRAM)
            sum += n.loc[i];
    return sum;
}

/* Enters a function about counters; ECC that is off or missing has none. */
static nvmlReturn_t enter_ecc(NvmlFn fn, nvmlDevice_t device, NvmlTakes takes, const void *out, NvmlCall *ret)
{
    const nvmlReturn_t r = nvml_enter_device(fn, device, takes, ret);

    if (r != NVML_SUCCESS)
        return r;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    return ret->board->has_ecc && ret->now->cond.ecc_mode ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int bad_counter(nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter)
{
    return (unsigned int)error >= NVML_MEMORY_ERROR_TYPE_COUNT || (unsigned int)counter >= NVML_ECC_COUNTER_TYPE_COUNT;
}

NVML_GETTER_PAIR(nvmlDeviceGetEccMode, NVML_TAKES_GPU, nvmlEnableState_t, c.board->has_ecc, c.now->cond.ecc_mode != 0,
                 c.now->cond.set[SIM_KEY_ECC_PENDING] != 0)
NVML_GETTER(nvmlDeviceGetDefaultEccMode, NVML_TAKES_GPU, nvmlEnableState_t, c.board->has_ecc, NVML_FEATURE_ENABLED)

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,
                                         unsigned long long *count)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_ecc(NVML_FN_nvmlDeviceGetTotalEccErrors, device, NVML_TAKES_GPU_NS, count, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (bad_counter(error, counter))
        return NVML_ERROR_INVALID_ARGUMENT;
    const Counters n = counters_of(&c, error, counter);
    *count = n.loc[SIM_ECC_DRAM] + sram_sum(n);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error,
                                            nvmlEccCounterType_t counter, nvmlEccErrorCounts_t *counts)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_ecc(NVML_FN_nvmlDeviceGetDetailedEccErrors, device, NVML_TAKES_GPU_NS, counts, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (bad_counter(error, counter))
        return NVML_ERROR_INVALID_ARGUMENT;
    const Counters n = counters_of(&c, error, counter);
    counts->l1Cache = n.loc[SIM_ECC_L1];
    counts->l2Cache = n.loc[SIM_ECC_L2];
    counts->deviceMemory = n.loc[SIM_ECC_DRAM];
    counts->registerFile = n.loc[SIM_ECC_REG];
    return NVML_SUCCESS;
}

/* Whether the board tells a location's count apart. The control unit's errors are never corrected. */
static int has_location(const SimBoard *board, nvmlMemoryErrorType_t error, nvmlMemoryLocation_t location)
{
    if (location == NVML_MEMORY_LOCATION_DRAM)
        return 1;
    if (has_coarse_ecc(board) || location == NVML_MEMORY_LOCATION_SRAM)
        return has_coarse_ecc(board) && location == NVML_MEMORY_LOCATION_SRAM;
    return location != NVML_MEMORY_LOCATION_CBU || error == NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t error,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                             unsigned long long *count)
{
    NvmlCall c;
    const nvmlReturn_t r = enter_ecc(NVML_FN_nvmlDeviceGetMemoryErrorCounter, device, NVML_TAKES_ANY, count, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (bad_counter(error, counter) || (unsigned int)location >= NVML_MEMORY_LOCATION_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_location(c.board, error, location))
        return NVML_ERROR_NOT_SUPPORTED;
    /* The one counter that MIG devices show. */
    if (c.mig && (location != NVML_MEMORY_LOCATION_SRAM || error != NVML_MEMORY_ERROR_TYPE_UNCORRECTED ||
                  counter != NVML_VOLATILE_ECC))
        return NVML_ERROR_NOT_SUPPORTED;
    const Counters n = counters_of(&c, error, counter);
    *count = location == NVML_MEMORY_LOCATION_SRAM ? sram_sum(n) : n.loc[location];
    return NVML_SUCCESS;
}

/* ---- SRAM of Ampere and later ---- */

/* The SMs check parity; the rest of the chip corrects single bits. */
static uint64_t parity_part(Counters n)
{
    return n.loc[SIM_ECC_L1] + n.loc[SIM_ECC_REG] + n.loc[SIM_ECC_TEX] + n.loc[SIM_ECC_SHM];
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetSramEccErrorStatus;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!status)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((r = nvml_check_tag(fn, status->version, nvmlEccSramErrorStatus_v1)) != NVML_SUCCESS)
        return r;
    if (!has_coarse_ecc(c.board) || (c.board->has_ecc && !c.now->cond.ecc_mode)) /* a GeForce of Ada says zeros */
        return NVML_ERROR_NOT_SUPPORTED;
    const Counters agg = counters_of(&c, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC);
    const Counters vol = counters_of(&c, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
    *status = (nvmlEccSramErrorStatus_t){
        .version = nvmlEccSramErrorStatus_v1,
        .aggregateUncParity = parity_part(agg),
        .aggregateUncSecDed = sram_sum(agg) - parity_part(agg),
        .aggregateCor = sram_sum(counters_of(&c, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC)),
        .volatileUncParity = parity_part(vol),
        .volatileUncSecDed = sram_sum(vol) - parity_part(vol),
        .volatileCor = sram_sum(counters_of(&c, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC)),
        .aggregateUncBucketL2 = agg.loc[SIM_ECC_L2],
        .aggregateUncBucketSm = parity_part(agg),
        .aggregateUncBucketOther = agg.loc[SIM_ECC_CBU] + agg.loc[SIM_ECC_SRAM],
        .bThresholdExceeded = c.now->cond.set[SIM_KEY_SRAM_THRESHOLD] != 0,
    };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(nvmlDevice_t device,
                                                              nvmlEccSramUniqueUncorrectedErrorCounts_t *counts)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, &c);
    nvmlEccSramUniqueUncorrectedErrorEntry_v1_t entries[SIM_ECC_LOCS];
    unsigned int need = 0;

    if (r != NVML_SUCCESS)
        return r;
    if (!counts)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, counts->version, nvmlEccSramUniqueUncorrectedErrorCounts_v1);
    if (r != NVML_SUCCESS)
        return r;
    if (!c.board->has_ecc || !c.now->cond.ecc_mode || c.board->arch < NVML_DEVICE_ARCH_HOPPER)
        return NVML_ERROR_NOT_SUPPORTED;
    const Counters agg = counters_of(&c, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC);
    for (unsigned int i = 0; i < SIM_ECC_LOCS; i++)
        if (i != SIM_ECC_DRAM && agg.loc[i] > 0)
            entries[need++] = (nvmlEccSramUniqueUncorrectedErrorEntry_v1_t){
                .unit = i,
                .address = (unsigned int)nvml_made_up(c.image->seed ^ c.gpu, i) & 0xffff,
                .isParity = i != SIM_ECC_L2 && i != SIM_ECC_CBU && i != SIM_ECC_SRAM,
                .count = (unsigned int)agg.loc[i]};
    const unsigned int room = counts->entries ? counts->entryCount : 0;
    counts->entryCount = need;
    if (!counts->entries)
        return NVML_SUCCESS;
    if (room < need)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(counts->entries, entries, need * sizeof *entries);
    return NVML_SUCCESS;
}

/* ---- retired pages ---- */

enum { PAGE_BYTES = 4096 };

/* Addresses and times are made up, but stay the same: the i-th page of a cause on a GPU is always that one. */
static nvmlReturn_t retired_pages(NvmlFn fn, nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                  unsigned long long *addresses, unsigned long long *timestamps, int with_times)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU_NS, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!count || (unsigned int)cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (*count > 0 && (!addresses || (with_times && !timestamps)))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_retired_pages)
        return NVML_ERROR_NOT_SUPPORTED;
    const unsigned int need = c.now->cond.retired[cause], room = *count;
    const uint64_t pages = (uint64_t)c.board->memory_mib * 1024 * 1024 / PAGE_BYTES;
    const uint64_t seed = c.image->seed ^ (uint64_t)c.gpu << 8 ^ (uint64_t)cause;
    *count = need;
    if (room < need)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < need; i++) {
        addresses[i] = pages ? nvml_made_up(seed, i) % pages * PAGE_BYTES : 0;
        if (with_times)
            timestamps[i] = c.image->epoch_us + (uint64_t)i * 1000000;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                       unsigned long long *addresses)
{
    return retired_pages(NVML_FN_nvmlDeviceGetRetiredPages, device, cause, count, addresses, NULL, 0);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                          unsigned long long *addresses, unsigned long long *timestamps)
{
    return retired_pages(NVML_FN_nvmlDeviceGetRetiredPages_v2, device, cause, count, addresses, timestamps, 1);
}

NVML_GETTER(nvmlDeviceGetRetiredPagesPendingStatus, NVML_TAKES_GPU_NS, nvmlEnableState_t, c.board->has_retired_pages,
            c.now->cond.retired_pending != 0)

/* ---- remapped rows ---- */

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failure)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetRemappedRows, device, NVML_TAKES_NO_MIG, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!correctable || !uncorrectable || !pending || !failure)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_remap)
        return NVML_ERROR_NOT_SUPPORTED;
    *correctable = c.now->cond.remap_cor;
    *uncorrectable = c.now->cond.remap_unc;
    *pending = c.now->cond.remap_pending != 0;
    *failure = c.now->cond.remap_failed != 0;
    return NVML_SUCCESS;
}

NVML_GETTER_STRUCT(nvmlDeviceGetRemappedRows_v2, NVML_TAKES_NO_MIG, nvmlRemappedRowsInfo_v2_t, c.board->has_remap,
                   ((nvmlRemappedRowsInfo_v2_t){.corrActiveRemaps = c.now->cond.remap_cor,
                                                .uncActiveRemaps = c.now->cond.remap_unc,
                                                .bPending = c.now->cond.remap_pending != 0,
                                                .bFailureOccurred = c.now->cond.remap_failed != 0}))

NVML_GETTER_STRUCT(nvmlDeviceGetRowRemapperHistogram, NVML_TAKES_GPU_NS, nvmlRowRemapperHistogramValues_t,
                   c.board->has_remap,
                   ((nvmlRowRemapperHistogramValues_t){.max = c.now->cond.bank_spent[0],
                                                       .high = c.now->cond.bank_spent[1],
                                                       .partial = c.now->cond.bank_spent[2],
                                                       .low = c.now->cond.bank_spent[3],
                                                       .none = c.now->cond.bank_spent[4]}))

/* Captures of Ada have it, those of Turing do not. */
NVML_GETTER_TAGGED(nvmlDeviceGetRepairStatus, NVML_TAKES_GPU_NS, nvmlRepairStatus_t, nvmlRepairStatus_v1,
                   c.board->arch >= NVML_DEVICE_ARCH_ADA, (nvmlRepairStatus_t){.version = nvmlRepairStatus_v1})

NVML_GETTER_STRUCT(nvmlDeviceGetUnrepairableMemoryFlag_v1, NVML_TAKES_GPU_NS, nvmlUnrepairableMemoryStatus_v1_t,
                   c.board->has_remap,
                   ((nvmlUnrepairableMemoryStatus_v1_t){.bUnrepairableMemory = c.now->cond.remap_failed != 0}))
