/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the library that of driver generation 610. */
#include "sim/cuda/generation.h"

const unsigned cu_library_generation = 610;
