/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of GPUs: those without access, those that corrupt or go through the host, and slow ones. A GPU that is in
 * several bad pairs is blamed once, instead of its partners. Which pairs are fast is the node's matter (switches,
 * bridges, PCIe): so GPUs are compared by their copies in the order of speed, the fastest with the fastest of the
 * others.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/human.h"
#include "engine/bench/judge_inside.h"

enum { PAIRS_NAMED = 8, GPUS_MAX = BENCH_GPUS_MAX };
static const double STAGED_SHARE = 0.6; /* of the rate from the host: each byte takes its links twice */

/* What is known of copies from one GPU to another. */
typedef struct Pair {
    bool no_access, staged, slow;
    const BenchError *corrupts; /* the first */
    uint64_t wrong;
    double rate;   /* of the measure that is looked at; NAN: none, or it does not count */
    double behind; /* per cent, of a slow one */
    double reference, spread;
    uint32_t count; /* of what it was compared with */
    BenchBasis basis;
} Pair;

typedef struct Links {
    Judge *judge;
    uint32_t n;
    bool blamed[GPUS_MAX]; /* for slow copies */
    Pair pairs[GPUS_MAX][GPUS_MAX];
} Links;

typedef bool IsBad(const Pair *pair);
/* Adds the finding of a GPU (`peer` BENCH_NONE), or of a pair. `partners`: names of the GPU's bad ones. */
typedef void AddBad(Links *l, uint32_t gpu, uint32_t peer, const char *partners);

/* --- bad pairs ---------------------------------------------------------------------------------------------------- */

static bool is_bad_pair(const Links *l, IsBad *is_bad, uint32_t a, uint32_t b)
{
    return a != b && (is_bad(&l->pairs[a][b]) || is_bad(&l->pairs[b][a]));
}

static uint32_t count_bad(const Links *l, IsBad *is_bad, const bool done[GPUS_MAX], uint32_t gpu)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < l->n && !done[gpu]; i++)
        count += !done[i] && is_bad_pair(l, is_bad, gpu, i);
    return count;
}

/* The GPU in several bad pairs that is in more of them than any other; BENCH_NONE: there is none. */
static uint32_t find_culprit(const Links *l, IsBad *is_bad, const bool done[GPUS_MAX])
{
    uint32_t most = 1, culprit = BENCH_NONE;

    for (uint32_t i = 0; i < l->n; i++) {
        const uint32_t count = count_bad(l, is_bad, done, i);

        if (count == most)
            culprit = BENCH_NONE;
        if (count > most) {
            most = count;
            culprit = i;
        }
    }
    return culprit;
}

static void list_partners(const Links *l, IsBad *is_bad, const bool done[GPUS_MAX], uint32_t gpu, char *out,
                          size_t room)
{
    uint32_t count = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < l->n; i++) {
        const size_t used = strlen(out);

        if (!done[i] && is_bad_pair(l, is_bad, gpu, i))
            snprintf(out + used, room - used, "%s%" PRIu32, count++ ? ", " : "GPUs ", judge_index(l->judge, i));
    }
}

static void add_bad_pairs(Links *l, IsBad *is_bad, AddBad *add)
{
    bool done[GPUS_MAX] = {0};
    uint32_t culprit, named = 0;
    char partners[BENCH_FINDING_CAP / 2];

    while ((culprit = find_culprit(l, is_bad, done)) != BENCH_NONE) {
        list_partners(l, is_bad, done, culprit, partners, sizeof partners);
        add(l, culprit, BENCH_NONE, partners);
        done[culprit] = true;
    }
    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = a + 1; b < l->n; b++)
            if (!done[a] && !done[b] && is_bad_pair(l, is_bad, a, b) && named++ < PAIRS_NAMED)
                add(l, is_bad(&l->pairs[a][b]) ? a : b, is_bad(&l->pairs[a][b]) ? b : a, "");
}

