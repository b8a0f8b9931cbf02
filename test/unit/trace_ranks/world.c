/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define TRANSFER_NS (200 * US)

World world_plain(int ranks)
{
    return (World){.ranks = ranks,
                   .steps = 10,
                   .layers = 8,
                   .sequences = true,
                   .steps_recorded = true,
                   .compute_ns = 500 * US,
                   .jitter_ns = 20 * US,
                   .end_jitter_ns = 1 * US,
                   .late_rank = -1,
                   .seed = 1};
}

typedef struct Maker {
    const World *world;
    TraceReport *report;
    KitRandom random;
    int64_t now[WORLD_RANKS_MAX];
    int64_t sequence[WORLD_RANKS_MAX][2]; /* of transfers between two, of all else */
    int step;
    TraceStepDevice device[WORLD_RANKS_MAX]; /* of the step */
} Maker;

static bool is_recorded(const Maker *maker, int rank)
{
    int last = maker->world->last_step[rank];
    return maker->step >= maker->world->first_step[rank] && (last == 0 || maker->step <= last);
}

static int64_t seen(const Maker *maker, int rank, int64_t time)
{
    const World *world = maker->world;
    return time + world->skew_ns[rank] + (int64_t)(world->drift[rank] * (double)time) - world->base_ns[rank];
}

static void record(Maker *maker, int rank, const char *name, const char *group, const char *ranks, int size, int peer,
                   int64_t bytes, int64_t start, int64_t end)
{
    TraceRank *file = &maker->report->ranks.at[rank];
    maker->device[rank].communication_ns += end - start;
    maker->device[rank].exposed_communication_ns += end - start;
    int64_t sequence = maker->sequence[rank][peer < 0]++;
    if (!is_recorded(maker, rank) || kit_between(&maker->random, 1, 100) <= maker->world->drop_percent[rank])
        return;
    Arena *arena = &maker->report->arena;
    vec_push(&file->collectives, ((TraceCollective){.name = name,
                                                    .dtype = "Float",
                                                    .group = arena_strdup(arena, group),
                                                    .ranks = arena_strdup(arena, ranks),
                                                    .kernel = "ncclDevKernel",
                                                    .group_size = size,
                                                    .sequence = maker->world->sequences ? sequence : -1,
                                                    .in_bytes = bytes,
                                                    .out_bytes = bytes,
                                                    .peer = peer,
                                                    .start = seen(maker, rank, start),
                                                    .end = seen(maker, rank, end),
                                                    .launch = INT64_MIN,
                                                    .parts = 1}));
}

/* The rank works before its next collective. */
static void work(Maker *maker, int rank, int layer)
{
    const World *world = maker->world;
    int64_t time = world->compute_ns + kit_between(&maker->random, -world->jitter_ns, world->jitter_ns), late = 0;
    TraceStepDevice *device = &maker->device[rank];
    if (rank == world->late_rank)
        late = world->late_once ? (layer == 0 ? world->late_ns * world->layers : 0) : world->late_ns;
    device->compute_ns += time + (world->late_by == WORLD_COMPUTES ? late : 0);
    device->idle_ns += world->late_by == WORLD_IDLES ? late : 0;
    device->exposed_copy_ns += world->late_by == WORLD_COPIES ? late : 0;
    maker->now[rank] += time + late;
}

/* The members meet; all leave together but for the jitter of ends. */
static void meet(Maker *maker, const int *members, int count, const char *name, const char *group, int64_t bytes)
{
    char ranks[128] = "[";
    int64_t last = 0;
    for (int i = 0; i < count; i++) {
        snprintf(ranks + strlen(ranks), sizeof(ranks) - strlen(ranks), "%s%d", i ? ", " : "", members[i]);
        last = maker->now[members[i]] > last ? maker->now[members[i]] : last;
    }
    strcat(ranks, "]");
    for (int i = 0; i < count; i++) {
        int rank = members[i];
        int64_t end = last + TRANSFER_NS + kit_between(&maker->random, 0, maker->world->end_jitter_ns);
        record(maker, rank, name, group, ranks, count, -1, bytes, maker->now[rank], end);
        maker->now[rank] = end;
    }
}

static void meet_all(Maker *maker, const char *name, int64_t bytes)
{
    int members[WORLD_RANKS_MAX];
    for (int i = 0; i < maker->world->ranks; i++)
        members[i] = i;
    meet(maker, members, maker->world->ranks, name, "0", bytes);
}

