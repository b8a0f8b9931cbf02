/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One unary gRPC call over one HTTP/2 connection, without its socket: bytes in, bytes out, and a reply at the end
 * (grpc/doc/PROTOCOL-HTTP2.md). Knows neither time nor descriptors. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers of grpc-status (gRPC "Status codes and their use"). */
typedef enum GrpcStatus {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
    GRPC_STATUS_END,
} GrpcStatus;

typedef enum GrpcOutcome {
    GRPC_ANSWERED,    /* by the server: GRPC_OK with a message, or its error */
    GRPC_NO_SOCKET,   /* there is no such socket */
    GRPC_UNREACHABLE, /* refused, closed before the answer was whole, or the call was rejected unprocessed */
    GRPC_TIMED_OUT,   /* the call's own deadline */
    GRPC_BAD_REPLY,   /* not HTTP/2, not gRPC, compressed, cut short or too large */
    GRPC_OUTCOME_END,
} GrpcOutcome;

typedef struct GrpcReply {
    GrpcOutcome outcome;
    GrpcStatus status;    /* of the server if it answered, else the one that gRPC assigns to the outcome */
    const char *text;     /* why it failed, one line of printable text; "" if it did not */
    const uint8_t *bytes; /* the message, if status is GRPC_OK */
    size_t len;
} GrpcReply;

/* All borrowed until grpc_exchange_free. */
typedef struct GrpcRequest {
    const char *method; /* "/package.Service/Method" */
    const uint8_t *bytes;
    uint32_t len;
    uint64_t timeout_ns; /* told to the server; the caller keeps it */
    size_t reply_max;    /* a larger message is GRPC_BAD_REPLY */
} GrpcRequest;

typedef struct GrpcExchange GrpcExchange;

/* The request is copied, but for its method and bytes. */
GrpcExchange *grpc_exchange_new(const GrpcRequest *request);
void grpc_exchange_free(GrpcExchange *exchange); /* accepts NULL */

/* Takes what the server sent, or that it closed the connection. */
void grpc_exchange_receive(GrpcExchange *exchange, const uint8_t *bytes, size_t len);
void grpc_exchange_closed(GrpcExchange *exchange, const char *why);

/* The next bytes for the server, valid until the next call; 0: none. */
size_t grpc_exchange_send(GrpcExchange *exchange, const uint8_t **ret_bytes);

/* Ends it; does nothing if it has ended. */
void grpc_exchange_finish(GrpcExchange *exchange, GrpcOutcome outcome, GrpcStatus status, const char *text);

/* False until it has ended. The reply points into the exchange. */
bool grpc_exchange_reply(const GrpcExchange *exchange, GrpcReply *ret);

/* "DEADLINE_EXCEEDED" */
const char *grpc_status_name(GrpcStatus status);

/* Writes the value of grpc-timeout, rounded up to 8 digits; no NUL. Returns the length. */
enum { GRPC_TIMEOUT_MAX = 9 };
size_t grpc_format_timeout(char out[GRPC_TIMEOUT_MAX], uint64_t timeout_ns);
