/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the driver's library and announcing calls. The announcement is written start last and cleared start first,
 * so that who sees a start also sees whose it is.
 */

#include "source/nvml/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

typedef struct Symbol {
    const char *name, *older;
    size_t offset;
} Symbol;

static const Symbol symbols[] = {
#define FN(name) {#name, NULL, offsetof(NvmlTable, name)},
#define FN_WAS(name, older) {#name, older, offsetof(NvmlTable, name)},
#include "source/nvml/functions.def"
#undef FN
#undef FN_WAS
};

void nvml_library_init(NvmlLibrary *library, BoardSampler *self, uint16_t slot)
{
    *library = (NvmlLibrary){.self = self, .slot = slot};
}

/* ---- announcements ---- */

void nvml_call_announce(NvmlLibrary *library, const NvmlTarget *target, NvmlFunction function, uint32_t limit_ms)
{
    BoardSampler *self = library->self;

    atomic_store_explicit(&self->call_gpu, target->index, memory_order_relaxed);
    atomic_store_explicit(&self->call_function, (uint32_t)function, memory_order_relaxed);
    atomic_store_explicit(&self->call_limit_ms, limit_ms, memory_order_relaxed);
    atomic_store_explicit(&self->call_start_ns, board_kernel_now(), memory_order_release);
}

void nvml_call_over(NvmlLibrary *library)
{
    atomic_store_explicit(&library->self->call_start_ns, 0, memory_order_release);
}

nvmlReturn_t nvml_call_begin(NvmlLibrary *library, NvmlTarget *target, NvmlFunction function, uint32_t limit_ms)
{
    if (library->gone)
        return library->gone;
    if (target->trouble)
        return target->trouble;
    if (target->owner && atomic_load_explicit(target->owner, memory_order_acquire) != library->slot) {
        target->trouble = NVML_NOT_OURS;
        return NVML_NOT_OURS;
    }
    nvml_call_announce(library, target, function, limit_ms);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_call_end(NvmlLibrary *library, NvmlTarget *target, nvmlReturn_t answer)
{
    nvml_call_over(library);
    switch ((int)answer) {
    case NVML_ERROR_UNINITIALIZED:
    case NVML_ERROR_DRIVER_NOT_LOADED:
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        library->gone = answer;
        break;
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_RESET_REQUIRED:
        target->trouble = answer;
        break;
    default:
        break;
    }
    return answer;
}

/* ---- loading ---- */

static void *find(void *handle, const Symbol *symbol)
{
    void *at = dlsym(handle, symbol->name);

    return at || !symbol->older ? at : dlsym(handle, symbol->older);
}

static void fill_table(NvmlLibrary *library)
{
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *at = find(library->handle, &symbols[i]);
        memcpy((char *)&library->table_ + symbols[i].offset, &at, sizeof at);
    }
}

int nvml_library_open(NvmlLibrary *library, const char *path, Err *err)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};
    const char *name = path[0] ? path : "libnvidia-ml.so.1";

    nvml_call_announce(library, &nobody, NVML_CALLED_dlopen, NVML_ATTACH_LIMIT_MS);
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    nvml_call_over(library);
    if (!library->handle) {
        const char *why = dlerror();
        return err_set(err, -ENOENT, "the driver's library cannot be loaded: %s", why ? why : name);
    }
    fill_table(library);
    if (!library->table_.nvmlInit_v2 || !library->table_.nvmlShutdown) {
        nvml_library_close(library);
        return err_set(err, -ENOENT, "'%s' is not the driver's library: it has no nvmlInit_v2", name);
    }
    return 0;
}

nvmlReturn_t nvml_library_start(NvmlLibrary *library, bool no_attach)
{
    NvmlTarget nobody = {.index = UINT32_MAX};
    unsigned int flags = NVML_INIT_FLAG_NO_GPUS | (no_attach ? NVML_INIT_FLAG_NO_ATTACH : 0);
    char version[80] = "";
    nvmlReturn_t r;

    library->gone = NVML_SUCCESS;
    r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInitWithFlags, (flags));
    if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
        r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInit_v2, ());
    library->gone = NVML_SUCCESS;
    if (r != NVML_SUCCESS)
        return r;
    library->up = true;
    if (NVML_CALL(library, &nobody, nvmlSystemGetDriverVersion, (version, sizeof version)) == NVML_SUCCESS)
        library->driver_major = (unsigned int)strtoul(version, NULL, 10);
    return NVML_SUCCESS;
}

void nvml_library_close(NvmlLibrary *library)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};

    if (library->up)
        NVML_LET_GO(library, &nobody, nvmlShutdown, ());
    library->up = false;
    if (library->handle) {
        nvml_call_announce(library, &nobody, NVML_CALLED_dlclose, NVML_ATTACH_LIMIT_MS);
        dlclose(library->handle);
        nvml_call_over(library);
    }
    library->handle = NULL;
    library->gone = NVML_SUCCESS;
    library->driver_major = 0;
    library->table_ = (NvmlTable){0};
}

const char *nvml_library_words(NvmlLibrary *library, nvmlReturn_t answer)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};
    const char *words;

    if (!library->table_.nvmlErrorString)
        return NULL;
    nvml_call_announce(library, &nobody, NVML_CALLED_nvmlErrorString, NVML_COMMON_LIMIT);
    words = library->table_.nvmlErrorString(answer);
    nvml_call_over(library);
    return words;
}
