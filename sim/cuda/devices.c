/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- which ------------------------------------------------------------------------------------------------------- */

static uint64_t bus_address(const SimGpuId *id)
{
    return (uint64_t)id->domain << 16 | id->bus << 8 | id->device;
}

/* GPUs of the node in the order of their buses, without those that clients do not find. */
static uint32_t list_gpus(const SimImage *image, uint32_t gpus[SIM_GPU_MAX])
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
        static SimNow now; /* large; under the lock */

        sim_state_at(cu_process.image, g, cu_now(), &now);
        if (!now.cond.present || now.cond.lost || now.cond.set[SIM_KEY_NOT_STARTED])
            continue;
        uint32_t at = count++;
        for (; at > 0 && bus_address(&image->gpus[gpus[at - 1]]) > bus_address(&image->gpus[g]); at--)
            gpus[at] = gpus[at - 1];
        gpus[at] = g;
    }
    return count;
}

static CuDevice *add_device(uint32_t gpu)
{
    CuDevice *device = &cu_process.devices[cu_process.device_count];
    const SimGpuId *id = &cu_process.image->gpus[gpu];
    const SimBoard *board = &cu_process.image->boards[id->board];

    *device = (CuDevice){.ordinal = cu_process.device_count++,
                         .gpu = gpu,
                         .gi = SIM_NONE,
                         .ci = SIM_NONE,
                         .mig = SIM_NONE,
                         .board = board,
                         .id = id,
                         .sm_count = board->sm_count,
                         .mem_share = 1,
                         .memory_bytes = ((uint64_t)board->memory_mib - board->reserved_mib) << 20};
    snprintf(device->uuid, sizeof device->uuid, "%s", id->uuid);
    return device;
}

static void add_mig_device(uint32_t gpu, uint32_t number, const SimGi *gi, const SimCi *ci)
{
    CuDevice *device = add_device(gpu);

    device->gi = (int32_t)gi->id;
    device->ci = (int32_t)ci->id;
    device->mig = (int32_t)number;
    device->sm_count = ci->sm;
    device->first_sm = gi->start * device->board->sm_count / device->board->mig_grid + ci->start * ci->sm / ci->size;
    device->mem_share = (double)gi->size / device->board->mig_grid;
    device->memory_bytes = (uint64_t)device->board->profiles[gi->profile].memory_mib << 20;
    sim_mig_uuid(device->id, gi, ci, device->uuid);
}

/* The first MIG device of the GPU whose UUID begins so; false: there is none. */
static bool find_mig_device(uint32_t gpu, const char *uuid, size_t length)
{
    static SimNow now; /* large; under the lock */
    uint32_t g, c;
    char buf[48];

    sim_state_at(cu_process.image, gpu, cu_now(), &now);
    for (uint32_t i = 0; now.cond.mig_mode && sim_mig_device(&now.cond, i, &g, &c); i++) {
        sim_mig_uuid(&cu_process.image->gpus[gpu], &now.cond.gi[g], &now.cond.ci[c], buf);
        if (strncmp(buf, uuid, length) != 0)
            continue;
        add_mig_device(gpu, i, &now.cond.gi[g], &now.cond.ci[c]);
        return true;
    }
    return false;
}

static bool is_in_mig_mode(uint32_t gpu)
{
    static SimNow now; /* large; under the lock */

    sim_state_at(cu_process.image, gpu, cu_now(), &now);
    return now.cond.mig_mode;
}

/* Whole GPUs; where there are none, the first MIG device. */
static void add_default(const uint32_t *gpus, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!is_in_mig_mode(gpus[i]))
            add_device(gpus[i]);
    for (uint32_t i = 0; i < count && cu_process.device_count == 0; i++)
        find_mig_device(gpus[i], "", 0);
}

