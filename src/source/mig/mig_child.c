/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child's side: what the driver reports of profiles, placements and instances, and the calls that change them. The
 * driver's functions are those of NVIDIA's NVML API reference, "Multi Instance GPU Management".
 */
#include "source/mig/mig_child.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "source/nvml/convert.h"
#include "source/nvml/library.h"

enum { PLACEMENTS_MAX = 64, OLD_PROCESS_LISTS = 535, PROCESSES_READ = 1024 };

typedef struct Caller {
    MigShared *shared;
    NvmlLibrary library;
    Err err;
} Caller;

/* One GPU, while an order is carried out. */
typedef struct Target {
    Caller *caller;
    NvmlTarget target;
    nvmlDevice_t handle;
} Target;

#define DEVICE_CALL(device, fn, args) NVML_CALL(&(device)->caller->library, &(device)->target, fn, args)

/* --- answers --------------------------------------------------------------------------------------------------------
 */

static int code_of(nvmlReturn_t answer)
{
    switch (answer) {
    case NVML_ERROR_IN_USE:
        return -EBUSY;
    case NVML_ERROR_NO_PERMISSION:
        return -EPERM;
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_GPU_NOT_FOUND:
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return -ENODEV;
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
        return -ENOSPC;
    default:
        return -EIO;
    }
}

