/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind proposes its strongest step. The smallest set of kinds whose strongest steps together let the job run is
 * found by trying them, then each step is made as weak as it still works. */
#include "engine/place/change.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "base/vec.h"
#include "engine/place/gang.h"
#include "engine/place/instance.h"
#include "engine/place/trial.h"

enum { ADD_MAX = 256, SINGLE_MAX = 64, CORE = 1000, GIB = 1024 };

const WordRow change_kinds[CHANGE_END_OF_TABLE] = {CHANGE_TABLE(WORD_ROW)};

typedef struct Search {
    const Cluster *cluster;
    size_t job;
    uint8_t role;
    uint64_t now_s;
    Arena *arena;
    Arena scratch; /* of one attempt */
} Search;

CLEANUP_POINTER(Trial, trial_free);

/* --- applying --------------------------------------------------------------------------------------------------- */

typedef struct Changed {
    Cluster *cluster;
    ClusterNode *nodes;
    ClusterJob *jobs;
    ClusterQueue *queues;
    size_t job;
    Arena *arena;
} Changed;

static void apply_cpu(Changed *c, const ChangeStep *step)
{
    c->jobs[c->job].roles[step->role].request.cpu_milli = (uint32_t)step->to;
}

static void apply_memory(Changed *c, const ChangeStep *step)
{
    c->jobs[c->job].roles[step->role].request.memory_mib = (uint32_t)step->to;
}

static void apply_gpus(Changed *c, const ChangeStep *step)
{
    c->jobs[c->job].roles[step->role].request.gpu_count = (uint8_t)step->to;
}

static void apply_profile(Changed *c, const ChangeStep *step)
{
    c->jobs[c->job].roles[step->role].request.mig = (uint8_t)step->items[0];
}

static void apply_pods(Changed *c, const ChangeStep *step)
{
    c->jobs[c->job].roles[step->role].min = (uint32_t)step->to;
}

static void apply_models(Changed *c, const ChangeStep *step)
{
    for (size_t i = 0; i < step->count; i++)
        c->jobs[c->job].roles[step->role].request.models |= UINT64_C(1) << step->items[i];
}

static bool is_among(const ChangeStep *step, uint32_t item)
{
    for (size_t i = 0; i < step->count; i++)
        if (step->items[i] == item)
            return true;
    return false;
}

/* In every role that has the same rules. */
static void apply_rules(Changed *c, const ChangeStep *step)
{
    ClusterJob *job = &c->jobs[c->job];
    const ClusterRequest before = job->roles[step->role].request;
    ClusterRule *kept = arena_calloc(c->arena, CLUSTER_RULES_MAX, sizeof *kept);
    uint8_t count = 0;

    for (uint8_t i = 0; i < before.rule_count; i++)
        if (!is_among(step, i))
            kept[count++] = before.rules[i];
    for (unsigned i = 0; i < job->role_count; i++)
        if (job->roles[i].request.rules == before.rules) {
            job->roles[i].request.rules = kept;
            job->roles[i].request.rule_count = count;
        }
}

static void apply_topology(Changed *c, const ChangeStep *step)
{
    (void)step;
    c->jobs[c->job].tier_required = false;
}

static void apply_open(Changed *c, const ChangeStep *step)
{
    for (size_t i = 0; i < step->count; i++)
        c->nodes[step->items[i]].closed = false;
}

static void apply_repair(Changed *c, const ChangeStep *step)
{
    for (size_t i = 0; i < step->count; i++)
        c->nodes[step->items[i]].gpus_broken = 0;
}

static void apply_quota(Changed *c, const ChangeStep *step)
{
    for (size_t i = 0; i < c->cluster->queue_count; i++)
        if (strcmp(c->queues[i].name, c->jobs[c->job].queue) == 0)
            c->queues[i].nominal = step->to;
}

static void apply_end(Changed *c, const ChangeStep *step)
{
    for (size_t i = 0; i < step->count; i++) {
        c->jobs[step->items[i]].places = NULL;
        c->jobs[step->items[i]].place_count = 0;
    }
}

/* A rule's bits with those of the new nodes behind. */
static const uint64_t *extend_bits(const uint64_t *bits, size_t before, size_t after, uint32_t like, Arena *arena)
{
    uint64_t *longer = arena_calloc(arena, after / 64 + 1, sizeof *longer);

    memcpy(longer, bits, (before + 63) / 64 * sizeof *longer);
    for (size_t i = before; i < after && bits[like / 64] >> like % 64 & 1; i++)
        longer[i / 64] |= UINT64_C(1) << i % 64;
    return longer;
}

