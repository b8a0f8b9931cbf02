/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-bench, see worker.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/inherited.h"
#include "source/cuda/stage.h"
#include "source/cuda/worker.h"

static Cuda *running; /* for the signal handler alone */

static void handle_stop(int UNUSED number)
{
    cuda_request_stop(running);
}

static void set_signals(void)
{
    const struct sigaction stop = {.sa_handler = handle_stop, .sa_flags = SA_RESTART};
    sigset_t go;

    signal(SIGINT, SIG_IGN); /* the parent decides */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &stop, NULL);
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_SETMASK, &go, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static int check_links(const BenchOptions *options, Err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (options->links && visible && strstr(visible, "MIG-"))
        return err_set(err, -EINVAL, "MIG devices have no links");
    return 0;
}

int main(int argc, char **argv)
{
    CLEANUP_FREE BenchProcess *process = xcalloc(1, sizeof *process);
    Err err = {0};

    if (bench_options_parse(argc, argv, &process->options, &err) < 0 || check_links(&process->options, &err) < 0) {
        fprintf(stderr, "stoker-bench: %s. This program is started by 'stoker bench'.\n", err.text);
        return BENCH_WORKER_EXIT_USAGE;
    }
    if (fcntl(BENCH_WORKER_FD, F_SETFD, FD_CLOEXEC) < 0)
        return BENCH_WORKER_EXIT_GONE;
    process->sender.fd = BENCH_WORKER_FD;
    cuda_init(&process->cuda);
    running = &process->cuda;
    inherited_close_above(BENCH_WORKER_FD);
    set_signals();
    prctl(PR_SET_NAME, "stoker-bench");
    inherited_leave_streams();
    return bench_process_run(process, NULL);
}
