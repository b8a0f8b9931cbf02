/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/module.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/devices.h"
#include "sim/cuda/kernel.h"

enum { DEFAULT_SHARED = 48 << 10, NAME_MAX_BYTES = 128, THREADS_MAX = 1024 };
/* As ptxas 13.0 takes, on a core that is twice as fast as the one that it was measured on: what has wgmma is slow. */
enum { JIT_NS = 20000000, JIT_KIB_NS = 850000, JIT_WGMMA_KIB_NS = 4000000 };

struct CUfunc_st {
    CudaKernel kernel;
    uint32_t shared_bytes; /* dynamic, at most */
    CuDevice *device;
    struct CUfunc_st *next;
};

struct CUmod_st {
    CuDevice *device;
    char *text;
    CUfunction functions;
    struct CUmod_st *next;
};

static CUmodule modules;

/* --- texts ------------------------------------------------------------------------------------------------------- */

/* PTX ISA that a driver compiles, as 10 * major + minor: release notes of CUDA. */
static unsigned int driver_isa(const SimImage *image)
{
    const unsigned long branch = strtoul(image->driver, NULL, 10);

    return branch < 550 ? 82 : branch < 570 ? 84 : branch < 590 ? 87 : 91;
}

/* `.target sm_90a`: the number, and whether it is for that one alone. A family (`f`) runs on later ones of its major.
 */
static CUresult check_target(const CuDevice *device, const char *text)
{
    const char *at = strstr(text, ".target");
    const unsigned int cc = device->board->cc_major * 10 + device->board->cc_minor;
    char *end;

    at = at ? strstr(at, "sm_") : NULL;
    if (!at)
        return CUDA_BAD_PTX;
    const unsigned long target = strtoul(at + 3, &end, 10);
    const bool fits = *end == 'a' ? target == cc : *end == 'f' ? target <= cc && target / 10 == cc / 10 : target <= cc;
    return fits ? CUDA_SUCCESS : CUDA_NO_BINARY;
}

static CUresult check_text(const CuDevice *device, const char *text)
{
    const char *version = strstr(text, ".version");
    unsigned int major, minor;

    if (!version || sscanf(version, ".version %u.%u", &major, &minor) != 2)
        return CUDA_BAD_PTX;
    if (major * 10 + minor > driver_isa(cu_process.image))
        return CUDA_PTX_TOO_NEW;
    return check_target(device, text);
}

/* Whether `.entry NAME(` is in the text. */
static bool has_entry(const char *text, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = text; (at = strstr(at, ".entry")) != NULL;) {
        at += strlen(".entry");
        while (isspace((unsigned char)*at))
            at++;
        if (strncmp(at, name, length) == 0 && !isalnum((unsigned char)at[length]) && at[length] != '_')
            return true;
    }
    return false;
}

static void write_log(CUresult result, unsigned int count, const int *options, void *const *values)
{
    char *log = NULL;
    size_t size = 0;

    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == CUDA_JIT_ERROR_LOG)
            log = values[i];
        if (options[i] == CUDA_JIT_ERROR_LOG_BYTES)
            size = (size_t)(uintptr_t)values[i];
    }
    if (log && size > 0)
        snprintf(log, size, "%s",
                 result == CUDA_SUCCESS       ? ""
                 : result == CUDA_PTX_TOO_NEW ? "ptxas fatal   : Unsupported .version"
                 : result == CUDA_NO_BINARY   ? "ptxas fatal   : SM version specified by .target is higher than default"
                                              : "ptxas fatal   : Ptx assembly aborted due to errors");
}

/* --- modules ----------------------------------------------------------------------------------------------------- */

static CUresult load_module(CUmodule *module, const char *text)
{
    CuDevice *device = cu_current();
    const uint32_t ordered = cu_state(device, cu_now())->cond.set[SIM_KEY_CUDA_RESULT];

    if (ordered == CUDA_NO_JIT || ordered == CUDA_PTX_TOO_NEW)
        return (CUresult)ordered;
    const CUresult result = check_text(device, text);
    if (result != CUDA_SUCCESS)
        return result;
    CUmodule made = malloc(sizeof *made);
    char *copy = strdup(text);
    if (!made || !copy)
        abort();
    *made = (struct CUmod_st){.device = device, .text = copy, .next = modules};
    modules = made;
    const uint64_t kib_ns = strstr(text, "wgmma.mma_async") ? JIT_WGMMA_KIB_NS : JIT_KIB_NS;
    cu_wait(cu_now() + JIT_NS + strlen(text) * kib_ns / 1024);
    *module = made;
    return CUDA_SUCCESS;
}

