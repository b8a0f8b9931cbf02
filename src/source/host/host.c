/* SPDX-License-Identifier: Apache-2.0 */
/* Scans, and the worker that makes them: while it is busy the scan belongs to its thread. */
#include "source/host/adapters.h"
#include "source/host/host.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/worker.h"
#include "source/pci/pci.h"
#include "source/proc/task.h"

/* ---- processes of the driver ---- */

static bool begins_with_any(const char *text, const char *const *with, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, with[i], strlen(with[i])) == 0)
            return true;
    return false;
}

/* By the name, of the driver's tools and services and its threads in the kernel, or by the function that it waits in,
 * of the driver's modules: nvidia's own, its layer above the kernel (os_), the resource manager (rm_), uvm. */
static bool is_of_driver(const char *name, const char *wchan)
{
    static const char *const names[] = {"nvidia", "nv-", "nv_", "nvsm", "irq/nvidia", "UVM "};
    static const char *const functions[] = {"nv_",  "_nv0",       "nvidia",   "nvlink",  "nvswitch", "nvUvm",
                                            "uvm_", "os_acquire", "os_delay", "os_wait", "rm_"};

    return begins_with_any(name, names, ARRAY_LEN(names)) || strstr(name, "-nvidia") ||
           begins_with_any(wchan, functions, ARRAY_LEN(functions));
}

/* readlink of a descriptor asks the kernel for a name, not the device. */
static bool holds_device(const char *root, const char *pid)
{
    char path[PROC_PATH_CAP], target[64];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;

    if (snprintf(path, sizeof(path), "%s/proc/%s/fd", root, pid) >= (int)sizeof(path))
        return false;
    dir = opendir(path); /* ours and those of our user, or all as root */
    for (int i = 0; dir && i < HOST_FDS_MAX && (entry = readdir(dir)); i++) {
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        if (strncmp(target, "/dev/nvidia", strlen("/dev/nvidia")) == 0)
            return true;
    }
    return false;
}

static void add_stuck(const char *root, const char *pid, const ProcTask *seen, HostScan *scan)
{
    FactsTask task = {.pid = (pid_t)strtol(pid, NULL, 10)};
    Facts *facts = &scan->facts;

    proc_task_wchan(root, task.pid, task.wchan, sizeof(task.wchan));
    if (!is_of_driver(seen->name, task.wchan) && !holds_device(root, pid))
        return;
    facts->stuck_count++;
    if (facts->stuck_len == FACTS_STUCK_MAX)
        return;
    snprintf(task.name, sizeof(task.name), "%.*s", (int)sizeof(task.name) - 1, seen->name);
    scan->stuck_start_ns[facts->stuck_len] = seen->start_ns;
    facts->stuck[facts->stuck_len++] = task;
}

/* ---- all ---- */

/* A process that is on no GPU, of a parent that is: most likely it loads data. */
static void count_child(const char *pid, const ProcTask *task, const HostProcesses *processes)
{
    const ProcessList list = {.at = processes->at, .len = processes->len};
    const ProcessOwner *parent = process_list_find(&list, (uint32_t)task->parent);

    if (!parent || process_list_find(&list, (uint32_t)strtoul(pid, NULL, 10)))
        return;
    processes->at[parent - processes->at].children++;
    processes->at[parent - processes->at].child_cpu_ns += task->cpu_ns;
}

static void look_at(const char *root, const char *pid, HostScan *scan)
{
    ProcTask task;

    if (proc_stat(root, pid, &task, NULL) < 0)
        return;
    if (task.state == 'D')
        add_stuck(root, pid, &task, scan);
    if (task.state == 'Z' || task.state == 'X')
        return;
    count_child(pid, &task, &scan->processes);
    unlisted_add(&scan->unlisted, root, pid, &task, &(ProcessList){scan->processes.at, scan->processes.len, 0});
    /* the kernel keeps 15 characters */
    scan->facts.persistenced |= strcmp(task.name, "nvidia-persiste") == 0;
    scan->facts.fabric_manager |= strcmp(task.name, "nv-fabricmanage") == 0;
    scan->facts.imex |= strcmp(task.name, "nvidia-imex") == 0;
    scan->facts.all_tasks |= strcmp(pid, "2") == 0 && strcmp(task.name, "kthreadd") == 0;
}

