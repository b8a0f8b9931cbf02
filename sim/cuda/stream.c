/* SPDX-License-Identifier: Apache-2.0 */
/* The calls for streams and events. */
#include "sim/cuda/queue.h"

static CUresult create_stream(CUstream *stream)
{
    if (!stream)
        return CUDA_BAD_ARGUMENT;
    *stream = cu_stream_new(cu_current());
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    (void)flags; /* the default stream waits for nobody here, so all are alike */
    CU_RETURN(cuStreamCreate, CU_NEEDS_CONTEXT, create_stream(stream));
}

static CUresult destroy_stream(CUstream handle)
{
    CUstream stream = handle ? cu_stream_find(handle) : NULL;

    if (!stream)
        return CUDA_BAD_ARGUMENT;
    cu_stream_free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CU_RETURN(cuStreamDestroy_v2, CU_NEEDS_CONTEXT, destroy_stream(stream));
}

static CUresult wait_stream(CUstream handle)
{
    CUstream stream = cu_stream_find(handle);

    return stream ? cu_queue_wait_stream(stream) : CUDA_BAD_ARGUMENT;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CU_RETURN(cuStreamSynchronize, CU_NEEDS_CONTEXT, wait_stream(stream));
}

static CUresult queue_event(CUstream handle, CUevent event, CuOpKind kind)
{
    CUstream stream = cu_stream_find(handle);
    const CuOp op = {.kind = kind, .event = event};

    if (!stream || !cu_event_exists(event))
        return CUDA_BAD_ARGUMENT;
    cu_queue_add(stream, &op);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    CU_RETURN(cuStreamWaitEvent, CU_NEEDS_CONTEXT, queue_event(stream, event, CU_OP_AWAIT));
}

static CUresult create_event(CUevent *event)
{
    if (!event)
        return CUDA_BAD_ARGUMENT;
    *event = cu_event_new(cu_current());
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    (void)flags;
    CU_RETURN(cuEventCreate, CU_NEEDS_CONTEXT, create_event(event));
}

static CUresult destroy_event(CUevent event)
{
    if (!cu_event_exists(event))
        return CUDA_BAD_ARGUMENT;
    cu_event_free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CU_RETURN(cuEventDestroy_v2, CU_NEEDS_CONTEXT, destroy_event(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CU_RETURN(cuEventRecord, CU_NEEDS_CONTEXT, queue_event(stream, event, CU_OP_RECORD));
}

static CUresult query_event(CUevent event)
{
    if (!cu_event_exists(event))
        return CUDA_BAD_ARGUMENT;
    cu_queue_look();
    if (event->device->sticky != CUDA_SUCCESS)
        return event->device->sticky;
    return event->done == event->recorded ? CUDA_SUCCESS : CUDA_NOT_READY;
}

CUresult cuEventQuery(CUevent event)
{
    CU_RETURN(cuEventQuery, CU_NEEDS_CONTEXT, query_event(event));
}

static CUresult wait_event(CUevent event)
{
    return cu_event_exists(event) ? cu_queue_wait_event(event) : CUDA_BAD_ARGUMENT;
}

CUresult cuEventSynchronize(CUevent event)
{
    CU_RETURN(cuEventSynchronize, CU_NEEDS_CONTEXT, wait_event(event));
}

static CUresult measure_events(float *ms, CUevent from, CUevent to)
{
    if (!ms || !cu_event_exists(from) || !cu_event_exists(to) || from->recorded == 0 || to->recorded == 0)
        return CUDA_BAD_ARGUMENT;
    if (from->done != from->recorded || to->done != to->recorded)
        return CUDA_NOT_READY;
    *ms = (float)((double)((int64_t)to->at_ns - (int64_t)from->at_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    CU_RETURN(cuEventElapsedTime, CU_NEEDS_CONTEXT, measure_events(ms, from, to));
}

static CUresult wait_context(void)
{
    return cu_queue_wait_device(cu_current());
}

CUresult cuCtxSynchronize(void)
{
    CU_RETURN(cuCtxSynchronize, CU_NEEDS_CONTEXT, wait_context());
}
