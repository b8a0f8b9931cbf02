/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that the others wait for. Of each rank's time per step only what is no waiting counts (ranks_replay.c). The
 * ranks that have at least half as much more of it as the one with most are late if they are so again and again; then
 * the same of the rest, until none is. Ranks that are late together are a group for each cause. What a group costs is
 * the difference of two replays: as it was, and with the late ranks as the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/human.h"
#include "engine/trace/ranks.h"
#include "engine/trace/verdict.h"

#define NOISE_NS INT64_C(5000) /* sets whose ranks come closer than this say nothing of who was last */
#define LATE_MIN_NS 10000.0    /* per operation in the mean */
#define PERCENT_MIN 0.5        /* of the step */
#define GROUP_SHARE 0.5        /* of the latest rank's lateness, which the others of its group have too */
#define LATEST_SHARE 0.75      /* the same where those are not late again and again */
#define AGAIN_SHARE 0.8        /* of bins in which a rank is late, and of the group's ranks that are so */
#define AGAIN_LATER 0.95       /* of all bins of the group, of what is looked for after that */
#define STEADY_T 4.0           /* mean over deviation of the mean, from bin to bin */
#define STEADY_T_FEW 8.0       /* the same with less than FEW_BINS, and of what is looked for after that */
#define ONCE_SHARE 0.25        /* of a step: lateness that is said even if it occurs once */
#define CAUSE_SHARE 0.5        /* of the lateness that a cause must explain */
enum { BINS_MIN = 3, FEW_BINS = 5, TIME_BINS = 16, BINS_MAX = 256, SETS_MIN = 3 };

typedef struct LateSearch {
    const RankMatch *match;
    TraceReport *report;
    size_t ranks;
    int64_t skip;    /* steps up to this number are a warm-up */
    bool stepped;    /* bins are steps */
    bool work_alone; /* own time is without transfers: others' may be exposed only because they wait */
    int64_t *steps;  /* number of the step of each bin, where bins are steps */
    int64_t *bins;   /* per set */
    size_t bin_count, live_bins;
    double step_count; /* of live bins; without steps 1 */
    RankReplay *replay;
    double now_ns;   /* of the replay with nothing mended */
    RankOwn *own;    /* per rank and bin */
    double *typical; /* per rank: median over bins of its own time */
    bool *late;      /* all that are late */
    bool *group;     /* those of them that are looked at */
    uint32_t *round; /* per late rank: in which round it was found, from 1 */
    double *others;  /* per bin: median over the ranks that are not late */
    double *room;
    TraceFacts *facts; /* of measured steps */
    size_t late_count, group_count;
    uint32_t latest; /* of the group */
    double late_ns;  /* of the group's ranks in the mean, per bin */
} LateSearch;

/* ---- bins ---- */

static void find_warm_up(LateSearch *search)
{
    search->skip = -1;
    for (size_t i = 0; i < search->ranks; i++) {
        const TraceRank *rank = &search->report->ranks.at[i];
        if (trace_warm_up(rank))
            search->skip = trace_larger(search->skip, rank->steps.at[0].number);
    }
    for (size_t i = 0; i < search->ranks; i++) {
        const TraceRank *rank = &search->report->ranks.at[i];
        size_t first = 0;
        while (first + 1 < rank->steps.len && rank->steps.at[first].number <= search->skip)
            first++;
        trace_find_facts(search->report, rank, first, &search->facts[i]);
    }
}

static int64_t step_of_set(const LateSearch *search, const RankSet *set)
{
    int64_t step = -1;
    for (size_t k = set->first; k < set->first + set->count && step < 0; k++) {
        const RankPart *part = &search->match->parts.at[k];
        step = rank_step(&search->report->ranks.at[part->rank], rank_row(search->match, part));
    }
    return step;
}

typedef struct SetTime {
    int64_t time;
    size_t set;
} SetTime;

