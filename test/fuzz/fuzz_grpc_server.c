/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: wire/grpc/server. The input is what a client sends: a byte for the size of the pieces it comes in, then the
 * bytes. A method answers at once, one streams, and one never ends. Whatever comes, each call is told of once and ended or
 * gone once, and no byte of a request is kept. */
#include <stdlib.h>

#include "wire/grpc/server.h"

enum { OUT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    (void)self;
    grpc_stream_send(stream, bytes, len);
    grpc_stream_end(stream, GRPC_OK, "");
}

static void refuse(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    (void)self;
    (void)bytes;
    (void)len;
    grpc_stream_end(stream, GRPC_INVALID_ARGUMENT, "no: 100 % \n");
}

static void watch(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len)
{
    long *watching = self;

    ++*watching;
    grpc_stream_send(stream, bytes, len);
    grpc_stream_send(stream, bytes, len / 2);
}

static void gone(void *self, GrpcStream *stream)
{
    long *watching = self;

    (void)stream;
    --*watching;
}

static void wake(void *waker)
{
    (void)waker;
}

static bool send_all(GrpcPeer *peer)
{
    const uint8_t *out;
    size_t all = 0;
    ssize_t len;

    while ((len = grpc_peer_send(peer, &out)) > 0)
        if ((all += (size_t)len) > OUT_MAX)
            abort();
    return len == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const GrpcMethod methods[] = {{"/a.B/Answer", answer, NULL}, {"/a.B/Refuse", refuse, NULL}, {"/a.B/Watch", watch, gone}};
    long watching = 0;
    size_t held = 0;

    if (size < 1)
        return 0;
    const size_t piece = (size_t)data[0] + 1;
    GrpcPeer *peer = grpc_peer_new(methods, 3, &watching, &held, wake, NULL);
    bool open = send_all(peer);
    for (size_t at = 1; open && at < size; at += piece)
        open = grpc_peer_receive(peer, data + at, size - at < piece ? size - at : piece) && send_all(peer);
    if (held > GRPC_SERVER_HELD_MAX || watching < 0)
        abort();
    grpc_peer_free(peer);
    if (held != 0 || watching != 0)
        abort();
    return 0;
}
