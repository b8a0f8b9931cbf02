/* SPDX-License-Identifier: Apache-2.0 */
/* A server for the tests: a few routes over wire/http, one option per limit. Prints its URLs and "ready"; SIGHUP reads
 * the web-config anew and prints what came of it; SIGTERM closes it and prints "closed". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/number.h"
#include "base/opt.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "wire/http/server.h"

enum { PAGE_MAX = 64 * 1024, BIG_MAX = 64 * 1024 * 1024, STREAMS_MAX = 1024, LIST_MAX = 8 };

typedef struct Options {
    OptList listen;
    const char *web_config, *check;
    bool systemd;
    OptList hosts, kept, posts;
    uint64_t connections, per_peer, young_ns, head_ns, idle_ns, answer_bytes, head_bytes, body_bytes, post_bytes,
        grace_ns;
} Options;

#define AT(field) .off = offsetof(Options, field)
static const OptSpec specs[] = {
    {.key = "listen", .type = OPT_LIST, .flags = OPT_WHOLE, AT(listen), .help = "address"},
    {.key = "web_config", .type = OPT_STRING, AT(web_config), .help = "file"},
    {.key = "check", .type = OPT_STRING, AT(check), .help = "check this web-config and leave"},
    {.key = "systemd", .type = OPT_BOOL, AT(systemd), .help = "sockets of LISTEN_FDS"},
    {.key = "connections", .type = OPT_UINT, AT(connections), .def = "256", .help = "limit"},
    {.key = "per_peer", .type = OPT_UINT, AT(per_peer), .def = "64", .help = "limit"},
    {.key = "hosts", .type = OPT_LIST, AT(hosts), .help = "names"},
    {.key = "kept", .type = OPT_LIST, AT(kept), .help = "pages that are always answered"},
    {.key = "posts", .type = OPT_LIST, AT(posts), .help = "paths that take POST"},
    {.key = "post_bytes", .type = OPT_SIZE, AT(post_bytes), .def = "1MiB", .help = "limit"},
    {.key = "young", .type = OPT_DURATION, AT(young_ns), .def = "1s", .help = "time in which one gives way last"},
    {.key = "answers", .type = OPT_SIZE, AT(answer_bytes), .def = "64MiB", .help = "limit"},
    {.key = "head", .type = OPT_DURATION, AT(head_ns), .def = "10s", .help = "timeout"},
    {.key = "idle", .type = OPT_DURATION, AT(idle_ns), .def = "90s", .help = "timeout"},
    {.key = "head_bytes", .type = OPT_SIZE, AT(head_bytes), .def = "8KiB", .help = "limit"},
    {.key = "body_bytes", .type = OPT_SIZE, AT(body_bytes), .def = "0", .help = "limit"},
    {.key = "grace", .type = OPT_DURATION, AT(grace_ns), .def = "2s", .help = "time to finish at the end"},
};

typedef struct App {
    uv_loop_t loop;
    uv_signal_t hup, term;
    uv_timer_t ticker;
    HttpServer *server;
    HttpBody *big;
    HttpStream *streams[STREAMS_MAX];
    size_t stream_count, streams_closed;
    unsigned long ticks;
    uint64_t grace_ns;
} App;

static void answer_text(HttpRequest *request, unsigned status, const char *type, Str *text)
{
    size_t len = text->len;

    http_answer(request, status, type, http_body_new(str_take(text), len), NULL, 0);
}

static void add_member(Str *out, const char *name, const char *value)
{
    str_addf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
    if (value)
        str_add_json(out, value);
    else
        str_add(out, "null");
}

static void on_echo(HttpRequest *request)
{
    CLEANUP(str_done) Str out;

    str_init(&out, PAGE_MAX);
    str_addc(&out, '{');
    add_member(&out, "path", http_path(request));
    add_member(&out, "a", http_query(request, "a"));
    add_member(&out, "b", http_query(request, "b"));
    add_member(&out, "test", http_header(request, "x-test"));
    add_member(&out, "remote", http_remote(request));
    str_addc(&out, '}');
    answer_text(request, 200, "application/json", &out);
}

static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[256] = "";
    long pages = 0;

    if (file && fgets(line, sizeof(line), file))
        pages = strtol(line + strcspn(line, " "), NULL, 10);
    if (file)
        fclose(file);
    return pages;
}

static void on_counts(const App *app, HttpRequest *request)
{
    CLEANUP(str_done) Str out;
    HttpCounts counts;

    http_server_counts(app->server, &counts);
    str_init(&out, PAGE_MAX);
    str_addf(&out,
             "{\"requests\":%llu,\"refused\":%llu,\"evicted\":%llu,\"auth\":%llu,\"sent\":%llu,\"connections\":%llu,"
             "\"streams\":%zu,\"streams_closed\":%zu,\"rss\":%ld,\"held\":%llu,\"refused_answers\":%llu}",
             (unsigned long long)counts.requests, (unsigned long long)counts.refused_connections,
             (unsigned long long)counts.evicted_connections, (unsigned long long)counts.auth_failures,
             (unsigned long long)counts.bytes_sent, (unsigned long long)counts.connections, app->stream_count,
             app->streams_closed, resident_pages(), (unsigned long long)counts.answer_bytes,
             (unsigned long long)counts.refused_answers);
    answer_text(request, 200, "application/json", &out);
}

static void on_stream_close(void *self, HttpStream *stream)
{
    App *app = self;

    for (size_t i = 0; i < app->stream_count; i++) {
        if (app->streams[i] != stream)
            continue;
        app->streams[i] = app->streams[--app->stream_count];
        app->streams_closed++;
        return;
    }
    abort(); /* called twice, or for a stream that is none */
}

