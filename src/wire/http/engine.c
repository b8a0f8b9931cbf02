/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd's daemons inside libuv. */
#include <errno.h>
#include <gnutls/abstract.h>
#include <string.h>

#include "base/owner.h"
#include "wire/http/conn.h"

enum { HEAD_EXTRA = 2048, CONN_SLACK = 256, SPINS_MAX = 16, SPIN_WAIT_MS = 10 };

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    engine_run(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    engine_run(timer->data);
}

static void on_idle(uv_idle_t *idle)
{
    engine_run(idle->data);
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
static void engine_arm(Engine *engine)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool wait = MHD_get_timeout(engine->mhd, &wait_ms) == MHD_YES;

    engine->spins = wait && !wait_ms ? engine->spins + 1 : 0;
    if (engine->spins > SPINS_MAX && !anybody_works(engine->server))
        wait_ms = SPIN_WAIT_MS;
    if (wait && !wait_ms)
        uv_idle_start(&engine->idle, on_idle);
    else
        uv_idle_stop(&engine->idle);
    if (wait && wait_ms)
        uv_timer_start(&engine->timer, on_timer, wait_ms, 0);
    else
        uv_timer_stop(&engine->timer);
}

void engine_kick(Engine *engine)
{
    if (engine->mhd)
        uv_idle_start(&engine->idle, on_idle);
}

void engine_run(Engine *engine)
{
    if (!engine->mhd)
        return;
    MHD_run(engine->mhd);
    engine_arm(engine);
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

static struct MHD_Daemon *start(HttpServer *server, bool tls)
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

int engine_need(HttpServer *server, bool tls, Err *err)
{
    Engine *engine = tls ? &server->tls : &server->plain;
    const union MHD_DaemonInfo *info;
    int rc;

    if (engine->mhd)
        return 0;
    engine->server = server;
    engine->tls = tls;
    engine->mhd = start(server, tls);
    if (!engine->mhd)
        return err_set(err, -EIO, "the HTTP library does not start%s", tls ? " with TLS" : "");
    info = MHD_get_daemon_info(engine->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    rc = info ? uv_poll_init(server->loop, &engine->poll, info->epoll_fd) : UV_EIO;
    if (rc < 0) {
        MHD_stop_daemon(TAKE(engine->mhd));
        return err_set(err, rc, "watching the HTTP library's descriptor: %s", uv_strerror(rc));
    }
    uv_timer_init(server->loop, &engine->timer);
    engine->poll.data = engine;
    uv_idle_init(server->loop, &engine->idle);
    engine->timer.data = engine;
    engine->idle.data = engine;
    server->handles += 3;
    uv_poll_start(&engine->poll, UV_READABLE, on_poll);
    engine_arm(engine);
    return 0;
}

void engine_stop(Engine *engine)
{
    if (!engine->mhd)
        return;
    engine->poll.data = engine->server;
    engine->timer.data = engine->server;
    engine->idle.data = engine->server;
    uv_close((uv_handle_t *)&engine->poll, server_handle_closed);
    uv_close((uv_handle_t *)&engine->timer, server_handle_closed);
    uv_close((uv_handle_t *)&engine->idle, server_handle_closed);
    MHD_stop_daemon(TAKE(engine->mhd));
}
