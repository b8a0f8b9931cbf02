/* SPDX-License-Identifier: Apache-2.0 */
/* Taking connections from the listening sockets, also where descriptors have run out: the one held in reserve is given
 * up for a moment, so that the queue of waiting connections does not keep the loop awake. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/owner.h"
#include "wire/http/conn.h"

enum { BATCH = 16, RETRY_MS = 100 }; /* a batch at a time, then those taken are served */

typedef union PeerAddress {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
} PeerAddress;

static void on_listener(uv_poll_t *poll, int status, int events);

static void peer_text(const PeerAddress *address, char out[PEER_TEXT_MAX])
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

static void refused(HttpServer *server, const char *peer, const char *why)
{
    uint64_t held = 0;

    server->counts.refused_connections++;
    if (log_limit(&server->refused_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN, "connection from %s refused: %s (%llu more were, unsaid)", peer, why,
                  (unsigned long long)held);
}

static void run_engines(HttpServer *server)
{
    engine_run(&server->plain);
    engine_run(&server->tls);
}

static void take(Listener *listener, int fd, const PeerAddress *address, socklen_t len)
{
    HttpServer *server = listener->server;
    char peer[PEER_TEXT_MAX];

    peer_text(address, peer);
    if (conn_make_room(server, peer, listener->socket.local)) {
        conn_add(server, fd, peer, listener->socket.local, &address->any, len);
        return;
    }
    close(fd);
    refused(server, peer, "all connections are in use");
}

/* Stops looking at the listeners for a while: nothing else would keep the loop from spinning. False. */
static bool pause_all(HttpServer *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        uv_poll_stop(&server->listeners[i].poll);
    uv_timer_start(&server->retry, accept_retry, RETRY_MS, 0);
    return false;
}

void accept_retry(uv_timer_t *timer)
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
        return false;    /* accept(2) asks for a descriptor before it looks whether anybody waits */
    run_engines(server); /* those just taken may have sent their requests */
    for (Conn *conn = server->first; conn; conn = conn->after) {
        if (conn->busy || conn->dying)
            continue;
        conn_drop(conn);
        server->counts.evicted_connections++;
        run_engines(server);
        return true;
    }
    owner_close(&server->reserve_fd);
    memset(&address, 0, sizeof(address));
    fd = accept4(listener->socket.fd, &address.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        peer_text(&address, peer);
        refused(server, peer, "no file descriptors left");
    }
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && server->reserve_fd >= 0 ? true : pause_all(server);
}

/* One connection. False where there are no more for now. */
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
        take(listener, fd, &address, len);
        return true;
    }
    if (errno == EAGAIN)
        return false;
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM)
        return true;
    if (errno != EMFILE && errno != ENFILE)
        return pause_all(listener->server);
    return on_exhausted(listener);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    Listener *listener = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < BATCH && accept_one(listener); i++)
        ;
    run_engines(listener->server);
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
