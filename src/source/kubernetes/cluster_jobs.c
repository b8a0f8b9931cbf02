/* SPDX-License-Identifier: Apache-2.0 */
/* First the objects that declare gangs, then Kueue's Workloads, then the pods, of which each joins its gang. */
#include "source/kubernetes/cluster_jobs.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/vec.h"
#include "source/kubernetes/cluster_request.h"
#include "source/kubernetes/cluster_tier.h"

enum { COUNT_MAX = 1000000, OWNERS_MAX = 8, SYSTEM_PRIORITY = 2000000000, NO_ROLE = CLUSTER_ROLES_MAX };
enum { INSTANCES_MAX = CLUSTER_GPUS_MAX * CLUSTER_MIG_SLICES_MAX }; /* of a node */

#define QUEUE_LABEL "kueue.x-k8s.io/queue-name"

/* --- the kinds of gangs ------------------------------------------------------------------------------------------- */

/* Where roles are in an object: in a list, in an object by their names, or one that is the whole. */
typedef struct RoleShape {
    const char *path;
    json_type type;
    const char *name;          /* of a list: the path of the name */
    const char *fixed;         /* the role's name where there is one */
    const char *label;         /* what its pods' role label says; NULL: the name */
    const char *count, *times; /* how many pods: the product; NULL: 1 */
    const char *min, *max;     /* NULL: the count */
    const char *template;
} RoleShape;

typedef struct Gang Gang;
typedef struct Reading Reading;
typedef struct PodFacts PodFacts;

typedef struct GangKind {
    const char *kind, *group;
    const char *shown;          /* what its jobs are called; NULL: the kind */
    const char *labels[4];      /* labels or annotations of its pods: the object's name */
    const char *more_label;     /* and what parts pods of one name; NULL: nothing */
    const char *role_labels[2]; /* of its pods: the role's name */
    RoleShape roles[2];
    const char *min, *max;        /* of the workers */
    const char *total_min;        /* of all pods */
    const char *limit_s;          /* how long it may run */
    const char *part, *part_kind; /* the name of the object in between that makes the pods */
    /* Whether it is a gang at all; `object` NULL: by one of its pods. NULL: always. */
    int (*is_gang)(const KubeObject *object, const PodFacts *pod, Err *err);
} GangKind;

/* What is needed of a pod more than once. */
struct PodFacts {
    const KubeObject *object;
    KubeField meta, spec, labels, annotations;
    const char *node; /* NULL: none yet */
    const char *controller_kind, *controller_group, *controller_name;
    ClusterRequest request;
    KubeInstances instances; /* of one that holds several */
};

static int is_job_gang(const KubeObject *object, const PodFacts *pod, Err *err);
static int is_set_gang(const KubeObject *object, const PodFacts *pod, Err *err);

#define RAY_ROLES(spec)                                                                                                \
    {                                                                                                                  \
        {.path = spec "headGroupSpec",                                                                                 \
         .type = JSON_TRUE,                                                                                            \
         .fixed = "head",                                                                                              \
         .label = "headgroup",                                                                                         \
         .template = "template"},                                                                                      \
            {.path = spec "workerGroupSpecs",                                                                          \
             .type = JSON_ARRAY,                                                                                       \
             .name = "groupName",                                                                                      \
             .count = "replicas",                                                                                      \
             .min = "minReplicas",                                                                                     \
             .max = "maxReplicas",                                                                                     \
             .template = "template"},                                                                                  \
    }
#define KUBEFLOW_ROLES(at)                                                                                             \
    {                                                                                                                  \
        {.path = at, .type = JSON_OBJECT, .count = "replicas", .template = "template"},                                \
    }

/* A pod belongs to the first of which it has the label. */
static const GangKind gang_kinds[] = {
    {.kind = "JobSet",
     .group = "jobset.x-k8s.io",
     .labels = {"jobset.sigs.k8s.io/jobset-name"},
     .role_labels = {"jobset.sigs.k8s.io/replicatedjob-name"},
     .roles = {{.path = "spec replicatedJobs",
                .type = JSON_ARRAY,
                .name = "name",
                .count = "template spec parallelism",
                .times = "replicas",
                .template = "template spec template"}}},
    {.kind = "RayJob",
     .group = "ray.io",
     .role_labels = {"ray.io/group"},
     .roles = RAY_ROLES("spec rayClusterSpec "),
     .limit_s = "spec activeDeadlineSeconds",
     .part = "status rayClusterName",
     .part_kind = "RayCluster"},
    {.kind = "RayCluster",
     .group = "ray.io",
     .labels = {"ray.io/cluster"},
     .role_labels = {"ray.io/group"},
     .roles = RAY_ROLES("spec ")},
    {.kind = "PyTorchJob",
     .group = "kubeflow.org",
     .labels = {"training.kubeflow.org/job-name"},
     .role_labels = {"training.kubeflow.org/replica-type"},
     .roles = KUBEFLOW_ROLES("spec pytorchReplicaSpecs"),
     .min = "spec elasticPolicy minReplicas",
     .max = "spec elasticPolicy maxReplicas",
     .limit_s = "spec runPolicy activeDeadlineSeconds"},
    {.kind = "MPIJob",
     .group = "kubeflow.org",
     .labels = {"training.kubeflow.org/job-name"},
     .role_labels = {"training.kubeflow.org/job-role", "training.kubeflow.org/replica-type"},
     .roles = KUBEFLOW_ROLES("spec mpiReplicaSpecs"),
     .limit_s = "spec runPolicy activeDeadlineSeconds"},
    {.kind = "Job",
     .group = "batch.volcano.sh",
     .shown = "Volcano Job",
     .labels = {"volcano.sh/job-name"},
     .role_labels = {"volcano.sh/task-spec"},
     .roles = {{.path = "spec tasks",
                .type = JSON_ARRAY,
                .name = "name",
                .count = "replicas",
                .min = "minAvailable",
                .template = "template"}},
     .total_min = "spec minAvailable"},
    {.kind = "LeaderWorkerSet",
     .group = "leaderworkerset.x-k8s.io",
     .labels = {"leaderworkerset.sigs.k8s.io/name"},
     .more_label = "leaderworkerset.sigs.k8s.io/group-index"},
    {.kind = "PodGroup",
     .group = "",
     .labels = {"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "scheduling.k8s.io/group-name",
                "kueue.x-k8s.io/pod-group-name"}},
    {.kind = "Job",
     .group = "batch",
     .labels = {"batch.kubernetes.io/job-name", "job-name"},
     .roles = {{.path = "spec", .type = JSON_TRUE, .fixed = "", .count = "parallelism", .template = "template"}},
     .limit_s = "spec activeDeadlineSeconds",
     .is_gang = is_job_gang},
    {.kind = "StatefulSet",
     .group = "apps",
     .roles = {{.path = "spec", .type = JSON_TRUE, .fixed = "", .count = "replicas", .template = "template"}},
     .is_gang = is_set_gang},
    {.kind = "Workload",
     .group = "kueue.x-k8s.io",
     .roles = {{.path = "spec podSets",
                .type = JSON_ARRAY,
                .name = "name",
                .count = "count",
                .min = "minCount",
                .template = "template"}}},
};

