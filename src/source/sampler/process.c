/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Room for one file descriptor and the sender's credentials. */
typedef union Control {
    struct cmsghdr head;
    char fd[CMSG_SPACE(sizeof(int))];
    char who[CMSG_SPACE(sizeof(struct ucred))];
} Control;

void process_init(Process *process)
{
    *process = (Process){.pid_fd = -1, .child = {.pid_fd = -1, .out_fd = -1, .err_fd = -1}};
}

int process_start(Process *process, const char *program, int *ret_fd, Err *err)
{
    const char *const argv[] = {program, NULL};
    CLEANUP_FD int ours = -1;
    CLEANUP_FD int theirs = -1;
    SubprocSpec spec = {.argv = argv, .pass_fds = &theirs, .pass_count = 1, .die_with_us = true};
    Subproc child;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, "make a socket for a sampler");
    ours = ends[0];
    theirs = ends[1];
    TRY(subproc_start(&spec, &child, err));
    process_init(process);
    process->used = process->may_kill = true;
    process->child = child;
    process->pid = child.pid;
    *ret_fd = fd_take(&ours);
    return 0;
}

int process_connect(Process *process, const char *path, int *ret_fd, Err *err)
{
    CLEANUP_FD int fd = -1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;

    if (strlen(path) >= sizeof(address.sun_path))
        return err_set(err, -ENAMETOOLONG, "the path of the sampler's socket '%s' is too long", path);
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return err_errno(err, "make a socket for a sampler");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return err_errno(err, "connect to the sampler's socket '%s'", path);
    process_init(process);
    process->used = process->foreign = true;
    *ret_fd = fd_take(&fd);
    return 0;
}

int process_send_hello(int fd, const SamplerHello *hello, int board_fd, Err *err)
{
    Control control = {.fd = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)hello, .iov_len = sizeof(*hello)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.fd)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &board_fd, sizeof(int));
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return err_errno(err, "send the board to a sampler");
    return 0;
}

/* The sender's pid comes from the kernel; what the message itself claims is ignored. 0: another pid namespace. */
static void set_sender(Process *process, const struct ucred *who)
{
    if (!process->foreign || process->pid || who->pid <= 0)
        return;
    process->pid_fd = (int)syscall(SYS_pidfd_open, who->pid, 0);
    if (process->pid_fd < 0)
        return; /* gone already, or an old kernel: then it is never signalled */
    process->pid = who->pid;
    process->may_kill = who->uid == geteuid();
}

int process_read_reply(Process *process, int fd, Err *err)
{
    SamplerReply reply = {0};
    Control control = {.who = {0}};
    struct iovec part = {.iov_base = &reply, .iov_len = sizeof(reply)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t len;

    do
        len = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (len < 0 && errno == EINTR);
    if (len < 0 && errno == EAGAIN)
        return -EAGAIN;
    if (len <= 0)
        return err_set(err, -EPIPE, "the sampler closed its socket");
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS &&
            head->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
            struct ucred who;

            memcpy(&who, CMSG_DATA(head), sizeof(who));
            set_sender(process, &who);
        }
    if (len != (ssize_t)sizeof(reply) || reply.protocol != SAMPLER_PROTOCOL)
        return err_set(err, -EPROTO, "the sampler answers with another protocol: it is of another version");
    return 0;
}

void process_kill(Process *process)
{
    if (!process->used || !process->may_kill)
        return;
    if (process->foreign)
        syscall(SYS_pidfd_send_signal, process->pid_fd, SIGKILL, NULL, 0);
    else if (process->child.pid > 0)
        kill(process->child.pid, SIGKILL);
}

bool process_gone(Process *process, bool open, SubprocEnd *ret_end)
{
    struct pollfd ended = {.fd = process->pid_fd, .events = POLLIN};

    if (!process->used)
        return true;
    if (!process->foreign)
        return process->child.pid <= 0 || subproc_wait(&process->child, 0, ret_end, NULL) != SUBPROC_RUNNING;
    if (process->pid_fd < 0)
        return !open;
    return poll(&ended, 1, 0) > 0;
}

void process_done(Process *process)
{
    subproc_done(&process->child);
    fd_close(&process->pid_fd);
    process_init(process);
}
