/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of the kubelet's services. For this folder's files.
 */

#include <protobuf-c/protobuf-c.h>

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
