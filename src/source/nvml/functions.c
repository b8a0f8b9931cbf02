/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the driver calls, for whoever reads BoardSampler.call_function. Const data, any thread. */

#include <stddef.h>

#include "source/nvml/library.h"
#include "source/sampler/protocol.h"

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
