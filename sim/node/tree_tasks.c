/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the tree's /proc that use no GPU: services of the driver, and tasks that hang in it. */
#include <stdio.h>
#include <time.h>

#include "base/owner.h"
#include "sim/core/num.h"
#include "sim/node/tree_part.h"

enum {
    PID_FIRST = SIM_PID_FIRST,
    PID_STUCK = PID_FIRST + 16,
};

/* Fields as in proc(5); nobody looks at those that are 0. */
static void task_files(Put *put, uint32_t pid, const char *name, char state)
{
    put_in(put, "proc/%u", pid);
    put_line(put, "comm", "%s", name);
    put_line(put, "stat",
             "%u (%s) %c 1 %u %u 0 -1 4194304 100 0 0 0 3 2 0 0 20 0 1 0 %u 10485760 512 18446744073709551615 "
             "0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0",
             pid, name, state, pid, pid, BOOT_S * 100);
    put_line(put, "status", "Name:\t%s\nState:\t%c\nPid:\t%u", name, state, pid);
}

static void service(Put *put, uint32_t pid, const char *name, bool runs)
{
    if (!runs) {
        put_gone(put, "proc/%u", pid);
        return;
    }
    task_files(put, pid, name, 'S');
    put_text(put, "wchan", "do_poll.constprop.0");
}

/* Some are known by their name, some by where they wait, some by what they hold open. */
static void stuck(Put *put, uint32_t i)
{
    static const struct {
        const char *name, *wchan, *holds;
    } kinds[] = {{"nvidia-smi", "rwsem_down_read_slowpath", NULL},
                 {"python", "os_acquire_rwlock_write", NULL},
                 {"train", "__down_common", "/dev/nvidia0"}};
    const size_t kind = i % ARRAY_LEN(kinds);

    task_files(put, PID_STUCK + i, kinds[kind].name, 'D');
    put_text(put, "wchan", "%s", kinds[kind].wchan);
    put_in(put, "proc/%u/fd", PID_STUCK + i);
    put_link(put, "0", "/dev/null");
    if (kinds[kind].holds)
        put_link(put, "3", kinds[kind].holds);
}

void tree_tasks(const NodeTree *tree, Put *put, uint32_t old_stuck)
{
    const bool up = tree->driver != SIM_DRIVER_UNLOADED;

    service(put, PID_FIRST + 1, "nvidia-persiste", tree->persistenced && up); /* 15 characters are kept */
    service(put, PID_FIRST + 2, "nv-fabricmanage", tree->fabric_manager && tree->layout.switch_count && up);
    for (uint32_t i = tree->stuck; i < old_stuck; i++)
        put_gone(put, "proc/%u", PID_STUCK + i);
    for (uint32_t i = 0; i < tree->stuck; i++)
        stuck(put, i);
}

void tree_boot(const NodeTree *tree, Put *put, uint64_t t_ns)
{
    const bool now = tree->flags & NODE_TREE_BOOT_NOW;
    const uint64_t began_s = now ? (uint64_t)time(NULL) - t_ns / SIM_NS : tree->image->epoch_us / 1000000;

    const uint64_t a = sim_hash(tree->image->seed, tree->image->epoch_us, 1);
    const uint64_t b = sim_hash(tree->image->seed, tree->image->epoch_us, 2);

    put_in(put, "proc/sys/kernel/random");
    put_line(put, "boot_id", "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
             (unsigned)a & 0xfff, (unsigned)(b >> 48) & 0xfff, (unsigned long long)b & 0xffffffffffff);
    put_in(put, "proc");
    put_line(put, "stat", "cpu  0 0 0 0 0 0 0 0 0 0\nbtime %llu", (unsigned long long)(began_s - BOOT_S));
}
