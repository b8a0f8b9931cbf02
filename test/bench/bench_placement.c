/* SPDX-License-Identifier: Apache-2.0 */
/* How long a decision takes, and how that grows with the cluster: nodes and requests in the shapes of the openb trace
 * (cluster-trace-gpu-v2023), the cluster filled until a tenth of the requests finds no room, then one request for each
 * that ends. Prints one JSON object for each size: nodes, kinds, decisions_per_s, p50_us, p99_us, max_us, memory_mib.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/place/placement.h"

enum { KINDS = 150, CHURN = 40000 };

/* Of 1,213 nodes: how many, model, GPUs, cores, GiB. */
static const struct {
    unsigned nodes, model, gpus, cores, gib;
} shapes[] = {{549, 0, 8, 96, 384}, {387, 1, 2, 104, 512}, {107, 2, 2, 16, 120}, {39, 3, 8, 128, 768},
              {28, 4, 4, 32, 128},  {22, 2, 2, 64, 256},   {21, 5, 8, 96, 768},  {19, 4, 1, 8, 32},
              {17, 1, 4, 96, 384},  {24, 5, 4, 48, 368}};

static uint64_t seed = 1;

static uint32_t draw_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static uint64_t read_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void make_nodes(ClusterNode *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t at = draw_below(1213);
        size_t shape = 0;

        while (shape + 1 < ARRAY_LEN(shapes) && at >= shapes[shape].nodes)
            at -= shapes[shape++].nodes;
        nodes[i] = (ClusterNode){.name = "n",
                                 .cpu_milli = shapes[shape].cores * 1000,
                                 .memory_mib = shapes[shape].gib * 1024,
                                 .gpu_count = (uint8_t)shapes[shape].gpus,
                                 .model = (uint8_t)shapes[shape].model,
                                 .gpu_idle_w = 30,
                                 .gpu_full_w = 300};
    }
}

/* A third a part of a GPU, half one GPU, a few more, the rest none; one in five names a model. */
static void make_requests(ClusterRequest requests[KINDS])
{
    static const uint16_t parts[] = {810, 470, 320, 650, 230, 460, 590, 160, 550, 220};
    static const uint8_t many[] = {2, 4, 8};

    for (size_t i = 0; i < KINDS; i++) {
        const uint32_t class = draw_below(100);
        ClusterRequest *r = &requests[i];

        *r = (ClusterRequest){.cpu_milli = 1000 * (2 + draw_below(14)), .memory_mib = 1024 * (4 + draw_below(40))};
        r->gpu_count = class < 13 ? 0 : class < 94 ? 1 : many[draw_below(3)];
        r->gpu_milli = r->gpu_count == 0 ? 0 : class < 46 ? parts[draw_below(ARRAY_LEN(parts))] : CLUSTER_GPU;
        r->models = r->gpu_count && draw_below(5) == 0 ? UINT64_C(1) << draw_below(6) : 0;
        r->models_written = (uint16_t)r->models;
    }
}

/* The most that this program has had in memory; not what it was started from. */
static long read_peak_mib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib / 1024;
}

typedef struct Bound {
    uint32_t kind;
    PlacementChoice choice;
} Bound;

static int compare_times(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool place_one(Placement *placement, const uint32_t *kinds, Bound *ret)
{
    ret->kind = kinds[draw_below(KINDS)];
    if (!placement_decide(placement, ret->kind, &ret->choice))
        return false;
    placement_bind(placement, ret->kind, ret->choice);
    return true;
}

static void measure_size(size_t count)
{
    ClusterNode *nodes = xcalloc(count, sizeof *nodes);
    Bound *bound = xcalloc(count * 16, sizeof *bound);
    uint32_t *times = xcalloc(CHURN, sizeof *times), kinds[KINDS];
    ClusterRequest requests[KINDS];
    size_t held = 0, refused = 0;

    seed = 1;
    make_nodes(nodes, count);
    make_requests(requests);
    Placement *placement = placement_new(nodes, count, NULL, placement_mode_find("pack"));
    placement_set_typical(placement, requests, KINDS);
    for (size_t i = 0; i < KINDS; i++)
        kinds[i] = placement_add_kind(placement, &requests[i]);
    while (refused * 10 < held + 10 && held < count * 16) {
        const bool placed = place_one(placement, kinds, &bound[held]);

        held += placed;
        refused += !placed;
    }
    const uint64_t began = read_ns();
    for (size_t i = 0; i < CHURN; i++) {
        const uint32_t gone = draw_below((uint32_t)held);
        const uint64_t from = read_ns();

        placement_release(placement, bound[gone].kind, bound[gone].choice);
        bound[gone] = bound[--held];
        held += place_one(placement, kinds, &bound[held]);
        times[i] = (uint32_t)(read_ns() - from);
    }
    const double seconds = (double)(read_ns() - began) / 1e9;
    qsort(times, CHURN, sizeof *times, compare_times);
    printf("{\"nodes\":%zu,\"kinds\":%d,\"held\":%zu,\"decisions_per_s\":%.0f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"max_"
           "us\":%.2f,"
           "\"memory_mib\":%ld}\n",
           count, KINDS, held, CHURN / seconds, times[CHURN / 2] / 1e3, times[CHURN / 100 * 99] / 1e3,
           times[CHURN - 1] / 1e3, read_peak_mib());
    fflush(stdout);
    placement_free(placement);
    free(nodes);
    free(bound);
    free(times);
}

int main(void)
{
    static const size_t sizes[] = {1213, 10000, 100000};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        measure_size(sizes[i]);
    return 0;
}
