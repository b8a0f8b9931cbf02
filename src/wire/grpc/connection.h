/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session (session.h) on a unix socket in the loop. It reads and ends by itself; what is submitted leaves with
 * grpc_connection_flush. When something came in or it ended it says so, and the owner looks at its exchanges. Nothing
 * blocks; the loop's thread.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "wire/grpc/session.h"

typedef struct GrpcConnectionConfig {
    const char *path;
    GrpcSessionConfig session;
    void (*on_change)(void *self); /* the owner may close the connection in it */
    void (*on_freed)(void *self);  /* once, after grpc_connection_close */
    void *self;
} GrpcConnectionConfig;

typedef struct GrpcConnection GrpcConnection;

/* Connects. -EAGAIN where the listener's queue is full, -ENOENT and -ENOTDIR where there is no socket. on_freed is not
 * called for one that could not be opened. */
int grpc_connection_open(uv_loop_t *loop, const GrpcConnectionConfig *config, GrpcConnection **ret, Err *err);
/* Ends the exchanges under way with this, and frees it when the loop has closed its handle. */
void grpc_connection_close(GrpcConnection *connection, GrpcOutcome outcome, const char *text);

GrpcSession *grpc_connection_session(GrpcConnection *connection);
/* Sends what the session has to say, as far as the socket takes it. */
void grpc_connection_flush(GrpcConnection *connection);
/* Whether it is to be closed: the server went, or broke the protocol, and *ret_outcome and *ret_text say which. */
bool grpc_connection_ended(const GrpcConnection *connection, GrpcOutcome *ret_outcome, const char **ret_text);
