/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP server for a single loop (libmicrohttpd inside libuv): TCP and unix sockets, sockets that systemd opened,
 * TLS, client certificates and basic auth from a Prometheus web-config file. Knows nothing of what it serves. All
 * functions on the loop's thread. Answers are reference-counted bodies, so that many connections may send the same
 * bytes; nothing is copied per connection. What they hold together has a ceiling (HttpLimits.answer_bytes).
 *
 * Nobody is refused a connection for those that are open: one of them gives way. First the one that has been idle for
 * longest; then one that takes its answer, of a page that is not kept, later a stream, later a kept page, of the
 * address with the most connections; last those that came or asked within young_ns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/err.h"
#include "base/log.h"

/* Bytes to send. Starts with one reference. */
typedef struct HttpBody HttpBody;
HttpBody *http_body_new(char *bytes, size_t len); /* takes over `bytes`, which came from malloc */
HttpBody *http_body_static(const char *bytes, size_t len);
HttpBody *http_body_ref(HttpBody *body);
void http_body_unref(HttpBody *body); /* accepts NULL */

typedef struct HttpRequest HttpRequest;                                /* lives until its handler returns */
const char *http_method(const HttpRequest *request);                   /* "GET", "HEAD", "POST" */
const char *http_path(const HttpRequest *request);                     /* "/metrics", decoded, without the query */
const char *http_query(const HttpRequest *request, const char *name);  /* NULL if it is not there */
const char *http_header(const HttpRequest *request, const char *name); /* any case; NULL if it is not there */
const char *http_remote(const HttpRequest *request);                   /* "127.0.0.1", "::1", "unix" */
/* The process that connected over a unix socket and its user, as the kernel noted them then (SO_PEERCRED); in a pid
 * namespace that is not ours it has the pid 0. -ENOTCONN for one that came over TCP. */
int http_peer(const HttpRequest *request, pid_t *ret_pid, uid_t *ret_uid);
uint64_t http_connection(const HttpRequest *request); /* a number that no other connection has had */
/* What a POST brought, with a NUL behind it; "" of another request. Valid until the handler returns. */
const char *http_body(const HttpRequest *request, size_t *ret_len);

typedef struct HttpField {
    const char *name, *value;
} HttpField;

/* GET and HEAD reach the handler, and POST of the paths HttpConfig.posts: other methods get 405, bodies over the limit
 * 413 (of unknown length 411), a body for which there is no memory under the ceiling 503, paths and queries with a bad
 * escape or a %00, and two Host headers 400, another Host than HttpConfig.hosts 421. What libmicrohttpd itself refuses
 * (no HTTP, no Host) gets its own page. With a web-config come 401, 403 and 429. */

/* Answer: takes over one reference of `body` (NULL: empty). `fields` are further headers. Exactly once per request,
 * before the handler returns, unless http_stream was called. HEAD is answered without the body by the server itself.
 * Where bodies that are being sent would exceed the ceiling, connections that hold the oldest are dropped; until their
 * memory is there the client gets 503, on a kept page its answer all the same. */
void http_answer(HttpRequest *request, unsigned status, const char *content_type, HttpBody *body,
                 const HttpField *fields, size_t field_count);
/* The same with a body of two, one behind the other; `second` may be NULL. */
void http_answer_two(HttpRequest *request, unsigned status, const char *content_type, HttpBody *first, HttpBody *second,
                     const HttpField *fields, size_t field_count);

/* Answer with a stream (server-sent events): the head is sent at once, then what http_stream_send gives, until the
 * client goes or http_stream_close. `encoding`: of what is sent (Content-Encoding), NULL none. A client that falls
 * behind by more than `queue_max` bodies is dropped. on_close is called once. */
typedef struct HttpStream HttpStream;
HttpStream *http_stream(HttpRequest *request, const char *content_type, const char *encoding, size_t queue_max,
                        void (*on_close)(void *self, HttpStream *stream), void *self);
void http_stream_send(HttpStream *stream, HttpBody *body); /* takes its own reference */
void http_stream_close(HttpStream *stream);