/* --- what is being read ------------------------------------------------------------------------------------------- */

typedef struct GangRole {
    const char *name, *label;
    ClusterRequest request;
    uint64_t min, max;
    uint64_t pods; /* that were seen */
} GangRole;

struct Gang {
    const GangKind *kind;
    const char *namespace;
    const KubeObject *object; /* NULL: known by its pods alone */
    ClusterJob job;
    GangRole roles[CLUSTER_ROLES_MAX];
    uint8_t role_count;
    bool over;  /* it has ended, or asks for nothing */
    bool alone; /* its pods are jobs of their own */
    int64_t total_min;
    VEC(ClusterPlace) places;
};

struct Reading {
    const KubeJobs *in;
    Map objects;                     /* "kind group namespace/name" -> KubeObject, of kinds of gangs */
    Map gangs;                       /* the same -> Gang */
    VEC(const KubeObject *) budgets; /* that let no pod be disrupted */
    VEC(ClusterJob) jobs;
    Err *err;
};

static const char *make_key(const Reading *r, const char *kind, const char *group, const char *namespace,
                            const char *name)
{
    return arena_printf(r->in->scratch, "%s %s %s/%s", kind, group, namespace, name);
}

static const GangKind *find_kind(const char *kind, const char *group)
{
    for (size_t i = 0; i < ARRAY_LEN(gang_kinds); i++)
        if (strcmp(gang_kinds[i].kind, kind) == 0 && strcmp(gang_kinds[i].group, group) == 0)
            return &gang_kinds[i];
    return NULL;
}

static const char *copy_text(const Reading *r, const char *text)
{
    return text && *text ? arena_strdup(r->in->arena, text) : NULL;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* What annotations say; what is known already stays. */
static int read_annotations(const Reading *r, const KubeField *meta, ClusterJob *job)
{
    static const struct {
        const char *name;
        int (*read)(const KubeField *in, const char *path, uint64_t *ret_s, Err *err);
        size_t off;
    } rows[] = {
        {"stoker.dev/checkpoint-interval", kube_field_duration, offsetof(ClusterJob, checkpoint_s)},
        {"stoker.dev/restart-cost", kube_field_duration, offsetof(ClusterJob, restart_s)},
        {"stoker.dev/duration", kube_field_duration, offsetof(ClusterJob, duration_s)},
        {"stoker.dev/deadline", kube_field_time, offsetof(ClusterJob, deadline_s)},
    };
    KubeField annotations;
    Err ignored;

    TRY(kube_field_get(meta, "annotations", JSON_OBJECT, &annotations, r->err));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t *value = (uint64_t *)(void *)((char *)job + rows[i].off);

        if (*value == 0 && rows[i].read(&annotations, rows[i].name, value, &ignored) < 0)
            r->in->left_out->annotations++; /* of one user: the others' jobs are read all the same */
    }
    return 0;
}

/* The ClusterQueue behind the queue that a label names, else what it names. */
static int read_queue(const Reading *r, const KubeObject *object, const char *name, ClusterJob *job)
{
    KubeField labels;

    TRY(kube_field_get(&object->root, "metadata labels", JSON_OBJECT, &labels, r->err));
    if (!name)
        TRY(kube_field_text(&labels, "kai.scheduler/queue", &name, r->err));
    if (!name)
        TRY(kube_field_text(&labels, QUEUE_LABEL, &name, r->err));
    if (!name || job->queue)
        return 0;
    const char *of_cluster =
        map_get(r->in->local_queues, arena_printf(r->in->scratch, "%s/%s", object->namespace, name));
    job->queue = copy_text(r, of_cluster ? of_cluster : name);
    return 0;
}

static int read_priority(const KubeField *spec, ClusterJob *job, Err *err)
{
    int64_t priority = job->priority;

    TRY(kube_field_int(spec, "priority", INT32_MIN, INT32_MAX, &priority, err));
    job->priority = (int32_t)priority;
    return 0;
}

static int read_seconds(const KubeField *in, const char *path, uint64_t *ret_s, Err *err)
{
    int64_t value = 0;

    TRY(kube_field_int(in, path, 0, INT64_MAX, &value, err));
    if (value > 0 && *ret_s == 0)
        *ret_s = (uint64_t)value;
    return 0;
}