static int by_set_time(const void *a, const void *b)
{
    const SetTime *x = a, *y = b;
    const int64_t keys[][2] = {{x->time, y->time}, {(int64_t)x->set, (int64_t)y->set}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* Measured steps of the sets, densely numbered. Gives how many there are. */
static size_t bin_by_step(LateSearch *search, SetTime *times)
{
    size_t steps = 0, sets = search->match->sets.len;
    for (size_t i = 0; i < sets; i++)
        times[i] = (SetTime){.time = step_of_set(search, &search->match->sets.at[i]), .set = i};
    qsort(times, sets, sizeof(*times), by_set_time);
    for (size_t i = 0; i < sets; i++) {
        search->bins[times[i].set] = -1;
        if (times[i].time <= search->skip || times[i].time < 0)
            continue;
        if (steps == 0 || search->steps[steps - 1] != times[i].time)
            search->steps[steps++] = times[i].time;
        search->bins[times[i].set] = (int64_t)steps - 1;
    }
    for (size_t i = 0; i < sets && steps > BINS_MAX; i++)
        search->bins[i] = search->bins[i] < 0 ? -1 : search->bins[i] * BINS_MAX / (int64_t)steps;
    return steps;
}

/* Equal shares of the sets by their ends; of sets in steps if there are any. */
static void bin_by_time(LateSearch *search, SetTime *times, bool in_steps)
{
    const RankMatch *match = search->match;
    size_t count = 0;
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankPart *part = &match->parts.at[match->sets.at[i].first];
        if (!in_steps || search->bins[i] >= 0)
            times[count++] =
                (SetTime){.time = rank_common(&match->ranks[part->rank].clock, rank_row(match, part)->end), .set = i};
    }
    qsort(times, count, sizeof(*times), by_set_time);
    for (size_t i = 0; i < count; i++)
        search->bins[times[i].set] = (int64_t)(i * TIME_BINS / count);
}

/* A few steps alone do not show what occurs again and again. */
static void choose_bins(LateSearch *search)
{
    CLEANUP_FREE SetTime *times = xcalloc(search->match->sets.len, sizeof(*times));
    search->steps = xcalloc(search->match->sets.len, sizeof(*search->steps));
    const size_t steps = bin_by_step(search, times);
    search->stepped = steps >= BINS_MIN;
    if (!search->stepped)
        bin_by_time(search, times, steps > 0);
    search->step_count = steps > 0 ? (double)steps : 1;
    search->bin_count = !search->stepped ? TIME_BINS : steps < BINS_MAX ? steps : BINS_MAX;
    search->live_bins = search->bin_count;
}

static RankOwn *own_of(const LateSearch *search, size_t rank, size_t bin)
{
    return &search->own[rank * search->bin_count + bin];
}

static double own_ns(const LateSearch *search, size_t rank, size_t bin)
{
    const RankOwn *own = own_of(search, rank, bin);
    return own->work_ns + (search->work_alone ? 0 : own->transfer_ns);
}

static void measure_own(LateSearch *search)
{
    rank_replay_free(search->replay);
    search->replay = rank_replay_new(search->match, search->bins, search->bin_count);
    memset(search->own, 0, search->ranks * search->bin_count * sizeof(*search->own));
    rank_replay_sum(search->replay, search->own);
    for (size_t i = 0; i < search->ranks; i++) {
        CLEANUP_FREE double *values = xcalloc(search->bin_count + 1, sizeof(*values));
        size_t count = 0;
        for (size_t bin = 0; bin < search->bin_count; bin++)
            if (own_of(search, i, bin)->parts > 0)
                values[count++] = own_ns(search, i, bin);
        search->typical[i] = count > 0 ? trace_median_of_doubles(values, count) : NAN;
    }
}

/* ---- once ---- */

static void drop_bin(LateSearch *search, int64_t bin)
{
    bool there = false;
    for (size_t i = 0; i < search->match->sets.len; i++) {
        there = there || search->bins[i] == bin;
        search->bins[i] = search->bins[i] == bin ? -1 : search->bins[i];
    }
    if (!there)
        return;
    search->step_count *= 1 - 1 / (double)search->live_bins--;
}

/* How late the last rank came, where that is its first operation of all; else 0. */
static double find_late_begin(const LateSearch *search, const RankSet *set, double usual_ns)
{
    CLEANUP_FREE int64_t *room = xcalloc(set->count, sizeof(*room));
    bool first = false;
    for (uint32_t k = 0; k < set->count; k++) {
        const RankPart *part = &search->match->parts.at[set->first + k];
        room[k] = part->duration;
        first = first || (part->rank == set->last_rank && part->row == 0);
    }
    if (!first || !collective_joins_all(set->kind) || !set->complete || set->tie)
        return 0;
    const double more = search->typical[set->last_rank] - usual_ns;
    return (double)(trace_median(room, set->count) - set->shortest) - fmax(more, 0);
}

static bool drop_late_begin(LateSearch *search, double usual_ns)
{
    bool found = false;
    for (size_t i = 0; i < search->match->sets.len; i++) {
        const RankSet *set = &search->match->sets.at[i];
        const double late = find_late_begin(search, set, usual_ns);
        if (!(late >= ONCE_SHARE * usual_ns) || late < LATE_MIN_NS)
            continue;
        rank_note(search->report, "rank %lld began %s late once: not counted",
                  (long long)search->report->ranks.at[set->last_rank].rank, TIME_TEXT(late));
        if (search->bins[i] >= 0)
            drop_bin(search, search->bins[i]);
        found = true;
    }
    return found;
}

/* How much longer than usual the bin was for the rank, beyond what it was for most. */
static double find_excess(const LateSearch *search, size_t rank, size_t bin, double common)
{
    return own_of(search, rank, bin)->parts > 0 ? own_ns(search, rank, bin) - search->typical[rank] - common : 0;
}

static double find_common(const LateSearch *search, size_t bin)
{
    size_t count = 0;
    for (size_t i = 0; i < search->ranks; i++)
        if (own_of(search, i, bin)->parts > 0)
            search->room[count++] = own_ns(search, i, bin) - search->typical[i];
    return trace_median_of_doubles(search->room, count);
}

static void note_once(const LateSearch *search, size_t rank, size_t bin, double ns)
{
    char step[48] = "";
    if (search->stepped && search->bin_count < BINS_MAX)
        snprintf(step, sizeof(step), ", in step %lld", (long long)search->steps[bin]);
    rank_note(search->report, "rank %lld was %s late once%s: not counted",
              (long long)search->report->ranks.at[rank].rank, TIME_TEXT(ns), step);
}

/* One bin of one rank that is far longer than all others of it. */
static bool drop_once(LateSearch *search, double usual_ns)
{
    CLEANUP_FREE double *common = xcalloc(search->bin_count + 1, sizeof(*common));
    bool found = false;
    for (size_t bin = 0; bin < search->bin_count; bin++)
        common[bin] = find_common(search, bin);
    for (size_t i = 0; i < search->ranks; i++) {
        double most = 0, next = 0;
        size_t at = 0;
        for (size_t bin = 0; bin < search->bin_count; bin++) {
            const double excess = find_excess(search, i, bin, common[bin]);
            next = excess > most ? most : fmax(next, excess);
            at = excess > most ? bin : at;
            most = fmax(most, excess);
        }
        if (most < ONCE_SHARE * usual_ns || most < LATE_MIN_NS || next > most * ONCE_SHARE)
            continue;
        note_once(search, i, at, most);
        drop_bin(search, (int64_t)at);
        found = true;
    }
    return found;
}

/* Of typical times, ascending in `room`: that of the lower quarter. 0 ranks: NAN. */
static double find_base(const LateSearch *search, size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < search->ranks; i++)
        if (!isnan(search->typical[i]))
            search->room[count++] = search->typical[i];
    qsort(search->room, count, sizeof(*search->room), trace_by_double);
    *ret_count = count;
    return count > 0 ? search->room[(count - 1) / 4] : NAN;
}

