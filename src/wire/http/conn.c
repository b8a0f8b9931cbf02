/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: accepting them, their list, limits and ends. */
#include "wire/http/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "wire/http/tls.h"

/* -- the list and its ends -------------------------------------------------------------------------------------------
 */

static void unlink_conn(Conn *conn)
{
    HttpServer *server = conn->server;

    *(conn->before ? &conn->before->after : &server->first) = conn->after;
    *(conn->after ? &conn->after->before : &server->last) = conn->before;
    conn->before = conn->after = NULL;
}

static void link_last(Conn *conn)
{
    HttpServer *server = conn->server;

    conn->before = server->last;
    conn->after = NULL;
    *(server->last ? &server->last->after : &server->first) = conn;
    server->last = conn;
}

Conn *conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

void conn_deadline(Conn *conn, uint64_t ns_from_now)
{
    uint64_t now = uv_hrtime();

    conn->deadline_ns = ns_from_now > UINT64_MAX - now ? UINT64_MAX : now + ns_from_now;
    if (conn->deadline_ns != UINT64_MAX)
        server_tick_at(conn->server, conn->deadline_ns);
}

/* Handshake messages are reported only to mark the end of the handshake. */
static int on_finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    Conn *conn = gnutls_session_get_ptr(session);

    (void)type;
    (void)when;
    (void)message;
    if (incoming)
        conn->shaken = true;
    return 0;
}

static int on_verify(gnutls_session_t session)
{
    Conn *conn = gnutls_session_get_ptr(session);
    HttpServer *server = conn->server;
    uint64_t held = 0;
    Err err = {0};

    if (tls_session_verify(conn->web->tls, session, &err) == 0) {
        conn->cert_fine = true;
        return 0;
    }
    server->counts.auth_failures++;
    if (log_limit(&server->tls_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN, "TLS from %s refused: %s (%llu more were, unsaid)", conn->peer, err.text,
                  (unsigned long long)held);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

/* False if the session cannot be set up. */
static bool begin_tls(Conn *conn)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = info ? info->tls_session : NULL;

    if (!session || tls_session_begin(conn->web->tls, session) < 0)
        return false;
    conn->cert_fine = !tls_wants_cert(conn->web->tls);
    gnutls_session_set_ptr(session, conn);
    gnutls_session_set_verify_function(session, on_verify);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, on_finished);
    return true;
}

/* libmicrohttpd 0.9.75 misses the end of a stream that comes together with data: it reads the data, sees that there was
 * less than it asked for, and waits for an event that has been already. So we look for it. */
static void on_watch(uv_poll_t *watch, int status, int events)
{
    Conn *conn = watch->data;

    if (status == 0 && !(events & UV_DISCONNECT))
        return;
    uv_poll_stop(watch);
    conn->ended = true;
    if (conn->stream)
        conn_drop(conn);
    else
        server_tick_at(conn->server, 0);
}

static void watch_start(Conn *conn)
{
    HttpServer *server = conn->server;
    uv_poll_t *watch = xcalloc(1, sizeof(*watch));

    if (uv_poll_init(server->loop, watch, conn->fd) < 0) {
        free(watch); /* it is then closed by its deadlines */
        return;
    }
    watch->data = conn;
    conn->watch = watch;
    server->handles++;
    uv_poll_start(watch, UV_DISCONNECT, on_watch);
}

static void on_watch_closed(uv_handle_t *handle)
{
    server_handle_closed(handle);
    free(handle);
}

static void watch_stop(Conn *conn)
{
    uv_poll_t *watch = TAKE(conn->watch);

    if (!watch)
        return;
    watch->data = conn->server;
    uv_close((uv_handle_t *)watch, on_watch_closed);
}

bool conn_is_over(const Conn *conn)
{
    int unread = 0;

    return conn->ended && !conn->busy && (ioctl(conn->fd, FIONREAD, &unread) < 0 || unread == 0);
}

static void conn_free(Conn *conn)
{
    HttpServer *server = conn->server;

    if (conn->job)
        auth_job_cancel(conn);
    if (conn->web && !conn->shaken)
        log_write(server->log, LOG_LEVEL_DEBUG, "TLS handshake with %s was not completed", conn->peer);
    watch_stop(conn);
    unlink_conn(conn);
    server->counts.connections--;
    server->dying -= conn->dying;
    web_config_unref(conn->web);
    free(conn);
    if (server->closing)
        server_tick_at(server, 0);
}

/* The connection of a socket that was handed to libmicrohttpd, which may say so now or later. */
static Conn *find_added(const HttpServer *server, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

    for (Conn *conn = info ? server->last : NULL; conn; conn = conn->before)
        if (!conn->mhd && conn->fd == info->connect_fd)
            return conn;
    return NULL;
}

void conn_notify(void *self, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code)
{
    HttpServer *server = self;
    Conn *conn = *context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (conn)
            conn_free(conn);
        *context = NULL;
        return;
    }
    conn = find_added(server, mhd);
    if (!conn)
        return;
    conn->mhd = mhd;
    *context = conn;
    watch_start(conn);
    if (conn->web && !begin_tls(conn))
        conn_drop(conn);
}

/* True if `conn`, which may be freed already, is listed and not known to libmicrohttpd. */
static bool is_waiting(const HttpServer *server, const Conn *conn)
{
    for (const Conn *at = server->last; at; at = at->before)
        if (at == conn)
            return !at->mhd;
    return false;
}

