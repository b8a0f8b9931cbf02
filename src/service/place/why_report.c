/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences are rows of tables, with names of values in braces. */
#include "service/place/why_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"

enum { ITEMS_MAX = 4, CLASSES_MAX = 8 };

/* What is reported of: a cause, a change, or neither. */
typedef struct Subject {
    const WhyReport *report;
    const ExplainReason *reason;
    const ChangeStep *step;
} Subject;

/* `unit`: what of the amounts is one. */
typedef struct Sentence {
    double unit;
    const char *text;
} Sentence;

static const Sentence causes[EXPLAIN_CAUSE_END] = {
    [EXPLAIN_RULE] = {1, "every node is excluded by {rule}"},
    [EXPLAIN_MODEL] = {1, "no node has a GPU model that it allows ({models})"},
    [EXPLAIN_CLOSED] = {1, "all nodes that it could use are cordoned or drained"},
    [EXPLAIN_GPUS_NEVER] = {1, "no node has {want} working GPUs, the best has {have}"},
    [EXPLAIN_MIG_NEVER] = {1, "no node has a MIG instance {profile}"},
    [EXPLAIN_CPU_NEVER] = {1000, "no node has {want} cores, the best has {have}"},
    [EXPLAIN_MEMORY_NEVER] = {1024, "no node has {want} GiB of memory, the best has {have}"},
    [EXPLAIN_CLUSTER_NEVER] = {1, "even when empty, the cluster has room for {have} of its {want} pods only"},
    [EXPLAIN_DOMAIN_NEVER] = {1, "even when empty, no {tier} has room for its {want} pods, the best for {have}"},
    [EXPLAIN_QUOTA_NEVER] = {CLUSTER_GPU, "queue {queue} may never use more than {have} GPUs"},
    [EXPLAIN_QUOTA] = {CLUSTER_GPU, "queue {queue} may use {have} more GPUs now"},
    [EXPLAIN_GPUS] = {1, "GPUs are in use, the best node has {have} of {want} free"},
    [EXPLAIN_MIG] = {1, "the MIG instances {profile} that it could use are in use"},
    [EXPLAIN_SCATTERED] = {CLUSTER_GPU, "{have} GPUs are free, but no node has enough of them for a pod"},
    [EXPLAIN_CPU] = {1000, "cores are in use, the best node has {have} of {want} free"},
    [EXPLAIN_MEMORY] = {1024, "memory is in use, the best node has {have} of {want} GiB free"},
    [EXPLAIN_PODS] = {1, "nodes with room have as many pods as they may"},
    [EXPLAIN_GANG] = {1, "{have} of its {want} pods fit now, and it starts with all or none"},
    [EXPLAIN_TOPOLOGY] = {1, "no {tier} has room for its {want} pods now, the best for {have}"},
    [EXPLAIN_NOTHING] = {1, "it fits now, {front}"},
};

static const Sentence changes[CHANGE_END_OF_TABLE] = {
    [CHANGE_CPU] = {1000, "ask for {to} instead of {from} cores per pod"},
    [CHANGE_MEMORY] = {1024, "ask for {to} instead of {from} GiB of memory per pod"},
    [CHANGE_GPUS] = {1, "ask for {to} instead of {from} GPUs per pod"},
    [CHANGE_PROFILE] = {1, "ask for a MIG instance {items} instead of {profile}"},
    [CHANGE_PODS] = {1, "start with {to} of {from} pods"},
    [CHANGE_MODELS] = {1, "allow {items} too"},
    [CHANGE_RULES] = {1, "drop {items}"},
    [CHANGE_TOPOLOGY] = {1, "prefer one {tier} instead of demanding it"},
    [CHANGE_OPEN] = {1, "uncordon or resume {items}"},
    [CHANGE_REPAIR] = {1, "repair the broken GPUs of {items}"},
    [CHANGE_QUOTA] = {CLUSTER_GPU, "raise the quota of queue {queue} from {from} to {to} GPUs"},
    [CHANGE_END] = {1, "end {items}"},
    [CHANGE_ADD] = {1, "add {to} more like {items}"},
};