static void look_tasks(const char *root, HostScan *scan)
{
    char path[PROC_PATH_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;

    if (snprintf(path, sizeof(path), "%s/proc", root) >= (int)sizeof(path))
        return;
    dir = opendir(path);
    scan->facts.proc_known = dir != NULL;
    for (int i = 0; dir && i < HOST_TASKS_MAX && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        look_at(root, entry->d_name, scan);
        i++;
    }
}

enum { PATH_CAP = 4096, TARGET_CAP = 512, NUMA_NODE_MAX = 1 << 16 };

static void read_near(int dir, Place *place)
{
    char text[PCI_ATTRIBUTE_CAP];
    char *end;

    pci_read_text(dir, "numa_node", text);
    const long node = strtol(text, &end, 10);
    place->numa_node = end > text && node >= 0 && node <= NUMA_NODE_MAX ? (int32_t)node : -1;

    const ssize_t len = pci_read_some(dir, "local_cpulist", place->cpus, sizeof place->cpus);
    if (len <= 0 || (size_t)len == sizeof place->cpus) {
        place->cpus[0] = '\0'; /* half of a list would be another one */
        return;
    }
    place->cpus[len] = '\0';
    place->cpus[strcspn(place->cpus, "\n")] = '\0';
}

/* `name` in the folder `parent` is a link into the tree of devices; `device` leads from there to the PCI function. */
static bool read_place(int parent, const char *name, const char *device, Place *place)
{
    char target[TARGET_CAP], path[TARGET_CAP];
    const ssize_t len = readlinkat(parent, name, target, sizeof target);

    if (len <= 0 || (size_t)len >= sizeof target ||
        snprintf(path, sizeof path, "%s%s", name, device) >= (int)sizeof path)
        return false;
    target[len] = '\0';
    if (!place_set_path(place, target))
        return false;
    CLEANUP_FD int dir = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place->numa_node = -1;
    if (dir >= 0)
        read_near(dir, place);
    return true;
}

static int open_dir(const char *root, const char *below)
{
    char path[PATH_CAP];

    if (snprintf(path, sizeof path, "%s%s", root, below) >= (int)sizeof path)
        return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void look_gpus(const char *root, const Facts *facts, HostPlaces *places)
{
    CLEANUP_FD int devices = open_dir(root, "/sys/bus/pci/devices");
    char name[PCI_TEXT_CAP];

    for (size_t i = 0; devices >= 0 && i < facts->gpu_count; i++) {
        Place place = {0};

        if (read_place(devices, pci_format(facts->gpus[i].pci, PCI_FORM_SYSFS, name), "", &place))
            vec_push(places, place);
    }
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const Place *)a)->adapter, ((const Place *)b)->adapter);
}

static void look_adapters(const char *root, HostPlaces *places)
{
    const int fd = open_dir(root, "/sys/class/infiniband");
    CLEANUP(closedir_at) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const size_t first = places->len;
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        close(fd);
    while (dir && places->len < first + PLACE_ADAPTERS_MAX && (entry = readdir(dir))) {
        Place place = {0};
        const size_t len = strlen(entry->d_name);

        if (entry->d_name[0] == '.' || len >= sizeof place.adapter)
            continue;
        memcpy(place.adapter, entry->d_name, len + 1);
        if (read_place(dirfd(dir), entry->d_name, "/device", &place))
            vec_push(places, place);
    }
    if (places->len > first)
        qsort(places->at + first, places->len - first, sizeof *places->at, by_name);
}

static const FactsGpu *find_gpu(const Facts *facts, PciAddress pci)
{
    for (size_t i = 0; i < facts->gpu_count; i++)
        if (pci_compare(facts->gpus[i].pci, pci) == 0)
            return &facts->gpus[i];
    return NULL;
}

/* A GPU of an earlier scan. */
static bool is_gone(const Facts *facts, const Place *place)
{
    const FactsGpu *gpu = place->adapter[0] ? NULL : find_gpu(facts, place->pci);

    return gpu && !gpu->present;
}

