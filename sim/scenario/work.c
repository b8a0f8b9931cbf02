/* SPDX-License-Identifier: Apache-2.0 */
/* The works of a scenario: one entry becomes a process per GPU or MIG device, and the ops that start and end them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/core/control.h"
#include "sim/core/kinds.h"
#include "sim/core/num.h"
#include "sim/scenario/owner.h"
#include "sim/scenario/parse.h"

enum { PID_AFTER = 4096, PID_APART = SIM_WORK_MAX + 64, PID_SPREAD = 64 };

typedef struct WorkArgs {
    const char *name, *kind, *pid_of;
    char process[32];
    const YamlNode *slow, *then;
    uint64_t gpus, mig, start_ns, stop_ns, step_ns;
    uint32_t independent, pid, mps;
    double memory_mib, leak_mib, writes_mib, intensity, load;
    OwnerArgs owner;
} WorkArgs;

enum { AT_KIND, AT_NAME, AT_GPUS };
#define AT(member) offsetof(WorkArgs, member)
#define KEY(k, type, member, lo, hi, d, u, h)                                                                          \
    {                                                                                                                  \
        k, type, 0, AT(member), 0, lo, hi, NULL, d, u, h                                                               \
    }
static const Field work_fields[] = {
    [AT_KIND] = {"kind", FIELD_TEXT, FIELD_NEEDED | FIELD_FIRST, AT(kind), 0, 0, 0, NULL, NULL, NULL,
                 "what it does, see below"},
    [AT_NAME] = {"name", FIELD_TEXT, FIELD_NEEDED, AT(name), 0, 0, 0, NULL, NULL, NULL, "what steps and truth call it"},
    [AT_GPUS] = {"gpus", FIELD_INDEXES, FIELD_NEEDED, AT(gpus), 0, 0, SIM_GPU_MAX - 1, NULL, NULL, NULL,
                 "one process on each of these"},
    KEY("mig", FIELD_INDEXES, mig, 0, SIM_CI_MAX - 1, NULL, NULL,
        "one process on each of these MIG devices of each GPU"),
    KEY("start", FIELD_DURATION, start_ns, 0, 0, "0s", NULL, "when it starts"),
    KEY("stop", FIELD_DURATION, stop_ns, 0, INFINITY, "forever", NULL, "when it ends"),
    KEY("memory", FIELD_MIB, memory_mib, 1, 2e6, NULL, NULL, "GPU memory of each process; without: usual for the kind"),
    KEY("leak", FIELD_MIB, leak_mib, 0, 1e5, NULL, NULL, "memory it gains per second"),
    KEY("writes", FIELD_MIB, writes_mib, 0, 1e5, "0", NULL,
        "what each process writes to storage per second in which no kernel of it runs"),
    {"process", FIELD_CHARS, 0, AT(process), sizeof(((WorkArgs *)0)->process), 0, 0, NULL, NULL, NULL,
     "name of the process; without: the work's"},
    KEY("command", FIELD_TEXT, owner.command, 0, 0, NULL, NULL, "its arguments; without: what the program usually has"),
    KEY("user", FIELD_TEXT, owner.user, 0, 0, "1000", NULL, "whose it is, by name or number: 1000 to 1012 have names"),
    {"container", FIELD_ENUM, 0, AT(owner.container), 0, 0, 0, owner_runtimes, "none", NULL,
     "what runs it in a container, one for all of the processes"},
    KEY("pod", FIELD_TEXT, owner.pod, 0, 0, NULL, NULL,
        "name or namespace/name of its pod; of independent processes each has its own, with its number behind"),
    KEY("job", FIELD_TEXT, owner.job, 0, 0, NULL, NULL, "number of its Slurm job, with a step or without: 4711.0"),
    KEY("step", FIELD_DURATION, step_ns, 0.001, 3600, NULL, NULL, "time of one step alone at full clocks"),
    KEY("intensity", FIELD_DOUBLE, intensity, 0.01, 1, NULL, NULL, "factor on all activity"),
    KEY("load", FIELD_DOUBLE, load, 0.01, 1, NULL, NULL, "busy share of a server"),
    KEY("slow", FIELD_NODE, slow, 0, 0, NULL, NULL, "ranks that compute slower, as {5: 1.25}"),
    KEY("pid", FIELD_U32, pid, 1, SIM_PID_FIRST, NULL, NULL,
        "injected only: a living process of this machine, which is then on the GPU until it ends"),
    KEY("pid_of", FIELD_TEXT, pid_of, 0, 0, NULL, NULL,
        "a work that has ended by then, whose pids these processes get"),
    KEY("mps", FIELD_BOOL, mps, 0, 0, "no", NULL,
        "clients of NVIDIA's MPS; their server is a work of its own, with the process nvidia-cuda-mps-server"),
    KEY("independent", FIELD_BOOL, independent, 0, 0, "no", NULL, "the processes do not wait for each other"),
    KEY("then", FIELD_NODE, then, 0, 0, NULL, NULL, "how it goes on, a list of changes, see below"),
};
static const FieldSet work_set = {work_fields, ARRAY_LEN(work_fields), "an entry of 'work'"};

typedef struct ThenArgs {
    const char *kind;
    uint64_t time_ns, step_ns;
    double memory_mib, leak_mib, intensity, load;
} ThenArgs;
#define THEN(k, type, fl, member, lo, hi, h)                                                                           \
    {                                                                                                                  \
        k, type, fl, offsetof(ThenArgs, member), 0, lo, hi, NULL, NULL, NULL, h                                        \
    }
static const Field then_fields[] = {
    THEN("time", FIELD_DURATION, FIELD_NEEDED, time_ns, 0, 0, "when it changes"),
    THEN("kind", FIELD_TEXT, 0, kind, 0, 0, "what it does from then on"),
    THEN("memory", FIELD_MIB, 0, memory_mib, 1, 2e6, "GPU memory of each process"),
    THEN("leak", FIELD_MIB, 0, leak_mib, 0, 1e5, "memory it gains per second"),
    THEN("step", FIELD_DURATION, 0, step_ns, 0.001, 3600, "time of one step"),
    THEN("intensity", FIELD_DOUBLE, 0, intensity, 0.01, 1, "factor on all activity"),
    THEN("load", FIELD_DOUBLE, 0, load, 0.01, 1, "busy share of a server"),
};
static const FieldSet then_set = {then_fields, ARRAY_LEN(then_fields), "an entry of 'then'"};

static int kind_check(const YamlNode *node, const char *kind, Err *err)
{
    const char *names[64] = {0};
    for (uint32_t i = 0; i < ARRAY_LEN(names) - 1 && (names[i] = sim_kind_name(i)); i++)
        if (strcmp(names[i], kind) == 0)
            return 0;
    return field_unknown(yaml_get(node, "kind"), err, "kind of work", kind, names);
}

/* Memory of the device, as a process may use it. 0: the MIG device is not there at the start. */
static double device_mib(const StepNode *node, uint32_t gpu, int32_t mig)
{
    const SimBoard *b = node->boards[gpu];
    uint32_t gi = 0, ci = 0;
    if (mig == SIM_NONE)
        return (double)(b->memory_mib - b->reserved_mib);
    if (!sim_mig_device(&node->conds[gpu], (uint32_t)mig, &gi, &ci))
        return 0;
    return (double)b->profiles[node->conds[gpu].gi[gi].profile].memory_mib;
}

