/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/reason.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

/* The first that matches counts. */
const SlurmReason slurm_reasons[] = {
    {"None", "the scheduler has not looked at the job yet", "wait for the next scheduling cycle (about a minute)"},
    {"Resources", "it is the next in its partition, and not enough is free for it",
     "wait, or ask for fewer nodes, GPUs or cores, or for a shorter time so that it can be backfilled"},
    {"Priority", "jobs with a higher priority wait for the same nodes",
     "wait, or ask for a shorter time so that it can be backfilled; 'sprio -j JOBID' shows its priority"},
    {"Dependency", "jobs that it depends on have not ended yet",
     "wait for them, or change it: scontrol update JobId=JOBID Dependency="},
    {"DependencyNeverSatisfied", "a job that it depends on ended in a way that can no more satisfy the dependency",
     "cancel it and submit it again, or drop the dependency: scontrol update JobId=JOBID Dependency="},
    {"BeginTime", "its earliest start time has not come, or it was requeued and waits a while",
     "wait, or set it: scontrol update JobId=JOBID StartTime=now"},
    {"JobHeldUser", "its user holds it", "scontrol release JOBID"},
    {"JobHeldAdmin", "an administrator or the system holds it; its user cannot release it",
     "ask an administrator to run: scontrol release JOBID"},
    {"JobHoldMaxRequeue", "it was requeued too often and is held", "find out why its starts fail, then release it"},
    {"JobArrayTaskLimit", "as many tasks of its array run as the array allows (%N)",
     "wait, or raise it: scontrol update JobId=JOBID ArrayTaskThrottle=N"},
    {"launch_failed_requeued_held", "its launch failed, and it was requeued and held",
     "look at the log of slurmd on its node, then: scontrol release JOBID"},
    {"ReqNodeNotAvail*", "a node that it names, or all that it can use, are down, drained or reserved",
     "drop --nodelist, or wait until the nodes are back; 'sinfo -R' says why they are closed"},
    {"Nodes_required_for_job_are_DOWN*", "nodes that it needs are down, drained or kept for other partitions",
     "ask for fewer nodes, or wait until the nodes are back; 'sinfo -R' says why they are closed"},
    {"NodeDown", "a node that it needs is down", "wait until the node is back, or name another one"},
    {"BadConstraints", "no node has what its options ask for",
     "correct --constraint, --gres or --nodelist: scontrol update JobId=JOBID Features="},
    {"PartitionConfig", "it asks for more nodes or other ones than its partition has",
     "ask for less, or choose another partition: scontrol update JobId=JOBID Partition=NAME"},
    {"PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows",
     "change --nodes, or choose another partition"},
    {"PartitionTimeLimit", "its time limit is over that of its partition",
     "shorten it: scontrol update JobId=JOBID TimeLimit=TIME; or choose another partition"},
    {"PartitionDown", "its partition is down: jobs queue but none starts", "wait, or choose another partition"},
    {"PartitionInactive", "its partition is inactive: no job starts", "choose another partition"},
    {"Licenses", "it waits for a licence that is all in use", "wait; 'scontrol show lic' shows who has how many"},
    {"Reservation", "its reservation has not begun, or has not enough free", "wait for the reservation to begin"},
    {"ReservationDeleted", "the reservation that it names is gone", "scontrol update JobId=JOBID ReservationName="},
    {"BurstBufferResources", "the burst buffer has not enough room", "wait, or ask for a smaller one"},
    {"InvalidAccount", "its account does not exist or is not its user's", "submit it again with --account=NAME"},
    {"InvalidQOS", "its QOS does not exist or is not its account's", "submit it again with --qos=NAME"},
    {"QOSUsageThreshold", "its account's usage is over the threshold of the QOS", "wait, or use another QOS"},
    {"QOSMax*PerUser*", "its user's running jobs are at the limit of the QOS",
     "wait for jobs of that user to end, or use another QOS"},
    {"QOSMax*PerAccount*", "its account's running jobs are at the limit of the QOS",
     "wait for jobs of that account to end, or use another QOS"},
    {"QOSMax*", "the job alone is over a limit of its QOS",
     "ask for less or a shorter time, or use another QOS; 'sacctmgr show qos' lists limits"},
    {"QOSGrp*", "all jobs together in its QOS are at the limit of the QOS", "wait, or use another QOS"},
    {"QOS*", "a limit of its QOS does not let it start", "'sacctmgr show qos' lists limits; use another QOS"},
    {"AssocGrp*", "its account's running jobs are at the account's limit",
     "wait for jobs of the account to end, or use another account; 'sacctmgr show assoc' lists limits"},
    {"AssocMax*", "the job or its user is over a limit of the user's association",
     "ask for less, or wait for jobs of that user to end; 'sacctmgr show assoc' lists limits"},
    {"Assoc*", "a limit of the user's association does not let it start", "'sacctmgr show assoc' lists limits"},
    {"MaxMemPerLimit", "it asks for more memory per node or core than is allowed", "ask for less memory"},
    {"Prolog", "the prolog runs on its nodes", "wait; look at slurmd's log if it takes long"},
    {"Cleaning", "it was requeued, and its earlier run is still cleaned up", "wait"},
    {"FrontEndDown", "no front end is up", "ask an administrator"},
};
const size_t slurm_reason_count = ARRAY_LEN(slurm_reasons);

/* Each '*' stands for any characters. */
static bool match_word(const char *pattern, const char *word, size_t len)
{
    const char *star = strchr(pattern, '*');
    const size_t head = star ? (size_t)(star - pattern) : strlen(pattern);

    if (len < head || memcmp(pattern, word, head) != 0)
        return false;
    if (!star || !star[1])
        return star || len == head;
    for (size_t at = head; at <= len; at++)
        if (match_word(star + 1, word + at, len - at))
            return true;
    return false;
}

const SlurmReason *slurm_reason_find(const char *word, size_t len)
{
    for (size_t i = 0; i < slurm_reason_count; i++)
        if (match_word(slurm_reasons[i].word, word, len))
            return &slurm_reasons[i];
    return NULL;
}
