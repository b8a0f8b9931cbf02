/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event sets. A set is a cursor in the image's list of events and, per GPU and event type, the place in the list from
 * which it wants them: nothing is delivered into a set, each wait reads on. Past events keep their places, so cursors
 * of many processes stay valid while the future is planned anew.
 *
 * Sets live in a fixed table, so that any handle can be judged by its address. One lock guards all of them; it is never
 * held while waiting. A set that is freed under a waiter's feet goes when the last waiter has left.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "sim/core/seq.h"
#include "sim/nvml/getter.h"

enum {
    SETS_MAX = 1024,
    TYPE_BITS = 16,
    LOOK_AGAIN_MS = 50, /* longest sleep of a waiter: freeing a set wakes no one */
};

/* Of either kind. A system set tells when the driver takes or lets go of a GPU: plugged in or out, or the driver is
 * loaded or unloaded. */
struct nvmlEventSet_st {
    uint8_t used, closed, system;
    uint16_t waiters;
    SimImage *image; /* of its creation: after a new init with another image it is dead */
    uint32_t cursor; /* events before it were looked at */
    uint16_t mask[SIM_GPU_MAX];
    uint32_t from[SIM_GPU_MAX][TYPE_BITS];
    uint32_t bound; /* of a system set: GPUs that the driver holds, as far as the set was told */
    uint64_t seen_ns, system_mask;
};
typedef struct nvmlEventSet_st EventSet;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static EventSet sets[SETS_MAX];
static uint32_t next_set; /* places are reused late, so that dead handles are noticed */

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

unsigned int nvml_event_sets_open(void)
{
    unsigned int n = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < SETS_MAX; i++)
        n += sets[i].used && !sets[i].closed;
    pthread_mutex_unlock(&lock);
    return n;
}

/* The set behind a handle, NULL for anything else. The lock is held. */
static EventSet *find_set(SimImage *image, const void *handle, int system)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)sets;
    if (at >= sizeof sets || at % sizeof sets[0] != 0)
        return NULL;
    EventSet *s = &sets[at / sizeof sets[0]];
    return s->used && !s->closed && s->system == system && s->image == image ? s : NULL;
}

/* NULL when all are in use. */
static EventSet *create_set(SimImage *image, int system)
{
    EventSet *made = NULL;
    uint32_t cursor = sim_event_index_after(image, sim_clock_now(image));
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < SETS_MAX && !made; i++) {
        EventSet *s = &sets[(next_set + i) % SETS_MAX];
        if (s->used && (s->image == image || s->waiters))
            continue;
        memset(s, 0, sizeof *s);
        s->used = 1;
        s->system = (uint8_t)system;
        s->image = image;
        s->cursor = cursor;
        next_set = (uint32_t)(s - sets) + 1;
        made = s;
    }
    pthread_mutex_unlock(&lock);
    return made;
}

static nvmlReturn_t free_set(NvmlFn fn, SimImage *image, const void *handle, int system)
{
    pthread_mutex_lock(&lock);
    EventSet *s = find_set(image, handle, system);
    if (s) {
        s->closed = 1;
        s->used = s->waiters > 0;
    }
    pthread_mutex_unlock(&lock);
    if (!s)
        nvml_strict(fn, "not an event set, or freed before");
    return s ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* Ends a wait. The lock is held. */
static void leave_set(EventSet *s)
{
    if (--s->waiters == 0 && s->closed)
        s->used = 0;
}

/* ---- device event sets ---- */
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlEventSetCreate, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    EventSet *s = create_set(image, 0);
    if (s)
        *set = s;
    return s ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlEventSetFree, &image);
    return rc != NVML_SUCCESS ? rc : free_set(NVML_FN_nvmlEventSetFree, image, set, 0);
}

/* What the board can tell; newer types came with newer drivers. */
static unsigned long long supported_types(const SimBoard *board)
{
    unsigned long long types =
        nvmlEventTypePState | nvmlEventTypeXidCriticalError | nvmlEventTypeClock; /* 0x80 is for battery power only */
    if (board->has_ecc)
        types |= nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError;
    if (board->has_mig)
        types |= nvmlEventTypeMigConfigChange;
    if (nvml_library_generation < 590)
        return types;
    if (board->has_ecc)
        types |= nvmlEventTypeSingleBitEccErrorStorm | nvmlEventTypeNonFatalPoisonError | nvmlEventTypeFatalPoisonError;
    if (board->has_remap || board->has_retired_pages)
        types |= nvmlEventTypeDramRetirementEvent | nvmlEventTypeDramRetirementFailure;
    return types | nvmlEventTypeGpuUnavailableError | nvmlEventTypeGpuRecoveryAction;
}

