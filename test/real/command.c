/* SPDX-License-Identifier: Apache-2.0 */
/* Running other programs with a deadline, and asking the run's agent. What programs say on stderr goes into the log. */
#include "real.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

enum { ARGS_MAX = 40, PIECE = 65536, END_MS = 300 };

static uint64_t now_ms(void)
{
    return clock_monotonic(clock_kernel()) / NS_PER_MS;
}

/* Reads what comes until the end of the stream or the deadline. 0, or -ETIME. */
static int read_stream(int fd, uint64_t deadline_ms, Str *out)
{
    static char piece[PIECE];

    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        const uint64_t now = now_ms();
        ssize_t n;

        if (now >= deadline_ms)
            return -ETIME;
        if (poll(&one, 1, (int)(deadline_ms - now)) <= 0)
            continue;
        n = read(fd, piece, sizeof piece);
        if (n > 0)
            str_addn(out, piece, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return 0;
    }
}

int command_run(const char *const *argv, const char *const *env, uint64_t timeout_ms, Str *out, int *ret_code, Err *err)
{
    const SubprocSpec spec = {.argv = argv, .env = env, .pipe_out = true, .die_with_us = true};
    const uint64_t deadline = now_ms() + timeout_ms;
    CLEANUP(subproc_done) Subproc child = {0};
    SubprocEnd end = {0};
    int rc;

    TRY(subproc_start(&spec, &child, err));
    rc = read_stream(child.out_fd, deadline, out);
    if (rc == 0) {
        const uint64_t now = now_ms();

        rc = subproc_wait(&child, now < deadline ? deadline - now : 0, &end, err);
    }
    if (rc != 0) {
        subproc_stop(&child, END_MS, &end, NULL);
        read_stream(child.out_fd, now_ms() + END_MS, out); /* what it said to the signal */
        return err_set(err, -ETIME, "'%s' did not end within %.1f s", argv[0], (double)timeout_ms / 1000);
    }
    *ret_code = end.exited ? end.exit_code : 128 + end.signal;
    return 0;
}

int command_run_own(const Real *real, const char *const *argv, uint64_t timeout_ms, Str *out, int *ret_code, Err *err)
{
    CLEANUP(str_done) Str program = str_limited(4096);
    const char *all[ARGS_MAX] = {0};

    str_addf(&program, "%s/%s", real->bin, argv[0]);
    all[0] = program.text;
    for (size_t i = 1; argv[i] && i < ARGS_MAX - 1; i++)
        all[i] = argv[i];
    return command_run(all, NULL, timeout_ms, out, ret_code, err);
}

/* The bundle's libraries are for our programs alone. */
int command_run_smi(const char *const *options, Str *out, int *ret_code, Err *err)
{
    const char *all[ARGS_MAX] = {"nvidia-smi"}, *before = getenv("STOKER_REAL_LIBRARY_PATH");
    CLEANUP(str_done) Str path = str_limited(65536);
    const char *env[] = {"LD_LIBRARY_PATH", NULL};

    for (size_t i = 0; options[i] && i < ARGS_MAX - 2; i++)
        all[i + 1] = options[i];
    str_addf(&path, "LD_LIBRARY_PATH=%s", before ? before : "");
    if (before && *before)
        env[0] = path.text;
    return command_run(all, before ? env : NULL, 2 * REAL_ASK_MS, out, ret_code, err);
}

/* --- the agent ---------------------------------------------------------------------------------------------------- */

int command_start_agent(const Real *real, const char *const *options, Subproc *ret, Err *err)
{
    CLEANUP(str_done) Str program = str_limited(4096);
    CLEANUP(str_done) Str listen = str_limited(256);
    const char *argv[ARGS_MAX] = {NULL,        "agent", "--listen",         NULL,          "--control",   real->control,
                                  "--journal", "none",  "--driver-library", real->library, "--log-level", "info"};
    const SubprocSpec spec = {.argv = argv, .die_with_us = true};
    size_t n = 12;

    str_addf(&program, "%s/stoker", real->bin);
    str_addf(&listen, "unix:%s", real->http);
    argv[0] = program.text;
    argv[3] = listen.text;
    for (size_t i = 0; options[i] && n < ARGS_MAX - 1; i++)
        argv[n++] = options[i];
    return subproc_start(&spec, ret, err);
}

json_t *command_ask_agent(const Real *real, Err *err)
{
    const char *argv[] = {"stoker", "status", "--json", "--control", real->control, NULL};
    CLEANUP(str_done) Str text = str_limited(REAL_TEXT_MAX);
    json_error_t where;
    json_t *status;
    int code;

    if (command_run_own(real, argv, REAL_ASK_MS, &text, &code, err) < 0)
        return NULL;
    status = json_loadb(text.text, text.len, 0, &where);
    if (!status)
        err_set(err, -EBADMSG, "stoker status --json ended with %d and is no JSON: %s", code, where.text);
    return status;
}

json_t *command_find_gpu(json_t *status, int index)
{
    json_t *list = json_object_get(json_object_get(status, "node"), "gpus"), *gpu;
    size_t i;

    json_array_foreach(list, i, gpu) if (json_integer_value(json_object_get(gpu, "index")) == index) return gpu;
    return NULL;
}

static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double command_read_metric(const json_t *gpu, const char *metric)
{
    static const char activity[] = "activity.";

    if (strncmp(metric, activity, strlen(activity)) == 0)
        return number_of(json_object_get(json_object_get(gpu, "activity"), metric + strlen(activity)));
    if (strcmp(metric, "power_share") == 0)
        return command_read_metric(gpu, "DCGM_FI_DEV_POWER_USAGE") /
               command_read_metric(gpu, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT");
    return number_of(json_object_get(json_object_get(json_object_get(gpu, "metrics"), metric), "value"));
}

int command_save(const Real *real, const char *name, const Str *text, Err *err)
{
    CLEANUP(str_done) Str path = str_limited(4096);

    str_addf(&path, "%s/%s", real->out, name);
    return file_write(path.text, text->text, text->len, 0644, err);
}

int command_get_page(const char *socket_path, const char *path, Str *out, Err *err)
{
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(str_done) Str request = str_limited(1024);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return err_errno(err, "connect to '%s'", socket_path);
    str_addf(&request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    if (write(fd, request.text, request.len) != (ssize_t)request.len)
        return err_errno(err, "ask for '%s'", path);
    if (read_stream(fd, now_ms() + REAL_ASK_MS, out) < 0)
        return err_set(err, -ETIME, "no whole answer to '%s' within %d s", path, REAL_ASK_MS / 1000);
    return 0;
}
