/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a GPU's segment for edits, and starting and ending works on it. */
#include "sim/core/work.h"

#include <string.h>

#include "sim/core/control.h"
#include "sim/core/num.h"

static void slot_open(SimImage *image, PlanGpu *g, uint32_t i, uint64_t t_ns, double decay, double dt)
{
    SimSlot *slot = &g->seg.slots[i];
    SlotAt at;
    slot_at(&image->patterns[slot->pattern], slot, t_ns, SLOT_CUM | SLOT_HEAT, &at);
    memcpy(slot->cum, at.cum, sizeof slot->cum);
    g->heat[i] = slot->heat * decay + at.heat;
    g->pos[i] = (SlotPos){at.phase, at.phase_part};
    slot->mem_mib += slot->mem_rate * dt;
    if (slot->mem_mib > slot->peak_mib)
        slot->peak_mib = slot->mem_mib;
    g->energy_j += slot->cum[SIM_CH_WATT];
}

void gpu_open(SimImage *image, PlanGpu *g, uint64_t t_ns)
{
    if (g->open)
        return;
    SimSeg *seg = &g->seg;
    double dt = t_ns > seg->t_ns ? (double)(t_ns - seg->t_ns) / 1e9 : 0;
    double decay = seg->tau_s > 0 ? sim_exp(-dt / seg->tau_s) : 1;
    double steady = seg->kelvin_per_watt * seg->base_w;
    g->open = 1;
    g->energy_j = seg->energy_j + seg->base_w * dt;
    for (uint32_t i = 0; i < seg->slot_count; i++)
        slot_open(image, g, i, t_ns, decay, dt);
    seg->base_heat = steady + (seg->base_heat - steady) * decay;
    seg->gone[SIM_CH_CLOCK] += seg->sm_cap_mhz * dt;
    seg_throttle(seg, t_ns, seg->throttle_ns);
    cond_forward(&seg->cond, dt);
    seg->t_ns = t_ns;
}

int gpu_find(const PlanGpu *g, int32_t work)
{
    for (uint32_t i = 0; i < g->seg.slot_count; i++)
        if (g->seg.slots[i].work == work)
            return (int)i;
    return SIM_NONE;
}

static uint32_t gi_sm(const SimCond *cond, uint32_t gi_id)
{
    uint32_t sm = 0;
    for (uint32_t i = 0; i < SIM_CI_MAX; i++)
        if (cond->ci[i].used && cond->ci[i].gi_id == gi_id)
            sm += cond->ci[i].sm;
    return sm;
}

/* Where the work's share of the GPU comes from: its MIG device, or all of it. */
static int slot_place(const SimBoard *board, const SimCond *cond, const SimWork *work, SimSlot *slot)
{
    slot->gi = slot->ci = SIM_NONE;
    slot->share = slot->mem_share = slot->gi_part = 1;
    if (!cond->mig_mode)
        return work->mig == SIM_NONE;
    uint32_t g, c;
    if (work->mig < 0 || !sim_mig_device(cond, (uint32_t)work->mig, &g, &c))
        return 0;
    slot->gi = (int32_t)cond->gi[g].id;
    slot->ci = (int32_t)cond->ci[c].id;
    slot->share = (double)cond->ci[c].sm / board->sm_count;
    slot->mem_share = (double)cond->gi[g].size / board->mig_grid;
    uint32_t sm = gi_sm(cond, cond->gi[g].id);
    slot->gi_part = sm ? (double)cond->ci[c].sm / sm : 1;
    return 1;
}

static double slot_capacity_mib(const SimBoard *board, const SimSeg *seg, int32_t gi_id)
{
    for (uint32_t i = 0; i < SIM_GI_MAX && gi_id != SIM_NONE; i++)
        if (seg->cond.gi[i].used && seg->cond.gi[i].id == (uint32_t)gi_id)
            return board->profiles[seg->cond.gi[i].profile].memory_mib;
    return (double)board->memory_mib - board->reserved_mib;
}

