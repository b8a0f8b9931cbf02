/* SPDX-License-Identifier: Apache-2.0 */
/* Profiling metrics, by GPM or by libdcgm. Times of GPM are the kernel's, as the driver's are; delays of the engine are
 * of the agent's clock. A gap of more than ten minutes between two GPM samples starts anew. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "source/nvml/readers.h"

#define AGAIN_NS NS_PER_MIN /* a watch that failed is restarted after this time */
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
    Absence why;          /* where there is no watch though the engine is up */
    uint64_t again_ns;    /* when to restart; 0: at once without a watch, never with one */
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

static void announce_call(void *self, const char *function)
{
    static const NvmlTarget nobody = {.index = UINT32_MAX};
    NvmlCounters *counters = self;
    const Call *call = calls;

    while (strcmp(call->text, function) != 0)
        call++;
    nvml_call_announce(&counters->reader->library, &nobody, call->function, call->limit_ms);
}

static void end_call(void *self)
{
    nvml_call_finish(&((NvmlCounters *)self)->reader->library);
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
static void close_engine(NvmlCounters *counters, Absence why, uint64_t delay_ns)
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

static void close_after_failure(NvmlCounters *counters, Absence why)
{
    counters->delay_ns = counters->delay_ns ? 2 * counters->delay_ns : OPEN_DELAY_MIN_NS;
    if (counters->delay_ns > OPEN_DELAY_MAX_NS)
        counters->delay_ns = OPEN_DELAY_MAX_NS;
    close_engine(counters, why, counters->delay_ns);
}

void nvml_counters_close(NvmlCounters *counters)
{
    if (counters)
        close_engine(counters, ABSENCE_NOT_YET, 0);
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

/* Stops measuring. NULL is fine. */
static void free_counter(NvmlCounter *counter)
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

/* A GPU of another sampler is one that hung, and so is one without a sampler, unless it was removed. */
static bool all_are_ours(const NvmlCounters *counters, bool *ret_all_read)
{
    Board *board = counters->reader->board;
    const uint32_t count = atomic_load_explicit(&board->gpu_count, memory_order_acquire);

    *ret_all_read = true;
    for (uint32_t i = 0; i < count && i < NODE_GPUS_MAX; i++) {
        const uint16_t slot = atomic_load_explicit(&board->gpus[i].slot, memory_order_acquire);
        const uint32_t outcome = atomic_load_explicit(&board->gpus[i].outcome, memory_order_acquire);
        if (slot != counters->reader->library.slot && (slot != BOARD_NO_SLOT || outcome != BOARD_NOT_FOUND))
            return false;
        *ret_all_read &= outcome != BOARD_NOT_TRIED;
    }
    return true;
}

/* ABSENCE_END: nothing forbids an engine; *ret_ready: whether one may be opened now. */
static Absence find_obstacle(const NvmlCounters *counters, bool *ret_ready)
{
    *ret_ready = true;
    if (board_kernel_now() < counters->after_ns)
        return ABSENCE_TIMED_OUT;
    if (!counters->place->address[0] && !all_are_ours(counters, ret_ready))
        return ABSENCE_NO_DATA;
    return ABSENCE_END;
}

/* ---- a step ---- */

static void open_engine(NvmlCounters *counters)
{
    const DcgmHooks hooks = {.before = announce_call, .after = end_call, .self = counters};
    const int rc = dcgm_open(counters->place, &hooks, &counters->dcgm, NULL);

    if (rc < 0)
        close_after_failure(counters, dcgm_absence(rc));
}

/* The metrics with a DCGM number, as many as one watch takes. */
static size_t pick_metrics(const NvmlGpmList *list, MetricId metrics[DCGM_FIELDS_MAX])
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

static void start_counter(NvmlCounter *counter)
{
    NvmlCounters *counters = counter->counters;
    const NvmlPlan *plan = &counters->reader->plan;
    MetricId metrics[DCGM_FIELDS_MAX];

    dcgm_watch_free(TAKE(counter->watch));
    const int rc = dcgm_watch_new(counters->dcgm, &counter->target, metrics, pick_metrics(counter->list, metrics),
                                  nvml_plan_period(plan, METRIC_PACE_NORMAL), &counter->watch, NULL);
    counter->plan_number = plan->number;
    counter->why = rc < 0 ? dcgm_absence(rc) : ABSENCE_NOT_YET;
    counter->again_ns = rc == 0 ? 0 : now_of(counters) + AGAIN_NS;
}

void nvml_counters_step(NvmlCounters *counters)
{
    bool wanted, ready;
    Absence why;

    if (!counters)
        return;
    why = find_obstacle(counters, &ready);
    wanted = counters->list && counters->reader->plan.gpm_gpu.count > 0;
    if (counters->dcgm && dcgm_lost(counters->dcgm))
        close_after_failure(counters, ABSENCE_FAILED);
    else if (why != ABSENCE_END || (counters->dcgm && !wanted))
        close_engine(counters, why == ABSENCE_END ? ABSENCE_NOT_YET : why, 0);
    else if (!counters->dcgm && wanted && ready && now_of(counters) >= counters->open_ns)
        open_engine(counters);
    else if (counters->dcgm)
        for (NvmlCounter *counter = counters->list; counter; counter = counter->next)
            if (is_due(counter, now_of(counters))) {
                start_counter(counter);
                return;
            }
}

/* ---- reading ---- */

/* Nothing at all, or held by another: that stays so in an engine until the watch is a new one. */
static bool is_barren(const Sample *samples, size_t count, size_t there)
{
    for (size_t i = 0; i < count; i++)
        if (!samples[i].valid && samples[i].absence == ABSENCE_IN_USE)
            return true;
    return there == 0;
}

static void read_counter(NvmlCounter *counter, Reading *reading)
{
    NvmlCounters *counters = counter->counters;
    const DcgmNow now = {.time_ns = now_of(counters), .wall_us = (int64_t)(clock_read(CLOCK_REALTIME) / NS_PER_US)};
    MetricId metrics[DCGM_FIELDS_MAX];
    Sample samples[DCGM_FIELDS_MAX];
    const size_t count = pick_metrics(counter->list, metrics), there = dcgm_read(counter->watch, now, samples);

    for (size_t i = 0; i < count; i++)
        reading->sample[metrics[i]] = samples[i];
    if (there > 0)
        counters->delay_ns = 0;
    if (!is_barren(samples, count, there))
        counter->again_ns = 0;
    else if (counter->again_ns == 0)
        counter->again_ns = now.time_ns + AGAIN_NS;
}

/* Sets the metrics of `list` in a reading of the GPU's own or of one of its MIG devices; `gpm` is that one's. */
static void read_counters(NvmlGpu *gpu, const NvmlGpmList *list, NvmlGpm *gpm, Reading *reading)
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
        read_counter(gpm->counter, reading);
}

enum { GPM_NO = 1, GPM_YES = 2 };

#define GAP_MIN_NS (100 * NS_PER_MS)
#define GAP_MAX_NS (10 * NS_PER_MIN)
#define GOOD_MAX_NS (3 * NS_PER_S) /* a pair that the driver refuses leaves the values before it for so long */

/* What one pair of buffers is read for. */
typedef struct Subject {
    const NvmlGpmList *list;
    NvmlGpm *gpm;
    Reading *reading;
} Subject;

/* Reads once whether the GPU has GPM and puts it on the board. */
static void find_gpm_support(NvmlGpu *gpu)
{
    nvmlGpmSupport_t support = {.version = NVML_GPM_SUPPORT_VERSION};
    const nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlGpmQueryDeviceSupport, (gpu->handle, &support));

    if (gpu->target.trouble)
        return;
    gpu->gpm_support = r == NVML_SUCCESS && support.isSupportedDevice ? GPM_YES : GPM_NO;
    atomic_store_explicit(&gpu->row->gpm, gpu->gpm_support, memory_order_relaxed);
}

