/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/explain.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/place/gang.h"
#include "engine/place/instance.h"
#include "engine/place/trial.h"

const WordRow explain_causes[EXPLAIN_CAUSE_END] = {EXPLAIN_TABLE(WORD_ROW)};
const WordRow explain_starts[EXPLAIN_START_END] = {EXPLAIN_START_TABLE(WORD_ROW)};

CLEANUP_POINTER(Trial, trial_free);

typedef struct Amount {
    uint64_t have, want;
} Amount;

typedef struct Look {
    const Cluster *cluster;
    const ClusterJob *job;
    Trial *trial;
    Explanation *ret;
    Arena *arena;
} Look;

/* --- nodes ------------------------------------------------------------------------------------------------------ */

/* Whole GPUs. */
static unsigned count_working(const ClusterNode *node)
{
    const unsigned all = (1u << node->gpu_count) - 1, split = node->mig ? node->mig->gpus : 0;

    return (unsigned)__builtin_popcount(all & ~split & ~(unsigned)node->gpus_broken);
}

/* GPUs of a node with at least `milli` left, and the milli on all. */
static unsigned count_free(const PlacementLeft *left, const ClusterNode *node, unsigned milli, uint64_t *ret_sum)
{
    unsigned count = 0;

    *ret_sum = 0;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        count += left->gpu_milli[i] >= milli;
        *ret_sum += left->gpu_milli[i];
    }
    return count;
}

static uint64_t find_most(const PlacementLeft *left, const ClusterNode *node)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < node->gpu_count; i++)
        most = number_max_u64(most, left->gpu_milli[i]);
    return most;
}

static void measure_gpus(const ClusterNode *node, const ClusterRequest *r, const PlacementLeft *left,
                         Amount ret[EXPLAIN_CAUSE_END])
{
    const bool is_part = r->gpu_count == 1 && r->gpu_milli < CLUSTER_GPU;
    const MigProfile *profile = instance_profile(node, r);
    uint64_t sum;

    if (r->mig) {
        ret[EXPLAIN_MIG_NEVER] = (Amount){instance_total(node, profile), 1};
        ret[EXPLAIN_MIG] = (Amount){profile ? instance_room(node, profile, left) : 0, 1};
        return;
    }
    ret[EXPLAIN_GPUS_NEVER] = (Amount){count_working(node), r->gpu_count};
    ret[EXPLAIN_GPUS] = is_part ? (Amount){find_most(left, node), r->gpu_milli}
                                : (Amount){count_free(left, node, r->gpu_milli, &sum), r->gpu_count};
}

/* What a node has and a pod wants, for each cause of nodes. */
static void measure_node(const Look *look, uint32_t number, Amount ret[EXPLAIN_CAUSE_END])
{
    const ClusterNode *node = &look->cluster->nodes[number];
    const ClusterRequest *r = &look->job->roles[look->ret->role].request;
    const PlacementLeft left = placement_left(trial_placement(look->trial), number);

    memset(ret, 0, EXPLAIN_CAUSE_END * sizeof *ret);
    ret[EXPLAIN_RULE] = (Amount){cluster_allows(r, number), 1};
    ret[EXPLAIN_MODEL] = (Amount){r->gpu_count == 0 || !r->models || r->models >> node->model & 1, 1};
    ret[EXPLAIN_CLOSED] = (Amount){!node->closed, 1};
    measure_gpus(node, r, &left, ret);
    ret[EXPLAIN_CPU_NEVER] = (Amount){node->cpu_milli, r->cpu_milli};
    ret[EXPLAIN_MEMORY_NEVER] = (Amount){node->memory_mib, r->memory_mib};
    ret[EXPLAIN_CPU] = (Amount){left.cpu_milli, r->cpu_milli};
    ret[EXPLAIN_MEMORY] = (Amount){left.memory_mib, r->memory_mib};
    ret[EXPLAIN_PODS] = (Amount){left.pods < PLACEMENT_NODE_PODS_MAX, 1};
}

static ExplainReason find_short(const Look *look, uint32_t node)
{
    Amount amounts[EXPLAIN_CAUSE_END];
    ExplainReason reason = {.cause = 0, .nodes = 1};

    measure_node(look, node, amounts);
    while (reason.cause < EXPLAIN_NOTHING && amounts[reason.cause].have >= amounts[reason.cause].want)
        reason.cause++;
    reason.have = amounts[reason.cause].have;
    reason.want = amounts[reason.cause].want;
    if (reason.cause == EXPLAIN_RULE)
        reason.rule = cluster_find_rule(&look->job->roles[look->ret->role].request, node);
    return reason;
}

