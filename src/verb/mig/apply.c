/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker mig apply` and `restore`: carry a plan out, remember it before the first step, and put back what failed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "engine/mig/watch.h"
#include "verb/agent/control.h"
#include "verb/mig/hooks.h"
#include "verb/mig/mig.h"
#include "verb/past.h"

enum {
    CHANGE_MAX = 4 << 20,
    RESET_MS = 300 * 1000,
    RELEASE_S = 600,
    RELEASE_WAIT_MS = 30 * 1000,
    ASK_MS = 3000,
    POLL_MS = 200,
};

/* What the functions of MigOps are handed. */
typedef struct Applying {
    MigSession *session;
    const char *file; /* the change under way */
    bool alone;       /* no agent answers */
} Applying;

/* --- the driver, for engine/mig/apply.h --------------------------------------------------------------------------- */

static MigDriver *driver_of(void *at)
{
    return ((Applying *)at)->session->driver;
}

static int op_read(void *at, const MigNode **ret, Err *err)
{
    MigSession *session = ((Applying *)at)->session;
    TRY(mig_session_read(session, err));
    *ret = session->node;
    return 0;
}

static int op_set_mode(void *at, unsigned gpu, bool on, Err *err)
{
    return mig_driver_set_mode(driver_of(at), gpu, on, err);
}

static int op_destroy(void *at, unsigned gpu, uint32_t id, Err *err)
{
    return mig_driver_destroy(driver_of(at), gpu, id, err);
}

static int op_create(void *at, unsigned gpu, const MigInstance *instance, Err *err)
{
    return mig_driver_create(driver_of(at), gpu, instance, err);
}

static int op_recompute(void *at, unsigned gpu, uint32_t id, const MigInstance *instance, Err *err)
{
    return mig_driver_recompute(driver_of(at), gpu, id, instance, err);
}

static int op_reopen(void *at, Err *err)
{
    MigSession *session = ((Applying *)at)->session;
    const MigVerbOptions *o = session->options;
    mig_session_close(session);
    return mig_driver_open(o->library ? o->library : "", o->timeout_ns / NS_PER_MS, &session->driver, err);
}

static int run_reset(const char *pci, Err *err)
{
    const char *const argv[] = {"nvidia-smi", "--gpu-reset", "-i", pci, NULL};
    if (mig_run_program(&(SubprocSpec){.argv = argv, .pipe_out = true}, RESET_MS, err) < 0)
        return err_add(err, "reset of %s", pci);
    return 0;
}

/* Our own handle on the driver would keep the GPU from being reset. */
static int op_reset(void *at, unsigned gpu, Err *err)
{
    MigSession *session = ((Applying *)at)->session;
    char pci[sizeof session->node->gpus[0].pci];
    if (session->options->skip_reset)
        return err_set(err, -EAGAIN, "the mode is in force only after a reset, and --skip-reset forbids it");
    memcpy(pci, session->node->gpus[gpu].pci, sizeof pci);
    mig_session_close(session);
    const int rc = run_reset(pci, err);
    Err reopened = {0};
    if (op_reopen(at, &reopened) < 0)
        return rc < 0 ? rc : err_set(err, reopened.code, "%s", reopened.text);
    TRY(mig_session_read(session, err));
    return rc;
}

static int op_remember(void *at, const MigChange *change, Err *err)
{
    const Applying *applying = at;
    CLEANUP(str_done) Str text = str_limited(CHANGE_MAX);
    mig_change_write(change, applying->session->node, &text);
    return file_write(applying->file, text.text, text.len, 0600, err);
}

static void op_forget(void *at, MigEnd end)
{
    (void)end;
    (void)unlink(((Applying *)at)->file);
}

static const MigOps driver_ops = {.read = op_read,
                                  .set_mode = op_set_mode,
                                  .reset = op_reset,
                                  .destroy = op_destroy,
                                  .create = op_create,
                                  .recompute = op_recompute,
                                  .reopen = op_reopen,
                                  .remember = op_remember,
                                  .forget = op_forget};

/* --- the agent: it lets the driver go while a GPU is reset, and keeps who changed what ---------------------------- */

static bool ask_agent(const Applying *applying, const char *line, Str *out)
{
    int code;
    const VerbCall *call = applying->session->call;
    Err err = {0};
    str_clear(out);
    return control_ask(control_path(applying->session->options->control, call->arena), line, ASK_MS, out, &code,
                       &err) == 0 &&
           code == EXIT_FINE;
}

static void release_agent(const Applying *applying)
{
    char line[32];
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);
    Clock *clock = clock_kernel();
    const uint64_t until = clock_monotonic(clock) + (uint64_t)RELEASE_WAIT_MS * NS_PER_MS;
    snprintf(line, sizeof line, "release %d", RELEASE_S);
    if (!ask_agent(applying, line, &out))
        return;
    while (ask_agent(applying, "released", &out) && strcmp(out.text, "0\n") != 0 && clock_monotonic(clock) < until)
        clock_sleep(clock, POLL_MS * NS_PER_MS);
}

/* What the agent is told of each GPU of a change. */
typedef struct Notices {
    const MigChange *change;
    MigNotice gpus[MIG_GPUS_MAX];
} Notices;

/* The reason that was given, else the configuration or the file. */
static const char *find_reason(const MigSession *session)
{
    const MigVerbOptions *o = session->options;
    const char *file = o->file && strcmp(o->file, "-") != 0 ? o->file : "the standard input";

    if (o->reason)
        return o->reason;
    if (o->config && o->file)
        return arena_printf(session->call->arena, "%s of %s", o->config, file);
    return o->file ? file : "";
}

/* From the layouts of now; `undone`: of a change that was cut off. */
static Notices *make_notices(const MigSession *session, const MigChange *change, bool undone)
{
    const VerbCall *call = session->call;
    Notices *ret = arena_calloc(call->arena, 1, sizeof *ret);

    ret->change = change;
    for (size_t i = 0; i < change->count; i++) {
        MigNotice *notice = &ret->gpus[i];
        const MigGpu *gpu = &session->node->gpus[change->gpus[i].index];

        *notice = (MigNotice){.pid = (uint32_t)getpid()};
        snprintf(notice->who, sizeof notice->who, "%s", past_who(call->arena));
        snprintf(notice->verb, sizeof notice->verb, "%s", strrchr(call->path, ' ') + 1);
        snprintf(notice->why, sizeof notice->why, "%s", find_reason(session));
        mig_layout_devices(&gpu->board, undone ? &gpu->now : &change->gpus[i].before, notice->before);
        mig_layout_devices(&gpu->board, undone ? &change->gpus[i].before : &change->gpus[i].after, notice->after);
    }
    return ret;
}

/* An agent that does not answer once is not asked again. */
static void tell_agent(Applying *applying, Notices *notices, MigNoticeKind kind, const char *failed)
{
    CLEANUP(str_done) Str line = str_limited(CONTROL_LINE_MAX), out = str_limited(CONTROL_REPLY_MAX);

    for (size_t i = 0; i < notices->change->count && !applying->alone; i++) {
        MigNotice notice = notices->gpus[i];
        const size_t len = strlen(notice.why);

        notice.kind = kind;
        snprintf(notice.why + len, sizeof notice.why - len, "%s%s", len && failed[0] ? "; " : "", failed);
        str_clear(&line);
        str_add(&line, "mig ");
        mig_notice_write(&notice, notices->change->gpus[i].uuid, &line);
        applying->alone = !ask_agent(applying, line.text, &out);
    }
}

static void tell_end(Applying *applying, Notices *notices, MigEnd end, const char *failed)
{
    static const MigNoticeKind kinds[] = {[MIG_END_DONE] = MIG_NOTICE_APPLIED,
                                          [MIG_END_RESTORED] = MIG_NOTICE_PUT_BACK,
                                          [MIG_END_PARTIAL] = MIG_NOTICE_PARTIAL};

    if (end != MIG_END_NOT_BEGUN)
        tell_agent(applying, notices, kinds[end], end == MIG_END_DONE ? "" : failed);
}

static bool takes_reset(const MigSession *session)
{
    for (size_t i = 0; i < session->plan.count; i++)
        if (session->gpus[i].plan.mode_change && session->gpus[i].gpu->needs_reset)
            return true;
    return false;
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* Between two steps of a change a signal does nothing: that would leave the change half done. */
void mig_catch_signals(void)
{
    const struct sigaction action = {.sa_handler = note_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool mig_interrupted(void)
{
    return interrupted;
}

/* --- one apply ---------------------------------------------------------------------------------------------------- */

static void make_change(const MigSession *session, MigChange *ret)
{
    *ret = (MigChange){0};
    for (size_t i = 0; i < session->plan.count; i++) {
        const MigGpuPlan *one = &session->gpus[i];
        if (!one->asked || !mig_plan_changes(&one->plan))
            continue;
        MigChangeGpu *to = &ret->gpus[ret->count++];
        *to = (MigChangeGpu){.index = one->gpu->index, .before = one->gpu->now};
        memcpy(to->uuid, one->gpu->uuid, sizeof to->uuid);
        mig_plan_result(&one->gpu->now, &one->plan, one->wanted.enabled, &to->after);
    }
}

static int report_end(VerbCall *call, MigEnd end, const Err *err)
{
    switch (end) {
    case MIG_END_DONE:
        return EXIT_FINE;
    case MIG_END_NOT_BEGUN:
        return verb_failf(call, EXIT_UNKNOWN, "nothing was changed: %s", err->text);
    case MIG_END_RESTORED:
        return verb_failf(call, MIG_EXIT_RESTORED, "%s; the layout of before was put back", err->text);
    case MIG_END_PARTIAL:
        break;
    }
    return verb_failf(call, MIG_EXIT_PARTIAL, "%s; run 'stoker mig apply' again when the driver answers", err->text);
}

/* A change that was cut off earlier is ended before anything else. */
static int end_earlier(Applying *applying)
{
    MigSession *session = applying->session;
    CLEANUP(str_done) Str text = str_limited(CHANGE_MAX);
    MigChange *change = arena_alloc(session->call->arena, sizeof *change);
    Err err = {0};
    int rc = file_read(applying->file, CHANGE_MAX, &text, &err);
    if (rc == -ENOENT)
        return EXIT_FINE;
    if (rc == 0)
        rc = mig_change_read(text.text, text.len, session->node, change, &err);
    if (rc == -ENODEV)
        return verb_failf(session->call, EXIT_UNKNOWN, "%s holds a change that was cut off and cannot be ended yet: %s",
                          applying->file, err.text);
    if (rc < 0)
        return verb_failf(session->call, EXIT_UNKNOWN,
                          "%s holds a change that was cut off and cannot be read: %s; remove it to go on without",
                          applying->file, err.text);
    Notices *notices = make_notices(session, change, true);
    const MigEnd end = mig_change_resume(&driver_ops, applying, change, &err);
    if (end == MIG_END_RESTORED)
        tell_agent(applying, notices, MIG_NOTICE_UNDONE, "");
    if (end == MIG_END_PARTIAL)
        return report_end(session->call, end, &err);
    fprintf(stderr, "%s: a change that was cut off was %s\n", session->call->path,
            end == MIG_END_DONE ? "complete" : "undone");
    return mig_session_read(session, &session->call->err) < 0 ? verb_fail(session->call, EXIT_UNKNOWN) : EXIT_FINE;
}

static int run_hooks(const MigSession *session, const MigHooks *hooks, MigHookPoint point)
{
    return mig_hooks_run(hooks, point, &session->call->err) < 0 ? verb_fail(session->call, MIG_EXIT_RESTORED)
                                                                : EXIT_FINE;
}

static int change_layouts(Applying *applying, const MigHooks *hooks)
{
    MigSession *session = applying->session;
    MigChange *change = arena_alloc(session->call->arena, sizeof *change);
    Err err = {0};
    bool mode = false;
    make_change(session, change);
    for (size_t i = 0; i < session->plan.count; i++)
        mode |= session->gpus[i].plan.mode_change;
    int code = mode ? run_hooks(session, hooks, MIG_HOOK_MODE) : EXIT_FINE;
    if (code == EXIT_FINE && change->count)
        code = run_hooks(session, hooks, MIG_HOOK_CONFIG);
    if (code != EXIT_FINE || !change->count)
        return code;
    const bool reset = takes_reset(session) && !session->options->skip_reset;
    if (reset)
        release_agent(applying);
    MigOps ops = driver_ops;
    ops.mode_later = session->options->skip_reset && session->options->mode_only;
    Notices *notices = make_notices(session, change, false);
    tell_agent(applying, notices, MIG_NOTICE_BEGUN, "");
    const MigEnd end = mig_change_apply(&ops, applying, change, &err);
    tell_end(applying, notices, end, err.text);
    code = report_end(session->call, end, &err);
    for (size_t i = 0; code == EXIT_FINE && ops.mode_later && i < session->node->count; i++)
        if (session->node->gpus[i].pending != session->node->gpus[i].now.enabled)
            printf("GPU %u: MIG is %s after a reset of the GPU or a reboot\n", session->node->gpus[i].index,
                   session->node->gpus[i].pending ? "enabled" : "disabled");
    CLEANUP(str_done) Str out = str_limited(CONTROL_REPLY_MAX);
    if (reset)
        (void)ask_agent(applying, "release 0", &out);
    return code;
}

/* Only one apply at a time: two would undo each other. */
static int take_lock(const char *file, VerbCall *call, int *ret_fd)
{
    const char *path = arena_printf(call->arena, "%s.lock", file);
    if (mig_make_folder(file, call) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    *ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*ret_fd < 0)
        return verb_failf(call, EXIT_UNKNOWN, "open '%s': %s", path, strerror(errno));
    if (flock(*ret_fd, LOCK_EX | LOCK_NB) < 0)
        return verb_failf(call, MIG_EXIT_BUSY, "another 'stoker mig' is changing layouts (%s)", path);
    return EXIT_FINE;
}

static int fail_busy(MigSession *session, const MigGpuPlan *blocked)
{
    CLEANUP(str_done) Str text = str_limited(CHANGE_MAX), who = str_limited(300);
    for (size_t i = 0; i < session->plan.count; i++)
        if (session->gpus[i].blocker_count)
            mig_gpu_plan_text(&session->gpus[i], &text);
    fputs(text.text, stderr);
    if (interrupted)
        return verb_failf(session->call, MIG_EXIT_BUSY, "interrupted while GPU %u was in use; nothing was changed",
                          blocked->gpu->index);
    mig_blocker_text(&blocked->blockers[0], &who);
    if (blocked->blocker_count > 1)
        str_addf(&who, " and %zu more", blocked->blocker_count - 1);
    return verb_failf(session->call, MIG_EXIT_BUSY, "GPU %u is in use by %s; nothing was changed", blocked->gpu->index,
                      who.text);
}

static int read_and_plan(MigSession *session, const MigSteps *steps)
{
    return mig_session_read(session, &session->call->err) < 0 ? verb_fail(session->call, EXIT_UNKNOWN)
                                                              : steps->plan(session, steps->at);
}

/* Refused while a process is in the way, unless it goes in time. */
static int wait_free(MigSession *session, const MigSteps *steps)
{
    Clock *clock = clock_kernel();
    const uint64_t until = clock_monotonic(clock) + session->options->wait_ns;
    const MigGpuPlan *blocked;
    while ((blocked = mig_session_blocked(session)) && clock_monotonic(clock) < until && !interrupted) {
        clock_sleep(clock, NS_PER_S);
        const int code = read_and_plan(session, steps);
        if (code != EXIT_FINE)
            return code;
    }
    return blocked ? fail_busy(session, blocked) : EXIT_FINE;
}

static bool changes_anything(const MigSession *session)
{
    bool changes = false;
    for (size_t i = 0; i < session->plan.count; i++)
        changes |= session->gpus[i].asked && mig_plan_changes(&session->gpus[i].plan);
    return changes;
}

static int apply_planned(Applying *applying, const MigSteps *steps, const MigHooks *hooks)
{
    MigSession *session = applying->session;
    int code = end_earlier(applying);
    if (code == EXIT_FINE)
        code = steps->plan(session, steps->at);
    if (code == EXIT_FINE)
        code = mig_session_check(session);
    if (code == EXIT_FINE && steps->before && changes_anything(session)) {
        code = steps->before(session, steps->at);
        if (code == EXIT_FINE)
            code = read_and_plan(session, steps);
        if (code == EXIT_FINE)
            code = mig_session_check(session);
    }
    if (code == EXIT_FINE)
        code = wait_free(session, steps);
    return code == EXIT_FINE ? change_layouts(applying, hooks) : code;
}

int mig_apply(VerbCall *call, const MigVerbOptions *o, const MigSteps *steps)
{
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    CLEANUP_FD int lock = -1;
    const MigHooks *hooks = NULL;
    Applying applying = {.session = session, .file = o->state};
    if (o->hooks && mig_hooks_read(o->hooks, call->arena, &hooks, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    int code = take_lock(o->state, call, &lock);
    if (code == EXIT_FINE)
        code = mig_session_open(session, call, o);
    if (code != EXIT_FINE)
        return code;
    code = run_hooks(session, hooks, MIG_HOOK_START);
    if (code == EXIT_FINE)
        code = apply_planned(&applying, steps, hooks);
    Err err = {0};
    if (mig_hooks_run(hooks, MIG_HOOK_EXIT, &err) < 0)
        fprintf(stderr, "%s: %s\n", call->path, err.text);
    return code == EXIT_FINE ? mig_session_name_left_out(session) : code;
}

static int apply_once(VerbCall *call, const MigVerbOptions *o, const MigSteps *steps, const char *done)
{
    mig_catch_signals();
    const int code = mig_apply(call, o, steps);
    if (code == EXIT_FINE)
        puts(done);
    return code;
}

/* --- apply -------------------------------------------------------------------------------------------------------- */

static const OptSpec apply_opts[] = {
    MIG_REQUEST_OPTS,
    MIG_CHANGE_OPTS("0s"),
    MIG_NODE_OPTS,
};

static int plan_apply(MigSession *session, void *request)
{
    return mig_session_plan(session, request);
}

static int apply_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    MigRequest request;
    if (mig_read_request(call, o, &request, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    return apply_once(call, o, &(MigSteps){.plan = plan_apply, .at = &request},
                      "MIG configuration applied successfully");
}

const Verb verb_mig_apply = {
    .name = "apply",
    .summary = "carry a layout out, or leave everything as it was",
    .usage = "[--file FILE [--config NAME] | GPU=LAYOUT...]",
    .description =
        "Does what 'stoker mig plan' shows. Nothing is touched where the layout cannot be had or a process is in the "
        "way. Before the first step the change is written to --state; where a step fails or does not return, the "
        "layout "
        "of before is put back; where this program is killed, the next 'stoker mig apply' or 'restore' ends the change "
        "first. What was made is read back from the driver. A running agent lets the driver go while a GPU is reset.",
    .examples = "stoker mig apply -f config.yaml -c all-balanced\n"
                "stoker mig apply gpu0=3g.40gb+4g.40gb --wait 10m",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(apply_opts, MigVerbOptions),
    .run = apply_run,
};

/* --- restore ------------------------------------------------------------------------------------------------------ */

static const OptSpec restore_opts[] = {
    OPT_ROW("file", OPT_STRING, MigVerbOptions, file, .short_flag = 'f', .env = "MIG_PARTED_CHECKPOINT_FILE",
            .metavar = "FILE", .def = "/var/lib/stoker/mig-state.json", .help = "what 'stoker mig checkpoint' wrote"),
    OPT_ROW("mode-only", OPT_BOOL, MigVerbOptions, mode_only, .short_flag = 'm', .env = "MIG_PARTED_MODE_CHANGE_ONLY",
            .help = "the MIG mode alone, no instances"),
    MIG_CHANGE_OPTS("0s"),
    MIG_NODE_OPTS,
};

static int plan_restore(MigSession *session, void *request)
{
    const Str *text = request;
    MigLayout wanted[MIG_GPUS_MAX];
    bool asked[MIG_GPUS_MAX];
    Err *err = &session->call->err;
    const int rc = mig_state_read(text->text, text->len, session->node, wanted, asked, err);
    if (rc < 0) {
        err_add(err, "%s", session->options->file);
        return verb_fail(session->call, rc == -ENOENT ? MIG_EXIT_PROFILE : EXIT_USAGE);
    }
    for (size_t i = 0; i < session->node->count; i++) {
        const MigGpu *gpu = &session->node->gpus[i];
        session->left_out[i] = asked[i] && gpu->why[0];
        asked[i] &= !gpu->why[0];
        if (asked[i] && session->options->mode_only)
            mig_keep_instances(gpu, &wanted[i]);
    }
    mig_session_plan_layouts(session, wanted, asked);
    return mig_session_check_any(session);
}

static int restore_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    CLEANUP(str_done) Str text = str_limited(CHANGE_MAX);
    if (mig_read_file(o->file, &text, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    return apply_once(call, o, &(MigSteps){.plan = plan_restore, .at = &text},
                      "MIG configuration restored successfully");
}

const Verb verb_mig_restore = {
    .name = "restore",
    .summary = "bring back the layout that was kept by checkpoint",
    .usage = "[--file FILE]",
    .description =
        "Brings each GPU of the file back to its mode, instances and places. Instances that stand there already "
        "are not touched.",
    .examples = "stoker mig restore -f before.json",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(restore_opts, MigVerbOptions),
    .no_args = "",
    .run = restore_run,
};
