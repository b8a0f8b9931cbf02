/* SPDX-License-Identifier: Apache-2.0 */
/* The calls for the process, its devices and their contexts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/activity.h"
#include "sim/cuda/devices.h"
#include "sim/cuda/generation.h"
#include "sim/cuda/module.h"
#include "sim/cuda/queue.h"
#include "sim/cuda/space.h"

enum {
    INIT_NS = 400000000,
    CONTEXT_NS = 300000000,
    COMPUTE_PROHIBITED = 2,
    COMPUTE_EXCLUSIVE = 3,
    FABRIC_COMPLETED = 3
};

/* --- cuInit ------------------------------------------------------------------------------------------------------ */

static CUresult driver_answer(SimImage *image)
{
    static SimNodeSeg node; /* large; under the lock */

    sim_node_at(image, sim_clock_now(image), &node);
    switch ((SimDriver)node.key[SIM_NODE_DRIVER]) {
    case SIM_DRIVER_LOADED:
        break;
    case SIM_DRIVER_UNLOADED:
        return CUDA_NO_DEVICE;
    case SIM_DRIVER_MISMATCH:
        return CUDA_DRIVER_MISMATCH;
    case SIM_DRIVER_UNKNOWN_ERROR:
        return CUDA_UNKNOWN;
    case SIM_DRIVER_NO_PERMISSION:
        return CUDA_OPERATING_SYSTEM;
    }
    return image->generation == cu_library_generation ? CUDA_SUCCESS : CUDA_DRIVER_MISMATCH;
}

/* NVSwitches need their manager, and every GPU to have joined. */
static CUresult fabric_answer(SimImage *image, CuDevice *device)
{
    static SimNodeSeg node; /* large; under the lock */

    if (!device->board->has_fabric)
        return CUDA_SUCCESS;
    sim_node_at(image, sim_clock_now(image), &node);
    return node.key[SIM_NODE_FABRIC_MANAGER] == 0 ||
                   cu_state(device, cu_now())->cond.set[SIM_KEY_FABRIC_STATE] != FABRIC_COMPLETED
               ? CUDA_SYSTEM_NOT_READY
               : CUDA_SUCCESS;
}

/* Results that the scenario orders for cuInit; others are for later calls. */
static CUresult ordered_answer(CuDevice *device)
{
    static const CUresult of_init[] = {CUDA_STUB_LIBRARY,     CUDA_NO_DEVICE,       CUDA_OPERATING_SYSTEM,
                                       CUDA_SYSTEM_NOT_READY, CUDA_DRIVER_MISMATCH, CUDA_COMPAT_REFUSED,
                                       CUDA_MPS_FAILED,       CUDA_UNKNOWN};
    const CUresult ordered = (CUresult)cu_state(device, cu_now())->cond.set[SIM_KEY_CUDA_RESULT];

    for (size_t i = 0; i < sizeof of_init / sizeof *of_init; i++)
        if (of_init[i] == ordered)
            return ordered;
    return CUDA_SUCCESS;
}

static CUresult check_devices(SimImage *image)
{
    if (cu_process.device_count == 0)
        return CUDA_NO_DEVICE;
    for (uint32_t i = 0; i < cu_process.device_count; i++) {
        CuDevice *device = &cu_process.devices[i];
        CUresult result = ordered_answer(device);

        if (result == CUDA_SUCCESS)
            result = fabric_answer(image, device);
        if (result != CUDA_SUCCESS)
            return result;
        cu_hang(CUDA_FN_cuInit, device);
    }
    return CUDA_SUCCESS;
}

/* Where a test starts several processes at one time of a paused clock. */
static uint64_t first_time(SimImage *image)
{
    const char *from = getenv("STOKER_SIM_CUDA_FROM");

    return from && *from && sim_clock_speed(image) <= 0 ? strtoull(from, NULL, 10) : sim_clock_now(image);
}

static bool has_mps(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[512];

    return folder && snprintf(path, sizeof path, "%s/control", folder) < (int)sizeof path && access(path, F_OK) == 0;
}

