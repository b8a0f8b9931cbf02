/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: the agent's side, on its loop, and the side of another process, which blocks. */
#include "verb/agent/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "verb/verb.h"

/* --- the agent's side --------------------------------------------------------------------------------------------- */

enum { CLIENTS_MAX = 16, CLIENT_MS = 5000, HOLD_MS = 20000, BACKLOG = 16 };

struct Control {
    uv_pipe_t listener;
    ControlHandler handler;
    void *self;
    char *path;
    struct Client *held; /* whose answer waits for a change */
    unsigned clients;
    unsigned refs; /* the listener and each client: the last to go frees */
};

typedef struct Client {
    struct Client *next; /* of the held ones */
    bool is_held;
    uv_pipe_t pipe;
    uv_timer_t timer;
    uv_write_t write;
    Control *control;
    unsigned open_handles;
    char line[CONTROL_LINE_MAX];
    size_t len;
    char head[32];
    char *reply;
} Client;

static void unref_control(Control *control)
{
    if (--control->refs == 0)
        free(control);
}

static void client_closed(uv_handle_t *handle)
{
    Client *client = handle->data;

    if (--client->open_handles > 0)
        return;
    client->control->clients--;
    unref_control(client->control);
    free(client->reply);
    free(client);
}

static void client_close(Client *client)
{
    if (uv_is_closing((uv_handle_t *)&client->pipe))
        return;
    uv_close((uv_handle_t *)&client->pipe, client_closed);
    uv_close((uv_handle_t *)&client->timer, client_closed);
}

static void send_reply(Client *client, int code, Str *out);

static void timed_out(uv_timer_t *timer)
{
    Client *client = timer->data;

    if (client->is_held)
        send_reply(client, 0, &(Str){0});
    else
        client_close(client);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    client_close(write->data);
}

static bool is_owner(const Client *client)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)&client->pipe, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

static void release_held(Client *client)
{
    Client **link = &client->control->held;

    while (*link && *link != client)
        link = &(*link)->next;
    if (*link)
        *link = client->next;
    client->is_held = false;
}

