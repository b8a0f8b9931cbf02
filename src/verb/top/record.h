/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A recording: one look per line, as `stoker status --json` prints it, behind a line that says what it is. With a name
 * that ends in .gz every line is a gzip member of its own. After each line the file is whole, whatever ends the
 * program; what could not be written whole is cut off again.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Recorder Recorder;

/* A file that is there already is not written over (-EEXIST); what is no regular file is written to. */
int recorder_open(const char *path, uint64_t interval_ns, Recorder **ret, Err *err);
/* A line, with or without its newline. After an error nothing more can be written. */
int recorder_write(Recorder *recorder, const char *line, size_t len, Err *err);
uint64_t recorder_looks(const Recorder *recorder);
uint64_t recorder_bytes(const Recorder *recorder);
/* -errno where the last bytes could not be brought to the disk. Accepts NULL. */
int recorder_close(Recorder *recorder, Err *err);
