/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "source/cuda/cuda.h"

static const CudaSymbol symbols[] = {
#define FUNCTION_SYMBOL(name, arguments) {#name, offsetof(CudaTable, name)},
    CUDA_FUNCTION_TABLE(FUNCTION_SYMBOL)
#undef FUNCTION_SYMBOL
};

void cuda_init(Cuda *cuda)
{
    *cuda = (Cuda){.current = BENCH_NONE};
}

/* No files below the user's home, the order of NVML, no daemon between us and the GPU, no kernel loaded but ours. */
static void set_environment(void)
{
    extern char **environ;

    setenv("CUDA_CACHE_DISABLE", "1", 1);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    for (char **entry = environ; *entry;) {
        char name[64];
        const size_t len = strcspn(*entry, "=");

        if (strncmp(*entry, "CUDA_MPS_", 9) != 0 || len >= sizeof name) {
            entry++;
            continue;
        }
        memcpy(name, *entry, len);
        name[len] = '\0';
        unsetenv(name); /* moves those behind it up */
    }
}

int cuda_fill_table(Cuda *cuda, void *library, const CudaSymbol *wanted, size_t count, void *table)
{
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(library, wanted[i].name);

        if (!at) {
            cuda_check(cuda, wanted[i].name, CUDA_NOT_FOUND);
            return -ENOENT;
        }
        memcpy((char *)table + wanted[i].offset, &at, sizeof at);
    }
    return 0;
}

int cuda_open(Cuda *cuda, const char *library)
{
    set_environment();
    cuda->handle = dlopen(library[0] ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda->handle) {
        cuda->failed = "dlopen";
        cuda->failed_gpu = BENCH_NONE;
        return -ENOENT;
    }
    return cuda_fill_table(cuda, cuda->handle, symbols, ARRAY_LEN(symbols), &cuda->table);
}

void cuda_close(Cuda *cuda)
{
    if (cuda->handle)
        dlclose(cuda->handle);
    cuda->handle = NULL;
}

bool cuda_result_is_sticky(CUresult result)
{
    switch (result) {
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_TIMED_OUT:
        return true;
    default:
        return result >= CUDA_HARDWARE_STACK && result <= CUDA_LAUNCH_FAILED;
    }
}

CUresult cuda_check(Cuda *cuda, const char *function, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return result;
    if (!cuda->failed && !cuda->sticky) {
        cuda->failed = function;
        cuda->result = result;
        cuda->failed_gpu = cuda->current;
    }
    cuda->sticky = cuda->sticky || cuda_result_is_sticky(result);
    return result;
}

void cuda_request_stop(Cuda *cuda)
{
    cuda->stopping = 1;
    for (size_t i = 0; i < BENCH_GPUS_MAX; i++)
        if (cuda->stop_words[i])
            *cuda->stop_words[i] = 1;
}

/* ---- devices ---- */

static int read_attribute(Cuda *cuda, CUdevice device, int attribute, uint32_t *ret)
{
    int value = 0;

    CUDA_TRY(cuda, cuDeviceGetAttribute, (&value, attribute, device));
    *ret = value < 0 ? 0 : (uint32_t)value;
    return 0;
}

static int read_attributes(Cuda *cuda, CUdevice device, BenchDevice *ret)
{
    uint32_t sm_khz = 0, memory_khz = 0, l2_bytes = 0, ecc = 0;
    const struct {
        int attribute;
        uint32_t *ret;
    } rows[] = {
        {CUDA_ATTRIBUTE_MAJOR, &ret->major},
        {CUDA_ATTRIBUTE_MINOR, &ret->minor},
        {CUDA_ATTRIBUTE_SM_COUNT, &ret->sm_count},
        {CUDA_ATTRIBUTE_CLOCK_KHZ, &sm_khz},
        {CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, &memory_khz},
        {CUDA_ATTRIBUTE_BUS_WIDTH_BITS, &ret->bus_bits},
        {CUDA_ATTRIBUTE_L2_BYTES, &l2_bytes},
        {CUDA_ATTRIBUTE_ECC, &ecc},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(read_attribute(cuda, device, rows[i].attribute, rows[i].ret));
    ret->sm_clock_mhz = sm_khz / 1000;
    ret->memory_clock_mhz = memory_khz / 1000;
    ret->l2_bytes = l2_bytes;
    ret->ecc = ecc != 0;
    return 0;
}

/* A MIG device has a UUID of its own; that it is one is known from how it was asked for. */
static void format_uuid(const CUuuid *uuid, char *out, size_t cap)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const unsigned char *b = uuid->bytes;

    snprintf(out, cap, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             visible && strncmp(visible, "MIG-", 4) == 0 ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
             b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

int cuda_read_device(Cuda *cuda, CUdevice device, BenchDevice *ret)
{
    BenchDevice d = {0};
    CUuuid uuid = {0};
    size_t bytes = 0;
    int version = 0;

    CUDA_TRY(cuda, cuDeviceGetName, (d.name, (int)sizeof d.name - 1, device));
    CUDA_TRY(cuda, cuDeviceGetUuid_v2, (&uuid, device));
    CUDA_TRY(cuda, cuDeviceGetPCIBusId, (d.pci, (int)sizeof d.pci - 1, device));
    CUDA_TRY(cuda, cuDeviceTotalMem_v2, (&bytes, device));
    CUDA_TRY(cuda, cuDriverGetVersion, (&version));
    TRY(read_attributes(cuda, device, &d));
    format_uuid(&uuid, d.uuid, sizeof d.uuid);
    d.memory_bytes = bytes;
    d.cuda_version = (uint32_t)version;
    *ret = d;
    return 0;
}
