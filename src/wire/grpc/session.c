/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nghttp2 glued to exchanges. An exchange is found by its stream number, never by a pointer inside nghttp2, so that a
 * cancelled one cannot be touched again. Invariant: `calls` holds exactly the exchanges that are not finished.
 */
#include "wire/grpc/session.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/vec.h"
#include "wire/grpc/field.h"

enum {
    WINDOW_BYTES = 1 << 20,        /* in flight to us, of a stream and of the connection */
    HEADER_LIST_BYTES = 16 * 1024, /* what we tell the server it may send */
    FAREWELL_CAP = 160,
};

struct GrpcSession {
    nghttp2_session *http2;
    GrpcSessionConfig config;
    VEC(GrpcExchange *) calls;
    bool going;          /* GOAWAY came, or there are no more stream numbers */
    uint32_t our_goaway; /* the error code with which nghttp2 gave the connection up */
    char farewell[FAREWELL_CAP];
};

static GrpcExchange *find(const GrpcSession *session, int32_t stream)
{
    for (size_t i = 0; i < session->calls.len; i++) {
        if (session->calls.at[i]->stream == stream)
            return session->calls.at[i];
    }
    return NULL;
}

static void forget(GrpcSession *session, const GrpcExchange *exchange)
{
    for (size_t i = 0; i < session->calls.len; i++) {
        if (session->calls.at[i] == exchange) {
            vec_remove(&session->calls, i);
            return;
        }
    }
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *self)
{
    GrpcExchange *exchange = find(self, frame->hd.stream_id);

    (void)http2, (void)flags;
    if (exchange)
        grpc_exchange_field(exchange, (const char *)name, name_len, (const char *)value, value_len);
    return 0;
}

/* Ends the stream as well where the server has ended only its half. */
static void reset(GrpcSession *session, int32_t stream)
{
    (void)nghttp2_submit_rst_stream(session->http2, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
}

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len, void *self)
{
    GrpcExchange *exchange = find(self, stream);

    (void)http2, (void)flags;
    if (exchange && grpc_exchange_data(exchange, bytes, len) < 0) {
        forget(self, exchange);
        reset(self, stream);
    }
    return 0;
}

static void on_goaway(GrpcSession *session, const nghttp2_goaway *goaway)
{
    char debug[96];

    session->going = true;
    grpc_field_message((const char *)goaway->opaque_data, goaway->opaque_data_len, debug, sizeof(debug));
    (void)snprintf(session->farewell, sizeof(session->farewell), "%s%s%s", nghttp2_http2_strerror(goaway->error_code),
                   debug[0] ? ", " : "", debug);
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *self)
{
    GrpcSession *session = self;
    GrpcExchange *exchange;

    if (frame->hd.type == NGHTTP2_GOAWAY)
        on_goaway(session, &frame->goaway);
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    exchange = find(session, frame->hd.stream_id);
    if (!exchange)
        return 0;
    forget(session, exchange);
    grpc_exchange_end(exchange, NGHTTP2_NO_ERROR);
    if (nghttp2_session_get_stream_local_close(http2, frame->hd.stream_id) != 1)
        reset(session, frame->hd.stream_id);
    return 0;
}

static int on_stream_close(nghttp2_session *http2, int32_t stream, uint32_t error, void *self)
{
    GrpcExchange *exchange = find(self, stream);

    (void)http2;
    if (exchange) {
        forget(self, exchange);
        grpc_exchange_end(exchange, error);
    }
    return 0;
}

/* A request that could not leave any more, because of a GOAWAY or for want of stream numbers. */
static int on_not_sent(nghttp2_session *http2, const nghttp2_frame *frame, int error, void *self)
{
    (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS)
        (void)on_stream_close(http2, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM, self);
    return 0;
}

static int on_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *self)
{
    GrpcSession *session = self;

    (void)http2;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        session->our_goaway = frame->goaway.error_code;
    return 0;
}

static ssize_t read_request(nghttp2_session *http2, int32_t stream, uint8_t *room, size_t len, uint32_t *flags,
                            nghttp2_data_source *source, void *self)
{
    GrpcExchange *exchange = find(self, stream);
    size_t left;

    (void)http2, (void)source;
    if (!exchange)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    left = exchange->request_len - exchange->request_sent;
    if (len > left)
        len = left;
    memcpy(room, exchange->request + exchange->request_sent, len);
    exchange->request_sent += len;
    if (len == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* nghttp2 fails here only for want of memory. */
static void must(int rc)
{
    if (rc != 0)
        (void)xcalloc(SIZE_MAX, SIZE_MAX);
}

static void start(GrpcSession *session)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES},
    };
    nghttp2_session_callbacks *callbacks = NULL;

    must(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    must(nghttp2_session_client_new(&session->http2, callbacks, session));
    nghttp2_session_callbacks_del(callbacks);
    must(nghttp2_submit_settings(session->http2, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)));
    must(nghttp2_session_set_local_window_size(session->http2, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES));
}

