/* SPDX-License-Identifier: Apache-2.0 */
/* A call: nghttp2 with one stream, whose first verdict stays; then its pipe and deadline in the loop. A write that
 * fails does not end it, since the answer may already lie in the receive buffer: the end of reading does. */
#include "wire/grpc/grpc.h"

#include <errno.h>
#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/str.h"
#include "wire/grpc/message.h"

enum {
    WINDOW_BYTES = 1 << 20,        /* in flight to us */
    HEADER_LIST_BYTES = 16 * 1024, /* what we tell the server it may send */
    TIMEOUT_MS_MAX = 99999999,     /* a timeout has eight digits */
    TEXT_CAP = 256,
};

struct GrpcExchange {
    nghttp2_session *http2;
    uint8_t *request; /* its message, with the prefix */
    size_t request_len, sent;
    size_t reply_max;

    unsigned http_status;
    bool is_grpc;    /* content-type says so */
    bool has_status; /* grpc-status came */
    GrpcStatus trailer_status;
    char trailer_text[TEXT_CAP];
    Str message;        /* with its prefix */
    char farewell[160]; /* of the server's GOAWAY */

    bool finished;
    GrpcOutcome outcome;
    GrpcStatus status;
    char text[TEXT_CAP];
};

/* -- fields ---------------------------------------------------------------------------------------------------------
 */

const char *grpc_status_name(GrpcStatus status)
{
    static const char *const names[GRPC_STATUS_END] = {
        "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED",
    };

    return status < GRPC_STATUS_END ? names[status] : "UNKNOWN";
}

/* Decodes the percent encoding of grpc-message, cut to `cap`. Bytes that are not printable ASCII become '?', a broken
 * escape stays as it is. */
static void decode_message(const uint8_t *value, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < cap; i++) {
        uint64_t c = value[i], escaped;

        if (c == '%' && i + 2 < len && value[i + 2] != 'x' && value[i + 2] != 'X' &&
            number_parsen_hex((const char *)value + i + 1, 2, 0xff, &escaped, NULL) == 0) {
            c = escaped;
            i += 2;
        }
        out[n++] = c >= ' ' && c <= '~' ? (char)c : '?';
    }
    out[n] = '\0';
}

static bool is_grpc_type(const char *value, size_t len)
{
    static const char type[] = "application/grpc";
    const size_t type_len = sizeof(type) - 1;

    if (len < type_len || strncasecmp(value, type, type_len) != 0)
        return false;
    return len == type_len || value[type_len] == '+' || value[type_len] == ';';
}

static bool read_status(const char *value, size_t len, GrpcStatus *ret)
{
    uint64_t number;

    if (number_parsen_u64(value, len, 0, UINT32_MAX, &number, NULL) < 0)
        return false;
    *ret = number < GRPC_STATUS_END ? (GrpcStatus)number : GRPC_UNKNOWN;
    return true;
}

/* -- the verdict ----------------------------------------------------------------------------------------------------
 */

PRINTF_LIKE(4, 5)
static void finish_with(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *fmt, ...)
{
    va_list args;

    if (exchange->finished)
        return;
    exchange->finished = true;
    exchange->outcome = outcome;
    exchange->status = status;
    va_start(args, fmt);
    vsnprintf(exchange->text, sizeof(exchange->text), fmt, args);
    va_end(args);
}

static void finish_badly(GrpcExchange *exchange, const char *why)
{
    finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "%s", why);
}

void grpc_exchange_finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *text)
{
    finish_with(exchange, outcome, status, "%s", text);
}

void grpc_exchange_closed(GrpcExchange *exchange, const char *why)
{
    finish_with(exchange, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "%s%s%s", why, exchange->farewell[0] ? ": " : "",
                exchange->farewell);
}