/* Whether `a` lacks less than `b`. */
static bool is_better(const ExplainReason *a, const ExplainReason *b)
{
    return a->cause != b->cause ? a->cause > b->cause : a->have > b->have;
}

/* --- classes ---------------------------------------------------------------------------------------------------- */

/* The exact sizes do not matter: what the system leaves of cores and memory differs from node to node. */
static bool is_alike(const Look *look, uint32_t a, uint32_t b)
{
    const ClusterNode *x = &look->cluster->nodes[a], *y = &look->cluster->nodes[b];
    const ClusterRequest *r = &look->job->roles[look->ret->role].request;

    return x->model == y->model && instance_whole_gpus(x) == instance_whole_gpus(y) && !x->mig == !y->mig &&
           !instance_profile(x, r) == !instance_profile(y, r) && x->closed == y->closed &&
           (x->cpu_milli >= r->cpu_milli) == (y->cpu_milli >= r->cpu_milli) &&
           (x->memory_mib >= r->memory_mib) == (y->memory_mib >= r->memory_mib) &&
           count_working(x) == count_working(y) && cluster_find_rule(r, a) == cluster_find_rule(r, b);
}

static ExplainClass *find_class(Look *look, uint32_t node)
{
    Explanation *e = look->ret;

    for (size_t i = 0; i < e->class_count; i++)
        if (is_alike(look, e->classes[i].example, node))
            return &e->classes[i];
    e->classes[e->class_count] = (ExplainClass){.example = node};
    return &e->classes[e->class_count++];
}

static int compare_classes(const void *a, const void *b)
{
    const ExplainClass *x = a, *y = b;

    return is_better(&x->reason, &y->reason)   ? -1
           : is_better(&y->reason, &x->reason) ? 1
                                               : number_compare_u64(x->example, y->example);
}

/* As the cluster is now. */
static void group_classes(Look *look)
{
    Explanation *e = look->ret;
    const ClusterRequest *r = &look->job->roles[e->role].request;

    e->classes = arena_calloc(look->arena, look->cluster->node_count, sizeof *e->classes);
    for (uint32_t i = 0; i < look->cluster->node_count; i++) {
        const PlacementLeft left = placement_left(trial_placement(look->trial), i);
        ExplainClass *class = find_class(look, i);
        uint64_t sum;

        const MigProfile *profile = instance_profile(&look->cluster->nodes[i], r);

        class->nodes++;
        class->mig += instance_total(&look->cluster->nodes[i], profile);
        class->mig_free += profile ? instance_room(&look->cluster->nodes[i], profile, &left) : 0;
        class->gpus += count_working(&look->cluster->nodes[i]);
        class->gpus_free += count_free(&left, &look->cluster->nodes[i], CLUSTER_GPU, &sum);
    }
}

/* Of the best class, where all together have enough GPUs for the pods that are still to come. */
static void mark_scattered(Look *look, uint64_t still_wanted)
{
    ExplainReason *best = &look->ret->classes[0].reason;
    uint64_t sum = 0, of_node;

    if (look->ret->class_count == 0 || best->cause != EXPLAIN_GPUS)
        return;
    for (uint32_t i = 0; i < look->cluster->node_count; i++)
        if (find_short(look, i).cause >= EXPLAIN_GPUS) {
            const PlacementLeft left = placement_left(trial_placement(look->trial), i);

            count_free(&left, &look->cluster->nodes[i], CLUSTER_GPU, &of_node);
            sum += of_node;
        }
    if (sum >= still_wanted)
        *best = (ExplainReason){EXPLAIN_SCATTERED, sum, still_wanted, best->nodes, 0};
}

/* For the next pod, with those bound that fit. */
static void judge_classes(Look *look, uint64_t still_wanted)
{
    Explanation *e = look->ret;

    for (size_t i = 0; i < e->class_count; i++)
        e->classes[i].reason = find_short(look, e->classes[i].example);
    for (uint32_t i = 0; i < look->cluster->node_count; i++) {
        const ExplainReason reason = find_short(look, i);
        ExplainClass *class = find_class(look, i);

        if (is_better(&reason, &class->reason))
            class->reason = reason;
        class->reason.nodes = class->nodes;
    }
    if (e->class_count > 0)
        qsort(e->classes, e->class_count, sizeof *e->classes, compare_classes);
    mark_scattered(look, still_wanted);
}

/* --- causes ----------------------------------------------------------------------------------------------------- */

