/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks' rows of one group, without sequence numbers. Both ran the same operations in the same order, but one may
 * have begun to record later or lost some. First the shift is looked for: the ordinal of `b` that belongs to ordinal 0
 * of `a`, such that what is known of the operations agrees (kind, size), steps agree where both have them, and the
 * differences of ends are the same all along. Then, where counts differ or differences jump, rows are paired by time
 * with that difference, which follows the clocks' drift.
 */
#include "engine/trace/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"

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
    Token *a, *b;
    int64_t a_len, b_len;
} Pair;

/* ---- tokens ---- */

static Token token_of(const RankTrack *track, size_t i)
{
    const TraceRank *rank = &track->report->ranks.at[track->rank];
    const TraceCollective *row = &rank->collectives.at[track->rows[i]];
    Token token = {.end = rank_plus(row->end, track->base), .in = row->in_bytes, .out = row->out_bytes};
    token.kind = collective_kind(row->name, strlen(row->name));
    token.step = rank_step(rank, rank_asked(row));
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

static Token *tokens_of(const RankTrack *track)
{
    Token *tokens = xcalloc(track->len, sizeof(*tokens));
    for (size_t i = 0; i < track->len; i++)
        tokens[i] = token_of(track, i);
    return tokens;
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
    shift.offset = rank_median(differences, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        differences[i] = llabs(rank_minus(differences[i], shift.offset));
    shift.spread = rank_median(differences, (size_t)count);
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

/* Half the way to the nearest neighbour of row `at`, within limits: what is nearer is the row itself. */
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

/* Share of the rows whose ends differ as the shift says. */
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

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
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
    if (differences.len > 0)
        qsort(differences.at, differences.len, sizeof(*differences.at), by_value);
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

size_t rank_pair(const RankTrack *a, const RankTrack *b, int64_t *pairs)
{
    CLEANUP_FREE Token *a_tokens = tokens_of(a);
    CLEANUP_FREE Token *b_tokens = tokens_of(b);
    Pair pair = {.a = a_tokens, .b = b_tokens, .a_len = (int64_t)a->len, .b_len = (int64_t)b->len};
    for (size_t i = 0; i < b->len; i++)
        pairs[i] = -1;
    Shift shift = find_shift(&pair);
    size_t count = shift.valid ? pair_by_shift(&pair, &shift, pairs) : 0;
    bool steady = shift.valid && is_steady(&pair, &shift, pairs, count);
    size_t shorter = a->len < b->len ? a->len : b->len;
    if (b->len < 4 || (steady && count * 10 >= shorter * 9))
        return count;
    Shift offset = find_offset(&pair);
    CLEANUP_FREE int64_t *timed = xcalloc(b->len, sizeof(*timed));
    size_t timed_count = offset.valid ? pair_by_time(&pair, &offset, timed) : 0;
    if (timed_count < (steady ? count : count / 2) || timed_count == 0) /* ends tell nothing here */
        return count;
    memcpy(pairs, timed, b->len * sizeof(*timed));
    return timed_count;
}
