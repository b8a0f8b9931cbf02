/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of the ranks are one operation. Rows are split by group (name, members, size; sends and receives by the
 * two ranks as well), in the order in which the ranks ran them, which for one group is the same on all of them. If
 * every row has a sequence number, equal numbers match. Otherwise the rank with most rows is compared with each of
 * the others. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/cleanup.h"
#include "engine/trace/ranks.h"
#include "engine/trace/tables.h"

void rank_note(TraceReport *report, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vec_push(&report->notes, (const char *)arena_strdup(&report->arena, text));
}

/* A row of a rank, and the number of its group. */
typedef struct Entry {
    const TraceCollective *op;
    int64_t number; /* of the rank, as its file says: two files may have the same */
    uint32_t group, rank, row;
    CollectiveKind kind;
} Entry;

int64_t rank_step(const TraceRank *rank, const TraceCollective *row)
{
    const int32_t step = trace_step_at(rank, row->launch == INT64_MIN ? row->start : row->launch);
    return step < 0 ? -1 : rank->steps.at[step].number;
}

/* ---- pairs without sequence numbers ---- */

/* Two ranks' rows of one group, without sequence numbers. Both ran the same operations in the same order, but one
 * may have begun to record later or lost some. First finds the shift: the ordinal of `b` that belongs to ordinal 0
 * of `a`, such that kinds, sizes and (if both have them) steps agree and the differences of ends stay the same.
 * Then, if counts differ or differences jump, pairs rows by time with that difference, which follows the clocks'
 * drift. */

enum {
    SHIFTS_MAX = 2048, /* to either side */
    SAMPLES = 64,
    ROUGH_SAMPLES = 16,
};
#define SPREAD_FLOOR_NS INT64_C(3000)    /* below it one shift is as good as another */
#define STEPS_DIFFER 0.02                /* of shares of rows: more than one of all samples */
#define VOTE_NS INT64_C(20000)           /* differences within this are one */
#define PLAUSIBLE_NS INT64_C(5000000000) /* clocks that somebody keeps are not further apart */
#define TOLERANCE_MIN_NS INT64_C(10000)
#define TOLERANCE_MAX_NS INT64_C(300000)

/* What the comparison needs of a row. */
typedef struct Token {
    int64_t end;           /* with the base */
    int64_t in, out, step; /* -1 unknown or not comparable */
    CollectiveKind kind;
} Token;

typedef struct Shift {
    int64_t by;     /* row i of b is row i + by of a */
    int64_t offset; /* median of end a - end b */
    int64_t spread; /* median of what differs from it */
    double steps;   /* share of rows of the same step; -1 not known */
    bool whole;     /* both sides have as many rows, and each is compared with one */
    bool valid;
} Shift;

typedef struct Pair {
    const Token *a, *b;
    int64_t a_len, b_len;
} Pair;

/* ---- tokens ---- */

static Token token_of(const RankMatch *match, const Entry *entry)
{
    Token token = {.end = rank_plus(entry->op->end, match->ranks[entry->rank].clock.base),
                   .in = entry->op->in_bytes,
                   .out = entry->op->out_bytes,
                   .step = rank_step(&match->report->ranks.at[entry->rank], entry->op),
                   .kind = entry->kind};
    switch (token.kind) {
    case COLLECTIVE_SEND: /* two sides of one thing */
    case COLLECTIVE_RECV:
        token.kind = COLLECTIVE_SEND_RECV;
        token.in = token.out = -1;
        break;
    case COLLECTIVE_ALL_TO_ALL: /* sizes are each rank's own, or the root's */
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_SEND_RECV:
        token.in = token.out = -1;
        break;
    default:
        break;
    }
    return token;
}

static bool tokens_agree(const Token *a, const Token *b)
{
    return a->kind == b->kind && (a->in < 0 || b->in < 0 || a->in == b->in) &&
           (a->out < 0 || b->out < 0 || a->out == b->out);
}

/* ---- the shift ---- */