/* All GPUs are in as many bad pairs: the node is made so, or set up so. */
static bool is_even(const Links *l, IsBad *is_bad, uint32_t *ret_pairs)
{
    const bool none[GPUS_MAX] = {0};
    const uint32_t first = l->n ? count_bad(l, is_bad, none, 0) : 0;

    *ret_pairs = first * l->n / 2;
    for (uint32_t i = 1; i < l->n; i++)
        if (count_bad(l, is_bad, none, i) != first)
            return false;
    return first > 0 && (*ret_pairs > 1 || l->n == 2);
}

/* A finding about both GPUs of a pair. */
static BenchFinding *add_pair(Links *l, BenchSeverity severity, BenchSymptom symptom, uint32_t gpu, uint32_t peer)
{
    BenchFinding *f = judge_add(l->judge, severity, symptom, BENCH_PART_PEER_LINK, gpu);

    if (peer == BENCH_NONE)
        return f;
    f->peer = peer;
    f->gpus |= UINT64_C(1) << peer;
    judge_say(f, "GPUs %" PRIu32 " and %" PRIu32 ": ", judge_index(l->judge, gpu), judge_index(l->judge, peer));
    return f;
}

/* About all GPUs: what is so for all pairs is degraded only where there are NVLinks. */
static BenchFinding *add_even(Links *l, BenchSymptom symptom, uint32_t pairs)
{
    const bool all = pairs == l->n * (l->n - 1) / 2;
    BenchFinding *f = judge_add(l->judge, all && judge_has_nvlinks(l->judge) ? BENCH_DEGRADED : BENCH_NOTICE, symptom,
                                BENCH_PART_PEER_LINK, BENCH_NONE);

    f->gpus = judge_all(l->judge);
    return f;
}

/* --- no access, through the host ---------------------------------------------------------------------------------- */

static bool is_without_access(const Pair *pair)
{
    return pair->no_access;
}

static bool is_staged(const Pair *pair)
{
    return pair->staged && !pair->no_access;
}

static void add_no_access(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    BenchFinding *f = add_pair(l, BENCH_FAULT, BENCH_NO_ACCESS, gpu, peer);

    f->error = BENCH_ERROR_NO_PEER;
    if (peer == BENCH_NONE)
        judge_say(f, "has no access to %s; other pairs of this node have", partners);
    else
        judge_say(f, "no access to each other's memory; other pairs of this node have");
}

static void add_staged(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    BenchFinding *f = add_pair(l, BENCH_DEGRADED, BENCH_STAGED, gpu, peer);
    const BenchMeasure *m = peer == BENCH_NONE ? NULL : bench_run_find(l->judge->run, BENCH_PEER, gpu, peer);
    char rate[BENCH_NAME_CAP];

    f->error = BENCH_ERROR_STAGED;
    f->measure = BENCH_PEER;
    if (peer == BENCH_NONE)
        judge_say(f, "copies between it and %s go through the host", partners);
    else
        judge_say(f, "copies between them go through the host");
    if (!m)
        return;
    f->value = bench_measure_median(m);
    bench_number(f->value, rate);
    judge_say(f, ", %s GB/s", rate);
}

static void judge_access(Links *l)
{
    uint32_t pairs;

    if (is_even(l, is_without_access, &pairs))
        judge_say(add_even(l, BENCH_NO_ACCESS, pairs),
                  "%" PRIu32 " pairs of GPUs have no access to each other's memory, of each GPU as many: their copies "
                  "go through the host",
                  pairs);
    else
        add_bad_pairs(l, is_without_access, add_no_access);
    if (is_even(l, is_staged, &pairs))
        judge_say(add_even(l, BENCH_STAGED, pairs),
                  "copies between %" PRIu32 " pairs of GPUs go through the host, of each GPU as many", pairs);
    else
        add_bad_pairs(l, is_staged, add_staged);
}

/* --- wrong data --------------------------------------------------------------------------------------------------- */

static bool is_corrupt(const Pair *pair)
{
    return pair->corrupts != NULL;
}

static const BenchError *find_corrupt(const Links *l, uint32_t gpu)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->pairs[gpu][i].corrupts)
            return l->pairs[gpu][i].corrupts;
        if (l->pairs[i][gpu].corrupts)
            return l->pairs[i][gpu].corrupts;
    }
    return NULL;
}

