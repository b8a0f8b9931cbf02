/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real processes under the supervisor (source/sampler/processes.c, process.c): started by us, or by somebody who
 * listens on a socket as systemd does. Argument 1 is the fake sampler.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "source/sampler/process.h"
#include "source/sampler/processes.h"

static const char *fake;

static const SupervisorLimits quick = {
    .call_ns = 200 * NS_PER_MS,
    .attach_ns = 20 * NS_PER_S,
    .beat_ns = 20 * NS_PER_S,
    .kill_ns = 200 * NS_PER_MS,
    .abandon_ns = 20 * NS_PER_S,
    .retry_max_ns = NS_PER_MS,
    .rejoin_ns = 60 * NS_PER_S,
};

typedef struct Fixture {
    uv_loop_t loop;
    Board *board;
    int board_fd;
    Processes *processes;
    Supervisor *supervisor;
    bool stopped;
    /* the one who listens */
    char path[64];
    int listen_fd;
    uv_poll_t accept;
    pid_t served[32];
    uint32_t served_count;
} Fixture;

static Fixture f;

static int set_up(void **state)
{
    Err err;

    (void)state;
    memset(&f, 0, sizeof(f));
    f.listen_fd = -1;
    assert_int_equal(uv_loop_init(&f.loop), 0);
    assert_int_equal(board_new(&f.board, &f.board_fd, &err), 0);
    return 0;
}

static void on_stopped(void *self)
{
    ((Fixture *)self)->stopped = true;
}

static void stop_all(void)
{
    processes_stop(f.processes, on_stopped, &f);
    while (!f.stopped)
        uv_run(&f.loop, UV_RUN_ONCE);
    processes_free(f.processes);
    f.processes = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.processes)
        stop_all();
    if (f.listen_fd >= 0) {
        uv_close((uv_handle_t *)&f.accept, NULL);
        close(f.listen_fd);
        unlink(f.path);
    }
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    board_unmap(f.board);
    close(f.board_fd);
    return 0;
}

/* One GPU on the bus, and samplers of this kind. */
static void begin(const char *kind, const char *socket, const SupervisorLimits *limits)
{
    ProcessesSpec spec = {.program = fake, .socket = socket, .library = kind, .limits = limits};
    PciAddress gpu = {.bus = 0x1b};

    assert_int_equal(processes_new(&f.loop, f.board, f.board_fd, &spec, &f.processes, NULL), 0);
    f.supervisor = processes_supervisor(f.processes);
    supervisor_set_bus(f.supervisor, &gpu, 1);
    processes_run(f.processes);
}

static const NodeGpu *view_gpu(void)
{
    static NodeGpu gpu;

    supervisor_view_gpu(f.supervisor, 0, &gpu);
    return &gpu;
}

static NodeSampler *view_samplers(size_t *ret_count)
{
    static NodeSampler samplers[NODE_SAMPLERS_MAX];

    *ret_count = supervisor_view_samplers(f.supervisor, samplers);
    return samplers;
}

static void run_until_state(GpuState state)
{
    while (view_gpu()->state != state)
        uv_run(&f.loop, UV_RUN_ONCE);
}

static uint64_t started(void)
{
    return supervisor_view(f.supervisor)->started;
}

/* One sampler, whose pid is known, and the GPU is up. */
static bool settled(void)
{
    size_t count;
    const NodeSampler *samplers = view_samplers(&count);

    return count == 1 && samplers[0].pid && view_gpu()->state == GPU_UP;
}

static pid_t only_pid(void)
{
    size_t count;
    const NodeSampler *samplers = view_samplers(&count);

    assert_int_equal(count, 1);
    return samplers[0].pid;
}

/* ---- our own children ---- */

static void a_child_samples(void **state)
{
    NodeSampler *samplers;
    size_t count;

    (void)state;
    begin("fine", NULL, NULL);
    run_until_state(GPU_UP);
    samplers = view_samplers(&count);
    assert_int_equal(count, 1);
    assert_true(samplers[0].pid > 1); /* 1 is what it says of itself */
    assert_int_equal(kill(samplers[0].pid, 0), 0);
    assert_int_equal(samplers[0].state, SAMPLER_RUNNING);
    processes_usage(f.processes, samplers, count);
    assert_true(samplers[0].rss_bytes >= 4096);
    assert_int_equal(started(), 1);
}