/* --- values ----------------------------------------------------------------------------------------------------- */

static const ClusterJob *reported_job(const Subject *s)
{
    return &s->report->cluster->jobs[s->report->explanation->job];
}

static const ClusterRequest *reported_request(const Subject *s)
{
    return &reported_job(s)->roles[s->report->explanation->role].request;
}

/* Of a part of a GPU thousandths are told. */
static double reason_unit(const Subject *s)
{
    const bool is_part = s->reason->cause == EXPLAIN_GPUS && reported_request(s)->gpu_milli < CLUSTER_GPU;

    return is_part ? CLUSTER_GPU : causes[s->reason->cause].unit;
}

static void add_amount(Str *out, double value)
{
    str_addf(out, value == floor(value) ? "%.0f" : "%.3g", value);
}

static void write_have(const Subject *s, Str *out)
{
    add_amount(out, (double)s->reason->have / reason_unit(s));
}

static void write_want(const Subject *s, Str *out)
{
    add_amount(out, (double)s->reason->want / reason_unit(s));
}

static void write_from(const Subject *s, Str *out)
{
    add_amount(out, (double)s->step->from / changes[s->step->kind].unit);
}

static void write_to(const Subject *s, Str *out)
{
    add_amount(out, (double)s->step->to / changes[s->step->kind].unit);
}

static void write_rule(const Subject *s, Str *out)
{
    str_add(out, reported_request(s)->rules[s->reason->rule].text);
}

static void write_models(const Subject *s, Str *out)
{
    const Cluster *c = s->report->cluster;
    const char *between = "";

    for (size_t m = 0; m < c->model_count; m++)
        if (reported_request(s)->models >> m & 1) {
            str_addf(out, "%s%s", between, c->models[m]);
            between = ", ";
        }
}

static void write_profile(const Subject *s, Str *out)
{
    str_add(out, s->report->cluster->profiles[reported_request(s)->mig - 1]);
}

static void write_tier(const Subject *s, Str *out)
{
    str_add(out, cluster_tiers[reported_job(s)->tier].key);
}

static void write_queue(const Subject *s, Str *out)
{
    str_add(out, reported_job(s)->queue);
}

static void write_front(const Subject *s, Str *out)
{
    const size_t count = s->report->explanation->in_front;

    if (count > 0)
        str_addf(out, "but %zu waiting %s in front of it", count, count == 1 ? "job is" : "jobs are");
    else
        str_add(out, "but its scheduler has not placed it yet");
}

/* "8 GPUs", "1 MIG instance"; of a job with both its GPUs. */
static void add_held(const ClusterJob *job, Str *out)
{
    unsigned gpus = 0, instances = 0;

    for (size_t i = 0; i < job->place_count; i++) {
        const ClusterRequest *r = &job->roles[job->places[i].role].request;

        *(r->mig ? &instances : &gpus) += r->gpu_count;
    }
    if (gpus == 0 && instances > 0)
        str_addf(out, "%u MIG instance%s", instances, human_plural(instances));
    else
        str_addf(out, "%u GPU%s", gpus, human_plural(gpus));
}

static void add_job(const WhyReport *report, uint32_t number, Str *out)
{
    const ClusterJob *job = &report->cluster->jobs[number];
    const uint64_t lost_s = change_lost_s(job, report->now_s);
    char age[HUMAN_MAX];

    str_addf(out, "%s (", job->name);
    add_held(job, out);
    str_addf(out, " on %s", report->cluster->nodes[job->places[0].node].name);
    if (lost_s < UINT32_MAX)
        str_addf(out, ", loses %s of work", human_age(age, lost_s * NS_PER_S));
    str_addc(out, ')');
}

