/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A gRPC client for one unix socket: unary calls, several at a time, over one kept connection that is made when a call
 * needs it. Each call ends by its deadline. Nothing blocks, nothing is called back from within a function of this
 * header; all on the loop's thread.
 *
 * Connections: a call that finds none connects. A listener whose queue is full is tried again until the deadline. After
 * a failure the next attempt waits (backoff), and calls made meanwhile end at once with that failure; an answer ends
 * the waiting. A call that the server provably did not begin with (GOAWAY, REFUSED_STREAM) is sent once more on a new
 * connection. After a call's deadline its connection gets no new calls, since it may be stuck in the middle of a frame.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "wire/grpc/reply.h"

typedef struct GrpcClientConfig {
    const char *socket;     /* path, at most 107 bytes */
    const char *authority;  /* NULL: "localhost", which is gRPC's for a unix socket */
    const char *user_agent; /* NULL: "stoker" */
    size_t reply_bytes;     /* a larger reply is GRPC_BAD_REPLY */
    size_t calls_max;       /* under way or waiting */
    bool repeatable; /* a call whose kept connection closes before anything of its answer came is sent once more */
    uint64_t backoff_min_ns, backoff_max_ns; /* after one failure; it doubles with each */
} GrpcClientConfig;

typedef struct GrpcClient GrpcClient;
typedef struct GrpcCall GrpcCall;
typedef void (*GrpcDone)(void *self, const GrpcReply *reply); /* the reply lives until it returns */

/* The texts of the config are copied. -EINVAL, -ENAMETOOLONG. Opens nothing yet. */
int grpc_client_new(uv_loop_t *loop, const GrpcClientConfig *config, GrpcClient **ret, Err *err);

/* Calls under way are dropped without a word. on_closed (may be NULL) comes once the loop has closed the handles, and
 * the client is freed then. */
void grpc_client_close(GrpcClient *client, void (*on_closed)(void *self), void *self);

/* Calls `method` ("/package.Service/Method") with a copy of the message. `done` comes exactly once, later, unless the
 * call is cancelled or the client closed. *ret_call (may be NULL) is valid until then. -EBUSY where calls_max are under
 * way. */
int grpc_client_call(GrpcClient *client, const char *method, const uint8_t *bytes, uint32_t len, uint64_t timeout_ns,
                     GrpcDone done, void *self, GrpcCall **ret_call, Err *err);

/* Gives a call up; `done` will not come. */
void grpc_call_cancel(GrpcCall *call);

/* The socket is another one now (or is believed dead): calls under way end as GRPC_UNREACHABLE, the next one connects
 * anew without waiting. */
void grpc_client_reset(GrpcClient *client);
