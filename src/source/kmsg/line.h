/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads lines of the kernel log and of the fabric manager. All forms that drivers since R450 print are read, with
 * MIG devices, pids that are not known and texts of any length; nothing in it is trusted. Pure, any thread; a
 * LineReader belongs to one, since some messages span several records.
 */

#include <stdbool.h>
#include <stddef.h>

#include "model/event.h"

/* A record of /dev/kmsg: "priority,sequence,usec,flags[,...];text", continuation lines (" KEY=value") behind it. */
typedef struct KmsgRecord {
    bool numbered;           /* it has a sequence, from 0 on; a plain line has none */
    uint64_t sequence, usec; /* since boot */
    const char *text;        /* not ended by a NUL; without the newline; escapes \xNN as they stand */
    size_t len;
} KmsgRecord;

/* -EBADMSG where it is none. */
int kmsg_record(const char *bytes, size_t len, KmsgRecord *ret);

typedef struct LineReader LineReader;
LineReader *line_reader_new(const char *const *patterns, size_t count); /* texts are copied */
void line_reader_free(LineReader *reader);

/* One line without its prefix (time, "kernel:"): true and an event where it says something of interest. Times, origin
 * and sequence are the caller's to fill. Detail lines (SXid "Severity ..." and "Data {...}", AER's "device [...]", the
 * second and third line of a message) give no event of their own. */
bool line_read(LineReader *reader, const char *text, size_t len, Event *ret_event);

/* One line of the fabric manager's log, with its prefix "[Jul 23 2024 07:53:55] [ERROR] [tid 841] ...". *ret_real_ns:
 * its time, 0 where it has none (the manager writes local time and does not say which: this process's zone is taken).
 */
bool line_read_fabric(const char *text, size_t len, Event *ret_event, uint64_t *ret_real_ns);
