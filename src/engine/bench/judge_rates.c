/* SPDX-License-Identifier: Apache-2.0 */
/* Values of each GPU against their references, its SMs against each other, and its clock under load. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/bench/judge_inside.h"

enum { SMS_NAMED = 8 };

#define HARDWARE_REASONS UINT64_C(0xc8) /* nvml.h: HW slowdown, HW thermal slowdown, HW power brake slowdown */

static const double sm_limit = 1;    /* per cent */
static const double rounding = 1e-6; /* of what is exactly at the limit */

/* --- SMs ---------------------------------------------------------------------------------------------------------- */

typedef struct SlowSms {
    const BenchMeasure *measure;
    uint32_t sms[SMS_NAMED], count, sm_count;
    double worst, value, median, spread;
} SlowSms;

static SlowSms find_slow_sms(const BenchMeasure *m)
{
    double values[BENCH_SMS_MAX];
    SlowSms slow = {.measure = m};

    for (uint32_t s = 0; s < m->sm_count && s < BENCH_SMS_MAX; s++)
        if (m->per_clock[s] > 0 && isfinite(m->per_clock[s]))
            values[slow.sm_count++] = (double)m->per_clock[s];
    slow.median = bench_median(values, slow.sm_count, &slow.spread);
    for (uint32_t s = 0; s < m->sm_count && s < BENCH_SMS_MAX; s++) {
        const double behind = 100 * (1 - (double)m->per_clock[s] / slow.median);

        if (!(m->per_clock[s] > 0) || behind + rounding < sm_limit)
            continue;
        if (slow.count < SMS_NAMED)
            slow.sms[slow.count] = s;
        slow.count++;
        if (behind > slow.worst) {
            slow.worst = behind;
            slow.value = (double)m->per_clock[s];
        }
    }
    return slow;
}

static void add_slow_sms(Judge *j, uint32_t gpu, const SlowSms *slow)
{
    BenchFinding *f = judge_add(j, BENCH_DEGRADED, BENCH_SLOW_SM, BENCH_PART_COMPUTE, gpu);
    char label[BENCH_NAME_CAP];

    bench_label(slow->measure->id, label);
    f->measure = slow->measure->id;
    f->sm = slow->count == 1 ? slow->sms[0] : BENCH_NONE;
    compare_set(
        f, &(BenchComparison){BENCH_BY_ITSELF, slow->sm_count, slow->value, slow->median, slow->spread, slow->worst});
    if (slow->count == 1)
        judge_say(f, "SM ");
    else
        judge_say(f, "%" PRIu32 " SMs (", slow->count);
    for (uint32_t i = 0; i < slow->count && i < SMS_NAMED; i++)
        judge_say(f, "%s%" PRIu32, i ? ", " : "", slow->sms[i]);
    judge_say(f, "%s %.*f %% less work per clock than the GPU's other SMs (%s)",
              slow->count == 1          ? " does"
              : slow->count > SMS_NAMED ? ", ...) do up to"
                                        : ") do up to",
              slow->worst < 9.95, slow->worst, label);
}

