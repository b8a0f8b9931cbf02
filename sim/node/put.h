/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside sim/node: writing small files below one folder. A Put is a pen with a folder it stands in; the first failure
 * sticks: later calls do nothing, and put_end reports it. A file that exists is replaced in one step. One thread.
 */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/attribute.h"
#include "base/err.h"
#include "base/str.h"

enum { PUT_PATH_MAX = 512, PUT_FILE_MAX = 256 * 1024 };

typedef struct Put {
    const char *root; /* borrowed */
    int root_fd;      /* owned */
    int dir_fd;       /* the folder the pen stands in; owned, -1: none yet */
    char dir[PUT_PATH_MAX];
    bool fresh; /* no readers yet: new files are written in place */
    Str line;   /* scratch */
    int rc;
    Err *err;
} Put;

/* Opens `root`, which must exist. -errno. Call put_end in any case. */
int put_begin(Put *put, const char *root, Err *err);
/* The first failure or 0; releases. */
int put_end(Put *put);

/* Moves the pen to this folder below root, making it and those above it. */
void put_in(Put *put, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Files of the folder: exactly this text; this text and a newline; these bytes. */
void put_text(Put *put, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
void put_line(Put *put, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
void put_bytes(Put *put, const char *name, const void *data, size_t len, mode_t mode);

/* Rewrites a file in place, for files that are mounted elsewhere: a reader in that moment may see the
 * new beginning with the old end. */
void put_over(Put *put, const char *name, const void *data, size_t len);

/* A symbolic link, replaced in one step. */
void put_link(Put *put, const char *name, const char *target);

/* A character device, or an empty file where `major` is 0 or the device cannot be made. One that is there stays. */
void put_device(Put *put, const char *name, mode_t mode, unsigned int major_number, unsigned int minor_number);

/* Removes a file, link or whole folder below root; fine where there is none. */
void put_gone(Put *put, const char *fmt, ...) PRINTF_LIKE(2, 3);
