/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's life, and what is measured of whom. Delays are of the agent's clock. */

#include "source/nvml/counters.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/owner.h"

#define AGAIN_NS NS_PER_MIN /* what is not to be had is started anew after so long */
#define OPEN_DELAY_MIN_NS (10 * NS_PER_S)
#define OPEN_DELAY_MAX_NS (10 * NS_PER_MIN)

/* Deadlines. With the longest of them, and a new sampler after it, other values are not too old yet. */
enum { LONG_LIMIT_MS = 2500, SHORT_LIMIT_MS = 1000 };

/* Of a GPU or a MIG device. */
struct NvmlCounter {
    NvmlCounter *next;
    NvmlCounters *counters;
    const NvmlGpmList *list;
    DcgmTarget target;
    DcgmWatch *watch;     /* NULL: none */
    uint32_t plan_number; /* of the plan that it follows */
    Absence why;          /* where there is none though the engine is up */
    uint64_t again_ns;    /* when it is started anew; 0: without a watch at once, with one not at all */
};

struct NvmlCounters {
    NvmlReader *reader;
    const DcgmPlace *place;
    uint64_t after_ns;
    NvmlCounter *list;
    Dcgm *dcgm;  /* NULL: closed */
    Absence why; /* why it is */
    uint64_t open_ns, delay_ns;
};

typedef struct Call {
    const char *text;
    NvmlFunction function;
    uint32_t limit_ms;
} Call;

#define LIMIT_ALWAYS SHORT_LIMIT_MS
#define LIMIT_NEVER SHORT_LIMIT_MS
#define LIMIT_EMBEDDED LONG_LIMIT_MS
#define LIMIT_REMOTE LONG_LIMIT_MS

static const Call calls[] = {
    {"dlopen", NVML_CALLED_DCGM_dlopen, LONG_LIMIT_MS},
    {"dlclose", NVML_CALLED_DCGM_dlclose, LONG_LIMIT_MS},
    {"dcgmInit", NVML_CALLED_dcgmInit, LONG_LIMIT_MS},
    {"dcgmShutdown", NVML_CALLED_dcgmShutdown, LONG_LIMIT_MS},
    {"dcgmWatchFields", NVML_CALLED_dcgmWatchFields, LONG_LIMIT_MS},
#define FN(name, need, arguments) {#name, NVML_CALLED_##name, LIMIT_##need},
#include "source/dcgm/functions.def"
#undef FN
};

/* ---- announcements ---- */

static void before(void *self, const char *function)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};
    NvmlCounters *counters = self;
    const Call *call = calls;

    while (strcmp(call->text, function) != 0)
        call++;
    nvml_call_announce(&counters->reader->library, &nobody, call->function, call->limit_ms);
}

static void after(void *self)
{
    nvml_call_over(&((NvmlCounters *)self)->reader->library);
}

/* ---- life ---- */

static uint64_t now_of(const NvmlCounters *counters)
{
    return board_now(counters->reader->board);
}

NvmlCounters *nvml_counters_new(NvmlReader *reader, const DcgmPlace *place, uint64_t after_ns)
{
    NvmlCounters *counters = xcalloc(1, sizeof *counters);

    *counters = (NvmlCounters){.reader = reader, .place = place, .after_ns = after_ns, .why = ABSENCE_NOT_YET};
    return counters;
}

/* Closed because of `why`, not to be opened for `delay_ns`. */
static void end(NvmlCounters *counters, Absence why, uint64_t delay_ns)
{
    counters->why = why;
    counters->open_ns = now_of(counters) + delay_ns;
    for (NvmlCounter *counter = counters->list; counter; counter = counter->next) {
        counter->watch = NULL; /* which ends with the engine */
        counter->again_ns = 0;
        counter->why = ABSENCE_NOT_YET;
    }
    dcgm_close(TAKE(counters->dcgm));
}

