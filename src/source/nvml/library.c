/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the driver's library, announcing calls, and one table of what the driver's answers mean. An announcement is
 * written start last and cleared start first, so that a reader that sees a start also sees which call it is of. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "source/nvml/library.h"
#include "source/sampler/protocol.h"

typedef struct Answer {
    nvmlReturn_t answer;
    Absence absence;
    BoardOutcome outcome;
    const char *start; /* what it means at init; NULL: the driver's words are all there is */
} Answer;

static const Answer answers[] = {
    {NVML_SUCCESS, ABSENCE_NO_DATA, BOARD_FINE, NULL},
    {NVML_ERROR_UNINITIALIZED, ABSENCE_FAILED, BOARD_REFUSED, "the driver was let go under the sampler's feet"},
    {NVML_ERROR_INVALID_ARGUMENT, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED, NULL},
    {NVML_ERROR_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED, NULL},
    {NVML_ERROR_NO_PERMISSION, ABSENCE_NO_PERMISSION, BOARD_REFUSED,
     "no permission to use the driver: the device files /dev/nvidia* cannot be opened by this user"},
    {NVML_ERROR_NOT_FOUND, ABSENCE_NO_DATA, BOARD_NOT_FOUND, NULL},
    {NVML_ERROR_INSUFFICIENT_SIZE, ABSENCE_NO_DATA, BOARD_REFUSED, NULL},
    {NVML_ERROR_INSUFFICIENT_POWER, ABSENCE_FAILED, BOARD_REFUSED, NULL},
    {NVML_ERROR_DRIVER_NOT_LOADED, ABSENCE_FAILED, BOARD_REFUSED,
     "the NVIDIA kernel driver is not loaded: 'modprobe nvidia', or see the kernel log for why it does not load"},
    {NVML_ERROR_TIMEOUT, ABSENCE_TIMED_OUT, BOARD_REFUSED, NULL},
    {NVML_ERROR_IRQ_ISSUE, ABSENCE_FAILED, BOARD_REFUSED, NULL},
    {NVML_ERROR_LIBRARY_NOT_FOUND, ABSENCE_NO_LIBRARY, BOARD_REFUSED, NULL},
    {NVML_ERROR_FUNCTION_NOT_FOUND, ABSENCE_DRIVER_LACKS, BOARD_REFUSED, NULL},
    {NVML_ERROR_CORRUPTED_INFOROM, ABSENCE_FAILED, BOARD_REFUSED, NULL},
    {NVML_ERROR_GPU_IS_LOST, ABSENCE_GPU_LOST, BOARD_LOST, NULL},
    {NVML_ERROR_RESET_REQUIRED, ABSENCE_RESET_REQUIRED, BOARD_RESET_REQUIRED, NULL},
    {NVML_ERROR_OPERATING_SYSTEM, ABSENCE_FAILED, BOARD_REFUSED, "the operating system keeps the driver from the GPUs"},
    {NVML_ERROR_LIB_RM_VERSION_MISMATCH, ABSENCE_FAILED, BOARD_REFUSED,
     "driver and library are of different versions: the driver was upgraded and the old one is still loaded"},
    {NVML_ERROR_IN_USE, ABSENCE_IN_USE, BOARD_REFUSED, NULL},
    {NVML_ERROR_MEMORY, ABSENCE_FAILED, BOARD_REFUSED, "the driver has no memory left"},
    {NVML_ERROR_NO_DATA, ABSENCE_NO_DATA, BOARD_REFUSED, NULL},
    {NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED, NULL},
    {NVML_ERROR_INSUFFICIENT_RESOURCES, ABSENCE_IN_USE, BOARD_REFUSED, NULL},
    {NVML_ERROR_FREQ_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED, NULL},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, ABSENCE_DRIVER_LACKS, BOARD_REFUSED, NULL},
    {NVML_ERROR_DEPRECATED, ABSENCE_DEPRECATED, BOARD_REFUSED, NULL},
    {NVML_ERROR_NOT_READY, ABSENCE_NO_DATA, BOARD_REFUSED, "the system is not ready yet"},
    {NVML_ERROR_GPU_NOT_FOUND, ABSENCE_GONE, BOARD_NOT_FOUND, NULL},
    {NVML_ERROR_INVALID_STATE, ABSENCE_NO_DATA, BOARD_REFUSED, NULL},
    {NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, BOARD_REFUSED, NULL},
    {NVML_ERROR_UNKNOWN, ABSENCE_FAILED, BOARD_REFUSED, NULL},
};

/* Numbers that no header has yet mean what "Unknown Error" does: it is the last row. */
static const Answer *row_of(nvmlReturn_t answer)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (answers[i].answer == answer)
            return &answers[i];
    return &answers[ARRAY_LEN(answers) - 1];
}