/* ---- the late ranks ---- */

/* Median over the ranks that are not late, per bin. */
static void measure_others(LateSearch *search)
{
    for (size_t bin = 0; bin < search->bin_count; bin++) {
        size_t count = 0;
        for (size_t i = 0; i < search->ranks; i++)
            if (!search->late[i] && own_of(search, i, bin)->parts > 0)
                search->room[count++] = own_ns(search, i, bin);
        search->others[bin] = count > 0 ? trace_median_of_doubles(search->room, count) : NAN;
    }
}

static void add_to_group(LateSearch *search, uint32_t rank)
{
    if (search->group_count == 0 || search->typical[rank] > search->typical[search->latest])
        search->latest = rank;
    search->group[rank] = true;
    search->group_count++;
}

static void clear_group(LateSearch *search)
{
    memset(search->group, 0, search->ranks * sizeof(*search->group));
    search->group_count = 0;
}

static double find_most(const LateSearch *search)
{
    double most = -HUGE_VAL;
    for (size_t i = 0; i < search->ranks; i++)
        most = search->late[i] ? most : fmax(most, search->typical[i]);
    return most;
}

/* Late are those of the rounds that found some. */
static void forget_unfound(LateSearch *search)
{
    search->late_count = 0;
    for (size_t i = 0; i < search->ranks; i++) {
        search->late[i] = search->round[i] > 0;
        search->late_count += search->late[i];
    }
}

