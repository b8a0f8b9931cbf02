/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles for tests of what serves the kubelet: no sockets and no clock; what is done with them is written into
 * `trace`. Included once by a test, linked with --wrap=uv_timer_start,--wrap=uv_hrtime. */
#pragma once

#include <errno.h>

#include "box.h"
#include "test/unit/golden_trace.h"
#include "wire/grpc/server.h"

enum { SERVERS_MAX = 8 };

struct GrpcServer {
    char socket[256];
    const GrpcMethod *methods;
    size_t count;
    void *self;
    bool there;
};

struct GrpcStream {
    const char *name, *method;
};

static uint64_t now_ns;
static uv_timer_t *timer;
static struct GrpcServer servers[SERVERS_MAX];
static size_t server_count;
static bool refuse;

uint64_t __wrap_uv_hrtime(void);
uint64_t __wrap_uv_hrtime(void)
{
    return now_ns;
}

int __wrap_uv_timer_start(uv_timer_t *one, uv_timer_cb done, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *one, uv_timer_cb done, uint64_t timeout, uint64_t repeat)
{
    str_addf(&trace, "every %d ms from %d ms on\n", (int)repeat, (int)timeout);
    one->timer_cb = done;
    timer = one;
    return 0;
}

int grpc_server_new(uv_loop_t *on, const char *socket, const GrpcMethod *methods, size_t count, void *self,
                    GrpcServer **ret, Err *err)
{
    struct GrpcServer *server = &servers[server_count];

    (void)on;
    str_addf(&trace, "listen at %s%s\n", socket, refuse ? ": refused" : "");
    if (refuse)
        return err_set(err, -EADDRINUSE, "somebody listens there");
    assert_true(server_count < SERVERS_MAX);
    server_count++;
    *server = (struct GrpcServer){.methods = methods, .count = count, .self = self, .there = true};
    snprintf(server->socket, sizeof server->socket, "%s", socket);
    *ret = server;
    return 0;
}

void grpc_server_close(GrpcServer *server)
{
    if (server)
        str_addf(&trace, "close %s\n", server->socket);
}

bool grpc_server_is_there(const GrpcServer *server)
{
    return server->there;
}

void grpc_stream_end(GrpcStream *stream, GrpcStatus status, const char *text)
{
    str_addf(&trace, "end %s: %d %s\n", stream->name, (int)status, text);
}
