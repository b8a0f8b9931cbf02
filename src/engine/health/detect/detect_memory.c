/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's memory: errors, rows, pages, and the GPU's own record of itself. */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- ecc-uncorrectable ---- */

typedef struct UncorrectableMem {
    DetectVerdict verdict; /* never holds: each rise is a moment */
    bool known;
    double told;      /* highest count that was told since it began at zero */
    uint64_t rose_ns; /* first look that saw more; 0: there is no more */
} UncorrectableMem;

static void tell_uncorrectable(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, double now)
{
    const UncorrectableMem *mem = detect_memory(watch, seen->slot);
    DetectVerdict moment = {0};

    if (mem->known)
        detect_holds(turn, &moment, "%.0f uncorrectable memory errors since the driver was loaded, %.0f before", now,
                     mem->told);
    else
        detect_holds(turn, &moment, "%.0f uncorrectable memory errors since the driver was loaded", now);
    detect_counter(&moment, metric_get(METRIC_ECC_DBE_VOL_TOTAL)->name, mem->known ? mem->told : NAN, now);
    detect_give_event(turn, watch, &moment, &seen->gpu->reading.device, -1);
}

/* A count that is not zero when it is first seen is news too: the GPU was not reset since. The log, which knows how far
 * the error went, has a moment to say so first. */
static void uncorrectable_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    UncorrectableMem *mem = detect_memory(watch, seen->slot);
    double now;

    if (!detect_value(turn, seen, METRIC_ECC_DBE_VOL_TOTAL, &now))
        return;
    if (now < mem->told)
        mem->told = 0; /* began anew */
    if (now <= mem->told || now <= detect_param(watch, ECC_UNCORRECTABLE_ABOVE)) {
        mem->rose_ns = 0;
        mem->known = true;
        return;
    }
    if (mem->rose_ns == 0)
        mem->rose_ns = turn->now_ns;
    if (detect_since(turn->now_ns, mem->rose_ns) < detect_time(watch, ECC_UNCORRECTABLE_SETTLE))
        return;
    tell_uncorrectable(watch, turn, seen, now);
    *mem = (UncorrectableMem){.verdict = mem->verdict, .known = true, .told = now};
}

const DetectImpl detect_ecc_uncorrectable = {
    .size = sizeof(UncorrectableMem),
    .each = uncorrectable_each,
    .metrics = (const MetricId[]){METRIC_ECC_DBE_VOL_TOTAL, METRIC_END},
};

/* ---- ecc-rate ---- */

enum { RATE_RISES = 3 }; /* one burst is no rate */

typedef struct RateMem {
    DetectVerdict verdict;
    Trail errors;
    bool known;
    TrailSpan span;
} RateMem;

static void rate_look(DetectWatch *watch, const DetectTurn *turn)
{
    const uint64_t window_ns = detect_time(watch, ECC_RATE_WINDOW);
    double errors;

    for (size_t i = 0; i < turn->count; i++) {
        const DetectSeen *seen = &turn->at[i];
        RateMem *mem = detect_memory(watch, seen->slot);

        mem->known = false;
        if (!detect_value(turn, seen, METRIC_ECC_SBE_VOL_TOTAL, &errors))
            continue;
        trail_count(&mem->errors, detect_sample(seen, METRIC_ECC_SBE_VOL_TOTAL)->time_ns, errors, window_ns);
        mem->known = trail_span(&mem->errors, window_ns, 0.5, &mem->span);
    }
}

static double peers_rate(const DetectWatch *watch, const DetectTurn *turn, const DetectSeen *but)
{
    double rates[NODE_GPUS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < turn->count; i++) {
        const RateMem *mem = detect_memory(watch, turn->at[i].slot);

        if (&turn->at[i] != but && mem->known)
            rates[count++] = mem->span.sum / mem->span.seconds;
    }
    return detect_median(rates, count);
}

static void rate_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    RateMem *mem = detect_memory(watch, seen->slot);
    const Sample *sample = detect_sample(seen, METRIC_ECC_SBE_VOL_TOTAL);

    if (!mem->known) {
        detect_absent(turn, &mem->verdict, seen, sample);
        return;
    }
    const double rate = mem->span.sum / mem->span.seconds, limit = detect_param(watch, ECC_RATE_RATE);
    const double less = mem->verdict.holds ? 0.5 : 1;
    bool bad = rate >= limit * less && mem->span.rises >= RATE_RISES;
    const double peers = bad ? peers_rate(watch, turn, seen) : 0;
    if (!bad ||
        (rate < detect_param(watch, ECC_RATE_SURE) && rate < peers * detect_param(watch, ECC_RATE_PEERS) * less)) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict,
                 "%.3g corrected memory errors per second over %.0f s, %.3g on the node's other GPUs; %.0f in all",
                 rate, mem->span.seconds, peers, mem->errors.last);
    detect_counter(&mem->verdict, metric_get(METRIC_ECC_SBE_VOL_TOTAL)->name, mem->errors.last - mem->span.sum,
                   mem->errors.last);
}

