/* SPDX-License-Identifier: Apache-2.0 */
/* PCI and the NVLink fabric. */
#include "sim/smi/get.h"

#include <stdio.h>
#include <string.h>

#include "base/owner.h"

void get_pci(const Subject *of, int arg, Value *ret)
{
    const nvmlPciInfoExt_t *pci;
    nvmlReturn_t rc = gpu_pci(of->gpu, &pci);
    const struct {
        int digits;
        unsigned int number;
    } parts[] = {[PCI_DOMAIN] = {4, pci->domain},
                 [PCI_BUS] = {2, pci->bus},
                 [PCI_DEVICE] = {2, pci->device},
                 [PCI_BASE_CLASS] = {1, pci->baseClass},
                 [PCI_SUB_CLASS] = {1, pci->subClass},
                 [PCI_DEVICE_ID] = {8, pci->pciDeviceId},
                 [PCI_SUB_SYSTEM] = {8, pci->pciSubSystemId}};

    if (rc != NVML_SUCCESS)
        value_error(ret, rc);
    else if (arg == PCI_BUS_ID)
        value_text(ret, "%s", pci->busId);
    else
        value_text(ret, "0x%0*X", parts[arg].digits, parts[arg].number);
}

void get_pcie_rate(const Subject *of, int arg, Value *ret)
{
    unsigned int rate = 0;
    nvmlReturn_t rc = NV(DeviceGetPcieThroughput, of->gpu->handle, (nvmlPcieUtilCounter_t)arg, &rate);

    value_uint(ret, rc, rate);
}

void get_atomics(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"FETCHADD_32", "FETCHADD_64", "SWAP_32", "SWAP_64",
                                        "CAS_32",      "CAS_64",      "CAS_128"};
    nvmlFieldValue_t field;
    nvmlReturn_t rc = gpu_field(of->gpu, (unsigned int)arg, 0, &field);
    size_t used = 0;

    value_error(ret, rc == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : rc);
    for (size_t i = 0; rc == NVML_SUCCESS && i < ARRAY_LEN(words); i++) {
        if (!(field.value.uiVal >> i & 1))
            continue;
        used += (size_t)snprintf(ret->text + used, sizeof(ret->text) - used, "%s ", words[i]);
        ret->rc = NVML_SUCCESS;
    }
}

void get_bridge(const Subject *of, int arg, Value *ret)
{
    static const char *const words[] = {"PLX", "BRO4"};
    nvmlBridgeChipHierarchy_t chips;

    memset(&chips, 0, sizeof(chips));
    nvmlReturn_t rc = NV(DeviceGetBridgeChipInfo, of->gpu->handle, &chips);
    if (rc == NVML_SUCCESS && !chips.bridgeCount)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (arg)
        value_uint(ret, rc, chips.bridgeChipInfo[0].fwVersion);
    else
        value_word(ret, rc, chips.bridgeChipInfo[0].type, words, ARRAY_LEN(words));
}

static void cluster_uuid(const unsigned char *id, Value *ret)
{
    char text[40];
    size_t used = 0;

    for (size_t i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%02x", dash, id[i]);
    }
    value_text(ret, "%s", text);
}

void get_fabric(const Subject *of, int arg, Value *ret)
{
    static const char *const states[] = {NULL, "Not Started", "In Progress", "Completed"};
    const nvmlGpuFabricInfoV_t *fabric;
    nvmlReturn_t rc = gpu_fabric(of->gpu, &fabric);

    if (rc == NVML_SUCCESS && (arg != FABRIC_STATE) && fabric->state != NVML_GPU_FABRIC_STATE_COMPLETED)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc != NVML_SUCCESS)
        value_error(ret, rc);
    else if (arg == FABRIC_STATE)
        value_word(ret, rc, fabric->state, states, ARRAY_LEN(states));
    else if (arg == FABRIC_STATUS)
        value_text(ret, "%s", nvml_error_text(fabric->status));
    else if (arg == FABRIC_CLIQUE)
        value_uint(ret, rc, fabric->cliqueId);
    else
        cluster_uuid(fabric->clusterUuid, ret);
}

/* Where each item lies in the health mask, and its words; number 0 means that the board does not say. */
static const struct HealthItem {
    unsigned int shift, mask;
    const char *words[9];
} health[] = {
    [HEALTH_BANDWIDTH] = {NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, 3, {NULL, "Degraded", "Full"}},
    [HEALTH_ROUTE_RECOVERY] = {NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, 3, {NULL, "True", "False"}},
    [HEALTH_ROUTE] = {NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, 3, {NULL, "True", "False"}},
    [HEALTH_TIMEOUT] = {NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, 3, {NULL, "True", "False"}},
    [HEALTH_CONFIG] = {NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION,
                       15,
                       {NULL, "None", "Incorrect System GUID", "Incorrect Chassis Serial Number", "No Partition",
                        "Insufficient NVLinks", "Incompatible GPU Firmware", "Invalid Location", "GPU State Invalid"}},
    [HEALTH_PARTITION] = {12, 3, {NULL, "True", "False"}},
};

/* Without brackets in CSV: "N/A" is a word here. */
void get_fabric_health(const Subject *of, int arg, Value *ret)
{
    static const char *const summaries[] = {NULL, "Healthy", "Unhealthy", "Limited Capacity"};
    const nvmlGpuFabricInfoV_t *fabric;
    nvmlReturn_t rc = gpu_fabric(of->gpu, &fabric);

    if (arg == HEALTH_SUMMARY) {
        value_word(ret, rc, fabric->healthSummary, summaries, ARRAY_LEN(summaries));
    } else {
        const struct HealthItem *item = &health[arg];
        value_word(ret, rc, fabric->healthMask >> item->shift & item->mask, item->words, ARRAY_LEN(item->words));
    }
    if (ret->rc == NVML_ERROR_NOT_SUPPORTED)
        value_text(ret, "N/A");
}
