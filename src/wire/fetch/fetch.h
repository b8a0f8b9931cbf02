/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP client for a single loop (libcurl's multi interface inside libuv, TLS by GnuTLS): requests with a deadline
 * and a ceiling for the answer. http and https, and unix sockets. Redirects are not followed, proxies only as the
 * environment says (http_proxy, https_proxy, no_proxy). Knows nothing of what it carries. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

typedef struct FetchTls {
    const char *ca_file;              /* NULL: the system's */
    const char *cert_file, *key_file; /* NULL: none */
    const char *server_name;          /* NULL: the URL's */
    bool insecure;                    /* the server's certificate is not checked */
} FetchTls;

typedef struct FetchRequest {
    const char *url;
    const char *unix_socket;    /* connect here instead; NULL */
    const char *const *headers; /* "Content-Type: application/json" */
    size_t header_count;
    const char *body; /* NULL: none */
    size_t body_len;
    const char *method;          /* "PATCH"; NULL: POST with a body, GET without */
    const char *user, *password; /* basic auth; NULL none */
    const char *bearer;          /* token; NULL none */
    FetchTls tls;
    uint64_t timeout_ms; /* over all */
    /* The body of an answer with status 200 in parts as it comes, not kept for `done`; NULL: kept. From the loop; may
     * send, cancel and close, as `done` may. answer_max is then what may wait for one call of it: more is an error. */
    void (*part)(void *self, const char *bytes, size_t len);
    size_t answer_max; /* bytes of the answer that are kept; what is more is read and dropped */
} FetchRequest;

typedef struct FetchAnswer {
    unsigned int status;     /* of HTTP; 0: no answer, `text` says why */
    uint64_t retry_after_ms; /* of a Retry-After header, at most six hours; 0 none */
    const char *body;        /* valid for the call */
    size_t body_len;
    char text[256]; /* why there is no answer, for a log; "" */
} FetchAnswer;

typedef struct Fetch Fetch;
typedef struct FetchCall FetchCall;
typedef void (*FetchDone)(void *self, const FetchAnswer *answer);

int fetch_new(uv_loop_t *loop, Fetch **ret, Err *err);
/* Ends every request without an answer, within the call, and frees when the loop has closed its handles. */
void fetch_close(Fetch *fetch);
/* Everything is copied. -EINVAL for a URL that is none (before any call back). `done` comes from the loop, once. */
int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err);
void fetch_cancel(FetchCall *call); /* done is not called */
