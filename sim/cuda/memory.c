/* SPDX-License-Identifier: Apache-2.0 */
/* The calls for memory: allocation, copies, fills. */
#include <string.h>

#include "sim/cuda/activity.h"
#include "sim/cuda/devices.h"
#include "sim/cuda/queue.h"
#include "sim/cuda/space.h"

/* --- allocation -------------------------------------------------------------------------------------------------- */

static CUresult allocate_device(CUdeviceptr *address, size_t bytes)
{
    CuDevice *device = cu_current();

    if (!address || bytes == 0)
        return CUDA_BAD_ARGUMENT;
    const CUresult result = cu_space_take(device, bytes, address);
    if (result == CUDA_SUCCESS)
        cu_activity_memory(device);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CU_RETURN(cuMemAlloc_v2, CU_NEEDS_CONTEXT, allocate_device(address, bytes));
}

static CUresult free_device(CUdeviceptr address)
{
    CuArea *area = cu_space_find(address, 1);

    if (address == 0)
        return CUDA_SUCCESS;
    if (!area || !area->device) {
        cu_strict("cuMemFree_v2", "not an address of device memory");
        return CUDA_BAD_ARGUMENT;
    }
    CuDevice *device = area->device;
    CUresult result = cu_queue_wait_device(device);
    if (result == CUDA_SUCCESS)
        result = cu_space_give(address, false);
    cu_activity_memory(device);
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    CU_RETURN(cuMemFree_v2, CU_NEEDS_CONTEXT, free_device(address));
}

static CUresult allocate_host(void **memory, size_t bytes)
{
    return memory && bytes ? cu_space_take_host(bytes, memory) : CUDA_BAD_ARGUMENT;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    CU_RETURN(cuMemHostAlloc, CU_NEEDS_CONTEXT, allocate_host(memory, bytes));
}

/* One address for all, as with unified addressing. */
static CUresult find_host_address(CUdeviceptr *address, const void *memory, unsigned int flags)
{
    const CuArea *area = cu_space_find((CUdeviceptr)(uintptr_t)memory, 1);

    if (!address || !area || area->device || flags != 0)
        return CUDA_BAD_ARGUMENT;
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned int flags)
{
    CU_RETURN(cuMemHostGetDevicePointer_v2, CU_NEEDS_CONTEXT, find_host_address(address, memory, flags));
}

static CUresult free_host(const void *memory)
{
    for (uint32_t i = 0; i < cu_process.device_count; i++)
        if (cu_process.devices[i].retained)
            cu_queue_wait_device(&cu_process.devices[i]);
    return cu_space_give((CUdeviceptr)(uintptr_t)memory, true);
}

CUresult cuMemFreeHost(void *memory)
{
    CU_RETURN(cuMemFreeHost, CU_NEEDS_CONTEXT, free_host(memory));
}

static CUresult measure_memory(size_t *free_bytes, size_t *total)
{
    uint64_t is_free, all;

    if (!free_bytes || !total)
        return CUDA_BAD_ARGUMENT;
    cu_space_measure(cu_current(), &is_free, &all);
    *free_bytes = is_free;
    *total = all;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CU_RETURN(cuMemGetInfo_v2, CU_NEEDS_CONTEXT, measure_memory(free, total));
}

/* --- what copies do ---------------------------------------------------------------------------------------------- */

static bool is_there(CUdeviceptr address, uint64_t bytes)
{
    return cu_space_find(address, bytes) != NULL;
}

static void finish_upload(CuOp *op)
{
    const CuTransfer *t = &op->transfer;

    if (is_there(t->to, t->bytes))
        cu_space_write(t->to, t->host_from, t->bytes);
}

static void finish_download(CuOp *op)
{
    const CuTransfer *t = &op->transfer;

    if (is_there(t->from, t->bytes))
        cu_space_read(t->from, t->host_to, t->bytes);
}

static void finish_copy(CuOp *op)
{
    const CuTransfer *t = &op->transfer;
    CuPieces pieces = {0};

    if (!is_there(t->from, t->bytes) || !is_there(t->to, t->bytes))
        return;
    const CuArea *from = cu_space_find(t->from, t->bytes), *to = cu_space_find(t->to, t->bytes);
    if (from->real && to->real) {
        memmove(to->real + (t->to - to->base), from->real + (t->from - from->base), t->bytes);
    } else {
        cu_space_view(t->from, t->bytes, &pieces);
        cu_space_store(t->to, &pieces);
        cu_pieces_done(&pieces);
    }
    if (cu_is_corrupt(op->route.from, op->route.to))
        cu_space_damage(t->to, t->bytes / 4);
}

static void finish_fill(CuOp *op)
{
    const CuTransfer *t = &op->transfer;

    if (!is_there(t->to, t->bytes))
        return;
    CuArea *area = cu_space_find(t->to, t->bytes);
    if (area->real)
        memset(area->real + (t->to - area->base), (int)(t->fill & 0xff), t->bytes);
    else
        cu_space_fill(t->to, t->bytes / 4, cu_content_fill(t->fill));
}

static void begin_move(CuOp *op)
{
    op->left = (double)op->transfer.bytes;
}

