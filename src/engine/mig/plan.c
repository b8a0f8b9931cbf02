/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a layout. A GPU has at most a dozen memory slices and few profiles, so that all ways to place the
 * wanted instances are tried: a few hundred for the worst multiset, each some nanoseconds.
 */
#include "engine/mig/mig.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Smaller is better, the first member that differs decides. */
typedef struct Score {
    uint32_t blocked, destroyed, recomputed;
    uint8_t free[MIG_GRID_MAX +
                 1]; /* placements that larger profiles could still take, the largest size first; more is better */
} Score;

typedef struct Search {
    const MigBoard *board;
    const MigLayout *now;                 /* NULL: any way will do */
    MigInstance wanted[MIG_INSTANCE_MAX]; /* in the order in which places are tried */
    size_t count;
    bool found;
    Score best_score;
    uint8_t best[MIG_INSTANCE_MAX]; /* starts */
    uint8_t starts[MIG_INSTANCE_MAX];
} Search;

static uint32_t span_mask(const MigProfile *profile, unsigned start)
{
    return ((1u << profile->size) - 1) << start;
}

static bool same_kind(const MigInstance *a, const MigInstance *b)
{
    return a->profile == b->profile && a->compute_count == b->compute_count &&
           memcmp(a->compute, b->compute, a->compute_count) == 0;
}

/* --- what the totals of the board allow ----------------------------------------------------------------------------
 */

static const char *const engine_names[MIG_ENGINE_END] = {"video decoders", "video encoders", "JPEG engines",
                                                         "optical flow engines"};

/* Writes the reason; "" in it where the totals allow the layout. */
static MigOutcome check_totals(const MigBoard *board, const MigLayout *wanted, char *reason, size_t size)
{
    unsigned times[MIG_PROFILE_MAX] = {0}, engines[MIG_ENGINE_END] = {0}, slices = 0;
    reason[0] = '\0';
    for (size_t i = 0; i < wanted->count; i++) {
        const MigProfile *p = &board->profiles[wanted->instances[i].profile];
        times[wanted->instances[i].profile]++;
        slices += p->slices;
        for (int e = 0; e < MIG_ENGINE_END; e++)
            engines[e] += p->engines[e];
        if (!p->starts) {
            snprintf(reason, size, "where a %s of %s can be placed is not known", p->name, board->name);
            return MIG_NOT_KNOWN;
        }
    }
    for (size_t i = 0; i < board->profile_count; i++)
        if (times[i] > board->profiles[i].max) {
            snprintf(reason, size, "%u x %s are wanted, a GPU can have %u", times[i], board->profiles[i].name,
                     board->profiles[i].max);
            return MIG_TOO_MANY;
        }
    if (slices > board->slices) {
        snprintf(reason, size, "%u compute slices are wanted, a GPU has %u", slices, board->slices);
        return MIG_NO_SLICES;
    }
    for (int e = 0; e < MIG_ENGINE_END; e++)
        if (engines[e] > board->engines[e]) {
            snprintf(reason, size, "%u %s are wanted, a GPU has %u", engines[e], engine_names[e], board->engines[e]);
            return MIG_NO_ENGINES;
        }
    return MIG_POSSIBLE;
}

/* --- all ways to place them ------------------------------------------------------------------------------------------
 */

void mig_count_placements(const MigBoard *board, uint32_t used, uint8_t ret[MIG_GRID_MAX + 1])
{
    memset(ret, 0, MIG_GRID_MAX + 1);
    for (size_t i = 0; i < board->profile_count; i++) {
        const MigProfile *p = &board->profiles[i];
        for (unsigned s = 0; p->size > 1 && s < board->grid; s++)
            if (p->starts >> s & 1 && !(span_mask(p, s) & used))
                ret[MIG_GRID_MAX - p->size]++;
    }
}

/* The wanted instance at a place, -1 for none. */
static int find_wanted(const Search *search, const MigInstance *there)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->wanted[i].profile == there->profile && search->starts[i] == there->start)
            return (int)i;
    return -1;
}

static Score rate_places(const Search *search, uint32_t used)
{
    Score score = {0};
    mig_count_placements(search->board, used, score.free);
    for (size_t i = 0; i < search->now->count; i++) {
        const MigInstance *there = &search->now->instances[i];
        int at = find_wanted(search, there);
        bool changed = at >= 0 && !same_kind(there, &search->wanted[at]);
        score.destroyed += at < 0;
        score.recomputed += changed;
        score.blocked += there->used && (at < 0 || changed);
    }
    return score;
}

