/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange on a socket in the loop. A write that fails does not end it, since the answer may already lie in the
 * receive buffer: the end of reading does.
 */
#include "wire/grpc/call.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"

/* A server that sends without end lets the rest of the loop run after each READS buffers. */
enum { READ_BYTES = 16 * 1024, READS = 16 };
#define BUSY_WAIT_NS (50 * NS_PER_MS) /* before the next connect to a full listener */

struct GrpcCall {
    uv_timer_t timer;
    uv_poll_t poll;
    int fd;     /* -1: not connected */
    int events; /* polled for */
    bool write_failed;
    struct sockaddr_un address;
    char *method;
    uint8_t *bytes;
    uint64_t timeout_ns, deadline_ns;
    GrpcExchange *exchange;
    const uint8_t *out; /* of the exchange, not sent yet */
    size_t out_len;
    GrpcDone done;
    void *self;
    unsigned handles; /* the loop has not closed yet */
};

static const char closed[] = "the server closed the connection";

int grpc_check_socket(const char *path, Err *err)
{
    if (!path[0])
        return err_set(err, -EINVAL, "an empty socket path");
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", path);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    GrpcCall *call = handle->data;

    if (--call->handles)
        return;
    free(call->method);
    free(call->bytes);
    free(call);
}

static void close_call(GrpcCall *call)
{
    uv_close((uv_handle_t *)&call->timer, on_handle_closed);
    if (call->fd >= 0)
        uv_close((uv_handle_t *)&call->poll, on_handle_closed);
    fd_close(&call->fd);
    grpc_exchange_free(TAKE(call->exchange));
}

void grpc_call_cancel(GrpcCall *call)
{
    close_call(call);
}

/* Delivers the reply if there is one. */
static bool deliver_reply(GrpcCall *call)
{
    GrpcReply reply;

    if (!grpc_exchange_reply(call->exchange, &reply))
        return false;
    uv_timer_stop(&call->timer);
    if (call->fd >= 0)
        uv_poll_stop(&call->poll);
    call->done(call->self, &reply);
    close_call(call);
    return true;
}

static void read_socket(GrpcCall *call, int reads)
{
    uint8_t bytes[READ_BYTES];
    GrpcReply reply;

    for (int i = 0; i < reads && !grpc_exchange_reply(call->exchange, &reply); i++) {
        ssize_t len = recv(call->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (len < 0 && errno != ECONNRESET) /* which only says that it did not read all */
            grpc_exchange_closed(call->exchange, strerror(errno));
        else if (len <= 0)
            grpc_exchange_closed(call->exchange, closed);
        else
            grpc_exchange_receive(call->exchange, bytes, (size_t)len);
    }
}

/* Sends the rest of the last piece. False if the socket is full or dead. */
static bool send_piece(GrpcCall *call)
{
    while (call->out_len && !call->write_failed) {
        ssize_t len = send(call->fd, call->out, call->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return false;
        if (len < 0)
            call->write_failed = true;
        else
            call->out += len, call->out_len -= (size_t)len;
    }
    return !call->write_failed;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Sends what the socket takes, and delivers the reply or waits for more. */
static void advance_call(GrpcCall *call)
{
    GrpcReply reply;
    int events;

    while (!grpc_exchange_reply(call->exchange, &reply) && send_piece(call)) {
        call->out_len = grpc_exchange_send(call->exchange, &call->out);
        if (!call->out_len)
            break;
    }
    if (deliver_reply(call))
        return;
    events = call->out_len && !call->write_failed ? UV_READABLE | UV_WRITABLE : UV_READABLE;
    if (events != call->events)
        uv_poll_start(&call->poll, events, on_poll);
    call->events = events;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    GrpcCall *call = poll->data;

    (void)events;
    if (status < 0) { /* the socket has an error, and libuv polls no more: read the rest of what the server sent */
        read_socket(call, INT_MAX);
        grpc_exchange_closed(call->exchange, closed);
    } else {
        read_socket(call, READS);
    }
    advance_call(call);
}

static int open_socket(GrpcCall *call, Err *err)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return err_errno(err, "socket");
    if (connect(fd, (const struct sockaddr *)&call->address, sizeof(call->address)) < 0)
        return err_errno(err, "connect to '%s'", call->address.sun_path);
    rc = uv_poll_init(call->timer.loop, &call->poll, fd);
    if (rc < 0)
        return err_set(err, rc, "poll '%s': %s", call->address.sun_path, uv_strerror(rc));
    call->poll.data = call;
    call->handles++;
    call->fd = fd_take(&fd);
    return 0;
}

static void arm_timer(GrpcCall *call, uint64_t at);

static void connect_call(GrpcCall *call, uint64_t now)
{
    Err err = {0};
    int rc = open_socket(call, &err);

    if (rc == -EAGAIN) {
        arm_timer(call, number_min_u64(call->deadline_ns, now + BUSY_WAIT_NS));
        return;
    }
    if (rc < 0) {
        grpc_exchange_finish(call->exchange, rc == -ENOENT || rc == -ENOTDIR ? GRPC_NO_SOCKET : GRPC_UNREACHABLE,
                             GRPC_UNAVAILABLE, err.text);
        deliver_reply(call);
        return;
    }
    arm_timer(call, call->deadline_ns);
    advance_call(call);
}

static void on_timer(uv_timer_t *timer)
{
    GrpcCall *call = timer->data;
    char duration[DURATION_TEXT_MAX], text[DURATION_TEXT_MAX + 32];
    const uint64_t now = uv_hrtime();

    if (now < call->deadline_ns && call->fd < 0) {
        connect_call(call, now);
    } else if (now < call->deadline_ns) {
        arm_timer(call, call->deadline_ns);
    } else {
        duration_format(duration, call->timeout_ns);
        snprintf(text, sizeof(text), "%s within %s", call->fd >= 0 ? "no answer" : "no connection", duration);
        grpc_exchange_finish(call->exchange, GRPC_TIMED_OUT, GRPC_DEADLINE_EXCEEDED, text);
        deliver_reply(call);
    }
}

static void arm_timer(GrpcCall *call, uint64_t at)
{
    const uint64_t now = uv_hrtime();

    uv_update_time(call->timer.loop);
    uv_timer_start(&call->timer, on_timer, at <= now ? 0 : (at - now + NS_PER_MS - 1) / NS_PER_MS, 0);
}

GrpcCall *grpc_call_new(uv_loop_t *loop, const char *socket, const GrpcRequest *request, GrpcDone done, void *self)
{
    GrpcCall *call = xcalloc(1, sizeof(*call));
    GrpcRequest own = *request;
    const uint64_t now = uv_hrtime();

    call->fd = -1;
    call->done = done;
    call->self = self;
    call->address.sun_family = AF_UNIX;
    snprintf(call->address.sun_path, sizeof(call->address.sun_path), "%s", socket);
    own.method = call->method = xstrdup(request->method);
    own.bytes = call->bytes = xmalloc((size_t)request->len + 1);
    if (request->len)
        memcpy(call->bytes, request->bytes, request->len);
    call->timeout_ns = request->timeout_ns;
    call->deadline_ns = request->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + request->timeout_ns;
    call->exchange = grpc_exchange_new(&own);
    uv_timer_init(loop, &call->timer);
    call->timer.data = call;
    call->handles = 1;
    arm_timer(call, now);
    return call;
}
