/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/share.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct Share {
    int parent;         /* -1: none */
    int64_t quota;      /* of it and below, that it or others may use */
    int64_t guaranteed; /* of that, what it never lends */
    int64_t used;       /* by itself; of a cohort, by those below beyond what is guaranteed to them */
    double past;        /* GPU milli seconds, decayed */
    double asked, fair; /* at the last division */
} Share;

struct Shares {
    const ClusterQueue *queues;
    Share *at;
    size_t count;
    double capacity, past_capacity, half_life_s, past_weight;
    uint64_t now_s;
};

/* --- the tree --------------------------------------------------------------------------------------------------- */

int shares_find(const Shares *shares, const char *name)
{
    for (size_t i = 0; name && i < shares->count; i++)
        if (strcmp(shares->queues[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int link_queue(Shares *shares, size_t i, Err *err)
{
    const ClusterQueue *queue = &shares->queues[i];

    if (shares_find(shares, queue->name) != (int)i)
        return err_set(err, -EINVAL, "queue '%s' occurs twice", queue->name);
    shares->at[i].parent = shares_find(shares, queue->parent);
    if (queue->parent && shares->at[i].parent < 0)
        return err_set(err, -EINVAL, "queue '%s': its parent '%s' is not among the queues", queue->name, queue->parent);
    return 0;
}

static int check_ancestors(const Shares *shares, size_t i, Err *err)
{
    size_t steps = 0;

    for (int at = (int)i; at >= 0; at = shares->at[at].parent)
        if (steps++ > shares->count)
            return err_set(err, -EINVAL, "queue '%s' is its own ancestor", shares->queues[i].name);
    return 0;
}

/* Of what is below `parent`, then of itself. */
static void sum_quotas(Shares *shares, int at)
{
    const ClusterQueue *queue = &shares->queues[at];
    Share *share = &shares->at[at];

    share->quota = (int64_t)queue->nominal;
    for (size_t i = 0; i < shares->count; i++)
        if (shares->at[i].parent == at) {
            sum_quotas(shares, (int)i);
            share->quota += shares->at[i].quota - shares->at[i].guaranteed;
        }
    share->guaranteed =
        queue->lending_limit < (uint64_t)share->quota ? share->quota - (int64_t)queue->lending_limit : 0;
}

int shares_new(const ClusterQueue *queues, size_t count, uint64_t capacity, double half_life_s, double past_weight,
               Shares **ret, Err *err)
{
    Shares *shares = xcalloc(1, sizeof *shares);
    int status = 0;

    *shares = (Shares){.queues = queues,
                       .count = count,
                       .capacity = (double)capacity,
                       .half_life_s = half_life_s,
                       .past_weight = past_weight,
                       .at = xcalloc(count + 1, sizeof *shares->at)};
    for (size_t i = 0; i < count && status == 0; i++)
        status = link_queue(shares, i, err);
    for (size_t i = 0; i < count && status == 0; i++)
        status = check_ancestors(shares, i, err);
    if (status < 0) {
        shares_free(shares);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        if (shares->at[i].parent < 0)
            sum_quotas(shares, (int)i);
    *ret = shares;
    return 0;
}

void shares_free(Shares *shares)
{
    if (!shares)
        return;
    free(shares->at);
    free(shares);
}

/* --- quotas ----------------------------------------------------------------------------------------------------- */

static int64_t find_beyond(int64_t a, int64_t b)
{
    return a > b ? a - b : 0;
}

/* What a queue uses beyond what is guaranteed to it, its cohort uses. */
static void change_use(Shares *shares, int queue, int64_t milli)
{
    while (queue >= 0 && milli != 0) {
        Share *share = &shares->at[queue];
        const int64_t before = find_beyond(share->used, share->guaranteed);

        share->used += milli;
        milli = find_beyond(share->used, share->guaranteed) - before;
        queue = share->parent;
    }
}

void shares_use(Shares *shares, int queue, uint64_t milli)
{
    change_use(shares, queue, (int64_t)milli);
}

void shares_give_back(Shares *shares, int queue, uint64_t milli)
{
    change_use(shares, queue, -(int64_t)milli);
}

uint64_t shares_used(const Shares *shares, int queue)
{
    return queue < 0 ? 0 : (uint64_t)shares->at[queue].used;
}

static int64_t find_available(const Shares *shares, int queue)
{
    const Share *share = &shares->at[queue];
    const uint64_t limit = shares->queues[queue].borrowing_limit;

    if (share->parent < 0)
        return share->quota - share->used;
    int64_t shared = find_available(shares, share->parent);
    if (limit < INT64_MAX) {
        const int64_t own = share->quota - share->guaranteed - find_beyond(share->used, share->guaranteed);

        shared = own + (int64_t)limit < shared ? own + (int64_t)limit : shared;
    }
    return find_beyond(share->guaranteed, share->used) + shared;
}

uint64_t shares_available(const Shares *shares, int queue)
{
    if (queue < 0)
        return UINT64_MAX;
    const int64_t available = find_available(shares, queue);
    return available > 0 ? (uint64_t)available : 0;
}

bool shares_is_nominal(const Shares *shares, int queue, uint64_t besides)
{
    return queue >= 0 && (uint64_t)shares->at[queue].used + besides <= shares->queues[queue].nominal;
}

/* --- fairness --------------------------------------------------------------------------------------------------- */

void shares_advance(Shares *shares, uint64_t now_s)
{
    const double passed = now_s > shares->now_s ? (double)(now_s - shares->now_s) : 0;

    shares->now_s = now_s > shares->now_s ? now_s : shares->now_s;
    if (!(shares->half_life_s > 0) || !(passed > 0))
        return;
    const double kept = exp2(-passed / shares->half_life_s);
    const double added = shares->half_life_s / M_LN2 * (1 - kept); /* of a use of 1 all the time */
    for (size_t i = 0; i < shares->count; i++)
        shares->at[i].past = shares->at[i].past * kept + (double)shares->at[i].used * added;
    shares->past_capacity = shares->past_capacity * kept + shares->capacity * added;
}

double shares_past(const Shares *shares, int queue)
{
    return queue >= 0 && shares->past_capacity > 0 ? shares->at[queue].past / shares->past_capacity : 0;
}

/* What it could still get: it asks for it, and no limit forbids it. */
static double find_unmet(const Shares *shares, size_t i)
{
    const ClusterQueue *queue = &shares->queues[i];
    const double limit = (double)shares->at[i].quota + (double)queue->borrowing_limit;

    return fmax(0, fmin(shares->at[i].asked, limit) - shares->at[i].fair);
}

/* The part of a queue in a round: by weight, less for past use (KAI: max(0, W + k (W - U))). */
static double find_portion(const Shares *shares, size_t i, double weights)
{
    const double weight = weights > 0 ? shares->queues[i].weight / weights : 0;

    return fmax(0, weight + shares->past_weight * (weight - shares_past(shares, (int)i)));
}

/* Gives the rest by weight; again while some have enough before the rest is gone. True: something was given. */
static bool divide_rest(Shares *shares, int parent, double *rest)
{
    double weights = 0, portions = 0, given = 0;

    for (size_t i = 0; i < shares->count; i++)
        if (shares->at[i].parent == parent && find_unmet(shares, i) > 0)
            weights += shares->queues[i].weight;
    for (size_t i = 0; i < shares->count; i++)
        if (shares->at[i].parent == parent && find_unmet(shares, i) > 0)
            portions += find_portion(shares, i, weights);
    for (size_t i = 0; i < shares->count && portions > 0; i++)
        if (shares->at[i].parent == parent && find_unmet(shares, i) > 0) {
            const double part = fmin(*rest * find_portion(shares, i, weights) / portions, find_unmet(shares, i));

            shares->at[i].fair += part;
            given += part;
        }
    *rest -= given;
    return given >= 1;
}

static void divide_among(Shares *shares, int parent, double total)
{
    double rest = total;

    for (size_t i = 0; i < shares->count; i++)
        if (shares->at[i].parent == parent) {
            shares->at[i].fair = fmin(rest, fmin(shares->at[i].asked, (double)shares->at[i].quota));
            rest -= shares->at[i].fair;
        }
    while (rest >= 1 && divide_rest(shares, parent, &rest))
        ;
    for (size_t i = 0; i < shares->count; i++)
        if (shares->at[i].parent == parent)
            divide_among(shares, (int)i, shares->at[i].fair);
}

void shares_divide(Shares *shares, const uint64_t *asked)
{
    for (size_t i = 0; i < shares->count; i++)
        shares->at[i].asked = 0;
    for (size_t i = 0; i < shares->count; i++)
        for (int at = (int)i; at >= 0; at = shares->at[at].parent)
            shares->at[at].asked += (double)asked[i];
    divide_among(shares, -1, shares->capacity);
}

double shares_fair(const Shares *shares, int queue)
{
    return queue < 0 ? shares->capacity : shares->at[queue].fair;
}

double shares_saturation(const Shares *shares, int queue, int64_t besides)
{
    if (queue < 0)
        return 0;
    const double used = (double)(shares->at[queue].used + besides);
    return shares->at[queue].fair > 0 ? used / shares->at[queue].fair : used > 0 ? INFINITY : 0;
}
