/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Columns that adapt to the width: those of low priority come first, one or more take what is left. Pure.
 */

#include "service/screen/grid.h"

enum { COLUMNS_MAX = 32 };

typedef struct Column {
    const char *key, *title;
    int width, most;  /* least width, and the most it takes of what is left; most 0: not wider */
    uint8_t priority; /* 0 always; the higher the sooner it goes */
    bool right;       /* text and title end at its right edge */
} Column;

typedef struct Layout {
    int x[COLUMNS_MAX], width[COLUMNS_MAX]; /* width 0: not shown */
} Layout;

/* `columns` are `count` structs of `stride` bytes, each beginning with a Column; one blank lies between two. */
void layout_fit(const void *columns, size_t stride, size_t count, int width, Layout *ret);
const Column *column_at(const void *columns, size_t stride, size_t i);
Area layout_cell(const Layout *layout, Area row, size_t i);
/* Text within a cell: to the left, or to the right edge. */
void column_text(Grid *grid, Area cell, bool right, Ink ink, const char *text);
