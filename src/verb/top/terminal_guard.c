/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers call nothing but what signal-safety(7) names. */
#include "verb/top/terminal_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum { KEPT_MAX = 16 * 1024, COPY_SIZE = 1024 };

static void on_end(int number);
static void on_note(int number);
static void on_crash(int number);

/* SIGQUIT too: dump core, but restore the terminal. */
static const struct {
    int number;
    void (*handler)(int);
} SIGNALS[] = {
    {SIGINT, on_end},    {SIGTERM, on_end},   {SIGHUP, on_end},    {SIGTSTP, on_note}, {SIGCONT, on_note},
    {SIGWINCH, on_note}, {SIGABRT, on_crash}, {SIGSEGV, on_crash}, {SIGBUS, on_crash}, {SIGFPE, on_crash},
    {SIGILL, on_crash},  {SIGSYS, on_crash},  {SIGQUIT, on_crash},
};

static struct Guard {
    volatile sig_atomic_t armed; /* the terminal has to be restored */
    volatile sig_atomic_t end;
    volatile sig_atomic_t noted[NSIG]; /* by signal: came since the last guard_take */
    pid_t owner;                       /* a forked child does not restore the terminal */
    int in, out, event;
    int kept, stderr_before; /* the kept stderr and the real one; -1: stderr is left alone */
    struct termios modes;
    char restore[GUARD_RESTORE_MAX];
    size_t restore_len;
    struct sigaction before[ARRAY_LEN(SIGNALS)];
} guard = {.in = -1, .out = -1, .event = -1, .kept = -1, .stderr_before = -1};

/* --- at the end --------------------------------------------------------------------------------------------------- */

/* Restores stderr and writes out the end of what was kept. */
static void give_stderr_back(void)
{
    if (guard.kept < 0)
        return;
    char part[COPY_SIZE];
    off_t end = lseek(guard.kept, 0, SEEK_END), at = end > KEPT_MAX ? end - KEPT_MAX : 0;
    for (ssize_t n; (n = pread(guard.kept, part, sizeof part, at)) > 0; at += n)
        (void)file_write_all(guard.stderr_before, part, (size_t)n);
    dup2(guard.stderr_before, STDERR_FILENO);
    close(guard.stderr_before);
    close(guard.kept);
    guard.kept = guard.stderr_before = -1;
}

static void restore_now(void)
{
    struct pollfd out = {.fd = guard.out, .events = POLLOUT};

    if (!guard.armed || getpid() != guard.owner)
        return;
    guard.armed = 0;
    /* a blocked one (Ctrl-S, a dead connection) must not keep the program from ending */
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT))
        (void)file_write_all(guard.out, guard.restore, guard.restore_len);
    tcflush(guard.in, TCIFLUSH); /* reports of the mouse are not for the shell */
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    give_stderr_back();
}

static void on_crash(int number)
{
    int before = errno;
    restore_now();
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        if (SIGNALS[i].number == number)
            sigaction(number, &guard.before[i], NULL);
    raise(number); /* comes when this handler is over */
    errno = before;
}

/* --- signals that are noted -----------------------------------------------------------------------------------------
 */

static void wake_loop(void)
{
    int before = errno;
    ssize_t n = write(guard.event, &(uint64_t){1}, sizeof(uint64_t));
    (void)n; /* full: it is readable already */
    errno = before;
}

static void on_end(int number)
{
    if (guard.end) {
        restore_now();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    guard.end = number;
    wake_loop();
}

static void on_note(int number)
{
    guard.noted[number] = 1;
    wake_loop();
}

int guard_fd(void)
{
    return guard.event;
}

static bool take_signal(int number)
{
    const bool was = guard.noted[number];

    if (was)
        guard.noted[number] = 0; /* one that comes before this line is told of by this call */
    return was;
}

GuardSeen guard_take(void)
{
    eventfd_t count;
    (void)eventfd_read(guard.event, &count); /* nothing there is fine: the flags tell */
    return (GuardSeen){.end = guard.end,
                       .stop = take_signal(SIGTSTP),
                       .resume = take_signal(SIGCONT),
                       .resize = take_signal(SIGWINCH)};
}

/* --- start, stop, pause ------------------------------------------------------------------------------------------- */

static void keep_stderr(void)
{
    if (!isatty(STDERR_FILENO))
        return;
    int kept = memfd_create("stderr", MFD_CLOEXEC);
    int before = kept < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (before < 0 || dup2(kept, STDERR_FILENO) < 0) {
        fd_close(&kept);
        fd_close(&before);
        return;
    }
    guard.kept = kept;
    guard.stderr_before = before;
}

int guard_start(int in, int out, Err *err)
{
    static bool at_exit;
    if (tcgetattr(in, &guard.modes) < 0)
        return err_errno(err, "the terminal's modes");
    guard.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard.event < 0)
        return err_errno(err, "an event descriptor");
    guard.in = in;
    guard.out = out;
    guard.owner = getpid();
    guard.restore_len = 0;
    guard.end = guard.noted[SIGTSTP] = guard.noted[SIGCONT] = guard.noted[SIGWINCH] = 0;
    if (!at_exit)
        at_exit = atexit(restore_now) == 0;
    keep_stderr();
    guard.armed = 1;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++) {
        const struct sigaction action = {.sa_handler = SIGNALS[i].handler, .sa_flags = SA_RESTART};
        const bool may_be_ignored = SIGNALS[i].handler == on_end || SIGNALS[i].number == SIGTSTP;

        sigaction(SIGNALS[i].number, &action, &guard.before[i]);
        if (may_be_ignored && guard.before[i].sa_handler == SIG_IGN) /* nohup, a shell without job control */
            sigaction(SIGNALS[i].number, &guard.before[i], NULL);
    }
    return 0;
}

void guard_restore_with(const char *bytes, size_t len)
{
    guard.restore_len = 0; /* a crash between these two lines writes nothing */
    memcpy(guard.restore, bytes, len < sizeof guard.restore ? len : sizeof guard.restore);
    guard.restore_len = len < sizeof guard.restore ? len : sizeof guard.restore;
}

void guard_stop(void)
{
    if (guard.event < 0)
        return;
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    guard.armed = 0;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        sigaction(SIGNALS[i].number, &guard.before[i], NULL);
    give_stderr_back();
    fd_close(&guard.event);
}

void guard_pause(void)
{
    struct termios now;
    bool known = tcgetattr(guard.in, &now) == 0;
    tcsetattr(guard.in, TCSANOW, &guard.modes);
    struct sigaction usual = {.sa_handler = SIG_DFL}, noted;
    sigaction(SIGTSTP, &usual, &noted);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &noted, NULL);
    if (known)
        tcsetattr(guard.in, TCSANOW, &now);
    guard.noted[SIGCONT] = guard.noted[SIGTSTP] = 0;
}
