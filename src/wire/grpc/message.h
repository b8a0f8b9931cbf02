/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One length-prefixed gRPC message, put together from whatever pieces DATA frames cut it into: a byte that says
 * compressed or not, four bytes of length (big-endian), the message. Memory grows with what came, never with what was
 * announced. The owner embeds it; one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { GRPC_PREFIX_BYTES = 5 };

typedef struct GrpcMessage {
    uint8_t *bytes; /* `len` of them have come */
    size_t len, cap;
    size_t max;   /* a longer message is refused */
    size_t whole; /* the announced length, known once prefix_len is GRPC_PREFIX_BYTES */
    size_t prefix_len;
    uint8_t prefix[GRPC_PREFIX_BYTES];
} GrpcMessage;

/* An empty message that may have `max` bytes. Allocates nothing. */
void grpc_message_init(GrpcMessage *message, size_t max);
/* Frees; accepts a zeroed one. */
void grpc_message_done(GrpcMessage *message);

/* Adds the next bytes. -ENOTSUP compressed, -EMSGSIZE longer than max, -EBADMSG bytes behind the end or a flag that
 * gRPC does not know. */
int grpc_message_add(GrpcMessage *message, const uint8_t *bytes, size_t len, Err *err);

/* Whether nothing, and whether all of it has come. */
bool grpc_message_is_empty(const GrpcMessage *message);
bool grpc_message_is_whole(const GrpcMessage *message);

/* The prefix of an uncompressed message of `len` bytes. */
void grpc_message_prefix(uint8_t out[GRPC_PREFIX_BYTES], uint32_t len);
