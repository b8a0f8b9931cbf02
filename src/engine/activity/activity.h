/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What each GPU and MIG instance is doing: the only place that decides it (model/activity.h has the words). Reads the
 * last minute of seconds from the store and the open incidents; a word changes when another one was right for ten
 * seconds, so that the word of a steady job never changes. Pure: time is that of the node. One thread.
 */

#include "engine/store/store.h"
#include "model/snapshot.h"

typedef struct Activities Activities;

Activities *activities_new(void);
void activities_free(Activities *activities); /* accepts NULL */

/* The metrics that this needs: a bit per MetricId, added to `wanted`. */
void activities_add_wanted(uint64_t wanted[(METRIC_END + 63) / 64]);

/* Decides for every GPU and instance of the snapshot's node, and writes it there; once per tick, after the readings
 * were added to the store and the incidents are known. The instances' activities stay valid until the next call. */
void activities_update(Activities *activities, const Snapshot *snapshot, const Store *store);
