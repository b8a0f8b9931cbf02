/* SPDX-License-Identifier: Apache-2.0 */
/* The server: libmicrohttpd inside libuv; opening, deadlines, reading the web-config anew, closing. */
#include "wire/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "wire/http/conn.h"

/* -- libmicrohttpd ------------------------------------------------------------------------------------------------
 */

enum { HEAD_EXTRA = 2048, CONN_SLACK = 256 };

static void on_poll(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    server_run(poll->data);
}

/* Credentials come from us, per session (tls.c): this one is never asked, but without it there is no TLS daemon. */
static int no_certificate(gnutls_session_t session UNUSED, const gnutls_datum_t *names UNUSED, int name_count UNUSED,
                          const gnutls_pk_algorithm_t *algorithms UNUSED, int algorithm_count UNUSED,
                          gnutls_pcert_st **certs UNUSED, unsigned *cert_count UNUSED, gnutls_privkey_t *key UNUSED)
{
    return -1;
}

static struct MHD_Daemon *start_daemon(HttpServer *server, bool tls)
{
    const HttpLimits *limits = &server->limits;
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0u);
    /* libmicrohttpd reads heads into one half of a connection's memory and writes from the other. */
    size_t memory = 2 * limits->head_bytes + HEAD_EXTRA;
    const uint64_t longest = number_max_u64(limits->idle_timeout_ns, limits->answer_timeout_ns);
    unsigned idle_s = (unsigned)((longest + NS_PER_S - 1) / NS_PER_S);
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
    server_run(server);
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

/* -- accepting -------------------------------------------------------------------------------------------------------
 */

enum { SEND_BUFFER = 32 * 1024, RECEIVE_BUFFER = 8 * 1024 };
enum { BATCH = 16, RETRY_MS = 100 }; /* a batch at a time, then those taken are served */

typedef union PeerAddress {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
} PeerAddress;

static void on_listener(uv_poll_t *poll, int status, int events);
static void retry_listeners(uv_timer_t *timer);

static void format_peer(const PeerAddress *address, char out[PEER_TEXT_MAX])
{
    const struct in6_addr *v6 = &address->v6.sin6_addr;

    if (address->any.sa_family == AF_INET)
        inet_ntop(AF_INET, &address->v4.sin_addr, out, PEER_TEXT_MAX);
    else if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6))
        inet_ntop(AF_INET, &v6->s6_addr[12], out, PEER_TEXT_MAX);
    else if (address->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, v6, out, PEER_TEXT_MAX);
    else
        stpcpy(out, "unix");
}

static void count_refused(HttpServer *server, const char *peer, const char *why)
{
    uint64_t held = 0;

    server->counts.refused_connections++;
    if (log_limit(&server->refused_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN, "connection from %s refused: %s (%llu more were, unsaid)", peer, why,
                  (unsigned long long)held);
}

/* The kernel doubles both for its own needs. They count against the control group's memory, so the default, which grows
 * to megabytes for a client that sends much or takes nothing, is not for us. */
static void limit_buffers(int fd)
{
    const int send = SEND_BUFFER, receive = RECEIVE_BUFFER;

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof send);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive);
}

static void add_connection(Listener *listener, int fd, const PeerAddress *address, socklen_t len)
{
    HttpServer *server = listener->server;
    char peer[PEER_TEXT_MAX];

    format_peer(address, peer);
    limit_buffers(fd);
    conn_make_room(server, peer, listener->socket.local);
    conn_add(server, fd, peer, &address->any, len);
}

/* Stops looking at the listeners for a while: nothing else would keep the loop from spinning. False. */
static bool pause_listeners(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        uv_poll_stop(&server->listeners[i].poll);
    uv_timer_start(&server->retry, retry_listeners, RETRY_MS, 0);
    return false;
}

static void retry_listeners(uv_timer_t *timer)
{
    HttpServer *server = timer->data;

    if (server->reserve_fd < 0)
        server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < server->listener_count; i++)
        uv_poll_start(&server->listeners[i].poll, UV_READABLE, on_listener);
}

/* Frees the descriptor of the longest idle connection; where there is none, refuses the one that waits, by the
 * reserve. True where accept is worth another try. */
static bool on_exhausted(Listener *listener)
{
    HttpServer *server = listener->server;
    PeerAddress address;
    socklen_t len = sizeof(address);
    char peer[PEER_TEXT_MAX];
    struct pollfd waiting = {.fd = listener->socket.fd, .events = POLLIN};
    int fd;

    if (poll(&waiting, 1, 0) == 0)
        return false;   /* accept(2) asks for a descriptor before it looks whether anybody waits */
    server_run(server); /* those just taken may have sent their requests */
    for (Conn *conn = server->first; conn; conn = conn->after) {
        if (conn->busy || conn->dying)
            continue;
        conn_drop(conn);
        server->counts.evicted_connections++;
        server_run(server);
        return true;
    }
    fd_close(&server->reserve_fd);
    memset(&address, 0, sizeof(address));
    fd = accept4(listener->socket.fd, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        format_peer(&address, peer);
        count_refused(server, peer, "no file descriptors left");
    }
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && server->reserve_fd >= 0 ? true : pause_listeners(server);
}

