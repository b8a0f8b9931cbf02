/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernel's messages of this boot from systemd's journal: journalctl as a child that follows. Not for others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

typedef struct KmsgJournal KmsgJournal;

/* `usec`: microseconds since boot, 0 unknown; `old`: from before the child was started. */
typedef void (*KmsgJournalLine)(void *self, const char *text, size_t len, uint64_t usec, uint64_t real_ns, bool old);
/* It works (and has given what was there: `caught`), or has ended and why. */
typedef void (*KmsgJournalState)(void *self, bool works, bool caught, const char *why);

/* Never NULL: errors are reported through `state`, from the loop. */
KmsgJournal *kmsg_journal_open(uv_loop_t *loop, const char *program, KmsgJournalLine line, KmsgJournalState state,
                               void *self);
void kmsg_journal_close(KmsgJournal *journal); /* accepts NULL */