NVML_GETTER(nvmlDeviceGetSupportedEventTypes, NVML_TAKES_GPU, unsigned long long, 1, supported_types(c.board))

/* Types registered before keep the place from which they count. */
static void want_types(EventSet *s, uint32_t gpu, unsigned int types, uint32_t from)
{
    for (uint32_t b = 0; b < TYPE_BITS; b++)
        if ((types & ~(unsigned)s->mask[gpu]) >> b & 1)
            s->from[gpu][b] = from;
    s->mask[gpu] = (uint16_t)(s->mask[gpu] | types);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long event_types, nvmlEventSet_t set)
{
    NvmlFn fn = NVML_FN_nvmlDeviceRegisterEvents;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    uint32_t from = sim_event_index_after(c.image, sim_clock_now(c.image));
    int known = !(event_types & ~supported_types(c.board));
    pthread_mutex_lock(&lock);
    EventSet *s = find_set(c.image, set, 0);
    if (s && known)
        want_types(s, c.gpu, (unsigned)event_types, from);
    pthread_mutex_unlock(&lock);
    if (!s) {
        nvml_strict(fn, "not an event set, or freed before");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int is_wanted(const EventSet *s, const SimEvent *ev, uint32_t index)
{
    if (ev->gpu < 0 || ev->gpu >= SIM_GPU_MAX || !nvml_handle_gpu((uint32_t)ev->gpu))
        return 0;
    for (uint32_t b = 0; b < TYPE_BITS; b++)
        if ((ev->type & s->mask[ev->gpu]) >> b & 1 && index >= s->from[ev->gpu][b])
            return 1;
    return 0;
}

/* Whether all GPUs that the set watches have fallen off the bus. One lost GPU does not end the wait for the others:
 * device plugins take each error of a wait for all of their devices, and public reports show the lost one alone marked.
 */
static int has_lost_all(SimImage *image, const EventSet *s)
{
    int watched = 0;
    for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
        if (s->mask[g] && !sim_state_now(image, g)->cond.lost)
            return 0;
        watched |= s->mask[g] != 0;
    }
    return watched;
}

/* The set's next event until now. TIMEOUT when there is none, GPU_IS_LOST when there can be none and the wait is at its
 * end; *ret_next_ns is then when to look again. */
static nvmlReturn_t take_event(SimImage *image, EventSet *s, int at_end, SimEvent *ret, uint64_t *ret_next_ns)
{
    nvmlReturn_t rc = NVML_ERROR_TIMEOUT;
    uint64_t now_ns = sim_clock_now(image);
    pthread_mutex_lock(&lock);
    while (rc == NVML_ERROR_TIMEOUT) {
        uint32_t next = sim_event_next(image, s->cursor, now_ns, ret, ret_next_ns);
        if (next == 0)
            break;
        s->cursor = next;
        if (is_wanted(s, ret, next - 1))
            rc = NVML_SUCCESS;
    }
    if (rc == NVML_ERROR_TIMEOUT && at_end && has_lost_all(image, s))
        rc = NVML_ERROR_GPU_IS_LOST;
    if (s->closed)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_unlock(&lock);
    return rc;
}

static nvmlReturn_t wait_for(NvmlFn fn, nvmlEventSet_t handle, int have_out, unsigned int timeout_ms, SimEvent *ret)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(fn, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    pthread_mutex_lock(&lock);
    EventSet *s = find_set(image, handle, 0);
    if (s)
        s->waiters++;
    pthread_mutex_unlock(&lock);
    if (!s)
        nvml_strict(fn, "not an event set, or freed before");
    rc = s && have_out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    int64_t end = real_ms() + timeout_ms;
    while (rc == NVML_SUCCESS) {
        uint64_t next_ns = SIM_FOREVER;
        int64_t left = end - real_ms();
        rc = take_event(image, s, left <= 0, ret, &next_ns);
        if (rc != NVML_ERROR_TIMEOUT || left <= 0)
            break;
        sim_clock_wait(image, next_ns, left < LOOK_AGAIN_MS ? (int)left : LOOK_AGAIN_MS);
        rc = NVML_SUCCESS;
    }
    if (s) {
        pthread_mutex_lock(&lock);
        leave_set(s);
        pthread_mutex_unlock(&lock);
    }
    return rc;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeout_ms)
{
    SimEvent ev;
    nvmlReturn_t rc = wait_for(NVML_FN_nvmlEventSetWait, set, data != NULL, timeout_ms, &ev);
    if (rc == NVML_SUCCESS && data)
        *data = (nvmlEventData_v1_t){
            .device = nvml_handle_gpu((uint32_t)ev.gpu), .eventType = ev.type, .eventData = ev.data};
    return rc;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    SimEvent ev;
    nvmlReturn_t rc = wait_for(NVML_FN_nvmlEventSetWait_v2, set, data != NULL, timeout_ms, &ev);
    if (rc == NVML_SUCCESS && data)
        *data = (nvmlEventData_t){
            .device = nvml_handle_gpu((uint32_t)ev.gpu),
            .eventType = ev.type,
            .eventData = ev.data,
            .gpuInstanceId = (unsigned)ev.gi, /* SIM_NONE is what NVML says for "no instance" */
            .computeInstanceId = (unsigned)ev.ci,
        };
    return rc;
}

/* ---- system event sets ---- */
/* Whether the driver holds a GPU at t_ns: it is there, and the driver is loaded. Inside a sequence of reading. */
static int bound_at(const SimImage *image, uint32_t gpu, uint64_t t_ns)
{
    const SimSeg *seg = image->segs + (size_t)gpu * SIM_SEG_MAX;
    uint32_t segs = seq_get(image->seg_count[gpu]), nodes = seq_get(image->node_seg_count), i = 0, k = 0;
    while (i + 1 < segs && i + 1 < SIM_SEG_MAX && seq_get(seg[i + 1].t_ns) <= t_ns)
        i++;
    while (k + 1 < nodes && k + 1 < SIM_NODE_SEG_MAX && seq_get(image->node_segs[k + 1].t_ns) <= t_ns)
        k++;
    return seq_get(seg[i].cond.present) && seq_get(image->node_segs[k].key[SIM_NODE_DRIVER]) != SIM_DRIVER_UNLOADED;
}

static uint32_t bound_gpus(SimImage *image, uint64_t t_ns)
{
    uint32_t seq, bits;
    do {
        seq = seq_begin(image);
        bits = 0;
        for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++)
            bits |= (uint32_t)bound_at(image, g, t_ns) << g;
    } while (seq_retry(image, seq));
    return bits;
}

