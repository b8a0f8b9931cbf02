/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed forms: what a slot has done since its origin, and a segment since its start. The planner and the readers use
 * the same ones, so that a plan goes on exactly where it was read.
 */
#include <stddef.h>
#include <string.h>

#include "sim/core/num.h"
#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

const SimSeg *seg_table(const SimImage *image, uint32_t gpu)
{
    return image->segs + (size_t)gpu * SIM_SEG_MAX;
}

static uint32_t phase_find(const SimPattern *p, uint64_t in_period)
{
    uint32_t n = seq_get(p->phase_count), k = 0;
    while (k + 1 < n && k + 1 < SIM_PHASE_MAX && seq_get(p->phases[k + 1].start_ns) <= in_period)
        k++;
    return k;
}

static double heat_given(const SimPattern *head, const SimPatternPhase *ph, double periods, double r_s, double in_s)
{
    double tau = head->tau_s;
    double since = sim_exp(-in_s / tau);
    double heat = since * ph->heat + head->kelvin_per_watt * ph->rate[SIM_CH_WATT] * (1 - since);
    if (periods > 0) {
        double one = sim_exp(-((double)head->period_ns / 1e9) / tau);
        double all = sim_exp(-((double)head->period_ns / 1e9) * periods / tau);
        heat += sim_exp(-r_s / tau) * head->heat * (one < 1 ? (1 - all) / (1 - one) : periods);
    }
    return heat;
}

void slot_at(const SimPattern *pattern, const SimSlot *slot, uint64_t t_ns, int want, SlotAt *ret)
{
    SimPattern head; /* without the phases */
    seq_load(&head, pattern, offsetof(SimPattern, phases));
    if (head.period_ns == 0) {
        memset(ret, 0, sizeof *ret);
        return;
    }
    uint64_t dt = (int64_t)t_ns > slot->origin_ns ? (uint64_t)((int64_t)t_ns - slot->origin_ns) : 0;
    uint64_t periods = dt / head.period_ns, r = dt % head.period_ns;
    uint32_t k = phase_find(pattern, r);
    SimPatternPhase ph;
    seq_load(&ph, &pattern->phases[k], sizeof ph);
    double in_s = (double)(r - ph.start_ns) / 1e9;
    memcpy(ret->rate, ph.rate, sizeof ret->rate);
    ret->sm_mhz = ph.sm_mhz;
    ret->mem_mhz = ph.mem_mhz;
    ret->video_mhz = ph.video_mhz;
    ret->phase = k;
    if (want & SLOT_CUM)
        for (int c = 0; c < SIM_CH_COUNT; c++)
            ret->cum[c] = slot->cum[c] + (double)periods * head.total[c] + ph.before[c] + ph.rate[c] * in_s;
    if (want & SLOT_HEAT) {
        uint64_t end = k + 1 < head.phase_count ? seq_get(pattern->phases[k + 1].start_ns) : head.period_ns;
        ret->phase_part = in_s / ((double)(end - ph.start_ns) / 1e9);
        ret->heat = heat_given(&head, &ph, (double)periods, (double)r / 1e9, in_s);
    }
}

void slot_to_gpu(const SimSlot *slot, const double in[SIM_CH_COUNT], double out[SIM_CH_COUNT])
{
    for (int c = 0; c < SIM_CH_DRAM; c++)
        out[c] += in[c] * slot->share;
    out[SIM_CH_DRAM] += in[SIM_CH_DRAM] * slot->mem_share;
    out[SIM_CH_DRAM_T] += in[SIM_CH_DRAM_T] * slot->mem_share;
    for (int c = SIM_CH_ENC; c <= SIM_CH_OFA; c++)
        out[c] += in[c] * slot->share;
    for (int c = SIM_CH_PCIE_TX; c < SIM_CH_COUNT; c++)
        out[c] += in[c];
}