/* Groups of `size` neighbours, or, `across`, of the ranks with the same place in those. */
static void meet_groups(Maker *maker, bool across, const char *name, int64_t bytes)
{
    int size = maker->world->tensor_parallel, groups = maker->world->ranks / size;
    for (int g = 0; g < (across ? size : groups); g++) {
        int members[WORLD_RANKS_MAX], count = across ? groups : size;
        for (int i = 0; i < count; i++)
            members[i] = across ? i * size + g : g * size + i;
        meet(maker, members, count, name, across ? "dp" : "tp", bytes);
    }
}

/* Micro-batches through stages of one rank each: the receiver is there early and waits for the sender. */
static void run_pipeline(Maker *maker)
{
    for (int batch = 0; batch < maker->world->layers; batch++) {
        for (int rank = 0; rank < maker->world->ranks; rank++) {
            work(maker, rank, batch);
            if (rank + 1 == maker->world->ranks)
                continue;
            int64_t ready = maker->now[rank], waiting = maker->now[rank + 1];
            int64_t end = (ready > waiting ? ready : waiting) + 50 * US;
            record(maker, rank, "send", "pp", "[0, 1, 2, 3]", 4, rank + 1, 1000, ready, end);
            record(maker, rank + 1, "recv", "pp", "[0, 1, 2, 3]", 4, rank, 1000, waiting, end + US);
            maker->now[rank] = end;
            maker->now[rank + 1] = end + US;
        }
    }
    meet_all(maker, "all_reduce", 1000);
}

static void run_step(Maker *maker)
{
    const World *world = maker->world;
    if (world->pipeline) {
        run_pipeline(maker);
        return;
    }
    for (int layer = 0; layer < world->layers; layer++) {
        int64_t bytes = world->same_sizes ? 1 << 20 : (layer + 1) << 20;
        for (int rank = 0; rank < world->ranks; rank++)
            work(maker, rank, layer);
        if (world->tensor_parallel == 0)
            meet_all(maker, layer % 3 == 2 && !world->same_kind ? "all_gather" : "all_reduce", bytes);
        else
            meet_groups(maker, false, "all_reduce", bytes);
    }
    if (world->tensor_parallel > 0)
        meet_groups(maker, true, "reduce_scatter", 1 << 20);
}

static void end_step(Maker *maker, const int64_t *started)
{
    for (int rank = 0; rank < maker->world->ranks; rank++) {
        TraceStepRow step = {.name = arena_printf(&maker->report->arena, "ProfilerStep#%d", maker->step),
                             .number = maker->step,
                             .start = seen(maker, rank, started[rank]),
                             .to = seen(maker, rank, maker->now[rank])};
        step.duration_ns = step.to - step.start;
        vec_push(&step.devices, maker->device[rank]);
        maker->device[rank] = (TraceStepDevice){0};
        if (maker->world->steps_recorded && is_recorded(maker, rank))
            vec_push(&maker->report->ranks.at[rank].steps, step);
        else
            vec_done(&step.devices);
    }
}

/* Without steps a rank has its device's totals. */
static void add_device(TraceRank *rank)
{
    if (rank->collectives.len == 0)
        return;
    const TraceCollective *last = &rank->collectives.at[rank->collectives.len - 1];
    vec_push(&rank->devices, ((TraceDevice){.name = "", .span_ns = last->end - rank->collectives.at[0].start}));
}

void world_make(const World *world, TraceReport *report)
{
    Maker maker = {.world = world, .report = report, .random = {.state = world->seed}};
    *report = (TraceReport){0};
    for (int rank = 0; rank < world->ranks; rank++) {
        vec_push(&report->ranks, ((TraceRank){.rank = rank, .rank_known = true, .world_size = world->ranks}));
        report->ranks.at[rank].file = arena_printf(&report->arena, "rank%d.json", rank);
        report->ranks.at[rank].base_ns = world->base_ns[rank];
        maker.now[rank] = SECOND;
    }
    for (maker.step = 0; maker.step < world->steps; maker.step++) {
        int64_t started[WORLD_RANKS_MAX];
        memcpy(started, maker.now, sizeof(started));
        run_step(&maker);
        end_step(&maker, started);
    }
    for (int rank = 0; rank < world->ranks; rank++)
        add_device(&report->ranks.at[rank]);
}

void world_done(TraceReport *report)
{
    for (size_t i = 0; i < report->ranks.len; i++)
        kit_rank_done(&report->ranks.at[i]);
    vec_done(&report->ranks);
    vec_done(&report->collectives);
    vec_done(&report->rank_times);
    vec_done(&report->straggler.ranks);
    for (size_t i = 0; i < report->more_stragglers.len; i++)
        vec_done(&report->more_stragglers.at[i].ranks);
    vec_done(&report->more_stragglers);
    vec_done(&report->notes);
    arena_done(&report->arena);
}
