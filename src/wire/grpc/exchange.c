/* SPDX-License-Identifier: Apache-2.0 */
/* nghttp2 with one stream. The first verdict stays: whatever comes after it is ignored. */
#include "wire/grpc/exchange.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "base/str.h"

enum {
    PREFIX_BYTES = 5,              /* before a message: a flag for compression, the length, big-endian */
    WINDOW_BYTES = 1 << 20,        /* in flight to us */
    HEADER_LIST_BYTES = 16 * 1024, /* what we tell the server it may send */
    TIMEOUT_DIGITS = 8,
    TEXT_CAP = 256,
};

struct GrpcExchange {
    nghttp2_session *http2;
    GrpcRequest request;
    uint8_t prefix[PREFIX_BYTES];
    size_t sent; /* of prefix and message */

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
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "CANCELLED",
        [GRPC_UNKNOWN] = "UNKNOWN",
        [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [GRPC_NOT_FOUND] = "NOT_FOUND",
        [GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [GRPC_ABORTED] = "ABORTED",
        [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [GRPC_INTERNAL] = "INTERNAL",
        [GRPC_UNAVAILABLE] = "UNAVAILABLE",
        [GRPC_DATA_LOSS] = "DATA_LOSS",
        [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
    };

    return status < GRPC_STATUS_END ? names[status] : "UNKNOWN";
}

size_t grpc_format_timeout(char out[GRPC_TIMEOUT_MAX], uint64_t timeout_ns)
{
    static const struct {
        uint64_t ns;
        char name;
    } units[] = {{1, 'n'}, {NS_PER_US, 'u'}, {NS_PER_MS, 'm'}, {NS_PER_S, 'S'}, {NS_PER_MIN, 'M'}, {NS_PER_H, 'H'}};
    char digits[NUMBER_U64_MAX];
    size_t unit = 0, len;

    /* the last unit always fits: 2^64 ns are 5,124,096 hours */
    while (timeout_ns / units[unit].ns >= 99999999)
        unit++;
    len = number_write_u64(digits, timeout_ns / units[unit].ns + (timeout_ns % units[unit].ns != 0));
    memcpy(out, digits, len <= TIMEOUT_DIGITS ? len : TIMEOUT_DIGITS);
    out[len] = units[unit].name;
    return len + 1;
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

static void finish_with(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *head,
                        const char *tail)
{
    Str text;

    if (exchange->finished)
        return;
    exchange->finished = true;
    exchange->outcome = outcome;
    exchange->status = status;
    str_init_room(&text, exchange->text, sizeof(exchange->text));
    str_addn(&text, head, strnlen(head, TEXT_CAP - 1));
    str_addn(&text, tail, strnlen(tail, TEXT_CAP - 1 - text.len));
}

void grpc_exchange_finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *text)
{
    finish_with(exchange, outcome, status, text, "");
}

void grpc_exchange_closed(GrpcExchange *exchange, const char *why)
{
    char text[TEXT_CAP];

    snprintf(text, sizeof(text), "%s%s", why, exchange->farewell[0] ? ": " : "");
    finish_with(exchange, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, text, exchange->farewell);
}

static size_t announced_length(const GrpcExchange *exchange)
{
    const uint8_t *prefix = (const uint8_t *)exchange->message.text;

    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

/* What is known of the message as soon as its prefix is there. */
static void check_message(GrpcExchange *exchange)
{
    const Str *message = &exchange->message;
    char text[TEXT_CAP];
    size_t len;

    if (message->len < PREFIX_BYTES)
        return;
    len = announced_length(exchange);
    if (message->text[0] == 1) {
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "the message is compressed");
    } else if (message->text[0]) {
        snprintf(text, sizeof(text), "a message begins with flag %u", (unsigned char)message->text[0]);
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, text);
    } else if (len > exchange->request.reply_max) {
        snprintf(text, sizeof(text), "a message of %zu bytes, and %zu are the most", len, exchange->request.reply_max);
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_RESOURCE_EXHAUSTED, text);
    } else if (message->len - PREFIX_BYTES > len || message->overflow) {
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "more than one message");
    }
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
        finish_with(exchange, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server turned the call away: ", name);
    else if (http2_error == NGHTTP2_CANCEL)
        finish_with(exchange, GRPC_UNREACHABLE, GRPC_CANCELLED, "the server dropped the call: ", name);
    else
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "the stream was reset: ", name);
}

static void finish_stream(GrpcExchange *exchange)
{
    char text[TEXT_CAP];

    if (!speaks_grpc(exchange)) {
        snprintf(text, sizeof(text), "no gRPC: HTTP status %u%s", exchange->http_status,
                 exchange->is_grpc ? "" : ", another content-type than application/grpc");
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, text);
    } else if (!exchange->has_status) {
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, "the reply ends without a grpc-status");
    } else if (exchange->trailer_status != GRPC_OK) {
        snprintf(text, sizeof(text), "%s: ", grpc_status_name(exchange->trailer_status));
        finish_with(exchange, GRPC_ANSWERED, exchange->trailer_status, text, exchange->trailer_text);
    } else if (!exchange->message.len) {
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "status OK, but no message");
    } else if (exchange->message.len < PREFIX_BYTES ||
               exchange->message.len - PREFIX_BYTES != announced_length(exchange)) {
        grpc_exchange_finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "the message is cut short");
    } else {
        grpc_exchange_finish(exchange, GRPC_ANSWERED, GRPC_OK, "");
    }
}