/* One finding for a GPU, by the type of arithmetic in which it is slowest. */
static void judge_sms(Judge *j, uint32_t gpu)
{
    SlowSms worst = {.count = 0};

    for (size_t i = 0; i < j->run->measures.len; i++) {
        const BenchMeasure *m = &j->run->measures.at[i];
        const SlowSms slow = m->gpu == gpu && m->sm_count > 0 ? find_slow_sms(m) : (SlowSms){.count = 0};

        if (slow.worst > worst.worst)
            worst = slow;
    }
    if (worst.count > 0)
        add_slow_sms(j, gpu, &worst);
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

/* The slow measures of a part of a GPU, the worst first. */
typedef struct SlowPart {
    BenchSeverity severity;
    BenchMeasureId id;
    BenchComparison comparison;
    uint32_t other_count;
    BenchMeasureId others[BENCH_MEASURE_END];
} SlowPart;

/* Slow SMs slow all that runs on them; slow memory slows what works from it; without NVLinks copies between GPUs go
 * over the links to the host. */
static bool is_explained(const Judge *j, uint32_t gpu, BenchMeasureId id)
{
    const BenchPart part = bench_measures[id].part;

    if (part == BENCH_PART_COMPUTE || part == BENCH_PART_L2)
        if (judge_find(j, gpu, BENCH_SLOW_SM) || judge_find(j, gpu, BENCH_MISSING_SM))
            return true;
    if ((part == BENCH_PART_PEER_LINK || part == BENCH_PART_COLLECTIVE) && !judge_has_nvlinks(j))
        return judge_is_bad(j, part == BENCH_PART_PEER_LINK ? gpu : BENCH_NONE, BENCH_PART_HOST_LINK);
    return part != BENCH_PART_MEMORY && bench_uses_memory(id) && judge_is_bad(j, gpu, BENCH_PART_MEMORY);
}

static bool is_worse(BenchMeasureId id, BenchSeverity severity, const BenchComparison *c, const SlowPart *than)
{
    if (severity != than->severity)
        return severity > than->severity;
    if (c->basis != than->comparison.basis)
        return c->basis < than->comparison.basis; /* the closer one */
    return c->behind_percent / bench_measures[id].notice >
           than->comparison.behind_percent / bench_measures[than->id].notice;
}

static bool find_slow_part(const Judge *j, uint32_t gpu, BenchPart part, SlowPart *ret)
{
    bool found = false;

    for (BenchMeasureId id = 0; id < BENCH_MEASURE_END; id++) {
        BenchSeverity severity;
        BenchComparison c;

        if (bench_measures[id].part != part || is_explained(j, gpu, id) || !compare_worst(j, id, gpu, &c, &severity))
            continue;
        if (!found)
            *ret = (SlowPart){.severity = severity, .id = id, .comparison = c};
        else if (is_worse(id, severity, &c, ret)) {
            ret->others[ret->other_count++] = ret->id;
            ret->severity = severity;
            ret->id = id;
            ret->comparison = c;
        } else
            ret->others[ret->other_count++] = id;
        found = true;
    }
    return found;
}

static void say_others(BenchFinding *f, const SlowPart *slow)
{
    char label[BENCH_NAME_CAP];

    for (uint32_t i = 0; i < slow->other_count; i++) {
        bench_label(slow->others[i], label);
        judge_say(f, "%s%s", i == 0 ? ", " : i + 1 == slow->other_count ? " and " : ", ", label);
    }
    if (slow->other_count > 0)
        judge_say(f, " too");
}

/* The fastest link that a GPU of the model had while copies ran. */
static void find_best_link(const Judge *j, uint32_t gpu, uint32_t *ret_gen, uint32_t *ret_width)
{
    *ret_gen = *ret_width = 0;
    for (uint32_t i = 0; i < j->gpu_count; i++) {
        const BenchWatch *watch = judge_watch(&j->run->gpus.at[i], BENCH_STAGE_HOST);

        if (!watch || !judge_same_model(j, i, gpu))
            continue;
        *ret_gen = watch->pcie_gen > *ret_gen ? watch->pcie_gen : *ret_gen;
        *ret_width = watch->pcie_width > *ret_width ? watch->pcie_width : *ret_width;
    }
}

static void say_host_link(const Judge *j, BenchFinding *f, uint32_t gpu)
{
    const BenchWatch *watch = judge_watch(&j->run->gpus.at[gpu], BENCH_STAGE_HOST);
    uint32_t gen, width;

    if (!watch || !watch->pcie_gen || !watch->pcie_width) {
        judge_say(f, "; the link to the host is slow, %s", bench_reasons[BENCH_NO_REASON].text);
        return;
    }
    find_best_link(j, gpu, &gen, &width);
    judge_say(f, "; its PCIe link ran at generation %" PRIu32 " x%" PRIu32 " meanwhile", watch->pcie_gen,
              watch->pcie_width);
    if (watch->pcie_gen < gen || watch->pcie_width < width) {
        judge_say(f, ", others at generation %" PRIu32 " x%" PRIu32, gen, width);
        f->reason = BENCH_REASON_PCIE;
    }
}

static void say_part(const Judge *j, BenchFinding *f, uint32_t gpu)
{
    static const char *const words[BENCH_PART_END] = {
        [BENCH_PART_MEMORY] = "memory is slow",
        [BENCH_PART_L2] = "the L2 cache is slow",
        [BENCH_PART_COMPUTE] = "compute is slow",
        [BENCH_PART_PEER_LINK] = "copies between GPUs are slow",
        [BENCH_PART_COLLECTIVE] = "what all GPUs do together is slow",
    };

    if (f->part == BENCH_PART_HOST_LINK) {
        say_host_link(j, f, gpu);
        return;
    }
    if (f->part == BENCH_PART_MEMORY)
        f->reason = judge_reason(&j->run->gpus.at[gpu], BENCH_STAGE_MEMORY);
    if (f->reason == BENCH_REASON_CAP) /* streams of memory are near the limit of any healthy board */
        f->reason = BENCH_NO_REASON;
    judge_say(f, "; %s", words[f->part]);
    if (f->reason != BENCH_NO_REASON)
        judge_say(f, ": %s", bench_reasons[f->reason].text);
}

static void add_slow_part(Judge *j, uint32_t gpu, BenchPart part, const SlowPart *slow)
{
    BenchFinding *f = judge_add(j, slow->severity, BENCH_SLOW, part, gpu);
    char label[BENCH_NAME_CAP], value[BENCH_NAME_CAP];

    bench_label(slow->id, label);
    bench_number(slow->comparison.value, value);
    f->measure = slow->id;
    compare_set(f, &slow->comparison);
    judge_say(f, "%s %s %s, ", label, value, bench_value_unit(slow->id));
    compare_say(j, f, gpu, &slow->comparison, bench_value_unit(slow->id));
    say_others(f, slow);
    say_part(j, f, gpu);
}

static void judge_part(Judge *j, uint32_t gpu, BenchPart part)
{
    SlowPart slow;

    if (find_slow_part(j, gpu, part, &slow))
        add_slow_part(j, gpu, part, &slow);
}

void judge_rates(Judge *j)
{
    static const BenchPart parts[] = {BENCH_PART_MEMORY, BENCH_PART_L2, BENCH_PART_COMPUTE, BENCH_PART_HOST_LINK};

    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++) {
        judge_sms(j, gpu);
        for (size_t i = 0; i < ARRAY_LEN(parts); i++)
            judge_part(j, gpu, parts[i]);
    }
}

