/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/bench/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attribute.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "verb/verb.h"
#include "version.h"

enum { OPTIONS_MAX = 16, LAST_MS = 2000 };

static void close_pipe(BenchWorker *worker)
{
    if (worker->open)
        uv_poll_stop(&worker->poll);
    worker->open = false;
}

static void give_record(BenchWorker *worker)
{
    const BenchRecord *record = &worker->next.record;

    worker->have = 0;
    worker->heard = true;
    if (record->kind == BENCH_RECORD_STAGE && (unsigned)record->stage < BENCH_STAGE_COUNT) {
        worker->ended_stages |= 1u << worker->stage;
        worker->stage = record->stage;
        worker->stage_since_ns = clock_monotonic(clock_kernel());
    }
    worker->spec.give(worker->spec.self, worker, record);
}

/* Reads what there is; records come whole or, from a process that is killed meanwhile, not at all. */
static void read_records(BenchWorker *worker, int fd)
{
    for (;;) {
        const ssize_t n = read(fd, worker->next.bytes + worker->have, sizeof worker->next.bytes - worker->have);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN)
                close_pipe(worker);
            return;
        }
        worker->have += (size_t)n;
        if (worker->have == sizeof worker->next.bytes)
            give_record(worker);
    }
}

static void on_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    int fd;

    if (uv_fileno((const uv_handle_t *)poll, &fd) == 0)
        read_records(poll->data, fd);
}

static int start_process(BenchWorker *worker, int to, Err *err)
{
    const BenchWorkerSpec *spec = &worker->spec;
    const char *argv[OPTIONS_MAX + 5] = {spec->program, spec->links ? "links" : "gpu"};
    char devices[BENCH_GPUS_MAX * BENCH_NAME_CAP + 32], library[512];
    const char *env[] = {devices,
                         "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                         "CUDA_CACHE_DISABLE=1",
                         "CUDA_MODULE_LOADING=LAZY",
                         "CUDA_MPS_PIPE_DIRECTORY",
                         "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                         NULL};
    size_t n = 2;

    for (size_t i = 0; spec->options[i] && n < OPTIONS_MAX + 2; i++)
        argv[n++] = spec->options[i];
    if (spec->waits)
        argv[n++] = "wait=1";
    if (spec->library) {
        snprintf(library, sizeof library, "library=%s", spec->library);
        argv[n] = library;
    }
    snprintf(devices, sizeof devices, "CUDA_VISIBLE_DEVICES=%s", spec->devices);
    return subproc_start(
        &(SubprocSpec){.argv = argv, .env = env, .pass_fds = &to, .pass_count = 1, .die_with_us = true}, &worker->child,
        err);
}

int bench_worker_start(BenchWorker *worker, uv_loop_t *loop, const BenchWorkerSpec *spec, Err *err)
{
    int ends[2];

    *worker = (BenchWorker){.spec = *spec, .waits = spec->waits, .stage_since_ns = clock_monotonic(clock_kernel())};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, "make a pipe");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const int rc = start_process(worker, ends[1], err);
    close(ends[1]);
    worker->pid = worker->child.pid;
    if (rc < 0 || uv_poll_init(loop, &worker->poll, ends[0]) < 0) {
        close(ends[0]);
        return rc < 0 ? rc : err_set(err, -ENOMEM, "cannot watch a pipe");
    }
    worker->poll.data = worker;
    worker->open = true;
    uv_poll_start(&worker->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    return 0;
}

void bench_worker_go(BenchWorker *worker)
{
    if (!worker->waits || !worker->heard || worker->ended || worker->stuck)
        return;
    worker->waits = false;
    worker->stage_since_ns = clock_monotonic(clock_kernel());
    kill(worker->child.pid, SIGUSR1);
}

void bench_worker_stop(BenchWorker *worker, uint32_t grace_ms)
{
    const uint64_t kill_at_ns = clock_monotonic(clock_kernel()) + grace_ms * NS_PER_MS;

    if (worker->ended || worker->stuck)
        return;
    if (!worker->kill_at_ns)
        kill(worker->child.pid, SIGTERM);
    if (!worker->kill_at_ns || kill_at_ns < worker->kill_at_ns)
        worker->kill_at_ns = kill_at_ns;
}

bool bench_worker_check(BenchWorker *worker)
{
    const uint64_t now = clock_monotonic(clock_kernel());
    int fd;

    if (worker->ended || worker->stuck)
        return true;
    const int rc = subproc_wait(&worker->child, 0, &worker->end, NULL);
    if (rc == 0 || rc == -ESRCH) {
        worker->ended = true;
        if (worker->open && uv_fileno((const uv_handle_t *)&worker->poll, &fd) == 0)
            read_records(worker, fd); /* what it wrote last */
        close_pipe(worker);
        worker->spec.give(worker->spec.self, worker, NULL);
        return true;
    }
    if (worker->kill_at_ns && !worker->killed && now > worker->kill_at_ns) {
        kill(-worker->child.pid, SIGKILL);
        worker->killed = true;
    }
    if (worker->killed && now > worker->kill_at_ns + LAST_MS * NS_PER_MS) {
        worker->stuck = true;
        worker->spec.give(worker->spec.self, worker, NULL);
    }
    return worker->stuck;
}

bool bench_worker_ended_well(const BenchWorker *worker)
{
    return worker->ended && worker->stage == BENCH_STAGE_END_OF_WORK && worker->end.exited &&
           worker->end.exit_code == 0 && !worker->killed;
}

void bench_worker_close(BenchWorker *worker)
{
    if (worker->poll.data) {
        int fd;
        const bool has = uv_fileno((const uv_handle_t *)&worker->poll, &fd) == 0;

        uv_close((uv_handle_t *)&worker->poll, NULL);
        if (has)
            close(fd);
    }
    subproc_done(&worker->child);
}
