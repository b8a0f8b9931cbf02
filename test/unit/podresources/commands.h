/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines from stdin on a loop, for test programs that a Python test drives. */

#include <uv.h>

typedef struct Commands {
    uv_pipe_t pipe;
    char line[256], chunk[4096];
    size_t len;
    void (*on_line)(void *self, char *line); /* "quit" at the end of stdin */
    void *self;
} Commands;

void commands_start(Commands *commands, uv_loop_t *loop, void (*on_line)(void *self, char *line), void *self);
void commands_stop(Commands *commands);

/* " fds=N heap=N" of this process: open descriptors, bytes in use. */
void commands_print_cost(void);
