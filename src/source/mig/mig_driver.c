/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side: orders, deadlines, and the end of a child whose call does not return. */
#include "source/mig/mig_driver.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "source/mig/mig_child.h"
#include "source/sampler/protocol.h"

enum { POLL_MS = 50, STUCK_MS = 500 };

struct MigDriver {
    MigShared *shared;
    char *library;
    pid_t pid;
    int fd;
    uint64_t limit_ms;
};

/* A child in state D does not end on SIGKILL: it is left behind. */
static void end_child(MigDriver *driver)
{
    if (driver->pid <= 0)
        return;
    kill(driver->pid, SIGKILL);
    for (int waited = 0; waitpid(driver->pid, NULL, WNOHANG) == 0 && waited < STUCK_MS; waited += POLL_MS)
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    driver->pid = 0;
    close(driver->fd);
    driver->fd = -1;
}

void mig_driver_close(MigDriver *driver)
{
    if (!driver)
        return;
    end_child(driver);
    munmap(driver->shared, sizeof *driver->shared);
    free(driver->library);
    free(driver);
}

/* Nanoseconds since the call under way began; 0: none. */
static uint64_t call_age_ns(const BoardSampler *call)
{
    uint64_t start = atomic_load_explicit(&call->call_start_ns, memory_order_acquire);
    uint64_t now = board_kernel_now();
    return start && now > start ? now - start : 0;
}

static int fail_timeout(MigDriver *driver, Err *err)
{
    const BoardSampler *call = &driver->shared->call;
    const char *name = sampler_function_name(atomic_load_explicit(&call->call_function, memory_order_relaxed));
    end_child(driver);
    return err_set(err, -ETIMEDOUT, "the driver's %s has not returned for %llu ms", name ? name : "call",
                   (unsigned long long)driver->limit_ms);
}

static int wait_answer(MigDriver *driver, Err *err)
{
    struct pollfd p = {.fd = driver->fd, .events = POLLIN};
    char byte;
    for (;;) {
        int ready = poll(&p, 1, POLL_MS);
        if (ready < 0 && errno != EINTR)
            return err_errno(err, "wait for the driver");
        if (ready > 0)
            break;
        if (call_age_ns(&driver->shared->call) > driver->limit_ms * NS_PER_MS)
            return fail_timeout(driver, err);
    }
    if (recv(driver->fd, &byte, 1, 0) == 1)
        return 0;
    end_child(driver);
    return err_set(err, -EIO, "the process that calls the driver has ended");
}

static int send_order(MigDriver *driver, MigOrder order, Err *err)
{
    MigShared *shared = driver->shared;
    if (driver->pid <= 0)
        return err_set(err, -EIO, "the process that calls the driver has ended");
    shared->order = order;
    shared->text[0] = '\0';
    if (send(driver->fd, "", 1, MSG_NOSIGNAL) != 1)
        return err_errno(err, "ask the process that calls the driver");
    TRY(wait_answer(driver, err));
    return shared->rc < 0 ? err_set(err, shared->rc, "%.*s", (int)sizeof shared->text, shared->text) : shared->rc;
}

static void run_child(MigShared *shared, const char *library, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* the parent decides: a change under way is finished or undone */
    mig_child_run(shared, library, fd);
    _exit(0);
}

/* Starts a child, which opens the library. */
static int start_child(MigDriver *driver, bool no_attach, Err *err)
{
    int pair[2];
    MigShared *shared = driver->shared;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, "socketpair");
    shared->no_attach = no_attach;
    atomic_store(&shared->call.call_start_ns, 0); /* a child that was ended left its call behind */
    driver->fd = pair[0];
    driver->pid = fork();
    if (driver->pid == 0) {
        close(pair[0]);
        run_child(shared, driver->library, pair[1]);
    }
    close(pair[1]);
    if (driver->pid > 0)
        return send_order(driver, MIG_OPEN, err);
    err_errno(err, "fork");
    close(driver->fd);
    return err->code;
}

int mig_driver_open(const char *library, uint64_t limit_ms, MigDriver **ret, Err *err)
{
    MigShared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_errno(err, "memory for the driver's answers");
    MigDriver *driver = xcalloc(1, sizeof *driver);
    *driver = (MigDriver){.shared = shared, .library = xstrdup(library), .fd = -1, .limit_ms = limit_ms};
    int rc = start_child(driver, false, err);
    if (rc == -ETIMEDOUT) /* attaching touches all GPUs: one may hang */
        rc = start_child(driver, true, err);
    if (rc < 0) {
        mig_driver_close(driver);
        return rc;
    }
    *ret = driver;
    return 0;
}

/* Leaves the GPU out whose call did not return; false where the call was about none. */
static bool leave_out(MigDriver *driver, const char *why)
{
    MigShared *shared = driver->shared;
    const uint32_t at = atomic_load_explicit(&shared->call.call_gpu, memory_order_relaxed);
    if (at >= MIG_GPUS_MAX || shared->hung[at])
        return false;
    MigGpu *gpu = &shared->node.gpus[at];
    gpu->capable = false;
    gpu->process_count = 0;
    gpu->now = (MigLayout){0};
    snprintf(gpu->why, sizeof gpu->why, "%.*s", MIG_WHY_SIZE - 1, why);
    shared->hung[at] = true;
    return true;
}

int mig_driver_read(MigDriver *driver, const MigNode **ret, Err *err)
{
    int rc;
    while ((rc = send_order(driver, MIG_READ, err)) == -ETIMEDOUT && leave_out(driver, err->text))
        TRY(start_child(driver, true, err));
    TRY(rc);
    *ret = &driver->shared->node;
    return 0;
}

int mig_driver_read_gres(MigDriver *driver, const GresNode **ret, Err *err)
{
    TRY(send_order(driver, MIG_READ_GRES, err));
    *ret = &driver->shared->gres;
    return 0;
}

int mig_driver_read_make(MigDriver *driver, const MakeNode **ret, Err *err)
{
    TRY(send_order(driver, MIG_READ_MAKE, err));
    *ret = &driver->shared->make;
    return 0;
}

int mig_driver_set_mode(MigDriver *driver, unsigned gpu, bool on, Err *err)
{
    driver->shared->gpu = gpu;
    driver->shared->on = on;
    return send_order(driver, MIG_SET_MODE, err);
}

int mig_driver_destroy(MigDriver *driver, unsigned gpu, uint32_t instance_id, Err *err)
{
    driver->shared->gpu = gpu;
    driver->shared->instance_id = instance_id;
    return send_order(driver, MIG_DESTROY, err);
}

int mig_driver_create(MigDriver *driver, unsigned gpu, const MigInstance *instance, Err *err)
{
    driver->shared->gpu = gpu;
    driver->shared->instance = *instance;
    return send_order(driver, MIG_CREATE, err);
}

int mig_driver_recompute(MigDriver *driver, unsigned gpu, uint32_t instance_id, const MigInstance *instance, Err *err)
{
    driver->shared->instance_id = instance_id;
    driver->shared->gpu = gpu;
    driver->shared->instance = *instance;
    return send_order(driver, MIG_RECOMPUTE, err);
}
