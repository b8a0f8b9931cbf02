/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on the node: driver, hangs, kernel lines, works, and the MIG layout. */
#include <string.h>

#include "base/arena.h"
#include "base/opt.h"
#include "base/cleanup.h"
#include "nvml_names.h"
#include "sim/core/control.h"
#include "sim/scenario/step_make.h"

const char *const step_driver_names[] = {"loaded",        "unloaded",      "mismatch",
                                         "unknown-error", "no-permission", NULL}; /* SimDriver */
const char *const step_up_names[] = {"down", "up", NULL};
const char *const step_plug_names[] = {"remove", "add", NULL};

static void node_op(StepRun *run, SimNodeKey key, uint64_t value)
{
    SimOp *op = step_op(run, SIM_OP_NODE);
    op->a[0] = (int32_t)key;
    op->u = value;
}

int make_driver(StepRun *run, Err *err)
{
    (void)err;
    node_op(run, SIM_NODE_DRIVER, run->undo ? SIM_DRIVER_LOADED : run->args->pick);
    return 0;
}

int make_fabric_manager(StepRun *run, Err *err)
{
    (void)err;
    node_op(run, SIM_NODE_FABRIC_MANAGER, run->undo ? 1 : run->args->pick);
    return 0;
}

int make_persistenced(StepRun *run, Err *err)
{
    (void)err;
    node_op(run, SIM_NODE_PERSISTENCED, run->undo ? 1 : run->args->pick);
    return 0;
}

static void line_op(StepRun *run, const char *text)
{
    step_op(run, SIM_OP_KMSG);
    run->ops->at[run->ops->len - 1].text = text;
}

/* Unloaded, and loaded again after a while, with the lines that the modules print. */
int make_reload(StepRun *run, Err *err)
{
    (void)err;
    node_op(run, SIM_NODE_DRIVER, SIM_DRIVER_UNLOADED);
    line_op(run, "nvidia-nvlink: Unregistered Nvlink Core, major device number 239");
    run->t_ns += run->args->delay_ns;
    line_op(run, "nvidia-nvlink: Nvlink Core is being initialized, major device number 239");
    line_op(run, arena_printf(run->arena, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  %s  Release Build",
                              run->node->driver));
    node_op(run, SIM_NODE_DRIVER, SIM_DRIVER_LOADED);
    return 0;
}

const char *const step_log_names[] = {"away", "back", "overrun", NULL};

int make_log(StepRun *run, Err *err)
{
    enum { AWAY, BACK, OVERRUN };
    const uint32_t what = run->undo ? BACK : run->args->pick;
    if (what == OVERRUN && run->args->for_ns)
        return step_fail(run, err, "what was overwritten does not come back: 'for' has no meaning here");
    if (what == OVERRUN)
        step_op(run, SIM_OP_KMSG)->u = run->args->count;
    else
        node_op(run, SIM_NODE_LOG_AWAY, what == AWAY);
    return 0;
}

int make_stuck(StepRun *run, Err *err)
{
    (void)err;
    node_op(run, SIM_NODE_STUCK, run->undo ? 0 : run->args->count);
    return 0;
}

static int function_find(const StepRun *run, int32_t *ret, Err *err)
{
    const char *name = run->args->function;
    *ret = SIM_NONE;
    if (!name || strcmp(name, "all") == 0)
        return 0;
    unsigned int fn = nvml_fn_find(name);
    if (fn == NVML_FN_COUNT) {
        const char *names[NVML_FN_COUNT] = {0};
        for (unsigned int i = 0; i < NVML_FN_COUNT; i++)
            names[i] = nvml_fn_name(i);
        const char *near = opt_nearest(name, names, NVML_FN_COUNT);
        return step_fail(run, err, "no NVML function '%.60s'%s%s%s; or all", name, near ? " (did you mean '" : "",
                         near ? near : "", near ? "'?)" : "");
    }
    *ret = (int32_t)fn;
    return 0;
}