/* Makes those a group of late ones that are, in their typical bin, behind the lower quarter by `share` of the latest's
 * lateness or more, of the ranks that are not late yet. False where that is nobody, or with those before more than
 * half.
 */
static bool mark_late(LateSearch *search, double share, double *ret_late)
{
    size_t count;
    forget_unfound(search);
    const double base = find_base(search, &count), most = find_most(search);
    clear_group(search);
    if (count < 2)
        return false;
    for (uint32_t i = 0; i < search->ranks; i++)
        if (!search->late[i] && search->typical[i] > base + share * (most - base))
            add_to_group(search, i);
    for (size_t i = 0; i < search->ranks; i++)
        search->late[i] = search->late[i] || search->group[i];
    search->late_count += search->group_count;
    *ret_late = most - base;
    return search->group_count > 0 && search->late_count * 2 <= count;
}

/* Share of the group's ranks that are late by half of `late` or more in most bins; and of all their bins. */
static double measure_again(const LateSearch *search, double late, double *ret_bins)
{
    size_t again = 0, late_bins = 0, all = 0;
    for (size_t i = 0; i < search->ranks; i++) {
        size_t bins = 0, here = 0;
        for (size_t bin = 0; bin < search->bin_count && search->group[i]; bin++) {
            const double others = search->others[bin];
            if (own_of(search, i, bin)->parts == 0 || isnan(others))
                continue;
            bins++;
            here += own_ns(search, i, bin) - others >= GROUP_SHARE * late;
        }
        again += search->group[i] && (double)here >= AGAIN_SHARE * (double)bins;
        late_bins += here;
        all += bins;
    }
    *ret_bins = all > 0 ? (double)late_bins / (double)all : 0;
    return (double)again / (double)search->group_count;
}

/* The group's mean against the others' median, per bin: its mean, and that over its deviation. */
static double measure_steadiness(LateSearch *search, size_t *ret_bins)
{
    double mean = 0, squares = 0;
    size_t count = 0;
    for (size_t bin = 0; bin < search->bin_count; bin++) {
        double sum = 0, ranks = 0;
        for (size_t i = 0; i < search->ranks; i++) {
            if (!search->group[i] || own_of(search, i, bin)->parts == 0)
                continue;
            sum += own_ns(search, i, bin);
            ranks++;
        }
        const double late = sum / ranks - search->others[bin], before = mean;
        if (isnan(late))
            continue;
        mean += (late - before) / (double)++count;
        squares += (late - before) * (late - mean);
    }
    search->late_ns = mean;
    *ret_bins = count;
    if (count < BINS_MIN || mean <= 0)
        return 0;
    const double deviation = sqrt(squares / (double)(count - 1) / (double)count);
    return deviation > 0 ? mean / deviation : HUGE_VAL;
}

/* ---- who they are ---- */

static const char *write_ranks(const LateSearch *search)
{
    CLEANUP(str_done) Str text = str_limited(96);
    const TraceReport *report = search->report;
    const char *separator = "";
    str_add(&text, search->group_count > 1 ? "ranks " : "rank ");
    for (size_t i = 0; i < search->ranks; i++) {
        const size_t from = i;
        if (!search->group[i])
            continue;
        while (i + 1 < search->ranks && search->group[i + 1] &&
               report->ranks.at[i + 1].rank == report->ranks.at[i].rank + 1)
            i++;
        if (text.len > 64) {
            str_add(&text, ", ...");
            break;
        }
        str_addf(&text, "%s%lld", separator, (long long)report->ranks.at[from].rank);
        if (i > from)
            str_addf(&text, "-%lld", (long long)report->ranks.at[i].rank);
        separator = ", ";
    }
    return arena_strdup(&search->report->arena, text.text);
}

/* All ranks of a host, and no others. */
static bool is_host(const LateSearch *search)
{
    const char *host = search->report->ranks.at[search->latest].host;
    for (size_t i = 0; i < search->ranks; i++) {
        const char *other = search->report->ranks.at[i].host;
        if (!host || !*host || !other || (strcmp(host, other) == 0) != search->group[i])
            return false;
    }
    return true;
}

/* The members of one set; of a transfer or of an operation of all. */
static bool is_group(const LateSearch *search, bool joins_all)
{
    const RankMatch *match = search->match;
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        bool same = set->count == search->group_count && collective_joins_all(set->kind) == joins_all;
        for (size_t k = set->first; k < set->first + set->count && same; k++)
            same = search->group[match->parts.at[k].rank];
        if (same)
            return true;
    }
    return false;
}

