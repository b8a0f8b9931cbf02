/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside engine/place: the state of a Schedule, which schedule.c (jobs), cycle.c, reserve.c and preempt.c work on. */

#include "base/vec.h"
#include "engine/place/schedule.h"

#define NO_JOB UINT32_MAX

typedef VEC(uint32_t) Jobs;

/* The fewest pods that found no room in a cycle: nor does another job that asks for at least as many of the same. */
typedef struct Refused {
    uint32_t cycle, pods;
} Refused;

typedef struct ScheduleEnd {
    uint64_t at_s;
    uint32_t job;
} ScheduleEnd;

struct Schedule {
    const Cluster *cluster;
    ScheduleOptions options;
    Placement *placement;
    Gangs *gangs;
    Shares *shares;
    ScheduleJob *jobs;
    uint32_t (*kinds)[CLUSTER_ROLES_MAX]; /* of each job's roles */
    int *queues;                          /* of each job */
    Jobs *waiting;                        /* of each queue, and of none at [queue_count]: in their order */
    size_t *cursors;                      /* of each of these, in a cycle */
    size_t waiting_count;
    Jobs running;
    VEC(ScheduleEnd) ends; /* a heap: [0] is the first; some are of jobs that no longer end then */
    size_t short_of_pods;  /* running jobs that have fewer pods than they could use */
    Jobs *on_node;         /* running jobs with a place on it */
    uint64_t *asked;       /* of each queue: in use and waiting */
    VEC(Refused) refused;  /* by what is asked for, see refused_at */
    uint32_t cycle;        /* goes up when something may find room that found none */
    bool room_came;        /* since the last cycle: else only new jobs have to be tried */
    uint32_t reserved;     /* job */
    uint64_t reserved_at_s;
    uint64_t *reserved_nodes;
    bool *hopeless;               /* of each job: no end of others makes room for it */
    PlacementLeft *lefts, *saved; /* room for all nodes, to think with */
    ClusterPlace *places;         /* room for the pods of the largest job */
    Jobs victims, passing, started;
};

/* The number of the list in which it waits. */
size_t schedule_lane(const Schedule *s, uint32_t job);
int schedule_compare_waiting(const Schedule *s, uint32_t a, uint32_t b); /* below 0: a goes first */
uint64_t schedule_milli_held(const Schedule *s, uint32_t job);
bool schedule_has_quota(const Schedule *s, uint32_t job); /* for its needed pods */
/* Takes a running job off its nodes, or puts it back as if nothing had been. */
void schedule_detach(Schedule *s, uint32_t job);
void schedule_attach(Schedule *s, uint32_t job);
/* Of a job that runs: from now on on the first `count` of s->places, which are bound; its present ones are neither
 * bound nor counted as used by its queue. */
void schedule_resize(Schedule *s, uint32_t job, size_t count, uint64_t now_s);
/* Of a job that waits, on the first `count` of s->places, which are bound. */
void schedule_start(Schedule *s, uint32_t job, size_t count, uint64_t now_s);
void schedule_stop(Schedule *s, uint32_t job, uint64_t now_s); /* of one that was detached */

/* How many of a job's pods of a role have room on a node with so much left. */
uint32_t schedule_room(const Schedule *s, uint32_t job, unsigned role, uint32_t node, const PlacementLeft *left);

/* Nodes on which a job must not start now, as they are reserved for one that is not less important; NULL: none. */
const uint64_t *schedule_kept_nodes(const Schedule *s, uint32_t job, uint64_t now_s);
/* The earliest time at which the job fits as running ones end, and the nodes: s->reserved, or NO_JOB. */
void schedule_reserve(Schedule *s, uint32_t job);
/* True: the job has started in the place of others. */
bool schedule_preempt(Schedule *s, uint32_t job, uint64_t now_s);
