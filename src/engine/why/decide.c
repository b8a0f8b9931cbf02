/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules: each looks for one cause and cites the numbers that it used. Which rule may answer depends on the word of
 * engine/activity, so that no verdict contradicts it; of those that find their cause the first of the table answers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/human.h"
#include "engine/why/why.h"

#define LIMIT(NAME, value, reason) static const double limit_##NAME = value;
#include "engine/why/limit.def"
#undef LIMIT

/* Bits of nvmlClocksEventReasons (nvml.h): heat by software and hardware with hardware slowdown, power brake, software
 * power cap. */
enum { REASON_HEAT = 0x20 | 0x40 | 0x8, REASON_BRAKE = 0x80, REASON_CAP = 0x4 };

/* What activity says, for the table of rules. */
enum {
    ON_UNKNOWN = 1 << 0,
    ON_FREE = 1 << 1,
    ON_UNUSABLE = 1 << 2,
    ON_IDLE = 1 << 3,
    ON_WORKING = 1 << 4,
    ON_INPUT = 1 << 5,
    ON_LAUNCHES = 1 << 6,
    ON_COLLECTIVE = 1 << 7,
    ON_RANK = 1 << 8,
    ON_WAITING = 1 << 9, /* for what the counters do not tell */
    ON_BUSY = ON_WORKING | ON_INPUT | ON_LAUNCHES | ON_WAITING,
};

/* One device under decision: the input with means over its window. */
typedef struct Case {
    const WhyInput *in;
    const Activity *activity;
    int from; /* first second of the window */
    double mean[WHY_SERIES_END];
} Case;

/* --- evidence ----------------------------------------------------------------------------------------------------- */

static void cite_number(WhyVerdict *v, const char *counter, const char *label, WhyUnit unit, double value)
{
    if (isfinite(value) && v->evidence_count < WHY_EVIDENCE_MAX)
        v->evidence[v->evidence_count++] =
            (WhyEvidence){.counter = counter, .label = label, .unit = unit, .value = value};
}

/* A number of somebody's, by name. */
static void cite_of(WhyVerdict *v, const char *name, const char *counter, const char *label, WhyUnit unit, double value)
{
    const uint32_t count = v->evidence_count;
    uint8_t at = 0;

    while (at < WHY_NAMES_MAX && v->names[at][0] && strcmp(v->names[at], name) != 0)
        at++;
    cite_number(v, counter, label, unit, value);
    if (v->evidence_count == count || at == WHY_NAMES_MAX)
        return;
    snprintf(v->names[at], sizeof v->names[at], "%s", name);
    v->evidence[count].name = (uint8_t)(at + 1);
}

static const struct {
    MetricId metric;
    const char *label;
    WhyUnit unit;
} series_names[WHY_SERIES_END] = {
    [WHY_OF_SM] = {METRIC_PROF_SM_ACTIVE, "SM active", WHY_UNIT_RATIO},
    [WHY_OF_UTIL] = {METRIC_GPU_UTIL, "utilisation", WHY_UNIT_RATIO},
    [WHY_OF_TENSOR] = {METRIC_PROF_PIPE_TENSOR_ACTIVE, "tensor cores active", WHY_UNIT_RATIO},
    [WHY_OF_FP32] = {METRIC_PROF_PIPE_FP32_ACTIVE, "FP32 pipe active", WHY_UNIT_RATIO},
    [WHY_OF_FP64] = {METRIC_PROF_PIPE_FP64_ACTIVE, "FP64 pipe active", WHY_UNIT_RATIO},
    [WHY_OF_OCCUPANCY] = {METRIC_PROF_SM_OCCUPANCY, "occupancy", WHY_UNIT_RATIO},
    [WHY_OF_DRAM] = {METRIC_PROF_DRAM_ACTIVE, "memory interface active", WHY_UNIT_RATIO},
    [WHY_OF_COPY] = {METRIC_MEM_COPY_UTIL, "memory controller busy", WHY_UNIT_RATIO},
    [WHY_OF_POWER] = {METRIC_POWER_USAGE, "power, of its limit", WHY_UNIT_RATIO},
    [WHY_OF_CLOCK] = {METRIC_SM_CLOCK, "SM clock, of the highest", WHY_UNIT_RATIO},
    [WHY_OF_REASONS] = {METRIC_CLOCKS_EVENT_REASONS, "clock event reasons", WHY_UNIT_COUNT},
    [WHY_OF_LINK] = {METRIC_NVLINK_TX_BYTES_COUNT, "NVLink, both directions", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_TX] = {METRIC_PROF_PCIE_TX_BYTES, "PCIe sent", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_RX] = {METRIC_PROF_PCIE_RX_BYTES, "PCIe received", WHY_UNIT_BYTES_PER_SECOND},
    [WHY_OF_PCIE_GEN] = {METRIC_PCIE_LINK_GEN, "PCIe generation", WHY_UNIT_COUNT},
    [WHY_OF_VIDEO] = {METRIC_ENC_UTIL, "video engines busy", WHY_UNIT_RATIO},
};

/* Cites the means of these series, as far as they are known; the list ends with WHY_SERIES_END. */
static void cite_means(const Case *c, WhyVerdict *v, const WhySeries *list)
{
    for (; *list != WHY_SERIES_END; list++)
        if (*list == WHY_OF_UTIL && c->in->instance)
            cite_number(v, metric_get(METRIC_PROF_GR_ENGINE_ACTIVE)->name, "engine active", WHY_UNIT_RATIO,
                        c->mean[*list]);
        else
            cite_number(v, metric_get(series_names[*list].metric)->name, series_names[*list].label,
                        series_names[*list].unit, c->mean[*list]);
}
#define CITE(c, v, ...) cite_means(c, v, (const WhySeries[]){__VA_ARGS__, WHY_SERIES_END})

__attribute__((format(printf, 2, 3))) static void write_text(WhyVerdict *v, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}

static void add_between(WhyVerdict *v, WhyCause cause)
{
    if (v->between_count < WHY_BETWEEN_MAX)
        v->between[v->between_count++] = cause;
}

