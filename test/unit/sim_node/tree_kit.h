/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Comparing and walking trees of files. */
#include "node_kit.h"

/* One line per file, link or folder below `root`, sorted: path, type, and content or target. For comparisons; to be
 * freed. The update of a tree must lead to what writing it anew gives. */
char *tree_text(const char *root);
/* Fails the test with the first line that differs. */
void tree_assert_same(const char *a, const char *b);
