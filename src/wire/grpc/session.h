/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client's side of one HTTP/2 connection that carries gRPC, without its socket: bytes in, bytes out. Knows neither
 * time nor descriptors, and calls nobody back: exchanges that end say `finished`. After GOAWAY, or once the stream
 * numbers are used up, it takes no new calls (grpc_session_is_open) and those under way go on. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/grpc/exchange.h"

typedef struct GrpcSessionConfig {
    const char *authority;  /* ":authority", what gRPC takes for a unix socket is "localhost" */
    const char *user_agent; /* both are borrowed for the session's life */
} GrpcSessionConfig;

typedef struct GrpcSession GrpcSession;

GrpcSession *grpc_session_new(const GrpcSessionConfig *config);
/* Accepts NULL. Exchanges that are not finished are let go as they are. */
void grpc_session_free(GrpcSession *session);

/* Queues a call. The exchange is borrowed until it is finished or cancelled. The server learns of timeout_ns; keeping
 * it is the caller's business. Where the session is not open the exchange is finished at once, as unprocessed. */
void grpc_session_submit(GrpcSession *session, GrpcExchange *exchange, uint64_t timeout_ns);
/* Gives the exchange back, unfinished, and resets its stream. Fine where the session does not have it. */
void grpc_session_cancel(GrpcSession *session, GrpcExchange *exchange);

/* Takes what the server sent. -EPROTO where it is not HTTP/2: close the connection. */
int grpc_session_receive(GrpcSession *session, const uint8_t *bytes, size_t len, Err *err);
/* The next bytes for the server, valid until the next call; *ret_len is 0 where there are none. -EPROTO. */
int grpc_session_send(GrpcSession *session, const uint8_t **ret_bytes, size_t *ret_len, Err *err);

/* The connection is gone: ends every exchange with this. */
void grpc_session_end(GrpcSession *session, GrpcOutcome outcome, const char *text);

bool grpc_session_is_open(const GrpcSession *session); /* takes new calls */
size_t grpc_session_calls(const GrpcSession *session); /* under way */
/* Whether both sides have nothing more to say; -EPROTO in grpc_session_receive or _send comes before it where the
 * server broke the protocol. */
bool grpc_session_is_over(const GrpcSession *session);
/* What the server said in its GOAWAY, "" where it said nothing. */
const char *grpc_session_farewell(const GrpcSession *session);