/* What is known of the message as soon as its prefix is there. */
static void check_message(GrpcExchange *exchange)
{
    const Str *message = &exchange->message;
    size_t len;

    if (message->len < PREFIX_BYTES)
        return;
    len = announced_length(&exchange->message);
    if (message->text[0] == 1)
        finish_badly(exchange, "the message is compressed");
    else if (message->text[0])
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "a message begins with flag %u",
                    (unsigned char)message->text[0]);
    else if (len > exchange->reply_max)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_RESOURCE_EXHAUSTED, "a message of %zu bytes, and %zu are the most",
                    len, exchange->reply_max);
    else if (message->len - PREFIX_BYTES > len || message->overflow)
        finish_badly(exchange, "more than one message");
}

/* The answer of something that is no gRPC server has no message: it ends with its HTTP status. */
static bool speaks_grpc(const GrpcExchange *exchange)
{
    return exchange->http_status == 200 && exchange->is_grpc;
}

static void finish_reset(GrpcExchange *exchange, uint32_t http2_error)
{
    const char *name = nghttp2_http2_strerror(http2_error);

    if (http2_error == NGHTTP2_REFUSED_STREAM)
        finish_with(exchange, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server turned the call away: %s", name);
    else if (http2_error == NGHTTP2_CANCEL)
        finish_with(exchange, GRPC_UNREACHABLE, GRPC_CANCELLED, "the server dropped the call: %s", name);
    else
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "the stream was reset: %s", name);
}

static void finish_stream(GrpcExchange *exchange)
{
    if (!speaks_grpc(exchange))
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, "no gRPC: HTTP status %u%s", exchange->http_status,
                    exchange->is_grpc ? "" : ", another content-type than application/grpc");
    else if (!exchange->has_status)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, "the reply ends without a grpc-status");
    else if (exchange->trailer_status != GRPC_OK)
        finish_with(exchange, GRPC_ANSWERED, exchange->trailer_status, "%s: %s",
                    grpc_status_name(exchange->trailer_status), exchange->trailer_text);
    else if (!exchange->message.len)
        finish_badly(exchange, "status OK, but no message");
    else if (exchange->message.len < PREFIX_BYTES ||
             exchange->message.len - PREFIX_BYTES != announced_length(&exchange->message))
        finish_badly(exchange, "the message is cut short");
    else
        finish_with(exchange, GRPC_ANSWERED, GRPC_OK, "%s", "");
}

/* -- nghttp2 calls these --------------------------------------------------------------------------------------------
 */

static int on_header(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame UNUSED, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *self)
{
    GrpcExchange *exchange = self;
    const char *text = (const char *)value;
    uint64_t number = 0;

    if (exchange->finished)
        return 0;
    if (is_word(name, name_len, ":status")) {
        /* after an interim answer (1xx) the fields begin anew */
        exchange->http_status = number_parsen_u64(text, value_len, 0, 999, &number, NULL) < 0 ? 0 : (unsigned)number;
        exchange->is_grpc = exchange->has_status = false;
    } else if (is_word(name, name_len, "content-type")) {
        exchange->is_grpc = is_grpc_type(text, value_len);
    } else if (is_word(name, name_len, "grpc-status")) {
        exchange->has_status = read_status(text, value_len, &exchange->trailer_status);
    } else if (is_word(name, name_len, "grpc-message")) {
        decode_message(value, value_len, exchange->trailer_text, sizeof(exchange->trailer_text));
    }
    return 0;
}

static int on_data(nghttp2_session *http2 UNUSED, uint8_t flags UNUSED, int32_t stream UNUSED, const uint8_t *bytes,
                   size_t len, void *self)
{
    GrpcExchange *exchange = self;

    if (exchange->finished || !speaks_grpc(exchange))
        return 0;
    if (exchange->message.len < PREFIX_BYTES) { /* the prefix first: what it announces may be too much */
        size_t more = PREFIX_BYTES - exchange->message.len;

        more = more < len ? more : len;
        str_addn(&exchange->message, (const char *)bytes, more);
        bytes += more;
        len -= more;
        check_message(exchange);
    }
    if (!exchange->finished && len) {
        str_addn(&exchange->message, (const char *)bytes, len);
        check_message(exchange);
    }
    return 0;
}

