/* SPDX-License-Identifier: Apache-2.0 */
/* The server's life: opening, deadlines, reading the web-config anew, closing. */
#include "wire/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/owner.h"
#include "wire/http/conn.h"

enum { LOG_BURST = 5 };

#define UNREAD_NS (20 * NS_PER_MS)

const HttpLimits http_default_limits = {
    .connections = 256,
    .connections_per_peer = 64,
    .head_timeout_ns = 10 * NS_PER_S,
    .idle_timeout_ns = 90 * NS_PER_S, /* over the usual intervals of scraping, so that connections are kept */
    .head_bytes = 8 * 1024,
    .body_bytes = 0,
};

static void on_tick(uv_timer_t *timer);

void server_tick_at(HttpServer *server, uint64_t deadline_ns)
{
    uint64_t now = uv_hrtime();

    if (server->stopped || (uv_is_active((uv_handle_t *)&server->tick) && deadline_ns >= server->tick_ns))
        return;
    server->tick_ns = deadline_ns;
    uv_update_time(server->loop);
    uv_timer_start(&server->tick, on_tick, deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0, 0);
}

static void server_free(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        free(server->listeners[i].url);
    free(server->listeners);
    owner_close(&server->reserve_fd);
    web_config_unref(server->web);
    free(server->web_path);
    if (server->on_closed)
        server->on_closed(server->closed_self);
    free(server);
}

void server_handle_closed(uv_handle_t *handle)
{
    HttpServer *server = handle->data;

    if (--server->handles == 0)
        server_free(server);
}

/* All is over: no connection, no worker, no stream's handle is left. */
static void server_stop(HttpServer *server)
{
    server->stopped = true;
    engine_stop(&server->plain);
    engine_stop(&server->tls);
    uv_close((uv_handle_t *)&server->tick, server_handle_closed);
    uv_close((uv_handle_t *)&server->retry, server_handle_closed);
}

/* Where closing has come to. */
static void closing_step(HttpServer *server)
{
    bool over = uv_hrtime() >= server->grace_end_ns;

    for (Conn *conn = server->first; over && conn; conn = conn->after)
        conn_drop(conn);
    if (!server->first && !server->jobs_running)
        server_stop(server);
    else if (!over)
        server_tick_at(server, server->grace_end_ns);
}

static void run_engines(HttpServer *server)
{
    engine_run(&server->plain);
    engine_run(&server->tls);
}

static void on_tick(uv_timer_t *timer)
{
    HttpServer *server = timer->data;
    uint64_t now = uv_hrtime(), next = UINT64_MAX;

    run_engines(server); /* what has come in is read before anybody is judged by it */
    for (Conn *conn = server->first; conn; conn = conn->after) {
        uint64_t deadline_ns = conn->deadline_ns;

        if (conn->dying)
            continue;
        if (conn->ended && !conn->busy && deadline_ns > now + UNREAD_NS)
            deadline_ns = now + UNREAD_NS; /* looked at again: something is unread yet */
        if (conn->deadline_ns <= now || conn_is_over(conn))
            conn_drop(conn);
        else if (deadline_ns < next)
            next = deadline_ns;
    }
    run_engines(server);
    if (next != UINT64_MAX)
        server_tick_at(server, next);
    if (server->closing)
        closing_step(server);
}

static void set_urls(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        Listener *listener = &server->listeners[i];
        size_t size = strlen(listener->socket.place) + sizeof("https:///");

        free(listener->url);
        listener->url = xmalloc(size);
        if (listener->socket.local)
            snprintf(listener->url, size, "unix:%s", listener->socket.place);
        else
            snprintf(listener->url, size, "http%s://%s/", server->web->tls ? "s" : "", listener->socket.place);
    }
}

static int open_sockets(const HttpConfig *config, ListenSockets *ret, Err *err)
{
    if (config->systemd_sockets)
        return listen_systemd(ret, err);
    for (size_t i = 0; i < config->listen_count; i++)
        TRY(listen_open(config->listen[i], ret, err));
    return ret->len ? 0 : err_set(err, -EINVAL, "no address to listen on");
}