static void merge_places(HostPlaces *known, HostPlaces *fresh, const Facts *facts)
{
    const HostPlaces before = *known;
    size_t gone = 0;

    for (size_t i = 0; i < before.len; i++)
        gone += is_gone(facts, &before.at[i]);
    vec_reserve(fresh, fresh->len + gone);
    if (gone > 0)
        memmove(fresh->at + gone, fresh->at, fresh->len * sizeof *fresh->at);
    for (size_t i = 0, to = 0; i < before.len; i++)
        if (is_gone(facts, &before.at[i]))
            fresh->at[to++] = before.at[i];
    fresh->len += gone;
    *known = *fresh;
    *fresh = before; /* its room is used again */
}

enum { LINE_CAP = 512, PRESSURE_CAP = 256 };

/* ---- the PCI bus ---- */

static int look_bus(const char *root, Facts *facts, Err *err)
{
    size_t count = 0, switches = 0;

    TRY(pci_scan(root, facts->gpus, NODE_GPUS_MAX, &count, &switches, err));
    facts->gpu_count = count < NODE_GPUS_MAX ? count : NODE_GPUS_MAX;
    for (size_t i = 0; i < facts->gpu_count; i++)
        pci_read_detail(root, &facts->gpus[i]);
    facts->has_switches = switches > 0;
    return 0;
}

/* ---- /proc ---- */

/* The word in "Kernel Module  590.48.01  Release Build" that is a version. */
static void find_version(char *text, char version[READING_TEXT_CAP])
{
    char *rest = NULL;

    text[strcspn(text, "\n")] = '\0';
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        const size_t len = strlen(word);
        if (!isdigit((unsigned char)word[0]) || strspn(word, "0123456789.") != len || !strchr(word, '.') ||
            len >= READING_TEXT_CAP)
            continue;
        memcpy(version, word, len + 1);
        return;
    }
}

bool host_module(const char *root, char ret_version[READING_TEXT_CAP])
{
    char text[LINE_CAP];

    ret_version[0] = '\0';
    if (proc_text(root, "driver/nvidia", "version", text, sizeof(text), NULL) < 0)
        return false;
    find_version(text, ret_version);
    return true;
}

void host_boot(const char *root, HostBoot *ret)
{
    *ret = (HostBoot){0};
    if (proc_text(root, "sys/kernel/random", "boot_id", ret->id, sizeof(ret->id), NULL) < 0)
        ret->id[0] = '\0';
    ret->id[strcspn(ret->id, "\n")] = '\0';
    (void)proc_boot_ns(root, &ret->real_ns, NULL);
}

/* access(2) asks permission bits (EACCES) and the device cgroup (EPERM), never the driver. */
static bool is_denied(const char *root)
{
    char path[PROC_PATH_CAP];

    if (snprintf(path, sizeof(path), "%s/dev/nvidiactl", root) >= (int)sizeof(path))
        return false;
    return access(path, R_OK | W_OK) < 0 && errno == EPERM;
}

/* "some avg10=1.23 avg60=...": percent of the last ten seconds in which a task waited (the kernel's PSI). */
static double read_pressure(const char *root, const char *file)
{
    char text[PRESSURE_CAP];
    double percent;

    if (proc_text(root, "pressure", file, text, sizeof(text), NULL) < 0 || strncmp(text, "some avg10=", 11) != 0)
        return -1;
    return number_parsen_double(text + 11, strspn(text + 11, "0123456789."), 0, 100, &percent, NULL) < 0
               ? -1
               : percent / 100;
}

static void look_pressure(const char *root, Facts *facts)
{
    facts->io_pressure = read_pressure(root, "io");
    facts->cpu_pressure = read_pressure(root, "cpu");
    facts->pressure_known = facts->io_pressure >= 0 && facts->cpu_pressure >= 0;
}

/* ---- jobs on GPUs ---- */

static void look_jobs(const char *root, HostScan *scan)
{
    const Unlisted *u = &scan->unlisted;

    for (size_t i = 0; i < scan->processes.len; i++)
        job_cgroups_note(&scan->jobs, root, scan->processes.at[i].job, scan->processes.at[i].pid);
    for (size_t i = 0; i < u->holders.len; i++)
        job_cgroups_note(&scan->jobs, root, u->holders.at[i].job, u->holders.at[i].pid);
    for (size_t i = 0; i < u->devices.len; i++)
        job_cgroups_note(&scan->jobs, root, u->devices.at[i].job, u->devices.at[i].pid);
    job_cgroups_read(&scan->jobs, root);
}