static int percent_of(double share)
{
    return (int)lround(100 * share);
}

static WhyConfidence choose_confidence(bool sure)
{
    return sure ? WHY_HIGH : WHY_MEDIUM;
}

/* Share of the window's known seconds in which `fits` holds; *ret_count: how many. */
static double share_of_seconds(const Case *c, bool (*fits)(const WhyInput *in, int i), double *ret_count)
{
    double known = 0, count = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++) {
        const bool has = isfinite(c->in->rows[WHY_OF_UTIL][i]) || isfinite(c->in->rows[WHY_OF_SM][i]);

        known += has;
        count += has && fits(c->in, i);
    }
    if (ret_count)
        *ret_count = count;
    return known > 0 ? count / known : 0;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

bool why_is_pause(double sm, double util)
{
    return !(sm > ACTIVITY_IDLE_SM) && !(util > ACTIVITY_IDLE_UTIL);
}

bool why_is_stall(double seconds)
{
    return seconds >= limit_PAUSE_S;
}

static bool is_pause(const WhyInput *in, int i)
{
    return why_is_pause(in->rows[WHY_OF_SM][i], in->rows[WHY_OF_UTIL][i]);
}

/* --- words that need no rule -------------------------------------------------------------------------------------- */

static bool find_unknown(const Case *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    write_text(v, "not known what it does%s%s", c->activity->text[0] ? ": " : "", c->activity->text);
    return true;
}

static bool find_free(const Case *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
    write_text(v, "free: no program holds it");
    return true;
}

static bool find_unusable(const Case *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    write_text(v, "cannot be used, by incident %s: %s", c->activity->incident, c->activity->text);
    return true;
}

static bool find_idle(const Case *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = share_of_seconds(c, is_pause, NULL);
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL, WHY_OF_POWER);
    cite_number(v, metric_get(METRIC_FB_USED)->name, "memory held", WHY_UNIT_BYTES, c->in->memory_used);
    if (isfinite(c->in->memory_used))
        write_text(v, "a program holds %.1f GiB of its memory and nothing runs", c->in->memory_used / 1073741824.0);
    else
        write_text(v, "a program holds it and nothing runs");
    return true;
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

static bool find_stuck(const Case *c, WhyVerdict *v)
{
    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];

        if ((p->state != 'D' && p->state != 'T' && p->state != 'Z') || p->state_s < limit_STUCK_S)
            continue;
        v->confidence = WHY_HIGH;
        v->share = 1;
        CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
        cite_number(v, "/proc/PID/stat", "seconds in that state", WHY_UNIT_SECONDS, p->state_s);
        write_text(v, "stuck: process %" PRIu32 " is %s for %.0f s", p->pid,
                   p->state == 'D'   ? "waiting in the kernel (state D)"
                   : p->state == 'T' ? "stopped (state T)"
                                     : "a zombie (state Z)",
                   p->state_s);
        return true;
    }
    return false;
}

static double sum_written(const Case *c)
{
    double sum = NAN;

    for (size_t i = 0; i < c->in->process_count; i++)
        if (isfinite(c->in->processes[i].written))
            sum = (isfinite(sum) ? sum : 0) + c->in->processes[i].written;
    return sum;
}

/* Stalls in which its processes wrote, that come again after the same time. */
typedef struct Rhythm {
    double every_s, length_s, written; /* medians; bytes per stall */
    size_t count;
} Rhythm;

static bool find_rhythm(const Case *c, Rhythm *ret)
{
    double began[WHY_STALLS_MAX], between[WHY_STALLS_MAX], lengths[WHY_STALLS_MAX], written[WHY_STALLS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < c->in->stall_count; i++) {
        const WhyStall *stall = &c->in->stalls[i];

        if (!(stall->written >= limit_WRITES * stall->length_s))
            continue;
        began[count] = stall->ago_s;
        lengths[count] = stall->length_s;
        written[count] = stall->written;
        if (count > 0)
            between[count - 1] = began[count - 1] - began[count];
        count++;
    }
    if ((double)count < limit_STALLS)
        return false;
    const double every_s = median_of(between, count - 1);
    for (size_t i = 0; i + 1 < count; i++)
        if (fabs(between[i] - every_s) > fmax(limit_RHYTHM * every_s, limit_PAUSE_S))
            return false;
    if (began[count - 1] > limit_RHYTHM_LOST * every_s)
        return false;
    *ret = (Rhythm){every_s, median_of(lengths, count), median_of(written, count), count};
    return true;
}

static void cite_rhythm(WhyVerdict *v, const Rhythm *rhythm)
{
    cite_number(v, "/proc/PID/io", "stalls that wrote", WHY_UNIT_COUNT, (double)rhythm->count);
    cite_number(v, "/proc/PID/io", "from one to the next", WHY_UNIT_SECONDS, rhythm->every_s);
    cite_number(v, "/proc/PID/io", "length of one", WHY_UNIT_SECONDS, rhythm->length_s);
    cite_number(v, "/proc/PID/io", "written in one", WHY_UNIT_BYTES, rhythm->written);
}

/* Beside what it does between two of them. */
static bool find_checkpoints(const Case *c, WhyVerdict *v)
{
    char every[HUMAN_MAX];
    Rhythm rhythm;

    if (!find_rhythm(c, &rhythm))
        return false;
    v->confidence = WHY_HIGH;
    v->share = fmin(rhythm.length_s / rhythm.every_s, 1);
    cite_rhythm(v, &rhythm);
    write_text(v, "checkpoints: it stalls every %s for %.0f s while its program writes %.1f GB: %.1f %% of the time",
               human_age(every, (uint64_t)(rhythm.every_s * NS_PER_S)), rhythm.length_s, rhythm.written / 1e9,
               100 * v->share);
    return true;
}

