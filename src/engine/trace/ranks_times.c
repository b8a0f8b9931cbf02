/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank's time goes, per step in the mean, and how late it comes to what all do together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/ranks.h"

/* ---- means ---- */

static void add_step(TraceFacts *facts, const TraceStepRow *step)
{
    for (size_t i = 0; i < step->devices.len; i++) {
        const TraceStepDevice *device = &step->devices.at[i];

        facts->busy_ns += (double)device->busy_ns;
        facts->idle_ns += (double)device->idle_ns;
        facts->compute_ns += (double)device->compute_ns;
        facts->communication_ns += (double)device->communication_ns;
        facts->exposed_communication_ns += (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += (double)device->exposed_copy_ns;
        facts->operations += (double)device->operation_count;
        facts->queued_gaps += (double)device->idle_by_cause[TRACE_CAUSE_QUEUED].count;
        for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
            facts->idle_by_cause[j] += (double)device->idle_by_cause[j].total_ns;
    }
}

/* All that the rank's devices did, and what was idle around it. */
static void add_devices(TraceFacts *facts, const TraceRank *rank)
{
    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        facts->step_ns += (double)device->span_ns;
        facts->busy_ns += (double)device->busy_ns;
        facts->idle_ns += (double)device->idle_ns;
        facts->compute_ns += (double)device->compute_ns;
        facts->communication_ns += (double)device->communication_ns;
        facts->exposed_communication_ns += (double)device->exposed_communication_ns;
        facts->exposed_copy_ns += (double)device->exposed_copy_ns;
        facts->operations += (double)device->operation_count;
    }
    facts->queued_gaps = (double)rank->idle_by_cause[TRACE_CAUSE_QUEUED].count;
    for (size_t j = 0; j < TRACE_CAUSE_COUNT; j++)
        facts->idle_by_cause[j] = (double)rank->idle_by_cause[j].total_ns;
    for (size_t i = 0; i < rank->edges.len; i++) {
        const TraceGap *edge = &rank->edges.at[i];
        const double ns = (double)(edge->end - edge->start);

        if (edge->cause == TRACE_CAUSE_BEFORE_PROFILE) /* not known to be idle */
            continue;
        facts->step_ns += ns;
        facts->idle_ns += ns;
        facts->idle_by_cause[edge->cause] += ns;
    }
}

/* From sums to means. Sums are of whole numbers and exact, so each mean is rounded once. */
static void divide_sums(TraceFacts *facts, double windows, double device_windows)
{
    double *const sums[] = {&facts->busy_ns,          &facts->idle_ns,         &facts->compute_ns,
                            &facts->communication_ns, &facts->exposed_copy_ns, &facts->exposed_communication_ns,
                            &facts->queued_gaps,      &facts->operations};

    facts->step_ns /= fmax(windows, 1);
    for (size_t i = 0; i < ARRAY_LEN(sums); i++)
        *sums[i] /= fmax(device_windows, 1);
    for (size_t i = 0; i < TRACE_CAUSE_COUNT; i++)
        facts->idle_by_cause[i] /= fmax(device_windows, 1);
    facts->waiting_ns = facts->exposed_communication_ns + facts->idle_ns;
}

void trace_find_facts(const TraceReport *report, const TraceRank *rank, size_t first_step, TraceFacts *ret)
{
    const double devices = (double)rank->devices.len;

    *ret = (TraceFacts){.report = report, .rank = rank};
    for (size_t i = 0; i < rank->devices.len; i++) {
        ret->whole_compute_ns += (double)rank->devices.at[i].compute_ns;
        ret->whole_kernel_ns += (double)rank->devices.at[i].kernel_sum_ns;
        ret->whole_communication_ns += (double)rank->devices.at[i].communication_ns;
    }
    if (rank->steps.len == 0) {
        add_devices(ret, rank);
        divide_sums(ret, devices, devices);
        return;
    }
    ret->first_step = first_step;
    ret->steps = rank->steps.len - first_step;
    for (size_t i = first_step; i < rank->steps.len; i++) {
        ret->step_ns += (double)(rank->steps.at[i].to - rank->steps.at[i].start);
        add_step(ret, &rank->steps.at[i]);
    }
    divide_sums(ret, (double)ret->steps, (double)(ret->steps * rank->steps.at[0].devices.len));
}

