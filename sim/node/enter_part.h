/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside sim/node: building folders out of real entries and ours, in a private mount namespace. */
#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/* A file system under construction. */
typedef struct Stage {
    char dir[PATH_MAX];
    const char *root; /* of the tree */
} Stage;

int stage_begin(Stage *stage, Err *err);
/* Moves it to `target`. */
int stage_end(Stage *stage, const char *target, Err *err);

/* Shows `source`, a folder or a file, at `target`, which exists. */
int bind_at(const char *source, const char *target, Err *err);
/* A folder in the stage that shows `source`. */
int stage_folder(const Stage *stage, const char *name, const char *source, Err *err);
int stage_link(const Stage *stage, const char *name, const char *to, Err *err);
/* Any entry of a real folder, as it is there. */
int stage_copy(const Stage *stage, const char *dir, const char *name, Err *err);

/* Calls fn for each entry of `dir`; fine where it does not exist. */
typedef int (*EntryFn)(void *arg, const char *dir, const char *name, Err *err);
int each_entry(const char *dir, EntryFn fn, void *arg, Err *err);
/* "<a>/<b>"; -ENAMETOOLONG. */
int path_join(char out[PATH_MAX], const char *a, const char *b, Err *err);
bool exists(const char *path);

/* /proc as links to the kernel's own and to the tree's, and the helper that follows new processes. */
int proc_rebuild(const char *root, Err *err);
