/* SPDX-License-Identifier: Apache-2.0 */
#include "source/nvml/drain.h"

#include <stdio.h>

void nvml_drain_read(NvmlGpu *gpu)
{
    const PciAddress pci = gpu->row->pci;
    NvmlTarget target = {.index = gpu->target.index, .owner = gpu->target.owner}; /* whatever trouble there is */
    nvmlPciInfo_t info = {.domain = pci.domain, .bus = pci.bus, .device = pci.device};
    nvmlEnableState_t state = NVML_FEATURE_DISABLED;
    char name[PCI_TEXT_CAP];

    snprintf(info.busId, sizeof info.busId, "%s", pci_format(pci, PCI_FORM_NVML, name));
    snprintf(info.busIdLegacy, sizeof info.busIdLegacy, "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus, pci.device);
    if (NVML_CALL(&gpu->reader->library, &target, nvmlDeviceQueryDrainState, (&info, &state)) != NVML_SUCCESS)
        return;
    if (nvml_gpu_is_ours(gpu))
        atomic_store_explicit(&gpu->row->drained, state == NVML_FEATURE_ENABLED ? 2 : 1, memory_order_relaxed);
}
