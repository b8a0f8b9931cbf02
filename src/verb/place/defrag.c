/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place defrag`: which running jobs to move so that a job or a block of GPUs has room. Changes nothing. */
#include <errno.h>

#include "base/cleanup.h"
#include "service/place/defrag_report.h"
#include "verb/place/input.h"
#include "verb/place/place.h"

enum { REPORT_MAX = 16 << 20 };

typedef struct DefragOptions {
    OptList files;
    const char *kubeconfig, *at, *job;
    uint64_t gpus, count;
    bool json;
} DefragOptions;

static const OptSpec defrag_opts[] = {
    PLACE_CLUSTER_OPT(DefragOptions),
    OPT_ROW("gpus", OPT_UINT, DefragOptions, gpus, .max = CLUSTER_GPUS_MAX, .metavar = "N",
            .help = "free so many GPUs on one node (without --for: for the largest waiting job that lacks room, else "
                    "8)"),
    OPT_ROW("nodes", OPT_UINT, DefragOptions, count, .max = DEFRAG_GOAL_MAX, .metavar = "N",
            .help = "with --gpus, so many times; one node may serve several times (without: 1)"),
    OPT_ROW("for", OPT_STRING, DefragOptions, job, .metavar = "JOB", .help = "make room for this waiting job"),
    PLACE_AT_OPT(DefragOptions),
    OPT_ROW("json", OPT_BOOL, DefragOptions, json, .help = "as JSON"),
};

static int choose_goal(const DefragOptions *o, const PlaceCluster *read, ClusterJob *ret, Err *err)
{
    const Cluster *cluster = &read->cluster;
    size_t job = 0;

    if (o->job) {
        TRY(place_find_waiting(read, o->job, &job, err));
        *ret = cluster->jobs[job];
        for (uint8_t i = 0; i < ret->role_count; i++)
            if (ret->roles[i].request.mig)
                return err_set(err, -EINVAL,
                               "%s waits for a MIG instance, and whole GPUs alone are moved together; 'stoker place "
                               "why' says what lets it run",
                               ret->name);
    } else if (o->gpus + o->count > 0)
        *ret = defrag_block((uint8_t)(o->gpus ? o->gpus : DEFRAG_BLOCK), (uint32_t)(o->count ? o->count : 1));
    else
        *ret = defrag_default(cluster);
    return 0;
}

static int defrag_run(VerbCall *call, const void *options)
{
    const DefragOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    PlaceCluster read = {.part_pods = 0};
    ClusterJob goal;
    Defrag defrag;
    uint64_t now_s = 0;

    if (o->job && o->gpus + o->count > 0)
        return verb_failf(call, EXIT_USAGE, "--for takes the GPUs from the job: leave out --gpus and --nodes");
    if (place_read_time(o->at, &now_s, &call->err) < 0 ||
        place_read_cluster(call, &o->files, o->kubeconfig, &read) < 0 || choose_goal(o, &read, &goal, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    defrag_find(&read.cluster, &goal, now_s, call->arena, &defrag);
    const DefragReport report = {&read.cluster, &defrag, read.part_pods, read.shared_nodes};
    (o->json ? defrag_report_json : defrag_report_text)(&report, &out);
    fwrite(out.text, 1, out.len, stdout);
    return defrag.plan_count > 0 ? EXIT_FINE : EXIT_FINDING;
}

const Verb verb_place_defrag = {
    .name = "defrag",
    .summary = "which running jobs to move so that a whole node or a waiting job has room",
    .usage = "[--cluster FILE... | --kubeconfig FILE] [--gpus N] [--nodes N | --for JOB] [--at TIME] [--json]",
    .description =
        "Says how scattered the idle GPUs are, and finds the moves that make room: for a block of GPUs (--gpus), for a "
        "waiting job (--for), or by itself for the largest waiting job that lacks room though enough GPUs are idle. Up "
        "to three plans: the one that loses least work, the one with fewest moves, and one between them. The moves of "
        "a plan can be made one after the other in their order.\n\n"
        "Only preemptible jobs are moved: no bare pods, none that a disruption budget protects, no job that cannot "
        "restart. A job of which a pod moves restarts as a whole and loses the work of all its GPUs since its last "
        "checkpoint (annotation stoker.dev/checkpoint-interval; without it, all of it) and the time of its restart. "
        "Node rules, GPU models, cores, memory and demanded topology hold; GPUs of a block come without cores and "
        "memory. The cluster is read as by 'stoker place why'. It changes nothing.",
    .examples = "stoker place defrag\n"
                "kubectl get nodes,pods,jobs,pdb -A -o json > cluster.json\n"
                "stoker place defrag --cluster cluster.json\n"
                "stoker place defrag --cluster cluster.json --gpus 8 --nodes 2\n"
                "stoker place defrag --cluster cluster.json --for team-a/train-7 --json | jq '.plans[0].moves'",
    .exit_codes = "0  there is room, or moves make it\n"
                  "1  no moves were found\n"
                  "2  the command line is wrong, the cluster cannot be read, or no such job waits",
    VERB_OPTS(defrag_opts, DefragOptions),
    .no_args = "",
    .run = defrag_run,
};
