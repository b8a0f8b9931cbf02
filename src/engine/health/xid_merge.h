/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An XID reaches the agent twice: as an event of the driver's library and as a line of the kernel log, which says more
 * (process, unit, place). Where the log can be read, the event waits up to XID_MERGE_NS for its line; the line is used
 * and the event dropped. The event alone is used when no line comes in time.
 *
 * Times are those of arrival, on one clock of the caller. Pure, one thread.
 */

#include "model/event.h"

enum { XID_MERGE_MAX = 64 };
#define XID_MERGE_NS UINT64_C(2000000000)

typedef struct XidMerge {
    size_t held_count, line_count;
    struct XidHeld {
        uint64_t at_ns;
        Event event;
    } held[XID_MERGE_MAX]; /* events that wait for a line, oldest first */
    struct XidLine {
        PciAddress pci;
        int32_t code;
        uint32_t count; /* lines whose event has not come yet */
        uint64_t at_ns; /* of the last of them */
    } lines[XID_MERGE_MAX];
} XidMerge;

/* Whether the event is to be used now: any but an XID of the library that waits, or whose line was used already. */
bool xid_merge_add(XidMerge *merge, const Event *event, bool log_readable, uint64_t now_ns);
/* The oldest event whose time is up; false: there is none. */
bool xid_merge_next(XidMerge *merge, uint64_t now_ns, Event *ret_event);
/* How long until the oldest event's time is up; false: none waits. */
bool xid_merge_wait(const XidMerge *merge, uint64_t now_ns, uint64_t *ret_ns);
