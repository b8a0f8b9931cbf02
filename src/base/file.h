/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and trees. Every read has a cap named by its caller. Blocks: not for the loop where the path may lie on
 * a network file system. Any thread. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* Appends the file's content, at most `max` bytes, to an initialised Str whose ceiling may be lower still. Reads to
 * the end, whatever size stat tells, so /proc and /sys work. -errno; -EFBIG where the file is larger; out is then
 * as before. */
int file_read(const char *path, size_t max, Str *out, Err *err);

/* Replaces the content of `path` in one step: a file beside it is written, synced and renamed over it, and the
 * directory synced. On an error the old content stays and nothing is left beside it. -errno; -EINVAL where it is a
 * device or a pipe, such as /dev/null. */
int file_write(const char *path, const void *data, size_t len, mode_t mode, Err *err);

/* Removes a unix socket that nobody listens on; fine where there is nothing. -EADDRINUSE where somebody does, -EEXIST
 * where it is no socket. */
int file_remove_socket(const char *path, Err *err);

/* Writes `len` bytes to a descriptor, in as many calls as it takes. -1 and errno. May be called by a signal handler. */
int file_write_all(int fd, const void *data, size_t len);

/* Creates a directory and those above it that are missing. Fine if it exists. -ENOTDIR where a part is a file. */
int file_make_dirs(const char *path, mode_t mode, Err *err);

/* Removes the tree `path`, relative to directory `root`; fine if it is not there. Refuses (-EINVAL) an absolute,
 * empty or "." path and any ".."; symbolic links are removed, never followed, and a link on the way to `path` is
 * refused (-ELOOP or -ENOTDIR). Does not cross into another file system (-EXDEV). Trees deeper than
 * FILE_DEPTH_MAX are refused (-E2BIG). */
enum { FILE_DEPTH_MAX = 64 };
int file_remove_tree(const char *root, const char *path, Err *err);
