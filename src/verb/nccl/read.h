/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files, folders, stdin and what gzip packed, into a NcclJob. */

#include "base/err.h"
#include "engine/nccl/nccl.h"
#include "verb/trace/progress.h"

/* Bytes of a file or of the files of a folder, 0 where that is not known (stdin). */
uint64_t nccl_read_bytes(const char *path);

/* Reads `path` ("-": stdin; a folder: the files in it, by name, not those in folders below) to its end. A file that
 * is damaged on the way is an input with trouble, not an error; one that cannot be opened is one: -errno.
 * `progress` is drawn between two pieces. */
int nccl_read(NcclJob *job, const char *path, Progress *progress, Err *err);
