/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a scenario: which boards, how they are set at the start, and their MIG layout. */
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/plan.h" /* cond_apply */
#include "sim/scenario/parse.h"
#include "sim/scenario/step_make.h"

typedef struct GpuArgs {
    const char *board;
    const YamlNode *mig;
    uint32_t count, ecc, power_mw, persistence, compute_mode;
    double ambient_k, leak, cooling;
} GpuArgs;

enum { AT_BOARD, AT_COUNT, AT_MIG, AT_ECC, AT_LIMIT, AT_PERSISTENCE, AT_MODE };
#define AT(member) offsetof(GpuArgs, member)
static const Field gpu_fields[] = {
    [AT_BOARD] = {"board", FIELD_TEXT, FIELD_NEEDED, AT(board), 0, 0, 0, NULL, NULL, NULL, "name of a board"},
    [AT_COUNT] = {"count", FIELD_U32, 0, AT(count), 0, 1, SIM_GPU_MAX, NULL, "1", NULL, "how many alike"},
    [AT_MIG] = {"mig", FIELD_NODE, 0, AT(mig), 0, 0, 0, NULL, NULL, NULL,
                "MIG mode on, with these GPU instances on each; may be empty"},
    [AT_ECC] = {"ecc", FIELD_BOOL, 0, AT(ecc), 0, 0, 0, NULL, NULL, NULL, "ECC, where the board has it"},
    [AT_LIMIT] = {"power_limit", FIELD_MILLI, 0, AT(power_mw), 0, 1, 5000, NULL, NULL, "W", "power limit"},
    [AT_PERSISTENCE] = {"persistence", FIELD_BOOL, 0, AT(persistence), 0, 0, 0, NULL, NULL, NULL, "persistence mode"},
    [AT_MODE] = {"compute_mode", FIELD_ENUM, 0, AT(compute_mode), 0, 0, 0, step_compute_names, NULL, NULL,
                 "compute mode"},
    {"ambient", FIELD_DOUBLE, 0, AT(ambient_k), 0, -40, 60, NULL, "0", "K", "warmer air than the board's by"},
    {"leak", FIELD_DOUBLE, 0, AT(leak), 0, 0.8, 1.25, NULL, NULL, NULL,
     "factor on dynamic power; without: within 3 % of 1 by the seed"},
    {"cooling", FIELD_DOUBLE, 0, AT(cooling), 0, 0.5, 2, NULL, NULL, NULL,
     "factor on thermal resistance; without: within 4 % of 1 by the seed"},
};

typedef struct MigArgs {
    const char *profile;
    const YamlNode *compute;
    int32_t start;
} MigArgs;
static const Field mig_fields[] = {
    {"profile", FIELD_TEXT, FIELD_NEEDED, offsetof(MigArgs, profile), 0, 0, 0, NULL, NULL, NULL, "as 3g.40gb"},
    {"start", FIELD_I32, 0, offsetof(MigArgs, start), 0, 0, 15, NULL, NULL, NULL,
     "memory slice; without: where the driver would put it"},
    {"compute", FIELD_NODE, 0, offsetof(MigArgs, compute), 0, 0, 0, NULL, NULL, NULL,
     "slices of each compute instance, as [1, 2]; without: one over all"},
};
static const FieldSet gpu_set = {gpu_fields, ARRAY_LEN(gpu_fields), "an entry of 'gpus'"};
static const FieldSet mig_set = {mig_fields, ARRAY_LEN(mig_fields), "an entry of 'mig'"};
static const Step start_step = {.name = "gpus"};

static int slices_read(const YamlNode *list, uint32_t out[8], size_t *ret_count, Err *err)
{
    *ret_count = 0;
    if (!list)
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "compute", err));
    if (list->len < 1 || list->len > 8)
        return field_fail(list, err, "'compute' must list 1 to 8 compute instances");
    for (size_t i = 0; i < list->len; i++) {
        static const Field one = {.key = "compute", .type = FIELD_U32, .min = 1, .max = 8};
        const char *text = yaml_text(list->items[i]);
        if (!text)
            return field_fail(list->items[i], err, "'compute' must list numbers of slices");
        TRY(field_read_text(&one, text, list->items[i], NULL, &out[i], err));
    }
    *ret_count = list->len;
    return 0;
}

static int mig_one(StepRun *run, const YamlNode *item, Err *err)
{
    const SimBoard *board = run->node->boards[run->gpu];
    MigArgs args = {.start = SIM_NONE, .profile = yaml_text(item)};
    uint32_t compute[8] = {0};
    size_t compute_count = 0;
    bool seen[FIELD_MAX];
    if (!args.profile)
        TRY(field_read_map(&mig_set, item, run->arena, &args, seen, err));
    TRY(slices_read(args.compute, compute, &compute_count, err));
    int profile = board_profile_find(board, args.profile);
    if (profile < 0) {
        const char *names[SIM_PROFILE_MAX + 1] = {0};
        for (uint32_t i = 0; i < board->profile_count; i++)
            names[i] = board->profiles[i].name;
        return field_unknown(item, err, "MIG profile", args.profile, names);
    }
    StepArgs at = {.node = item};
    run->args = &at;
    return step_mig_create(run, (uint32_t)profile, args.start, compute, compute_count, err);
}

