/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon is asked whether it answers, then the next step is taken by the answer and by its record: start, settings,
 * quit, compute modes. The record is written before a step and says what an earlier process had begun, so after
 * kill -9 the same question goes on from there. NVIDIA's own lock in the pipe folder admits one daemon.
 *
 * Programs run in a mount namespace of their own, in the driver's root: its /mnt is the daemon's folder, its /dev/shm
 * the one that clients get.
 */
#include "service/kubelet/mps.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/subproc.h"
#include "base/vec.h"

#define RECORD "daemon.json"
#define MODE_MPS "EXCLUSIVE_PROCESS" /* the mode that NVIDIA advises: no program reaches the GPU past the daemon */
#define MODE_BEFORE "DEFAULT"
#define CONTROL "nvidia-cuda-mps-control"
#define QUIT_NS (100 * NS_PER_MS)   /* between two questions to one that ends, at first */
#define STUCK_NS NS_PER_S           /* who does not end so long after SIGKILL waits in the driver */
#define LASTING_NS (2 * NS_PER_MIN) /* who is ready for so long has had no failure */

enum { TICK_MS = 10, OUTPUT_MAX = 400, RECORD_MAX = 256 << 10, DOUBLINGS_MAX = 6, GPUS_MAX = 1024 };

const WordRow mps_states[MPS_STATE_END] = {MPS_STATE_TABLE(WORD_ROW)};

typedef struct Gpu {
    char uuid[DEVICE_UUID_CAP];
    uint64_t limit_bytes;
    bool left_out; /* its compute mode could not be set, so the daemon was started without it */
} Gpu;

typedef struct Settings {
    uint64_t thread_percent;
    VEC(Gpu) gpus;
} Settings;

/* What daemon.json holds. */
typedef struct Record {
    MpsState state;
    char why[MPS_WHY_CAP];
    bool configured;   /* the daemon has been given all of its settings */
    Settings settings; /* it was started with */
} Record;

typedef struct Daemon Daemon;

typedef struct Result {
    bool ok, timed_out, not_run;
    char text[MPS_WHY_CAP]; /* what was printed, or what went wrong */
} Result;

typedef void Then(Daemon *daemon, const Result *result);

struct Daemon {
    MpsKeeper *keeper;
    char name[MPS_NAME_CAP];
    bool wanted, named, again; /* again: the program under way is the last one for what was wanted before */
    Settings settings;         /* wanted ones */
    bool begun;                /* `record` has settings, and lies in its file */
    Record record;
    const char *mode;    /* compute mode that the GPUs are being set to, */
    size_t gpu;          /* from this one on */
    const char *program; /* that runs, or could not be started: */
    int start_rc;
    Err start_error;
    Subproc child;
    int out_fd;
    uint64_t deadline_ns, ready_ns;
    bool killed;
    Then *then; /* after the program that runs; NULL: none runs */
    unsigned tries;
    char said[MPS_WHY_CAP]; /* the last failure in the log, */
    bool ready_said;        /* and whether the daemon was called ready since */
    uv_timer_t timer;
    Daemon *next;
};

struct MpsKeeper {
    MpsKeeperConfig config;
    char *root, *driver_root, *cgroup_root;
    uv_loop_t *loop;
    Daemon *daemons;
    bool loaded, shm_warned, cgroup_warned, closing;
};

static void on_timer(uv_timer_t *timer);

static void free_keeper(MpsKeeper *k)
{
    free(k->root);
    free(k->driver_root);
    free(k->cgroup_root);
    free(k);
}

/* --- settings and their record ------------------------------------------------------------------------------------ */

static Gpu *find_gpu(const Settings *settings, const char *uuid)
{
    for (size_t i = 0; i < settings->gpus.len; i++)
        if (strcmp(settings->gpus.at[i].uuid, uuid) == 0)
            return &settings->gpus.at[i];
    return NULL;
}

static void copy_settings(Settings *to, const Settings *from)
{
    vec_clear(&to->gpus);
    to->thread_percent = from->thread_percent;
    for (size_t i = 0; i < from->gpus.len; i++) {
        vec_push(&to->gpus, from->gpus.at[i]);
        to->gpus.at[i].left_out = false;
    }
}