static bool is_quiet(const BenchGpu *g)
{
    return g->xid_count == 0 && !(g->after[BENCH_NVLINK_ERRORS] > g->before[BENCH_NVLINK_ERRORS]) &&
           !(g->after[BENCH_ECC_UNCORRECTED] > g->before[BENCH_ECC_UNCORRECTED]);
}

static void add_corrupt(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    const Judge *j = l->judge;
    const BenchError *e = peer == BENCH_NONE ? find_corrupt(l, gpu) : l->pairs[gpu][peer].corrupts;
    BenchFinding *f = add_pair(l, BENCH_FAULT, BENCH_CORRUPTS, gpu, peer);
    char count[HUMAN_MAX];

    if (peer == BENCH_NONE)
        judge_say(f, "copies between it and %s corrupt data: ", partners);
    else
        judge_say(f, "the copy from GPU %" PRIu32 " to GPU %" PRIu32 " corrupts data: ", judge_index(j, gpu),
                  judge_index(j, peer));
    if (!e)
        return;
    f->error = e->kind;
    f->measure = e->measure;
    f->repeats = e->repeats;
    f->silent = is_quiet(&j->run->gpus.at[gpu]) && (peer == BENCH_NONE || is_quiet(&j->run->gpus.at[peer]));
    judge_say(f, "%s wrong value%s (should be 0x%" PRIx64 ", is 0x%" PRIx64 ")",
              human_count(count, (int64_t)(e->count & INT64_MAX)), human_plural(e->count), e->want, e->got);
    judge_say(f, "%s%s", f->repeats ? ", the same wrong value each time" : "",
              f->silent ? "; silent: no XID and no error of a link" : "");
}

/* An all-reduce is wrong where a pair or a GPU is: it is said of itself where nothing else was found. Each GPU gives a
 * part of it (`peer`) to all others. */
static void judge_wrong_sums(Links *l)
{
    Judge *j = l->judge;
    const BenchError *first = NULL;
    uint64_t gpus = 0;

    for (size_t i = 0; i < j->run->errors.len; i++) {
        const BenchError *e = &j->run->errors.at[i];

        const uint32_t source = e->peer == BENCH_NONE ? e->gpu : e->peer;

        if (e->kind != BENCH_ERROR_MISCOMPARE || !e->path || e->stage != BENCH_STAGE_COLLECTIVES)
            continue;
        first = first ? first : e;
        gpus |= source < l->n ? UINT64_C(1) << source : 0;
    }
    if (!first || judge_find(j, BENCH_NONE, BENCH_CORRUPTS) || judge_find(j, BENCH_NONE, BENCH_WRONG_VALUES))
        return;
    const bool one = gpus && !(gpus & (gpus - 1));
    BenchFinding *f = judge_add(j, BENCH_FAULT, BENCH_CORRUPTS, BENCH_PART_COLLECTIVE,
                                !one                        ? BENCH_NONE
                                : first->peer == BENCH_NONE ? first->gpu
                                                            : first->peer);
    f->gpus = gpus;
    f->error = first->kind;
    f->measure = first->measure;
    f->repeats = first->repeats;
    judge_say(f, "its part of %s is wrong%s (should be 0x%" PRIx64 ", is 0x%" PRIx64 "), though no pair of GPUs does",
              first->what[0] ? first->what : bench_stages[first->stage].text, one ? "" : ", and so are others",
              first->want, first->got);
}

/* --- slow copies -------------------------------------------------------------------------------------------------- */

static bool is_slow(const Pair *pair)
{
    return pair->slow;
}

static bool is_mirrored(BenchMeasureId id)
{
    return id == BENCH_PEER_BOTH;
}

/* The rates of one measure, without pairs that are bad for another reason. */
static void load_rates(Links *l, BenchMeasureId id)
{
    const BenchRun *run = l->judge->run;

    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = 0; b < l->n; b++) {
            l->pairs[a][b].rate = (double)NAN;
            l->pairs[a][b].slow = false;
        }
    for (size_t i = 0; i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];

        if (m->id != id || m->gpu >= l->n || m->peer >= l->n || m->gpu == m->peer)
            continue;
        l->pairs[m->gpu][m->peer].rate = bench_value(run, m);
        if (is_mirrored(id))
            l->pairs[m->peer][m->gpu].rate = l->pairs[m->gpu][m->peer].rate;
    }
    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = 0; b < l->n; b++) {
            const bool out = is_bad_pair(l, is_without_access, a, b) || is_bad_pair(l, is_staged, a, b);

            l->pairs[a][b].rate = out ? (double)NAN : l->pairs[a][b].rate;
        }
}

