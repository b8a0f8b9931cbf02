/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler/probe.h"

#include "source/nvml/answer.h"

static nvmlReturn_t ask(NvmlLibrary *library)
{
    NvmlTarget nobody = {.index = UINT32_MAX};
    unsigned int count = 0;
    nvmlReturn_t r =
        NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlInit_v2, ()); /* the one that programs call */

    if (r != NVML_SUCCESS)
        return r;
    library->up = true;
    board_set_driver(library->self, BOARD_DRIVER_FINE, NODE_DRIVER_FINE, 0, "");
    r = NVML_CALL_WITHIN(library, &nobody, NVML_ATTACH_LIMIT_MS, nvmlDeviceGetCount_v2, (&count));
    return r;
}

void probe_run(NvmlLibrary *library, const char *path)
{
    BoardSampler *self = library->self;
    char why[NODE_WHY_CAP];
    Err err = {0};
    nvmlReturn_t r;

    if (nvml_library_open(library, path, &err) < 0) {
        board_set_driver(self, BOARD_DRIVER_NO_LIBRARY, NODE_DRIVER_NO_LIBRARY, 0, err.text);
        return;
    }
    r = ask(library);
    nvml_answer_why(r, nvml_library_words(library, r), why, sizeof why);
    nvml_library_close(library);
    if (r == NVML_SUCCESS)
        board_set_driver(self, BOARD_DRIVER_RELEASED, NODE_DRIVER_FINE, 0, "");
    else
        board_set_driver(self, BOARD_DRIVER_INIT_FAILED, nvml_answer_driver(r), (int32_t)r, why);
}