/* Whether a daemon with these settings does what is wanted. */
static bool has_settings(const Settings *has, const Settings *wanted)
{
    for (size_t i = 0; i < wanted->gpus.len; i++) {
        const Gpu *want = &wanted->gpus.at[i], *gpu = find_gpu(has, want->uuid);

        if (!gpu || (gpu->limit_bytes != want->limit_bytes && gpu->limit_bytes != MPS_LIMIT_UNKNOWN &&
                     want->limit_bytes != MPS_LIMIT_UNKNOWN))
            return false;
    }
    return has->thread_percent == wanted->thread_percent;
}

static void read_gpus(const json_t *list, Settings *ret)
{
    const char *uuid;
    json_int_t limit;
    int left_out;

    for (size_t i = 0; i < json_array_size(list) && i < GPUS_MAX; i++)
        if (json_unpack(json_array_get(list, i), "{s:s,s:I,s:b}", "uuid", &uuid, "limit_bytes", &limit, "left_out",
                        &left_out) == 0) {
            Gpu *gpu = vec_add(&ret->gpus);

            snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
            gpu->limit_bytes = limit < 0 ? MPS_LIMIT_UNKNOWN : (uint64_t)limit;
            gpu->left_out = left_out;
        }
}

/* False where there is none that can be read. */
static bool read_record(const char *root, const char *name, Record *ret)
{
    CLEANUP(str_done) Str text = str_limited(RECORD_MAX);
    const char *state, *why;
    char path[4096];
    int configured;
    json_int_t percent;
    json_t *gpus;

    snprintf(path, sizeof path, "%s/%s/" RECORD, root, name);
    *ret = (Record){0};
    json_t *json = file_read(path, RECORD_MAX, &text, NULL) == 0 ? json_loadb(text.text, text.len, 0, NULL) : NULL;
    const bool fine = json && json_unpack(json, "{s:s,s:s,s:b,s:I,s:o}", "state", &state, "why", &why, "configured",
                                          &configured, "thread_percent", &percent, "gpus", &gpus) == 0;

    if (fine) {
        const int known = word_find(mps_states, MPS_STATE_END, state);

        ret->state = (MpsState)(known < 0 ? MPS_FAILED : known);
        snprintf(ret->why, sizeof ret->why, "%s", why);
        ret->configured = configured;
        ret->settings.thread_percent = (uint64_t)percent;
        read_gpus(gpus, &ret->settings);
    }
    json_decref(json);
    return fine;
}

