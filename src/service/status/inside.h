/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Among the files of the status screen alone: the screen under way. */

#include "service/status/status.h"

/* How much of the node's table is shown. */
typedef enum StatusTable {
    STATUS_TABLE_ALL,
    STATUS_TABLE_GPUS,   /* MIG devices are counted behind their GPU */
    STATUS_TABLE_FAULTY, /* GPUs that something is wrong with; the others are one line */
    STATUS_TABLE_NONE,   /* one line */
} StatusTable;

typedef struct StatusScreen {
    const Snapshot *seen;
    const Node *node;
    const StatusStyle *style;
    Str *out;
} StatusScreen;

size_t status_width(const StatusScreen *s);
/* An SGR code, where colours are wanted. */
void status_colour(const StatusScreen *s, const char *code);
/* Ends the line that began at byte `start`: cut to the screen, no blanks at its end. */
void status_end_line(const StatusScreen *s, size_t start);

/* Whether an open incident is about the GPU itself, and the worst severity of these. What a program did
 * wrong is no fault of its GPU. */
bool status_faulty(const StatusScreen *s, const NodeGpu *gpu, FaultSeverity *ret_severity);
/* Of an incident about a GPU, its link or its instance: whether it is this one. */
bool status_on_gpu(const Incident *incident, const NodeGpu *gpu);
/* SGR codes, the mildest severity first. */
extern const char *const status_severity_colours[SEVERITY_END];

/* A GPU of which is not known how it is: it gives no data and was not taken out by an operator; NULL: none. */
const NodeGpu *status_unknown_gpu(const Node *node);

void status_table(const StatusScreen *s, StatusTable how);