static uint64_t number_of(const HttpRequest *request, const char *name, uint64_t otherwise)
{
    uint64_t number = otherwise;
    const char *text = http_query(request, name);

    if (text && number_parse_u64(text, 0, BIG_MAX, &number, NULL) < 0)
        return otherwise;
    return number;
}

/* ?max=QUEUE, ?first=N bodies at once, ?end to close it then, ?bytes=SIZE of each of these. */
static void on_stream(App *app, HttpRequest *request)
{
    uint64_t first = number_of(request, "first", 0);
    size_t size = (size_t)number_of(request, "bytes", 16);
    bool end = http_query(request, "end") != NULL;
    HttpStream *stream =
        http_stream(request, "text/event-stream", NULL, (size_t)number_of(request, "max", 64), on_stream_close, app);

    if (app->stream_count == STREAMS_MAX)
        abort();
    app->streams[app->stream_count++] = stream;
    for (uint64_t i = 0; i < first; i++) {
        char *bytes = xmalloc(size + 1);
        HttpBody *body;

        memset(bytes, 'x', size);
        body = http_body_new(bytes, size);
        http_stream_send(stream, body);
        http_body_unref(body);
    }
    if (end)
        http_stream_close(stream);
}

/* ?bytes=SIZE and of the second part ?more=SIZE, made for this request alone. */
static void on_own(HttpRequest *request)
{
    const size_t sizes[] = {(size_t)number_of(request, "bytes", 16), (size_t)number_of(request, "more", 0)};
    HttpBody *bodies[2] = {NULL, NULL};

    for (size_t i = 0; i < 2; i++) {
        char *bytes = sizes[i] ? xmalloc(sizes[i]) : NULL;

        if (bytes) {
            memset(bytes, i ? 'y' : 'x', sizes[i]);
            bodies[i] = http_body_new(bytes, sizes[i]);
        }
    }
    http_answer_two(request, 200, "text/plain", bodies[0], bodies[1], NULL, 0);
}

/* The method and the body, as they came. */
static void on_post(HttpRequest *request)
{
    CLEANUP(str_done) Str out = str_limited(BIG_MAX);
    size_t len;
    const char *body = http_body(request, &len);

    if (body[len] != '\0')
        abort();
    str_addf(&out, "%s %zu ", http_method(request), len);
    str_addn(&out, body, len);
    answer_text(request, 200, "text/plain", &out);
}

static void on_ticker(uv_timer_t *timer)
{
    App *app = timer->data;
    char text[64];
    int len = snprintf(text, sizeof(text), "data: %lu\n\n", ++app->ticks);
    HttpBody *body = http_body_new(xstrdup(text), (size_t)len);

    for (size_t i = 0; i < app->stream_count; i++)
        http_stream_send(app->streams[i], body);
    http_body_unref(body);
}

/* ?ms=PERIOD of the ticks that go to every stream; 0 stops them. */
static void on_tick_route(App *app, HttpRequest *request)
{
    uint64_t period = number_of(request, "ms", 0);

    if (period)
        uv_timer_start(&app->ticker, on_ticker, period, period);
    else
        uv_timer_stop(&app->ticker);
    http_answer(request, 204, NULL, NULL, NULL, 0);
}