/* Within a device: by its memory. */
static void begin_within(CuOp *op)
{
    const bool copies = op->finish == finish_copy;
    const double share = copies ? CU_SHARE_COPY : CU_SHARE_WRITE, times = copies ? 2 : 1;
    const double seconds =
        times * (double)op->transfer.bytes / (cu_memory_rate(op->device, op->begin_ns) * share) + CU_LAUNCH_S;

    op->end_ns = op->begin_ns + (uint64_t)(seconds * 1e9);
}

/* --- copies ------------------------------------------------------------------------------------------------------ */

/* The area of a stretch of device memory, or of the host's that the device sees; NULL: refused. */
static CuArea *check_stretch(CUdeviceptr address, uint64_t bytes)
{
    CuArea *area = cu_space_find(address, bytes);

    if (!area || area->real || (bytes % 4 == 0 && address % 4 == 0))
        return area;
    cu_strict("cuMemcpy", "in allocations above 1 MiB only whole words of 4 bytes are simulated");
    return NULL;
}

/* Memory that the driver does not know is copied before the call returns. */
static CUresult queue_host_copy(CUstream stream, CuOp *op, const void *host)
{
    const bool pinned = is_there((CUdeviceptr)(uintptr_t)host, op->transfer.bytes);

    op->kind = CU_OP_MOVE;
    op->activity = CU_COPY;
    op->begin = begin_move;
    cu_queue_add(stream, op);
    return pinned ? CUDA_SUCCESS : cu_queue_wait_stream(stream);
}

static CUresult copy_up(CUdeviceptr to, const void *from, size_t bytes, CUstream handle)
{
    CUstream stream = cu_stream_find(handle);
    CuArea *area = check_stretch(to, bytes);
    CuOp op = {.finish = finish_upload, .transfer = {.to = to, .host_from = from, .bytes = bytes}};

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!stream || !area || !from)
        return CUDA_BAD_ARGUMENT;
    op.route = cu_route_find(NULL, area->device ? area->device : stream->device, true);
    return queue_host_copy(stream, &op, from);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    CU_RETURN(cuMemcpyHtoDAsync_v2, CU_NEEDS_CONTEXT, copy_up(to, from, bytes, stream));
}

static CUresult copy_down(void *to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    CUstream stream = cu_stream_find(handle);
    CuArea *area = check_stretch(from, bytes);
    CuOp op = {.finish = finish_download, .transfer = {.host_to = to, .from = from, .bytes = bytes}};

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!stream || !area || !to)
        return CUDA_BAD_ARGUMENT;
    op.route = cu_route_find(area->device ? area->device : stream->device, NULL, true);
    return queue_host_copy(stream, &op, to);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CU_RETURN(cuMemcpyDtoHAsync_v2, CU_NEEDS_CONTEXT, copy_down(to, from, bytes, stream));
}

/* Between devices by their link; where access was not enabled, through the host. */
static CUresult copy_across(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    CUstream stream = cu_stream_find(handle);
    CuArea *source = check_stretch(from, bytes), *target = check_stretch(to, bytes);
    CuOp op = {.finish = finish_copy, .transfer = {.to = to, .from = from, .bytes = bytes}};

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!stream || !source || !target)
        return CUDA_BAD_ARGUMENT;
    if (source->device == target->device) {
        op.kind = CU_OP_TIMED;
        op.activity = CU_MEMORY;
        op.begin = begin_within;
    } else {
        const CuDevice *peer = source->device == stream->device ? target->device : source->device;
        op.kind = CU_OP_MOVE;
        op.activity = CU_PEER;
        op.begin = begin_move;
        op.route = cu_route_find(source->device, target->device, peer && stream->device->peers[peer->ordinal]);
    }
    cu_queue_add(stream, &op);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CU_RETURN(cuMemcpyDtoDAsync_v2, CU_NEEDS_CONTEXT, copy_across(to, from, bytes, stream));
}

static CUresult copy_to_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                             size_t bytes, CUstream stream)
{
    const CuArea *source = cu_space_find(from, bytes), *target = cu_space_find(to, bytes);

    if (!cu_device_of(to_context) || !cu_device_of(from_context))
        return CUDA_BAD_CONTEXT;
    if (!source || !target || source->device != from_context || target->device != to_context)
        return CUDA_BAD_ARGUMENT;
    return copy_across(to, from, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    CU_RETURN(cuMemcpyPeerAsync, CU_NEEDS_CONTEXT, copy_to_peer(to, to_context, from, from_context, bytes, stream));
}

static CUresult fill_memory(CUdeviceptr address, unsigned char value, size_t bytes, CUstream handle)
{
    CUstream stream = cu_stream_find(handle);
    CuOp op = {.kind = CU_OP_TIMED,
               .activity = CU_MEMORY,
               .begin = begin_within,
               .finish = finish_fill,
               .transfer = {.to = address, .bytes = bytes, .fill = value * 0x01010101u}};

    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!stream || !check_stretch(address, bytes))
        return CUDA_BAD_ARGUMENT;
    cu_queue_add(stream, &op);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)
{
    CU_RETURN(cuMemsetD8Async, CU_NEEDS_CONTEXT, fill_memory(address, value, bytes, stream));
}