void nvml_gpm_free(NvmlGpu *gpu, NvmlGpm *gpm)
{
    free_counter(gpm->counter);
    if (gpm->allocated)
        for (int i = 0; i < 2; i++)
            NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlGpmSampleFree, (gpm->sample[i]));
    *gpm = (NvmlGpm){.instance = gpm->instance};
}

static nvmlReturn_t allocate_samples(NvmlGpu *gpu, NvmlGpm *gpm)
{
    nvmlReturn_t r = NVML_GPU_CALL(gpu, nvmlGpmSampleAlloc, (&gpm->sample[0]));

    if (r != NVML_SUCCESS)
        return r;
    r = NVML_GPU_CALL(gpu, nvmlGpmSampleAlloc, (&gpm->sample[1]));
    if (r == NVML_SUCCESS)
        gpm->allocated = true;
    else
        NVML_LET_GO(&gpu->reader->library, &gpu->target, nvmlGpmSampleFree, (gpm->sample[0]));
    return r;
}

static nvmlReturn_t take_sample(NvmlGpu *gpu, const NvmlGpm *gpm, nvmlGpmSample_t sample)
{
    if (gpm->instance == DEVICE_NO_NUMBER)
        return NVML_GPU_CALL(gpu, nvmlGpmSampleGet, (gpu->handle, sample));
    return NVML_GPU_CALL(gpu, nvmlGpmMigSampleGet, (gpu->handle, gpm->instance, sample));
}

static void lose_metrics(NvmlGpu *gpu, const Subject *subject, Absence why)
{
    for (uint16_t i = 0; i < subject->list->count; i++)
        sample_set_absent(&subject->reading->sample[subject->list->metrics[i]], nvml_gpu_now(gpu), why);
}

