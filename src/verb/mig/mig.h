/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the subverbs of `stoker mig` share: options, the node as the driver reports it, and plans for it. One thread. */

#include "base/cleanup.h"
#include "service/mig/mig_report.h"
#include "source/mig/mig_driver.h"
#include "verb/agent/local_node.h"
#include "verb/verb.h"

/* Exit codes beside the common ones. */
enum { MIG_EXIT_PROFILE = 4, MIG_EXIT_PLACEMENT = 5, MIG_EXIT_BUSY = 6, MIG_EXIT_RESTORED = 7, MIG_EXIT_PARTIAL = 8 };

extern const char mig_exit_codes[];

typedef struct MigVerbOptions {
    const char *board, *file, *config, *hooks, *state, *control, *library, *root, *label, *reason;
    uint64_t timeout_ns, wait_ns;
    bool mode_only, skip_reset, json, valid;
    int format;
} MigVerbOptions;

#define MIG_NODE_OPTS                                                                                                  \
    OPT_ROW("driver-library", OPT_STRING, MigVerbOptions, library, .env = "STOKER_DRIVER_LIBRARY", .metavar = "FILE",  \
            .help = "the driver's library"),                                                                           \
        OPT_ROW("timeout", OPT_DURATION, MigVerbOptions, timeout_ns, .def = "60s", .min = 1e9, .max = 3600e9,          \
                .help = "how long one call of the driver may take"),                                                   \
        OPT_ROW("root", OPT_STRING, MigVerbOptions, root, .flags = OPT_HIDDEN, .env = "STOKER_ROOT", .metavar = "DIR", \
                .help = "read /proc below DIR")

#define MIG_REQUEST_OPTS                                                                                               \
    OPT_ROW("file", OPT_STRING, MigVerbOptions, file, .short_flag = 'f', .env = "MIG_PARTED_CONFIG_FILE",              \
            .metavar = "FILE", .help = "configurations in mig-parted's format v1; - is the standard input"),           \
        OPT_ROW("config", OPT_STRING, MigVerbOptions, config, .short_flag = 'c', .env = "MIG_PARTED_SELECTED_CONFIG",  \
                .metavar = "NAME", .help = "which of them; without: the only one"),                                    \
        OPT_ROW("mode-only", OPT_BOOL, MigVerbOptions, mode_only, .short_flag = 'm',                                   \
                .env = "MIG_PARTED_MODE_CHANGE_ONLY", .help = "the MIG mode alone, no instances")

#define MIG_CHANGE_OPTS(wait_default)                                                                                  \
    OPT_ROW("hooks", OPT_STRING, MigVerbOptions, hooks, .short_flag = 'k', .env = "MIG_PARTED_HOOKS_FILE",             \
            .metavar = "FILE", .help = "programs to run around the steps, in mig-parted's format v1"),                 \
        OPT_ROW("skip-reset", OPT_BOOL, MigVerbOptions, skip_reset, .short_flag = 's', .env = "MIG_PARTED_SKIP_RESET", \
                .help = "never reset a GPU"),                                                                          \
        OPT_ROW("wait", OPT_DURATION, MigVerbOptions, wait_ns, .def = wait_default, .max = 86400e9,                    \
                .help = "how long to wait for processes that are in the way; 0: refuse at once"),                      \
        OPT_ROW("state", OPT_STRING, MigVerbOptions, state, .def = "/var/lib/stoker/mig-change.json",                  \
                .metavar = "FILE", .help = "where a change is remembered until it is complete"),                       \
        OPT_ROW("reason", OPT_STRING, MigVerbOptions, reason, .metavar = "TEXT",                                       \
                .help = "why, for 'stoker events' (without: the configuration's name and file)"),                      \
        OPT_ROW("control", OPT_STRING, MigVerbOptions, control, .metavar = "FILE",                                     \
                .help = "the agent's control socket")

/* A driver, its node and a plan for it. Begins zeroed. */
typedef struct MigSession {
    VerbCall *call;
    const MigVerbOptions *options;
    MigDriver *driver;
    const MigNode *node; /* as last read */
    MigGpuPlan gpus[MIG_GPUS_MAX];
    MigNodePlan plan;
    bool left_out[MIG_GPUS_MAX]; /* something is wanted of it, but it could not be read: it is not in the plan */
} MigSession;

/* Opens the driver and reads the node. An exit code; what is wrong is printed. */
int mig_session_open(MigSession *session, VerbCall *call, const MigVerbOptions *options);
/* The same without a driver, by the table of --board: one GPU with MIG and without instances. */
int mig_session_open_board(MigSession *session, VerbCall *call, const MigVerbOptions *options);
void mig_session_close(MigSession *session);
CLEANUP_POINTER(MigSession, mig_session_close);

/* Reads the node again; -errno as mig_driver_read. */
int mig_session_read(MigSession *session, Err *err);

/* Reads what is wanted: --file and --config, or words. -errno, of which -ENOENT is a configuration that is not there.
 */
int mig_read_request(VerbCall *call, const MigVerbOptions *options, MigRequest *ret, Err *err);

/* Plans the request for every GPU of the node. EXIT_FINE, or what is wrong is printed: the request is wrong, matches no
 * GPU, names one that could not be read, or a board has no such profile. A layout that cannot be placed is no error
 * here; one of all GPUs that could not be read is left out. */
int mig_session_plan(MigSession *session, const MigRequest *request);
/* The same for layouts with places. */
void mig_session_plan_layouts(MigSession *session, const MigLayout *wanted, const bool *asked);

/* For --mode-only: the instances stay as they are where the mode does, else none are wanted. */
void mig_keep_instances(const MigGpu *gpu, MigLayout *wanted);

/* Prints which GPUs are left out: EXIT_FINDING; EXIT_FINE where none is. */
int mig_session_name_left_out(const MigSession *session);
/* EXIT_UNKNOWN, and says why, where GPUs are left out and nothing else is planned. */
int mig_session_check_any(const MigSession *session);
/* Prints why the plan cannot be had; EXIT_FINE where it can. */
int mig_session_check(MigSession *session);
/* The first GPU that a process keeps from being changed; NULL. */
const MigGpuPlan *mig_session_blocked(const MigSession *session);

/* --- apply.c ------------------------------------------------------------------------------------------------------ */

/* What mig_apply carries out. Both functions return an exit code and are handed `at`. */
typedef struct MigSteps {
    int (*plan)(MigSession *session, void *at);
    /* Called once where the plan changes something, before the wait for processes; the plan is then made anew. NULL:
     * nothing to do. */
    int (*before)(MigSession *session, void *at);
    void *at;
} MigSteps;

/* Ends a change that was cut off, then plans and applies. An exit code; what is wrong is printed and in call->err.
 * EXIT_FINE: the planned layout was read back from the driver. EXIT_FINDING: so it was, but a GPU is left out. */
int mig_apply(VerbCall *call, const MigVerbOptions *options, const MigSteps *steps);

/* SIGINT, SIGTERM and SIGHUP end the waiting from now on, but no change that is under way. */
void mig_catch_signals(void);
bool mig_interrupted(void);

/* Makes the folder that a file is to lie in. */
int mig_make_folder(const char *file, VerbCall *call);
/* Reads a file or the standard input, to 1 MiB. */
int mig_read_file(const char *path, Str *to, Err *err);