static int compare_down(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The rates of copies from a GPU (`to`: to it), the fastest first, without GPUs that were blamed. */
static size_t sort_rates(const Links *l, uint32_t gpu, bool to, double ret[GPUS_MAX])
{
    size_t count = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        const double rate = to ? l->pairs[i][gpu].rate : l->pairs[gpu][i].rate;

        if (i != gpu && !l->blamed[i] && rate > 0)
            ret[count++] = rate;
    }
    qsort(ret, count, sizeof *ret, compare_down);
    return count;
}

/* The median of the others' copies at a place in that order. */
static double find_usual(const Links *l, uint32_t gpu, bool to, size_t place, uint32_t *ret_count, double *ret_spread)
{
    double values[GPUS_MAX], rates[GPUS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < l->n; i++)
        if (i != gpu && !l->blamed[i] && judge_same_model(l->judge, i, gpu) && sort_rates(l, i, to, rates) > place)
            values[count++] = rates[place];
    *ret_count = (uint32_t)count;
    return count >= BENCH_PEERS_MIN ? bench_median(values, count, ret_spread) : (double)NAN;
}

static bool is_behind(BenchMeasureId id, double rate, double usual, double spread, BenchSeverity *ret)
{
    const BenchComparison c = {
        .basis = BENCH_BY_PEERS, .behind_percent = bench_behind(id, rate, usual), .spread_percent = spread};

    return usual > 0 && compare_limit(id, &c, false, ret);
}

/* Copies of one GPU that are slower than those of the others. */
typedef struct SlowSide {
    size_t slow, all;
    uint32_t others;
    double rate, usual, spread; /* of the median one */
    BenchSeverity severity;
} SlowSide;

static SlowSide look_at_side(const Links *l, BenchMeasureId id, uint32_t gpu, bool to)
{
    double rates[GPUS_MAX], slow_rates[GPUS_MAX], usuals[GPUS_MAX];
    SlowSide side = {.all = sort_rates(l, gpu, to, rates), .severity = BENCH_NOTICE};

    for (size_t i = 0; i < side.all; i++) {
        BenchSeverity severity;
        double spread = 0;
        uint32_t others;
        const double usual = find_usual(l, gpu, to, i, &others, &spread);

        if (!is_behind(id, rates[i], usual, spread, &severity))
            continue;
        slow_rates[side.slow] = rates[i];
        usuals[side.slow++] = usual;
        side.others = others;
        side.spread = spread;
        side.severity = severity > side.severity ? severity : side.severity;
    }
    side.rate = bench_median(slow_rates, side.slow, NULL);
    side.usual = bench_median(usuals, side.slow, NULL);
    return side;
}

static bool is_most(const SlowSide *side)
{
    return side->slow > 0 && side->slow * 2 >= side->all && side->all > 1;
}

/* How many of its NVLinks are down, where that is more than of the others; 0: none, or not known. */
static double count_down(const Judge *j, uint32_t gpu)
{
    const double own = j->run->gpus.at[gpu].after[BENCH_NVLINKS_DOWN];
    double others[GPUS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < j->gpu_count; i++)
        if (i != gpu && judge_same_model(j, i, gpu) && isfinite(j->run->gpus.at[i].after[BENCH_NVLINKS_DOWN]))
            others[count++] = j->run->gpus.at[i].after[BENCH_NVLINKS_DOWN];
    if (count < BENCH_PEERS_MIN || !(own > 0))
        return 0;
    const double usual = bench_median(others, count, NULL);
    return own > usual ? own - usual : 0;
}

static void say_down(const Judge *j, BenchFinding *f, uint32_t gpu)
{
    const double down = count_down(j, gpu);

    if (!(down > 0))
        return;
    f->reason = BENCH_REASON_NVLINKS;
    f->severity = f->severity < BENCH_DEGRADED ? BENCH_DEGRADED : f->severity;
    judge_say(f, "; %.0f of its NVLinks %s down", down, down > 1 ? "are" : "is");
}

