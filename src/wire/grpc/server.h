/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A gRPC server on a unix socket: calls with one request, answered by one message or by a stream of messages
 * (grpc/doc/PROTOCOL-HTTP2.md). Messages are not compressed. Nothing blocks; the loop's thread. The process ignores
 * SIGPIPE. A client costs at most its requests, which have a common cap, and one message per call that it does not
 * read.
 */

#include <sys/types.h>
#include <uv.h>

#include "wire/grpc/grpc.h"

enum {
    GRPC_SERVER_CLIENTS = 16,            /* connections; more are closed */
    GRPC_SERVER_CALLS = 64,              /* at a time on a connection */
    GRPC_SERVER_REQUEST_MAX = 256 << 10, /* of one request */
    GRPC_SERVER_HELD_MAX = 4 << 20,      /* of all requests that are not whole yet */
};

typedef struct GrpcStream GrpcStream; /* a call that was received; valid until it is ended or gone */

typedef struct GrpcMethod {
    const char *path; /* "/package.Service/Method" */
    /* The request is whole; it lives until this returns. The call is answered now or later, and ended once. */
    void (*call)(void *self, GrpcStream *stream, const uint8_t *bytes, size_t len);
    /* The client gave the call up, or its connection ended, before grpc_stream_end. NULL: of no interest, because
     * `call` ends it. */
    void (*gone)(void *self, GrpcStream *stream);
} GrpcMethod;

/* Sends a message. One that was not begun to be sent is replaced by it: a slow reader of a stream gets the newest. */
void grpc_stream_send(GrpcStream *stream, const uint8_t *bytes, size_t len);
/* Ends the call behind what was sent; `text` says why it failed ("" where it did not) and is copied. */
void grpc_stream_end(GrpcStream *stream, GrpcStatus status, const char *text);

typedef struct GrpcServer GrpcServer;

/* Listens at `socket`. A socket file that nobody listens on is replaced. -EADDRINUSE where somebody does. `methods` is
 * an array that outlives the server. */
int grpc_server_new(uv_loop_t *loop, const char *socket, const GrpcMethod *methods, size_t count, void *self,
                    GrpcServer **ret, Err *err);
/* Ends all calls without a word, removes the socket file if it is still this server's, and frees when the loop has
 * closed its handles. `gone` does not come. Accepts NULL. */
void grpc_server_close(GrpcServer *server);
/* Whether the socket file is still there and this server's own. */
bool grpc_server_is_there(const GrpcServer *server);

/* ---- a connection without its socket: bytes in, bytes out ---- */

typedef struct GrpcPeer GrpcPeer;

/* `held` counts the bytes of requests over all connections. `wake` is called when there is something to send. */
GrpcPeer *grpc_peer_new(const GrpcMethod *methods, size_t count, void *self, size_t *held, void (*wake)(void *waker),
                        void *waker);
void grpc_peer_free(GrpcPeer *peer); /* calls `gone` of what was not ended; accepts NULL */
/* The same without a word to the methods. */
void grpc_peer_drop(GrpcPeer *peer);
/* Takes what the client sent. False: the connection is to be closed. */
bool grpc_peer_receive(GrpcPeer *peer, const uint8_t *bytes, size_t len);
/* The next bytes for the client, valid until the next call; 0: none now. Below 0: the connection is to be closed. */
ssize_t grpc_peer_send(GrpcPeer *peer, const uint8_t **ret_bytes);