/* Finds a rule by its function and GPU: undo and clear know no slot. */
static uint32_t hang_slot(const StepRun *run, int32_t fn, int remove)
{
    uint64_t key = ((uint64_t)(uint32_t)fn << 32) | (uint32_t)run->gpu;
    StepNode *node = run->node;
    for (uint32_t i = 0; i < SIM_HANG_MAX; i++)
        if (node->hang_used[i] && node->hang_key[i] == key) {
            node->hang_used[i] = !remove;
            return i;
        }
    for (uint32_t i = 0; !remove && i < SIM_HANG_MAX; i++)
        if (!node->hang_used[i]) {
            node->hang_used[i] = 1;
            node->hang_key[i] = key;
            return i;
        }
    return SIM_HANG_MAX;
}

static void hang_op(StepRun *run, uint32_t slot, int32_t fn, int add)
{
    SimOp *op = step_op(run, SIM_OP_HANG);
    op->a[0] = (int32_t)slot;
    op->a[1] = fn;
    op->a[2] = (int32_t)run->args->after;
    op->a[3] = add;
    op->u = add ? run->args->delay_ns : 0;
}

static int hang_clear_all(StepRun *run)
{
    for (uint32_t i = 0; i < SIM_HANG_MAX; i++) {
        int32_t of = (int32_t)(uint32_t)run->node->hang_key[i];
        if (!run->node->hang_used[i] || (run->gpu >= 0 && of != run->gpu))
            continue;
        run->node->hang_used[i] = 0;
        hang_op(run, i, SIM_NONE, 0);
    }
    return 0;
}

int make_hang(StepRun *run, Err *err)
{
    int32_t fn = SIM_NONE;
    if (run->args->clear && !run->args->function)
        return hang_clear_all(run);
    TRY(function_find(run, &fn, err));
    int remove = run->undo || run->args->clear;
    uint32_t slot = hang_slot(run, fn, remove);
    if (slot == SIM_HANG_MAX)
        return remove ? 0 : step_fail(run, err, "at most %d hang rules hold at a time", SIM_HANG_MAX);
    hang_op(run, slot, fn, !remove);
    return 0;
}

int make_plug(StepRun *run, Err *err)
{
    (void)err;
    step_op(run, SIM_OP_PLUG)->a[0] = run->undo ? 1 : (int32_t)run->args->pick;
    return 0;
}

int make_kmsg(StepRun *run, Err *err)
{
    const char *text = run->args->text;
    if (!*text || strpbrk(text, "\r\n"))
        return step_fail(run, err, "text must be one line");
    step_op(run, SIM_OP_KMSG);
    run->ops->at[run->ops->len - 1].text = text;
    return 0;
}

/* ---- works --------------------------------------------------------------------------------------------------------
 */
typedef enum Alive { ALIVE_NOW, ALIVE_FIRST } Alive;

/* The next work from *i on that the step names: by name of the work or of its process, rank and GPU where given. */
static const StepWork *work_next(const StepRun *run, size_t *i, Alive alive)
{
    while (*i < run->node->works.len) {
        const StepWork *w = &run->node->works.at[(*i)++];
        if (strcmp(w->name, run->args->work) != 0 && strcmp(w->process, run->args->work) != 0)
            continue;
        if ((run->gpu >= 0 && w->gpu != run->gpu) || (run->args->rank >= 0 && w->rank != (uint32_t)run->args->rank))
            continue;
        if (alive == ALIVE_NOW && (run->t_ns < w->start_ns || run->t_ns >= w->stop_ns))
            continue;
        if (alive == ALIVE_FIRST && !w->first)
            continue;
        return w;
    }
    return NULL;
}

