/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health/xid_merge.h"

#include <string.h>

static bool is_past(uint64_t at_ns, uint64_t now_ns)
{
    return now_ns >= at_ns + XID_MERGE_NS;
}

static void remove_held(XidMerge *merge, size_t at)
{
    merge->held_count--;
    memmove(&merge->held[at], &merge->held[at + 1], (merge->held_count - at) * sizeof merge->held[0]);
}

/* Drops the event that has waited for this line. */
static bool drop_held(XidMerge *merge, const Event *line)
{
    for (size_t i = 0; i < merge->held_count; i++) {
        const Event *event = &merge->held[i].event;

        if (event->code == line->code && pci_compare(event->pci, line->pci) == 0) {
            remove_held(merge, i);
            return true;
        }
    }
    return false;
}

static void remove_old_lines(XidMerge *merge, uint64_t now_ns)
{
    for (size_t i = merge->line_count; i-- > 0;)
        if (merge->lines[i].count == 0 || is_past(merge->lines[i].at_ns, now_ns))
            merge->lines[i] = merge->lines[--merge->line_count];
}

static struct XidLine *find_line(XidMerge *merge, const Event *event)
{
    for (size_t i = 0; i < merge->line_count; i++)
        if (merge->lines[i].code == event->code && pci_compare(merge->lines[i].pci, event->pci) == 0)
            return &merge->lines[i];
    return NULL;
}

/* The line came first: its event is dropped when it comes. Without room the event will count as well. */
static void note_line(XidMerge *merge, const Event *event, uint64_t now_ns)
{
    struct XidLine *line = find_line(merge, event);

    if (!line) {
        if (merge->line_count == XID_MERGE_MAX)
            return;
        line = &merge->lines[merge->line_count++];
        *line = (struct XidLine){.pci = event->pci, .code = event->code};
    }
    line->count++;
    line->at_ns = now_ns;
}

bool xid_merge_add(XidMerge *merge, const Event *event, bool log_readable, uint64_t now_ns)
{
    struct XidLine *line;

    if (event->kind != EVENT_XID || event->before || !event->has_pci)
        return true;
    remove_old_lines(merge, now_ns);
    if (event->origin != EVENT_FROM_NVML) {
        if (!drop_held(merge, event))
            note_line(merge, event, now_ns);
        return true;
    }
    line = find_line(merge, event);
    if (line) {
        line->count--;
        return false;
    }
    if (!log_readable || merge->held_count == XID_MERGE_MAX)
        return true;
    merge->held[merge->held_count++] = (struct XidHeld){.at_ns = now_ns, .event = *event};
    return false;
}

bool xid_merge_next(XidMerge *merge, uint64_t now_ns, Event *ret_event)
{
    if (merge->held_count == 0 || !is_past(merge->held[0].at_ns, now_ns))
        return false;
    *ret_event = merge->held[0].event;
    remove_held(merge, 0);
    return true;
}

bool xid_merge_wait(const XidMerge *merge, uint64_t now_ns, uint64_t *ret_ns)
{
    if (merge->held_count == 0)
        return false;
    *ret_ns = is_past(merge->held[0].at_ns, now_ns) ? 0 : merge->held[0].at_ns + XID_MERGE_NS - now_ns;
    return true;
}