static bool is_better(const Score *a, const Score *b)
{
    if (a->blocked != b->blocked)
        return a->blocked < b->blocked;
    if (a->destroyed != b->destroyed)
        return a->destroyed < b->destroyed;
    if (a->recomputed != b->recomputed)
        return a->recomputed < b->recomputed;
    return memcmp(a->free, b->free, sizeof a->free) > 0;
}

/* Places wanted instance `i` and those behind it. */
static void try_places(Search *search, size_t i, uint32_t used)
{
    if (i == search->count) {
        Score score = search->now ? rate_places(search, used) : (Score){0};
        if (!search->found || is_better(&score, &search->best_score)) {
            search->found = true;
            search->best_score = score;
            memcpy(search->best, search->starts, sizeof search->best);
        }
        return;
    }
    const MigInstance *one = &search->wanted[i];
    const MigProfile *p = &search->board->profiles[one->profile];
    /* of equal ones the order of starts makes no difference */
    bool equal = i > 0 && one->start == MIG_START_ANY && search->wanted[i - 1].start == MIG_START_ANY &&
                 same_kind(one, &search->wanted[i - 1]);
    for (unsigned s = equal ? search->starts[i - 1] + 1u : 0; s < search->board->grid; s++) {
        if (!(p->starts >> s & 1) || span_mask(p, s) & used || (one->start != MIG_START_ANY && one->start != s))
            continue;
        search->starts[i] = (uint8_t)s;
        try_places(search, i + 1, used | span_mask(p, s));
        if (search->found && !search->now)
            return;
    }
}

/* Those with the largest ranges and the fewest starts first, equal ones beside each other. */
static bool goes_before(const MigBoard *board, const MigInstance *a, const MigInstance *b)
{
    const MigProfile *p = &board->profiles[a->profile], *q = &board->profiles[b->profile];
    if (p->size != q->size)
        return p->size > q->size;
    if (a->profile != b->profile)
        return a->profile < b->profile;
    if (a->compute_count != b->compute_count)
        return a->compute_count < b->compute_count;
    int order = memcmp(a->compute, b->compute, a->compute_count);
    return order ? order > 0 : a->start < b->start;
}