static int work_none(const StepRun *run, Err *err)
{
    const char *names[SCENARIO_WORKS_MAX + 1] = {0};
    size_t n = 0;
    for (size_t i = 0; i < run->node->works.len && n < SCENARIO_WORKS_MAX; i++) {
        const char *name = run->node->works.at[i].name;
        if (strcmp(name, run->args->work) == 0)
            return step_fail(run, err, "work '%.40s' has no such rank, or does not run there at that time",
                             run->args->work);
        if (n == 0 || strcmp(names[n - 1], name) != 0)
            names[n++] = name;
    }
    const YamlNode *at = run->args->node ? yaml_get(run->args->node, "work") : NULL;
    if (n == 0)
        return field_fail(at, err, "unknown work '%.40s': the node has none", run->args->work);
    return field_unknown(at, err, "work", run->args->work, names);
}

static size_t works_op(StepRun *run, SimOpType type, Alive alive)
{
    size_t i = 0, made = 0;
    for (const StepWork *w; (w = work_next(run, &i, alive)); made++) {
        SimOp *op = step_op(run, type);
        op->gpu = w->gpu;
        op->a[0] = w->index;
    }
    return made;
}

int make_start(StepRun *run, Err *err)
{
    SimOpType type = run->undo ? SIM_OP_WORK_STOP : SIM_OP_WORK_START;
    size_t made = works_op(run, type, ALIVE_NOW);
    if (!made) /* long over, or not due yet */
        made = works_op(run, type, ALIVE_FIRST);
    return made ? 0 : work_none(run, err);
}

int make_stop(StepRun *run, Err *err)
{
    size_t made = works_op(run, run->undo ? SIM_OP_WORK_START : SIM_OP_WORK_STOP, ALIVE_NOW);
    return made || run->undo ? 0 : work_none(run, err);
}

static void kmsg_op(StepRun *run, const StepWork *w, const char *text)
{
    SimOp *op = step_op(run, SIM_OP_KMSG);
    op->a[3] = w->index; /* whose pid is in the text */
    run->ops->at[run->ops->len - 1].text = text;
}

