/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/why/roof.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/peak.h"

enum { FRESH_S = 5, NUMBER_CAP = 32 };

/* Of its nearest roof, at least, to be near one: DCGM's guide has 0.3 to 0.6 of tensor activity for good training. */
static const double near_share = 0.30;
/* Shares of both roofs that are less than this apart, as a ratio, are alike: neither is known so well. */
static const double alike = 1.2;
/* Bytes per second, and operations per second of the peak: below, there is next to nothing, and no ratio of it. */
static const double least_bytes = 1e6, least_share = 0.0005;

const MetricId roof_metrics[ROOF_SERIES_END] = {
    [ROOF_OF_TENSOR] = METRIC_PROF_PIPE_TENSOR_ACTIVE,
    [ROOF_OF_IMMA] = METRIC_PROF_PIPE_TENSOR_IMMA_ACTIVE,
    [ROOF_OF_DFMA] = METRIC_PROF_PIPE_TENSOR_DFMA_ACTIVE,
    [ROOF_OF_FP64] = METRIC_PROF_PIPE_FP64_ACTIVE,
    [ROOF_OF_FP32] = METRIC_PROF_PIPE_FP32_ACTIVE,
    [ROOF_OF_FP16] = METRIC_PROF_PIPE_FP16_ACTIVE,
    [ROOF_OF_DRAM] = METRIC_PROF_DRAM_ACTIVE,
    [ROOF_OF_SM_CLOCK] = METRIC_SM_CLOCK,
    [ROOF_OF_MEMORY_CLOCK] = METRIC_MEM_CLOCK,
};

/* What a device has: a board, or an instance of one. */
typedef struct Shape {
    const Peak *peak; /* NULL: not known */
    double sm_count, memory_part;
} Shape;

/* A pipe, or what tensor cores do in one type. */
typedef struct Work {
    const char *type;
    double flops, peak, share;
} Work;

enum {
    TENSOR_HALF,
    TENSOR_INTEGER,
    TENSOR_DOUBLE,
    TENSOR_TYPES,
    PIPE_FP64 = TENSOR_TYPES,
    PIPE_FP32,
    PIPE_FP16,
    WORKS
};

__attribute__((format(printf, 2, 3))) static void add_absent(Roof *roof, const char *fmt, ...)
{
    const size_t len = strlen(roof->absent);
    va_list args;

    va_start(args, fmt);
    snprintf(roof->absent + len, sizeof roof->absent - len, "%s", len ? "; " : "");
    vsnprintf(roof->absent + strlen(roof->absent), sizeof roof->absent - strlen(roof->absent), fmt, args);
    va_end(args);
}

/* --- the mean of the window --------------------------------------------------------------------------------------- */

static int first_second(const RoofInput *in)
{
    return in->window_s > 0 && in->window_s < ACTIVITY_WINDOW_S ? ACTIVITY_WINDOW_S - (int)in->window_s : 0;
}

static bool is_fresh(const RoofInput *in, RoofSeries k)
{
    return isfinite(seconds_mean(in->rows[k], ACTIVITY_WINDOW_S - FRESH_S));
}

/* Of an activity times a clock, of seconds that have both; the activity alone without one (ROOF_SERIES_END). NaN: not
 * known, or an old value. */
static double mean_of(const RoofInput *in, RoofSeries activity, RoofSeries clock)
{
    double products[ACTIVITY_WINDOW_S];

    if (!is_fresh(in, activity) || (clock != ROOF_SERIES_END && !is_fresh(in, clock)))
        return NAN;
    for (int i = 0; i < ACTIVITY_WINDOW_S; i++)
        products[i] = in->rows[activity][i] * (clock == ROOF_SERIES_END ? 1 : in->rows[clock][i] * 1e6);
    return seconds_mean(products, first_second(in));
}

static const char *explain_absence(const RoofInput *in, RoofSeries k)
{
    return in->absent[k] ? in->absent[k] : isfinite(seconds_mean(in->rows[k], 0)) ? "no fresh value" : "no value";
}

/* --- what the device has ------------------------------------------------------------------------------------------ */

/* "1c.3g.40gb" is a part of a GPU instance, whose memory it shares. */
static bool is_shared_part(const char *profile)
{
    return strchr(profile, 'c') != NULL;
}

