/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stoker sim run`: a simulated node for as long as a command runs, or until interrupted. Beside the image it
 * maintains the rest of a node: living processes, the trees of /proc and /sys, the kernel's log. `stoker sim env`: a
 * node that lives without a process of ours, and what a shell exports to use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/node/node.h"
#include "sim/scenario/library.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

enum { UPDATE_MS = 50 };

typedef struct BesideOptions {
    const char *tree, *kernel_log;
    int kernel_log_format; /* KernelLogFormat */
    bool enter, processes;
    bool boot_now; /* no start of the node was asked for: its processes are as old as they seem */
    bool no_tree;  /* but where one is named or entered */
} BesideOptions;

typedef struct Beside {
    SimImage *image;
    const char *tree_root; /* NULL: no tree */
    const char *tree_own;  /* the same when it is ours to remove, else NULL */
    const char *tree_dir;  /* folder that holds it then */
    NodeTree tree;
    KernelLog log;
    bool logs, lends;
    Lend lend;
} Beside;

typedef struct RunOptions {
    StartOptions start;
    BesideOptions beside;
} RunOptions;

static const char *const log_formats[] = {"kmsg", "dmesg", NULL};

static const OptSpec run_opts[] = {
    START_OPTS(RunOptions, start),
    OPT_ROW("tree", OPT_STRING, RunOptions, beside.tree, .metavar = "DIR",
            .help = "keep look-alikes of /proc, /sys and /dev in DIR up to date; without: in a folder of its own"),
    OPT_ROW("enter", OPT_BOOL, RunOptions, beside.enter, .help = "let the command see them as the real ones (root)"),
    OPT_ROW("kernel-log", OPT_STRING, RunOptions, beside.kernel_log, .metavar = "FILE",
            .help = "append the kernel's lines to FILE; 'kmsg': to the machine's own log, marked (root)"),
    OPT_ROW("kernel-log-format", OPT_ENUM, RunOptions, beside.kernel_log_format, .def = "kmsg", .names = log_formats,
            .help = "as /dev/kmsg is read, or as dmesg prints"),
    OPT_ROW("processes", OPT_BOOL, RunOptions, beside.processes, .def = "true",
            .help = "living processes under the names of the scenario's; without: made-up pids"),
};

/* --- beside the image ----------------------------------------------------------------------------------------------
 */

enum { BOOT_US = 100 * 1000 * 1000 }; /* the machine had been up for so long when the scenario began */

static int start_tree(Beside *b, const BesideOptions *o, const SimPlace *place, const char *image_path, Arena *arena,
                      Err *err)
{
    const char *slash = strrchr(image_path, '/');
    b->tree_root = o->tree;
    if (!b->tree_root) {
        b->tree_dir = slash ? arena_strndup(arena, image_path, (size_t)(slash - image_path)) : ".";
        b->tree_own = arena_printf(arena, "%s.tree", slash ? slash + 1 : image_path);
        b->tree_root = arena_printf(arena, "%s/%s", b->tree_dir, b->tree_own);
    }
    TRY(node_tree_write(b->image, b->tree_root, sim_clock_now(b->image),
                        NODE_TREE_DEVICES | (o->boot_now ? NODE_TREE_BOOT_NOW : 0), &b->tree, err));
    return node_tree_add_libraries(&b->tree, sim_place_library(arena, place, b->image), err);
}

/* The log lies at the device's place in the tree and starts empty. */
static int place_log_in_tree(const Beside *b, Arena *arena, const char **ret, Err *err)
{
    *ret = arena_printf(arena, "%s/dev/kmsg", b->tree_root);
    TRY(file_make_dirs(arena_printf(arena, "%s/dev", b->tree_root), 0755, err));
    if (unlink(*ret) < 0 && errno != ENOENT)
        return err_errno(err, "remove '%s'", *ret);
    return 0;
}

static int start_log(Beside *b, const BesideOptions *o, Arena *arena, Err *err)
{
    KernelLogSpec spec = {.path = o->kernel_log, .format = (KernelLogFormat)o->kernel_log_format, .boot_us = BOOT_US};
    if (!spec.path) {
        spec.format = KERNEL_LOG_KMSG;
        TRY(place_log_in_tree(b, arena, &spec.path, err));
    } else if (strcmp(o->kernel_log, "kmsg") == 0) {
        spec.path = "/dev/kmsg";
        spec.format = KERNEL_LOG_DEVICE;
    }
    b->logs = true;
    return kernel_log_open(&b->log, b->image, &spec, err);
}

/* Brings all of it up to now. The first error; the others are updated all the same. */
static int update_beside(Beside *b, Err *err)
{
    uint64_t now = sim_clock_now(b->image);
    int rc = 0, first = 0;
    if (b->lends && (rc = lend_update(&b->lend, now, err)) < 0)
        first = rc;
    if (b->tree_root && (rc = node_tree_update(&b->tree, now, first ? NULL : err)) < 0 && !first)
        first = rc;
    if (b->logs && (rc = kernel_log_write(&b->log, now, NULL, first ? NULL : err)) < 0 && !first)
        first = rc;
    return first;
}

/* Starts the parts that the options name, at the node's present time. Call stop_beside in any case. */
static int start_beside(Beside *b, const BesideOptions *o, const SimPlace *place, SimImage *image,
                        const char *image_path, Arena *arena, Err *err)
{
    memset(b, 0, sizeof *b);
    b->image = image;
    if (o->tree || o->enter || !o->no_tree)
        TRY(start_tree(b, o, place, image_path, arena, err));
    if (o->kernel_log || b->tree_root)
        TRY(start_log(b, o, arena, err));
    if (o->processes) {
        lend_start(&b->lend, image);
        b->lends = true;
    }
    return update_beside(b, err);
}

static void stop_beside(Beside *b)
{
    if (b->lends)
        lend_stop(&b->lend);
    if (b->logs)
        kernel_log_done(&b->log);
    if (b->tree_own)
        file_remove_tree(b->tree_dir, b->tree_own, NULL);
}

/* --- the command and signals ---------------------------------------------------------------------------------------
 */

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};

static int catch_signals(sigset_t *ret_old)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, ret_old);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The words after the scenario, for exec. */
static char **copy_words(VerbCall *call)
{
    char **argv = arena_calloc(call->arena, call->args.len, sizeof *argv);
    for (size_t i = 0; i + 1 < call->args.len; i++)
        argv[i] = arena_strdup(call->arena, call->args.items[i + 1]);
    return argv;
}

/* Starts the command, inside the node's tree if asked; if not, `stoker agent` finds the tree by STOKER_ROOT. 0 or
 * -errno. */
static int start_command(VerbCall *call, const Beside *beside, bool enter, const char *const *env, const sigset_t *mask,
                         pid_t *ret)
{
    const NodeCommand command = {.root = beside->tree_root,
                                 .enter = enter,
                                 .argv = (const char *const *)copy_words(call),
                                 .env = env,
                                 .mask = mask};
    if (!enter && beside->tree_root)
        setenv("STOKER_ROOT", beside->tree_root, 1);
    return node_spawn(&command, ret, &call->err);
}

enum { EXIT_NOT_STARTED = 127 }; /* as shells say it */

/* Signals and the end of the terminal. The kernel tells the latter to the session's leader only, which may be a shell
 * that waits for us; a hung-up terminal is seen by poll. */
typedef struct Watch {
    int signals;  /* of signalfd */
    int terminal; /* the controlling one, -1: none, or its end was handled */
} Watch;

/* Ends the command. Not by SIGHUP, which `stoker agent` and other daemons take for a reload. Returns 1 without one. */
static int end_with_terminal(Watch *watch, pid_t child)
{
    watch->terminal = -1;
    if (child > 0)
        kill(child, SIGTERM);
    return child <= 0;
}

/* 1 when the run is over; *code is its exit code. */
static int read_signals(Watch *watch, pid_t child, int *code)
{
    struct signalfd_siginfo si;
    while (read(watch->signals, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo != SIGCHLD && child <= 0)
            return 1;
        if (si.ssi_signo == SIGHUP && watch->terminal >= 0) {
            end_with_terminal(watch, child);
            continue;
        }
        if (si.ssi_signo != SIGCHLD) {
            if (si.ssi_code <= 0) /* sent to this process only: the terminal's signals reach the command too */
                kill(child, (int)si.ssi_signo);
            continue;
        }
        int status;
        if (child > 0 && waitpid(child, &status, WNOHANG) == child) {
            *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); /* as a shell reports it */
            return 1;
        }
    }
    return 0;
}

static void print_how(VerbCall *call, const RunOptions *o, const SimPlace *place, const SimImage *image,
                      const char *path, const char *root)
{
    printf("%s: %u GPUs, driver %s, scenario %s.\nIn another shell:\n\n", image->hostname, image->gpu_count,
           image->driver, image->scenario);
    sim_place_exports(call->arena, place, image, &(SimClient){path, root, o->start.strict}, "  ");
    puts("\nthen nvidia-smi, stoker sim show --watch, or anything else that asks the NVIDIA driver library.\n"
         "Ctrl-C ends the node.");
    fflush(stdout);
}

/* Keeps what lies beside the image up to date until the command ends or a signal comes. */
static int watch_node(VerbCall *call, Beside *beside, Watch *watch, pid_t child)
{
    int code = EXIT_FINE;
    bool failed = false;
    for (;;) {
        struct pollfd p[] = {{.fd = watch->signals, .events = POLLIN}, {.fd = watch->terminal}};
        const int ready = poll(p, ARRAY_LEN(p), UPDATE_MS);
        if (ready > 0 && p[0].revents && read_signals(watch, child, &code))
            return code;
        if (ready > 0 && p[1].revents && end_with_terminal(watch, child))
            return code;
        int rc = update_beside(beside, &call->err);
        if (rc < 0 && !failed)
            verb_fail(call, code); /* e.g. a full disk: reported once, tried again */
        failed = rc < 0;
    }
}

static int run_node(VerbCall *call, const RunOptions *o, const SimPlace *place, SimImage *image, const char *path)
{
    static Beside beside;
    const char *const *env = sim_place_env(call->arena, place, image, &(SimClient){path, NULL, o->start.strict});
    sigset_t old;
    CLEANUP_FD int sig_fd = catch_signals(&old);
    CLEANUP_FD int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    Watch watch = {sig_fd, terminal};
    pid_t child = 0;
    BesideOptions options = o->beside;
    options.boot_now = !o->start.start;
    options.no_tree = getenv("STOKER_ROOT") != NULL; /* the caller's own choice */
    int code, rc = start_beside(&beside, &options, place, image, path, call->arena, &call->err);
    sim_clock_set_speed(image, o->start.speed);
    code = rc < 0 ? EXIT_UNKNOWN : EXIT_NOT_STARTED;
    if (rc == 0 && call->args.len > 1)
        rc = start_command(call, &beside, o->beside.enter, env, &old, &child);
    else if (rc == 0)
        print_how(call, o, place, image, path, beside.tree_root);
    code = rc < 0 ? verb_fail(call, code) : watch_node(call, &beside, &watch, child);
    if (rc == 0) /* what happened until the very end */
        (void)update_beside(&beside, NULL);
    stop_beside(&beside);
    return code;
}

static int run_sim(VerbCall *call, const void *options)
{
    const RunOptions *o = options;
    SimPlace place;
    SimImage *image;
    const char *path;
    if (call->args.len == 0)
        return verb_failf(call, EXIT_USAGE, "which scenario? 'stoker sim list' lists them");
    if (o->beside.enter && call->args.len == 1)
        return verb_failf(call, EXIT_USAGE, "--enter needs a command to run inside");
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = sim_start(call, &o->start, call->args.items[0], true, &place, &image, &path);
    if (code)
        return code;
    code = run_node(call, o, &place, image, path);
    sim_image_close(image);
    if (!o->start.image)
        unlink(path);
    return code;
}

static void add_scenarios(Arena *arena, Str *out)
{
    SimPlace place;
    size_t count = 0;
    Err err;

    if (sim_place_find(arena, &place, &err) < 0)
        return;
    const char *const *names = library_names(place.scenario_dirs, arena, &count);
    for (size_t i = 0; i < count; i++)
        str_addf(out, "%s\n", names[i]);
}

const Verb verb_sim_run = {
    .name = "run",
    .summary = "run a simulated node, and a command on it",
    .usage = "[OPTION...] SCENARIO [-- COMMAND [ARG...]]",
    .description =
        "The command finds a driver library, and a small nvidia-smi, that answer from the scenario. Without a "
        "command the node runs until interrupted and says how to use it.",
    .examples = "stoker sim run default -- nvidia-smi\n"
                "stoker sim run --speed 60 a-bad-week\n"
                "stoker sim run --strict stderr healthy-training -- nvtop",
    .exit_codes = "the command's own, 127 if it could not be started; without one:\n0  interrupted\n2  the command "
                  "line or the scenario is wrong\n"
                  "3  the node could not be made",
    VERB_OPTS(run_opts, RunOptions),
    .run = run_sim,
    .add_values = add_scenarios,
};

/* --- a node without a process of ours ----------------------------------------------------------------------------- */

static const OptSpec env_opts[] = {START_OPTS(RunOptions, start)};

static int env_run(VerbCall *call, const void *options)
{
    const RunOptions *o = options;
    SimPlace place;
    SimImage *image;
    const char *path;
    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "takes one scenario; 'stoker sim list' lists them");
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int code = sim_start(call, &o->start, call->args.items[0], false, &place, &image, &path);
    if (code)
        return code;
    sim_clock_set_speed(image, o->start.speed);
    sim_place_exports(call->arena, &place, image, &(SimClient){path, NULL, o->start.strict}, "");
    sim_image_close(image);
    return EXIT_FINE;
}

const Verb verb_sim_env = {
    .name = "env",
    .summary = "make a node and print the exports to use it from any shell",
    .usage = "[OPTION...] SCENARIO",
    .description = "The node is a file in memory that lives until it is removed; its time goes on by itself. Processes "
                   "on it have made-up ids: 'stoker sim run' lends living ones.",
    .examples = "eval \"$(stoker sim env default)\"\nnvidia-smi -L",
    VERB_OPTS(env_opts, RunOptions),
    .run = env_run,
    .add_values = add_scenarios,
};