/* ---- one scan ---- */

void host_scan_read(const char *root, HostScan *ret)
{
    const HostProcesses wanted = ret->processes;
    const HostPlaces room = ret->places;
    HostBoot boot;

    *ret = (HostScan){
        .processes = wanted, .places = room, .pods = ret->pods, .unlisted = ret->unlisted, .jobs = ret->jobs};
    ret->rc = look_bus(root, &ret->facts, &ret->err);
    vec_clear(&ret->places);
    look_gpus(root, &ret->facts, &ret->places);
    look_adapters(root, &ret->places);
    process_owners_fill(root, &ret->pods, ret->processes.at, ret->processes.len);
    unlisted_begin(&ret->unlisted);
    look_tasks(root, ret);
    unlisted_end(&ret->unlisted, root, &ret->pods, ret->processes.at, ret->processes.len);
    look_jobs(root, ret);
    look_pressure(root, &ret->facts);
    adapters_read(root, &ret->facts);
    ret->facts.module_loaded = host_module(root, ret->facts.module_version);
    host_boot(root, &boot);
    static_assert(sizeof(ret->facts.boot_id) == sizeof(boot.id), "both have the same room");
    memcpy(ret->facts.boot_id, boot.id, sizeof(boot.id));
    ret->facts.boot_real_ns = boot.real_ns;
    ret->facts.device_denied = is_denied(root);
}

void host_scan_done(HostScan *scan)
{
    vec_done(&scan->processes);
    vec_done(&scan->places);
    pod_names_done(&scan->pods);
    unlisted_done(&scan->unlisted);
    job_cgroups_done(&scan->jobs);
}

/* ---- from one scan to the next ---- */

static void keep_gpus(const HostScan *known, const HostScan *fresh, Facts *facts)
{
    if (fresh->rc < 0) {
        facts->gpu_count = known->facts.gpu_count;
        facts->has_switches = known->facts.has_switches;
        memcpy(facts->gpus, known->facts.gpus, sizeof(facts->gpus));
        return;
    }
    for (size_t i = 0; i < known->facts.gpu_count && facts->gpu_count < NODE_GPUS_MAX; i++)
        if (!find_gpu(facts, known->facts.gpus[i].pci))
            facts->gpus[facts->gpu_count++] = (FactsGpu){.pci = known->facts.gpus[i].pci};
}

static uint64_t since_of(const HostScan *known, const HostScan *fresh, size_t at, uint64_t time_ns)
{
    for (size_t i = 0; i < known->facts.stuck_len; i++)
        if (known->facts.stuck[i].pid == fresh->facts.stuck[at].pid &&
            known->stuck_start_ns[i] == fresh->stuck_start_ns[at])
            return known->facts.stuck[i].since_ns;
    return time_ns;
}

void host_scan_merge(HostScan *known, HostScan *fresh, uint64_t time_ns)
{
    const Facts *before = &known->facts;
    Facts facts = fresh->facts;

    facts.time_ns = time_ns ? time_ns : 1;
    keep_gpus(known, fresh, &facts);
    for (size_t i = 0; i < facts.stuck_len; i++)
        facts.stuck[i].since_ns = since_of(known, fresh, i, facts.time_ns);
    facts.log = before->log;
    memcpy(facts.log_why, before->log_why, sizeof(facts.log_why));
    facts.log_lost = before->log_lost;
    facts.log_silent_ns = before->log_silent_ns;
    facts.fabric_log = before->fabric_log;
    memcpy(facts.journal_why, before->journal_why, sizeof(facts.journal_why));
    known->facts = facts;
    memcpy(known->stuck_start_ns, fresh->stuck_start_ns, sizeof(known->stuck_start_ns));
    if (fresh->rc == 0)
        merge_places(&known->places, &fresh->places, &known->facts);
}

/* ---- by a worker ---- */

#define SOON_NS NS_PER_S         /* between scans that new processes bring forward */
#define HANGS_NS (15 * NS_PER_S) /* machine's clock, as a scan takes it */

enum {
    ENDED_JOBS_MAX = 256,
    FORGET_SCANS = 6, /* in one of so many scans a process is identified anew: it may have changed its cgroup or user */
};

/* The worker's job. */
typedef struct Look {
    char *root;
    HostScan scan;
} Look;

