/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of the control socket: one question, with a deadline. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "verb/agent/control.h"

#define SYSTEM_PATH "/run/stoker/control.sock"

enum { HEAD_MAX = 40 };

const char *control_default_path(Arena *arena)
{
    const char *said = getenv("STOKER_CONTROL"), *runtime = getenv("XDG_RUNTIME_DIR");

    if (said && said[0])
        return arena_strdup(arena, said);
    if (geteuid() == 0 || access(SYSTEM_PATH, F_OK) == 0)
        return SYSTEM_PATH;
    if (runtime && runtime[0])
        return arena_printf(arena, "%s/stoker/control.sock", runtime);
    return arena_printf(arena, "/tmp/stoker-%u/control.sock", (unsigned)geteuid());
}

typedef struct Ask {
    int fd;
    uint64_t deadline_ns;
    const char *path;
} Ask;

static int wait_for(const Ask *ask, short events, Err *err)
{
    for (;;) {
        uint64_t now = clock_monotonic(clock_kernel());
        struct pollfd pfd = {.fd = ask->fd, .events = events};

        if (now >= ask->deadline_ns)
            return err_set(err, -ETIMEDOUT, "the agent at '%s' does not answer", ask->path);
        int rc = poll(&pfd, 1, (int)((ask->deadline_ns - now) / NS_PER_MS) + 1);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return err_errno(err, "wait for the agent at '%s'", ask->path);
    }
}

static int ask_connect(Ask *ask, Err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(ask->path) >= sizeof address.sun_path)
        return err_set(err, -ENAMETOOLONG, "the control socket's path '%.40s...' is too long", ask->path);
    strcpy(address.sun_path, ask->path);
    ask->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ask->fd < 0)
        return err_errno(err, "make a socket");
    if (connect(ask->fd, (struct sockaddr *)&address, sizeof address) < 0)
        return err_errno(err, "reach the agent at '%s'", ask->path);
    return 0;
}

static int send_line(const Ask *ask, const char *line, Err *err)
{
    char text[CONTROL_LINE_MAX];
    int len = snprintf(text, sizeof text, "%s\n", line);

    if (len < 0 || (size_t)len >= sizeof text)
        return err_set(err, -E2BIG, "the request is too long");
    for (int done = 0; done < len;) {
        TRY(wait_for(ask, POLLOUT, err));
        ssize_t n = send(ask->fd, text + done, (size_t)(len - done), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return err_errno(err, "ask the agent at '%s'", ask->path);
        done += n > 0 ? (int)n : 0;
    }
    return 0;
}

static int read_all(const Ask *ask, Str *out, Err *err)
{
    for (;;) {
        TRY(wait_for(ask, POLLIN, err));
        if (!str_reserve(out, 65536))
            return str_check(out, "the agent's answer", err);
        ssize_t n = recv(ask->fd, out->text + out->len, 65536, 0);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return err_errno(err, "hear the agent at '%s'", ask->path);
        if (n > 0) {
            out->len += (size_t)n;
            out->text[out->len] = '\0';
        }
    }
}

/* Cuts "CODE LENGTH\n" off; what is left must be LENGTH bytes. */
static int take_head(Str *all, Str *out, int *ret_code, Err *err)
{
    char *end = memchr(all->text, '\n', all->len < HEAD_MAX ? all->len : HEAD_MAX);
    char *blank = end ? memchr(all->text, ' ', (size_t)(end - all->text)) : NULL;
    uint64_t code, len;

    if (!blank || number_parsen_u64(all->text, (size_t)(blank - all->text), 0, 255, &code, NULL) < 0 ||
        number_parsen_u64(blank + 1, (size_t)(end - blank - 1), 0, CONTROL_REPLY_MAX, &len, NULL) < 0 ||
        (size_t)(all->text + all->len - end - 1) != len)
        return err_set(err, -EPROTO, "the agent's answer was cut");
    str_addn(out, end + 1, len);
    *ret_code = (int)code;
    return 0;
}

int control_ask(const char *path, const char *line, int timeout_ms, Str *out, int *ret_code, Err *err)
{
    CLEANUP(str_done) Str all;
    Ask ask = {
        .fd = -1, .path = path, .deadline_ns = clock_monotonic(clock_kernel()) + (uint64_t)timeout_ms * NS_PER_MS};

    str_init(&all, CONTROL_REPLY_MAX + HEAD_MAX + 65536);
    int rc = ask_connect(&ask, err);
    if (rc == 0)
        rc = send_line(&ask, line, err);
    if (rc == 0)
        rc = read_all(&ask, &all, err);
    if (ask.fd >= 0)
        close(ask.fd);
    TRY(rc);
    return take_head(&all, out, ret_code, err);
}