/* One process; memory and place are checked here. */
static int process_add(Parse *parse, const WorkArgs *args, const YamlNode *node, ScenarioWork work, Err *err)
{
    const StepNode *n = &parse->node;
    double room = device_mib(n, (uint32_t)work.gpu, work.mig);
    if (work.mig == SIM_NONE && n->conds[work.gpu].mig_mode && work.start_ns == 0)
        return field_fail(node, err, "work '%s': gpu %d is in MIG mode: 'mig' must say which devices", args->name,
                          work.gpu);
    if (room <= 0 && work.start_ns == 0)
        return field_fail(node, err, "work '%s': gpu %d has no MIG device %d", args->name, work.gpu, work.mig);
    double usual = room;
    if (work.mig != SIM_NONE && work.start_ns > 0) { /* the layout may be another by then */
        room = device_mib(n, (uint32_t)work.gpu, SIM_NONE);
        if (usual <= 0)
            usual = n->boards[work.gpu]->profile_count ? n->boards[work.gpu]->profiles[0].memory_mib : 1;
    }
    if (work.memory_mib <= 0)
        work.memory_mib = floor(sim_kind_memory(work.kind) * usual);
    if (work.memory_mib > room)
        return field_fail(node, err, "work '%s': %.0f MiB do not fit in the %.0f MiB of gpu %d", args->name,
                          work.memory_mib, room, work.gpu);
    if (parse->works.len == SIM_WORK_MAX)
        return field_fail(node, err, "at most %d processes in all", SIM_WORK_MAX);
    vec_push(&parse->works, work);
    return 0;
}

