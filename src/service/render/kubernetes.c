/* SPDX-License-Identifier: Apache-2.0 */
/* An Indexed Job with a headless Service, which resolves its pods' names; the same suspended for Kueue; a Volcano Job.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/render/quote.h"
#include "service/render/variables.h"

#define PORT "29500"
#define MIB (UINT64_C(1) << 20)

/* Where the annotation with a pod's number is, and what of its name is before that. */
static const struct {
    const char *index, *infix;
} pods[] = {
    [JOB_FOR_KUBERNETES] = {"batch.kubernetes.io/job-completion-index", ""},
    [JOB_FOR_KUEUE] = {"batch.kubernetes.io/job-completion-index", ""},
    [JOB_FOR_VOLCANO] = {"volcano.sh/task-index", "worker-"},
};

/* Labels of nodes by which a domain is named, if the description names none; Volcano's tiers of HyperNodes. */
static const struct {
    const char *label;
    int volcano;
} domains[] = {
    [JOB_ANYWHERE] = {NULL, 0},
    [JOB_NVLINK] = {"nvidia.com/gpu.clique", 0},
    [JOB_RACK] = {"cloud.provider.com/topology-rack", 1},
    [JOB_BLOCK] = {"cloud.provider.com/topology-block", 2},
};

typedef struct Page {
    const JobSpec *spec;
    JobTarget target;
    Arena *arena;
    Str *to;
} Page;

/* --- lines -------------------------------------------------------------------------------------------------------- */

static void add_indent(const Page *p, int indent)
{
    str_addf(p->to, "%*s", indent, "");
}

static void add_line(const Page *p, int indent, const char *line)
{
    add_indent(p, indent);
    str_addf(p->to, "%s\n", line);
}

static void add_text(const Page *p, int indent, const char *key, const char *value)
{
    add_indent(p, indent);
    str_addf(p->to, "%s: ", key);
    quote_yaml(value, p->to);
    str_addc(p->to, '\n');
}

static void add_number(const Page *p, int indent, const char *key, uint64_t value)
{
    add_indent(p, indent);
    str_addf(p->to, "%s: %" PRIu64 "\n", key, value);
}

/* Duration of an annotation; nothing for 0. */
static void add_duration(const Page *p, int indent, const char *key, uint64_t ns)
{
    char text[DURATION_TEXT_MAX];

    if (ns == 0)
        return;
    duration_format(text, ns);
    add_text(p, indent, key, text);
}

static const char *domain_label(const JobSpec *spec)
{
    return spec->label ? spec->label : domains[spec->within].label;
}

/* --- the container ------------------------------------------------------------------------------------------------ */

static void collect_variables(const Page *p, Variables *to)
{
    const JobSpec *spec = p->spec;
    const bool launcher = job_spec_has_launcher(spec);
    const char *master = arena_printf(p->arena, "%s-%s0.%s", spec->name, pods[p->target].infix, spec->name);
    const char *rank = arena_printf(p->arena, "metadata.annotations['%s']", pods[p->target].index);

    variables_add(to, spec, (Variable){"MASTER_ADDR", master, false, "the first pod, by the headless Service"});
    variables_add(to, spec, (Variable){"MASTER_PORT", PORT, false, NULL});
    variables_add(to, spec, (Variable){"NODE_RANK", rank, true, "the pod's number"});
    variables_add_sizes(to, spec, p->arena);
    if (launcher) {
        variables_add(to, spec, (Variable){"PET_NODE_RANK", rank, true, NULL});
        variables_add(to, spec, (Variable){"PET_MASTER_ADDR", master, false, NULL});
        variables_add(to, spec, (Variable){"PET_MASTER_PORT", PORT, false, NULL});
    } else {
        variables_add(to, spec, (Variable){"RANK", rank, true, NULL});
        variables_add(to, spec, (Variable){"LOCAL_RANK", "0", false, NULL});
    }
    variables_add_rest(to, spec, p->arena);
}

static void add_variable(const Page *p, int indent, const Variable *v)
{
    if (v->why)
        add_line(p, indent, arena_printf(p->arena, "# %s", v->why));
    add_text(p, indent, "- name", v->name);
    if (v->raw) {
        add_line(p, indent + 2, "valueFrom:");
        add_line(p, indent + 4, "fieldRef:");
        add_text(p, indent + 6, "fieldPath", v->value);
        return;
    }
    add_indent(p, indent + 2);
    str_add(p->to, "value: ");
    quote_yaml_literal(v->value, p->to);
    str_addc(p->to, '\n');
}

