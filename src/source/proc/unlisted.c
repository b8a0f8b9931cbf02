/* SPDX-License-Identifier: Apache-2.0 */
#include "source/proc/unlisted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/number.h"

enum { TARGET_CAP = 64, PARENTS_MAX = 16, GPU_BITS = 64, TASK_DEVICES_MAX = 64 };

void unlisted_done(Unlisted *u)
{
    vec_done(&u->holders);
    vec_done(&u->devices);
    vec_done(&u->fresh);
    vec_done(&u->tasks);
    vec_done(&u->steppers);
    vec_done(&u->fresh_steppers);
}

static int compare_pids(const void *a, const void *b)
{
    return number_compare_u64(((const ProcessOwner *)a)->pid, ((const ProcessOwner *)b)->pid);
}

/* --- open device files -------------------------------------------------------------------------------------------- */

/* "/dev/nvidia3": bit 3. */
static uint64_t find_gpu_bit(const char *path)
{
    static const char device[] = "/dev/nvidia";
    uint64_t minor;

    if (strncmp(path, device, sizeof device - 1) != 0 ||
        number_parse_u64(path + sizeof device - 1, 0, GPU_BITS - 1, &minor, NULL) < 0)
        return 0;
    return UINT64_C(1) << minor;
}

/* The GPUs that a process has open, if it computes: CUDA opens nvidia-uvm, programs that only ask the driver do not.
 * readlink asks the kernel for a name, not the device. */
static int read_open_gpus(Unlisted *u, const char *root, const char *pid, uint64_t *ret_gpus)
{
    char path[PROC_PATH_CAP], target[TARGET_CAP];
    CLEANUP(closedir_at) DIR *dir = NULL;
    const struct dirent *entry;
    uint64_t gpus = 0;
    bool computes = false;

    if (snprintf(path, sizeof path, "%s/proc/%s/fd", root, pid) >= (int)sizeof path)
        return -ENAMETOOLONG;
    dir = opendir(path);
    if (!dir)
        return -errno;
    while (u->links > 0 && (entry = readdir(dir))) {
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

        u->links--;
        target[len > 0 ? len : 0] = '\0';
        gpus |= find_gpu_bit(target);
        computes |= strcmp(target, "/dev/nvidia-uvm") == 0;
    }
    *ret_gpus = computes ? gpus : 0;
    return 0;
}

