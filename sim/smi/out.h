/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Writing -q: the same tree as indented text or as XML. A node has a name for each; a node without a name in one of
 * them is not shown there, and what lies below it moves up. The owner embeds it; one thread.
 */
#include <stdbool.h>
#include <stdio.h>

#include "sim/smi/get.h"

enum { OUT_COLUMN = 55, OUT_COLUMN_PROCESS = 42 }; /* where the text's values begin */

typedef struct Out {
    FILE *file;
    bool xml;
    int depth;
    int column;
} Out;

void out_open(Out *out, const char *tag, const char *label);
void out_close(Out *out, const char *tag, const char *label);
void out_leaf(Out *out, const char *tag, const char *label, const char *text);
/* A leaf with what a getter says, its unit (" MiB", NULL) or the reason why not. */
void out_value(Out *out, const char *tag, const char *label, const Value *value, const char *unit);
/* The same from a getter. */
void out_get(Out *out, const Subject *of, const char *tag, const char *label, Getter *get, int arg, const char *unit);
