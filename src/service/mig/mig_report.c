/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and layouts in words, as JSON, and as configurations. */
#include "service/mig/mig_report.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

bool mig_plan_changes(const MigPlan *plan)
{
    return plan->mode_change || plan->destroy_count || plan->create_count || plan->recompute;
}

const MigGpuPlan *mig_find_impossible(const MigNodePlan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->gpus[i].asked && plan->gpus[i].plan.outcome != MIG_POSSIBLE)
            return &plan->gpus[i];
    return NULL;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

/* "3g.40gb at 4-7", with its compute instances where these are not the whole. */
static void add_instance(const MigBoard *board, const MigInstance *one, Str *to)
{
    const MigProfile *profile = &board->profiles[one->profile];
    const MigLayout alone = {.enabled = true, .count = 1, .instances = {*one}};
    mig_layout_text(board, &alone, to);
    str_addf(to, " at %u", one->start);
    if (profile->size > 1)
        str_addf(to, "-%d", one->start + profile->size - 1);
}

static void add_line(const char *word, const MigBoard *board, const MigInstance *one, Str *to)
{
    str_addf(to, "  %-8s", word);
    add_instance(board, one, to);
    str_addc(to, '\n');
}

void mig_blocker_text(const MigBlocker *blocker, Str *to)
{
    const ProcessOwner *owner = &blocker->owner;
    str_addf(to, "%s (pid %u", owner->name[0] ? owner->name : "a process", blocker->pid);
    if (owner->job[0])
        str_addf(to, ", job %s", owner->job);
    if (owner->pod[0])
        str_addf(to, ", pod %s/%s", owner->namespace, owner->pod);
    if (owner->user[0])
        str_addf(to, ", user %s", owner->user);
    str_add(to, ")");
}

static void add_blocker(const MigGpu *gpu, const MigBlocker *blocker, Str *to)
{
    str_add(to, "  in use  ");
    mig_blocker_text(blocker, to);
    if (blocker->instance >= 0) {
        str_add(to, " in ");
        add_instance(&gpu->board, &gpu->now.instances[blocker->instance], to);
    }
    str_addc(to, '\n');
}

static void add_steps(const MigGpuPlan *one, Str *to)
{
    const MigGpu *gpu = one->gpu;
    const MigPlan *plan = &one->plan;
    if (plan->mode_change && one->wanted.enabled == gpu->now.enabled)
        str_addf(to, "  mode    take back that MIG is %s after a reset\n", gpu->pending ? "enabled" : "disabled");
    else if (plan->mode_change)
        str_addf(to, "  mode    %s MIG%s\n", one->wanted.enabled ? "enable" : "disable",
                 gpu->needs_reset ? ", with a reset of the GPU" : "");
    for (size_t i = 0; i < plan->keep_count; i++)
        if (!(plan->recompute >> plan->keep[i] & 1))
            add_line("keep", &gpu->board, &gpu->now.instances[plan->keep[i]], to);
    for (size_t i = 0; i < plan->destroy_count; i++)
        add_line("destroy", &gpu->board, &gpu->now.instances[plan->destroy[i]], to);
    for (size_t i = 0; i < plan->create_count; i++)
        add_line("create", &gpu->board, &plan->create[i], to);
    for (size_t i = 0; i < MIG_INSTANCE_MAX; i++)
        if (plan->recompute >> i & 1)
            add_line("split", &gpu->board, &plan->after[i], to);
    for (size_t i = 0; i < one->blocker_count; i++)
        add_blocker(gpu, &one->blockers[i], to);
}

void mig_gpu_plan_text(const MigGpuPlan *one, Str *to)
{
    const MigGpu *gpu = one->gpu;
    str_addf(to, "GPU %u: ", gpu->index);
    if (gpu->why[0] || !gpu->capable) {
        str_addf(to, "%s\n", gpu->why[0] ? gpu->why : "its board has no MIG");
        return;
    }
    mig_layout_text(&gpu->board, &gpu->now, to);
    if (!one->asked) {
        str_add(to, "; nothing is wanted of it, it stays\n");
        return;
    }
    if (one->plan.outcome == MIG_POSSIBLE && !mig_plan_changes(&one->plan)) {
        str_add(to, "; nothing to do\n");
        return;
    }
    str_add(to, " -> ");
    mig_layout_text(&gpu->board, &one->wanted, to);
    str_addc(to, '\n');
    if (one->plan.outcome == MIG_POSSIBLE) {
        add_steps(one, to);
        return;
    }
    str_addf(to, "  not possible: %s\n", one->plan.reason);
    for (size_t i = 0; i < one->nearest_count; i++) {
        str_add(to, i ? "       or  " : "  nearest  ");
        mig_layout_text(&gpu->board, &one->nearest[i], to);
        str_addc(to, '\n');
    }
}

void mig_plan_text(const MigNodePlan *plan, Str *to)
{
    if (plan->table)
        str_addf(to, "By the table of %s (%s), not by a driver.\n", plan->table->board.name, plan->table->verified);
    for (size_t i = 0; i < plan->count; i++)
        mig_gpu_plan_text(&plan->gpus[i], to);
}

