/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in a queue over connections. All work is done in turn(): every event, and every function of the header through
 * a timer of 0 ms, comes down to it. Invariants: an exchange is with a session exactly while its call has a connection
 * and is not finished; at most one link takes new calls, the others only finish theirs.
 */
#include "wire/grpc/client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/vec.h"
#include "wire/grpc/connection.h"

#define BUSY_WAIT_MIN_NS (10 * NS_PER_MS)
#define BUSY_WAIT_MAX_NS (200 * NS_PER_MS)

typedef struct Link {
    GrpcConnection *connection;
    bool retired;  /* takes no new calls */
    bool answered; /* a call ended with the server's word */
} Link;

struct GrpcCall {
    GrpcClient *client;
    GrpcExchange exchange;
    GrpcConnection *connection; /* NULL while it waits; not to be followed once finished */
    uint64_t timeout_ns, deadline_ns;
    bool kept;  /* its connection has answered an earlier one */
    bool again; /* it is not to be sent once more */
    GrpcDone done;
    void *self;
};

struct GrpcClient {
    uv_loop_t *loop;
    uv_timer_t timer;
    GrpcClientConfig config;
    char *socket, *authority, *user_agent;
    VEC(GrpcCall *) calls; /* in the order they were made */
    VEC(Link) links;
    uint64_t connect_ns; /* not before */
    uint64_t backoff_ns; /* the last wait after a failure, 0 after none */
    uint64_t busy_ns;    /* the last wait for a full listener, 0 for none */
    GrpcOutcome failure; /* the one that is waited after */
    char failure_text[GRPC_TEXT_CAP];
    unsigned handles; /* the loop has not closed yet */
    bool closing;
    void (*on_closed)(void *self);
    void *self;
};

static void turn(GrpcClient *client);

static void on_change(void *self)
{
    turn(self);
}

static void release(void *self)
{
    GrpcClient *client = self;
    void (*on_closed)(void *self) = client->on_closed;
    void *owner = client->self;

    if (--client->handles || !client->closing)
        return;
    vec_done(&client->calls);
    vec_done(&client->links);
    free(client->socket);
    free(client->authority);
    free(client->user_agent);
    free(client);
    if (on_closed)
        on_closed(owner);
}

static void on_timer_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static void call_free(GrpcCall *call)
{
    grpc_exchange_done(&call->exchange);
    free(call);
}

/* -- connections ------------------------------------------------------------------------------------------------- */

static void fail(GrpcClient *client, GrpcOutcome outcome, const char *text, uint64_t now)
{
    client->failure = outcome;
    grpc_text_join(client->failure_text, text, "");
    client->backoff_ns = client->backoff_ns ? number_min_u64(client->backoff_ns * 2, client->config.backoff_max_ns)
                                            : client->config.backoff_min_ns;
    client->backoff_ns = number_max_u64(client->backoff_ns, 1); /* 0 stands for no failure */
    client->connect_ns = now + client->backoff_ns;
}

static void wait_for_listener(GrpcClient *client, uint64_t now)
{
    client->busy_ns = client->busy_ns ? number_min_u64(client->busy_ns * 2, BUSY_WAIT_MAX_NS) : BUSY_WAIT_MIN_NS;
    client->connect_ns = now + client->busy_ns;
}

/* The connection for new calls, NULL where there is none now: then the calls wait (backoff_ns is 0) or fail. */
static GrpcConnection *connection(GrpcClient *client, uint64_t now)
{
    GrpcConnectionConfig config = {.path = client->socket,
                                   .session = {client->authority, client->user_agent},
                                   .on_change = on_change,
                                   .on_freed = release,
                                   .self = client};
    Link link = {0};
    Err err = {0};
    int rc;

    for (size_t i = 0; i < client->links.len; i++) {
        if (!client->links.at[i].retired)
            return client->links.at[i].connection;
    }
    if (now < client->connect_ns)
        return NULL;
    rc = grpc_connection_open(client->loop, &config, &link.connection, &err);
    if (rc == -EAGAIN) {
        client->backoff_ns = 0;
        wait_for_listener(client, now);
        return NULL;
    }
    client->busy_ns = 0;
    if (rc < 0) {
        fail(client, rc == -ENOENT || rc == -ENOTDIR ? GRPC_NO_SOCKET : GRPC_UNREACHABLE, err.text, now);
        return NULL;
    }
    client->handles++;
    vec_push(&client->links, link);
    return link.connection;
}

static Link *link_of(GrpcClient *client, const GrpcConnection *connection)
{
    for (size_t i = 0; i < client->links.len; i++) {
        if (client->links.at[i].connection == connection)
            return &client->links.at[i];
    }
    return NULL;
}