static void fail(NvmlCounters *counters, Absence why)
{
    counters->delay_ns = counters->delay_ns ? 2 * counters->delay_ns : OPEN_DELAY_MIN_NS;
    if (counters->delay_ns > OPEN_DELAY_MAX_NS)
        counters->delay_ns = OPEN_DELAY_MAX_NS;
    end(counters, why, counters->delay_ns);
}

void nvml_counters_close(NvmlCounters *counters)
{
    if (counters)
        end(counters, ABSENCE_NOT_YET, 0);
}

void nvml_counters_free(NvmlCounters *counters)
{
    nvml_counters_close(counters);
    free(counters);
}

static NvmlCounter *counter_new(NvmlGpu *gpu, const NvmlGpmList *list, const Reading *reading)
{
    NvmlCounters *counters = gpu->reader->counters;
    NvmlCounter *counter = xcalloc(1, sizeof *counter);

    *counter = (NvmlCounter){
        .next = counters->list,
        .counters = counters,
        .list = list,
        .target = {.gpu = gpu->row->pci,
                   .gpu_instance = reading->device.gpu_instance,
                   .compute_instance = reading->device.compute_instance},
        .why = ABSENCE_NOT_YET,
    };
    counters->list = counter;
    return counter;
}

void nvml_counter_free(NvmlCounter *counter)
{
    NvmlCounter **at;

    if (!counter)
        return;
    dcgm_watch_free(counter->watch);
    for (at = &counter->counters->list; *at != counter;)
        at = &(*at)->next;
    *at = counter->next;
    free(counter);
}

/* ---- may there be an engine ---- */

/* Another's GPU is one that hung, and so is nobody's, but for one that is no longer there. */
static bool all_are_ours(const NvmlCounters *counters, bool *ret_all_read)
{
    Board *board = counters->reader->board;
    const uint32_t count = atomic_load_explicit(&board->gpu_count, memory_order_acquire);

    *ret_all_read = true;
    for (uint32_t i = 0; i < count && i < NODE_GPUS_MAX; i++) {
        const uint16_t owner = atomic_load_explicit(&board->gpus[i].owner, memory_order_acquire);
        const uint32_t outcome = atomic_load_explicit(&board->gpus[i].outcome, memory_order_acquire);
        if (owner != counters->reader->library.slot && (owner != BOARD_NOBODY || outcome != BOARD_NOT_FOUND))
            return false;
        *ret_all_read &= outcome != BOARD_NOT_TRIED;
    }
    return true;
}

/* ABSENCE_END: it may; *ret_ready tells whether one may be opened just now. */
static Absence forbidden(const NvmlCounters *counters, bool *ret_ready)
{
    *ret_ready = true;
    if (board_kernel_now() < counters->after_ns)
        return ABSENCE_TIMED_OUT;
    if (!counters->place->address[0] && !all_are_ours(counters, ret_ready))
        return ABSENCE_NO_DATA;
    return ABSENCE_END;
}

/* ---- a turn ---- */

static void open_engine(NvmlCounters *counters)
{
    const DcgmHooks hooks = {.before = before, .after = after, .self = counters};
    const int rc = dcgm_open(counters->place, &hooks, &counters->dcgm, NULL);

    if (rc < 0)
        fail(counters, dcgm_absence(rc));
}

/* Those that have a number in DCGM, as many as one watch takes. */
static size_t pick(const NvmlGpmList *list, MetricId metrics[DCGM_FIELDS_MAX])
{
    size_t count = 0;

    for (uint16_t i = 0; i < list->count && count < DCGM_FIELDS_MAX; i++)
        if (metric_get(list->metrics[i])->dcgm_id)
            metrics[count++] = list->metrics[i];
    return count;
}

static bool is_due(const NvmlCounter *counter, uint64_t now)
{
    if (!counter->watch)
        return now >= counter->again_ns;
    return counter->plan_number != counter->counters->reader->plan.number ||
           (counter->again_ns && now >= counter->again_ns);
}

