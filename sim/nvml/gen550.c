/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the library that of driver generation 550. */
#include "sim/nvml/generation.h"

const unsigned nvml_library_generation = 550;