static ExplainReason *find_reason(Explanation *e, ExplainCause cause)
{
    for (size_t i = 0; i < e->reason_count; i++)
        if (e->reasons[i].cause == cause)
            return &e->reasons[i];
    return NULL;
}

/* One of each cause, in their order. */
static void add_reason(Explanation *e, ExplainReason reason)
{
    ExplainReason *same = find_reason(e, reason.cause);
    size_t at = 0;

    if (same) {
        same->nodes += reason.nodes;
        return;
    }
    while (at < e->reason_count && e->reasons[at].cause < reason.cause)
        at++;
    memmove(&e->reasons[at + 1], &e->reasons[at], (e->reason_count - at) * sizeof reason);
    e->reasons[at] = reason;
    e->reason_count++;
}

/* GPU milli of the pods that did not fit. */
static uint64_t find_rest(const Look *look)
{
    const ClusterRequest *r = &look->job->roles[look->ret->role].request;

    return (uint64_t)(look->ret->pods - look->ret->pods_fit) * cluster_request_milli(r);
}

static void explain_nodes(Look *look)
{
    Explanation *e = look->ret;

    e->pods_fit = trial_bind(look->trial, look->job, 0, &e->role);
    trial_take_back(look->trial);
    group_classes(look);
    if (e->pods_fit < e->pods) { /* then what is short is so for the next pod */
        trial_bind(look->trial, look->job, 0, &e->role);
        judge_classes(look, find_rest(look));
        trial_take_back(look->trial);
    } else
        judge_classes(look, 0);
}

static void note_domain(Explanation *e, ExplainDomain found)
{
    size_t at = e->domain_count < EXPLAIN_DOMAINS_MAX ? e->domain_count++ : EXPLAIN_DOMAINS_MAX;

    for (; at > 0 && e->domains[at - 1].pods < found.pods; at--)
        if (at < EXPLAIN_DOMAINS_MAX)
            e->domains[at] = e->domains[at - 1];
    if (at < EXPLAIN_DOMAINS_MAX)
        e->domains[at] = found;
}

static bool is_bound_to_domain(const ClusterJob *job)
{
    return job->tier_required && job->tier < CLUSTER_TIER_END;
}

/* The most pods that one domain has room for. */
static uint32_t measure_domains(const Look *look, Trial *trial, Explanation *note)
{
    uint32_t most = 0;

    for (uint32_t d = 1; d <= look->cluster->domain_counts[look->job->tier]; d++) {
        const uint32_t pods = trial_count(trial, look->job, d);

        most = pods > most ? pods : most;
        if (note)
            note_domain(note, (ExplainDomain){d, pods});
    }
    return most;
}

static void explain_topology(Look *look)
{
    Explanation *e = look->ret;

    if (!is_bound_to_domain(look->job))
        return;
    const uint32_t most = measure_domains(look, look->trial, e);
    if (e->pods_fit == e->pods && most < e->pods && !find_reason(e, EXPLAIN_DOMAIN_NEVER))
        add_reason(e, (ExplainReason){.cause = EXPLAIN_TOPOLOGY, .have = most, .want = e->pods});
}

/* What an empty cluster, all of it open and whole, does not have. */
static int explain_never(Look *look, Err *err)
{
    Explanation *e = look->ret;
    CLEANUP(trial_free_at) Trial *trial = NULL;
    Cluster empty = *look->cluster;
    ClusterNode *nodes = arena_memdup(look->arena, empty.nodes, empty.node_count * sizeof *nodes);

    for (size_t i = 0; i < empty.node_count; i++) {
        nodes[i].closed = false;
        nodes[i].gpus_broken = 0;
    }
    empty.nodes = nodes;
    empty.job_count = 0;
    TRY(trial_new(&empty, &trial, err));
    const uint32_t pods = trial_count(trial, look->job, 0);
    const uint32_t together = is_bound_to_domain(look->job) ? measure_domains(look, trial, NULL) : pods;
    const uint64_t quota = shares_available(trial_shares(trial), shares_find(trial_shares(trial), look->job->queue));
    e->impossible = pods < e->pods || together < e->pods || quota < e->gpu_milli;
    if (pods > 0 && pods < e->pods)
        add_reason(e, (ExplainReason){.cause = EXPLAIN_CLUSTER_NEVER, .have = pods, .want = e->pods});
    else if (pods > 0 && together < e->pods)
        add_reason(e, (ExplainReason){.cause = EXPLAIN_DOMAIN_NEVER, .have = together, .want = e->pods});
    if (quota < e->gpu_milli)
        add_reason(e, (ExplainReason){.cause = EXPLAIN_QUOTA_NEVER, .have = quota, .want = e->gpu_milli});
    return 0;
}