/* -- nghttp2 calls these --------------------------------------------------------------------------------------------
 */

static bool is_word(const uint8_t *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *self)
{
    GrpcExchange *exchange = self;
    const char *text = (const char *)value;
    uint64_t number = 0;

    (void)http2, (void)frame, (void)flags;
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

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len, void *self)
{
    GrpcExchange *exchange = self;

    (void)http2, (void)flags, (void)stream;
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

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *self)
{
    GrpcExchange *exchange = self;
    char debug[96];

    (void)http2;
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

static int on_stream_close(nghttp2_session *http2, int32_t stream, uint32_t error, void *self)
{
    GrpcExchange *exchange = self;

    (void)http2, (void)stream;
    if (error)
        finish_reset(exchange, error);
    else
        finish_stream(exchange);
    return 0;
}

/* The request could not leave any more, because of a GOAWAY. */
static int on_not_sent(nghttp2_session *http2, const nghttp2_frame *frame, int error, void *self)
{
    (void)http2, (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS)
        finish_reset(self, NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* nghttp2 gives a connection up by a GOAWAY of its own. */
static int on_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *self)
{
    (void)http2;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        finish_with(self, GRPC_BAD_REPLY, GRPC_INTERNAL,
                    "no sound HTTP/2: ", nghttp2_http2_strerror(frame->goaway.error_code));
    return 0;
}

static ssize_t read_request(nghttp2_session *http2, int32_t stream, uint8_t *room, size_t len, uint32_t *flags,
                            nghttp2_data_source *source, void *self)
{
    GrpcExchange *exchange = self;
    const bool in_prefix = exchange->sent < PREFIX_BYTES;
    const uint8_t *from =
        in_prefix ? exchange->prefix + exchange->sent : exchange->request.bytes + (exchange->sent - PREFIX_BYTES);
    const size_t whole = PREFIX_BYTES + (size_t)exchange->request.len;
    const size_t left = (in_prefix ? PREFIX_BYTES : whole) - exchange->sent;

    (void)http2, (void)stream, (void)source;
    len = len < left ? len : left;
    if (len)
        memcpy(room, from, len);
    exchange->sent += len;
    if (exchange->sent == whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* -- the header's functions -----------------------------------------------------------------------------------------
 */

/* nghttp2 fails here only for want of memory. */
static void check_memory(int rc)
{
    if (rc < 0)
        (void)xcalloc(SIZE_MAX, SIZE_MAX);
}

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

/* nghttp2 copies names and values, and does not write to them. */
static nghttp2_nv make_field(const char *name, const char *value, size_t len)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = len};
}

static void submit_request(GrpcExchange *exchange)
{
    char timeout[GRPC_TIMEOUT_MAX];
    const nghttp2_nv fields[] = {
        make_field(":method", "POST", 4),
        make_field(":scheme", "http", 4),
        make_field(":path", exchange->request.method, strlen(exchange->request.method)),
        make_field(":authority", "localhost", 9), /* gRPC's for a unix socket */
        make_field("te", "trailers", 8),
        make_field("content-type", "application/grpc", 16),
        make_field("user-agent", "stoker", 6),
        make_field("grpc-timeout", timeout, grpc_format_timeout(timeout, exchange->request.timeout_ns)),
    };
    const nghttp2_data_provider body = {.read_callback = read_request};

    check_memory(nghttp2_submit_request(exchange->http2, NULL, fields, ARRAY_LEN(fields), &body, NULL));
}

GrpcExchange *grpc_exchange_new(const GrpcRequest *request)
{
    GrpcExchange *exchange = xcalloc(1, sizeof(*exchange));

    exchange->request = *request;
    for (int i = 0; i < 4; i++)
        exchange->prefix[1 + i] = (uint8_t)(request->len >> (24 - 8 * i));
    str_init(&exchange->message, PREFIX_BYTES + request->reply_max);
    open_session(exchange);
    submit_request(exchange);
    return exchange;
}

void grpc_exchange_free(GrpcExchange *exchange)
{
    if (!exchange)
        return;
    exchange->finished = true;
    nghttp2_session_del(exchange->http2);
    str_done(&exchange->message);
    free(exchange);
}

void grpc_exchange_receive(GrpcExchange *exchange, const uint8_t *bytes, size_t len)
{
    const ssize_t rc = nghttp2_session_mem_recv(exchange->http2, bytes, len);

    if (rc < 0)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: ", nghttp2_strerror((int)rc));
}

size_t grpc_exchange_send(GrpcExchange *exchange, const uint8_t **ret_bytes)
{
    const ssize_t rc = nghttp2_session_mem_send(exchange->http2, ret_bytes);

    if (rc < 0)
        finish_with(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "no sound HTTP/2: ", nghttp2_strerror((int)rc));
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
