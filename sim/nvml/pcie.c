/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI address of a GPU, and its link to the host.
 */
#include "sim/nvml/getter.h"

#include <string.h>

enum { THROUGHPUT_WINDOW_NS = 20000000, BYTES_PER_KB = 1000 };

/* ---- address ---- */

/* The callers of the two older entry points own 36 bytes. */
static nvmlReturn_t short_pci_info(NvmlFn fn, nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    memcpy(pci->busId, nvml_process.bus_id_legacy[c.gpu], sizeof pci->busId);
    pci->domain = c.id->domain;
    pci->bus = c.id->bus;
    pci->device = c.id->device;
    pci->pciDeviceId = c.board->pci_device_id;
    pci->pciSubSystemId = c.board->pci_subsystem_id;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    return short_pci_info(NVML_FN_nvmlDeviceGetPciInfo, device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    return short_pci_info(NVML_FN_nvmlDeviceGetPciInfo_v2, device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    NvmlCall c;
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetPciInfo_v3, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    *pci = (nvmlPciInfo_t){.domain = c.id->domain,
                           .bus = c.id->bus,
                           .device = c.id->device,
                           .pciDeviceId = c.board->pci_device_id,
                           .pciSubSystemId = c.board->pci_subsystem_id};
    memcpy(pci->busIdLegacy, nvml_process.bus_id_legacy[c.gpu], sizeof pci->busIdLegacy);
    memcpy(pci->busId, nvml_process.bus_id[c.gpu], sizeof pci->busId);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    NvmlCall c;
    const NvmlFn fn = NVML_FN_nvmlDeviceGetPciInfoExt;
    nvmlReturn_t r = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    r = nvml_check_tag(fn, pci->version, nvmlPciInfoExt_v1);
    if (r != NVML_SUCCESS)
        return r;
    *pci = (nvmlPciInfoExt_t){.version = nvmlPciInfoExt_v1,
                              .domain = c.id->domain,
                              .bus = c.id->bus,
                              .device = c.id->device,
                              .pciDeviceId = c.board->pci_device_id,
                              .pciSubSystemId = c.board->pci_subsystem_id,
                              .baseClass = c.board->pci_class >> 16,
                              .subClass = c.board->pci_class >> 8 & 0xff};
    memcpy(pci->busId, nvml_process.bus_id[c.gpu], sizeof pci->busId);
    return NVML_SUCCESS;
}

NVML_GETTER(nvmlDeviceGetBusType, NVML_TAKES_GPU, nvmlBusType_t, 1, NVML_BUS_TYPE_PCIE)
NVML_GETTER(nvmlDeviceGetIrqNum, NVML_TAKES_GPU, unsigned int, 1, 96 + c.id->minor)
/* Bridges were on boards of the past that carried two GPUs. */
NVML_GETTER_STRUCT(nvmlDeviceGetBridgeChipInfo, NVML_TAKES_GPU, nvmlBridgeChipHierarchy_t, 0,
                   (nvmlBridgeChipHierarchy_t){.bridgeCount = 0})

/* ---- link ---- */

/* Megatransfers per second and lane of a PCIe generation; what is beyond the table is as fast as its end. */
static unsigned int link_speed(uint32_t gen)
{
    static const unsigned int speeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    const size_t last = sizeof speeds / sizeof *speeds - 1;
    return speeds[gen < last ? gen : last];
}

/* What the slot cannot do, card and slot together cannot. */
static uint32_t of_slot(const NvmlCall *c, SimKey key, uint32_t board)
{
    const uint32_t slot = c->now->cond.set[key];

    return slot && slot < board ? slot : board;
}

NVML_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1, c.now->pcie_gen)
NVML_GETTER(nvmlDeviceGetCurrPcieLinkWidth, NVML_TAKES_GPU, unsigned int, 1, c.now->pcie_width)
NVML_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1,
            of_slot(&c, SIM_KEY_SLOT_GEN, c.board->pcie_gen))
NVML_GETTER(nvmlDeviceGetMaxPcieLinkWidth, NVML_TAKES_GPU, unsigned int, 1,
            of_slot(&c, SIM_KEY_SLOT_WIDTH, c.board->pcie_width))
NVML_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, NVML_TAKES_GPU, unsigned int, 1, c.board->gpu_max_pcie_gen)
/* NVML_PCIE_LINK_MAX_SPEED_* counts as the generations do. */
NVML_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, NVML_TAKES_GPU, unsigned int, 1, c.board->pcie_gen)
NVML_GETTER(nvmlDeviceGetPcieSpeed, NVML_TAKES_GPU, unsigned int, 1, link_speed(c.now->pcie_gen))
NVML_GETTER(nvmlDeviceGetPcieReplayCounter, NVML_TAKES_GPU, unsigned int, 1, c.now->cond.replays)

/* The hardware counts for 20 ms in each call. A clock that stands, or that runs away, has nothing to wait for. */
static void wait_for_window(SimImage *image)
{
    const double speed = sim_clock_speed(image);

    if (!nvml_process.no_block && speed > 0 && speed <= 1)
        nvml_sleep(THROUGHPUT_WINDOW_NS);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *kb_per_s)
{
    NvmlCall c;
    double before[SIM_CH_COUNT], after[SIM_CH_COUNT];
    const nvmlReturn_t r = nvml_enter_device(NVML_FN_nvmlDeviceGetPcieThroughput, device, NVML_TAKES_GPU, &c);

    if (r != NVML_SUCCESS)
        return r;
    if (!kb_per_s || (unsigned int)counter >= NVML_PCIE_UTIL_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    wait_for_window(c.image);
    const uint64_t end = sim_clock_now(c.image);
    const uint64_t start = end > THROUGHPUT_WINDOW_NS ? end - THROUGHPUT_WINDOW_NS : 0;
    const SimChannel channel = counter == NVML_PCIE_UTIL_TX_BYTES ? SIM_CH_PCIE_TX : SIM_CH_PCIE_RX;
    sim_cum_at(c.image, c.gpu, start, before);
    sim_cum_at(c.image, c.gpu, end, after);
    const double seconds = (double)(end - start) / (double)SIM_NS;
    const double bytes = after[channel] - before[channel];
    *kb_per_s = seconds > 0 ? (unsigned int)nvml_round(bytes / seconds / BYTES_PER_KB) : 0;
    return NVML_SUCCESS;
}
