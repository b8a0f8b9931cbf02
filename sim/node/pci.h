/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside sim/node: the PCI functions of a simulated node and how they hang together. Every topology root is a host
 * bridge; below it, each switch group has a root port and a switch whose downstream ports lead to the GPUs of the group
 * and to one network adapter; so the nearest common ancestor in sysfs says what NVML's topology says. GPUs on bus 0
 * (virtual machines) sit on the host bridge itself. NVSwitches have a host bridge of their own. Pure, any thread.
 */
#include <stdint.h>

#include "base/str.h"
#include "sim/core/image.h"

typedef enum PciKind { PCI_ROOT_PORT, PCI_UPSTREAM, PCI_DOWNSTREAM, PCI_GPU, PCI_NIC, PCI_NVSWITCH } PciKind;

enum { PCI_FN_MAX = 160, PCI_SWITCH_MAX = 8, PCI_BDF_MAX = 16, PCI_CONFIG_MAX = 4096, PCI_PATH_MAX = 160 };

typedef struct PciFn {
    PciKind kind;
    uint32_t domain, bus, device; /* function 0 */
    uint32_t root_bus;            /* of its host bridge */
    int parent;                   /* position of the port above, SIM_NONE: the host bridge */
    uint32_t secondary;           /* of bridges: the bus below; the last one below is `last` */
    uint32_t last;
    uint32_t which; /* number of the GPU, adapter or NVSwitch; of a port: the GPU whose affinity it has */
    int of;         /* of a port right above a device: its position; else SIM_NONE */
} PciFn;

typedef struct PciLayout {
    uint32_t count, gpu_count, nic_count, switch_count;
    PciFn fn[PCI_FN_MAX];
    int gpu[SIM_GPU_MAX], nic[SIM_GPU_MAX], nvswitch[PCI_SWITCH_MAX]; /* positions in fn */
} PciLayout;

/* How a link is now and at most, as the PCIe capability codes them: generation, lanes. */
typedef struct PciLink {
    uint32_t gen, width, max_gen, max_width;
} PciLink;

/* What identifies a function. */
typedef struct PciIds {
    uint32_t vendor, device, subsystem_vendor, subsystem_device, class_code, revision;
} PciIds;

void pci_layout(const SimImage *image, PciLayout *ret);
PciIds pci_ids(const SimImage *image, const PciFn *fn);

/* "0000:1b:00.0" */
void pci_bdf(const PciFn *fn, char out[PCI_BDF_MAX]);
/* "pci0000:18/0000:18:01.0/...": below /sys/devices. Returns how many parts it has. */
uint32_t pci_path(const PciLayout *layout, const PciFn *fn, char out[PCI_PATH_MAX]);

/* The configuration space: header, power management, MSI, PCI Express with the link's state, AER. Returns its size,
 * 4096 for endpoints and 256 for bridges. */
uint32_t pci_config(const SimImage *image, const PciFn *fn, const PciLink *link, uint8_t out[PCI_CONFIG_MAX]);

/* The memory regions of an endpoint, as `resource` prints them (13 lines). */
void pci_resources(const SimImage *image, const PciFn *fn, Str *out);
