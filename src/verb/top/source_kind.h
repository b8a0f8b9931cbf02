/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kinds of source share. The thread calls `turn` again and again; a turn does one thing, may block until its
 * own deadline, and says when the next is due. The lock is held by nobody while something blocks.
 */

#include <pthread.h>

#include "verb/top/play.h"
#include "verb/top/source.h"

enum { SOURCE_ASK_MS = 3000, SOURCE_WANTS_MAX = TOP_HISTORY_SERIES_MAX };

typedef struct SourceWant {
    Device device;
    MetricId metric;
    uint32_t number; /* of those asked for */
} SourceWant;

typedef VEC(SourceWant) SourceWants;

/* A point of a series that was asked for. */
typedef struct SourcePast {
    uint32_t want;
    bool done; /* no point: this series is complete */
    bool minute;
    uint64_t real_ns;
    PlotPoint point;
} SourcePast;

typedef struct SourceOps {
    /* Does one thing; returns the instant (monotonic) of the next turn, 0 at once, UINT64_MAX when woken. */
    uint64_t (*turn)(Source *source);
    void (*end)(Source *source);  /* the last thing that the thread does */
    void (*free)(Source *source); /* what the kind added; the thread has ended. NULL: nothing */
} SourceOps;

struct Source {
    const SourceOps *ops;
    Recorder *recorder;
    pthread_t thread;
    bool started, mourned; /* mourned: its thread is left behind */
    int fd;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    /* under the lock */
    bool stopping, wake, done;
    SourceState state;
    uint64_t last_ns; /* monotonic, of the last look */
    Play play;
    Parcel *fresh; /* not taken yet */
    bool fresh_there;
    SourceWants asked; /* all, by number */
    size_t taken;      /* of these the thread has */
    VEC(SourcePast) past;
    size_t pending; /* that were not answered */
    /* the thread's own */
    Parcel *mine;
    Str line; /* room for an answer */
};

/* For the makers of a kind: `size` bytes that begin with a Source. */
void *source_new(size_t size, const SourceOps *ops, TopSource kind);
void source_says(Source *source, const char *fmt, ...) PRINTF_LIKE(2, 3);  /* state.trouble */
void source_fails(Source *source, const char *fmt, ...) PRINTF_LIKE(2, 3); /* and there will never be a look */
void source_is_at(Source *source, const char *fmt, ...) PRINTF_LIKE(2, 3); /* state.where */
/* Reads the line into a look and gives it out: 0, or -EINVAL, which is told as trouble. */
int source_tell(Source *source, const char *text, size_t len, bool record);
/* Gives out source->mine as it is. */
void source_give(Source *source);
/* Appends what was asked for since the last time. */
void source_wanted(Source *source, SourceWants *ret);
void source_add_past(Source *source, const SourceWant *of, uint64_t real_ns, bool minute, PlotPoint point);
void source_past_done(Source *source, const SourceWant *of);
/* The instant that a replay shows now. */
uint64_t source_at(Source *source, Play *ret_play);
bool source_stopping(Source *source);
