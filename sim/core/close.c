/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing opened GPUs: from condition and works to clocks, patterns and the next segment.
 *
 * Order of causes: settings and faults bound the clock; heat may bound it further (the ratio at which the steady
 * temperature stays at the limit); power is shared out among the works; each rank's step time follows, and ranks of one
 * job wait for the slowest.
 */
#include <string.h>

#include "sim/core/closing.h"
#include "sim/core/seq.h"

/* ---- memory ---- */

static void memory_decide(Closing *c)
{
    for (uint32_t i = 0; i < c->seg->slot_count; i++) {
        double full_s = slot_full_s(c->board, c->seg, i);
        if (full_s < SIM_NEVER_S)
            dyn_set(c->seg, c->seg->t_ns + (uint64_t)(full_s * 1e9) + 1, SIM_DYN_MEMORY);
    }
}

/* ---- publication ---- */

/* The pattern's place in the shared pool: the one the slot has when nothing changed, else a new one. A full pool gives
 * an old one in its place, as *p too. */
static int32_t pattern_put(SimImage *image, int32_t old, SimPattern *p)
{
    if (old >= 0 && memcmp(&image->patterns[old], p, sizeof *p) == 0)
        return old;
    uint32_t at = image->pattern_count;
    if (at == SIM_PATTERN_MAX) {
        image->segs_dropped++;
        int32_t other = old >= 0 ? old : (int32_t)at - 1;
        *p = image->patterns[other]; /* integrals go on from where they are all the same */
        return other;
    }
    seq_store(&image->patterns[at], p, sizeof *p);
    seq_put(image->pattern_count, at + 1);
    return (int32_t)at;
}

/* Offset into the new pattern that stands where the old one stood. */
static uint64_t offset_of(const SimWork *work, const SimPattern *p, SlotPos pos)
{
    if (pos.phase == SLOT_FRESH) {
        uint64_t ns = work->offset_s > 0 ? (uint64_t)(work->offset_s * 1e9) : 0;
        return ns % p->period_ns;
    }
    uint32_t k = pos.phase < p->phase_count ? pos.phase : p->phase_count - 1;
    uint64_t end = k + 1 < p->phase_count ? p->phases[k + 1].start_ns : p->period_ns;
    double part = pos.part < 1 ? pos.part : 0.999999;
    return p->phases[k].start_ns + (uint64_t)((double)(end - p->phases[k].start_ns) * part);
}

static void slot_close(SimImage *image, PlanGpu *g, Closing *c, uint32_t i)
{
    SimSlot *slot = &c->seg->slots[i];
    int32_t old = slot->pattern;
    slot->pattern = pattern_put(image, old, &c->pattern[i]);
    uint64_t t = c->seg->t_ns;
    if (slot->pattern != old || g->pos[i].phase == SLOT_FRESH)
        slot->origin_ns = (int64_t)t - (int64_t)offset_of(closing_work(image, c, i), &c->pattern[i], g->pos[i]);
    else /* keeps marching in step: only whole periods are taken off */
        slot->origin_ns +=
            (int64_t)(((uint64_t)((int64_t)t - slot->origin_ns) / c->pattern[i].period_ns) * c->pattern[i].period_ns);
    SimSlot blank = {.origin_ns = slot->origin_ns};
    SlotAt at;
    slot_at(&c->pattern[i], &blank, t, SLOT_CUM | SLOT_HEAT, &at);
    g->energy_j -= slot->cum[SIM_CH_WATT];
    for (int ch = 0; ch < SIM_CH_COUNT; ch++)
        slot->cum[ch] -= at.cum[ch];
    slot->heat = g->heat[i] - at.heat;
}

static void publish(SimImage *image, uint32_t gpu, const SimSeg *seg)
{
    SimSeg *table = &image->segs[(size_t)gpu * SIM_SEG_MAX];
    uint32_t n = image->seg_count[gpu];
    if (n > 0 && (table[n - 1].t_ns == seg->t_ns || n == SIM_SEG_MAX)) {
        image->segs_dropped += table[n - 1].t_ns != seg->t_ns;
        n--;
    }
    seq_store(&table[n], seg, offsetof(SimSeg, slots) + seg->slot_count * sizeof(SimSlot));
    seq_put(image->seg_count[gpu], n + 1);
}

/* ---- all together ---- */

static double temp_of(const PlanGpu *g)
{
    double temp = g->seg.ambient_c + g->seg.base_heat;
    for (uint32_t i = 0; i < g->seg.slot_count; i++)
        temp += g->heat[i];
    return temp;
}

static void closing_begin(const SimImage *image, uint32_t gpu, PlanGpu *g, Closing *c, int driver_up)
{
    SimSeg *seg = &g->seg;
    c->id = &image->gpus[gpu];
    c->board = &image->boards[c->id->board];
    c->seg = seg;
    seg->dyn_ns = SIM_FOREVER;
    seg->dyn_what = SIM_DYN_NONE;
    seg->idle = seg->slot_count == 0;
    int off = !seg->cond.present || seg->cond.lost || !driver_up;
    seg->base_w = (off         ? 0.5 * c->board->idle_w
                   : seg->idle ? c->board->idle_w
                               : c->board->context_w) *
                  (1 + 0.5 * (c->id->leak - 1));
    thermal_path(c, seg->ambient_c);
    c->temp_now = temp_of(g);
    c->hot = g->hot;
    uses_init(c);
}

typedef void (*EachClosing)(const SimImage *image, Closing *c);

static void each(const SimImage *image, Closing *all, const PlanGpu *gpus, EachClosing fn)
{
    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (gpus[g].open)
            fn(image, &all[g]);
}

static void closing_end(const SimImage *image, Closing *c)
{
    SimSeg *seg = c->seg;
    (void)image;
    heat_foresee(c);
    memory_decide(c);
    seg->sm_cap_mhz = (uint32_t)(c->board->sm_clock_max * seg->clock_ratio);
    seg->mem_mhz = (uint32_t)(c->board->mem_clock_max * dram_ratio(c->board, &seg->cond));
}

void gpus_close(SimImage *image, PlanGpu *gpus, int driver_up)
{
    static Closing all[SIM_GPU_MAX]; /* under the image's lock, one planner per process at a time */
    for (uint32_t g = 0; g < image->gpu_count; g++)
        if (gpus[g].open)
            closing_begin(image, g, &gpus[g], &all[g], driver_up);
    each(image, all, gpus, closing_free_run);
    jobs_settle(image, all, gpus); /* who waits for whom, before heat */
    each(image, all, gpus, heat_decide);
    jobs_settle(image, all, gpus);
    each(image, all, gpus, closing_end);
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        if (!gpus[g].open)
            continue;
        for (uint32_t i = 0; i < gpus[g].seg.slot_count; i++)
            slot_close(image, &gpus[g], &all[g], i);
        gpus[g].seg.energy_j = gpus[g].energy_j;
        gpus[g].open = 0;
        gpus[g].hot = 0;
        publish(image, g, &gpus[g].seg);
    }
}
