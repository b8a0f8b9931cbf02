/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who runs on a GPU, if the plan wants to know: the driver's lists of compute, graphics and MPS processes as one, with
 * memory and share of the GPU, at pace SLOW. One that is in several lists comes once, as a compute process. The whole
 * list is absent where the driver refuses one of its parts, so that a missing process means that it is not there.
 * Where there are more than NODE_PROCESSES_MAX, those with the most memory are kept, and the count says all. One
 * thread.
 */

#include "source/nvml/gpu.h"

void nvml_processes_read(NvmlGpu *gpu);
/* Forgets all where nobody wants to know any more. */
void nvml_processes_follow_plan(NvmlGpu *gpu);
/* Makes the list absent. */
void nvml_processes_lose(NvmlGpu *gpu, Absence why);
/* Puts what has changed on the board; the GPU is ours. */
void nvml_processes_publish(NvmlGpu *gpu);
