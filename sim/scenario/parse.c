/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a scenario: the order of its parts, the node, the verdicts. Nothing here makes a file. */
#include "sim/scenario/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/cleanup.h"

typedef struct NodeArgs {
    const char *hostname, *driver, *cuda, *start;
    uint32_t generation, cgroups, pids;
    uint64_t seed;
    double network;
} NodeArgs;
typedef struct TopArgs {
    const char *about;
    const YamlNode *node, *gpus, *work, *at, *truth, *owners, *given;
} TopArgs;

static const char *const generation_names[] = {"by-driver", "535", "550", "590", "610", NULL};
static const uint32_t generations[] = {0, 535, 550, 590, 610};
static const char *const cgroups_names[] = {"systemd", "cgroupfs", "v1", NULL}; /* by SimCgroups */
static const char *const pids_names[] = {"seen", "unseen", "unlisted", NULL};   /* by SimPids */

#define NODE(k, type, member, hi, n, d, h)                                                                             \
    {                                                                                                                  \
        k, type, 0, offsetof(NodeArgs, member), 0, 0, hi, n, d, NULL, h                                                \
    }
static const Field node_fields[] = {
    NODE("hostname", FIELD_TEXT, hostname, 0, NULL, "gpu-node-01", "name of the node"),
    NODE("driver", FIELD_TEXT, driver, 0, NULL, "590.48.01", "driver version"),
    NODE("cuda", FIELD_TEXT, cuda, 0, NULL, "by-driver", "CUDA version of the driver"),
    NODE("generation", FIELD_ENUM, generation, 0, generation_names, "by-driver", "which functions the library exports"),
    NODE("seed", FIELD_U64, seed, 9e15, NULL, "1", "identities, spread of silicon and cooling, pids"),
    NODE("cgroups", FIELD_ENUM, cgroups, 0, cgroups_names, "systemd",
         "who names the cgroups of containers: systemd, the runtimes themselves, the same in version 1"),
    NODE("pids", FIELD_ENUM, pids, 0, pids_names, "seen",
         "processes of works: in /proc, in the driver's lists alone, or (another pid namespace) in neither"),
    NODE("network", FIELD_DOUBLE, network, 1, NULL, "0",
         "part of its link that each network adapter carries in each direction"),
    NODE("start", FIELD_TEXT, start, 0, NULL, "2026-01-05T08:00:00Z", "wall clock at time 0, or now"),
};
#define TOP(k, type, fl, member, h)                                                                                    \
    {                                                                                                                  \
        k, type, fl, offsetof(TopArgs, member), 0, 0, 0, NULL, NULL, NULL, h                                           \
    }
static const Field top_fields[] = {
    TOP("about", FIELD_TEXT, FIELD_NEEDED, about, "one line: what this is"),
    TOP("node", FIELD_NODE, 0, node, "the machine"),
    TOP("gpus", FIELD_NODE, FIELD_NEEDED, gpus, "its GPUs: a mapping, or a list of them"),
    TOP("work", FIELD_NODE, 0, work, "what runs"),
    TOP("at", FIELD_NODE, 0, at, "what happens when"),
    TOP("truth", FIELD_NODE, FIELD_NEEDED, truth, "what a right monitor concludes; [] for nothing"),
    TOP("given", FIELD_NODE, 0, given, "who is given which device, for tests that stand in for a workload manager"),
    TOP("owners", FIELD_NODE, 0, owners,
        "whose the time of each device is; where it is given, all other time is nobody's"),
};
static const FieldSet node_set = {node_fields, ARRAY_LEN(node_fields), "'node'"};
static const FieldSet top_set = {top_fields, ARRAY_LEN(top_fields), "a scenario"};

/* "13.1" to 13010; 0 where it is none. */
static uint32_t cuda_number(const char *text)
{
    const char *dot = strchr(text, '.');
    char *end = NULL;
    if (!dot || dot == text || strspn(text, "0123456789.") != strlen(text) || strlen(text) > 6 || !dot[1])
        return 0;
    unsigned long major = strtoul(text, NULL, 10), minor = strtoul(dot + 1, &end, 10);
    return *end || major < 9 || major > 99 || minor > 99 ? 0 : (uint32_t)(major * 1000 + minor * 10);
}