/* One word of CUDA_VISIBLE_DEVICES; false: the list ends before it. */
static bool add_named(const uint32_t *gpus, uint32_t count, const char *word, size_t length)
{
    char *end;
    const unsigned long index = strtoul(word, &end, 10);
    const bool is_index = end > word && (size_t)(end - word) == length;

    for (uint32_t i = 0; i < count; i++) {
        const char *uuid = cu_process.image->gpus[gpus[i]].uuid;
        const bool named = is_index ? index == i : length > 4 && strncmp(uuid, word, length) == 0;

        if (strncmp(word, "MIG-", 4) == 0 && find_mig_device(gpus[i], word, length))
            return false; /* at most one, and nothing beside it */
        if (named && is_in_mig_mode(gpus[i]))
            return find_mig_device(gpus[i], "", 0) && false;
        if (named) {
            add_device(gpus[i]);
            return true;
        }
    }
    return false;
}

void cu_devices_find(void)
{
    const char *named = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t gpus[SIM_GPU_MAX];
    const uint32_t count = list_gpus(cu_process.image, gpus);

    cu_process.device_count = 0;
    if (!named)
        add_default(gpus, count);
    while (named && *named && cu_process.device_count < count) {
        const size_t length = strcspn(named, ",");

        if (!add_named(gpus, count, named, length))
            break;
        named += length + (named[length] == ',');
    }
    for (uint32_t i = 1; i < cu_process.device_count; i++)
        if (cu_process.devices[i].mig != SIM_NONE) { /* whole GPUs before it do not count */
            cu_process.devices[0] = cu_process.devices[i];
            cu_process.devices[0].ordinal = 0;
            cu_process.device_count = 1;
        }
}

/* --- look-ups ---------------------------------------------------------------------------------------------------- */

CuDevice *cu_device(CUdevice ordinal)
{
    return ordinal >= 0 && (uint32_t)ordinal < cu_process.device_count ? &cu_process.devices[ordinal] : NULL;
}

CuDevice *cu_device_of(CUcontext context)
{
    for (uint32_t i = 0; i < cu_process.device_count; i++)
        if (context == &cu_process.devices[i] && context->retained > 0)
            return context;
    return NULL;
}

const char *cu_device_profile(const CuDevice *device)
{
    for (uint32_t i = 0; i < device->board->profile_count; i++)
        if ((uint64_t)device->board->profiles[i].memory_mib << 20 == device->memory_bytes)
            return device->board->profiles[i].name;
    return "";
}

bool cu_device_is_geforce(const SimBoard *board)
{
    return strstr(board->name, "GeForce") != NULL;
}

/* Data sheets and the vendor's architecture papers. */
uint32_t cu_device_l2_mib(const SimBoard *board)
{
    static const struct {
        const char *in_name;
        uint32_t mib;
    } known[] = {{"A30", 24},  {"A100", 40},  {"L40", 96},       {"4080", 64}, {"H100", 50},
                 {"H200", 60}, {"B200", 126}, {"PRO 6000", 128}, {"T4", 4}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(board->name, known[i].in_name))
            return known[i].mib;
    return board->cc_major >= 9 ? 50 : board->cc_major == 8 ? 40 : 6;
}

/* Bytes in the CUDA programming guide, by compute capability. */
CuShared cu_device_shared(const SimBoard *board)
{
    switch (board->cc_major) {
    case 7:
        return (CuShared){64 << 10, 64 << 10};
    case 8:
        return board->cc_minor == 0 ? (CuShared){164 << 10, 163 << 10} : (CuShared){100 << 10, 99 << 10};
    case 9:
    case 10:
        return (CuShared){228 << 10, 227 << 10};
    default:
        return (CuShared){100 << 10, 99 << 10};
    }
}

/* As nvidia-smi pairs them: the boards of one kind, in the order of their buses. */
int cu_device_bridged(const CuDevice *device)
{
    const SimImage *image = cu_process.image;
    int older = -1, younger = -1;
    uint32_t before = 0;

    for (uint32_t g = 0; g < image->gpu_count; g++) {
        const SimGpuId *id = &image->gpus[g];
        const uint64_t at = bus_address(id), own = bus_address(device->id);

        if (id->board != device->id->board || g == device->gpu)
            continue;
        before += at < own;
        if (at < own && (older < 0 || at > bus_address(&image->gpus[older])))
            older = (int)g;
        if (at > own && (younger < 0 || at < bus_address(&image->gpus[younger])))
            younger = (int)g;
    }
    return before % 2 ? older : younger;
}
