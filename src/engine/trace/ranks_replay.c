/* SPDX-License-Identifier: Apache-2.0 */
/* The job as a small model: each rank does its own work, begins operations and waits for their ends; an operation
 * begins when the last rank has come and takes as long as its shortest part did. A rank waits for an operation from the
 * last moment at which something computed beside it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/ranks.h"
#include "engine/trace/tables.h"

#define QUEUED_NS INT64_C(10000) /* what begins so soon after the end before it on its stream was in the queue */

/* A rank begins its part of a set, or waits for the set's end. Before that it does its own work. */
typedef struct RankEvent {
    int64_t time; /* on the rank's clock */
    size_t part, set;
    uint32_t rank, row;
    bool waits;
    double work_ns; /* since the event before */
    double wait_ns; /* of one that waits: from the end of that work */
} RankEvent;

/* What a rank does until it begins its part: the work of all events since the last beginning. */
typedef struct RankLeg {
    double work_ns;
    size_t before; /* set of the part before it on its stream, SIZE_MAX none */
} RankLeg;

struct RankReplay {
    const RankMatch *match;
    const int64_t *bins; /* per set */
    size_t bin_count;
    VEC(RankEvent) events; /* by rank and time */
    size_t *first;         /* event of each rank; one more */
    RankLeg *legs;         /* per part */
    int64_t *kinds;        /* per set: the same for sets of equal operation and sizes */
    size_t kind_count;
};

static int64_t part_wait_ns(const RankMatch *match, const RankPart *part)
{
    const TraceCollective *row = rank_row(match, part);
    return trace_larger(rank_minus(row->end - row->start, row->hidden_ns), 0);
}

