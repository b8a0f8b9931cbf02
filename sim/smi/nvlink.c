/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi nvlink: speed, errors and capabilities of each link. */
#include <stdio.h>
#include <string.h>

#include "base/owner.h"
#include "sim/smi/gpu.h"
#include "sim/smi/topo.h"

enum { LINK_MAX = 36 };

static void write_status(Gpu *gpu, unsigned int link)
{
    nvmlEnableState_t active = NVML_FEATURE_DISABLED;
    nvmlFieldValue_t speed;

    (void)NV(DeviceGetNvLinkState, gpu->handle, link, &active);
    nvmlReturn_t rc = gpu_field(gpu, NVML_FI_DEV_NVLINK_GET_SPEED, link, &speed);
    if (rc != NVML_SUCCESS)
        rc = gpu_field(gpu, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0, &speed);
    if (!active)
        printf("\t Link %u: <inactive>\n", link);
    else if (rc == NVML_SUCCESS)
        printf("\t Link %u: %.3f GB/s\n", link, gpu_field_number(&speed) / 1000);
    else
        printf("\t Link %u: %s\n", link, nvml_error_text(rc));
}

static void write_errors(Gpu *gpu, unsigned int link)
{
    static const struct {
        nvmlNvLinkErrorCounter_t counter;
        const char *label;
    } counters[] = {{NVML_NVLINK_ERROR_DL_REPLAY, "Replay Errors"},
                    {NVML_NVLINK_ERROR_DL_RECOVERY, "Recovery Errors"},
                    {NVML_NVLINK_ERROR_DL_CRC_FLIT, "CRC Errors"}};

    for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
        unsigned long long count = 0;
        nvmlReturn_t rc = NV(DeviceGetNvLinkErrorCounter, gpu->handle, link, counters[i].counter, &count);
        if (rc == NVML_SUCCESS)
            printf("\t Link %u: %s: %llu\n", link, counters[i].label, count);
        else
            printf("\t Link %u: %s: %s\n", link, counters[i].label, nvml_error_text(rc));
    }
}

static void write_caps(Gpu *gpu, unsigned int link)
{
    static const char *const labels[] = {[NVML_NVLINK_CAP_P2P_SUPPORTED] = "P2P is supported",
                                         [NVML_NVLINK_CAP_SYSMEM_ACCESS] = "Access to system memory supported",
                                         [NVML_NVLINK_CAP_P2P_ATOMICS] = "P2P atomics supported",
                                         [NVML_NVLINK_CAP_SYSMEM_ATOMICS] = "System memory atomics supported",
                                         [NVML_NVLINK_CAP_SLI_BRIDGE] = "SLI is supported",
                                         [NVML_NVLINK_CAP_VALID] = "Link is supported"};

    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        unsigned int has = 0;
        if (NV(DeviceGetNvLinkCapability, gpu->handle, link, (nvmlNvLinkCapability_t)i, &has) == NVML_SUCCESS)
            printf("\t Link %u, %s: %s\n", link, labels[i], has ? "true" : "false");
    }
}

static void write_gpu(Gpu *gpu, void (*write_link)(Gpu *, unsigned int), int only)
{
    char name[96] = "N/A", uuid[96] = "N/A";
    nvmlEnableState_t active;
    unsigned int link = 0;

    (void)NV(DeviceGetName, gpu->handle, name, sizeof(name));
    (void)NV(DeviceGetUUID, gpu->handle, uuid, sizeof(uuid));
    printf("GPU %u: %s (UUID: %s)\n", gpu->index, name, uuid);
    if (gpu_mig_enabled(gpu)) {
        printf("Nvlink queries are not supported for Devices in MIG mode\n");
        return;
    }
    while (link < LINK_MAX && NV(DeviceGetNvLinkState, gpu->handle, link, &active) == NVML_SUCCESS) {
        if (only < 0 || (unsigned int)only == link)
            write_link(gpu, link);
        link++;
    }
    if (!link)
        printf("Device does not have or support Nvlink\n");
}

int nvlink_main(int argc, char **argv)
{
    static GpuSet set;
    void (*write_link)(Gpu *, unsigned int) = NULL;
    const char *ids = NULL;
    int only = -1;

    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-s") == 0 || strcmp(arg, "--status") == 0)
            write_link = write_status;
        else if (strcmp(arg, "-e") == 0 || strcmp(arg, "--errorcounters") == 0)
            write_link = write_errors;
        else if (strcmp(arg, "-c") == 0 || strcmp(arg, "--capabilities") == 0)
            write_link = write_caps;
        else if (strcmp(arg, "-i") == 0 && i + 1 < argc)
            ids = argv[++i];
        else if (strcmp(arg, "-l") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%d", &only) == 1)
            i++;
        else
            write_link = NULL;
    }
    if (!write_link) {
        puts("nvidia-smi nvlink -s | -e | -c [-i ID] [-l LINK]");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    nvmlReturn_t rc = gpu_set_open(ids, &set);
    for (unsigned int i = 0; rc == NVML_SUCCESS && i < set.count; i++)
        write_gpu(&set.gpus[i], write_link, only);
    return nvml_exit_code(rc);
}
