/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finding scenarios and boards by name: `<dir>/<name>.yaml` in a list of directories, the first one wins. One thread at
 * a time.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { LIBRARY_NAME_MAX = 63, LIBRARY_FILES_MAX = 4096, LIBRARY_BYTES_MAX = 1024 * 1024 };

/* Lower case letters, digits, '-', '_' and '.', not starting with '.', at most LIBRARY_NAME_MAX bytes. */
bool library_name_ok(const char *name);

/* Names of all .yaml files in `dirs` (NULL-ended), without the ending, sorted, each once; NULL-ended, in the arena.
 * Directories that cannot be read have none. */
const char *const *library_names(const char *const *dirs, Arena *arena, size_t *ret_count);

/* The path of a scenario: `what` itself where it holds a '/' or ends in .yaml or .yml, else looked up by name. In the
 * arena. -ENOENT with the nearest name and all names. */
int library_find(const char *const *dirs, const char *what, Arena *arena, const char **ret_path, Err *err);

/* The name a path stands for: its last part without the ending. In the arena. */
const char *library_name_of(const char *path, Arena *arena);