static int by_rank_time(const void *a, const void *b)
{
    const RankEvent *x = a, *y = b;
    const int64_t keys[][2] = {{x->rank, y->rank}, {x->time, y->time}, {x->waits, y->waits}, {x->row, y->row}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* The last row or set of a stream. Streams of a rank are few. */
typedef struct Stream {
    int64_t device, stream;
    size_t last;
} Stream;
typedef VEC(Stream) Streams;

/* Gives the one before, SIZE_MAX none. */
static size_t exchange_last(Streams *streams, const TraceCollective *row, size_t last)
{
    for (size_t i = 0; i < streams->len; i++) {
        Stream *stream = &streams->at[i];
        const size_t before = stream->last;
        if (stream->device != row->device || stream->stream != row->stream)
            continue;
        stream->last = last;
        return before;
    }
    vec_push(streams, ((Stream){.device = row->device, .stream = row->stream, .last = last}));
    return SIZE_MAX;
}

/* When the rank could begin each of its rows: one that was in the queue behind another began only as that one ended. */
static void find_begins(const TraceRank *rank, int64_t *begins)
{
    Streams streams = {0};
    for (size_t i = 0; i < rank->collectives.len; i++) {
        const TraceCollective *row = &rank->collectives.at[i];
        const size_t before = exchange_last(&streams, row, i);
        begins[i] = row->start;
        if (before != SIZE_MAX && rank_minus(row->start, rank->collectives.at[before].end) <= QUEUED_NS)
            begins[i] = trace_smaller(row->start, trace_larger(rank_minus(row->start, row->queued_ns), begins[before]));
    }
    vec_done(&streams);
}

static void add_events(RankReplay *replay, size_t set, int64_t *const *begins)
{
    const RankMatch *match = replay->match;
    for (size_t k = match->sets.at[set].first; k < match->sets.at[set].first + match->sets.at[set].count; k++) {
        const RankPart *part = &match->parts.at[k];
        const int64_t wait = part_wait_ns(match, part);
        RankEvent event = {
            .time = begins[part->rank][part->row], .part = k, .set = set, .rank = part->rank, .row = part->row};
        vec_push(&replay->events, event);
        if (wait == 0)
            continue;
        event.time = rank_row(match, part)->end - wait;
        event.waits = true;
        vec_push(&replay->events, event);
    }
}

static void collect_events(RankReplay *replay)
{
    const TraceReport *report = replay->match->report;
    CLEANUP_FREE int64_t **begins = xcalloc(report->ranks.len, sizeof(*begins));
    for (size_t i = 0; i < report->ranks.len; i++) {
        begins[i] = xcalloc(report->ranks.at[i].collectives.len + 1, sizeof(**begins));
        find_begins(&report->ranks.at[i], begins[i]);
    }
    for (size_t i = 0; i < replay->match->sets.len; i++)
        add_events(replay, i, begins);
    vec_sort(&replay->events, by_rank_time);
    for (size_t i = 0, rank = 0; rank <= report->ranks.len; rank++) {
        while (i < replay->events.len && replay->events.at[i].rank < rank)
            i++;
        replay->first[rank] = i;
    }
    for (size_t i = 0; i < report->ranks.len; i++)
        free(begins[i]);
}

/* Own work is the time between events that is no waiting. Of sets that are left out nothing is kept but their ends. */
static void measure_work(RankReplay *replay, uint32_t rank)
{
    const TraceRank *file = &replay->match->report->ranks.at[rank];
    Streams streams = {0};
    int64_t done = INT64_MIN;
    double leg = 0;
    for (size_t i = replay->first[rank]; i < replay->first[rank + 1]; i++) {
        RankEvent *event = &replay->events.at[i];
        const TraceCollective *row = rank_row(replay->match, &replay->match->parts.at[event->part]);
        if (done == INT64_MIN)
            done = file->steps.len > 0 ? trace_smaller(file->steps.at[0].start, event->time) : event->time;
        event->work_ns = (double)trace_larger(rank_minus(event->time, done), 0);
        done = trace_larger(done, event->time);
        event->wait_ns = event->waits ? (double)trace_larger(rank_minus(row->end, done), 0) : 0;
        done = trace_larger(done, event->waits ? row->end : done);
        leg = replay->bins[event->set] < 0 ? 0 : leg + event->work_ns;
        if (event->waits)
            continue;
        replay->legs[event->part] = (RankLeg){.work_ns = leg, .before = exchange_last(&streams, row, event->set)};
        leg = 0;
    }
    vec_done(&streams);
}

static void number_kinds(RankReplay *replay)
{
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(map_done) Map numbers;
    map_init(&numbers);
    for (size_t i = 0; i < replay->match->sets.len; i++) {
        const RankSet *set = &replay->match->sets.at[i];
        const TraceCollective *row = rank_row(replay->match, &replay->match->parts.at[set->first]);
        const char *key = arena_printf(&arena, "%d %u %lld %lld", (int)set->kind, (unsigned int)set->count,
                                       (long long)row->in_bytes, (long long)row->out_bytes);
        replay->kinds[i] = (int64_t)trace_number_of(&numbers, key);
        arena_reset(&arena);
    }
    replay->kind_count = numbers.len;
}

RankReplay *rank_replay_new(const RankMatch *match, const int64_t *bins, size_t bin_count)
{
    RankReplay *replay = xcalloc(1, sizeof(*replay));
    *replay = (RankReplay){.match = match, .bins = bins, .bin_count = bin_count};
    replay->first = xcalloc(match->report->ranks.len + 1, sizeof(*replay->first));
    replay->legs = xcalloc(match->parts.len, sizeof(*replay->legs));
    replay->kinds = xcalloc(match->sets.len, sizeof(*replay->kinds));
    number_kinds(replay);
    collect_events(replay);
    for (uint32_t rank = 0; rank < match->report->ranks.len; rank++)
        measure_work(replay, rank);
    return replay;
}

void rank_replay_free(RankReplay *replay)
{
    if (!replay)
        return;
    vec_done(&replay->events);
    free(replay->first);
    free(replay->legs);
    free(replay->kinds);
    free(replay);
}

void rank_replay_sum(const RankReplay *replay, RankOwn *own)
{
    for (size_t i = 0; i < replay->events.len; i++) {
        const RankEvent *event = &replay->events.at[i];
        const int64_t bin = replay->bins[event->set];
        if (bin < 0)
            continue;
        RankOwn *sum = &own[event->rank * replay->bin_count + (size_t)bin];
        sum->parts += !event->waits;
        sum->work_ns += event->work_ns;
        const double transfer = fmin((double)replay->match->sets.at[event->set].shortest, event->wait_ns);
        sum->transfer_ns += transfer;
        sum->waiting_ns += event->wait_ns - transfer;
    }
}

/* ---- as the others ---- */

typedef struct Mended {
    const bool *late;   /* per rank, NULL: nothing is mended */
    const RankOwn *own; /* per rank and bin */
    double *room;       /* one per rank */
    double *transfers;  /* per kind of set, ns; NULL: nothing is mended */
} Mended;

/* What the others of the set did until they began it, against the rank: where ranks do the same. Else the ratio of all
 * that they did in the step. */
static double find_ratio(const RankReplay *replay, const Mended *mended, const RankEvent *event)
{
    const RankSet *set = &replay->match->sets.at[event->set];
    size_t count = 0, ranks = replay->match->report->ranks.len;
    double own = replay->legs[event->part].work_ns;
    for (size_t k = set->first; k < set->first + set->count && collective_joins_all(set->kind); k++)
        if (!mended->late[replay->match->parts.at[k].rank])
            mended->room[count++] = replay->legs[k].work_ns;
    if (count == 0) {
        const size_t bin = (size_t)replay->bins[event->set];
        for (size_t i = 0; i < ranks; i++)
            if (!mended->late[i] && mended->own[i * replay->bin_count + bin].parts > 0)
                mended->room[count++] = mended->own[i * replay->bin_count + bin].work_ns;
        own = mended->own[event->rank * replay->bin_count + bin].work_ns;
    }
    return count > 0 && own > 0 ? trace_median_of_doubles(mended->room, count) / own : 1;
}

static bool is_late_set(const RankMatch *match, const RankSet *set, const bool *late)
{
    for (size_t k = set->first; k < set->first + set->count; k++)
        if (!late[match->parts.at[k].rank])
            return false;
    return true;
}

typedef struct Transfer {
    int64_t kind, shortest;
} Transfer;

static int by_kind(const void *a, const void *b)
{
    const Transfer *x = a, *y = b;
    const int64_t keys[][2] = {{x->kind, y->kind}, {x->shortest, y->shortest}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* How long the transfers of each kind of set take where not all members are late; NAN where there are none. */
static double *find_transfers(const RankReplay *replay, const bool *late)
{
    const RankMatch *match = replay->match;
    double *middle = xcalloc(replay->kind_count + 1, sizeof(*middle));
    VEC(Transfer) others = {0};
    for (size_t i = 0; i < match->sets.len; i++)
        if (replay->bins[i] >= 0 && !is_late_set(match, &match->sets.at[i], late))
            vec_push(&others, ((Transfer){.kind = replay->kinds[i], .shortest = match->sets.at[i].shortest}));
    vec_sort(&others, by_kind);
    for (size_t i = 0; i < replay->kind_count; i++)
        middle[i] = NAN;
    for (size_t i = 0, from = 0; i < others.len; i++)
        if (i + 1 == others.len || others.at[i + 1].kind != others.at[i].kind) {
            middle[others.at[i].kind] = (double)others.at[from + (i - from) / 2].shortest;
            from = i + 1;
        }
    vec_done(&others);
    return middle;
}

/* As long as its own, or, where all members are late, as that of sets like it if those are shorter. */
static double find_transfer(const RankReplay *replay, const Mended *mended, size_t set)
{
    const double own = (double)replay->match->sets.at[set].shortest;
    if (!mended->late || !is_late_set(replay->match, &replay->match->sets.at[set], mended->late))
        return own;
    return fmin(own, mended->transfers[replay->kinds[set]]);
}

/* ---- the run ---- */

typedef struct SetState {
    double begin_ns, end_ns; /* end: NAN until all have come */
    uint32_t come;
    uint32_t waiting; /* 1 + the first rank that waits for its end; 0 none */
} SetState;

typedef struct Run {
    const RankReplay *replay;
    const Mended *mended;
    SetState *sets;
    size_t *next; /* event of each rank */
    double *now, *ratio;
    uint32_t *after; /* the next rank that waits for the same set, or is to go on */
    uint32_t ready;  /* 1 + a rank to go on with; 0 none */
} Run;

static void wake_ranks(Run *run, SetState *state)
{
    while (state->waiting > 0) {
        const uint32_t rank = state->waiting - 1;
        state->waiting = run->after[rank];
        run->after[rank] = run->ready;
        run->ready = rank + 1;
    }
}

static void begin_part(Run *run, const RankEvent *event)
{
    SetState *state = &run->sets[event->set];
    const size_t before = run->replay->legs[event->part].before;
    double begin = run->now[event->rank];
    if (before != SIZE_MAX && run->replay->bins[before] >= 0)
        begin = fmax(begin, run->sets[before].end_ns);
    state->begin_ns = fmax(state->begin_ns, begin);
    if (++state->come < run->replay->match->sets.at[event->set].count)
        return;
    state->end_ns = state->begin_ns + find_transfer(run->replay, run->mended, event->set);
    wake_ranks(run, state);
}

/* The set whose end the event waits for, SIZE_MAX for none. */
static size_t find_blocker(const Run *run, const RankEvent *event)
{
    const size_t set = event->waits ? event->set : run->replay->legs[event->part].before;
    const bool blocks = set != SIZE_MAX && run->replay->bins[set] >= 0 && isnan(run->sets[set].end_ns);
    return blocks ? set : SIZE_MAX;
}

static void start_leg(Run *run, const RankEvent *event, size_t index)
{
    const Mended *mended = run->mended;
    if (!mended->late || !mended->late[event->rank])
        return;
    while (run->replay->events.at[index].waits) { /* up to the next beginning: its leg is this work's */
        if (++index == run->replay->first[event->rank + 1])
            return;
    }
    if (run->replay->bins[run->replay->events.at[index].set] >= 0)
        run->ratio[event->rank] = find_ratio(run->replay, mended, &run->replay->events.at[index]);
}

/* Goes on with the rank as far as it can. */
static void run_rank(Run *run, uint32_t rank)
{
    const RankReplay *replay = run->replay;
    for (; run->next[rank] < replay->first[rank + 1]; run->next[rank]++) {
        const size_t index = run->next[rank];
        const RankEvent *event = &replay->events.at[index];
        if (replay->bins[event->set] < 0)
            continue;
        const size_t blocker = find_blocker(run, event);
        if (blocker != SIZE_MAX) {
            run->after[rank] = run->sets[blocker].waiting;
            run->sets[blocker].waiting = rank + 1;
            return;
        }
        const RankEvent *last = index > replay->first[rank] ? event - 1 : NULL;
        if (!last || !last->waits || replay->bins[last->set] < 0)
            start_leg(run, event, index);
        run->now[rank] += event->work_ns * run->ratio[rank];
        if (event->waits)
            run->now[rank] = fmax(run->now[rank], run->sets[event->set].end_ns);
        else
            begin_part(run, event);
    }
}

static double find_end(const Run *run)
{
    const RankMatch *match = run->replay->match;
    double end = 0;
    for (size_t i = 0; i < match->sets.len; i++) {
        if (run->replay->bins[i] < 0)
            continue;
        if (isnan(run->sets[i].end_ns))
            return NAN;
        end = fmax(end, run->sets[i].end_ns);
    }
    return end;
}

double rank_replay_run(const RankReplay *replay, const bool *late, const RankOwn *own)
{
    const size_t ranks = replay->match->report->ranks.len;
    const Mended mended = {.late = late,
                           .own = own,
                           .room = xcalloc(ranks + 1, sizeof(double)),
                           .transfers = late ? find_transfers(replay, late) : NULL};
    Run run = {.replay = replay, .mended = &mended};
    run.sets = xcalloc(replay->match->sets.len, sizeof(*run.sets));
    run.next = xcalloc(ranks, sizeof(*run.next));
    run.now = xcalloc(ranks, sizeof(*run.now));
    run.ratio = xcalloc(ranks, sizeof(*run.ratio));
    run.after = xcalloc(ranks, sizeof(*run.after));
    for (size_t i = 0; i < replay->match->sets.len; i++)
        run.sets[i].end_ns = NAN;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        run.next[rank] = replay->first[rank];
        run.ratio[rank] = 1;
        run_rank(&run, rank);
        while (run.ready > 0) {
            const uint32_t woken = run.ready - 1;
            run.ready = run.after[woken];
            run_rank(&run, woken);
        }
    }
    const double end = find_end(&run);
    free(run.sets);
    free(run.next);
    free(run.now);
    free(run.ratio);
    free(run.after);
    free(mended.room);
    free(mended.transfers);
    return end;
}