uint32_t scenario_generation(const char *driver)
{
    long major = strtol(driver, NULL, 10);
    return major < 545 ? 535 : major < 560 ? 550 : major < 600 ? 590 : 610;
}

uint32_t scenario_cuda(const char *driver)
{
    /* First branch of the driver that brought each CUDA version: CUDA's release notes, table of driver versions. */
    static const struct {
        long branch;
        uint32_t cuda;
    } rows[] = {{610, 13030}, {595, 13020}, {590, 13010}, {580, 13000}, {575, 12090}, {570, 12080},
                {565, 12070}, {560, 12060}, {555, 12050}, {550, 12040}, {545, 12030}, {535, 12020},
                {530, 12010}, {525, 12000}, {520, 11080}, {515, 11070}, {510, 11060}, {495, 11050},
                {470, 11040}, {465, 11030}, {460, 11020}, {455, 11010}};
    long branch = strtol(driver, NULL, 10);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (branch >= rows[i].branch)
            return rows[i].cuda;
    return 11000;
}

static int parse_node(Parse *parse, const YamlNode *node, Err *err)
{
    NodeArgs args = {0};
    bool seen[FIELD_MAX];
    ScenarioNode *out = &parse->out->node;
    TRY(field_defaults(&node_set, parse->arena, &args, err));
    TRY(field_read_map(&node_set, node, parse->arena, &args, seen, err));
    size_t len = strlen(args.hostname);
    if (len == 0 || len >= SIM_NAME_MAX)
        return field_fail(yaml_get(node, "hostname"), err, "'hostname' must have 1 to %d bytes", SIM_NAME_MAX - 1);
    len = strlen(args.driver);
    if (len < 5 || len > 20 || strspn(args.driver, "0123456789.") != len || strtol(args.driver, NULL, 10) < 450)
        return field_fail(yaml_get(node, "driver"), err, "'driver' must be a version from 450 on like 590.48.01");
    out->cuda_version = strcmp(args.cuda, "by-driver") != 0 ? cuda_number(args.cuda) : scenario_cuda(args.driver);
    if (!out->cuda_version)
        return field_fail(yaml_get(node, "cuda"), err, "'cuda' must be a version like \"13.1\", or by-driver");
    if (strcmp(args.start, "now") != 0 && value_time(args.start, &out->start_us) < 0)
        return field_fail(yaml_get(node, "start"), err, "'start' must be now or a time like 2026-01-05T08:00:00Z");
    out->hostname = args.hostname;
    out->driver = args.driver;
    out->generation = args.generation ? generations[args.generation] : scenario_generation(args.driver);
    out->seed = args.seed;
    out->cgroups = args.cgroups;
    out->pids = args.pids;
    out->network = args.network;
    return 0;
}

static int parse_truths(Parse *parse, const YamlNode *list, Err *err)
{
    TRY(yaml_want(list, YAML_SEQ, "truth", err));
    if (list->len > SCENARIO_TRUTHS_MAX)
        return field_fail(list, err, "'truth' must have at most %d entries", SCENARIO_TRUTHS_MAX);
    ScenarioTruth *truths = arena_calloc(parse->arena, list->len ? list->len : 1, sizeof *truths);
    for (size_t i = 0; i < list->len; i++) {
        TRY(truth_read(list->items[i], parse->out->gpu_count, parse->arena, &truths[i], err));
        size_t k = 0;
        while (truths[i].work && k < parse->works.len && strcmp(parse->works.at[k].name, truths[i].work) != 0)
            k++;
        if (truths[i].work && k == parse->works.len)
            return field_fail(yaml_get(list->items[i], "work"), err, "unknown work '%.40s'", truths[i].work);
    }
    parse->out->truths = truths;
    parse->out->truth_count = list->len;
    return 0;
}

