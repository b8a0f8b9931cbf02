/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Questions to the elements of a topology. Pure. */

#include "engine/nccl/report.h"

/* A PCI device that is a GPU (by its gpu element, or by class where the file has none) or a network adapter. */
bool nccl_node_is_gpu(const NcclTopology *t, uint32_t node);
bool nccl_node_is_nic(const NcclTopology *t, uint32_t node);
/* A net that RDMA goes through, by its name: not eth0, ens5, bond0, ... */
bool nccl_net_is_rdma(const NcclNode *net);
/* The first net below `node`, NCCL_NO_INDEX. */
uint32_t nccl_node_net(const NcclTopology *t, uint32_t node);
/* The gpu element of a GPU's PCI device, NCCL_NO_INDEX. */
uint32_t nccl_node_gpu(const NcclTopology *t, uint32_t node);
/* NVLinks and xGMI links of a GPU's PCI device. */
uint32_t nccl_node_links(const NcclTopology *t, uint32_t node);
/* "0000:1a:00.0" as the number that a log writes: 1a000. */
bool nccl_bus_number(const char *bus_id, uint64_t *ret);
/* A GPU's PCI device with NVLinks to an NVSwitch. */
bool nccl_node_at_switch(const NcclTopology *t, uint32_t node);
/* Whether NVLink or xGMI joins two GPUs' PCI devices, directly or through an NVSwitch. */
bool nccl_node_linked(const NcclTopology *t, uint32_t a, uint32_t b);
/* The cpu element above, NCCL_NO_INDEX. */
uint32_t nccl_node_cpu(const NcclTopology *t, uint32_t node);