static Shift try_shift(const Pair *pair, int64_t by, int64_t samples)
{
    int64_t from = by < 0 ? -by : 0;
    int64_t to = pair->a_len - by < pair->b_len ? pair->a_len - by : pair->b_len;
    int64_t differences[SAMPLES];
    Shift shift = {.by = by, .steps = -1};
    int64_t overlap = to - from, wrong = 0, steps = 0, same_step = 0;
    int64_t count = overlap < samples ? overlap : samples;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = from + (count == 1 ? 0 : i * (overlap - 1) / (count - 1));
        const Token *a = &pair->a[at + by], *b = &pair->b[at];
        wrong += !tokens_agree(a, b);
        if (wrong * 10 > count)
            return shift;
        steps += a->step >= 0 && b->step >= 0;
        same_step += a->step >= 0 && a->step == b->step;
        differences[i] = rank_minus(a->end, b->end);
    }
    if (count == 0)
        return shift;
    shift.valid = true;
    shift.whole = by == 0 && pair->a_len == pair->b_len;
    shift.steps = steps > 0 ? (double)same_step / (double)steps : -1;
    shift.offset = trace_median(differences, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        differences[i] = llabs(rank_minus(differences[i], shift.offset));
    shift.spread = trace_median(differences, (size_t)count);
    return shift;
}

static int64_t clock_distance(const Shift *shift)
{
    return llabs(shift->offset);
}

/* Whether a is to be preferred to b, both valid. */
static bool is_better_shift(const Shift *a, const Shift *b)
{
    int64_t a_spread = a->spread > SPREAD_FLOOR_NS ? a->spread : SPREAD_FLOOR_NS;
    int64_t b_spread = b->spread > SPREAD_FLOOR_NS ? b->spread : SPREAD_FLOOR_NS;
    if (a_spread / 4 > b_spread || b_spread / 4 > a_spread)
        return a_spread < b_spread;
    if (fabs(a->steps - b->steps) > 0.3)
        return a->steps > b->steps;
    if (a_spread / 3 * 2 > b_spread || b_spread / 3 * 2 > a_spread)
        return a_spread < b_spread;
    bool a_near = clock_distance(a) < PLAUSIBLE_NS, b_near = clock_distance(b) < PLAUSIBLE_NS;
    if (a_near != b_near)
        return a_near;
    if (fabs(a->steps - b->steps) > STEPS_DIFFER)
        return a->steps > b->steps;
    if (a->whole != b->whole)
        return a->whole;
    if (a_near && clock_distance(a) != clock_distance(b))
        return clock_distance(a) < clock_distance(b);
    return llabs(a->by) < llabs(b->by) || (llabs(a->by) == llabs(b->by) && a->by > b->by);
}

static Shift find_shift(const Pair *pair)
{
    int64_t shorter = pair->a_len < pair->b_len ? pair->a_len : pair->b_len;
    int64_t least = shorter < 12 ? (shorter + 2) / 3 : shorter / 4; /* overlap */
    Shift best = {0};
    int64_t low = least - pair->b_len, high = pair->a_len - least;
    low = low < -SHIFTS_MAX ? -SHIFTS_MAX : low;
    high = high > SHIFTS_MAX ? SHIFTS_MAX : high;
    for (int64_t by = low; by <= high; by++) {
        Shift rough = try_shift(pair, by, ROUGH_SAMPLES);
        if (!rough.valid || (best.valid && rough.spread / 8 > best.spread + SPREAD_FLOOR_NS))
            continue;
        Shift shift = try_shift(pair, by, SAMPLES);
        if (shift.valid && (!best.valid || is_better_shift(&shift, &best)))
            best = shift;
    }
    return best;
}

/* ---- pairs ---- */

static size_t pair_by_shift(const Pair *pair, const Shift *shift, int64_t *pairs)
{
    size_t count = 0;
    for (int64_t i = 0; i < pair->b_len; i++) {
        int64_t at = i + shift->by;
        bool fits = at >= 0 && at < pair->a_len && tokens_agree(&pair->a[at], &pair->b[i]);
        pairs[i] = fits ? at : -1;
        count += fits;
    }
    return count;
}