static bool has_transfers(const LateSearch *search)
{
    for (size_t i = 0; i < search->match->sets.len; i++)
        if (!collective_joins_all(search->match->sets.at[i].kind))
            return true;
    return false;
}

/* Ranks of a host, where all that are given have as many; else 8. */
static int64_t host_size(const LateSearch *search)
{
    const TraceReport *report = search->report;
    int64_t size = 0;
    for (size_t i = 0; i < search->ranks && report->ranks.at[i].host && *report->ranks.at[i].host; i++)
        size += strcmp(report->ranks.at[i].host, report->ranks.at[0].host) == 0;
    return size > 0 && size < (int64_t)search->ranks ? size : 8;
}

/* All ranks of equal index in blocks of `size`. */
static bool is_rail(const LateSearch *search, int64_t size)
{
    const int64_t index = search->report->ranks.at[search->latest].rank % size;
    for (size_t i = 0; i < search->ranks; i++)
        if ((search->report->ranks.at[i].rank % size == index) != search->group[i])
            return false;
    return search->group_count > 1;
}

static bool is_block(const LateSearch *search)
{
    const int64_t size = (int64_t)search->group_count;
    const int64_t block = search->report->ranks.at[search->latest].rank / size;
    for (size_t i = 0; i < search->ranks; i++)
        if ((search->report->ranks.at[i].rank / size == block) != search->group[i])
            return false;
    return size == 2 || size == 4 || size == 8;
}

static void name_group(const LateSearch *search, TraceStraggler *straggler)
{
    Arena *arena = &search->report->arena;
    const char *ranks = write_ranks(search);
    const int64_t size = host_size(search);
    straggler->label = ranks;
    straggler->group = search->group_count == 1 ? "rank" : "ranks";
    if (search->group_count == 1)
        return;
    if (is_host(search)) {
        straggler->group = "host";
        straggler->label = arena_printf(arena, "%s (host %s)", ranks, search->report->ranks.at[search->latest].host);
    } else if (has_transfers(search) && is_group(search, true)) {
        straggler->group = "stage";
        straggler->label = arena_printf(arena, "%s (a pipeline stage)", ranks);
    } else if (search->group_count == 2 && is_group(search, false)) {
        straggler->group = "pair";
        straggler->label = arena_printf(arena, "%s (a pair that sends and receives)", ranks);
    } else if (is_rail(search, size)) {
        straggler->group = "rail";
        straggler->label =
            arena_printf(arena, "%s (number %lld of each %lld: a rail)", ranks,
                         (long long)(search->report->ranks.at[search->latest].rank % size), (long long)size);
    } else if (is_block(search)) {
        straggler->group = "block";
        straggler->label = arena_printf(arena, "%s (a block of %zu)", ranks, search->group_count);
    }
}

/* ---- why ---- */

/* How much more the rank has of a mean than the median of the others; `mean`: its place in TraceFacts. */
static double find_more(const LateSearch *search, size_t rank, size_t mean)
{
    const char *place = (const char *)search->facts + mean;
    size_t count = 0;
    for (size_t i = 0; i < search->ranks; i++)
        if (!search->late[i] && !isnan(search->typical[i]))
            search->room[count++] = *(const double *)(const void *)(place + i * sizeof(TraceFacts));
    return *(const double *)(const void *)(place + rank * sizeof(TraceFacts)) -
           trace_median_of_doubles(search->room, count);
}

static double transfer_ns(const LateSearch *search, size_t rank)
{
    double sum = 0;
    for (size_t bin = 0; bin < search->bin_count; bin++)
        sum += own_of(search, rank, bin)->transfer_ns;
    return sum / search->step_count;
}

static void measure_rank_times(const LateSearch *search)
{
    size_t count = 0;
    for (size_t i = 0; i < search->ranks; i++)
        if (!search->late[i] && !isnan(search->typical[i]))
            search->room[count++] = transfer_ns(search, i);
    const double others = trace_median_of_doubles(search->room, count);
    for (size_t i = 0; i < search->ranks; i++) {
        TraceRankTime *time = &search->report->rank_times.at[i];
        if (isnan(search->typical[i]))
            continue;
        time->own_ns = time->waiting_ns = 0;
        for (size_t bin = 0; bin < search->bin_count; bin++) {
            time->own_ns += own_ns(search, i, bin) / search->step_count;
            time->waiting_ns += own_of(search, i, bin)->waiting_ns / search->step_count;
        }
        time->late_compute_ns = find_more(search, i, offsetof(TraceFacts, compute_ns));
        time->late_idle_ns = find_more(search, i, offsetof(TraceFacts, idle_ns));
        time->late_copy_ns = find_more(search, i, offsetof(TraceFacts, exposed_copy_ns));
        time->late_transfer_ns = transfer_ns(search, i) - others;
    }
}

