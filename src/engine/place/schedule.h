/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which waiting job starts next, where, and which running ones have to make room: queues, gangs, reservations, backfill
 * and preemption over one Placement. Deterministic and pure: time is an argument, seconds of one clock. One thread per
 * Schedule.
 *
 * Order: jobs that stay within their queue's nominal quota first; then those of the queue that has least of its fair
 * share; then by priority, then by when they were submitted. Within a queue a job never starts before one of higher
 * priority that it could have started instead.
 *
 * Starvation: the first job in the order that finds no room gets a reservation: the earliest time at which it fits
 * as running jobs end, and nodes for it. Until it has started nothing starts on these nodes that is not more important
 * and does not end before that time. So it starts by then, if jobs end when they are expected to and none of higher
 * priority comes.
 *
 * Preemption: for a job of higher priority in the same queue (or without queues), or one that takes back what its queue
 * is due (its nominal quota, or its fair share) from a queue that has more than it is due and still has at least as
 * much of its fair share afterwards. Chosen are the jobs that lose least work; none is stopped unless all that is
 * needed can be had; of a gang none or all pods are stopped, down to its least number without stopping it.
 */

#include "engine/place/gang.h"
#include "engine/place/share.h"

typedef struct Schedule Schedule;

typedef struct ScheduleOptions {
    bool backfill; /* jobs may start before one that waits for room; else none does, of any queue */
    bool preempt;
    bool by_age;                     /* victims: the youngest first, as most schedulers choose; else least lost work */
    GangDomains domains;             /* of gangs */
    double half_life_s, past_weight; /* of fair shares; half_life_s 0: the past does not count */
} ScheduleOptions;

/* What a job has come to. */
typedef struct ScheduleJob {
    enum { SCHEDULE_JOB_AWAY, SCHEDULE_JOB_WAITS, SCHEDULE_JOB_RUNS, SCHEDULE_JOB_DONE } state;
    uint64_t since_s;     /* waits, runs or is done */
    uint64_t first_s;     /* when it first started */
    uint64_t waited_s;    /* in all */
    uint64_t expected_s;  /* when it ends, running; UINT64_MAX: not known */
    double kept_s;        /* of its duration, when it was last stopped or resized */
    double done_s;        /* the same, less what coming back takes */
    double lost_gpu_s;    /* GPU seconds of work that were lost, and that restarts took */
    double used_gpu_s;    /* that it has held */
    uint32_t stops;       /* that it did not want */
    ClusterPlace *places; /* running */
    size_t place_count;
} ScheduleJob;

/* `cluster` is borrowed; `order` as for placement_new. -EINVAL: its queues. */
int schedule_new(const Cluster *cluster, const uint32_t *order, const PlacementMode *mode,
                 const ScheduleOptions *options, Schedule **ret, Err *err);
void schedule_free(Schedule *schedule); /* accepts NULL */
Placement *schedule_placement(Schedule *schedule);
const Gangs *schedule_gangs(const Schedule *schedule);
const Shares *schedule_shares(const Schedule *schedule);
const ScheduleJob *schedule_job(const Schedule *schedule, uint32_t job);

void schedule_submit(Schedule *schedule, uint32_t job, uint64_t now_s);
void schedule_end(Schedule *schedule, uint32_t job, uint64_t now_s); /* of a running one */
/* Jobs on it stop and wait again; nothing is placed on it until it is back. */
void schedule_lose_node(Schedule *schedule, uint32_t node, uint64_t now_s);
void schedule_return_node(Schedule *schedule, uint32_t node);
/* Starts what can start. True where something started, stopped or changed its size: expected ends are others. */
bool schedule_run(Schedule *schedule, uint64_t now_s);
/* The jobs that the last schedule_run started, in their order. */
const uint32_t *schedule_started(const Schedule *schedule, size_t *ret_count);
/* The job that has a reservation, and for when; UINT32_MAX: none. */
uint32_t schedule_reserved(const Schedule *schedule, uint64_t *ret_at_s);
size_t schedule_waiting(const Schedule *schedule);
uint64_t schedule_waiting_milli(const Schedule *schedule); /* GPU milli that these need */
/* When the next running job is expected to end, and which (the lowest number of several); UINT64_MAX: none is. */
uint64_t schedule_next_end(Schedule *schedule, uint32_t *ret_job);
/* What would be lost were it stopped now: GPU seconds since its last checkpoint, and those of its restart. */
double schedule_lost_work(const Schedule *schedule, uint32_t job, uint64_t now_s);