static void add_resources(const Page *p, int indent)
{
    const uint64_t bytes = p->spec->memory_bytes;

    add_line(p, indent, "resources:");
    if (p->spec->cpus > 0) {
        add_line(p, indent + 2, "requests:");
        add_number(p, indent + 4, "cpu", p->spec->cpus);
    }
    add_line(p, indent + 2, "limits:");
    add_number(p, indent + 4, "nvidia.com/gpu", p->spec->gpus);
    if (bytes > 0)
        add_text(p, indent + 4, "memory",
                 bytes % MIB ? arena_printf(p->arena, "%" PRIu64, bytes)
                             : arena_printf(p->arena, "%" PRIu64 "Mi", bytes / MIB));
}

static void add_container(const Page *p, int indent)
{
    CLEANUP_VEC Variables variables = {0};

    add_line(p, indent, "containers:");
    add_line(p, indent, "- name: train");
    add_text(p, indent + 2, "image", p->spec->image);
    add_line(p, indent + 2, "command:");
    for (size_t i = 0; i < p->spec->command.len; i++) {
        add_indent(p, indent + 2);
        str_add(p->to, "- ");
        quote_yaml_literal(p->spec->command.items[i], p->to);
        str_addc(p->to, '\n');
    }
    add_line(p, indent + 2, "env:");
    collect_variables(p, &variables);
    for (size_t i = 0; i < variables.len; i++)
        add_variable(p, indent + 2, &variables.at[i]);
    add_resources(p, indent + 2);
    add_line(p, indent + 2, "volumeMounts:");
    add_line(p, indent + 2, "- {name: shm, mountPath: /dev/shm}");
    add_line(p, indent, "volumes:");
    add_line(p, indent, "# data loaders and NCCL share memory; the default of 64 MiB is too little");
    add_line(p, indent, "- {name: shm, emptyDir: {medium: Memory}}");
}

/* --- the pod ------------------------------------------------------------------------------------------------------ */

/* Without a scheduler that knows topology: pods of the job near each other. */
static void add_affinity(const Page *p, int indent)
{
    const char *label = domain_label(p->spec);

    if (!label || p->target != JOB_FOR_KUBERNETES)
        return;
    add_line(p, indent, "affinity:");
    add_line(p, indent + 2, "podAffinity:");
    if (p->spec->required) {
        add_line(p, indent + 4, "requiredDuringSchedulingIgnoredDuringExecution:");
        add_text(p, indent + 4, "- topologyKey", label);
        indent += 6;
    } else {
        add_line(p, indent + 4, "preferredDuringSchedulingIgnoredDuringExecution:");
        add_line(p, indent + 4, "- weight: 100");
        add_line(p, indent + 6, "podAffinityTerm:");
        add_text(p, indent + 8, "topologyKey", label);
        indent += 8;
    }
    add_line(p, indent, "labelSelector:");
    add_line(p, indent + 2, "matchLabels:");
    add_text(p, indent + 4, "batch.kubernetes.io/job-name", p->spec->name);
}

/* Annotations of the pods: Kueue's topology, what placement knows of the job. */
static void add_pod_annotations(const Page *p, int indent)
{
    const char *label = p->target == JOB_FOR_KUEUE ? domain_label(p->spec) : NULL;

    if (!label && p->spec->checkpoint_ns == 0 && p->spec->time_limit_ns == 0)
        return;
    add_line(p, indent, "metadata:");
    add_line(p, indent + 2, "annotations:");
    if (label)
        add_text(p, indent + 4,
                 p->spec->required ? "kueue.x-k8s.io/podset-required-topology"
                                   : "kueue.x-k8s.io/podset-preferred-topology",
                 label);
    add_duration(p, indent + 4, "stoker.dev/checkpoint-interval", p->spec->checkpoint_ns);
    add_duration(p, indent + 4, "stoker.dev/duration", p->spec->time_limit_ns);
}

