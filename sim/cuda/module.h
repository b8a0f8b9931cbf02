/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Modules of a context: PTX texts, of which only the head and the names of entries are read. */
#include "sim/cuda/lib.h"

/* Forgets all modules of a device. */
void cu_modules_clear(const CuDevice *device);
