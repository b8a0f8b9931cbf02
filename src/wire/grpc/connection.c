/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a socket. A write that fails does not end the connection, since the answer may already lie in the
 * receive buffer: the end of reading does.
 */
#include "wire/grpc/connection.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/owner.h"

/* A server that sends without end lets the rest of the loop run after each READS buffers. */
enum { READ_BYTES = 16 * 1024, READS = 16 };

static const char closed[] = "the server closed the connection";

struct GrpcConnection {
    uv_poll_t poll;
    int fd;
    int events; /* polled for */
    GrpcConnectionConfig config;
    GrpcSession *session;
    const uint8_t *out; /* of the session, not sent yet */
    size_t out_len;
    bool deaf; /* the server takes no more bytes */
    bool ended;
    GrpcOutcome outcome; /* of what ended it */
    char text[GRPC_TEXT_CAP];
};

static int connect_socket(const char *path, int *ret_fd, Err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP_FD int fd = -1;

    if (strlen(path) >= sizeof(address.sun_path))
        return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, "socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return err_errno(err, "connect to '%s'", path);
    *ret_fd = owner_take_fd(&fd);
    return 0;
}

static void end(GrpcConnection *connection, GrpcOutcome outcome, const char *text)
{
    if (connection->ended)
        return;
    connection->ended = true;
    connection->outcome = outcome;
    grpc_text_join(connection->text, text, "");
    grpc_session_end(connection->session, outcome, connection->text);
}

static void end_of_reading(GrpcConnection *connection, const char *why)
{
    const char *farewell = grpc_session_farewell(connection->session);
    char text[GRPC_TEXT_CAP];

    grpc_text_join(text, why, farewell[0] ? ": " : "");
    grpc_text_join(text, text, farewell);
    end(connection, GRPC_UNREACHABLE, text);
}

static void read_socket(GrpcConnection *connection, int reads)
{
    uint8_t bytes[READ_BYTES];

    for (int i = 0; i < reads && !connection->ended; i++) {
        ssize_t len = recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        Err err = {0};

        if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (len < 0 && errno != ECONNRESET) /* which only says that it did not read all */
            end_of_reading(connection, strerror(errno));
        else if (len <= 0)
            end_of_reading(connection, closed);
        else if (grpc_session_receive(connection->session, bytes, (size_t)len, &err) < 0)
            end(connection, GRPC_BAD_REPLY, err.text);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    GrpcConnection *connection = poll->data;

    (void)events;
    if (status < 0) { /* the socket has an error, and libuv looks no more: the rest of what the server sent, and out */
        read_socket(connection, INT_MAX);
        end_of_reading(connection, closed);
    } else {
        read_socket(connection, READS);
    }
    grpc_connection_flush(connection);
    connection->config.on_change(connection->config.self);
}

/* Sends the rest of the last piece. False where the socket is full or dead. */
static bool send_piece(GrpcConnection *connection)
{
    while (connection->out_len && !connection->deaf) {
        ssize_t len = send(connection->fd, connection->out, connection->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return false;
        if (len < 0)
            connection->deaf = true;
        else
            connection->out += len, connection->out_len -= (size_t)len;
    }
    return !connection->deaf;
}

static void poll_for(GrpcConnection *connection, int events)
{
    int rc;

    if (connection->events == events)
        return;
    connection->events = events;
    rc = uv_poll_start(&connection->poll, events, on_poll);
    if (rc < 0)
        end_of_reading(connection, uv_strerror(rc));
}

void grpc_connection_flush(GrpcConnection *connection)
{
    Err err = {0};

    while (!connection->ended && send_piece(connection)) {
        if (grpc_session_send(connection->session, &connection->out, &connection->out_len, &err) < 0)
            end(connection, GRPC_BAD_REPLY, err.text);
        else if (!connection->out_len)
            break;
    }
    if (!connection->ended && grpc_session_is_over(connection->session))
        end_of_reading(connection, "the connection is over");
    if (!connection->ended)
        poll_for(connection, connection->out_len && !connection->deaf ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

int grpc_connection_open(uv_loop_t *loop, const GrpcConnectionConfig *config, GrpcConnection **ret, Err *err)
{
    CLEANUP_FREE GrpcConnection *connection = NULL;
    CLEANUP_FD int fd = -1;
    int rc;

    TRY(connect_socket(config->path, &fd, err));
    connection = xcalloc(1, sizeof(*connection));
    rc = uv_poll_init(loop, &connection->poll, fd);
    if (rc < 0)
        return err_set(err, rc, "poll '%s': %s", config->path, uv_strerror(rc));
    connection->poll.data = connection;
    connection->config = *config;
    connection->fd = owner_take_fd(&fd);
    connection->session = grpc_session_new(&config->session);
    *ret = TAKE(connection);
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    GrpcConnection *connection = handle->data;
    GrpcConnectionConfig config = connection->config;

    free(connection);
    config.on_freed(config.self);
}

void grpc_connection_close(GrpcConnection *connection, GrpcOutcome outcome, const char *text)
{
    end(connection, outcome, text);
    grpc_session_free(TAKE(connection->session));
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    owner_close(&connection->fd);
}

GrpcSession *grpc_connection_session(GrpcConnection *connection)
{
    return connection->session;
}

bool grpc_connection_ended(const GrpcConnection *connection, GrpcOutcome *ret_outcome, const char **ret_text)
{
    if (!connection->ended)
        return false;
    *ret_outcome = connection->outcome;
    *ret_text = connection->text;
    return true;
}
