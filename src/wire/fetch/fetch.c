/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's sockets and its one timer in libuv's loop. libcurl calls back only to say which sockets it waits for;
 * outcomes are collected after each step, so that those who are told may send, cancel and close. */
#include "wire/fetch/fetch.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

/* -- libcurl ---------------------------------------------------------------------------------------------------------
 * Opened when the first client is made and never closed: with all that it brings along it adds some six megabytes to a
 * process, which one that fetches nothing does not pay.
 */

/* FUNCTION(name): curl_<name>. */
#define LIBRARY_TABLE(FUNCTION)                                                                                        \
    FUNCTION(global_init)                                                                                              \
    FUNCTION(easy_init)                                                                                                \
    FUNCTION(easy_setopt)                                                                                              \
    FUNCTION(easy_getinfo)                                                                                             \
    FUNCTION(easy_strerror)                                                                                            \
    FUNCTION(easy_cleanup)                                                                                             \
    FUNCTION(multi_init)                                                                                               \
    FUNCTION(multi_setopt)                                                                                             \
    FUNCTION(multi_add_handle)                                                                                         \
    FUNCTION(multi_remove_handle)                                                                                      \
    FUNCTION(multi_socket_action)                                                                                      \
    FUNCTION(multi_assign)                                                                                             \
    FUNCTION(multi_timeout)                                                                                            \
    FUNCTION(multi_info_read)                                                                                          \
    FUNCTION(multi_strerror)                                                                                           \
    FUNCTION(multi_cleanup)                                                                                            \
    FUNCTION(slist_append)                                                                                             \
    FUNCTION(slist_free_all)                                                                                           \
    FUNCTION(url)                                                                                                      \
    FUNCTION(url_set)                                                                                                  \
    FUNCTION(url_get)                                                                                                  \
    FUNCTION(url_cleanup)                                                                                              \
    FUNCTION(free)

typedef struct Library {
#define FUNCTION(name) __typeof__(curl_##name) *name;
    LIBRARY_TABLE(FUNCTION)
#undef FUNCTION
} Library;

static union {
    Library functions;
    void *at[sizeof(Library) / sizeof(void *)];
} library;
static const Library *const lib = &library.functions;

/* -ENOENT where it is not installed, -ENOSYS where it is too old. */
static int load_library(Err *err)
{
    /* the build with GnuTLS first, which the HTTP server has loaded already */
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};
    static const char *const symbols[] = {
#define FUNCTION(name) "curl_" #name,
        LIBRARY_TABLE(FUNCTION)
#undef FUNCTION
    };
    static bool ready;
    void *handle = NULL;

    if (ready)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(err, -ENOENT, "open %s: %s; is libcurl3-gnutls installed?", names[0], dlerror());
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        library.at[i] = dlsym(handle, symbols[i]);
        if (!library.at[i]) {
            dlclose(handle);
            return err_set(err, -ENOSYS, "libcurl is too old: it has no %s", symbols[i]);
        }
    }
    if (lib->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, -ENOSYS, "libcurl does not start");
    ready = true;
    return 0;
}

/* -- one request -----------------------------------------------------------------------------------------------------
 */

struct FetchCall {
    Fetch *fetch;
    FetchCall *next, **at; /* in the list of those under way */
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    Str answer; /* what is kept of it */
    size_t answer_max;
    FetchDone done;
    void (*part)(void *self, const char *bytes, size_t len);
    void *self;
    char why[CURL_ERROR_SIZE];
};

enum { ANSWER_MAX = 16 * 1024 * 1024 };
#define RETRY_AFTER_MAX_MS (6 * UINT64_C(3600000)) /* as curl 8.14 has it by itself */

/* Loaded whole for each TLS connection, so one file and not the folder, which holds every certificate thrice. */
static const char *const system_bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"};

static size_t take_body(char *data, size_t size, size_t count, void *self)
{
    FetchCall *call = self;
    size_t len = size * count, room = call->answer_max - call->answer.len;

    if (call->part && len > room)
        return 0; /* which is an error */
    str_addn(&call->answer, data, len < room ? len : room);
    return len;
}

static bool is_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static int add_headers(FetchCall *call, const FetchRequest *request, Err *err)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (!is_line(request->headers[i]) || !strchr(request->headers[i], ':'))
            return err_set(err, -EINVAL, "header %zu is no header", i + 1);
        call->headers = lib->slist_append(call->headers, request->headers[i]);
    }
    /* No waiting for leave to send the body. */
    call->headers = lib->slist_append(call->headers, "Expect:");
    return 0;
}

typedef struct Url {
    CURLU *parsed;
    char *scheme, *host, *port, *whole;
} Url;

static void url_done(Url *url)
{
    lib->url_cleanup(url->parsed);
    lib->free(url->scheme);
    lib->free(url->host);
    lib->free(url->port);
    lib->free(url->whole);
}