double slot_full_s(const SimBoard *board, const SimSeg *seg, uint32_t slot)
{
    double room = slot_capacity_mib(board, seg, seg->slots[slot].gi), rate = 0;
    for (uint32_t i = 0; i < seg->slot_count; i++) {
        if (seg->slots[i].gi != seg->slots[slot].gi)
            continue;
        room -= seg->slots[i].mem_mib;
        rate += seg->slots[i].mem_rate;
    }
    return rate <= 0 ? SIM_NEVER_S : room > 0 ? room / rate : 0;
}

int gpu_work_start(SimImage *image, uint32_t gpu, PlanGpu *g, int32_t work)
{
    const SimWork *w = &image->works[work];
    if (g->seg.slot_count == SIM_SLOT_MAX || gpu_find(g, work) >= 0 || !g->seg.cond.present || g->seg.cond.lost)
        return 0;
    SimSlot slot = {.work = work,
                    .started_ns = g->seg.t_ns,
                    .mem_mib = w->memory_mib,
                    .peak_mib = w->memory_mib,
                    .mem_rate = w->leak_mib_per_s,
                    .pattern = SIM_NONE};
    if (!slot_place(&image->boards[image->gpus[gpu].board], &g->seg.cond, w, &slot))
        return 0;
    uint32_t i = g->seg.slot_count++;
    g->seg.slots[i] = slot;
    g->heat[i] = 0;
    g->pos[i] = (SlotPos){SLOT_FRESH, 0};
    return 1;
}

static void slot_end(PlanGpu *g, uint32_t i)
{
    SimSeg *seg = &g->seg;
    const SimSlot *slot = &seg->slots[i];
    slot_to_gpu(slot, slot->cum, seg->gone);
    for (uint32_t k = 0; k < SIM_GI_MAX && slot->gi != SIM_NONE; k++) {
        if (!seg->cond.gi[k].used || seg->cond.gi[k].id != (uint32_t)slot->gi)
            continue;
        for (int c = 0; c < SIM_CH_COUNT; c++)
            seg->gi_gone[k][c] += slot->cum[c] * (c < SIM_CH_DRAM ? slot->gi_part : 1);
    }
    seg->base_heat += g->heat[i];
    uint32_t rest = --seg->slot_count - i;
    memmove(&seg->slots[i], &seg->slots[i + 1], rest * sizeof(SimSlot));
    memmove(&g->heat[i], &g->heat[i + 1], rest * sizeof g->heat[0]);
    memmove(&g->pos[i], &g->pos[i + 1], rest * sizeof g->pos[0]);
}

int gpu_work_stop(PlanGpu *g, int32_t work, int32_t gi_id)
{
    int ended = 0;
    for (uint32_t i = g->seg.slot_count; i-- > 0;) {
        const SimSlot *slot = &g->seg.slots[i];
        if ((work != SIM_NONE && slot->work != work) || (gi_id != SIM_NONE && slot->gi != gi_id))
            continue;
        slot_end(g, i);
        ended++;
    }
    return ended;
}

static int shares_job(const SimImage *image, const PlanGpu *a, const PlanGpu *b)
{
    for (uint32_t i = 0; i < a->seg.slot_count; i++) {
        int32_t job = image->works[a->seg.slots[i].work].job;
        for (uint32_t k = 0; job != SIM_NONE && k < b->seg.slot_count; k++)
            if (image->works[b->seg.slots[k].work].job == job)
                return 1;
    }
    return 0;
}

void gpus_open_jobs(SimImage *image, PlanGpu *gpus, uint64_t t_ns)
{
    for (uint32_t changed = 1; changed;) {
        changed = 0;
        for (uint32_t a = 0; a < image->gpu_count; a++) {
            for (uint32_t b = 0; gpus[a].open && b < image->gpu_count; b++) {
                if (gpus[b].open || !shares_job(image, &gpus[a], &gpus[b]))
                    continue;
                gpu_open(image, &gpus[b], t_ns);
                changed = 1;
            }
        }
    }
}
