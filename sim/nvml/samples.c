/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver keeps of the last seconds: sample buffers, and the sessions of encoder and frame buffer capture. The
 * buffers are not stored: each sample is the closed form at its own time. Any thread may call.
 */
#include "sim/nvml/getter.h"

enum { SAMPLE_COUNT = 120 };

/* ---- sample buffers ---- */
typedef struct SampleKind {
    int channel;        /* a mean over one period, SIM_NONE: a reading of the instant */
    uint32_t period_ns; /* the sensor's */
} SampleKind;

static const SampleKind kinds[NVML_SAMPLINGTYPE_COUNT] = {
    [NVML_TOTAL_POWER_SAMPLES] = {SIM_NONE, SIM_TICK_NS},
    [NVML_GPU_UTILIZATION_SAMPLES] = {SIM_CH_KERNEL, SIM_WINDOW_NS},
    [NVML_MEMORY_UTILIZATION_SAMPLES] = {SIM_CH_DRAM_T, SIM_WINDOW_NS},
    [NVML_ENC_UTILIZATION_SAMPLES] = {SIM_CH_ENC, SIM_WINDOW_NS},
    [NVML_DEC_UTILIZATION_SAMPLES] = {SIM_CH_DEC, SIM_WINDOW_NS},
    [NVML_PROCESSOR_CLK_SAMPLES] = {SIM_NONE, SIM_WINDOW_NS},
    [NVML_MEMORY_CLK_SAMPLES] = {SIM_NONE, SIM_WINDOW_NS},
    [NVML_MODULE_POWER_SAMPLES] = {SIM_NONE, SIM_TICK_NS},
    [NVML_JPG_UTILIZATION_SAMPLES] = {SIM_CH_JPG, SIM_WINDOW_NS},
    [NVML_OFA_UTILIZATION_SAMPLES] = {SIM_CH_OFA, SIM_WINDOW_NS},
};

static int is_offered(const NvmlCall *c, nvmlSamplingType_t type)
{
    const SimBoard *b = c->board;
    if (kinds[type].channel != SIM_NONE && c->now->cond.mig_mode)
        return 0;
    switch (type) {
    case NVML_ENC_UTILIZATION_SAMPLES:
        return b->enc_engines > 0;
    case NVML_DEC_UTILIZATION_SAMPLES:
        return b->dec_engines > 0;
    case NVML_JPG_UTILIZATION_SAMPLES:
        return b->jpg_engines > 0;
    case NVML_OFA_UTILIZATION_SAMPLES:
        return b->ofa_engines > 0;
    case NVML_MODULE_POWER_SAMPLES:
        return b->has_module_power != 0;
    default:
        return 1;
    }
}

static unsigned int read_at(const NvmlCall *c, nvmlSamplingType_t type, uint64_t t_ns)
{
    SimNow at;
    sim_state_at(c->image, c->gpu, t_ns, &at);
    if (type == NVML_PROCESSOR_CLK_SAMPLES)
        return at.sm_mhz;
    if (type == NVML_MEMORY_CLK_SAMPLES)
        return at.mem_mhz;
    return (unsigned int)nvml_round(at.watt * 1000);
}

static unsigned int mean_percent(const NvmlCall *c, const SampleKind *kind, uint64_t t_ns)
{
    double from[SIM_CH_COUNT], to[SIM_CH_COUNT];
    sim_cum_at(c->image, c->gpu, t_ns - kind->period_ns, from);
    sim_cum_at(c->image, c->gpu, t_ns, to);
    double part = (to[kind->channel] - from[kind->channel]) / ((double)kind->period_ns / 1e9);
    return nvml_percent(part);
}

/* Sample k was taken at k periods after the scenario's start; k = 0 is none. Returns how many of the buffer's samples
 * are newer than since_us and the number of the first. */
