/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside the steps: the functions that turn one occurrence of a step into ops (one per row of step_rows.c), and the
 * names that rows and functions share. Each checks what its row cannot know (the board, the works), then appends ops.
 */
#include "sim/scenario/step.h"

/* Appends an op of this run; returns it for its arguments to be filled, valid until the next. */
SimOp *step_op(StepRun *run, SimOpType type);
/* Sets a key of the GPU, or on undo its value after driver load. */
void step_set(StepRun *run, SimKey key, uint32_t value);
/* Whether the row's field of this key was given. */
int step_given(const StepRun *run, const char *key);
/* Fails at the step, with its name before the text. */
int step_fail(const StepRun *run, Err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Compute instances of one slice count each, and the GPU instance around them: ops from the start of a GPU instance on
 * board->profiles[profile]. compute: bit per slice count, 0 = one over all. */
int step_mig_create(StepRun *run, uint32_t profile, int start, const uint32_t *compute, size_t compute_count, Err *err);

int make_xid(StepRun *run, Err *err);
int make_event(StepRun *run, Err *err);
int make_ecc(StepRun *run, Err *err);
int make_clear_ecc(StepRun *run, Err *err);
int make_remap(StepRun *run, Err *err);
int make_retire(StepRun *run, Err *err);
int make_sram(StepRun *run, Err *err);
int make_thermal(StepRun *run, Err *err);
int make_fan(StepRun *run, Err *err);
int make_power_brake(StepRun *run, Err *err);
int make_slowdown(StepRun *run, Err *err);
int make_power_limit(StepRun *run, Err *err);
int make_throttle(StepRun *run, Err *err);
int make_lost(StepRun *run, Err *err);
int make_reset_required(StepRun *run, Err *err);
int make_reset(StepRun *run, Err *err);
int make_inforom(StepRun *run, Err *err);
int make_set(StepRun *run, Err *err);
int make_link(StepRun *run, Err *err);
int make_pcie(StepRun *run, Err *err);
int make_aer(StepRun *run, Err *err);
int make_fabric(StepRun *run, Err *err);
int make_sxid(StepRun *run, Err *err);
int make_driver(StepRun *run, Err *err);
int make_fabric_manager(StepRun *run, Err *err);
int make_persistenced(StepRun *run, Err *err);
int make_reload(StepRun *run, Err *err);
int make_stuck(StepRun *run, Err *err);
int make_log(StepRun *run, Err *err);
int make_init_failed(StepRun *run, Err *err);
int make_suspend(StepRun *run, Err *err);
int make_orphan_memory(StepRun *run, Err *err);
int make_hang(StepRun *run, Err *err);
int make_plug(StepRun *run, Err *err);
int make_kmsg(StepRun *run, Err *err);
int make_oom(StepRun *run, Err *err);
int make_start(StepRun *run, Err *err);
int make_stop(StepRun *run, Err *err);
int make_compute(StepRun *run, Err *err);
int make_mig_mode(StepRun *run, Err *err);
int make_mig_create(StepRun *run, Err *err);
int make_mig_destroy(StepRun *run, Err *err);

/* Names of `pick`, in the order of the numbers they stand for. */
extern const char *const step_event_names[];
extern const char *const step_location_names[];
extern const char *const step_severity_names[];
extern const char *const step_action_names[];
extern const char *const step_link_names[];
extern const char *const step_counter_names[];
extern const char *const step_fabric_names[];
extern const char *const step_health_names[];
extern const char *const step_driver_names[];
extern const char *const step_up_names[];
extern const char *const step_plug_names[];
extern const char *const step_log_names[];
extern const char *const step_compute_names[];
extern const char *const step_ecc_kind_names[];
extern const char *const step_aer_names[];
extern const char *const step_throttle_names[];
extern const char *const step_access_names[];