static int parse_owners(Parse *parse, const YamlNode *list, const char *what, bool given, const ScenarioOwner **ret,
                        size_t *ret_count, Err *err)
{
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, what, err));
    if (list->len > SCENARIO_OWNERS_MAX)
        return field_fail(list, err, "'%s' must have at most %d entries", what, SCENARIO_OWNERS_MAX);
    ScenarioOwner *owners = arena_calloc(parse->arena, list->len ? list->len : 1, sizeof *owners);
    for (size_t i = 0; i < list->len; i++)
        TRY(truth_read_owner(list->items[i], parse->out->gpu_count, given, parse->arena, &owners[i], err));
    *ret = owners;
    *ret_count = list->len;
    return 0;
}

typedef struct Placed {
    uint64_t t_ns;
    size_t at;
} Placed;

static int compare_ops(const void *a, const void *b)
{
    const Placed *x = a, *y = b;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Hands ops (in time order, else as they were made) and works over to the arena. */
static void parse_finish(Parse *parse)
{
    size_t n = parse->ops.len;
    Placed *order = arena_calloc(parse->arena, n ? n : 1, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (Placed){parse->ops.at[i].op.t_ns, i};
    if (n)
        qsort(order, n, sizeof *order, compare_ops);
    ScenarioOp *ops = arena_calloc(parse->arena, n ? n : 1, sizeof *ops);
    for (size_t i = 0; i < n; i++)
        ops[i] = parse->ops.at[order[i].at];
    parse->out->ops = ops;
    parse->out->op_count = n;
    parse->out->works = parse->works.len
                            ? arena_memdup(parse->arena, parse->works.at, parse->works.len * sizeof *parse->works.at)
                            : NULL;
    parse->out->work_count = parse->works.len;
}

/* --- the timeline: entries of `at` become occurrences in time order, and these become ops ------------------------ */

typedef struct Occurrence {
    uint64_t t_ns;
    uint32_t entry, order;
    int undo, train; /* train: its ops carry the repeats */
} Occurrence;
typedef VEC(Occurrence) Occurrences;

typedef struct Entry {
    const Step *step;
    StepArgs args;
} Entry;

static int compare_occurrences(const void *a, const void *b)
{
    const Occurrence *x = a, *y = b;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int add_occurrences(Occurrences *list, const Entry *entry, uint32_t index, Err *err)
{
    const StepArgs *a = &entry->args;
    int train = a->times > 1 && !a->for_ns && !(entry->step->flags & STEP_STATE);
    uint32_t times = train ? 1 : a->times;
    uint64_t last = (uint64_t)(a->times - 1) * (a->every_ns / 1000); /* microseconds: cannot overflow */
    if (last > UINT64_C(1000000000) * 1000000 || a->time_ns > UINT64_C(1000000000) * 1000000000)
        return field_fail(a->node, err, "the timeline may last at most 1000000000 s");
    if (a->for_ns && a->times > 1 && a->for_ns >= a->every_ns)
        return field_fail(a->node, err, "'for' must be shorter than 'every'");
    for (uint32_t i = 0; i < times; i++) {
        if (list->len + 2 > SCENARIO_OPS_MAX)
            return field_fail(a->node, err, "the timeline has more than %d occurrences", SCENARIO_OPS_MAX);
        Occurrence o = {
            .t_ns = a->time_ns + i * a->every_ns, .entry = index, .order = (uint32_t)list->len, .train = train};
        vec_push(list, o);
        if (!a->for_ns)
            continue;
        o.t_ns += a->for_ns;
        o.order++;
        o.undo = 1;
        vec_push(list, o);
    }
    return 0;
}

static int ops_make(Parse *parse, const Entry *entries, const Occurrences *list, Err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        const Occurrence *o = &list->at[i];
        const Entry *e = &entries[o->entry];
        size_t from = parse->ops.len;
        TRY(step_make(e->step, &e->args, &parse->node, o->t_ns, o->undo, parse->arena, &parse->ops, err));
        for (size_t k = from; o->train && k < parse->ops.len; k++) {
            parse->ops.at[k].op.times = e->args.times;
            parse->ops.at[k].op.every_ns = e->args.every_ns;
        }
        if (parse->ops.len > SCENARIO_OPS_MAX)
            return field_fail(e->args.node, err, "the scenario has more than %d ops", SCENARIO_OPS_MAX);
    }
    return 0;
}

static int read_all(Parse *parse, const YamlNode *list, Entry *entries, Occurrences *occurrences, Err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        TRY(step_read_map(list->items[i], &parse->node, parse->arena, &entries[i].step, &entries[i].args, err));
        TRY(add_occurrences(occurrences, &entries[i], (uint32_t)i, err));
    }
    if (occurrences->len)
        qsort(occurrences->at, occurrences->len, sizeof *occurrences->at, compare_occurrences);
    return ops_make(parse, entries, occurrences, err);
}

static int parse_timeline(Parse *parse, const YamlNode *list, Err *err)
{
    Occurrences occurrences = {0};
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "at", err));
    if (list->len > SCENARIO_STEPS_MAX)
        return field_fail(list, err, "'at' must have at most %d entries", SCENARIO_STEPS_MAX);
    Entry *entries = arena_calloc(parse->arena, list->len ? list->len : 1, sizeof *entries);
    int rc = read_all(parse, list, entries, &occurrences, err);
    vec_done(&occurrences);
    return rc;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static int parse_all(Parse *parse, const YamlNode *root, Err *err)
{
    TopArgs top = {0};
    bool seen[FIELD_MAX];
    TRY(field_read_map(&top_set, root, parse->arena, &top, seen, err));
    if (strpbrk(top.about, "\r\n") || strlen(top.about) > 200)
        return field_fail(yaml_get(root, "about"), err, "'about' must be one line of at most 200 bytes");
    parse->out->about = top.about;
    TRY(parse_node(parse, top.node, err));
    TRY(parse_gpus(parse, top.gpus, err));
    TRY(parse_works(parse, top.work, err));
    TRY(parse_timeline(parse, top.at, err));
    TRY(parse_truths(parse, top.truth, err));
    TRY(parse_owners(parse, top.given, "given", true, &parse->out->given, &parse->out->given_count, err));
    TRY(parse_owners(parse, top.owners, "owners", false, &parse->out->owners, &parse->out->owner_count, err));
    if (parse->ops.len > SCENARIO_OPS_MAX)
        return field_fail(root, err, "the scenario has more than %d ops", SCENARIO_OPS_MAX);
    parse_finish(parse);
    return 0;
}

