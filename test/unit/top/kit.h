/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Looks to draw: read from a recording (what `stoker status --json` printed, a line each, gzipped), with a past of its
 * own making for the plots. */

#include "base/str.h"
#include "service/api/snapshot_read.h"
#include "service/top/top.h"

typedef struct Kit {
    Str text;
    size_t at; /* of the next look in text */
    SnapshotBuffer *look, *before;
    FeedState feed;
    History *history;
    Top *top;
    Grid grid;
} Kit;

enum { KIT_RECORDING_MAX = 64 << 20 };

/* A recording and the program on a screen of 100x30; fails loudly. `options` may be NULL. */
void kit_open(Kit *kit, const char *path, const TopOptions *options);
void kit_close(Kit *kit);
/* The next look of the recording, or the last one again; false at its end. */
bool kit_next(Kit *kit);
/* Shows the snapshot again, with kit->feed as it was changed. */
void kit_show(Kit *kit);
/* Fills what plots ask for with saw teeth below the present value. */
void kit_past(Kit *kit);
/* Draws, and fills what plots ask for; the screen as text. */
void kit_draw(Kit *kit, bool inks, Str *out);
/* "Down", "F5", "Enter", "Space", or a character; 0: no key. */
uint32_t kit_key(const char *name);