/* Half the distance to the nearest neighbour of row `at`, within limits: anything nearer is the row itself. */
static int64_t pair_tolerance(const Pair *pair, const Shift *shift, int64_t at)
{
    int64_t most = TOLERANCE_MAX_NS + 10 * (shift->spread < TOLERANCE_MAX_NS ? shift->spread : TOLERANCE_MAX_NS);
    int64_t before = at > 0 ? rank_minus(pair->a[at].end, pair->a[at - 1].end) / 2 : most;
    int64_t behind = at + 1 < pair->a_len ? rank_minus(pair->a[at + 1].end, pair->a[at].end) / 2 : most;
    most = before < most ? before : most;
    most = behind < most ? behind : most;
    return most < TOLERANCE_MIN_NS ? TOLERANCE_MIN_NS : most;
}

static size_t pair_by_time(const Pair *pair, const Shift *shift, int64_t *pairs)
{
    int64_t offset = shift->offset, at = 0;
    size_t count = 0;
    for (int64_t i = 0; i < pair->b_len; i++) {
        pairs[i] = -1;
        int64_t end = rank_plus(pair->b[i].end, offset);
        while (at < pair->a_len && pair->a[at].end < rank_minus(end, pair_tolerance(pair, shift, at)))
            at++;
        if (at >= pair->a_len || pair->a[at].end > rank_plus(end, pair_tolerance(pair, shift, at)) ||
            !tokens_agree(&pair->a[at], &pair->b[i]))
            continue;
        offset += (pair->a[at].end - end) / 8; /* follows the drift */
        pairs[i] = at++;
        count++;
    }
    return count;
}

/* Share of the rows whose ends differ by the shift's offset. */
static bool is_steady(const Pair *pair, const Shift *shift, const int64_t *pairs, size_t count)
{
    size_t steady = 0;
    int64_t offset = shift->offset;
    bool first = true;
    for (int64_t i = 0; i < pair->b_len; i++) {
        if (pairs[i] < 0)
            continue;
        int64_t difference = rank_minus(pair->a[pairs[i]].end, pair->b[i].end);
        if (first)
            offset = difference;
        first = false;
        bool near = llabs(rank_minus(difference, offset)) <= TOLERANCE_MAX_NS;
        steady += near;
        if (near)
            offset += (difference - offset) / 8;
    }
    return steady * 100 >= count * 97;
}

/* The difference of ends that most of the pairs of rows have, which any two rows may be: rows that one side lost do no
 * harm. Of nearly as many votes the smaller difference counts. */
static Shift find_offset(const Pair *pair)
{
    VEC(int64_t) differences = {0};
    int64_t count = pair->b_len < SAMPLES ? pair->b_len : SAMPLES;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = count == 1 ? 0 : i * (pair->b_len - 1) / (count - 1);
        int64_t low = at < SHIFTS_MAX ? 0 : at - SHIFTS_MAX, high = at + SHIFTS_MAX;
        for (int64_t k = low; k < high && k < pair->a_len; k++) {
            if (tokens_agree(&pair->a[k], &pair->b[at]))
                vec_push(&differences, rank_minus(pair->a[k].end, pair->b[at].end));
        }
    }
    Shift best = {.spread = VOTE_NS / 4};
    size_t most = 0;
    vec_sort(&differences, trace_by_number);
    for (size_t from = 0, to = 0; from < differences.len; from++) {
        while (to < differences.len && rank_minus(differences.at[to], differences.at[from]) <= VOTE_NS)
            to++;
        int64_t middle = differences.at[from + (to - from) / 2];
        size_t votes = to - from;
        if (votes * 10 > most * 11 || (votes * 11 > most * 10 && llabs(middle) < llabs(best.offset))) {
            most = votes > most ? votes : most;
            best.offset = middle;
            best.valid = votes >= 3;
        }
    }
    vec_done(&differences);
    return best;
}

