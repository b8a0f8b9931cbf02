/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: nghttp2 with a record per call; then sockets in the loop. nghttp2's own check of headers is off, since
 * clients of Go send the path of a socket as :authority, which it refuses. */
#include "wire/grpc/server.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/number.h"
#include "base/str.h"
#include "wire/grpc/message.h"

enum { TEXT_MAX = 1024, ESCAPED_MAX = 3 * TEXT_MAX, BACKLOG = 16, READ_BYTES = 16 * 1024 };

struct GrpcStream {
    GrpcPeer *peer;
    GrpcStream *next, **link; /* among the peer's */
    int32_t id;
    const GrpcMethod *method; /* NULL: there is no such */
    bool is_grpc, called, refused, replied, ended;
    Str request; /* with its prefix */
    Str out;     /* the message that is being sent, with its prefix */
    size_t sent;
    Str waiting; /* the next one; empty: none */
    GrpcStatus status;
    char text[ESCAPED_MAX + 1]; /* as it is sent */
};

struct GrpcPeer {
    nghttp2_session *http2;
    const GrpcMethod *methods;
    size_t count;
    void *self;
    size_t *held;
    void (*wake)(void *waker);
    void *waker;
    GrpcStream *streams;
    bool silent; /* the methods are told nothing any more */
};

/* -- one call --------------------------------------------------------------------------------------------------------
 */

static void drop_request(GrpcStream *stream)
{
    *stream->peer->held -= stream->request.len;
    str_done(&stream->request);
}

static void free_stream(GrpcStream *stream)
{
    GrpcPeer *peer = stream->peer;

    drop_request(stream);
    if (stream->called && !stream->ended && stream->method->gone && !peer->silent)
        stream->method->gone(peer->self, stream);
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    str_done(&stream->out);
    str_done(&stream->waiting);
    free(stream);
}

static GrpcStream *add_stream(GrpcPeer *peer, int32_t id)
{
    GrpcStream *stream = xcalloc(1, sizeof *stream);

    stream->peer = peer;
    stream->id = id;
    stream->next = peer->streams;
    stream->link = &peer->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    peer->streams = stream;
    str_init(&stream->request, PREFIX_BYTES + GRPC_SERVER_REQUEST_MAX);
    str_init(&stream->out, SIZE_MAX - 1);
    str_init(&stream->waiting, SIZE_MAX - 1);
    return stream;
}

/* The percent encoding of grpc-message; what is too long is cut. */
static void encode_text(const char *text, char out[ESCAPED_MAX + 1])
{
    size_t n = 0;

    for (const char *at = text; *at && n + 3 <= ESCAPED_MAX; at++) {
        const unsigned char c = (unsigned char)*at;

        if (c >= ' ' && c <= '~' && c != '%')
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, ESCAPED_MAX + 1 - n, "%%%02X", c);
    }
    out[n] = '\0';
}

static void submit_trailer(GrpcStream *stream, bool alone)
{
    char status[16];

    snprintf(status, sizeof status, "%d", (int)stream->status);
    const nghttp2_nv fields[] = {make_field(":status", "200"), make_field("content-type", "application/grpc"),
                                 make_field("grpc-status", status), make_field("grpc-message", stream->text)};
    const size_t from = alone ? 0 : 2, count = (stream->text[0] ? 4 : 3) - from;

    if (alone)
        check_memory(nghttp2_submit_response(stream->peer->http2, stream->id, fields, count, NULL));
    else
        check_memory(nghttp2_submit_trailer(stream->peer->http2, stream->id, fields + from, count));
}

/* nghttp2 asks for what is to be sent next. */
static ssize_t read_reply(nghttp2_session *http2, int32_t id, uint8_t *room, size_t len, uint32_t *flags,
                          nghttp2_data_source *source UNUSED, void *self UNUSED)
{
    GrpcStream *stream = nghttp2_session_get_stream_user_data(http2, id);

    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (stream->sent == stream->out.len && stream->waiting.len) {
        const Str done = stream->out;

        stream->out = stream->waiting;
        stream->waiting = done;
        stream->sent = 0;
        str_clear(&stream->waiting);
    }
    len = len < stream->out.len - stream->sent ? len : stream->out.len - stream->sent;
    if (len == 0 && !stream->ended)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(room, stream->out.text + stream->sent, len);
    stream->sent += len;
    if (stream->ended && stream->sent == stream->out.len && !stream->waiting.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailer(stream, false);
    }
    return (ssize_t)len;
}

