/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the CUDA driver's binary interface (libcuda.so.1) that Stoker uses, written from its documentation and
 * the layouts of CUDA 13.0: the names that are exported, with their suffix, and the numbers of enums. Handles are
 * opaque pointers, a device is an ordinal.
 */
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUuuid {
    unsigned char bytes[16];
} CUuuid;

/* CUDA_RESULT(id, number, name as cuGetErrorName has it, what it means for somebody who runs a test) */
#define CUDA_RESULT_TABLE(RESULT)                                                                                      \
    RESULT(CUDA_SUCCESS, 0, "CUDA_SUCCESS", "no error")                                                                \
    RESULT(CUDA_BAD_ARGUMENT, 1, "CUDA_ERROR_INVALID_VALUE", "wrong argument")                                         \
    RESULT(CUDA_OUT_OF_MEMORY, 2, "CUDA_ERROR_OUT_OF_MEMORY", "no memory left on the GPU")                             \
    RESULT(CUDA_NOT_INITIALIZED, 3, "CUDA_ERROR_NOT_INITIALIZED", "not initialised")                                   \
    RESULT(CUDA_STUB_LIBRARY, 34, "CUDA_ERROR_STUB_LIBRARY",                                                           \
           "libcuda.so.1 is the stub of the toolkit, not the driver's")                                                \
    RESULT(CUDA_DEVICE_UNAVAILABLE, 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the GPU is in exclusive use, or lost")       \
    RESULT(CUDA_NO_DEVICE, 100, "CUDA_ERROR_NO_DEVICE", "CUDA sees no GPU")                                            \
    RESULT(CUDA_BAD_DEVICE, 101, "CUDA_ERROR_INVALID_DEVICE", "no such GPU")                                           \
    RESULT(CUDA_BAD_IMAGE, 200, "CUDA_ERROR_INVALID_IMAGE", "the kernel's text is refused")                            \
    RESULT(CUDA_BAD_CONTEXT, 201, "CUDA_ERROR_INVALID_CONTEXT", "no context")                                          \
    RESULT(CUDA_NO_BINARY, 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel for this GPU")                              \
    RESULT(CUDA_ECC_UNCORRECTABLE, 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error")                     \
    RESULT(CUDA_NO_PEER, 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "no access between these GPUs")                    \
    RESULT(CUDA_BAD_PTX, 218, "CUDA_ERROR_INVALID_PTX", "the kernel's text is refused")                                \
    RESULT(CUDA_NVLINK_UNCORRECTABLE, 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error")            \
    RESULT(CUDA_NO_JIT, 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",                                                      \
           "libnvidia-ptxjitcompiler.so.1 is missing (containers need the capability 'compute')")                      \
    RESULT(CUDA_PTX_TOO_NEW, 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the driver is older than the kernel's text")  \
    RESULT(CUDA_JIT_DISABLED, 223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "compilation of kernels is switched off")    \
    RESULT(CUDA_CONTAINED, 226, "CUDA_ERROR_CONTAINED", "an error that was contained to this process")                 \
    RESULT(CUDA_OPERATING_SYSTEM, 304, "CUDA_ERROR_OPERATING_SYSTEM", "the system refuses, look at /dev/nvidia*")      \
    RESULT(CUDA_NOT_FOUND, 500, "CUDA_ERROR_NOT_FOUND", "no such name")                                                \
    RESULT(CUDA_NOT_READY, 600, "CUDA_ERROR_NOT_READY", "still running")                                               \
    RESULT(CUDA_ILLEGAL_ADDRESS, 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel used a wrong address")                   \
    RESULT(CUDA_OUT_OF_RESOURCES, 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a kernel needs more than there is")      \
    RESULT(CUDA_TIMED_OUT, 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the driver's watchdog ended a kernel")                   \
    RESULT(CUDA_PEER_ALREADY, 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "access was enabled already")             \
    RESULT(CUDA_TOO_MANY_PEERS, 711, "CUDA_ERROR_TOO_MANY_PEERS", "too many GPUs with access")                         \
    RESULT(CUDA_HARDWARE_STACK, 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error")                        \
    RESULT(CUDA_BAD_INSTRUCTION, 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction")                         \
    RESULT(CUDA_MISALIGNED, 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address")                                \
    RESULT(CUDA_LAUNCH_FAILED, 719, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed")                                     \
    RESULT(CUDA_NOT_PERMITTED, 800, "CUDA_ERROR_NOT_PERMITTED", "not permitted")                                       \
    RESULT(CUDA_NOT_SUPPORTED, 801, "CUDA_ERROR_NOT_SUPPORTED", "not supported")                                       \
    RESULT(CUDA_SYSTEM_NOT_READY, 802, "CUDA_ERROR_SYSTEM_NOT_READY", "the fabric manager is not running or not done") \
    RESULT(CUDA_DRIVER_MISMATCH, 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",                                             \
           "libcuda.so.1 and the kernel module are of different versions")                                             \
    RESULT(CUDA_COMPAT_REFUSED, 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",                                      \
           "the forward compatibility package does not support this GPU")                                              \
    RESULT(CUDA_MPS_FAILED, 805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "the MPS daemon does not answer")                 \
    RESULT(CUDA_UNKNOWN, 999, "CUDA_ERROR_UNKNOWN", "unknown error")

enum {
#define RESULT_ID(id, number, name, words) id = number,
    CUDA_RESULT_TABLE(RESULT_ID)
#undef RESULT_ID
};

/* CUdevice_attribute */
enum {
    CUDA_ATTRIBUTE_SHARED_PER_BLOCK = 8,
    CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
    CUDA_ATTRIBUTE_SM_COUNT = 16,
    CUDA_ATTRIBUTE_WATCHDOG = 17,
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_ECC = 32,
    CUDA_ATTRIBUTE_PCI_BUS = 33,
    CUDA_ATTRIBUTE_PCI_DEVICE = 34,
    CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    CUDA_ATTRIBUTE_BUS_WIDTH_BITS = 37,
    CUDA_ATTRIBUTE_L2_BYTES = 38,
    CUDA_ATTRIBUTE_COPY_ENGINES = 40,
    CUDA_ATTRIBUTE_PCI_DOMAIN = 50,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
    CUDA_ATTRIBUTE_SHARED_PER_SM = 81,
    CUDA_ATTRIBUTE_SHARED_OPTIN = 97,
};

enum { CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8 }; /* CUfunction_attribute */
enum { CUDA_PEER_ACCESS = 2 };                 /* CUdevice_P2PAttribute */
enum { CUDA_CONTEXT_BLOCKING_SYNC = 4 };       /* of cuDevicePrimaryCtxSetFlags */
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 };
enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_BLOCKING_SYNC = 1 };
enum { CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6 }; /* CUjit_option */

