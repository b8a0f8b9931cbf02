/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A recording to be read: its looks by their times. A packed one is unpacked into a file without a name, as is what
 * comes through a pipe. Lines that are no looks are counted and left out, and so is what a damaged end holds. Blocks;
 * one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct Recording Recording;

/* Reads all of it once. `stop` is looked at now and then (-ECANCELED); may be NULL. -ENODATA where it has no look. */
int recording_open(const char *path, bool (*stop)(void *self), void *self, Recording **ret, Err *err);
void recording_close(Recording *recording); /* accepts NULL */

size_t recording_count(const Recording *recording);
uint64_t recording_time(const Recording *recording, size_t i); /* in ascending order */
/* The last look that is not after real_ns; the first one where all are. */
size_t recording_find(const Recording *recording, uint64_t real_ns);
/* Its line, without a newline, in place of what `out` held. */
int recording_line(const Recording *recording, size_t i, Str *out, Err *err);
/* What was not right with the file, "" nothing. */
const char *recording_damage(const Recording *recording);

/* The time of a look from its line; false: it is none. */
bool recording_time_of(const char *line, size_t len, uint64_t *ret_real_ns);
