/* SPDX-License-Identifier: Apache-2.0 */
/* The server: libmicrohttpd inside libuv; opening, deadlines, reading the web-config anew, closing. */
#include "wire/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "wire/http/conn.h"

/* -- libmicrohttpd ------------------------------------------------------------------------------------------------
 */

enum { HEAD_EXTRA = 2048, CONN_SLACK = 256, SPINS_MAX = 16, SPIN_WAIT_MS = 10 };

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    server_run(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    server_run(timer->data);
}

static void on_idle(uv_idle_t *idle)
{
    server_run(idle->data);
}

static bool anybody_works(const HttpServer *server)
{
    for (const Conn *conn = server->first; conn; conn = conn->after)
        if (conn->busy && !conn->suspended)
            return true;
    return false;
}

/* When libmicrohttpd wants to run again though no socket stirs. "At once" is by a uv_idle: a timer of 0 that is started
 * anew by its own callback never lets libuv look at sockets. And 0.9.75 says "at once" without end while a TLS client
 * stops within a record of its handshake; where nobody is being answered, that is looked at only now and then. */
static void arm_daemon(HttpServer *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool wait = MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES;

    server->spins = wait && !wait_ms ? server->spins + 1 : 0;
    if (server->spins > SPINS_MAX && !anybody_works(server))
        wait_ms = SPIN_WAIT_MS;
    if (wait && !wait_ms)
        uv_idle_start(&server->mhd_idle, on_idle);
    else
        uv_idle_stop(&server->mhd_idle);
    if (wait && wait_ms)
        uv_timer_start(&server->mhd_timer, on_timer, wait_ms, 0);
    else
        uv_timer_stop(&server->mhd_timer);
}

void server_kick(HttpServer *server)
{
    uv_idle_start(&server->mhd_idle, on_idle);
}

void server_run(HttpServer *server)
{
    if (!server->mhd)
        return;
    MHD_run(server->mhd);
    arm_daemon(server);
}

/* Credentials come from us, per session (tls.c): this one is never asked, but without it there is no TLS daemon. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **certs,
                          unsigned *cert_count, gnutls_privkey_t *key)
{
    (void)session;
    (void)names;
    (void)name_count;
    (void)algorithms;
    (void)algorithm_count;
    (void)certs;
    (void)cert_count;
    (void)key;
    return -1;
}

static struct MHD_Daemon *start_daemon(HttpServer *server, bool tls)
{
    const HttpLimits *limits = &server->limits;
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0u);
    /* libmicrohttpd reads heads into one half of a connection's memory and writes from the other. */
    size_t memory = 2 * limits->head_bytes + HEAD_EXTRA;
    unsigned idle_s = (unsigned)((limits->idle_timeout_ns + NS_PER_S - 1) / NS_PER_S);
    struct MHD_OptionItem options[] = {{MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};

    if (tls) {
        union {
            gnutls_certificate_retrieve_function2 *fn;
            void *pointer;
        } callback = {.fn = no_certificate};

        options[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, callback.pointer};
    }
    return MHD_start_daemon(flags, 0, NULL, NULL, request_handle, server,                  //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,                    //
                            MHD_OPTION_CONNECTION_LIMIT, limits->connections + CONN_SLACK, //
                            MHD_OPTION_CONNECTION_TIMEOUT, idle_s,                         //
                            MHD_OPTION_STRICT_FOR_CLIENT, 1,                               //
                            MHD_OPTION_NOTIFY_CONNECTION, conn_notify, server,             //
                            MHD_OPTION_NOTIFY_COMPLETED, request_completed, server,        //
                            MHD_OPTION_URI_LOG_CALLBACK, request_uri, server,              //
                            MHD_OPTION_UNESCAPE_CALLBACK, request_unescape, server,        //
                            MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

/* Starts the daemon and watches it. */
static int open_daemon(HttpServer *server, Err *err)
{
    const bool tls = server->web->tls != NULL;
    const union MHD_DaemonInfo *info;
    int rc;

    server->mhd = start_daemon(server, tls);
    if (!server->mhd)
        return err_set(err, -EIO, "the HTTP library does not start%s", tls ? " with TLS" : "");
    info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    rc = info ? uv_poll_init(server->loop, &server->mhd_poll, info->epoll_fd) : UV_EIO;
    if (rc < 0) {
        MHD_stop_daemon(TAKE(server->mhd));
        return err_set(err, rc, "watching the HTTP library's descriptor: %s", uv_strerror(rc));
    }
    uv_timer_init(server->loop, &server->mhd_timer);
    uv_idle_init(server->loop, &server->mhd_idle);
    server->mhd_poll.data = server->mhd_timer.data = server->mhd_idle.data = server;
    server->handles += 3;
    uv_poll_start(&server->mhd_poll, UV_READABLE, on_poll);
    arm_daemon(server);
    return 0;
}

static void close_daemon(HttpServer *server)
{
    if (!server->mhd)
        return;
    uv_close((uv_handle_t *)&server->mhd_poll, server_handle_closed);
    uv_close((uv_handle_t *)&server->mhd_timer, server_handle_closed);
    uv_close((uv_handle_t *)&server->mhd_idle, server_handle_closed);
    MHD_stop_daemon(TAKE(server->mhd));
}

/* -- the server's life -----------------------------------------------------------------------------------------------
 */

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
    fd_close(&server->reserve_fd);
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
    close_daemon(server);
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

static void on_tick(uv_timer_t *timer)
{
    HttpServer *server = timer->data;
    uint64_t now = uv_hrtime(), next = UINT64_MAX;

    server_run(server); /* what has come in is read before anybody is judged by it */
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
    server_run(server);
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

static HttpServer *make_server(uv_loop_t *loop, const HttpConfig *config, WebConfig *web)
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

CLEANUP_POINTER(WebConfig, web_config_unref);

int http_server_new(uv_loop_t *loop, const HttpConfig *config, HttpServer **ret, Err *err)
{
    CLEANUP(listen_done) ListenSockets sockets = {0};
    CLEANUP(web_config_unref_at) WebConfig *web = NULL;
    HttpServer *server;
    int rc;

    TRY(web_config_load(config->web_config, &web, err));
    TRY(open_sockets(config, &sockets, err));
    server = make_server(loop, config, TAKE(web));
    rc = open_daemon(server, err);
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
    if (!web->tls != !server->web->tls)
        return err_set(err, -EINVAL, "%s: only a restart turns TLS on or off", server->web_path);
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
