/* SPDX-License-Identifier: Apache-2.0 */
#include "source/slurm/command.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/subproc.h"

enum { STOP_MS = 200, COMPLAINT_CAP = 256 };

/* Reads until the child closes its output. */
static int read_output(int fd, uint64_t deadline_ns, Str *out, Err *err)
{
    for (;;) {
        const uint64_t now = clock_monotonic(clock_kernel());
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        char buffer[4096];

        if (now >= deadline_ns || poll(&ready, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) == 0)
            return err_set(err, -ETIMEDOUT, "no answer in time");
        const ssize_t n = read(fd, buffer, sizeof buffer);
        if (n == 0)
            return str_check(out, "the answer", err);
        if (n > 0)
            str_addn(out, buffer, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR)
            return err_errno(err, "read the answer");
    }
}

/* How it ended, and the first line of what it complained about. */
static int fail_end(const SubprocEnd *end, int err_fd, Err *err)
{
    char how[SUBPROC_TEXT_MAX], said[COMPLAINT_CAP];
    const ssize_t n = read(err_fd, said, sizeof said - 1);

    subproc_describe(end, how);
    said[n > 0 ? n : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    return err_set(err, -EIO, "%s%s%s", how, said[0] ? ": " : "", said);
}

int slurm_command_run(const char *const *argv, bool utc, uint64_t timeout_ms, Str *out, Err *err)
{
    const char *const env[] = {"TZ=UTC", "SLURM_TIME_FORMAT", NULL};
    const SubprocSpec spec = {
        .argv = argv, .env = utc ? env : NULL, .pipe_out = true, .pipe_err = true, .die_with_us = true};
    const uint64_t deadline_ns = clock_monotonic(clock_kernel()) + timeout_ms * NS_PER_MS;
    Subproc child;
    SubprocEnd end;

    TRY(subproc_start(&spec, &child, err));
    int rc = read_output(child.out_fd, deadline_ns, out, err);
    if (rc < 0)
        (void)subproc_stop(&child, STOP_MS, &end, NULL);
    else if ((rc = subproc_wait(&child, STOP_MS, &end, err)) == SUBPROC_RUNNING)
        rc = subproc_stop(&child, STOP_MS, &end, err) == 0 ? 0 : err_set(err, -ETIMEDOUT, "it does not end");
    if (rc == 0 && (!end.exited || end.exit_code != 0))
        rc = fail_end(&end, child.err_fd, err);
    subproc_done(&child);
    return rc;
}
