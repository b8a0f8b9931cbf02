/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The few functions of CUDA's driver library (libcuda.so.1) that the kernels need, as types: the program looks them up
 * by these names at run time. Written from the driver API's documented signatures; a name with _v2 is the one whose
 * sizes are 64 bits (since CUDA 3.2), and the one to look up. A device is a number, not a handle.
 */
#include <stddef.h>
#include <stdint.h>

typedef int CudaResult; /* 0: fine */
typedef int CudaDevice;
typedef uint64_t CudaPointer;
typedef struct CudaContextOpaque *CudaContext;
typedef struct CudaModuleOpaque *CudaModule;
typedef struct CudaFunctionOpaque *CudaFunction;
typedef struct CudaStreamOpaque *CudaStream;

enum {
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_SYSTEM_NOT_READY = 802, /* the fabric manager is not ready */
    CUDA_CONTEXT_BLOCKING_SYNC = 4,    /* waiting sleeps instead of spinning on a processor */
    CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    CUDA_ATTRIBUTE_BUS_WIDTH_BITS = 37,
    CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76,
    CUDA_JIT_ERROR_LOG = 5,
    CUDA_JIT_ERROR_LOG_BYTES = 6,
};

/* FUNCTION(member, symbol, parameters) */
#define CUDA_FUNCTIONS(FUNCTION)                                                                                       \
    FUNCTION(init, cuInit, unsigned int flags)                                                                         \
    FUNCTION(driver_version, cuDriverGetVersion, int *version)                                                         \
    FUNCTION(error_name, cuGetErrorName, CudaResult result, const char **name)                                         \
    FUNCTION(device_count, cuDeviceGetCount, int *count)                                                               \
    FUNCTION(device_get, cuDeviceGet, CudaDevice *device, int ordinal)                                                 \
    FUNCTION(device_name, cuDeviceGetName, char *name, int length, CudaDevice device)                                  \
    FUNCTION(device_address, cuDeviceGetPCIBusId, char *address, int length, CudaDevice device)                        \
    FUNCTION(device_attribute, cuDeviceGetAttribute, int *value, int attribute, CudaDevice device)                     \
    FUNCTION(context_flags, cuDevicePrimaryCtxSetFlags_v2, CudaDevice device, unsigned int flags)                      \
    FUNCTION(context_retain, cuDevicePrimaryCtxRetain, CudaContext *context, CudaDevice device)                        \
    FUNCTION(context_release, cuDevicePrimaryCtxRelease_v2, CudaDevice device)                                         \
    FUNCTION(context_use, cuCtxSetCurrent, CudaContext context)                                                        \
    FUNCTION(synchronize, cuCtxSynchronize, void)                                                                      \
    FUNCTION(module_load, cuModuleLoadDataEx, CudaModule *module, const void *image, unsigned int count,               \
             const int *options, void **values)                                                                        \
    FUNCTION(module_function, cuModuleGetFunction, CudaFunction *function, CudaModule module, const char *name)        \
    FUNCTION(launch, cuLaunchKernel, CudaFunction function, unsigned int grid_x, unsigned int grid_y,                  \
             unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,                    \
             unsigned int shared_bytes, CudaStream stream, void **parameters, void **extra)                            \
    FUNCTION(memory_info, cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes)                                    \
    FUNCTION(memory_new, cuMemAlloc_v2, CudaPointer *pointer, size_t bytes)                                            \
    FUNCTION(memory_free, cuMemFree_v2, CudaPointer pointer)                                                           \
    FUNCTION(memory_fill, cuMemsetD32_v2, CudaPointer to, unsigned int value, size_t words)                            \
    FUNCTION(memory_read, cuMemcpyDtoH_v2, void *to, CudaPointer from, size_t bytes)