/* The driver's own services and tools. */
static bool is_service(const char *name)
{
    static const char *const names[] = {"nvidia-", "nv-", "nvsm"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* A child inherits what its parent has open: a loader of data is no holder of its own while its parent is listed. */
static bool has_listed_parent(const char *root, const ProcTask *task, const ProcessList *listed)
{
    ProcTask above = *task;
    char name[16];

    for (int i = 0; i < PARENTS_MAX && above.parent > 1; i++) {
        if (process_list_find(listed, (uint32_t)above.parent))
            return true;
        snprintf(name, sizeof name, "%d", (int)above.parent);
        if (proc_stat(root, name, &above, NULL) < 0)
            return false;
    }
    return false;
}

static void look_open_files(Unlisted *u, const char *root, const char *name, const ProcTask *task,
                            const ProcessList *listed)
{
    const ProcessList known = {.at = u->holders.at, .len = u->holders.len};
    const uint32_t pid = (uint32_t)strtoul(name, NULL, 10);
    uint64_t gpus = 0;

    if (task->virtual_bytes == 0 || process_list_find(listed, pid) || is_service(task->name))
        return; /* a thread of the kernel has no memory of its own */
    const ProcessOwner *old = process_list_find(&known, pid);
    const bool due = pid >= u->next_pid, first = u->links == UNLISTED_LINKS_MAX;
    const int rc = due && u->links > 0 ? read_open_gpus(u, root, name, &gpus) : 0;
    u->denied |= rc == -EACCES || rc == -EPERM;
    if (due && u->links == 0 && !first && (u->stopped_pid == 0 || pid < u->stopped_pid))
        u->stopped_pid = pid; /* not all of its files were read: begin with it the next time */
    if (!due || (u->links == 0 && !first))
        gpus = old ? old->open_gpus : 0;
    if (gpus == 0 || u->fresh.len == UNLISTED_HOLDERS_MAX || has_listed_parent(root, task, listed))
        return;
    ProcessOwner *holder = vec_add(&u->fresh);
    process_owner_init(holder, pid);
    holder->open_gpus = gpus;
}

/* --- tasks of Slurm's jobs ---------------------------------------------------------------------------------------- */

/* What of an environment tells of a job; NULL where it does not. */
typedef struct JobEnviron {
    const char *job, *job_gpus, *step_gpus, *visible;
} JobEnviron;

/* Of a text of variables with a zero byte behind each, and one more at its end. */
static JobEnviron read_variables(const char *text)
{
    JobEnviron found = {.job = NULL};
    const struct {
        const char *name, **value;
    } names[] = {{"SLURM_JOB_ID=", &found.job},
                 {"SLURM_JOB_GPUS=", &found.job_gpus},
                 {"SLURM_STEP_GPUS=", &found.step_gpus},
                 {"CUDA_VISIBLE_DEVICES=", &found.visible}};

    for (; *text; text += strlen(text) + 1)
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (strncmp(text, names[i].name, strlen(names[i].name)) == 0)
                *names[i].value = text + strlen(names[i].name);
    return found;
}

/* "4711.batch" by the cgroup; "" where that is no job's. */
static void read_cgroup_job(const char *root, const char *pid, char job[PROCESS_JOB_CAP])
{
    ProcessOwner owner;
    char text[4096];

    process_owner_init(&owner, 0);
    if (proc_text(root, pid, "cgroup", text, sizeof text, NULL) == 0)
        process_cgroup(text, &owner);
    memcpy(job, owner.job, sizeof owner.job);
}

/* A job ends with its batch script; where slurm.conf(5) asks to contain all of a job, its step "extern" lives as long
 * as the job does. By the cgroup, which no user writes. */
static void set_end(UnlistedTask *task, const char *cgroup_job)
{
    const size_t len = strcspn(cgroup_job, ".");

    if (strcmp(cgroup_job + len, ".batch") == 0 || strcmp(cgroup_job + len, ".extern") == 0)
        snprintf(task->ends, sizeof task->ends, "%.*s", (int)len, cgroup_job);
}

/* The GPUs as sbatch(1) and srun(1) document their variables: SLURM_JOB_GPUS and SLURM_STEP_GPUS have the numbers of
 * the node, whatever a device cgroup hides. Those of CUDA_VISIBLE_DEVICES count from 0 within a device cgroup: they are
 * used where no cgroup is the job's. UUIDs, as of MIG devices, are always the node's. */
static const char *choose_devices(const JobEnviron *e, const char *cgroup_job)
{
    if (e->visible && (strncmp(e->visible, "GPU-", 4) == 0 || strncmp(e->visible, "MIG-", 4) == 0))
        return e->visible;
    if (e->step_gpus)
        return e->step_gpus;
    if (e->job_gpus)
        return e->job_gpus;
    return e->visible && !cgroup_job[0] ? e->visible : "";
}

static void add_device(Unlisted *u, const UnlistedTask *task, const char *text, size_t len)
{
    JobDevice row = {.pid = task->pid, .device = {.minor = DEVICE_NO_NUMBER}};
    char id[DEVICE_UUID_CAP + 32];
    uint64_t minor;

    row.device.gpu_instance = row.device.compute_instance = DEVICE_NO_NUMBER;
    snprintf(id, sizeof id, "%.*s", (int)number_min_u64(len, sizeof id), text);
    if (number_parsen_u64(text, len, 0, GPU_BITS - 1, &minor, NULL) == 0)
        row.device.minor = (uint32_t)minor;
    else if (allocation_device_parse(id, &row.device) < 0)
        return;
    memcpy(row.job, task->job, sizeof row.job);
    if (u->devices.len < UNLISTED_DEVICES_MAX)
        vec_push(&u->devices, row);
}

/* What did not fit has lost the end of its last variable, which would tell of fewer GPUs. */
static void drop_cut_variable(char text[UNLISTED_ENVIRON_MAX])
{
    for (size_t i = UNLISTED_ENVIRON_MAX - 2; text[i]; i--) {
        text[i] = '\0';
        if (i == 0)
            return;
    }
}

static void read_task(Unlisted *u, const char *root, const char *pid, UnlistedTask *task)
{
    CLEANUP_FREE char *text = xcalloc(UNLISTED_ENVIRON_MAX + 2, 1);
    const int rc = proc_text(root, pid, "environ", text, UNLISTED_ENVIRON_MAX, NULL);
    drop_cut_variable(text);
    const JobEnviron e = read_variables(rc < 0 ? "" : text);
    const size_t digits = e.job ? strspn(e.job, "0123456789") : 0;
    char cgroup_job[PROCESS_JOB_CAP];
    int count = 0;

    read_cgroup_job(root, pid, cgroup_job);
    set_end(task, cgroup_job);
    u->environ_denied |= rc == -EACCES || rc == -EPERM;
    if (rc == 0 && !text[0])
        task->start_ns = 0; /* the program is being loaded: read again in the next scan */
    if (digits == 0 || digits >= sizeof task->job || e.job[digits])
        return;
    memcpy(task->job, e.job, digits + 1);
    for (const char *at = choose_devices(&e, cgroup_job); *at && count < TASK_DEVICES_MAX; count++) {
        const size_t len = strcspn(at, ",");

        add_device(u, task, at, len);
        at += len + (at[len] == ',');
    }
}

static UnlistedTask *find_task(const Unlisted *u, uint32_t pid)
{
    for (size_t i = 0; i < u->tasks.len; i++)
        if (u->tasks.at[i].pid == pid)
            return &u->tasks.at[i];
    return NULL;
}

static void remove_devices(Unlisted *u, uint32_t pid)
{
    size_t kept = 0;

    for (size_t i = 0; i < u->devices.len; i++)
        if (u->devices.at[i].pid != pid)
            u->devices.at[kept++] = u->devices.at[i];
    u->devices.len = kept;
}

static bool is_stepper(const Unlisted *u, uint32_t pid)
{
    for (size_t i = 0; i < u->steppers.len; i++)
        if (u->steppers.at[i] == pid)
            return true;
    return false;
}

/* Slurm's daemons are root's, and in no container; any user may give that name to a program. */
static bool is_slurms(const char *root, const char *pid)
{
    ProcessOwner owner;

    if (process_identify(root, (uint32_t)strtoul(pid, NULL, 10), false, &owner, NULL) < 0)
        return false;
    return owner.job[0] || (owner.uid == 0 && !owner.container[0] && !owner.pod_uid[0]);
}

/* A child of slurmstepd has another name once it is the job's own program. */
static void look_task(Unlisted *u, const char *root, const char *name, const ProcTask *task)
{
    const uint32_t pid = (uint32_t)strtoul(name, NULL, 10);
    UnlistedTask *known;

    u->slurmd |= strcmp(task->name, "slurmd") == 0 && is_slurms(root, name);
    if (strcmp(task->name, "slurmstepd") == 0 && is_slurms(root, name)) {
        vec_push(&u->fresh_steppers, pid);
        return;
    }
    if (!is_stepper(u, (uint32_t)task->parent))
        return;
    known = find_task(u, pid);
    if (known && known->start_ns != task->start_ns) {
        remove_devices(u, pid);
        known->job[0] = '\0';
        known->ends[0] = '\0';
    }
    if (!known && u->tasks.len < UNLISTED_TASKS_MAX)
        known = vec_add(&u->tasks);
    if (!known)
        return;
    known->seen = true;
    if (known->start_ns == task->start_ns)
        return;
    known->pid = pid;
    known->start_ns = task->start_ns;
    read_task(u, root, name, known);
}

static void forget_tasks(Unlisted *u)
{
    for (size_t i = u->tasks.len; i-- > 0;)
        if (!u->tasks.at[i].seen) {
            remove_devices(u, u->tasks.at[i].pid);
            vec_remove(&u->tasks, i);
        }
}

/* The job whose task the process is, or descends from. */
static const UnlistedTask *find_task_above(const Unlisted *u, const char *root, uint32_t pid)
{
    const UnlistedTask *task = find_task(u, pid);
    ProcTask at = {.parent = (pid_t)pid};
    char name[16];

    for (int i = 0; i < PARENTS_MAX && !task && at.parent > 1; i++) {
        snprintf(name, sizeof name, "%d", (int)at.parent);
        if (proc_stat(root, name, &at, NULL) < 0)
            return NULL;
        task = find_task(u, (uint32_t)at.parent);
    }
    return task;
}

static void fill_jobs(const Unlisted *u, const char *root, ProcessOwner *owners, size_t count)
{
    for (size_t i = 0; i < count && u->tasks.len > 0; i++) {
        const UnlistedTask *task =
            owners[i].job[0] || !owners[i].start_ns ? NULL : find_task_above(u, root, owners[i].pid);

        if (task)
            memcpy(owners[i].job, task->job, sizeof owners[i].job);
    }
}

/* --- a scan ------------------------------------------------------------------------------------------------------- */

void unlisted_begin(Unlisted *u)
{
    vec_clear(&u->fresh);
    vec_clear(&u->fresh_steppers);
    u->slurmd = false;
    if (u->next_pid == 0)
        u->denied = false;
    u->stopped_pid = 0;
    u->links = UNLISTED_LINKS_MAX;
    if (!u->wanted) {
        vec_clear(&u->holders);
        u->next_pid = 0;
    }
    for (size_t i = 0; i < u->tasks.len; i++)
        u->tasks.at[i].seen = false;
    if (u->tasks.len == 0)
        u->environ_denied = false;
}

void unlisted_add(Unlisted *u, const char *root, const char *pid, const ProcTask *task, const ProcessList *listed)
{
    look_task(u, root, pid, task);
    if (u->wanted)
        look_open_files(u, root, pid, task, listed);
}

/* Identifying clears a row. */
static void identify_holders(Unlisted *u, const char *root, PodNames *names)
{
    uint64_t gpus[UNLISTED_HOLDERS_MAX];

    vec_sort(&u->fresh, compare_pids);
    for (size_t i = 0; i < u->fresh.len; i++)
        gpus[i] = u->fresh.at[i].open_gpus;
    process_owners_fill(root, names, u->fresh.at, u->fresh.len);
    for (size_t i = 0; i < u->fresh.len; i++)
        u->fresh.at[i].open_gpus = gpus[i];
    fill_jobs(u, root, u->fresh.at, u->fresh.len);
}

void unlisted_end(Unlisted *u, const char *root, PodNames *names, ProcessOwner *listed, size_t count)
{
    const size_t steppers = u->fresh_steppers.len;

    forget_tasks(u);
    vec_clear(&u->steppers);
    for (size_t i = 0; i < steppers; i++)
        vec_push(&u->steppers, u->fresh_steppers.at[i]);
    fill_jobs(u, root, listed, count);
    identify_holders(u, root, names);
    vec_clear(&u->holders);
    for (size_t i = 0; i < u->fresh.len; i++)
        vec_push(&u->holders, u->fresh.at[i]);
    u->next_pid = u->stopped_pid;
}