static void conn_add(HttpServer *server, int fd, const char *peer, bool local, const struct sockaddr *address,
                     socklen_t len)
{
    Conn *conn = xcalloc(1, sizeof(*conn));

    conn->server = server;
    conn->web = server->web->tls ? web_config_ref(server->web) : NULL;
    conn->fd = fd;
    conn->local = local;
    stpcpy(conn->peer, peer);
    link_last(conn);
    server->counts.connections++;
    conn_deadline(conn, server->limits.head_timeout_ns);
    if (MHD_add_connection(server->mhd, fd, address, len) == MHD_YES)
        return;
    server->counts.refused_connections++; /* the descriptor is closed */
    if (is_waiting(server, conn)) {
        conn->shaken = true;
        conn_free(conn);
    }
}

void conn_begin(Conn *conn)
{
    conn->busy = true;
    conn->counted = false;
    conn->answer_bytes = conn->body_bytes = 0;
    conn->verdict = AUTH_UNKNOWN;
    conn->verdict_web = NULL;
    conn->server->counts.requests++;
    conn_deadline(conn, conn->server->limits.idle_timeout_ns); /* for the body, if one comes */
}

void conn_idle(Conn *conn)
{
    conn->busy = false;
    conn->bad_uri = false;
    if (conn->dying)
        return;
    unlink_conn(conn);
    link_last(conn);
    conn_deadline(conn, conn->server->limits.idle_timeout_ns);
    if (conn->server->closing)
        conn_drop(conn);
    else if (conn->ended)
        server_tick_at(conn->server, 0);
}

void conn_drop(Conn *conn)
{
    if (conn->dying)
        return;
    conn->dying = true;
    conn->server->dying++;
    shutdown(conn->fd, SHUT_RDWR);
    if (conn->job)
        auth_job_cancel(conn);
    conn_resume(conn); /* a suspended one would not notice */
}

void conn_suspend(Conn *conn)
{
    if (conn->suspended)
        return;
    conn->suspended = true;
    MHD_suspend_connection(conn->mhd);
}

void conn_resume(Conn *conn)
{
    if (!conn->suspended)
        return;
    conn->suspended = false;
    MHD_resume_connection(conn->mhd); /* with a loop from outside it wakes nobody */
    server_kick(conn->server);
}

/* A connection that only waits for its password to be checked is worth no more than an idle one. */
static bool may_go(const Conn *conn)
{
    return !conn->dying && (!conn->busy || conn->job);
}

static bool conn_make_room(HttpServer *server, const char *peer, bool local)
{
    Conn *oldest = NULL, *oldest_of_peer = NULL;
    size_t of_peer = 0, all = server->counts.connections - server->dying;
    bool peer_full;

    for (Conn *conn = server->first; conn; conn = conn->after) {
        bool same = !conn->dying && !strcmp(conn->peer, peer);

        of_peer += same;
        if (may_go(conn) && (!oldest || (oldest->busy && !conn->busy)))
            oldest = conn;
        if (same && may_go(conn) && (!oldest_of_peer || (oldest_of_peer->busy && !conn->busy)))
            oldest_of_peer = conn;
    }
    peer_full = !local && of_peer >= server->limits.connections_per_peer;
    if (!peer_full && all < server->limits.connections)
        return true;
    if (peer_full)
        oldest = oldest_of_peer;
    if (!oldest)
        return false;
    conn_drop(oldest);
    server->counts.evicted_connections++;
    return true;
}

/* -- accepting -------------------------------------------------------------------------------------------------------
 */

enum { BATCH = 16, RETRY_MS = 100 }; /* a batch at a time, then those taken are served */

typedef union PeerAddress {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
} PeerAddress;

static void on_listener(uv_poll_t *poll, int status, int events);
static void accept_retry(uv_timer_t *timer);

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

static void take_connection(Listener *listener, int fd, const PeerAddress *address, socklen_t len)
{
    HttpServer *server = listener->server;
    char peer[PEER_TEXT_MAX];

    format_peer(address, peer);
    if (conn_make_room(server, peer, listener->socket.local)) {
        conn_add(server, fd, peer, listener->socket.local, &address->any, len);
        return;
    }
    close(fd);
    count_refused(server, peer, "all connections are in use");
}

/* Stops looking at the listeners for a while: nothing else would keep the loop from spinning. False. */
static bool pause_listeners(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        uv_poll_stop(&server->listeners[i].poll);
    uv_timer_start(&server->retry, accept_retry, RETRY_MS, 0);
    return false;
}

static void accept_retry(uv_timer_t *timer)
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
        take_connection(listener, fd, &address, len);
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

static void on_listener(uv_poll_t *poll, int status, int events)
{
    Listener *listener = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < BATCH && accept_one(listener); i++)
        ;
    server_run(listener->server);
}

int accept_start(Listener *listener, Err *err)
{
    int rc = uv_poll_init(listener->server->loop, &listener->poll, listener->socket.fd);

    if (rc < 0)
        return err_set(err, rc, "watching '%s': %s", listener->socket.place, uv_strerror(rc));
    listener->poll.data = listener;
    listener->server->handles++;
    uv_poll_start(&listener->poll, UV_READABLE, on_listener);
    return 0;
}
