/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes on GPUs as the tree's /proc has them, the users that they belong to, and the folders that the kubelet
 * keeps for their pods. Only files that monitors read: stat, comm, status, cmdline, cgroup, io.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/state.h"
#include "sim/node/tree_part.h"

enum { TICKS = 100, COMM_LEN = 15, THREADS = 64, PERCENT_USER = 83 };
#define PACE_NS (SIM_NS / 4)               /* of counters, real time */
#define VIRTUAL_BYTES (UINT64_C(48) << 30) /* most of it is the driver's, and reserved only */

void tree_processes_look(const SimImage *image, const SimNow *now, NodeTreeProcesses *into)
{
    for (uint32_t i = 0; image->pids == SIM_PIDS_SEEN && i < now->proc_count && into->count < SIM_WORK_MAX; i++)
        if (now->proc[i].work >= 0 && now->proc[i].work < SIM_WORK_MAX)
            into->at[into->count++] = (NodeTreeProcess){
                .pid = now->proc[i].pid, .work = now->proc[i].work, .started_ns = now->proc[i].started_ns};
}

/* Start time of the process and its compute time, including earlier stages of the work. */
typedef struct Life {
    uint64_t start_ns;
    double cpu_s;
} Life;

static Life life_of(const SimImage *image, const NodeTreeProcess *process, uint64_t t_ns)
{
    const SimWork *work = &image->works[process->work];
    Life life = {.start_ns = process->started_ns};

    if (t_ns > life.start_ns)
        life.cpu_s = work->owner.cores * (double)(t_ns - life.start_ns) / 1e9;
    while (work->before >= 0 && work->before < process->work && life.start_ns == work->from_ns) {
        const SimWork *before = &image->works[work->before];

        life.cpu_s += before->owner.cores * (double)(work->from_ns - before->from_ns) / 1e9;
        life.start_ns = before->from_ns;
        work = before;
    }
    return life;
}

/* Seconds up to t_ns in which no kernel of a work ran. */
static double idle_s(const NodeTree *tree, int32_t work, uint64_t t_ns)
{
    SimNow now;

    sim_state_at(tree->image, (uint32_t)tree->image->works[work].gpu, t_ns, &now);
    for (uint32_t i = 0; i < now.proc_count; i++)
        if (now.proc[i].work == work && now.t_ns > now.proc[i].started_ns)
            return fmax((double)(now.t_ns - now.proc[i].started_ns) / 1e9 - now.proc[i].cum[SIM_CH_KERNEL], 0);
    return 0;
}

/* Including earlier stages of the work. */
static double written_mib(const NodeTree *tree, const NodeTreeProcess *process, uint64_t t_ns)
{
    const SimWork *works = tree->image->works;
    int32_t at = process->work;
    uint64_t start_ns = process->started_ns;
    double sum = 0;

    for (;;) {
        if (works[at].owner.writes_mib > 0)
            sum += works[at].owner.writes_mib * idle_s(tree, at, t_ns);
        if (works[at].before < 0 || works[at].before >= at || start_ns != works[at].from_ns)
            return sum;
        t_ns = works[at].from_ns - 1;
        at = works[at].before;
        start_ns = works[at].from_ns;
    }
}

/* ---- one process ---- */

