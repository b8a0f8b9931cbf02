/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of messages. */
#include "wire/grpc/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FIRST_BYTES = 1024 };

void grpc_message_init(GrpcMessage *message, size_t max)
{
    *message = (GrpcMessage){.max = max};
}

void grpc_message_done(GrpcMessage *message)
{
    free(message->bytes);
    grpc_message_init(message, message->max);
}

/* The prefix is complete: what does it announce? */
static int read_prefix(GrpcMessage *message, Err *err)
{
    const uint8_t *prefix = message->prefix;
    size_t len = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];

    if (prefix[0] == 1)
        return err_set(err, -ENOTSUP, "the message is compressed");
    if (prefix[0])
        return err_set(err, -EBADMSG, "a message begins with flag %u", prefix[0]);
    if (len > message->max)
        return err_set(err, -EMSGSIZE, "a message of %zu bytes, and %zu are the most", len, message->max);
    message->whole = len;
    return 0;
}

/* Room for `more` bytes; doubles, but not over the announced length. */
static void reserve(GrpcMessage *message, size_t more)
{
    size_t cap = message->cap ? message->cap : FIRST_BYTES;

    if (message->cap - message->len >= more)
        return;
    while (cap - message->len < more)
        cap *= 2;
    message->cap = cap < message->whole ? cap : message->whole;
    message->bytes = xrealloc(message->bytes, message->cap, 1);
}

int grpc_message_add(GrpcMessage *message, const uint8_t *bytes, size_t len, Err *err)
{
    size_t prefix = GRPC_PREFIX_BYTES - message->prefix_len;

    if (prefix > len)
        prefix = len;
    if (prefix) {
        memcpy(message->prefix + message->prefix_len, bytes, prefix);
        message->prefix_len += prefix;
        if (message->prefix_len == GRPC_PREFIX_BYTES)
            TRY(read_prefix(message, err));
    }
    if (len == prefix)
        return 0;
    if (len - prefix > message->whole - message->len)
        return err_set(err, -EBADMSG, "more than one message");
    reserve(message, len - prefix);
    memcpy(message->bytes + message->len, bytes + prefix, len - prefix);
    message->len += len - prefix;
    return 0;
}

bool grpc_message_is_empty(const GrpcMessage *message)
{
    return !message->prefix_len;
}

bool grpc_message_is_whole(const GrpcMessage *message)
{
    return message->prefix_len == GRPC_PREFIX_BYTES && message->len == message->whole;
}

void grpc_message_prefix(uint8_t out[GRPC_PREFIX_BYTES], uint32_t len)
{
    out[0] = 0;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}
