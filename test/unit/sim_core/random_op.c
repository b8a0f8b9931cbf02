/* SPDX-License-Identifier: Apache-2.0 */
#include "random_op.h"

#include "sim/core/image.h"

SimImage *random_node(void)
{
    static const char *const boards[] = {"h100-sxm-80gb", "h100-sxm-80gb", "a100-sxm4-80gb", "t4", NULL};
    static const NodeWork works[RANDOM_WORKS] = {
        {.kind = "train", .gpu = 0, .mig = SIM_NONE, .job = 1, .rank = 0, .ranks = 2, .offset_s = 0.1},
        {.kind = "train", .gpu = 1, .mig = SIM_NONE, .job = 1, .rank = 1, .ranks = 2, .slow = 1.2},
        {.kind = "inference", .gpu = 1, .mig = SIM_NONE, .job = SIM_NONE},
        {.kind = "decode", .gpu = 2, .mig = 0, .job = SIM_NONE},
        {.kind = "quantized", .gpu = 2, .mig = 1, .job = SIM_NONE},
        {.kind = "burn", .gpu = 3, .mig = SIM_NONE, .job = SIM_NONE},
        {.kind = "leak", .gpu = 3, .mig = SIM_NONE, .job = SIM_NONE, .leak_mib_per_s = 300},
        {.kind = "hpc-fp64", .gpu = 0, .mig = SIM_NONE, .job = SIM_NONE, .offset_s = 0.05},
    };
    SimImage *image = node_new(boards);
    for (int i = 0; i < RANDOM_WORKS; i++)
        node_work(image, works[i]);
    return image;
}

/* A setting and a value that means something for it. */
static SimOp random_set(uint64_t *seed)
{
    static const struct {
        int32_t key;
        uint32_t from, to;
    } sets[] = {
        {SIM_KEY_POWER_LIMIT_MW, 150000, 400000}, {SIM_KEY_LOCK_SM_MAX, 300, 2000},      {SIM_KEY_APP_SM_MHZ, 0, 1500},
        {SIM_KEY_LOCK_MEM_MAX, 0, 1500},          {SIM_KEY_POWER_BRAKE, 0, 2},           {SIM_KEY_HW_SLOWDOWN, 0, 2},
        {SIM_KEY_AMBIENT_MC, 0, 45000},           {SIM_KEY_COOLING_PERMILLE, 300, 1200}, {SIM_KEY_ECC_PENDING, 0, 2},
        {SIM_KEY_RECOVERY_ACTION, 0, 3},          {SIM_KEY_FAN_PERCENT, 30, 100},
    };
    uint32_t i = node_pick(seed, sizeof sets / sizeof *sets);
    return (SimOp){
        .type = SIM_OP_SET, .a = {sets[i].key}, .u = sets[i].from + node_pick(seed, sets[i].to - sets[i].from)};
}

static SimOp random_mig(uint64_t *seed)
{
    switch (node_pick(seed, 6)) {
    case 0:
        return (SimOp){.type = SIM_OP_MIG_MODE, .a = {node_pick(seed, 4) != 0}};
    case 1:
        return (SimOp){.type = SIM_OP_GI_DESTROY, .a = {(int32_t)node_pick(seed, 14)}};
    case 2:
        return (SimOp){.type = SIM_OP_CI_DESTROY, .a = {(int32_t)node_pick(seed, 14), 0}};
    case 3:
        return (SimOp){.type = SIM_OP_CI_CREATE,
                       .a = {(int32_t)node_pick(seed, 14), (int32_t)node_pick(seed, 5), SIM_NONE}};
    default:
        return (SimOp){.type = SIM_OP_GI_CREATE, .a = {(int32_t)node_pick(seed, 7), SIM_NONE}};
    }
}

static SimOp random_fault(uint64_t *seed)
{
    static const int32_t xids[] = {13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 94, 95, 119, 145, 149};
    switch (node_pick(seed, 8)) {
    case 0:
        return (SimOp){.type = SIM_OP_XID,
                       .a = {xids[node_pick(seed, sizeof xids / sizeof *xids)], SIM_NONE, SIM_NONE,
                             (int32_t)node_pick(seed, RANDOM_WORKS + 1) - 1},
                       .u = node_pick(seed, 12)};
    case 1:
        return (SimOp){
            .type = SIM_OP_ECC,
            .a = {(int32_t)node_pick(seed, SIM_ECC_LOCS), (int32_t)node_pick(seed, 2), (int32_t)node_pick(seed, 5)},
            .x = node_rand(seed) * 10};
    case 2:
        return (SimOp){.type = SIM_OP_REMAP, .a = {(int32_t)node_pick(seed, 2), 1, (int32_t)node_pick(seed, 2)}};
    case 3:
        return (SimOp){
            .type = SIM_OP_LINK,
            .a = {(int32_t)node_pick(seed, 13) - 1, (int32_t)node_pick(seed, 5), (int32_t)node_pick(seed, 5)},
            .u = node_pick(seed, 9),
            .x = node_rand(seed) * 3};
    case 4:
        return (SimOp){.type = SIM_OP_PCIE, .a = {1 + (int32_t)node_pick(seed, 3), 8, 2}, .x = node_rand(seed)};
    case 5:
        return (SimOp){.type = SIM_OP_RESET};
    case 6:
        return (SimOp){.type = SIM_OP_PLUG, .a = {(int32_t)node_pick(seed, 2)}};
    default:
        return (SimOp){.type = SIM_OP_EVENT, .a = {(int32_t)node_pick(seed, 100)}, .u = 4};
    }
}

SimOp random_op(uint64_t *seed)
{
    uint32_t kind = node_pick(seed, 20);
    SimOp op = {.type = SIM_OP_KMSG};
    if (kind < 7)
        op = (SimOp){.type = kind < 5 ? SIM_OP_WORK_START : SIM_OP_WORK_STOP,
                     .a = {(int32_t)node_pick(seed, RANDOM_WORKS)}};
    else if (kind < 12)
        op = random_set(seed);
    else if (kind < 15)
        op = random_mig(seed);
    else if (kind < 18)
        op = random_fault(seed);
    else if (kind == 18)
        op = (SimOp){.type = SIM_OP_NODE,
                     .a = {node_pick(seed, 2) ? SIM_NODE_DRIVER : SIM_NODE_FABRIC_MANAGER},
                     .u = node_pick(seed, 2)};
    else if (node_pick(seed, 2))
        op = (SimOp){.type = SIM_OP_HANG,
                     .a = {(int32_t)node_pick(seed, 4), SIM_NONE, 0, (int32_t)node_pick(seed, 2)},
                     .u = 1000};
    op.gpu = op.type == SIM_OP_NODE || op.type == SIM_OP_WORK_START || op.type == SIM_OP_WORK_STOP
                 ? SIM_NONE
                 : (int32_t)node_pick(seed, RANDOM_GPUS);
    if (op.type == SIM_OP_GI_CREATE || op.type == SIM_OP_CI_CREATE || op.type == SIM_OP_MIG_MODE)
        op.gpu = 2;
    int train = op.type == SIM_OP_ECC || op.type == SIM_OP_EVENT || op.type == SIM_OP_PCIE || op.type == SIM_OP_XID;
    if (train && node_pick(seed, 3) == 0) {
        op.times = 2 + node_pick(seed, 5);
        op.every_ns = SIM_TICK_NS * (1 + node_pick(seed, 60));
    }
    return op;
}
