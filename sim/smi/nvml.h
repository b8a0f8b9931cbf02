/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The library as this client sees it: opened at start by its soname, every call through a pointer, so that a driver
 * without one of the calls gives NVML_ERROR_FUNCTION_NOT_FOUND for it and nothing else. One thread.
 */
#include "nvml_abi.h"

typedef struct Nvml {
#define NVML_CALL(name) __typeof__(nvml##name) *name;
#include "sim/smi/nvml_calls.def"
#undef NVML_CALL
} Nvml;

/* The calls; all NULL until nvml_open. */
extern Nvml nvml;

/* NV(DeviceGetName, device, text, sizeof(text)) calls nvmlDeviceGetName. */
#define NV(name, ...) (nvml.name ? nvml.name(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND)

/* Opens the library and initialises it. Prints what is wrong where it fails and returns the library's number for it
 * (12 no library, 9 driver not loaded, 18 versions differ, ...). */
nvmlReturn_t nvml_open(void);
void nvml_close(void);

/* The library's words for an error; never NULL. */
const char *nvml_error_text(nvmlReturn_t rc);

/* What the program exits with: the error's number, 255 for those that do not fit. */
int nvml_exit_code(nvmlReturn_t rc);
