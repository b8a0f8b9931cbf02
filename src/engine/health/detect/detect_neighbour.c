/* SPDX-License-Identifier: Apache-2.0 */
/*
 * noisy-neighbour: on a GPU that is shared in turns and has nothing left to give, a process that came later takes the
 * larger part, and one that was there before has less than it had by itself. Two that were always there together are no
 * case: nobody knows what each would have alone. MIG devices do not share.
 */
#include "engine/health/detect/detect_inside.h"

#include <inttypes.h>
#include <string.h>

enum { NEIGHBOURS = 8, CALM_WINDOWS = 5 };

#define SATURATED 0.9 /* share of time of all together */

typedef struct Neighbour {
    uint32_t pid;
    uint64_t since_ns, seen_ns; /* seen_ns 0: free */
    Trail sm, memory;           /* shares, 0 to 1 */
    Trail calm;                 /* the share of time over five windows, since somebody came after it or left */
    double sm_now, memory_now;  /* means over the window */
    bool known;                 /* they are */
    bool idle;                  /* at the last look: it wants nothing */
    bool crowded;               /* somebody came after it */
    bool had;                   /* what it had before is known */
    double usual_sm;
} Neighbour;

typedef struct NeighbourMem {
    DetectVerdict verdict;
    uint64_t list_ns;
    Neighbour at[NEIGHBOURS];
} NeighbourMem;

static Neighbour *place_of(NeighbourMem *mem, uint32_t pid, uint64_t now_ns)
{
    Neighbour *place = NULL;

    for (size_t i = 0; i < NEIGHBOURS; i++) {
        if (mem->at[i].seen_ns && mem->at[i].pid == pid)
            return &mem->at[i];
        if (!mem->at[i].seen_ns && !place)
            place = &mem->at[i];
    }
    if (place)
        *place = (Neighbour){.pid = pid, .since_ns = now_ns};
    return place;
}

static void take_list(const DetectWatch *watch, const NodeGpu *gpu, NeighbourMem *mem)
{
    const uint64_t list_ns = gpu->process_list.time_ns, window_ns = detect_time(watch, NOISY_WINDOW);

    for (size_t i = 0; i < gpu->process_count; i++) {
        const NodeProcess *process = &gpu->processes[i];
        Neighbour *place = process->sm_percent == UINT8_MAX ? NULL : place_of(mem, process->pid, list_ns);

        if (!place)
            continue;
        place->seen_ns = list_ns;
        place->idle = process->sm_percent == 0;
        trail_gauge(&place->sm, list_ns, process->sm_percent / 100.0, window_ns);
        trail_gauge(&place->calm, list_ns, process->sm_percent / 100.0, CALM_WINDOWS * window_ns);
        if (process->memory_percent != UINT8_MAX)
            trail_gauge(&place->memory, list_ns, process->memory_percent / 100.0, window_ns);
        place->known = trail_rate(&place->sm, window_ns, 0.8, &place->sm_now);
        if (!trail_rate(&place->memory, window_ns, 0.8, &place->memory_now))
            place->memory_now = 0;
    }
    for (size_t i = 0; i < NEIGHBOURS; i++)
        if (mem->at[i].seen_ns != list_ns) /* it has ended, and whoever it was in the way of may learn anew */
            mem->at[i] = (Neighbour){0};
    mem->list_ns = list_ns;
}

/* Came so much later that the other one's usual share is known from the time before. */
static bool came_after(const Neighbour *later, const Neighbour *earlier, uint64_t window_ns)
{
    return later->seen_ns && later->since_ns >= earlier->since_ns + window_ns;
}

