/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What adding to a series and reading it share: how an open minute is packed. Pure, one thread. */

#include "engine/store/cell.h"
#include "engine/store/series.h"

static inline CellMinute series_fold_cell(const SeriesFold *fold)
{
    CellGauge gauge = {.min = fold->min, .max = fold->max};

    if (fold->count == 0)
        return (CellMinute){.bits = 0};
    gauge.mean = fold->sum / fold->count;
    return cell_gauge(&gauge, (unsigned)__builtin_popcountll(fold->seconds));
}

static inline CellMinute series_count_cell(const SeriesCounter *count)
{
    if (count->seconds == 0)
        return (CellMinute){.bits = 0};
    return cell_counter(count->last, count->jumped, (unsigned)__builtin_popcountll(count->seconds));
}