static int places_add(Parse *parse, const WorkArgs *args, const YamlNode *node, ScenarioWork work, Err *err)
{
    uint64_t mig = args->mig;
    for (uint32_t g = 0; g < parse->node.gpu_count; g++) {
        if (!(args->gpus >> g & 1))
            continue;
        work.gpu = (int32_t)g;
        work.mig = SIM_NONE;
        if (!mig)
            TRY(process_add(parse, args, node, work, err));
        for (uint32_t m = 0; mig && m < SIM_CI_MAX; m++) {
            work.mig = (int32_t)m;
            if (mig == FIELD_ALL ? device_mib(&parse->node, g, work.mig) > 0 : mig >> m & 1)
                TRY(process_add(parse, args, node, work, err));
        }
    }
    return 0;
}

/* No process of the machine that we run on has it. Ranks follow each other, jobs keep apart. */
static uint32_t pid_of(uint64_t seed, uint32_t job, uint32_t rank)
{
    return SIM_PID_FIRST + PID_AFTER + job * PID_APART + (uint32_t)(sim_hash(seed, job, 1) % PID_SPREAD) + rank;
}

/* Ranks in order, their pids, and who computes slower. */
static int ranks_set(Parse *parse, const WorkArgs *args, size_t from, int32_t job, Err *err)
{
    uint32_t count = (uint32_t)(parse->works.len - from);
    for (uint32_t i = 0; i < count; i++) {
        ScenarioWork *w = &parse->works.at[from + i];
        w->rank = i;
        w->ranks = args->independent ? 1 : count;
        w->job = args->independent || count < 2 ? SIM_NONE : job;
        w->draw =
            2000 + (uint32_t)(sim_hash(parse->out->node.seed, (uint64_t)job, 1) % 30000) + 137 * (uint32_t)job + i;
        w->pid = pid_of(parse->out->node.seed, (uint32_t)job, i);
        w->offset_s = args->independent ? 0.1 * i : 0;
    }
    if (!args->slow)
        return 0;
    TRY(yaml_want(args->slow, YAML_MAP, "slow", err));
    for (size_t i = 0; i < args->slow->len; i++) {
        const YamlPair *pair = &args->slow->pairs[i];
        Field rank = {.key = "slow: rank", .type = FIELD_U32, .max = count > 1 ? count - 1 : 0};
        Field factor = {.key = "slow", .type = FIELD_DOUBLE, .min = 0.1, .max = 100};
        uint32_t r = 0;
        if (yaml_text(pair->value) == NULL)
            return field_fail(pair->value, err, "'slow' must give a factor for each rank");
        TRY(field_read_text(&rank, pair->key->text, pair->key, NULL, &r, err));
        if (r >= count)
            return field_fail(pair->key, err, "work '%s' has %u ranks", args->name, count);
        TRY(field_read_text(&factor, pair->value->text, pair->value, NULL, &parse->works.at[from + r].slow, err));
    }
    return 0;
}

/* The pids of an earlier work, rank by rank. */
static int pids_copy(Parse *parse, const WorkArgs *args, size_t from, const YamlNode *node, Err *err)
{
    size_t old = 0;
    while (old < from && strcmp(parse->works.at[old].name, args->pid_of) != 0)
        old++;
    for (size_t i = from; i < parse->works.len; i++, old++) {
        if (old >= from || strcmp(parse->works.at[old].name, args->pid_of) != 0)
            return field_fail(yaml_get(node, "pid_of"), err, "no work '%.40s' before it has so many processes",
                              args->pid_of);
        if (parse->works.at[old].stop_ns > args->start_ns)
            return field_fail(yaml_get(node, "pid_of"), err, "work '%.40s' has not ended by then", args->pid_of);
        parse->works.at[i].pid = parse->works.at[old].pid;
    }
    return 0;
}