static int on_frame(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame, void *self)
{
    GrpcExchange *exchange = self;
    char debug[96];

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        decode_message(frame->goaway.opaque_data, frame->goaway.opaque_data_len, debug, sizeof(debug));
        snprintf(exchange->farewell, sizeof(exchange->farewell), "%s%s%s",
                 nghttp2_http2_strerror(frame->goaway.error_code), debug[0] ? ", " : "", debug);
    }
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        finish_stream(exchange);
    return 0;
}

static int on_stream_close(nghttp2_session *http2 UNUSED, int32_t stream UNUSED, uint32_t error, void *self)
{
    GrpcExchange *exchange = self;

    if (error)
        finish_reset(exchange, error);
    else
        finish_stream(exchange);
    return 0;
}

/* The request could not leave any more, because of a GOAWAY. */
static int on_not_sent(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame, int error UNUSED, void *self)
{
    if (frame->hd.type == NGHTTP2_HEADERS)
        finish_reset(self, NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* nghttp2 gives a connection up by a GOAWAY of its own. */
static int on_sent(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame, void *self)
{
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        finish_with(self, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: %s",
                    nghttp2_http2_strerror(frame->goaway.error_code));
    return 0;
}

static ssize_t read_request(nghttp2_session *http2 UNUSED, int32_t stream UNUSED, uint8_t *room, size_t len,
                            uint32_t *flags, nghttp2_data_source *source UNUSED, void *self)
{
    GrpcExchange *exchange = self;
    const size_t left = exchange->request_len - exchange->sent;

    len = len < left ? len : left;
    memcpy(room, exchange->request + exchange->sent, len);
    exchange->sent += len;
    if (exchange->sent == exchange->request_len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* -- the header's functions -----------------------------------------------------------------------------------------
 */

static void open_session(GrpcExchange *exchange)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES},
    };
    nghttp2_session_callbacks *callbacks = NULL;

    check_memory(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    check_memory(nghttp2_session_client_new(&exchange->http2, callbacks, exchange));
    nghttp2_session_callbacks_del(callbacks);
    check_memory(nghttp2_submit_settings(exchange->http2, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)));
    check_memory(nghttp2_session_set_local_window_size(exchange->http2, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES));
}

static void submit_request(GrpcExchange *exchange, const GrpcRequest *request)
{
    const uint64_t timeout_ms = request->timeout_ns / NS_PER_MS + 1; /* never sooner than ours */
    char timeout[NUMBER_U64_MAX + sizeof "m"];
    snprintf(timeout, sizeof(timeout), "%" PRIu64 "m", number_min_u64(timeout_ms, TIMEOUT_MS_MAX));
    const nghttp2_nv fields[] = {
        make_field(":method", "POST"),        make_field(":scheme", "http"),
        make_field(":path", request->method), make_field(":authority", "localhost"), /* gRPC's for a unix socket */
        make_field("te", "trailers"),         make_field("content-type", "application/grpc"),
        make_field("user-agent", "stoker"),   make_field("grpc-timeout", timeout),
    };
    const nghttp2_data_provider body = {.read_callback = read_request};

    check_memory(nghttp2_submit_request(exchange->http2, NULL, fields, ARRAY_LEN(fields), &body, NULL));
}

GrpcExchange *grpc_exchange_new(const GrpcRequest *request)
{
    GrpcExchange *exchange = xcalloc(1, sizeof(*exchange));

    exchange->request_len = PREFIX_BYTES + (size_t)request->len;
    exchange->request = xcalloc(1, exchange->request_len);
    for (int i = 0; i < 4; i++)
        exchange->request[1 + i] = (uint8_t)(request->len >> (24 - 8 * i));
    if (request->len)
        memcpy(exchange->request + PREFIX_BYTES, request->bytes, request->len);
    exchange->reply_max = request->reply_max;
    str_init(&exchange->message, PREFIX_BYTES + request->reply_max);
    open_session(exchange);
    submit_request(exchange, request);
    return exchange;
}

void grpc_exchange_free(GrpcExchange *exchange)
{
    if (!exchange)
        return;
    exchange->finished = true;
    nghttp2_session_del(exchange->http2);
    str_done(&exchange->message);
    free(exchange->request);
    free(exchange);
}

void grpc_exchange_receive(GrpcExchange *exchange, const uint8_t *bytes, size_t len)
{
    const ssize_t rc = nghttp2_session_mem_recv(exchange->http2, bytes, len);

    if (rc < 0)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: %s", nghttp2_strerror((int)rc));
}

size_t grpc_exchange_send(GrpcExchange *exchange, const uint8_t **ret_bytes)
{
    const ssize_t rc = nghttp2_session_mem_send(exchange->http2, ret_bytes);

    if (rc < 0)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: %s", nghttp2_strerror((int)rc));
    else if (!rc && !nghttp2_session_want_read(exchange->http2))
        grpc_exchange_closed(exchange, "the connection is over");
    return rc < 0 ? 0 : (size_t)rc;
}

bool grpc_exchange_reply(const GrpcExchange *exchange, GrpcReply *ret)
{
    if (!exchange->finished)
        return false;
    *ret = (GrpcReply){.outcome = exchange->outcome, .status = exchange->status, .text = exchange->text};
    if (exchange->outcome == GRPC_ANSWERED && exchange->status == GRPC_OK) {
        ret->bytes = (const uint8_t *)exchange->message.text + PREFIX_BYTES;
        ret->len = exchange->message.len - PREFIX_BYTES;
    }
    return true;
}

/* -- the socket -----------------------------------------------------------------------------------------------------
 */

enum { READ_BYTES = 16 * 1024 };
#define BUSY_WAIT_NS (50 * NS_PER_MS) /* before the next connect to a full listener */

struct GrpcCall {
    uv_timer_t timer;
    uv_pipe_t pipe;
    uv_write_t write;
    bool connected, writing, write_failed;
    struct sockaddr_un address;
    uint64_t timeout_ns, deadline_ns;
    GrpcExchange *exchange; /* NULL: over */
    GrpcDone done;
    void *self;
    unsigned handles; /* the loop has not closed yet */
    char room[READ_BYTES];
};

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

    if (--call->handles == 0)
        free(call);
}

