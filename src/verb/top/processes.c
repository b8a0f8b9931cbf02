/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "base/worker.h"
#include "source/host/host.h"
#include "source/proc/task.h"
#include "source/proc/who.h"

enum { KEPT_MAX = 2048, TICK_MS = 10 };

/* /proc counts in ticks, snapshots in milliseconds. */
static bool is_same_start(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) <= TICK_MS * NS_PER_MS;
}

/* --- command lines ------------------------------------------------------------------------------------------------ */

typedef struct Kept {
    uint32_t pid;
    uint64_t start_ns;
    char command[PROCESS_COMMAND_CAP];
} Kept;

typedef VEC(Kept) KeptList;

/* What the thread reads. */
typedef struct CommandBatch {
    char *root;
    KeptList list;
} CommandBatch;

struct CommandLines {
    HostBoot boot; /* of the root */
    KeptList kept;
    CommandBatch *batch; /* what was asked for; the worker's while it is busy */
    Worker *worker;      /* NULL: no thread could be started */
};

static const Kept *find_kept(const CommandLines *commands, uint32_t pid, uint64_t start_ns)
{
    for (size_t i = 0; i < commands->kept.len; i++)
        if (commands->kept.at[i].pid == pid && is_same_start(commands->kept.at[i].start_ns, start_ns))
            return &commands->kept.at[i];
    return NULL;
}

static void read_commands(void *job)
{
    CommandBatch *batch = job;
    ProcessOwner owner;

    for (size_t i = 0; i < batch->list.len; i++) {
        Kept *kept = &batch->list.at[i];

        (void)process_identify(batch->root, kept->pid, true, &owner, NULL);
        if (is_same_start(owner.start_ns, kept->start_ns))
            memcpy(kept->command, owner.command, sizeof kept->command);
    }
}

static void free_batch(void *job)
{
    CommandBatch *batch = job;

    vec_done(&batch->list);
    free(batch->root);
    free(batch);
}

CommandLines *command_lines_new(const char *root)
{
    CommandLines *commands = xcalloc(1, sizeof *commands);

    commands->batch = xcalloc(1, sizeof *commands->batch);
    commands->batch->root = xstrdup(root ? root : "");
    host_boot(commands->batch->root, &commands->boot);
    (void)worker_new(read_commands, free_batch, commands->batch, &commands->worker, NULL);
    return commands;
}

void command_lines_fill(CommandLines *commands, const char *boot_id, ProcessOwner *list, size_t count)
{
    const bool idle = commands->worker && !worker_is_busy(commands->worker);
    KeptList *asked = &commands->batch->list, *kept = &commands->kept;

    if (!boot_id || !boot_id[0] || strcmp(boot_id, commands->boot.id) != 0)
        return;
    if (idle && kept->len + asked->len > KEPT_MAX) /* most of them have ended long ago */
        vec_clear(kept);
    for (size_t i = 0; idle && i < asked->len; i++)
        vec_push(kept, asked->at[i]);
    if (idle)
        vec_clear(asked);
    for (ProcessOwner *owner = list; owner < list + count; owner++) {
        const Kept *known = owner->command[0] ? NULL : find_kept(commands, owner->pid, owner->start_ns);

        if (known)
            memcpy(owner->command, known->command, sizeof known->command);
        else if (idle && owner->start_ns > 0 && !owner->command[0])
            vec_push(asked, ((Kept){.pid = owner->pid, .start_ns = owner->start_ns}));
    }
    if (idle && asked->len > 0)
        worker_start(commands->worker);
}

void command_lines_free(CommandLines *commands)
{
    if (!commands)
        return;
    worker_free(commands->worker);
    vec_done(&commands->kept);
    free(commands);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

int process_signal(const TopSignal *signal, const char *boot_id, Err *err)
{
    HostBoot ours;
    ProcTask task;

    host_boot("", &ours);
    if (!boot_id || !boot_id[0] || !ours.id[0])
        return err_set(err, -EINVAL, "it is not known which machine's process %d this is: no signal was sent",
                       (int)signal->pid);
    if (strcmp(boot_id, ours.id) != 0)
        return err_set(err, -EXDEV, "process %d is another machine's, or a simulated one: no signal was sent",
                       (int)signal->pid);
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
