/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ops of every kind with sensible arguments, for property tests. */
#include "node.h"

enum { RANDOM_WORKS = 8, RANDOM_GPUS = 4 };

/* Four GPUs of three kinds (MIG on the third) and eight works: a job over GPUs 0 and 1, one that leaks, two on MIG
 * devices. Not planned yet. */
SimImage *random_node(void);
SimOp random_op(uint64_t *seed);
