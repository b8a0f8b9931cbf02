/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the library. The messages' first sentences are what other programs match on; the exit codes too. */
#include "sim/smi/smi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
    const char *symbol;
    size_t off;
} calls[] = {
#define NVML_CALL(name) {"nvml" #name, offsetof(Nvml, name)},
#include "sim/smi/nvml_calls.def"
#undef NVML_CALL
};

Nvml nvml;
static void *library;

static nvmlReturn_t load_library(void)
{
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library)
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        void *symbol = dlsym(library, calls[i].symbol);
        memcpy((char *)&nvml + calls[i].off, &symbol, sizeof(symbol));
    }
    return NVML_SUCCESS;
}

static void explain_error(nvmlReturn_t rc)
{
    char version[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE] = "";

    switch (rc) {
    case NVML_ERROR_LIBRARY_NOT_FOUND:
        puts("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
             "Install the driver's user-space libraries or add their folder to the search path.\n");
        break;
    case NVML_ERROR_DRIVER_NOT_LOADED:
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
             "Check that the kernel module is installed and loaded.\n");
        break;
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        printf("Failed to initialize NVML: Driver/library version mismatch\n");
        if (NV(SystemGetNVMLVersion, version, sizeof(version)) == NVML_SUCCESS)
            printf("NVML library version: %s\n", version);
        break;
    default:
        printf("Failed to initialize NVML: %s\n", nvml_error_text(rc));
    }
}

nvmlReturn_t nvml_open(void)
{
    nvmlReturn_t rc = load_library();

    if (rc == NVML_SUCCESS)
        rc = nvml.Init_v2 ? nvml.Init_v2() : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (rc != NVML_SUCCESS)
        explain_error(rc);
    return rc;
}

void nvml_close(void)
{
    if (nvml.Shutdown)
        (void)nvml.Shutdown();
}

const char *nvml_error_text(nvmlReturn_t rc)
{
    const char *text = nvml.ErrorString ? nvml.ErrorString(rc) : NULL;

    return text ? text : "Unknown Error";
}

int nvml_exit_code(nvmlReturn_t rc)
{
    return (unsigned int)rc > 255 ? 255 : (int)rc;
}
