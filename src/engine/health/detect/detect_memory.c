/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's memory: errors, rows, pages, and the GPU's own record of itself. */
#include <inttypes.h>
#include <math.h>

#include "engine/health/detect/detector.h"

/* --- ecc-uncorrectable -------------------------------------------------------------------------------------------- */

typedef struct UncorrectableMemory {
    bool known;
    double reported;  /* highest count that was reported since it began at zero */
    uint64_t rose_ns; /* first tick that saw more; 0: there is no more */
} UncorrectableMemory;

/* Each rise is a moment. A count that is not zero when it is first seen is news too: the GPU was not reset since. The
 * log, which knows how far the error went, has a moment to say so first. */
static DetectOutcome check_uncorrectable(const DetectCase *c)
{
    UncorrectableMemory *memory = c->memory;
    const char *name = metric_get(METRIC_ECC_DBE_VOL_TOTAL)->name;
    double now;

    if (!detect_value(c, METRIC_ECC_DBE_VOL_TOTAL, &now))
        return DETECT_SAME;
    if (now < memory->reported)
        memory->reported = 0; /* began anew */
    const bool rose = now > memory->reported && now > detect_param(c, ECC_UNCORRECTABLE_ABOVE);
    memory->known |= !rose;
    if (detect_lasts(c, rose, &memory->rose_ns) < detect_time(c, ECC_UNCORRECTABLE_SETTLE) || !rose)
        return DETECT_SAME;
    if (memory->known)
        detect_hold(c, "%.0f uncorrectable memory errors since the driver was loaded, %.0f before", now,
                    memory->reported);
    else
        detect_hold(c, "%.0f uncorrectable memory errors since the driver was loaded", now);
    detect_counter(c, name, memory->known ? memory->reported : NAN, now);
    detect_report_moment(c, &c->gpu->reading.device, -1);
    *memory = (UncorrectableMemory){.known = true, .reported = now};
    return DETECT_SAME;
}

const DetectImpl detect_ecc_uncorrectable = {.size = sizeof(UncorrectableMemory),
                                             .of_gpu = check_uncorrectable,
                                             .metrics = DETECT_METRICS(METRIC_ECC_DBE_VOL_TOTAL)};

/* --- ecc-rate ----------------------------------------------------------------------------------------------------- */

enum { RATE_RISES = 3 }; /* one burst is no rate */

typedef struct RateMemory {
    Trail errors;
    bool known;
    TrailSpan span;
} RateMemory;

static DetectOutcome count_corrected(const DetectCase *c)
{
    const uint64_t window_ns = detect_time(c, ECC_RATE_WINDOW);

    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase of = detect_peer(c, i);
        RateMemory *memory = of.memory;

        memory->known = trail_count_metric(&memory->errors, &of, METRIC_ECC_SBE_VOL_TOTAL, window_ns) &&
                        trail_span(&memory->errors, window_ns, 0.5, &memory->span);
    }
    return DETECT_SAME;
}

static double find_peers_rate(const DetectCase *c)
{
    double rates[NODE_GPUS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < c->tick->count; i++) {
        const DetectCase peer = detect_peer(c, i);
        const RateMemory *memory = peer.memory;

        if (peer.gpu != c->gpu && memory->known)
            rates[count++] = memory->span.rate;
    }
    return detect_median(rates, count);
}

static DetectOutcome check_corrected_rate(const DetectCase *c)
{
    const RateMemory *memory = c->memory;
    const TrailSpan *span = &memory->span;
    const double easier = c->finding->holds ? 0.5 : 1;

    if (!memory->known)
        return detect_absent(c, detect_sample(c, METRIC_ECC_SBE_VOL_TOTAL));
    if (span->rate < detect_param(c, ECC_RATE_RATE) * easier || span->rises < RATE_RISES)
        return DETECT_FINE;
    const double peers = find_peers_rate(c);
    if (span->rate < detect_param(c, ECC_RATE_SURE) && span->rate < peers * detect_param(c, ECC_RATE_PEERS) * easier)
        return DETECT_FINE;
    detect_hold(c, "%.3g corrected memory errors per second over %.0f s, %.3g on the node's other GPUs; %.0f in all",
                span->rate, span->seconds, peers, memory->errors.last);
    return detect_counter(c, metric_get(METRIC_ECC_SBE_VOL_TOTAL)->name, memory->errors.last - span->sum,
                          memory->errors.last);
}

