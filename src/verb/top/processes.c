/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/processes.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "source/host/host.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum { KEPT_MAX = 2048, JOIN_MS = 100, TICK_MS = 10 };

/* /proc counts in ticks, snapshots in milliseconds. */
static bool is_same_start(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= TICK_MS * NS_PER_MS;
}

/* --- command lines ------------------------------------------------------------------------------------------------ */

typedef struct Kept {
    uint32_t pid;
    uint64_t start_ns;
    bool known; /* it was read, whatever came */
    char command[PROCESS_COMMAND_CAP];
} Kept;

struct CommandLines {
    char *root;
    HostBoot boot; /* of the root */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    /* under the lock */
    bool stopping;
    VEC(Kept) kept;
};

static Kept *find_kept(CommandLines *commands, uint32_t pid, uint64_t start_ns)
{
    for (size_t i = 0; i < commands->kept.len; i++)
        if (commands->kept.at[i].pid == pid && is_same_start(commands->kept.at[i].start_ns, start_ns))
            return &commands->kept.at[i];
    return NULL;
}

static bool find_unknown(CommandLines *commands, Kept *ret)
{
    for (size_t i = 0; i < commands->kept.len; i++)
        if (!commands->kept.at[i].known) {
            *ret = commands->kept.at[i];
            return true;
        }
    return false;
}

static void keep_command(CommandLines *commands, const Kept *of, const ProcessOwner *owner)
{
    Kept *kept = find_kept(commands, of->pid, of->start_ns);

    if (!kept)
        return;
    kept->known = true;
    if (is_same_start(owner->start_ns, of->start_ns))
        memcpy(kept->command, owner->command, sizeof kept->command);
}

static void *read_commands(void *self)
{
    CommandLines *commands = self;
    ProcessOwner owner;
    Kept next;

    pthread_mutex_lock(&commands->lock);
    while (!commands->stopping) {
        if (!find_unknown(commands, &next)) {
            pthread_cond_wait(&commands->woken, &commands->lock);
            continue;
        }
        pthread_mutex_unlock(&commands->lock);
        (void)process_identify(commands->root, next.pid, true, &owner, NULL);
        pthread_mutex_lock(&commands->lock);
        keep_command(commands, &next, &owner);
    }
    pthread_mutex_unlock(&commands->lock);
    return NULL;
}

CommandLines *command_lines_new(const char *root)
{
    CommandLines *commands = xcalloc(1, sizeof *commands);

    commands->root = xstrdup(root ? root : "");
    host_boot(commands->root, &commands->boot);
    pthread_mutex_init(&commands->lock, NULL);
    pthread_cond_init(&commands->woken, NULL);
    return commands;
}

void command_lines_fill(CommandLines *commands, const char *boot_id, ProcessOwner *list, size_t count)
{
    if (!boot_id || !boot_id[0] || strcmp(boot_id, commands->boot.id) != 0)
        return;
    pthread_mutex_lock(&commands->lock);
    for (size_t i = 0; i < count; i++) {
        ProcessOwner *owner = &list[i];

        if (owner->start_ns == 0 || owner->command[0])
            continue;
        const Kept *kept = find_kept(commands, owner->pid, owner->start_ns);
        if (kept) {
            memcpy(owner->command, kept->command, sizeof owner->command);
            continue;
        }
        if (commands->kept.len == KEPT_MAX) /* most of them have ended long ago */
            vec_clear(&commands->kept);
        vec_push(&commands->kept, ((Kept){.pid = owner->pid, .start_ns = owner->start_ns}));
        pthread_cond_signal(&commands->woken);
        if (!commands->started)
            commands->started = pthread_create(&commands->thread, NULL, read_commands, commands) == 0;
    }
    pthread_mutex_unlock(&commands->lock);
}

void command_lines_free(CommandLines *commands)
{
    struct timespec until;

    if (!commands)
        return;
    pthread_mutex_lock(&commands->lock);
    commands->stopping = true;
    pthread_cond_signal(&commands->woken);
    pthread_mutex_unlock(&commands->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += JOIN_MS * (long)NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long)NS_PER_S;
    until.tv_nsec %= (long)NS_PER_S;
    if (commands->started && pthread_timedjoin_np(commands->thread, NULL, &until) != 0) {
        pthread_detach(commands->thread);
        return;
    }
    pthread_cond_destroy(&commands->woken);
    pthread_mutex_destroy(&commands->lock);
    vec_done(&commands->kept);
    free(commands->root);
    free(commands);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static int check_kernel(const TopSignal *signal, const char *boot_id, Err *err)
{
    HostBoot ours;

    host_boot("", &ours);
    if (!boot_id || !boot_id[0] || !ours.id[0])
        return err_set(err, -EINVAL, "it is not known which machine's process %d this is: no signal was sent",
                       (int)signal->pid);
    if (strcmp(boot_id, ours.id) != 0)
        return err_set(err, -EXDEV, "process %d is another machine's, or a simulated one: no signal was sent",
                       (int)signal->pid);
    return 0;
}

int process_signal(const TopSignal *signal, const char *boot_id, Err *err)
{
    ProcTask task;

    TRY(check_kernel(signal, boot_id, err));
    if (signal->pid <= 0 || signal->start_ns == 0)
        return err_set(err, -EINVAL, "it is not known which process %d is here: no signal was sent", (int)signal->pid);
    /* first the handle, then its start: the pid cannot be reused while the handle is open */
    CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, signal->pid, 0);
    if (fd < 0)
        return errno == ESRCH ? err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid)
                              : err_errno(err, "open process %d", (int)signal->pid);
    if (proc_task_read("", signal->pid, &task, NULL) < 0)
        return err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid);
    if (!is_same_start(task.start_ns, signal->start_ns))
        return err_set(err, -ESRCH, "process %d is another one by now: no signal was sent", (int)signal->pid);
    if (syscall(SYS_pidfd_send_signal, fd, signal->number, NULL, 0) < 0)
        return errno == ESRCH ? err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid)
                              : err_errno(err, "send %s to process %d", signal->name, (int)signal->pid);
    return 0;
}