static void send_reply(Client *client, int code, Str *out)
{
    const size_t len = out->len;
    const int head = snprintf(client->head, sizeof client->head, "%d %zu\n", code, len);

    if (client->is_held)
        release_held(client);
    uv_read_stop((uv_stream_t *)&client->pipe);
    uv_timer_start(&client->timer, timed_out, CLIENT_MS, 0);
    client->reply = str_take(out);
    uv_buf_t bufs[2] = {uv_buf_init(client->head, (unsigned)head), uv_buf_init(client->reply, (unsigned)len)};
    client->write.data = client;
    if (uv_write(&client->write, (uv_stream_t *)&client->pipe, bufs, 2, on_written) < 0)
        client_close(client);
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf);
static void bytes_came(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

/* It is read on, to learn of its end. */
static void hold_client(Client *client)
{
    if (client->is_held)
        return;
    uv_read_start((uv_stream_t *)&client->pipe, give_room, bytes_came);
    client->is_held = true;
    client->next = client->control->held;
    client->control->held = client;
    uv_timer_start(&client->timer, timed_out, HOLD_MS, 0);
}

static void send_answer(Client *client)
{
    const char *words[CONTROL_WORDS_MAX];
    char line[CONTROL_LINE_MAX];
    size_t count = 0;
    char *rest = memcpy(line, client->line, sizeof line);
    Str out;

    for (char *word; count < CONTROL_WORDS_MAX && (word = strsep(&rest, " "));)
        if (word[0])
            words[count++] = word;
    str_init(&out, CONTROL_REPLY_MAX);
    int code = client->control->handler(client->control->self, words, count, is_owner(client), &out);
    if (code == CONTROL_HOLD)
        hold_client(client);
    else
        send_reply(client, code, &out);
    str_done(&out);
}

void control_wake(Control *control)
{
    for (Client *client = control->held, *next; client; client = next) {
        next = client->next;
        send_answer(client);
    }
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    Client *client = handle->data;

    (void)wanted;
    *buf = uv_buf_init(client->line + client->len, (unsigned)(sizeof client->line - 1 - client->len));
}

static void bytes_came(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    Client *client = stream->data;

    (void)buf;
    if (n == 0)
        return;
    if (n < 0 || client->is_held) { /* an end of file too; who is held has nothing to say */
        if (client->is_held)
            release_held(client);
        client_close(client);
        return;
    }
    client->len += (size_t)n;
    client->line[client->len] = '\0';
    char *end = memchr(client->line, '\n', client->len);
    if (end) {
        uv_read_stop(stream);
        *end = '\0';
        send_answer(client);
    } else if (client->len == sizeof client->line - 1) {
        client_close(client);
    }
}

static void somebody_came(uv_stream_t *listener, int status)
{
    Control *control = listener->data;
    Client *client;

    if (status < 0)
        return;
    client = xcalloc(1, sizeof *client);
    client->control = control;
    control->clients++;
    control->refs++;
    client->open_handles = 2;
    uv_pipe_init(listener->loop, &client->pipe, 0);
    uv_timer_init(listener->loop, &client->timer);
    client->pipe.data = client->timer.data = client;
    if (uv_accept(listener, (uv_stream_t *)&client->pipe) < 0 || control->clients > CLIENTS_MAX) {
        client_close(client);
        return;
    }
    uv_timer_start(&client->timer, timed_out, CLIENT_MS, 0);
    uv_read_start((uv_stream_t *)&client->pipe, give_room, bytes_came);
}

/* Removes a socket file that nobody listens on. -EADDRINUSE where somebody does. */
static int make_way(const char *path, Err *err)
{
    const int rc = file_remove_socket(path, err);

    if (rc == -EEXIST)
        return err_set(err, rc, "'%s' is there and is no socket; remove it or choose another with --control", path);
    if (rc == -EADDRINUSE)
        return err_set(err, rc, "another agent listens on '%s'; choose another with --control", path);
    return rc;
}

static void make_folder(const char *path)
{
    CLEANUP_FREE char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');

    if (slash && slash > folder) {
        *slash = '\0';
        (void)file_make_dirs(folder, 0755, NULL); /* what is wrong with it, bind says */
    }
}

int control_listen(uv_loop_t *loop, const char *path, ControlHandler handler, void *self, Control **ret, Err *err)
{
    struct sockaddr_un address;

    if (strlen(path) >= sizeof address.sun_path)
        return err_set(err, -ENAMETOOLONG, "the control socket's path '%.40s...' is longer than %zu bytes", path,
                       sizeof address.sun_path - 1);
    make_folder(path);
    TRY(make_way(path, err));
    Control *control = xcalloc(1, sizeof *control);
    control->handler = handler;
    control->self = self;
    control->path = xstrdup(path);
    control->refs = 1;
    uv_pipe_init(loop, &control->listener, 0);
    control->listener.data = control;
    int rc = uv_pipe_bind(&control->listener, path);
    if (rc == 0) {
        (void)chmod(path, 0666); /* anybody may ask; see the handler's `owner` */
        rc = uv_listen((uv_stream_t *)&control->listener, BACKLOG, somebody_came);
    }
    if (rc < 0) {
        control_close(control);
        return err_set(err, rc, "listen on the control socket '%s': %s", path, strerror(-rc));
    }
    *ret = control;
    return 0;
}

static void listener_closed(uv_handle_t *handle)
{
    unref_control(handle->data);
}

void control_close(Control *control)
{
    if (!control)
        return;
    while (control->held) {
        Client *client = control->held;

        release_held(client);
        client_close(client);
    }
    free(TAKE(control->path)); /* libuv removes the file of a pipe that it bound */
    uv_close((uv_handle_t *)&control->listener, listener_closed);
}

/* --- the other side ----------------------------------------------------------------------------------------------- */

#define SYSTEM_PATH "/run/stoker/control.sock"

enum { HEAD_MAX = 40 };

const char *control_path(const char *said, Arena *arena)
{
    const char *env = getenv("STOKER_CONTROL");

    if (said && said[0])
        return said;
    if (env && env[0])
        return arena_strdup(arena, env);
    if (access(SYSTEM_PATH, F_OK) == 0)
        return SYSTEM_PATH;
    return arena_printf(arena, "%s/control.sock", verb_runtime_dir(arena));
}

static int fail_asking(const char *path, const char *what, Err *err)
{
    if (errno == EAGAIN || errno == EINPROGRESS)
        return err_set(err, -ETIMEDOUT, "the agent at '%s' does not answer", path);
    return err_errno(err, "%s the agent at '%s'", what, path);
}

/* Each wait of the socket from here on is until the deadline at most. */
static void set_deadline(int fd, uint64_t deadline_ns)
{
    const uint64_t now = clock_monotonic(clock_kernel()), left = deadline_ns > now ? deadline_ns - now : 0;
    const struct timeval wait = {.tv_sec = (time_t)(left / NS_PER_S),
                                 .tv_usec = (suseconds_t)(left % NS_PER_S / NS_PER_US) + 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

/* Connects and sends the line; the socket in *ret. */
static int send_line(const char *path, const char *line, uint64_t deadline_ns, int *ret, Err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[CONTROL_LINE_MAX];
    const int len = snprintf(text, sizeof text, "%s\n", line);

    if (len < 0 || (size_t)len >= sizeof text)
        return err_set(err, -E2BIG, "the request is too long");
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(err, -ENAMETOOLONG, "the control socket's path '%.40s...' is too long", path);
    strcpy(address.sun_path, path);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(err, "make a socket");
    set_deadline(fd, deadline_ns);
    if (TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&address, sizeof address)) < 0)
        return fail_asking(path, "reach", err);
    if (TEMP_FAILURE_RETRY(send(fd, text, (size_t)len, MSG_NOSIGNAL)) != len) /* it has room for a line at once */
        return fail_asking(path, "ask", err);
    *ret = fd_take(&fd);
    return 0;
}

static int read_all(int fd, const char *path, uint64_t deadline_ns, Str *out, Err *err)
{
    for (;;) {
        if (!str_reserve(out, 65536))
            return str_check(out, "the agent's answer", err);
        set_deadline(fd, deadline_ns);
        const ssize_t n = recv(fd, out->text + out->len, 65536, 0);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return fail_asking(path, "hear", err);
        if (n > 0) {
            out->len += (size_t)n;
            out->text[out->len] = '\0';
        }
    }
}

/* Cuts "CODE LENGTH\n" off; what is left must be LENGTH bytes. */
static int take_head(Str *all, Str *out, int *ret_code, Err *err)
{
    char *end = memchr(all->text, '\n', all->len < HEAD_MAX ? all->len : HEAD_MAX);
    char *blank = end ? memchr(all->text, ' ', (size_t)(end - all->text)) : NULL;
    uint64_t code, len;

    if (!blank || number_parsen_u64(all->text, (size_t)(blank - all->text), 0, 255, &code, NULL) < 0 ||
        number_parsen_u64(blank + 1, (size_t)(end - blank - 1), 0, CONTROL_REPLY_MAX, &len, NULL) < 0 ||
        (size_t)(all->text + all->len - end - 1) != len)
        return err_set(err, -EPROTO, "the agent's answer was cut");
    str_addn(out, end + 1, len);
    *ret_code = (int)code;
    return 0;
}

int control_ask(const char *path, const char *line, int timeout_ms, Str *out, int *ret_code, Err *err)
{
    const uint64_t deadline_ns = clock_monotonic(clock_kernel()) + (uint64_t)timeout_ms * NS_PER_MS;
    CLEANUP(str_done) Str all;
    CLEANUP_FD int fd = -1;

    str_init(&all, CONTROL_REPLY_MAX + HEAD_MAX + 65536);
    TRY(send_line(path, line, deadline_ns, &fd, err));
    TRY(read_all(fd, path, deadline_ns, &all, err));
    return take_head(&all, out, ret_code, err);
}

/* --- the other side, in a loop ------------------------------------------------------------------------------------ */

enum { CONNECT_MS = 100 };

struct ControlCall {
    uv_pipe_t pipe;
    uv_timer_t timer;
    ControlDone done;
    void *self;
    Str all;
    unsigned handles; /* the loop has not closed yet */
};

static void on_call_closed(uv_handle_t *handle)
{
    ControlCall *call = handle->data;

    if (--call->handles > 0)
        return;
    str_done(&call->all);
    free(call);
}

void control_call_cancel(ControlCall *call)
{
    uv_close((uv_handle_t *)&call->pipe, on_call_closed);
    uv_close((uv_handle_t *)&call->timer, on_call_closed);
}

static void end_call(ControlCall *call, int rc, Err *err)
{
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);
    int code;

    if (rc == 0)
        rc = take_head(&call->all, &out, &code, err);
    call->done(call->self, rc, &out, err);
    control_call_cancel(call);
}

