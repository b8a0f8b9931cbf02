/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers: password checks, refusals before the handler, the functions for the handler, bodies
 * and streams. A connection is suspended while its password is checked, and while its stream has nothing to send:
 * libmicrohttpd then does not look at its socket, but conn.c does. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "wire/http/conn.h"

/* -- bodies ----------------------------------------------------------------------------------------------------------
 */

static HttpBody *body_new(const char *bytes, char *owned, size_t len)
{
    HttpBody *body = xmalloc(sizeof(*body));

    *body = (HttpBody){.bytes = bytes, .owned = owned, .len = len, .refs = 1};
    return body;
}

HttpBody *http_body_new(char *bytes, size_t len)
{
    return body_new(bytes, bytes, len);
}

HttpBody *http_body_static(const char *bytes, size_t len)
{
    return body_new(bytes, NULL, len);
}

HttpBody *http_body_ref(HttpBody *body)
{
    assert(body->refs > 0);
    body->refs++;
    return body;
}

void http_body_unref(HttpBody *body)
{
    if (!body || --body->refs > 0)
        return;
    free(body->owned);
    free(body);
}

/* -- password checks -------------------------------------------------------------------------------------------------
 */

static void free_job(AuthJob *job)
{
    auth_claim_done(&job->claim);
    web_config_unref(job->web);
    free(job);
}

static void check_password(uv_work_t *work)
{
    AuthJob *job = work->data;

    job->matches = auth_matches(job->hash, job->claim.password);
}

static void on_checked(uv_work_t *work, int status)
{
    AuthJob *job = work->data;
    HttpServer *server = job->server;
    Conn *conn = job->conn;

    server->jobs_running--;
    if (status == 0)
        auth_remember(job->web->auth, &job->claim, job->known && job->matches);
    if (conn) {
        conn->job = NULL;
        conn_resume(conn); /* it recalls what was found */
    }
    free_job(job);
}

static void count_failure(Conn *conn)
{
    HttpServer *server = conn->server;
    uint64_t held = 0;

    server->counts.auth_failures++;
    if (log_limit(&server->auth_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN, "%s: wrong user or password (%llu more were, unsaid)", conn->peer,
                  (unsigned long long)held);
}

static void begin_job(Conn *conn, AuthClaim *claim)
{
    HttpServer *server = conn->server;
    AuthJob *job = xcalloc(1, sizeof(*job));

    job->work.data = job;
    job->server = server;
    job->conn = conn;
    job->web = web_config_ref(server->web);
    job->claim = *claim;
    *claim = (AuthClaim){0};
    job->hash = auth_hash_of(job->web->auth, &job->claim, &job->known);
    conn->job = job;
    conn_deadline(conn, UINT64_MAX);
    conn_suspend(conn);
    server->jobs_running++;
    uv_queue_work(server->loop, &job->work, check_password, on_checked);
}

/* AUTH_UNKNOWN: the connection is suspended until it is known. */
static AuthVerdict check_auth(Conn *conn, const char *header)
{
    CLEANUP(auth_claim_done) AuthClaim claim = {0};
    const Auth *auth = conn->server->web->auth;
    AuthVerdict verdict = AUTH_WRONG;

    if (!header)
        return AUTH_WRONG; /* browsers ask first without; no failure */
    if (auth_claim(auth, header, &claim))
        verdict = auth_recall(auth, &claim);
    if (verdict == AUTH_UNKNOWN)
        begin_job(conn, &claim);
    else if (verdict == AUTH_WRONG)
        count_failure(conn);
    return verdict;
}

/* -- requests --------------------------------------------------------------------------------------------------------
 */

enum { SLOWEST_BYTES_PER_S = 8 * 1024 }; /* a client that takes its answer more slowly is closed */

void *request_uri(void *self UNUSED, const char *uri UNUSED, struct MHD_Connection *mhd)
{
    Conn *conn = conn_of(mhd);

    if (conn && !conn->busy)
        conn_deadline(conn, conn->server->limits.head_timeout_ns);
    return NULL;
}

/* Decodes in place. What is no escape, or one of NUL, makes the request a bad one. */
size_t request_unescape(void *self UNUSED, struct MHD_Connection *mhd, char *text)
{
    for (const char *at = strchr(text, '%'); at; at = strchr(at + 1, '%'))
        if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]) || strncmp(at, "%00", 3) == 0)
            conn_of(mhd)->bad_uri = true;
    return MHD_http_unescape(text);
}

static enum MHD_Result request_send(Conn *conn, unsigned status, struct MHD_Response *response)
{
    const HttpServer *server = conn->server;
    const WebFile *file = &server->web->file;
    enum MHD_Result result;

    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < file->header_count; i++)
        MHD_add_response_header(response, file->headers[i].name, file->headers[i].value);
    if (server->closing)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    result = MHD_queue_response(conn->mhd, status, response);
    MHD_destroy_response(response);
    return result;
}

static void release_body(void *body)
{
    http_body_unref(body);
}