/* Without NVLinks copies go over the PCIe link, whose fault was found already. */
static bool is_explained(const Judge *j, uint32_t gpu)
{
    return !judge_has_nvlinks(j) && judge_is_bad(j, gpu, BENCH_PART_HOST_LINK);
}

static void blame_gpu(Links *l, BenchMeasureId id, uint32_t gpu, const SlowSide *from, const SlowSide *to)
{
    Judge *j = l->judge;
    const bool both = is_most(from) && is_most(to);
    const SlowSide *side = is_most(from) ? from : to;
    char label[BENCH_NAME_CAP], value[BENCH_NAME_CAP];

    l->blamed[gpu] = true;
    if (is_explained(j, gpu))
        return;
    const BenchSeverity severity = both && to->severity > side->severity ? to->severity : side->severity;
    BenchFinding *f = judge_add(j, severity, BENCH_SLOW, BENCH_PART_PEER_LINK, gpu);
    const BenchComparison c = {.basis = BENCH_BY_PEERS,
                               .count = side->others,
                               .value = side->rate,
                               .reference = side->usual,
                               .spread_percent = side->spread,
                               .behind_percent = bench_behind(id, side->rate, side->usual)};

    f->measure = id;
    compare_set(f, &c);
    bench_label(id, label);
    bench_number(side->rate, value);
    judge_say(f, "copies %s the other GPUs (%s) reach %s GB/s, ",
              both           ? "to and from"
              : side == from ? "to"
                             : "from",
              label, value);
    compare_say(j, f, gpu, &c, "GB/s");
    say_down(j, f, gpu);
}

/* The GPU most of whose copies are slow; one at a time, because it slows those of the others. */
static bool blame_next(Links *l, BenchMeasureId id)
{
    uint32_t worst = BENCH_NONE;
    SlowSide worst_from = {0}, worst_to = {0};

    for (uint32_t gpu = 0; gpu < l->n; gpu++) {
        if (l->blamed[gpu])
            continue;
        const SlowSide from = look_at_side(l, id, gpu, false), to = look_at_side(l, id, gpu, true);

        if ((!is_most(&from) && !is_most(&to)) ||
            (worst != BENCH_NONE && from.slow + to.slow <= worst_from.slow + worst_to.slow))
            continue;
        worst = gpu;
        worst_from = from;
        worst_to = to;
    }
    if (worst != BENCH_NONE)
        blame_gpu(l, id, worst, &worst_from, &worst_to);
    return worst != BENCH_NONE;
}

/* The place of a copy among those of its GPU. */
static size_t place_of(const Links *l, uint32_t gpu, uint32_t peer, bool to)
{
    const double rate = to ? l->pairs[peer][gpu].rate : l->pairs[gpu][peer].rate;
    size_t place = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        const double other = to ? l->pairs[i][gpu].rate : l->pairs[gpu][i].rate;

        place += i != gpu && !l->blamed[i] && (other > rate || (!(other < rate) && other > 0 && i < peer));
    }
    return place;
}

/* A copy is slow where it is so among those from its source and among those to its target. */
static void mark_slow(Links *l, BenchMeasureId id, uint32_t from, uint32_t to)
{
    Pair *pair = &l->pairs[from][to];
    double spread_from = 0, spread_to = 0;
    BenchSeverity severity;
    uint32_t others;

    if (from == to || l->blamed[from] || l->blamed[to] || !(pair->rate > 0))
        return;
    const double by_source = find_usual(l, from, false, place_of(l, from, to, false), &others, &spread_from);
    const double by_target = find_usual(l, to, true, place_of(l, to, from, true), &pair->count, &spread_to);
    if (!is_behind(id, pair->rate, by_source, spread_from, &severity) ||
        !is_behind(id, pair->rate, by_target, spread_to, &severity))
        return;
    pair->slow = true;
    pair->basis = BENCH_BY_PEERS;
    pair->reference = by_source;
    pair->spread = spread_from;
    pair->behind = bench_behind(id, pair->rate, by_source);
}