/* Pauses of the GPU while its program writes. */
static bool find_checkpoint(const Case *c, WhyVerdict *v)
{
    const double written = sum_written(c);
    char every[HUMAN_MAX];
    Rhythm rhythm;
    double seconds;
    const double share = share_of_seconds(c, is_pause, &seconds);

    if (!(written >= limit_WRITES) || !why_is_stall(seconds))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = share;
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
    cite_number(v, "/proc/PID/io", "written by its processes", WHY_UNIT_BYTES_PER_SECOND, written);
    if (!find_rhythm(c, &rhythm)) {
        write_text(v, "stalls for %.0f s of %" PRIu32 " while its program writes %.0f MB/s: a checkpoint, most likely",
                   seconds, c->activity->window_s, written / 1e6);
        return true;
    }
    v->confidence = WHY_HIGH;
    cite_rhythm(v, &rhythm);
    write_text(v,
               "stalls for %.0f s of %" PRIu32
               " while its program writes %.0f MB/s: a checkpoint, every %s for %.0f s, "
               "%.1f %% of the time",
               seconds, c->activity->window_s, written / 1e6, human_age(every, (uint64_t)(rhythm.every_s * NS_PER_S)),
               rhythm.length_s, 100 * fmin(rhythm.length_s / rhythm.every_s, 1));
    return true;
}

/* What the host says about a program that does not feed its GPU: into the text behind `v->text`. */
static void blame_host(const Case *c, WhyVerdict *v)
{
    const size_t len = strlen(v->text);
    char *end = v->text + len;
    const size_t room = sizeof v->text - len;
    double cores = NAN, children = 0, child_cores = 0;

    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];

        cores = fmax(cores, p->cores);
        if (isfinite(p->children) && isfinite(p->child_cores)) {
            children += p->children;
            child_cores += p->child_cores;
        }
    }
    cite_number(v, "/proc/PID/stat", "processor time of its busiest process", WHY_UNIT_CORES, cores);
    if (children > 0)
        cite_number(v, "/proc/PID/stat", "processor time of their children", WHY_UNIT_CORES, child_cores);
    cite_number(v, "/proc/pressure/io", "time in which a task waited for I/O", WHY_UNIT_RATIO, c->in->io_pressure);
    cite_number(v, "/proc/pressure/cpu", "time in which a task waited for a core", WHY_UNIT_RATIO, c->in->cpu_pressure);
    v->confidence = WHY_HIGH;
    if (children > 0 && child_cores >= limit_LOADER_BUSY * children)
        snprintf(end, room,
                 "; its %.0f child processes (loaders) use all of their cores: more workers or cheaper "
                 "transforms",
                 children);
    else if (c->in->io_pressure >= limit_IO_PRESSURE)
        snprintf(end, room, "; tasks wait for I/O %d %% of the time: storage", percent_of(c->in->io_pressure));
    else if (cores >= limit_CPU_PEGGED)
        snprintf(end, room, "; its process uses %.1f cores: loading or Python in the process itself", cores);
    else if (cores < limit_CPU_ASLEEP) {
        v->confidence = WHY_MEDIUM;
        snprintf(end, room, "; its process mostly sleeps: it waits for requests, for storage or for other processes");
    } else
        v->confidence = WHY_MEDIUM;
}

static void explain_input(const Case *c, WhyVerdict *v, const char *how)
{
    v->share = 1 - fmin(c->mean[WHY_OF_UTIL], 1);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_POWER);
    write_text(v, "%s for its input: no kernel runs %d %% of the time", how, percent_of(v->share));
    blame_host(c, v);
}

static bool find_input(const Case *c, WhyVerdict *v)
{
    if (c->activity->cause == ACTIVITY_CAUSE_NONE && !(c->mean[WHY_OF_UTIL] <= limit_STARVING))
        return false;
    explain_input(c, v, "waits");
    return true;
}

/* It works, and could work more. */
static bool find_part_input(const Case *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_UTIL] <= 1 - limit_STARVED))
        return false;
    explain_input(c, v, "works, and waits");
    return true;
}

static bool find_some_input(const Case *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_UTIL] <= 1 - limit_STARVED_SOME))
        return false;
    explain_input(c, v, "works, and waits");
    return true;
}

/* --- work --------------------------------------------------------------------------------------------------------- */

static bool find_video(const Case *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_VIDEO] >= limit_VIDEO) || c->mean[WHY_OF_SM] >= ACTIVITY_WORKING_SM)
        return false;
    v->confidence = WHY_HIGH;
    v->share = c->mean[WHY_OF_VIDEO];
    CITE(c, v, WHY_OF_VIDEO, WHY_OF_SM, WHY_OF_UTIL);
    write_text(v, "its video engines work %d %% of the time", percent_of(v->share));
    return true;
}

static bool find_fp64(const Case *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_FP64] >= limit_FP64))
        return false;
    v->confidence = WHY_HIGH;
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_SM, WHY_OF_FP64, WHY_OF_TENSOR);
    write_text(v, "computes in double precision: FP64 pipe active %d %%", percent_of(c->mean[WHY_OF_FP64]));
    return true;
}

static bool find_memory_bound(const Case *c, WhyVerdict *v)
{
    const double dram = c->mean[WHY_OF_DRAM], tensor = c->mean[WHY_OF_TENSOR];

    if (!(dram >= limit_DRAM) || dram < limit_DRAM_OVER_TENSOR * tensor)
        return false;
    v->confidence = choose_confidence(dram >= limit_DRAM_SURE);
    v->share = dram;
    CITE(c, v, WHY_OF_DRAM, WHY_OF_SM, WHY_OF_TENSOR);
    write_text(v, "bound by its memory's bandwidth: the interface is active %d %% of the time", percent_of(dram));
    return true;
}

static bool find_tensor(const Case *c, WhyVerdict *v)
{
    const double tensor = c->mean[WHY_OF_TENSOR];

    if (!(tensor >= limit_TENSOR))
        return false;
    v->confidence = choose_confidence(tensor >= limit_TENSOR_SURE);
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_TENSOR, WHY_OF_SM, WHY_OF_DRAM, WHY_OF_POWER);
    write_text(v, "computes on tensor cores: they are active %d %% of the time, a good step has 30 %% and more",
               percent_of(tensor));
    return true;
}