/* One bad link slows all that GPUs do together, and is found by itself. */
void judge_together(Judge *j)
{
    static const BenchPart parts[] = {BENCH_PART_PEER_LINK, BENCH_PART_COLLECTIVE};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (uint32_t gpu = 0; gpu < j->gpu_count && !judge_is_bad(j, BENCH_NONE, BENCH_PART_PEER_LINK); gpu++)
            judge_part(j, gpu, parts[i]);
}

/* --- the clock under load ----------------------------------------------------------------------------------------- */

static void say_reason(const Judge *j, BenchFinding *f, uint32_t gpu)
{
    const BenchWatch *watch = judge_watch(&j->run->gpus.at[gpu], BENCH_STAGE_BURN);

    f->reason = judge_reason(&j->run->gpus.at[gpu], BENCH_STAGE_BURN);
    judge_say(f, "; %s", bench_reasons[f->reason].text);
    if (f->reason == BENCH_REASON_HEAT && watch && isfinite(watch->temp_c))
        judge_say(f, " (%.0f C)", watch->temp_c);
}

static bool judge_equal_limit(Judge *j, uint32_t gpu)
{
    BenchSeverity severity;
    BenchComparison c;
    char value[BENCH_NAME_CAP];

    if (!compare_worst(j, BENCH_CLOCK, gpu, &c, &severity))
        return false;
    BenchFinding *f = judge_add(j, severity, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, gpu);
    f->measure = BENCH_BURN;
    compare_set(f, &c);
    bench_number(c.value, value);
    judge_say(f, "holds %s MHz under load, ", value);
    f->measure = BENCH_MEASURE_END; /* the value is a clock */
    compare_say(j, f, gpu, &c, "MHz");
    say_reason(j, f, gpu);
    return true;
}

/* Others of its model have another power limit: a lower one of its own explains a lower clock. */
static bool judge_other_limit(Judge *j, uint32_t gpu)
{
    const double clock = j->values.at[gpu][BENCH_CLOCK], own = j->run->gpus.at[gpu].limit_w;
    double clocks[BENCH_GPUS_MAX], limits[BENCH_GPUS_MAX], spread;
    char value[BENCH_NAME_CAP], reference[BENCH_NAME_CAP];
    BenchSeverity severity;
    size_t n = 0;

    for (uint32_t i = 0; i < j->gpu_count; i++) {
        const BenchGpu *other = &j->run->gpus.at[i];

        if (i == gpu || !judge_same_model(j, i, gpu) || !(j->values.at[i][BENCH_CLOCK] > 0) ||
            compare_limits(own, other->limit_w))
            continue;
        clocks[n] = j->values.at[i][BENCH_CLOCK];
        limits[n++] = other->limit_w;
    }
    if (n < BENCH_PEERS_MIN || !(clock > 0))
        return false;
    BenchComparison c = {.basis = BENCH_BY_PEERS, .count = (uint32_t)n, .value = clock};
    c.reference = bench_median(clocks, n, &spread);
    c.spread_percent = spread;
    c.behind_percent = bench_behind(BENCH_CLOCK, clock, c.reference);
    if (!compare_limit(BENCH_CLOCK, &c, false, &severity))
        return false;
    const double theirs = bench_median(limits, n, NULL);
    const bool setting = own < theirs;
    BenchFinding *f = judge_add(j, setting ? BENCH_NOTICE : severity, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, gpu);
    compare_set(f, &c);
    bench_number(clock, value);
    bench_number(c.reference, reference);
    judge_say(f, "holds %s MHz under load, the others %s MHz; power limit %.0f W, theirs %.0f W", value, reference, own,
              theirs);
    if (setting) {
        f->reason = BENCH_REASON_SETTING;
        judge_say(f, ": %s", bench_reasons[f->reason].text);
    } else
        say_reason(j, f, gpu);
    return true;
}

/* The hardware slowed it down, and its clock is no lower than it should be. */
static void judge_hardware_reason(Judge *j, uint32_t gpu)
{
    const BenchWatch *watch = judge_watch(&j->run->gpus.at[gpu], BENCH_STAGE_BURN);

    if (!watch || !(watch->reasons & HARDWARE_REASONS))
        return;
    BenchFinding *f = judge_add(j, BENCH_NOTICE, BENCH_LOW_CLOCK, BENCH_PART_CLOCK, gpu);
    f->value = j->values.at[gpu][BENCH_CLOCK];
    judge_say(f, "was slowed down under load");
    say_reason(j, f, gpu);
}

void judge_clocks(Judge *j)
{
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++)
        if (!judge_equal_limit(j, gpu) && !judge_other_limit(j, gpu) && !judge_find(j, gpu, BENCH_HOT))
            judge_hardware_reason(j, gpu);
}
