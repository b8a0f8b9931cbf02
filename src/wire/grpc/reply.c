/* SPDX-License-Identifier: Apache-2.0 */
/* The names of statuses and outcomes. */
#include "wire/grpc/reply.h"

static const char *const statuses[GRPC_STATUS_END] = {
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

static const char *const outcomes[GRPC_OUTCOME_END] = {
    [GRPC_ANSWERED] = "answered",   [GRPC_NO_SOCKET] = "no_socket", [GRPC_UNREACHABLE] = "unreachable",
    [GRPC_TIMED_OUT] = "timed_out", [GRPC_BAD_REPLY] = "bad_reply",
};

const char *grpc_status_name(GrpcStatus status)
{
    return status < GRPC_STATUS_END ? statuses[status] : "UNKNOWN";
}

const char *grpc_outcome_key(GrpcOutcome outcome)
{
    return outcome < GRPC_OUTCOME_END ? outcomes[outcome] : "?";
}