/* Full multiprocessors, tensor cores at rest. */
static bool find_no_tensor(const Case *c, WhyVerdict *v)
{
    const double tensor = c->mean[WHY_OF_TENSOR], fp32 = c->mean[WHY_OF_FP32];

    if (!(tensor <= limit_TENSOR_NONE) && !(tensor < limit_TENSOR && fp32 >= limit_FP32))
        return false;
    v->confidence = choose_confidence(tensor <= limit_TENSOR_NONE && fp32 >= limit_FP32);
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_TENSOR, WHY_OF_FP32, WHY_OF_SM, WHY_OF_DRAM);
    if (fp32 >= limit_FP32)
        write_text(v, "computes in FP32: that pipe is active %d %% of the time, tensor cores %d %%", percent_of(fp32),
                   percent_of(tensor));
    else
        write_text(v, "computes without tensor cores: they are active %d %% of the time", percent_of(tensor));
    return true;
}

/* Warps or blocks are missing although a kernel always runs. */
static bool find_small_batch(const Case *c, WhyVerdict *v)
{
    const double sm = c->mean[WHY_OF_SM], util = c->mean[WHY_OF_UTIL];
    const double filled = sm / util, occupancy = c->mean[WHY_OF_OCCUPANCY] / sm;

    if (!(util >= limit_ALWAYS) || !(filled > limit_FILLED) || c->mean[WHY_OF_TENSOR] >= limit_TENSOR ||
        c->mean[WHY_OF_DRAM] >= limit_DRAM || c->mean[WHY_OF_FP32] >= limit_FP32 || c->mean[WHY_OF_FP64] >= limit_FP64)
        return false;
    if (!(filled <= limit_PART_FILLED) && !(occupancy <= limit_OCCUPANCY))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = filled <= limit_PART_FILLED ? 1 - filled : sm;
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_OCCUPANCY, WHY_OF_TENSOR);
    add_between(v, WHY_LAUNCHES);
    if (filled <= limit_PART_FILLED)
        write_text(v, "too little work per kernel: one always runs, and %d %% of the multiprocessors have work",
                   percent_of(filled));
    else
        write_text(v, "too little work per kernel: the multiprocessors hold %d %% of the warps they could",
                   percent_of(occupancy));
    return true;
}

static bool looks_like_spin(const Case *c)
{
    const double mean[ACTIVITY_SERIES_END] = {
        [ACTIVITY_OF_SM] = c->mean[WHY_OF_SM],         [ACTIVITY_OF_UTIL] = c->mean[WHY_OF_UTIL],
        [ACTIVITY_OF_TENSOR] = c->mean[WHY_OF_TENSOR], [ACTIVITY_OF_DRAM] = c->mean[WHY_OF_DRAM],
        [ACTIVITY_OF_LINK] = c->mean[WHY_OF_LINK],
    };

    return activity_is_spin(mean);
}

static bool find_launches(const Case *c, WhyVerdict *v)
{
    const double sm = c->mean[WHY_OF_SM], util = c->mean[WHY_OF_UTIL];

    if (c->activity->cause == ACTIVITY_CAUSE_NONE && !(sm <= limit_FILLED * util))
        return false;
    if (!isfinite(sm) || (looks_like_spin(c) && c->activity->window_s < limit_SPIN_S))
        return false;
    v->confidence = choose_confidence(sm <= limit_EMPTY * util && util >= limit_ALWAYS);
    v->share = fmax(util - sm, 0);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_OCCUPANCY, WHY_OF_POWER);
    if (util >= limit_ALWAYS)
        write_text(v,
                   "100 %% busy by utilisation, yet nearly idle: small kernels one after another keep %.*f %% of the "
                   "multiprocessors at work",
                   sm < 0.0995, 100 * sm);
    else
        write_text(v,
                   "small kernels one after another: one runs %d %% of the time, and %d %% of the multiprocessors work",
                   percent_of(util), percent_of(sm));
    return true;
}

/* --- traffic ------------------------------------------------------------------------------------------------------ */

/* Bytes per second in one direction: 2.5 and 5 GT/s with 8b/10b, 128b/130b from generation 3 on (PCI-SIG). */
static double pcie_limit(const Case *c)
{
    double gen = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++)
        gen = fmax(gen, c->in->rows[WHY_OF_PCIE_GEN][i]);
    if (!(gen >= 1) || !(c->in->pcie_lanes >= 1))
        return NAN;
    return c->in->pcie_lanes * (gen < 3 ? 250e6 * gen : 985e6 * exp2(gen - 3));
}

static bool find_pcie(const Case *c, WhyVerdict *v)
{
    const double limit = pcie_limit(c), share = fmax(c->mean[WHY_OF_PCIE_TX], c->mean[WHY_OF_PCIE_RX]) / limit;

    if (!(share >= limit_PCIE))
        return false;
    v->confidence = choose_confidence(share >= limit_PCIE_SURE);
    v->share = fmin(share, 1);
    CITE(c, v, WHY_OF_PCIE_RX, WHY_OF_PCIE_TX, WHY_OF_UTIL, WHY_OF_SM);
    cite_number(v, metric_get(METRIC_PCIE_LINK_GEN)->name, "what the link can carry", WHY_UNIT_BYTES_PER_SECOND, limit);
    write_text(v, "bound by copies over PCIe: they take %d %% of what the link can carry", percent_of(share));
    return true;
}

static bool is_exchange(const WhyInput *in, int i)
{
    return in->rows[WHY_OF_UTIL][i] >= limit_ALWAYS && in->rows[WHY_OF_SM][i] <= limit_EXCHANGE_SM &&
           in->rows[WHY_OF_TENSOR][i] <= limit_EXCHANGE_TENSOR && in->rows[WHY_OF_LINK][i] >= limit_EXCHANGE_LINK;
}

/* The adapter whose link is fullest in one direction, and how full; NULL: none whose link is known. */
static const WhyAdapter *find_fullest(const Case *c, double *ret_share)
{
    const WhyAdapter *most = NULL;

    *ret_share = NAN;
    for (size_t i = 0; i < c->in->adapter_count; i++) {
        const WhyAdapter *a = &c->in->adapters[i];
        const double share = fmax(a->sent, a->received) / a->link;

        if (isfinite(share) && !(share <= *ret_share)) {
            *ret_share = share;
            most = a;
        }
    }
    return most;
}

