/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gathering the labels of one target (labels.c); for targets.c alone. */

#include "service/prometheus/labels.h"

typedef struct LabelList {
    Arena *arena;
    Label *at;
    size_t len, most;
} LabelList;

/* An empty list for `most` labels; texts and labels lie in `arena`. */
void label_list_init(LabelList *list, Arena *arena, size_t most);

/* Adds a label; one with an empty value, or whose name is taken in one of its views, is left out. */
void label_list_add(LabelList *list, LabelGroup group, unsigned views, const char *name, const char *value);

/* Labels of the device itself, of the one it was given to (`shared`: it is not the only one), and their order. */
void label_list_device(LabelList *list, const LabelInput *input, const Node *node, const Reading *gpu,
                       const Reading *instance);
void label_list_owner(LabelList *list, const ExporterConfig *config, const Owner *owner, bool shared);
void label_list_sort(LabelList *list, bool sorted);

/* The text of a label row for this GPU; "" where there is none. */
const char *label_row_value(const LabelRow *row, const Reading *reading, Arena *arena);