int make_oom(StepRun *run, Err *err)
{
    size_t i = 0;
    const StepWork *w = work_next(run, &i, ALIVE_NOW);
    if (!w)
        return work_none(run, err);
    unsigned long long rss_kb = (unsigned long long)(run->args->rate * 1024), all_kb = 2 * rss_kb;
    kmsg_op(run, w,
            arena_printf(run->arena, "%s invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                         w->process));
    kmsg_op(run, w,
            arena_printf(run->arena,
                         "Memory cgroup out of memory: Killed process %u (%s) total-vm:%llukB, anon-rss:%llukB, "
                         "file-rss:0kB, shmem-rss:0kB",
                         w->pid, w->process, all_kb, rss_kb));
    SimOp *op = step_op(run, SIM_OP_WORK_STOP);
    op->gpu = w->gpu;
    op->a[0] = w->index;
    return 0;
}

/* ---- MIG ----------------------------------------------------------------------------------------------------------
 */
int make_mig_mode(StepRun *run, Err *err)
{
    if (!run->node->boards[run->gpu]->has_mig)
        return step_fail(run, err, "the board has no MIG");
    step_op(run, SIM_OP_MIG_MODE)->a[0] = (int32_t)run->args->on;
    return 0;
}

/* NVML_COMPUTE_INSTANCE_PROFILE_* of a slice count, or SIM_NONE. */
static int32_t ci_index(const SimProfile *profile, uint32_t slices)
{
    for (uint32_t i = 0; i < 8; i++)
        if (sim_ci_slices(profile, i, NULL) == slices)
            return (int32_t)i;
    return SIM_NONE;
}

static void free_starts(const SimBoard *board, const SimCond *cond, uint32_t profile, Str *out)
{
    const SimProfile *p = &board->profiles[profile];
    for (uint32_t i = 0; i < p->place_count; i++)
        if (sim_mig_place(board, cond, profile, p->place_start[i]) >= 0)
            str_addf(out, "%s%u", out->len ? ", " : "", p->place_start[i]);
    if (!out->len)
        str_add(out, "none");
}

int step_mig_create(StepRun *run, uint32_t profile, int start, const uint32_t *compute, size_t compute_count, Err *err)
{
    const SimBoard *board = run->node->boards[run->gpu];
    const SimCond *cond = &run->node->conds[run->gpu];
    const SimProfile *p = &board->profiles[profile];
    if (!cond->mig_mode)
        return step_fail(run, err, "MIG is off at that time");
    int at = sim_mig_place(board, cond, profile, start);
    if (at < 0) {
        CLEANUP(str_done) Str starts;
        str_init(&starts, 128);
        free_starts(board, cond, profile, &starts);
        return step_fail(run, err, "%s does not fit; free starts: %s", p->name, starts.text);
    }
    uint32_t gi = sim_mig_gi_id(board, cond, p->place_size, (uint32_t)at), whole[] = {p->slices}, used = 0;
    if (!compute_count) {
        compute = whole;
        compute_count = 1;
    }
    SimOp *op = step_op(run, SIM_OP_GI_CREATE);
    op->a[0] = (int32_t)profile;
    op->a[1] = at;
    for (size_t i = 0; i < compute_count; i++) {
        int32_t index = ci_index(p, compute[i]);
        used += compute[i];
        if (compute[i] == 0 || index == SIM_NONE || used > p->slices)
            return step_fail(run, err, "compute instances of %s: %u slices are not offered or do not fit in %u",
                             p->name, compute[i], p->slices);
        op = step_op(run, SIM_OP_CI_CREATE);
        op->a[0] = (int32_t)gi;
        op->a[1] = index;
        op->a[2] = SIM_NONE;
    }
    return 0;
}

int make_mig_create(StepRun *run, Err *err)
{
    const SimBoard *board = run->node->boards[run->gpu];
    const char *names[SIM_PROFILE_MAX + 1] = {0};
    for (uint32_t i = 0; i < board->profile_count; i++)
        names[i] = board->profiles[i].name;
    if (!board->has_mig)
        return step_fail(run, err, "the board has no MIG");
    int profile = board_profile_find(board, run->args->profile);
    if (profile < 0)
        return field_unknown(run->args->node ? yaml_get(run->args->node, "profile") : NULL, err, "MIG profile",
                             run->args->profile, names);
    uint32_t slices[1] = {run->args->count};
    return step_mig_create(run, (uint32_t)profile, run->args->start, slices, slices[0] ? 1 : 0, err);
}

/* All compute instances of a GPU instance, then itself. */
static void gi_destroy(StepRun *run, const SimCond *cond, uint32_t gi_id)
{
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == gi_id) {
            SimOp *op = step_op(run, SIM_OP_CI_DESTROY);
            op->a[0] = (int32_t)gi_id;
            op->a[1] = (int32_t)cond->ci[i].id;
        }
    step_op(run, SIM_OP_GI_DESTROY)->a[0] = (int32_t)gi_id;
}

int make_mig_destroy(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const SimCond *cond = &run->node->conds[run->gpu];
    uint32_t gi = 0, ci = 0;
    if ((a->all != 0) + (a->mig >= 0) + (a->gi >= 0) != 1)
        return step_fail(run, err, "needs one of device, instance, all");
    if (a->mig >= 0) {
        if (!sim_mig_device(cond, (uint32_t)a->mig, &gi, &ci))
            return step_fail(run, err, "there is no MIG device %d at that time", a->mig);
        gi_destroy(run, cond, cond->gi[gi].id);
        return 0;
    }
    size_t before = run->ops->len;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        if (cond->gi[i].used && (a->all || cond->gi[i].id == (uint32_t)a->gi))
            gi_destroy(run, cond, cond->gi[i].id);
    if (run->ops->len == before)
        return step_fail(run, err, "there is no such GPU instance at that time");
    return 0;
}
