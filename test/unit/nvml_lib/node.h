/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A node built by hand for the tests of the library: three server GPUs (0, 1, 2) and one for the desk (3), with a clock
 * that stands. Bus addresses are not in the order of the image: NVML's index 0 is GPU 1.
 */
#include "sim/core/control.h"

enum { NODE_GPUS = 4, NODE_LINKS = 18, NODE_FIRST = 1 /* the image's number of NVML index 0 */ };

/* Builds the node of a driver generation in a new temporary file, names it in STOKER_SIM and maps it. */
SimImage *node_new(unsigned int generation);
/* Unmaps the node, removes its file and the variable. */
void node_free(SimImage *image);
/* Applies an op now; fails the test unless it is accepted. */
void node_op(SimImage *image, SimOp op);