/* One connection. False if there are no more for now. */
static bool accept_one(Listener *listener)
{
    PeerAddress address;
    socklen_t len = sizeof(address);
    int fd;

    if (listener->server->closing)
        return false;
    memset(&address, 0, sizeof(address));
    fd = accept4(listener->socket.fd, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        add_connection(listener, fd, &address, len);
        return true;
    }
    if (errno == EAGAIN)
        return false;
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM)
        return true;
    if (errno != EMFILE && errno != ENFILE)
        return pause_listeners(listener->server);
    return on_exhausted(listener);
}

static void on_listener(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    Listener *listener = poll->data;

    for (int i = 0; i < BATCH && accept_one(listener); i++)
        ;
    server_run(listener->server);
}

static int start_listener(Listener *listener, Err *err)
{
    int rc = uv_poll_init(listener->server->loop, &listener->poll, listener->socket.fd);

    if (rc < 0)
        return err_set(err, rc, "watching '%s': %s", listener->socket.place, uv_strerror(rc));
    listener->poll.data = listener;
    listener->server->handles++;
    uv_poll_start(&listener->poll, UV_READABLE, on_listener);
    return 0;
}

/* -- the server's life -----------------------------------------------------------------------------------------------
 */

enum { LOG_BURST = 5, CLOSING_MS = 5 };

const HttpLimits http_default_limits = {
    .connections = 256,
    .connections_per_peer = 64,
    .head_timeout_ns = 10 * NS_PER_S,
    .young_ns = NS_PER_S,
    .idle_timeout_ns = 90 * NS_PER_S, /* over the usual intervals of scraping, so that connections are kept */
    .answer_timeout_ns = 30 * NS_PER_S,
    .answer_bytes = 4 * 1024 * 1024,
    .head_bytes = 8 * 1024,
    .body_bytes = 0,
};

/* All is over: no connection, no worker, no stream's handle is left. */
static void stop_server(HttpServer *server)
{
    close_daemon(server);
    uv_close((uv_handle_t *)&server->tick, server_handle_closed);
    uv_close((uv_handle_t *)&server->retry, server_handle_closed);
    uv_close((uv_handle_t *)&server->closing_timer, server_handle_closed);
}

/* Looks where closing has come to, until it is over. */
static void on_closing(uv_timer_t *timer)
{
    HttpServer *server = timer->data;
    bool over = uv_hrtime() >= server->grace_end_ns;

    for (Conn *conn = server->first; over && conn; conn = conn->after)
        conn_drop(conn);
    server_run(server);
    if (!server->first && !server->jobs_running)
        stop_server(server);
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
    const size_t count = config->systemd_sockets ? 1 : config->listen_count;

    for (size_t i = 0; i < count; i++) {
        const int rc = config->systemd_sockets ? listen_systemd(ret, err) : listen_open(config->listen[i], ret, err);

        if (rc < 0 && config->failed)
            *config->failed = i;
        TRY(rc);
    }
    return ret->len ? 0 : err_set(err, -EINVAL, "no address to listen on");
}

static char **copy_hosts(const char *const *hosts)
{
    size_t count = 0;
    char **copy;

    while (hosts && hosts[count])
        count++;
    if (!hosts)
        return NULL;
    copy = xcalloc(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = xstrdup(hosts[i]);
    return copy;
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
    server->hosts = copy_hosts(config->hosts);
    server->posts = config->posts;
    server->kept = config->kept;
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->refused_limit = server->tls_limit = server->auth_limit = server->host_limit = limit;
    uv_timer_init(loop, &server->tick);
    uv_timer_init(loop, &server->retry);
    uv_timer_init(loop, &server->closing_timer);
    server->tick.data = server->retry.data = server->closing_timer.data = server;
    server->handles = 3;
    return server;
}

/* Takes over the sockets. */
static int start_listeners(HttpServer *server, ListenSockets *sockets, Err *err)
{
    server->listeners = xcalloc(sockets->len, sizeof(*server->listeners));
    for (size_t i = 0; i < sockets->len; i++) {
        Listener *listener = &server->listeners[i];

        *listener = (Listener){.server = server, .socket = sockets->at[i]};
        TRY(start_listener(listener, err));
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
    uv_timer_start(&server->closing_timer, on_closing, 0, CLOSING_MS);
}

void http_server_counts(const HttpServer *server, HttpCounts *ret)
{
    *ret = server->counts;
    ret->answer_bytes = server->held_bytes;
}
