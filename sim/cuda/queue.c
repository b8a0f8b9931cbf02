/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/queue.h"

#include <stdlib.h>

#include "sim/cuda/activity.h"

enum { LOOK_NS = 10000 }; /* how far a look moves a paused clock */

static CUstream streams; /* all of them */
static CUevent events;
static struct CUstream_st own[SIM_GPU_MAX]; /* the default stream of each device */
static CuOp *engine[SIM_GPU_MAX];           /* what runs on its SMs */
static uint64_t queue_ns;                   /* up to here the queues have been run */
static uint64_t op_count;

/* --- streams and events ------------------------------------------------------------------------------------------ */

static void *must_have(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

CUstream cu_stream_new(CuDevice *device)
{
    CUstream stream = must_have(calloc(1, sizeof *stream));

    *stream = (struct CUstream_st){.device = device, .next = streams};
    streams = stream;
    return stream;
}

CUevent cu_event_new(CuDevice *device)
{
    CUevent event = must_have(calloc(1, sizeof *event));

    *event = (struct CUevent_st){.device = device, .next = events};
    events = event;
    return event;
}

CUstream cu_stream_find(CUstream handle)
{
    CuDevice *device = cu_current();

    if (!handle) {
        CUstream stream = &own[device->ordinal];
        if (!stream->device) {
            *stream = (struct CUstream_st){.device = device, .next = streams};
            streams = stream;
        }
        return stream;
    }
    for (CUstream stream = streams; stream; stream = stream->next)
        if (stream == handle)
            return stream;
    return NULL;
}

bool cu_event_exists(CUevent event)
{
    for (CUevent at = events; at; at = at->next)
        if (at == event)
            return true;
    return false;
}

void cu_stream_free(CUstream stream)
{
    cu_queue_wait_stream(stream);
    for (CUstream *at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            free(stream);
            return;
        }
}

void cu_event_free(CUevent event)
{
    cu_queue_wait_event(event);
    for (CUevent *at = &events; *at; at = &(*at)->next)
        if (*at == event) {
            *at = event->next;
            free(event);
            return;
        }
}

/* --- operations -------------------------------------------------------------------------------------------------- */

void cu_queue_add(CUstream stream, const CuOp *op)
{
    CuOp *added = must_have(malloc(sizeof *added));

    *added = *op;
    added->next = NULL;
    added->stream = stream;
    added->device = stream->device;
    added->number = op_count++;
    added->from_ns = cu_now();
    if (added->kind == CU_OP_RECORD)
        added->count = ++added->event->recorded;
    if (added->kind == CU_OP_AWAIT)
        added->count = added->event->recorded;
    if (stream->tail)
        stream->tail->next = added;
    else
        stream->head = added;
    stream->tail = added;
}

static void pop_op(CuOp *op)
{
    CUstream stream = op->stream;

    if (engine[op->device->ordinal] == op)
        engine[op->device->ordinal] = NULL;
    if (op->kind == CU_OP_RECORD && op->event->done < op->count) {
        op->event->done = op->count;
        op->event->at_ns = queue_ns;
    }
    stream->head = op->next;
    if (!stream->head)
        stream->tail = NULL;
    free(op);
}

/* A context that failed does nothing more. */
static void drop_ops(const CuDevice *device)
{
    for (CUstream stream = streams; stream; stream = stream->next)
        while (stream->device == device && stream->head)
            pop_op(stream->head);
}

/* Moves that share each link now, and the GPUs that move from or to the host. */
typedef struct Sharing {
    uint32_t users[CU_LINKS], hosts;
} Sharing;

static bool is_moving(const CuOp *op)
{
    return op && op->begun && op->kind == CU_OP_MOVE;
}

static Sharing count_users(void)
{
    Sharing sharing = {0};
    uint32_t gpus = 0;

    for (CUstream stream = streams; stream; stream = stream->next) {
        const CuOp *op = stream->head;
        int links[2];

        if (!is_moving(op))
            continue;
        cu_route_links(&op->route, links);
        for (int i = 0; i < 2; i++)
            if (links[i] >= 0)
                sharing.users[links[i]]++;
        if (!op->route.from || !op->route.to)
            gpus |= 1u << (op->route.from ? op->route.from : op->route.to)->gpu;
    }
    sharing.hosts = (uint32_t)__builtin_popcount(gpus);
    return sharing;
}

static double move_rate(const CuOp *op, const Sharing *sharing)
{
    int links[2];
    double rate = 1e18;

    cu_route_links(&op->route, links);
    for (int i = 0; i < 2; i++) {
        if (links[i] < 0)
            continue;
        const double part = cu_link_rate(&op->route, links[i], queue_ns) /
                            (sharing->users[links[i]] > 0 ? sharing->users[links[i]] : 1);
        rate = part < rate ? part : rate;
    }
    if (sharing->hosts > 1 && (!op->route.from || !op->route.to))
        rate *= CU_ALL_SHARE;
    return rate > 1 ? rate : 1;
}

static void begin_op(CuOp *op)
{
    const Sharing nobody = {0};

    op->begun = true;
    op->begin_ns = op->end_ns = queue_ns;
    if (op->exclusive)
        engine[op->device->ordinal] = op;
    op->begin(op);
    const double seconds =
        op->kind == CU_OP_MOVE ? op->left / move_rate(op, &nobody) : (double)(op->end_ns - op->begin_ns) / 1e9;
    cu_activity_note(op->device, op->activity, seconds, queue_ns);
}

/* The first operation that can begin, or is over at once: the one that was queued first. */
static CuOp *find_startable(void)
{
    CuOp *first = NULL;

    for (CUstream stream = streams; stream; stream = stream->next) {
        CuOp *op = stream->head;

        if (!op || op->begun || op->from_ns > queue_ns || (op->exclusive && engine[op->device->ordinal]) ||
            (op->kind == CU_OP_AWAIT && op->event->done < op->count))
            continue;
        if (!first || op->number < first->number)
            first = op;
    }
    return first;
}

static void start_ops(void)
{
    for (CuOp *op; (op = find_startable());) {
        if (cu_activity_check(op->device, queue_ns) != CUDA_SUCCESS)
            drop_ops(op->device);
        else if (op->kind == CU_OP_RECORD || op->kind == CU_OP_AWAIT)
            pop_op(op);
        else
            begin_op(op);
    }
}

/* When something next begins or ends; SIM_FOREVER: nothing will. */
static uint64_t find_next(void)
{
    const Sharing sharing = count_users();
    uint64_t next = SIM_FOREVER;

    for (CUstream stream = streams; stream; stream = stream->next) {
        const CuOp *op = stream->head;
        uint64_t at = SIM_FOREVER;

        if (op && !op->begun && op->from_ns > queue_ns)
            at = op->from_ns;
        else if (is_moving(op) && !op->forever)
            at = queue_ns + (uint64_t)(op->left / move_rate(op, &sharing) * 1e9) + 1;
        else if (op && op->begun && !op->forever)
            at = op->end_ns;
        next = at < next ? at : next;
    }
    return next;
}

static void end_op(CuOp *op)
{
    op->end_ns = queue_ns;
    if (op->device->work.end_ns < queue_ns)
        op->device->work.end_ns = queue_ns;
    if (cu_activity_check(op->device, queue_ns) == CUDA_SUCCESS)
        op->finish(op);
    if (op->device->sticky != CUDA_SUCCESS)
        drop_ops(op->device);
    else
        pop_op(op);
}

/* Runs the queues to t_ns, at most to where something begins or ends. */
static void run_to(uint64_t t_ns)
{
    const Sharing sharing = count_users();
    const double seconds = t_ns > queue_ns ? (double)(t_ns - queue_ns) / 1e9 : 0;

    for (CUstream stream = streams; stream; stream = stream->next)
        if (is_moving(stream->head))
            stream->head->left -= move_rate(stream->head, &sharing) * seconds;
    if (t_ns > queue_ns)
        queue_ns = t_ns;
    for (CUstream stream = streams; stream; stream = stream->next) {
        CuOp *op = stream->head;
        if (op && op->begun && !op->forever && (is_moving(op) ? op->left <= 0.5 : op->end_ns <= queue_ns))
            end_op(op);
    }
}

/* Kernels whose stop word is set return. */
static void heed_stops(void)
{
    const uint64_t now = sim_clock_speed(cu_process.image) > 0 ? sim_clock_now(cu_process.image) : cu_now();

    for (CUstream stream = streams; stream; stream = stream->next) {
        CuOp *op = stream->head;
        if (!op || !op->begun || op->forever || op->stopped || !op->stop || *op->stop == 0)
            continue;
        op->stopped = true;
        op->left = 0;
        if (op->end_ns > now)
            op->end_ns = now > queue_ns ? now : queue_ns;
    }
}

/* --- waiting ----------------------------------------------------------------------------------------------------- */

typedef bool (*IsDone)(const void *what);

/* Nothing will end by itself: a kernel that hangs, until its process is killed or the GPU is lost. */
static void sit_and_wait(void)
{
    cu_nap();
    if (sim_clock_speed(cu_process.image) > 0)
        cu_wait_a_bit(sim_clock_now(cu_process.image));
    for (uint32_t i = 0; i < cu_process.device_count; i++)
        if (cu_process.devices[i].retained && cu_activity_check(&cu_process.devices[i], cu_now()) != CUDA_SUCCESS)
            drop_ops(&cu_process.devices[i]);
}

static CUresult wait_until(IsDone is_done, const void *what, CuDevice *device)
{
    for (;;) {
        start_ops();
        if (is_done(what))
            break;
        heed_stops();
        const uint64_t next = find_next();
        if (next == SIM_FOREVER)
            sit_and_wait();
        else if (cu_wait_a_bit(next))
            run_to(next);
    }
    for (uint32_t i = 0; i < cu_process.device_count; i++)
        if (cu_process.devices[i].retained)
            cu_activity_rest(&cu_process.devices[i]);
    return cu_activity_check(device, cu_now());
}

static bool is_stream_empty(const void *stream)
{
    return ((const struct CUstream_st *)stream)->head == NULL;
}

static bool is_event_done(const void *event)
{
    const struct CUevent_st *at = event;

    return at->done == at->recorded;
}

static bool is_device_empty(const void *device)
{
    for (CUstream stream = streams; stream; stream = stream->next)
        if (stream->device == device && stream->head)
            return false;
    return true;
}

CUresult cu_queue_wait_stream(CUstream stream)
{
    return wait_until(is_stream_empty, stream, stream->device);
}

CUresult cu_queue_wait_event(CUevent event)
{
    return wait_until(is_event_done, event, event->device);
}

CUresult cu_queue_wait_device(CuDevice *device)
{
    return wait_until(is_device_empty, device, device);
}

void cu_queue_look(void)
{
    const bool runs = sim_clock_speed(cu_process.image) > 0;
    const uint64_t now = runs ? sim_clock_now(cu_process.image) : cu_now() + LOOK_NS;

    if (now > cu_now())
        cu_wait(now);
    for (;;) {
        start_ops();
        heed_stops();
        const uint64_t next = find_next();
        if (next > cu_now())
            break;
        run_to(next);
    }
    if (cu_now() > queue_ns)
        run_to(cu_now());
}

void cu_queue_clear(CuDevice *device)
{
    drop_ops(device);
    for (CUstream *at = &streams; *at;) {
        CUstream stream = *at;
        if (stream->device != device) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        if (stream == &own[device->ordinal])
            *stream = (struct CUstream_st){0};
        else
            free(stream);
    }
    for (CUevent *at = &events; *at;) {
        CUevent event = *at;
        if (event->device != device) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        free(event);
    }
}