static void apply_add(Changed *c, const ChangeStep *step)
{
    const size_t before = c->cluster->node_count, after = before + step->to;
    ClusterNode *nodes = arena_calloc(c->arena, after, sizeof *nodes);
    ClusterJob *job = &c->jobs[c->job];

    memcpy(nodes, c->nodes, before * sizeof *nodes);
    for (size_t i = before; i < after; i++) {
        nodes[i] = nodes[step->items[0]];
        nodes[i].closed = false;
        nodes[i].gpus_broken = 0;
        nodes[i].name = arena_printf(c->arena, "new-%zu", i - before + 1);
    }
    for (unsigned i = 0; i < job->role_count; i++) {
        ClusterRequest *r = &job->roles[i].request;
        ClusterRule *rules = arena_calloc(c->arena, CLUSTER_RULES_MAX, sizeof *rules);

        for (unsigned k = 0; k < r->rule_count; k++)
            rules[k] = (ClusterRule){extend_bits(r->rules[k].nodes, before, after, step->items[0], c->arena),
                                     r->rules[k].text};
        r->rules = rules;
    }
    c->nodes = nodes;
    c->cluster->node_count = after;
}

/* --- proposing -------------------------------------------------------------------------------------------------- */

/* In units of `unit`, down to one. Returns how many steps down there are. */
static uint64_t count_down(ChangeStep *step, uint64_t from, uint64_t unit)
{
    step->from = from;
    return from > 0 ? (from - 1) / unit : 0;
}

static const ClusterRole *short_role(const Search *s)
{
    return &s->cluster->jobs[s->job].roles[s->role];
}

static uint64_t propose_cpu(const Search *s, ChangeStep *step)
{
    return count_down(step, short_role(s)->request.cpu_milli, CORE);
}

static uint64_t propose_memory(const Search *s, ChangeStep *step)
{
    return count_down(step, short_role(s)->request.memory_mib, GIB);
}

static uint64_t propose_gpus(const Search *s, ChangeStep *step)
{
    return count_down(step, short_role(s)->request.gpu_count, 1);
}

/* How far a profile is from the one that is asked for: those that have no less memory ("2g.20gb") come first. */
static uint64_t rate_profile(const Search *s, uint32_t profile)
{
    const char *const *names = s->cluster->profiles;
    const char *dot = strchr(names[profile - 1], '.');
    const char *asked_dot = strchr(names[short_role(s)->request.mig - 1], '.');
    const uint64_t gb = dot ? strtoull(dot + 1, NULL, 10) : 0;
    const uint64_t asked_gb = asked_dot ? strtoull(asked_dot + 1, NULL, 10) : 0;

    return gb >= asked_gb ? gb - asked_gb : UINT32_MAX + asked_gb - gb;
}

/* The nearest with which it fits. */
static uint64_t propose_profile(const Search *s, ChangeStep *step)
{
    uint32_t *best = arena_calloc(s->arena, 1, sizeof *best);
    const uint8_t asked = short_role(s)->request.mig;
    CLEANUP(trial_free_at) Trial *trial = NULL;
    ClusterJob job = s->cluster->jobs[s->job];

    step->items = best;
    if (!asked || trial_new(s->cluster, &trial, NULL) < 0)
        return 0;
    for (uint32_t profile = 1; profile <= s->cluster->profile_count; profile++) {
        job.roles[s->role].request.mig = (uint8_t)profile;
        if (profile != asked && trial_fits(trial, &job) &&
            (!*best || rate_profile(s, profile) < rate_profile(s, *best)))
            *best = profile;
    }
    return *best != 0;
}

static uint64_t propose_pods(const Search *s, ChangeStep *step)
{
    const ClusterRole *role = short_role(s);

    return role->max > role->min ? count_down(step, role->min, 1) : 0;
}

/* Those of nodes that are there. */
static uint64_t propose_models(const Search *s, ChangeStep *step)
{
    const ClusterRequest *r = &short_role(s)->request;
    uint32_t *items = arena_calloc(s->arena, CLUSTER_MODELS_MAX, sizeof *items);
    uint64_t there = 0, count = 0;

    for (size_t i = 0; i < s->cluster->node_count; i++)
        there |= s->cluster->nodes[i].gpu_count > 0 ? UINT64_C(1) << s->cluster->nodes[i].model : 0;
    for (uint32_t m = 0; m < CLUSTER_MODELS_MAX && r->gpu_count > 0 && r->models; m++)
        if (there & ~r->models & UINT64_C(1) << m)
            items[count++] = m;
    step->items = items;
    return count;
}