/* The first time after t_ns at which the node or a GPU changed, SIM_FOREVER when that is none until now. */
static uint64_t change_after(SimImage *image, uint64_t t_ns, uint64_t now_ns)
{
    uint32_t seq;
    uint64_t first;
    do {
        seq = seq_begin(image);
        first = SIM_FOREVER;
        for (uint32_t g = 0; g < image->gpu_count && g < SIM_GPU_MAX; g++) {
            const SimSeg *seg = image->segs + (size_t)g * SIM_SEG_MAX;
            uint32_t n = seq_get(image->seg_count[g]), i = 0;
            while (i < n && i < SIM_SEG_MAX && seq_get(seg[i].t_ns) <= t_ns)
                i++;
            if (i < n && i < SIM_SEG_MAX && seq_get(seg[i].t_ns) < first)
                first = seq_get(seg[i].t_ns);
        }
        uint32_t n = seq_get(image->node_seg_count);
        for (uint32_t i = 0; i < n && i < SIM_NODE_SEG_MAX; i++) {
            uint64_t t = seq_get(image->node_segs[i].t_ns);
            if (t > t_ns && t < first)
                first = t;
        }
    } while (seq_retry(image, seq));
    return first <= now_ns ? first : SIM_FOREVER;
}

/* Writes the differences between the set's GPUs and `bound` as events, at most `room`; 0 if there are more. */
static int fill_events(const SimImage *image, EventSet *s, uint32_t bound, nvmlSystemEventData_v1_t *out,
                       unsigned int room, unsigned int *n)
{
    for (uint32_t news = s->bound ^ bound; news; news &= news - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(news);
        uint64_t type = bound >> gpu & 1 ? nvmlSystemEventTypeGpuDriverBind : nvmlSystemEventTypeGpuDriverUnbind;
        if (type & s->system_mask) {
            if (*n == room)
                return 0;
            const SimGpuId *id = &image->gpus[gpu];
            out[(*n)++] = (nvmlSystemEventData_v1_t){.eventType = type, .gpuId = id->bus << 8 | id->device};
        }
        s->bound ^= 1u << gpu;
    }
    return 1;
}

