/* SPDX-License-Identifier: Apache-2.0 */
/* The step `compute`: what programs that use CUDA find wrong with a GPU. NVML sees none of it. */
#include <string.h>

#include "base/cleanup.h"
#include "base/opt.h"
#include "cuda_abi.h"
#include "sim/scenario/step_make.h"

const char *const step_access_names[] = {"yes", "none", "staged", "corrupt", NULL};
enum { ACCESS_YES, ACCESS_NONE, ACCESS_STAGED, ACCESS_CORRUPT };
enum { HANG_KERNEL = 1, HANG_FIRST = 2, PAGE = 4096 };

static uint32_t permille_of(double part)
{
    return (uint32_t)(part * 1000 + 0.5);
}

static uint32_t float_bits(double value)
{
    const float x = (float)value;
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- single SMs ---- */

static int check_sm(const StepRun *run, uint32_t sm, Err *err)
{
    const uint32_t count = run->node->boards[run->gpu]->sm_count;

    return sm < count ? 0 : step_fail(run, err, "there is no SM %u: the board has %u", sm, count);
}

static int set_sms(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;

    if (step_given(run, "sm") != step_given(run, "speed"))
        return step_fail(run, err, "a slow SM needs both sm and speed");
    if (step_given(run, "sm")) {
        TRY(check_sm(run, a->sm, err));
        step_set(run, SIM_KEY_SLOW_SM, a->sm + 1);
        step_set(run, SIM_KEY_SLOW_PERMILLE, permille_of(a->sm_speed));
    }
    if (step_given(run, "sm_missing")) {
        TRY(check_sm(run, a->missing_sm, err));
        step_set(run, SIM_KEY_MISSING_SM, a->missing_sm + 1);
    }
    if (!step_given(run, "wrong"))
        return 0;
    TRY(check_sm(run, a->wrong_sm, err));
    step_set(run, SIM_KEY_WRONG_RATE, float_bits(a->wrong));
    step_set(run, SIM_KEY_WRONG_SM, a->wrong_sm + 1);
    step_set(run, SIM_KEY_WRONG_HOW, (a->repeats ? SIM_WRONG_REPEATS : 0u) | (a->nan ? SIM_WRONG_NAN : 0u));
    return 0;
}

/* ---- calls ---- */

static int set_hang(StepRun *run, Err *err)
{
    static const char *const names[] = {"kernel",
#define FUNCTION_NAME(name, arguments) #name,
                                        CUDA_FUNCTION_TABLE(FUNCTION_NAME)
#undef FUNCTION_NAME
    };
    _Static_assert(ARRAY_LEN(names) == CUDA_FUNCTION_COUNT + 1, "in the order of CudaFunction");

    for (uint32_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], run->args->function) == 0) {
            step_set(run, SIM_KEY_CUDA_HANG, i == 0 ? HANG_KERNEL : HANG_FIRST + i - 1);
            return 0;
        }
    const char *near = opt_nearest(run->args->function, names, ARRAY_LEN(names));
    return step_fail(run, err, "no CUDA function '%.60s'%s%s%s; or kernel", run->args->function,
                     near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int set_result(StepRun *run, Err *err)
{
    static const uint32_t known[] = {
#define RESULT_NUMBER(id, number, name, words) number,
        CUDA_RESULT_TABLE(RESULT_NUMBER)
#undef RESULT_NUMBER
    };
    uint32_t at = 0;

    while (at < ARRAY_LEN(known) && known[at] != run->args->code)
        at++;
    if (at == ARRAY_LEN(known))
        return step_fail(run, err, "there is no result %u of CUDA", run->args->code);
    step_set(run, SIM_KEY_CUDA_RESULT, run->args->code);
    step_set(run, SIM_KEY_CUDA_AFTER, run->args->after);
    return 0;
}

/* ---- pairs ---- */

/* Sets or clears the peer's bit of one of the masks. */
static void set_bit(const StepRun *run, int32_t gpu, SimKey key, uint32_t peer, bool on)
{
    StepRun of_gpu = *run;
    const uint32_t old = run->node->conds[gpu].set[key];

    of_gpu.gpu = gpu;
    of_gpu.undo = 0;
    step_set(&of_gpu, key, on && !run->undo ? old | 1u << peer : old & ~(1u << peer));
}

static int set_access(StepRun *run, Err *err)
{
    const uint32_t peer = run->args->peer, access = run->args->pick, own = (uint32_t)run->gpu;

    if (!step_given(run, "peer") || !step_given(run, "access"))
        return step_fail(run, err, "a pair needs both peer and access");
    if (peer >= run->node->gpu_count || peer == own)
        return step_fail(run, err, "there is no other GPU %u", peer);
    set_bit(run, run->gpu, SIM_KEY_PEER_CORRUPT, peer, access == ACCESS_CORRUPT);
    set_bit(run, run->gpu, SIM_KEY_PEER_NONE, peer, access == ACCESS_NONE);
    set_bit(run, run->gpu, SIM_KEY_PEER_STAGED, peer, access == ACCESS_STAGED);
    set_bit(run, (int32_t)peer, SIM_KEY_PEER_NONE, own, access == ACCESS_NONE);
    set_bit(run, (int32_t)peer, SIM_KEY_PEER_STAGED, own, access == ACCESS_STAGED);
    return 0;
}

int make_compute(StepRun *run, Err *err)
{
    const StepArgs *a = run->args;
    const size_t before = run->ops->len;

    if (step_given(run, "memory"))
        step_set(run, SIM_KEY_MEMORY_PERMILLE, permille_of(a->memory_speed));
    if (step_given(run, "device"))
        step_set(run, SIM_KEY_MEMORY_MIG, (uint32_t)a->mig + 1);
    if (step_given(run, "bad_address"))
        step_set(run, SIM_KEY_BAD_PAGE, (uint32_t)(a->address / PAGE) + 1);
    if (step_given(run, "out_of_memory_at"))
        step_set(run, SIM_KEY_MEMORY_ROOM, permille_of(a->room));
    TRY(set_sms(run, err));
    if (step_given(run, "cuda"))
        TRY(set_result(run, err));
    if (step_given(run, "hang"))
        TRY(set_hang(run, err));
    if (step_given(run, "peer") || step_given(run, "access"))
        TRY(set_access(run, err));
    return run->ops->len > before ? 0 : step_fail(run, err, "needs at least one fault");
}