static bool has_no_body(unsigned status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Takes over `body`. */
static enum MHD_Result send_body(Conn *conn, unsigned status, const char *type, HttpBody *body, const HttpField *fields,
                                 size_t field_count, bool head)
{
    struct MHD_Response *response;
    union {
        const char *in;
        void *out; /* is only read */
    } bytes;
    size_t len;

    if (!body || has_no_body(status)) {
        http_body_unref(body);
        body = http_body_static("", 0);
    }
    len = body->len;
    bytes.in = body->bytes;
    response = MHD_create_response_from_buffer_with_free_callback_cls(len, bytes.out, release_body, body);
    if (!response) {
        http_body_unref(body);
        return MHD_NO;
    }
    if (type && !has_no_body(status))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < field_count; i++)
        MHD_add_response_header(response, fields[i].name, fields[i].value);
    conn->answer_bytes = head ? 0 : len;
    conn_deadline(conn, conn->server->limits.idle_timeout_ns + conn->answer_bytes * NS_PER_S / SLOWEST_BYTES_PER_S);
    return request_send(conn, status, response);
}

static enum MHD_Result refuse_request(Conn *conn, unsigned status, const char *text, const HttpField *field)
{
    return send_body(conn, status, "text/plain; charset=utf-8", http_body_static(text, strlen(text)), field,
                     field ? 1 : 0, false);
}

void http_answer(HttpRequest *request, unsigned status, const char *content_type, HttpBody *body,
                 const HttpField *fields, size_t field_count)
{
    assert(!request->answered);
    request->answered = true;
    request->result =
        send_body(request->conn, status, content_type, body, fields, field_count, !strcmp(request->method, "HEAD"));
}

static const char *find_header(Conn *conn, const char *name)
{
    return MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, name);
}

const char *http_path(const HttpRequest *request)
{
    return request->path;
}

const char *http_query(const HttpRequest *request, const char *name)
{
    const char *value = NULL;
    size_t len = 0;

    if (MHD_lookup_connection_value_n(request->conn->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value, &len) !=
        MHD_YES)
        return NULL;
    return value ? value : ""; /* "?name" without a value */
}

const char *http_header(const HttpRequest *request, const char *name)
{
    return find_header(request->conn, name);
}

const char *http_remote(const HttpRequest *request)
{
    return request->conn->peer;
}

/* The path of a request target, which a client may also write as a whole URL (RFC 9112, 3.2.2). NULL for none. */
static const char *path_of(const char *target)
{
    size_t scheme = 0;

    if (!strncasecmp(target, "http://", 7))
        scheme = 7;
    else if (!strncasecmp(target, "https://", 8))
        scheme = 8;
    if (scheme) {
        const char *slash = strchr(target + scheme, '/');

        return slash ? slash : "/";
    }
    return *target == '/' ? target : NULL;
}