/* ---- the rank that computed longest ---- */

typedef struct StepTime {
    int64_t number, compute_ns;
    uint32_t rank;
} StepTime;
typedef VEC(StepTime) StepTimes;

static int by_step(const void *a, const void *b)
{
    const StepTime *x = a, *y = b;
    const int64_t keys[][2] = {{x->number, y->number}, {y->compute_ns, x->compute_ns}, {x->rank, y->rank}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void find_slowest(TraceReport *report)
{
    StepTimes times = {0};
    CLEANUP_FREE size_t *compared = xcalloc(report->ranks.len, sizeof(*compared));
    CLEANUP_FREE size_t *slowest = xcalloc(report->ranks.len, sizeof(*slowest));
    for (uint32_t i = 0; i < report->ranks.len; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        for (size_t k = 0; k < rank->steps.len; k++) {
            const TraceStepRow *step = &rank->steps.at[k];
            StepTime time = {.number = step->number, .rank = i};
            for (size_t d = 0; d < step->devices.len; d++)
                time.compute_ns = rank_plus(time.compute_ns, step->devices.at[d].compute_ns);
            if (step->number >= 0 && step->devices.len > 0)
                vec_push(&times, time);
        }
    }
    vec_sort(&times, by_step);
    for (size_t i = 0; i < times.len;) {
        size_t from = i;
        while (i < times.len && times.at[i].number == times.at[from].number)
            i++;
        if (i - from < 2)
            continue;
        for (size_t k = from; k < i; k++)
            compared[times.at[k].rank]++;
        slowest[times.at[from].rank] += times.at[from].compute_ns > times.at[from + 1].compute_ns;
    }
    for (size_t i = 0; i < report->ranks.len; i++) {
        if (compared[i] > 0)
            report->rank_times.at[i].slowest_share = (double)slowest[i] / (double)compared[i];
    }
    vec_done(&times);
}

/* ---- lateness in collectives ---- */

/* Time that the part came behind the first: on the common clock, or by how much shorter it is than the longest. */
static void find_late(const RankMatch *match)
{
    TraceReport *report = match->report;
    CLEANUP_FREE size_t *count = xcalloc(report->ranks.len, sizeof(*count));
    CLEANUP_FREE size_t *last = xcalloc(report->ranks.len, sizeof(*last));
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        if (!collective_joins_all(set->kind))
            continue;
        for (size_t k = set->first; k < set->first + set->count; k++) {
            const RankPart *part = &match->parts.at[k];
            report->rank_times.at[part->rank].late_ns += (double)rank_minus(part->start, set->first_start);
            count[part->rank]++;
        }
        last[set->last_rank] += !set->tie;
    }
    for (size_t i = 0; i < report->ranks.len; i++) {
        if (count[i] == 0)
            continue;
        report->rank_times.at[i].late_ns /= (double)count[i];
        report->rank_times.at[i].last_share = (double)last[i] / (double)count[i];
    }
}

void rank_times(const RankMatch *match)
{
    TraceReport *report = match->report;
    double sum = 0;
    size_t stepping = 0, counted = 0;
    for (size_t i = 0; i < report->ranks.len; i++)
        stepping += report->ranks.at[i].steps.len > 0;
    for (size_t i = 0; i < report->ranks.len; i++) {
        TraceFacts *means = &match->ranks[i].means;
        trace_find_facts(report, &report->ranks.at[i], 0, means);
        vec_push(&report->rank_times, ((TraceRankTime){.rank = report->ranks.at[i].rank,
                                                       .step_ns = means->step_ns,
                                                       .compute_ns = means->compute_ns,
                                                       .communication_ns = means->communication_ns,
                                                       .exposed_communication_ns = means->exposed_communication_ns,
                                                       .idle_ns = means->idle_ns}));
        if (means->step_ns > 0 && (means->steps > 0 || stepping == 0)) {
            sum += means->step_ns;
            counted++;
        }
    }
    report->step_ns = counted > 0 ? sum / (double)counted : 0;
    if (stepping == 0 && report->ranks.len > 0)
        rank_note(report, "no steps were recorded: percentages are of the whole time of the profile");
    else if (stepping < report->ranks.len)
        rank_note(report, "%zu of %zu ranks recorded steps: percentages are of these", stepping, report->ranks.len);
    find_slowest(report);
    find_late(match);
}

/* ---- the straggler ---- */

/* The rank that the others wait for. In an operation that no rank ends before all have begun, the rank that came
 * last has the shortest part: that needs no clock. The evidence of a set is how much longer the median rank's part
 * is. A rank that came late because it had waited in another group is excused by as much. One outlier does not make
 * a straggler: the largest few are capped. Then: is the share of one rank more than chance, or the same in every
 * step? If clocks are aligned, the latest start must agree. */

#define NOISE_NS INT64_C(5000) /* sets whose ranks come closer than this are no evidence */
#define LATE_MIN_NS 10000.0    /* where it comes last: by this much in the mean */
#define PERCENT_MIN 0.05       /* of the step */
#define CUT_SHARE 0.03         /* of the sets are cut to the next largest */
#define CHANCE_Z 3.0           /* deviations from a share by chance */
#define STEADY_T 4.0           /* mean over deviation of the mean, from step to step */
#define STEADY_T_FEW 8.0       /* the same with less than FEW_BINS */
#define CAUSE_SHARE 0.5        /* of the lateness that a cause must explain */
enum { SETS_MIN = 3, BINS_MIN = 3, FEW_BINS = 5, BINS_MAX = 16, CUT_SETS_MIN = 12 };

/* A set as evidence. */
typedef struct Evidence {
    const RankSet *set;
    int64_t time;    /* of its end */
    int64_t late;    /* median part - shortest part, excuses taken off */
    bool same_start; /* it also has the latest start, or clocks are not aligned */
    uint64_t group;  /* which ranks */
    int64_t bin;
} Evidence;

typedef struct Score {
    size_t sets, decisive, last, confirmed;
    double late;
} Score;

typedef struct Debt {
    uint64_t group;
    int64_t waited;
} Debt;

typedef struct LateSearch {
    const RankMatch *match;
    TraceReport *report;
    Evidence *evidence;
    size_t len;
    Score *scores;
    Debt *debts;
    double total, squares; /* of late over all sets */
} LateSearch;

/* ---- evidence ---- */

static int by_time(const void *a, const void *b)
{
    const Evidence *x = a, *y = b;
    const int64_t keys[][2] = {{x->time, y->time}, {(int64_t)x->set->first, (int64_t)y->set->first}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void collect_evidence(LateSearch *search)
{
    const RankMatch *match = search->match;
    CLEANUP_FREE int64_t *room = xcalloc(search->report->ranks.len, sizeof(*room));
    search->evidence = xcalloc(match->sets.len, sizeof(*search->evidence));
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        const RankPart *parts = &match->parts.at[set->first];
        if (!collective_joins_all(set->kind) || !set->complete)
            continue;
        const TraceCollective *row = rank_row(match, &parts[0]);
        Evidence *evidence = &search->evidence[search->len++];
        *evidence = (Evidence){.set = set,
                               .time = rank_common(&match->ranks[parts[0].rank].clock, row->end),
                               .same_start = !set->clock || set->latest_rank == set->last_rank,
                               .bin = rank_step(&search->report->ranks.at[parts[0].rank], row)};
        for (uint32_t k = 0; k < set->count; k++) {
            room[k] = parts[k].duration;
            evidence->group = evidence->group * 1000003 + parts[k].rank + 1;
        }
        evidence->late = rank_median(room, set->count) - set->shortest;
    }
    if (search->len > 1)
        qsort(search->evidence, search->len, sizeof(*search->evidence), by_time);
}

/* What a rank waited for others in one group excuses it in another. */
static void excuse_waits(LateSearch *search)
{
    for (size_t i = 0; i < search->len; i++) {
        Evidence *evidence = &search->evidence[i];
        const RankSet *set = evidence->set;
        Debt *debt = &search->debts[set->last_rank];
        if (debt->group != evidence->group && evidence->late >= NOISE_NS) {
            int64_t excused = trace_smaller(debt->waited, evidence->late);
            evidence->late -= excused;
            debt->waited -= excused;
        }
        for (size_t k = set->first; k < set->first + set->count; k++) {
            int64_t waited = search->match->parts.at[k].duration - set->shortest;
            debt = &search->debts[search->match->parts.at[k].rank];
            if (waited < NOISE_NS)
                continue;
            if (debt->group != evidence->group)
                *debt = (Debt){.group = evidence->group};
            debt->waited = rank_plus(debt->waited, waited);
        }
    }
}

static void cut_freaks(LateSearch *search)
{
    if (search->len < CUT_SETS_MIN)
        return;
    CLEANUP_FREE int64_t *room = xcalloc(search->len, sizeof(*room));
    for (size_t i = 0; i < search->len; i++)
        room[i] = search->evidence[i].late;
    int64_t most = trace_select(room, search->len, search->len - 1 - (size_t)ceil(CUT_SHARE * (double)search->len));
    for (size_t i = 0; i < search->len; i++)
        search->evidence[i].late = search->evidence[i].late < most ? search->evidence[i].late : most;
}

static void score_ranks(LateSearch *search)
{
    for (size_t i = 0; i < search->len; i++) {
        const Evidence *evidence = &search->evidence[i];
        bool decisive = evidence->late >= NOISE_NS;
        for (uint32_t k = 0; k < evidence->set->count; k++) {
            Score *member = &search->scores[search->match->parts.at[evidence->set->first + k].rank];
            member->sets++;
            member->decisive += decisive;
        }
        if (!decisive)
            continue;
        Score *last = &search->scores[evidence->set->last_rank];
        last->last++;
        last->confirmed += evidence->same_start;
        last->late += (double)evidence->late;
        search->total += (double)evidence->late;
        search->squares += (double)evidence->late * (double)evidence->late;
    }
}

/* ---- more than chance ---- */

/* Mean over its own deviation, of the rank's lateness less its waiting from bin to bin; 0 where bins are too few. */
static double measure_steadiness(const LateSearch *search, uint32_t rank, size_t *ret_bins)
{
    CLEANUP_FREE double *bins = xcalloc(search->len + 1, sizeof(*bins));
    bool stepped = true;
    size_t count = 0;
    for (size_t i = 0; i < search->len; i++)
        stepped = stepped && search->evidence[i].bin >= 0;
    stepped = stepped && search->len > 0 && search->evidence[0].bin != search->evidence[search->len - 1].bin;
    int64_t current = -1;
    for (size_t i = 0; i < search->len; i++) {
        const Evidence *evidence = &search->evidence[i];
        int64_t bin = stepped ? evidence->bin : (int64_t)(i * BINS_MAX / search->len);
        if (count == 0 || bin != current)
            bins[count++] = 0;
        current = bin;
        if (evidence->set->last_rank == rank)
            bins[count - 1] += (double)evidence->late;
        for (uint32_t k = 0; k < evidence->set->count; k++) {
            if (search->match->parts.at[evidence->set->first + k].rank == rank && evidence->set->last_rank != rank)
                bins[count - 1] -= (double)evidence->late;
        }
    }
    *ret_bins = count;
    if (count < BINS_MIN)
        return 0;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        mean += bins[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (bins[i] - mean) * (bins[i] - mean);
    double deviation = sqrt(squares / (double)(count - 1) / (double)count);
    return mean <= 0 ? 0 : deviation > 0 ? mean / deviation : HUGE_VAL;
}

/* How many ranks the rank is compared with, itself included. */
static size_t peers_of(const LateSearch *search, uint32_t rank, bool *peers)
{
    size_t count = 0;
    for (size_t i = 0; i < search->len; i++) {
        const RankSet *set = search->evidence[i].set;
        bool takes_part = false;
        for (size_t k = set->first; k < set->first + set->count; k++)
            takes_part = takes_part || search->match->parts.at[k].rank == rank;
        for (size_t k = set->first; k < set->first + set->count && takes_part; k++)
            peers[search->match->parts.at[k].rank] = true;
    }
    for (size_t i = 0; i < search->report->ranks.len; i++)
        count += peers[i];
    return count;
}

/* ---- the cause ---- */

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double read_mean(const TraceFacts *means, size_t mean)
{
    return *(const double *)(const void *)((const char *)means + mean);
}

/* Of a mean: its place in TraceFacts. */
static double median_of_peers(const LateSearch *search, uint32_t rank, const bool *peers, size_t mean)
{
    size_t count = 0;
    CLEANUP_FREE double *values = xcalloc(search->report->ranks.len, sizeof(*values));
    for (size_t i = 0; i < search->report->ranks.len; i++) {
        if (peers[i] && i != rank)
            values[count++] = read_mean(&search->match->ranks[i].means, mean);
    }
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), by_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static const char *find_cause(const LateSearch *search, uint32_t rank, const bool *peers, double cost)
{
    static const struct {
        size_t mean;
        const char *word;
    } causes[] = {{offsetof(TraceFacts, compute_ns), "computes_late"},
                  {offsetof(TraceFacts, idle_ns), "host_late"},
                  {offsetof(TraceFacts, exposed_copy_ns), "copies_late"}};
    const char *cause = "unknown";
    double most = CAUSE_SHARE * cost;
    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        double more = read_mean(&search->match->ranks[rank].means, causes[i].mean) -
                      median_of_peers(search, rank, peers, causes[i].mean);
        if (more > most) {
            most = more;
            cause = causes[i].word;
        }
    }
    return cause;
}

/* ---- the decision ---- */

static void note_none(const LateSearch *search, const TraceRankTime *latest)
{
    rank_note(
        search->report,
        "no straggler: what ranks wait for each other looks like chance (rank %lld is last most often, in %.0f %% "
        "of %zu collectives); one must be last by %.0f us in the mean, cost %.2f %% of the step and exceed chance "
        "by %.0f deviations",
        (long long)latest->rank, 100 * latest->last_share, search->len, LATE_MIN_NS / 1e3, PERCENT_MIN, CHANCE_Z);
}

static bool find_straggler(const LateSearch *search, uint32_t rank, TraceStraggler *ret)
{
    const Score *own = &search->scores[rank];
    const TraceRank *file = &search->report->ranks.at[rank];
    CLEANUP_FREE bool *peers = xcalloc(search->report->ranks.len, sizeof(*peers));
    double n = (double)peers_of(search, rank, peers);
    const TraceFacts *means = &search->match->ranks[rank].means;
    double steps = means->steps > 0 ? (double)means->steps : 1;
    if (n < 2 || own->sets < SETS_MIN || own->last == 0 || means->step_ns <= 0)
        return false;
    double share = own->late / search->total, chance = 1 / n;
    double effective = search->total * search->total / search->squares;
    double z = (share - chance) / sqrt(chance * (1 - chance) / effective);
    double cost = fmin(own->late / steps, median_of_peers(search, rank, peers, offsetof(TraceFacts, waiting_ns)));
    double percent = 100 * cost / means->step_ns;
    size_t bins;
    double t = measure_steadiness(search, rank, &bins);
    bool steady = bins >= BINS_MIN && t >= (bins < FEW_BINS ? STEADY_T_FEW : STEADY_T);
    if (share < chance + (1 - chance) / 2 || (z < CHANCE_Z && !steady) || percent < PERCENT_MIN ||
        own->late / (double)own->last < LATE_MIN_NS || own->confirmed * 2 < own->last)
        return false;
    *ret = (TraceStraggler){.rank = file->rank,
                            .cause = find_cause(search, rank, peers, cost),
                            .late_ns = own->late / (double)own->sets,
                            .share = (double)own->last / (double)own->decisive,
                            .matched = (int64_t)own->sets,
                            .confidence = (share - chance) / (1 - chance) * (1 - exp2(-effective / 2)),
                            .percent_of_step = percent < 100 ? percent : 100};
    return true;
}

void rank_straggler(const RankMatch *match)
{
    TraceReport *report = match->report;
    LateSearch search = {.match = match, .report = report};
    if (report->ranks.len < 2 || match->sets.len == 0)
        return;
    search.scores = xcalloc(report->ranks.len, sizeof(*search.scores));
    search.debts = xcalloc(report->ranks.len, sizeof(*search.debts));
    collect_evidence(&search);
    excuse_waits(&search);
    cut_freaks(&search);
    score_ranks(&search);
    uint32_t best = 0, latest = 0;
    for (uint32_t i = 1; i < report->ranks.len; i++) {
        best = search.scores[i].late > search.scores[best].late ? i : best;
        latest = report->rank_times.at[i].last_share > report->rank_times.at[latest].last_share ? i : latest;
    }
    if (search.len > 0 && (search.total <= 0 || !find_straggler(&search, best, &report->straggler)))
        note_none(&search, &report->rank_times.at[latest]);
    free(search.evidence);
    free(search.scores);
    free(search.debts);
}
