/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session of `stoker top`: takes snapshots from a feed, keeps their past, draws them and does what keys ask for; on a
 * terminal, or as one screen for a pipe. And what needs no screen: one snapshot as JSON, a recording. One thread;
 * nothing here blocks on a feed without a deadline.
 */

#include "service/top/top.h"
#include "verb/top/feed.h"
#include "verb/top/processes.h"
#include "verb/top/terminal.h"

typedef struct SessionOptions {
    TopOptions top;
    uint64_t interval_ns; /* of live snapshots */
    const char *root;     /* where /proc of the node's processes is; NULL: / */
} SessionOptions;

typedef struct Session {
    Feed *feed;
    Top *top;
    History *history;
    CommandLines *commands;
    SnapshotBuffer *shown, *spare; /* shown: what the screen was drawn from, until the next one is shown */
    FeedState state;               /* as it is shown: with the trouble of a feed that is silent */
    uint64_t interval_ns;
    bool frozen; /* live snapshots are not shown; their past is kept */
    bool record_trouble_told, over, redraw;
} Session;

/* -EINVAL where an option of the screen names nothing. Takes over the feed: it is freed with the session, or here. */
int session_init(Session *session, Feed *feed, const SessionOptions *options, Err *err);
/* False: something that hangs was left behind, with what it uses. */
bool session_done(Session *session);

/* Runs on the terminal until the person quits, a signal comes (*ret_signal, else 0), for_ns have passed (0: no end) or
 * the feed failed without a snapshot. -errno where there is no terminal. */
int session_run(Session *session, const TerminalOptions *terminal, uint64_t for_ns, int *ret_signal, Err *err);

typedef struct ScreenOptions {
    int width, height;
    bool utf8, coloured;
    const uint32_t *keys; /* pressed one after the other before the screen is printed */
    size_t key_count;
} ScreenOptions;

/* One screen to `out`. -ETIMEDOUT where no snapshot came, with what is known of why; -EIO where none ever will. */
int session_print(Session *session, const ScreenOptions *options, Str *out, Err *err);

/* One snapshot as JSON to `out`, with the exit code of `stoker status`. Errors as session_print. */
int session_print_json(Feed *feed, Str *out, int *ret_code, Err *err);
/* Waits while the feed records: for_ns (0 without end), or until SIGINT, SIGTERM or SIGHUP. -EIO where the recording
 * could not go on. */
int session_record(Feed *feed, uint64_t for_ns, Err *err);
