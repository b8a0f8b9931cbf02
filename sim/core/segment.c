/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed forms: the pattern of a work, the integrals of a slot since its origin, and of a segment since its start. The
 * planner and the readers use the same ones, so that a plan goes on exactly where it was read.
 */
#include <stddef.h>
#include <string.h>

#include "sim/core/num.h"
#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

/* --- segments and slots ------------------------------------------------------------------------------------------ */

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

/* --- patterns ----------------------------------------------------------------------------------------------------- */

/*
 * From a work's phases and limits to a periodic pattern: how long each phase takes, its power, its clock. Activity
 * gives power, power beyond the budget lowers the clock, the clock stretches the phases that depend on it. Dynamic
 * power of the SMs follows clock^2.4 (frequency times voltage squared, voltage rising with frequency); DRAM and links
 * do not follow the SM clock.
 */

#define CLOCK_EXPONENT 2.4
#define SPIN_SM 0.14 /* a collective kernel that waits: few SMs, little else */

typedef struct Burn {
    double core_w, other_w; /* at full clock; independent of it */
} Burn;

static Burn burn_of(const SimBoard *b, const PatternUse *use, const double *act)
{
    double fp = act[SIM_CH_FP32] + 2 * act[SIM_CH_FP64] + 0.6 * act[SIM_CH_FP16] + 0.3 * act[SIM_CH_INT];
    double core = b->watt_sm * act[SIM_CH_SM] + b->watt_tensor * act[SIM_CH_TENSOR] + b->watt_fp * fp;
    double media = 6 * (act[SIM_CH_ENC] + act[SIM_CH_DEC] + act[SIM_CH_JPG] + act[SIM_CH_OFA]);
    double link = 0, full = 2e6 * (double)b->link_mbytes_per_s * (double)b->link_count;
    if (full > 0)
        link = b->watt_link * (act[SIM_CH_NVL_TX] + act[SIM_CH_NVL_RX]) / full;
    return (Burn){core * use->share * use->leak,
                  (b->watt_dram * act[SIM_CH_DRAM] * use->mem_share + media * use->share + link) * use->leak};
}

static double slower_by(const SimPhase *phase, const SimWork *work, const PatternUse *use, double ratio)
{
    double slow = work->slow > 0 ? work->slow : 1;
    switch (phase->bound) {
    case SIM_BOUND_CORE:
        return slow / ratio;
    case SIM_BOUND_DRAM:
        return 1 / use->dram_ratio;
    case SIM_BOUND_PCIE:
        return 1 / use->pcie_ratio;
    case SIM_BOUND_LINK:
        return 1 / use->link_ratio;
    default:
        return 1;
    }
}

/* Traffic and steps thin out when the same work takes longer; time slicing thins everything. */
static void thin_activity(double *act, uint32_t bound, double slower, double stretch)
{
    if (bound != SIM_BOUND_FIXED && bound != SIM_BOUND_DRAM) /* of a slower DRAM, the same fraction is in use */
        act[SIM_CH_DRAM] /= slower;
    if (bound != SIM_BOUND_FIXED) {
        for (int c = SIM_CH_PCIE_TX; c <= SIM_CH_NVL_RX; c++)
            act[c] /= slower;
        act[SIM_CH_STEPS] /= slower;
    }
    for (int c = 0; c < SIM_CH_WATT; c++)
        act[c] /= stretch;
}

typedef struct Made {
    double seconds, ratio, act[SIM_CH_COUNT];
} Made;

/* A phase at one clock ratio. */
static Made made_at(const SimWork *work, const SimPhase *phase, const PatternUse *use, double ratio)
{
    Made m = {.ratio = ratio};
    memcpy(m.act, phase->act, sizeof phase->act);
    double busy = phase->act[SIM_CH_KERNEL] > 0 ? use->stretch : 1;
    double slower = slower_by(phase, work, use, ratio);
    thin_activity(m.act, phase->bound, slower, busy);
    Burn burn = burn_of(use->board, use, m.act);
    m.act[SIM_CH_WATT] = burn.core_w * sim_pow(ratio, CLOCK_EXPONENT) + burn.other_w;
    m.seconds = phase->seconds * slower * busy;
    return m;
}