/* --- gangs -------------------------------------------------------------------------------------------------------- */

static Gang *find_gang(const Reading *r, const GangKind *kind, const char *namespace, const char *name)
{
    return map_get(&r->gangs, make_key(r, kind->kind, kind->group, namespace, name));
}

static Gang *add_gang(Reading *r, const GangKind *kind, const char *namespace, const char *name)
{
    Gang *gang = arena_alloc(r->in->scratch, sizeof *gang);

    gang->kind = kind;
    gang->namespace = namespace;
    gang->job = (ClusterJob){.name = arena_printf(r->in->arena, "%s/%s", namespace, name),
                             .kind = kind->shown ? kind->shown : kind->kind,
                             .tier = CLUSTER_TIER_END,
                             .preemptible = true};
    map_put(&r->gangs, make_key(r, kind->kind, kind->group, namespace, name), gang);
    return gang;
}

/* The number of the new role, NO_ROLE where there is no room. */
static uint8_t add_role(Reading *r, Gang *gang, const char *name, const char *label)
{
    char *lower = arena_strdup(r->in->arena, name);

    if (gang->role_count == CLUSTER_ROLES_MAX) {
        r->in->left_out->roles++;
        return NO_ROLE;
    }
    for (char *at = lower; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    gang->roles[gang->role_count] =
        (GangRole){.name = lower, .label = label ? arena_strdup(r->in->scratch, label) : lower};
    return gang->role_count++;
}

static int read_count(const KubeField *in, const char *path, uint64_t *ret, Err *err)
{
    int64_t count = (int64_t)*ret;

    if (path)
        TRY(kube_field_int(in, path, 0, COUNT_MAX, &count, err));
    *ret = (uint64_t)count;
    return 0;
}

static int read_role_counts(const RoleShape *shape, const KubeField *in, GangRole *role, Err *err)
{
    uint64_t count = 1, times = 1;

    TRY(read_count(in, shape->count, &count, err));
    TRY(read_count(in, shape->times, &times, err));
    count = number_min_u64(count * times, COUNT_MAX);
    role->min = role->max = count;
    TRY(read_count(in, shape->min, &role->min, err));
    TRY(read_count(in, shape->max, &role->max, err));
    role->max = number_max_u64(role->max, count);
    role->min = number_min_u64(role->min, role->max);
    return 0;
}

static int read_role(Reading *r, Gang *gang, const RoleShape *shape, const KubeField *in, const char *name)
{
    KubeField template, meta, spec;
    KubeInstances instances;
    KubeClaimed claimed;
    const char *required = NULL, *preferred = NULL;

    TRY(kube_field_get(in, shape->template, JSON_OBJECT, &template, r->err));
    TRY(kube_field_get(&template, "metadata", JSON_OBJECT, &meta, r->err));
    TRY(kube_field_get(&template, "spec", JSON_OBJECT, &spec, r->err));
    const uint8_t number = add_role(r, gang, name, shape->label);
    if (number == NO_ROLE)
        return 0;
    GangRole *role = &gang->roles[number];
    TRY(read_role_counts(shape, in, role, r->err));
    TRY(kube_claims_of_pod(r->in->claims, gang->namespace, &spec, NULL, NULL, &claimed, r->err));
    const int rc = kube_request_read(r->in->rules, r->in->mig, &spec, &role->request, &instances, r->err);
    TRY(rc);
    if (rc == KUBE_REQUEST_OUTSIDE || !kube_request_add_claimed(&role->request, &claimed)) {
        r->in->left_out->gangs += !gang->alone;
        gang->alone = true;
    }
    TRY(kube_field_text(in, "topologyRequest required", &required, r->err));
    TRY(kube_field_text(in, "topologyRequest preferred", &preferred, r->err));
    kube_tier_set(&gang->job, required, true);
    kube_tier_set(&gang->job, preferred, false);
    TRY(kube_tier_read(&meta, &spec, &gang->job, r->err));
    TRY(read_annotations(r, &meta, &gang->job));
    TRY(read_seconds(&spec, "activeDeadlineSeconds", &gang->job.duration_s, r->err));
    return read_priority(&spec, &gang->job, r->err);
}

/* JSON_TRUE: the object at the path is the one role. */
static int read_shape(Reading *r, Gang *gang, const RoleShape *shape, const KubeField *root)
{
    KubeField list, item;
    const char *key;
    json_t *value;

    TRY(kube_field_get(root, shape->path, shape->type == JSON_TRUE ? JSON_OBJECT : shape->type, &list, r->err));
    if (shape->type == JSON_TRUE)
        return list.json ? read_role(r, gang, shape, &list, shape->fixed) : 0;
    for (size_t i = 0; i < kube_field_len(&list); i++) {
        const char *name = "";

        TRY(kube_field_item(&list, i, JSON_OBJECT, &item, r->err));
        TRY(kube_field_text(&item, shape->name, &name, r->err));
        TRY(read_role(r, gang, shape, &item, name));
    }
    json_object_foreach((json_t *)(uintptr_t)list.json, key, value)
    {
        item = (KubeField){.in = &list, .key = key, .json = value};
        if (!json_is_object(value))
            return kube_field_fail(&item, r->err, "must be an object");
        TRY(read_role(r, gang, shape, &item, key));
    }
    return 0;
}

/* The role of the workers: "worker", else the last. */
static GangRole *find_workers(Gang *gang)
{
    for (uint8_t i = 0; i < gang->role_count; i++)
        if (strcmp(gang->roles[i].name, "worker") == 0)
            return &gang->roles[i];
    return &gang->roles[gang->role_count - 1];
}

static int read_elastic(const GangKind *kind, const KubeField *root, Gang *gang, Err *err)
{
    if (gang->role_count == 0)
        return 0;
    GangRole *workers = find_workers(gang);
    TRY(read_count(root, kind->min, &workers->min, err));
    TRY(read_count(root, kind->max, &workers->max, err));
    workers->min = number_min_u64(workers->min, workers->max);
    gang->total_min = -1;
    return kind->total_min ? kube_field_int(root, kind->total_min, 0, COUNT_MAX, &gang->total_min, err) : 0;
}

/* Fewer than all pods are enough: first those of the last roles are not needed. */
static void apply_total_min(Gang *gang)
{
    uint64_t left = gang->total_min < 0 ? UINT64_MAX : (uint64_t)gang->total_min;

    for (uint8_t i = 0; i < gang->role_count; i++) {
        gang->roles[i].min = number_min_u64(gang->roles[i].min, left);
        left -= gang->roles[i].min;
    }
}

/* Whether it has ended, or waits for somebody to resume it and not for a scheduler. */
static int read_over(const KubeObject *object, bool queued, bool *ret, Err *err)
{
    static const char *const ends[] = {"Complete", "Completed", "Succeeded", "Failed", "Finished"};
    static const char *const states[] = {"status state phase", "status jobStatus", "status jobDeploymentStatus"};
    const char *message = NULL;
    bool suspended = false;

    TRY(kube_field_bool(&object->root, "spec suspend", &suspended, err));
    *ret = suspended && !queued;
    for (size_t i = 0; i < ARRAY_LEN(ends) && !*ret; i++)
        TRY(kube_object_condition(object, ends[i], "True", &message, ret, err));
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        KubeField field;

        if (kube_field_get(&object->root, states[i], JSON_STRING, &field, NULL) < 0 || !field.json)
            continue; /* of another kind */
        for (size_t e = 0; e < ARRAY_LEN(ends); e++)
            *ret |= strcasecmp(json_string_value(field.json), ends[e]) == 0;
    }
    return 0;
}