/* pairs[i] := row of `a` that is the same operation as row i of `b`, -1 none. */
static void find_pairs(const Pair *pair, int64_t *pairs)
{
    for (int64_t i = 0; i < pair->b_len; i++)
        pairs[i] = -1;
    Shift shift = find_shift(pair);
    size_t count = shift.valid ? pair_by_shift(pair, &shift, pairs) : 0;
    bool steady = shift.valid && is_steady(pair, &shift, pairs, count);
    int64_t shorter = trace_smaller(pair->a_len, pair->b_len);
    if (pair->b_len < 4 || (steady && count * 10 >= (size_t)shorter * 9))
        return;
    Shift offset = find_offset(pair);
    CLEANUP_FREE int64_t *timed = xcalloc((size_t)pair->b_len, sizeof(*timed));
    size_t timed_count = offset.valid ? pair_by_time(pair, &offset, timed) : 0;
    if (timed_count < (steady ? count : count / 2) || timed_count == 0) /* ends have no meaning here */
        return;
    memcpy(pairs, timed, (size_t)pair->b_len * sizeof(*timed));
}

/* ---- groups ---- */

typedef struct Group {
    int64_t size; /* -1 unknown */
    bool point_to_point;
} Group;

typedef struct Groups {
    RankMatch *match;
    Map numbers; /* text -> 1 + number */
    VEC(Group) groups;
    VEC(Entry) entries;
} Groups;

/* The n-th number of "[0, 4, 8]", or `n` itself if the list has none. */
static int64_t group_member(const char *ranks, int64_t n)
{
    int64_t at = 0;
    for (const char *text = ranks; *text;) {
        if (*text < '0' || *text > '9') {
            text++;
            continue;
        }
        char *end;
        long long number = strtoll(text, &end, 10);
        if (at++ == n)
            return number;
        text = end;
    }
    return n;
}

static uint32_t group_of(Groups *groups, const Entry *entry, Arena *arena)
{
    const TraceCollective *row = entry->op;
    Group group = {.size = row->group_size};
    int64_t other = group_member(row->ranks, row->peer), from = -1, to = -1;
    if ((entry->kind == COLLECTIVE_SEND || entry->kind == COLLECTIVE_RECV) && row->peer >= 0) {
        group.point_to_point = true;
        from = entry->kind == COLLECTIVE_SEND ? entry->number : other;
        to = entry->kind == COLLECTIVE_SEND ? other : entry->number;
        group.size = 2;
    }
    const char *key = arena_printf(arena, "%s\x1f%s\x1f%lld\x1f%lld>%lld", row->group, row->ranks,
                                   (long long)row->group_size, (long long)from, (long long)to);
    const size_t number = trace_number_of(&groups->numbers, key);
    if (number == groups->groups.len)
        vec_push(&groups->groups, group);
    arena_reset(arena);
    return (uint32_t)number;
}

