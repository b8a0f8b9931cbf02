/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of the kubelet's services. For this folder's files.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "wire/grpc/server.h"

#define NEW_MESSAGE(arena, Type, init)                                                                                 \
    __extension__({                                                                                                    \
        Type *new_ = arena_alloc(arena, sizeof *new_);                                                                 \
        init(new_);                                                                                                    \
        new_;                                                                                                          \
    })

static inline void send_message(GrpcStream *stream, const ProtobufCMessage *message)
{
    const size_t len = protobuf_c_message_get_packed_size(message);
    CLEANUP_FREE uint8_t *bytes = xcalloc(len + 1, 1);

    protobuf_c_message_pack(message, bytes);
    grpc_stream_send(stream, bytes, len);
}

static inline void answer_call(GrpcStream *stream, const ProtobufCMessage *message)
{
    send_message(stream, message);
    grpc_stream_end(stream, GRPC_OK, "");
}

/* An answer that says nothing. */
static inline void answer_nothing(GrpcStream *stream)
{
    grpc_stream_send(stream, NULL, 0);
    grpc_stream_end(stream, GRPC_OK, "");
}

/* Streams that are kept open, of clients that watch something. */
enum { WATCHERS_MAX = 8 };
typedef struct Watchers {
    GrpcStream *at[WATCHERS_MAX]; /* NULL: free */
} Watchers;

/* False where there is no room: the call was refused, in words about `what`. */
static inline bool watchers_add(Watchers *watchers, GrpcStream *stream, const char *what)
{
    char text[128];

    for (size_t i = 0; i < WATCHERS_MAX; i++)
        if (!watchers->at[i]) {
            watchers->at[i] = stream;
            return true;
        }
    snprintf(text, sizeof text, "too many watch the %s of devices already", what);
    grpc_stream_end(stream, GRPC_RESOURCE_EXHAUSTED, text);
    return false;
}

static inline void watchers_forget(Watchers *watchers, const GrpcStream *stream)
{
    for (size_t i = 0; i < WATCHERS_MAX; i++)
        if (watchers->at[i] == stream)
            watchers->at[i] = NULL;
}