/* Fields as in proc(5); unused ones are 0. */
static void put_stat(const NodeTree *tree, Put *put, const NodeTreeProcess *process, uint64_t t_ns)
{
    const SimWork *work = &tree->image->works[process->work];
    const Life life = life_of(tree->image, process, t_ns);
    const uint64_t ticks = (uint64_t)(life.cpu_s * TICKS + 1e-6), user = ticks * PERCENT_USER / 100;
    const uint64_t pages = (uint64_t)(work->owner.rss_mib * 1048576) / (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t start = BOOT_S * (uint64_t)TICKS + life.start_ns / (SIM_NS / TICKS);

    put_line(put, "stat",
             "%u (%.*s) %c 1 %u %u 0 -1 4194304 500000 0 0 0 %llu %llu 0 0 20 0 %d 0 %llu %llu %llu "
             "18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0",
             process->pid, COMM_LEN, work->name, work->owner.cores > 0.5 ? 'R' : 'S', process->pid, process->pid,
             (unsigned long long)user, (unsigned long long)(ticks - user), THREADS, (unsigned long long)start,
             (unsigned long long)(VIRTUAL_BYTES + pages * 4096), (unsigned long long)pages);
}

/* The work, or an earlier stage of it. */
static bool writes_files(const SimImage *image, int32_t work)
{
    while (image->works[work].owner.writes_mib <= 0) {
        const int32_t before = image->works[work].before;
        if (before < 0 || before >= work)
            return false;
        work = before;
    }
    return true;
}

/* What is not simulated is 0. */
static void put_io(const NodeTree *tree, Put *put, const NodeTreeProcess *process, uint64_t t_ns)
{
    const unsigned long long written = (uint64_t)(written_mib(tree, process, t_ns) * 1048576);

    put_line(put, "io",
             "rchar: 0\nwchar: %llu\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: %llu\n"
             "cancelled_write_bytes: 0",
             written, written);
}

/* The unified hierarchy, or those of old by number. */
static void put_cgroup(const NodeTree *tree, Put *put, const char *path)
{
    if (tree->image->cgroups != SIM_CGROUPS_V1)
        put_line(put, "cgroup", "0::%s", path);
    else
        put_line(put, "cgroup",
                 "11:cpuset:%s\n9:devices:%s\n8:memory:%s\n4:cpu,cpuacct:%s\n3:pids:%s\n"
                 "1:name=systemd:%s\n0::/system.slice",
                 path, path, path, path, path, path);
}

static void put_cmdline(Put *put, const char *command)
{
    char text[sizeof((SimOwner *)0)->command];
    const size_t len = strlen(command);

    memcpy(text, command, len + 1);
    for (char *at = text; (at = strchr(at, ' ')); at++)
        *at = '\0';
    put_bytes(put, "cmdline", text, len + 1, 0444); /* its last argument ends too */
}

static void put_process(const NodeTree *tree, Put *put, const NodeTreeProcess *process, uint64_t t_ns)
{
    const SimWork *work = &tree->image->works[process->work];

    if (work->owner.pod[0])
        put_in(put, "var/log/pods/%s", work->owner.pod);
    put_in(put, "proc/%u", process->pid);
    put_line(put, "comm", "%.*s", COMM_LEN, work->name);
    put_line(put, "status", "Name:\t%.*s\nTgid:\t%u\nPid:\t%u\nPPid:\t1\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u",
             COMM_LEN, work->name, process->pid, process->pid, work->uid, work->uid, work->uid, work->uid, work->uid,
             work->uid, work->uid, work->uid);
    put_cgroup(tree, put, work->owner.cgroup);
    put_cmdline(put, work->owner.command);
    put_stat(tree, put, process, t_ns);
    put_io(tree, put, process, t_ns);
}

/* ---- all ---- */

static const NodeTreeProcess *find_process(const NodeTreeProcesses *in, uint32_t pid)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->at[i].pid == pid)
            return &in->at[i];
    return NULL;
}

static bool has_pod(const SimImage *image, const NodeTreeProcesses *in, const char *pod)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (strcmp(image->works[in->at[i].work].owner.pod, pod) == 0)
            return true;
    return false;
}

static void remove_gone(const NodeTree *tree, Put *put, const NodeTreeProcesses *old)
{
    for (uint32_t i = 0; i < old->count; i++) {
        const char *pod = tree->image->works[old->at[i].work].owner.pod;

        if (!find_process(&tree->processes, old->at[i].pid))
            put_gone(put, "proc/%u", old->at[i].pid);
        if (pod[0] && !has_pod(tree->image, &tree->processes, pod))
            put_gone(put, "var/log/pods/%s", pod);
    }
}

