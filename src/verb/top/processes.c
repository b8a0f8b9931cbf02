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
    bool known; /* it was read, whatever came */
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
    CommandBatch *batch; /* the worker's while it is busy */
    Worker *worker;      /* NULL: no thread could be started */
};

static Kept *find_kept(CommandLines *commands, uint32_t pid, uint64_t start_ns)
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
        kept->known = true;
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

/* Takes what the thread has read, and has it read what is not known. */
static void exchange_lists(CommandLines *commands)
{
    KeptList *list = &commands->batch->list;

    for (size_t i = 0; i < list->len; i++) {
        Kept *kept = find_kept(commands, list->at[i].pid, list->at[i].start_ns);

        if (kept)
            *kept = list->at[i];
    }
    vec_clear(list);
    for (size_t i = 0; i < commands->kept.len; i++)
        if (!commands->kept.at[i].known)
            vec_push(list, commands->kept.at[i]);
    if (list->len > 0)
        worker_start(commands->worker);
}

void command_lines_fill(CommandLines *commands, const char *boot_id, ProcessOwner *list, size_t count)
{
    if (!boot_id || !boot_id[0] || strcmp(boot_id, commands->boot.id) != 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const ProcessOwner *owner = &list[i];

        if (owner->start_ns == 0 || owner->command[0] || find_kept(commands, owner->pid, owner->start_ns))
            continue;
        if (commands->kept.len == KEPT_MAX) /* most of them have ended long ago */
            vec_clear(&commands->kept);
        vec_push(&commands->kept, ((Kept){.pid = owner->pid, .start_ns = owner->start_ns}));
    }
    if (commands->worker && !worker_is_busy(commands->worker))
        exchange_lists(commands);
    for (size_t i = 0; i < count; i++) {
        const Kept *kept = list[i].command[0] ? NULL : find_kept(commands, list[i].pid, list[i].start_ns);

        if (kept)
            memcpy(list[i].command, kept->command, sizeof kept->command);
    }
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