void grpc_call_cancel(GrpcCall *call)
{
    uv_close((uv_handle_t *)&call->timer, on_handle_closed);
    uv_close((uv_handle_t *)&call->pipe, on_handle_closed);
    grpc_exchange_free(TAKE(call->exchange));
}

static void on_written(uv_write_t *write, int status);

/* Delivers the reply if there is one, else sends what there is to send, a piece at a time. */
static void advance_call(GrpcCall *call)
{
    const uint8_t *out;
    GrpcReply reply;
    size_t len = 0;

    if (!call->writing && !call->write_failed && !grpc_exchange_reply(call->exchange, &reply))
        len = grpc_exchange_send(call->exchange, &out);
    if (grpc_exchange_reply(call->exchange, &reply)) {
        call->done(call->self, &reply);
        grpc_call_cancel(call);
    } else if (len) {
        uv_buf_t piece = uv_buf_init((char *)(uintptr_t)out, (unsigned)len);

        call->writing = uv_write(&call->write, (uv_stream_t *)&call->pipe, &piece, 1, on_written) == 0;
        call->write_failed = !call->writing;
    }
}

static void on_written(uv_write_t *write, int status)
{
    GrpcCall *call = write->handle->data;

    call->writing = false;
    call->write_failed = status < 0;
    if (call->exchange)
        advance_call(call);
}

