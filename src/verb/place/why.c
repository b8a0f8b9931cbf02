/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place why`: why a job of a cluster waits, from what kubectl or scontrol print. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "service/place/why_report.h"
#include "source/kubernetes/cluster.h"
#include "source/slurm/cluster.h"
#include "verb/place/place.h"

enum { FILES_MAX = 64, REPORT_MAX = 16 << 20, NAMES_SHOWN = 5 };

typedef struct WhyOptions {
    OptList files;
    const char *at;
    bool json;
} WhyOptions;

static const OptSpec why_opts[] = {
    OPT_ROW("cluster", OPT_LIST, WhyOptions, files, .flags = OPT_WHOLE, .metavar = "FILE",
            .help = "what kubectl or scontrol printed of the cluster; may be given several times; '-' is stdin"),
    OPT_ROW("at", OPT_STRING, WhyOptions, at, .metavar = "TIME", .help = "when that was (RFC 3339); default: now"),
    OPT_ROW("json", OPT_BOOL, WhyOptions, json, .help = "as JSON"),
};

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* How a text begins, by what it is. */
static const struct {
    const char *begin;
    enum { TEXT_KUBERNETES, TEXT_NODES, TEXT_JOBS, TEXT_TOPOLOGY, TEXT_END } kind;
} begins[] = {
    {"{", TEXT_KUBERNETES},         {"NodeName=", TEXT_NODES},     {"JobId=", TEXT_JOBS},
    {"SwitchName=", TEXT_TOPOLOGY}, {"BlockName=", TEXT_TOPOLOGY},
};

typedef struct Input {
    KubeText texts[FILES_MAX];
    size_t text_count;
    SlurmText slurm[TEXT_END]; /* by kind; NULL: not given */
} Input;

/* Blanks and comments do not count. TEXT_END: none of those known. */
static int find_kind(const char *text)
{
    text += strspn(text, " \t\r\n");
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (strncmp(text, begins[i].begin, strlen(begins[i].begin)) == 0)
            return (int)begins[i].kind;
    return TEXT_END;
}

static int read_text(VerbCall *call, const char *path, Input *input)
{
    CLEANUP(str_done) Str text = str_limited(KUBE_CLUSTER_BYTES_MAX);
    const bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "stdin" : path;

    TRY(file_read(is_stdin ? "/dev/stdin" : path, KUBE_CLUSTER_BYTES_MAX, &text, &call->err));
    const int kind = find_kind(text.len ? text.text : "");
    const char *kept = arena_strndup(call->arena, text.len ? text.text : "", text.len);
    if (kind == TEXT_END)
        return err_set(&call->err, -EINVAL,
                       "%s: neither JSON of 'kubectl get -o json' nor output of 'scontrol show node, job or topology'",
                       name);
    if (kind == TEXT_KUBERNETES)
        input->texts[input->text_count++] = (KubeText){name, kept, text.len};
    else if (input->slurm[kind].text)
        return err_set(&call->err, -EINVAL, "%s: says the same of Slurm as %s", name, input->slurm[kind].name);
    else
        input->slurm[kind] = (SlurmText){name, kept, text.len};
    return 0;
}

static int read_kubernetes(VerbCall *call, const Input *input, Cluster *ret)
{
    KubeLeftOut left_out;

    TRY(kube_cluster_read(input->texts, input->text_count, call->arena, ret, &left_out, &call->err));
    if (left_out.elsewhere > 0)
        fprintf(stderr, "%s: %zu pods run on nodes that are not in the input; get nodes too\n", call->path,
                left_out.elsewhere);
    return 0;
}

static int read_slurm(VerbCall *call, const Input *input, Cluster *ret)
{
    SlurmCluster slurm;

    if (!input->slurm[TEXT_NODES].text || !input->slurm[TEXT_JOBS].text)
        return err_set(&call->err, -EINVAL,
                       "needs the output of both 'scontrol show node -o' and 'scontrol show job -o -d'");
    TRY(slurm_cluster_read(&input->slurm[TEXT_NODES], &input->slurm[TEXT_JOBS], &input->slurm[TEXT_TOPOLOGY],
                           call->arena, &slurm, &call->err));
    for (size_t i = 0; i < slurm.note_count; i++)
        fprintf(stderr, "%s: %s\n", call->path, slurm.notes[i]);
    *ret = slurm.cluster;
    return 0;
}

static int read_cluster(VerbCall *call, const OptList *files, Cluster *ret)
{
    Input *input = arena_calloc(call->arena, 1, sizeof *input);
    bool slurm = false;

    if (files->len == 0 || files->len > FILES_MAX)
        return err_set(&call->err, -EINVAL, "needs --cluster FILE, at most %d times", FILES_MAX);
    for (size_t i = 0; i < files->len; i++)
        TRY(read_text(call, files->items[i], input));
    for (size_t i = 0; i < TEXT_END; i++)
        slurm = slurm || input->slurm[i].text;
    if (slurm && input->text_count > 0)
        return err_set(&call->err, -EINVAL, "files of Kubernetes and of Slurm are of two clusters");
    return slurm ? read_slurm(call, input, ret) : read_kubernetes(call, input, ret);
}

/* --- the verb --------------------------------------------------------------------------------------------------- */

/* "train-7" names "team-a/train-7" too. */
static bool is_named(const ClusterJob *job, const char *name)
{
    const char *slash = strchr(job->name, '/');

    return explain_waits(job) && (strcmp(job->name, name) == 0 || (slash && strcmp(slash + 1, name) == 0));
}

static int fail_unknown(const Cluster *cluster, const char *name, Err *err)
{
    CLEANUP(str_done) Str names = str_limited(ERR_TEXT_MAX);
    size_t waiting = 0;

    for (size_t i = 0; i < cluster->job_count; i++)
        if (explain_waits(&cluster->jobs[i]) && waiting++ < NAMES_SHOWN)
            str_addf(&names, "%s %s", names.len ? "," : "", cluster->jobs[i].name);
    if (waiting == 0)
        return err_set(err, -ENOENT, "no job waits");
    return err_set(err, -ENOENT, "no job '%s' waits; %zu wait:%s%s", name, waiting, names.text,
                   waiting > NAMES_SHOWN ? ", ..." : "");
}

static int find_job(const Cluster *cluster, const char *name, size_t *ret, Err *err)
{
    size_t found = cluster->job_count;

    for (size_t i = 0; i < cluster->job_count; i++)
        if (is_named(&cluster->jobs[i], name)) {
            if (found < cluster->job_count)
                return err_set(err, -EINVAL, "'%s' names both %s and %s", name, cluster->jobs[found].name,
                               cluster->jobs[i].name);
            found = i;
        }
    *ret = found;
    return found < cluster->job_count ? 0 : fail_unknown(cluster, name, err);
}

static int explain_named(VerbCall *call, const WhyOptions *o, Cluster *cluster, Explanation *explanation,
                         uint64_t now_s)
{
    size_t job = 0;

    TRY(read_cluster(call, &o->files, cluster));
    TRY(find_job(cluster, call->args.items[0], &job, &call->err));
    return explain_job(cluster, job, now_s, call->arena, explanation, &call->err);
}

static int why_run(VerbCall *call, const void *options)
{
    const WhyOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    Explanation *explanation = arena_calloc(call->arena, 1, sizeof *explanation);
    uint64_t now_ns = clock_real(clock_kernel());
    Cluster cluster;

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs the name of one job");
    if (o->at && clock_parse(o->at, &now_ns, &call->err) < 0) {
        err_add(&call->err, "--at");
        return verb_fail(call, EXIT_USAGE);
    }
    if (explain_named(call, o, &cluster, explanation, now_ns / NS_PER_S) < 0)
        return verb_fail(call, EXIT_USAGE);
    const WhyReport report = {&cluster, explanation, now_ns / NS_PER_S};
    (o->json ? why_report_json : why_report_text)(&report, &out);
    if (o->json)
        str_addc(&out, '\n');
    fwrite(out.text, 1, out.len, stdout);
    return explanation->reasons[0].cause == EXPLAIN_NOTHING ? EXIT_FINE : EXIT_FINDING;
}

const Verb verb_place_why = {
    .name = "why",
    .summary = "why a job waits, and what would let it run",
    .usage = "JOB --cluster FILE... [--at TIME] [--json]",
    .description =
        "Tries to place the job in the cluster as it is. Says what is short first, from what never changes by itself "
        "(its own demands on nodes, GPU model, closed nodes, the size of nodes and of racks, quota) to what changes "
        "soonest (GPUs, cores and memory in use, free GPUs that are scattered, room for some of its pods or in several "
        "racks only), with numbers; up to three changes that let it run at once, the cheapest first; when it starts "
        "if nothing changes; who holds the GPUs; and what each kind of node lacks.\n\n"
        "Each change was made in a copy of the cluster and the job placed there. Only preemptible jobs of the same or "
        "a lower priority are named to be ended, those first that lose the least work since their last checkpoint. "
        "The files are those of 'kubectl get -o json', or of 'scontrol show node -o', 'scontrol show job -o -d' and "
        "'scontrol show topology'. JOB is namespace/name, a name alone that only one waiting job has, or a job ID of "
        "Slurm. It changes nothing.",
    .examples = "kubectl get nodes,pods,jobs -A -o json > cluster.json\n"
                "stoker place why team-a/train-7 --cluster cluster.json\n"
                "scontrol show node -o > nodes.txt; scontrol show job -o -d > jobs.txt\n"
                "stoker place why 4711 --cluster nodes.txt --cluster jobs.txt --json | jq '.changes[0].text'",
    .exit_codes = "0  nothing is short: it fits now\n"
                  "1  something is short\n"
                  "2  the command line is wrong, a file cannot be read, or no such job waits",
    VERB_OPTS(why_opts, WhyOptions),
    .run = why_run,
};