Absence nvml_answer_absence(nvmlReturn_t answer)
{
    return row_of(answer)->absence;
}

BoardOutcome nvml_answer_outcome(nvmlReturn_t answer)
{
    return row_of(answer)->outcome;
}

bool nvml_answer_is_failure(nvmlReturn_t answer)
{
    return row_of(answer)->absence == ABSENCE_FAILED;
}

NodeDriver nvml_answer_driver(nvmlReturn_t answer)
{
    switch (answer) {
    case NVML_SUCCESS:
        return NODE_DRIVER_FINE;
    case NVML_ERROR_NO_PERMISSION:
        return NODE_DRIVER_DENIED;
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return NODE_DRIVER_UNLOADED;
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return NODE_DRIVER_MISMATCH;
    case NVML_ERROR_NOT_READY:
    case NVML_ERROR_UNINITIALIZED: /* the driver was shut down under us; it is started again at once */
        return NODE_DRIVER_NOT_READY;
    default:
        return NODE_DRIVER_REFUSES;
    }
}

void nvml_answer_why(nvmlReturn_t answer, const char *words, char *why, size_t cap)
{
    const char *start = row_of(answer)->start;

    if (start)
        snprintf(why, cap, "%s", start);
    else
        snprintf(why, cap, "the driver does not start: %s (error %d)", words ? words : "it does not say why",
                 (int)answer);
}

static const char *const names[] = {
    [NVML_CALLED_NONE] = "",
    [NVML_CALLED_dlopen] = "dlopen",
    [NVML_CALLED_dlclose] = "dlclose",
#define FN(name) [NVML_CALLED_##name] = #name,
#define FN_WAS(name, older) [NVML_CALLED_##name] = #name,
#include "source/nvml/functions.def"
#undef FN
#undef FN_WAS
    [NVML_CALLED_DCGM_dlopen] = "dcgm's dlopen",
    [NVML_CALLED_DCGM_dlclose] = "dcgm's dlclose",
#define FN(name, need, arguments) [NVML_CALLED_##name] = #name,
#include "source/dcgm/functions.def"
#undef FN
};

const char *sampler_function_name(uint32_t index)
{
    return index < NVML_CALLED_END ? names[index] : NULL;
}

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

void nvml_call_finish(NvmlLibrary *library)
{
    atomic_store_explicit(&library->self->call_start_ns, 0, memory_order_release);
}

nvmlReturn_t nvml_call_begin(NvmlLibrary *library, NvmlTarget *target, NvmlFunction function, uint32_t limit_ms)
{
    if (library->gone)
        return library->gone;
    if (target->trouble)
        return target->trouble;
    if (target->slot && atomic_load_explicit(target->slot, memory_order_acquire) != library->slot) {
        target->trouble = NVML_NOT_OURS;
        return NVML_NOT_OURS;
    }
    nvml_call_announce(library, target, function, limit_ms);
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_call_end(NvmlLibrary *library, NvmlTarget *target, nvmlReturn_t answer)
{
    nvml_call_finish(library);
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

static void fill_table(NvmlLibrary *library)
{
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *at = dlsym(library->handle, symbols[i].name);
        if (!at && symbols[i].older)
            at = dlsym(library->handle, symbols[i].older);
        memcpy((char *)&library->table_ + symbols[i].offset, &at, sizeof at);
    }
}

int nvml_library_open(NvmlLibrary *library, const char *path, Err *err)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};
    const char *name = path[0] ? path : "libnvidia-ml.so.1";

    nvml_call_announce(library, &nobody, NVML_CALLED_dlopen, NVML_ATTACH_LIMIT_MS);
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    nvml_call_finish(library);
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
    char *driver = library->driver_version, *nvml = library->nvml_version;
    nvmlReturn_t r;

    library->gone = NVML_SUCCESS;
    r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInitWithFlags, (flags));
    if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
        r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInit_v2, ());
    library->gone = NVML_SUCCESS;
    if (r != NVML_SUCCESS)
        return r;
    library->up = true;
    memset(driver, 0, READING_TEXT_CAP);
    memset(nvml, 0, READING_TEXT_CAP);
    if (NVML_CALL(library, &nobody, nvmlSystemGetDriverVersion, (driver, READING_TEXT_CAP - 1)) != NVML_SUCCESS)
        driver[0] = '\0';
    if (NVML_CALL(library, &nobody, nvmlSystemGetNVMLVersion, (nvml, READING_TEXT_CAP - 1)) != NVML_SUCCESS)
        nvml[0] = '\0';
    library->driver_major = (unsigned int)strtoul(driver, NULL, 10);
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
        nvml_call_finish(library);
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
    nvml_call_finish(library);
    return words;
}
