/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A recording: one snapshot per line, as `stoker status --json` prints it, behind a line that says what it is. With a
 * name that ends in .gz every line is a gzip member of its own. Blocks; one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

typedef struct RecordingLine {
    uint64_t real_ns, at; /* at: its first byte in the text */
    uint32_t len;
} RecordingLine;

/*
 * A recording to be read: its snapshots by their times. A packed one is unpacked into a file without a name, and so is
 * what comes through a pipe. Lines that are no snapshots are counted and left out, and so is a damaged end.
 */
typedef struct Recording {
    int fd;                   /* its text */
    VEC(RecordingLine) lines; /* its snapshots in ascending order of time, at least one */
    uint64_t strange;         /* lines that are no snapshots */
    char damage[256];         /* what was not right with the file, "" nothing */
} Recording;

/* Reads all of it once. -ENODATA where it has no snapshot. */
int recording_open(const char *path, Recording **ret, Err *err);
void recording_close(Recording *recording); /* accepts NULL */

/* The last snapshot that is not after real_ns; the first one where all are. */
size_t recording_find(const Recording *recording, uint64_t real_ns);
/* Its line, without a newline, in place of what `out` held. */
int recording_line(const Recording *recording, size_t i, Str *out, Err *err);

/* The time of a snapshot from its line; false: it is none. */
bool recording_time_of(const char *line, size_t len, uint64_t *ret_real_ns);

/* Writes a recording. After each line the file is whole, whatever ends the program; a line that could not be written
 * whole is cut off again. */
typedef struct Recorder {
    char *path;
    int fd;
    bool gzip, regular, broken;
    uint64_t bytes, snapshots; /* that were written */
    Str packed;
} Recorder;

/* Does not overwrite a regular file (-EEXIST); writes to what is no regular file. */
int recorder_open(const char *path, uint64_t interval_ns, Recorder **ret, Err *err);
/* A line, with or without its newline. After an error nothing more can be written. */
int recorder_write(Recorder *recorder, const char *line, size_t len, Err *err);
/* -errno where the last bytes could not be brought to the disk. Accepts NULL. */
int recorder_close(Recorder *recorder, Err *err);