static size_t find_place(const BenchRun *run, const char *uuid)
{
    size_t i = 0;

    while (i < run->gpus.len && strcmp(run->gpus.at[i].device.uuid, uuid) != 0)
        i++;
    return i;
}

/* The same copy in earlier runs. */
static void mark_slower_than_before(Links *l, BenchMeasureId id, uint32_t from, uint32_t to)
{
    const Judge *j = l->judge;
    Pair *pair = &l->pairs[from][to];
    double values[BENCH_HISTORY_MAX];
    BenchSeverity severity;
    size_t count = 0;

    for (size_t r = 0; r < j->refs->history_count && count < BENCH_HISTORY_MAX && pair->rate > 0; r++) {
        const BenchRun *run = j->refs->history[r];
        const size_t a = find_place(run, j->run->gpus.at[from].device.uuid),
                     b = find_place(run, j->run->gpus.at[to].device.uuid);
        const BenchMeasure *m = bench_run_find(run, id, (uint32_t)a, (uint32_t)b);
        const double value = m ? bench_value(run, m) : (double)NAN;

        if (value > 0)
            values[count++] = value;
    }
    if (count < BENCH_HISTORY_MIN || pair->slow)
        return;
    BenchComparison c = {.basis = BENCH_BY_HISTORY};
    c.reference = bench_median(values, count, &c.spread_percent);
    c.behind_percent = bench_behind(id, pair->rate, c.reference);
    if (!compare_limit(id, &c, false, &severity))
        return;
    pair->slow = true;
    pair->basis = BENCH_BY_HISTORY;
    pair->count = (uint32_t)count;
    pair->reference = c.reference;
    pair->spread = c.spread_percent;
    pair->behind = c.behind_percent;
}

/* Of the copies between two GPUs (`peer` BENCH_NONE: any of the GPU's) the slowest one. */
static const Pair *find_slowest(const Links *l, uint32_t gpu, uint32_t peer)
{
    const Pair *slowest = NULL;

    for (uint32_t i = 0; i < l->n; i++) {
        const Pair *ways[] = {&l->pairs[gpu][i], &l->pairs[i][gpu]};

        for (size_t w = 0; w < ARRAY_LEN(ways) && (peer == BENCH_NONE || i == peer); w++)
            if (ways[w]->slow && (!slowest || ways[w]->behind > slowest->behind))
                slowest = ways[w];
    }
    return slowest;
}

static void add_slow(Links *l, BenchMeasureId id, uint32_t gpu, uint32_t peer, const char *partners)
{
    const Pair *pair = find_slowest(l, gpu, peer);
    BenchSeverity severity = BENCH_NOTICE;
    char value[BENCH_NAME_CAP], reference[BENCH_NAME_CAP];

    if (!pair || (peer == BENCH_NONE && is_explained(l->judge, gpu)))
        return;
    const BenchComparison c = {.basis = pair->basis,
                               .count = pair->count,
                               .value = pair->rate,
                               .reference = pair->reference,
                               .spread_percent = pair->spread,
                               .behind_percent = pair->behind};
    compare_limit(id, &c, false, &severity);
    BenchFinding *f = add_pair(l, severity, BENCH_SLOW, gpu, peer);
    f->measure = id;
    compare_set(f, &c);
    bench_number(c.value, value);
    bench_number(c.reference, reference);
    if (peer == BENCH_NONE)
        judge_say(f, "copies between it and %s are slow: ", partners);
    else
        judge_say(f, "copies between them are slow: ");
    judge_say(f, "%s GB/s, %.*f %% behind %s (median %s, MAD %.2f %%)", value, c.behind_percent < 9.95,
              c.behind_percent, c.basis == BENCH_BY_PEERS ? "other pairs of this node" : "their own earlier runs",
              reference, c.spread_percent);
    say_down(l->judge, f, gpu);
}

static void add_slow_copy(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    add_slow(l, BENCH_PEER, gpu, peer, partners);
}

static void add_slow_copy_by_sm(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    add_slow(l, BENCH_PEER_SM, gpu, peer, partners);
}

