/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "source/sampler/processes.h"

/* One turn of each sampler that runs, and of the supervisor. */
void samplers_turn(void);
