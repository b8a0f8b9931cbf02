/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame buffer, BAR1 and what confidential computing would protect. A MIG device has the memory of its GPU instance,
 * whose compute instances share it.
 */
#include "sim/nvml/getter.h"

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
