/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker status`: a snapshot on one screen, for a person who has five seconds. First whether all is healthy, or what
 * has a problem; then the open incidents with what to do; then each GPU with what it does. Decides nothing. Pure, one
 * thread.
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
/* One line, ended by a newline: the node, and whether all is healthy, or the worst problem and what to do. */
void status_brief(const Snapshot *seen, Str *out);
/* status_json.c: the same as JSON: {"status":"ok"|"failing"|"unknown","incidents":[...],"causes":[...],
 * "maintenance":[...],"pods_told":...,"boot_id":...,"boot":...,"node":...}, ended by a newline. */
void status_json(const Snapshot *seen, Str *out);
/* Of it the open incidents, and the devices as api_devices: what `stoker kubelet` goes by. */
void status_devices_json(const Snapshot *seen, bool time, Str *out);

/* Exit code of the verb: 0 all healthy, 1 an open incident of WARNING or worse, 3 unknown (nothing was sampled, or a
 * GPU gives no data and no incident explains it yet). */
int status_code(const Snapshot *seen);

/* One window as a JSON object: id, reason, who, from, until, active, recurring, gpus ("all" or a list of indexes). */
void maintenance_window_json(const MaintenanceWindow *window, Str *out);

/* --- names.c: words that the screens of `stoker status` and `stoker top` share ------------------------------------ */

enum { STATUS_NAME_CAP = 96 };

/* What an incident is about: "GPU 3", "node", "fabric", "switch 0000:05:00.0". Returns out. */
const char *status_name_place(const Incident *incident, char out[STATUS_NAME_CAP]);
/* The places of the problems among incidents, with the program where one caused it ("a program on GPU 3"), each once,
 * at most STATUS_NAMES of them. */
enum { STATUS_NAMES = 6 };
typedef struct StatusNames {
    char at[STATUS_NAMES][STATUS_NAME_CAP];
    size_t len, all; /* all: with those beyond STATUS_NAMES */
} StatusNames;
StatusNames status_name_problems(const Incident *const *incidents, size_t count);
/* Whether it is about this GPU, its link or its instance. */
bool status_incident_on(const Incident *incident, const NodeGpu *gpu);
/* The worst problem of the GPU itself; SEVERITY_INFO: none. What a program did wrong is no fault of its GPU. */
FaultSeverity status_severity(const Incident *const *incidents, size_t count, const NodeGpu *gpu);
/* "of the node", "of GPU 1,2" */
void status_add_scope(const MaintenanceWindow *window, Str *out);
/* Bits of nvmlClocksEventReasons (nvml.h), those that take the most first. */
typedef struct ThrottleReason {
    unsigned bit;
    const char *brief, *word; /* brief: of at most 11 columns, "" where nothing is slowed down */
} ThrottleReason;
extern const ThrottleReason throttle_reasons[];
extern const size_t throttle_reason_count;
/* The brief word of the first reason of low clocks; "" none or unknown. */
const char *status_throttle(const Reading *reading);
/* What to do on a node without GPUs and driver, a laptop say; NULL: it has one. */
const char *status_no_driver(const Node *node);
/* "H100 80GB HBM3" without the maker. */
const char *status_model(const Device *device);