/* CUDA_FUNCTION(exported name, arguments): all return CUresult */
#define CUDA_FUNCTION_TABLE(FUNCTION)                                                                                  \
    FUNCTION(cuInit, (unsigned int flags))                                                                             \
    FUNCTION(cuDriverGetVersion, (int *version))                                                                       \
    FUNCTION(cuGetErrorName, (CUresult result, const char **name))                                                     \
    FUNCTION(cuDeviceGetCount, (int *count))                                                                           \
    FUNCTION(cuDeviceGet, (CUdevice * device, int ordinal))                                                            \
    FUNCTION(cuDeviceGetName, (char *name, int length, CUdevice device))                                               \
    FUNCTION(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                                     \
    FUNCTION(cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))                                             \
    FUNCTION(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                       \
    FUNCTION(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                   \
    FUNCTION(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                                        \
    FUNCTION(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags))                                     \
    FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                         \
    FUNCTION(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                          \
    FUNCTION(cuCtxSetCurrent, (CUcontext context))                                                                     \
    FUNCTION(cuCtxSynchronize, (void))                                                                                 \
    FUNCTION(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))                                              \
    FUNCTION(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                         \
    FUNCTION(cuModuleLoadDataEx,                                                                                       \
             (CUmodule * module, const void *text, unsigned int count, int *options, void **values))                   \
    FUNCTION(cuModuleUnload, (CUmodule module))                                                                        \
    FUNCTION(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                          \
    FUNCTION(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                      \
    FUNCTION(cuLaunchKernel, (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,      \
                              unsigned int block_x, unsigned int block_y, unsigned int block_z,                        \
                              unsigned int shared_bytes, CUstream stream, void **params, void **extra))                \
    FUNCTION(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                                     \
    FUNCTION(cuMemFree_v2, (CUdeviceptr address))                                                                      \
    FUNCTION(cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags))                                        \
    FUNCTION(cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *memory, unsigned int flags))                  \
    FUNCTION(cuMemFreeHost, (void *memory))                                                                            \
    FUNCTION(cuMemsetD8Async, (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream))               \
    FUNCTION(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                  \
    FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                        \
    FUNCTION(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                  \
    FUNCTION(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,       \
                                 size_t bytes, CUstream stream))                                                       \
    FUNCTION(cuStreamCreate, (CUstream * stream, unsigned int flags))                                                  \
    FUNCTION(cuStreamDestroy_v2, (CUstream stream))                                                                    \
    FUNCTION(cuStreamSynchronize, (CUstream stream))                                                                   \
    FUNCTION(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))                                  \
    FUNCTION(cuEventCreate, (CUevent * event, unsigned int flags))                                                     \
    FUNCTION(cuEventDestroy_v2, (CUevent event))                                                                       \
    FUNCTION(cuEventRecord, (CUevent event, CUstream stream))                                                          \
    FUNCTION(cuEventQuery, (CUevent event))                                                                            \
    FUNCTION(cuEventSynchronize, (CUevent event))                                                                      \
    FUNCTION(cuEventElapsedTime, (float *ms, CUevent from, CUevent to))

typedef enum CudaFunction {
#define FUNCTION_ID(name, arguments) CUDA_FN_##name,
    CUDA_FUNCTION_TABLE(FUNCTION_ID)
#undef FUNCTION_ID
        CUDA_FUNCTION_COUNT
} CudaFunction;

typedef struct CudaTable {
#define FUNCTION_MEMBER(name, arguments) CUresult(*name) arguments;
    CUDA_FUNCTION_TABLE(FUNCTION_MEMBER)
#undef FUNCTION_MEMBER
} CudaTable;