/* When somebody comes, what there was so far is what it has by itself; then it begins anew. */
static void learn_share(const DetectWatch *watch, NeighbourMem *mem)
{
    const uint64_t window_ns = detect_time(watch, NOISY_WINDOW);

    for (size_t i = 0; i < NEIGHBOURS; i++) {
        Neighbour *one = &mem->at[i];
        bool crowded = false;

        for (size_t k = 0; one->seen_ns && k < NEIGHBOURS; k++)
            crowded |= k != i && came_after(&mem->at[k], one, window_ns);
        if (crowded == one->crowded)
            continue;
        one->had = crowded && trail_rate(&one->calm, CALM_WINDOWS * window_ns, 0.8 / CALM_WINDOWS, &one->usual_sm);
        one->crowded = crowded;
        trail_forget(&one->calm);
    }
}

static bool is_saturated(const NeighbourMem *mem)
{
    double all = 0;

    for (size_t i = 0; i < NEIGHBOURS; i++)
        all += mem->at[i].seen_ns && mem->at[i].known ? mem->at[i].sm_now : 0;
    return all >= SATURATED * (mem->verdict.holds ? 0.9 : 1);
}

/* Has so much less since it is not alone any more; *ret: what it has. */
static bool has_lost(const Neighbour *loser, uint64_t window_ns, double lost, double *ret)
{
    return loser->seen_ns && loser->had && !loser->idle && loser->usual_sm >= 0.1 &&
           trail_rate(&loser->calm, CALM_WINDOWS * window_ns, 0.8 / CALM_WINDOWS, ret) &&
           *ret <= loser->usual_sm * (1 - lost);
}

/* The pair, if there is one: who takes, and from whom. */
static const Neighbour *noisy_one(const DetectWatch *watch, const NeighbourMem *mem, const Neighbour **ret_loser,
                                  double *ret_left)
{
    const uint64_t window_ns = detect_time(watch, NOISY_WINDOW);
    const double share = detect_param(watch, NOISY_SHARE) * (mem->verdict.holds ? 0.8 : 1);
    const double lost = detect_param(watch, NOISY_LOST) * (mem->verdict.holds ? 0.3 : 1);

    for (size_t i = 0; i < NEIGHBOURS && is_saturated(mem); i++) {
        const Neighbour *loser = &mem->at[i];

        if (!has_lost(loser, window_ns, lost, ret_left))
            continue;
        for (size_t k = 0; k < NEIGHBOURS; k++) {
            const Neighbour *noisy = &mem->at[k];

            if (came_after(noisy, loser, window_ns) && noisy->known && noisy->sm_now > *ret_left &&
                (noisy->sm_now >= share || noisy->memory_now >= share)) {
                *ret_loser = loser;
                return noisy;
            }
        }
    }
    return NULL;
}

static void neighbour_each(DetectWatch *watch, const DetectTurn *turn, const DetectSeen *seen)
{
    NeighbourMem *mem = detect_memory(watch, seen->slot);
    const NodeGpu *gpu = seen->gpu;
    const Neighbour *loser = NULL, *noisy;
    double left = 0;

    if (gpu->state != GPU_UP || gpu->reading.mig || !detect_fresh(turn, &gpu->process_list, METRIC_PACE_SLOW)) {
        detect_absent(turn, &mem->verdict, seen, &gpu->process_list);
        return;
    }
    if (gpu->process_list.time_ns == mem->list_ns)
        return;
    take_list(watch, gpu, mem);
    learn_share(watch, mem);
    noisy = noisy_one(watch, mem, &loser, &left);
    if (!noisy) {
        detect_fine(turn, &mem->verdict);
        return;
    }
    detect_holds(turn, &mem->verdict,
                 "pid %" PRIu32 " has %.0f %% of the GPU's time and %.0f %% of its memory's; pid %" PRIu32
                 " fell from %.0f %% to %.0f %% since it came",
                 noisy->pid, noisy->sm_now * 100, noisy->memory_now * 100, loser->pid, loser->usual_sm * 100,
                 left * 100);
}

const DetectImpl detect_noisy_neighbour = {.size = sizeof(NeighbourMem), .each = neighbour_each};