static int read_gang(Reading *r, Gang *gang, const GangKind *shape, const KubeObject *object)
{
    KubeField meta;
    ClusterJob *job = &gang->job;

    TRY(kube_field_get(&object->root, "metadata", JSON_OBJECT, &meta, r->err));
    gang->object = object;
    TRY(kube_field_time(&meta, "creationTimestamp", &job->submitted_s, r->err));
    TRY(read_annotations(r, &meta, job));
    if (shape->limit_s)
        TRY(read_seconds(&object->root, shape->limit_s, &job->duration_s, r->err));
    for (size_t i = 0; i < ARRAY_LEN(shape->roles) && shape->roles[i].path; i++)
        TRY(read_shape(r, gang, &shape->roles[i], &object->root));
    TRY(read_elastic(shape, &object->root, gang, r->err));
    apply_total_min(gang);
    TRY(read_queue(r, object, NULL, job));
    return read_over(object, job->queue != NULL, &gang->over, r->err);
}

/* Volcano's Job names its queue and its network tier itself: HyperNodes of tier 1 are racks, of tier 2 blocks. */
static int read_volcano(const Reading *r, const KubeObject *object, Gang *gang)
{
    const char *queue = NULL, *mode = "hard";
    int64_t tier = 0;

    TRY(kube_field_text(&object->root, "spec queue", &queue, r->err));
    TRY(read_queue(r, object, queue, &gang->job));
    TRY(kube_field_text(&object->root, "spec networkTopology mode", &mode, r->err));
    TRY(kube_field_int(&object->root, "spec networkTopology highestTierAllowed", 0, 100, &tier, r->err));
    if ((tier == 1 || tier == 2) && gang->job.tier == CLUSTER_TIER_END) {
        gang->job.tier = tier == 1 ? CLUSTER_RACK : CLUSTER_BLOCK;
        gang->job.tier_required = strcmp(mode, "hard") == 0;
    }
    return 0;
}

static int declare_gang(Reading *r, const KubeObject *object, const GangKind *kind)
{
    const char *part = NULL;
    KubeOwner owner;

    TRY(kube_object_controller(object, r->in->scratch, &owner, r->err));
    if (find_kind(owner.kind, owner.group))
        return 0; /* a part of that */
    if (kind->is_gang) {
        const int is = kind->is_gang(object, NULL, r->err);

        TRY(is);
        if (!is)
            return 0;
    }
    Gang *gang = add_gang(r, kind, object->namespace, object->name);
    TRY(read_gang(r, gang, kind, object));
    if (strcmp(kind->group, "batch.volcano.sh") == 0)
        TRY(read_volcano(r, object, gang));
    if (kind->part)
        TRY(kube_field_text(&object->root, kind->part, &part, r->err));
    if (part && *part)
        map_put(&r->objects, make_key(r, kind->part_kind, kind->group, object->namespace, part),
                (void *)(uintptr_t)object);
    return 0;
}

/* Kueue's view of a job: of the object that owns it, if it is one of a gang. */
static int read_workload(Reading *r, const KubeObject *object)
{
    const GangKind *shape = find_kind(object->kind, object->group), *kind;
    const char *queue = NULL, *said = NULL;
    bool waits, finished;
    KubeOwner owner;

    TRY(kube_object_controller(object, r->in->scratch, &owner, r->err));
    TRY(kube_object_condition(object, "Finished", "True", &said, &finished, r->err));
    kind = *owner.kind ? find_kind(owner.kind, owner.group) : shape;
    if (!kind || finished)
        return 0;
    const char *name = *owner.kind ? owner.name : object->name;
    Gang *gang = find_gang(r, kind, object->namespace, name);
    TRY(kube_field_text(&object->root, "spec queueName", &queue, r->err));
    if (!gang) {
        gang = add_gang(r, kind, object->namespace, name);
        TRY(read_gang(r, gang, shape, object));
    }
    KubeField spec;
    TRY(kube_field_get(&object->root, "spec", JSON_OBJECT, &spec, r->err));
    TRY(read_priority(&spec, &gang->job, r->err));
    TRY(read_queue(r, object, queue, &gang->job));
    TRY(kube_object_condition(object, "QuotaReserved", "False", &said, &waits, r->err));
    if (waits)
        gang->job.said = copy_text(r, said);
    return 0;
}

