/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The header fields that gRPC adds to HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md). Pure functions, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/grpc/reply.h"

enum { GRPC_TIMEOUT_MAX = 9 }; /* at most 8 digits and a unit */

/* Writes the value of grpc-timeout, rounded up to what 8 digits can say; no NUL. Returns the length. */
size_t grpc_field_timeout(char out[GRPC_TIMEOUT_MAX], uint64_t timeout_ns);

/* The value of grpc-status; a number beyond the list is GRPC_UNKNOWN. False where it is no number. */
bool grpc_field_status(const char *value, size_t len, GrpcStatus *ret);

/* Decodes the percent encoding of grpc-message into out (cap >= 1 bytes with the NUL), cut where it does not fit. Bytes
 * that are not printable ASCII become '?', a broken escape stays as it is. */
void grpc_field_message(const char *value, size_t len, char *out, size_t cap);

/* Whether a content-type is application/grpc, with or without "+proto" or parameters. */
bool grpc_field_is_grpc(const char *value, size_t len);
