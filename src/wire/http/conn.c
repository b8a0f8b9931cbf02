/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: their list, limits, deadlines and ends, and libmicrohttpd's turns in the loop. */
#include "wire/http/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "wire/http/tls.h"

/* -- turns of the loop ------------------------------------------------------------------------------------------------
 */

enum { SPINS_MAX = 16, SPIN_WAIT_MS = 10 };

#define UNREAD_NS (20 * NS_PER_MS)

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

/* Lets libmicrohttpd work in the loop's next turn. */
static void server_kick(HttpServer *server)
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

static void on_tick(uv_timer_t *timer);

static void tick_at(HttpServer *server, uint64_t deadline_ns)
{
    uint64_t now = uv_hrtime();

    if (uv_is_active((uv_handle_t *)&server->tick) && deadline_ns >= server->tick_ns)
        return;
    server->tick_ns = deadline_ns;
    uv_update_time(server->loop);
    uv_timer_start(&server->tick, on_tick, deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0, 0);
}

/* All handles are closed. */
static void free_server(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        free(server->listeners[i].url);
    free(server->listeners);
    for (size_t i = 0; server->hosts && server->hosts[i]; i++)
        free(server->hosts[i]);
    free(server->hosts);
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
        free_server(server);
}

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
        tick_at(conn->server, conn->deadline_ns);
}

/* Handshake messages are reported only to mark the end of the handshake. */
static int on_finished(gnutls_session_t session, unsigned type UNUSED, unsigned when UNUSED, unsigned incoming,
                       const gnutls_datum_t *message UNUSED)
{
    Conn *conn = gnutls_session_get_ptr(session);

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
        tick_at(conn->server, 0);
}

static void start_watch(Conn *conn)
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

static void stop_watch(Conn *conn)
{
    uv_poll_t *watch = TAKE(conn->watch);

    if (!watch)
        return;
    watch->data = conn->server;
    uv_close((uv_handle_t *)watch, on_watch_closed);
}

/* Its password check ends by itself, for nobody. */
static void cancel_job(Conn *conn)
{
    AuthJob *job = TAKE(conn->job);

    if (!job)
        return;
    job->conn = NULL;
    (void)uv_cancel((uv_req_t *)&job->work);
}

/* One more of its address, or one less. */
static void count_mates(Conn *conn, bool more)
{
    unsigned mates = more;

    for (Conn *at = conn->server->first; at; at = at->after) {
        if (at == conn || at->dying || strcmp(at->peer, conn->peer) != 0)
            continue;
        mates += more;
        at->mates += more ? 1u : -1u;
    }
    conn->mates = mates;
}

static void conn_free(Conn *conn)
{
    HttpServer *server = conn->server;

    cancel_job(conn);
    conn_free_post(conn);
    if (conn->answer)
        conn->answer->conn = NULL;
    if (!conn->dying)
        count_mates(conn, false);
    if (conn->web && !conn->shaken)
        log_write(server->log, LOG_LEVEL_DEBUG, "TLS handshake with %s was not completed", conn->peer);
    stop_watch(conn);
    unlink_conn(conn);
    server->counts.connections--;
    server->dying -= conn->dying;
    web_config_unref(conn->web);
    free(conn);
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
    start_watch(conn);
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

void conn_add(HttpServer *server, int fd, const char *peer, const struct sockaddr *address, socklen_t len)
{
    Conn *conn = xcalloc(1, sizeof(*conn));

    conn->server = server;
    conn->web = server->web->tls ? web_config_ref(server->web) : NULL;
    conn->fd = fd;
    conn->number = ++server->conn_number;
    conn->since_ns = uv_hrtime();
    stpcpy(conn->peer, peer);
    link_last(conn);
    count_mates(conn, true);
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
    conn->counted = conn->kept = false;
    conn->since_ns = uv_hrtime();
    conn->answer_bytes = conn->body_bytes = 0;
    conn->server->counts.requests++;
    conn_deadline(conn, conn->server->limits.idle_timeout_ns); /* for the body, if one comes */
}

void conn_free_post(Conn *conn)
{
    conn->server->held_bytes -= conn->post_size;
    conn->server->post_bytes -= conn->post_size;
    conn->post_size = 0;
    free(TAKE(conn->post));
}

void conn_idle(Conn *conn)
{
    conn_free_post(conn);
    conn->busy = false;
    conn->served = true;
    conn->bad_uri = false;
    if (conn->dying)
        return;
    unlink_conn(conn);
    link_last(conn);
    conn_deadline(conn, conn->server->limits.idle_timeout_ns);
    if (conn->server->closing)
        conn_drop(conn);
    else if (conn->ended)
        tick_at(conn->server, 0);
}

void conn_drop(Conn *conn)
{
    if (conn->dying)
        return;
    count_mates(conn, false);
    conn->dying = true;
    conn->server->dying++;
    shutdown(conn->fd, SHUT_RDWR);
    cancel_job(conn);
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

/* Its client sends no more, and nothing it sent is left to answer. */
static bool is_over(const Conn *conn)
{
    int unread = 0;

    return conn->ended && !conn->busy && (ioctl(conn->fd, FIONREAD, &unread) < 0 || unread == 0);
}

/* Drops those whose time is over. */
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
        if (conn->deadline_ns <= now || is_over(conn))
            conn_drop(conn);
        else if (deadline_ns < next)
            next = deadline_ns;
    }
    server_run(server);
    if (next != UINT64_MAX)
        tick_at(server, next);
}

/* Which connection gives way: the lowest rank first. */
typedef enum Rank { RANK_IDLE, RANK_BUSY, RANK_STREAM, RANK_KEPT, RANK_YOUNG } Rank;

/* One that only waits for its password to be checked is worth no more than an idle one. */
static Rank find_rank(const Conn *conn, uint64_t now)
{
    const bool young = now - conn->since_ns < conn->server->limits.young_ns;

    if (conn->job || (!conn->busy && (conn->served || !young)))
        return RANK_IDLE;
    if (young)
        return RANK_YOUNG;
    return conn->stream ? RANK_STREAM : conn->kept ? RANK_KEPT : RANK_BUSY;
}

/* Among those of this address (NULL: any) the one that gives way; of equals the first, which has been so for longest.
 */
static Conn *find_victim(const HttpServer *server, const char *peer)
{
    const uint64_t now = uv_hrtime();
    Conn *found = NULL;
    Rank least = RANK_YOUNG;

    for (Conn *conn = server->first; conn; conn = conn->after) {
        if (conn->dying || (peer && strcmp(conn->peer, peer) != 0))
            continue;
        const Rank rank = find_rank(conn, now);
        if (found && (rank > least || (rank == least && (rank == RANK_IDLE || conn->mates <= found->mates))))
            continue;
        found = conn;
        least = rank;
    }
    return found;
}

void conn_make_room(HttpServer *server, const char *peer, bool local)
{
    const Conn *same = server->first;
    Conn *victim;

    while (same && (same->dying || strcmp(same->peer, peer) != 0))
        same = same->after;
    const bool peer_full = !local && same && same->mates >= server->limits.connections_per_peer;
    if (!peer_full && server->counts.connections - server->dying < server->limits.connections)
        return;
    victim = find_victim(server, peer_full ? peer : NULL);
    if (!victim)
        return;
    conn_drop(victim);
    server->counts.evicted_connections++;
}