void mig_node_text(const MigNode *node, Str *to)
{
    for (size_t i = 0; i < node->count; i++) {
        const MigGpu *gpu = &node->gpus[i];
        str_addf(to, "GPU %u: ", gpu->index);
        if (gpu->why[0] || !gpu->capable)
            str_add(to, gpu->why[0] ? gpu->why : "its board has no MIG");
        else if (!gpu->now.enabled || !gpu->now.count)
            mig_layout_text(&gpu->board, &gpu->now, to);
        for (size_t k = 0; gpu->now.enabled && k < gpu->now.count; k++) {
            str_add(to, k ? ", " : "");
            add_instance(&gpu->board, &gpu->now.instances[k], to);
        }
        str_addc(to, '\n');
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_instance_json(const MigBoard *board, const MigInstance *one, Str *to)
{
    const MigProfile *profile = &board->profiles[one->profile];
    json_open(to, NULL, '{');
    json_add_text(to, "profile", profile->name);
    json_add_u64(to, "start", one->start);
    json_add_u64(to, "size", profile->size);
    json_open(to, "compute", '[');
    for (size_t i = 0; i < one->compute_count; i++)
        json_add_u64(to, NULL, one->compute[i]);
    json_close(to, ']');
    json_close(to, '}');
}

static void add_layout_json(const char *name, const MigBoard *board, const MigLayout *layout, Str *to)
{
    CLEANUP(str_done) Str text = str_limited(1000);
    mig_layout_text(board, layout, &text);
    json_add_text(to, name, text.text);
}

static void add_blockers_json(const MigGpuPlan *one, Str *to)
{
    json_open(to, "blocked_by", '[');
    for (size_t i = 0; i < one->blocker_count; i++) {
        const MigBlocker *blocker = &one->blockers[i];
        json_open(to, NULL, '{');
        json_add_u64(to, "pid", blocker->pid);
        json_add_text(to, "process", blocker->owner.name);
        json_add_text(to, "user", blocker->owner.user);
        json_add_text(to, "job", blocker->owner.job);
        json_add_text(to, "pod", blocker->owner.pod);
        json_add_text(to, "namespace", blocker->owner.namespace);
        if (blocker->instance < 0)
            json_add_null(to, "instance");
        else
            json_add_u64(to, "instance", one->gpu->now.instances[blocker->instance].id);
        json_close(to, '}');
    }
    json_close(to, ']');
}

static void add_gpu_json(const MigGpuPlan *one, Str *to)
{
    const MigGpu *gpu = one->gpu;
    const MigPlan *plan = &one->plan;
    json_open(to, NULL, '{');
    json_add_u64(to, "gpu", gpu->index);
    json_add_text(to, "uuid", gpu->uuid);
    json_add_bool(to, "asked", one->asked);
    if (gpu->capable && !gpu->why[0])
        add_layout_json("now", &gpu->board, &gpu->now, to);
    if (one->asked)
        add_layout_json("wanted", &gpu->board, &one->wanted, to);
    json_add_bool(to, "possible", !one->asked || plan->outcome == MIG_POSSIBLE);
    json_add_text(to, "reason", gpu->why[0] ? gpu->why : plan->reason);
    json_add_bool(to, "mode_change", plan->mode_change);
    json_open(to, "keep", '[');
    for (size_t i = 0; i < plan->keep_count; i++)
        add_instance_json(&gpu->board,
                          plan->recompute >> plan->keep[i] & 1 ? &plan->after[plan->keep[i]]
                                                               : &gpu->now.instances[plan->keep[i]],
                          to);
    json_close(to, ']');
    json_open(to, "destroy", '[');
    for (size_t i = 0; i < plan->destroy_count; i++)
        add_instance_json(&gpu->board, &gpu->now.instances[plan->destroy[i]], to);
    json_close(to, ']');
    json_open(to, "create", '[');
    for (size_t i = 0; i < plan->create_count; i++)
        add_instance_json(&gpu->board, &plan->create[i], to);
    json_close(to, ']');
    add_blockers_json(one, to);
    json_open(to, "nearest", '[');
    for (size_t i = 0; i < one->nearest_count; i++)
        add_layout_json(NULL, &gpu->board, &one->nearest[i], to);
    json_close(to, ']');
    json_close(to, '}');
}

void mig_plan_json(const MigNodePlan *plan, Str *to)
{
    const MigGpuPlan *wrong = mig_find_impossible(plan);
    json_open(to, NULL, '{');
    json_add_bool(to, "possible", !wrong);
    json_add_text(to, "reason", wrong ? wrong->plan.reason : "");
    if (plan->table) {
        json_add_text(to, "board", plan->table->board.name);
        json_add_text(to, "verified", plan->table->verified);
    }
    json_open(to, "gpus", '[');
    for (size_t i = 0; i < plan->count; i++)
        add_gpu_json(&plan->gpus[i], to);
    json_close(to, ']');
    json_close(to, '}');
    str_addc(to, '\n');
}

/* --- configurations ----------------------------------------------------------------------------------------------- */

static bool is_exported(const MigGpu *gpu)
{
    return gpu->capable && !gpu->why[0];
}

/* Whether they are written as one entry. */
static bool is_like(const MigGpu *a, const MigGpu *b)
{
    return a->device == b->device && mig_layout_equal(&a->now, &b->now, false);
}

/* The MIG devices of a layout by name, with their numbers; calls `add` for each name. */
static void each_name(const MigGpu *gpu, void (*add)(const char *name, unsigned count, Str *to), Str *to)
{
    for (size_t p = 0; p < gpu->board.profile_count; p++)
        for (uint8_t slices = gpu->board.profiles[p].slices; slices > 0; slices--) {
            unsigned count = 0;
            const MigInstance kind = {.profile = (uint8_t)p};
            for (size_t i = 0; i < gpu->now.count; i++)
                for (size_t c = 0; gpu->now.instances[i].profile == p && c < gpu->now.instances[i].compute_count; c++)
                    count += gpu->now.instances[i].compute[c] == slices;
            CLEANUP(str_done) Str name = str_limited(2L * MIG_NAME_SIZE);
            mig_compute_name(&gpu->board, &kind, slices, &name);
            if (count)
                add(name.text, count, to);
        }
}

static void add_yaml_name(const char *name, unsigned count, Str *to)
{
    str_addf(to, "        \"%s\": %u\n", name, count);
}

static void add_json_name(const char *name, unsigned count, Str *to)
{
    json_add_u64(to, name, count);
}

typedef struct Export {
    const MigNode *node;
    bool all;    /* one entry for all GPUs of a kind */
    bool filter; /* boards of several kinds */
} Export;

static Export plan_export(const MigNode *node)
{
    Export export = {.node = node, .all = true};
    for (size_t i = 0; i < node->count; i++)
        for (size_t k = 0; k < i; k++) {
            if (!is_exported(&node->gpus[i]) || !is_exported(&node->gpus[k]))
                continue;
            const bool same_board = node->gpus[i].device == node->gpus[k].device;
            export.filter |= !same_board;
            export.all &= !same_board || is_like(&node->gpus[i], &node->gpus[k]);
        }
    return export;
}

/* Whether an entry begins with this GPU. */
static bool is_first(const Export *export, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_exported(&export->node->gpus[k]) && is_like(&export->node->gpus[k], &export->node->gpus[i]))
            return false;
    return is_exported(&export->node->gpus[i]);
}

void mig_export_yaml(const MigNode *node, const char *label, Str *to)
{
    const Export export = plan_export(node);
    str_addf(to, "version: v1\nmig-configs:\n  %s:\n", label);
    for (size_t i = 0; i < node->count; i++) {
        const MigGpu *gpu = &node->gpus[i];
        if (!is_first(&export, i))
            continue;
        str_add(to, export.filter ? "    - device-filter: [" : "    - devices: ");
        if (export.filter)
            str_addf(to, "\"0x%08X\"]\n      devices: ", gpu->device);
        str_add(to, export.all ? "all" : "[");
        for (size_t k = i; !export.all && k < node->count; k++)
            if (is_exported(&node->gpus[k]) && is_like(gpu, &node->gpus[k]))
                str_addf(to, "%s%u", k == i ? "" : ", ", node->gpus[k].index);
        str_addf(to, "%s\n      mig-enabled: %s\n", export.all ? "" : "]", gpu->now.enabled ? "true" : "false");
        str_add(to, gpu->now.enabled && gpu->now.count ? "      mig-devices:\n" : "      mig-devices: {}\n");
        each_name(gpu, add_yaml_name, to);
    }
}

void mig_export_json(const MigNode *node, const char *label, Str *to)
{
    const Export export = plan_export(node);
    json_open(to, NULL, '{');
    json_add_text(to, "version", "v1");
    json_open(to, "mig-configs", '{');
    json_open(to, label, '[');
    for (size_t i = 0; i < node->count; i++) {
        const MigGpu *gpu = &node->gpus[i];
        char filter[16];
        if (!is_first(&export, i))
            continue;
        json_open(to, NULL, '{');
        snprintf(filter, sizeof filter, "0x%08X", gpu->device);
        if (export.filter)
            json_add_text(to, "device-filter", filter);
        if (export.all)
            json_add_text(to, "devices", "all");
        else
            json_open(to, "devices", '[');
        for (size_t k = i; !export.all && k < node->count; k++)
            if (is_exported(&node->gpus[k]) && is_like(gpu, &node->gpus[k]))
                json_add_u64(to, NULL, node->gpus[k].index);
        if (!export.all)
            json_close(to, ']');
        json_add_bool(to, "mig-enabled", gpu->now.enabled);
        json_open(to, "mig-devices", '{');
        each_name(gpu, add_json_name, to);
        json_close(to, '}');
        json_close(to, '}');
    }
    json_close(to, ']');
    json_close(to, '}');
    json_close(to, '}');
    str_addc(to, '\n');
}