const DetectImpl detect_ecc_rate = {.size = sizeof(RateMemory),
                                    .of_node = count_corrected,
                                    .of_gpu = check_corrected_rate,
                                    .metrics = DETECT_METRICS(METRIC_ECC_SBE_VOL_TOTAL)};

/* --- flags -------------------------------------------------------------------------------------------------------- */

typedef struct Flag {
    MetricId id;
    int64_t bad;
    const char *text;
} Flag;

/* The first flag that is up: DETECT_HOLDS, and its text in *ret. A flag that is up stays believed while another one can
 * be read and it cannot. */
static DetectOutcome check_flags(const DetectCase *c, const Flag *flags, size_t count, const char **ret)
{
    bool known = false, first_known = false;
    int64_t value;

    for (size_t i = 0; i < count; i++) {
        if (!detect_int(c, flags[i].id, &value))
            continue;
        known = true;
        first_known |= i == 0;
        if ((value != 0) == (flags[i].bad != 0)) {
            *ret = flags[i].text;
            return DETECT_HOLDS;
        }
    }
    return known && (!c->finding->holds || first_known) ? DETECT_FINE : detect_absent(c, detect_sample(c, flags[0].id));
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

static DetectOutcome check_remap(const DetectCase *c)
{
    const bool waits = detect_choice(c, REMAP_WHAT) == 0;
    const char *text = NULL;
    const DetectOutcome outcome =
        waits ? check_flags(c, waiting, ARRAY_LEN(waiting), &text) : check_flags(c, failed, ARRAY_LEN(failed), &text);
    double bad = 0, good = 0;

    if (outcome != DETECT_HOLDS)
        return outcome;
    if (!detect_value(c, METRIC_UNCORRECTABLE_REMAPPED_ROWS, &bad) ||
        !detect_value(c, METRIC_CORRECTABLE_REMAPPED_ROWS, &good))
        return detect_hold(c, "%s", text);
    return detect_hold(c, "%s; remapped so far: %.0f for uncorrectable errors, %.0f for corrected ones", text, bad,
                       good);
}

const DetectImpl detect_remap = {
    .of_gpu = check_remap,
    .metrics = DETECT_METRICS(METRIC_ROW_REMAP_PENDING, METRIC_CHANNEL_REPAIR_PENDING, METRIC_TPC_REPAIR_PENDING,
                              METRIC_ROW_REMAP_FAILURE, METRIC_UNREPAIRABLE_MEMORY, METRIC_UNCORRECTABLE_REMAPPED_ROWS,
                              METRIC_CORRECTABLE_REMAPPED_ROWS)};

static DetectOutcome check_sram(const DetectCase *c)
{
    const char *text = NULL;
    const DetectOutcome outcome = check_flags(c, sram, ARRAY_LEN(sram), &text);
    double all;

    if (outcome != DETECT_HOLDS)
        return outcome;
    if (!detect_value(c, METRIC_ECC_SRAM_UNC_AGGREGATE, &all))
        return detect_hold(c, "%s", text);
    return detect_hold(c, "%s: %.0f uncorrected in its life", text, all);
}

const DetectImpl detect_sram_threshold = {
    .of_gpu = check_sram, .metrics = DETECT_METRICS(METRIC_SRAM_THRESHOLD, METRIC_ECC_SRAM_UNC_AGGREGATE)};

static DetectOutcome check_inforom(const DetectCase *c)
{
    const char *text = NULL;
    const DetectOutcome outcome = check_flags(c, inforom, ARRAY_LEN(inforom), &text);

    return outcome == DETECT_HOLDS ? detect_hold(c, "%s", text) : outcome;
}

const DetectImpl detect_inforom = {.of_gpu = check_inforom, .metrics = DETECT_METRICS(METRIC_INFOROM_VALID)};

/* --- remap-rows, retired-pages ------------------------------------------------------------------------------------ */

static DetectOutcome check_remapped_rows(const DetectCase *c)
{
    double bad = 0, good = 0, low = 0, none = 0;
    const bool rows = detect_value(c, METRIC_UNCORRECTABLE_REMAPPED_ROWS, &bad) &&
                      detect_value(c, METRIC_CORRECTABLE_REMAPPED_ROWS, &good);
    const bool banks = detect_value(c, METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, &low) &&
                       detect_value(c, METRIC_BANKS_REMAP_ROWS_AVAIL_NONE, &none);

    if ((rows && bad + good >= detect_param(c, REMAP_ROWS_ROWS)) ||
        (banks && low + none >= detect_param(c, REMAP_ROWS_BANKS)))
        return detect_hold(c, "%.0f memory rows remapped; %.0f banks have few spare rows left, %.0f none", bad + good,
                           low, none);
    return rows && (banks || !c->finding->holds)
               ? DETECT_FINE
               : detect_absent(c, detect_sample(c, METRIC_UNCORRECTABLE_REMAPPED_ROWS));
}

const DetectImpl detect_remap_rows = {
    .of_gpu = check_remapped_rows,
    .metrics = DETECT_METRICS(METRIC_UNCORRECTABLE_REMAPPED_ROWS, METRIC_CORRECTABLE_REMAPPED_ROWS,
                              METRIC_BANKS_REMAP_ROWS_AVAIL_LOW, METRIC_BANKS_REMAP_ROWS_AVAIL_NONE)};

static DetectOutcome count_retired_pages(const DetectCase *c)
{
    const uint64_t window_ns = detect_time(c, RETIRED_WINDOW);
    const double most_double = detect_param(c, RETIRED_DOUBLE), most = detect_param(c, RETIRED_TOTAL);
    double twice, once;
    TrailSpan span = {0};

    if (!detect_value(c, METRIC_RETIRED_DBE, &twice) || !detect_value(c, METRIC_RETIRED_SBE, &once))
        return detect_absent(c, detect_sample(c, METRIC_RETIRED_DBE));
    trail_count_metric(c->memory, c, METRIC_RETIRED_DBE, window_ns);
    trail_span(c->memory, window_ns, 0, &span);
    const bool recent = span.sum >= detect_param(c, RETIRED_RECENT);
    if (twice <= most_double && twice + once < most && !recent)
        return DETECT_FINE;
    return detect_hold(c,
                       "%.0f pages retired for double bit errors%s, %.0f for single bit errors; the vendor accepts "
                       "%.0f, and fewer than %.0f in all",
                       twice, recent ? ", many of them lately" : "", once, most_double, most);
}

static DetectOutcome check_retired_pages(const DetectCase *c)
{
    double waits;

    if (detect_choice(c, RETIRED_WHAT) == 1)
        return count_retired_pages(c);
    if (!detect_value(c, METRIC_RETIRED_PENDING, &waits))
        return detect_absent(c, detect_sample(c, METRIC_RETIRED_PENDING));
    return waits > 0 ? detect_hold(c, "retired pages wait for a reload of the driver") : DETECT_FINE;
}

const DetectImpl detect_retired_pages = {
    .size = sizeof(Trail),
    .of_gpu = check_retired_pages,
    .metrics = DETECT_METRICS(METRIC_RETIRED_SBE, METRIC_RETIRED_DBE, METRIC_RETIRED_PENDING)};
