/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker status`: a snapshot on one screen, for a person who has five seconds. First whether all is healthy, or what has
 * a problem; then the open incidents with what to do; then each GPU with what it does. Decides nothing. Pure, one thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "engine/health/maintenance.h"
#include "model/snapshot.h"
#include "service/api/api.h"

typedef struct StatusStyle {
    size_t width;  /* columns of the screen; at least 40 are used */
    size_t height; /* its lines: healthy GPUs and milder incidents are folded so that it need not scroll; 0: no end */
    bool colour, utf8; /* ANSI colours; characters beyond ASCII */
} StatusStyle;

/* The screen. */
void status_text(const Snapshot *seen, const StatusStyle *style, Str *out);
/* The same as JSON: {"status":"ok"|"failing"|"unknown","incidents":[...],"causes":[...],
 * "maintenance":[...],"boot_id":...,"boot":...,"node":...}, ended by a newline. */
void status_json(const Snapshot *seen, Str *out);

/* Exit code of the verb: 0 all healthy, 1 an open incident of WARNING or worse, 3 unknown (nothing was sampled, or a GPU
 * gives no data and no incident explains it yet). */
int status_code(const Snapshot *seen);

/* One window as a JSON object: id, reason, who, from, until, active, recurring, gpus ("all" or a list of indexes). */
void maintenance_window_json(const MaintenanceWindow *window, Str *out);
