/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The table without arguments, and -L. */
#include <stdio.h>

#include "sim/smi/gpu.h"

void summary_write(GpuSet *set, FILE *file);
/* -L: one line per GPU and MIG device. */
void summary_list(GpuSet *set, FILE *file);
/* -B: GPUs that the driver leaves alone. */
void summary_excluded(FILE *file);
/* --version */
void summary_version(FILE *file);