/* Pods of a group of which fewer than all are enough; the group's pods come later. */
static int read_pod_group(Reading *r, const KubeObject *object)
{
    const GangKind *kind = find_kind("PodGroup", "");
    int64_t min = -1;
    const char *queue = NULL;
    KubeOwner owner;

    TRY(kube_object_controller(object, r->in->scratch, &owner, r->err));
    TRY(kube_field_int(&object->root, "spec minMember", 0, COUNT_MAX, &min, r->err));
    TRY(kube_field_text(&object->root, "spec queue", &queue, r->err));
    if (find_kind(owner.kind, owner.group) || find_gang(r, kind, object->namespace, object->name))
        return 0;
    Gang *gang = add_gang(r, kind, object->namespace, object->name);
    gang->total_min = min;
    return read_queue(r, object, queue, &gang->job);
}

/* --- which gang a pod is of --------------------------------------------------------------------------------------- */

static int find_label(const PodFacts *pod, const char *name, const char **ret, Err *err)
{
    TRY(kube_field_text(&pod->annotations, name, ret, err));
    return kube_field_text(&pod->labels, name, ret, err);
}

static int is_job_gang(const KubeObject *object, const PodFacts *pod, Err *err)
{
    const char *mode = "", *index = NULL, *queue = NULL;
    KubeField labels;

    if (!object) {
        TRY(find_label(pod, "batch.kubernetes.io/job-completion-index", &index, err));
        return index != NULL;
    }
    TRY(kube_field_get(&object->root, "metadata labels", JSON_OBJECT, &labels, err));
    TRY(kube_field_text(&labels, QUEUE_LABEL, &queue, err));
    TRY(kube_field_text(&object->root, "spec completionMode", &mode, err));
    return queue != NULL || strcmp(mode, "Indexed") == 0;
}

static int is_set_gang(const KubeObject *object, const PodFacts *pod, Err *err)
{
    KubeField spec;
    int64_t replicas = 1;
    double gpus;

    if (!object)
        return pod->request.gpu_count > 0 && !pod->request.mig;
    TRY(kube_field_int(&object->root, "spec replicas", 0, COUNT_MAX, &replicas, err));
    TRY(kube_field_get(&object->root, "spec template spec", JSON_OBJECT, &spec, err));
    TRY(kube_request_count_gpus(&spec, &gpus, err));
    return replicas > 1 && gpus > 0;
}

/* Its object in the input, or a job whose status names it. */
static const KubeObject *find_object(const Reading *r, const GangKind *kind, const char *namespace, const char *name)
{
    return map_get(&r->objects, make_key(r, kind->kind, kind->group, namespace, name));
}

/* Up to the object that no other gang owns. */
static int climb_owners(Reading *r, const char *namespace, const GangKind **kind, const char **name)
{
    for (int i = 0; i < OWNERS_MAX; i++) {
        const KubeObject *object = find_object(r, *kind, namespace, *name);
        KubeOwner owner;

        if (!object)
            return 0;
        *kind = find_kind(object->kind, object->group);
        *name = object->name;
        TRY(kube_object_controller(object, r->in->scratch, &owner, r->err));
        const GangKind *above = find_kind(owner.kind, owner.group);
        if (!above)
            return 0;
        *kind = above;
        *name = owner.name;
    }
    return 0;
}

/* Of two kinds with the same label: the pod's owner, one whose object is there, one whose role label the pod has. */
static int is_of_kind(const Reading *r, const PodFacts *pod, const GangKind *kind, const char *name, Err *err)
{
    const char *role = NULL;

    if (find_kind(pod->controller_kind, pod->controller_group) == kind ||
        find_object(r, kind, pod->object->namespace, name) || !kind->role_labels[0])
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(gang_kinds); i++)
        if (&gang_kinds[i] != kind && kind->labels[0] && gang_kinds[i].labels[0] &&
            strcmp(gang_kinds[i].labels[0], kind->labels[0]) == 0 &&
            (find_object(r, &gang_kinds[i], pod->object->namespace, name) ||
             find_kind(pod->controller_kind, pod->controller_group) == &gang_kinds[i]))
            return 0;
    TRY(find_label(pod, kind->role_labels[0], &role, err));
    return role != NULL;
}

/* The kind and the name by the pod's labels; *ret_kind stays where there are none. */
static int find_by_labels(Reading *r, const PodFacts *pod, const GangKind **ret_kind, const char **ret_name)
{
    for (size_t k = 0; k < ARRAY_LEN(gang_kinds); k++)
        for (size_t i = 0; i < ARRAY_LEN(gang_kinds[k].labels) && gang_kinds[k].labels[i]; i++) {
            const char *name = NULL, *more = NULL;

            TRY(find_label(pod, gang_kinds[k].labels[i], &name, r->err));
            if (!name || !*name)
                continue;
            const int is = is_of_kind(r, pod, &gang_kinds[k], name, r->err);
            TRY(is);
            if (!is)
                continue;
            if (gang_kinds[k].more_label)
                TRY(find_label(pod, gang_kinds[k].more_label, &more, r->err));
            *ret_kind = &gang_kinds[k];
            *ret_name = more ? arena_printf(r->in->scratch, "%s-%s", name, more) : name;
            return 0;
        }
    return 0;
}

