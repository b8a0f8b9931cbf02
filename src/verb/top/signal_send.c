/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/top/signal_send.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/owner.h"
#include "source/host/host.h"
#include "source/proc/task.h"

enum { TICK_MS = 10 }; /* /proc counts in ticks, looks in milliseconds */

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

int signal_send(const TopSignal *signal, const char *boot_id, Err *err)
{
    ProcTask task;

    TRY(check_kernel(signal, boot_id, err));
    if (signal->pid <= 0 || signal->start_ns == 0)
        return err_set(err, -EINVAL, "it is not known which process %d is here: no signal was sent", (int)signal->pid);
    /* first the handle, then the look: whoever has the number when the handle is made keeps it until it is closed */
    CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, signal->pid, 0);
    if (fd < 0)
        return errno == ESRCH ? err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid)
                              : err_errno(err, "open process %d", (int)signal->pid);
    if (proc_task_read("", signal->pid, &task, NULL) < 0)
        return err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid);
    const uint64_t apart =
        task.start_ns > signal->start_ns ? task.start_ns - signal->start_ns : signal->start_ns - task.start_ns;
    if (apart > TICK_MS * NS_PER_MS)
        return err_set(err, -ESRCH, "process %d is another one by now: no signal was sent", (int)signal->pid);
    if (syscall(SYS_pidfd_send_signal, fd, signal->number, NULL, 0) < 0)
        return errno == ESRCH ? err_set(err, -ESRCH, "process %d has ended already", (int)signal->pid)
                              : err_errno(err, "send %s to process %d", signal->name, (int)signal->pid);
    return 0;
}