/* The next stage of every process of [from, from + count): the same process, other doings. */
static int stage_add(Parse *parse, const WorkArgs *args, const ThenArgs *then, const bool *seen, size_t from,
                     size_t count, const YamlNode *node, Err *err)
{
    if (then->kind)
        TRY(kind_check(node, then->kind, err));
    for (size_t i = 0; i < count; i++) {
        ScenarioWork next = parse->works.at[from + i];
        if (then->time_ns <= next.start_ns || then->time_ns >= next.stop_ns)
            return field_fail(node, err, "work '%s': 'time' must lie between the change before and the end",
                              args->name);
        parse->works.at[from + i].stop_ns = then->time_ns;
        next.start_ns = then->time_ns;
        next.before = (int32_t)(from + i);
        next.leak_mib_per_s = 0;
        if (then->kind)
            next.kind = then->kind;
        if (then->memory_mib > 0)
            next.memory_mib = then->memory_mib;
        if (seen[3])
            next.leak_mib_per_s = then->leak_mib;
        if (then->step_ns)
            next.step_s = (double)then->step_ns / 1e9;
        if (then->intensity > 0)
            next.intensity = then->intensity;
        if (then->load > 0)
            next.load = then->load;
        TRY(process_add(parse, args, node, next, err));
    }
    return 0;
}

static int stages_add(Parse *parse, const WorkArgs *args, size_t from, Err *err)
{
    size_t count = parse->works.len - from;
    if (!args->then)
        return 0;
    TRY(yaml_want(args->then, YAML_SEQ, "then", err));
    if (args->then->len > SCENARIO_THEN_MAX)
        return field_fail(args->then, err, "'then' must have at most %d entries", SCENARIO_THEN_MAX);
    for (size_t i = 0; i < args->then->len; i++) {
        ThenArgs then = {0};
        bool seen[FIELD_MAX];
        TRY(field_read_map(&then_set, args->then->items[i], parse->arena, &then, seen, err));
        TRY(stage_add(parse, args, &then, seen, from + i * count, count, args->then->items[i], err));
    }
    return 0;
}

static void op_add(Parse *parse, SimOpType type, uint64_t t_ns, const ScenarioWork *work, int32_t index)
{
    ScenarioOp *added = vec_add(&parse->ops);
    added->op = (SimOp){.t_ns = t_ns, .type = type, .gpu = work->gpu, .a = {index, 0, 0, 0}};
}

/* What the steps may name, and the ops. A stage ends before the next begins. */
static void ops_add(Parse *parse, size_t from, size_t count)
{
    for (size_t i = from; i < parse->works.len; i++) {
        const ScenarioWork *w = &parse->works.at[i];
        StepWork step = {.name = w->name,
                         .process = w->process,
                         .index = (int32_t)i,
                         .gpu = w->gpu,
                         .mig = w->mig,
                         .rank = w->rank,
                         .pid = w->pid,
                         .start_ns = w->start_ns,
                         .stop_ns = w->stop_ns,
                         .first = i < from + count};
        vec_push(&parse->node.works, step);
        if (w->stop_ns != SIM_FOREVER)
            op_add(parse, SIM_OP_WORK_STOP, w->stop_ns, w, (int32_t)i);
    }
    for (size_t i = from; i < parse->works.len; i++)
        op_add(parse, SIM_OP_WORK_START, parse->works.at[i].start_ns, &parse->works.at[i], (int32_t)i);
}

static void owners_fill(Parse *parse, const WorkArgs *args, const Owner *owner, size_t from, int32_t job)
{
    const bool alone = args->independent && parse->works.len - from > 1;
    for (size_t i = from; i < parse->works.len; i++)
        owner_fill(owner, parse, (uint32_t)job, alone, &parse->works.at[i]);
}

