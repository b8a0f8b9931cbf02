/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the HTTP server. The input is what a client sends over a unix socket, in pieces of a size that its first
 * byte gives. Whatever it is, what comes back is HTTP, and the connection ends when the client does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "wire/http/server.h"

enum { SENT_MAX = 64 * 1024, TURNS = 8, LAST_TURNS = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static HttpServer *server;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static HttpStream *stream;

static void on_stream_close(void *self, HttpStream *closed)
{
    (void)self;
    if (closed != stream)
        abort();
    stream = NULL;
}

static void on_request(void *self, HttpRequest *request)
{
    const char *path = http_path(request), *a = http_query(request, "a"), *b = http_header(request, "b");
    HttpBody *body;

    (void)self;
    if (*path != '/')
        abort();
    if (!strcmp(path, "/s") && !stream) {
        stream = http_stream(request, "text/event-stream", NULL, 4, on_stream_close, NULL);
        body = http_body_static("data: 1\n\n", 9);
        http_stream_send(stream, body);
        http_body_unref(body);
        if (a)
            http_stream_close(stream);
        return;
    }
    if (path[1] == 'n')
        return; /* no answer at all */
    body = http_body_static("ok", 2);
    http_answer(request, a || b ? 404 : 200, "text/plain", body, NULL, 0);
}

static void remove_folder(void)
{
    char *slash = strrchr(address.sun_path, '/');

    unlink(address.sun_path);
    *slash = '\0';
    rmdir(address.sun_path);
}

static void start(void)
{
    char folder[] = "/tmp/fuzz-http-XXXXXX", listen[sizeof(address.sun_path) + 8];
    const char *const addresses[] = {listen};
    HttpConfig config = {
        .listen = addresses, .listen_count = 1, .limits = http_default_limits, .handler = on_request, .self = NULL};
    Err err = {0};

    if (!mkdtemp(folder))
        abort();
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
    snprintf(listen, sizeof(listen), "unix:%s", address.sun_path);
    config.limits.head_bytes = 2048;
    config.limits.body_bytes = 16;
    uv_loop_init(&loop);
    if (http_server_new(&loop, &config, &server, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    atexit(remove_folder);
}

/* Reads what is there; the first bytes of all must be those of an answer. */
static void read_some(int fd, size_t *total)
{
    char buffer[4096];
    ssize_t len;

    while ((len = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
        if (!*total && (len < 7 || memcmp(buffer, "HTTP/1.", 7) != 0))
            abort();
        *total += (size_t)len;
    }
}

static void turn(int fd, size_t *total, int times)
{
    for (int i = 0; i < times; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        if (fd >= 0)
            read_some(fd, total);
    }
}

static uint64_t open_now(void)
{
    HttpCounts counts;

    http_server_counts(server, &counts);
    return counts.connections;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size ? (size_t)data[0] * 8 + 1 : 1, total = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!server)
        start();
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    for (size_t at = 1; at < size && at < SENT_MAX; at += piece) {
        size_t len = size - at < piece ? size - at : piece;

        if (send(fd, data + at, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break; /* refused already, or more than the socket holds */
        turn(fd, &total, at / piece < 64 ? 1 : 0);
    }
    turn(fd, &total, TURNS);
    shutdown(fd, SHUT_WR);
    turn(fd, &total, TURNS);
    close(fd);
    for (int i = 0; open_now() && i < LAST_TURNS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        if (i >= LAST_TURNS / 2)
            usleep(1000);
    }
    if (open_now() || stream)
        abort();
    return 0;
}