/* *ret NULL: the pod is a job of its own. */
static int find_pod_gang(Reading *r, const PodFacts *pod, Gang **ret)
{
    const char *namespace = pod->object->namespace, *name = pod->controller_name;
    const GangKind *kind = find_kind(pod->controller_kind, pod->controller_group);

    *ret = NULL;
    TRY(find_by_labels(r, pod, &kind, &name));
    if (!kind)
        return 0;
    TRY(climb_owners(r, namespace, &kind, &name));
    Gang *gang = find_gang(r, kind, namespace, name);
    if (!gang) {
        const int is = kind->is_gang ? kind->is_gang(find_object(r, kind, namespace, name), pod, r->err) : 1;
        TRY(is);
        if (!is)
            return 0;
        gang = add_gang(r, kind, namespace, name);
        gang->total_min = -1;
    }
    *ret = gang->alone ? NULL : gang;
    return 0;
}

/* --- pods --------------------------------------------------------------------------------------------------------- */

/* A template lacks the tolerations that its pods are given. */
static bool same_request(const ClusterRequest *a, const ClusterRequest *b, bool is_template)
{
    return a->cpu_milli == b->cpu_milli && a->memory_mib == b->memory_mib && a->gpu_count == b->gpu_count &&
           a->mig == b->mig && (is_template || a->rules == b->rules);
}

/* By its label; without one by what it asks for. NO_ROLE: there are too many. */
static int find_role(Reading *r, const PodFacts *pod, Gang *gang, uint8_t *ret)
{
    const char *label = NULL;

    for (size_t i = 0; i < ARRAY_LEN(gang->kind->role_labels) && gang->kind->role_labels[i] && !label; i++)
        TRY(find_label(pod, gang->kind->role_labels[i], &label, r->err));
    for (*ret = 0; *ret < gang->role_count; ++*ret) { /* one alone needs no label */
        const GangRole *role = &gang->roles[*ret];

        if (!label && gang->object && gang->role_count == 1)
            return 0;
        if (label ? strcasecmp(role->label, label) == 0
                  : same_request(&role->request, &pod->request, gang->object != NULL))
            return 0;
    }
    *ret = add_role(r, gang, label ? label : "", label);
    return 0;
}

/* "0,3" as bits; more or others than the pod asks for are refused. */
static int read_gpus(const PodFacts *pod, const ClusterNode *node, uint16_t *ret, Err *err)
{
    KubeField field;
    uint16_t bits = 0;

    TRY(kube_field_get(&pod->annotations, CLUSTER_GPUS_KEY, JSON_STRING, &field, err));
    if (field.json && !cluster_read_gpus(json_string_value(field.json), &bits))
        return kube_field_fail(&field, err, "must be numbers of GPUs below %d such as \"0,3\"", CLUSTER_GPUS_MAX);
    if (bits >> node->gpu_count)
        return kube_field_fail(&field, err, "node %s has no GPU %d", node->name,
                               node->gpu_count + __builtin_ctz((unsigned)bits >> node->gpu_count));
    if (bits && __builtin_popcount(bits) != pod->request.gpu_count)
        return kube_field_fail(&field, err, "names %d GPUs, the pod asks for %d", __builtin_popcount(bits),
                               (int)pod->request.gpu_count);
    *ret = bits;
    return 0;
}

/* A budget that lets no pod be disrupted now, or nobody who would make the pod again. */
static int read_preemptible(const Reading *r, const PodFacts *pod, bool *ret)
{
    int64_t priority = 0;

    TRY(kube_field_int(&pod->spec, "priority", INT32_MIN, INT32_MAX, &priority, r->err));
    *ret = *pod->controller_kind && strcmp(pod->controller_kind, "DaemonSet") != 0 &&
           strcmp(pod->controller_kind, "Node") != 0 && strcmp(pod->object->namespace, "kube-system") != 0 &&
           priority < SYSTEM_PRIORITY;
    for (size_t i = 0; i < r->budgets.len && *ret; i++) {
        KubeField selector;

        if (strcmp(r->budgets.at[i]->namespace, pod->object->namespace) != 0)
            continue;
        TRY(kube_field_get(&r->budgets.at[i]->root, "spec selector", JSON_OBJECT, &selector, r->err));
        const int selected = selector.json ? kube_selector_matches(&selector, pod->labels.json, r->err) : 0;
        TRY(selected);
        *ret = !selected;
    }
    return 0;
}

/* What the job knows by this pod. */
static int read_pod_job(const Reading *r, const PodFacts *pod, ClusterJob *job)
{
    uint64_t submitted = 0, started = 0;
    const char *said = NULL;
    bool preemptible, waits;

    TRY(kube_field_time(&pod->meta, "creationTimestamp", &submitted, r->err));
    TRY(kube_field_time(&pod->object->root, "status startTime", &started, r->err));
    TRY(read_annotations(r, &pod->meta, job));
    TRY(read_seconds(&pod->spec, "activeDeadlineSeconds", &job->duration_s, r->err));
    TRY(read_priority(&pod->spec, job, r->err));
    TRY(read_queue(r, pod->object, NULL, job));
    TRY(kube_tier_read(&pod->meta, &pod->spec, job, r->err));
    TRY(read_preemptible(r, pod, &preemptible));
    job->preemptible &= preemptible;
    if (submitted > 0 && (job->submitted_s == 0 || submitted < job->submitted_s))
        job->submitted_s = submitted;
    if (started > 0 && (job->started_s == 0 || started < job->started_s))
        job->started_s = started;
    TRY(kube_object_condition(pod->object, "PodScheduled", "False", &said, &waits, r->err));
    if (waits && !pod->node && !job->said)
        job->said = copy_text(r, said);
    return 0;
}

