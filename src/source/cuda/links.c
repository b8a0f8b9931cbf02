/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "source/cuda/links.h"

enum { UNIT = 1 << 20 };

int links_choose_bytes(BenchProcess *process, uint64_t most, uint32_t share, uint64_t *ret)
{
    const BenchOptions *o = &process->options;
    uint64_t bytes = most;

    for (uint32_t i = 0; i < process->gpu_count; i++) {
        uint64_t budget = 0;

        TRY(cuda_gpu_select(&process->gpus[i]));
        TRY(cuda_gpu_budget(&process->gpus[i], o->memory_percent, o->keep_mib, &budget));
        bytes = number_min_u64(bytes, number_max_u64(budget / share / UNIT, 1) * UNIT);
    }
    *ret = bytes;
    return 0;
}

BenchError links_error(BenchMeasureId id, uint32_t gpu, uint32_t peer)
{
    BenchError error = bench_error_of(BENCH_ERROR_MISCOMPARE, gpu, peer, bench_measures[id].key);

    error.measure = id;
    error.path = true;
    error.count = 0;
    return error;
}

void links_add_blocks(BenchError *error, const CudaBlockResult *results, uint32_t blocks, uint64_t offset)
{
    for (uint32_t i = 0; i < blocks; i++) {
        if (results[i].errors == 0)
            continue;
        if (error->count == 0 || results[i].first_bad * 4 + offset < error->address) {
            error->address = results[i].first_bad * 4 + offset;
            error->want = results[i].want;
            error->got = results[i].got;
        }
        error->count += results[i].errors;
    }
}

bool links_repeats(const BenchError *first, const BenchError *second)
{
    return second->count > 0 && second->address == first->address && second->got == first->got;
}