static void explain_quota(Look *look)
{
    Explanation *e = look->ret;
    const Shares *shares = trial_shares(look->trial);
    const int queue = shares_find(shares, look->job->queue);
    const uint64_t available = shares_available(shares, queue);

    if (queue < 0)
        return;
    e->quota_used = shares_used(shares, queue);
    e->quota_nominal = look->cluster->queues[queue].nominal;
    e->quota_borrowing = look->cluster->queues[queue].borrowing_limit;
    e->quota_lacks = available < e->gpu_milli ? e->gpu_milli - available : 0;
    if (e->quota_lacks > 0 && !find_reason(e, EXPLAIN_QUOTA_NEVER))
        add_reason(e, (ExplainReason){.cause = EXPLAIN_QUOTA, .have = available, .want = e->gpu_milli});
}

/* The best class lacks what the job lacks; what others lack comes behind. */
static void rank_reasons(Look *look)
{
    Explanation *e = look->ret;
    Explanation others = {0};

    if (e->pods_fit == 0 && e->class_count > 0)
        add_reason(e, e->classes[0].reason);
    else if (e->pods_fit < e->pods)
        add_reason(e, (ExplainReason){.cause = EXPLAIN_GANG, .have = e->pods_fit, .want = e->pods});
    else if (e->reason_count == 0)
        add_reason(e, (ExplainReason){.cause = EXPLAIN_NOTHING});
    for (size_t i = 0; i < e->class_count; i++)
        add_reason(&others, e->classes[i].reason);
    for (size_t i = 0; i < others.reason_count; i++) {
        ExplainReason *same = find_reason(e, others.reasons[i].cause);

        if (same)
            same->nodes = others.reasons[i].nodes;
        else if (others.reasons[i].cause != EXPLAIN_NOTHING)
            e->reasons[e->reason_count++] = others.reasons[i];
    }
}

/* --- who holds it, and until when ------------------------------------------------------------------------------- */

static bool is_usable(const Look *look, uint32_t node)
{
    return find_short(look, node).cause > EXPLAIN_MEMORY_NEVER;
}

static void note_holder(Explanation *e, ExplainHolder found)
{
    size_t at = e->holder_count < EXPLAIN_HOLDERS_MAX ? e->holder_count++ : EXPLAIN_HOLDERS_MAX;

    for (; at > 0 && e->holders[at - 1].gpus < found.gpus; at--)
        if (at < EXPLAIN_HOLDERS_MAX)
            e->holders[at] = e->holders[at - 1];
    if (at < EXPLAIN_HOLDERS_MAX)
        e->holders[at] = found;
}

static void find_holders(Look *look)
{
    const uint8_t mig = look->job->roles[look->ret->role].request.mig;

    for (size_t i = 0; i < look->cluster->job_count; i++) {
        const ClusterJob *job = &look->cluster->jobs[i];
        ExplainHolder held = {.job = i};
        size_t places = 0;

        for (size_t k = 0; k < job->place_count; k++)
            if (is_usable(look, job->places[k].node)) {
                held.node = places++ ? held.node : job->places[k].node;
                const ClusterRequest *r = &job->roles[job->places[k].role].request;
                held.gpus += r->mig == mig ? r->gpu_count : 0;
            }
        if (places > 0)
            note_holder(look->ret, held);
    }
}

typedef struct Ending {
    uint64_t end_s;
    size_t job;
} Ending;

static int compare_endings(const void *a, const void *b)
{
    const Ending *x = a, *y = b;
    const int by_end = number_compare_u64(x->end_s, y->end_s);

    return by_end ? by_end : number_compare_u64(x->job, y->job);
}

typedef VEC(Ending) Endings;

/* Known ends that are still to come; jobs with others are ended where `others_end`. */
static void collect_endings(Look *look, uint64_t now_s, bool others_end, Trial *trial, Endings *ret)
{
    for (size_t i = 0; i < look->cluster->job_count; i++) {
        const ClusterJob *job = &look->cluster->jobs[i];
        const uint64_t end_s = job->started_s + job->duration_s;

        if (job->place_count == 0)
            continue;
        if (job->started_s && job->duration_s && end_s > now_s)
            vec_push(ret, ((Ending){end_s, i}));
        else if (others_end)
            trial_end(trial, i);
    }
    vec_sort(ret, compare_endings);
}