/* A pod with several MIG instances holds each at a place of its own. */
static void add_places(const Reading *r, const PodFacts *pod, const ClusterPlace *place, ClusterJob *job)
{
    const double several = pod->request.gpu_count == 0 ? kube_instances_sum(&pod->instances) : 0;
    ClusterPlace *places = arena_calloc(r->in->arena, 1 + (size_t)fmin(several, INSTANCES_MAX), sizeof *places);

    places[job->place_count++] = *place;
    for (size_t i = 0; several > 0 && i < pod->instances.len && job->role_count < CLUSTER_ROLES_MAX; i++) {
        ClusterRole *role = &job->roles[job->role_count];

        *role = (ClusterRole){.name = "", .request = {.gpu_count = 1, .mig = pod->instances.at[i].profile}};
        for (; role->max < pod->instances.at[i].count && job->place_count <= INSTANCES_MAX; role->min = ++role->max)
            places[job->place_count++] = (ClusterPlace){.node = place->node, .role = job->role_count};
        job->role_count++;
    }
    job->places = places;
}

static int add_pod_alone(Reading *r, const PodFacts *pod, const ClusterPlace *place)
{
    ClusterJob job = {.name = arena_printf(r->in->arena, "%s/%s", pod->object->namespace, pod->object->name),
                      .kind = "Pod",
                      .role_count = 1,
                      .tier = CLUSTER_TIER_END,
                      .preemptible = true};

    TRY(read_pod_job(r, pod, &job));
    job.tier = CLUSTER_TIER_END; /* near what else? */
    job.roles[0] = (ClusterRole){.name = "", .request = pod->request, .min = 1, .max = 1};
    if (place)
        add_places(r, pod, place, &job);
    vec_push(&r->jobs, job);
    return 0;
}

static int add_pod(Reading *r, const PodFacts *pod, ClusterPlace *place)
{
    uint8_t role = NO_ROLE;
    Gang *gang;

    TRY(find_pod_gang(r, pod, &gang));
    if (gang)
        TRY(find_role(r, pod, gang, &role));
    if (!gang || role == NO_ROLE)
        return add_pod_alone(r, pod, place);
    TRY(read_pod_job(r, pod, &gang->job));
    if (gang->roles[role].pods++ == 0)
        gang->roles[role].request = pod->request;
    if (place) {
        place->role = role;
        vec_push(&gang->places, *place);
    }
    return 0;
}

/* 1: it asks for something, or occupies it; 0: it has ended, or is not to be counted. */
static int read_facts(const Reading *r, const KubeObject *object, PodFacts *ret)
{
    const char *phase = "", *deleted = NULL;
    PodFacts pod = {.object = object};
    KubeOwner owner;

    TRY(kube_field_get(&object->root, "metadata", JSON_OBJECT, &pod.meta, r->err));
    TRY(kube_field_get(&object->root, "spec", JSON_OBJECT, &pod.spec, r->err));
    TRY(kube_field_get(&object->root, "metadata labels", JSON_OBJECT, &pod.labels, r->err));
    TRY(kube_field_get(&object->root, "metadata annotations", JSON_OBJECT, &pod.annotations, r->err));
    TRY(kube_field_text(&object->root, "status phase", &phase, r->err));
    TRY(kube_field_text(&pod.meta, "deletionTimestamp", &deleted, r->err));
    TRY(kube_field_text(&pod.spec, "nodeName", &pod.node, r->err));
    TRY(kube_object_controller(object, r->in->scratch, &owner, r->err));
    pod.controller_kind = owner.kind;
    pod.controller_group = owner.group;
    pod.controller_name = owner.name;
    *ret = pod;
    return strcmp(phase, "Succeeded") != 0 && strcmp(phase, "Failed") != 0 && (pod.node || !deleted);
}

static int read_pod(Reading *r, const KubeObject *object)
{
    const ClusterNode *node = NULL;
    ClusterPlace place = {.node = 0};
    KubeClaimed claimed;
    KubeField status;
    PodFacts pod;
    Err ignored;

    const int counts = read_facts(r, object, &pod);
    TRY(counts);
    if (!counts)
        return 0;
    if (pod.node && !(node = map_get(r->in->nodes, pod.node))) {
        r->in->left_out->elsewhere++;
        return 0;
    }
    TRY(kube_field_get(&object->root, "status", JSON_OBJECT, &status, r->err));
    TRY(kube_claims_of_pod(r->in->claims, object->namespace, &pod.spec, &status, pod.node, &claimed, r->err));
    r->in->left_out->claims += claimed.unknown;
    const int rc = kube_request_read(r->in->rules, r->in->mig, &pod.spec, &pod.request, &pod.instances, r->err);
    TRY(rc);
    const bool fits = rc != KUBE_REQUEST_OUTSIDE && kube_request_add_claimed(&pod.request, &claimed);
    place.node = node ? (uint32_t)(node - r->in->first_node) : 0;
    const bool shared = node && r->in->shared_nodes[place.node] && pod.request.gpu_count > 0 && !pod.request.mig;
    if (!fits || shared) {
        pod.request.gpu_count = 0;
        pod.request.gpu_milli = 0;
        r->in->left_out->pods++;
        return node ? add_pod_alone(r, &pod, &place) : 0;
    }
    if (node && !pod.request.mig && read_gpus(&pod, node, &place.gpus, &ignored) < 0)
        r->in->left_out->annotations++;
    if (place.gpus == 0 && __builtin_popcount(claimed.bits) == pod.request.gpu_count)
        place.gpus = claimed.bits;
    return add_pod(r, &pod, node ? &place : NULL);
}