/* At the highest clock ratio that stays within the budget. */
static Made phase_make(const SimWork *work, const SimPhase *phase, const PatternUse *use)
{
    Made m = made_at(work, phase, use, use->clock_ratio);
    if (m.act[SIM_CH_WATT] <= use->budget_w)
        return m;
    if (phase->act[SIM_CH_KERNEL] <= 0) { /* copies and media engines: no clock to lower */
        m.act[SIM_CH_WATT] = use->budget_w;
        return m;
    }
    double lo = use->min_ratio, hi = use->clock_ratio;
    for (int i = 0; i < 22 && lo < hi; i++) {
        double mid = (lo + hi) / 2;
        m = made_at(work, phase, use, mid);
        if (m.act[SIM_CH_WATT] > use->budget_w)
            hi = mid;
        else
            lo = mid;
    }
    m = made_at(work, phase, use, lo < hi ? lo : hi);
    if (m.act[SIM_CH_WATT] > use->budget_w) /* the lowest clock is all that can be done */
        m.act[SIM_CH_WATT] = use->budget_w;
    m.act[SIM_CH_SW_CAP] = use->cap_part;
    return m;
}

static Made spin_make(const PatternUse *use, double seconds)
{
    SimPhase spin = {.seconds = seconds, .bound = SIM_BOUND_FIXED};
    spin.act[SIM_CH_KERNEL] = 1;
    spin.act[SIM_CH_SM] = SPIN_SM;
    spin.act[SIM_CH_OCC] = SPIN_SM / 4;
    spin.act[SIM_CH_INT] = 0.02;
    spin.act[SIM_CH_DRAM] = 0.002;
    spin.act[SIM_CH_DRAM_T] = 0.01;
    static const SimWork nobody = {.slow = 1};
    return phase_make(&nobody, &spin, use);
}

/* Heat a constant power gives within `s` seconds, in kelvin. */
static double warm_after(const PatternUse *use, double watt, double s)
{
    return use->kelvin_per_watt * watt * (1 - sim_exp(-s / use->tau_s));
}

static void phase_append(SimPattern *p, const PatternUse *use, const Made *m)
{
    if (m->seconds <= 0 || p->phase_count == SIM_PHASE_MAX)
        return;
    SimPatternPhase *ph = &p->phases[p->phase_count++];
    uint64_t ns = (uint64_t)(m->seconds * 1e9 + 0.5);
    if (ns == 0)
        ns = 1;
    double s = (double)ns / 1e9;
    ph->start_ns = p->period_ns;
    memcpy(ph->before, p->total, sizeof ph->before);
    memcpy(ph->rate, m->act, sizeof ph->rate);
    ph->heat = p->heat;
    int busy = m->act[SIM_CH_KERNEL] > 0;
    ph->sm_mhz = (double)use->board->sm_clock_max * (busy ? m->ratio : use->clock_ratio);
    ph->mem_mhz = (double)use->board->mem_clock_max * use->dram_ratio;
    ph->video_mhz = (double)use->board->video_clock_max * (busy ? m->ratio : use->clock_ratio);
    for (int c = 0; c < SIM_CH_COUNT; c++)
        p->total[c] += m->act[c] * s;
    p->heat = p->heat * sim_exp(-s / use->tau_s) + warm_after(use, m->act[SIM_CH_WATT], s);
    p->period_ns += ns;
}

void pattern_build(const SimWork *work, const PatternUse *use, SimPattern *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kelvin_per_watt = use->kelvin_per_watt;
    ret->tau_s = use->tau_s;
    if (use->hung) {
        Made spin = spin_make(use, 1);
        phase_append(ret, use, &spin);
    }
    for (uint32_t i = 0; i < work->phase_count && !use->hung; i++) {
        const SimPhase *phase = &work->phases[i];
        if ((phase->flags & SIM_PHASE_BARRIER) && use->wait_s > 0) {
            Made spin = spin_make(use, use->wait_s);
            phase_append(ret, use, &spin);
        }
        Made m = phase_make(work, phase, use);
        phase_append(ret, use, &m);
    }
    if (ret->phase_count == 0) {
        Made nothing = {.seconds = 1, .ratio = use->clock_ratio};
        phase_append(ret, use, &nothing);
    }
}

double pattern_seconds(const SimWork *work, const PatternUse *use)
{
    double sum = 0;
    for (uint32_t i = 0; i < work->phase_count; i++)
        sum += phase_make(work, &work->phases[i], use).seconds;
    return sum;
}

double pattern_mean_w(const SimPattern *pattern)
{
    return pattern->total[SIM_CH_WATT] / ((double)pattern->period_ns / 1e9);
}

double pattern_peak_w(const SimPattern *pattern)
{
    double peak = 0;
    for (uint32_t i = 0; i < pattern->phase_count; i++)
        if (pattern->phases[i].rate[SIM_CH_WATT] > peak)
            peak = pattern->phases[i].rate[SIM_CH_WATT];
    return peak;
}