static void cite_adapter(WhyVerdict *v, const WhyAdapter *a)
{
    const bool out = a->sent >= a->received;

    cite_of(v, a->name, "/sys/class/infiniband, /sys/class/net", out ? "sent" : "received", WHY_UNIT_BYTES_PER_SECOND,
            out ? a->sent : a->received);
    cite_of(v, a->name, "/sys/class/infiniband, /sys/class/net", "link", WHY_UNIT_BYTES_PER_SECOND, a->link);
    if (a->retries > 0)
        cite_of(v, a->name, "hw_counters", "packets sent again, per second", WHY_UNIT_COUNT, a->retries);
    if (a->notices > 0)
        cite_of(v, a->name, "hw_counters", "congestion notices, per second", WHY_UNIT_COUNT, a->notices);
}

/* Most seconds are exchange between GPUs; the adapters tell whether it is the network behind NVLink. */
static bool find_network(const Case *c, WhyVerdict *v)
{
    const double share = share_of_seconds(c, is_exchange, NULL);
    double full;
    const WhyAdapter *fullest = find_fullest(c, &full);
    char behind[WHY_TEXT_CAP / 2];

    if (share < limit_EXCHANGE_SHARE)
        return false;
    v->confidence = choose_confidence(full >= limit_NETWORK_SURE);
    v->share = share;
    CITE(c, v, WHY_OF_LINK, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_UTIL);
    if (!fullest)
        snprintf(behind, sizeof behind,
                 "NVLink or the network behind it, whose adapters' counters are not to be read on this node");
    else if (full >= limit_NETWORK)
        snprintf(behind, sizeof behind, "adapter %.31s carries %d %% of its link", fullest->name, percent_of(full));
    else if (full <= limit_NETWORK_REST)
        snprintf(behind, sizeof behind, "its network adapters are at rest, so it is NVLink");
    else
        snprintf(behind, sizeof behind, "no adapter is full here; the fullest, %.31s, carries %d %% of its link",
                 fullest->name, percent_of(full));
    if (fullest)
        cite_adapter(v, fullest);
    write_text(v, "bound by the exchange between GPUs: %d %% of the time bytes move and next to nothing computes; %s",
               percent_of(share), behind);
    return true;
}

/* Kernels that spin or nearly rest while an adapter is full: it exchanges over the network. The adapter may carry
 * another job's bytes, so a collective that hangs is not excluded. */
static bool find_full_adapter(const Case *c, WhyVerdict *v)
{
    double full;
    const WhyAdapter *fullest = find_fullest(c, &full);

    if (!(full >= limit_NETWORK) || !(c->mean[WHY_OF_TENSOR] <= limit_EXCHANGE_TENSOR) ||
        !(c->mean[WHY_OF_SM] <= limit_EXCHANGE_SM) || !(c->mean[WHY_OF_UTIL] >= limit_ALWAYS))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = fmin(full, 1);
    add_between(v, WHY_COLLECTIVE);
    cite_adapter(v, fullest);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR);
    write_text(v,
               "100 %% busy by utilisation, yet it waits for the network: adapter %.31s carries %d %% of its link and "
               "%d %% of the multiprocessors work",
               fullest->name, percent_of(full), percent_of(c->mean[WHY_OF_SM]));
    return true;
}

static bool find_collective(const Case *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_DRAM, WHY_OF_LINK, WHY_OF_POWER);
    write_text(
        v,
        "100 %% busy by utilisation, yet idle: it spins in a collective; %d %% of the multiprocessors, no tensor "
        "work, no traffic",
        percent_of(c->mean[WHY_OF_SM]));
    return true;
}

static bool find_other_rank(const Case *c, WhyVerdict *v)
{
    (void)find_collective(c, v);
    write_text(v, "100 %% busy by utilisation, yet idle: it %s", c->activity->text);
    return true;
}

/* --- the ranks of a job on this node ------------------------------------------------------------------------------ */

/* Of the job's GPUs the one whose multiprocessors are active for longer than those of all others: it computes while
 * they wait. 0: this one, i + 1: peer i; SIZE_MAX: none stands apart. */
static size_t find_late_rank(const Case *c, double *ret_median)
{
    double values[NODE_GPUS_MAX], apart[NODE_GPUS_MAX];
    const size_t count = c->in->peer_count + 1;
    size_t top = 0, above = 0;

    if (count < 3 || count > NODE_GPUS_MAX || !(c->mean[WHY_OF_UTIL] >= limit_ALWAYS))
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        values[i] = i == 0 ? c->mean[WHY_OF_SM] : c->in->peers[i - 1].sm;
        if (!isfinite(values[i]))
            return SIZE_MAX;
        top = values[i] > values[top] ? i : top;
    }
    memcpy(apart, values, count * sizeof *values);
    const double median = median_of(apart, count);
    for (size_t i = 0; i < count; i++)
        apart[i] = fabs(values[i] - median);
    const double least = fmax(limit_RANK_APART, 3 * 1.4826 * median_of(apart, count));
    for (size_t i = 0; i < count; i++)
        above += values[i] > median + least;
    *ret_median = median;
    return above == 1 ? top : SIZE_MAX;
}

/* Beside another cause: part of each step is waiting. */
static bool find_late_peer(const Case *c, WhyVerdict *v)
{
    double median;
    const size_t late = find_late_rank(c, &median);

    if (late == SIZE_MAX || late == 0)
        return false;
    const WhyPeer *peer = &c->in->peers[late - 1];
    v->confidence = WHY_MEDIUM;
    v->share = peer->sm - c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_SM);
    cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "SM active of the late rank", WHY_UNIT_RATIO, peer->sm);
    write_text(v, "waits a part of each step for GPU %" PRIu32 " of its job, which computes %d %% of the time longer",
               peer->index, percent_of(v->share));
    return true;
}

