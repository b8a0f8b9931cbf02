/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A feed of snapshots: from the agent, from a node without an agent, from a recording or from the agent's history. Each
 * works in a thread of its own, because each may block; nothing here blocks the thread that draws. That thread alone
 * calls the functions of the first part; the second part is for the files that implement a kind.
 */

#include <uv.h>

#include "base/str.h"
#include "service/api/snapshot_read.h"
#include "service/top/history.h"
#include "service/top/top.h"
#include "verb/top/recording.h"

typedef struct Feed Feed;

/* The agent at this control socket, asked every interval_ns. */
Feed *feed_agent_new(const char *control, uint64_t interval_ns);
/* This node without an agent; `library` and `root` as in local_node_new. */
Feed *feed_local_new(const char *library, const char *root, uint64_t interval_ns);

typedef struct ReplayOptions {
    uint64_t from_ns, to_ns; /* wall clock; 0: from its beginning, to its end */
    double speed;
    bool paused, at_end; /* at_end: begin at its end */
} ReplayOptions;

/* A recording, plain or gzip. feed_state tells what is wrong with the file. */
Feed *feed_recording_new(const char *path, const ReplayOptions *options);
/* The agent's minutes. Takes over `incidents` (of that time, in any state). */
Feed *feed_history_new(const char *control, const ReplayOptions *options, IncidentList *incidents);

/* Starts the thread. `recorder` (NULL: none) gets every snapshot; borrowed until feed_free. */
void feed_start(Feed *feed, Recorder *recorder);
/* Ends it. False: it hangs in a call and was left behind with all that it uses; the process is about to end. Accepts
 * NULL. */
bool feed_free(Feed *feed);

/* Swaps the newest snapshot against the caller's buffer; false: none came since the last call, or a live feed is
 * paused. */
bool feed_take(Feed *feed, SnapshotBuffer **buffer);
void feed_state(Feed *feed, FeedState *ret);
/* Wakes the feed, as is needed after new series were asked for. Pauses it or goes on; of a replay TOP_WISH_SEEK by
 * seconds, TOP_WISH_SPEED by a factor. */
void feed_steer(Feed *feed, TopWish wish, double amount);

/* --- the instant that a replay shows: pure, time is an argument --------------------------------------------------- */

enum { PLAY_SPEED_MAX = 10000 };

void play_begin(Play *play, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns, uint64_t now_ns);
/* Moves on to now_ns; returns what is shown then, within from..to. */
uint64_t play_advance(Play *play, uint64_t now_ns);
void play_pause(Play *play, bool paused, uint64_t now_ns);
void play_set_speed(Play *play, double speed, uint64_t now_ns);
void play_seek(Play *play, double seconds, uint64_t now_ns);
/* When (monotonic) `real_ns` will be shown: 0 now, UINT64_MAX never as things are. */
uint64_t play_due(const Play *play, uint64_t real_ns);

/* --- for the kinds ------------------------------------------------------------------------------------------------ */

enum { FEED_ASK_MS = 3000, FEED_FRAME_MS = 100 };

typedef struct FeedOps {
    /* Does one thing; may block until its own deadline. Returns when (monotonic) to call it next: 0 at once, UINT64_MAX
     * when woken. */
    uint64_t (*work)(Feed *feed);
    void (*end)(Feed *feed);  /* the last call in the thread; NULL: none */
    void (*free)(Feed *feed); /* what the kind added, after the thread has ended; NULL: nothing */
} FeedOps;

/* No lock is held while something blocks. */
struct Feed {
    const FeedOps *ops;
    char *control; /* the agent's, NULL: it is not asked */
    Recorder *recorder;
    History *history; /* the past of what is plotted, which the feed fills in; locks itself */
    uv_thread_t thread;
    bool started;
    int fd; /* readable when there is something new: a snapshot, a state, the past of a series */
    uv_mutex_t lock;
    uv_cond_t woken; /* of both threads */
    /* under the lock */
    bool stopping, ended, wake;
    FeedState state;
    uint64_t last_ns;      /* monotonic, of the last snapshot */
    SnapshotBuffer *fresh; /* not taken yet, where fresh_there */
    bool fresh_there;
    /* the thread's own */
    SnapshotBuffer *mine;
    Str line; /* room for an answer */
};

typedef enum FeedText {
    FEED_WHERE,          /* where snapshots come from */
    FEED_TROUBLE,        /* why there is no newer one */
    FEED_FAILED,         /* the same, and there will never be one */
    FEED_RECORD_TROUBLE, /* why recording stopped */
} FeedText;

/* `size` bytes that begin with a Feed. */
void *feed_new(size_t size, const FeedOps *ops, FeedKind kind, const char *control);
void feed_set_text(Feed *feed, FeedText what, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Reads the JSON in feed->line into a snapshot, adds it to the history and gives it out; what is wrong with it becomes
 * the trouble. Whether that emptied the history: a replay that jumped wants its past again. */
bool feed_give_json(Feed *feed, bool record);
/* Gives out feed->mine as it is. */
void feed_give(Feed *feed);
/* Tells the drawing thread that there is something new. */
void feed_signal(const Feed *feed);
/* Begins a replay of from_ns..to_ns. */
void feed_begin_play(Feed *feed, uint64_t from_ns, uint64_t to_ns, bool at_end, uint64_t pace_ns);
/* The instant that a replay shows now. */
uint64_t feed_play(Feed *feed, Play *ret_play);

/* Asks the agent for what `stoker status --json` prints, into feed->line. -errno; -EPROTO where it answers otherwise.
 */
int feed_ask_status(Feed *feed, Err *err);

/* Asks the agent for the past of a series, of a `resolution` ("minute", "second") and a span as
 * /api/v1/gpus/ID/history takes them, in place of what `points` held; none where no answer comes. */
void feed_ask_history(Feed *feed, const HistoryWant *series, const char *resolution, const char *span, int timeout_ms,
                      HistoryPoints *points);