const DetectImpl detect_ecc_rate = {
    .size = sizeof(RateMem),
    .look = rate_look,
    .each = rate_each,
    .metrics = (const MetricId[]){METRIC_ECC_SBE_VOL_TOTAL, METRIC_END},
};

/* ---- flags ---- */

typedef struct FlagMem {
    DetectVerdict verdict;
    Trail pages;
} FlagMem;

typedef struct Flag {
    MetricId id;
    int64_t bad;
    const char *text;
} Flag;

/* The first flag that is up; NULL: none. `known` where any could be read. */
static const Flag *flag_up(const DetectTurn *turn, const DetectSeen *seen, const Flag *flags, size_t count, bool *known)
{
    int64_t value;

    *known = false;
    for (size_t i = 0; i < count; i++) {
        if (!detect_int(turn, seen, flags[i].id, &value))
            continue;
        *known = true;
        if ((value != 0) == (flags[i].bad != 0))
            return &flags[i];
    }
    return NULL;
}

/* A flag that is up stays believed while another one can be read and it cannot. */
static const Flag *judge_flags(const DetectTurn *turn, const DetectSeen *seen, const Flag *flags, size_t count,
                               DetectVerdict *verdict)
{
    bool known;
    const Flag *up = flag_up(turn, seen, flags, count, &known);
    int64_t first;

    if (up)
        return up;
    if (known && (!verdict->holds || detect_int(turn, seen, flags[0].id, &first)))
        detect_fine(turn, verdict);
    else
        detect_absent(turn, verdict, seen, detect_sample(seen, flags[0].id));
    return NULL;
}

static const Flag waiting[] = {
    {METRIC_ROW_REMAP_PENDING, 1, "a memory row waits for a reset to be remapped"},
    {METRIC_CHANNEL_REPAIR_PENDING, 1, "a memory channel waits for a reset to be repaired"},
    {METRIC_TPC_REPAIR_PENDING, 1, "a processing cluster waits for a reset to be repaired"},
};
static const Flag failed[] = {
    {METRIC_ROW_REMAP_FAILURE, 1, "a memory row could not be remapped"},
    {METRIC_UNREPAIRABLE_MEMORY, 1, "the driver calls the memory beyond repair"},
};
static const Flag sram[] = {{METRIC_SRAM_THRESHOLD, 1, "the flag for too many SRAM errors is up"}};
static const Flag inforom[] = {{METRIC_INFOROM_VALID, 0, "the checksums of the InfoROM are wrong"}};

static void remap_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FlagMem *mem = detect_memory(watch, seen->slot);
    const bool wait = (int)detect_param(watch, REMAP_WHAT) == 0;
    const Flag *up = wait ? judge_flags(turn, seen, waiting, ARRAY_LEN(waiting), &mem->verdict)
                          : judge_flags(turn, seen, failed, ARRAY_LEN(failed), &mem->verdict);
    double bad = 0, good = 0;

    if (!up)
        return;
    if (detect_value(turn, seen, METRIC_UNCORRECTABLE_REMAPPED_ROWS, &bad) &&
        detect_value(turn, seen, METRIC_CORRECTABLE_REMAPPED_ROWS, &good))
        detect_holds(turn, &mem->verdict, "%s; remapped so far: %.0f for uncorrectable errors, %.0f for corrected ones",
                     up->text, bad, good);
    else
        detect_holds(turn, &mem->verdict, "%s", up->text);
}

const DetectImpl detect_remap = {
    .size = sizeof(FlagMem),
    .each = remap_each,
    .metrics = (const MetricId[]){METRIC_ROW_REMAP_PENDING, METRIC_CHANNEL_REPAIR_PENDING, METRIC_TPC_REPAIR_PENDING,
                                  METRIC_ROW_REMAP_FAILURE, METRIC_UNREPAIRABLE_MEMORY,
                                  METRIC_UNCORRECTABLE_REMAPPED_ROWS, METRIC_CORRECTABLE_REMAPPED_ROWS, METRIC_END},
};

static void sram_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FlagMem *mem = detect_memory(watch, seen->slot);
    const Flag *up = judge_flags(turn, seen, sram, ARRAY_LEN(sram), &mem->verdict);
    double all;

    if (up && detect_value(turn, seen, METRIC_ECC_SRAM_UNC_AGGREGATE, &all))
        detect_holds(turn, &mem->verdict, "%s: %.0f uncorrected in its life", up->text, all);
    else if (up)
        detect_holds(turn, &mem->verdict, "%s", up->text);
}