static int write_record(const Daemon *d, Err *err)
{
    const Record *r = &d->record;
    CLEANUP(str_done) Str out = str_limited(RECORD_MAX);
    char path[4096];

    json_open(&out, NULL, '{');
    json_add_text(&out, "state", mps_states[r->state].key);
    json_add_text(&out, "why", r->why);
    json_add_bool(&out, "configured", r->configured);
    json_add_u64(&out, "thread_percent", r->settings.thread_percent);
    json_open(&out, "gpus", '[');
    for (size_t i = 0; i < r->settings.gpus.len; i++) {
        const Gpu *gpu = &r->settings.gpus.at[i];

        json_open(&out, NULL, '{');
        json_add_text(&out, "uuid", gpu->uuid);
        json_add_i64(&out, "limit_bytes", gpu->limit_bytes > INT64_MAX ? -1 : (int64_t)gpu->limit_bytes);
        json_add_bool(&out, "left_out", gpu->left_out);
        json_close(&out, '}');
    }
    json_close(&out, ']');
    json_close(&out, '}');
    snprintf(path, sizeof path, "%s/%s/" RECORD, d->keeper->root, d->name);
    return file_write(path, out.text, out.len, 0644, err);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* A failure that repeats is said once, and so is the state that comes between. */
static void log_state(Daemon *d)
{
    const Log *log = d->keeper->config.log;
    const Record *r = &d->record;

    if (r->state == MPS_READY && !d->ready_said) {
        log_write(log, LOG_LEVEL_INFO, "the MPS daemon of %s is ready", d->name);
        d->ready_said = true;
    } else if (r->state == MPS_FAILED && strcmp(d->said, r->why) != 0) {
        log_write(log, LOG_LEVEL_WARN, "the MPS daemon of %s: %s; it is tried again", d->name, r->why);
        snprintf(d->said, sizeof d->said, "%s", r->why);
        d->ready_said = false;
    } else if (r->state != MPS_READY && r->state != MPS_FAILED && r->why[0]) {
        log_write(log, LOG_LEVEL_INFO, "the MPS daemon of %s: %s", d->name, r->why);
    }
}

static void set_state(Daemon *d, MpsState state, const char *why)
{
    Record *r = &d->record;

    if (r->state == state && strcmp(r->why, why) == 0)
        return;
    r->state = state;
    snprintf(r->why, sizeof r->why, "%s", why);
    if (d->begun)
        (void)write_record(d, NULL);
    log_state(d);
    if (d->keeper->config.changed)
        *d->keeper->config.changed = true;
}

static void start_timer(Daemon *d, uint64_t ns)
{
    uv_timer_start(&d->timer, on_timer, ns / NS_PER_MS, 0);
}

/* The next question comes after a time, which doubles each time. */
static void wait_longer(Daemon *d, uint64_t ns)
{
    start_timer(d, ns << number_min_u64(d->tries++, DOUBLINGS_MAX));
}

static void fail_daemon(Daemon *d, const char *why)
{
    set_state(d, MPS_FAILED, why);
    wait_longer(d, d->keeper->config.retry_ns);
}

/* --- programs of the driver --------------------------------------------------------------------------------------- */

/* What a program sees, made ready before the fork. */
typedef struct View {
    const char *folder, *mnt, *shm, *dev_shm, *root;
    const char *cgroup; /* its cgroup.procs; where there is none, it stays in ours */
    int in, out;
} View;

static const char *enter_view(void *self)
{
    const View *v = self;
    const int procs = open(v->cgroup, O_WRONLY | O_CLOEXEC);

    if (procs >= 0 && write(procs, "0", 1) < 0)
        return "move to the cgroup for";
    if (dup2(v->in, STDIN_FILENO) < 0 || dup2(v->out, STDOUT_FILENO) < 0 || dup2(v->out, STDERR_FILENO) < 0)
        return "redirect";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return "mount for";
    if (mount(v->folder, v->mnt, NULL, MS_BIND, NULL) < 0)
        return "mount /mnt for";
    if (mount(v->shm, v->dev_shm, NULL, MS_BIND, NULL) < 0)
        return "mount /dev/shm for";
    return chroot(v->root) < 0 || chdir("/") < 0 ? "chroot for" : NULL;
}

/* A file without a name that holds `text`; or with room for what a program prints, which cannot grow beyond it. */
static int make_memory_file(const char *text, Err *err)
{
    CLEANUP_FD int fd = memfd_create("mps", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || (text && (file_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)) ||
        (!text && (ftruncate(fd, OUTPUT_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)))
        return err_errno(err, "make a file in memory");
    return fd_take(&fd);
}

static const char *shm_folder(const Daemon *d, Arena *arena)
{
    return d->keeper->config.own_shm ? arena_printf(arena, "%s/%s/shm", d->keeper->root, d->name)
                                     : arena_printf(arena, "%s/shm", d->keeper->root);
}

static int start_program(Daemon *d, const char *const *argv, const char *input, Err *err)
{
    const MpsKeeper *k = d->keeper;
    CLEANUP(arena_done) Arena arena = {0};
    CLEANUP(str_done) Str visible = str_limited(GPUS_MAX * (DEVICE_UUID_CAP + 1));
    CLEANUP_FD int in = -1, out = -1;

    TRY(in = make_memory_file(input, err));
    TRY(out = make_memory_file(NULL, err));
    for (size_t i = 0; i < d->record.settings.gpus.len; i++)
        if (!d->record.settings.gpus.at[i].left_out)
            str_addf(&visible, "%s%s", visible.len ? "," : "", d->record.settings.gpus.at[i].uuid);
    View view = {.folder = arena_printf(&arena, "%s/%s", k->root, d->name),
                 .mnt = arena_printf(&arena, "%s/mnt", k->driver_root),
                 .shm = shm_folder(d, &arena),
                 .dev_shm = arena_printf(&arena, "%s/dev/shm", k->driver_root),
                 .root = k->driver_root[0] ? k->driver_root : "/",
                 .cgroup = arena_printf(&arena, "%s/stoker-mps/cgroup.procs", k->cgroup_root),
                 .in = in,
                 .out = out};
    const char *env[] = {"CUDA_MPS_PIPE_DIRECTORY=/mnt/pipe", "CUDA_MPS_LOG_DIRECTORY=/mnt/log",
                         arena_printf(&arena, "CUDA_VISIBLE_DEVICES=%s", visible.len ? visible.text : ""), NULL};
    TRY(subproc_start(
        &(SubprocSpec){.argv = argv, .env = env, .die_with_us = true, .prepare = enter_view, .self = &view}, &d->child,
        err));
    d->out_fd = fd_take(&out);
    return 0;
}

/* What is wrong with a program that could not be started, and what a person can do. */
static void describe_start(const Daemon *d, Result *ret)
{
    const MpsKeeper *k = d->keeper;
    Str text;

    str_init_room(&text, ret->text, sizeof ret->text);
    ret->not_run = true;
    str_addf(&text, "%.200s", d->start_error.text);
    if (d->start_rc == -ENOENT && strncmp(d->start_error.text, "mount ", strlen("mount ")) == 0)
        str_addf(&text, ": the driver's root '%s' needs that folder", k->driver_root[0] ? k->driver_root : "/");
    else if (d->start_rc == -ENOENT)
        str_addf(&text, ": NVIDIA's programs are looked for in PATH below '%s', where the driver has to be installed",
                 k->driver_root[0] ? k->driver_root : "/");
    else if (d->start_rc == -EPERM || d->start_rc == -EACCES)
        str_add(&text, ": MPS needs a privileged container (devicePlugin.mps.root of the chart)");
}

/* Runs a program of the driver; `then` comes when it has ended, in each case later. */
static void run_program(Daemon *d, const char *const *argv, const char *input, Then *then)
{
    d->then = then;
    d->program = argv[0];
    d->killed = false;
    d->deadline_ns = uv_hrtime() + d->keeper->config.limit_ns;
    d->start_rc = start_program(d, argv, input, &d->start_error);
    start_timer(d, TICK_MS * NS_PER_MS);
}

static void run_control(Daemon *d, const char *input, Then *then)
{
    static const char *const argv[] = {CONTROL, NULL};

    run_program(d, argv, input, then);
}

/* Its output in one line. */
static void read_output(const Daemon *d, Str *to)
{
    char text[OUTPUT_MAX + 1] = "";

    if (pread(d->out_fd, text, OUTPUT_MAX, 0) < 0)
        return;
    for (char *at = text; *at; at++)
        *at = (char)((unsigned char)*at < ' ' ? ' ' : *at);
    for (size_t len = strlen(text); len > 0 && text[len - 1] == ' '; len--)
        text[len - 1] = '\0';
    str_add(to, text);
}

static void describe_end(const Daemon *d, const SubprocEnd *end, Result *ret)
{
    char how[SUBPROC_TEXT_MAX];
    Str text;

    str_init_room(&text, ret->text, sizeof ret->text);
    ret->ok = end->exited && end->exit_code == 0;
    ret->timed_out = d->killed;
    if (!ret->ok) {
        subproc_describe(end, how);
        str_addf(&text, "%s: %s: ", d->program, d->killed ? "killed, as it took too long" : how);
    }
    read_output(d, &text);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void ask_daemon(Daemon *d);

static void mount_shm(MpsKeeper *k, const char *shm)
{
    struct statfs fs;

    (void)chmod(shm, 01777);
    if ((statfs(shm, &fs) == 0 && fs.f_type == TMPFS_MAGIC) ||
        mount("shm", shm, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=50%") == 0 || k->shm_warned)
        return;
    k->shm_warned = true;
    log_write(k->config.log, LOG_LEVEL_WARN,
              "MPS: mount a tmpfs on '%s': %s; shared memory of containers lies on the disk there", shm,
              strerror(errno));
}

/* A cgroup of their own for daemons: that of a container ends with it. */
static void make_cgroup(MpsKeeper *k)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char *path = arena_printf(&arena, "%s/stoker-mps/cgroup.procs", k->cgroup_root);

    (void)mkdir(arena_printf(&arena, "%s/stoker-mps", k->cgroup_root), 0755);
    if (access(path, W_OK) == 0 || k->cgroup_warned)
        return;
    k->cgroup_warned = true;
    log_write(k->config.log, LOG_LEVEL_WARN, "MPS: write '%s': %s; daemons and their clients end with this container",
              path, strerror(errno));
}

static int make_folders(Daemon *d, Err *err)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char *folder = arena_printf(&arena, "%s/%s", d->keeper->root, d->name), *shm = shm_folder(d, &arena);

    TRY(file_make_dirs(arena_printf(&arena, "%s/pipe", folder), 0755, err));
    TRY(file_make_dirs(arena_printf(&arena, "%s/log", folder), 0755, err));
    TRY(file_make_dirs(shm, 01777, err));
    mount_shm(d->keeper, shm);
    make_cgroup(d->keeper);
    return 0;
}

/* Another daemon that was started with one of the GPUs; it is `d` that waits. */
static const Daemon *find_holder(const Daemon *d)
{
    for (const Daemon *other = d->keeper->daemons; other; other = other->next)
        for (size_t i = 0; other != d && other->begun && i < d->settings.gpus.len; i++)
            if (find_gpu(&other->record.settings, d->settings.gpus.at[i].uuid))
                return other;
    return NULL;
}

static void on_configured(Daemon *d, const Result *result)
{
    if (!result->ok) {
        fail_daemon(d, result->text);
        return;
    }
    d->record.configured = true;
    ask_daemon(d);
}

static void configure_daemon(Daemon *d, const Result *result)
{
    CLEANUP(str_done) Str input = str_limited(RECORD_MAX);
    const Settings *settings = &d->record.settings;

    if (!result->ok) {
        fail_daemon(d, result->text);
        return;
    }
    for (size_t i = 0; i < settings->gpus.len; i++) {
        const Gpu *gpu = &settings->gpus.at[i];

        if (!gpu->left_out && gpu->limit_bytes && gpu->limit_bytes != MPS_LIMIT_UNKNOWN)
            str_addf(&input, "set_default_device_pinned_mem_limit %s %" PRIu64 "M\n", gpu->uuid,
                     gpu->limit_bytes >> 20);
    }
    if (settings->thread_percent)
        str_addf(&input, "set_default_active_thread_percentage %" PRIu64 "\n", settings->thread_percent);
    run_control(d, input.len ? input.text : "", on_configured);
}

static void launch_daemon(Daemon *d)
{
    static const char *const argv[] = {CONTROL, "-d", NULL};
    size_t served = 0;

    for (size_t i = 0; i < d->record.settings.gpus.len; i++)
        served += !d->record.settings.gpus.at[i].left_out;
    if (served == 0) {
        fail_daemon(d, "nvidia-smi could set the compute mode of none of its GPUs, the log says why");
        return;
    }
    run_program(d, argv, "", configure_daemon);
}

/* No daemon of these settings runs any more, and their GPUs are as they were before. */
static void drop_record(Daemon *d)
{
    CLEANUP(arena_done) Arena arena = {0};

    d->begun = false;
    vec_clear(&d->record.settings.gpus);
    (void)unlink(arena_printf(&arena, "%s/%s/" RECORD, d->keeper->root, d->name));
    ask_daemon(d);
}

static void set_next_mode(Daemon *d);

/* Says once that a GPU refuses its compute mode. */
static void note_refusal(Daemon *d, Gpu *gpu, bool starts, const char *text)
{
    Gpu *wanted = find_gpu(&d->settings, gpu->uuid);

    gpu->left_out = starts;
    if (wanted && wanted->left_out)
        return;
    if (wanted)
        wanted->left_out = starts;
    log_write(d->keeper->config.log, LOG_LEVEL_WARN, "the MPS daemon of %s: nvidia-smi -i %s -c %s: %s; %s", d->name,
              gpu->uuid, d->mode, text, starts ? "it starts without this GPU" : "run it by hand");
}

static void on_mode_set(Daemon *d, const Result *result)
{
    const bool starts = strcmp(d->mode, MODE_MPS) == 0;

    if (result->not_run && starts) {
        fail_daemon(d, result->text);
        return;
    }
    if (!result->ok)
        note_refusal(d, &d->record.settings.gpus.at[d->gpu], starts, result->text);
    d->gpu++;
    set_next_mode(d);
}

static void set_next_mode(Daemon *d)
{
    const Settings *settings = &d->record.settings;

    while (d->gpu < settings->gpus.len && settings->gpus.at[d->gpu].left_out)
        d->gpu++;
    if (d->gpu < settings->gpus.len) {
        const char *argv[] = {"nvidia-smi", "-i", settings->gpus.at[d->gpu].uuid, "-c", d->mode, NULL};

        run_program(d, argv, "", on_mode_set);
    } else if (strcmp(d->mode, MODE_MPS) != 0) {
        drop_record(d);
    } else {
        launch_daemon(d);
    }
}

static void set_modes(Daemon *d, const char *mode)
{
    d->mode = mode;
    d->gpu = 0;
    set_next_mode(d);
}

static void start_daemon(Daemon *d)
{
    const Daemon *holder = find_holder(d);
    char why[MPS_WHY_CAP];
    Err err = {0};

    if (holder) {
        snprintf(why, sizeof why, "it waits until the one of %s, which has one of its GPUs, has ended", holder->name);
        set_state(d, MPS_STARTING, why);
        wait_longer(d, QUIT_NS);
        return;
    }
    copy_settings(&d->record.settings, &d->settings);
    d->record.configured = false;
    set_state(d, MPS_STARTING, "");
    d->begun = write_record(d, &err) == 0;
    if (d->begun)
        set_modes(d, MODE_MPS);
    else
        fail_daemon(d, err.text);
}

static void on_quit(Daemon *d, const Result *result UNUSED)
{
    wait_longer(d, QUIT_NS); /* whatever it said: it is asked whether it has ended */
}

static void quit_daemon(Daemon *d)
{
    set_state(d, d->wanted ? MPS_STARTING : MPS_ENDING,
              d->wanted ? "the one that runs lacks settings, and ends when its clients have ended"
                        : "it is not wanted any more, and ends when its clients have ended");
    run_control(d, "quit\n", on_quit);
}

static void free_daemon(uv_handle_t *timer)
{
    Daemon *d = timer->data, **at = &d->keeper->daemons;
    MpsKeeper *k = d->keeper;

    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    vec_done(&d->settings.gpus);
    vec_done(&d->record.settings.gpus);
    free(d);
    if (k->closing && !k->daemons)
        free_keeper(k);
}

/* It has ended, is not wanted, and nothing of it is left. */
static void forget_daemon(Daemon *d)
{
    CLEANUP(arena_done) Arena arena = {0};
    Err err = {0};

    if (d->keeper->config.own_shm)
        (void)umount2(shm_folder(d, &arena), MNT_DETACH);
    if (file_remove_tree(d->keeper->root, d->name, &err) < 0)
        log_write(d->keeper->config.log, LOG_LEVEL_WARN, "the MPS daemon of %s has ended: %s", d->name, err.text);
    set_state(d, MPS_ABSENT, "it has ended, as it is not wanted any more");
    uv_close((uv_handle_t *)&d->timer, free_daemon);
}

static void note_ready(Daemon *d)
{
    if (d->record.state != MPS_READY)
        d->ready_ns = uv_hrtime();
    set_state(d, MPS_READY, "");
    if (uv_hrtime() - d->ready_ns > LASTING_NS) {
        d->tries = 0;
        d->said[0] = '\0';
    }
    start_timer(d, d->keeper->config.period_ns);
}

static void on_asked(Daemon *d, const Result *result)
{
    const bool lives = result->ok && isdigit((unsigned char)result->text[0]);
    const bool fits = d->begun && d->wanted && has_settings(&d->record.settings, &d->settings);

    if (result->timed_out)
        fail_daemon(d,
                    "it does not answer. Its clients may go on; where it stays so, end them and the process " CONTROL);
    else if (result->not_run)
        fail_daemon(d, result->text);
    else if (lives && fits && d->record.configured)
        note_ready(d);
    else if (lives)
        quit_daemon(d);
    else if (d->record.state == MPS_READY)
        fail_daemon(d, "it has ended by itself; its log folder may say why");
    else if (d->begun && !fits)
        set_modes(d, MODE_BEFORE);
    else if (d->wanted)
        start_daemon(d);
    else
        forget_daemon(d);
}

static void ask_daemon(Daemon *d)
{
    Err err = {0};

    if (make_folders(d, &err) < 0)
        fail_daemon(d, err.text);
    else
        run_control(d, "get_default_active_thread_percentage\n", on_asked);
}

/* Looks after the program that runs; without one the daemon is asked. */
static void on_timer(uv_timer_t *timer)
{
    Daemon *d = timer->data;
    SubprocEnd end = {0};
    Result result = {0};

    if (!d->then) {
        ask_daemon(d);
        return;
    }
    if (d->start_rc < 0) {
        describe_start(d, &result);
    } else if (subproc_wait(&d->child, 0, &end, NULL) == SUBPROC_RUNNING) {
        if (uv_hrtime() >= d->deadline_ns) {
            d->killed = true;
            (void)kill(-d->child.pid, SIGKILL);
        }
        if (uv_hrtime() >= d->deadline_ns + STUCK_NS)
            set_state(d, MPS_FAILED, "a program of the driver hangs and cannot be killed: drain and reboot this node");
        start_timer(d, TICK_MS * NS_PER_MS);
        return;
    } else {
        describe_end(d, &end, &result);
        subproc_done(&d->child);
        fd_close(&d->out_fd);
    }
    Then *then = TAKE(d->then);
    if (d->again) {
        d->again = false;
        ask_daemon(d);
    } else {
        then(d, &result);
    }
}

/* --- the header's functions --------------------------------------------------------------------------------------- */

MpsKeeper *mps_keeper_new(uv_loop_t *loop, const MpsKeeperConfig *config)
{
    MpsKeeper *k = xcalloc(1, sizeof *k);

    k->config = *config;
    k->root = xstrdup(config->root);
    k->driver_root = xstrdup(strcmp(config->driver_root, "/") == 0 ? "" : config->driver_root);
    k->cgroup_root = xstrdup(config->cgroup_root);
    k->loop = loop;
    return k;
}

static Daemon *find_daemon(const MpsKeeper *k, const char *name)
{
    for (Daemon *d = k->daemons; d; d = d->next)
        if (strcmp(d->name, name) == 0 && !uv_is_closing((uv_handle_t *)&d->timer))
            return d;
    return NULL;
}

static Daemon *add_daemon(MpsKeeper *k, const char *name)
{
    Daemon *d = xcalloc(1, sizeof *d);

    assert(strlen(name) < sizeof d->name);
    d->keeper = k;
    snprintf(d->name, sizeof d->name, "%s", name);
    d->out_fd = -1;
    d->begun = read_record(k->root, name, &d->record);
    d->record.state = MPS_STARTING;
    d->record.why[0] = '\0';
    uv_timer_init(k->loop, &d->timer);
    d->timer.data = d;
    start_timer(d, 0);
    d->next = k->daemons;
    k->daemons = d;
    return d;
}

/* What is wanted has changed: the daemon is asked at once, or after the program that runs. */
static void look_again(Daemon *d)
{
    d->tries = 0;
    d->again = d->then != NULL;
    if (!d->then)
        start_timer(d, 0);
}

static bool is_same(const Settings *a, const Settings *b)
{
    bool same = a->thread_percent == b->thread_percent && a->gpus.len == b->gpus.len;

    for (size_t i = 0; same && i < a->gpus.len; i++)
        same = strcmp(a->gpus.at[i].uuid, b->gpus.at[i].uuid) == 0 &&
               a->gpus.at[i].limit_bytes == b->gpus.at[i].limit_bytes;
    return same;
}

static void want_daemon(MpsKeeper *k, const MpsDaemonConfig *config)
{
    Daemon *d = find_daemon(k, config->name);
    Settings settings = {.thread_percent = config->thread_percent};

    if (!d)
        d = add_daemon(k, config->name);
    d->named = true;
    for (size_t i = 0; i < config->uuid_count; i++) {
        Gpu *gpu = vec_add(&settings.gpus);

        snprintf(gpu->uuid, sizeof gpu->uuid, "%s", config->uuids[i]);
        gpu->limit_bytes = config->limit_bytes ? config->limit_bytes[i] : 0;
    }
    if (!d->wanted || !is_same(&settings, &d->settings)) {
        d->wanted = true;
        copy_settings(&d->settings, &settings);
        if (d->record.state == MPS_READY && !has_settings(&d->record.settings, &d->settings))
            set_state(d, MPS_STARTING, "");
        look_again(d);
    }
    vec_done(&settings.gpus);
}

/* What earlier processes have begun. */
static void load_daemons(MpsKeeper *k)
{
    CLEANUP(arena_done) Arena arena = {0};
    const char *depths[] = {"*", "*/*"};
    glob_t found = {0};

    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        if (glob(arena_printf(&arena, "%s/%s/" RECORD, k->root, depths[i]), GLOB_NOSORT, NULL, &found) == 0)
            for (size_t at = 0; at < found.gl_pathc; at++) {
                const char *name = found.gl_pathv[at] + strlen(k->root) + 1;

                const size_t len = strlen(name) - strlen("/" RECORD);

                if (len < MPS_NAME_CAP)
                    (void)add_daemon(k, arena_strndup(&arena, name, len));
            }
        globfree(&found);
    }
    k->loaded = true;
}

void mps_keeper_want(MpsKeeper *k, const MpsDaemonConfig *configs, size_t count)
{
    if (!k->loaded)
        load_daemons(k);
    for (Daemon *d = k->daemons; d; d = d->next)
        d->named = false;
    for (size_t i = 0; i < count; i++)
        want_daemon(k, &configs[i]);
    for (Daemon *d = k->daemons; d; d = d->next)
        if (d->wanted && !d->named) {
            d->wanted = false;
            set_state(d, MPS_ENDING, "");
            look_again(d);
        }
}

static MpsState judge_record(const Record *record, const char *uuid, char why[MPS_WHY_CAP])
{
    const Gpu *gpu = uuid ? find_gpu(&record->settings, uuid) : NULL;

    snprintf(why, MPS_WHY_CAP, "%s", record->why);
    if (record->state != MPS_READY || !uuid || (gpu && !gpu->left_out))
        return record->state;
    snprintf(why, MPS_WHY_CAP,
             "it was started without this GPU, whose compute mode could not be set; once the GPU works, end the pods "
             "that share GPUs and then the process " CONTROL ", which is started again");
    return MPS_FAILED;
}

MpsState mps_keeper_state(const MpsKeeper *k, const char *name, const char *uuid, char why[MPS_WHY_CAP])
{
    const Daemon *d = find_daemon(k, name);

    return judge_record(d ? &d->record : &(Record){0}, uuid, why);
}

MpsState mps_read_state(const char *root, const char *name, const char *uuid, char why[MPS_WHY_CAP])
{
    Record record;
    const MpsState state = (read_record(root, name, &record), judge_record(&record, uuid, why));

    vec_done(&record.settings.gpus);
    return state;
}

void mps_keeper_close(MpsKeeper *k)
{
    if (!k)
        return;
    k->closing = true;
    if (!k->daemons) {
        free_keeper(k);
        return;
    }
    for (Daemon *d = k->daemons, *next; d; d = next) {
        next = d->next;
        if (d->child.pid > 0)
            (void)kill(-d->child.pid, SIGKILL);
        subproc_done(&d->child);
        fd_close(&d->out_fd);
        if (!uv_is_closing((uv_handle_t *)&d->timer))
            uv_close((uv_handle_t *)&d->timer, free_daemon);
    }
}
