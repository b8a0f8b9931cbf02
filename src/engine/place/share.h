/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a queue may use of the cluster and what is its fair part. Amounts are GPU milli. Pure; one thread per Shares.
 *
 * What it may use goes by Kueue's quotas: its nominal quota, what others of its cohort (its parent) do not use, up to
 * its borrowing limit, less what they keep to themselves by their lending limits; a cohort may have a quota of its own
 * and a parent. What is fair goes by KAI: first the nominal quota of each queue that asks for it, then the rest by
 * weight among those that ask for more, less for those that used more in the past (half-life decay), level by level.
 * Sources: Kueue's and KAI's documents on quotas, cohorts, fairness and time-based fair share (2026-08).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/cluster.h"

typedef struct Shares Shares;

/* `half_life_s` 0: the past does not count; else `past_weight` (KAI's kValue) says for how much. `queues` are borrowed.
 * -EINVAL names a queue that occurs twice, whose parent is not there, or that is its own ancestor. */
int shares_new(const ClusterQueue *queues, size_t count, uint64_t capacity, double half_life_s, double past_weight,
               Shares **ret, Err *err);
void shares_free(Shares *shares); /* accepts NULL */
/* Its number; -1: no such queue, and for NULL. */
int shares_find(const Shares *shares, const char *name);

/* `queue` below 0 has no limits. */
void shares_use(Shares *shares, int queue, uint64_t milli);
void shares_give_back(Shares *shares, int queue, uint64_t milli);
uint64_t shares_used(const Shares *shares, int queue);
uint64_t shares_available(const Shares *shares, int queue);                /* that it may use now besides */
bool shares_is_nominal(const Shares *shares, int queue, uint64_t besides); /* with these it is within its own */

/* Time goes on to `now_s`: what is in use becomes past use. */
void shares_advance(Shares *shares, uint64_t now_s);
/* Past use of the cluster's capacity over the same past, 0 to 1. */
double shares_past(const Shares *shares, int queue);
/* Divides the capacity. `asked`: of each queue, what it uses and what waits in it. */
void shares_divide(Shares *shares, const uint64_t *asked);
double shares_fair(const Shares *shares, int queue); /* of the last division */
/* Use with `besides` more (or less) beside what is fair: 1 is just fair. INFINITY where nothing is. */
double shares_saturation(const Shares *shares, int queue, int64_t besides);
