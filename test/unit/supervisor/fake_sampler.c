/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampler without a driver: it keeps to the protocol and does what the "library" of the hello says: "fine" samples
 * its GPUs, "hang" stays in a call about GPU 0, "deaf" goes on when its agent is gone, "wrong" answers with another
 * protocol, "mute" never answers, "news" says once that there are events, "fds" tells in `why` which descriptors it was
 * given.
 */

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source/sampler/protocol.h"

static SamplerHello hello;

static void say(uint32_t protocol)
{
    const SamplerReply reply = {.protocol = protocol, .pid = 1}; /* not to be believed */

    if (send(SAMPLER_FD, &reply, sizeof(reply), 0) != sizeof(reply))
        exit(12);
}

static Board *greet(void)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof(hello)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    Board *board;
    int fd;

    if (recvmsg(SAMPLER_FD, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(hello) || !CMSG_FIRSTHDR(&message))
        exit(10);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    if (board_map(fd, &board, NULL) < 0)
        exit(11);
    close(fd);
    if (strcmp(hello.library, "mute") != 0)
        say(strcmp(hello.library, "wrong") == 0 ? SAMPLER_PROTOCOL + 1 : SAMPLER_PROTOCOL);
    return board;
}

static void tell_fds(BoardSampler *self)
{
    char why[NODE_WHY_CAP] = "", target[64];
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        size_t used = strlen(why);

        if (len > 0 && atoi(entry->d_name) != dirfd(dir)) {
            target[len] = '\0';
            snprintf(why + used, sizeof(why) - used, "%d=%.9s ", atoi(entry->d_name), target);
        }
    }
    if (dir)
        closedir(dir);
    board_set_why(self, why);
    atomic_store(&self->driver, BOARD_DRIVER_INIT_FAILED);
}

static void sample(Board *board, BoardSampler *self)
{
    uint32_t count = atomic_load(&board->gpu_count);

    for (uint32_t i = 0; i < count; i++)
        if (atomic_load(&board->gpus[i].slot) == hello.slot) {
            atomic_store(&board->gpus[i].last_sample_ns, board_now(board));
            atomic_store(&board->gpus[i].outcome, BOARD_FINE);
        }
    atomic_store(&self->driver, BOARD_DRIVER_FINE);
    atomic_fetch_add(&self->passes, 1);
}

int main(void)
{
    Board *board = greet();
    BoardSampler *self = &board->samplers[hello.slot];
    bool deaf = strcmp(hello.library, "deaf") == 0;

    for (;;) {
        struct pollfd end = {.fd = SAMPLER_FD, .events = POLLIN};

        if (poll(&end, 1, 5) > 0 && !deaf)
            return 0;
        if (deaf)
            usleep(5000);
        atomic_store(&self->beat_ns, board_kernel_now());
        if (strcmp(hello.library, "hang") == 0 && atomic_load(&board->gpus[0].slot) == hello.slot) {
            atomic_store(&self->call_gpu, 0);
            atomic_store(&self->call_function, 3);
            atomic_store(&self->call_start_ns, board_kernel_now());
            for (;;)
                pause();
        }
        if (strcmp(hello.library, "fds") == 0)
            tell_fds(self);
        else
            sample(board, self);
        if (strcmp(hello.library, "news") == 0 && atomic_load(&self->passes) == 3)
            say(SAMPLER_PROTOCOL);
    }
}
