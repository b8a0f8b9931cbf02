/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Trees of /proc, /sys and /dev made by hand in a folder of their own. */

#include <stdbool.h>

#include "base/attribute.h"
#include "model/pci.h"

enum { TREE_PATH_CAP = 512 };

typedef struct Tree {
    char root[TREE_PATH_CAP];
} Tree;

void tree_new(Tree *tree);
void tree_free(Tree *tree);

/* A file with this text, with the folders above it. */
void tree_file(const Tree *tree, const char *path, const char *fmt, ...) PRINTF_LIKE(3, 4);
void tree_link(const Tree *tree, const char *path, const char *target);
/* One that nobody writes: who opens it waits. tree_unblock waits for one and lets it go; tree_try_unblock returns false
 * where nobody waits now. */
void tree_pipe(const Tree *tree, const char *path);
void tree_unblock(const Tree *tree, const char *path);
bool tree_try_unblock(const Tree *tree, const char *path);
void tree_gone(const Tree *tree, const char *path);

/* A GPU at 0000:bb:00.0 below the port 0000:aa:01.0, as sysfs has them. */
void tree_gpu(const Tree *tree);
/* A process with these letters of proc(5). */
void tree_task(const Tree *tree, int pid, const char *name, char state, const char *wchan);