static void add_item(const Subject *s, uint32_t item, Str *out)
{
    const Cluster *c = s->report->cluster;

    if (s->step->kind == CHANGE_END)
        add_job(s->report, item, out);
    else if (s->step->kind == CHANGE_MODELS)
        str_add(out, c->models[item]);
    else if (s->step->kind == CHANGE_PROFILE)
        str_add(out, c->profiles[item - 1]);
    else if (s->step->kind == CHANGE_RULES)
        str_add(out, reported_job(s)->roles[s->step->role].request.rules[item].text);
    else
        str_add(out, c->nodes[item].name);
}

static void write_items(const Subject *s, Str *out)
{
    for (size_t i = 0; i < s->step->count && i < ITEMS_MAX; i++) {
        str_add(out, i == 0 ? "" : i + 1 == s->step->count ? " and " : ", ");
        add_item(s, s->step->items[i], out);
    }
    if (s->step->count > ITEMS_MAX)
        str_addf(out, " and %zu more", s->step->count - ITEMS_MAX);
}

static const struct {
    const char *name;
    void (*write)(const Subject *s, Str *out);
} values[] = {
    {"{have}", write_have},   {"{want}", write_want},     {"{from}", write_from},       {"{to}", write_to},
    {"{rule}", write_rule},   {"{models}", write_models}, {"{tier}", write_tier},       {"{queue}", write_queue},
    {"{front}", write_front}, {"{items}", write_items},   {"{profile}", write_profile},
};

static void add_sentence(const Subject *s, const char *text, Str *out)
{
    while (*text) {
        size_t i = 0;

        while (i < ARRAY_LEN(values) && strncmp(text, values[i].name, strlen(values[i].name)) != 0)
            i++;
        if (i < ARRAY_LEN(values)) {
            values[i].write(s, out);
            text += strlen(values[i].name);
        } else
            str_addc(out, *text++);
    }
}

static void add_reason(const WhyReport *report, const ExplainReason *reason, Str *out)
{
    add_sentence(&(Subject){.report = report, .reason = reason}, causes[reason->cause].text, out);
}

static void add_change(const WhyReport *report, const Change *change, Str *out)
{
    for (size_t i = 0; i < change->step_count; i++) {
        str_add(out, i ? ", and " : "");
        add_sentence(&(Subject){.report = report, .step = &change->steps[i]}, changes[change->steps[i].kind].text, out);
    }
}

/* --- text ------------------------------------------------------------------------------------------------------- */

/* "32 GPUs (4 pods of 8 H100)"; of a pod alone, "8 H100 GPUs". */
static void add_asked(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;
    const Subject s = {.report = report};
    const ClusterRequest *r = reported_request(&s);

    if (e->gpu_milli > 0) {
        add_amount(out, (double)e->gpu_milli / CLUSTER_GPU);
        str_add(out, e->gpu_milli == CLUSTER_GPU ? " GPU" : " GPUs");
    } else if (r->mig) {
        str_add(out, e->pods == 1 ? "a MIG instance " : "MIG instances ");
        write_profile(&s, out);
    } else {
        add_amount(out, r->cpu_milli / 1000.);
        str_add(out, e->pods == 1 ? " cores" : " cores per pod");
    }
    if (e->pods == 1 && __builtin_popcountll(r->models) != 1)
        return;
    str_addf(out, " (%u %s", e->pods, e->pods == 1 ? "pod" : "pods");
    if (reported_job(&s)->role_count == 1 && r->gpu_count > 0 && !r->mig && __builtin_popcountll(r->models) == 1) {
        str_add(out, " of ");
        add_amount(out, (double)r->gpu_count * r->gpu_milli / CLUSTER_GPU);
        str_addc(out, ' ');
        write_models(&s, out);
    }
    str_addc(out, ')');
}

static void add_domains(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;
    const ClusterJob *job = &report->cluster->jobs[e->job];

    if (e->domain_count == 0)
        return;
    str_addf(out, "  it demands one %s:", cluster_tiers[job->tier].key);
    for (size_t i = 0; i < e->domain_count; i++)
        str_addf(out, i ? ", %s %u" : " %s has room for %u of its pods",
                 report->cluster->domains[job->tier][e->domains[i].domain - 1], e->domains[i].pods);
    str_addc(out, '\n');
}

