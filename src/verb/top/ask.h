/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Questions to the agent's control socket. Each blocks until its deadline. Any thread. */

#include "base/str.h"
#include "model/device.h"
#include "service/api/history_read.h"

enum { ASK_METRICS_MAX = 12 };

/* What `stoker status --json` prints, into *out. -errno; -EPROTO where the agent says something else. */
int ask_status(const char *control, int timeout_ms, Str *out, Err *err);

typedef struct AskHistory {
    const char *control;
    const Device *device;
    bool minutes;
    const char *from, *to; /* as /api/v1/gpus/ID/history takes them */
    int timeout_ms;
} AskHistory;

/* Adds what the agent has of these metrics, at most ASK_METRICS_MAX; those that it keeps nothing of are left out, and
 * an answer that does not come adds nothing. `room` is written over. */
void ask_history(const AskHistory *ask, const MetricId *metrics, size_t count, Str *room, HistoryPoints *points);