static void add_template(const Page *p, int indent)
{
    const JobSpec *spec = p->spec;

    add_line(p, indent, "template:");
    add_pod_annotations(p, indent + 2);
    add_line(p, indent + 2, "spec:");
    if (p->target != JOB_FOR_VOLCANO)
        add_text(p, indent + 4, "subdomain", spec->name);
    add_line(p, indent + 4, "restartPolicy: Never");
    if (p->target == JOB_FOR_VOLCANO && spec->time_limit_ns > 0)
        add_number(p, indent + 4, "activeDeadlineSeconds", spec->time_limit_ns / NS_PER_S);
    if (spec->priority && p->target != JOB_FOR_VOLCANO)
        add_text(p, indent + 4, "priorityClassName", spec->priority);
    add_affinity(p, indent + 4);
    add_container(p, indent + 4);
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static void add_service(const Page *p)
{
    add_line(p, 0, "apiVersion: v1");
    add_line(p, 0, "kind: Service");
    add_line(p, 0, "metadata:");
    add_text(p, 2, "name", p->spec->name);
    add_line(p, 0, "spec:");
    add_line(p, 2, "clusterIP: None");
    add_line(p, 2, "# pods look for each other before they are ready");
    add_line(p, 2, "publishNotReadyAddresses: true");
    add_line(p, 2, "selector:");
    add_text(p, 4, "batch.kubernetes.io/job-name", p->spec->name);
    add_line(p, 0, "---");
}

static void add_job(const Page *p)
{
    const JobSpec *spec = p->spec;

    add_service(p);
    add_line(p, 0, "apiVersion: batch/v1");
    add_line(p, 0, "kind: Job");
    add_line(p, 0, "metadata:");
    add_text(p, 2, "name", spec->name);
    if (p->target == JOB_FOR_KUEUE) {
        add_line(p, 2, "labels:");
        add_text(p, 4, "kueue.x-k8s.io/queue-name", spec->queue);
    }
    add_line(p, 0, "spec:");
    if (p->target == JOB_FOR_KUEUE)
        add_line(p, 2, "suspend: true");
    add_line(p, 2, "completionMode: Indexed");
    add_number(p, 2, "completions", spec->nodes);
    add_number(p, 2, "parallelism", spec->nodes);
    add_line(p, 2, "# when one pod fails, all do: a restart costs one failure of each");
    add_number(p, 2, "backoffLimit", spec->restarts * spec->nodes);
    if (spec->time_limit_ns > 0)
        add_number(p, 2, "activeDeadlineSeconds", spec->time_limit_ns / NS_PER_S);
    add_template(p, 2);
}

static void add_volcano_topology(const Page *p)
{
    if (p->spec->within == JOB_ANYWHERE)
        return;
    add_line(p, 2, "networkTopology:");
    add_text(p, 4, "mode", p->spec->required ? "hard" : "soft");
    add_line(p, 4, "# HyperNodes of tier 1 are racks, of tier 2 blocks");
    add_number(p, 4, "highestTierAllowed", (uint64_t)domains[p->spec->within].volcano);
}

static void add_volcano(const Page *p)
{
    const JobSpec *spec = p->spec;

    add_line(p, 0, "apiVersion: batch.volcano.sh/v1alpha1");
    add_line(p, 0, "kind: Job");
    add_line(p, 0, "metadata:");
    add_text(p, 2, "name", spec->name);
    add_line(p, 0, "spec:");
    add_line(p, 2, "schedulerName: volcano");
    add_number(p, 2, "minAvailable", spec->nodes);
    if (spec->queue)
        add_text(p, 2, "queue", spec->queue);
    if (spec->priority)
        add_text(p, 2, "priorityClassName", spec->priority);
    add_volcano_topology(p);
    add_number(p, 2, "maxRetry", spec->restarts);
    add_line(p, 2, "plugins:");
    add_line(p, 4, "svc: [\"--publish-not-ready-addresses=true\"]");
    add_line(p, 4, "env: []");
    add_line(p, 2, "policies:");
    add_line(p, 2,
             spec->restarts > 0 ? "- {event: PodFailed, action: RestartJob}"
                                : "- {event: PodFailed, action: AbortJob}");
    add_line(p, 2, "- {event: PodEvicted, action: RestartJob}");
    add_line(p, 2, "- {event: TaskCompleted, action: CompleteJob}");
    add_line(p, 2, "tasks:");
    add_line(p, 2, "- name: worker");
    add_number(p, 4, "replicas", spec->nodes);
    add_template(p, 4);
}

int render_kubernetes(const JobSpec *spec, JobTarget target, Arena *arena, Str *to, Err *err)
{
    const Page p = {.spec = spec, .target = target, .arena = arena, .to = to};

    if (!spec->image)
        return err_set(err, -EINVAL, "'image' is missing: pods need one");
    if (target == JOB_FOR_KUEUE && !spec->queue)
        return err_set(err, -EINVAL, "'queue' is missing: Kueue needs the name of a LocalQueue");
    if (target == JOB_FOR_VOLCANO && spec->within != JOB_ANYWHERE && domains[spec->within].volcano == 0)
        return err_set(err, -EINVAL, "topology: Volcano has no tier for nvlink: use rack or block");
    (target == JOB_FOR_VOLCANO ? add_volcano : add_job)(&p);
    return 0;
}
