/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP client under test: one JSON command per line of stdin, one JSON answer per line of stdout. The resolver is
 * replaced for one name, which hangs until it is told otherwise. */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "wire/fetch/fetch.h"

enum { LINE_MAX_BYTES = 4 * 1024 * 1024, HEADERS_MAX = 16, CALLS_MAX = 64 };

typedef struct Asked {
    char id[32];
    FetchCall *call;
    json_t *command;
} Asked;

static uv_loop_t loop;
static Fetch *fetch;
static Asked asked[CALLS_MAX];
static atomic_bool hung = true;
static atomic_int lookups;
static struct sockaddr_in loopback = {.sin_family = AF_INET};

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **res)
{
    struct addrinfo *one;

    (void)service;
    if (!node || strcmp(node, "hang.test") != 0)
        return EAI_NONAME;
    atomic_fetch_add(&lookups, 1);
    while (atomic_load(&hung))
        usleep(1000);
    atomic_fetch_sub(&lookups, 1);
    one = calloc(1, sizeof(*one));
    *one = (struct addrinfo){.ai_family = AF_INET,
                             .ai_socktype = hints ? hints->ai_socktype : SOCK_STREAM,
                             .ai_addrlen = sizeof(loopback),
                             .ai_addr = (struct sockaddr *)&loopback};
    *res = one;
    return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *res)
{
    free(res);
}

static void say(json_t *what)
{
    char *text = json_dumps(what, JSON_COMPACT);

    puts(text);
    fflush(stdout);
    free(text);
    json_decref(what);
}

static Asked *find(const char *id)
{
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (!strcmp(asked[i].id, id))
            return &asked[i];
    return NULL;
}

static void forget(Asked *one)
{
    json_decref(one->command);
    *one = (Asked){0};
}

static const char *text_of(json_t *command, const char *key)
{
    return json_string_value(json_object_get(command, key));
}

static void send_one(json_t *command);

static void cancel_all(void)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (asked[i].call) {
            fetch_cancel(asked[i].call);
            forget(&asked[i]);
        }
    }
}

static void done(void *self, const FetchAnswer *answer)
{
    Asked *one = self;
    json_t *command = json_incref(one->command);
    const char *then = text_of(command, "then");

    say(json_pack("{ss si sI ss# ss}", "id", one->id, "status", (int)answer->status, "retry_after_ms",
                  (json_int_t)answer->retry_after_ms, "body", answer->body, (int)answer->body_len, "text",
                  answer->text));
    forget(one);
    if (then && !strcmp(then, "close")) {
        fetch_close(fetch);
        fetch = NULL;
    } else if (then && !strcmp(then, "cancel-all")) {
        cancel_all();
    } else if (then && !strcmp(then, "again")) {
        json_object_del(command, "then");
        json_object_set_new(command, "id", json_string("again"));
        send_one(command);
    }
    json_decref(command);
}

static void fill_tls(json_t *command, FetchTls *tls)
{
    tls->ca_file = text_of(command, "ca_file");
    tls->cert_file = text_of(command, "cert_file");
    tls->key_file = text_of(command, "key_file");
    tls->server_name = text_of(command, "server_name");
    tls->insecure = json_is_true(json_object_get(command, "insecure"));
}

static void send_one(json_t *command)
{
    const char *headers[HEADERS_MAX];
    FetchRequest request = {.url = text_of(command, "url"),
                            .unix_socket = text_of(command, "unix_socket"),
                            .headers = headers,
                            .body = text_of(command, "body"),
                            .body_len = json_string_length(json_object_get(command, "body")),
                            .user = text_of(command, "user"),
                            .password = text_of(command, "password"),
                            .bearer = text_of(command, "bearer"),
                            .timeout_ms = 60000,
                            .answer_max = 4096};
    json_t *given = json_object_get(command, "headers"), *timeout = json_object_get(command, "timeout_ms");
    Asked *one = find("");
    Err err = {0};
    int rc;

    assert(one);
    fill_tls(command, &request.tls);
    if (timeout)
        request.timeout_ms = (uint64_t)json_integer_value(timeout);
    for (; request.header_count < json_array_size(given); request.header_count++)
        headers[request.header_count] = json_string_value(json_array_get(given, request.header_count));
    snprintf(one->id, sizeof(one->id), "%s", text_of(command, "id"));
    one->command = json_incref(command);
    rc = fetch_send(fetch, &request, done, one, &one->call, &err);
    if (rc < 0) {
        say(json_pack("{ss ss ss}", "id", one->id, "refused", strerrorname_np(-rc), "text", err.text));
        forget(one);
    }
}

static size_t count_threads(void)
{
    char line[256];
    size_t count = 0;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "Threads:", 8))
            count = strtoul(line + 8, NULL, 10);
    if (file)
        fclose(file);
    return count;
}

static void command(const char *line)
{
    json_t *what = json_loads(line, 0, NULL);
    const char *verb = text_of(what, "do");

    assert(verb);
    if (!strcmp(verb, "send")) {
        send_one(what);
    } else if (!strcmp(verb, "cancel")) {
        Asked *one = find(text_of(what, "id"));

        if (!one)
            abort();
        fetch_cancel(one->call);
        forget(one);
        say(json_pack("{ss}", "cancelled", text_of(what, "id")));
    } else if (!strcmp(verb, "release")) {
        atomic_store(&hung, false);
    } else if (!strcmp(verb, "count")) {
        say(json_pack("{si si}", "threads", (int)count_threads(), "lookups", atomic_load(&lookups)));
    } else if (!strcmp(verb, "close")) {
        fetch_close(fetch);
        fetch = NULL;
        say(json_pack("{ss}", "said", "closed"));
    }
    json_decref(what);
}

static void on_line(uv_poll_t *poll, int status, int events)
{
    static char buffer[LINE_MAX_BYTES];
    static size_t len;
    ssize_t got = read(STDIN_FILENO, buffer + len, sizeof(buffer) - 1 - len);
    char *end;

    (void)status, (void)events;
    if (got <= 0) {
        if (fetch)
            fetch_close(fetch);
        fetch = NULL;
        uv_close((uv_handle_t *)poll, NULL);
        return;
    }
    len += (size_t)got;
    buffer[len] = '\0';
    while ((end = strchr(buffer, '\n'))) {
        *end = '\0';
        command(buffer);
        len -= (size_t)(end + 1 - buffer);
        memmove(buffer, end + 1, len + 1);
    }
}

int main(void)
{
    uv_poll_t input;
    Err err = {0};

    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (fetch_new(&loop, &fetch, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE, on_line);
    uv_run(&loop, UV_RUN_DEFAULT);
    while (atomic_load(&lookups) > 0) /* a resolver that still hangs frees its own things */
        atomic_store(&hung, false), usleep(1000);
    usleep(20000);
    if (uv_loop_close(&loop) != 0) {
        fprintf(stderr, "handles are left in the loop\n");
        return 1;
    }
    return 0;
}
