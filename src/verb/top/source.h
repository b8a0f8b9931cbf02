/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where looks come from: the agent, eyes of one's own, a recording, the agent's history. Each works in a thread of its
 * own, as each may block: nothing here holds up who draws. The functions below are for the one thread that draws; what
 * a source does, is in source_kind.h.
 */

#include "base/str.h"
#include "service/api/history_read.h"
#include "service/top/history.h"
#include "service/top/look.h"
#include "verb/top/record.h"

typedef struct Source Source;

/* A look and the JSON line that it was read from, "" where it came from no JSON. */
typedef struct Parcel {
    Look look;
    Str text;
} Parcel;

Parcel *parcel_new(void);
void parcel_free(Parcel *parcel); /* accepts NULL */

enum { SOURCE_TEXT_CAP = 320 };

typedef struct SourceState {
    TopSource kind;
    char where[SOURCE_TEXT_CAP];
    char trouble[SOURCE_TEXT_CAP]; /* why the last try gave no look, "" where it gave one */
    uint64_t age_ns;               /* since the last look that came, 0 where none did */
    char record[SOURCE_TEXT_CAP];  /* why nothing is recorded any more */
    uint64_t looks;                /* that came */
    bool paused, ended;            /* of a replay; ended: there is nothing after this */
    double speed;
    uint64_t from_ns, to_ns;
    uint64_t pace_ns; /* how far looks are apart, as far as that is known */
    bool failed;      /* it can never give a look; `trouble` says why */
} SourceState;

/* The running agent at this control socket, asked every interval_ns. */
Source *source_agent_new(const char *control, uint64_t interval_ns);

/* A look of one's own; `library` and `root` as in GlanceOptions. */
Source *source_alone_new(const char *library, const char *root, uint64_t interval_ns);

typedef struct ReplayOptions {
    uint64_t from_ns, to_ns; /* wall clock; 0: from its beginning, to its end */
    double speed;
    bool paused, at_end; /* begin at its end */
} ReplayOptions;

/* A recording, plain or packed with gzip. What is wrong with the file is told by source_state. */
Source *source_file_new(const char *path, const ReplayOptions *options);

/* The agent's minutes of what was. `incidents` (of that time, any state) are taken over. */
Source *source_store_new(const char *control, const ReplayOptions *options, IncidentList *incidents);

/* Begins its work. `recorder` (NULL: none) is given every look that comes; borrowed until source_free. */
void source_start(Source *source, Recorder *recorder);
/* Ends it. False: it hangs in a call and was left behind with all that it uses, for a process that is about to end.
 * Accepts NULL. */
bool source_free(Source *source);

/* Readable when there is something new: a look, a state, the past. */
int source_fd(const Source *source);
/* The newest look, swapped against the one that the caller held; false: none since the last time. */
bool source_take(Source *source, Parcel **parcel);
void source_state(Source *source, SourceState *ret);

/* Asks for the past of a series. */
void source_want(Source *source, const Device *device, MetricId metric);
/* Puts what came of the past into the history; whether anything did. */
bool source_fill(Source *source, TopHistory *history);
/* Whether all of the past that was asked for has come. */
bool source_filled(Source *source);

/* Of a replay. */
void source_pause(Source *source, bool paused);
void source_speed(Source *source, double speed);
void source_seek(Source *source, double seconds);