void grpc_stream_send(GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    static const nghttp2_data_provider body = {.read_callback = read_reply};
    const nghttp2_nv fields[] = {make_field(":status", "200"), make_field("content-type", "application/grpc")};
    const char prefix[PREFIX_BYTES] = {0, (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};

    str_clear(&stream->waiting);
    str_addn(&stream->waiting, prefix, sizeof prefix);
    str_addn(&stream->waiting, (const char *)bytes, len);
    if (stream->replied)
        (void)nghttp2_session_resume_data(stream->peer->http2, stream->id); /* fails where it is not deferred */
    else
        check_memory(nghttp2_submit_response(stream->peer->http2, stream->id, fields, ARRAY_LEN(fields), &body));
    stream->replied = true;
    stream->peer->wake(stream->peer->waker);
}

void grpc_stream_end(GrpcStream *stream, GrpcStatus status, const char *text)
{
    stream->ended = true;
    stream->status = status;
    encode_text(text, stream->text);
    if (stream->replied)
        (void)nghttp2_session_resume_data(stream->peer->http2, stream->id);
    else
        submit_trailer(stream, true);
    stream->peer->wake(stream->peer->waker);
}

/* -- a request -------------------------------------------------------------------------------------------------------
 */

static void refuse_call(GrpcStream *stream, GrpcStatus status, const char *text)
{
    if (stream->called || stream->refused)
        return;
    stream->refused = true;
    drop_request(stream);
    grpc_stream_end(stream, status, text);
}

static void call_method(GrpcStream *stream)
{
    const Str *request = &stream->request;

    if (stream->refused || stream->called)
        return;
    if (!stream->is_grpc)
        refuse_call(stream, GRPC_INTERNAL, "the content-type is not application/grpc");
    else if (!stream->method)
        refuse_call(stream, GRPC_UNIMPLEMENTED, "this server has no such method");
    else if (request->len < PREFIX_BYTES || announced_length(request) != request->len - PREFIX_BYTES)
        refuse_call(stream, GRPC_INTERNAL, "the request is not one whole message");
    else if (request->text[0])
        refuse_call(stream, GRPC_UNIMPLEMENTED, "the request is compressed");
    else {
        stream->called = true;
        stream->method->call(stream->peer->self, stream, (const uint8_t *)request->text + PREFIX_BYTES,
                             request->len - PREFIX_BYTES);
    }
}

static int on_begin(nghttp2_session *http2, const nghttp2_frame *frame, void *self)
{
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data(http2, frame->hd.stream_id, add_stream(self, frame->hd.stream_id));
    return 0;
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *self)
{
    static const char type[] = "application/grpc";
    GrpcStream *stream = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
    const GrpcPeer *peer = self;

    if (!stream)
        return 0;
    if (is_word(name, name_len, ":path")) {
        for (size_t i = 0; i < peer->count; i++)
            if (is_word(value, value_len, peer->methods[i].path))
                stream->method = &peer->methods[i];
    } else if (is_word(name, name_len, "content-type")) {
        stream->is_grpc = value_len >= sizeof type - 1 && memcmp(value, type, sizeof type - 1) == 0;
    }
    return 0;
}

static int on_data(nghttp2_session *http2, uint8_t flags UNUSED, int32_t id, const uint8_t *bytes, size_t len,
                   void *self)
{
    GrpcStream *stream = nghttp2_session_get_stream_user_data(http2, id);
    const GrpcPeer *peer = self;

    if (!stream || stream->called || stream->refused)
        return 0;
    if (stream->request.len + len > PREFIX_BYTES + GRPC_SERVER_REQUEST_MAX ||
        *peer->held + len > GRPC_SERVER_HELD_MAX) {
        refuse_call(stream, GRPC_RESOURCE_EXHAUSTED, "the request is too large");
        return 0;
    }
    str_addn(&stream->request, (const char *)bytes, len);
    *peer->held += len;
    return 0;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *self UNUSED)
{
    GrpcStream *stream = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);

    if (stream && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        call_method(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *http2, int32_t id, uint32_t error UNUSED, void *self UNUSED)
{
    GrpcStream *stream = nghttp2_session_get_stream_user_data(http2, id);

    if (stream)
        free_stream(stream);
    return 0;
}

/* -- a connection ----------------------------------------------------------------------------------------------------
 */

GrpcPeer *grpc_peer_new(const GrpcMethod *methods, size_t count, void *self, size_t *held, void (*wake)(void *waker),
                        void *waker)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_SERVER_CALLS}};
    GrpcPeer *peer = xcalloc(1, sizeof *peer);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;

    *peer = (GrpcPeer){.methods = methods, .count = count, .self = self, .held = held, .wake = wake, .waker = waker};
    check_memory(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    check_memory(nghttp2_option_new(&option));
    nghttp2_option_set_no_http_messaging(option, 1);
    check_memory(nghttp2_session_server_new2(&peer->http2, callbacks, peer, option));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    check_memory(nghttp2_submit_settings(peer->http2, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)));
    return peer;
}