static void on_request(void *self, HttpRequest *request)
{
    static const HttpField fields[] = {{"X-One", "1"}, {"Cache-Control", "no-store"}};
    const char *path = http_path(request);
    App *app = self;

    if (!strcmp(path, "/ok"))
        http_answer(request, 200, "text/plain", http_body_static("ok\n", 3), fields, ARRAY_LEN(fields));
    else if (!strcmp(path, "/big"))
        http_answer(request, 200, "application/octet-stream", http_body_ref(app->big), NULL, 0);
    else if (!strncmp(path, "/own", 4))
        on_own(request);
    else if (!strncmp(path, "/post", 5))
        on_post(request);
    else if (!strcmp(path, "/counts"))
        on_counts(app, request);
    else if (!strcmp(path, "/stream"))
        on_stream(app, request);
    else if (!strcmp(path, "/ticks"))
        on_tick_route(app, request);
    else if (!strncmp(path, "/echo", 5))
        on_echo(request);
    else if (strcmp(path, "/silent") != 0)
        http_answer(request, 404, "text/plain", http_body_static("no\n", 3), NULL, 0);
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void on_hup(uv_signal_t *handle, int number)
{
    App *app = handle->data;
    Err err = {0};

    (void)number;
    if (http_server_reload(app->server, &err) < 0)
        printf("reload failed: %s\n", err.text);
    else
        printf("reloaded %s\n", http_server_url(app->server, 0));
    fflush(stdout);
}

static void on_closed(void *self)
{
    App *app = self;

    uv_close((uv_handle_t *)&app->hup, NULL);
    uv_close((uv_handle_t *)&app->term, NULL);
    uv_close((uv_handle_t *)&app->ticker, NULL);
    say("closed");
}

static void on_term(uv_signal_t *handle, int number)
{
    App *app = handle->data;

    (void)number;
    http_server_close(app->server, app->grace_ns, on_closed, app);
}

static HttpBody *big_body(void)
{
    enum { BIG_BYTES = 4 * 1024 * 1024 };
    char *bytes = xmalloc(BIG_BYTES);

    for (size_t i = 0; i < BIG_BYTES; i++)
        bytes[i] = (char)('a' + i % 23);
    return http_body_new(bytes, BIG_BYTES);
}

/* NULL where the list is empty. */
static const char *const *end_list(const OptList *list, const char *out[LIST_MAX + 1])
{
    if (list->len > LIST_MAX)
        abort();
    for (size_t i = 0; i < list->len; i++)
        out[i] = list->items[i];
    out[list->len] = NULL;
    return list->len ? out : NULL;
}

static int serve(App *app, const Options *options, const Log *log)
{
    const char *hosts[LIST_MAX + 1], *kept[LIST_MAX + 1], *posts[LIST_MAX + 1];
    HttpConfig config = {.hosts = end_list(&options->hosts, hosts),
                         .kept = end_list(&options->kept, kept),
                         .posts = end_list(&options->posts, posts),
                         .listen = options->listen.items,
                         .listen_count = options->listen.len,
                         .systemd_sockets = options->systemd,
                         .web_config = options->web_config,
                         .limits = http_default_limits,
                         .handler = on_request,
                         .self = app,
                         .log = log};
    Err err = {0};

    config.limits = (HttpLimits){.connections = (unsigned)options->connections,
                                 .connections_per_peer = (unsigned)options->per_peer,
                                 .head_timeout_ns = options->head_ns,
                                 .young_ns = options->young_ns,
                                 .idle_timeout_ns = options->idle_ns,
                                 .answer_timeout_ns = options->idle_ns,
                                 .answer_bytes = (size_t)options->answer_bytes,
                                 .head_bytes = (size_t)options->head_bytes,
                                 .body_bytes = (size_t)options->body_bytes,
                                 .post_bytes = (size_t)options->post_bytes};
    uv_loop_init(&app->loop);
    app->grace_ns = options->grace_ns;
    if (http_server_new(&app->loop, &config, &app->server, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return uv_loop_close(&app->loop) == 0 ? 1 : 2;
    }
    uv_signal_init(&app->loop, &app->hup);
    uv_signal_init(&app->loop, &app->term);
    uv_timer_init(&app->loop, &app->ticker);
    app->hup.data = app->term.data = app->ticker.data = app;
    uv_signal_start(&app->hup, on_hup, SIGHUP);
    uv_signal_start(&app->term, on_term, SIGTERM);
    for (size_t i = 0; http_server_url(app->server, i); i++)
        say(http_server_url(app->server, i));
    say("ready");
    app->big = big_body();
    uv_run(&app->loop, UV_RUN_DEFAULT);
    http_body_unref(app->big);
    return uv_loop_close(&app->loop) == 0 && app->stream_count == 0 ? 0 : 3;
}

int main(int argc, char **argv)
{
    static App app;
    CLEANUP(arena_done) Arena arena = {0};
    Options options = {0};
    OptSet set = {.opts = specs, .count = ARRAY_LEN(specs), .into = &options, .arena = &arena};
    OptArgs args;
    Err err = {0};
    Log log;

    log_init(&log, LOG_LEVEL_DEBUG, LOG_FORMAT_TEXT, "http-test", clock_kernel());
    if (opt_defaults(&set, &err) < 0 || opt_args(&set, argc, argv, &args, &err) != 0 ||
        (options.check && http_web_config_check(options.check, &err) < 0)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return options.check ? 0 : serve(&app, &options, &log);
}
