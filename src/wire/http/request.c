/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: what is refused before the handler sees it, what the handler may ask, and answers. */
#include <assert.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/owner.h"
#include "wire/http/conn.h"

enum { SLOWEST_BYTES_PER_S = 8 * 1024 }; /* a client that takes its answer more slowly is closed */

void *request_uri(void *self, const char *uri, struct MHD_Connection *mhd)
{
    Conn *conn = conn_of(mhd);

    (void)self;
    (void)uri;
    if (conn && !conn->busy)
        conn_deadline(conn, conn->server->limits.head_timeout_ns);
    return NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. What is no escape, or one of NUL, stays and makes the request a bad one. */
size_t request_unescape(void *self, struct MHD_Connection *mhd, char *text)
{
    Conn *conn = conn_of(mhd);
    char *out = text;

    (void)self;
    for (const char *in = text; *in; in++) {
        int high, low;

        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        high = hex_digit(in[1]);
        low = high < 0 ? -1 : hex_digit(in[2]);
        if (low < 0 || high * 16 + low == 0) {
            conn->bad_uri = true;
            *out++ = *in;
            continue;
        }
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return (size_t)(out - text);
}

enum MHD_Result request_send(Conn *conn, unsigned status, struct MHD_Response *response)
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

static enum MHD_Result refuse(Conn *conn, unsigned status, const char *text, const HttpField *field)
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

static const char *header_of(Conn *conn, const char *name)
{
    return MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, name);
}

const char *http_method(const HttpRequest *request)
{
    return request->method;
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
    return header_of(request->conn, name);
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

/* What the head alone decides. 0 where nothing is wrong with it. */
static unsigned judge_head(Conn *conn, const char *url, const char *method, const char **ret_text)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = header_of(conn, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t body = 0;

    *ret_text = "this server answers GET and HEAD alone\n";
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    *ret_text = "the head of the request is too large\n";
    if (info && info->header_size > conn->server->limits.head_bytes)
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    *ret_text = "a request body without a length is not accepted\n";
    if (header_of(conn, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return MHD_HTTP_LENGTH_REQUIRED;
    *ret_text = "the body of the request is too large\n";
    if (length && (number_parse_u64(length, 0, UINT64_MAX, &body, NULL) < 0 || body > conn->server->limits.body_bytes))
        return MHD_HTTP_CONTENT_TOO_LARGE;
    *ret_text = "the request's path or query is malformed\n";
    if (conn->bad_uri || !path_of(url))
        return MHD_HTTP_BAD_REQUEST;
    return 0;
}

static enum MHD_Result begin(Conn *conn, const char *url, const char *method)
{
    static const HttpField allow = {"Allow", "GET, HEAD"};
    const char *text;
    unsigned status;

    conn_begin(conn);
    status = judge_head(conn, url, method, &text);
    if (!status)
        return MHD_YES;
    return refuse(conn, status, text, status == MHD_HTTP_METHOD_NOT_ALLOWED ? &allow : NULL);
}

static enum MHD_Result call_handler(Conn *conn, const char *path, const char *method)
{
    HttpServer *server = conn->server;
    HttpRequest request = {.conn = conn, .method = method, .path = path, .result = MHD_NO};

    server->handler(server->self, &request);
    if (!request.answered)
        return refuse(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "nothing answered this request\n", NULL);
    return request.result;
}

/* The request is whole. Called again where it was suspended for the check of a password. */
static enum MHD_Result serve(Conn *conn, const char *path, const char *method)
{
    static const HttpField challenge = {"WWW-Authenticate", "Basic realm=\"stoker\", charset=\"UTF-8\""};
    WebConfig *web = conn->server->web;

    if (!conn->cert_fine && conn->web)
        return refuse(conn, MHD_HTTP_FORBIDDEN, "a client certificate is needed\n", NULL);
    if (!conn->counted && !web_config_admit(web, uv_hrtime()))
        return refuse(conn, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests (rate_limit of the web-config)\n", NULL);
    conn->counted = true;
    if (web->auth && !web_config_excludes(web, path)) {
        AuthVerdict verdict = auth_job_check(conn, header_of(conn, MHD_HTTP_HEADER_AUTHORIZATION));

        if (verdict == AUTH_UNKNOWN)
            return MHD_YES; /* suspended */
        if (verdict == AUTH_WRONG)
            return refuse(conn, MHD_HTTP_UNAUTHORIZED, "user and password are needed\n", &challenge);
    }
    return call_handler(conn, path, method);
}

enum MHD_Result request_handle(void *self, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_size, void **context)
{
    Conn *conn = conn_of(mhd);

    (void)self;
    (void)version;
    (void)upload;
    if (!conn || conn->dying)
        return MHD_NO;
    if (!*context) {
        *context = conn;
        return begin(conn, url, method);
    }
    if (*upload_size) {
        conn->body_bytes += *upload_size;
        *upload_size = 0;
        return conn->body_bytes <= conn->server->limits.body_bytes ? MHD_YES : MHD_NO;
    }
    return serve(conn, path_of(url), method);
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
        stream_end(TAKE(conn->stream));
    conn_idle(conn);
}