static HttpServer *make(uv_loop_t *loop, const HttpConfig *config, WebConfig *web)
{
    HttpServer *server = xcalloc(1, sizeof(*server));
    LogLimit limit = {.window_ns = NS_PER_MIN, .burst = LOG_BURST};

    server->loop = loop;
    server->limits = config->limits;
    server->handler = config->handler;
    server->self = config->self;
    server->log = config->log;
    server->web_path = config->web_config ? xstrdup(config->web_config) : NULL;
    server->web = web;
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->refused_limit = server->tls_limit = server->auth_limit = limit;
    uv_timer_init(loop, &server->tick);
    uv_timer_init(loop, &server->retry);
    server->tick.data = server;
    server->retry.data = server;
    server->handles = 2;
    return server;
}

/* Takes over the sockets. */
static int start_listeners(HttpServer *server, ListenSockets *sockets, Err *err)
{
    server->listeners = xcalloc(sockets->len, sizeof(*server->listeners));
    for (size_t i = 0; i < sockets->len; i++) {
        Listener *listener = &server->listeners[i];

        *listener = (Listener){.server = server, .socket = sockets->at[i]};
        TRY(accept_start(listener, err));
        server->listener_count++;
        sockets->at[i] = (ListenSocket){.fd = -1};
    }
    return 0;
}

OWNER_POINTER(WebConfig, web_config_unref);

int http_server_new(uv_loop_t *loop, const HttpConfig *config, HttpServer **ret, Err *err)
{
    CLEANUP(listen_done) ListenSockets sockets = {0};
    CLEANUP(web_config_unref_at) WebConfig *web = NULL;
    HttpServer *server;
    int rc;

    TRY(web_config_load(config->web_config, &web, err));
    TRY(open_sockets(config, &sockets, err));
    server = make(loop, config, TAKE(web));
    rc = engine_need(server, server->web->tls != NULL, err);
    if (rc == 0)
        rc = start_listeners(server, &sockets, err);
    if (rc < 0) {
        http_server_close(server, 0, NULL, NULL);
        return rc;
    }
    set_urls(server);
    *ret = server;
    return 0;
}

int http_server_reload(HttpServer *server, Err *err)
{
    CLEANUP(web_config_unref_at) WebConfig *web = NULL;

    TRY(web_config_load(server->web_path, &web, err));
    TRY(engine_need(server, web->tls != NULL, err));
    web_config_unref(server->web);
    server->web = TAKE(web);
    set_urls(server);
    return 0;
}

const char *http_server_file(const HttpServer *server, size_t n)
{
    if (!server->web_path)
        return NULL;
    return n == 0 ? server->web_path : n <= ARRAY_LEN(server->web->files) ? server->web->files[n - 1] : NULL;
}

int http_web_config_check(const char *file, Err *err)
{
    CLEANUP(web_config_unref_at) WebConfig *web = NULL;

    return web_config_load(file, &web, err);
}

const char *http_server_url(const HttpServer *server, size_t n)
{
    return n < server->listener_count ? server->listeners[n].url : NULL;
}

void http_server_close(HttpServer *server, uint64_t grace_ns, void (*on_closed)(void *self), void *self)
{
    uint64_t now = uv_hrtime();

    if (server->closing)
        return;
    server->closing = true;
    server->grace_end_ns = grace_ns > UINT64_MAX - now ? UINT64_MAX : now + grace_ns;
    server->on_closed = on_closed;
    server->closed_self = self;
    uv_timer_stop(&server->retry);
    for (size_t i = 0; i < server->listener_count; i++) {
        server->listeners[i].poll.data = server;
        uv_close((uv_handle_t *)&server->listeners[i].poll, server_handle_closed);
        listen_close(&server->listeners[i].socket);
    }
    for (Conn *conn = server->first, *next; conn; conn = next) {
        next = conn->after;
        if (conn->stream)
            http_stream_close(conn->stream);
        else if (!conn->busy)
            conn_drop(conn);
    }
    server_tick_at(server, 0);
}

void http_server_counts(const HttpServer *server, HttpCounts *ret)
{
    *ret = server->counts;
}
