/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A rank's table after HTA's joins and filters, and what the analyses of this folder share. Not for others. */

#include "engine/trace/hta/hta.h"

#define HTA_NO_TIME INT64_MIN

typedef struct HtaFrame {
    const HtaRows *rows;
    VEC(uint32_t) gpu; /* rows with a stream that are left, in the file's order; some more than once */
    uint32_t *partner; /* row -> row that it is linked with, UINT32_MAX none */
    uint32_t zero;     /* the row at place 0 of the event list, UINT32_MAX: not among the rows that are left */
    bool filtered;
    bool last_step;            /* the filter keeps rows up to `limit` and at it, else before it */
    int64_t limit;             /* of host rows' starts, where filtered */
    int64_t first, last_start; /* over rows that are left, HTA_NO_TIME none */
} HtaFrame;

typedef struct HtaInterval {
    int64_t start, end;
} HtaInterval;

typedef VEC(HtaInterval) HtaIntervals;
typedef VEC(double) HtaNumbers;

void hta_frame_init(HtaFrame *frame, const HtaRows *rows, bool filtered, bool last_step);
void hta_frame_done(HtaFrame *frame);

static inline const HtaRow *hta_gpu(const HtaFrame *frame, size_t i)
{
    return &frame->rows->rows.at[frame->gpu.at[i]];
}

/* Whether a row of the host is left. */
static inline bool hta_kept_host(const HtaFrame *frame, const HtaRow *row)
{
    return row->stream == -1 &&
           (!frame->filtered || row->start < frame->limit || (frame->last_step && row->start == frame->limit));
}

/* Start of the call as HTA's idle breakdown has it, HTA_NO_TIME none. */
int64_t hta_call_start(const HtaFrame *frame, uint32_t row);
/* Whether `index_correlation` of a row is above 0. */
bool hta_linked(const HtaFrame *frame, uint32_t row);

static inline int64_t hta_end(const HtaRow *row)
{
    return row->start + row->duration;
}

static inline int64_t hta_sum(int64_t a, int64_t b)
{
    int64_t sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a < 0 ? -INT64_MAX : INT64_MAX;
}

/* Joins what overlaps or touches, as HTA does. `type` -1: all. */
void hta_merge(const HtaFrame *frame, int type, HtaIntervals *ret);
int64_t hta_length(const HtaIntervals *merged);

HtaDescribe hta_describe(HtaNumbers *numbers); /* sorts them */
double hta_quantile(const double *sorted, size_t count, double at);
double hta_round(double value, int decimals);

/* Each fills its part. */
void hta_temporal(const HtaFrame *frame, HtaRank *rank);
void hta_idle(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank);
void hta_queues(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank);
void hta_bandwidth(const HtaFrame *frame, Arena *arena, HtaRank *rank);
void hta_launches(const HtaFrame *frame, const HtaOptions *options, HtaRank *rank);
void hta_types(const HtaFrame *frames, size_t count, HtaReport *report);
void hta_kernels(const HtaFrame *frame, HtaReport *report);
void hta_stragglers(const HtaFrame *frames, size_t count, HtaReport *report);