static bool is_named_before(const SimImage *image, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (image->works[i].uid == image->works[at].uid && image->works[i].owner.user[0])
            return true;
    return false;
}

static void put_passwd(NodeTree *tree, Put *put)
{
    const SimImage *image = tree->image;
    CLEANUP(str_done) Str text;

    tree->named = image->work_count;
    str_init(&text, PUT_FILE_MAX);
    str_add(&text, "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    for (uint32_t i = 0; i < tree->named; i++) {
        const SimWork *work = &image->works[i];

        if (work->owner.user[0] && work->uid > 1 && work->uid != 65534 && !is_named_before(image, i))
            str_addf(&text, "%s:x:%u:%u::/home/%s:/bin/bash\n", work->owner.user, work->uid, work->uid,
                     work->owner.user);
    }
    put_in(put, "etc");
    put_bytes(put, "passwd", text.text, text.len, 0444);
}

bool tree_processes_due(const NodeTree *tree, const NodeTreeProcesses *old, uint64_t t_ns)
{
    const double speed = sim_clock_speed(tree->image);
    const double pace_ns = (double)PACE_NS * (speed > 1 ? speed : 1);

    if (tree->named != tree->image->work_count || old->count != tree->processes.count ||
        memcmp(old->at, tree->processes.at, old->count * sizeof old->at[0]) != 0)
        return true;
    return old->count > 0 && t_ns != tree->counted_ns &&
           (t_ns < tree->counted_ns || (double)(t_ns - tree->counted_ns) >= pace_ns);
}

void tree_processes(NodeTree *tree, Put *put, const NodeTreeProcesses *old, uint64_t t_ns)
{
    static const NodeTreeProcesses none;

    if (!old || tree->named != tree->image->work_count)
        put_passwd(tree, put);
    remove_gone(tree, put, old ? old : &none);
    for (uint32_t i = 0; i < tree->processes.count; i++) {
        const NodeTreeProcess *process = &tree->processes.at[i], *before = old ? find_process(old, process->pid) : NULL;

        if (!before || before->work != process->work || before->started_ns != process->started_ns) {
            put_process(tree, put, process, t_ns);
            continue;
        }
        put_in(put, "proc/%u", process->pid);
        put_stat(tree, put, process, t_ns);
        if (writes_files(tree->image, process->work))
            put_io(tree, put, process, t_ns);
    }
    tree->counted_ns = t_ns;
}

/* --- processes without a GPU ------------------------------------------------------------------------------------- */

/* Processes of the tree's /proc that use no GPU: services of the driver, and tasks that hang in it. */

enum {
    PID_FIRST = SIM_PID_FIRST,
    PID_STUCK = PID_FIRST + 16,
};

/* Fields as in proc(5); unused ones are 0. */
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

static void put_service(Put *put, uint32_t pid, const char *name, bool runs)
{
    if (!runs) {
        put_gone(put, "proc/%u", pid);
        return;
    }
    task_files(put, pid, name, 'S');
    put_text(put, "wchan", "do_poll.constprop.0");
}

/* Identified by name, by wait channel, or by open files. */
static void put_stuck(Put *put, uint32_t i)
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

    const bool seen = tree->image->pids == SIM_PIDS_SEEN; /* the host's processes */

    put_service(put, 2, "kthreadd", seen);
    put_service(put, PID_FIRST + 1, "nvidia-persiste", seen && tree->persistenced && up); /* 15 characters are kept */
    put_service(put, PID_FIRST + 2, "nv-fabricmanage", seen && tree->fabric_manager && tree->layout.switch_count && up);
    for (uint32_t i = tree->stuck; i < old_stuck; i++)
        put_gone(put, "proc/%u", PID_STUCK + i);
    for (uint32_t i = 0; i < tree->stuck; i++)
        put_stuck(put, i);
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