struct Host {
    uint64_t period_ns;
    Worker *worker;
    Look *look;
    bool waiting; /* for a scan */
    uint32_t scans;
    uint64_t begun_ns, due_ns, wanted_ns;
    uint64_t begun_machine_ns; /* as begun_ns, by the machine's clock */
    HostScan known;
    bool want_holders;
    char *root;
    VEC(EndedJob) ended;         /* the last ones */
    VEC(uint32_t) wanted, asked; /* sorted pids: for the next scan, and of the last one */
};

static void run_look(void *job)
{
    Look *look = job;

    host_scan_read(look->root, &look->scan);
}

static void free_look(void *job)
{
    Look *look = job;

    free(look->root);
    host_scan_done(&look->scan);
    free(look);
}

int host_open(const HostConfig *config, Host **ret, Err *err)
{
    Look *look = xcalloc(1, sizeof(*look));
    Worker *worker;
    Host *host;

    look->root = xstrdup(config->root ? config->root : "");
    if (worker_new(run_look, free_look, look, &worker, err) < 0)
        return err_add(err, "look at the node");
    host = xcalloc(1, sizeof(*host));
    host->period_ns = config->period_ns;
    host->worker = worker;
    host->look = look;
    host->root = xstrdup(look->root);
    *ret = host;
    return 0;
}

void host_close(Host *host)
{
    if (!host)
        return;
    worker_free(host->worker);
    host_scan_done(&host->known);
    vec_done(&host->wanted);
    vec_done(&host->asked);
    vec_done(&host->ended);
    free(host->root);
    free(host);
}

static void mark_ours(Facts *facts, const pid_t *samplers, size_t count)
{
    for (size_t i = 0; i < facts->stuck_len; i++) {
        facts->stuck[i].ours = false;
        for (size_t k = 0; k < count; k++)
            facts->stuck[i].ours |= samplers[k] == facts->stuck[i].pid;
    }
}

/* The scan goes on with its own. */
static void copy_unlisted(const Unlisted *from, Unlisted *to)
{
    to->wanted = from->wanted;
    to->denied = from->denied;
    to->slurmd = from->slurmd;
    to->environ_denied = from->environ_denied;
    vec_clear(&to->holders);
    for (size_t i = 0; i < from->holders.len; i++)
        vec_push(&to->holders, from->holders.at[i]);
    vec_clear(&to->devices);
    for (size_t i = 0; i < from->devices.len; i++)
        vec_push(&to->devices, from->devices.at[i]);
    vec_clear(&to->tasks);
    for (size_t i = 0; i < from->tasks.len; i++)
        if (from->tasks.at[i].ends[0])
            vec_push(&to->tasks, from->tasks.at[i]);
}

static void forget_end(Host *host, const char *job)
{
    for (size_t i = host->ended.len; i-- > 0;)
        if (strcmp(host->ended.at[i].job, job) == 0)
            vec_remove(&host->ended, i);
}

static void note_end(Host *host, const char *job)
{
    forget_end(host, job);
    if (host->ended.len == ENDED_JOBS_MAX)
        vec_remove(&host->ended, 0);
    memcpy(vec_add(&host->ended)->job, job, sizeof host->ended.at[0].job);
}

/* Jobs whose main task is gone; one that is there again, as of a job that was put back into the queue, is not over. */
static void look_at_jobs(Host *host)
{
    const Unlisted *u = &host->known.unlisted;

    for (size_t i = u->tasks.len; i-- > 0;) {
        const UnlistedTask *task = &u->tasks.at[i];
        ProcTask now;
        const int rc = proc_task_read(host->root, (pid_t)task->pid, &now, NULL);

        if (rc == 0 && now.start_ns == task->start_ns && now.state != 'Z')
            forget_end(host, task->ends);
        else if (rc == 0 || rc == -ENOENT || rc == -ESRCH)
            note_end(host, task->ends);
    }
}

static void copy_usages(const JobCgroups *from, JobCgroups *to)
{
    vec_clear(&to->usages);
    for (size_t i = 0; i < from->usages.len; i++)
        vec_push(&to->usages, from->usages.at[i]);
}

