/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of the text (text_tables.c), for text.c alone. Each prints nothing where there is nothing to say. */

#include "service/report/report.h"
#include "service/report/table.h"

/* The time split into compute, exposed communication, exposed copy and idle. */
enum { RANK_PARTS = 4 };
void rank_split(const TraceDevice *sum, BarPart parts[RANK_PARTS]);
/* "3 of 24" where rows were left out, "" otherwise; for pen_section. */
const char *pen_of(Pen *pen, size_t shown, size_t all, const char *what);

void text_ranks(Pen *pen, const TraceReport *report);
void text_collectives(Pen *pen, const TraceReport *report);
/* All tables of a rank. */
void text_details(Pen *pen, const TraceRank *rank);