static bool find_straggler(const Case *c, WhyVerdict *v)
{
    double median;

    if (find_late_rank(c, &median) != 0)
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = c->mean[WHY_OF_SM] - median;
    CITE(c, v, WHY_OF_SM, WHY_OF_CLOCK);
    cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "SM active of its job's GPUs, median", WHY_UNIT_RATIO,
                median);
    write_text(v, "the other GPUs of its job wait for it: it computes %d %% of the time longer than they",
               percent_of(v->share));
    return true;
}

/* --- limits of the board, and other people's work ----------------------------------------------------------------- */

/* Share of the known seconds with one of these bits, and the mean clock in them. */
static double share_of_reasons(const Case *c, uint64_t bits, double *ret_clock)
{
    double known = 0, held = 0, clock = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++) {
        const double reasons = c->in->rows[WHY_OF_REASONS][i], share = c->in->rows[WHY_OF_CLOCK][i];

        if (!isfinite(reasons) || !isfinite(share))
            continue;
        known++;
        if ((uint64_t)reasons & bits) {
            held++;
            clock += share;
        }
    }
    *ret_clock = held > 0 ? clock / held : (double)NAN;
    return known > 0 ? held / known : 0;
}

static bool find_throttle(const Case *c, WhyVerdict *v)
{
    double clock, heat_clock, brake_clock, cap_clock;
    const double heat = share_of_reasons(c, REASON_HEAT, &heat_clock);
    const double brake = share_of_reasons(c, REASON_BRAKE, &brake_clock);
    const double cap = share_of_reasons(c, REASON_CAP, &cap_clock), lowered = c->in->limit_share;
    const char *what;

    if (brake >= limit_HELD_SHARE && brake_clock <= limit_HELD_CLOCK) {
        what = "a power brake from outside";
        v->share = brake;
        clock = brake_clock;
    } else if (heat >= limit_HELD_SHARE && heat_clock <= limit_HELD_CLOCK) {
        what = "heat";
        v->share = heat;
        clock = heat_clock;
    } else if (cap >= limit_CAP_SHARE &&
               (cap_clock <= limit_CAP_CLOCK || (lowered <= limit_CAP_LOWERED && cap_clock <= limit_HELD_CLOCK))) {
        what = lowered <= limit_CAP_LOWERED ? "a lowered power limit" : "its power limit";
        v->share = cap;
        clock = cap_clock;
    } else {
        return false;
    }
    v->confidence = WHY_HIGH;
    cite_number(v, metric_get(METRIC_CLOCKS_EVENT_REASONS)->name, "time with that clock reason", WHY_UNIT_RATIO,
                v->share);
    CITE(c, v, WHY_OF_CLOCK, WHY_OF_POWER);
    if (lowered <= limit_CAP_LOWERED)
        cite_number(v, metric_get(METRIC_ENFORCED_POWER_LIMIT)->name, "power limit, of the default", WHY_UNIT_RATIO,
                    lowered);
    write_text(v, "its clocks are held down by %s %d %% of the time, to %d %% of the highest", what,
               percent_of(v->share), percent_of(clock));
    return true;
}

/* An owner on the device, with all of its processes there. */
typedef struct Sharer {
    const char *owner;
    const WhyProcess *largest;
    double sm, cores; /* sums; NaN: not known of any */
} Sharer;

static double add_known(double sum, double value)
{
    return !isfinite(value) ? sum : isfinite(sum) ? sum + value : value;
}

static int compare_sharers(const void *a, const void *b)
{
    const Sharer *x = a, *y = b;

    return (x->sm < y->sm) - (x->sm > y->sm);
}

/* By their parts of the multiprocessors' time, the largest first. Processes without a known owner are nobody's. */
static size_t list_sharers(const Case *c, Sharer out[WHY_SHARERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];
        size_t k = 0;

        if (!p->owner)
            continue;
        while (k < count && strcmp(out[k].owner, p->owner) != 0)
            k++;
        if (k == WHY_SHARERS_MAX)
            continue;
        if (k == count)
            out[count++] = (Sharer){p->owner, p, NAN, NAN};
        out[k].sm = add_known(out[k].sm, p->sm);
        out[k].cores = add_known(out[k].cores, p->cores);
        if (p->sm > out[k].largest->sm)
            out[k].largest = p;
    }
    if (count > 1)
        qsort(out, count, sizeof *out, compare_sharers);
    return count;
}

/* Two owners that both compute: time slices or MPS. */
static bool find_neighbour(const Case *c, WhyVerdict *v)
{
    Sharer sharers[WHY_SHARERS_MAX];
    const size_t count = list_sharers(c, sharers);
    const Sharer *first = &sharers[0], *other = &sharers[1];

    if (count < 2 || !(other->sm >= limit_SHARER))
        return false;
    v->confidence = WHY_HIGH;
    v->share = other->sm;
    for (size_t i = 0; i < count && i < WHY_NAMES_MAX && sharers[i].sm >= limit_SHARER; i++)
        cite_of(v, sharers[i].owner, "nvmlDeviceGetProcessUtilization", "multiprocessors' time", WHY_UNIT_RATIO,
                sharers[i].sm);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM);
    write_text(v,
               "shared: process %" PRIu32 " of %.60s takes %d %% and process %" PRIu32
               " of %.60s %d %%; each waits for the other",
               first->largest->pid, first->owner, percent_of(first->sm), other->largest->pid, other->owner,
               percent_of(other->sm));
    return true;
}

/* Two owners whose programs run, and the driver does not tell whose kernels do: MPS without samples per process. */
static bool find_unsampled_neighbour(const Case *c, WhyVerdict *v)
{
    Sharer sharers[WHY_SHARERS_MAX];
    const size_t count = list_sharers(c, sharers);
    const Sharer *lively[2];
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        if (isfinite(sharers[i].sm))
            return false;
        if (sharers[i].cores >= limit_CPU_ASLEEP && found < 2)
            lively[found++] = &sharers[i];
    }
    if (found < 2)
        return false;
    v->confidence = WHY_LOW;
    v->share = NAN;
    for (size_t i = 0; i < 2; i++)
        cite_of(v, lively[i]->owner, "/proc/PID/stat", "processor time", WHY_UNIT_CORES, lively[i]->cores);
    write_text(v, "programs of %.60s and of %.60s run on it; how much of it each takes the driver does not tell",
               lively[0]->owner, lively[1]->owner);
    return true;
}