static double mean_of_group(const LateSearch *search, size_t field)
{
    double sum = 0;
    for (size_t i = 0; i < search->ranks; i++)
        if (search->group[i])
            sum += *(const double *)(const void *)((const char *)&search->report->rank_times.at[i] + field);
    return sum / (double)search->group_count;
}

static const char *find_host_cause(const LateSearch *search)
{
    double most = 0;
    const char *word = "";
    for (size_t cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        const double more =
            find_more(search, search->latest, offsetof(TraceFacts, idle_by_cause) + cause * sizeof(double));
        if (more <= most)
            continue;
        most = more;
        word = trace_cause_words[cause];
    }
    return word;
}

static void find_cause(const LateSearch *search, TraceStraggler *straggler)
{
    static const struct {
        size_t field;
        const char *word;
    } causes[] = {{offsetof(TraceRankTime, late_compute_ns), "computes_late"},
                  {offsetof(TraceRankTime, late_idle_ns), "host_late"},
                  {offsetof(TraceRankTime, late_copy_ns), "copies_late"},
                  {offsetof(TraceRankTime, late_transfer_ns), "transfers_late"}};
    double most = CAUSE_SHARE * straggler->late_step_ns;
    straggler->cause = "unknown";
    straggler->host_cause = "";
    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        const double more = mean_of_group(search, causes[i].field);
        if (more <= most)
            continue;
        most = more;
        straggler->cause = causes[i].word;
        straggler->host_cause = i == 1 ? find_host_cause(search) : "";
    }
}

/* ---- what it costs ---- */

static double find_gain(const LateSearch *search, const bool *late)
{
    return (search->now_ns - rank_replay_run(search->replay, late, search->own)) / search->step_count;
}

static double mean_step(const LateSearch *search)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < search->ranks; i++) {
        if (isnan(search->typical[i]) || search->facts[i].step_ns <= 0)
            continue;
        sum += search->facts[i].step_ns;
        count++;
    }
    return count > 0 ? sum / count : NAN;
}

/* In how many of the operations with lateness one of the group was last. */
static void count_last(const LateSearch *search, TraceStraggler *straggler)
{
    const RankMatch *match = search->match;
    CLEANUP_FREE int64_t *room = xcalloc(search->ranks, sizeof(*room));
    size_t decisive = 0, last = 0;
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        bool of_latest = false;
        for (uint32_t k = 0; k < set->count; k++) {
            room[k] = match->parts.at[set->first + k].duration;
            of_latest = of_latest || match->parts.at[set->first + k].rank == search->latest;
        }
        if (!of_latest || search->bins[i] < 0 || !set->complete)
            continue;
        straggler->matched++;
        if (trace_select(room, set->count, set->count - 1) - set->shortest < NOISE_NS)
            continue;
        decisive++;
        last += search->group[set->last_rank];
    }
    straggler->share = decisive > 0 ? (double)last / (double)decisive : 0;
}

static void write_lateness(const LateSearch *search, size_t bins, TraceStraggler *straggler)
{
    straggler->late_step_ns = search->late_ns * (double)bins / search->step_count;
    straggler->late_ns = search->late_ns * (double)bins / fmax((double)straggler->matched, 1);
}

/* ---- all of them ---- */

/* Whether the group is late again and again, and what it costs is worth a word: beyond `known_ns`, what those found
 * before do. Who looks several times finds something by chance sooner: a later look asks for more. */
static bool is_group_late(LateSearch *search, double late, bool is_later_look, double *known_ns)
{
    double bins_again;
    size_t bins;
    TraceStraggler found = {0};
    measure_others(search);
    const double again = measure_again(search, late, &bins_again), t = measure_steadiness(search, &bins);
    count_last(search, &found);
    write_lateness(search, bins, &found);
    if (again < AGAIN_SHARE || bins < BINS_MIN || t < (bins < FEW_BINS || is_later_look ? STEADY_T_FEW : STEADY_T) ||
        (is_later_look && bins_again < AGAIN_LATER) || found.matched < SETS_MIN || found.late_ns < LATE_MIN_NS)
        return false;
    const double gain_ns = find_gain(search, search->late);
    if (!(100 * (gain_ns - *known_ns) / mean_step(search) >= PERCENT_MIN))
        return false;
    *known_ns = gain_ns;
    return true;
}