/* Fills up to `room` events. The lock is held. */
static unsigned int system_take(SimImage *image, EventSet *s, nvmlSystemEventData_v1_t *out, unsigned int room)
{
    uint64_t now_ns = sim_clock_now(image);
    unsigned int n = 0;
    while (fill_events(image, s, bound_gpus(image, s->seen_ns), out, room, &n)) {
        uint64_t next = change_after(image, s->seen_ns, now_ns);
        if (next == SIM_FOREVER)
            break;
        s->seen_ns = next;
    }
    return n;
}

/* Enters a function with a request, which begins with its version. */
static nvmlReturn_t enter_request(NvmlFn fn, const unsigned int *version, unsigned int tag, SimImage **ret)
{
    const nvmlReturn_t rc = nvml_enter(fn, ret);
    if (rc != NVML_SUCCESS)
        return rc;
    return version ? nvml_check_tag(fn, *version, tag) : NVML_ERROR_INVALID_ARGUMENT;
}
#define ENTER_REQUEST(fn, request, tag, ret) enter_request(fn, (request) ? &(request)->version : NULL, tag, ret)

nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_t *request)
{
    SimImage *image;
    nvmlReturn_t rc =
        ENTER_REQUEST(NVML_FN_nvmlSystemEventSetCreate, request, nvmlSystemEventSetCreateRequest_v1, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    EventSet *s = create_set(image, 1);
    if (s)
        request->set = (nvmlSystemEventSet_t)s;
    return s ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_t *request)
{
    const NvmlFn fn = NVML_FN_nvmlSystemEventSetFree;
    SimImage *image;
    nvmlReturn_t rc = ENTER_REQUEST(fn, request, nvmlSystemEventSetFreeRequest_v1, &image);
    return rc != NVML_SUCCESS ? rc : free_set(fn, image, request->set, 1);
}

nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request)
{
    SimImage *image;
    nvmlReturn_t rc =
        ENTER_REQUEST(NVML_FN_nvmlSystemRegisterEvents, request, nvmlSystemRegisterEventRequest_v1, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    const unsigned long long known = nvmlSystemEventTypeGpuDriverUnbind | nvmlSystemEventTypeGpuDriverBind;
    uint64_t now_ns = sim_clock_now(image);
    uint32_t bound = bound_gpus(image, now_ns);
    pthread_mutex_lock(&lock);
    EventSet *s = find_set(image, request->set, 1);
    if (s && !(request->eventTypes & ~known)) {
        if (s->system_mask == 0) {
            s->seen_ns = now_ns;
            s->bound = bound;
        }
        s->system_mask |= request->eventTypes;
    }
    pthread_mutex_unlock(&lock);
    if (!s)
        return NVML_ERROR_INVALID_ARGUMENT;
    return request->eventTypes & ~known ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* `dataSize` is the room in `data`, in events. */
nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request)
{
    SimImage *image;
    nvmlReturn_t rc = ENTER_REQUEST(NVML_FN_nvmlSystemEventSetWait, request, nvmlSystemEventSetWaitRequest_v1, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!request->data || request->dataSize == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    int64_t end = real_ms() + request->timeoutms;
    pthread_mutex_lock(&lock);
    EventSet *s = find_set(image, request->set, 1);
    rc = s ? NVML_ERROR_TIMEOUT : NVML_ERROR_INVALID_ARGUMENT;
    if (s)
        s->waiters++;
    while (rc == NVML_ERROR_TIMEOUT) {
        request->numEvent = s->system_mask ? system_take(image, s, request->data, request->dataSize) : 0;
        if (request->numEvent > 0)
            rc = NVML_SUCCESS;
        else if (s->closed)
            rc = NVML_ERROR_INVALID_ARGUMENT;
        int64_t left = end - real_ms();
        if (rc != NVML_ERROR_TIMEOUT || left <= 0)
            break;
        pthread_mutex_unlock(&lock);
        sim_clock_wait(image, SIM_FOREVER, left < LOOK_AGAIN_MS ? (int)left : LOOK_AGAIN_MS);
        pthread_mutex_lock(&lock);
    }
    if (s)
        leave_set(s);
    pthread_mutex_unlock(&lock);
    return rc;
}