static CUresult init_process(unsigned int flags)
{
    const char *no_library = getenv("STOKER_SIM_NO_LIBCUDA");

    if (flags != 0)
        return CUDA_BAD_ARGUMENT;
    if (cu_process.ready && cu_process.pid == getpid())
        return CUDA_SUCCESS;
    if (cu_process.ready) /* a child after fork */
        return CUDA_NOT_INITIALIZED;
    if (no_library && *no_library && strcmp(no_library, "0") != 0)
        return CUDA_NO_DEVICE;
    SimImage *image = cu_process.image ? cu_process.image : cu_map_image();
    if (!image) {
        const int code = errno;
        cu_strict("cuInit", "no image of a node behind STOKER_SIM: %s", strerror(code));
        return code == EPROTO ? CUDA_DRIVER_MISMATCH : CUDA_NO_DEVICE;
    }
    cu_process.image = image;
    cu_process.mps = has_mps();
    cu_process.cursor_ns = first_time(image);
    CUresult result = driver_answer(image);
    if (result != CUDA_SUCCESS)
        return result;
    cu_devices_find();
    result = check_devices(image);
    if (result != CUDA_SUCCESS)
        return result;
    cu_activity_clean(image);
    cu_wait(cu_now() + INIT_NS);
    cu_process.pid = getpid();
    cu_process.ready = true;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    CU_RETURN(cuInit, CU_NEEDS_NOTHING, init_process(flags));
}

static CUresult read_version(int *version)
{
    SimImage *image = cu_process.image;

    if (!version)
        return CUDA_BAD_ARGUMENT;
    if (!image)
        image = cu_map_image();
    *version = image && image->cuda_version ? (int)image->cuda_version : cu_library_generation >= 590 ? 13010 : 12020;
    if (image && !cu_process.image)
        sim_image_close(image);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    CU_RETURN(cuDriverGetVersion, CU_NEEDS_NOTHING, read_version(version));
}

static CUresult name_result(CUresult result, const char **name)
{
    static const struct {
        CUresult number;
        const char *name;
    } known[] = {
#define RESULT_NAME(id, number, name, words) {number, name},
        CUDA_RESULT_TABLE(RESULT_NAME)
#undef RESULT_NAME
    };

    if (!name)
        return CUDA_BAD_ARGUMENT;
    *name = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !*name; i++)
        if (known[i].number == result)
            *name = known[i].name;
    return *name ? CUDA_SUCCESS : CUDA_BAD_ARGUMENT;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    CU_RETURN(cuGetErrorName, CU_NEEDS_NOTHING, name_result(result, name));
}

/* --- devices ----------------------------------------------------------------------------------------------------- */

static CUresult count_devices(int *count)
{
    if (!count)
        return CUDA_BAD_ARGUMENT;
    *count = (int)cu_process.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CU_RETURN(cuDeviceGetCount, CU_NEEDS_INIT, count_devices(count));
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_BAD_ARGUMENT;
    if (!cu_device(ordinal))
        return CUDA_BAD_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CU_RETURN(cuDeviceGet, CU_NEEDS_INIT, get_device(device, ordinal));
}