static void on_call_timer(uv_timer_t *timer)
{
    Err err;

    end_call(timer->data, err_set(&err, -ETIMEDOUT, "the agent does not answer"), &err);
}

static void give_call_room(uv_handle_t *handle, size_t wanted UNUSED, uv_buf_t *buf)
{
    ControlCall *call = handle->data;
    const bool room = str_reserve(&call->all, 65536);

    *buf = uv_buf_init(room ? call->all.text + call->all.len : NULL, room ? 65536 : 0);
}

static void on_call_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf UNUSED)
{
    ControlCall *call = stream->data;
    Err err = {0};

    if (n > 0) {
        call->all.len += (size_t)n;
        call->all.text[call->all.len] = '\0';
    } else if (n < 0) {
        end_call(call, n == UV_EOF ? 0 : err_set(&err, (int)n, "the agent's answer: %s", uv_strerror((int)n)), &err);
    }
}

int control_call_new(uv_loop_t *loop, const char *path, const char *line, uint64_t timeout_ms, ControlDone done,
                     void *self, ControlCall **ret, Err *err)
{
    CLEANUP_FD int fd = -1;

    TRY(send_line(path, line, clock_monotonic(clock_kernel()) + CONNECT_MS * NS_PER_MS, &fd, err));
    ControlCall *call = xcalloc(1, sizeof *call);
    call->done = done;
    call->self = self;
    str_init(&call->all, CONTROL_REPLY_MAX + HEAD_MAX + 65536);
    uv_pipe_init(loop, &call->pipe, 0);
    uv_timer_init(loop, &call->timer);
    call->pipe.data = call->timer.data = call;
    call->handles = 2;
    uv_timer_start(&call->timer, on_call_timer, timeout_ms, 0);
    const int rc = uv_pipe_open(&call->pipe, fd);
    if (rc < 0) {
        control_call_cancel(call);
        return err_set(err, rc, "read from '%s': %s", path, uv_strerror(rc));
    }
    (void)fd_take(&fd);
    uv_read_start((uv_stream_t *)&call->pipe, give_call_room, on_call_read);
    *ret = call;
    return 0;
}
