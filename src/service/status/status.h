/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker status`: the node on one screen, for a person who has five seconds. First whether anything is wrong and with
 * what; then the open incidents with what to do, and what is wrong and is in no incident; then each GPU with what it
 * does. Pure: a Node in, text out. One thread.
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

enum { STATUS_COVERED_MAX = 8 };

/* Things that are wrong: the causes of `health` but those of a start, then what the readings of GPUs that are up say
 * (rows to be remapped, failed remapping, clocks held down by heat or the power brake, an action that the driver asks
 * for). */
typedef struct StatusFinding {
    const NodeGpu *gpu; /* NULL: the node */
    FaultSeverity severity;
    const char *classes[STATUS_COVERED_MAX + 1]; /* incidents of these tell it better, NULL-ended; the first is what it
                     would be. None: nothing does */
    char text[HEALTH_TEXT_CAP + 32];
} StatusFinding;

/* Those that no open incident covers; returns how many, at most `cap`. */
size_t status_findings(const Snapshot *seen, StatusFinding *out, size_t cap);

/* The screen. */
void status_text(const Snapshot *seen, const StatusStyle *style, Str *out);
/* The same as JSON: {"status":"ok"|"failing"|"unknown","incidents":[...],"findings":[...],"causes":[...],
 * "maintenance":[...],"boot_id":...,"boot":...,"node":...}, ended by a newline. */
void status_json(const Snapshot *seen, Str *out);

/* 0 nothing wrong, 1 something is (a finding, or an open incident of WARNING or worse), 3 could not tell (nothing was
 * sampled): exit codes of the verb. */
int status_code(const Snapshot *seen);

/* One window as a JSON object: id, reason, who, from, until, active, recurring, gpus ("all" or a list of indexes). */
void maintenance_window_json(const MaintenanceWindow *window, Str *out);