static CUresult load_text(CUmodule *module, const void *text, unsigned int count, const int *options,
                          void *const *values)
{
    if (!module || !text)
        return CUDA_BAD_ARGUMENT;
    const CUresult result = load_module(module, text);
    write_log(result, count, options, values);
    return result;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *text, unsigned int count, int *options, void **values)
{
    CU_RETURN(cuModuleLoadDataEx, CU_NEEDS_CONTEXT, load_text(module, text, count, options, values));
}

static void free_module(CUmodule *at)
{
    CUmodule module = *at;

    *at = module->next;
    while (module->functions) {
        CUfunction next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    free(module->text);
    free(module);
}

static CUmodule *find_module(CUmodule module)
{
    for (CUmodule *at = &modules; *at; at = &(*at)->next)
        if (*at == module)
            return at;
    return NULL;
}

static CUresult unload_module(CUmodule module)
{
    CUmodule *at = find_module(module);

    if (!at)
        return CUDA_BAD_ARGUMENT;
    const CUresult result = cu_queue_wait_device(module->device);
    free_module(at);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    CU_RETURN(cuModuleUnload, CU_NEEDS_CONTEXT, unload_module(module));
}

void cu_modules_clear(const CuDevice *device)
{
    for (CUmodule *at = &modules; *at;)
        if ((*at)->device == device)
            free_module(at);
        else
            at = &(*at)->next;
}

static CUresult get_function(CUfunction *function, CUmodule module, const char *name)
{
    if (!function || !name || !find_module(module))
        return CUDA_BAD_ARGUMENT;
    const CudaKernel kernel = cu_kernel_find(name);
    if (kernel == CUDA_KERNEL_COUNT || !has_entry(module->text, name)) {
        cu_strict("cuModuleGetFunction", "no such entry: %.*s", NAME_MAX_BYTES, name);
        return CUDA_NOT_FOUND;
    }
    CUfunction made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct CUfunc_st){kernel, DEFAULT_SHARED, module->device, module->functions};
    module->functions = made;
    *function = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CU_RETURN(cuModuleGetFunction, CU_NEEDS_CONTEXT, get_function(function, module, name));
}

/* --- functions --------------------------------------------------------------------------------------------------- */

static bool is_function(CUfunction function)
{
    for (CUmodule module = modules; module; module = module->next)
        for (CUfunction at = module->functions; at; at = at->next)
            if (at == function)
                return true;
    return false;
}

static CUresult set_attribute(CUfunction function, int attribute, int value)
{
    const int most = cu_device_shared(cu_current()->board).optin;

    if (!is_function(function) || attribute != CUDA_FUNCTION_MAX_DYNAMIC_SHARED || value < 0 || value > most)
        return CUDA_BAD_ARGUMENT;
    function->shared_bytes = (uint32_t)value > DEFAULT_SHARED ? (uint32_t)value : DEFAULT_SHARED;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    CU_RETURN(cuFuncSetAttribute, CU_NEEDS_CONTEXT, set_attribute(function, attribute, value));
}

typedef struct Shape {
    unsigned int grid[3], block[3], shared_bytes;
} Shape;

/* A product has a block for each tile, and fits its sizes. */
static bool fits_kernel(CudaKernel kernel, uint64_t blocks, const CudaKernelArgs *args)
{
    if (kernel != CUDA_GEMM_BF16)
        return kernel != CUDA_GEMM_REFERENCE || args->k % 2 == 0;
    return args->m % 128 == 0 && args->n % 128 == 0 && args->k % 32 == 0 && args->m && args->n && args->k &&
           blocks == (uint64_t)(args->m / 128) * (args->n / 128);
}

static CUresult launch_kernel(CUfunction function, const Shape *shape, CUstream handle, void **params)
{
    CUstream stream = cu_stream_find(handle);
    const uint64_t blocks = (uint64_t)shape->grid[0] * shape->grid[1] * shape->grid[2];
    const uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
    CudaKernelArgs args;

    if (!is_function(function) || !stream || !params || !params[0] || blocks == 0 || blocks > INT32_MAX || threads == 0)
        return CUDA_BAD_ARGUMENT;
    if (function->device != cu_current() || stream->device != cu_current())
        return CUDA_BAD_CONTEXT;
    if (threads > THREADS_MAX || shape->shared_bytes > function->shared_bytes)
        return CUDA_BAD_ARGUMENT;
    memcpy(&args, params[0], sizeof args);
    if (!fits_kernel(function->kernel, blocks, &args)) {
        cu_strict("cuLaunchKernel", "grid and sizes of a product do not fit");
        return CUDA_BAD_ARGUMENT;
    }
    cu_kernel_queue(stream, function->kernel, (uint32_t)blocks, &args);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra)
{
    const Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};

    (void)extra;
    CU_RETURN(cuLaunchKernel, CU_NEEDS_CONTEXT, launch_kernel(function, &shape, stream, params));
}
