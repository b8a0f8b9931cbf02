/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A topology and the node of the log that it describes, for the checks of one against the other; not for others. */

#include "engine/nccl/job.h"

typedef struct Machine {
    NcclJob *job;
    const NcclTopology *t;
    uint32_t index; /* of the topology */
    const char *file;
    const char *host; /* interned */
} Machine;

/* A rank on this node that is in a communicator. */
bool machine_has(const Machine *machine, const NcclMember *m);
/* The PCI device of a rank's GPU, NCCL_NO_INDEX. */
uint32_t machine_gpu(const Machine *machine, const NcclMember *m);
/* The net of this name, alone or as a part ("mlx5_0+mlx5_1"); NULL. */
const NcclNode *machine_net(const Machine *machine, const char *name);

/* What the log and the topology say of the same things. `nets`: they have the same adapters. */
void machine_contradictions(const Machine *machine, bool nets);