static void unlink_at(GrpcClient *client, size_t i, GrpcOutcome outcome, const char *text)
{
    GrpcConnection *connection = client->links.at[i].connection;

    vec_remove(&client->links, i);
    grpc_connection_close(connection, outcome, text);
}

/* -- the steps of a turn ----------------------------------------------------------------------------------------- */

static void time_out(GrpcClient *client, GrpcCall *call)
{
    Link *link = call->connection ? link_of(client, call->connection) : NULL;
    char duration[DURATION_TEXT_MAX], text[GRPC_TEXT_CAP];

    duration_format(duration, call->timeout_ns);
    (void)snprintf(text, sizeof(text), "%s within %s", link ? "no answer" : "no connection", duration);
    if (link) {
        grpc_session_cancel(grpc_connection_session(link->connection), &call->exchange);
        link->retired = true;
    }
    grpc_exchange_finish(&call->exchange, GRPC_TIMED_OUT, GRPC_DEADLINE_EXCEEDED, text);
}

static void expire(GrpcClient *client, uint64_t now)
{
    for (size_t i = 0; i < client->calls.len; i++) {
        GrpcCall *call = client->calls.at[i];

        if (!call->exchange.finished && call->deadline_ns <= now)
            time_out(client, call);
    }
}

/* The usual end of a kept connection: the server left while the call was on its way. */
static bool was_lost(const GrpcCall *call)
{
    return call->kept && call->exchange.outcome == GRPC_UNREACHABLE && !call->exchange.http_status;
}

/* A finished call tells something of its connection; one that was turned away goes back to the queue, once. */
static void judge(GrpcClient *client)
{
    for (size_t i = 0; i < client->calls.len; i++) {
        GrpcCall *call = client->calls.at[i];
        Link *link = call->connection ? link_of(client, call->connection) : NULL;

        if (!call->exchange.finished)
            continue;
        if (link && call->exchange.outcome == GRPC_ANSWERED) {
            link->answered = true;
            client->backoff_ns = client->connect_ns = 0;
        }
        call->connection = NULL;
        if (!call->again && (call->exchange.unprocessed || (client->config.repeatable && was_lost(call)))) {
            call->again = true;
            grpc_exchange_rewind(&call->exchange);
        }
    }
}

static void send_call(GrpcClient *client, GrpcCall *call, uint64_t now)
{
    const Link *link = link_of(client, call->connection);

    call->kept = link && link->answered;
    grpc_session_submit(grpc_connection_session(call->connection), &call->exchange, call->deadline_ns - now);
}

static void submit(GrpcClient *client, uint64_t now)
{
    for (size_t i = 0; i < client->calls.len; i++) {
        GrpcCall *call = client->calls.at[i];

        if (call->connection || call->exchange.finished)
            continue;
        call->connection = connection(client, now);
        if (call->connection)
            send_call(client, call, now);
        else if (client->backoff_ns)
            grpc_exchange_finish(&call->exchange, client->failure, GRPC_UNAVAILABLE, client->failure_text);
    }
}

/* Sends, retires what takes no more calls, and closes what has ended or has nothing left to do. */
static void tend(GrpcClient *client, uint64_t now)
{
    for (size_t i = client->links.len; i-- > 0;) {
        Link *link = &client->links.at[i];
        GrpcOutcome outcome = GRPC_UNREACHABLE;
        const char *text = "";

        grpc_connection_flush(link->connection);
        if (!grpc_session_is_open(grpc_connection_session(link->connection)))
            link->retired = true;
        if (grpc_connection_ended(link->connection, &outcome, &text)) {
            if (!link->answered && !link->retired)
                fail(client, outcome, text, now);
            unlink_at(client, i, outcome, text);
        } else if (link->retired && !grpc_session_calls(grpc_connection_session(link->connection))) {
            unlink_at(client, i, outcome, text);
        }
    }
}

/* The first finished call, taken out of the queue; NULL where there is none. */
static GrpcCall *take_finished(GrpcClient *client)
{
    for (size_t i = 0; i < client->calls.len; i++) {
        GrpcCall *call = client->calls.at[i];

        if (call->exchange.finished) {
            vec_remove(&client->calls, i);
            return call;
        }
    }
    return NULL;
}

static void deliver(GrpcClient *client)
{
    GrpcCall *call;

    while (!client->closing && (call = take_finished(client))) {
        GrpcReply reply = grpc_exchange_reply(&call->exchange);

        call->done(call->self, &reply);
        call_free(call);
    }
}

