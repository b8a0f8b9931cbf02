/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which events of a profile are meant: a window of time, steps, streams, devices. `stoker trace` drops the others
 * before it analyses, `stoker trace cut` copies these and no others; both decide here, so that cutting and then
 * analysing is the same as analysing with the options.
 *
 * The rule: a GPU operation belongs where it starts, [from, to); with it comes the call that launched it, whenever that
 * was. Everything on the host, and ranges, synchronisations on the GPU, belong where they touch the window. Streams and
 * devices choose among GPU operations, GPU ranges and synchronisations; the host's events stay.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "model/profile.h"

enum { TRACE_RANGES_MAX = 64 };

/* A set of numbers: "3", "0-3,8". Empty: not given. */
typedef struct TraceNumbers {
    int64_t first[TRACE_RANGES_MAX], last[TRACE_RANGES_MAX];
    size_t len;
} TraceNumbers;

/* -EINVAL; `what` names the option in the text. NULL gives the empty set. */
int trace_numbers_parse(const char *text, const char *what, TraceNumbers *ret, Err *err);
bool trace_numbers_has(const TraceNumbers *numbers, int64_t number); /* the empty set has all */

/* A moment: "1.5s", "200ms", "1m30s" after the profile's first event, or a whole number without a unit: nanoseconds of
 * the file's own clock. */
typedef struct TraceMoment {
    bool given, relative;
    int64_t ns;
} TraceMoment;

int trace_moment_parse(const char *text, const char *what, TraceMoment *ret, Err *err);

typedef struct TraceAsk { /* as on the command line */
    TraceMoment from, to;
    const char *step; /* NULL none: "ProfilerStep#5", "5", "3-7", "last" */
    TraceNumbers ranks, streams, devices;
    bool no_host, no_python; /* without what CPU threads did but for their ranges; without Python functions */
} TraceAsk;

typedef struct TracePick {
    const TraceAsk *ask;
    int64_t from, to;    /* INT64_MIN, INT64_MAX: no bound */
    VEC(uint32_t) links; /* of the GPU operations meant, ascending; only where there is a window */
} TracePick;

/* Whether anything but ranks was chosen: otherwise every event is wanted. */
bool trace_ask_some(const TraceAsk *ask);

/* Finds the window in a sealed profile, and the links of its GPU operations. -ENOENT for an unknown step: the text
 * lists the known ones. */
int trace_pick_init(TracePick *pick, const TraceAsk *ask, const Profile *profile, Err *err);
void trace_pick_done(TracePick *pick); /* accepts a zeroed one */

/* An event, whatever holds it. */
typedef struct TracePicked {
    ProfileKind kind;
    int64_t start, duration;
    uint32_t link;
    int32_t device; /* of GPU events; -1 unknown */
    int64_t stream; /* -1 unknown */
} TracePicked;

bool trace_pick_event(const TracePick *pick, const TracePicked *event);
/* Whether a wanted GPU operation has this link; false without a window. */
bool trace_pick_link(const TracePick *pick, uint32_t link);
/* Something that has a time alone (an instant, a counter, a flow's end). */
bool trace_pick_moment(const TracePick *pick, int64_t start);

/* Drops all other events of a sealed profile. */
void trace_pick_apply(const TracePick *pick, Profile *profile);

/* The choice in words ("steps 3-7, stream 7"), "" for everything. */
void trace_ask_words(const TraceAsk *ask, char *room, size_t size);
