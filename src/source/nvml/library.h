/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The driver's library: found at run time, called through a table, each call announced on the board before it is made,
 * because it may never come back. A function that the driver does not have answers NVML_ERROR_FUNCTION_NOT_FOUND. There
 * is no other way to call it than NVML_CALL and NVML_LET_GO. One thread.
 */

#include <stdint.h>

#include "base/err.h"
#include "nvml_abi.h"
#include "source/board/board.h"

/* Index into the names of protocol.h's sampler_function_name. */
typedef enum NvmlFunction {
    NVML_CALLED_NONE,
    NVML_CALLED_dlopen,
    NVML_CALLED_dlclose,
#define FN(name) NVML_CALLED_##name,
#define FN_WAS(name, older) NVML_CALLED_##name,
#include "source/nvml/functions.def"
#undef FN
#undef FN_WAS
    NVML_CALLED_DCGM_dlopen,
    NVML_CALLED_DCGM_dlclose,
#define FN(name, need, arguments) NVML_CALLED_##name,
#include "source/dcgm/functions.def"
#undef FN
    NVML_CALLED_END,
} NvmlFunction;

typedef struct NvmlTable {
#define FN(name) __typeof__(&name) name;
#define FN_WAS(name, older) __typeof__(&name) name;
#include "source/nvml/functions.def"
#undef FN
#undef FN_WAS
} NvmlTable;

/* Deadlines: of calls that wake a GPU or the driver up, of those that measure while we wait, of all others. */
enum { NVML_ATTACH_LIMIT_MS = 3000, NVML_BLOCKING_LIMIT_MS = 1000, NVML_COMMON_LIMIT = 0 };

/* Not an answer of the driver: the GPU was given to another sampler, the call was not made. */
#define NVML_NOT_OURS ((nvmlReturn_t)0x10000)

typedef struct NvmlLibrary {
    BoardSampler *self; /* where calls are announced; borrowed */
    uint16_t slot;
    void *handle;      /* NULL: not loaded */
    bool up;           /* between init and shutdown */
    nvmlReturn_t gone; /* the driver went away under us: UNINITIALIZED, DRIVER_NOT_LOADED or a mismatch; else 0 */
    unsigned int driver_major;
    char driver_version[READING_TEXT_CAP], nvml_version[READING_TEXT_CAP]; /* since the last start; "" unknown */
    NvmlTable table_;
} NvmlLibrary;

/* The GPU that a call is about. `trouble` is why no more calls about it are made: GPU_IS_LOST, RESET_REQUIRED, NOT_OURS
 * or why the library is lost; 0: none. Every call checks it first. */
typedef struct NvmlTarget {
    uint32_t index;         /* into Board.gpus; UINT32_MAX: no one GPU */
    _Atomic uint16_t *slot; /* NULL: no one GPU */
    nvmlReturn_t trouble;
} NvmlTarget;

void nvml_library_init(NvmlLibrary *library, BoardSampler *self, uint16_t slot);
/* Loads the library ("" or a path) and the functions it has. -ENOENT with a sentence. */
int nvml_library_open(NvmlLibrary *library, const char *path, Err *err);
/* nvmlInit; with no_attach without attaching GPUs. The driver's answer. */
nvmlReturn_t nvml_library_start(NvmlLibrary *library, bool no_attach);
/* nvmlShutdown where it is up, dlclose where it is loaded. The caller has dropped all handles before. */
void nvml_library_close(NvmlLibrary *library);

/* For the macros: announce a call, or return why it must not be made; withdraw the announcement. */
nvmlReturn_t nvml_call_begin(NvmlLibrary *library, NvmlTarget *target, NvmlFunction function, uint32_t limit_ms);
nvmlReturn_t nvml_call_end(NvmlLibrary *library, NvmlTarget *target, nvmlReturn_t answer);
void nvml_call_announce(NvmlLibrary *library, const NvmlTarget *target, NvmlFunction function, uint32_t limit_ms);
void nvml_call_finish(NvmlLibrary *library);

/* Calls fn about `target` and gives its nvmlReturn_t. `args` is the list of arguments in its parentheses. */
#define NVML_CALL_WITHIN(library, target, limit_ms, fn, args)                                                          \
    __extension__({                                                                                                    \
        nvmlReturn_t answer_ = NVML_ERROR_FUNCTION_NOT_FOUND;                                                          \
        if ((library)->table_.fn) {                                                                                    \
            answer_ = nvml_call_begin((library), (target), NVML_CALLED_##fn, (limit_ms));                              \
            if (answer_ == NVML_SUCCESS)                                                                               \
                answer_ = nvml_call_end((library), (target), (library)->table_.fn args);                               \
        }                                                                                                              \
        answer_;                                                                                                       \
    })
#define NVML_CALL(library, target, fn, args) NVML_CALL_WITHIN((library), (target), NVML_COMMON_LIMIT, fn, args)

/* Releases an object of the driver: also of a GPU that is in trouble or no longer ours. */
#define NVML_LET_GO(library, target, fn, args)                                                                         \
    do {                                                                                                               \
        if ((library)->table_.fn && (library)->up) {                                                                   \
            nvml_call_announce((library), (target), NVML_CALLED_##fn, NVML_COMMON_LIMIT);                              \
            (void)(library)->table_.fn args;                                                                           \
            nvml_call_finish(library);                                                                                 \
        }                                                                                                              \
    } while (0)

/* The driver's words for an answer; it needs no init. NULL where it has none. */
const char *nvml_library_words(NvmlLibrary *library, nvmlReturn_t answer);

/* ---- what answers mean; pure ---- */

/* Why there is no value; ABSENCE_NO_DATA for SUCCESS. */
Absence nvml_answer_absence(nvmlReturn_t answer);
/* What an answer about a GPU as a whole makes of it. */
BoardOutcome nvml_answer_outcome(nvmlReturn_t answer);
/* Whether it means a failure, not only a value that does not exist. */
bool nvml_answer_is_failure(nvmlReturn_t answer);
/* The driver's condition by the answer of nvmlInit. */
NodeDriver nvml_answer_driver(nvmlReturn_t answer);
/* A sentence for people about a driver that does not start: what to do where that is known, else the driver's own words
 * (NULL: none). Fills why, truncated where it does not fit. */
void nvml_answer_why(nvmlReturn_t answer, const char *words, char *why, size_t cap);