/* Round by round, until no more are found. Where the ranks that are late by half as much as the latest are not so in
 * most bins, those that are late by more. */
static void find_late_ranks(LateSearch *search)
{
    static const double shares[] = {GROUP_SHARE, LATEST_SHARE};
    double known_ns = 0;
    size_t tried = 0;
    search->now_ns = rank_replay_run(search->replay, NULL, search->own);
    for (uint32_t round = 1; tried < ARRAY_LEN(shares);) {
        double late;
        const bool found =
            mark_late(search, shares[tried], &late) && is_group_late(search, late, round > 1 || tried > 0, &known_ns);
        for (size_t i = 0; i < search->ranks; i++)
            search->round[i] = found && search->group[i] ? round : search->round[i];
        round += found;
        tried = found ? 0 : tried + 1;
    }
    forget_unfound(search);
    measure_others(search);
}

/* The group's mean lateness. */
static size_t measure_lateness(LateSearch *search, TraceStraggler *ret)
{
    size_t bins;
    measure_steadiness(search, &bins);
    write_lateness(search, bins, ret);
    return bins;
}

/* By what each late rank is late, by index. */
static TraceStraggler *find_causes(LateSearch *search)
{
    TraceStraggler *causes = xcalloc(search->ranks, sizeof(*causes));
    for (uint32_t i = 0; i < search->ranks; i++) {
        if (!search->late[i])
            continue;
        clear_group(search);
        add_to_group(search, i);
        measure_lateness(search, &causes[i]);
        find_cause(search, &causes[i]);
    }
    return causes;
}

static bool is_telling(const char *host_cause)
{
    for (TraceCause cause = 0; cause < TRACE_CAUSE_COUNT; cause++)
        if (strcmp(trace_cause_words[cause], host_cause) == 0)
            return trace_cause_is_telling(cause);
    return false;
}

/* Whether two ranks want different things mended. What is not known fits all, transfers are late between two, and of
 * the host's causes those count that name what to change. */
static bool differ_in_cause(const TraceStraggler *a, const TraceStraggler *b)
{
    static const char *const any[] = {"unknown", "transfers_late"};
    for (size_t i = 0; i < ARRAY_LEN(any); i++)
        if (strcmp(a->cause, any[i]) == 0 || strcmp(b->cause, any[i]) == 0)
            return false;
    if (strcmp(a->cause, b->cause) != 0)
        return true;
    return strcmp(a->host_cause, b->host_cause) != 0 && (is_telling(a->host_cause) || is_telling(b->host_cause));
}

static bool comes_before(const LateSearch *search, uint32_t a, uint32_t b)
{
    if (search->round[a] != search->round[b])
        return search->round[a] < search->round[b];
    return search->typical[a] > search->typical[b];
}

/* Makes the latest rank that belongs to no group yet one, with those of its round that are late by the same. */
static bool gather_group(LateSearch *search, const TraceStraggler *causes, const uint32_t *group_of)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < search->ranks; i++)
        if (search->late[i] && group_of[i] == 0 && (first == UINT32_MAX || comes_before(search, i, first)))
            first = i;
    clear_group(search);
    for (uint32_t i = 0; i < search->ranks && first != UINT32_MAX; i++)
        if (search->late[i] && group_of[i] == 0 && search->round[i] == search->round[first] &&
            !differ_in_cause(&causes[i], &causes[first]))
            add_to_group(search, i);
    return first != UINT32_MAX;
}

static TraceStraggler describe_group(LateSearch *search)
{
    TraceStraggler found = {.rank = search->report->ranks.at[search->latest].rank};
    double again;
    size_t ranks;
    const double base = find_base(search, &ranks);
    count_last(search, &found);
    measure_again(search, search->typical[search->latest] - base, &again);
    found.confidence = again * (1 - exp2(-(double)measure_lateness(search, &found) / 2));
    name_group(search, &found);
    find_cause(search, &found);
    search->work_alone = strcmp(found.cause, "transfers_late") != 0;
    measure_others(search);
    measure_lateness(search, &found);
    search->work_alone = false;
    measure_others(search);
    for (size_t i = 0; i < search->ranks; i++)
        if (search->group[i])
            vec_push(&found.ranks, search->report->ranks.at[i].rank);
    return found;
}

