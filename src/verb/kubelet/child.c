/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/kubelet/child.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"

enum { LIMIT_MS = 60000, OUT_MAX = 4 << 20, DOUBLINGS_MAX = 6 };

static void on_limit(uv_timer_t *timer)
{
    Child *child = timer->data;

    (void)uv_process_kill(&child->process, SIGKILL);
}

/* Behind the end of the process. */
static void on_closed(uv_handle_t *handle)
{
    Child *child = handle->data;

    if (--child->open > 0)
        return;
    if (child->done && child->fine && str_check(&child->out, child->sub, NULL) == 0)
        child->done(child->self, &child->out);
    str_clear(&child->out);
}

/* Takes what the process has written, and waits for nobody else who has the pipe: a call of the driver that hangs in a
 * process that it has started. */
static void close_pipe(Child *child)
{
    uv_os_fd_t fd;
    ssize_t len;

    if (uv_is_closing((uv_handle_t *)&child->pipe))
        return;
    if (uv_fileno((uv_handle_t *)&child->pipe, &fd) == 0)
        while ((len = read(fd, child->room, sizeof child->room)) > 0)
            str_addn(&child->out, child->room, (size_t)len);
    uv_close((uv_handle_t *)&child->pipe, on_closed);
}

static void on_end(uv_process_t *process, int64_t status, int term_signal)
{
    Child *child = process->data;

    uv_timer_stop(&child->limit);
    close_pipe(child);
    child->fine = status == 0 && !term_signal;
    child->tries = child->fine ? 0 : child->tries + 1;
    child->after_ns = 0;
    if (child->done && !child->fine) {
        log_write(child->log, LOG_LEVEL_WARN, "%s: not made%s; it is tried again", child->sub,
                  term_signal ? ", as the driver did not answer" : "");
        child->due = true;
        child->after_ns = uv_hrtime() + (NS_PER_S << number_min_u64(child->tries, DOUBLINGS_MAX));
    }
    uv_close((uv_handle_t *)process, on_closed);
}

static void give_room(uv_handle_t *handle, size_t size UNUSED, uv_buf_t *ret)
{
    Child *child = handle->data;

    *ret = uv_buf_init(child->room, sizeof child->room);
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    Child *child = stream->data;

    if (len > 0)
        str_addn(&child->out, buf->base, (size_t)len);
    else if (len < 0)
        close_pipe(child);
}

static void start_child(Child *child)
{
    const VerbCall *call = child->call;
    char program[] = "/proc/self/exe", verb[] = "kubelet";
    CLEANUP_FREE char **args = xcalloc((size_t)call->argc + 3, sizeof *args);
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->pipe},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}};
    const uv_process_options_t options = {
        .exit_cb = on_end, .file = program, .args = args, .stdio_count = ARRAY_LEN(stdio), .stdio = stdio};

    child->due = false;
    child->fine = false;
    child->open = 2;
    args[0] = program;
    args[1] = verb;
    args[2] = (char *)(uintptr_t)child->sub;
    for (int i = 1; i < call->argc; i++)
        args[2 + i] = call->argv[i];
    uv_pipe_init(child->limit.loop, &child->pipe, 0);
    child->pipe.data = child->process.data = child;
    const int rc = uv_spawn(child->limit.loop, &child->process, &options);
    if (rc < 0) {
        log_write(child->log, LOG_LEVEL_WARN, "%s: %s", child->sub, uv_strerror(rc));
        uv_close((uv_handle_t *)&child->process, on_closed);
        uv_close((uv_handle_t *)&child->pipe, on_closed);
        return;
    }
    uv_read_start((uv_stream_t *)&child->pipe, give_room, on_read);
    uv_timer_start(&child->limit, on_limit, LIMIT_MS, 0);
}

void child_init(Child *child, uv_loop_t *loop)
{
    str_init(&child->out, OUT_MAX);
    uv_timer_init(loop, &child->limit);
    child->limit.data = child;
}

void child_want(Child *child)
{
    child->due = true;
}

void child_tick(Child *child)
{
    if (child->due && !child->open && uv_hrtime() >= child->after_ns)
        start_child(child);
}

static void on_limit_closed(uv_handle_t *handle)
{
    Child *child = handle->data;

    str_done(&child->out);
}

void child_close(Child *child)
{
    child->done = NULL; /* who wants it is gone */
    if (uv_is_active((uv_handle_t *)&child->process))
        (void)uv_process_kill(&child->process, SIGKILL);
    uv_close((uv_handle_t *)&child->limit, on_limit_closed);
}