static void apply_to_conds(StepRun *run, size_t from)
{
    for (size_t i = from; i < run->ops->len; i++)
        cond_apply(&run->node->conds[run->gpu], run->node->boards[run->gpu], &run->ops->at[i].op, 0);
}

static int mig_layout(StepRun *run, const YamlNode *list, Err *err)
{
    if (!run->node->boards[run->gpu]->has_mig)
        return field_fail(list, err, "the board has no MIG");
    TRY(yaml_want(list, YAML_SEQ, "mig", err));
    if (list->len > SIM_GI_MAX)
        return field_fail(list, err, "at most %d GPU instances", SIM_GI_MAX);
    size_t from = run->ops->len;
    step_op(run, SIM_OP_MIG_MODE)->a[0] = 1;
    run->ops->at[from].op.origin = SIM_FROM_SCENARIO;
    apply_to_conds(run, from);
    for (size_t i = 0; i < list->len; i++) {
        from = run->ops->len;
        TRY(mig_one(run, list->items[i], err));
        apply_to_conds(run, from);
    }
    return 0;
}

/* The settings and the layout of one GPU at the start. ECC takes a reset, so it comes first. */
static int gpu_start(Parse *parse, uint32_t gpu, const GpuArgs *args, const bool *seen, const YamlNode *node, Err *err)
{
    StepArgs at = {.node = node};
    StepRun run = {.node = &parse->node,
                   .args = &at,
                   .step = &start_step,
                   .ops = &parse->ops,
                   .arena = parse->arena,
                   .gpu = (int32_t)gpu};
    const SimBoard *board = parse->node.boards[gpu];
    size_t from = parse->ops.len;
    if (seen[AT_ECC] && args->ecc && !board->has_ecc)
        return field_fail(yaml_get(node, "ecc"), err, "the board has no ECC");
    if (seen[AT_ECC] && board->has_ecc && !args->ecc) {
        step_set(&run, SIM_KEY_ECC_PENDING, 0);
        step_op(&run, SIM_OP_RESET);
    }
    if (seen[AT_PERSISTENCE])
        step_set(&run, SIM_KEY_PERSISTENCE, args->persistence);
    if (seen[AT_MODE])
        step_set(&run, SIM_KEY_COMPUTE_MODE, args->compute_mode);
    if (seen[AT_LIMIT]) {
        at.power_mw = args->power_mw;
        TRY(make_power_limit(&run, err));
    }
    apply_to_conds(&run, from);
    return seen[AT_MIG] ? mig_layout(&run, args->mig, err) : 0;
}

typedef struct GpuEntry {
    GpuArgs args;
    bool seen[FIELD_MAX];
    const YamlNode *node;
} GpuEntry;

static int entry_read(Parse *parse, const YamlNode *node, GpuEntry *entry, Err *err)
{
    Scenario *s = parse->out;
    const SimBoard *board = NULL;
    entry->node = node;
    TRY(field_defaults(&gpu_set, parse->arena, &entry->args, err));
    TRY(field_read_map(&gpu_set, node, parse->arena, &entry->args, entry->seen, err));
    TRY(board_set_get(parse->boards, entry->args.board, yaml_get(node, "board"), &board, err));
    if (s->gpu_count + entry->args.count > SIM_GPU_MAX)
        return field_fail(node, err, "a node has at most %d GPUs", SIM_GPU_MAX);
    for (uint32_t i = 0; i < entry->args.count; i++)
        s->gpus[s->gpu_count++] = (ScenarioGpu){.board = board,
                                                .ambient_k = entry->args.ambient_k,
                                                .leak = entry->args.leak,
                                                .cooling = entry->args.cooling};
    return 0;
}

int parse_gpus(Parse *parse, const YamlNode *node, Err *err)
{
    Scenario *s = parse->out;
    GpuEntry entries[SIM_GPU_MAX] = {0};
    size_t count = node->kind == YAML_SEQ ? node->len : 1;
    if (count < 1 || count > SIM_GPU_MAX)
        return field_fail(node, err, "'gpus' must have 1 to %d entries", SIM_GPU_MAX);
    for (size_t i = 0; i < count; i++)
        TRY(entry_read(parse, node->kind == YAML_SEQ ? node->items[i] : node, &entries[i], err));
    const SimBoard *boards[SIM_GPU_MAX] = {0}, *kinds[SIM_BOARD_MAX] = {0};
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        boards[i] = s->gpus[i].board;
        size_t k = 0;
        while (k < SIM_BOARD_MAX && kinds[k] && kinds[k] != boards[i])
            k++;
        if (k == SIM_BOARD_MAX)
            return field_fail(node, err, "a node has at most %d different boards", SIM_BOARD_MAX);
        kinds[k] = boards[i];
    }
    step_node_init(&parse->node, s->gpu_count, boards);
    parse->node.driver = s->node.driver;
    parse->node.cgroups = s->node.cgroups;
    uint32_t gpu = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < entries[i].args.count; k++)
            TRY(gpu_start(parse, gpu++, &entries[i].args, entries[i].seen, entries[i].node, err));
    return 0;
}

void gpus_page(Str *out)
{
    fields_page(gpu_fields, ARRAY_LEN(gpu_fields), out);
    str_add(out, "\nAn entry of `mig` is the name of a profile or a mapping:\n\n");
    fields_page(mig_fields, ARRAY_LEN(mig_fields), out);
}
