/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU performance monitoring. A sample holds the integrals of all activity at one instant; a metric is the difference
 * of two samples over the time between them, or a counter of the second one. The list of metrics is gpm.def.
 *
 * Samples live in a fixed table, so that any handle can be judged by its address. A sample is its owner's: the library
 * guards the table, not two threads that use one sample.
 */
#include <pthread.h>
#include <string.h>

#include "sim/nvml/process.h"

enum { SAMPLES_MAX = 4096 };
#define MIB 1048576.0

struct nvmlGpmSample_st {
    uint8_t used, filled;
    SimImage *image;
    uint32_t gpu, links_up;
    int32_t gi_id; /* SIM_NONE: the whole GPU */
    int32_t gi_profile;
    uint64_t t_ns, up_bits; /* up_bits: NVLinks that are up */
    double cum[SIM_CH_COUNT];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `used` and `next` */
static struct nvmlGpmSample_st samples[SAMPLES_MAX];
static uint32_t next;

/* ---- samples ---- */
static struct nvmlGpmSample_st *sample_of(nvmlGpmSample_t handle)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)samples;
    if (at >= sizeof samples || at % sizeof samples[0] != 0)
        return NULL;
    struct nvmlGpmSample_st *s = &samples[at / sizeof samples[0]];
    pthread_mutex_lock(&lock);
    int used = s->used;
    pthread_mutex_unlock(&lock);
    return used ? s : NULL;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlGpmSampleAlloc, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = NVML_ERROR_MEMORY;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < SAMPLES_MAX && rc != NVML_SUCCESS; i++) {
        struct nvmlGpmSample_st *s = &samples[(next + i) % SAMPLES_MAX]; /* places are reused late */
        if (s->used)
            continue;
        memset(s, 0, sizeof *s);
        s->used = 1;
        next = (uint32_t)(s - samples) + 1;
        *sample = s;
        rc = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(NVML_FN_nvmlGpmSampleFree, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    struct nvmlGpmSample_st *s = sample_of(sample);
    if (!s) {
        nvml_strict(NVML_FN_nvmlGpmSampleFree, "not a sample, or freed before");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&lock);
    s->used = 0;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

/* What was measured at this very instant; gi NULL is the whole GPU. */
static void fill_sample(const NvmlCall *c, const SimGi *gi, struct nvmlGpmSample_st *s)
{
    const SimCond *cond = &c->now->cond;
    s->image = c->image;
    s->gpu = c->gpu;
    s->gi_id = gi ? (int32_t)gi->id : SIM_NONE;
    s->gi_profile = gi ? gi->profile : SIM_NONE;
    s->links_up = 0;
    s->up_bits = 0;
    for (uint32_t i = 0; i < c->board->link_count && i < SIM_LINK_MAX; i++) {
        s->links_up += cond->link[i].state == 1;
        s->up_bits |= (uint64_t)(cond->link[i].state == 1) << i;
    }
    s->t_ns = sim_clock_now(c->image);
    if (gi)
        sim_gi_cum_at(c->image, c->gpu, gi->id, s->t_ns, s->cum);
    else
        sim_cum_at(c->image, c->gpu, s->t_ns, s->cum);
    s->filled = 1;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlGpmSampleGet, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    struct nvmlGpmSample_st *s = sample_of(sample);
    if (!s)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_gpm)
        return NVML_ERROR_NOT_SUPPORTED;
    fill_sample(&c, NULL, s);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpu_instance_id, nvmlGpmSample_t sample)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlGpmMigSampleGet, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    struct nvmlGpmSample_st *s = sample_of(sample);
    if (!s)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_gpm || !c.now->cond.mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
        const SimGi *gi = &c.now->cond.gi[i];
        if (!gi->used || gi->id != gpu_instance_id)
            continue;
        fill_sample(&c, gi, s);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    NvmlFn fn = NVML_FN_nvmlGpmQueryDeviceSupport;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(fn, device, NVML_TAKES_ANY, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!support)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, support->version, NVML_GPM_SUPPORT_VERSION);
    if (rc != NVML_SUCCESS)
        return rc;
    support->isSupportedDevice = c.board->has_gpm ? 1 : 0;
    return NVML_SUCCESS;
}

/* Nobody streams on a simulated node. */
nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t device, unsigned int *state)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlGpmQueryIfStreamingEnabled, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!state)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!c.board->has_gpm)
        return NVML_ERROR_NOT_SUPPORTED;
    *state = 0;
    return NVML_SUCCESS;
}

/* ---- metrics ---- */
typedef enum GpmHow {
    GPM_NONE,
    GPM_SHARE,     /* percent of the time between the samples */
    GPM_ENGINE,    /* the same for one of several engines, which share their work evenly */
    GPM_PCIE_RATE, /* of the whole GPU only */
    GPM_PCIE_BYTES,
    GPM_LINKS_RATE, /* all links together */
    GPM_LINK_RATE,  /* one link: those that are up share the traffic evenly */
    GPM_LINK_BYTES,
    GPM_CYCLES,      /* counters of the second sample */
    GPM_BUSY_CYCLES, /* at the board's highest clock */
} GpmHow;

typedef struct GpmRow {
    uint8_t how, channel, number;
    char *short_name, *long_name, *unit;
} GpmRow;

