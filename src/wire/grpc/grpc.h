/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A unary gRPC call to a server on a unix socket, over a connection of its own (grpc/doc/PROTOCOL-HTTP2.md). It ends by
 * its deadline; nothing is retried but a connect to a listener whose queue is full. Nothing blocks; the loop's thread.
 * The process ignores SIGPIPE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

/* The numbers of grpc-status (gRPC "Status codes and their use") that mean something here; others are passed on. */
typedef enum GrpcStatus {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_STATUS_END = 17,
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

/* All borrowed until the function it is given to returns. */
typedef struct GrpcRequest {
    const char *method; /* "/package.Service/Method" */
    const uint8_t *bytes;
    uint32_t len;
    uint64_t timeout_ns; /* the server learns it too */
    size_t reply_max;    /* a larger message is GRPC_BAD_REPLY */
} GrpcRequest;

typedef struct GrpcCall GrpcCall;
typedef void (*GrpcDone)(void *self, const GrpcReply *reply); /* the reply lives until it returns */

/* -EINVAL or -ENAMETOOLONG if no socket can have this path. */
int grpc_check_socket(const char *path, Err *err);

/* Calls the server. `done` comes exactly once, later, unless the call is cancelled; the call is valid until then. */
GrpcCall *grpc_call_new(uv_loop_t *loop, const char *socket, const GrpcRequest *request, GrpcDone done, void *self);

/* Gives a call up; `done` will not come. */
void grpc_call_cancel(GrpcCall *call);

/* "DEADLINE_EXCEEDED" */
const char *grpc_status_name(GrpcStatus status);

/* ---- the call without its socket and clock: bytes in, bytes out, and a reply at the end ---- */

typedef struct GrpcExchange GrpcExchange;

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