static void add_quota(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    if (e->quota_lacks == 0)
        return;
    str_addf(out, "  queue %s uses %.0f of its %.0f GPUs", report->cluster->jobs[e->job].queue,
             (double)e->quota_used / CLUSTER_GPU, (double)e->quota_nominal / CLUSTER_GPU);
    if (e->quota_borrowing < UINT64_MAX)
        str_addf(out, ", may borrow %.0f", (double)e->quota_borrowing / CLUSTER_GPU);
    str_addf(out, ", lacks %.0f\n", (double)e->quota_lacks / CLUSTER_GPU);
}

static void add_reasons(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    if (report->cluster->jobs[e->job].said)
        str_addf(out, "  its scheduler says: %s\n", report->cluster->jobs[e->job].said);
    if (e->pods_running > 0)
        str_addf(out, "  %u more of its pods run and hold what they have\n", e->pods_running);
    add_domains(report, out);
    add_quota(report, out);
    if (e->impossible && e->reasons[0].cause < EXPLAIN_CLUSTER_NEVER)
        str_add(out, "  not even the empty cluster has room for it\n");
    for (size_t i = 1; i < e->reason_count; i++)
        if (e->reasons[i].nodes == 0 && e->reasons[i].cause != EXPLAIN_QUOTA) { /* which has its line */
            str_add(out, "  also: ");
            add_reason(report, &e->reasons[i], out);
            str_addc(out, '\n');
        }
}

static void add_changes(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    if (e->reasons[0].cause == EXPLAIN_NOTHING)
        return;
    str_add(out, e->change_count ? "What would let it run now:\n" : "No change was found that lets it run.\n");
    for (size_t i = 0; i < e->change_count; i++) {
        str_addf(out, "  %zu. ", i + 1);
        add_change(report, &e->changes[i], out);
        str_addc(out, '\n');
    }
}

/* To the minute, with how long that is from now. */
static void add_start_time(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;
    char text[CLOCK_TEXT_MAX], age[HUMAN_MAX];

    clock_format(text, e->start_s * NS_PER_S);
    str_addf(out, "%.10s %.5s UTC (in %s)", text, text + 11, human_age(age, (e->start_s - report->now_s) * NS_PER_S));
}

static void add_start(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    if (e->start == EXPLAIN_NOW)
        return;
    str_add(out, "Likely start: ");
    if (e->start == EXPLAIN_AT || e->start == EXPLAIN_NOT_BEFORE) {
        str_add(out, e->start == EXPLAIN_AT ? "" : "not before ");
        add_start_time(report, out);
        str_addf(out, ", when %s ends", report->cluster->jobs[e->start_job].name);
    }
    str_add(out, e->start == EXPLAIN_NOT_BEFORE ? "; other jobs do not say when they end"
                 : e->start == EXPLAIN_UNKNOWN  ? "not known, the jobs that it waits for do not say when they end"
                 : e->start == EXPLAIN_NEVER    ? "never without a change"
                                                : "");
    str_addc(out, '\n');
}

static void add_holders(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    if (e->reasons[0].cause == EXPLAIN_NOTHING || e->holder_count == 0 || e->holders[0].gpus == 0)
        return;
    str_addf(out, "Who holds %s that it could use: ",
             reported_request(&(Subject){.report = report})->mig ? "MIG instances" : "GPUs");
    for (size_t i = 0; i < e->holder_count && e->holders[i].gpus > 0; i++)
        str_addf(out, "%s%s (%u)", i ? ", " : "", report->cluster->jobs[e->holders[i].job].name, e->holders[i].gpus);
    str_addc(out, '\n');
}

