/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside engine/place: whether a job would run in a cluster as it is. A Trial holds the running jobs of a Cluster in a
 * Placement and in Shares; jobs can be ended in it, and a waiting one tried. Pure; one thread per Trial.
 */

#include "engine/place/placement.h"
#include "engine/place/share.h"

typedef struct Trial Trial;

/* What a running pod holds of its node: no more than is left, and of GPUs those of the record (0: not known, any) that
 * have room, which go to `place`; of MIG instances any. */
ClusterRequest trial_hold(const ClusterNode *node, const PlacementLeft *left, const ClusterRequest *asked,
                          ClusterPlace *place);

/* `cluster`: borrowed. What a record gives to a pod beyond what its node has is left out and counted. Fails where the
 * queues are wrong (shares_new). */
int trial_new(const Cluster *cluster, Trial **ret, Err *err);
void trial_free(Trial *trial); /* accepts NULL */
/* Places of running jobs that did not fit whole. */
size_t trial_overfull(const Trial *trial);
const Placement *trial_placement(const Trial *trial);
const Shares *trial_shares(const Trial *trial);

/* Ends a running job, by its number in the cluster. */
void trial_end(Trial *trial, size_t job);

/* Binds the pods that the job needs one by one, within one domain of its tier (`domain` from 1) or anywhere (0), until
 * one does not fit. Returns how many did, and in *ret_role the role of the first that did not (where all did, the one
 * whose pods have the most GPUs). They stay until trial_take_back. */
uint32_t trial_bind(Trial *trial, const ClusterJob *job, uint32_t domain, uint8_t *ret_role);
void trial_take_back(Trial *trial);

/* How many of its pods fit within a domain, or anywhere (0). */
uint32_t trial_count(Trial *trial, const ClusterJob *job, uint32_t domain);
/* Whether it would run: its quota, all its pods, and one domain for them where it demands one. */
bool trial_fits(Trial *trial, const ClusterJob *job);