/* "<what>: In use by another client". */
static int fail_answer(Caller *caller, nvmlReturn_t answer, const char *what)
{
    const char *words = nvml_library_words(&caller->library, answer);
    return err_set(&caller->err, code_of(answer), "%s: %s", what, words ? words : "the driver refuses");
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The name where the driver gives none: as NVIDIA's tools make it of memory and slices. */
static void name_profile(const nvmlGpuInstanceProfileInfo_t *info, unsigned index, uint64_t total_mib, char *to,
                         size_t size)
{
    static const struct {
        unsigned index;
        const char *suffix;
    } suffixes[] = {{7, "+me"},   {8, "+me"},  {10, "+gfx"}, {11, "+gfx"},    {12, "+gfx"},
                    {17, "+gfx"}, {13, "-me"}, {14, "-me"},  {15, "+me.all"}, {16, "+me.all"}};
    const uint64_t eighths = total_mib ? (info->memorySizeMB * 8 + total_mib - 1) / total_mib : 0;
    const uint64_t gib = (total_mib + 1023) / 1024;
    const char *suffix = "";
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (suffixes[i].index == index)
            suffix = suffixes[i].suffix;
    snprintf(to, size, "%ug.%llugb%s", info->sliceCount, (unsigned long long)((eighths * gib + 4) / 8), suffix);
}

static void read_placements(Target *device, MigProfile *profile)
{
    nvmlGpuInstancePlacement_t places[PLACEMENTS_MAX];
    unsigned int count = 0;
    if (DEVICE_CALL(device, nvmlDeviceGetGpuInstancePossiblePlacements_v2,
                    (device->handle, profile->id, NULL, &count)) != NVML_SUCCESS ||
        count > PLACEMENTS_MAX ||
        DEVICE_CALL(device, nvmlDeviceGetGpuInstancePossiblePlacements_v2,
                    (device->handle, profile->id, places, &count)) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < count && i < PLACEMENTS_MAX; i++) {
        if (places[i].size == 0 || places[i].start + places[i].size > MIG_GRID_MAX)
            continue;
        profile->size = (uint8_t)places[i].size;
        profile->starts |= 1u << places[i].start;
    }
}

/* False where the board has no such profile. */
static bool read_profile(Target *device, unsigned index, uint64_t total_mib, MigProfile *ret)
{
    nvmlGpuInstanceProfileInfo_t info = {0};
    nvmlGpuInstanceProfileInfo_v2_t named = {.version = nvmlGpuInstanceProfileInfo_v2};
    if (DEVICE_CALL(device, nvmlDeviceGetGpuInstanceProfileInfo, (device->handle, index, &info)) != NVML_SUCCESS)
        return false;
    *ret = (MigProfile){.id = info.id,
                        .index = index,
                        .slices = (uint8_t)info.sliceCount,
                        .max = (uint8_t)info.instanceCount,
                        .memory_mib = (uint32_t)info.memorySizeMB,
                        .sm_count = info.multiprocessorCount,
                        .copy_engines = (uint8_t)info.copyEngineCount,
                        .engines = {(uint8_t)info.decoderCount, (uint8_t)info.encoderCount, (uint8_t)info.jpegCount,
                                    (uint8_t)info.ofaCount},
                        .compute_slices = mig_compute_sizes(info.sliceCount)};
    if (DEVICE_CALL(device, nvmlDeviceGetGpuInstanceProfileInfoV, (device->handle, index, &named)) == NVML_SUCCESS)
        nvml_profile_from_name(named.name, ret->name, sizeof ret->name);
    if (!ret->name[0])
        name_profile(&info, index, total_mib, ret->name, sizeof ret->name);
    read_placements(device, ret);
    return true;
}

static void read_board(Target *device, MigGpu *gpu)
{
    nvmlMemory_t memory = {0};
    MigBoard *board = &gpu->board;
    (void)DEVICE_CALL(device, nvmlDeviceGetMemoryInfo, (device->handle, &memory));
    for (unsigned index = 0; index < NVML_GPU_INSTANCE_PROFILE_COUNT && board->profile_count < MIG_PROFILE_MAX; index++)
        if (read_profile(device, index, memory.total >> 20, &board->profiles[board->profile_count]))
            board->profile_count++;
    mig_board_seal(board);
}

typedef struct Computes {
    unsigned int count, slices[MIG_COMPUTE_MAX];
    nvmlComputeInstance_t handles[MIG_COMPUTE_MAX];
} Computes;

/* The compute instances of a GPU instance. */
static nvmlReturn_t find_computes(Target *device, nvmlGpuInstance_t instance, Computes *ret)
{
    *ret = (Computes){0};
    for (unsigned slices = 1; slices <= 8; slices++) {
        nvmlComputeInstanceProfileInfo_t info = {0};
        nvmlComputeInstance_t handles[2 * MIG_COMPUTE_MAX];
        unsigned int count = 0;
        const unsigned index = mig_compute_index(slices);
        if (index == UINT32_MAX || DEVICE_CALL(device, nvmlGpuInstanceGetComputeInstanceProfileInfo,
                                               (instance, index, 0, &info)) != NVML_SUCCESS)
            continue;
        nvmlReturn_t r = DEVICE_CALL(device, nvmlGpuInstanceGetComputeInstances, (instance, info.id, handles, &count));
        if (r != NVML_SUCCESS)
            return r;
        for (unsigned int i = 0; i < count && ret->count < MIG_COMPUTE_MAX; i++) {
            ret->slices[ret->count] = slices;
            ret->handles[ret->count++] = handles[i];
        }
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t read_instance(Target *device, nvmlGpuInstance_t handle, size_t profile, MigLayout *now)
{
    nvmlGpuInstanceInfo_t info = {0};
    Computes computes;
    nvmlReturn_t r = DEVICE_CALL(device, nvmlGpuInstanceGetInfo, (handle, &info));
    if (r == NVML_SUCCESS)
        r = find_computes(device, handle, &computes);
    if (r != NVML_SUCCESS || now->count == MIG_INSTANCE_MAX)
        return r;
    MigInstance *instance = &now->instances[now->count++];
    *instance = (MigInstance){.profile = (uint8_t)profile, .start = (uint8_t)info.placement.start, .id = info.id};
    for (unsigned int i = 0; i < computes.count; i++) /* at most MIG_COMPUTE_MAX */
        mig_add_compute(instance, (uint8_t)computes.slices[i]);
    return NVML_SUCCESS;
}

static nvmlReturn_t read_instances(Target *device, MigGpu *gpu)
{
    for (size_t p = 0; p < gpu->board.profile_count; p++) {
        nvmlGpuInstance_t handles[2 * MIG_INSTANCE_MAX];
        unsigned int count = 0;
        nvmlReturn_t r = DEVICE_CALL(device, nvmlDeviceGetGpuInstances,
                                     (device->handle, gpu->board.profiles[p].id, handles, &count));
        for (unsigned int i = 0; r == NVML_SUCCESS && i < count; i++)
            r = read_instance(device, handles[i], p, &gpu->now);
        if (r != NVML_SUCCESS)
            return r;
    }
    return NVML_SUCCESS;
}

/* A process in several lists is kept once. */
static void add_process(const nvmlProcessInfo_t *info, MigGpu *gpu)
{
    for (size_t k = 0; k < gpu->now.count; k++)
        gpu->now.instances[k].used |= gpu->now.instances[k].id == info->gpuInstanceId;
    for (size_t i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].pid == info->pid && gpu->processes[i].gpu_instance == info->gpuInstanceId)
            return;
    if (gpu->process_count < MIG_PROCESSES_MAX)
        gpu->processes[gpu->process_count++] = (MigProcess){.pid = info->pid, .gpu_instance = info->gpuInstanceId};
}

/* Marks the instances that a process uses: for compute, as a client of MPS, or for graphics. Without a list nothing is
 * marked: the driver itself refuses then. */
static void read_processes(Target *device, MigGpu *gpu)
{
    /* entries of the newest list are larger in drivers of 535 */
    const bool older = device->caller->library.driver_major == OLD_PROCESS_LISTS;

#define ADD_LIST(fn)                                                                                                   \
    do {                                                                                                               \
        nvmlProcessInfo_t infos[PROCESSES_READ];                                                                       \
        unsigned int count = PROCESSES_READ;                                                                           \
        const nvmlReturn_t r = older ? DEVICE_CALL(device, fn##_v2, (device->handle, &count, infos))                   \
                                     : DEVICE_CALL(device, fn##_v3, (device->handle, &count, infos));                  \
        for (unsigned int i = 0; r == NVML_SUCCESS && i < count && i < PROCESSES_READ; i++)                            \
            add_process(&infos[i], gpu);                                                                               \
    } while (0)
    ADD_LIST(nvmlDeviceGetComputeRunningProcesses);
    ADD_LIST(nvmlDeviceGetMPSComputeRunningProcesses);
    ADD_LIST(nvmlDeviceGetGraphicsRunningProcesses);
#undef ADD_LIST
}

static nvmlReturn_t find_device(Caller *caller, unsigned index, Target *ret)
{
    *ret = (Target){.caller = caller, .target = {.index = index}};
    return DEVICE_CALL(ret, nvmlDeviceGetHandleByIndex_v2, (index, &ret->handle));
}

static void read_identity(Target *device, MigGpu *gpu)
{
    nvmlPciInfo_t pci = {0};
    (void)DEVICE_CALL(device, nvmlDeviceGetUUID, (device->handle, gpu->uuid, sizeof gpu->uuid));
    (void)DEVICE_CALL(device, nvmlDeviceGetName, (device->handle, gpu->board.name, sizeof gpu->board.name));
    if (DEVICE_CALL(device, nvmlDeviceGetPciInfo_v3, (device->handle, &pci)) != NVML_SUCCESS)
        return;
    snprintf(gpu->pci, sizeof gpu->pci, "%.23s", pci.busId);
    gpu->device = pci.pciDeviceId;
    gpu->subsystem = pci.pciSubSystemId;
}

/* Ampere takes a reset for a change of the mode, Hopper and newer do not (NVIDIA's MIG user guide, "Enable MIG Mode").
 */
static bool needs_reset(Target *device)
{
    nvmlDeviceArchitecture_t arch = DEVICE_ARCH_UNKNOWN;
    return DEVICE_CALL(device, nvmlDeviceGetArchitecture, (device->handle, &arch)) == NVML_SUCCESS &&
           arch <= DEVICE_ARCH_AMPERE;
}

/* Which GPU it is stays known from the read before, for it may not say so any more. */
static void begin_gpu(unsigned index, MigGpu *gpu)
{
    const MigGpu old = *gpu;
    *gpu = (MigGpu){.index = index, .device = old.device, .subsystem = old.subsystem};
    memcpy(gpu->uuid, old.uuid, sizeof gpu->uuid);
    memcpy(gpu->pci, old.pci, sizeof gpu->pci);
}

static void read_gpu(Caller *caller, unsigned index, MigGpu *gpu)
{
    Target device;
    unsigned int current = 0, pending = 0;
    begin_gpu(index, gpu);
    nvmlReturn_t r = find_device(caller, index, &device);
    if (r == NVML_SUCCESS) {
        read_identity(&device, gpu);
        r = DEVICE_CALL(&device, nvmlDeviceGetMigMode, (device.handle, &current, &pending));
        if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND)
            return;
    }
    if (r == NVML_SUCCESS) {
        gpu->capable = true;
        gpu->now.enabled = current == NVML_DEVICE_MIG_ENABLE;
        gpu->pending = pending == NVML_DEVICE_MIG_ENABLE;
        gpu->needs_reset = needs_reset(&device);
        read_board(&device, gpu);
        if (gpu->now.enabled)
            r = read_instances(&device, gpu);
        read_processes(&device, gpu);
        if (r == NVML_SUCCESS)
            r = device.target.trouble; /* lost between two calls */
    }
    if (r == NVML_SUCCESS)
        return;
    fail_answer(caller, r, r == NVML_ERROR_NO_PERMISSION ? "only root may list its instances" : "it cannot be read");
    snprintf(gpu->why, sizeof gpu->why, "%.*s", MIG_WHY_SIZE - 1, caller->err.text);
}

/* At most MIG_GPUS_MAX. */
static int read_count(Caller *caller, size_t *ret)
{
    NvmlTarget nobody = {.index = UINT32_MAX};
    unsigned int count = 0;
    nvmlReturn_t r = NVML_CALL(&caller->library, &nobody, nvmlDeviceGetCount_v2, (&count));
    if (r != NVML_SUCCESS)
        return fail_answer(caller, r, "the driver does not say how many GPUs there are");
    *ret = count < MIG_GPUS_MAX ? count : MIG_GPUS_MAX;
    return 0;
}

static int read_node(Caller *caller)
{
    MigNode *node = &caller->shared->node;
    TRY(read_count(caller, &node->count));
    for (unsigned i = 0; i < node->count; i++)
        if (!caller->shared->hung[i])
            read_gpu(caller, i, &node->gpus[i]);
    return 0;
}

/* --- as Slurm counts ---------------------------------------------------------------------------------------------- */

/* False where there is no device at this place. */
static bool read_device(Target *gpu, unsigned place, GresInstance *ret)
{
    nvmlDevice_t device;
    nvmlDeviceAttributes_t attributes = {0};
    char name[GRES_NAME_MAX] = "";
    *ret = (GresInstance){0};
    if (DEVICE_CALL(gpu, nvmlDeviceGetMigDeviceHandleByIndex, (gpu->handle, place, &device)) != NVML_SUCCESS ||
        DEVICE_CALL(gpu, nvmlDeviceGetGpuInstanceId, (device, &ret->gpu_instance)) != NVML_SUCCESS ||
        DEVICE_CALL(gpu, nvmlDeviceGetComputeInstanceId, (device, &ret->compute_instance)) != NVML_SUCCESS)
        return false;
    if (DEVICE_CALL(gpu, nvmlDeviceGetName, (device, name, sizeof name)) == NVML_SUCCESS)
        nvml_profile_from_name(name, ret->profile, sizeof ret->profile);
    if (!ret->profile[0] && DEVICE_CALL(gpu, nvmlDeviceGetAttributes_v2, (device, &attributes)) == NVML_SUCCESS)
        nvml_profile_from_attributes(&attributes, ret->profile, sizeof ret->profile);
    return true;
}

static nvmlReturn_t read_devices(Target *device, GresGpu *gpu)
{
    unsigned int places = 0;
    nvmlReturn_t r = DEVICE_CALL(device, nvmlDeviceGetMaxMigDeviceCount, (device->handle, &places));
    for (unsigned int i = 0; r == NVML_SUCCESS && i < places && gpu->instance_count < GRES_INSTANCES_MAX; i++)
        if (read_device(device, i, &gpu->instances[gpu->instance_count]))
            gpu->instance_count++;
    return r;
}

/* Index of the GPU at an address; -1: no GPU of this node, an NVSwitch mostly. */
static int find_by_pci(const GresNode *node, const nvmlPciInfo_t *pci)
{
    const PciAddress wanted = {.domain = pci->domain, .bus = (uint8_t)pci->bus, .device = (uint8_t)pci->device};
    PciAddress at;
    for (size_t i = 0; i < node->count; i++)
        if (pci_parse(node->gpus[i].pci, &at) == 0 && pci_compare(at, wanted) == 0)
            return (int)i;
    return -1;
}

static void count_links(Target *device, const GresNode *node, GresGpu *gpu)
{
    for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        nvmlEnableState_t active = NVML_FEATURE_DISABLED;
        nvmlPciInfo_t pci = {0};
        nvmlReturn_t r = DEVICE_CALL(device, nvmlDeviceGetNvLinkState, (device->handle, link, &active));
        if (r == NVML_ERROR_NOT_SUPPORTED)
            return;
        if (r != NVML_SUCCESS || active != NVML_FEATURE_ENABLED ||
            DEVICE_CALL(device, nvmlDeviceGetNvLinkRemotePciInfo_v2, (device->handle, link, &pci)) != NVML_SUCCESS)
            continue;
        const int other = find_by_pci(node, &pci);
        if (other >= 0 && (unsigned)other != gpu->index)
            gpu->links[other]++;
    }
}

static void read_gres_gpu(Caller *caller, unsigned index, GresGpu *gpu)
{
    Target device;
    nvmlPciInfo_t pci = {0};
    unsigned int current = 0, pending = 0;
    *gpu = (GresGpu){.index = index};
    nvmlReturn_t r = find_device(caller, index, &device);
    if (r == NVML_SUCCESS)
        r = DEVICE_CALL(&device, nvmlDeviceGetMinorNumber, (device.handle, &gpu->minor));
    if (r == NVML_SUCCESS)
        r = DEVICE_CALL(&device, nvmlDeviceGetName, (device.handle, gpu->name, sizeof gpu->name));
    if (r == NVML_SUCCESS)
        r = DEVICE_CALL(&device, nvmlDeviceGetPciInfo_v3, (device.handle, &pci));
    snprintf(gpu->pci, sizeof gpu->pci, "%.23s", pci.busId);
    if (r == NVML_SUCCESS) {
        r = DEVICE_CALL(&device, nvmlDeviceGetMigMode, (device.handle, &current, &pending));
        gpu->mig = r == NVML_SUCCESS && current == NVML_DEVICE_MIG_ENABLE;
        if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND)
            r = NVML_SUCCESS;
    }
    if (r == NVML_SUCCESS && gpu->mig)
        r = read_devices(&device, gpu);
    if (r == NVML_SUCCESS)
        return;
    fail_answer(caller, r, "it cannot be read");
    snprintf(gpu->why, sizeof gpu->why, "%.*s", MIG_WHY_SIZE - 1, caller->err.text);
}

static int read_gres(Caller *caller)
{
    GresNode *node = &caller->shared->gres;
    Target device;
    TRY(read_count(caller, &node->count));
    for (unsigned i = 0; i < node->count; i++)
        read_gres_gpu(caller, i, &node->gpus[i]);
    for (unsigned i = 0; i < node->count; i++)
        if (!node->gpus[i].why[0] && !node->gpus[i].mig && find_device(caller, i, &device) == NVML_SUCCESS)
            count_links(&device, node, &node->gpus[i]);
    return 0;
}

/* --- for labels --------------------------------------------------------------------------------------------------- */

static void read_attributes(Target *gpu, nvmlDevice_t device, MakeInstance *ret)
{
    nvmlDeviceAttributes_t a = {0};

    if (DEVICE_CALL(gpu, nvmlDeviceGetAttributes_v2, (device, &a)) != NVML_SUCCESS)
        return;
    ret->multiprocessors = a.multiprocessorCount;
    ret->gpu_slices = a.gpuInstanceSliceCount;
    ret->compute_slices = a.computeInstanceSliceCount;
    ret->copy_engines = a.sharedCopyEngineCount;
    ret->decoders = a.sharedDecoderCount;
    ret->encoders = a.sharedEncoderCount;
    ret->jpeg_engines = a.sharedJpegCount;
    ret->ofa_engines = a.sharedOfaCount;
    ret->memory_mib = a.memorySizeMB;
}

static void read_make_instances(Target *gpu, MakeGpu *ret)
{
    unsigned int places = 0;
    nvmlDevice_t device;

    if (DEVICE_CALL(gpu, nvmlDeviceGetMaxMigDeviceCount, (gpu->handle, &places)) != NVML_SUCCESS)
        return;
    for (unsigned int i = 0; i < places && ret->instance_count < MAKE_INSTANCES_MAX; i++) {
        MakeInstance *one = &ret->instances[ret->instance_count];

        *one = (MakeInstance){0};
        if (DEVICE_CALL(gpu, nvmlDeviceGetMigDeviceHandleByIndex, (gpu->handle, i, &device)) != NVML_SUCCESS ||
            DEVICE_CALL(gpu, nvmlDeviceGetUUID, (device, one->uuid, sizeof one->uuid)) != NVML_SUCCESS)
            continue;
        if (DEVICE_CALL(gpu, nvmlDeviceGetGpuInstanceId, (device, &one->gpu_instance)) != NVML_SUCCESS)
            one->gpu_instance = DEVICE_NO_NUMBER;
        read_attributes(gpu, device, one);
        ret->instance_count++;
    }
}

static void read_clique(Target *gpu, char to[MAKE_FABRIC_CAP])
{
    nvmlGpuFabricInfoV_t fabric = {.version = nvmlGpuFabricInfo_v2};
    nvmlReturn_t r = DEVICE_CALL(gpu, nvmlDeviceGetGpuFabricInfoV, (gpu->handle, &fabric));
    const uint8_t *id = (const uint8_t *)fabric.clusterUuid;
    int len = 0;

    if (r != NVML_SUCCESS || fabric.state != NVML_GPU_FABRIC_STATE_COMPLETED || fabric.status != NVML_SUCCESS)
        return;
    for (int i = 0; i < 16; i++)
        len += snprintf(to + len, MAKE_FABRIC_CAP - (size_t)len, "%s%02x",
                        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
    snprintf(to + len, MAKE_FABRIC_CAP - (size_t)len, ".%u", fabric.cliqueId);
}

static bool read_make_gpu(Caller *caller, unsigned index, MakeGpu *gpu)
{
    unsigned int current = 0, pending = 0;
    nvmlMemory_t memory = {0};
    Target device;

    *gpu = (MakeGpu){0};
    if (find_device(caller, index, &device) != NVML_SUCCESS ||
        DEVICE_CALL(&device, nvmlDeviceGetUUID, (device.handle, gpu->uuid, sizeof gpu->uuid)) != NVML_SUCCESS)
        return false;
    if (DEVICE_CALL(&device, nvmlDeviceGetCudaComputeCapability,
                    (device.handle, &gpu->compute_major, &gpu->compute_minor)) != NVML_SUCCESS)
        gpu->compute_major = gpu->compute_minor = 0;
    if (DEVICE_CALL(&device, nvmlDeviceGetMemoryInfo, (device.handle, &memory)) == NVML_SUCCESS)
        gpu->memory_mib = memory.total >> 20;
    if (DEVICE_CALL(&device, nvmlDeviceGetMemoryBusWidth, (device.handle, &gpu->memory_bus_bits)) != NVML_SUCCESS ||
        DEVICE_CALL(&device, nvmlDeviceGetMaxClockInfo, (device.handle, NVML_CLOCK_MEM, &gpu->memory_max_mhz)) !=
            NVML_SUCCESS)
        gpu->memory_bus_bits = gpu->memory_max_mhz = 0;
    gpu->mig_capable = DEVICE_CALL(&device, nvmlDeviceGetMigMode, (device.handle, &current, &pending)) == NVML_SUCCESS;
    if (gpu->mig_capable && current == NVML_DEVICE_MIG_ENABLE)
        read_make_instances(&device, gpu);
    read_clique(&device, gpu->fabric);
    return !device.target.trouble; /* lost between two calls: half of it is nothing */
}

static int read_make(Caller *caller)
{
    MakeNode *node = &caller->shared->make;
    NvmlTarget nobody = {.index = UINT32_MAX};
    size_t count;

    TRY(read_count(caller, &count));
    *node = (MakeNode){0};
    if (NVML_CALL(&caller->library, &nobody, nvmlSystemGetCudaDriverVersion_v2, (&node->cuda_version)) != NVML_SUCCESS)
        node->cuda_version = 0;
    snprintf(node->driver_version, sizeof node->driver_version, "%s", caller->library.driver_version);
    for (unsigned i = 0; i < count; i++)
        node->count += read_make_gpu(caller, i, &node->gpus[node->count]);
    return 0;
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

static int find_gpu(Caller *caller, Target *ret)
{
    nvmlReturn_t r = find_device(caller, caller->shared->gpu, ret);
    return r == NVML_SUCCESS ? 0 : fail_answer(caller, r, "the GPU is not there");
}

static int set_mode(Caller *caller)
{
    Target device;
    nvmlReturn_t activation = NVML_SUCCESS;
    const unsigned mode = caller->shared->on ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
    const char *what = caller->shared->on ? "enable MIG" : "disable MIG";
    TRY(find_gpu(caller, &device));
    nvmlReturn_t r = DEVICE_CALL(&device, nvmlDeviceSetMigMode, (device.handle, mode, &activation));
    if (r != NVML_SUCCESS)
        return fail_answer(caller, r, what);
    if (activation == NVML_ERROR_RESET_REQUIRED)
        return 1;
    return activation == NVML_SUCCESS ? 0 : fail_answer(caller, activation, what);
}

static int destroy_computes(Target *device, nvmlGpuInstance_t instance)
{
    Computes computes;
    nvmlReturn_t r = find_computes(device, instance, &computes);
    for (unsigned int i = 0; r == NVML_SUCCESS && i < computes.count; i++)
        r = DEVICE_CALL(device, nvmlComputeInstanceDestroy, (computes.handles[i]));
    return r == NVML_SUCCESS ? 0 : fail_answer(device->caller, r, "destroy a compute instance");
}

static int create_computes(Target *device, nvmlGpuInstance_t instance, const MigInstance *wanted)
{
    for (size_t i = 0; i < wanted->compute_count; i++) {
        nvmlComputeInstanceProfileInfo_t info = {0};
        nvmlComputeInstance_t made;
        nvmlReturn_t r = NVML_ERROR_NOT_SUPPORTED;
        const unsigned index = mig_compute_index(wanted->compute[i]);
        if (index != UINT32_MAX)
            r = DEVICE_CALL(device, nvmlGpuInstanceGetComputeInstanceProfileInfo, (instance, index, 0, &info));
        if (r == NVML_SUCCESS)
            r = DEVICE_CALL(device, nvmlGpuInstanceCreateComputeInstance, (instance, info.id, &made));
        if (r != NVML_SUCCESS)
            return fail_answer(device->caller, r, "make a compute instance");
    }
    return 0;
}

static int find_instance(Caller *caller, Target *device, nvmlGpuInstance_t *ret)
{
    TRY(find_gpu(caller, device));
    nvmlReturn_t r =
        DEVICE_CALL(device, nvmlDeviceGetGpuInstanceById, (device->handle, caller->shared->instance_id, ret));
    return r == NVML_SUCCESS ? 0 : fail_answer(caller, r, "the GPU instance is not there");
}

static int destroy_instance(Caller *caller)
{
    Target device;
    nvmlGpuInstance_t instance;
    TRY(find_instance(caller, &device, &instance));
    TRY(destroy_computes(&device, instance));
    nvmlReturn_t r = DEVICE_CALL(&device, nvmlGpuInstanceDestroy, (instance));
    return r == NVML_SUCCESS ? 0 : fail_answer(caller, r, "destroy a GPU instance");
}

static int create_instance(Caller *caller)
{
    Target device;
    nvmlGpuInstance_t instance;
    const MigInstance *wanted = &caller->shared->instance;
    const MigGpu *gpu = &caller->shared->node.gpus[caller->shared->gpu];
    const MigProfile *profile = &gpu->board.profiles[wanted->profile];
    const nvmlGpuInstancePlacement_t place = {.start = wanted->start, .size = profile->size};
    TRY(find_gpu(caller, &device));
    nvmlReturn_t r =
        DEVICE_CALL(&device, nvmlDeviceCreateGpuInstanceWithPlacement, (device.handle, profile->id, &place, &instance));
    if (r != NVML_SUCCESS)
        return fail_answer(caller, r, "make a GPU instance");
    return create_computes(&device, instance, wanted);
}

static int recompute_instance(Caller *caller)
{
    Target device;
    nvmlGpuInstance_t instance;
    TRY(find_instance(caller, &device, &instance));
    TRY(destroy_computes(&device, instance));
    return create_computes(&device, instance, &caller->shared->instance);
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static int open_library(Caller *caller, const char *path)
{
    TRY(nvml_library_open(&caller->library, path, &caller->err));
    nvmlReturn_t r = nvml_library_start(&caller->library, caller->shared->no_attach);
    if (r == NVML_SUCCESS)
        return 0;
    char why[ERR_TEXT_MAX];
    nvml_answer_why(r, nvml_library_words(&caller->library, r), why, sizeof why);
    return err_set(&caller->err, r == NVML_ERROR_NO_PERMISSION ? -EPERM : -ENODEV, "%s", why);
}

static int carry_out(Caller *caller, const char *library)
{
    switch (caller->shared->order) {
    case MIG_OPEN:
        return open_library(caller, library);
    case MIG_READ:
        return read_node(caller);
    case MIG_READ_GRES:
        return read_gres(caller);
    case MIG_READ_MAKE:
        return read_make(caller);
    case MIG_SET_MODE:
        return set_mode(caller);
    case MIG_DESTROY:
        return destroy_instance(caller);
    case MIG_CREATE:
        return create_instance(caller);
    case MIG_RECOMPUTE:
        return recompute_instance(caller);
    }
    return -EINVAL;
}

void mig_child_run(MigShared *shared, const char *library, int fd)
{
    Caller caller = {.shared = shared};
    char byte;
    nvml_library_init(&caller.library, &shared->call, 0);
    while (recv(fd, &byte, 1, 0) == 1) {
        caller.err = (Err){0};
        shared->rc = carry_out(&caller, library);
        memcpy(shared->text, caller.err.text, sizeof shared->text);
        if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    nvml_library_close(&caller.library);
}
