/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers: password checks, refusals before the handler, the functions for the handler, bodies
 * and streams. A connection is suspended while its password is checked, and while its stream has nothing to send:
 * libmicrohttpd then does not look at its socket, but conn.c does. */
#include <arpa/inet.h>
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

/* -- the ceiling of what is on its way ------------------------------------------------------------------------------
 */

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

static bool stream_holds(const HttpStream *stream, const HttpBody *body)
{
    for (size_t i = 0; i < stream->count; i++)
        if (stream->queue[(stream->first + i) % stream->queue_max] == body)
            return true;
    return false;
}

static HttpBody *stream_first(const HttpStream *stream)
{
    return stream->count ? stream->queue[stream->first] : NULL;
}

static bool conn_holds(const Conn *conn, const HttpBody *body)
{
    for (size_t i = 0; conn->answer && i < ANSWER_BODIES; i++)
        if (conn->answer->bodies[i] == body)
            return true;
    return conn->stream && stream_holds(conn->stream, body);
}

static HttpBody *find_older(HttpBody *a, HttpBody *b)
{
    if (!b || b->dropped || !body_count_bytes(b))
        return a;
    return a && a->number < b->number ? a : b;
}

/* The body that is on its way for longest; NULL where none is that dropping connections would free. */
static HttpBody *find_oldest_body(const HttpServer *server, const Conn *but)
{
    HttpBody *oldest = NULL;

    for (const Conn *conn = server->first; conn; conn = conn->after) {
        if (conn == but || conn->dying)
            continue;
        for (size_t i = 0; conn->answer && i < ANSWER_BODIES; i++)
            oldest = find_older(oldest, conn->answer->bodies[i]);
        if (conn->stream)
            oldest = find_older(oldest, stream_first(conn->stream));
    }
    return oldest;
}

/* Drops whoever but `conn` holds the oldest bodies until `bytes` more will fit; true where they do already. A body that
 * is larger than the ceiling goes alone. */