void grpc_peer_free(GrpcPeer *peer)
{
    if (!peer)
        return;
    while (peer->streams)
        free_stream(peer->streams);
    nghttp2_session_del(peer->http2);
    free(peer);
}

void grpc_peer_drop(GrpcPeer *peer)
{
    peer->silent = true;
    grpc_peer_free(peer);
}

bool grpc_peer_receive(GrpcPeer *peer, const uint8_t *bytes, size_t len)
{
    return nghttp2_session_mem_recv(peer->http2, bytes, len) >= 0;
}

ssize_t grpc_peer_send(GrpcPeer *peer, const uint8_t **ret_bytes)
{
    const ssize_t len = nghttp2_session_mem_send(peer->http2, ret_bytes);

    return len == 0 && !nghttp2_session_want_read(peer->http2) && !nghttp2_session_want_write(peer->http2) ? -1 : len;
}

/* -- sockets ---------------------------------------------------------------------------------------------------------
 */

typedef struct Client {
    GrpcServer *server;
    uv_pipe_t pipe;
    uv_write_t write;
    GrpcPeer *peer; /* NULL: it is closed */
    bool writing, receiving;
    char room[READ_BYTES];
} Client;

struct GrpcServer {
    uv_pipe_t listener;
    struct sockaddr_un address;
    dev_t device;
    ino_t inode; /* of the socket file */
    const GrpcMethod *methods;
    size_t count;
    void *self;
    size_t held;
    Client *clients[GRPC_SERVER_CLIENTS];
    unsigned handles; /* the loop has not closed yet */
};

static void release_server(GrpcServer *server)
{
    if (--server->handles == 0)
        free(server);
}

static void on_client_closed(uv_handle_t *handle)
{
    Client *client = handle->data;

    release_server(client->server);
    free(client);
}

static void close_client(Client *client, void (*end)(GrpcPeer *peer))
{
    for (size_t i = 0; i < GRPC_SERVER_CLIENTS; i++)
        if (client->server->clients[i] == client)
            client->server->clients[i] = NULL;
    end(TAKE(client->peer));
    uv_close((uv_handle_t *)&client->pipe, on_client_closed);
}

static void on_written(uv_write_t *write, int status);

/* Sends a piece at a time: a client that does not read holds no more than that. False: it is over. */
static bool send_piece(Client *client)
{
    const uint8_t *out;

    if (client->writing || client->receiving)
        return true;
    const ssize_t len = grpc_peer_send(client->peer, &out);
    if (len <= 0)
        return len == 0;
    const uv_buf_t piece = uv_buf_init((char *)(uintptr_t)out, (unsigned)len);
    client->writing = uv_write(&client->write, (uv_stream_t *)&client->pipe, &piece, 1, on_written) == 0;
    return client->writing;
}