static int url_parse(Url *url, const char *text, Err *err)
{
    url->parsed = lib->url();
    if (!is_line(text) || lib->url_set(url->parsed, CURLUPART_URL, text, 0) != CURLUE_OK ||
        lib->url_get(url->parsed, CURLUPART_SCHEME, &url->scheme, 0) != CURLUE_OK ||
        lib->url_get(url->parsed, CURLUPART_HOST, &url->host, 0) != CURLUE_OK ||
        lib->url_get(url->parsed, CURLUPART_PORT, &url->port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        return err_set(err, -EINVAL, "'%.120s' is no URL", text);
    if (strcmp(url->scheme, "http") != 0 && strcmp(url->scheme, "https") != 0)
        return err_set(err, -EINVAL, "'%.120s': only http and https are spoken", text);
    return 0;
}

/* Another name in the certificate than in the URL: the request goes to that name, which is connected to the URL's
 * host, and the Host header says what the URL says. */
static int rename_server(FetchCall *call, Url *url, const char *name, Err *err)
{
    char text[1024];
    bool usual = !strcmp(url->port, "443");

    if (snprintf(text, sizeof(text), "Host: %s%s%s", url->host, usual ? "" : ":", usual ? "" : url->port) >=
        (int)sizeof(text))
        return err_set(err, -EINVAL, "the URL's host is too long");
    call->headers = lib->slist_append(call->headers, text);
    if (snprintf(text, sizeof(text), "::%s:%s", url->host, url->port) >= (int)sizeof(text))
        return err_set(err, -EINVAL, "the URL's host is too long");
    call->connect_to = lib->slist_append(call->connect_to, text);
    if (lib->url_set(url->parsed, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return err_set(err, -EINVAL, "'%.120s' is no server name", name);
    lib->easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->connect_to);
    return 0;
}

static int set_url(FetchCall *call, const FetchRequest *request, Err *err)
{
    CLEANUP(url_done) Url url = {0};

    TRY(url_parse(&url, request->url, err));
    if (request->tls.server_name && !strcmp(url.scheme, "https"))
        TRY(rename_server(call, &url, request->tls.server_name, err));
    if (lib->url_get(url.parsed, CURLUPART_URL, &url.whole, 0) != CURLUE_OK)
        return err_set(err, -EINVAL, "'%.120s' is no URL", request->url);
    lib->easy_setopt(call->easy, CURLOPT_URL, url.whole); /* copied */
    return 0;
}

static void set_body(FetchCall *call, const FetchRequest *request)
{
    if (request->method)
        lib->easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (!request->body)
        return; /* libcurl's own is a GET */
    lib->easy_setopt(call->easy, CURLOPT_POST, 1L);
    lib->easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    lib->easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, request->body);
}

static void set_tls(FetchCall *call, const FetchTls *tls)
{
    const char *ca = tls->ca_file;

    for (size_t i = 0; i < ARRAY_LEN(system_bundles) && !ca; i++)
        if (access(system_bundles[i], R_OK) == 0)
            ca = system_bundles[i];
    if (ca) {
        lib->easy_setopt(call->easy, CURLOPT_CAINFO, ca);
        lib->easy_setopt(call->easy, CURLOPT_CAPATH, NULL);
    }
    /* A file that was replaced counts at once: newer libraries would go on with the old one for a day. */
    lib->easy_setopt(call->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    if (tls->cert_file)
        lib->easy_setopt(call->easy, CURLOPT_SSLCERT, tls->cert_file);
    if (tls->key_file)
        lib->easy_setopt(call->easy, CURLOPT_SSLKEY, tls->key_file);
    if (tls->insecure) {
        lib->easy_setopt(call->easy, CURLOPT_SSL_VERIFYPEER, 0L);
        lib->easy_setopt(call->easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    lib->easy_setopt(call->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

static void set_auth(FetchCall *call, const FetchRequest *request)
{
    if (request->user) {
        lib->easy_setopt(call->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        lib->easy_setopt(call->easy, CURLOPT_USERNAME, request->user);
        lib->easy_setopt(call->easy, CURLOPT_PASSWORD, request->password ? request->password : "");
    }
    if (request->bearer) {
        lib->easy_setopt(call->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        lib->easy_setopt(call->easy, CURLOPT_XOAUTH2_BEARER, request->bearer);
    }
}

static void set_manners(FetchCall *call, const FetchRequest *request)
{
    lib->easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    lib->easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->why);
    lib->easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, take_body);
    lib->easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    lib->easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    lib->easy_setopt(call->easy, CURLOPT_TIMEOUT_MS,
                     (long)(request->timeout_ms < 1          ? 1
                            : request->timeout_ms > 86400000 ? 86400000
                                                             : request->timeout_ms));
    lib->easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    /* Otherwise the end of a request whose name is still being looked up waits for that, on the loop. */
    lib->easy_setopt(call->easy, CURLOPT_QUICK_EXIT, 1L);
    lib->easy_setopt(call->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    lib->easy_setopt(call->easy, CURLOPT_FOLLOWLOCATION, 0L);
    lib->easy_setopt(call->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    lib->easy_setopt(call->easy, CURLOPT_BUFFERSIZE, 16384L);
    lib->easy_setopt(call->easy, CURLOPT_USERAGENT, "stoker");
    /* A peer that is gone without a word is noticed where an answer comes in parts, with long pauses. */
    lib->easy_setopt(call->easy, CURLOPT_TCP_KEEPALIVE, request->part ? 1L : 0L);
    if (request->unix_socket) {
        lib->easy_setopt(call->easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket);
        lib->easy_setopt(call->easy, CURLOPT_PROXY, "");
    }
}

static void free_call(FetchCall *call);
CLEANUP_POINTER(FetchCall, free_call);

static int make_call(const FetchRequest *request, FetchCall **ret, Err *err)
{
    CLEANUP(free_call_at) FetchCall *call = xcalloc(1, sizeof(*call));

    call->answer_max = request->answer_max < ANSWER_MAX ? request->answer_max : ANSWER_MAX;
    str_init(&call->answer, call->answer_max);
    call->easy = lib->easy_init();
    if (!call->easy)
        return err_set(err, -ENOMEM, "libcurl gives no handle");
    TRY(set_url(call, request, err));
    TRY(add_headers(call, request, err));
    set_body(call, request);
    set_tls(call, &request->tls);
    set_auth(call, request);
    set_manners(call, request);
    *ret = TAKE(call);
    return 0;
}

static void free_call(FetchCall *call)
{
    if (!call)
        return;
    if (call->easy)
        lib->easy_cleanup(call->easy);
    lib->slist_free_all(call->headers);
    lib->slist_free_all(call->connect_to);
    str_done(&call->answer);
    free(call);
}

static void read_answer(const FetchCall *call, CURLcode code, FetchAnswer *ret)
{
    long status = 0;
    curl_off_t retry_s = 0;

    *ret = (FetchAnswer){.body = call->answer.text, .body_len = call->answer.len};
    lib->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    lib->easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_s);
    if (retry_s > 0)
        ret->retry_after_ms =
            (uint64_t)retry_s < RETRY_AFTER_MAX_MS / 1000 ? (uint64_t)retry_s * 1000 : RETRY_AFTER_MAX_MS;
    if (code == CURLE_OK)
        ret->status = (unsigned int)status;
    else
        snprintf(ret->text, sizeof(ret->text), "%s", *call->why ? call->why : lib->easy_strerror(code));
}

/* -- the loop's side of all ------------------------------------------------------------------------------------------
 */

/* Connections that are kept for the next request; more would only hold memory. */
enum { CONNECTIONS_KEPT = 8 };

struct Fetch {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    FetchCall *calls;
    unsigned int handles; /* of the loop that are not closed yet */
    bool closing;
};

typedef struct Socket {
    uv_poll_t poll;
    Fetch *fetch;
    curl_socket_t fd;
} Socket;

static void free_when_closed(Fetch *fetch)
{
    if (--fetch->handles == 0)
        free(fetch);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_when_closed(handle->data);
}

static void on_socket_closed(uv_handle_t *handle)
{
    Socket *sock = handle->data;
    Fetch *fetch = sock->fetch;

    free(sock);
    free_when_closed(fetch);
}

/* Takes a call off everything; it is the caller's. */
static FetchCall *take_call(FetchCall *call)
{
    lib->multi_remove_handle(call->fetch->multi, call->easy);
    *call->at = call->next;
    if (call->next)
        call->next->at = call->at;
    return call;
}

static void finish_call(FetchCall *call, const FetchAnswer *answer)
{
    call->done(call->self, answer);
    free_call(call);
}

static void collect_finished(Fetch *fetch)
{
    while (!fetch->closing) {
        int left;
        CURLMsg *message = lib->multi_info_read(fetch->multi, &left);
        CURLcode code;
        FetchAnswer answer;
        char *private = NULL;
        FetchCall *call;

        if (!message)
            return;
        if (message->msg != CURLMSG_DONE)
            continue;
        code = message->data.result; /* gone with the next call */
        lib->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        call = (FetchCall *)(void *)private;
        read_answer(call, code, &answer);
        finish_call(take_call(call), &answer);
    }
}

/* One that is called back may send, cancel and close: look from the start again. */
static void deliver_parts(Fetch *fetch)
{
    FetchCall *call = fetch->calls;

    while (call && !fetch->closing) {
        long status = 0;

        if (call->part && call->answer.len)
            lib->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200) {
            call = call->next;
            continue;
        }
        CLEANUP(str_done) Str part = call->answer;
        str_init(&call->answer, call->answer_max);
        call->part(call->self, part.text, part.len);
        call = fetch->calls;
    }
}

static void on_timer(uv_timer_t *timer);

/* libcurl's own reckoning is asked after each step: a timer that fires a little early would otherwise never come again
 * (it tells of a change only). */
static void set_timer(Fetch *fetch)
{
    long ms = -1;

    if (fetch->closing)
        return;
    lib->multi_timeout(fetch->multi, &ms);
    if (ms < 0) {
        uv_timer_stop(&fetch->timer);
        return;
    }
    uv_update_time(fetch->loop);
    uv_timer_start(&fetch->timer, on_timer, (uint64_t)ms, 0);
}

static void advance_multi(Fetch *fetch, curl_socket_t fd, int events)
{
    int running;

    lib->multi_socket_action(fetch->multi, fd, events, &running);
    deliver_parts(fetch);
    collect_finished(fetch);
    set_timer(fetch);
}

static void on_timer(uv_timer_t *timer)
{
    advance_multi(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    Socket *sock = poll->data;
    int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);

    advance_multi(sock->fetch, sock->fd, status < 0 ? CURL_CSELECT_ERR : what);
}

static Socket *socket_new(Fetch *fetch, curl_socket_t fd)
{
    Socket *sock = xcalloc(1, sizeof(*sock));

    if (uv_poll_init_socket(fetch->loop, &sock->poll, fd) < 0) {
        free(sock);
        return NULL;
    }
    sock->poll.data = sock;
    sock->fetch = fetch;
    sock->fd = fd;
    fetch->handles++;
    lib->multi_assign(fetch->multi, fd, sock);
    return sock;
}

/* CURLMOPT_SOCKETFUNCTION */
static int watch_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *self, void *assigned)
{
    Fetch *fetch = self;
    Socket *sock = assigned;

    if (what == CURL_POLL_REMOVE) {
        if (sock) {
            lib->multi_assign(fetch->multi, fd, NULL);
            uv_close((uv_handle_t *)&sock->poll, on_socket_closed); /* leaves the poll set at once */
        }
        return 0;
    }
    if (!sock)
        sock = socket_new(fetch, fd);
    if (!sock)
        return -1;
    uv_poll_start(&sock->poll, (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_ready);
    return 0;
}

int fetch_new(uv_loop_t *loop, Fetch **ret, Err *err)
{
    CLEANUP_FREE Fetch *fetch = xcalloc(1, sizeof(*fetch));

    TRY(load_library(err));
    fetch->multi = lib->multi_init();
    if (!fetch->multi)
        return err_set(err, -ENOMEM, "libcurl gives no handle");
    fetch->loop = loop;
    lib->multi_setopt(fetch->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    lib->multi_setopt(fetch->multi, CURLMOPT_SOCKETDATA, fetch);
    lib->multi_setopt(fetch->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    uv_timer_init(loop, &fetch->timer);
    fetch->timer.data = fetch;
    fetch->handles = 1;
    *ret = TAKE(fetch);
    return 0;
}

void fetch_close(Fetch *fetch)
{
    FetchAnswer answer = {.body = "", .text = "the client is being closed"};

    if (!fetch || fetch->closing)
        return;
    fetch->closing = true;
    while (fetch->calls)
        finish_call(take_call(fetch->calls), &answer);
    lib->multi_cleanup(fetch->multi); /* closes what connections it kept, and says so to watch_socket() */
    uv_close((uv_handle_t *)&fetch->timer, on_timer_closed);
}

int fetch_send(Fetch *fetch, const FetchRequest *request, FetchDone done, void *self, FetchCall **ret_call, Err *err)
{
    FetchCall *call = NULL;
    CURLMcode code;
    int rc;

    if (fetch->closing)
        return err_set(err, -ECANCELED, "the client is being closed");
    rc = make_call(request, &call, err);
    if (!call)
        return rc;
    call->fetch = fetch;
    call->done = done;
    call->part = request->part;
    call->self = self;
    code = lib->multi_add_handle(fetch->multi, call->easy);
    if (code != CURLM_OK) {
        free_call(call);
        return err_set(err, -EIO, "libcurl: %s", lib->multi_strerror(code));
    }
    call->next = fetch->calls;
    call->at = &fetch->calls;
    if (call->next)
        call->next->at = &call->next;
    fetch->calls = call;
    set_timer(fetch);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void fetch_cancel(FetchCall *call)
{
    Fetch *fetch;

    if (!call)
        return;
    fetch = call->fetch;
    free_call(take_call(call));
    set_timer(fetch);
}