#define X(id, how, channel, number, short_name, long_name, unit)                                                       \
    [NVML_GPM_METRIC_##id] = {GPM_##how, SIM_CH_##channel, number, short_name, long_name, unit},
static const GpmRow rows[NVML_GPM_METRIC_MAX] = {
#include "sim/nvml/gpm.def"
};
#undef X

typedef struct GpmPair {
    const struct nvmlGpmSample_st *first, *second;
    const SimBoard *board;
    double seconds;
} GpmPair;

/* Number of engines of that kind in the measured device. */
static uint32_t count_engines(const GpmPair *p, SimChannel channel)
{
    const SimProfile *gi = p->first->gi_profile == SIM_NONE ? NULL : &p->board->profiles[p->first->gi_profile];
    switch (channel) {
    case SIM_CH_DEC:
        return gi ? gi->dec : p->board->dec_engines;
    case SIM_CH_ENC:
        return gi ? gi->enc : p->board->enc_engines;
    case SIM_CH_JPG:
        return gi ? gi->jpg : p->board->jpg_engines;
    case SIM_CH_OFA:
        return gi ? gi->ofa : p->board->ofa_engines;
    default:
        return 0;
    }
}

static int is_offered(const GpmPair *p, const GpmRow *row)
{
    int whole = p->first->gi_id == SIM_NONE;
    switch ((GpmHow)row->how) {
    case GPM_NONE:
        return 0;
    case GPM_ENGINE:
        return row->number < count_engines(p, (SimChannel)row->channel);
    case GPM_PCIE_RATE:
    case GPM_PCIE_BYTES:
        return whole;
    case GPM_LINKS_RATE:
        return whole && p->board->link_count > 0;
    case GPM_LINK_RATE:
    case GPM_LINK_BYTES:
        return whole && row->number < p->board->link_count;
    default:
        return 1;
    }
}

static double at_least_0(double x)
{
    return x > 0 ? x : 0;
}

static double value_of(const GpmPair *p, const GpmRow *row)
{
    double to = p->second->cum[row->channel];
    double rate = at_least_0(to - p->first->cum[row->channel]) / p->seconds;
    int up = p->second->up_bits >> row->number & 1;
    switch ((GpmHow)row->how) {
    case GPM_SHARE:
    case GPM_ENGINE:
        return rate < 1 ? rate * 100 : 100;
    case GPM_PCIE_RATE:
    case GPM_LINKS_RATE:
        return rate / MIB;
    case GPM_LINK_RATE:
        return up ? rate / MIB / p->second->links_up : 0;
    case GPM_PCIE_BYTES:
        return to;
    case GPM_LINK_BYTES:
        return to / p->board->link_count;
    case GPM_CYCLES: /* the integral is in MHz x seconds */
        return to * 1e6;
    case GPM_BUSY_CYCLES:
        return to * p->board->sm_clock_max * 1e6;
    case GPM_NONE:
        break;
    }
    return 0;
}

static void metric_get(const GpmPair *p, nvmlGpmMetric_t *m)
{
    static char nothing[] = "";
    m->value = 0;
    m->metricInfo.shortName = m->metricInfo.longName = m->metricInfo.unit = nothing;
    if (m->metricId == 0 || m->metricId >= NVML_GPM_METRIC_MAX) {
        m->nvmlReturn = NVML_ERROR_INVALID_ARGUMENT;
        return;
    }
    const GpmRow *row = &rows[m->metricId];
    if (row->how != GPM_NONE) {
        m->metricInfo.shortName = row->short_name;
        m->metricInfo.longName = row->long_name;
        m->metricInfo.unit = row->unit;
    }
    m->nvmlReturn = is_offered(p, row) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    if (m->nvmlReturn == NVML_SUCCESS)
        m->value = value_of(p, row);
}

/* Touches `numMetrics` entries only: callers own as many as their header had. */
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metrics)
{
    NvmlFn fn = NVML_FN_nvmlGpmMetricsGet;
    SimImage *image;
    nvmlReturn_t rc = nvml_enter(fn, &image);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!metrics)
        return NVML_ERROR_INVALID_ARGUMENT;
    rc = nvml_check_tag(fn, metrics->version, NVML_GPM_METRICS_GET_VERSION);
    if (rc != NVML_SUCCESS)
        return rc;
    GpmPair p = {.first = sample_of(metrics->sample1), .second = sample_of(metrics->sample2)};
    if (!p.first || !p.second || !p.first->filled || !p.second->filled || metrics->numMetrics > NVML_GPM_METRIC_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (p.first->gpu != p.second->gpu || p.first->gi_id != p.second->gi_id || p.first->image != p.second->image ||
        p.first->image != image || p.first->t_ns >= p.second->t_ns) {
        nvml_strict(fn, "samples that are no pair: two GPUs, or not one after the other");
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    p.board = &image->boards[image->gpus[p.first->gpu].board];
    p.seconds = (double)(p.second->t_ns - p.first->t_ns) / 1e9;
    if (p.seconds < 0.1)
        nvml_strict(fn, "samples less than 100 ms apart");
    for (unsigned int i = 0; i < metrics->numMetrics; i++)
        metric_get(&p, &metrics->metrics[i]);
    return NVML_SUCCESS;
}