static void on_written(uv_write_t *write, int status)
{
    Client *client = write->handle->data;

    client->writing = false;
    if (!client->peer)
        return;
    if (status < 0 || !send_piece(client))
        close_client(client, grpc_peer_free);
}

/* Called by who holds a stream of it: it is not closed here, but when reading ends. */
static void wake_client(void *waker)
{
    Client *client = waker;

    if (client->peer)
        (void)send_piece(client);
}

static void give_room(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buf)
{
    Client *client = handle->data;

    *buf = uv_buf_init(client->room, sizeof client->room);
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    Client *client = stream->data;

    client->receiving = true;
    const bool fine = len >= 0 && grpc_peer_receive(client->peer, (const uint8_t *)buf->base, (size_t)len);
    client->receiving = false;
    if (!fine || !send_piece(client))
        close_client(client, grpc_peer_free);
}

static void on_connection(uv_stream_t *listener, int status)
{
    GrpcServer *server = listener->data;
    Client *client = xcalloc(1, sizeof *client);
    size_t place = 0;

    client->server = server;
    uv_pipe_init(listener->loop, &client->pipe, 0);
    client->pipe.data = client;
    server->handles++;
    while (place < GRPC_SERVER_CLIENTS && server->clients[place])
        place++;
    if (status < 0 || uv_accept(listener, (uv_stream_t *)&client->pipe) < 0 || place == GRPC_SERVER_CLIENTS) {
        uv_close((uv_handle_t *)&client->pipe, on_client_closed);
        return;
    }
    server->clients[place] = client;
    client->peer = grpc_peer_new(server->methods, server->count, server->self, &server->held, wake_client, client);
    server->clients[place] = client;
    uv_read_start((uv_stream_t *)&client->pipe, give_room, on_read);
    if (!send_piece(client))
        close_client(client, grpc_peer_free);
}

/* Not uv_pipe_bind: at its close libuv removes whatever file has the name then. */
static int open_listener(GrpcServer *server, uv_loop_t *loop, Err *err)
{
    const char *path = server->address.sun_path;
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (fd < 0)
        return err_errno(err, "socket");
    TRY(file_remove_socket(path, err));
    if (bind(fd, (const struct sockaddr *)&server->address, sizeof server->address) < 0 || lstat(path, &st) < 0)
        return err_errno(err, "listen on '%s'", path);
    server->device = st.st_dev;
    server->inode = st.st_ino;
    uv_pipe_init(loop, &server->listener, 0);
    server->listener.data = server;
    server->handles = 1;
    int rc = uv_pipe_open(&server->listener, fd);
    if (rc == 0) {
        (void)fd_take(&fd);
        rc = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    }
    return rc < 0 ? err_set(err, rc, "listen on '%s': %s", path, uv_strerror(rc)) : 0;
}

int grpc_server_new(uv_loop_t *loop, const char *socket, const GrpcMethod *methods, size_t count, void *self,
                    GrpcServer **ret, Err *err)
{
    TRY(grpc_check_socket(socket, err));
    GrpcServer *server = xcalloc(1, sizeof *server);

    server->methods = methods;
    server->count = count;
    server->self = self;
    server->address.sun_family = AF_UNIX;
    snprintf(server->address.sun_path, sizeof server->address.sun_path, "%s", socket);
    const int rc = open_listener(server, loop, err);
    if (rc < 0 && server->handles)
        grpc_server_close(server);
    else if (rc < 0)
        free(server);
    else
        *ret = server;
    return rc;
}

bool grpc_server_is_there(const GrpcServer *server)
{
    struct stat st;

    return lstat(server->address.sun_path, &st) == 0 && st.st_dev == server->device && st.st_ino == server->inode;
}

static void on_listener_closed(uv_handle_t *handle)
{
    release_server(handle->data);
}

void grpc_server_close(GrpcServer *server)
{
    if (!server)
        return;
    if (grpc_server_is_there(server))
        (void)unlink(server->address.sun_path);
    for (size_t i = 0; i < GRPC_SERVER_CLIENTS; i++)
        if (server->clients[i])
            close_client(server->clients[i], grpc_peer_drop);
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
}
