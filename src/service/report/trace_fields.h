/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The fields of a TraceReport's structs, for JSON, CSV and page. Not for others. */

#include "engine/trace/report.h"
#include "service/report/field.h"

extern const Field field_device[], field_cause_sum[], field_inference[], field_decode_gap[], field_kernel[],
    field_copy[], field_operator[], field_shape[], field_roof[], field_module[], field_origin[], field_origin_sum[],
    field_call[], field_annotation[], field_launch[], field_queue[], field_queue_point[], field_collective_sum[],
    field_path_name[], field_memory[], field_memory_point[], field_memory_holder[], field_loss[], field_rank[],
    field_rank_time[], field_straggler[], field_verdict[], field_diff[], field_diff_row[];

/* A step's devices together. */
TraceStepDevice trace_step_sum(const TraceStepRow *step);