/* " with 8 H100", " with 4 H100 and MIG", " with MIG on H100". */
static void add_gpus(const WhyReport *report, const ClusterNode *node, Str *out)
{
    const int split = node->mig ? __builtin_popcount(node->mig->gpus) : 0;

    if (node->gpu_count > split)
        str_addf(out, " with %d %s%s", node->gpu_count - split, report->cluster->models[node->model],
                 split ? " and MIG" : "");
    else if (split)
        str_addf(out, " with MIG on %s", report->cluster->models[node->model]);
}

static void add_class(const WhyReport *report, const ExplainClass *class, Str *out)
{
    const ClusterNode *node = &report->cluster->nodes[class->example];
    const Subject s = {.report = report, .reason = &class->reason};

    str_addf(out, "  %u %s", class->nodes, class->nodes == 1 ? "node" : "nodes");
    add_gpus(report, node, out);
    if (reported_request(&s)->mig) {
        str_addf(out, ", %u of %u ", class->mig_free, class->mig);
        write_profile(&s, out);
        str_add(out, " free: ");
    } else
        str_addf(out, ", %u of %u GPUs free: ", class->gpus_free, class->gpus);
    str_add(out, class->reason.cause == EXPLAIN_NOTHING ? "has room" : explain_causes[class->reason.cause].text);
    if (class->reason.cause == EXPLAIN_RULE)
        write_rule(&s, out);
    str_addc(out, '\n');
}

