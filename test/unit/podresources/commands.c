/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

static void room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
    Commands *commands = handle->data;

    (void)wanted;
    *ret = uv_buf_init(commands->chunk, sizeof(commands->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    Commands *commands = stream->data;

    if (len < 0) {
        char quit[] = "quit";

        commands->on_line(commands->self, quit);
        return;
    }
    for (ssize_t i = 0; i < len; i++) {
        if (buf->base[i] != '\n') {
            if (commands->len + 1 < sizeof(commands->line))
                commands->line[commands->len++] = buf->base[i];
            continue;
        }
        commands->line[commands->len] = '\0';
        commands->len = 0;
        commands->on_line(commands->self, commands->line);
    }
}

void commands_start(Commands *commands, uv_loop_t *loop, void (*on_line)(void *self, char *line), void *self)
{
    memset(commands, 0, sizeof(*commands));
    commands->on_line = on_line;
    commands->self = self;
    uv_pipe_init(loop, &commands->pipe, 0);
    commands->pipe.data = commands;
    uv_pipe_open(&commands->pipe, 0);
    uv_read_start((uv_stream_t *)&commands->pipe, room, on_read);
}

void commands_stop(Commands *commands)
{
    if (!uv_is_closing((uv_handle_t *)&commands->pipe))
        uv_close((uv_handle_t *)&commands->pipe, NULL);
}

void commands_print_cost(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int fds = -3; /* ".", ".." and the one that is read do not count */

    while (dir && readdir(dir))
        fds++;
    if (dir)
        closedir(dir);
    printf(" fds=%d heap=%zu", fds, mallinfo2().uordblks);
}
