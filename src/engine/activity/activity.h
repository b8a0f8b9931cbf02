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
void activities_add_wanted(uint64_t wanted[METRIC_SET_WORDS]);

/* Decides for every GPU and instance of the snapshot's node, and writes it there; once per tick, after the readings
 * were added to the store and the incidents are known. The instances' activities stay valid until the next call. */
void activities_update(Activities *activities, const Snapshot *snapshot, const Store *store);

/* --- seconds.c: the last minute of a device, read from the store. Engine/why reads its own series with it. ----------
 */

enum { ACTIVITY_WINDOW_S = 60 };

/* What a row of seconds is made of. Of two sources of one row, which stand one behind the other, the larger value
 * counts, of two counters their sum. A MIG instance has no utilisation: how long its engine was active stands for it.
 */
typedef struct SecondsSource {
    size_t into; /* the row */
    MetricId metric;
    double scale;   /* to the row's unit */
    MetricId limit; /* the value is a share of that one, as it is now; METRIC_END: of nothing */
    bool counter;   /* its rise per second */
} SecondsSource;

/* Fills the rows that `sources` name with the last minute, the oldest second first; the last is that of `now_ns`, by
 * the store's clock. NaN: no reading in that second. */
void seconds_read(const Store *store, const Reading *reading, uint64_t now_ns, const SecondsSource *sources,
                  size_t count, double (*rows)[ACTIVITY_WINDOW_S]);
/* The mean of the seconds from `from` on; NaN where none has a reading. */
double seconds_mean(const double row[ACTIVITY_WINDOW_S], int from);

/* --- decide.c: the rule. Seconds of readings in, a word with its cause out. Knows neither store nor incidents. ---- */

/* What is read of each second; shares are 0 to 1. NaN: no reading in that second. */
typedef enum ActivitySeries {
    ACTIVITY_OF_SM,     /* SM active */
    ACTIVITY_OF_UTIL,   /* a kernel ran */
    ACTIVITY_OF_VIDEO,  /* the busier of encoder and decoder */
    ACTIVITY_OF_TENSOR, /* tensor cores active */
    ACTIVITY_OF_DRAM,   /* memory interface active */
    ACTIVITY_OF_POWER,  /* of the limit */
    ACTIVITY_OF_CLOCK,  /* of the highest SM clock */
    ACTIVITY_OF_LINK,   /* NVLink, bytes per second, both directions */
    ACTIVITY_SERIES_END,
} ActivitySeries;

/* The last minute, the oldest second first; the last is now. */
typedef struct ActivitySeconds {
    double at[ACTIVITY_SERIES_END][ACTIVITY_WINDOW_S];
    bool held; /* now: a process, an owner or memory in use */
} ActivitySeconds;

/* Limits of the words that engine/why cites: it contradicts none of them. */
#define ACTIVITY_WORKING_SM 0.35 /* SM active that keeps the word "working" */
#define ACTIVITY_IDLE_SM 0.02    /* SM active, and utilisation, of a second with work */
#define ACTIVITY_IDLE_UTIL 0.05
#define ACTIVITY_INPUT_UTIL 0.60 /* utilisation, at most: no kernel runs for a good part of the time */
#define ACTIVITY_FILL 0.25       /* SM active per utilisation, at most: kernels that fill few multiprocessors */
#define ACTIVITY_VIDEO_WORK 0.20 /* encoder or decoder, at least: that is work too */
#define ACTIVITY_SPIN_S 30       /* seconds without progress that are no step of a job: three steps, 30 s at least */

/* Whether means of these seconds are those of a kernel that spins: resident all the time on few multiprocessors,
 * without tensor work or traffic. All of it has to be known, but for the link. */
bool activity_is_spin(const double mean[ACTIVITY_SERIES_END]);

/* What the readings alone say, as a word of its own: WORKING, WAITING, IDLE_HELD, FREE, or UNKNOWN where there is
 * nothing to decide by. `before` is the word in force, whose limits are wider, so that a reading at a limit does not
 * change it; UNKNOWN for a first decision. Sets all of *ret but since_ns and incident. */
void activity_decide(const ActivitySeconds *seconds, const Activity *before, Activity *ret);
