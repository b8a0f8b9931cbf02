/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whose events are whose in a text that was merged of several ranks' ("[TP03] 1234" or "[rank3] 1234" as a process, or
 * "rank 3" as its name). */

#include "engine/trace/scan/inside.h"

enum { OWNER_NAME_MAX = 32 };

/* What stands in brackets in front of a process; NULL: nothing does. */
const char *owner_mark_of(const char *text, size_t len, size_t *ret_len);

/* "rank 3" of a process that is named "Rank 3 (host)", "[rank3] python", "RANK 3 - GPU". */
bool owner_of_name(const char *name, size_t len, char ret[OWNER_NAME_MAX]);

/* The number in a mark that has exactly one. */
bool owner_number(const char *mark, size_t len, int64_t *ret);

/* Keeps the text of a process that begins with '['. */
void owner_mark(TraceScan *scan, uint32_t name);

/* The owner of the event at hand, 0 nobody. Only with options.known. */
uint32_t owner_at(TraceScan *scan);

/* Behind all events. Where one owner is asked for, what speaks of the text alone stays with the first. */
void owner_settle(TraceScan *scan);