static bool make_room(HttpServer *server, const Conn *conn, size_t bytes)
{
    const size_t limit = server->limits.answer_bytes;
    HttpBody *oldest;

    while (server->held_bytes - server->dropped_bytes + bytes > limit && (oldest = find_oldest_body(server, conn))) {
        oldest->dropped = true;
        server->dropped_bytes += body_count_bytes(oldest);
        for (Conn *other = server->first; other; other = other->after)
            if (other != conn && !other->dying && conn_holds(other, oldest)) {
                conn_drop(other);
                server->counts.evicted_connections++;
            }
    }
    return server->held_bytes + bytes <= limit || server->held_bytes == 0;
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

static void free_answer(void *self)
{
    Answer *answer = self;

    if (answer->conn)
        answer->conn->answer = NULL;
    for (size_t i = 0; i < ANSWER_BODIES; i++)
        if (answer->bodies[i])
            body_let_go(answer->server, answer->bodies[i]);
    free(answer);
}

/* Holds the bodies and takes over their references. */
static Answer *make_answer(Conn *conn, HttpBody *const bodies[ANSWER_BODIES])
{
    Answer *answer = xcalloc(1, sizeof *answer);

    answer->server = conn->server;
    answer->conn = conn;
    for (size_t i = 0; i < ANSWER_BODIES; i++)
        if ((answer->bodies[i] = bodies[i]))
            body_hold(conn->server, bodies[i]);
    if (conn->answer)
        conn->answer->conn = NULL;
    return conn->answer = answer;
}

static struct MHD_Response *make_body_response(Answer *answer)
{
    struct MHD_IoVec parts[ANSWER_BODIES];
    unsigned count = 0;

    for (size_t i = 0; i < ANSWER_BODIES; i++)
        if (answer->bodies[i] && answer->bodies[i]->len)
            parts[count++] = (struct MHD_IoVec){answer->bodies[i]->bytes, answer->bodies[i]->len};
    if (count > 1)
        return MHD_create_response_from_iovec(parts, count, free_answer, answer);
    const union {
        const void *in;
        void *out; /* is only read */
    } bytes = {.in = count ? parts[0].iov_base : ""};
    return MHD_create_response_from_buffer_with_free_callback_cls(count ? parts[0].iov_len : 0, bytes.out, free_answer,
                                                                  answer);
}

static bool has_no_body(unsigned status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Takes over the bodies. */
static enum MHD_Result send_bodies(Conn *conn, unsigned status, const char *type, HttpBody *const bodies[ANSWER_BODIES],
                                   const HttpField *fields, size_t field_count, bool head)
{
    Answer *answer = make_answer(conn, bodies);
    struct MHD_Response *response = make_body_response(answer);
    size_t len = 0;

    if (!response) {
        free_answer(answer);
        return MHD_NO;
    }
    for (size_t i = 0; i < ANSWER_BODIES; i++)
        len += bodies[i] ? bodies[i]->len : 0;
    if (type && !has_no_body(status))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < field_count; i++)
        MHD_add_response_header(response, fields[i].name, fields[i].value);
    conn->answer_bytes = head ? 0 : len;
    conn_deadline(conn, conn->server->limits.answer_timeout_ns + conn->answer_bytes * NS_PER_S / SLOWEST_BYTES_PER_S);
    return request_send(conn, status, response);
}

static enum MHD_Result refuse_request(Conn *conn, unsigned status, const char *text, const HttpField *field)
{
    HttpBody *const bodies[ANSWER_BODIES] = {http_body_static(text, strlen(text))};

    return send_bodies(conn, status, "text/plain; charset=utf-8", bodies, field, field ? 1 : 0, false);
}

void http_answer_two(HttpRequest *request, unsigned status, const char *content_type, HttpBody *first, HttpBody *second,
                     const HttpField *fields, size_t field_count)
{
    static const HttpField later = {"Retry-After", "1"};
    Conn *conn = request->conn;
    HttpServer *server = conn->server;
    HttpBody *bodies[ANSWER_BODIES] = {first, second};
    size_t more = 0;

    assert(!request->answered);
    request->answered = true;
    for (size_t i = 0; i < ANSWER_BODIES; i++) {
        if (bodies[i] && has_no_body(status)) {
            http_body_unref(bodies[i]);
            bodies[i] = NULL;
        }
        more += bodies[i] && !bodies[i]->holds ? body_count_bytes(bodies[i]) : 0;
    }
    if (more == 0 || make_room(server, conn, more) || conn->kept) {
        request->result =
            send_bodies(conn, status, content_type, bodies, fields, field_count, strcmp(request->method, "HEAD") == 0);
        return;
    }
    for (size_t i = 0; i < ANSWER_BODIES; i++)
        http_body_unref(bodies[i]);
    server->counts.refused_answers++;
    request->result = refuse_request(conn, MHD_HTTP_SERVICE_UNAVAILABLE,
                                     "too many answers are on their way to clients that do not take them\n", &later);
}

void http_answer(HttpRequest *request, unsigned status, const char *content_type, HttpBody *body,
                 const HttpField *fields, size_t field_count)
{
    http_answer_two(request, status, content_type, body, NULL, fields, field_count);
}

static const char *find_header(Conn *conn, const char *name)
{
    return MHD_lookup_connection_value(conn->mhd, MHD_HEADER_KIND, name);
}

const char *http_method(const HttpRequest *request)
{
    return request->method;
}

const char *http_body(const HttpRequest *request, size_t *ret_len)
{
    *ret_len = request->conn->post_size;
    return request->conn->post ? request->conn->post : "";
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

int http_peer(const HttpRequest *request, pid_t *ret_pid, uid_t *ret_uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (strcmp(request->conn->peer, "unix") != 0 ||
        getsockopt(request->conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -ENOTCONN;
    *ret_pid = peer.pid;
    *ret_uid = peer.uid;
    return 0;
}

uint64_t http_connection(const HttpRequest *request)
{
    return request->conn->number;
}

/* -- the Host header: a name that another site points at this address does not open this server to its pages --------
 */

enum { HOST_MAX = 255 };

static enum MHD_Result count_host(void *self, enum MHD_ValueKind kind UNUSED, const char *name,
                                  const char *value UNUSED)
{
    *(unsigned *)self += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    return MHD_YES;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);

    return len > end_len && strcasecmp(text + len - end_len, end) == 0;
}

static bool is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool is_host_name(const HttpServer *server, const char *name)
{
    if (!*name || !strcasecmp(name, "localhost") || ends_with(name, ".localhost") || is_address(name))
        return true;
    for (char *const *host = server->hosts; *host; host++)
        if (!strcmp(*host, "*") || !strcasecmp(*host, name) || (!strncmp(*host, "*.", 2) && ends_with(name, *host + 1)))
            return true;
    return false;
}

/* "name", "name:9400", "name.", "[::1]:9400" and all of it up to a slash. */
static bool is_host(const HttpServer *server, const char *host)
{
    const bool bracket = *host == '[';
    const char *start = host + bracket;
    size_t len = strcspn(start, bracket ? "]/" : ":/");
    char name[HOST_MAX + 1];

    if (len > HOST_MAX)
        return false;
    len -= len && !bracket && start[len - 1] == '.';
    memcpy(name, start, len);
    name[len] = '\0';
    return is_host_name(server, name);
}

/* TLS needs no such care: a browser would not take our certificate for another site's name. */
static bool is_asked_by_name(Conn *conn, const char *url)
{
    const HttpServer *server = conn->server;
    const char *host = find_header(conn, MHD_HTTP_HEADER_HOST), *authority = strstr(url, "://");
    uint64_t held = 0;

    if (!server->hosts || conn->web || !strcmp(conn->peer, "unix"))
        return true;
    if ((!host || is_host(server, host)) && (*url == '/' || !authority || is_host(server, authority + 3)))
        return true;
    if (log_limit(&conn->server->host_limit, uv_hrtime(), &held))
        log_write(server->log, LOG_LEVEL_WARN,
                  "a request from %s for the host '%.80s' was refused (%llu more were, unsaid); web.hosts lists names",
                  conn->peer, host ? host : url, (unsigned long long)held);
    return false;
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

static bool is_listed(const char *const *paths, const char *path)
{
    while (paths && *paths && strcmp(*paths, path) != 0)
        paths++;
    return paths && *paths;
}

/* A POST to one of the paths that take it. */
static bool is_post(const Conn *conn, const char *url, const char *method)
{
    const char *path = path_of(url);

    return path && strcmp(method, "POST") == 0 && is_listed(conn->server->posts, path);
}

/* Room for the body of a POST, of the length that its head says. */
static unsigned begin_post(Conn *conn, const char **ret_text)
{
    HttpServer *server = conn->server;
    const char *length = find_header(conn, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t size = 0;

    *ret_text = "a POST needs a Content-Length\n";
    if (!length || number_parse_u64(length, 0, server->limits.post_bytes, &size, NULL) < 0)
        return MHD_HTTP_LENGTH_REQUIRED;
    *ret_text = "too many bodies and answers are on their way\n";
    if (server->post_bytes + size > server->limits.answer_bytes / 2 || !make_room(server, conn, size))
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    conn->post = xmalloc(size + 1);
    conn->post[size] = '\0';
    conn->post_size = size;
    server->post_bytes += size;
    server->held_bytes += size;
    conn_deadline(conn, server->limits.head_timeout_ns);
    return 0;
}

/* What the head alone decides. 0 if nothing is wrong with it. */
static unsigned check_head(Conn *conn, const char *url, const char *method, const char **ret_text)
{
    const bool post = is_post(conn, url, method);
    const size_t body_max = post ? conn->server->limits.post_bytes : conn->server->limits.body_bytes;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = find_header(conn, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t body = 0;
    unsigned hosts = 0;

    MHD_get_connection_values(conn->mhd, MHD_HEADER_KIND, count_host, &hosts);
    *ret_text = "this server answers GET and HEAD alone\n";
    if (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    *ret_text = "the head of the request is too large\n";
    if (info && info->header_size > conn->server->limits.head_bytes)
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    *ret_text = "a request body without a length is not accepted\n";
    if (find_header(conn, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return MHD_HTTP_LENGTH_REQUIRED;
    *ret_text = "the body of the request is too large\n";
    if (length && (number_parse_u64(length, 0, UINT64_MAX, &body, NULL) < 0 || body > body_max))
        return MHD_HTTP_CONTENT_TOO_LARGE;
    *ret_text = "the request's path or query is malformed\n";
    if (conn->bad_uri || !path_of(url))
        return MHD_HTTP_BAD_REQUEST;
    *ret_text = "one Host header is allowed\n";
    if (hosts > 1)
        return MHD_HTTP_BAD_REQUEST;
    *ret_text = "this server does not go by that name: ask it by its IP address, or list the name in web.hosts\n";
    if (!is_asked_by_name(conn, url))
        return MHD_HTTP_MISDIRECTED_REQUEST;
    return post ? begin_post(conn, ret_text) : 0;
}

static enum MHD_Result begin_request(Conn *conn, const char *url, const char *method)
{
    static const HttpField allow = {"Allow", "GET, HEAD"}, later = {"Retry-After", "1"};
    const char *text;
    unsigned status;

    conn_begin(conn);
    status = check_head(conn, url, method, &text);
    if (!status)
        return MHD_YES;
    return refuse_request(conn, status, text,
                          status == MHD_HTTP_METHOD_NOT_ALLOWED    ? &allow
                          : status == MHD_HTTP_SERVICE_UNAVAILABLE ? &later
                                                                   : NULL);
}

static enum MHD_Result call_handler(Conn *conn, const char *path, const char *method)
{
    HttpServer *server = conn->server;
    HttpRequest request = {.conn = conn, .method = method, .path = path, .result = MHD_NO};

    conn->kept = is_listed(server->kept, path);
    server->handler(server->self, &request);
    conn_free_post(conn);
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

/* Of a body: kept of a POST, else thrown away. libmicrohttpd gives no more than the Content-Length. */
static enum MHD_Result take_part(Conn *conn, const char *bytes, size_t *size)
{
    const size_t at = conn->body_bytes, len = *size;

    conn->body_bytes += len;
    *size = 0;
    if (!conn->post)
        return conn->body_bytes <= conn->server->limits.body_bytes ? MHD_YES : MHD_NO;
    if (conn->body_bytes > conn->post_size)
        return MHD_NO;
    memcpy(conn->post + at, bytes, len);
    return MHD_YES;
}

enum MHD_Result request_handle(void *self UNUSED, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version UNUSED, const char *upload, size_t *upload_size, void **context)
{
    Conn *conn = conn_of(mhd);

    if (!conn || conn->dying)
        return MHD_NO;
    if (!*context) {
        *context = conn;
        return begin_request(conn, url, method);
    }
    if (*upload_size)
        return take_part(conn, upload, upload_size);
    return serve_request(conn, path_of(url), method);
}

/* -- streams ---------------------------------------------------------------------------------------------------------
 */

enum { BLOCK_BYTES = 16 * 1024 };

static void wait_for_body(const HttpStream *stream)
{
    int one = 1;

    /* What libmicrohttpd held back to send with more goes out now. Fails on a unix socket, which holds nothing back. */
    (void)setsockopt(stream->conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    conn_suspend(stream->conn);
}

static void drop_first_body(HttpStream *stream)
{
    body_let_go(stream->conn->server, stream->queue[stream->first]);
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

HttpStream *http_stream(HttpRequest *request, const char *content_type, const char *encoding, size_t queue_max,
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
    if (encoding)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, encoding);
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
    if (!body->holds)
        (void)make_room(stream->conn->server, stream->conn, body_count_bytes(body));
    body_hold(stream->conn->server, body);
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
    if (conn->answer)
        TAKE(conn->answer)->conn = NULL;
    conn_idle(conn);
}
