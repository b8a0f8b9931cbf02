/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the API server under test: kube_driver ACCOUNT [KUBECONFIG [PATH]]. PATH is
 * read and watched, a list where it has a '?', of which with "pretty=" each change is told alone; what comes is a line
 * of names and versions. One command per line of
 * stdin, one JSON reply per line of stdout: "call METHOD PATH [BODY]", "cancel", "close", and "then close" or "then
 * cancel": what the next reply's call back does. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "source/kubernetes/kubernetes.h"

enum { LINE_ROOM = 65536, CALLS_MAX = 16 };

static uv_loop_t loop;
static KubeApi *api;
static KubeCall *calls[CALLS_MAX];
static enum { THEN_NOTHING, THEN_CLOSE, THEN_CANCEL } then;

static void print_reply(size_t i, const KubeReply *reply)
{
    json_t *all = json_pack("{si ss ss sI}", "call", (int)i, "state", kube_states[reply->state].key, "text",
                            reply->text, "wait_ms", (json_int_t)(reply->wait_ns / NS_PER_MS));

    if (reply->object)
        json_object_set_new(all, "object", json_deep_copy(reply->object));
    char *text = json_dumps(all, JSON_COMPACT);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(all);
}

static void close_api(void)
{
    kube_api_close(api);
    api = NULL;
    memset(calls, 0, sizeof calls);
}

static void cancel_calls(void)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        kube_call_cancel(calls[i]);
        calls[i] = NULL;
    }
}

static void on_reply(void *self, const KubeReply *reply)
{
    KubeCall **at = self;

    *at = NULL;
    print_reply((size_t)(at - calls), reply);
    if (then == THEN_CLOSE)
        close_api();
    else if (then == THEN_CANCEL)
        cancel_calls();
    then = THEN_NOTHING;
}

static void make_call(char *line)
{
    const KubeRequest request = {.method = strsep(&line, " "), .path = strsep(&line, " "), .body = line};
    size_t i = 0;

    while (calls[i])
        i++;
    kube_call_new(api, &request, on_reply, &calls[i], &calls[i]);
}

static void run_command(char *line)
{
    if (strncmp(line, "call ", 5) == 0)
        make_call(line + 5);
    else if (strncmp(line, "then ", 5) == 0)
        then = strcmp(line + 5, "close") == 0 ? THEN_CLOSE : THEN_CANCEL;
    else if (strcmp(line, "cancel") == 0)
        cancel_calls();
    else if (strcmp(line, "close") == 0)
        close_api();
    else
        abort();
}

/* --- what is read ------------------------------------------------------------------------------------------------- */

static json_t *names;

static void begin_names(void *self UNUSED)
{
    json_decref(names);
    names = json_array();
}

static int add_name(void *self UNUSED, const json_t *object, Err *err UNUSED)
{
    json_t *name = json_object_get(json_object_get(object, "metadata"), "name");

    return json_array_append(names, name);
}

static bool print_names(void *self UNUSED)
{
    char *text = json_dumps(names, JSON_COMPACT);

    puts(text);
    fflush(stdout);
    free(text);
    return true;
}

static int print_change(void *self UNUSED, const json_t *object, bool gone, Err *err UNUSED)
{
    printf("[\"%s\", \"%s\"]\n", gone ? "gone" : "there",
           json_string_value(json_object_get(json_object_get(object, "metadata"), "name")));
    fflush(stdout);
    return 0;
}

static void on_input(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    static char room[LINE_ROOM];
    static size_t len;
    const ssize_t got = read(STDIN_FILENO, room + len, sizeof room - 1 - len);
    char *end;

    if (got <= 0) {
        close_api();
        uv_close((uv_handle_t *)poll, NULL);
        return;
    }
    len += (size_t)got;
    room[len] = '\0';
    while ((end = strchr(room, '\n'))) {
        *end++ = '\0';
        run_command(room);
        len -= (size_t)(end - room);
        memmove(room, end, len + 1);
    }
}

int main(int argc, char **argv)
{
    Log log;
    const KubeApiConfig config = {.account = argv[1],
                                  .kubeconfig = argc > 2 ? argv[2] : NULL,
                                  .soon_ns = 20 * NS_PER_MS,
                                  .again_ns = NS_PER_H,
                                  .timeout_ns = (argc > 3 ? 3 : 30) * NS_PER_S,
                                  .watch_ns = 2 * NS_PER_S,
                                  .log = &log};
    const KubeRead thing = {.what = "things",
                            .path = argv[argc - 1],
                            .list = strchr(argv[argc - 1], '?'),
                            .begin = begin_names,
                            .add = add_name,
                            .end = print_names,
                            .change = strstr(argv[argc - 1], "pretty=") ? print_change : NULL};
    uv_poll_t input;
    Err err = {0};

    log_init(&log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "kube_driver", clock_kernel());
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (kube_api_new(&loop, &config, &thing, argc > 3, &api, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uv_poll_init(&loop, &input, STDIN_FILENO);
    uv_poll_start(&input, UV_READABLE, on_input);
    uv_run(&loop, UV_RUN_DEFAULT);
    json_decref(names);
    return uv_loop_close(&loop) == 0 ? 0 : 2;
}
