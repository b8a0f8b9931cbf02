/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Steps that run Stoker's own programs, and the agent that lives through a run. One thread. */
#include "real.h"

/* The recorder, into nvml-DRIVER-DATE.json of the results' folder, or with `suffix` before the ".json". What an earlier
 * recording had to leave out is left out from the beginning. */
StepEnd verbs_record(const Real *real, json_t *result, Err *err);
StepEnd verbs_record_as(const Real *real, const char *suffix, json_t *result, Err *err);

StepEnd verbs_run_alone(const Real *real, json_t *result, Err *err);  /* they look for themselves */
StepEnd verbs_run_asking(const Real *real, json_t *result, Err *err); /* they ask the run's agent */

/* The run's agent, and `stoker top --record` beside it, which writes top.json.gz into the results' folder. */
enum { VERBS_COMPANIONS = 2 };
int verbs_start_agent(const Real *real, Subproc ret[VERBS_COMPANIONS], Err *err);
void verbs_stop_agent(Subproc companions[VERBS_COMPANIONS]);

StepEnd verbs_await_agent(const Real *real, json_t *result, Err *err); /* until its first samples */
StepEnd verbs_read_events(const Real *real, json_t *result, Err *err); /* incidents and events: there should be none */
