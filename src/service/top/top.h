/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker top` without its terminal: views, sorting, filters, keys and mouse, drawn into a grid. Pure: snapshots, keys
 * and time in; a screen and wishes (quit, signal a process, pause) out. Views are rows of a table (view.h): adding one
 * is one file and one row. One thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include "base/vec.h"
#include "service/screen/grid.h"
#include "service/top/history.h"
#include "service/status/status.h"

typedef struct Top Top;

typedef enum FeedKind { FEED_AGENT, FEED_LOCAL, FEED_RECORDING, FEED_HISTORY } FeedKind;

enum { FEED_TEXT_CAP = 320 };

/* The span of a replay and the instant that it shows; live all but paused and speed are 0. */
typedef struct Play {
    uint64_t from_ns, to_ns; /* what can be shown, wall clock */
    uint64_t at_ns;          /* what is shown as of last_ns */
    uint64_t last_ns;        /* monotonic */
    double speed;            /* above 0 */
    bool paused;
} Play;

/* Where snapshots come from, and whether the last one is current. */
typedef struct FeedState {
    FeedKind kind;
    char where[FEED_TEXT_CAP];          /* "agent on node-7", the file's name, ... */
    char trouble[FEED_TEXT_CAP];        /* why there is no newer snapshot, "" where there is: the last one is stale */
    uint64_t age_ns;                    /* since the last snapshot came, 0 where none did */
    uint64_t snapshots;                 /* that came */
    uint64_t pace_ns;                   /* between two snapshots, 0: not known */
    bool failed;                        /* there will never be one; `trouble` says why */
    char record_trouble[FEED_TEXT_CAP]; /* why recording stopped, "" where it did not */
    Play play;
} FeedState;

/* Keys: characters are themselves (Unicode), others from here on. */
typedef enum TopKey {
    TOP_KEY_UP = 0x110000,
    TOP_KEY_DOWN,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ENTER,
    TOP_KEY_ESCAPE,
    TOP_KEY_BACKSPACE,
    TOP_KEY_TAB,
    TOP_KEY_BACK_TAB,
    TOP_KEY_F1, /* F1..F12 follow each other */
    TOP_KEY_F12 = TOP_KEY_F1 + 11,
} TopKey;

typedef VEC(uint32_t) KeyList;
/* Keys by their names, for scripts and tests, with blanks between: a single character is itself, "space" a blank,
 * others are names (any case). -EINVAL names the word and lists the names. */
int keys_parse(const char *text, KeyList *ret, Err *err);

typedef enum TopMouse { TOP_MOUSE_CLICK, TOP_MOUSE_UP, TOP_MOUSE_DOWN } TopMouse;

/* What the caller has to do after a key. */
typedef enum TopWish {
    TOP_WISH_NONE,
    TOP_WISH_QUIT,
    TOP_WISH_SIGNAL, /* top_signal() says what to whom; confirmed by the person */
    TOP_WISH_PAUSE,  /* or continue: a replay or live snapshots */
    TOP_WISH_SEEK,   /* top_amount() says by how many seconds, of a replay */
    TOP_WISH_SPEED,  /* top_amount(): factor */
} TopWish;

/* What is kept from one run to the next. */
typedef struct TopSettings {
    int theme, span;             /* Theme; number of a span of the plots */
    const char *sort;            /* a column of the processes */
    bool group, dots, processes; /* processes by job; plots of dots; processes below the GPUs */
    OptList plots;               /* their titles */
} TopSettings;
extern const TopSettings top_settings_usual;

typedef struct TopOptions {
    const char *view;            /* a view's name, NULL: the first */
    const char *gpu;             /* follow this one: index, UUID or PCI address; NULL none */
    const char *sort;            /* a column of the processes, NULL: that of the settings */
    const char *theme;           /* the same */
    const char *filter;          /* NULL none */
    const TopSettings *settings; /* NULL: the usual ones */
    bool read_only;              /* no signals to processes */
} TopOptions;

/* Settings of a file; what it does not name is as usual. -ENOENT: there is none; -EINVAL names what is wrong. Texts lie
 * in the arena. */
int top_settings_read(const char *path, Arena *arena, TopSettings *ret, Err *err);
/* The settings in force, as such a file. */
void top_settings_write(const Top *top, Str *out);
/* The theme that is shown. */
Theme top_theme(const Top *top);

/* -EINVAL lists the choices if an option names an unknown one. `history` is borrowed, NULL where there is none. */
int top_new(const TopOptions *options, History *history, Top **ret, Err *err);
void top_free(Top *top); /* accepts NULL */

/* Shows a new snapshot. What was selected stays selected by what it is (GPU, pid, incident), not by its place. Both are
 * borrowed until the next call returns. */
void top_see(Top *top, const Snapshot *snapshot, const FeedState *feed);
TopWish top_key(Top *top, uint32_t key);
TopWish top_mouse(Top *top, TopMouse what, int x, int y);
void top_draw(Top *top, Grid *grid);

typedef struct TopSignal {
    pid_t pid;
    uint64_t start_ns; /* after boot, 0 unknown: the process that was seen must still be the one */
    int number;
    const char *name; /* "SIGTERM" */
} TopSignal;
TopSignal top_signal(const Top *top);
/* Of a seek or a speed. */
double top_amount(const Top *top);
/* Shows a line at the foot for a while. */
void top_say(Top *top, Ink ink, const char *text);