static void search_init(Search *search, const MigBoard *board, const MigLayout *wanted, const MigLayout *now)
{
    *search = (Search){.board = board, .now = now, .count = wanted->count};
    for (size_t i = 0; i < wanted->count; i++) {
        size_t at = i;
        for (; at > 0 && goes_before(board, &wanted->instances[i], &search->wanted[at - 1]); at--)
            search->wanted[at] = search->wanted[at - 1];
        search->wanted[at] = wanted->instances[i];
    }
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

static void add_destroyed(MigPlan *plan, const MigLayout *now, uint8_t i)
{
    plan->destroy[plan->destroy_count++] = i;
    if (now->instances[i].used)
        plan->blocked[plan->blocked_count++] = i;
}

static void add_kept(MigPlan *plan, const MigLayout *now, uint8_t i, const MigInstance *wanted)
{
    plan->keep[plan->keep_count++] = i;
    if (same_kind(&now->instances[i], wanted))
        return;
    plan->recompute |= 1u << i;
    plan->after[i] = *wanted;
    plan->after[i].start = now->instances[i].start;
    if (now->instances[i].used)
        plan->blocked[plan->blocked_count++] = i;
}

static void fill_plan(Search *search, MigPlan *plan)
{
    bool kept[MIG_INSTANCE_MAX] = {false};
    memcpy(search->starts, search->best, sizeof search->starts);
    for (uint8_t i = 0; i < search->now->count; i++) {
        int at = find_wanted(search, &search->now->instances[i]);
        if (at < 0) {
            add_destroyed(plan, search->now, i);
        } else {
            kept[at] = true;
            add_kept(plan, search->now, i, &search->wanted[at]);
        }
    }
    for (size_t i = 0; i < search->count; i++)
        if (!kept[i]) {
            MigInstance *one = &plan->create[plan->create_count++];
            *one = search->wanted[i];
            one->start = search->best[i];
        }
}

void mig_plan(const MigBoard *board, const MigLayout *now, const MigLayout *wanted, MigPlan *ret)
{
    assert(now->count <= MIG_INSTANCE_MAX && wanted->count <= MIG_INSTANCE_MAX);
    *ret = (MigPlan){.mode_change = now->enabled != wanted->enabled};
    if (!wanted->enabled) {
        for (uint8_t i = 0; i < now->count; i++)
            add_destroyed(ret, now, i);
        return;
    }
    ret->outcome = check_totals(board, wanted, ret->reason, sizeof ret->reason);
    if (ret->outcome != MIG_POSSIBLE)
        return;
    Search search;
    search_init(&search, board, wanted, now);
    try_places(&search, 0, 0);
    if (search.found) {
        fill_plan(&search, ret);
        return;
    }
    ret->outcome = MIG_NO_PLACEMENT;
    snprintf(ret->reason, sizeof ret->reason, "they cannot be placed beside each other on %u memory slices",
             board->grid);
}

void mig_plan_gpu(const MigGpu *gpu, const MigLayout *wanted, MigPlan *ret)
{
    mig_plan(&gpu->board, &gpu->now, wanted, ret);
    ret->mode_change |= gpu->pending != wanted->enabled;
}

void mig_plan_result(const MigLayout *now, const MigPlan *plan, bool enabled, MigLayout *ret)
{
    *ret = (MigLayout){.enabled = enabled};
    for (size_t i = 0; i < plan->keep_count; i++) {
        uint8_t at = plan->keep[i];
        ret->instances[ret->count] = plan->recompute >> at & 1 ? plan->after[at] : now->instances[at];
        ret->count++;
    }
    for (size_t i = 0; i < plan->create_count; i++)
        ret->instances[ret->count++] = plan->create[i];
    for (size_t i = 1; i < ret->count; i++) {
        MigInstance one = ret->instances[i];
        size_t at = i;
        for (; at > 0 && ret->instances[at - 1].start > one.start; at--)
            ret->instances[at] = ret->instances[at - 1];
        ret->instances[at] = one;
    }
}

/* --- the nearest layouts -------------------------------------------------------------------------------------------
 */

typedef struct Nearest {
    const MigBoard *board;
    Search sorted; /* the wanted instances, equal ones beside each other */
    MigLayout *to;
    uint64_t *worth; /* of each of `to` */
    size_t count, max;
} Nearest;

bool mig_layout_fits(const MigBoard *board, const MigLayout *layout)
{
    char reason[160];
    Search search;
    if (check_totals(board, layout, reason, sizeof reason) != MIG_POSSIBLE)
        return false;
    search_init(&search, board, layout, NULL);
    try_places(&search, 0, 0);
    return search.found;
}

unsigned mig_count_free(const MigBoard *board, const MigLayout *now, uint8_t profile)
{
    MigLayout more = *now;
    while (more.count < MIG_INSTANCE_MAX) {
        more.instances[more.count++] = (MigInstance){.profile = profile, .start = MIG_START_ANY};
        if (!mig_layout_fits(board, &more))
            return (unsigned)(more.count - 1 - now->count);
    }
    return (unsigned)(more.count - now->count);
}

/* Compute slices and then memory that are left. */
static uint64_t sum_worth(const MigBoard *board, const MigLayout *layout)
{
    uint64_t slices = 0, memory = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const MigProfile *p = &board->profiles[layout->instances[i].profile];
        slices += p->slices;
        memory += p->size;
    }
    return slices << 32 | memory;
}

static void add_near(Nearest *near, const MigLayout *layout)
{
    if (!mig_layout_fits(near->board, layout))
        return;
    uint64_t worth = sum_worth(near->board, layout);
    size_t at = near->count < near->max ? near->count++ : near->max;
    for (; at > 0 && near->worth[at - 1] < worth; at--)
        if (at < near->max) {
            near->to[at] = near->to[at - 1];
            near->worth[at] = near->worth[at - 1];
        }
    if (at < near->max) {
        near->to[at] = *layout;
        near->worth[at] = worth;
    }
}

/* Takes `away` of the wanted instances from `i` on away, the last of equal ones. */
static void take_away(Nearest *near, size_t i, size_t away, MigLayout *rest)
{
    size_t equal = 1;
    if (away > near->sorted.count - i)
        return;
    if (i == near->sorted.count) {
        add_near(near, rest);
        return;
    }
    while (i + equal < near->sorted.count && same_kind(&near->sorted.wanted[i], &near->sorted.wanted[i + equal]))
        equal++;
    size_t count = rest->count;
    for (size_t less = 0; less <= equal && less <= away; less++) {
        rest->count = count;
        for (size_t k = 0; k < equal - less; k++)
            rest->instances[rest->count++] = near->sorted.wanted[i];
        take_away(near, i + equal, away - less, rest);
    }
    rest->count = count;
}

size_t mig_nearest(const MigBoard *board, const MigLayout *wanted, MigLayout *ret, size_t max)
{
    uint64_t worth[MIG_INSTANCE_MAX];
    Nearest near = {.board = board, .to = ret, .worth = worth, .max = max < MIG_INSTANCE_MAX ? max : MIG_INSTANCE_MAX};
    search_init(&near.sorted, board, wanted, NULL);
    for (size_t away = 1; away < wanted->count && near.count == 0; away++) {
        MigLayout rest = {.enabled = true};
        take_away(&near, 0, away, &rest);
    }
    return near.count;
}
