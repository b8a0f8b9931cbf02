/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file that appears under its name only when it is complete: it is written without a name (or beside, if the file
 * system cannot do that) and gets the name at the end. An interrupted run leaves nothing behind. Anything but a
 * regular file (/dev/null, a pipe) is written directly, "-" is standard output. One thread. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct OutFile OutFile;

/* `gzip`: packed. The directory must exist. -errno. */
int outfile_open(const char *path, bool gzip, OutFile **ret, Err *err);
int outfile_write(OutFile *out, const void *bytes, size_t len, Err *err);

/* Gives it its name; the OutFile is gone afterwards, as after outfile_drop, which leaves nothing. */
int outfile_commit(OutFile *out, Err *err);
void outfile_drop(OutFile *out); /* accepts NULL */

/* Whether the name of a path asks for gzip: it ends in ".gz". */
bool outfile_wants_gzip(const char *path);
