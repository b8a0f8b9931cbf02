/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of the HTTP server, shared by its files. Loop's thread only.
 *
 * libmicrohttpd speaks HTTP on sockets that we accept: one daemon, driven by a uv_poll on its epoll descriptor, and a
 * uv_timer or uv_idle for when it asks to run again. Whether it speaks TLS is decided at the start. A web-config that
 * was read anew needs no new daemon: a TLS session gets its credentials from us, before its handshake.
 *
 * A CONN is a connection. The list holds them in the order in which they last became idle, so the first idle one has
 * been idle for longest. To end a connection its socket is shut down; libmicrohttpd then closes it and calls back. */

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/log.h"
#include "wire/http/auth.h"
#include "wire/http/listen.h"
#include "wire/http/server.h"
#include "wire/http/web_config.h"

enum { PEER_TEXT_MAX = 46 }; /* INET6_ADDRSTRLEN */

typedef struct Conn Conn;

/* The counts are not atomic. */
struct HttpBody {
    const char *bytes;
    char *owned; /* to free; NULL for static bytes */
    size_t len;
    unsigned refs;
    unsigned holds;  /* by answers and streams on their way */
    uint64_t number; /* in the order in which bodies were first held */
    bool dropped;    /* its connections were, and have not yet let go of it */
};

enum { ANSWER_BODIES = 2 };

/* What one request is answered with, until libmicrohttpd is done with it. */
typedef struct Answer {
    HttpServer *server;
    Conn *conn; /* NULL: gone, or at its next request */
    HttpBody *bodies[ANSWER_BODIES];
} Answer;

typedef struct AuthJob AuthJob;

typedef struct Listener {
    HttpServer *server;
    ListenSocket socket;
    char *url;
    uv_poll_t poll;
} Listener;

struct Conn {
    HttpServer *server;
    Conn *before, *after;
    struct MHD_Connection *mhd; /* NULL until libmicrohttpd took the socket */
    int fd;
    uint64_t number;          /* counts up, for http_connection */
    unsigned mates;           /* connections of this address that are not being closed, itself too */
    uint64_t since_ns;        /* when it came, asked or was answered */
    bool served;              /* it was answered once */
    uv_poll_t *watch;         /* for the end of what the client sends */
    bool ended;               /* it came */
    char peer[PEER_TEXT_MAX]; /* "127.0.0.1", "::1", "unix" */
    bool busy;                /* a request's head is complete and its answer is not yet sent */
    bool dying;               /* shut down */
    bool suspended;           /* in libmicrohttpd's sense */
    bool shaken;              /* the TLS handshake is over */
    bool cert_fine;           /* the client's certificate passed, or none is needed */
    uint64_t deadline_ns;     /* when it is closed; UINT64_MAX: not by us */
    WebConfig *web;           /* whose TLS credentials the session uses; NULL for a plain one */
    HttpStream *stream;       /* what it is answered with, if that is a stream */
    /* of the request in progress */
    bool bad_uri; /* an escape that is none, or of a NUL */
    bool counted; /* has passed the rate limit */
    bool kept;    /* of a kept page */
    Answer *answer;
    uint64_t answer_bytes;
    uint64_t body_bytes; /* received */
    char *post;          /* the body of a POST; NULL: none is wanted */
    size_t post_size;    /* its bytes when it is whole, which count as held */
    AuthJob *job;        /* the password check it waits for */
};

struct HttpServer {
    uv_loop_t *loop;
    HttpLimits limits;
    HttpHandler handler;
    void *self;
    const Log *log;
    char *web_path;
    WebConfig *web;
    Listener *listeners;
    size_t listener_count;
    struct MHD_Daemon *mhd; /* libmicrohttpd, on sockets that we accept */
    uv_poll_t mhd_poll;     /* on its epoll descriptor */
    uv_timer_t mhd_timer;   /* when it asks to run again: later, or at once */
    uv_idle_t mhd_idle;
    unsigned spins;     /* runs in a row after which it wanted to run again at once */
    Conn *first, *last; /* all connections, longest idle first */
    size_t dying;
    uint64_t conn_number, body_number;
    size_t post_bytes;    /* of bodies that are being received */
    size_t held_bytes;    /* these, and of bodies on their way */
    size_t dropped_bytes; /* of bodies on their way that are marked as dropped */
    char **hosts;         /* NULL: any */
    const char *const *posts, *const *kept;
    uv_timer_t tick; /* deadlines */
    uint64_t tick_ns;
    uv_timer_t retry; /* listens again after descriptors ran out */
    int reserve_fd;
    unsigned jobs_running; /* password checks in libuv's workers, begun or not */
    size_t handles;        /* uv handles that are not closed yet */
    HttpCounts counts;
    LogLimit refused_limit, tls_limit, auth_limit, host_limit;
    bool closing;
    uv_timer_t closing_timer; /* its steps */
    uint64_t grace_end_ns;
    void (*on_closed)(void *self);
    void *closed_self;
};

struct HttpRequest {
    Conn *conn;
    const char *method, *path;
    bool answered;
    enum MHD_Result result; /* of handing the answer over */
};

/* A password check in a worker. */
struct AuthJob {
    uv_work_t work;
    HttpServer *server;
    Conn *conn; /* NULL: gone meanwhile */
    WebConfig *web;
    AuthClaim claim;
    const char *hash; /* of web */
    bool known;       /* the user is one */
    bool matches;     /* by the worker */
};

/* conn.c */
void server_run(HttpServer *server); /* lets it work */
void server_handle_closed(
    uv_handle_t *handle); /* for uv_close of handles whose data is the server; the last frees it */
Conn *conn_of(struct MHD_Connection *mhd);
/* Makes room for one more of this peer, by dropping one if need be. */
void conn_make_room(HttpServer *server, const char *peer, bool local);
void conn_add(HttpServer *server, int fd, const char *peer, const struct sockaddr *address, socklen_t len);
void conn_notify(void *server, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code);
void conn_begin(Conn *conn); /* a request's head is there */
void conn_idle(Conn *conn);  /* its answer is sent */
void conn_drop(Conn *conn);  /* ends it */
void conn_suspend(Conn *conn);
void conn_resume(Conn *conn);
void conn_free_post(Conn *conn);
void conn_deadline(Conn *conn, uint64_t ns_from_now); /* UINT64_MAX: none */

/* body.c */
size_t body_count_bytes(const HttpBody *body); /* towards the ceiling: none of a static one */
/* One more answer or stream has it on its way; body_let_go with its reference. */
void body_hold(HttpServer *server, HttpBody *body);
void body_let_go(HttpServer *server, HttpBody *body);

/* request.c */
enum MHD_Result request_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_size, void **context);
void request_completed(void *server, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code);
void *request_uri(void *server, const char *uri, struct MHD_Connection *mhd);
size_t request_unescape(void *server, struct MHD_Connection *mhd, char *text);
