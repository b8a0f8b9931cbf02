/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of the text (text_tables.c), for text.c alone. Each prints nothing where there is nothing to say. */

#include "service/report/table.h"

/* The devices of a rank together; times of several devices are added. */
typedef struct RankSum {
    int64_t span_ns, busy_ns, idle_ns, compute_ns, exposed_communication_ns, exposed_copy_ns;
    int64_t compute_tensor_ns, communication_ns, overlapped_ns;
} RankSum;
RankSum rank_sum(const TraceRank *rank);
/* Mean and sample deviation of the steps' durations; false without steps. */
bool rank_steps(const TraceRank *rank, double *ret_mean, double *ret_sd);
/* "data_loading" as "data loading". */
const char *pen_words(Pen *pen, const char *word);
/* "3 of 24" where rows were left out, "" otherwise; for pen_section. */
const char *pen_of(Pen *pen, size_t shown, size_t all, const char *what);
/* The time split into compute, exposed communication, exposed copy and idle, as a bar. */
void pen_split(Pen *pen, const RankSum *sum, size_t columns);

void text_ranks(Pen *pen, const TraceReport *report);
void text_collectives(Pen *pen, const TraceReport *report);
void text_time(Pen *pen, const TraceRank *rank);
void text_steps(Pen *pen, const TraceRank *rank);
void text_gaps(Pen *pen, const TraceRank *rank);
void text_path(Pen *pen, const TraceRank *rank);
void text_kernels(Pen *pen, const TraceRank *rank);
void text_operators(Pen *pen, const TraceRank *rank);
void text_calls(Pen *pen, const TraceRank *rank);
void text_annotations(Pen *pen, const TraceRank *rank);
void text_copies(Pen *pen, const TraceRank *rank);
void text_launches(Pen *pen, const TraceRank *rank);
void text_memory(Pen *pen, const TraceRank *rank);
