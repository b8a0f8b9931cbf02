/* SPDX-License-Identifier: Apache-2.0 */
/* What computes: video, types, memory, and kernels that fill little of the GPU. */
#include "engine/why/rule.h"

#include <math.h>

bool why_find_video(const WhyCase *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_VIDEO] >= limit_VIDEO) || c->mean[WHY_OF_SM] >= ACTIVITY_WORKING_SM)
        return false;
    v->confidence = WHY_HIGH;
    v->share = c->mean[WHY_OF_VIDEO];
    CITE(c, v, WHY_OF_VIDEO, WHY_OF_SM, WHY_OF_UTIL);
    why_write_text(v, "its video engines work %d %% of the time", why_percent(v->share));
    return true;
}

bool why_find_fp64(const WhyCase *c, WhyVerdict *v)
{
    if (!(c->mean[WHY_OF_FP64] >= limit_FP64))
        return false;
    v->confidence = WHY_HIGH;
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_SM, WHY_OF_FP64, WHY_OF_TENSOR);
    why_write_text(v, "computes in double precision: FP64 pipe active %d %%", why_percent(c->mean[WHY_OF_FP64]));
    return true;
}

bool why_find_memory_bound(const WhyCase *c, WhyVerdict *v)
{
    const double dram = c->mean[WHY_OF_DRAM], tensor = c->mean[WHY_OF_TENSOR];

    if (!(dram >= limit_DRAM) || dram < limit_DRAM_OVER_TENSOR * tensor)
        return false;
    v->confidence = why_choose_confidence(dram >= limit_DRAM_SURE);
    v->share = dram;
    CITE(c, v, WHY_OF_DRAM, WHY_OF_SM, WHY_OF_TENSOR);
    why_write_text(v, "bound by its memory's bandwidth: the interface is active %d %% of the time", why_percent(dram));
    return true;
}

bool why_find_tensor(const WhyCase *c, WhyVerdict *v)
{
    const double tensor = c->mean[WHY_OF_TENSOR];

    if (!(tensor >= limit_TENSOR))
        return false;
    v->confidence = why_choose_confidence(tensor >= limit_TENSOR_SURE);
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_TENSOR, WHY_OF_SM, WHY_OF_DRAM, WHY_OF_POWER);
    why_write_text(v, "computes on tensor cores: they are active %d %% of the time, a good step has 30 %% and more",
                   why_percent(tensor));
    return true;
}

/* Full multiprocessors, tensor cores at rest. */
bool why_find_no_tensor(const WhyCase *c, WhyVerdict *v)
{
    const double tensor = c->mean[WHY_OF_TENSOR], fp32 = c->mean[WHY_OF_FP32];

    if (!(tensor <= limit_TENSOR_NONE) && !(tensor < limit_TENSOR && fp32 >= limit_FP32))
        return false;
    v->confidence = why_choose_confidence(tensor <= limit_TENSOR_NONE && fp32 >= limit_FP32);
    v->share = c->mean[WHY_OF_SM];
    CITE(c, v, WHY_OF_TENSOR, WHY_OF_FP32, WHY_OF_SM, WHY_OF_DRAM);
    if (fp32 >= limit_FP32)
        why_write_text(v, "computes in FP32: that pipe is active %d %% of the time, tensor cores %d %%",
                       why_percent(fp32), why_percent(tensor));
    else
        why_write_text(v, "computes without tensor cores: they are active %d %% of the time", why_percent(tensor));
    return true;
}

/* Warps or blocks are missing although a kernel always runs. */
bool why_find_small_batch(const WhyCase *c, WhyVerdict *v)
{
    const double sm = c->mean[WHY_OF_SM], util = c->mean[WHY_OF_UTIL];
    const double filled = sm / util, occupancy = c->mean[WHY_OF_OCCUPANCY] / sm;

    if (!(util >= limit_ALWAYS) || !(filled > limit_FILLED) || c->mean[WHY_OF_TENSOR] >= limit_TENSOR ||
        c->mean[WHY_OF_DRAM] >= limit_DRAM || c->mean[WHY_OF_FP32] >= limit_FP32 || c->mean[WHY_OF_FP64] >= limit_FP64)
        return false;
    if (!(filled <= limit_PART_FILLED) && !(occupancy <= limit_OCCUPANCY))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = filled <= limit_PART_FILLED ? 1 - filled : sm;
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_OCCUPANCY, WHY_OF_TENSOR);
    why_add_between(v, WHY_LAUNCHES);
    if (filled <= limit_PART_FILLED)
        why_write_text(v, "too little work per kernel: one always runs, and %d %% of the multiprocessors have work",
                       why_percent(filled));
    else
        why_write_text(v, "too little work per kernel: the multiprocessors hold %d %% of the warps they could",
                       why_percent(occupancy));
    return true;
}

static bool looks_like_spin(const WhyCase *c)
{
    const double mean[ACTIVITY_SERIES_END] = {
        [ACTIVITY_OF_SM] = c->mean[WHY_OF_SM],         [ACTIVITY_OF_UTIL] = c->mean[WHY_OF_UTIL],
        [ACTIVITY_OF_TENSOR] = c->mean[WHY_OF_TENSOR], [ACTIVITY_OF_DRAM] = c->mean[WHY_OF_DRAM],
        [ACTIVITY_OF_LINK] = c->mean[WHY_OF_LINK],
    };

    return activity_is_spin(mean);
}

bool why_find_launches(const WhyCase *c, WhyVerdict *v)
{
    const double sm = c->mean[WHY_OF_SM], util = c->mean[WHY_OF_UTIL];

    if (c->activity->cause == ACTIVITY_CAUSE_NONE && !(sm <= limit_FILLED * util))
        return false;
    if (!isfinite(sm) || (looks_like_spin(c) && c->activity->window_s < limit_SPIN_S))
        return false;
    v->confidence = why_choose_confidence(sm <= limit_EMPTY * util && util >= limit_ALWAYS);
    v->share = fmax(util - sm, 0);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_OCCUPANCY, WHY_OF_POWER);
    if (util >= limit_ALWAYS)
        why_write_text(
            v,
            "100 %% busy by utilisation, yet nearly idle: small kernels one after another keep %.*f %% of the "
            "multiprocessors at work",
            sm < 0.0995, 100 * sm);
    else
        why_write_text(
            v, "small kernels one after another: one runs %d %% of the time, and %d %% of the multiprocessors work",
            why_percent(util), why_percent(sm));
    return true;
}
