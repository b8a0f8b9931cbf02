/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/place/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "engine/place/explain.h"
#include "source/slurm/cluster.h"
#include "verb/place/fetch.h"

enum { FILES_MAX = 64, NAMES_SHOWN = 5 };

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
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;

    TRY(verb_read_file(path, KUBE_CLUSTER_BYTES_MAX, &text, &call->err));
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

static int read_kubernetes(VerbCall *call, const KubeText *texts, size_t count, PlaceCluster *ret)
{
    KubeLeftOut left_out;

    TRY(kube_cluster_read(texts, count, call->arena, &ret->cluster, &left_out, &call->err));
    ret->part_pods = left_out.pods;
    ret->shared_nodes = left_out.shared_nodes;
    ret->labels = left_out.labels;
    ret->model_labels = left_out.model_labels;
    if (left_out.elsewhere > 0)
        fprintf(stderr, "%s: %zu pods run on nodes that are not in the input; get nodes too\n", call->path,
                left_out.elsewhere);
    if (left_out.claims > 0)
        fprintf(stderr, "%s: %zu pods name ResourceClaims that are not in the input; get resourceclaims too\n",
                call->path, left_out.claims);
    return 0;
}

static int read_slurm(VerbCall *call, const Input *input, PlaceCluster *ret)
{
    SlurmCluster slurm;

    if (!input->slurm[TEXT_NODES].text || !input->slurm[TEXT_JOBS].text)
        return err_set(&call->err, -EINVAL,
                       "needs the output of both 'scontrol show node -o' and 'scontrol show job -o -d'");
    TRY(slurm_cluster_read(&input->slurm[TEXT_NODES], &input->slurm[TEXT_JOBS], &input->slurm[TEXT_TOPOLOGY],
                           call->arena, &slurm, &call->err));
    for (size_t i = 0; i < slurm.note_count; i++)
        fprintf(stderr, "%s: %s\n", call->path, slurm.notes[i]);
    ret->cluster = slurm.cluster;
    return 0;
}

static int read_server(VerbCall *call, const char *kubeconfig, PlaceCluster *ret)
{
    CLEANUP_VEC PlaceTexts texts = {0};

    TRY(place_fetch_texts(call, kubeconfig, &texts));
    return read_kubernetes(call, texts.at, texts.len, ret);
}

int place_read_cluster(VerbCall *call, const OptList *files, const char *kubeconfig, PlaceCluster *ret)
{
    Input *input = arena_calloc(call->arena, 1, sizeof *input);
    bool slurm = false;

    if (files->len == 0)
        return read_server(call, kubeconfig, ret);
    if (files->len > FILES_MAX)
        return err_set(&call->err, -EINVAL, "--cluster: at most %d files", FILES_MAX);
    for (size_t i = 0; i < files->len; i++)
        TRY(read_text(call, files->items[i], input));
    for (size_t i = 0; i < TEXT_END; i++)
        slurm = slurm || input->slurm[i].text;
    if (slurm && input->text_count > 0)
        return err_set(&call->err, -EINVAL, "files of Kubernetes and of Slurm are of two clusters");
    return slurm ? read_slurm(call, input, ret) : read_kubernetes(call, input->texts, input->text_count, ret);
}

/* "train-7" names "team-a/train-7" too. */
static bool is_named(const ClusterJob *job, const char *name)
{
    const char *slash = strchr(job->name, '/');

    return explain_waits(job) && (strcmp(job->name, name) == 0 || (slash && strcmp(slash + 1, name) == 0));
}

static int fail_unknown(const PlaceCluster *read, const char *name, Err *err)
{
    const Cluster *cluster = &read->cluster;
    CLEANUP(str_done) Str left_out = str_limited(ERR_TEXT_MAX);
    CLEANUP(str_done) Str names = str_limited(ERR_TEXT_MAX);
    size_t waiting = 0;

    for (size_t i = 0; i < cluster->job_count; i++)
        if (explain_waits(&cluster->jobs[i]) && waiting++ < NAMES_SHOWN)
            str_addf(&names, "%s %s", names.len ? "," : "", cluster->jobs[i].name);
    if (read->part_pods > 0)
        str_addf(&left_out, "; %zu pods with time-sliced GPUs or several MIG instances are not explained",
                 read->part_pods);
    if (waiting == 0)
        return err_set(err, -ENOENT, "no job waits%s", left_out.len ? left_out.text : "");
    return err_set(err, -ENOENT, "no job '%s' waits; %zu wait:%s%s%s", name, waiting, names.text,
                   waiting > NAMES_SHOWN ? ", ..." : "", left_out.len ? left_out.text : "");
}

int place_find_waiting(const PlaceCluster *read, const char *name, size_t *ret, Err *err)
{
    const Cluster *cluster = &read->cluster;
    size_t found = cluster->job_count;

    for (size_t i = 0; i < cluster->job_count; i++)
        if (is_named(&cluster->jobs[i], name)) {
            if (found < cluster->job_count)
                return err_set(err, -EINVAL, "'%s' names both %s and %s", name, cluster->jobs[found].name,
                               cluster->jobs[i].name);
            found = i;
        }
    *ret = found;
    return found < cluster->job_count ? 0 : fail_unknown(read, name, err);
}

int place_read_time(const char *at, uint64_t *ret_s, Err *err)
{
    uint64_t now_ns = clock_real(clock_kernel());

    if (at && clock_parse(at, &now_ns, err) < 0) {
        err_add(err, "--at");
        return -EINVAL;
    }
    *ret_s = now_ns / NS_PER_S;
    return 0;
}
