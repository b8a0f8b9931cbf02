/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One unary call on a connection: the request as it lies on the wire, and the reply as it comes in - header fields,
 * message, trailers - until there is a verdict. The caller owns it; the session it was given to (session.h) writes it
 * until `finished`. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/grpc/message.h"
#include "wire/grpc/reply.h"

enum { GRPC_TEXT_CAP = 256 };

/* Sets a text to both, one behind the other, cut where they do not fit. */
void grpc_text_join(char out[GRPC_TEXT_CAP], const char *head, const char *tail);

typedef struct GrpcExchange {
    char *method;     /* "/package.Service/Method" */
    uint8_t *request; /* prefix and message */
    size_t request_len, request_sent;
    int32_t stream; /* its HTTP/2 stream, 0 before it has one */

    unsigned http_status;
    bool is_grpc;    /* content-type says so */
    bool has_status; /* grpc-status came */
    GrpcStatus trailer_status;
    char trailer_text[GRPC_TEXT_CAP];
    GrpcMessage message;

    bool finished;
    bool unprocessed; /* finished, and the server has certainly not begun with it */
    GrpcOutcome outcome;
    GrpcStatus status;
    char text[GRPC_TEXT_CAP];
} GrpcExchange;

/* A call of `method` with a copy of the message; replies over `reply_max` bytes are refused. */
void grpc_exchange_init(GrpcExchange *exchange, const char *method, const uint8_t *bytes, uint32_t len,
                        size_t reply_max);
/* Accepts a zeroed one. */
void grpc_exchange_done(GrpcExchange *exchange);
/* As it was before it was given to a session: to be sent once more. */
void grpc_exchange_rewind(GrpcExchange *exchange);

/* What comes in: a header field or trailer, bytes of DATA (-errno as grpc_message_add; it is finished then), the end
 * of the stream with its HTTP/2 error code. */
void grpc_exchange_field(GrpcExchange *exchange, const char *name, size_t name_len, const char *value,
                         size_t value_len);
int grpc_exchange_data(GrpcExchange *exchange, const uint8_t *bytes, size_t len);
void grpc_exchange_end(GrpcExchange *exchange, uint32_t http2_error);

/* Ends it for a reason of ours; does nothing where it is finished. */
void grpc_exchange_finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *text);

/* The reply of a finished one; it points into the exchange. */
GrpcReply grpc_exchange_reply(const GrpcExchange *exchange);
