/* SPDX-License-Identifier: Apache-2.0 */
/* S-class units: no node has one, so the count is 0 and every other nvmlUnit* is a generated refusal. */
#include "sim/nvml/process.h"

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    SimImage *image;
    const nvmlReturn_t r = nvml_enter(NVML_FN_nvmlUnitGetCount, &image);

    if (r != NVML_SUCCESS)
        return r;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}
