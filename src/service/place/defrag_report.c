/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place/defrag_report.h"

#include <math.h>

#include "base/human.h"
#include "base/json.h"

enum { NODES_SHOWN = 4, SECONDS_PER_HOUR = 3600 };

static const ClusterRequest *moved_request(const DefragReport *report, const DefragMove *move)
{
    return &report->cluster->jobs[move->job].roles[move->from.role].request;
}

static const char *node_name(const DefragReport *report, const ClusterPlace *place)
{
    return report->cluster->nodes[place->node].name;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

/* GPUs of its largest pod. */
static double goal_gpus(const Defrag *d)
{
    double most = 0;

    for (unsigned i = 0; i < d->goal.role_count; i++)
        most = fmax(most, (double)d->goal.roles[i].request.gpu_count * d->goal.roles[i].request.gpu_milli);
    return most / CLUSTER_GPU;
}

static void add_goal(const DefragReport *report, Str *out)
{
    const Defrag *d = report->defrag;

    if (d->goal.name)
        str_addf(out, "%s (", d->goal.name);
    if (d->goal_pods > 1)
        str_addf(out, "%u times %s", d->goal_pods, d->goal.role_count > 1 ? "up to " : "");
    str_addf(out, "%.3g GPU%s on one node%s", goal_gpus(d), human_plural(d->block), d->goal.name ? ")" : "");
}

static void add_idle(const DefragReport *report, Str *out)
{
    const DefragIdle *now = &report->defrag->now;
    const unsigned block = report->defrag->block;

    str_addf(out, "Idle: %u of %u GPUs", now->idle, now->gpus);
    if (now->scattered > 0)
        str_addf(out, ", of these %u on nodes with fewer than %u idle", now->scattered, block);
    if (now->parts_milli > 0)
        str_addf(out, "; parts of shared GPUs that make %.3g", (double)now->parts_milli / CLUSTER_GPU);
    str_add(out, "\nMore pods that fit now (were all idle GPUs together):");
    for (unsigned i = 0; i < DEFRAG_SIZES; i++)
        str_addf(out, "%s %u (%u) of %u GPU%s", i ? "," : "", now->fits[i], now->idle >> i, 1u << i,
                 human_plural(1u << i));
    str_addc(out, '\n');
}

/* "GPU 2,3 of gpu-1"; where GPUs are not known, "gpu-1". */
static void add_place(const DefragReport *report, const ClusterPlace *place, Str *out)
{
    const char *between = "GPU ";

    for (unsigned i = 0; i < CLUSTER_GPUS_MAX && report->defrag->gpus_known; i++)
        if (place->gpus >> i & 1) {
            str_addf(out, "%s%u", between, i);
            between = ",";
        }
    str_addf(out, "%s%s", *between == ',' ? " of " : "", node_name(report, place));
}

static void add_move(const DefragReport *report, const DefragMove *move, Str *out)
{
    const ClusterJob *job = &report->cluster->jobs[move->job];
    const ClusterRequest *r = moved_request(report, move);

    if (job->place_count > 1)
        str_addf(out, "pod %u of ", move->pod + 1);
    str_addf(out, "%s (%.3g GPU%s) from ", job->name, (double)r->gpu_count * r->gpu_milli / CLUSTER_GPU,
             human_plural(r->gpu_count));
    add_place(report, &move->from, out);
    str_add(out, " to ");
    add_place(report, &move->to, out);
}

/* Whether a goal's pod before this one is on the same node. */
static bool is_repeated(const DefragPlan *plan, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (plan->places[k].node == plan->places[i].node)
            return true;
    return false;
}

static void add_room(const DefragReport *report, const DefragPlan *plan, Str *out)
{
    size_t nodes = 0;

    str_add(out, "  Then there is room on");
    for (size_t i = 0; i < report->defrag->goal_pods; i++)
        if (!is_repeated(plan, i) && nodes++ < NODES_SHOWN)
            str_addf(out, "%s %s", nodes > 1 ? "," : "", node_name(report, &plan->places[i]));
    if (nodes > NODES_SHOWN)
        str_addf(out, " and %zu more", nodes - NODES_SHOWN);
    str_addf(out, "; %u idle GPUs are on nodes with fewer than %u idle\n", plan->after.scattered,
             report->defrag->block);
}

static void add_plan(const DefragReport *report, size_t number, Str *out)
{
    const DefragPlan *plan = &report->defrag->plans[number];
    const double hours = plan->lost_gpu_s / SECONDS_PER_HOUR;

    str_addf(out, "Plan %zu: %zu move%s, %u job%s restart%s, ", number + 1, plan->move_count,
             human_plural(plan->move_count), plan->jobs_stopped, human_plural(plan->jobs_stopped),
             plan->jobs_stopped == 1 ? "s" : "");
    str_addf(out, hours < 100 ? "%.3g GPU hours of work lost" : "%.0f GPU hours of work lost", hours);
    if (plan->jobs_unknown > 0)
        str_addf(out, " and what %u of them lose%s, which is not known", plan->jobs_unknown,
                 plan->jobs_unknown == 1 ? "s" : "");
    str_addc(out, '\n');
    for (size_t i = 0; i < plan->move_count; i++) {
        str_addf(out, "  %zu. ", i + 1);
        add_move(report, &plan->moves[i], out);
        str_addc(out, '\n');
    }
    add_room(report, plan, out);
}

/* Waiting pods that no whole GPUs help. */
static size_t count_parts(const DefragReport *report)
{
    size_t pods = report->part_pods;

    for (size_t i = 0; i < report->cluster->job_count; i++) {
        const ClusterJob *job = &report->cluster->jobs[i];

        for (uint8_t k = 0; k < job->role_count && job->place_count == 0; k++)
            pods += job->roles[k].request.mig ? job->roles[k].min : 0;
    }
    return pods;
}

void defrag_report_text(const DefragReport *report, Str *out)
{
    const Defrag *d = report->defrag;
    const size_t parts = count_parts(report);

    add_goal(report, out);
    str_addf(out, ": %s\n", defrag_outcomes[d->outcome].text);
    add_idle(report, out);
    for (size_t i = 0; i < d->plan_count && d->outcome == DEFRAG_FOUND; i++)
        add_plan(report, i, out);
    if (d->outcome == DEFRAG_FOUND)
        str_add(out, d->complete ? "No plan has fewer moves or loses less work.\n"
                                 : "The search was cut short: a better plan may exist.\n");
    if (parts + report->shared_nodes > 0)
        str_addf(out,
                 "Left out: waiting pods that ask for parts of GPUs (MIG, time-slicing): %zu, nodes shared so: %zu. "
                 "'stoker mig suggest' on a node finds the MIG layout that holds its work on the fewest GPUs.\n",
                 parts, report->shared_nodes);
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static void json_idle(const DefragIdle *idle, const char *name, Str *out)
{
    json_open(out, name, '{');
    json_add_u64(out, "gpus", idle->gpus);
    json_add_u64(out, "idle", idle->idle);
    json_add_u64(out, "scattered", idle->scattered);
    json_add_double(out, "parts", (double)idle->parts_milli / CLUSTER_GPU);
    json_open(out, "pods_fit", '[');
    for (unsigned i = 0; i < DEFRAG_SIZES; i++) {
        json_open(out, NULL, '{');
        json_add_u64(out, "gpus", 1u << i);
        json_add_u64(out, "fit", idle->fits[i]);
        json_add_u64(out, "if_together", idle->idle >> i);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

static void json_place(const DefragReport *report, const ClusterPlace *place, const char *name, Str *out)
{
    json_open(out, name, '{');
    json_add_text(out, "node", node_name(report, place));
    if (report->defrag->gpus_known) {
        json_open(out, "gpus", '[');
        for (unsigned i = 0; i < CLUSTER_GPUS_MAX; i++)
            if (place->gpus >> i & 1)
                json_add_u64(out, NULL, i);
        json_close(out, ']');
    }
    json_close(out, '}');
}

static void json_move(const DefragReport *report, const DefragMove *move, Str *out)
{
    const ClusterRequest *r = moved_request(report, move);

    json_open(out, NULL, '{');
    json_add_text(out, "job", report->cluster->jobs[move->job].name);
    json_add_u64(out, "pod", move->pod + 1);
    json_add_double(out, "gpus", (double)r->gpu_count * r->gpu_milli / CLUSTER_GPU);
    json_place(report, &move->from, "from", out);
    json_place(report, &move->to, "to", out);
    json_close(out, '}');
}

static void json_plan(const DefragReport *report, const DefragPlan *plan, Str *out)
{
    json_open(out, NULL, '{');
    json_add_double(out, "lost_gpu_s", plan->lost_gpu_s);
    json_add_u64(out, "jobs_restarted", plan->jobs_stopped);
    json_add_u64(out, "jobs_of_unknown_loss", plan->jobs_unknown);
    json_open(out, "moves", '[');
    for (size_t i = 0; i < plan->move_count; i++)
        json_move(report, &plan->moves[i], out);
    json_close(out, ']');
    json_open(out, "room", '[');
    for (size_t i = 0; i < report->defrag->goal_pods; i++)
        json_place(report, &plan->places[i], NULL, out);
    json_close(out, ']');
    json_idle(&plan->after, "after", out);
    json_close(out, '}');
}

void defrag_report_json(const DefragReport *report, Str *out)
{
    const Defrag *d = report->defrag;

    json_open(out, NULL, '{');
    json_add_text(out, "outcome", defrag_outcomes[d->outcome].key);
    json_add_text(out, "job", d->goal.name);
    json_add_u64(out, "pods", d->goal_pods);
    json_add_double(out, "gpus_per_pod", goal_gpus(d));
    json_add_bool(out, "complete", d->complete);
    json_add_u64(out, "movable_pods", d->movable);
    json_add_u64(out, "left_out_pods", count_parts(report));
    json_add_u64(out, "shared_nodes", report->shared_nodes);
    json_idle(&d->now, "now", out);
    json_open(out, "plans", '[');
    for (size_t i = 0; i < d->plan_count; i++)
        json_plan(report, &d->plans[i], out);
    json_close(out, ']');
    json_close(out, '}');
    str_addc(out, '\n');
}