typedef void (*HttpHandler)(void *self, HttpRequest *request);

typedef struct HttpLimits {
    unsigned connections;          /* at once */
    unsigned connections_per_peer; /* of one address; unix sockets are not held to it */
    uint64_t young_ns;             /* a connection, or a request on it, gives way last for so long */
    uint64_t head_timeout_ns;      /* from the connection's start, or a kept one's request line, to the whole head; and
                                      from there to the whole body of a POST */
    uint64_t idle_timeout_ns;      /* of a kept-alive connection */
    uint64_t answer_timeout_ns;    /* to take an answer, and a second more for each 8 KiB of it */
    size_t answer_bytes;           /* of all bodies that are being sent, each counted once; static ones do not count */
    size_t head_bytes, body_bytes; /* a larger request gets 431 (or 414), 413; what is less is read and ignored */
    size_t post_bytes; /* of the body of a POST; those that are being received take at most half of answer_bytes */
} HttpLimits;
extern const HttpLimits http_default_limits;

typedef struct HttpConfig {
    /* ":9400", "127.0.0.1:9400", "[::1]:9400", "localhost:9400", "unix:/run/stoker/http.sock" (mode 0660),
     * "unix:/run/x.sock?mode=0666"; port 0: any */
    const char *const *listen;
    size_t listen_count;
    size_t *failed;         /* set to the place in `listen` of what cannot be opened, 0 for LISTEN_FDS; may be NULL */
    bool systemd_sockets;   /* LISTEN_FDS instead of `listen`; descriptors that are no listening sockets are an error */
    const char *web_config; /* Prometheus web-config file; NULL: plain and open */
    /* Names by which plain HTTP may be asked, "*.example.org" for all below, "*" for any; IP addresses, localhost and
     * unix sockets always may. Copied; NULL ends the list; a NULL list: any name. */
    const char *const *hosts;
    const char *const *posts; /* paths that take POST beside GET; borrowed; NULL ends the list; a NULL list: none */
    const char *const *kept;  /* pages that are answered whatever others take; borrowed; NULL ends the list */
    HttpLimits limits;
    HttpHandler handler;
    void *self;
    const Log *log; /* refused connections and handshakes, rate-limited */
} HttpConfig;

typedef struct HttpServer HttpServer;

/* Opens every listener (all or none); texts of `config` are borrowed for the call, `log` for longer. Ignores no
 * signals and needs none ignored. Errors name the address, or file, line and key of the web-config. */
int http_server_new(uv_loop_t *loop, const HttpConfig *config, HttpServer **ret, Err *err);
/* Reads the web-config file again. On an error the old one stays in force: TLS cannot be turned on or off. Open
 * connections stay as they are. */
int http_server_reload(HttpServer *server, Err *err);
/* The n-th file that a reload reads: the web-config and what it names; NULL past the last. Until the next reload. */
const char *http_server_file(const HttpServer *server, size_t n);
/* Checks a web-config file without a server. */
int http_web_config_check(const char *file, Err *err);
/* The n-th address it listens on, as a URL ("http://127.0.0.1:41327/", "unix:/run/..."), NULL past the last. */
const char *http_server_url(const HttpServer *server, size_t n);
/* Stops listening, ends streams and idle connections, and the others once their answer is sent or `grace_ns` is over;
 * then frees. on_closed (may be NULL) comes from the loop, never from within this call. Handlers may still be called
 * until then. A password check that has begun is waited for. */
void http_server_close(HttpServer *server, uint64_t grace_ns, void (*on_closed)(void *self), void *self);

typedef struct HttpCounts {
    uint64_t requests, refused_connections, evicted_connections, refused_answers, auth_failures, bytes_sent;
    uint64_t connections;  /* open now; may be a few over the limit while those that gave way are being closed */
    uint64_t answer_bytes; /* of the bodies that are being sent */
} HttpCounts;
void http_server_counts(const HttpServer *server, HttpCounts *ret);
