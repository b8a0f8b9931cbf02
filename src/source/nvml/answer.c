/* SPDX-License-Identifier: Apache-2.0 */
/* One table of what the driver's answers mean. */

#include "source/nvml/answer.h"

#include <stdio.h>

#include "base/owner.h"

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
    case NVML_ERROR_UNINITIALIZED: /* it was let go under our feet, and is taken up again at once */
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