GrpcSession *grpc_session_new(const GrpcSessionConfig *config)
{
    GrpcSession *session = xcalloc(1, sizeof(*session));

    session->config = *config;
    start(session);
    return session;
}

void grpc_session_free(GrpcSession *session)
{
    if (!session)
        return;
    vec_clear(&session->calls); /* whatever nghttp2 does while it goes finds no exchange */
    nghttp2_session_del(session->http2);
    vec_done(&session->calls);
    free(session);
}

/* nghttp2 copies names and values, and does not write to them. */
static nghttp2_nv field(const char *name, const char *value, size_t len)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = len};
}

static int32_t submit(GrpcSession *session, const GrpcExchange *exchange, uint64_t timeout_ns)
{
    char timeout[GRPC_TIMEOUT_MAX];
    const nghttp2_nv fields[] = {
        field(":method", "POST", 4),
        field(":scheme", "http", 4),
        field(":path", exchange->method, strlen(exchange->method)),
        field(":authority", session->config.authority, strlen(session->config.authority)),
        field("te", "trailers", 8),
        field("content-type", "application/grpc", 16),
        field("user-agent", session->config.user_agent, strlen(session->config.user_agent)),
        field("grpc-timeout", timeout, grpc_field_timeout(timeout, timeout_ns)),
    };
    const nghttp2_data_provider body = {.read_callback = read_request};

    return nghttp2_submit_request(session->http2, NULL, fields, ARRAY_LEN(fields), &body, NULL);
}

void grpc_session_submit(GrpcSession *session, GrpcExchange *exchange, uint64_t timeout_ns)
{
    int32_t stream = grpc_session_is_open(session) ? submit(session, exchange, timeout_ns) : -1;

    if (stream > 0) {
        exchange->stream = stream;
        vec_push(&session->calls, exchange);
        return;
    }
    session->going = true;
    grpc_exchange_end(exchange, NGHTTP2_REFUSED_STREAM);
}

void grpc_session_cancel(GrpcSession *session, GrpcExchange *exchange)
{
    if (!exchange->stream || find(session, exchange->stream) != exchange)
        return;
    forget(session, exchange);
    reset(session, exchange->stream);
}

int grpc_session_receive(GrpcSession *session, const uint8_t *bytes, size_t len, Err *err)
{
    ssize_t rc = nghttp2_session_mem_recv(session->http2, bytes, len);

    if (rc < 0)
        return err_set(err, -EPROTO, "no sound HTTP/2: %s", nghttp2_strerror((int)rc));
    return 0;
}

int grpc_session_send(GrpcSession *session, const uint8_t **ret_bytes, size_t *ret_len, Err *err)
{
    const uint8_t *bytes = NULL;
    ssize_t rc;

    rc = nghttp2_session_mem_send(session->http2, &bytes);
    if (rc < 0)
        return err_set(err, -EPROTO, "no sound HTTP/2: %s", nghttp2_strerror((int)rc));
    if (!rc && session->our_goaway) /* the server got to know it first */
        return err_set(err, -EPROTO, "no sound HTTP/2: %s", nghttp2_http2_strerror(session->our_goaway));
    *ret_bytes = bytes;
    *ret_len = (size_t)rc;
    return 0;
}

void grpc_session_end(GrpcSession *session, GrpcOutcome outcome, const char *text)
{
    while (session->calls.len) {
        GrpcExchange *exchange = session->calls.at[0];

        vec_remove(&session->calls, 0);
        grpc_exchange_finish(exchange, outcome, outcome == GRPC_BAD_REPLY ? GRPC_INTERNAL : GRPC_UNAVAILABLE, text);
    }
}

bool grpc_session_is_open(const GrpcSession *session)
{
    return !session->going && !session->our_goaway && nghttp2_session_check_request_allowed(session->http2);
}

size_t grpc_session_calls(const GrpcSession *session)
{
    return session->calls.len;
}

bool grpc_session_is_over(const GrpcSession *session)
{
    return !nghttp2_session_want_read(session->http2) && !nghttp2_session_want_write(session->http2);
}

const char *grpc_session_farewell(const GrpcSession *session)
{
    return session->farewell;
}
