/* SPDX-License-Identifier: Apache-2.0 */
/* MIG capabilities: the files that grant access to instances, and the devices behind them. */
#include <stdio.h>

#include "base/owner.h"
#include "sim/node/tree_part.h"

enum {
    MINOR_CONFIG = 1,
    MINOR_MONITOR = 2,
    MINOR_FIRST = 3,
    GPU_MINORS = 32, /* GPUs, instances per GPU and compute instances per instance that the driver numbers ahead */
    GI_MINORS = 15,
    CI_MINORS = NODE_TREE_CI_MAX,
    MODE_ROOT = 0400,
    MODE_ALL = 0444,
};

uint32_t node_mig_minor(uint32_t gpu_minor, uint32_t gi, int32_t ci)
{
    if (gpu_minor >= GPU_MINORS || gi >= GI_MINORS || ci >= CI_MINORS)
        return 0;
    return MINOR_FIRST + (gpu_minor * GI_MINORS + gi) * (1 + CI_MINORS) + (ci == SIM_NONE ? 0 : 1 + (uint32_t)ci);
}

/* The pen stands in the folder of the capability, or above a capability named like its folder. */
static void capability(Put *put, const char *name, uint32_t minor_number, uint32_t mode)
{
    put_line(put, name, "DeviceFileMinor: %u\nDeviceFileMode: %u\nDeviceFileModify: 1", minor_number, mode);
}

void tree_capability(Put *put, uint32_t minor_number, uint32_t mode)
{
    capability(put, "fabric-mgmt", minor_number, mode);
}

void tree_mig_minors(Put *put)
{
    CLEANUP(str_done) Str text;
    str_init(&text, PUT_FILE_MAX);
    str_addf(&text, "config %d\nmonitor %d\n", MINOR_CONFIG, MINOR_MONITOR);
    for (uint32_t gpu = 0; gpu < GPU_MINORS; gpu++)
        for (uint32_t gi = 0; gi < GI_MINORS; gi++) {
            str_addf(&text, "gpu%u/gi%u/access %u\n", gpu, gi, node_mig_minor(gpu, gi, SIM_NONE));
            for (int32_t ci = 0; ci < CI_MINORS; ci++)
                str_addf(&text, "gpu%u/gi%u/ci%d/access %u\n", gpu, gi, ci, node_mig_minor(gpu, gi, ci));
        }
    put_bytes(put, "mig-minors", text.text, text.len, 0444);
    put_in(put, "proc/driver/nvidia/capabilities/mig");
    capability(put, "config", MINOR_CONFIG, MODE_ROOT);
    capability(put, "monitor", MINOR_MONITOR, MODE_ROOT);
}

static int keeps_gi(const NodeTreeGpu *now, uint32_t gi)
{
    for (uint32_t i = 0; i < now->gi_count; i++)
        if (now->gi[i] == gi)
            return 1;
    return 0;
}

static int keeps_ci(const NodeTreeGpu *now, uint32_t gi, uint32_t ci)
{
    for (uint32_t i = 0; i < now->ci_count; i++)
        if (now->ci[i][0] == gi && now->ci[i][1] == ci)
            return 1;
    return 0;
}

static void gone(Put *put, uint32_t gpu, const NodeTreeGpu *old, const NodeTreeGpu *now)
{
    for (uint32_t i = 0; i < old->ci_count; i++) {
        uint32_t gi = old->ci[i][0], ci = old->ci[i][1];
        if (keeps_ci(now, gi, ci))
            continue;
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u", gpu, gi, ci);
        put_gone(put, "dev/nvidia-caps/nvidia-cap%u", node_mig_minor(gpu, gi, (int32_t)ci));
    }
    for (uint32_t i = 0; i < old->gi_count; i++) {
        if (keeps_gi(now, old->gi[i]))
            continue;
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u", gpu, old->gi[i]);
        put_gone(put, "dev/nvidia-caps/nvidia-cap%u", node_mig_minor(gpu, old->gi[i], SIM_NONE));
    }
}

static void device(const NodeTree *tree, Put *put, uint32_t minor_number)
{
    char name[32];
    snprintf(name, sizeof name, "nvidia-cap%u", minor_number);
    put_in(put, "dev/nvidia-caps");
    put_device(put, name, tree->flags & NODE_TREE_DEVICES ? DEV_MAJOR_CAPS : 0, minor_number);
}

void tree_mig_gpu(const NodeTree *tree, Put *put, uint32_t gpu, const NodeTreeGpu *old)
{
    const NodeTreeGpu *now = &tree->gpus[gpu];
    uint32_t number = tree->image->gpus[gpu].minor;
    if (old)
        gone(put, number, old, now);
    if (!now->driver) {
        put_gone(put, "proc/driver/nvidia/capabilities/gpu%u", number);
        return;
    }
    if (!tree->image->boards[tree->image->gpus[gpu].board].has_mig)
        return;
    put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig", number);
    for (uint32_t i = 0; i < now->gi_count; i++) {
        uint32_t at = node_mig_minor(number, now->gi[i], SIM_NONE);
        if (!at)
            continue;
        put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u", number, now->gi[i]);
        capability(put, "access", at, MODE_ALL);
        device(tree, put, at);
    }
    for (uint32_t i = 0; i < now->ci_count; i++) {
        uint32_t at = node_mig_minor(number, now->ci[i][0], (int32_t)now->ci[i][1]);
        if (!at)
            continue;
        put_in(put, "proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci%u", number, now->ci[i][0], now->ci[i][1]);
        capability(put, "access", at, MODE_ALL);
        device(tree, put, at);
    }
}