uint32_t seg_find(const SimImage *image, uint32_t gpu, uint64_t t_ns)
{
    const SimSeg *table = seg_table(image, gpu);
    uint32_t lo = 0, hi = seq_get(image->seg_count[gpu]);
    if (hi > SIM_SEG_MAX)
        hi = SIM_SEG_MAX;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (seq_get(table[mid].t_ns) <= t_ns)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

void seg_load(const SimImage *image, uint32_t gpu, uint64_t t_ns, SimSeg *ret)
{
    const SimSeg *seg = &seg_table(image, gpu)[seg_find(image, gpu, t_ns)];
    uint32_t slots = seq_get(seg->slot_count);
    if (slots > SIM_SLOT_MAX)
        slots = SIM_SLOT_MAX;
    seq_load(ret, seg, offsetof(SimSeg, slots) + slots * sizeof(SimSlot));
    ret->slot_count = slots;
}

const SimPattern *seg_pattern(const SimImage *image, const SimSlot *slot)
{
    return &image->patterns[(uint32_t)slot->pattern < SIM_PATTERN_MAX ? slot->pattern : 0];
}

double seg_seconds(const SimSeg *seg, uint64_t t_ns)
{
    return t_ns > seg->t_ns ? (double)(t_ns - seg->t_ns) / 1e9 : 0;
}

double seg_cum(const SimImage *image, const SimSeg *seg, uint64_t t_ns, double out[SIM_CH_COUNT])
{
    SlotAt at;
    memcpy(out, seg->gone, sizeof seg->gone);
    double slots_j = 0;
    for (uint32_t i = 0; i < seg->slot_count; i++) {
        slot_at(seg_pattern(image, &seg->slots[i]), &seg->slots[i], t_ns, SLOT_CUM, &at);
        slot_to_gpu(&seg->slots[i], at.cum, out);
        slots_j += at.cum[SIM_CH_WATT];
    }
    out[SIM_CH_CLOCK] += seg->sm_cap_mhz * seg_seconds(seg, t_ns);
    return seg->energy_j + seg->base_w * seg_seconds(seg, t_ns) + slots_j;
}

void cond_forward(SimCond *cond, double dt)
{
    for (int type = 0; type < 2; type++) {
        for (int loc = 0; loc < SIM_ECC_LOCS; loc++) {
            if (cond->ecc_rate[type][loc] <= 0)
                continue;
            double sum = cond->ecc_part[type][loc] + cond->ecc_rate[type][loc] * dt;
            uint64_t whole = (uint64_t)sum;
            cond->ecc_part[type][loc] = sum - (double)whole;
            cond->ecc_volatile[type][loc] += whole;
            cond->ecc_aggregate[type][loc] += whole;
        }
    }
    cond->replays += cond->replay_rate * dt;
    for (uint32_t l = 0; l < SIM_LINK_MAX; l++)
        for (int e = 0; e < 5; e++)
            cond->link[l].count[e] += cond->link[l].rate[e] * dt;
}

void seg_throttle(const SimSeg *seg, uint64_t t_ns, double ret[8])
{
    static const uint64_t bit[8] = {0, 0x20 | 0x40, 0x10, 0, 0, 0, 0x40, 0x80};
    double dt = (double)(t_ns > seg->t_ns ? t_ns - seg->t_ns : 0);
    for (int i = 0; i < 8; i++)
        ret[i] = seg->throttle_ns[i] + (seg->reasons & bit[i] ? dt : 0);
}

void sim_cum_at(SimImage *image, uint32_t gpu, uint64_t t_ns, double ret[SIM_CH_COUNT])
{
    SimSeg seg;
    uint32_t seq;
    do {
        seq = seq_begin(image);
        seg_load(image, gpu, t_ns, &seg);
        seg_cum(image, &seg, t_ns, ret);
    } while (seq_retry(image, seq));
}

static void gi_cum_once(const SimImage *image, const SimSeg *seg, uint32_t gi_id, uint64_t t_ns,
                        double ret[SIM_CH_COUNT])
{
    SlotAt at;
    uint32_t place = SIM_GI_MAX;
    for (uint32_t i = 0; i < SIM_GI_MAX; i++)
        /* seg_load has filled it. NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch) */
        if (seg->cond.gi[i].used && seg->cond.gi[i].id == gi_id)
            place = i;
    memset(ret, 0, sizeof(double) * SIM_CH_COUNT);
    if (place == SIM_GI_MAX)
        return;
    memcpy(ret, seg->gi_gone[place], sizeof(double) * SIM_CH_COUNT);
    for (uint32_t i = 0; i < seg->slot_count; i++) {
        const SimSlot *slot = &seg->slots[i];
        if (slot->gi != (int32_t)gi_id)
            continue;
        slot_at(seg_pattern(image, slot), slot, t_ns, SLOT_CUM, &at);
        for (int c = 0; c < SIM_CH_COUNT; c++)
            ret[c] += at.cum[c] * (c < SIM_CH_DRAM ? slot->gi_part : 1);
    }
    ret[SIM_CH_CLOCK] += seg->gone[SIM_CH_CLOCK] + seg->sm_cap_mhz * seg_seconds(seg, t_ns);
}

void sim_gi_cum_at(SimImage *image, uint32_t gpu, uint32_t gi_id, uint64_t t_ns, double ret[SIM_CH_COUNT])
{
    SimSeg seg;
    uint32_t seq;
    do {
        seq = seq_begin(image);
        seg_load(image, gpu, t_ns, &seg);
        gi_cum_once(image, &seg, gi_id, t_ns, ret);
    } while (seq_retry(image, seq));
}
