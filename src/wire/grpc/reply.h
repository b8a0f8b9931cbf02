/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a gRPC call ends: its status, and whose word that status is. Plain values, any thread.
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
    GRPC_ANSWERED,    /* the server spoke: GRPC_OK with a message, or its error */
    GRPC_NO_SOCKET,   /* there is no such socket */
    GRPC_UNREACHABLE, /* refused, closed before the answer was whole, or the call was turned away unprocessed */
    GRPC_TIMED_OUT,   /* the call's own deadline */
    GRPC_BAD_REPLY,   /* what came is not HTTP/2, not gRPC, compressed, cut short or too large */
    GRPC_OUTCOME_END,
} GrpcOutcome;

typedef struct GrpcReply {
    GrpcOutcome outcome;
    GrpcStatus status;    /* of the server where it answered, else the one that gRPC assigns to the outcome */
    const char *text;     /* why it failed, one line of printable text; "" where it did not */
    const uint8_t *bytes; /* the message, where status is GRPC_OK */
    size_t len;
} GrpcReply;

/* "DEADLINE_EXCEEDED" */
const char *grpc_status_name(GrpcStatus status);
/* "answered", "no_socket", "unreachable", "timed_out", "bad_reply" */
const char *grpc_outcome_key(GrpcOutcome outcome);
