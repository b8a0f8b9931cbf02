/* SPDX-License-Identifier: Apache-2.0 */
#include "kit_random.h"

#include <stdlib.h>

enum { EVENTS = 120, SPAN_US = 4000 };

int64_t kit_below(KitRandom *random, int64_t end)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (int64_t)((random->state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % end;
}

static const char *pick(KitRandom *random, const char *const *names, int64_t count)
{
    return names[kit_below(random, count)];
}

static void add_event(Kit *kit, uint64_t seed, bool totals)
{
    static const char *const ops[] = {"aten::mm", "aten::add", "aten::linear"};
    static const char *const kernels[] = {"gemm", "relu", "volta_sgemm_64x64_nn", "s16816gemm"};
    static const char *const copies[] = {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)",
                                         "Memset (Device)"};
    static const char *const ranges[] = {"forward", "backward"};
    static const char *const calls[] = {"cudaLaunchKernel", "cudaStreamSynchronize", "cudaMalloc"};
    KitRandom random = {seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    int64_t start, us;
    ProfileLaunch launch;

    kit_below(&random, 2);
    start = kit_below(&random, SPAN_US);
    us = kit_below(&random, 4) == 0 ? kit_below(&random, SPAN_US / 4) : kit_below(&random, 20);
    launch = (ProfileLaunch){.grid = {(uint32_t)kit_below(&random, 3), 1, 1},
                             .block = {64, 1, 1},
                             .registers = (uint32_t)kit_below(&random, 3),
                             .occupancy_percent = (float)kit_below(&random, 100),
                             .blocks_per_sm = (float)kit_below(&random, 8) / 4,
                             .collective = PROFILE_NONE};
    switch (kit_below(&random, 8)) {
    case 0:
        kit_op(kit, 100 + kit_below(&random, 2), pick(&random, ops, 3), start, us,
               kit_below(&random, 2) ? "[[8, 16], [16, 8]]" : "[[8, 9], [9, 8]]", "[\"c10::Half\", \"c10::Half\"]");
        break;
    case 1:
        kit_host(kit, PROFILE_CALL, 100 + kit_below(&random, 2), pick(&random, calls, 3), start, us,
                 (uint32_t)(1 + kit_below(&random, EVENTS)));
        break;
    case 2:
        kit_host(kit, PROFILE_ANNOTATION, 100 + kit_below(&random, 2), pick(&random, ranges, 2), start, us, 0);
        break;
    case 3:
        kit_copy(kit, (int32_t)kit_below(&random, 2), 7, pick(&random, copies, 3), start, us,
                 kit_below(&random, 200000));
        break;
    case 4:
        kit_mark(kit, (int32_t)kit_below(&random, 2), 7 + kit_below(&random, 2), pick(&random, ranges, 2), start, us);
        break;
    case 5:
        kit_memory(kit, (int16_t)(kit_below(&random, 3) - 1), 100, start, kit_below(&random, 2000) - 1000,
                   totals ? kit_below(&random, 5000) : -1, totals ? 5000 : -1);
        break;
    default:
        kit_kernel(kit, (int32_t)kit_below(&random, 2), 7 + kit_below(&random, 2), pick(&random, kernels, 4), start, us,
                   (uint32_t)(1 + kit_below(&random, EVENTS)), kit_below(&random, 4) ? &launch : NULL);
        break;
    }
}

void kit_fill_random(Kit *kit, const KitRecipe *recipe, bool backwards)
{
    for (uint64_t i = 0; i < EVENTS; i++)
        add_event(kit, recipe->seed * EVENTS + (backwards ? EVENTS - 1 - i : i), recipe->totals);
    kit_seal(kit);
}