static double find_percent(const LateSearch *search, double ns)
{
    return fmin(fmax(100 * ns / mean_step(search), 0), 100);
}

/* What each group costs: mended after those before it, and alone where all others are. */
static void find_gains(const LateSearch *search, const uint32_t *group_of, size_t groups)
{
    CLEANUP_FREE bool *mended = xcalloc(search->ranks, sizeof(*mended));
    TraceReport *report = search->report;
    double known_ns = 0;
    for (size_t group = 1; group <= groups; group++) {
        TraceStraggler *straggler = group == 1 ? &report->straggler : &report->more_stragglers.at[group - 2];
        for (size_t i = 0; i < search->ranks; i++)
            mended[i] = mended[i] || group_of[i] == group;
        const double gain_ns = find_gain(search, mended);
        straggler->percent_of_step = find_percent(search, gain_ns - known_ns);
        known_ns = gain_ns;
    }
    for (size_t group = 1; group <= groups; group++) {
        TraceStraggler *straggler = group == 1 ? &report->straggler : &report->more_stragglers.at[group - 2];
        for (size_t i = 0; i < search->ranks; i++)
            mended[i] = group_of[i] > 0 && group_of[i] != group;
        straggler->cost_percent =
            groups > 1 ? find_percent(search, known_ns - find_gain(search, mended)) : straggler->percent_of_step;
        for (size_t i = 0; i < search->ranks; i++)
            mended[i] = report->ranks.at[i].rank == straggler->rank && group_of[i] == group;
        straggler->alone_percent = groups > 1 || straggler->ranks.len > 1
                                       ? find_percent(search, find_gain(search, mended))
                                       : straggler->percent_of_step;
    }
}

static void write_stragglers(LateSearch *search)
{
    CLEANUP_FREE TraceStraggler *causes = find_causes(search);
    CLEANUP_FREE uint32_t *group_of = xcalloc(search->ranks, sizeof(*group_of));
    uint32_t groups = 0;
    while (gather_group(search, causes, group_of)) {
        const TraceStraggler found = describe_group(search);
        if (++groups == 1)
            search->report->straggler = found;
        else
            vec_push(&search->report->more_stragglers, found);
        for (size_t i = 0; i < search->ranks; i++)
            group_of[i] = search->group[i] ? groups : group_of[i];
    }
    find_gains(search, group_of, groups);
}

/* What occurs once is no evidence. */
static void drop_what_occurs_once(LateSearch *search)
{
    size_t count;
    const double usual_ns = find_base(search, &count);
    if (drop_late_begin(search, usual_ns))
        measure_own(search);
    if (drop_once(search, usual_ns))
        measure_own(search);
}

void rank_straggler(const RankMatch *match)
{
    TraceReport *report = match->report;
    LateSearch search = {.match = match, .report = report, .ranks = report->ranks.len};
    if (report->ranks.len < 2 || match->sets.len == 0)
        return;
    search.facts = xcalloc(search.ranks, sizeof(*search.facts));
    search.typical = xcalloc(search.ranks, sizeof(*search.typical));
    search.late = xcalloc(search.ranks, sizeof(*search.late));
    search.group = xcalloc(search.ranks, sizeof(*search.group));
    search.round = xcalloc(search.ranks, sizeof(*search.round));
    search.room = xcalloc(search.ranks, sizeof(*search.room));
    search.bins = xcalloc(match->sets.len, sizeof(*search.bins));
    find_warm_up(&search);
    choose_bins(&search);
    search.own = xcalloc(search.ranks * search.bin_count + 1, sizeof(*search.own));
    search.others = xcalloc(search.bin_count + 1, sizeof(*search.others));
    measure_own(&search);
    drop_what_occurs_once(&search);
    find_late_ranks(&search);
    measure_rank_times(&search);
    write_stragglers(&search);
    if (search.late_count == 0)
        rank_note(report, "no straggler: no rank, and no group of up to half of them, is late again and again");
    rank_replay_free(search.replay);
    free(search.steps);
    free(search.bins);
    free(search.own);
    free(search.typical);
    free(search.late);
    free(search.group);
    free(search.round);
    free(search.others);
    free(search.room);
    free(search.facts);
}
