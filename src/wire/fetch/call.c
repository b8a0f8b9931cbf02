/* SPDX-License-Identifier: Apache-2.0 */
/* One request: the handle of libcurl that it becomes, and what its outcome is called. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "wire/fetch/inside.h"

enum { ANSWER_MAX = 16 * 1024 * 1024 };
#define RETRY_AFTER_MAX_MS (24 * UINT64_C(3600000))

/* Loaded whole for each TLS connection, so one file and not the folder, which holds every certificate thrice. */
static const char *const system_bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"};

static size_t take_body(char *data, size_t size, size_t count, void *self)
{
    FetchCall *call = self;
    size_t len = size * count, room = call->answer_max - call->answer.len;

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
        call->headers = call->lib->slist_append(call->headers, request->headers[i]);
    }
    /* No waiting for leave to send the body. */
    call->headers = call->lib->slist_append(call->headers, "Expect:");
    return 0;
}

typedef struct Url {
    const FetchLibrary *lib;
    CURLU *parsed;
    char *scheme, *host, *port, *whole;
} Url;

static void url_done(Url *url)
{
    url->lib->url_cleanup(url->parsed);
    url->lib->free(url->scheme);
    url->lib->free(url->host);
    url->lib->free(url->port);
    url->lib->free(url->whole);
}

static int url_parse(Url *url, const char *text, Err *err)
{
    const FetchLibrary *lib = url->lib;

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
    call->headers = call->lib->slist_append(call->headers, text);
    if (snprintf(text, sizeof(text), "::%s:%s", url->host, url->port) >= (int)sizeof(text))
        return err_set(err, -EINVAL, "the URL's host is too long");
    call->connect_to = call->lib->slist_append(call->connect_to, text);
    if (call->lib->url_set(url->parsed, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return err_set(err, -EINVAL, "'%.120s' is no server name", name);
    call->lib->easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->connect_to);
    return 0;
}

static int set_url(FetchCall *call, const FetchRequest *request, Err *err)
{
    CLEANUP(url_done) Url url = {.lib = call->lib};

    TRY(url_parse(&url, request->url, err));
    if (request->tls.server_name && !strcmp(url.scheme, "https"))
        TRY(rename_server(call, &url, request->tls.server_name, err));
    if (call->lib->url_get(url.parsed, CURLUPART_URL, &url.whole, 0) != CURLUE_OK)
        return err_set(err, -EINVAL, "'%.120s' is no URL", request->url);
    call->lib->easy_setopt(call->easy, CURLOPT_URL, url.whole); /* copied */
    return 0;
}

static void set_body(FetchCall *call, const FetchRequest *request)
{
    const FetchLibrary *lib = call->lib;

    if (!strcmp(request->method, "HEAD")) {
        lib->easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (request->body_len || !strcmp(request->method, "POST") || !strcmp(request->method, "PUT")) {
        call->body = xmemdup0(request->body ? request->body : "", request->body_len);
        lib->easy_setopt(call->easy, CURLOPT_POST, 1L);
        lib->easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
        lib->easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
    }
    lib->easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_tls(FetchCall *call, const FetchTls *tls)
{
    const FetchLibrary *lib = call->lib;
    const char *ca = tls->ca_file;

    for (size_t i = 0; i < ARRAY_LEN(system_bundles) && !ca; i++)
        if (access(system_bundles[i], R_OK) == 0)
            ca = system_bundles[i];
    if (ca) {
        lib->easy_setopt(call->easy, CURLOPT_CAINFO, ca);
        lib->easy_setopt(call->easy, CURLOPT_CAPATH, NULL);
    }
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
    const FetchLibrary *lib = call->lib;

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
    const FetchLibrary *lib = call->lib;

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
    if (request->unix_socket) {
        lib->easy_setopt(call->easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket);
        lib->easy_setopt(call->easy, CURLOPT_PROXY, "");
    }
}

CLEANUP_POINTER(FetchCall, fetch_call_free);

int fetch_call_new(const FetchLibrary *lib, const FetchRequest *request, FetchCall **ret, Err *err)
{
    CLEANUP(fetch_call_free_at) FetchCall *call = xcalloc(1, sizeof(*call));

    call->lib = lib;
    call->answer_max = request->answer_max < ANSWER_MAX ? request->answer_max : ANSWER_MAX;
    str_init(&call->answer, call->answer_max);
    if (!is_line(request->method) || !*request->method)
        return err_set(err, -EINVAL, "no method");
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

void fetch_call_free(FetchCall *call)
{
    if (!call)
        return;
    if (call->easy)
        call->lib->easy_cleanup(call->easy);
    call->lib->slist_free_all(call->headers);
    call->lib->slist_free_all(call->connect_to);
    str_done(&call->answer);
    free(call->body);
    free(call);
}

/* The error of the system behind a connection that was not had. */
static int connect_error(const FetchCall *call)
{
    long number = 0;

    call->lib->easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
    return number > 0 ? -(int)number : -ECONNREFUSED;
}

static int error_of(const FetchCall *call, CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_CONNECT:
        return connect_error(call);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
        return -ECONNRESET;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EPROTO; /* TLS, and answers that are not HTTP */
    }
}

void fetch_call_answer(const FetchCall *call, CURLcode code, FetchAnswer *ret)
{
    long status = 0;
    curl_off_t retry_s = 0;

    *ret = (FetchAnswer){.rc = error_of(call, code), .body = call->answer.text, .body_len = call->answer.len};
    call->lib->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    call->lib->easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_s);
    if (retry_s > 0)
        ret->retry_after_ms =
            (uint64_t)retry_s < RETRY_AFTER_MAX_MS / 1000 ? (uint64_t)retry_s * 1000 : RETRY_AFTER_MAX_MS;
    if (ret->rc == 0)
        ret->status = (unsigned int)status;
    else
        snprintf(ret->text, sizeof(ret->text), "%s", *call->why ? call->why : call->lib->easy_strerror(code));
}