static unsigned int count_newer(const NvmlCall *c, const SampleKind *kind, unsigned long long since_us,
                                uint64_t *ret_first)
{
    uint64_t last = c->now->t_ns / kind->period_ns;
    uint64_t first = last > SAMPLE_COUNT ? last - SAMPLE_COUNT + 1 : 1;
    while (first <= last && nvml_stamp(c->image, first * kind->period_ns) <= since_us)
        first++;
    *ret_first = first;
    return (unsigned int)(last + 1 - first);
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long since_us,
                                  nvmlValueType_t *value_type, unsigned int *count, nvmlSample_t *samples)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetSamples, device, NVML_TAKES_GPU, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count || (samples && *count == 0) || (unsigned)type >= NVML_SAMPLINGTYPE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!is_offered(&c, type))
        return NVML_ERROR_NOT_SUPPORTED;
    if (value_type) /* nvml.h names only the count as one that must be there */
        *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!samples) {
        *count = SAMPLE_COUNT;
        return NVML_SUCCESS;
    }
    const SampleKind *kind = &kinds[type];
    uint64_t first;
    unsigned int n = count_newer(&c, kind, since_us, &first);
    if (n == 0) {
        *count = 0;
        return NVML_ERROR_NOT_FOUND;
    }
    if (n > *count) { /* no room for all: the newest */
        first += n - *count;
        n = *count;
    }
    for (unsigned int i = 0; i < n; i++) {
        uint64_t t_ns = (first + i) * kind->period_ns;
        samples[i] = (nvmlSample_t){.timeStamp = nvml_stamp(c.image, t_ns)};
        samples[i].sampleValue.uiVal =
            kind->channel == SIM_NONE ? read_at(&c, type, t_ns) : mean_percent(&c, kind, t_ns);
    }
    *count = n;
    return NVML_SUCCESS;
}

/* ---- encoder ---- */
/* A process that encodes has one session of full HD; an engine that is always busy makes ENCODER_FPS of them per
 * second. */
enum { ENCODER_FPS = 600, ENCODER_LATENCY_US = 1500 };

static unsigned int sessions_of(const NvmlCall *c, nvmlEncoderSessionInfo_t ret[SIM_SLOT_MAX])
{
    unsigned int n = 0;
    for (uint32_t i = 0; i < c->now->proc_count; i++) {
        const SimProc *p = &c->now->proc[i];
        if (p->win[SIM_CH_ENC] <= 0 || (c->mig && (p->gi != (int32_t)c->gi.id || p->ci != (int32_t)c->ci.id)))
            continue;
        ret[n] = (nvmlEncoderSessionInfo_t){
            .sessionId = (unsigned)p->work + 1,
            .pid = p->pid,
            .codecType = NVML_ENCODER_QUERY_H264,
            .hResolution = 1920,
            .vResolution = 1080,
            .averageFps = (unsigned)nvml_round(p->win[SIM_CH_ENC] * ENCODER_FPS),
            .averageLatency = ENCODER_LATENCY_US,
        };
        n++;
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *average_fps,
                                       unsigned int *average_latency)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetEncoderStats, device, NVML_TAKES_GPU_NS, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!sessions || !average_fps || !average_latency)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* captures of H100 and H200 at 590.48.01, which have no encoder, show three zeros */
    if (c.board->enc_engines == 0 && c.board->arch < NVML_DEVICE_ARCH_HOPPER)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlEncoderSessionInfo_t all[SIM_SLOT_MAX];
    unsigned int n = sessions_of(&c, all), fps = 0;
    for (unsigned int i = 0; i < n; i++)
        fps += all[i].averageFps;
    *sessions = n;
    *average_fps = n > 0 ? fps / n : 0;
    *average_latency = n > 0 ? ENCODER_LATENCY_US : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int *count, nvmlEncoderSessionInfo_t *sessions)
{
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetEncoderSessions, device, NVML_TAKES_GPU_NS, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* captures of H100 and H200 at 590.48.01, which have no encoder, show three zeros */
    if (c.board->enc_engines == 0 && c.board->arch < NVML_DEVICE_ARCH_HOPPER)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlEncoderSessionInfo_t all[SIM_SLOT_MAX];
    unsigned int n = sessions_of(&c, all);
    unsigned int room = *count;
    if (room >= n && n > 0 && !sessions)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        sessions[i] = all[i];
    return NVML_SUCCESS;
}

/* ---- frame buffer capture: none on a simulated node ---- */
NVML_GETTER_STRUCT(nvmlDeviceGetFBCStats, NVML_TAKES_GPU_NS, nvmlFBCStats_t, 1, (nvmlFBCStats_t){0})

nvmlReturn_t nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int *count, nvmlFBCSessionInfo_t *sessions)
{
    (void)sessions;
    NvmlCall c;
    nvmlReturn_t rc = nvml_enter_device(NVML_FN_nvmlDeviceGetFBCSessions, device, NVML_TAKES_GPU_NS, &c);
    if (rc != NVML_SUCCESS)
        return rc;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}
