/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rules of verdicts, inside engine/why: each looks for one cause, cites the numbers that it used and returns
 * whether it found it. decide.c has the table that says which may answer. Pure.
 */

#include "engine/why/why.h"

#define LIMIT(NAME, value, reason) static const double limit_##NAME = value;
#include "engine/why/limit.def"
#undef LIMIT

/* One device under decision: the input with means over its window. */
typedef struct WhyCase {
    const WhyInput *in;
    const Activity *activity;
    int from; /* first second of the window */
    double mean[WHY_SERIES_END];
} WhyCase;

/* --- evidence.c: what rules have in common ------------------------------------------------------------------------ */

/* A number that was used; one that is not known (NaN) is left out. */
void why_cite_number(WhyVerdict *v, const char *counter, const char *label, WhyUnit unit, double value);
/* A number of somebody's, by name. */
void why_cite_named(WhyVerdict *v, const char *name, const char *counter, const char *label, WhyUnit unit,
                    double value);
/* The means of these series, as far as they are known; the list ends with WHY_SERIES_END. */
void why_cite_means(const WhyCase *c, WhyVerdict *v, const WhySeries *list);
#define CITE(c, v, ...) why_cite_means(c, v, (const WhySeries[]){__VA_ARGS__, WHY_SERIES_END})
__attribute__((format(printf, 2, 3))) void why_write_text(WhyVerdict *v, const char *fmt, ...);
/* What it may be too. */
void why_add_between(WhyVerdict *v, WhyCause cause);
WhyConfidence why_choose_confidence(bool sure);

int why_percent(double share);
/* Reorders the values. */
double why_median(double *values, size_t count);
/* Share of the window's known seconds in which `fits` holds; *ret_count, where given: how many. */
double why_share_of_seconds(const WhyCase *c, bool (*fits)(const WhyInput *in, int i), double *ret_count);
/* Whether nothing ran in this second. */
bool why_second_is_pause(const WhyInput *in, int i);

/* --- rules_host.c ---------------------------------------------------------------------------------------------------
 */

bool why_find_stuck(const WhyCase *c, WhyVerdict *v);
bool why_find_checkpoint(const WhyCase *c, WhyVerdict *v);
bool why_find_checkpoints(const WhyCase *c, WhyVerdict *v);
bool why_find_input(const WhyCase *c, WhyVerdict *v);
bool why_find_part_input(const WhyCase *c, WhyVerdict *v);
bool why_find_some_input(const WhyCase *c, WhyVerdict *v);

/* --- rules_work.c ---------------------------------------------------------------------------------------------------
 */

bool why_find_video(const WhyCase *c, WhyVerdict *v);
bool why_find_fp64(const WhyCase *c, WhyVerdict *v);
bool why_find_memory_bound(const WhyCase *c, WhyVerdict *v);
bool why_find_tensor(const WhyCase *c, WhyVerdict *v);
bool why_find_no_tensor(const WhyCase *c, WhyVerdict *v);
bool why_find_small_batch(const WhyCase *c, WhyVerdict *v);
bool why_find_launches(const WhyCase *c, WhyVerdict *v);

/* --- rules_exchange.c -----------------------------------------------------------------------------------------------
 */

bool why_find_pcie(const WhyCase *c, WhyVerdict *v);
bool why_find_network(const WhyCase *c, WhyVerdict *v);
bool why_find_full_adapter(const WhyCase *c, WhyVerdict *v);
bool why_find_collective(const WhyCase *c, WhyVerdict *v);
bool why_find_other_rank(const WhyCase *c, WhyVerdict *v);
bool why_find_late_peer(const WhyCase *c, WhyVerdict *v);
bool why_find_straggler(const WhyCase *c, WhyVerdict *v);

/* --- rules_board.c --------------------------------------------------------------------------------------------------
 */

bool why_find_throttle(const WhyCase *c, WhyVerdict *v);
bool why_find_neighbour(const WhyCase *c, WhyVerdict *v);
bool why_find_unsampled_neighbour(const WhyCase *c, WhyVerdict *v);
bool why_find_board_neighbour(const WhyCase *c, WhyVerdict *v);
bool why_find_memory_growth(const WhyCase *c, WhyVerdict *v);
bool why_find_memory_near(const WhyCase *c, WhyVerdict *v);