static uint64_t propose_rules(const Search *s, ChangeStep *step)
{
    uint32_t *items = arena_calloc(s->arena, CLUSTER_RULES_MAX, sizeof *items);

    for (uint32_t i = 0; i < CLUSTER_RULES_MAX; i++)
        items[i] = i;
    step->items = items;
    return short_role(s)->request.rule_count;
}

static uint64_t propose_topology(const Search *s, ChangeStep *step)
{
    const ClusterJob *job = &s->cluster->jobs[s->job];

    step->from = 1;
    return job->tier_required && job->tier < CLUSTER_TIER_END;
}

static bool is_closed(const ClusterNode *node)
{
    return node->closed;
}

static bool is_broken(const ClusterNode *node)
{
    return node->gpus_broken != 0;
}

static uint64_t list_nodes(const Search *s, ChangeStep *step, bool (*is_meant)(const ClusterNode *node))
{
    uint32_t *items = arena_calloc(s->arena, s->cluster->node_count, sizeof *items);
    uint64_t count = 0;

    for (uint32_t i = 0; i < s->cluster->node_count; i++)
        if (is_meant(&s->cluster->nodes[i]))
            items[count++] = i;
    step->items = items;
    return count;
}

static uint64_t propose_open(const Search *s, ChangeStep *step)
{
    return list_nodes(s, step, is_closed);
}

static uint64_t propose_repair(const Search *s, ChangeStep *step)
{
    return list_nodes(s, step, is_broken);
}

/* With all that is in use and asked for besides any queue has enough. */
static uint64_t propose_quota(const Search *s, ChangeStep *step)
{
    const ClusterJob *job = &s->cluster->jobs[s->job];
    uint64_t most = gang_gpu_milli(job, false), found = 0;

    for (size_t i = 0; i < s->cluster->queue_count && job->queue; i++)
        if (strcmp(s->cluster->queues[i].name, job->queue) == 0) {
            step->from = s->cluster->queues[i].nominal;
            found = 1;
        }
    for (size_t i = 0; i < s->cluster->job_count; i++)
        most += s->cluster->jobs[i].place_count * (uint64_t)CLUSTER_GPU * CLUSTER_GPUS_MAX;
    return found * ((most + CLUSTER_GPU - 1) / CLUSTER_GPU);
}

uint64_t change_lost_s(const ClusterJob *job, uint64_t now_s)
{
    const uint64_t ran_s = now_s - job->started_s;

    if (!job->started_s || now_s < job->started_s)
        return UINT32_MAX;
    return number_min_u64((job->checkpoint_s ? ran_s % job->checkpoint_s : ran_s) + job->restart_s, UINT32_MAX);
}

/* For every pod, so that larger jobs cost more. */
static uint64_t measure_loss(const Search *s, uint32_t job)
{
    return (change_lost_s(&s->cluster->jobs[job], s->now_s) + 1) * s->cluster->jobs[job].place_count *
           (number_max_u64(s->cluster->jobs[job].roles[0].request.gpu_count, 1));
}

typedef struct Victim {
    uint64_t lost;
    uint32_t job;
} Victim;

static int compare_victims(const void *a, const void *b)
{
    const Victim *x = a, *y = b;
    const int by_loss = number_compare_u64(x->lost, y->lost);

    return by_loss ? by_loss : number_compare_u64(x->job, y->job);
}

static uint64_t propose_end(const Search *s, ChangeStep *step)
{
    const ClusterJob *jobs = s->cluster->jobs;
    CLEANUP_VEC VEC(Victim) victims = {0};

    for (uint32_t i = 0; i < s->cluster->job_count; i++)
        if (jobs[i].place_count > 0 && jobs[i].preemptible && jobs[i].priority <= jobs[s->job].priority)
            vec_push(&victims, ((Victim){measure_loss(s, i), i}));
    vec_sort(&victims, compare_victims);
    uint32_t *items = arena_calloc(s->arena, victims.len, sizeof *items);
    for (size_t i = 0; i < victims.len; i++)
        items[i] = victims.at[i].job;
    step->items = items;
    return victims.len;
}

/* How much a node like this would help: 8 for each thing of it that is as demanded, and more where its domain has room
 * for many of the pods. */
