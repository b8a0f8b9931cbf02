/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP server for a single loop (libmicrohttpd inside libuv): TCP and unix sockets, sockets that systemd opened,
 * TLS, client certificates and basic auth from a Prometheus web-config file. Knows nothing of what it serves. All
 * functions on the loop's thread. Answers are reference-counted bodies, so that many connections may send the same
 * bytes; nothing is copied per connection.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
const char *http_path(const HttpRequest *request);                     /* "/metrics", decoded, without the query */
const char *http_query(const HttpRequest *request, const char *name);  /* NULL if it is not there */
const char *http_header(const HttpRequest *request, const char *name); /* any case; NULL if it is not there */
const char *http_remote(const HttpRequest *request);                   /* "127.0.0.1", "::1", "unix" */

typedef struct HttpField {
    const char *name, *value;
} HttpField;

/* Only GET and HEAD reach the handler: other methods get 405, bodies over the limit 413 (of unknown length 411), paths
 * and queries with a bad escape or a %00 400. What libmicrohttpd itself refuses (no HTTP, no Host) gets its own page.
 * With a web-config come 401, 403 and 429. */

/* Answer: takes over one reference of `body` (NULL: empty). `fields` are further headers. Exactly once per request,
 * before the handler returns, unless http_stream was called. HEAD is answered without the body by the server itself. */
void http_answer(HttpRequest *request, unsigned status, const char *content_type, HttpBody *body,
                 const HttpField *fields, size_t field_count);

/* Answer with a stream (server-sent events): the head is sent at once, then what http_stream_send gives, until the
 * client goes or http_stream_close. A client that falls behind by more than `queue_max` bodies is dropped. on_close is
 * called once. */
typedef struct HttpStream HttpStream;
HttpStream *http_stream(HttpRequest *request, const char *content_type, size_t queue_max,
                        void (*on_close)(void *self, HttpStream *stream), void *self);
void http_stream_send(HttpStream *stream, HttpBody *body); /* takes its own reference */
void http_stream_close(HttpStream *stream);

typedef void (*HttpHandler)(void *self, HttpRequest *request);

typedef struct HttpLimits {
    unsigned connections; /* at once; the connection that has been idle for longest gives way to a new one */
    unsigned
        connections_per_peer; /* of one address, where its longest idle gives way; unix sockets are not held to it */
    uint64_t head_timeout_ns; /* from the connection's start, or a kept one's request line, to the whole head */
    uint64_t idle_timeout_ns; /* of a kept-alive connection, and of one that does not take its answer; one that
                               * takes it at less than 8 KiB/s is closed too */
    size_t head_bytes, body_bytes; /* a larger request gets 431 (or 414), 413; what is less is read and ignored */
} HttpLimits;
extern const HttpLimits http_default_limits;

typedef struct HttpConfig {
    /* ":9400", "127.0.0.1:9400", "[::1]:9400", "localhost:9400", "unix:/run/stoker/http.sock" (mode 0660),
     * "unix:/run/x.sock,mode=0666"; port 0: any */
    const char *const *listen;
    size_t listen_count;
    bool systemd_sockets;   /* LISTEN_FDS instead of `listen`; descriptors that are no listening sockets are an error */
    const char *web_config; /* Prometheus web-config file; NULL: plain and open */
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
    uint64_t requests, refused_connections, evicted_connections, auth_failures, bytes_sent;
    uint64_t connections; /* open now; may be a few over the limit while those that gave way are being closed */
} HttpCounts;
void http_server_counts(const HttpServer *server, HttpCounts *ret);