static int work_make(Parse *parse, WorkArgs *args, int32_t job, const YamlNode *node, Err *err)
{
    size_t from = parse->works.len;
    Owner owner;
    TRY(kind_check(node, args->kind, err));
    if (strlen(args->name) == 0 || strlen(args->name) >= sizeof args->process)
        return field_fail(yaml_get(node, "name"), err, "'name' must have 1 to %zu bytes", sizeof args->process - 1);
    if (args->gpus != FIELD_ALL && args->gpus >> parse->node.gpu_count)
        return field_fail(yaml_get(node, "gpus"), err, "there is no such GPU: the node has %u, 0 to %u",
                          parse->node.gpu_count, parse->node.gpu_count - 1);
    if (args->stop_ns <= args->start_ns)
        return field_fail(node, err, "work '%s': 'stop' must be later than 'start'", args->name);
    ScenarioWork work = {.name = args->name,
                         .kind = args->kind,
                         .before = SIM_NONE,
                         .slow = 1,
                         .live_pid = args->pid,
                         .mps = args->mps,
                         .process = args->process[0] ? arena_strdup(parse->arena, args->process) : args->name,
                         .memory_mib = args->memory_mib,
                         .leak_mib_per_s = args->leak_mib,
                         .writes_mib = args->writes_mib,
                         .step_s = (double)args->step_ns / 1e9,
                         .intensity = args->intensity,
                         .load = args->load,
                         .start_ns = args->start_ns,
                         .stop_ns = args->stop_ns};
    TRY(owner_read(&args->owner, &work, node, parse->arena, &owner, err));
    TRY(places_add(parse, args, node, work, err));
    size_t count = parse->works.len - from;
    if (count == 0)
        return field_fail(node, err, "work '%s' has no place: no GPU or MIG device is meant", args->name);
    TRY(ranks_set(parse, args, from, job, err));
    if (args->pid_of)
        TRY(pids_copy(parse, args, from, node, err));
    owners_fill(parse, args, &owner, from, job);
    TRY(stages_add(parse, args, from, err));
    ops_add(parse, from, count);
    return 0;
}

int parse_works(Parse *parse, const YamlNode *list, Err *err)
{
    if (yaml_is_null(list))
        return 0;
    TRY(yaml_want(list, YAML_SEQ, "work", err));
    if (list->len > SCENARIO_WORKS_MAX)
        return field_fail(list, err, "'work' must have at most %d entries", SCENARIO_WORKS_MAX);
    for (size_t i = 0; i < list->len; i++) {
        WorkArgs args = {0};
        bool seen[FIELD_MAX];
        TRY(field_defaults(&work_set, parse->arena, &args, err));
        TRY(field_read_map(&work_set, list->items[i], parse->arena, &args, seen, err));
        for (size_t k = 0; k < parse->node.works.len; k++)
            if (strcmp(parse->node.works.at[k].name, args.name) == 0)
                return field_fail(yaml_get(list->items[i], "name"), err, "work '%s' is there twice", args.name);
        if (args.pid)
            return field_fail(yaml_get(list->items[i], "pid"), err, "'pid' is for 'stoker sim inject work' only");
        TRY(work_make(parse, &args, (int32_t)i, list->items[i], err));
    }
    return 0;
}

int parse_work_words(Parse *parse, int argc, const char *const *argv, Err *err)
{
    WorkArgs args = {0};
    bool seen[FIELD_MAX];
    Field fields[ARRAY_LEN(work_fields)];
    memcpy(fields, work_fields, sizeof fields);
    fields[AT_NAME].flags = 0;
    FieldSet set = {fields, ARRAY_LEN(fields), "a work"};
    TRY(field_defaults(&set, parse->arena, &args, err));
    TRY(field_read_words(&set, argc, argv, parse->arena, &args, seen, err));
    if (!args.name)
        args.name = args.kind;
    return work_make(parse, &args, (int32_t)parse->node.works.len + SCENARIO_WORKS_MAX, NULL, err);
}

void works_page(Str *out)
{
    fields_page(work_fields, ARRAY_LEN(work_fields), out);
    str_add(out, "\nAn entry of `then` keeps the process and changes what it does:\n\n");
    fields_page(then_fields, ARRAY_LEN(then_fields), out);
    str_add(out, "\n| kind | what it does |\n|---|---|\n");
    for (uint32_t i = 0; sim_kind_name(i); i++)
        str_addf(out, "| `%s` | %s |\n", sim_kind_name(i), sim_kind_about(i));
}
