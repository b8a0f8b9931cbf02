/* SPDX-License-Identifier: Apache-2.0 */
/* Runs podresources on a loop and prints what changes, for test_podresources.py:
 *   podresources_watch SOCKET [period_ms=N] [timeout_ms=N] [keep_ms=N] [reply_bytes=N] [name=RESOURCE]... [logs=DIR]
 * Prints "state KEY", and a table as "row ..." lines before "table ROWS". Commands: stat, quit. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "commands.h"
#include "source/podresources/podresources.h"

enum { NAMES_MAX = 8 };

typedef struct Watch {
    uv_loop_t loop;
    uv_check_t check;
    Commands commands;
    Log log;
    PodResources *pods;
    PodResourcesState state;
    const char *names[NAMES_MAX];
    PodResourcesConfig config;
} Watch;

static void on_table(void *self)
{
    Watch *watch = self;
    const AllocationTable *table = podresources_table(watch->pods);

    for (size_t i = 0; i < table->len; i++) {
        const Allocation *row = &table->at[i];
        const AllocationDevice *device = &row->device;

        printf("row %s %d %d %d %s %s/%s/%s%s%s\n", device->uuid[0] ? device->uuid : "-", (int)device->minor,
               (int)device->gpu_instance, (int)device->compute_instance, device->replica[0] ? device->replica : "-",
               row->namespace, row->pod, row->container, row->pod_uid[0] ? "/" : "", row->pod_uid);
    }
    printf("table %zu\n", table->len);
}

static void print_state(Watch *watch)
{
    if (!watch->pods || watch->state == podresources_state(watch->pods))
        return;
    watch->state = podresources_state(watch->pods);
    printf("state %s\n", podresources_state_key(watch->state));
}

static void on_check(uv_check_t *check)
{
    print_state(check->data);
}

static void stop(Watch *watch)
{
    if (!watch->pods)
        return;
    podresources_close(watch->pods);
    watch->pods = NULL;
    commands_stop(&watch->commands);
    uv_close((uv_handle_t *)&watch->check, NULL);
}

static void on_line(void *self, char *line)
{
    Watch *watch = self;
    uint64_t age_ns, failures;
    size_t pods;

    if (strcmp(line, "quit") == 0) {
        stop(watch);
        return;
    }
    if (!watch->pods)
        return;
    podresources_counts(watch->pods, &age_ns, &failures, &pods);
    printf("stat failures=%llu pods=%zu rows=%zu known=%d", (unsigned long long)failures, pods,
           podresources_table(watch->pods)->len, age_ns != UINT64_MAX);
    commands_print_cost();
    printf("\n");
}

static void option(Watch *watch, const char *text)
{
    const char *value = strchr(text, '=');
    uint64_t number = 0;

    if (!value++)
        exit(2);
    if (strncmp(text, "name=", 5) == 0) {
        if (watch->config.resource_name_count == NAMES_MAX)
            exit(2);
        watch->names[watch->config.resource_name_count++] = value;
        return;
    }
    if (strncmp(text, "logs=", 5) == 0) {
        watch->config.pod_logs = value;
        return;
    }
    if (number_parse_u64(value, 0, UINT64_MAX / NS_PER_MS, &number, NULL) < 0)
        exit(2);
    if (strncmp(text, "period_ms=", 10) == 0)
        watch->config.period_ns = number * NS_PER_MS;
    else if (strncmp(text, "timeout_ms=", 11) == 0)
        watch->config.timeout_ns = number * NS_PER_MS;
    else if (strncmp(text, "keep_ms=", 8) == 0)
        watch->config.keep_ns = number * NS_PER_MS;
    else if (strncmp(text, "reply_bytes=", 12) == 0)
        watch->config.reply_bytes = number;
    else
        exit(2);
}

int main(int argc, char **argv)
{
    static Watch watch;
    Err err = {0};

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 2;
    log_init(&watch.log, LOG_LEVEL_INFO, LOG_FORMAT_TEXT, "watch", clock_kernel());
    watch.config = (PodResourcesConfig){.socket = argv[1],
                                        .resource_names = watch.names,
                                        .period_ns = 20 * NS_PER_MS,
                                        .timeout_ns = 60 * NS_PER_S,
                                        .keep_ns = 3600 * NS_PER_S,
                                        .reply_bytes = 64 << 20,
                                        .log = &watch.log,
                                        .on_table = on_table,
                                        .self = &watch};
    for (int i = 2; i < argc; i++)
        option(&watch, argv[i]);
    uv_loop_init(&watch.loop);
    uv_check_init(&watch.loop, &watch.check);
    watch.check.data = &watch;
    uv_check_start(&watch.check, on_check);
    commands_start(&watch.commands, &watch.loop, on_line, &watch);
    if (podresources_new(&watch.loop, &watch.config, &watch.pods, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uv_run(&watch.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&watch.loop) == 0 ? 0 : 3;
}
