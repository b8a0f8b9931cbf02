/* SPDX-License-Identifier: Apache-2.0 */
/* One unary call, from its fields to its verdict. */
#include "wire/grpc/exchange.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "wire/grpc/field.h"

void grpc_text_join(char out[GRPC_TEXT_CAP], const char *head, const char *tail)
{
    size_t room = GRPC_TEXT_CAP - 1, head_len = strnlen(head, room), tail_len = strnlen(tail, room - head_len);

    memmove(out, head, head_len);
    memcpy(out + head_len, tail, tail_len);
    out[head_len + tail_len] = '\0';
}

void grpc_exchange_init(GrpcExchange *exchange, const char *method, const uint8_t *bytes, uint32_t len,
                        size_t reply_max)
{
    *exchange = (GrpcExchange){.method = xstrdup(method), .request_len = (size_t)len + GRPC_PREFIX_BYTES};
    exchange->request = xmalloc(exchange->request_len);
    grpc_message_prefix(exchange->request, len);
    if (len)
        memcpy(exchange->request + GRPC_PREFIX_BYTES, bytes, len);
    grpc_message_init(&exchange->message, reply_max);
}

void grpc_exchange_done(GrpcExchange *exchange)
{
    free(exchange->method);
    free(exchange->request);
    grpc_message_done(&exchange->message);
    *exchange = (GrpcExchange){0};
}

void grpc_exchange_rewind(GrpcExchange *exchange)
{
    GrpcExchange fresh = {
        .method = exchange->method, .request = exchange->request, .request_len = exchange->request_len};

    grpc_message_done(&exchange->message);
    fresh.message = exchange->message;
    *exchange = fresh;
}

static void finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *before, const char *text)
{
    if (exchange->finished)
        return;
    exchange->finished = true;
    exchange->outcome = outcome;
    exchange->status = status;
    grpc_text_join(exchange->text, before, text);
}

void grpc_exchange_finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *text)
{
    finish(exchange, outcome, status, "", text);
}

static bool is(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

void grpc_exchange_field(GrpcExchange *exchange, const char *name, size_t name_len, const char *value, size_t value_len)
{
    uint64_t number = 0;

    if (is(name, name_len, ":status")) {
        /* after an interim answer (1xx) the fields begin anew */
        exchange->http_status = number_parsen_u64(value, value_len, 0, 999, &number, NULL) < 0 ? 0 : (unsigned)number;
        exchange->is_grpc = exchange->has_status = false;
    } else if (is(name, name_len, "content-type")) {
        exchange->is_grpc = grpc_field_is_grpc(value, value_len);
    } else if (is(name, name_len, "grpc-status")) {
        exchange->has_status = grpc_field_status(value, value_len, &exchange->trailer_status);
    } else if (is(name, name_len, "grpc-message")) {
        grpc_field_message(value, value_len, exchange->trailer_text, sizeof(exchange->trailer_text));
    }
}

/* The answer of something that is no gRPC server would make no message: said at the end, with its HTTP status. */
static bool speaks_grpc(const GrpcExchange *exchange)
{
    return exchange->http_status == 200 && exchange->is_grpc;
}

int grpc_exchange_data(GrpcExchange *exchange, const uint8_t *bytes, size_t len)
{
    Err err = {0};
    int rc;

    if (!speaks_grpc(exchange))
        return 0;
    rc = grpc_message_add(&exchange->message, bytes, len, &err);
    if (rc < 0)
        finish(exchange, GRPC_BAD_REPLY, rc == -EMSGSIZE ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL, "", err.text);
    return rc;
}

static void end_of_reset(GrpcExchange *exchange, uint32_t http2_error)
{
    const char *name = nghttp2_http2_strerror(http2_error);

    switch (http2_error) {
    case NGHTTP2_REFUSED_STREAM:
        exchange->unprocessed = true;
        finish(exchange, GRPC_UNREACHABLE, GRPC_UNAVAILABLE, "the server turned the call away: ", name);
        break;
    case NGHTTP2_CANCEL:
        finish(exchange, GRPC_UNREACHABLE, GRPC_CANCELLED, "the server dropped the call: ", name);
        break;
    default:
        finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "the stream was reset: ", name);
        break;
    }
}

void grpc_exchange_end(GrpcExchange *exchange, uint32_t http2_error)
{
    char text[GRPC_TEXT_CAP] = "";

    if (http2_error && !exchange->finished) {
        end_of_reset(exchange, http2_error);
    } else if (!speaks_grpc(exchange)) {
        (void)snprintf(text, sizeof(text), "no gRPC: HTTP status %u%s", exchange->http_status,
                       exchange->is_grpc ? "" : ", another content-type than application/grpc");
        finish(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, text, "");
    } else if (!exchange->has_status) {
        finish(exchange, GRPC_BAD_REPLY, GRPC_UNKNOWN, "", "the reply ends without a grpc-status");
    } else if (exchange->trailer_status != GRPC_OK) {
        (void)snprintf(text, sizeof(text), "%s: ", grpc_status_name(exchange->trailer_status));
        finish(exchange, GRPC_ANSWERED, exchange->trailer_status, text, exchange->trailer_text);
    } else if (!grpc_message_is_whole(&exchange->message)) {
        finish(exchange, GRPC_BAD_REPLY, GRPC_INTERNAL, "",
               grpc_message_is_empty(&exchange->message) ? "status OK, but no message" : "the message is cut short");
    } else {
        finish(exchange, GRPC_ANSWERED, GRPC_OK, "", "");
    }
}

GrpcReply grpc_exchange_reply(const GrpcExchange *exchange)
{
    GrpcReply reply = {.outcome = exchange->outcome, .status = exchange->status, .text = exchange->text};

    if (exchange->outcome == GRPC_ANSWERED && exchange->status == GRPC_OK) {
        reply.bytes = exchange->message.bytes;
        reply.len = exchange->message.len;
    }
    return reply;
}
