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
/* The cpu element above, NCCL_NO_INDEX. */
uint32_t nccl_node_cpu(const NcclTopology *t, uint32_t node);
