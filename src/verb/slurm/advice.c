/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place slurm JOBID`: why a job of Slurm's waits, and what to change. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/number.h"
#include "base/vec.h"
#include "source/slurm/reason.h"
#include "verb/slurm/input.h"
#include "verb/slurm/slurm_verbs.h"

enum { REPORT_MAX = 1 << 20, SHOWN = 5, TIME_CAP = 32 };

typedef struct AdviceOptions {
    SlurmInput input;
    bool json;
} AdviceOptions;

static const OptSpec advice_opts[] = {
    OPT_ROW("nodes", OPT_STRING, AdviceOptions, input.nodes, .metavar = "FILE",
            .help = "output of 'scontrol show node --oneliner'; '-' is stdin (without: scontrol is run)"),
    OPT_ROW("jobs", OPT_STRING, AdviceOptions, input.jobs, .metavar = "FILE",
            .help = "output of 'scontrol show job --oneliner -d'"),
    OPT_ROW("topology", OPT_STRING, AdviceOptions, input.topology, .metavar = "FILE",
            .help = "output of 'scontrol show topology', or a topology.conf"),
    OPT_ROW("json", OPT_BOOL, AdviceOptions, json, .help = "as JSON"),
    SLURM_INPUT_TIMEOUT(AdviceOptions, input),
};

/* --- counting ----------------------------------------------------------------------------------------------------- */

/* What of a node a job's share needs. */
typedef enum Lack { LACK_TYPE, LACK_GPUS, LACK_CPUS, LACK_MEMORY, LACK_END } Lack;
static const char *const lacks[LACK_END] = {"type of GPU", "number of GPUs", "CPUs", "memory"};

typedef struct End {
    uint64_t at_s;
    size_t job;
} End;

typedef struct Advice {
    const SlurmCluster *slurm;
    const ClusterJob *job;
    const SlurmJob *facts;
    const SlurmReason *reason;
    const ClusterRole *role;      /* that with the most GPUs: counts are for it */
    uint32_t needed;              /* nodes, of all roles */
    size_t possible, closed, now; /* nodes that can ever take a share; of these closed ones; those that can now */
    size_t by_rule[CLUSTER_RULES_MAX], by_lack[LACK_END]; /* nodes that each excludes by itself */
    VEC(End) ends;                                        /* of jobs on nodes that are possible, the first end first */
} Advice;

typedef struct Used {
    uint64_t cpu_milli, memory_mib;
    uint32_t gpus;
} Used;

static bool rule_allows(const ClusterRule *rule, size_t node)
{
    return rule->nodes[node / 64] >> node % 64 & 1;
}

/* Bits by Lack: what the node has not, beside what runs there. */
static unsigned find_lacks(const ClusterNode *n, const ClusterRequest *r, Used used)
{
    const bool typed = r->gpu_count && n->gpu_count && r->models && !(r->models >> n->model & 1);

    return (unsigned)typed << LACK_TYPE |
           (unsigned)(r->gpu_count + used.gpus > n->gpu_count && r->gpu_count) << LACK_GPUS |
           (unsigned)(r->cpu_milli + used.cpu_milli > n->cpu_milli) << LACK_CPUS |
           (unsigned)(r->memory_mib + used.memory_mib > n->memory_mib) << LACK_MEMORY;
}

static void count_used(const Cluster *c, Used *used)
{
    for (size_t i = 0; i < c->job_count; i++)
        for (size_t k = 0; k < c->jobs[i].place_count; k++) {
            const ClusterPlace *place = &c->jobs[i].places[k];
            const ClusterRequest *r = &c->jobs[i].roles[place->role].request;
            Used *at = &used[place->node];

            at->cpu_milli += r->cpu_milli;
            at->memory_mib += r->memory_mib;
            at->gpus += r->gpu_count;
        }
}

static void count_node(Advice *a, size_t node, Used used, bool *ret_possible)
{
    const ClusterNode *n = &a->slurm->cluster.nodes[node];
    const ClusterRequest *r = &a->role->request;
    const unsigned lacking = find_lacks(n, r, (Used){0});
    bool allowed = true;

    for (size_t i = 0; i < r->rule_count; i++)
        if (!rule_allows(&r->rules[i], node)) {
            a->by_rule[i]++;
            allowed = false;
        }
    for (unsigned i = 0; i < LACK_END; i++)
        a->by_lack[i] += lacking >> i & 1;
    *ret_possible = allowed && !lacking;
    a->possible += *ret_possible;
    a->closed += *ret_possible && n->closed;
    a->now += *ret_possible && !n->closed && !find_lacks(n, r, used);
}

static int compare_ends(const void *a, const void *b)
{
    const End *x = a, *y = b;

    return number_compare_u64(x->at_s, y->at_s) ? number_compare_u64(x->at_s, y->at_s)
                                                : number_compare_u64(x->job, y->job);
}

static void find_ends(Advice *a, const bool *possible)
{
    const Cluster *c = &a->slurm->cluster;

    for (size_t i = 0; i < c->job_count; i++) {
        const ClusterJob *job = &c->jobs[i];

        for (size_t k = 0; k < job->place_count && job->started_s && job->duration_s; k++)
            if (possible[job->places[k].node]) {
                vec_push(&a->ends, ((End){job->started_s + job->duration_s, i}));
                break;
            }
    }
    vec_sort(&a->ends, compare_ends);
}

static void count_nodes(Arena *arena, Advice *a)
{
    const Cluster *c = &a->slurm->cluster;
    Used *used = arena_calloc(arena, c->node_count, sizeof *used);
    bool *possible = arena_calloc(arena, c->node_count, sizeof *possible);

    count_used(c, used);
    for (size_t i = 0; i < c->node_count; i++)
        count_node(a, i, used[i], &possible[i]);
    find_ends(a, possible);
}

static void begin_advice(const SlurmCluster *slurm, size_t number, Advice *ret)
{
    *ret = (Advice){.slurm = slurm, .job = &slurm->cluster.jobs[number], .facts = &slurm->jobs[number]};
    ret->reason = slurm_reason_find(ret->facts->reason, strlen(ret->facts->reason));
    ret->role = &ret->job->roles[0];
    for (size_t i = 0; i < ret->job->role_count; i++) {
        ret->needed += ret->job->roles[i].min;
        if (ret->job->roles[i].request.gpu_count > ret->role->request.gpu_count)
            ret->role = &ret->job->roles[i];
    }
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static const char *format_time(const AdviceOptions *o, uint64_t seconds, char out[TIME_CAP])
{
    const time_t at = (time_t)seconds;
    struct tm parts;

    if (!gmtime_r(&at, &parts) || !strftime(out, TIME_CAP - 1, "%Y-%m-%dT%H:%M:%S", &parts))
        return "?";
    return strcat(out, o->input.nodes ? "" : "Z");
}

/* The remedy with the job's id. */
static const char *make_remedy(Arena *arena, const Advice *a)
{
    CLEANUP(str_done) Str text = str_limited(1024);
    const char *at = a->reason->remedy, *hole;

    for (; (hole = strstr(at, "JOBID")); at = hole + 5) {
        str_addn(&text, at, (size_t)(hole - at));
        str_add(&text, a->facts->id);
    }
    str_add(&text, at);
    return arena_strdup(arena, text.text);
}

/* "h100", "h100|a100"; "" for any. */
static const char *list_models(Arena *arena, const Cluster *c, uint64_t models)
{
    const char *text = "";

    for (size_t i = 0; i < c->model_count; i++)
        if (models >> i & 1)
            text = arena_printf(arena, "%s%s%s", text, *text ? "|" : "", c->models[i]);
    return text;
}

static void add_asked(Arena *arena, const Advice *a, Str *out)
{
    const ClusterRequest *r = &a->role->request;
    const char *models = list_models(arena, &a->slurm->cluster, r->models);
    char limit[DURATION_TEXT_MAX];

    str_addf(out, "Asks for:  %u node%s with %u GPU%s%s%s%s, %.4g CPU%s and %.4g GiB", a->needed,
             a->needed == 1 ? "" : "s", r->gpu_count, r->gpu_count == 1 ? "" : "s", *models ? " (" : "", models,
             *models ? ")" : "", r->cpu_milli / 1000., r->cpu_milli == 1000 ? "" : "s", r->memory_mib / 1024.);
    str_addf(out, "%s", a->job->role_count > 1 ? ", on some of them a GPU less" : "");
    str_addf(out, "; %s%s\n", a->job->duration_s ? "time limit " : "no time limit",
             a->job->duration_s ? duration_format_s(limit, (double)a->job->duration_s) : "");
}

static void add_counts(const Advice *a, Str *out)
{
    const ClusterRequest *r = &a->role->request;

    str_addf(out, "Nodes:     %zu of %zu can ever take a share of it", a->possible, a->slurm->cluster.node_count);
    str_addf(out, ", of these %zu closed now and %zu free now\n", a->closed, a->now);
    if (a->possible < a->needed)
        str_addf(out, "           It needs %u: it cannot start unless it or the cluster is changed.\n", a->needed);
    for (size_t i = 0; i < r->rule_count; i++)
        str_addf(out, "%s %zu by %s\n", i == 0 ? "Excludes: " : "          ", a->by_rule[i], r->rules[i].text);
    for (size_t i = 0; i < LACK_END; i++)
        if (a->by_lack[i])
            str_addf(out, "%s %zu by %s\n", i + r->rule_count == 0 ? "Excludes: " : "          ", a->by_lack[i],
                     lacks[i]);
}

static void add_ends(const AdviceOptions *o, const Advice *a, Str *out)
{
    char at[TIME_CAP];

    if (a->facts->expected_s)
        str_addf(out, "Expected:  Slurm expects it to start at %s\n", format_time(o, a->facts->expected_s, at));
    for (size_t i = 0; i < a->ends.len && i < SHOWN; i++)
        str_addf(out, "%s job %s at %s\n", i == 0 ? "Ends next:" : "          ",
                 a->slurm->cluster.jobs[a->ends.at[i].job].name, format_time(o, a->ends.at[i].at_s, at));
    if (a->ends.len > SHOWN)
        str_addf(out, "           and %zu more, by their time limits\n", a->ends.len - SHOWN);
}

static void add_text(Arena *arena, const AdviceOptions *o, const Advice *a, Str *out)
{
    str_addf(out, "Job %s of %s waits: %s\n", a->job->name, *a->facts->user ? a->facts->user : "an unknown user",
             *a->facts->reason ? a->facts->reason : "Slurm does not say why");
    if (a->reason)
        str_addf(out, "Means:     %s\nTo do:     %s\n", a->reason->meaning, make_remedy(arena, a));
    if (*a->facts->dependency)
        str_addf(out, "Depends:   %s\n", a->facts->dependency);
    if (*a->facts->licenses)
        str_addf(out, "Licences:  %s\n", a->facts->licenses);
    add_asked(arena, a, out);
    add_counts(a, out);
    add_ends(o, a, out);
    for (size_t i = 0; i < a->slurm->note_count; i++)
        str_addf(out, "%s %s\n", i == 0 ? "Note:     " : "          ", a->slurm->notes[i]);
    if (a->slurm->notes_left_out)
        str_addf(out, "           and %zu notes more\n", a->slurm->notes_left_out);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_excluding(Str *out, const char *what, size_t nodes)
{
    json_open(out, NULL, '{');
    json_add_text(out, "by", what);
    json_add_u64(out, "nodes", nodes);
    json_close(out, '}');
}

static void add_json_asked(Arena *arena, const Advice *a, Str *out)
{
    const ClusterRequest *r = &a->role->request;

    json_open(out, "asks", '{');
    json_add_u64(out, "nodes", a->needed);
    json_add_u64(out, "gpus", r->gpu_count);
    json_add_text(out, "models", list_models(arena, &a->slurm->cluster, r->models));
    json_add_double(out, "cpus", r->cpu_milli / 1000.);
    json_add_u64(out, "memory_mib", r->memory_mib);
    json_add_u64(out, "limit_s", a->job->duration_s);
    json_close(out, '}');
}

static void add_json_lists(const Advice *a, Str *out)
{
    const ClusterRequest *r = &a->role->request;

    json_open(out, "excluded", '[');
    for (size_t i = 0; i < r->rule_count; i++)
        add_excluding(out, r->rules[i].text, a->by_rule[i]);
    for (size_t i = 0; i < LACK_END; i++)
        if (a->by_lack[i])
            add_excluding(out, lacks[i], a->by_lack[i]);
    json_close(out, ']');
    json_open(out, "ends", '[');
    for (size_t i = 0; i < a->ends.len && i < SHOWN; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "job", a->slurm->cluster.jobs[a->ends.at[i].job].name);
        json_add_time(out, "at", a->ends.at[i].at_s * NS_PER_S);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_open(out, "notes", '[');
    for (size_t i = 0; i < a->slurm->note_count; i++)
        json_add_text(out, NULL, a->slurm->notes[i]);
    json_close(out, ']');
}

static void add_json(Arena *arena, const Advice *a, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "job", a->job->name);
    json_add_text(out, "user", a->facts->user);
    json_add_text(out, "account", a->job->queue);
    json_add_text(out, "reason", a->facts->reason);
    json_add_text(out, "meaning", a->reason ? a->reason->meaning : NULL);
    json_add_text(out, "remedy", a->reason ? make_remedy(arena, a) : NULL);
    json_add_time(out, "expected", a->facts->expected_s * NS_PER_S);
    add_json_asked(arena, a, out);
    json_add_u64(out, "nodes", a->slurm->cluster.node_count);
    json_add_u64(out, "possible", a->possible);
    json_add_u64(out, "closed", a->closed);
    json_add_u64(out, "free", a->now);
    add_json_lists(a, out);
    json_close(out, '}');
    str_addc(out, '\n');
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int advice_run(VerbCall *call, const void *options)
{
    const AdviceOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    SlurmCluster *slurm = arena_calloc(call->arena, 1, sizeof *slurm);
    Advice advice;

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs the id of one job");
    const int code = slurm_input_read(call, &o->input, true, slurm);
    if (code != EXIT_FINE)
        return code;
    const char *id = call->args.items[0];
    const size_t number = slurm_cluster_find_job(slurm, id);
    if (number == slurm->cluster.job_count)
        return verb_failf(call, EXIT_USAGE, "no job %s waits or runs", id);
    begin_advice(slurm, number, &advice);
    if (advice.job->places)
        return verb_failf(call, EXIT_USAGE, "job %s runs; this verb is for jobs that wait", id);
    count_nodes(call->arena, &advice);
    if (o->json)
        add_json(call->arena, &advice, &out);
    else
        add_text(call->arena, o, &advice, &out);
    vec_done(&advice.ends);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

const Verb verb_place_slurm = {
    .name = "slurm",
    .summary = "why a job of Slurm's waits, and what to change",
    .usage = "JOBID [--nodes FILE --jobs FILE [--topology FILE]] [--json]",
    .description =
        "Prints what Slurm says of a waiting job, what that means and what to do; what the job asks for; how many "
        "nodes "
        "could ever take a share of it and how many are free now; how many nodes each rule of the job excludes by "
        "itself (partition, constraint, node lists, type and number of GPUs); and which running jobs on these nodes "
        "end next by their time limits.\n\n"
        "It runs scontrol, or reads its output from files, and changes nothing. Slurm may hide the jobs of others "
        "from users: then less is free than counted, and a note says so. An array that waits counts as one job. Times "
        "are in UTC, from files as they are there.",
    .examples = "stoker place slurm 4711\n"
                "stoker place slurm 4711_3 --json | jq .excluded\n"
                "stoker place slurm 4711 --nodes nodes.txt --jobs jobs.txt",
    .exit_codes = "0  printed\n"
                  "2  the command line is wrong, a file cannot be read, or no such job waits\n"
                  "3  Slurm does not answer",
    VERB_OPTS(advice_opts, AdviceOptions),
    .run = advice_run,
};
