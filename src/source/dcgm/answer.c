/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of libdcgm as reasons. Before Hopper, PROFILING_LIBRARY_ERROR means either that another tool holds the
 * counters or that the driver refuses them to a process without CAP_SYS_ADMIN: the caller knows which.
 */

#include "source/dcgm/abi.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "base/cleanup.h"

typedef struct Answer {
    int code;
    Absence why;
    bool about_fields;
    const char *words;
} Answer;

static const Answer answers[] = {
    {DCGM_BAD_ARGUMENT, ABSENCE_FAILED, true, "bad argument"},
    {DCGM_GENERIC, ABSENCE_FAILED, false, "unnamed error"},
    {DCGM_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, true, "not supported"},
    {DCGM_INIT_ERROR, ABSENCE_FAILED, false, "initialization failed"},
    {DCGM_NVML_ERROR, ABSENCE_FAILED, false, "the driver reported an error"},
    {DCGM_PENDING, ABSENCE_NO_DATA, false, "pending"},
    {DCGM_UNINITIALIZED, ABSENCE_FAILED, false, "the engine is not up"},
    {DCGM_TIMEOUT, ABSENCE_TIMED_OUT, false, "timed out"},
    {DCGM_VERSION_MISMATCH, ABSENCE_FAILED, false, "library and engine speak different versions"},
    {DCGM_UNKNOWN_FIELD, ABSENCE_NOT_SUPPORTED, true, "the library does not know the field"},
    {DCGM_NO_DATA, ABSENCE_NO_DATA, false, "no data"},
    {DCGM_STALE_DATA, ABSENCE_NO_DATA, false, "stale data"},
    {DCGM_NOT_WATCHED, ABSENCE_NO_DATA, false, "not watched"},
    {DCGM_NO_PERMISSION, ABSENCE_NO_PERMISSION, false, "not permitted"},
    {DCGM_GPU_IS_LOST, ABSENCE_GPU_LOST, false, "the GPU is lost"},
    {DCGM_RESET_REQUIRED, ABSENCE_RESET_REQUIRED, false, "the GPU needs a reset"},
    {DCGM_FUNCTION_NOT_FOUND, ABSENCE_DRIVER_LACKS, false, "function not found"},
    {DCGM_CONNECTION_NOT_VALID, ABSENCE_FAILED, false, "no connection to the host engine"},
    {DCGM_GPU_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, false, "the GPU is not supported"},
    {DCGM_MAX_LIMIT, ABSENCE_FAILED, false, "the engine has no room for more groups"},
    {DCGM_LIBRARY_NOT_FOUND, ABSENCE_NO_LIBRARY, false, "a library that it needs is missing"},
    {DCGM_REQUIRES_ROOT, ABSENCE_NO_PERMISSION, false, "the engine must run as root (CAP_SYS_ADMIN)"},
    {DCGM_FIELD_UNSUPPORTED_BY_API, ABSENCE_NOT_SUPPORTED, true, "the field cannot be had this way"},
    {DCGM_MODULE_NOT_LOADED, ABSENCE_NO_LIBRARY, false, "the profiling module is not installed or did not load"},
    {DCGM_IN_USE, ABSENCE_IN_USE, false, "in use by another tool"},
    {DCGM_PROFILING_NOT_SUPPORTED, ABSENCE_NOT_SUPPORTED, true, "profiling is not supported on this GPU"},
    {DCGM_PROFILING_LIBRARY_ERROR, ABSENCE_IN_USE, false,
     "the profiling library failed: another tool holds the counters, or they are not permitted"},
    {DCGM_PROFILING_MULTI_PASS, ABSENCE_NOT_SUPPORTED, true, "these fields cannot be measured together"},
    {DCGM_INSUFFICIENT_DRIVER, ABSENCE_DRIVER_LACKS, false, "the driver is too old"},
    {DCGM_INSTANCE_NOT_FOUND, ABSENCE_GONE, false, "no such GPU instance"},
    {DCGM_COMPUTE_INSTANCE_NOT_FOUND, ABSENCE_GONE, false, "no such compute instance"},
    {DCGM_PAUSED, ABSENCE_IN_USE, false, "paused for another tool"},
    {DCGM_NVML_NOT_LOADED, ABSENCE_NO_LIBRARY, false, "the driver's library is not loaded"},
    {DCGM_DRIVER_TIMEOUT, ABSENCE_TIMED_OUT, false, "the driver did not answer in time"},
};

static const Answer *find_answer(int code)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (answers[i].code == code)
            return &answers[i];
    return NULL;
}

Absence dcgm_answer_absence(int answer, bool permitted)
{
    const Answer *row = find_answer(answer);

    if (answer == DCGM_PROFILING_LIBRARY_ERROR && !permitted)
        return ABSENCE_NO_PERMISSION;
    return row ? row->why : ABSENCE_FAILED;
}

const char *dcgm_answer_words(int answer)
{
    const Answer *row = find_answer(answer);

    if (row)
        return row->words;
    return answer == DCGM_OK ? "fine" : "an answer that is not known";
}

int dcgm_answer_errno(int answer)
{
    switch (answer) {
    case DCGM_VERSION_MISMATCH:
        return -EPROTO;
    case DCGM_NO_PERMISSION:
    case DCGM_REQUIRES_ROOT:
        return -EACCES;
    case DCGM_CONNECTION_NOT_VALID:
        return -EPIPE;
    default:
        return -EIO;
    }
}

bool dcgm_answer_is_about_fields(int answer)
{
    const Answer *row = find_answer(answer);

    return row && row->about_fields;
}

static Absence blank_absence(uint64_t which)
{
    switch (which) {
    case DCGM_BLANK_NOT_SUPPORTED:
        return ABSENCE_NOT_SUPPORTED;
    case DCGM_BLANK_NOT_PERMITTED:
        return ABSENCE_NO_PERMISSION;
    default:
        return ABSENCE_NO_DATA;
    }
}

bool dcgm_blank_int64(int64_t value, Absence *ret_why)
{
    if (value < DCGM_BLANK_INT64)
        return false;
    *ret_why = blank_absence((uint64_t)(value - DCGM_BLANK_INT64));
    return true;
}

bool dcgm_blank_double(double value, Absence *ret_why)
{
    if (value < DCGM_BLANK_DOUBLE)
        return false;
    /* NaN, infinity and what lies far above are blanks of no known sort */
    *ret_why = blank_absence(value < DCGM_BLANK_DOUBLE + 16 ? (uint64_t)(value - DCGM_BLANK_DOUBLE) : 0);
    return true;
}