static int by_group(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const int64_t keys[][2] = {{x->group, y->group}, {x->rank, y->rank}, {x->row, y->row}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static void collect_groups(Groups *groups)
{
    CLEANUP(arena_done) Arena arena = {0};
    const TraceReport *report = groups->match->report;
    for (uint32_t i = 0; i < report->ranks.len; i++) {
        const TraceRank *rank = &report->ranks.at[i];
        for (uint32_t row = 0; row < rank->collectives.len; row++) {
            const TraceCollective *op = &rank->collectives.at[row];
            Entry entry = {.op = op,
                           .number = rank->rank,
                           .rank = i,
                           .row = row,
                           .kind = collective_kind(op->name, strlen(op->name))};
            entry.group = group_of(groups, &entry, &arena);
            vec_push(&groups->entries, entry);
        }
    }
    vec_sort(&groups->entries, by_group);
}

/* ---- one group: entries [0, len) by rank and row ---- */

static void add_part(RankMatch *match, const Entry *entry)
{
    vec_push(&match->parts, ((RankPart){.rank = entry->rank, .row = entry->row}));
}

/* Closes the set whose parts were pushed since `first`. */
static void add_set(RankMatch *match, size_t first, CollectiveKind kind, size_t ranks)
{
    size_t count = match->parts.len - first;
    if (count < 2) {
        match->parts.len = first;
        return;
    }
    for (size_t i = first; i < match->parts.len; i++) {
        match->ranks[match->parts.at[i].rank].found++;
        rank_row(match, &match->parts.at[i])->matched = true;
    }
    vec_push(&match->sets,
             ((RankSet){.first = first, .count = (uint32_t)count, .kind = kind, .complete = count == ranks}));
}

/* How many ranks there are; two files of one rank count once. */
static size_t rank_count(const Entry *entries, size_t len)
{
    size_t ranks = 1;
    for (size_t i = 1; i < len; i++)
        ranks += entries[i].number != entries[i - 1].number;
    return ranks;
}

static int by_sequence(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const int64_t keys[][2] = {
        {x->op->sequence, y->op->sequence}, {x->kind, y->kind}, {x->rank, y->rank}, {x->row, y->row}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static bool same_operation(const Entry *x, const Entry *y)
{
    return x->op->sequence == y->op->sequence && x->kind == y->kind;
}

/* False: numbers are missing, or one rank has a number twice. */
static bool match_by_sequence(RankMatch *match, const Entry *entries, size_t len)
{
    CLEANUP_FREE Entry *rows = xcalloc(len, sizeof(*rows));
    memcpy(rows, entries, len * sizeof(*rows));
    qsort(rows, len, sizeof(*rows), by_sequence);
    if (rows[0].op->sequence < 0)
        return false;
    for (size_t i = 1; i < len; i++) {
        if (same_operation(&rows[i - 1], &rows[i]) && rows[i - 1].rank == rows[i].rank)
            return false;
    }
    for (size_t i = 0; i < len;) {
        size_t first = match->parts.len, from = i;
        for (; i < len && same_operation(&rows[from], &rows[i]); i++)
            if (i == from || rows[i].number != rows[i - 1].number)
                add_part(match, &rows[i]);
        add_set(match, first, rows[from].kind, rank_count(entries, len));
    }
    return true;
}

/* A rank's entries of the group. */
typedef struct Track {
    size_t first, len;
    size_t next; /* one past the last that is in a set */
} Track;
typedef VEC(Track) TrackVec;

static void find_tracks(const Entry *entries, size_t len, TrackVec *tracks)
{
    bool again = false;
    for (size_t i = 0; i < len; i++) {
        const bool begins = i == 0 || entries[i].rank != entries[i - 1].rank;
        if (begins && i > 0)
            again = entries[i].number == entries[i - 1].number;
        if (again) /* a second file of the rank: only sequence numbers could tell which is which */
            continue;
        if (begins)
            vec_push(tracks, ((Track){.first = i}));
        tracks->at[tracks->len - 1].len++;
    }
}

/* Compares the rank with most rows, the hub, with each of the others. */
static void match_by_order(RankMatch *match, const Entry *entries, size_t len)
{
    TrackVec tracks = {0};
    CLEANUP_FREE Token *tokens = xcalloc(len, sizeof(*tokens));
    CLEANUP_FREE int64_t *pairs = xcalloc(len, sizeof(*pairs)); /* per entry: row number of the hub's track */
    const Track *hub;
    find_tracks(entries, len, &tracks);
    hub = &tracks.at[0];
    for (size_t i = 1; i < tracks.len; i++)
        hub = tracks.at[i].len > hub->len ? &tracks.at[i] : hub;
    for (size_t i = 0; i < len; i++)
        tokens[i] = token_of(match, &entries[i]);
    for (size_t i = 0; i < tracks.len; i++) {
        const Track *track = &tracks.at[i];
        const Pair pair = {.a = tokens + hub->first,
                           .b = tokens + track->first,
                           .a_len = (int64_t)hub->len,
                           .b_len = (int64_t)track->len};
        if (track != hub)
            find_pairs(&pair, pairs + track->first);
        for (size_t at = 0; at < hub->len && track == hub; at++)
            pairs[hub->first + at] = (int64_t)at;
    }
    for (size_t at = 0; at < hub->len; at++) {
        size_t first = match->parts.len;
        for (size_t i = 0; i < tracks.len; i++) {
            Track *track = &tracks.at[i];
            while (track->next < track->len && pairs[track->first + track->next] < (int64_t)at)
                track->next++;
            if (track->next < track->len && pairs[track->first + track->next] == (int64_t)at)
                add_part(match, &entries[track->first + track->next]);
        }
        add_set(match, first, entries[hub->first + at].kind, tracks.len);
    }
    vec_done(&tracks);
}

static void match_group(RankMatch *match, const Group *group, const Entry *entries, size_t len)
{
    size_t ranks = rank_count(entries, len);
    if (ranks < 2 || (group->size > 0 && (int64_t)ranks > group->size))
        return; /* alone; or several groups of one name with unknown members */
    for (size_t i = 0; i < len; i++)
        match->ranks[entries[i].rank].recorded++;
    if (group->point_to_point || !match_by_sequence(match, entries, len))
        match_by_order(match, entries, len);
}

static void find_sets(RankMatch *match)
{
    Groups groups = {.match = match};
    map_init(&groups.numbers);
    collect_groups(&groups);
    for (size_t i = 0; i < groups.entries.len;) {
        size_t from = i;
        while (i < groups.entries.len && groups.entries.at[i].group == groups.entries.at[from].group)
            i++;
        match_group(match, &groups.groups.at[groups.entries.at[from].group], groups.entries.at + from, i - from);
    }
    map_done(&groups.numbers);
    vec_done(&groups.groups);
    vec_done(&groups.entries);
}

/* ---- clocks ---- */

/* Clocks of ranks against each other. All parts of an all_reduce (and of other operations that no rank can end
 * before all have begun) end within microseconds of each other, so the difference of ends is the difference of
 * clocks. Each set gives one difference per rank, against its first rank; per pair of ranks the median counts, with
 * a straight line through the thirds of the time if that explains more (drift). Pairs are joined to a tree, those
 * with most samples first. */

enum { SAMPLES_MIN = 3, DRIFT_SAMPLES_MIN = 9 };
#define SPREAD_MAX_NS INT64_C(500000) /* ends that agree no better than this align nothing */
#define DRIFT_TIME_MIN_NS INT64_C(200000000)
#define DRIFT_MAX 1e-3

typedef struct Sample {
    uint32_t hub, rank;
    int64_t time, difference; /* of the rank's end; hub's end - rank's end */
} Sample;
typedef VEC(Sample) SampleVec;

typedef struct Edge {
    uint32_t hub, rank;
    int64_t offset, pivot, spread;
    double drift;
    size_t samples;
} Edge;
typedef VEC(Edge) EdgeVec;

static int64_t round_ns(double ns)
{
    return fabs(ns) < 9e18 ? llrint(ns) : 0;
}

static int64_t end_on_base_clock(const RankMatch *match, const RankPart *part)
{
    return rank_plus(rank_row(match, part)->end, match->ranks[part->rank].clock.base);
}

static void collect_samples(const RankMatch *match, SampleVec *samples)
{
    for (size_t i = 0; i < match->sets.len; i++) {
        const RankSet *set = &match->sets.at[i];
        const RankPart *parts = &match->parts.at[set->first];
        if (!collective_joins_all(set->kind))
            continue;
        for (uint32_t k = 1; k < set->count; k++) {
            int64_t time = end_on_base_clock(match, &parts[k]);
            vec_push(samples, ((Sample){.hub = parts[0].rank,
                                        .rank = parts[k].rank,
                                        .time = time,
                                        .difference = rank_minus(end_on_base_clock(match, &parts[0]), time)}));
        }
    }
}

static int by_pair(const void *a, const void *b)
{
    const Sample *x = a, *y = b;
    const int64_t keys[][2] = {
        {x->hub, y->hub}, {x->rank, y->rank}, {x->time, y->time}, {x->difference, y->difference}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

/* ---- one pair of ranks ---- */

static int64_t median_of(const Sample *samples, size_t len, int64_t *room)
{
    for (size_t i = 0; i < len; i++)
        room[i] = samples[i].difference;
    return trace_median(room, len);
}

static int64_t spread_of(const Sample *samples, size_t len, const Edge *edge, int64_t *room)
{
    for (size_t i = 0; i < len; i++) {
        double expected = (double)edge->offset + edge->drift * (double)rank_minus(samples[i].time, edge->pivot);
        room[i] = llabs(rank_minus(samples[i].difference, round_ns(expected)));
    }
    return trace_median(room, len);
}

static Edge fit_line(const Sample *samples, size_t len, int64_t *room)
{
    size_t third = len / 3;
    const Sample *late = samples + len - third;
    int64_t early_time = samples[third / 2].time, late_time = late[third / 2].time;
    int64_t early = median_of(samples, third, room), later = median_of(late, third, room);
    Edge edge = {.pivot = early_time, .offset = early};
    if (late_time > early_time)
        edge.drift = (double)rank_minus(later, early) / (double)rank_minus(late_time, early_time);
    int64_t pivot = samples[len / 2].time;
    edge.offset = rank_plus(edge.offset, round_ns(edge.drift * (double)rank_minus(pivot, edge.pivot)));
    edge.pivot = pivot;
    return edge;
}

static Edge edge_of(const Sample *samples, size_t len)
{
    CLEANUP_FREE int64_t *room = xcalloc(len, sizeof(*room));
    Edge edge = {.pivot = samples[len / 2].time, .offset = median_of(samples, len, room)};
    edge.spread = spread_of(samples, len, &edge, room);
    if (len >= DRIFT_SAMPLES_MIN && rank_minus(samples[len - 1].time, samples[0].time) >= DRIFT_TIME_MIN_NS) {
        Edge line = fit_line(samples, len, room);
        line.spread = spread_of(samples, len, &line, room);
        if (fabs(line.drift) < DRIFT_MAX && (double)line.spread < 0.8 * (double)edge.spread)
            edge = line;
    }
    edge.hub = samples[0].hub;
    edge.rank = samples[0].rank;
    edge.samples = len;
    return edge;
}

/* ---- the tree ---- */

static int by_weight(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    const int64_t keys[][2] = {
        {(int64_t)y->samples, (int64_t)x->samples}, {x->spread, y->spread}, {x->hub, y->hub}, {x->rank, y->rank}};
    return trace_compare(keys, ARRAY_LEN(keys));
}

static uint32_t find_root(uint32_t *up, uint32_t rank)
{
    while (up[rank] != rank)
        rank = up[rank] = up[up[rank]];
    return rank;
}

/* Keeps the edges that connect separate trees. */
static void keep_tree(EdgeVec *edges, size_t ranks)
{
    CLEANUP_FREE uint32_t *up = xcalloc(ranks, sizeof(*up));
    size_t kept = 0;
    for (uint32_t i = 0; i < ranks; i++)
        up[i] = i;
    vec_sort(edges, by_weight);
    for (size_t i = 0; i < edges->len; i++) {
        uint32_t hub = find_root(up, edges->at[i].hub), rank = find_root(up, edges->at[i].rank);
        if (hub == rank)
            continue;
        up[rank] = hub;
        edges->at[kept++] = edges->at[i];
    }
    edges->len = kept;
}

/* Sets the unknown clock of an edge from the known one. */
static void align_clock(RankState *ranks, const Edge *edge)
{
    bool forward = ranks[edge->hub].clock.aligned;
    const RankClock *known = &ranks[forward ? edge->hub : edge->rank].clock;
    RankClock *fresh = &ranks[forward ? edge->rank : edge->hub].clock;
    int64_t offset = forward ? edge->offset : -edge->offset;
    int64_t pivot = forward ? edge->pivot : rank_plus(edge->pivot, edge->offset); /* on the fresh one's own clock */
    double drift = forward ? edge->drift : -edge->drift;
    int64_t there = rank_plus(pivot, offset); /* the same moment on the known one's clock */
    fresh->offset =
        rank_plus(rank_plus(offset, known->offset), round_ns(known->drift * (double)rank_minus(there, known->pivot)));
    fresh->pivot = pivot;
    fresh->drift = drift + known->drift;
    fresh->spread = edge->spread;
    fresh->samples = edge->samples;
    fresh->aligned = true;
}

/* From the first rank on; it counts as aligned where another is. */
static void walk_tree(RankMatch *match, const EdgeVec *edges)
{
    size_t aligned = 0;
    match->ranks[0].clock.aligned = true;
    for (bool changed = true; changed;) { /* as often as the tree is deep; ranks are few */
        changed = false;
        for (size_t i = 0; i < edges->len; i++) {
            const Edge *edge = &edges->at[i];
            if (match->ranks[edge->hub].clock.aligned == match->ranks[edge->rank].clock.aligned)
                continue;
            align_clock(match->ranks, edge);
            changed = true;
            aligned++;
        }
    }
    match->ranks[0].clock.aligned = aligned > 0;
}

static void align_clocks(RankMatch *match)
{
    SampleVec samples = {0};
    EdgeVec edges = {0};
    collect_samples(match, &samples);
    vec_sort(&samples, by_pair);
    for (size_t i = 0; i < samples.len;) {
        size_t from = i;
        while (i < samples.len && samples.at[i].hub == samples.at[from].hub &&
               samples.at[i].rank == samples.at[from].rank)
            i++;
        if (i - from < SAMPLES_MIN)
            continue;
        Edge edge = edge_of(samples.at + from, i - from);
        if (edge.spread <= SPREAD_MAX_NS)
            vec_push(&edges, edge);
    }
    keep_tree(&edges, match->report->ranks.len);
    walk_tree(match, &edges);
    vec_done(&samples);
    vec_done(&edges);
}

int64_t rank_common(const RankClock *clock, int64_t time)
{
    int64_t based_time = rank_plus(time, clock->base);
    int64_t drifted = round_ns(clock->drift * (double)rank_minus(based_time, clock->pivot));
    return rank_plus(rank_plus(based_time, clock->offset), drifted);
}

/* ---- the times of a set ---- */

static void time_set(const RankMatch *match, RankSet *set)
{
    RankPart *parts = &match->parts.at[set->first];
    set->clock = true;
    set->shortest = set->first_start = INT64_MAX;
    set->last_start = INT64_MIN;
    for (uint32_t i = 0; i < set->count; i++)
        set->clock = set->clock && match->ranks[parts[i].rank].clock.aligned;
    for (uint32_t i = 0; i < set->count; i++) {
        RankPart *part = &parts[i];
        const TraceCollective *row = rank_row(match, part);
        part->duration = row->end - row->start;
        part->start = set->clock ? rank_common(&match->ranks[part->rank].clock, row->start) : -part->duration;
        set->tie = part->duration == set->shortest || (part->duration > set->shortest && set->tie);
        if (part->duration < set->shortest) {
            set->shortest = part->duration;
            set->last_rank = part->rank;
        }
        if (part->start > set->last_start) {
            set->last_start = part->start;
            set->latest_rank = part->rank;
        }
        set->first_start = trace_smaller(set->first_start, part->start);
    }
}

void rank_match(RankMatch *match)
{
    find_sets(match);
    align_clocks(match);
    for (size_t i = 0; i < match->sets.len; i++)
        time_set(match, &match->sets.at[i]);
}