/* Instances of one board have their own multiprocessors and memory, and share its power and clock. */
static bool find_board_neighbour(const Case *c, WhyVerdict *v)
{
    double clock, sum = 0;
    const double held = share_of_reasons(c, REASON_CAP, &clock);
    const char *own = c->in->process_count > 0 ? c->in->processes[0].owner : NULL;
    const WhySibling *most = NULL;

    for (size_t i = 0; i < c->in->sibling_count; i++) {
        const WhySibling *s = &c->in->siblings[i];

        if (!s->owner || (own && strcmp(own, s->owner) == 0) || !isfinite(s->sm))
            continue;
        sum += s->sm;
        most = !most || s->sm > most->sm ? s : most;
    }
    if (!most || !(sum >= limit_SHARER) || !(sum > c->in->board_sm) || held < limit_CAP_SHARE ||
        !(clock <= limit_HELD_CLOCK) || c->in->limit_share <= limit_CAP_LOWERED)
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = held;
    cite_of(v, most->owner, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board", WHY_UNIT_RATIO,
            most->sm);
    cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board, by others", WHY_UNIT_RATIO,
                sum);
    cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board, by itself", WHY_UNIT_RATIO,
                c->in->board_sm);
    cite_number(v, metric_get(METRIC_CLOCKS_EVENT_REASONS)->name, "time with that clock reason", WHY_UNIT_RATIO, held);
    cite_number(v, metric_get(METRIC_POWER_USAGE)->name, "power of the board, of its limit", WHY_UNIT_RATIO,
                c->in->board_power);
    CITE(c, v, WHY_OF_CLOCK);
    write_text(v,
               "slowed by its board, which is at its power limit %d %% of the time and at %d %% of the highest clock; "
               "%.60s on MIG %" PRIu32 "/%" PRIu32 " has %d %% of the board at work",
               percent_of(held), percent_of(clock), most->owner, most->gpu_instance, most->compute_instance,
               percent_of(most->sm));
    return true;
}

/* It grows and will be full soon. */
static bool find_memory_growth(const Case *c, WhyVerdict *v)
{
    const double left = c->in->memory_total - c->in->memory_used, seconds = left / c->in->memory_rise;

    if (!(c->in->memory_rise > 0) || !(seconds <= limit_MEMORY_LEFT_S))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = NAN;
    cite_number(v, metric_get(METRIC_FB_USED)->name, "memory used", WHY_UNIT_BYTES, c->in->memory_used);
    cite_number(v, metric_get(METRIC_FB_TOTAL)->name, "memory", WHY_UNIT_BYTES, c->in->memory_total);
    cite_number(v, metric_get(METRIC_FB_USED)->name, "growth", WHY_UNIT_BYTES_PER_SECOND, c->in->memory_rise);
    write_text(v, "its memory runs out in about %.0f min: %.1f GiB are left and it grows by %.0f MiB/min", seconds / 60,
               left / 1073741824.0, c->in->memory_rise * 60 / 1048576.0);
    return true;
}

static bool find_memory_near(const Case *c, WhyVerdict *v)
{
    const double share = c->in->memory_used / c->in->memory_total;

    if (!(share >= limit_MEMORY_NEAR))
        return false;
    v->confidence = WHY_LOW; /* an allocator that keeps what it freed looks the same */
    v->share = NAN;
    cite_number(v, metric_get(METRIC_FB_USED)->name, "memory used", WHY_UNIT_BYTES, c->in->memory_used);
    cite_number(v, metric_get(METRIC_FB_TOTAL)->name, "memory", WHY_UNIT_BYTES, c->in->memory_total);
    write_text(v, "%d %% of its memory is taken: the next allocation may fail, unless the program keeps a cache",
               (int)(100 * share));
    return true;
}

/* --- what these counters cannot tell ------------------------------------------------------------------------------ */

static bool find_nothing(const Case *c, WhyVerdict *v)
{
    static const WhyCause busy[] = {WHY_TENSOR_CORES, WHY_NO_TENSOR_CORES, WHY_DEVICE_MEMORY, WHY_SMALL_BATCH};
    static const WhyCause drawing_little[] = {WHY_LAUNCHES, WHY_COLLECTIVE}, gaps[] = {WHY_INPUT, WHY_LAUNCHES};
    const bool working = c->activity->word == ACTIVITY_WORKING, full = c->mean[WHY_OF_UTIL] >= limit_ALWAYS;
    const WhyCause *between = working ? busy : full ? drawing_little : gaps;

    for (size_t i = 0; i < (working ? ARRAY_LEN(busy) : 2); i++)
        add_between(v, between[i]);
    v->confidence = WHY_LOW;
    v->share = c->mean[WHY_OF_UTIL];
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_DRAM, WHY_OF_POWER, WHY_OF_COPY, WHY_OF_CLOCK);
    if (!working && full && c->activity->window_s < limit_SPIN_S && isfinite(c->mean[WHY_OF_SM]))
        write_text(v,
                   "100 %% busy by utilisation, yet nearly idle: small kernels or a collective that spins; %.0f s of "
                   "readings tell (stoker why --for 40s)",
                   limit_SPIN_S);
    else if (!working && full)
        write_text(v, "100 %% busy by utilisation, yet it draws little power: small kernels one after another, or a "
                      "collective that spins; without SM activity that cannot be told");
    else if (working && !isfinite(c->mean[WHY_OF_TENSOR]))
        write_text(v,
                   "a kernel runs %d %% of the time%s; without profiling counters it cannot be told whether on tensor "
                   "cores, in FP32, bound by memory or with small kernels",
                   percent_of(v->share),
                   c->mean[WHY_OF_POWER] >= limit_REAL_POWER ? ", with the power of real work" : "");
    else
        write_text(v, "%s: no cause stands out in the counters", c->activity->text[0] ? c->activity->text : "at work");
    return true;
}

/* --- the decision ------------------------------------------------------------------------------------------------- */