static uint64_t due(const GrpcClient *client)
{
    uint64_t at = UINT64_MAX;

    for (size_t i = 0; i < client->calls.len; i++) {
        const GrpcCall *call = client->calls.at[i];

        at = number_min_u64(at, call->deadline_ns);
        if (call->exchange.finished)
            at = 0;
        else if (!call->connection)
            at = number_min_u64(at, client->backoff_ns ? 0 : client->connect_ns);
    }
    return at;
}

static void arm(GrpcClient *client)
{
    uint64_t at = due(client), now = uv_hrtime(), ms;

    if (client->closing)
        return;
    if (at == UINT64_MAX) {
        uv_timer_stop(&client->timer);
        return;
    }
    ms = at <= now ? 0 : (at - now + NS_PER_MS - 1) / NS_PER_MS;
    uv_update_time(client->loop);
    uv_timer_start(&client->timer, on_timer, ms, 0);
}

static void turn(GrpcClient *client)
{
    uint64_t now = uv_hrtime();

    expire(client, now);
    judge(client); /* before its connection goes, where the answer was the last it sent */
    tend(client, now);
    judge(client);
    submit(client, now);
    tend(client, now);
    judge(client);
    deliver(client);
    arm(client);
}

/* -- the header's functions --------------------------------------------------------------------------------------- */

int grpc_client_new(uv_loop_t *loop, const GrpcClientConfig *config, GrpcClient **ret, Err *err)
{
    GrpcClient *client;
    int rc;

    if (!config->socket[0])
        return err_set(err, -EINVAL, "an empty socket path");
    if (strlen(config->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", config->socket);
    client = xcalloc(1, sizeof(*client));
    rc = uv_timer_init(loop, &client->timer);
    if (rc < 0) {
        free(client);
        return err_set(err, rc, "timer: %s", uv_strerror(rc));
    }
    client->timer.data = client;
    client->handles = 1;
    client->loop = loop;
    client->config = *config;
    client->socket = xstrdup(config->socket);
    client->authority = xstrdup(config->authority ? config->authority : "localhost");
    client->user_agent = xstrdup(config->user_agent ? config->user_agent : "stoker");
    client->config.socket = client->config.authority = client->config.user_agent = NULL;
    *ret = client;
    return 0;
}

static void close_links(GrpcClient *client, const char *text)
{
    while (client->links.len)
        unlink_at(client, client->links.len - 1, GRPC_UNREACHABLE, text);
}

void grpc_client_close(GrpcClient *client, void (*on_closed)(void *self), void *self)
{
    client->closing = true;
    client->on_closed = on_closed;
    client->self = self;
    close_links(client, "");
    for (size_t i = 0; i < client->calls.len; i++)
        call_free(client->calls.at[i]);
    vec_clear(&client->calls);
    uv_close((uv_handle_t *)&client->timer, on_timer_closed);
}

int grpc_client_call(GrpcClient *client, const char *method, const uint8_t *bytes, uint32_t len, uint64_t timeout_ns,
                     GrpcDone done, void *self, GrpcCall **ret_call, Err *err)
{
    GrpcCall *call;
    uint64_t now = uv_hrtime();

    if (client->calls.len >= client->config.calls_max)
        return err_set(err, -EBUSY, "%zu calls are under way", client->calls.len);
    call = xcalloc(1, sizeof(*call));
    *call = (GrpcCall){.client = client, .done = done, .self = self, .timeout_ns = timeout_ns};
    call->deadline_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    grpc_exchange_init(&call->exchange, method, bytes, len, client->config.reply_bytes);
    vec_push(&client->calls, call);
    arm(client);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void grpc_call_cancel(GrpcCall *call)
{
    GrpcClient *client = call->client;
    Link *link = call->connection ? link_of(client, call->connection) : NULL;

    if (link)
        grpc_session_cancel(grpc_connection_session(link->connection), &call->exchange);
    for (size_t i = 0; i < client->calls.len; i++) {
        if (client->calls.at[i] == call) {
            vec_remove(&client->calls, i);
            break;
        }
    }
    call_free(call);
    uv_timer_start(&client->timer, on_timer, 0, 0); /* the stream's reset is still to be sent */
}

void grpc_client_reset(GrpcClient *client)
{
    for (size_t i = 0; i < client->calls.len; i++)
        client->calls.at[i]->again |= client->calls.at[i]->connection != NULL;
    close_links(client, "the connection was reset");
    client->backoff_ns = client->busy_ns = client->connect_ns = 0;
    arm(client);
}