static void start(NvmlCounter *counter)
{
    NvmlCounters *counters = counter->counters;
    const NvmlPlan *plan = &counters->reader->plan;
    MetricId metrics[DCGM_FIELDS_MAX];
    int rc;

    if (counter->watch && counter->plan_number == plan->number) {
        rc = dcgm_watch_again(counter->watch, NULL);
    } else {
        dcgm_watch_free(TAKE(counter->watch));
        rc = dcgm_watch_new(counters->dcgm, &counter->target, metrics, pick(counter->list, metrics),
                            nvml_plan_period(plan, METRIC_PACE_NORMAL), &counter->watch, NULL);
    }
    counter->plan_number = plan->number;
    counter->why = rc < 0 ? dcgm_absence(rc) : ABSENCE_NOT_YET;
    counter->again_ns = rc == 0 ? 0 : now_of(counters) + AGAIN_NS;
}

void nvml_counters_turn(NvmlCounters *counters)
{
    bool wanted, ready;
    Absence why;

    if (!counters)
        return;
    why = forbidden(counters, &ready);
    wanted = counters->list && counters->reader->plan.gpm_gpu.count > 0;
    if (counters->dcgm && dcgm_lost(counters->dcgm))
        fail(counters, ABSENCE_FAILED);
    else if (why != ABSENCE_END || (counters->dcgm && !wanted))
        end(counters, why == ABSENCE_END ? ABSENCE_NOT_YET : why, 0);
    else if (!counters->dcgm && wanted && ready && now_of(counters) >= counters->open_ns)
        open_engine(counters);
    else if (counters->dcgm)
        for (NvmlCounter *counter = counters->list; counter; counter = counter->next)
            if (is_due(counter, now_of(counters))) {
                start(counter);
                return;
            }
}

/* ---- reading ---- */

static uint64_t wall_us(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Nothing at all, or held by another: that stays so in an engine until the watch is a new one. */
static bool is_barren(const Sample *samples, size_t count, size_t there)
{
    for (size_t i = 0; i < count; i++)
        if (!samples[i].valid && samples[i].absence == ABSENCE_IN_USE)
            return true;
    return there == 0;
}

static void take(NvmlCounter *counter, Reading *reading)
{
    NvmlCounters *counters = counter->counters;
    const DcgmNow now = {.time_ns = now_of(counters), .wall_us = (int64_t)wall_us()};
    MetricId metrics[DCGM_FIELDS_MAX];
    Sample samples[DCGM_FIELDS_MAX];
    const size_t count = pick(counter->list, metrics), there = dcgm_read(counter->watch, now, samples);

    for (size_t i = 0; i < count; i++)
        reading->sample[metrics[i]] = samples[i];
    if (there > 0)
        counters->delay_ns = 0;
    if (!is_barren(samples, count, there))
        counter->again_ns = 0;
    else if (counter->again_ns == 0)
        counter->again_ns = now.time_ns + AGAIN_NS;
}

void nvml_counters_read(NvmlGpu *gpu, const NvmlGpmList *list, NvmlGpm *gpm, Reading *reading)
{
    NvmlCounters *counters = gpu->reader->counters;
    const uint64_t now = nvml_gpu_now(gpu);
    const NvmlCounter *counter;
    Absence why;

    if (!gpm->counter)
        gpm->counter = counter_new(gpu, list, reading);
    counter = gpm->counter;
    why = counters->dcgm ? counter->why : counters->why;
    for (uint16_t i = 0; i < list->count; i++)
        sample_set_absent(&reading->sample[list->metrics[i]], now,
                          metric_get(list->metrics[i])->dcgm_id ? why : ABSENCE_NOT_SUPPORTED);
    if (counter->watch && counter->plan_number == gpu->reader->plan.number)
        take(gpm->counter, reading);
}