/* The first that finds its cause answers. Those with `beside` are also told beside another answer. */
static const struct {
    WhyCause cause;
    unsigned on;
    bool beside, alone; /* alone: may be the answer */
    bool (*find)(const Case *c, WhyVerdict *v);
} rules[] = {
    {WHY_UNKNOWN, ON_UNKNOWN, false, true, find_unknown},
    {WHY_FREE, ON_FREE, false, true, find_free},
    {WHY_UNUSABLE, ON_UNUSABLE, false, true, find_unusable},
    {WHY_STUCK, ON_IDLE | ON_INPUT | ON_COLLECTIVE, true, true, find_stuck},
    {WHY_CHECKPOINT, ON_IDLE | ON_INPUT | ON_WORKING, true, true, find_checkpoint},
    {WHY_PCIE, ON_IDLE, false, true, find_pcie},
    {WHY_IDLE_HELD, ON_IDLE, false, true, find_idle},
    {WHY_NETWORK, ON_COLLECTIVE | ON_LAUNCHES | ON_WAITING, false, true, find_full_adapter},
    {WHY_COLLECTIVE, ON_COLLECTIVE, false, true, find_collective},
    {WHY_OTHER_RANK, ON_RANK, false, true, find_other_rank},
    {WHY_MEMORY_FULL, ON_BUSY, true, true, find_memory_growth},
    {WHY_NEIGHBOUR, ON_BUSY, true, true, find_board_neighbour},
    {WHY_THROTTLED, ON_BUSY, true, true, find_throttle},
    {WHY_NEIGHBOUR, ON_BUSY, true, true, find_neighbour},
    {WHY_VIDEO, ON_WORKING, false, true, find_video},
    {WHY_PCIE, ON_INPUT | ON_LAUNCHES | ON_WAITING, true, true, find_pcie},
    {WHY_NETWORK, ON_WORKING | ON_LAUNCHES, false, true, find_network},
    {WHY_INPUT, ON_WORKING, false, true, find_part_input},
    {WHY_FP64, ON_WORKING, false, true, find_fp64},
    {WHY_DEVICE_MEMORY, ON_WORKING | ON_LAUNCHES, false, true, find_memory_bound},
    {WHY_TENSOR_CORES, ON_WORKING, false, true, find_tensor},
    {WHY_SMALL_BATCH, ON_WORKING | ON_LAUNCHES, false, true, find_small_batch},
    {WHY_NO_TENSOR_CORES, ON_WORKING, false, true, find_no_tensor},
    {WHY_INPUT, ON_INPUT | ON_WAITING, false, true, find_input},
    {WHY_LAUNCHES, ON_LAUNCHES | ON_WAITING, false, true, find_launches},
    {WHY_UNCLEAR, ON_BUSY, false, true, find_nothing},
    {WHY_PCIE, ON_WORKING, true, false, find_pcie},
    {WHY_INPUT, ON_WORKING, true, false, find_some_input},
    {WHY_OTHER_RANK, ON_WORKING, true, false, find_late_peer},
    {WHY_STRAGGLER, ON_WORKING, true, false, find_straggler},
    {WHY_MEMORY_FULL, ON_BUSY, true, false, find_memory_near},
    {WHY_CHECKPOINT, ON_BUSY, true, false, find_checkpoints},
    {WHY_NEIGHBOUR, ON_BUSY, true, false, find_unsampled_neighbour},
};

static unsigned state_of(const Activity *a)
{
    static const unsigned words[ACTIVITY_END] = {
        [ACTIVITY_UNKNOWN] = ON_UNKNOWN, [ACTIVITY_WORKING] = ON_WORKING, [ACTIVITY_WAITING] = ON_WAITING,
        [ACTIVITY_IDLE_HELD] = ON_IDLE,  [ACTIVITY_FREE] = ON_FREE,       [ACTIVITY_UNUSABLE] = ON_UNUSABLE,
    };
    static const unsigned causes[ACTIVITY_CAUSE_END] = {
        [ACTIVITY_CAUSE_NONE] = ON_WAITING,      [ACTIVITY_CAUSE_INPUT] = ON_INPUT,
        [ACTIVITY_CAUSE_LAUNCHES] = ON_LAUNCHES, [ACTIVITY_CAUSE_COLLECTIVE] = ON_COLLECTIVE,
        [ACTIVITY_CAUSE_OTHER_RANK] = ON_RANK,
    };

    return a->word == ACTIVITY_WAITING ? causes[a->cause] : words[a->word];
}

static bool has_cause(const Why *why, WhyCause cause)
{
    for (uint32_t i = 0; i < why->count; i++)
        if (why->verdicts[i].cause == cause)
            return true;
    return false;
}

/* With few seconds nothing is certain, but for what is a fact. */
static void weaken_short(const Case *c, WhyVerdict *v)
{
    const bool measured = c->activity->word == ACTIVITY_WORKING || c->activity->word == ACTIVITY_WAITING;

    if (measured && c->activity->window_s < limit_SHORT_S && v->confidence == WHY_HIGH)
        v->confidence = WHY_MEDIUM;
}

void why_decide(const WhyInput *input, Why *ret)
{
    const uint32_t window_s = input->activity->window_s;
    const unsigned state = state_of(input->activity);
    Case c = {.in = input, .activity = input->activity};

    c.from = window_s > 0 && window_s < ACTIVITY_WINDOW_S ? ACTIVITY_WINDOW_S - (int)window_s : 0;
    for (WhySeries k = 0; k < WHY_SERIES_END; k++)
        c.mean[k] = seconds_mean(input->rows[k], c.from);
    *ret = (Why){.window_s = window_s};
    for (size_t i = 0; i < ARRAY_LEN(rules) && ret->count < WHY_VERDICTS_MAX; i++) {
        WhyVerdict v = {.cause = rules[i].cause, .share = NAN};

        if (!(rules[i].on & state) || !(ret->count == 0 ? rules[i].alone : rules[i].beside) ||
            has_cause(ret, rules[i].cause) || !rules[i].find(&c, &v))
            continue;
        weaken_short(&c, &v);
        ret->verdicts[ret->count++] = v;
    }
}
