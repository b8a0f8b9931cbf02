/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker status`: the node on one screen, for a person who has five seconds. Each GPU with what it does; then what is
 * wrong, with what, since when. Pure: a Node in, text out. One thread.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "model/node.h"
#include "model/owner.h"
#include "service/api/api.h"

typedef struct StatusStyle {
    size_t width; /* columns of the screen; at least 40 are used */
    bool colour;  /* ANSI colours */
} StatusStyle;

/* Things that are wrong: the causes of `health` but those of a start, then what the readings of GPUs that are up say
 * (rows to be remapped, failed remapping, clocks held down by heat or the power brake, an action that the driver asks
 * for). Returns how many. */
typedef struct StatusFinding {
    const NodeGpu *gpu; /* NULL: the node */
    char text[HEALTH_TEXT_CAP + 32];
} StatusFinding;
size_t status_findings(const Node *node, const Health *health, StatusFinding *out, size_t cap);

/* The screen. */
void status_text(const Node *node, const Health *health, const OwnerTable *owners, const StatusStyle *style, Str *out);
/* The same as JSON: {"status":"ok"|"failing"|"unknown","findings":[...],"node":...}, ended by a newline. */
void status_json(const Node *node, const Health *health, Str *out);

/* 0 nothing wrong, 1 something is, 3 could not tell (nothing was sampled): exit codes of the verb. */
int status_code(const Node *node, const Health *health);
