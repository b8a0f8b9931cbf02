/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A workload placed pod by pod in a given order, nothing ever ends: how much of the cluster is in use at each per cent
 * of demand that has arrived. The protocol of the FGD study (ATC'23). Pure. */

#include "engine/place/placement.h"
#include "model/word.h"

enum { REPLAY_BINS = 201 }; /* 0 to 200 % of the cluster's GPUs asked for */

/* WORD(id, key) of pods, by what they ask */
#define REPLAY_CLASS_TABLE(WORD)                                                                                       \
    WORD(REPLAY_CPU_ONLY, "cpu-only")                                                                                  \
    WORD(REPLAY_SHARED, "shared-gpu")                                                                                  \
    WORD(REPLAY_ONE, "1-gpu")                                                                                          \
    WORD(REPLAY_MANY, "many-gpus")

typedef enum ReplayClass { REPLAY_CLASS_TABLE(WORD_ID) REPLAY_CLASS_END } ReplayClass;

extern const WordRow replay_classes[REPLAY_CLASS_END];

/* Means over the pods that arrived at this per cent, rounded to a whole one. */
typedef struct ReplayBin {
    uint32_t pods; /* 0: the rest is not known */
    double alloc_percent, fragmented_percent, power_w;
} ReplayBin;

typedef struct Replay {
    uint64_t pods, placed, failed[REPLAY_CLASS_END];
    uint64_t gpu_milli, gpu_milli_asked, gpu_milli_allocated;
    ReplayBin bins[REPLAY_BINS];
} Replay;

/* Places `requests[order[i]]` for each i. The Placement is empty and knows its typical requests. */
void replay_run(Placement *placement, const ClusterRequest *requests, const uint32_t *order, size_t count, Replay *ret);
