/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the judgement share. */

#include "verb/agent/judge.h"

/* Clocks, as those take them that are given the judge: of the board's monotonic clock, of the wall. */
uint64_t judge_now(void *judge);
uint64_t judge_real(void *judge);

/* IncidentTold and JournalAcked: a change goes to the journal, and to people once it is there. */
void judge_told(void *judge, const Incident *incident, IncidentChange change);
void judge_acked(void *judge, uint64_t ticket, bool on_disk);
/* Puts the evidence as it is now into the journal. */
void judge_keep_bundle(Judge *judge, const Incident *incident);
/* The minute after the fact, of those whose time has come. */
void judge_close_boxes(Judge *judge, uint64_t now_ns);

/* Samplers have news: the driver's events are taken between two ticks; `self` is the Judge. */
void judge_peek(void *self);
void judge_take_event(Judge *judge, const Event *event);
/* KmsgEvent: it is judged with the others that are read in the same turn of the loop. */
void judge_line_came(void *judge, const Event *event);