static uint64_t rate_example(const Search *s, const ClusterNode *node, uint32_t number, const uint32_t *room)
{
    const ClusterRequest *r = &short_role(s)->request;
    const ClusterJob *job = &s->cluster->jobs[s->job];
    uint64_t fine = (r->gpu_count == 0 || !r->models || r->models >> node->model & 1) + 0u;

    for (unsigned i = 0; i < r->rule_count; i++)
        fine += r->rules[i].nodes[number / 64] >> number % 64 & 1;
    fine += r->mig ? instance_profile(node, r) != NULL : instance_whole_gpus(node) >= r->gpu_count;
    fine += node->cpu_milli >= r->cpu_milli;
    fine += node->memory_mib >= r->memory_mib;
    return fine << 32 | (room ? (uint64_t)room[node->domain[job->tier]] : 0);
}

/* How many pods each domain has room for; NULL where any node will do. */
static const uint32_t *count_rooms(const Search *s)
{
    const ClusterJob *job = &s->cluster->jobs[s->job];
    CLEANUP(trial_free_at) Trial *trial = NULL;

    if (!job->tier_required || job->tier >= CLUSTER_TIER_END || trial_new(s->cluster, &trial, NULL) < 0)
        return NULL;
    uint32_t *room = arena_calloc(s->arena, s->cluster->domain_counts[job->tier] + 1, sizeof *room);
    for (uint32_t d = 1; d <= s->cluster->domain_counts[job->tier]; d++)
        room[d] = trial_count(trial, job, d) + 1;
    return room;
}

static uint64_t propose_add(const Search *s, ChangeStep *step)
{
    const uint32_t *room = count_rooms(s);
    uint32_t *best = arena_calloc(s->arena, 1, sizeof *best);

    for (uint32_t i = 1; i < s->cluster->node_count; i++)
        if (rate_example(s, &s->cluster->nodes[i], i, room) > rate_example(s, &s->cluster->nodes[*best], *best, room))
            *best = i;
    step->items = best;
    step->count = 1;
    return s->cluster->node_count ? number_min_u64(gang_pods_min(&s->cluster->jobs[s->job]), ADD_MAX) : 0;
}

/* --- the kinds -------------------------------------------------------------------------------------------------- */

/* `unit`: of the value, which goes down from `from` by it, or up. 0: no value but a set, of the first items. */
static const struct {
    void (*apply)(Changed *c, const ChangeStep *step);
    uint64_t (*propose)(const Search *s, ChangeStep *step); /* how strong it can be; 0: not at all */
    uint64_t unit;
    bool up;
} rows[CHANGE_END_OF_TABLE] = {
    [CHANGE_CPU] = {apply_cpu, propose_cpu, CORE, false},
    [CHANGE_MEMORY] = {apply_memory, propose_memory, GIB, false},
    [CHANGE_GPUS] = {apply_gpus, propose_gpus, 1, false},
    [CHANGE_PROFILE] = {apply_profile, propose_profile, 0, false},
    [CHANGE_PODS] = {apply_pods, propose_pods, 1, false},
    [CHANGE_MODELS] = {apply_models, propose_models, 0, false},
    [CHANGE_RULES] = {apply_rules, propose_rules, 0, false},
    [CHANGE_TOPOLOGY] = {apply_topology, propose_topology, 1, false},
    [CHANGE_OPEN] = {apply_open, propose_open, 0, false},
    [CHANGE_REPAIR] = {apply_repair, propose_repair, 0, false},
    [CHANGE_QUOTA] = {apply_quota, propose_quota, CLUSTER_GPU, true},
    [CHANGE_END] = {apply_end, propose_end, 0, false},
    [CHANGE_ADD] = {apply_add, propose_add, 1, true},
};

void change_apply(const Cluster *cluster, size_t job, const Change *change, Arena *arena, Cluster *ret)
{
    Changed c = {
        .cluster = ret,
        .nodes = arena_memdup(arena, cluster->nodes, cluster->node_count * sizeof *cluster->nodes),
        .jobs = arena_memdup(arena, cluster->jobs, cluster->job_count * sizeof *cluster->jobs),
        .queues = arena_memdup(arena, cluster->queues, cluster->queue_count * sizeof *cluster->queues),
        .job = job,
        .arena = arena,
    };

    *ret = *cluster;
    for (size_t i = 0; i < change->step_count; i++)
        rows[change->steps[i].kind].apply(&c, &change->steps[i]);
    ret->nodes = c.nodes;
    ret->jobs = c.jobs;
    ret->queues = c.queues;
}

static void set_strength(ChangeStep *step, uint64_t strength)
{
    const uint64_t unit = rows[step->kind].unit;

    if (unit == 0)
        step->count = strength;
    else if (rows[step->kind].up)
        step->to = step->from + strength * unit;
    else
        step->to = (step->from + unit - 1) / unit * unit - strength * unit;
}