/* Claims that no running pod is known to use keep their GPUs all the same. */
static void add_claims(Reading *r)
{
    const char *name, *node_name;
    KubeClaimed has;

    for (size_t at = 0; kube_claims_next(r->in->claims, &at, &name, &node_name, &has);) {
        const ClusterNode *node = map_get(r->in->nodes, node_name);
        ClusterJob job = {.name = arena_strdup(r->in->arena, name),
                          .kind = "ResourceClaim",
                          .role_count = 1,
                          .tier = CLUSTER_TIER_END,
                          .place_count = 1};
        ClusterPlace *place = arena_calloc(r->in->arena, 1, sizeof *place);

        if (!node)
            continue;
        job.roles[0] = (ClusterRole){.name = "", .min = 1, .max = 1};
        (void)kube_request_add_claimed(&job.roles[0].request, &has);
        *place = (ClusterPlace){.node = (uint32_t)(node - r->in->first_node), .gpus = has.bits};
        job.places = place;
        vec_push(&r->jobs, job);
    }
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int read_budget(Reading *r, const KubeObject *object)
{
    int64_t allowed = 1;

    TRY(kube_field_int(&object->root, "status disruptionsAllowed", 0, INT64_MAX, &allowed, r->err));
    if (allowed == 0)
        vec_push(&r->budgets, object);
    return 0;
}

static int declare_object(Reading *r, const KubeObject *object)
{
    const GangKind *kind = find_kind(object->kind, object->group);

    return kind && strcmp(kind->kind, "Workload") != 0 ? declare_gang(r, object, kind) : 0;
}

static int read_other(Reading *r, const KubeObject *object)
{
    static const struct {
        const char *kind, *group;
        int (*read)(Reading *r, const KubeObject *object);
    } rows[] = {
        {"PodDisruptionBudget", "policy", read_budget},
        {"Workload", "kueue.x-k8s.io", read_workload},
        {"PodGroup", "scheduling.volcano.sh", read_pod_group},
        {"PodGroup", "scheduling.x-k8s.io", read_pod_group},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (kube_object_is(object, rows[i].kind, rows[i].group))
            return rows[i].read(r, object);
    return 0;
}

/* A role of a gang without an object has as many pods as there are; minMember is of all of them. */
static void finish_roles(const Reading *r, Gang *gang)
{
    for (uint8_t i = 0; i < gang->role_count; i++) {
        GangRole *role = &gang->roles[i];

        role->max = number_max_u64(role->max, role->pods);
        if (!gang->object)
            role->min = role->max;
    }
    if (!gang->object)
        apply_total_min(gang);
    for (uint8_t i = 0; i < gang->role_count; i++) {
        const GangRole *role = &gang->roles[i];

        gang->job.roles[i] = (ClusterRole){
            .name = role->name, .request = role->request, .min = (uint32_t)role->min, .max = (uint32_t)role->max};
    }
    gang->job.role_count = gang->role_count;
    gang->job.place_count = gang->places.len;
    if (gang->places.len > 0)
        gang->job.places = arena_memdup(r->in->arena, gang->places.at, gang->places.len * sizeof *gang->places.at);
}

static bool is_wanted(const Gang *gang)
{
    uint64_t pods = 0, max = 0;

    for (uint8_t i = 0; i < gang->role_count; i++) {
        pods += gang->roles[i].pods;
        max += gang->roles[i].max;
    }
    return !gang->alone && max > 0 && (pods > 0 || (gang->object && !gang->over));
}

static void finish_jobs(Reading *r, const ClusterJob **ret, size_t *ret_count)
{
    const MapEntry *entry;
    size_t count = 0;
    ClusterJob *all = arena_calloc(r->in->arena, r->gangs.len + r->jobs.len, sizeof *all);

    for (size_t at = 0; (entry = map_next(&r->gangs, &at));) {
        Gang *gang = entry->value;

        finish_roles(r, gang);
        if (is_wanted(gang))
            all[count++] = gang->job;
    }
    if (r->jobs.len > 0)
        memcpy(all + count, r->jobs.at, r->jobs.len * sizeof *all);
    *ret = all;
    *ret_count = count + r->jobs.len;
}

static int read_all(Reading *r)
{
    const KubeJobs *in = r->in;

    for (size_t i = 0; i < in->object_count; i++)
        if (find_kind(in->objects[i].kind, in->objects[i].group))
            map_put(
                &r->objects,
                make_key(r, in->objects[i].kind, in->objects[i].group, in->objects[i].namespace, in->objects[i].name),
                (void *)(uintptr_t)&in->objects[i]);
    for (size_t i = 0; i < in->object_count; i++)
        TRY(declare_object(r, &in->objects[i]));
    for (size_t i = 0; i < in->object_count; i++)
        TRY(read_other(r, &in->objects[i]));
    for (size_t i = 0; i < in->object_count; i++)
        if (kube_object_is(&in->objects[i], "Pod", ""))
            TRY(read_pod(r, &in->objects[i]));
    add_claims(r);
    return 0;
}

static void reading_done(Reading *r)
{
    const MapEntry *entry;

    for (size_t at = 0; (entry = map_next(&r->gangs, &at));)
        vec_done(&((Gang *)entry->value)->places);
    map_done(&r->objects);
    map_done(&r->gangs);
    vec_done(&r->budgets);
    vec_done(&r->jobs);
}

int kube_jobs_read(const KubeJobs *jobs, const ClusterJob **ret, size_t *ret_count, Err *err)
{
    CLEANUP(reading_done) Reading r = {.in = jobs, .err = err};

    map_init(&r.objects);
    map_init(&r.gangs);
    TRY(read_all(&r));
    finish_jobs(&r, ret, ret_count);
    return 0;
}