/* What the head alone decides. 0 if nothing is wrong with it. */
static unsigned check_head(Conn *conn, const char *url, const char *method, const char **ret_text)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = find_header(conn, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t body = 0;

    *ret_text = "this server answers GET and HEAD alone\n";
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    *ret_text = "the head of the request is too large\n";
    if (info && info->header_size > conn->server->limits.head_bytes)
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    *ret_text = "a request body without a length is not accepted\n";
    if (find_header(conn, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return MHD_HTTP_LENGTH_REQUIRED;
    *ret_text = "the body of the request is too large\n";
    if (length && (number_parse_u64(length, 0, UINT64_MAX, &body, NULL) < 0 || body > conn->server->limits.body_bytes))
        return MHD_HTTP_CONTENT_TOO_LARGE;
    *ret_text = "the request's path or query is malformed\n";
    if (conn->bad_uri || !path_of(url))
        return MHD_HTTP_BAD_REQUEST;
    return 0;
}

static enum MHD_Result begin_request(Conn *conn, const char *url, const char *method)
{
    static const HttpField allow = {"Allow", "GET, HEAD"};
    const char *text;
    unsigned status;

    conn_begin(conn);
    status = check_head(conn, url, method, &text);
    if (!status)
        return MHD_YES;
    return refuse_request(conn, status, text, status == MHD_HTTP_METHOD_NOT_ALLOWED ? &allow : NULL);
}

static enum MHD_Result call_handler(Conn *conn, const char *path, const char *method)
{
    HttpServer *server = conn->server;
    HttpRequest request = {.conn = conn, .method = method, .path = path, .result = MHD_NO};

    server->handler(server->self, &request);
    if (!request.answered)
        return refuse_request(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "nothing answered this request\n", NULL);
    return request.result;
}

/* The request is whole. Called again where it was suspended for the check of a password. */
static enum MHD_Result serve_request(Conn *conn, const char *path, const char *method)
{
    static const HttpField challenge = {"WWW-Authenticate", "Basic realm=\"stoker\", charset=\"UTF-8\""};
    WebConfig *web = conn->server->web;

    if (!conn->cert_fine && conn->web)
        return refuse_request(conn, MHD_HTTP_FORBIDDEN, "a client certificate is needed\n", NULL);
    if (!conn->counted && !web_config_admit(web, uv_hrtime()))
        return refuse_request(conn, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests (rate_limit of the web-config)\n",
                              NULL);
    conn->counted = true;
    if (web->auth && !web_config_excludes(web, path)) {
        AuthVerdict verdict = check_auth(conn, find_header(conn, MHD_HTTP_HEADER_AUTHORIZATION));

        if (verdict == AUTH_UNKNOWN)
            return MHD_YES; /* suspended */
        if (verdict == AUTH_WRONG)
            return refuse_request(conn, MHD_HTTP_UNAUTHORIZED, "user and password are needed\n", &challenge);
    }
    return call_handler(conn, path, method);
}

enum MHD_Result request_handle(void *self UNUSED, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version UNUSED, const char *upload UNUSED, size_t *upload_size,
                               void **context)
{
    Conn *conn = conn_of(mhd);

    if (!conn || conn->dying)
        return MHD_NO;
    if (!*context) {
        *context = conn;
        return begin_request(conn, url, method);
    }
    if (*upload_size) {
        conn->body_bytes += *upload_size;
        *upload_size = 0;
        return conn->body_bytes <= conn->server->limits.body_bytes ? MHD_YES : MHD_NO;
    }
    return serve_request(conn, path_of(url), method);
}

/* -- streams ---------------------------------------------------------------------------------------------------------
 */

enum { BLOCK_BYTES = 16 * 1024 };

struct HttpStream {
    Conn *conn;
    size_t first, count; /* bodies that wait, in the ring `queue` */
    size_t offset;       /* bytes of the first one that are sent */
    size_t queue_max;
    bool ending;
    void (*on_close)(void *self, HttpStream *stream);
    void *self;
    HttpBody *queue[];
};

static void wait_for_body(const HttpStream *stream)
{
    int one = 1;

    /* What libmicrohttpd held back to send with more goes out now. Fails on a unix socket, which holds nothing back. */
    (void)setsockopt(stream->conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    conn_suspend(stream->conn);
}

static void drop_first_body(HttpStream *stream)
{
    http_body_unref(stream->queue[stream->first]);
    stream->first = (stream->first + 1) % stream->queue_max;
    stream->count--;
    stream->offset = 0;
}

static ssize_t read_stream(void *self, uint64_t position UNUSED, char *out, size_t max)
{
    HttpStream *stream = self;
    const HttpBody *body;
    size_t len;

    if (stream->conn->dying)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!stream->count) {
        if (stream->ending)
            return MHD_CONTENT_READER_END_OF_STREAM;
        wait_for_body(stream);
        return 0;
    }
    body = stream->queue[stream->first];
    len = body->len - stream->offset;
    len = len < max ? len : max;
    memcpy(out, body->bytes + stream->offset, len);
    stream->offset += len;
    stream->conn->answer_bytes += len;
    if (stream->offset == body->len)
        drop_first_body(stream);
    return (ssize_t)len;
}

/* HEAD gets an empty answer: to one of unknown length libmicrohttpd would send a last chunk nonetheless. */
static struct MHD_Response *make_response(const HttpRequest *request, HttpStream *stream)
{
    if (!strcmp(request->method, "HEAD"))
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, stream, NULL);
}

HttpStream *http_stream(HttpRequest *request, const char *content_type, size_t queue_max,
                        void (*on_close)(void *self, HttpStream *stream), void *self)
{
    HttpStream *stream = xcalloc(1, sizeof(*stream) + queue_max * sizeof(stream->queue[0]));
    struct MHD_Response *response = make_response(request, stream);

    assert(!request->answered);
    stream->conn = request->conn;
    stream->queue_max = queue_max;
    stream->on_close = on_close;
    stream->self = self;
    request->conn->stream = stream;
    request->answered = true;
    conn_deadline(request->conn, UINT64_MAX);
    if (!response)
        return stream; /* the connection is closed for it, and on_close called */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    request->result = request_send(request->conn, MHD_HTTP_OK, response);
    return stream;
}

void http_stream_send(HttpStream *stream, HttpBody *body)
{
    if (stream->ending || stream->conn->dying || !body->len)
        return;
    if (stream->count == stream->queue_max) {
        stream->conn->server->counts.evicted_connections++;
        conn_drop(stream->conn);
        return;
    }
    stream->queue[(stream->first + stream->count++) % stream->queue_max] = http_body_ref(body);
    conn_resume(stream->conn);
}

void http_stream_close(HttpStream *stream)
{
    stream->ending = true;
    conn_resume(stream->conn);
}

static void end_stream(HttpStream *stream)
{
    while (stream->count)
        drop_first_body(stream);
    stream->ending = true;
    if (stream->on_close)
        stream->on_close(stream->self, stream);
    free(stream);
}

void request_completed(void *self, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
    Conn *conn = conn_of(mhd);
    HttpServer *server = self;

    *context = NULL;
    if (!conn)
        return;
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        server->counts.bytes_sent += conn->answer_bytes;
    if (conn->stream)
        end_stream(TAKE(conn->stream));
    conn_idle(conn);
}