/* True where the running scan was finished and merged. */
static bool merge_scan(Host *host)
{
    HostScan *fresh = &host->look->scan;
    const HostProcesses before = host->known.processes;

    if (worker_is_busy(host->worker))
        return false;
    host_scan_merge(&host->known, fresh, host->begun_ns);
    host->known.processes = fresh->processes;
    fresh->processes = before; /* its room is used again */
    copy_unlisted(&fresh->unlisted, &host->known.unlisted);
    copy_usages(&fresh->jobs, &host->known.jobs);
    return true;
}

/* The worker is not at it. */
static void start_scan(Host *host, uint64_t now_ns)
{
    HostProcesses *processes = &host->look->scan.processes;

    vec_clear(processes);
    vec_clear(&host->asked);
    host->scans++;
    for (size_t i = 0; i < host->wanted.len; i++) {
        const uint32_t pid = host->wanted.at[i];
        const ProcessList list = {.at = host->known.processes.at, .len = host->known.processes.len};
        const ProcessOwner *known = (pid + host->scans) % FORGET_SCANS > 0 ? process_list_find(&list, pid) : NULL;

        if (known)
            vec_push(processes, *known);
        else
            process_owner_init(vec_add(processes), pid);
        vec_push(&host->asked, pid);
    }
    host->look->scan.unlisted.wanted = host->want_holders;
    host->begun_ns = now_ns;
    host->begun_machine_ns = clock_monotonic(clock_kernel());
    host->due_ns = now_ns + host->period_ns;
    host->waiting = true;
    worker_start(host->worker);
}

/* A new pid was requested: the others may be gone. */
static bool asks_for_others(const Host *host)
{
    size_t at = 0;

    for (size_t i = 0; i < host->wanted.len; i++) {
        while (at < host->asked.len && host->asked.at[at] < host->wanted.at[i])
            at++;
        if (at == host->asked.len || host->asked.at[at] != host->wanted.at[i])
            return true;
    }
    return false;
}

void host_set_processes(Host *host, const uint32_t *pids, size_t count)
{
    vec_clear(&host->wanted);
    for (size_t i = 0; i < count && i < HOST_PROCESSES_MAX; i++)
        vec_push(&host->wanted, pids[i]);
    host->wanted.len = process_pids_settle(host->wanted.at, host->wanted.len);
}

void host_want_holders(Host *host, bool wanted)
{
    host->want_holders = wanted;
}

void host_want_scan(Host *host, uint64_t since_ns)
{
    host->wanted_ns = since_ns;
}

HostUnlisted host_unlisted(const Host *host)
{
    const Unlisted *u = &host->known.unlisted;
    const bool all = host->known.facts.all_tasks;

    return (HostUnlisted){.holders = {u->holders.at, u->holders.len, host->known.facts.time_ns},
                          .holders_why =
                              !u->wanted  ? ""
                              : !all      ? "the processes of the whole node are not visible here (a pod needs hostPID)"
                              : u->denied ? "the open files of other users' processes cannot be read: that needs root"
                                          : "",
                          .devices = u->devices.at,
                          .device_count = u->devices.len,
                          .ended = host->ended.at,
                          .ended_count = host->ended.len,
                          .steps_told = all && u->slurmd && !u->environ_denied};
}

HostUsageList host_usages(const Host *host)
{
    return (HostUsageList){host->known.jobs.usages.at, host->known.jobs.usages.len};
}

ProcessList host_processes(const Host *host)
{
    return (ProcessList){host->known.processes.at, host->known.processes.len, host->known.facts.time_ns};
}

PlaceList host_places(const Host *host)
{
    return (PlaceList){host->known.places.at, host->known.places.len};
}

void host_tick(Host *host, uint64_t now_ns, const pid_t *samplers, size_t sampler_count)
{
    look_at_jobs(host); /* before the scan: it forgets tasks that are gone */
    if (host->waiting)
        host->waiting = !merge_scan(host);
    if (!host->waiting && (now_ns >= host->due_ns || host->begun_ns < host->wanted_ns ||
                           (asks_for_others(host) && now_ns >= host->begun_ns + SOON_NS)))
        start_scan(host, now_ns);
    host->known.facts.scan_hangs = host->waiting && clock_monotonic(clock_kernel()) - host->begun_machine_ns > HANGS_NS;
    mark_ours(&host->known.facts, samplers, sampler_count);
}

Facts *host_facts(Host *host)
{
    return &host->known.facts;
}
