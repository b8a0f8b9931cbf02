/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the two readers of nccl-tests (text and JSON) share; not for others. */

#include "engine/nccl/job.h"

NcclBench *nccl_bench_new(NcclJob *job); /* NULL over the cap */
NcclRow nccl_bench_row(NcclPlace place); /* nothing known */
void nccl_bench_add(NcclJob *job, NcclBench *bench, const NcclRow *row);
const char *nccl_bench_name(NcclJob *job, Span path);
