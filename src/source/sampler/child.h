/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sampler does: keeps the driver up (or releases it on request), samples the GPUs that the board assigns to it,
 * at the plan's paces, until its agent is gone. One thread; nothing is allocated in a pass.
 */

#include "base/err.h"
#include "source/board/board.h"
#include "source/sampler/protocol.h"

typedef struct Child Child;

/* Receives the hello on `fd`, maps the board, answers. -errno; -EPROTO where the agent speaks another version. */
int child_connect(int fd, Child **ret_child, Err *err);
/* Samples until the other end of the socket is closed, then releases the driver; a probe: asks the driver once. */
void child_run(Child *child);
/* One pass of that loop, without the wait. */
void child_pass(Child *child);
void child_free(Child *child);
