/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker mig`: plans, applies and keeps MIG layouts. plan, assert, export and checkpoint are here; they change
 * nothing. */
#include "verb/mig/mig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/file.h"
#include "source/proc/who.h"

enum { FILE_MAX = 1 << 20, REPORT_MAX = 4 << 20 };

const char mig_exit_codes[] = "0  done, or possible\n"
                              "1  it is not so (assert), or a GPU that could not be read is left out\n"
                              "2  the command line or the file is wrong\n"
                              "3  the driver does not answer or refuses, or --state cannot be written\n"
                              "4  a board has no such profile\n"
                              "5  the layout cannot be placed\n"
                              "6  a process uses what would be changed\n"
                              "7  a step failed; the layout of before was put back\n"
                              "8  a step failed, and the layout of before could not be put back";

/* --- the node ----------------------------------------------------------------------------------------------------- */

int mig_session_read(MigSession *session, Err *err)
{
    return mig_driver_read(session->driver, &session->node, err);
}

int mig_session_open(MigSession *session, VerbCall *call, const MigVerbOptions *options)
{
    *session = (MigSession){.call = call, .options = options};
    int rc = mig_driver_open(options->library ? options->library : "", options->timeout_ns / NS_PER_MS,
                             &session->driver, &call->err);
    if (rc == 0)
        rc = mig_session_read(session, &call->err);
    return rc < 0 ? verb_fail(call, EXIT_UNKNOWN) : EXIT_FINE;
}

void mig_session_close(MigSession *session)
{
    mig_driver_close(session->driver);
    session->driver = NULL;
}

int mig_make_folder(const char *file, VerbCall *call)
{
    char *folder = arena_strdup(call->arena, file), *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return 0;
    *slash = '\0';
    return file_make_dirs(folder, 0755, &call->err);
}

int mig_read_file(const char *path, Str *to, Err *err)
{
    return verb_read_file(path, FILE_MAX, to, err);
}

/* --- what is wanted ----------------------------------------------------------------------------------------------- */

int mig_read_request(VerbCall *call, const MigVerbOptions *options, MigRequest *ret, Err *err)
{
    CLEANUP(str_done) Str text = str_limited(FILE_MAX);
    const YamlNode *root;
    if (!options->file && call->args.len == 0)
        return err_set(err, -EINVAL, "no layout is given: --file FILE, or words such as gpu0=3g.40gb+4g.40gb");
    if (options->file && call->args.len > 0)
        return err_set(err, -EINVAL, "a layout comes from --file or from words, not both: %s", call->args.items[0]);
    if (!options->file)
        return mig_request_parse(call->args.items, call->args.len, call->arena, ret, err);
    TRY(mig_read_file(options->file, &text, err));
    TRY(yaml_load(options->file, text.text, text.len, call->arena, &root, err));
    return mig_request_read(root, options->config, call->arena, ret, err);
}

/* Position in the layout of now of the instance that a process is in; -1: the whole GPU. */
static int find_instance(const MigGpu *gpu, uint32_t id)
{
    for (size_t i = 0; i < gpu->now.count; i++)
        if (gpu->now.instances[i].id == id)
            return (int)i;
    return -1;
}

/* A process is in the way where its instance is destroyed or changed, and wherever it is when the mode changes. */
static void add_blockers(const MigSession *session, PodNames *pods, MigGpuPlan *one)
{
    uint32_t blocked = 0;
    for (size_t i = 0; i < one->plan.blocked_count; i++)
        blocked |= 1u << one->plan.blocked[i];
    for (size_t i = 0; i < one->gpu->process_count && one->blocker_count < MIG_BLOCKERS_MAX; i++) {
        const MigProcess *process = &one->gpu->processes[i];
        MigBlocker *blocker = &one->blockers[one->blocker_count];
        *blocker = (MigBlocker){.pid = process->pid, .instance = find_instance(one->gpu, process->gpu_instance)};
        if (one->wanted.enabled == one->gpu->now.enabled &&
            (blocker->instance < 0 || !(blocked >> blocker->instance & 1)))
            continue;
        process_owner_init(&blocker->owner, blocker->pid);
        process_owners_fill(session->options->root ? session->options->root : "", pods, &blocker->owner, 1);
        one->blocker_count++;
    }
}

static void plan_gpu(const MigSession *session, PodNames *pods, MigGpuPlan *one)
{
    const MigGpu *gpu = one->gpu;
    mig_plan_gpu(gpu, &one->wanted, &one->plan);
    if (one->plan.outcome == MIG_POSSIBLE)
        add_blockers(session, pods, one);
    else
        one->nearest_count = mig_nearest(&gpu->board, &one->wanted, one->nearest, MIG_NEAREST_SHOWN);
}

void mig_session_plan_layouts(MigSession *session, const MigLayout *wanted, const bool *asked)
{
    PodNames pods = {0};
    session->plan.count = session->node->count;
    session->plan.gpus = session->gpus;
    for (size_t i = 0; i < session->node->count; i++) {
        session->gpus[i] = (MigGpuPlan){.gpu = &session->node->gpus[i], .asked = asked[i]};
        if (!asked[i])
            continue;
        session->gpus[i].wanted = wanted[i];
        plan_gpu(session, &pods, &session->gpus[i]);
    }
    pod_names_done(&pods);
}

void mig_keep_instances(const MigGpu *gpu, MigLayout *wanted)
{
    if (wanted->enabled == gpu->now.enabled)
        *wanted = gpu->now;
    else
        *wanted = (MigLayout){.enabled = wanted->enabled};
}

static MigTarget target_of(const MigGpu *gpu)
{
    return (MigTarget){.index = gpu->index, .uuid = gpu->uuid, .device = gpu->device, .subsystem = gpu->subsystem};
}

/* One that could not be read: refused where it is named, else left out. One that hangs before it says its UUID may be a
 * named one that no other GPU is. */
static int resolve_unread(MigSession *session, const MigRequest *request, const MigGpu *gpu)
{
    MigTarget targets[MIG_GPUS_MAX];
    const MigTarget target = target_of(gpu);
    const MigMeant meant = mig_request_means(request, &target);
    for (size_t i = 0; i < session->node->count; i++)
        targets[i] = target_of(&session->node->gpus[i]);
    const char *stranger = gpu->uuid[0] ? NULL : mig_request_stranger(request, targets, session->node->count);
    if (meant == MIG_MEANT_BY_NAME || stranger)
        return verb_failf(session->call, EXIT_UNKNOWN, "GPU %u%s%s: %s", gpu->index, stranger ? ", which may be " : "",
                          stranger ? stranger : "", gpu->why);
    session->left_out[gpu - session->node->gpus] = meant == MIG_MEANT_AS_ANY;
    return EXIT_FINE;
}

int mig_session_check_any(const MigSession *session)
{
    bool any = false;
    for (size_t i = 0; i < session->plan.count; i++)
        any |= session->gpus[i].asked;
    for (size_t i = 0; i < session->node->count && !any; i++)
        if (session->left_out[i])
            return verb_failf(session->call, EXIT_UNKNOWN, "GPU %u: %s", session->node->gpus[i].index,
                              session->node->gpus[i].why);
    return EXIT_FINE;
}

int mig_session_name_left_out(const MigSession *session)
{
    int code = EXIT_FINE;
    for (size_t i = 0; i < session->node->count; i++)
        if (session->left_out[i])
            code = verb_failf(session->call, EXIT_FINDING, "GPU %u is left out: %s", session->node->gpus[i].index,
                              session->node->gpus[i].why);
    return code;
}

static int resolve_gpu(MigSession *session, const MigRequest *request, const MigGpu *gpu, MigLayout *ret,
                       bool *ret_asked)
{
    const MigTarget target = target_of(gpu);
    MigBoard any = {.name = "this board"};
    Err *err = &session->call->err;
    int rc = mig_request_resolve(request, &target, gpu->capable ? &gpu->board : &any, ret, err);
    *ret_asked = rc == 0;
    if (rc > 0)
        return EXIT_FINE;
    if (!gpu->capable && (rc == -ENOENT || (rc == 0 && ret->enabled)))
        return verb_failf(session->call, MIG_EXIT_PROFILE, "GPU %u: its board has no MIG", gpu->index);
    if (!gpu->capable) /* MIG is off, as it always is */
        *ret_asked = false;
    if (rc == -ENOSPC)
        return verb_fail(session->call, MIG_EXIT_PLACEMENT);
    if (rc < 0)
        return verb_fail(session->call, rc == -ENOENT ? MIG_EXIT_PROFILE : EXIT_USAGE);
    if (session->options->mode_only)
        mig_keep_instances(gpu, ret);
    return EXIT_FINE;
}

int mig_session_plan(MigSession *session, const MigRequest *request)
{
    MigLayout wanted[MIG_GPUS_MAX];
    bool asked[MIG_GPUS_MAX] = {false}, any = false;
    memset(session->left_out, 0, sizeof session->left_out);
    for (size_t i = 0; i < session->node->count; i++) {
        const MigGpu *gpu = &session->node->gpus[i];
        const int code = gpu->why[0] ? resolve_unread(session, request, gpu)
                                     : resolve_gpu(session, request, gpu, &wanted[i], &asked[i]);
        if (code != EXIT_FINE)
            return code;
        any |= asked[i] || session->left_out[i];
    }
    if (!any)
        return verb_failf(session->call, EXIT_USAGE, "%s matches none of the %zu GPUs with MIG of this node",
                          request->name[0] ? request->name : "the layout", session->node->count);
    mig_session_plan_layouts(session, wanted, asked);
    return mig_session_check_any(session);
}

int mig_session_check(MigSession *session)
{
    const MigGpuPlan *wrong = mig_find_impossible(&session->plan);
    if (!wrong)
        return EXIT_FINE;
    CLEANUP(str_done) Str near = str_limited(400);
    if (wrong->nearest_count) {
        str_add(&near, "; the nearest that can be had: ");
        mig_layout_text(&wrong->gpu->board, &wrong->nearest[0], &near);
    }
    return verb_failf(session->call, MIG_EXIT_PLACEMENT, "GPU %u: %s%s", wrong->gpu->index, wrong->plan.reason,
                      near.len ? near.text : "");
}

const MigGpuPlan *mig_session_blocked(const MigSession *session)
{
    for (size_t i = 0; i < session->plan.count; i++)
        if (session->gpus[i].blocker_count)
            return &session->gpus[i];
    return NULL;
}

int mig_session_open_board(MigSession *session, VerbCall *call, const MigVerbOptions *options)
{
    const YamlNode *root;
    const MigTable *tables;
    size_t count;
    CLEANUP(str_done) Str names = str_limited(1000);
    *session = (MigSession){.call = call, .options = options};
    if (yaml_load_file(verb_data_path(call->arena, "mig/boards.yaml"), call->arena, &root, &call->err) < 0 ||
        mig_tables_read(root, call->arena, &tables, &count, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    for (size_t i = 0; i < count; i++) {
        str_addf(&names, "%s%s", i ? ", " : "", tables[i].board.name);
        if (strcasecmp(tables[i].board.name, options->board) == 0)
            session->plan.table = &tables[i];
    }
    if (!session->plan.table)
        return verb_failf(call, EXIT_USAGE, "no table of a board '%s'; there are %s", options->board, names.text);
    MigNode *node = arena_alloc(call->arena, sizeof *node);
    *node = (MigNode){.count = 1};
    node->gpus[0] = (MigGpu){.capable = true,
                             .pending = true,
                             .device = session->plan.table->devices[0],
                             .board = session->plan.table->board,
                             .now = {.enabled = true}};
    session->node = node;
    return EXIT_FINE;
}

/* Opens the driver and plans what the options ask for. */
static int plan_request(MigSession *session, VerbCall *call, const MigVerbOptions *options)
{
    MigRequest request;
    const int rc = mig_read_request(call, options, &request, &call->err);
    if (rc < 0)
        return verb_fail(call, EXIT_USAGE);
    const int code =
        options->board ? mig_session_open_board(session, call, options) : mig_session_open(session, call, options);
    return code == EXIT_FINE ? mig_session_plan(session, &request) : code;
}

static void print_text(const Str *text)
{
    fwrite(text->len ? text->text : "", 1, text->len, stdout);
}

/* --- plan --------------------------------------------------------------------------------------------------------- */

static const OptSpec plan_opts[] = {
    MIG_REQUEST_OPTS,
    OPT_ROW("json", OPT_BOOL, MigVerbOptions, json, .help = "as JSON"),
    OPT_ROW("board", OPT_STRING, MigVerbOptions, board, .metavar = "NAME",
            .help = "for an empty GPU of this board, without a driver: H100-80GB"),
    MIG_NODE_OPTS,
};

static int plan_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    const int code = plan_request(session, call, o);
    if (code != EXIT_FINE)
        return code;
    (o->json ? mig_plan_json : mig_plan_text)(&session->plan, &out);
    print_text(&out);
    if (mig_find_impossible(&session->plan))
        return MIG_EXIT_PLACEMENT;
    return mig_session_blocked(session) ? MIG_EXIT_BUSY : mig_session_name_left_out(session);
}

static const Verb verb_mig_plan = {
    .name = "plan",
    .summary = "what a layout would change, before anything is touched",
    .usage = "[--file FILE [--config NAME] | GPU=LAYOUT...]",
    .description =
        "Shows for each GPU which instances stay, which are destroyed and created and where, and which processes are "
        "in "
        "the way. An instance that is at the same place in both layouts is never destroyed; of all ways to place the "
        "others the one that destroys the fewest is chosen. Where a layout cannot be had it says why, and the nearest "
        "that can.\n\n"
        "A GPU is gpu0, an index, a UUID or all; a layout is names of profiles with '+' between them and numbers "
        "before "
        "them, 'balanced', 'none' (MIG without instances) or 'off'.",
    .examples = "stoker mig plan gpu0=3g.40gb+4g.40gb\n"
                "stoker mig plan all=7x1g.10gb --json\n"
                "stoker mig plan -f config.yaml -c all-balanced\n"
                "stoker mig plan --board H200-141GB all=7x1g.18gb",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(plan_opts, MigVerbOptions),
    .run = plan_run,
};

/* --- assert ------------------------------------------------------------------------------------------------------- */

static const OptSpec assert_opts[] = {
    MIG_REQUEST_OPTS,
    OPT_ROW("valid-config", OPT_BOOL, MigVerbOptions, valid, .short_flag = 'a', .env = "MIG_PARTED_VALID_CONFIG",
            .help = "only whether it could be applied to the GPUs of this node"),
    MIG_NODE_OPTS,
};

static int assert_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    int code = plan_request(session, call, o);
    if (code == EXIT_FINE)
        code = mig_session_check(session);
    if (code != EXIT_FINE)
        return code;
    for (size_t i = 0; !o->valid && i < session->plan.count; i++)
        if (session->gpus[i].asked && mig_plan_changes(&session->gpus[i].plan))
            return verb_failf(call, EXIT_FINDING,
                              "Assertion failure: selected configuration not currently applied (GPU %u)",
                              session->gpus[i].gpu->index);
    code = mig_session_name_left_out(session);
    if (code != EXIT_FINE)
        return code;
    puts(o->valid       ? "Selected MIG configuration is valid"
         : o->mode_only ? "Selected MIG mode settings from configuration currently applied"
                        : "Selected MIG configuration currently applied");
    return EXIT_FINE;
}

static const Verb verb_mig_assert = {
    .name = "assert",
    .summary = "whether a layout is the one that stands",
    .usage = "[--file FILE [--config NAME] | GPU=LAYOUT...]",
    .description = "Compares the layout with what the driver reports. GPUs that it does not speak of are not compared.",
    .examples = "stoker mig assert -f config.yaml -c all-balanced\n"
                "stoker mig assert --valid-config all=7x1g.10gb",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(assert_opts, MigVerbOptions),
    .run = assert_run,
};

/* --- export, checkpoint ------------------------------------------------------------------------------------------- */

static const char *const format_names[] = {"yaml", "json", "text", NULL};
typedef enum ExportFormat { EXPORT_YAML, EXPORT_JSON, EXPORT_TEXT } ExportFormat;

static const OptSpec export_opts[] = {
    OPT_ROW("output-format", OPT_ENUM, MigVerbOptions, format, .short_flag = 'o', .def = "yaml", .names = format_names,
            .env = "MIG_PARTED_OUTPUT_FORMAT", .help = "yaml, json, or text: with the places of the instances"),
    OPT_ROW("config-label", OPT_STRING, MigVerbOptions, label, .short_flag = 'l', .def = "current", .metavar = "NAME",
            .env = "MIG_PARTED_CONFIG_LABEL", .help = "the configuration's name"),
    MIG_NODE_OPTS,
};

/* EXIT_FINDING where a GPU could not be read: it is left out of what was printed. */
static int name_unread(MigSession *session)
{
    for (size_t i = 0; i < session->node->count; i++)
        session->left_out[i] = session->node->gpus[i].why[0] != '\0';
    return mig_session_name_left_out(session);
}

static int export_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    if (!verb_is_id(o->label, 60))
        return verb_failf(call, EXIT_USAGE, "--config-label: letters, digits, '-' and '_'");
    const int code = mig_session_open(session, call, o);
    if (code != EXIT_FINE)
        return code;
    if (o->format == EXPORT_TEXT)
        mig_node_text(session->node, &out);
    else
        (o->format == EXPORT_JSON ? mig_export_json : mig_export_yaml)(session->node, o->label, &out);
    print_text(&out);
    return name_unread(session);
}

static const Verb verb_mig_export = {
    .name = "export",
    .summary = "the layout of now as a configuration",
    .usage = "[-o yaml|json|text]",
    .description = "Prints how the GPUs are split now, in mig-parted's format v1.",
    .examples = "stoker mig export > now.yaml\n"
                "stoker mig export -o text",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(export_opts, MigVerbOptions),
    .no_args = "",
    .run = export_run,
};

static const OptSpec checkpoint_opts[] = {
    OPT_ROW("file", OPT_STRING, MigVerbOptions, file, .short_flag = 'f', .env = "MIG_PARTED_CHECKPOINT_FILE",
            .metavar = "FILE", .def = "/var/lib/stoker/mig-state.json", .help = "where to write it"),
    MIG_NODE_OPTS,
};

static int checkpoint_run(VerbCall *call, const void *options)
{
    const MigVerbOptions *o = options;
    CLEANUP(mig_session_close_at) MigSession *session = arena_alloc(call->arena, sizeof *session);
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    int code = mig_session_open(session, call, o);
    if (code == EXIT_FINE)
        code = name_unread(session);
    if (code != EXIT_FINE)
        return code;
    mig_state_write(session->node, &out);
    if (mig_make_folder(o->file, call) < 0 || file_write(o->file, out.text, out.len, 0644, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    puts("MIG configuration checkpointed successfully");
    return EXIT_FINE;
}

static const Verb verb_mig_checkpoint = {
    .name = "checkpoint",
    .summary = "keep the layout of now in a file, with places",
    .usage = "[--file FILE]",
    .description = "Writes mode, instances and their places of each GPU, as 'stoker mig restore' reads it.",
    .examples = "stoker mig checkpoint -f before.json",
    .exit_codes = mig_exit_codes,
    VERB_OPTS(checkpoint_opts, MigVerbOptions),
    .no_args = "",
    .run = checkpoint_run,
};

extern const Verb verb_mig_apply, verb_mig_restore, verb_mig_suggest, verb_mig_manage;

static const Verb *const subs[] = {&verb_mig_plan,    &verb_mig_suggest, &verb_mig_apply,
                                   &verb_mig_assert,  &verb_mig_export,  &verb_mig_checkpoint,
                                   &verb_mig_restore, &verb_mig_manage,  NULL};

const Verb verb_mig = {
    .name = "mig",
    .summary = "plan, apply and keep MIG layouts",
    .examples = "stoker mig plan gpu0=3g.40gb+4g.40gb",
    .subs = subs,
};