/* Ends the jobs one after the other until it fits. Returns whether it then does. */
static bool find_start(Look *look, uint64_t now_s, bool others_end)
{
    CLEANUP(trial_free_at) Trial *trial = NULL;
    CLEANUP_VEC Endings endings = {0};

    if (trial_new(look->cluster, &trial, NULL) < 0)
        return false;
    collect_endings(look, now_s, others_end, trial, &endings);
    look->ret->start_s = now_s;
    bool fits = trial_fits(trial, look->job);
    for (size_t i = 0; i < endings.len && !fits; i++) {
        trial_end(trial, endings.at[i].job);
        look->ret->start_s = endings.at[i].end_s;
        look->ret->start_job = endings.at[i].job;
        fits = trial_fits(trial, look->job);
    }
    return fits;
}

static void estimate_start(Look *look, uint64_t now_s)
{
    Explanation *e = look->ret;

    if (e->reasons[0].cause == EXPLAIN_NOTHING)
        e->start = EXPLAIN_NOW;
    else if (find_start(look, now_s, false))
        e->start = EXPLAIN_AT;
    else if (find_start(look, now_s, true))
        e->start = e->start_s > now_s ? EXPLAIN_NOT_BEFORE : EXPLAIN_UNKNOWN;
    else
        e->start = EXPLAIN_NEVER;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

bool explain_waits(const ClusterJob *job)
{
    return job->place_count == 0 || job->place_count < gang_pods_min(job);
}

static size_t count_in_front(const Cluster *cluster, const ClusterJob *job)
{
    size_t count = 0;

    for (size_t i = 0; i < cluster->job_count; i++) {
        const ClusterJob *other = &cluster->jobs[i];

        count += other != job && explain_waits(other) &&
                 (other->priority > job->priority ||
                  (other->priority == job->priority && other->submitted_s < job->submitted_s));
    }
    return count;
}

/* Its pods that run become a job of their own, the last one, which cannot be ended. */
static Cluster split_job(const Cluster *cluster, size_t number, Arena *arena)
{
    Cluster split = *cluster;
    ClusterJob *jobs = arena_calloc(arena, cluster->job_count + 1, sizeof *jobs);
    ClusterJob *rest = &jobs[number], *running = &jobs[split.job_count++];

    memcpy(jobs, cluster->jobs, cluster->job_count * sizeof *jobs);
    *running = *rest;
    running->preemptible = false;
    running->duration_s = 0;
    for (size_t i = 0; i < running->place_count; i++) {
        ClusterRole *role = &rest->roles[running->places[i].role];

        role->min -= role->min > 0;
        role->max -= role->max > 0;
    }
    rest->places = NULL;
    rest->place_count = 0;
    split.jobs = jobs;
    return split;
}

static int explain_rest(const Cluster *cluster, size_t number, uint64_t now_s, Arena *arena, Explanation *ret, Err *err)
{
    CLEANUP(trial_free_at) Trial *trial = NULL;
    const ClusterJob *job = &cluster->jobs[number];
    Look look = {.cluster = cluster, .job = job, .ret = ret, .arena = arena};

    TRY(trial_new(cluster, &trial, err));
    look.trial = trial;
    *ret = (Explanation){.job = number, .gpu_milli = gang_gpu_milli(job, false), .pods = gang_pods_min(job)};
    ret->overfull = trial_overfull(trial);
    ret->in_front = count_in_front(cluster, job);
    explain_nodes(&look);
    if (!trial_fits(trial, job)) {
        TRY(explain_never(&look, err));
        explain_quota(&look);
        explain_topology(&look);
    }
    rank_reasons(&look);
    find_holders(&look);
    estimate_start(&look, now_s);
    if (ret->reasons[0].cause != EXPLAIN_NOTHING)
        ret->change_count = change_find(cluster, number, ret->role, now_s, arena, ret->changes);
    return 0;
}

int explain_job(const Cluster *cluster, size_t number, uint64_t now_s, Arena *arena, Explanation *ret, Err *err)
{
    const ClusterJob *job = &cluster->jobs[number];

    if (!explain_waits(job))
        return err_set(err, -EINVAL, "job '%s' does not wait: it runs", job->name);
    if (job->place_count == 0)
        return explain_rest(cluster, number, now_s, arena, ret, err);
    const Cluster split = split_job(cluster, number, arena);
    TRY(explain_rest(&split, number, now_s, arena, ret, err));
    ret->pods_running = (uint32_t)job->place_count;
    for (size_t i = 0; i < ret->holder_count; i++)
        if (ret->holders[i].job == cluster->job_count)
            ret->holders[i].job = number;
    return 0;
}
