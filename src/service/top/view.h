/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The views and overlays of `stoker top` as tables: one file and one row each. A view draws into an area below the head
 * and above the foot; an overlay lies over it and gets the keys first.
 */

#include "service/top/inside.h"

typedef struct View {
    const char *name, *title, *brief; /* for options; of its tab; the same where there is little room */
    const char *about;                /* for the help */
    List *(*list)(Top *top);          /* what the arrows move, NULL nothing */
    void (*moved)(Top *top);          /* the cursor has another place: remember what it is on; NULL nothing to do */
    bool (*row_has)(const Top *top, size_t row, const char *word); /* search; NULL cannot be searched */
    void (*enter)(Top *top);                                       /* drills down; NULL nothing to open */
    void (*draw)(Top *top, Grid *grid, Area area);
} View;

extern const View top_views[VIEW_END];
/* To another view, which Escape leaves again. */
void top_go(Top *top, ViewId view);
void top_follow(Top *top, const Device *device);

typedef struct Overlay {
    void (*draw)(Top *top, Grid *grid, Area area); /* within a frame that is drawn already */
    TopWish (*key)(Top *top, uint32_t key);        /* every key but Escape, which closes it */
    const char *title;
    int width, height; /* wanted inside; 0: all there is */
} Overlay;

extern const Overlay top_overlays[OVERLAY_END];
void top_open(Top *top, OverlayId overlay);

void view_gpus_draw(Top *top, Grid *grid, Area area);
void view_gpu_draw(Top *top, Grid *grid, Area area);
void view_processes_draw(Top *top, Grid *grid, Area area);
void view_incidents_draw(Top *top, Grid *grid, Area area);
void view_topology_draw(Top *top, Grid *grid, Area area);

void overlay_help_draw(Top *top, Grid *grid, Area area);
void overlay_setup_draw(Top *top, Grid *grid, Area area);
TopWish overlay_setup_key(Top *top, uint32_t key);
void overlay_sort_draw(Top *top, Grid *grid, Area area);
TopWish overlay_sort_key(Top *top, uint32_t key);
void overlay_signal_draw(Top *top, Grid *grid, Area area);
TopWish overlay_signal_key(Top *top, uint32_t key);
/* Opens the dialog for the process under the cursor, or says why not. */
void overlay_signal_open(Top *top);
void overlay_process_draw(Top *top, Grid *grid, Area area);
void overlay_incident_draw(Top *top, Grid *grid, Area area);
TopWish overlay_scroll_key(Top *top, uint32_t key);

/* Keys as a table: dispatch, the foot and the help come from the same rows. */
typedef struct KeyRow {
    uint32_t keys[4];  /* 0 ends */
    const char *label; /* as the help names them */
    const char *foot;  /* its word in the foot, NULL: not there */
    unsigned views;    /* bit per ViewId */
    TopWish (*run)(Top *top, uint32_t key);
    const char *help;
} KeyRow;

extern const KeyRow top_keys[];
extern const size_t top_key_count;
TopWish keys_run(Top *top, uint32_t key);
/* Of an open prompt. */
TopWish prompt_key(Top *top, uint32_t key);
