/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where GPUs sit in a node and what identifies them: derived from the boards, their positions and the seed alone, as a
 * real baseboard or a PCIe server would have them. Pure.
 */
#include "sim/scenario/scenario.h"

/* Fills gpus[0..gpu_count) of all but `board`. */
void identity_fill(const Scenario *scenario, uint64_t seed, SimGpuId *gpus);