void why_report_text(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    str_addf(out, "%s waits for ", report->cluster->jobs[e->job].name);
    add_asked(report, out);
    str_add(out, ": ");
    add_reason(report, &e->reasons[0], out);
    str_addc(out, '\n');
    add_reasons(report, out);
    add_changes(report, out);
    add_start(report, out);
    add_holders(report, out);
    str_add(out, "Nodes:\n");
    for (size_t i = 0; i < e->class_count && i < CLASSES_MAX; i++)
        add_class(report, &e->classes[i], out);
    if (e->class_count > CLASSES_MAX)
        str_addf(out, "  and %zu more kinds\n", e->class_count - CLASSES_MAX);
    if (e->overfull > 0)
        str_addf(out, "Note: %zu running pods ask for more than their nodes have; what is free may be less.\n",
                 e->overfull);
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static void json_reason(const WhyReport *report, const ExplainReason *reason, const char *name, Str *out)
{
    const Subject s = {.report = report, .reason = reason};

    json_open(out, name, '{');
    json_add_text(out, "cause", explain_causes[reason->cause].key);
    json_add_double(out, "have", (double)reason->have / reason_unit(&s));
    json_add_double(out, "want", (double)reason->want / reason_unit(&s));
    json_add_u64(out, "nodes", reason->nodes);
    if (reason->cause == EXPLAIN_RULE)
        json_add_text(out, "rule", reported_request(&s)->rules[reason->rule].text);
    json_close(out, '}');
}

static void json_step(const WhyReport *report, const ChangeStep *step, Str *out)
{
    const Subject s = {.report = report, .step = step};
    const double unit = changes[step->kind].unit;

    json_open(out, NULL, '{');
    json_add_text(out, "kind", change_kinds[step->kind].key);
    if (step->from || step->to) {
        json_add_double(out, "from", (double)step->from / unit);
        json_add_double(out, "to", (double)step->to / unit);
    }
    json_open(out, "items", '[');
    for (size_t i = 0; i < step->count; i++)
        if (step->kind == CHANGE_END)
            json_add_text(out, NULL, report->cluster->jobs[step->items[i]].name);
        else {
            char room[256];
            Str item;

            str_init_room(&item, room, sizeof room);
            add_item(&s, step->items[i], &item);
            json_add_text(out, NULL, item.text);
        }
    json_close(out, ']');
    json_close(out, '}');
}

static void json_change(const WhyReport *report, const Change *change, Str *out)
{
    CLEANUP(str_done) Str text = str_limited(4096);

    add_change(report, change, &text);
    json_open(out, NULL, '{');
    json_add_text(out, "text", text.text);
    json_open(out, "steps", '[');
    for (size_t i = 0; i < change->step_count; i++)
        json_step(report, &change->steps[i], out);
    json_close(out, ']');
    json_close(out, '}');
}

static void json_classes(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    json_open(out, "nodes", '[');
    for (size_t i = 0; i < e->class_count; i++) {
        const ClusterNode *node = &report->cluster->nodes[e->classes[i].example];

        json_open(out, NULL, '{');
        json_add_u64(out, "nodes", e->classes[i].nodes);
        json_add_text(out, "example", node->name);
        json_add_text(out, "gpu_model", node->gpu_count ? report->cluster->models[node->model] : NULL);
        json_add_u64(out, "gpus", e->classes[i].gpus);
        json_add_u64(out, "gpus_free", e->classes[i].gpus_free);
        json_add_u64(out, "mig_instances", e->classes[i].mig);
        json_add_u64(out, "mig_instances_free", e->classes[i].mig_free);
        json_reason(report, &e->classes[i].reason, "short_of", out);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void json_domains(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    json_open(out, "domains", '[');
    for (size_t i = 0; i < e->domain_count; i++) {
        json_open(out, NULL, '{');
        json_add_text(out, "name",
                      report->cluster->domains[report->cluster->jobs[e->job].tier][e->domains[i].domain - 1]);
        json_add_u64(out, "pods_fit", e->domains[i].pods);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void json_holders(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;

    json_open(out, "holders", '[');
    for (size_t i = 0; i < e->holder_count; i++) {
        const ClusterJob *job = &report->cluster->jobs[e->holders[i].job];

        json_open(out, NULL, '{');
        json_add_text(out, "job", job->name);
        json_add_text(out, "queue", job->queue);
        json_add_u64(out, "gpus", e->holders[i].gpus);
        json_add_text(out, "node", report->cluster->nodes[e->holders[i].node].name);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void json_start(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;
    const bool timed = e->start == EXPLAIN_AT || e->start == EXPLAIN_NOT_BEFORE;

    json_open(out, "start", '{');
    json_add_text(out, "certainty", explain_starts[e->start].key);
    json_add_time(out, "time", timed ? e->start_s * NS_PER_S : 0);
    json_add_text(out, "after", timed ? report->cluster->jobs[e->start_job].name : NULL);
    json_close(out, '}');
}

void why_report_json(const WhyReport *report, Str *out)
{
    const Explanation *e = report->explanation;
    const ClusterRequest *r = reported_request(&(Subject){.report = report});
    CLEANUP(str_done) Str text = str_limited(4096);

    add_reason(report, &e->reasons[0], &text);
    json_open(out, NULL, '{');
    json_add_text(out, "job", report->cluster->jobs[e->job].name);
    json_add_text(out, "queue", report->cluster->jobs[e->job].queue);
    json_add_double(out, "gpus", (double)e->gpu_milli / CLUSTER_GPU);
    json_add_text(out, "mig_profile", r->mig ? report->cluster->profiles[r->mig - 1] : NULL);
    json_add_u64(out, "pods", e->pods);
    json_add_u64(out, "pods_fit", e->pods_fit);
    json_add_u64(out, "pods_running", e->pods_running);
    json_add_text(out, "why", text.text);
    json_add_text(out, "scheduler_says", report->cluster->jobs[e->job].said);
    json_add_bool(out, "impossible", e->impossible);
    json_add_u64(out, "waiting_in_front", e->in_front);
    json_add_u64(out, "overfull_pods", e->overfull);
    json_open(out, "causes", '[');
    for (size_t i = 0; i < e->reason_count; i++)
        json_reason(report, &e->reasons[i], NULL, out);
    json_close(out, ']');
    json_open(out, "changes", '[');
    for (size_t i = 0; i < e->change_count; i++)
        json_change(report, &e->changes[i], out);
    json_close(out, ']');
    json_start(report, out);
    json_classes(report, out);
    json_domains(report, out);
    json_holders(report, out);
    json_close(out, '}');
}
