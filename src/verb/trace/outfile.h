/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file that appears under its name only when it is complete: it is written without a name (or beside, if the file
 * system cannot do that) and gets the name at the end. An interrupted run leaves nothing behind. Anything but a
 * regular file (/dev/null, a pipe) is written directly, "-" is standard output. One thread. */

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

typedef struct OutFile OutFile;

/* Packed where the path ends in ".gz". The directory must exist. -errno. */
int outfile_open(const char *path, OutFile **ret, Err *err);
int outfile_write(void *out, const char *bytes, size_t len, Err *err);

/* Gives it its name; the OutFile is gone afterwards, as after outfile_drop, which leaves nothing. */
int outfile_commit(OutFile *out, Err *err);
void outfile_drop(OutFile *out); /* accepts NULL */
CLEANUP_POINTER(OutFile, outfile_drop);