static void set_all(NvmlGpu *gpu, const Subject *subject)
{
    const nvmlGpmMetricsGet_t *got = &gpu->reader->gpm;
    const uint64_t now = nvml_gpu_now(gpu);

    for (uint16_t i = 0; i < subject->list->count; i++) {
        const MetricId id = subject->list->metrics[i];
        const nvmlGpmMetric_t *metric = &got->metrics[i];
        Sample *sample = &subject->reading->sample[id];
        if (metric->nvmlReturn == NVML_SUCCESS)
            nvml_sample_set_gpm(metric_get(id), metric->value, now, sample);
        else
            sample_set_absent(sample, now, nvml_answer_absence(metric->nvmlReturn));
    }
}

/* Metrics of the time between the older sample and the newer one, which is the newer of the next pair. */
static void compute_metrics(NvmlGpu *gpu, const Subject *subject, uint64_t newer_ns)
{
    nvmlGpmMetricsGet_t *get = &gpu->reader->gpm;
    NvmlGpm *gpm = subject->gpm;
    nvmlReturn_t answer;

    get->version = NVML_GPM_METRICS_GET_VERSION;
    get->numMetrics = subject->list->count;
    get->sample1 = gpm->sample[gpm->older];
    get->sample2 = gpm->sample[!gpm->older];
    for (uint16_t i = 0; i < subject->list->count; i++)
        get->metrics[i] = (nvmlGpmMetric_t){.metricId = metric_get(subject->list->metrics[i])->source.id};
    answer = NVML_GPU_CALL(gpu, nvmlGpmMetricsGet, (get));
    if (answer == NVML_SUCCESS) {
        set_all(gpu, subject);
        gpm->good_ns = newer_ns;
        gpm->older = !gpm->older;
        gpm->older_ns = newer_ns;
        return;
    }
    /* no pair: the driver's time stood still between them. The older one stays for the next try. */
    if (newer_ns - gpm->good_ns > GOOD_MAX_NS)
        lose_metrics(gpu, subject, nvml_gpu_count_answer(gpu, answer));
}

static void read_subject(NvmlGpu *gpu, const Subject *subject)
{
    NvmlGpm *gpm = subject->gpm;
    const uint64_t now = board_kernel_now();
    nvmlReturn_t answer = NVML_SUCCESS;

    if (subject->list->count == 0 || gpu->target.trouble)
        return;
    if (gpm->seeded && now - gpm->older_ns > GAP_MAX_NS)
        gpm->seeded = false;
    if (gpm->seeded && now - gpm->older_ns < GAP_MIN_NS)
        return;
    if (!gpm->allocated)
        answer = allocate_samples(gpu, gpm);
    if (answer == NVML_SUCCESS)
        answer = take_sample(gpu, gpm, gpm->sample[gpm->seeded ? !gpm->older : gpm->older]);
    if (answer != NVML_SUCCESS) {
        gpm->seeded = false;
        lose_metrics(gpu, subject, nvml_gpu_count_answer(gpu, answer));
        return;
    }
    /* A sample lies between these two instants: taken this late as the older one and this early as the newer, a pair is
     * never closer than it seems. */
    const uint64_t taken = board_kernel_now();
    if (gpm->seeded) {
        compute_metrics(gpu, subject, taken);
        return;
    }
    gpm->seeded = true;
    gpm->older_ns = gpm->good_ns = taken;
    lose_metrics(gpu, subject, ABSENCE_NO_DATA);
}

/* Of a GPU without GPM. */
static void read_otherwise(NvmlGpu *gpu, const Subject *subject)
{
    if (!gpu->reader->counters)
        lose_metrics(gpu, subject, ABSENCE_NOT_SUPPORTED);
    else if (!gpu->target.trouble)
        read_counters(gpu, subject->list, subject->gpm, subject->reading);
}

static void copy_to_siblings(NvmlGpu *gpu, uint32_t head, const NvmlGpmList *list)
{
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];

    for (uint32_t i = head + 1; i < gpu->mig.count && !pool[i].reading.instance_head; i++)
        for (uint16_t k = 0; k < list->count; k++)
            pool[i].reading.sample[list->metrics[k]] = pool[head].reading.sample[list->metrics[k]];
}

void nvml_gpm_read(NvmlGpu *gpu)
{
    const NvmlPlan *plan = &gpu->reader->plan;
    NvmlInstance *pool = gpu->mig.pool[gpu->mig.now];
    Subject whole = {.list = &plan->gpm_gpu, .gpm = &gpu->gpm, .reading = &gpu->reading};

    if (whole.list->count == 0)
        return;
    if (gpu->gpm_support == 0)
        find_gpm_support(gpu);
    if (gpu->gpm_support == GPM_YES)
        read_subject(gpu, &whole);
    else
        read_otherwise(gpu, &whole);
    for (uint32_t i = 0; i < gpu->mig.count; i++) {
        Subject one = {.list = &plan->gpm_instance, .gpm = &pool[i].gpm, .reading = &pool[i].reading};
        if (gpu->gpm_support != GPM_YES) {
            read_otherwise(gpu, &one); /* libdcgm reads compute instances apart */
        } else if (pool[i].reading.instance_head) {
            read_subject(gpu, &one);
            copy_to_siblings(gpu, i, one.list);
        }
    }
}
