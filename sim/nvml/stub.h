/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in for functions without a body of their own (nvml_stubs.c, generated). Thread-safe, like all of the library.
 */
#pragma once

#include "nvml_abi.h"

/*
 * What the function `name` (its exported name, static storage) answers: NVML_ERROR_UNINITIALIZED before init, then what
 * a rule of the scenario orders (a hang, a lost device), else `refusal`. Counts and traces the call.
 */
nvmlReturn_t nvml_stub_enter(const char *name, nvmlReturn_t refusal);
