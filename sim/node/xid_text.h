/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside sim/node: the driver's own words for each XID. */
#include <stdbool.h>

#include "base/str.h"
#include "sim/core/image.h"

/* What a line is made from. */
typedef struct XidLine {
    SimImage *image;
    const SimEvent *event;
    const SimBoard *board;
    uint32_t branch;  /* driver version, first number */
    uint64_t random;  /* the same for the same event */
    uint32_t channel; /* the same for all lines about one process on this GPU */
    uint64_t address; /* memory address that errors of one incident share */
    uint32_t before;  /* XID 154: the recovery action until then */
} XidLine;

/* The message of the event's XID, without pid and name, several lines separated by '\n'; false where this driver prints
 * nothing. *ret_channel: it belongs to a channel, so the driver names its process. */
bool xid_message(const XidLine *line, Str *out, bool *ret_channel);