/* False: its share of the board is not known. */
static bool find_shape(const RoofInput *in, Shape *ret, Roof *roof)
{
    *ret = (Shape){.peak = peak_find(in->gpu_name), .memory_part = 1};
    if (ret->peak)
        ret->sm_count = ret->peak->sm_count;
    if (!in->instance)
        return true;
    if (is_shared_part(in->profile)) {
        add_absent(roof, "it shares its memory with other compute instances of its GPU instance");
        return false;
    }
    const PeakMig *mig = peak_find_mig(in->gpu_name, (int)strtol(in->profile, NULL, 10), in->instance_share);
    if (!mig) {
        add_absent(roof, "which part of the board this instance has is not known");
        return false;
    }
    ret->sm_count = mig->sm_count;
    ret->memory_part = (double)mig->memory_slices / mig->memory_of;
    return true;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static double rate_of(const Shape *s, PeakType type)
{
    double clock;

    return peak_per_clock(s->peak, type, &clock);
}

/* `rate`: operations per multiprocessor and clock. The peak is at the clock of the sheet's figure for `type`. */
static Work make_work(const Shape *s, const char *word, PeakType type, double rate, double cycles)
{
    double clock;

    peak_per_clock(s->peak, type, &clock);
    if (!(cycles > 0) || !(rate > 0))
        return (Work){.type = word};
    return (Work){.type = word,
                  .flops = rate * s->sm_count * cycles,
                  .peak = rate * s->sm_count * clock,
                  .share = cycles / clock};
}

/* Of tensor cores in integers and in 64 bit, as it is told, and all else as 16 bit; then of the other pipes, where a
 * multiply-add is two operations, too. 64 bit off tensor cores is at most half as fast as 32 bit; where it is that
 * fast, pairs of 16 bit are 512 (CUDA programming guide, throughput of arithmetic instructions). */
static void list_works(const RoofInput *in, const Shape *s, double tensor, Work out[WORKS])
{
    const double integers = fmax(mean_of(in, ROOF_OF_IMMA, ROOF_OF_SM_CLOCK), 0);
    const double doubles = fmax(mean_of(in, ROOF_OF_DFMA, ROOF_OF_SM_CLOCK), 0);
    const double rates[] = {rate_of(s, PEAK_FP16), rate_of(s, PEAK_INT8), rate_of(s, PEAK_FP64), rate_of(s, PEAK_FP32)};

    out[TENSOR_HALF] = make_work(s, "fp16", PEAK_FP16, rates[0], tensor - integers - doubles);
    out[TENSOR_INTEGER] = make_work(s, "int8", PEAK_INT8, rates[1], integers);
    out[TENSOR_DOUBLE] = make_work(s, "fp64", PEAK_FP64, rates[2], doubles);
    out[PIPE_FP64] =
        make_work(s, "fp64", PEAK_FP64, fmin(rates[2], rates[3] / 2), mean_of(in, ROOF_OF_FP64, ROOF_OF_SM_CLOCK));
    out[PIPE_FP32] = make_work(s, "fp32", PEAK_FP32, rates[3], mean_of(in, ROOF_OF_FP32, ROOF_OF_SM_CLOCK));
    out[PIPE_FP16] =
        make_work(s, "fp16", PEAK_FP32, rates[2] >= 128 ? 512 : 256, mean_of(in, ROOF_OF_FP16, ROOF_OF_SM_CLOCK));
}

/* The busiest pipe: tensor cores with all their types, or another one. */
static const Work *find_busiest(const Work works[WORKS], double *ret_share)
{
    const Work *most = &works[TENSOR_HALF];
    double share = 0;

    for (size_t i = 0; i < TENSOR_TYPES; i++) {
        share += works[i].share;
        most = works[i].share > most->share ? &works[i] : most;
    }
    for (size_t i = TENSOR_TYPES; i < WORKS; i++)
        if (works[i].share > share) {
            most = &works[i];
            share = most->share;
        }
    *ret_share = share;
    return most;
}

/* 16 bit is told neither from the slower TF32 nor from 8 and 4 bit. */
static void estimate_band(const Shape *s, double half, Roof *roof)
{
    const double sixteen = rate_of(s, PEAK_FP16), slow = rate_of(s, PEAK_TF32);
    const double fast = fmax(rate_of(s, PEAK_FP8), rate_of(s, PEAK_FP4));

    roof->flops_low = roof->flops - (slow > 0 ? half * (1 - slow / sixteen) : 0);
    roof->flops_high = roof->flops + (fast > sixteen ? half * (fast / sixteen - 1) : 0);
}

static void estimate_flops(const RoofInput *in, const Shape *s, Roof *roof)
{
    const double tensor = mean_of(in, ROOF_OF_TENSOR, ROOF_OF_SM_CLOCK);
    Work works[WORKS];

    if (!is_fresh(in, ROOF_OF_TENSOR)) {
        add_absent(roof, "tensor activity: %s", explain_absence(in, ROOF_OF_TENSOR));
        return;
    }
    if (!(tensor >= 0)) {
        add_absent(roof, "SM clock: %s", explain_absence(in, ROOF_OF_SM_CLOCK));
        return;
    }
    if (!s->peak) {
        add_absent(roof, "the peak of this board is not known");
        return;
    }
    list_works(in, s, tensor, works);
    const Work *most = find_busiest(works, &roof->flops_share);
    roof->flops = 0;
    for (size_t i = 0; i < WORKS; i++)
        roof->flops += works[i].flops;
    if (roof->flops_share > 0) {
        roof->flops_peak = most->peak;
        snprintf(roof->type, sizeof roof->type, "%s", most->type);
    }
    estimate_band(s, works[TENSOR_HALF].flops, roof);
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* Two transfers per clock of the memory (5120 bits at 2619 MHz are the 3.35 TB/s of an H100's data sheet); without
 * the width or the clock by the data sheet. */
static void estimate_bytes(const RoofInput *in, const Shape *s, Roof *roof)
{
    const double share = mean_of(in, ROOF_OF_DRAM, ROOF_SERIES_END);
    const double cycles = mean_of(in, ROOF_OF_DRAM, ROOF_OF_MEMORY_CLOCK);

    if (isnan(share))
        add_absent(roof, "memory activity: %s", explain_absence(in, ROOF_OF_DRAM));
    else if (in->bus_bits > 0 && isfinite(cycles))
        roof->bytes = 2 * cycles * in->bus_bits / 8 * s->memory_part;
    else if (s->peak)
        roof->bytes = share * s->peak->memory_gbs * 1e9 * s->memory_part;
    else
        add_absent(roof, "the bandwidth of this board's memory is not known");
    if (isfinite(roof->bytes))
        roof->bytes_share = share;
}

/* --- the roof ----------------------------------------------------------------------------------------------------- */

/* FLOP/s over the lower of peak and intensity times bandwidth is the larger of both shares. */
static void find_nearest(Roof *roof)
{
    if (isnan(roof->flops) || isnan(roof->bytes))
        return;
    if (roof->bytes >= least_bytes)
        roof->intensity = roof->flops / roof->bytes;
    roof->position = fmax(roof->flops_share, roof->bytes_share);
    if (roof->position < near_share)
        roof->nearest = ROOF_NEITHER;
    else if (roof->position <= alike * fmin(roof->flops_share, roof->bytes_share))
        roof->nearest = ROOF_BOTH;
    else
        roof->nearest = roof->bytes_share > roof->flops_share ? ROOF_MEMORY : ROOF_COMPUTE;
}

/* "310 TFLOP/s", "2.1 TB/s" */
static const char *write_rate(char out[NUMBER_CAP], double value, const char *unit)
{
    static const struct {
        double from;
        const char *letter;
    } steps[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {0, ""}};
    size_t i = 0;

    while (value < 0.9995 * steps[i].from)
        i++;
    value /= steps[i].from > 0 ? steps[i].from : 1;
    snprintf(out, NUMBER_CAP, "%.*f %s%s", value < 9.95 && value > 0, value, steps[i].letter, unit);
    return out;
}

static const char *type_title(const char *type)
{
    static const char *const titles[][2] = {
        {"fp16", "FP16 or BF16"}, {"fp32", "FP32"}, {"fp64", "FP64"}, {"int8", "INT8"}};

    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        if (strcmp(type, titles[i][0]) == 0)
            return titles[i][1];
    return type;
}

/* " (203 TFLOP/s if TF32, 811 TFLOP/s if FP8: ...)" where 16 bit may be another type. */
static void write_band(const Shape *s, const Roof *roof, char out[ROOF_WHY_CAP])
{
    const bool slower = roof->flops > roof->flops_low;
    const bool faster = roof->flops_high > roof->flops;
    char low[NUMBER_CAP + 16] = "", high[NUMBER_CAP + 16] = "", rate[NUMBER_CAP];

    out[0] = '\0';
    if (strcmp(roof->type, "fp16") != 0 || (!slower && !faster))
        return;
    if (slower)
        snprintf(low, sizeof low, "%s if TF32", write_rate(rate, roof->flops_low, "FLOP/s"));
    if (faster)
        snprintf(high, sizeof high, "%s if %s", write_rate(rate, roof->flops_high, "FLOP/s"),
                 rate_of(s, PEAK_FP4) > 0 ? "FP4" : "FP8");
    snprintf(out, ROOF_WHY_CAP, " (%s%s%s: the counters do not tell)", low, slower && faster ? ", " : "", high);
}

static void write_flops(const Shape *s, const Roof *roof, char out[ROOF_WHY_CAP])
{
    char rate[NUMBER_CAP], band[ROOF_WHY_CAP];

    write_rate(rate, roof->flops, "FLOP/s");
    if (roof->flops_share < least_share) {
        snprintf(out, ROOF_WHY_CAP, "about %s", rate);
        return;
    }
    write_band(s, roof, band);
    snprintf(out, ROOF_WHY_CAP, "about %s in %s, %.0f %% of the peak%.80s", rate, type_title(roof->type),
             100 * roof->flops_share, band);
}

static void write_text(const Shape *s, Roof *roof)
{
    char flops[ROOF_WHY_CAP] = "", bytes[ROOF_WHY_CAP] = "", rate[NUMBER_CAP], end[ROOF_WHY_CAP] = "";

    if (isfinite(roof->flops))
        write_flops(s, roof, flops);
    if (isfinite(roof->bytes))
        snprintf(bytes, sizeof bytes, "about %s of memory, %.0f %%", write_rate(rate, roof->bytes, "B/s"),
                 100 * roof->bytes_share);
    if (isfinite(roof->intensity))
        snprintf(end, sizeof end, "; %.*f FLOP/byte", roof->intensity < 9.95, roof->intensity);
    snprintf(roof->text, sizeof roof->text, "%s%s%s%s", flops, flops[0] && bytes[0] ? "; " : "", bytes, end);
    const size_t len = strlen(roof->text);
    if (roof->nearest == ROOF_NEITHER)
        snprintf(roof->text + len, sizeof roof->text - len, "; far below both roofs");
    else if (roof->nearest == ROOF_BOTH)
        snprintf(roof->text + len, sizeof roof->text - len, "; as near to the roof of memory as to that of compute");
    else if (roof->nearest != ROOF_UNKNOWN)
        snprintf(roof->text + len, sizeof roof->text - len, "; nearest roof: %s, at %.0f %%",
                 roof_kinds[roof->nearest].key, 100 * roof->position);
    if (roof->absent[0])
        snprintf(roof->text + len, sizeof roof->text - len, "%s%s: %s", len ? "; " : "",
                 len ? "the rest is not known" : "not known", roof->absent);
}

void roof_estimate(const RoofInput *input, Roof *ret)
{
    Roof roof = {.window_s = input->window_s,
                 .flops = NAN,
                 .flops_low = NAN,
                 .flops_high = NAN,
                 .flops_peak = NAN,
                 .flops_share = NAN,
                 .bytes = NAN,
                 .bytes_share = NAN,
                 .intensity = NAN,
                 .position = NAN};
    Shape shape;

    if (find_shape(input, &shape, &roof)) {
        estimate_flops(input, &shape, &roof);
        estimate_bytes(input, &shape, &roof);
        find_nearest(&roof);
    }
    write_text(&shape, &roof);
    *ret = roof;
}
