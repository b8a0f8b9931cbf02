/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A unary gRPC call to a server on a unix socket, over a connection of its own. It ends by its deadline; nothing is
 * retried but a connect to a listener whose queue is full. Nothing blocks; the loop's thread.
 */

#include <uv.h>

#include "base/err.h"
#include "wire/grpc/exchange.h"

typedef struct GrpcCall GrpcCall;
typedef void (*GrpcDone)(void *self, const GrpcReply *reply); /* the reply lives until it returns */

/* -EINVAL or -ENAMETOOLONG if no socket can have this path. */
int grpc_check_socket(const char *path, Err *err);

/* Calls the server. `done` comes exactly once, later, unless the call is cancelled; the call is valid until then. The
 * socket's path and what the request borrows are copied. */
GrpcCall *grpc_call_new(uv_loop_t *loop, const char *socket, const GrpcRequest *request, GrpcDone done, void *self);

/* Gives a call up; `done` will not come. */
void grpc_call_cancel(GrpcCall *call);
