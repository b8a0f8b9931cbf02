/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "engine/place/chance.h"

/* Of a normal distribution, the 0.9 quantile. */
#define NORMAL_P90 1.2815515655446004

/* Box and Muller. */
static double draw_normal(uint64_t *chance)
{
    const double radius = sqrt(-2 * log(chance_draw(chance)));

    return radius * cos(2 * M_PI * chance_draw(chance));
}

/* Sums of the weights up to each of `count`, which lie `stride` bytes apart. */
static double *sum_weights(const double *weights, size_t stride, size_t count, Arena *arena)
{
    double *sums = arena_calloc(arena, count, sizeof *sums), sum = 0;

    for (size_t i = 0; i < count; i++)
        sums[i] = sum += *(const double *)(const void *)((const char *)weights + i * stride);
    return sums;
}

/* One by its weight. */
static size_t draw_by_weight(const double *sums, size_t count, uint64_t *chance)
{
    const double at = chance_draw(chance) * sums[count - 1];
    size_t low = 0, high = count - 1;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (sums[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

double generate_checkpoint_s(double cost_s, double mtbf_s)
{
    return fmax(cost_s, sqrt(2 * cost_s * mtbf_s));
}

/* A job fails as soon as one of its nodes does. */
static void add_checkpoints(const GenerateOptions *o, const GenerateClass *class, uint32_t pods, ClusterJob *job)
{
    if (!(class->checkpoint_cost_s > 0))
        return;
    if (job->checkpoint_s == 0 && o->mtbf_s > 0)
        job->checkpoint_s = (uint64_t)ceil(generate_checkpoint_s(class->checkpoint_cost_s, o->mtbf_s / pods));
    if (job->checkpoint_s > 0)
        job->duration_s += (uint64_t)((double)job->duration_s * class->checkpoint_cost_s / (double)job->checkpoint_s);
}

static void make_job(const GenerateOptions *o, const GenerateShape *shape, const GenerateClass *class, uint64_t *chance,
                     ClusterJob *ret)
{
    const double spread = log(o->p90_s / o->median_s) / NORMAL_P90;

    *ret = (ClusterJob){.name = class->name,
                        .queue = class->queue,
                        .kind = "Job",
                        .role_count = 1,
                        .tier = (uint8_t)(shape->pods > 1 ? class->tier : CLUSTER_TIER_END),
                        .tier_required = class->tier_required,
                        .preemptible = class->preemptible,
                        .priority = (int32_t) class->priority,
                        .duration_s = 1 + (uint64_t)(o->median_s * exp(spread * draw_normal(chance))),
                        .checkpoint_s = class->checkpoint_s,
                        .restart_s = class->restart_s,
                        .deadline_s = class->deadline_s};
    ret->roles[0] = (ClusterRole){.name = "", .request = shape->request, .min = shape->pods, .max = shape->pods};
    ret->roles[0].request.no_spot = class->no_spot;
    add_checkpoints(o, class, shape->pods, ret);
}

static int compare_numbers(const void *a, const void *b)
{
    return number_compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

ClusterJob *generate_jobs(const GenerateOptions *o, uint64_t cluster_gpu_milli, Arena *arena)
{
    ClusterJob *jobs = arena_calloc(arena, o->jobs + 1, sizeof *jobs);
    uint64_t *times = arena_calloc(arena, o->jobs + 1, sizeof *times), chance = o->seed;
    double asked = 0;

    const double *shapes = sum_weights(&o->shapes->weight, sizeof *o->shapes, o->shape_count, arena);
    const double *classes = sum_weights(&o->classes->weight, sizeof *o->classes, o->class_count, arena);
    for (size_t i = 0; i < o->jobs; i++) {
        const GenerateShape *shape = &o->shapes[draw_by_weight(shapes, o->shape_count, &chance)];
        const GenerateClass *class = &o->classes[draw_by_weight(classes, o->class_count, &chance)];

        make_job(o, shape, class, &chance, &jobs[i]);
        asked += (double)jobs[i].duration_s * shape->pods * shape->request.gpu_count * shape->request.gpu_milli;
    }
    const double span_s = asked / (o->load * fmax((double)cluster_gpu_milli, 1));
    for (size_t i = 0; i < o->jobs; i++)
        times[i] = (uint64_t)(chance_draw(&chance) * span_s);
    qsort(times, o->jobs, sizeof *times, compare_numbers);
    for (size_t i = 0; i < o->jobs; i++) {
        jobs[i].submitted_s = times[i];
        jobs[i].deadline_s += jobs[i].deadline_s ? times[i] : 0;
    }
    return jobs;
}