const DetectImpl detect_sram_threshold = {
    .size = sizeof(FlagMem),
    .each = sram_each,
    .metrics = (const MetricId[]){METRIC_SRAM_THRESHOLD, METRIC_ECC_SRAM_UNC_AGGREGATE, METRIC_END},
};

static void inforom_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FlagMem *mem = detect_memory(watch, seen->slot);
    const Flag *up = judge_flags(turn, seen, inforom, ARRAY_LEN(inforom), &mem->verdict);

    if (up)
        detect_holds(turn, &mem->verdict, "%s", up->text);
}

const DetectImpl detect_inforom = {
    .size = sizeof(FlagMem),
    .each = inforom_each,
    .metrics = (const MetricId[]){METRIC_INFOROM_VALID, METRIC_END},
};

/* ---- remap-rows, retired-pages ---- */

static void rows_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FlagMem *mem = detect_memory(watch, seen->slot);
    double bad = 0, good = 0, low = 0, none = 0;
    const bool rows = detect_value(turn, seen, METRIC_UNCORRECTABLE_REMAPPED_ROWS, &bad) &&
                      detect_value(turn, seen, METRIC_CORRECTABLE_REMAPPED_ROWS, &good);
    const bool banks = detect_value(turn, seen, METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, &low) &&
                       detect_value(turn, seen, METRIC_BANKS_REMAP_ROWS_AVAIL_NONE, &none);

    if ((rows && bad + good >= detect_param(watch, REMAP_ROWS_ROWS)) ||
        (banks && low + none >= detect_param(watch, REMAP_ROWS_BANKS)))
        detect_holds(turn, &mem->verdict, "%.0f memory rows remapped; %.0f banks have few spare rows left, %.0f none",
                     bad + good, low, none);
    else if (rows && (banks || !mem->verdict.holds))
        detect_fine(turn, &mem->verdict);
    else
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_UNCORRECTABLE_REMAPPED_ROWS));
}

const DetectImpl detect_remap_rows = {
    .size = sizeof(FlagMem),
    .each = rows_each,
    .metrics = (const MetricId[]){METRIC_UNCORRECTABLE_REMAPPED_ROWS, METRIC_CORRECTABLE_REMAPPED_ROWS,
                                  METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, METRIC_BANKS_REMAP_ROWS_AVAIL_NONE, METRIC_END},
};

static void judge_pages(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen, FlagMem *mem)
{
    const uint64_t window_ns = detect_time(watch, RETIRED_WINDOW);
    double twice, once;
    TrailSpan span;

    if (!detect_value(turn, seen, METRIC_RETIRED_DBE, &twice) || !detect_value(turn, seen, METRIC_RETIRED_SBE, &once)) {
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_RETIRED_DBE));
        return;
    }
    trail_count(&mem->pages, detect_sample(seen, METRIC_RETIRED_DBE)->time_ns, twice, window_ns);
    if (!trail_span(&mem->pages, window_ns, 0, &span))
        span = (TrailSpan){0};
    const bool recent = span.sum >= detect_param(watch, RETIRED_RECENT);
    if (twice > detect_param(watch, RETIRED_DOUBLE) || twice + once >= detect_param(watch, RETIRED_TOTAL) || recent)
        detect_holds(turn, &mem->verdict,
                     "%.0f pages retired for double bit errors%s, %.0f for single bit errors; the vendor accepts %.0f, "
                     "and fewer than %.0f in all",
                     twice, recent ? ", many of them lately" : "", once, detect_param(watch, RETIRED_DOUBLE),
                     detect_param(watch, RETIRED_TOTAL));
    else
        detect_fine(turn, &mem->verdict);
}

static void pages_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    FlagMem *mem = detect_memory(watch, seen->slot);
    double waits;

    if ((int)detect_param(watch, RETIRED_WHAT) == 1)
        judge_pages(watch, turn, seen, mem);
    else if (!detect_value(turn, seen, METRIC_RETIRED_PENDING, &waits))
        detect_absent(turn, &mem->verdict, seen, detect_sample(seen, METRIC_RETIRED_PENDING));
    else if (waits > 0)
        detect_holds(turn, &mem->verdict, "retired pages wait for a reload of the driver");
    else
        detect_fine(turn, &mem->verdict);
}

const DetectImpl detect_retired_pages = {
    .size = sizeof(FlagMem),
    .each = pages_each,
    .metrics = (const MetricId[]){METRIC_RETIRED_SBE, METRIC_RETIRED_DBE, METRIC_RETIRED_PENDING, METRIC_END},
};