int scenario_parse(const char *file, const char *text, size_t len, BoardSet *boards, Arena *arena, const Scenario **ret,
                   Err *err)
{
    const YamlNode *root = NULL;
    TRY(yaml_load(file, text, len, arena, &root, err));
    if (!root)
        return err_set(err, -EINVAL, "%s: the file is empty", file);
    Parse parse = {.boards = boards, .arena = arena, .out = arena_alloc(arena, sizeof *parse.out)};
    parse.out->name = library_name_of(file, arena);
    int rc = parse_all(&parse, root, err);
    step_node_done(&parse.node);
    vec_done(&parse.ops);
    vec_done(&parse.works);
    if (rc == 0)
        *ret = parse.out;
    return rc;
}

int scenario_load(const char *const *dirs, const char *what, BoardSet *boards, Arena *arena, const Scenario **ret,
                  Err *err)
{
    const char *path = NULL;
    CLEANUP(str_done) Str text;
    str_init(&text, LIBRARY_BYTES_MAX);
    TRY(library_find(dirs, what, arena, &path, err));
    TRY(file_read(path, LIBRARY_BYTES_MAX, &text, err));
    return scenario_parse(path, text.text, text.len, boards, arena, ret, err);
}

void scenario_node_page(Str *out)
{
    fields_page(top_fields, ARRAY_LEN(top_fields), out);
    str_add(out, "\n`node`:\n\n");
    fields_page(node_fields, ARRAY_LEN(node_fields), out);
}
