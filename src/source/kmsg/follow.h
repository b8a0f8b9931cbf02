/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A text file that another program appends to, read line by line as it grows and over rotation (another inode, or
 * shorter than before). Knows when to look by inotify, and looks now and then anyhow. One thread. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/str.h"

enum { FOLLOW_LINE_MAX = 64 << 10 }; /* a longer line is cut there */

typedef struct Follow Follow;

/* A whole line without its newline; `old`: the file held it at the first look. */
typedef void (*FollowLine)(void *self, const char *line, size_t len, bool old);

/* Begins at `offset` where the file is still that inode, else at its beginning. A missing file is waited for. */
Follow *follow_open(uv_loop_t *loop, const char *path, uint64_t inode, uint64_t offset, FollowLine give, void *self);
void follow_look(Follow *follow);  /* now, without waiting for the loop; not from within `give` */
void follow_close(Follow *follow); /* frees when the loop has closed its handles; accepts NULL */

typedef struct FollowState {
    bool there;             /* the file is open */
    bool looked;            /* what it held at the first look has been read */
    int error;              /* -errno of the last try to open it, 0 fine */
    uint64_t inode, offset; /* behind the last whole line */
} FollowState;
void follow_state(const Follow *follow, FollowState *ret);