/* --- the search ------------------------------------------------------------------------------------------------- */

static bool try_change(Search *s, const Change *change)
{
    CLEANUP(trial_free_at) Trial *trial = NULL;
    Cluster changed;

    arena_reset(&s->scratch);
    change_apply(s->cluster, s->job, change, &s->scratch, &changed);
    return trial_new(&changed, &trial, NULL) == 0 && trial_fits(trial, &changed.jobs[s->job]);
}

/* The least strength with which the change still works, as it does with `most`. */
static void weaken_step(Search *s, Change *change, size_t i, uint64_t most)
{
    uint64_t least = 1;

    while (least < most) {
        const uint64_t middle = least + (most - least) / 2;

        set_strength(&change->steps[i], middle);
        if (try_change(s, change))
            most = middle;
        else
            least = middle + 1;
    }
    set_strength(&change->steps[i], most);
}

/* Leaves out each item that is not needed, the dearest first. */
static void prune_step(Search *s, Change *change, size_t i)
{
    ChangeStep *step = &change->steps[i];
    uint32_t *items = arena_memdup(s->arena, step->items, step->count * sizeof *items);

    step->items = items;
    for (size_t k = step->count; k-- > 0 && step->count > 1;) {
        const uint32_t item = items[k];

        memmove(&items[k], &items[k + 1], (step->count - k - 1) * sizeof *items);
        step->count--;
        if (try_change(s, change))
            continue;
        memmove(&items[k + 1], &items[k], (step->count - k) * sizeof *items);
        items[k] = item;
        step->count++;
    }
}

/* One job that is enough by itself, where it loses less than the several that were found. */
static void try_single_jobs(Search *s, Change *change, size_t i, const ChangeStep *all, uint64_t most)
{
    ChangeStep *step = &change->steps[i];
    const ChangeStep several = *step;
    uint64_t lost = 0;

    for (size_t k = 0; k < several.count; k++)
        lost += measure_loss(s, several.items[k]);
    for (size_t k = 0; k < most && k < SINGLE_MAX && measure_loss(s, all->items[k]) <= lost; k++) {
        step->items = &all->items[k];
        step->count = 1;
        if (try_change(s, change))
            return;
    }
    *step = several;
}

static void minimise_change(Search *s, Change *change, const ChangeStep *strongest, const uint64_t *most)
{
    for (size_t i = 0; i < change->step_count; i++) {
        const ChangeKind kind = change->steps[i].kind;

        weaken_step(s, change, i, most[kind]);
        if (rows[kind].unit == 0 && change->steps[i].count > 1) {
            prune_step(s, change, i);
            if (kind == CHANGE_END && change->steps[i].count > 1)
                try_single_jobs(s, change, i, &strongest[kind], most[kind]);
        }
    }
}

/* False where a kind of the set has nothing to propose. */
static bool collect_steps(unsigned kinds, const ChangeStep *strongest, const uint64_t *most, Change *ret)
{
    ret->step_count = 0;
    for (ChangeKind kind = 0; kind < CHANGE_END_OF_TABLE; kind++)
        if (kinds >> kind & 1) {
            if (most[kind] == 0)
                return false;
            ret->steps[ret->step_count] = strongest[kind];
            set_strength(&ret->steps[ret->step_count++], most[kind]);
        }
    return true;
}

size_t change_find(const Cluster *cluster, size_t job, uint8_t role, uint64_t now_s, Arena *arena,
                   Change ret[CHANGES_MAX])
{
    Search s = {.cluster = cluster, .job = job, .role = role, .now_s = now_s, .arena = arena};
    ChangeStep strongest[CHANGE_END_OF_TABLE] = {0};
    uint64_t most[CHANGE_END_OF_TABLE];
    size_t found = 0;

    for (ChangeKind kind = 0; kind < CHANGE_END_OF_TABLE; kind++) {
        strongest[kind] = (ChangeStep){.kind = kind, .role = role};
        most[kind] = rows[kind].propose(&s, &strongest[kind]);
    }
    for (int steps = 1; steps <= CHANGE_STEPS_MAX && found == 0; steps++)
        for (unsigned kinds = 1; kinds < 1u << CHANGE_END_OF_TABLE && found < CHANGES_MAX; kinds++)
            if (__builtin_popcount(kinds) == steps && collect_steps(kinds, strongest, most, &ret[found]) &&
                try_change(&s, &ret[found])) {
                minimise_change(&s, &ret[found], strongest, most);
                found++;
            }
    arena_done(&s.scratch);
    return found;
}
