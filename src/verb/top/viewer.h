/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What lies between a source and the screen: takes looks, keeps the past, does what the person at the keys wishes.
 * Knows no terminal. One thread; nothing here blocks.
 */

#include "service/top/top.h"
#include "verb/top/commands.h"
#include "verb/top/source.h"

typedef struct ViewerOptions {
    TopOptions top;
    uint64_t interval_ns; /* of live looks */
    const char *root;     /* where /proc of the node's processes is; NULL: / */
} ViewerOptions;

typedef struct Viewer {
    Source *source;
    Top *top;
    TopHistory *history;
    Commands *commands;
    Parcel *shown, *spare; /* shown: what the screen was drawn from, until the next is seen */
    SourceState state;
    TopSeen seen;
    uint64_t interval_ns;
    bool frozen; /* live looks are not shown, but their past is kept */
    bool told_record;
    char line[SOURCE_TEXT_CAP]; /* the trouble that is shown */
} Viewer;

/* -EINVAL where an option of the screen names nothing. The source is taken over: it is freed with the viewer, or here.
 */
int viewer_init(Viewer *viewer, Source *source, const ViewerOptions *options, Err *err);
/* False: something that hangs was left behind, with what it uses. */
bool viewer_done(Viewer *viewer);

/* Takes what the source has. Whether the screen has to be drawn. */
bool viewer_news(Viewer *viewer);
/* Draws, and asks for the past of what is drawn. */
void viewer_draw(Viewer *viewer, Grid *grid);

typedef enum ViewerDo { VIEWER_GO_ON, VIEWER_REDRAW, VIEWER_QUIT } ViewerDo;
ViewerDo viewer_wish(Viewer *viewer, TopWish wish);
/* Whether the age of what is shown has to be drawn anew now and then. */
bool viewer_is_stale(const Viewer *viewer);
bool viewer_has_look(const Viewer *viewer);