static CUresult name_device(char *name, int length, CUdevice ordinal)
{
    const CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    if (!name || length <= 0)
        return CUDA_BAD_ARGUMENT;
    if (device->mig == SIM_NONE)
        snprintf(name, (size_t)length, "%s", device->board->name);
    else
        snprintf(name, (size_t)length, "%s MIG %s", device->board->name, cu_device_profile(device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CU_RETURN(cuDeviceGetName, CU_NEEDS_INIT, name_device(name, length, device));
}

static CUresult read_uuid(CUuuid *uuid, CUdevice ordinal)
{
    const CuDevice *device = cu_device(ordinal);
    size_t digits = 0;

    if (!device)
        return CUDA_BAD_DEVICE;
    if (!uuid)
        return CUDA_BAD_ARGUMENT;
    memset(uuid, 0, sizeof *uuid);
    for (const char *at = device->uuid + 4; *at && digits < 32; at++) {
        const char *place = strchr("0123456789abcdef", *at | 0x20);
        if (*at == '-' || !place)
            continue;
        const unsigned int digit = (unsigned int)(place - "0123456789abcdef");
        uuid->bytes[digits / 2] = (unsigned char)((unsigned int)uuid->bytes[digits / 2] << 4 | digit);
        digits++;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    CU_RETURN(cuDeviceGetUuid_v2, CU_NEEDS_INIT, read_uuid(uuid, device));
}

static CUresult read_bus_id(char *id, int length, CUdevice ordinal)
{
    const CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    if (!id || length <= 0)
        return CUDA_BAD_ARGUMENT;
    snprintf(id, (size_t)length, "%04x:%02x:%02x.0", device->id->domain, device->id->bus, device->id->device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    CU_RETURN(cuDeviceGetPCIBusId, CU_NEEDS_INIT, read_bus_id(id, length, device));
}

static int attribute_of(CuDevice *device, int attribute)
{
    const SimBoard *board = device->board;
    const SimCond *cond = &cu_state(device, cu_now())->cond;
    const CuShared shared = cu_device_shared(board);

    switch (attribute) {
    case CUDA_ATTRIBUTE_SHARED_PER_BLOCK:
        return 48 << 10;
    case CUDA_ATTRIBUTE_SHARED_PER_SM:
        return shared.per_sm;
    case CUDA_ATTRIBUTE_SHARED_OPTIN:
        return shared.optin;
    case CUDA_ATTRIBUTE_CLOCK_KHZ:
        return (int)board->sm_clock_max * 1000;
    case CUDA_ATTRIBUTE_SM_COUNT:
        return (int)device->sm_count;
    case CUDA_ATTRIBUTE_WATCHDOG:
        return (int)board->has_display;
    case CUDA_ATTRIBUTE_COMPUTE_MODE:
        return (int)cond->set[SIM_KEY_COMPUTE_MODE];
    case CUDA_ATTRIBUTE_ECC:
        return (int)cond->ecc_mode;
    case CUDA_ATTRIBUTE_PCI_BUS:
        return (int)device->id->bus;
    case CUDA_ATTRIBUTE_PCI_DEVICE:
        return (int)device->id->device;
    case CUDA_ATTRIBUTE_PCI_DOMAIN:
        return (int)device->id->domain;
    case CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ:
        return (int)board->mem_clock_max * 1000;
    case CUDA_ATTRIBUTE_BUS_WIDTH_BITS:
        return (int)(board->bus_width_bits * device->mem_share + 0.5);
    case CUDA_ATTRIBUTE_L2_BYTES:
        return (int)(cu_device_l2_mib(board) * 1048576 * device->mem_share);
    case CUDA_ATTRIBUTE_COPY_ENGINES:
        return (int)board->copy_engines;
    case CUDA_ATTRIBUTE_MAJOR:
        return (int)board->cc_major;
    case CUDA_ATTRIBUTE_MINOR:
        return (int)board->cc_minor;
    default:
        return -1;
    }
}

static CUresult read_attribute(int *value, int attribute, CUdevice ordinal)
{
    CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    const int found = value ? attribute_of(device, attribute) : -1;
    if (found < 0)
        return CUDA_BAD_ARGUMENT;
    *value = found;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    CU_RETURN(cuDeviceGetAttribute, CU_NEEDS_INIT, read_attribute(value, attribute, device));
}

static CUresult read_total(size_t *bytes, CUdevice ordinal)
{
    const CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    if (!bytes)
        return CUDA_BAD_ARGUMENT;
    *bytes = device->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CU_RETURN(cuDeviceTotalMem_v2, CU_NEEDS_INIT, read_total(bytes, device));
}

static CUresult read_peer(int *can, CUdevice ordinal, CUdevice peer)
{
    if (!cu_device(ordinal) || !cu_device(peer))
        return CUDA_BAD_DEVICE;
    if (!can)
        return CUDA_BAD_ARGUMENT;
    *can = cu_can_access(cu_device(ordinal), cu_device(peer));
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CU_RETURN(cuDeviceCanAccessPeer, CU_NEEDS_INIT, read_peer(can, device, peer));
}

/* --- contexts ---------------------------------------------------------------------------------------------------- */

static CUresult set_flags(CUdevice ordinal, unsigned int flags)
{
    CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    device->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    CU_RETURN(cuDevicePrimaryCtxSetFlags_v2, CU_NEEDS_INIT, set_flags(device, flags));
}

static CUresult check_device(CuDevice *device)
{
    const SimNow *now = cu_state(device, cu_now());
    const uint32_t *set = now->cond.set, mode = set[SIM_KEY_COMPUTE_MODE];
    uint64_t free_bytes, total;

    if (set[SIM_KEY_CUDA_RESULT] == CUDA_DEVICE_UNAVAILABLE || now->cond.lost || now->cond.reset_required ||
        !now->cond.present || mode == COMPUTE_PROHIBITED || (mode == COMPUTE_EXCLUSIVE && now->proc_count > 0))
        return CUDA_DEVICE_UNAVAILABLE;
    cu_space_measure(device, &free_bytes, &total);
    return free_bytes == 0 ? CUDA_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult retain_context(CUcontext *context, CUdevice ordinal)
{
    CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    if (!context)
        return CUDA_BAD_ARGUMENT;
    if (device->retained == 0) {
        const CUresult result = check_device(device);
        if (result != CUDA_SUCCESS)
            return result;
        cu_wait(cu_now() + CONTEXT_NS);
        cu_activity_begin(device);
    }
    device->retained++;
    *context = device;
    return device->sticky;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CU_RETURN(cuDevicePrimaryCtxRetain, CU_NEEDS_INIT, retain_context(context, device));
}

static CUresult release_context(CUdevice ordinal)
{
    CuDevice *device = cu_device(ordinal);

    if (!device)
        return CUDA_BAD_DEVICE;
    if (device->retained == 0)
        return CUDA_BAD_CONTEXT;
    if (--device->retained > 0)
        return CUDA_SUCCESS;
    device->retained = 1; /* while what runs is waited for */
    cu_queue_wait_device(device);
    device->retained = 0;
    cu_queue_clear(device);
    cu_modules_clear(device);
    const uint64_t bytes = cu_space_give_all(device);
    if (bytes > 0)
        cu_strict("cuDevicePrimaryCtxRelease_v2", "%llu bytes of device %u were not freed", (unsigned long long)bytes,
                  device->ordinal);
    cu_activity_end(device);
    memset(device->peers, 0, sizeof device->peers);
    device->launches = 0;
    return CUDA_SUCCESS; /* a sticky error stays: only the end of the process helps */
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CU_RETURN(cuDevicePrimaryCtxRelease_v2, CU_NEEDS_INIT, release_context(device));
}

static CUresult set_current(CUcontext context)
{
    if (context && !cu_device_of(context))
        return CUDA_BAD_CONTEXT;
    cu_make_current(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CU_RETURN(cuCtxSetCurrent, CU_NEEDS_INIT, set_current(context));
}

static CUresult enable_peer(CUcontext peer, unsigned int flags)
{
    CuDevice *device = cu_current(), *other = cu_device_of(peer);

    if (!other)
        return CUDA_BAD_CONTEXT;
    if (flags != 0 || other == device)
        return CUDA_BAD_ARGUMENT;
    if (!cu_can_access(device, other))
        return CUDA_NO_PEER;
    if (device->peers[other->ordinal])
        return CUDA_PEER_ALREADY;
    device->peers[other->ordinal] = true;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CU_RETURN(cuCtxEnablePeerAccess, CU_NEEDS_CONTEXT, enable_peer(peer, flags));
}

/* --- the end ----------------------------------------------------------------------------------------------------- */

/* The works of the process end with it; what a client has not released is a mistake. */
static void __attribute__((destructor)) leave_process(void)
{
    if (!cu_process.ready || cu_process.pid != getpid())
        return;
    for (uint32_t i = 0; i < cu_process.device_count; i++) {
        CuDevice *device = &cu_process.devices[i];

        if (device->retained == 0)
            continue;
        cu_strict("exit", "the context of device %u was not released, with %llu bytes", device->ordinal,
                  (unsigned long long)device->held_bytes);
        cu_activity_end(device);
    }
}
