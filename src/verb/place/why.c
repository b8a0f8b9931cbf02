/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place why`: why a job of a cluster waits, from what kubectl or scontrol print or the API server says. */
#include "base/cleanup.h"
#include "service/place/why_report.h"
#include "verb/place/input.h"
#include "verb/place/place.h"

enum { REPORT_MAX = 16 << 20 };

typedef struct WhyOptions {
    OptList files;
    const char *kubeconfig, *at;
    bool json;
} WhyOptions;

static const OptSpec why_opts[] = {
    PLACE_CLUSTER_OPT(WhyOptions),
    PLACE_AT_OPT(WhyOptions),
    OPT_ROW("json", OPT_BOOL, WhyOptions, json, .help = "as JSON"),
};

static int explain_named(VerbCall *call, const WhyOptions *o, PlaceCluster *read, Explanation *explanation,
                         uint64_t now_s)
{
    size_t job = 0;

    TRY(place_read_cluster(call, &o->files, o->kubeconfig, read));
    TRY(place_find_waiting(read, call->args.items[0], &job, &call->err));
    return explain_job(&read->cluster, job, now_s, call->arena, explanation, &call->err);
}

static int why_run(VerbCall *call, const void *options)
{
    const WhyOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    Explanation *explanation = arena_calloc(call->arena, 1, sizeof *explanation);
    PlaceCluster read = {.part_pods = 0};
    uint64_t now_s = 0;

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs the name of one job");
    if (place_read_time(o->at, &now_s, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (explain_named(call, o, &read, explanation, now_s) < 0)
        return verb_fail(call, EXIT_USAGE);
    const WhyReport report = {&read.cluster, explanation, now_s};
    (o->json ? why_report_json : why_report_text)(&report, &out);
    if (o->json)
        str_addc(&out, '\n');
    fwrite(out.text, 1, out.len, stdout);
    return explanation->reasons[0].cause == EXPLAIN_NOTHING ? EXIT_FINE : EXIT_FINDING;
}

const Verb verb_place_why = {
    .name = "why",
    .summary = "why a job waits, and what would let it run",
    .usage = "JOB [--cluster FILE... | --kubeconfig FILE] [--at TIME] [--json]",
    .description =
        "Tries to place the job in the cluster as it is. Says what is short first, from what never changes by itself "
        "(its own demands on nodes, GPU model, closed nodes, the size of nodes and of racks, quota) to what changes "
        "soonest (GPUs, cores and memory in use, free GPUs that are scattered, room for some of its pods or in several "
        "racks only), with numbers; up to three changes that let it run at once, the cheapest first; when it starts "
        "if nothing changes; who holds the GPUs; and what each kind of node lacks.\n\n"
        "Each change was made in a copy of the cluster and the job placed there. Only preemptible jobs of the same or "
        "a lower priority are named to be ended, those first that lose the least work since their last checkpoint. "
        "The files are those of 'kubectl get -o json', or of 'scontrol show node -o', 'scontrol show job -o -d' and "
        "'scontrol show topology'. Without a file the objects are listed by the API server of the kubeconfig, else of "
        "the pod that this runs in; kinds that it does not have do not matter, and those that it may not list are "
        "named. JOB is namespace/name, a name alone that only one waiting job has, or a job ID of "
        "Slurm. It changes nothing.",
    .examples = "stoker place why team-a/train-7\n"
                "kubectl get nodes,pods,jobs -A -o json > cluster.json\n"
                "stoker place why team-a/train-7 --cluster cluster.json\n"
                "scontrol show node -o > nodes.txt; scontrol show job -o -d > jobs.txt\n"
                "stoker place why 4711 --cluster nodes.txt --cluster jobs.txt --json | jq '.changes[0].text'",
    .exit_codes = "0  nothing is short: it fits now\n"
                  "1  something is short\n"
                  "2  the command line is wrong, the cluster cannot be read, or no such job waits",
    VERB_OPTS(why_opts, WhyOptions),
    .run = why_run,
};