static void a_child_gets_its_socket_and_nothing_else(void **state)
{
    int open_here = open("/dev/zero", O_RDONLY); /* not close-on-exec */
    NodeGpu gpu;

    (void)state;
    begin("fds", NULL, NULL);
    run_until_state(GPU_NO_DRIVER);
    gpu = *view_gpu();
    close(open_here);
    assert_non_null(strstr(gpu.why, "0=/dev/null "));
    assert_non_null(strstr(gpu.why, " 3=socket:["));
    assert_null(strstr(gpu.why, "/dev/zero"));
    assert_null(strstr(gpu.why, " 4="));
}

static void count_news(void *self)
{
    ++*(int *)self;
}

static void a_sampler_with_news_is_heard(void **state)
{
    int news = 0;

    (void)state;
    begin("news", NULL, NULL);
    processes_on_events(f.processes, count_news, &news);
    while (news < 2) /* its first words, and then */
        uv_run(&f.loop, UV_RUN_ONCE);
    run_until_state(GPU_UP);
    assert_int_equal(started(), 1);
    processes_on_events(f.processes, NULL, NULL);
}

static void a_killed_child_is_reaped_and_replaced(void **state)
{
    pid_t other = fork(), first;
    int status;

    (void)state;
    assert_true(other >= 0);
    if (other == 0)
        _exit(7);
    begin("fine", NULL, NULL);
    run_until_state(GPU_UP);
    first = only_pid();
    kill(first, SIGKILL);
    while (started() < 2 || !settled())
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(waitpid(first, &status, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_not_equal(only_pid(), first);
    assert_int_equal(waitpid(other, &status, 0), other); /* another's child is left to him */
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void a_hanging_child_is_killed(void **state)
{
    pid_t first;
    size_t count;

    (void)state;
    begin("hang", NULL, &quick);
    run_until_state(GPU_HUNG);
    first = view_samplers(&count)[0].pid;
    assert_int_equal(view_samplers(&count)[0].state, SAMPLER_STUCK);
    while (started() < 2 || kill(first, 0) == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(view_gpu()->state, GPU_HUNG);
    assert_true(view_gpu()->own_sampler);
}

static void a_stopped_child_is_killed(void **state)
{
    SupervisorLimits limits = supervisor_default_limits;
    pid_t first;

    (void)state;
    limits.beat_ns = 500 * NS_PER_MS;
    limits.call_ns = 20 * NS_PER_S;
    begin("fine", NULL, &limits);
    run_until_state(GPU_UP);
    first = only_pid();
    kill(first, SIGSTOP);
    while (started() < 2 || kill(first, 0) == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    run_until_state(GPU_UP);
}

static void another_version_is_refused(void **state)
{
    (void)state;
    begin("wrong", NULL, NULL);
    while (started() < 2)
        uv_run(&f.loop, UV_RUN_ONCE);
    run_until_state(GPU_FAILED);
    assert_non_null(strstr(view_gpu()->why, "next try in"));
}

static void a_program_that_is_not_there(void **state)
{
    const char *real = fake;

    (void)state;
    fake = "/nowhere/stoker-sampler";
    begin("fine", NULL, NULL);
    fake = real;
    run_until_state(GPU_FAILED);
    assert_non_null(strstr(view_gpu()->why, "/nowhere/stoker-sampler"));
    assert_non_null(strstr(supervisor_view(f.supervisor)->driver_why, "No such file"));
}

static void a_deaf_child_is_stopped(void **state)
{
    pid_t pid;

    (void)state;
    begin("deaf", NULL, NULL);
    run_until_state(GPU_UP);
    pid = only_pid();
    stop_all();
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* ---- somebody else's ---- */

/* As systemd does with Accept=yes: the connection becomes descriptor 3 of a new process. */
static void serve(uv_poll_t *poll, int status, int events)
{
    int fd = accept(f.listen_fd, NULL, NULL);
    pid_t pid;

    (void)poll;
    (void)status;
    (void)events;
    assert_true(fd >= 0 && f.served_count < 32);
    pid = fork();
    if (pid == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        dup2(fd, 3);
        for (int i = 4; i < 64; i++)
            close(i);
        execl(fake, fake, (char *)NULL);
        _exit(127);
    }
    close(fd);
    f.served[f.served_count++] = pid;
}

static void listen_at(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(f.path, sizeof(f.path), "/tmp/stoker-test-%d.sock", (int)getpid());
    memcpy(address.sun_path, f.path, strlen(f.path));
    unlink(f.path);
    f.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f.listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(f.listen_fd, 8), 0);
    uv_poll_init(&f.loop, &f.accept, f.listen_fd);
    uv_poll_start(&f.accept, UV_READABLE, serve);
}

/* The one who made it reaps it. */
static void reap_served(void)
{
    for (uint32_t i = 0; i < f.served_count; i++)
        if (f.served[i] && waitpid(f.served[i], NULL, WNOHANG) == f.served[i])
            f.served[i] = 0;
}

static void a_foreign_one_samples_and_is_replaced(void **state)
{
    (void)state;
    listen_at();
    begin("fine", f.path, NULL);
    while (!settled())
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(only_pid(), f.served[0]); /* as the kernel says */
    kill(f.served[0], SIGKILL);
    while (f.served_count < 2 || f.served[0] || !settled()) {
        reap_served();
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    assert_int_equal(only_pid(), f.served[1]);
    stop_all();
    assert_int_equal(waitpid(f.served[1], NULL, 0), f.served[1]); /* it ended, and was left to its parent */
}

static void a_foreign_one_that_hangs_is_killed(void **state)
{
    (void)state;
    listen_at();
    begin("hang", f.path, &quick);
    run_until_state(GPU_HUNG);
    while (f.served_count < 2 || f.served[0]) {
        reap_served();
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    stop_all();
    for (uint32_t i = 1; i < f.served_count; i++)
        assert_int_equal(waitpid(f.served[i], NULL, 0), f.served[i]);
}

static void one_without_a_pid_is_never_signalled(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    listen_at();
    begin("mute", f.path, NULL);
    run_until_state(GPU_UP);
    assert_int_equal(only_pid(), 0);
    pid = f.served[0];
    stop_all(); /* its socket is all there is to tell it by */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
}

static void nobody_listens(void **state)
{
    (void)state;
    begin("fine", "/tmp/stoker-test-nobody.sock", NULL);
    run_until_state(GPU_FAILED);
    assert_non_null(strstr(view_gpu()->why, "stoker-test-nobody.sock"));
}

/* ---- one process ---- */

static void another_users_process_is_not_signalled(void **state)
{
    Process process;
    int fd, status;
    pid_t pid;

    (void)state;
    assert_int_equal(process_start(&process, fake, &fd, NULL), 0);
    pid = process.pid;
    process.may_kill = false;
    process_kill(&process);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    process.may_kill = true;
    process_kill(&process);
    while (!process_gone(&process, true, &(SubprocEnd){0}))
        usleep(1000);
    process_kill(&process); /* reaped: its pid may be another's by now */
    process_done(&process);
    process_done(&process);
    close(fd);
}

int main(int argc, char **argv)
{
#define REAL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        REAL(a_child_samples),
        REAL(a_sampler_with_news_is_heard),
        REAL(a_child_gets_its_socket_and_nothing_else),
        REAL(a_killed_child_is_reaped_and_replaced),
        REAL(a_hanging_child_is_killed),
        REAL(a_stopped_child_is_killed),
        REAL(another_version_is_refused),
        REAL(a_program_that_is_not_there),
        REAL(a_deaf_child_is_stopped),
        REAL(a_foreign_one_samples_and_is_replaced),
        REAL(a_foreign_one_that_hangs_is_killed),
        REAL(one_without_a_pid_is_never_signalled),
        REAL(nobody_listens),
        REAL(another_users_process_is_not_signalled),
    };

    fake = argc > 1 ? argv[1] : "fake_sampler";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