static void add_slow_copy_both(Links *l, uint32_t gpu, uint32_t peer, const char *partners)
{
    add_slow(l, BENCH_PEER_BOTH, gpu, peer, partners);
}

/* All copies of one measure. Where all became slow, judge_together says so once. */
static void judge_copies(Links *l, BenchMeasureId id, AddBad *add)
{
    uint32_t pairs;

    load_rates(l, id);
    while (blame_next(l, id))
        ;
    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = 0; b < l->n; b++)
            mark_slow(l, id, a, b);
    for (uint32_t a = 0; a < l->n; a++)
        for (uint32_t b = 0; b < l->n; b++)
            if (!l->blamed[a] && !l->blamed[b])
                mark_slower_than_before(l, id, a, b);
    if (!is_even(l, is_slow, &pairs))
        add_bad_pairs(l, is_slow, add);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static void load_errors(Links *l)
{
    const BenchRun *run = l->judge->run;

    for (size_t i = 0; i < run->errors.len; i++) {
        const BenchError *e = &run->errors.at[i];

        if (e->gpu >= l->n || e->peer >= l->n || e->gpu == e->peer)
            continue;
        Pair *pair = &l->pairs[e->gpu][e->peer];
        pair->no_access |= e->kind == BENCH_ERROR_NO_PEER;
        pair->staged |= e->kind == BENCH_ERROR_STAGED;
        if (e->kind == BENCH_ERROR_MISCOMPARE && e->stage != BENCH_STAGE_COLLECTIVES && !pair->corrupts)
            pair->corrupts = e;
    }
}

/* Where GPUs have NVLinks, a copy between two that is much slower than one of them copies from the host goes through
 * the host, whatever the driver says of their access. */
static void find_staged(Links *l)
{
    const BenchRun *run = l->judge->run;

    for (size_t i = 0; judge_has_nvlinks(l->judge) && i < run->measures.len; i++) {
        const BenchMeasure *m = &run->measures.at[i];

        if (m->id != BENCH_PEER || m->gpu >= l->n || m->peer >= l->n || m->gpu == m->peer)
            continue;
        const BenchMeasure *a = bench_run_find(run, BENCH_HOST_TO_GPU, m->gpu, BENCH_NONE);
        const BenchMeasure *b = bench_run_find(run, BENCH_HOST_TO_GPU, m->peer, BENCH_NONE);
        if (a && b)
            l->pairs[m->gpu][m->peer].staged |=
                bench_measure_median(m) < STAGED_SHARE * fmin(bench_measure_median(a), bench_measure_median(b));
    }
}

static void judge_links_down(Judge *j)
{
    for (uint32_t gpu = 0; gpu < j->gpu_count; gpu++) {
        const double down = count_down(j, gpu);

        if (!(down > 0) || judge_is_bad(j, gpu, BENCH_PART_PEER_LINK))
            continue;
        BenchFinding *f = judge_add(j, BENCH_DEGRADED, BENCH_LINKS_DOWN, BENCH_PART_PEER_LINK, gpu);
        f->reason = BENCH_REASON_NVLINKS;
        f->basis = BENCH_BY_PEERS;
        f->value = down;
        judge_say(f, "%.0f more of its NVLinks %s down than of the other GPUs of its model", down,
                  down > 1 ? "are" : "is");
    }
}

void judge_links(Judge *j)
{
    static const struct {
        BenchMeasureId id;
        AddBad *add;
    } measures[] = {
        {BENCH_PEER, add_slow_copy}, {BENCH_PEER_SM, add_slow_copy_by_sm}, {BENCH_PEER_BOTH, add_slow_copy_both}};
    CLEANUP_FREE Links *l = xcalloc(1, sizeof *l);

    l->judge = j;
    l->n = j->gpu_count;
    load_errors(l);
    find_staged(l);
    judge_access(l);
    add_bad_pairs(l, is_corrupt, add_corrupt);
    judge_wrong_sums(l);
    const size_t before = j->out->findings.len;
    for (size_t i = 0; i < ARRAY_LEN(measures) && j->out->findings.len == before; i++) /* one way shows it, and so */
        judge_copies(l, measures[i].id, measures[i].add);                              /* would the others */
    judge_links_down(j);
}
