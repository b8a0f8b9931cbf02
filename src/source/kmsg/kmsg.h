/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel log as events: /dev/kmsg from what it still holds of this boot, then as it comes; systemd's journal where
 * it is denied (journalctl as a child: current boot, then following); and the fabric manager's file. Lines become
 * events by line.h. Never blocks the loop. One thread.
 */

#include <uv.h>

#include "base/clock.h"
#include "model/event.h"
#include "model/facts.h"

typedef struct KmsgConfig {
    const char *kmsg; /* "/dev/kmsg", or a file that another program writes in its format (followed as it grows) */
    const char *journalctl; /* program to ask where kmsg is denied; "" none */
    const char *fabric_log; /* "/var/log/fabricmanager.log"; "" none. Followed over rotation; need not be there yet */
    const char *root;       /* stands before /proc and /sys, "" */
    const char *const *patterns; /* further texts (of rules `contains`) for which EVENT_LINE is given */
    size_t pattern_count;
    /* Where reading goes on: records of this boot before `next` were processed by an agent before. They are not given
     * again. boot_id "" or another one: all that the log holds is given, marked `before`. */
    LogPosition position;
    const Clock *clock; /* the agent's; borrowed */
} KmsgConfig;

typedef struct Kmsg Kmsg;

/* An event; `event` is valid for the call. Events of what the log held already come first, from the loop's first turns,
 * with `before` set, in order. */
typedef void (*KmsgEvent)(void *self, const Event *event);

/* A log that is denied or missing is no error: it is in kmsg_state, and tried again every few seconds. */
Kmsg *kmsg_open(uv_loop_t *loop, const KmsgConfig *config, KmsgEvent give, void *self);
/* Reads what the kernel log and the fabric manager's file hold now, without waiting for the loop; systemd's journal
 * comes with the loop alone. Not from within `give`. Accepts NULL. */
void kmsg_look(Kmsg *kmsg);
void kmsg_close(Kmsg *kmsg); /* frees when the loop has closed its handles; accepts NULL */

typedef struct KmsgState {
    FactsLog log;
    char why[FACTS_WHY_CAP];
    LogPosition position;    /* `next` is of the device's records or of systemd's journal */
    uint64_t lost;           /* records overwritten before they could be read, since start */
    uint64_t records, lines; /* read; that became events */
    bool caught_up;          /* what the log held at the start has been given */
    bool fabric_log;
} KmsgState;
void kmsg_state(const Kmsg *kmsg, KmsgState *ret);
