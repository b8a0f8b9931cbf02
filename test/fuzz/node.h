/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The node that fuzz targets work on: built once per process, put back to what it was before each input. */
#include "sim/core/control.h"

/* The image of a node with many kinds of GPUs, named in STOKER_SIM; its clock stands. Aborts where it cannot be made.
 */
SimImage *fuzz_node(void);
/* Takes back what the last input did to it. */
void fuzz_node_reset(SimImage *image);