static void give_room(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buf)
{
    GrpcCall *call = handle->data;

    *buf = uv_buf_init(call->room, sizeof(call->room));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    GrpcCall *call = stream->data;

    if (len >= 0)
        grpc_exchange_receive(call->exchange, (const uint8_t *)buf->base, (size_t)len);
    else if (len == UV_EOF || len == UV_ECONNRESET) /* which only says that it did not read all */
        grpc_exchange_closed(call->exchange, "the server closed the connection");
    else
        grpc_exchange_closed(call->exchange, uv_strerror((int)len));
    advance_call(call);
}

/* Not uv_pipe_connect: that does not tell a full listener from any other failure. */
static int open_socket(GrpcCall *call, Err *err)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return err_errno(err, "socket");
    if (connect(fd, (const struct sockaddr *)&call->address, sizeof(call->address)) < 0)
        return err_errno(err, "connect to '%s'", call->address.sun_path);
    rc = uv_pipe_open(&call->pipe, fd);
    if (rc < 0)
        return err_set(err, rc, "read from '%s': %s", call->address.sun_path, uv_strerror(rc));
    (void)fd_take(&fd);
    uv_read_start((uv_stream_t *)&call->pipe, give_room, on_read);
    call->connected = true;
    return 0;
}

static void on_timer(uv_timer_t *timer);

static void arm_timer(GrpcCall *call, uint64_t at, uint64_t now)
{
    uv_update_time(call->timer.loop);
    uv_timer_start(&call->timer, on_timer, at <= now ? 0 : (at - now + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void connect_call(GrpcCall *call, uint64_t now)
{
    Err err = {0};
    const int rc = open_socket(call, &err);

    arm_timer(call, rc == -EAGAIN ? number_min_u64(call->deadline_ns, now + BUSY_WAIT_NS) : call->deadline_ns, now);
    if (rc < 0 && rc != -EAGAIN)
        grpc_exchange_finish(call->exchange, rc == -ENOENT || rc == -ENOTDIR ? GRPC_NO_SOCKET : GRPC_UNREACHABLE,
                             GRPC_UNAVAILABLE, err.text);
    if (rc != -EAGAIN)
        advance_call(call);
}

static void time_out(GrpcCall *call)
{
    char duration[DURATION_TEXT_MAX], text[DURATION_TEXT_MAX + 32];

    duration_format(duration, call->timeout_ns);
    snprintf(text, sizeof(text), "%s within %s", call->connected ? "no answer" : "no connection", duration);
    grpc_exchange_finish(call->exchange, GRPC_TIMED_OUT, GRPC_DEADLINE_EXCEEDED, text);
    advance_call(call);
}

static void on_timer(uv_timer_t *timer)
{
    GrpcCall *call = timer->data;
    const uint64_t now = uv_hrtime();

    if (now >= call->deadline_ns)
        time_out(call);
    else if (call->connected)
        arm_timer(call, call->deadline_ns, now);
    else
        connect_call(call, now);
}

GrpcCall *grpc_call_new(uv_loop_t *loop, const char *socket, const GrpcRequest *request, GrpcDone done, void *self)
{
    GrpcCall *call = xcalloc(1, sizeof(*call));
    const uint64_t now = uv_hrtime();

    call->done = done;
    call->self = self;
    call->address.sun_family = AF_UNIX;
    snprintf(call->address.sun_path, sizeof(call->address.sun_path), "%s", socket);
    call->timeout_ns = request->timeout_ns;
    call->deadline_ns = request->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + request->timeout_ns;
    call->exchange = grpc_exchange_new(request);
    uv_timer_init(loop, &call->timer);
    uv_pipe_init(loop, &call->pipe, 0);
    call->timer.data = call->pipe.data = call;
    call->handles = 2;
    arm_timer(call, now, now);
    return call;
}
