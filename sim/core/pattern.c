/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a work's phases and what limits it to a periodic pattern: how long each phase takes, what it burns, at which
 * clock. One set of causes: activity gives power, power beyond the budget lowers the clock, the clock stretches the
 * phases that depend on it.
 *
 * Dynamic power of the SMs follows clock^2.4 (frequency times voltage squared, voltage rising with frequency); DRAM and
 * links do not follow the SM clock.
 */
#include <string.h>

#include "sim/core/num.h"
#include "sim/core/plan.h"

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
static void thin(double *act, uint32_t bound, double slower, double stretch)
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
    thin(m.act, phase->bound, slower, busy);
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
static double warm(const PatternUse *use, double watt, double s)
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
    p->heat = p->heat * sim_exp(-s / use->tau_s) + warm(use, m->act[SIM_CH_WATT], s);
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
