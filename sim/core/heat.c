/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bounds a GPU's clocks: settings and faults, then heat (the ratio at which the steady temperature stays at the
 * limit); and how time and power are shared out among its works.
 */
#include "sim/core/closing.h"
#include "sim/core/num.h"
#include "sim/core/state.h"

enum {
    REASON_APP_CLOCKS = 0x2,
    REASON_HW_SLOWDOWN = 0x8,
    REASON_SW_THERMAL = 0x20,
    REASON_HW_THERMAL = 0x40,
    REASON_POWER_BRAKE = 0x80,
};
#define BRAKE_RATIO 0.5
#define HW_SLOWDOWN_RATIO 0.3
#define FAN_FAILED_RESISTANCE 2.2

/* ---- what bounds the clocks ---- */

static double at_most(double a, double b)
{
    return a < b ? a : b;
}

static double min_ratio(const SimBoard *board)
{
    return (double)board->sm_clock_min / board->sm_clock_max;
}

static double clock_bound(Closing *c)
{
    const uint32_t *set = c->seg->cond.set;
    double max = c->board->sm_clock_max, ratio = 1;
    c->seg->reasons = 0;
    if (set[SIM_KEY_LOCK_SM_MAX])
        ratio = at_most(ratio, set[SIM_KEY_LOCK_SM_MAX] / max);
    if (set[SIM_KEY_APP_SM_MHZ] && set[SIM_KEY_APP_SM_MHZ] < c->board->sm_clock_max) {
        ratio = at_most(ratio, set[SIM_KEY_APP_SM_MHZ] / max);
        c->seg->reasons |= REASON_APP_CLOCKS;
    }
    if (set[SIM_KEY_POWER_BRAKE]) {
        ratio = at_most(ratio, BRAKE_RATIO);
        c->seg->reasons |= REASON_POWER_BRAKE | REASON_HW_SLOWDOWN;
    }
    if (set[SIM_KEY_HW_SLOWDOWN]) {
        ratio = at_most(ratio, HW_SLOWDOWN_RATIO);
        c->seg->reasons |= REASON_HW_THERMAL | REASON_HW_SLOWDOWN;
    }
    return ratio > min_ratio(c->board) ? ratio : min_ratio(c->board);
}

static double link_ratio(const SimBoard *board, const SimCond *cond)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < board->link_count && i < SIM_LINK_MAX; i++)
        up += cond->link[i].state == 1;
    return up && board->link_count ? (double)up / board->link_count : 0.02; /* through the host instead */
}

static double pcie_ratio(const SimBoard *board, const SimCond *cond)
{
    double full = (double)(1u << board->pcie_gen) * board->pcie_width;
    double now = (double)(1u << (cond->pcie_gen & 15)) * cond->pcie_width;
    return full > 0 && now > 0 ? at_most(now / full, 1) : 1;
}

double dram_ratio(const SimBoard *board, const SimCond *cond)
{
    uint32_t mhz = cond->set[SIM_KEY_LOCK_MEM_MAX] ? cond->set[SIM_KEY_LOCK_MEM_MAX] : cond->set[SIM_KEY_APP_MEM_MHZ];
    return mhz && mhz < board->mem_clock_max ? (double)mhz / board->mem_clock_max : 1;
}

/* ---- heat ---- */

void thermal_path(Closing *c, double old_ambient)
{
    const SimCond *cond = &c->seg->cond;
    double cooling = cond->set[SIM_KEY_COOLING_PERMILLE] ? cond->set[SIM_KEY_COOLING_PERMILLE] / 1000.0 : 0.001;
    c->seg->kelvin_per_watt = c->board->kelvin_per_watt * c->id->cool / cooling;
    if (cond->set[SIM_KEY_FAN_FAILED])
        c->seg->kelvin_per_watt *= FAN_FAILED_RESISTANCE;
    c->seg->tau_s = c->board->tau_s;
    c->seg->ambient_c = c->board->ambient_c + c->id->ambient_offset_c + (int32_t)cond->set[SIM_KEY_AMBIENT_MC] / 1000.0;
    /* the die does not follow the air at once */
    c->seg->base_heat += old_ambient - c->seg->ambient_c;
}

/* The temperature the GPU settles at, top of the ripple. */
static double steady_temp(const Closing *c)
{
    double temp = c->seg->ambient_c + c->seg->kelvin_per_watt * c->seg->base_w;
    for (uint32_t i = 0; i < c->seg->slot_count; i++) {
        const SimPattern *p = &c->pattern[i];
        double mean = pattern_mean_w(p), peak = pattern_peak_w(p);
        double follow = 1 - sim_exp(-((double)p->period_ns / 1e9) / c->seg->tau_s);
        temp += c->seg->kelvin_per_watt * (mean + (peak - mean) * follow);
    }
    return temp;
}

/* ---- patterns ---- */

static double kernel_mean(const SimPattern *p)
{
    return p->total[SIM_CH_KERNEL] / ((double)p->period_ns / 1e9);
}

/* How much longer kernels take when works with these busy fractions share the SMs in turns: busy for all of the time
 * together, at most. */
static double stretch_for(const double *busy, uint32_t n)
{
    double lo = 1, hi = n > 1 ? n : 1;
    for (int k = 0; k < 40; k++) {
        double mid = k ? (lo + hi) / 2 : 1, sum = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += busy[i] / (1 - busy[i] + busy[i] * mid);
        if (sum > 1)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* Stretches the works that share their SMs with others: all of a GPU, or those of one MIG device. */
static void stretch_shared(const SimImage *image, Closing *c, const double busy[SIM_SLOT_MAX])
{
    const SimSlot *slots = c->seg->slots;
    for (uint32_t i = 0; i < c->seg->slot_count; i++) {
        double together[SIM_SLOT_MAX];
        uint32_t n = 0;
        for (uint32_t k = 0; k < c->seg->slot_count; k++)
            if (slots[k].gi == slots[i].gi && slots[k].ci == slots[i].ci)
                together[n++] = busy[k];
        double stretch = stretch_for(together, n);
        if (stretch <= 1)
            continue;
        c->use[i].stretch = stretch;
        pattern_build(closing_work(image, c, i), &c->use[i], &c->pattern[i]);
    }
}

/* Builds all patterns at one clock ratio, sharing time and power out among the works. */
static void patterns_at(const SimImage *image, Closing *c, double ratio)
{
    double limit = c->seg->cond.set[SIM_KEY_POWER_LIMIT_MW] / 1000.0;
    double room = limit > c->seg->base_w ? limit - c->seg->base_w : 0, kernels[SIM_SLOT_MAX] = {0}, peaks = 0;
    uint32_t n = c->seg->slot_count;
    for (uint32_t i = 0; i < n; i++) {
        c->use[i].clock_ratio = ratio;
        c->use[i].stretch = 1;
        c->use[i].budget_w = 1e9;
        pattern_build(closing_work(image, c, i), &c->use[i], &c->pattern[i]);
        kernels[i] = kernel_mean(&c->pattern[i]);
    }
    stretch_shared(image, c, kernels);
    for (uint32_t i = 0; i < n; i++)
        peaks += pattern_peak_w(&c->pattern[i]);
    for (uint32_t i = 0; i < n; i++) {
        double part = peaks > room ? pattern_peak_w(&c->pattern[i]) / peaks : 1;
        c->use[i].budget_w = room * part;
        pattern_build(closing_work(image, c, i), &c->use[i], &c->pattern[i]);
        /* lower clocks keep the SMs busy for longer: as if the work had been so from the start */
        double busy = kernel_mean(&c->pattern[i]);
        kernels[i] = busy / (1 + busy - busy * c->use[i].stretch);
    }
    stretch_shared(image, c, kernels);
}

void uses_init(Closing *c)
{
    for (uint32_t i = 0; i < c->seg->slot_count; i++) {
        const SimSlot *slot = &c->seg->slots[i];
        c->use[i] = (PatternUse){.board = c->board,
                                 .min_ratio = min_ratio(c->board),
                                 .dram_ratio = dram_ratio(c->board, &c->seg->cond),
                                 .link_ratio = link_ratio(c->board, &c->seg->cond),
                                 .pcie_ratio = pcie_ratio(c->board, &c->seg->cond),
                                 .share = slot->share,
                                 .mem_share = slot->mem_share,
                                 .leak = c->id->leak,
                                 .kelvin_per_watt = c->seg->kelvin_per_watt,
                                 .tau_s = c->seg->tau_s,
                                 .cap_part = 1.0 / c->seg->slot_count,
                                 .stretch = 1};
    }
}

/* The clock ratio at which the GPU settles just below `temp`. */
static double ratio_for(const SimImage *image, Closing *c, double most, double temp)
{
    double lo = min_ratio(c->board), hi = most;
    for (int i = 0; i < 14; i++) {
        double mid = (lo + hi) / 2;
        patterns_at(image, c, mid);
        if (steady_temp(c) > temp)
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

/* Virtual time at which the GPU, now at temp_now and on its way to `steady`, reaches `temp`. */
static uint64_t reaches(const Closing *c, double steady, double temp)
{
    double x = c->seg->tau_s * sim_log((steady - c->temp_now) / (steady - temp));
    return x > 0 ? c->seg->t_ns + (uint64_t)(x * 1e9) + 1 : c->seg->t_ns + 1;
}

void dyn_set(SimSeg *seg, uint64_t t_ns, SimDyn what)
{
    if (t_ns < seg->dyn_ns) {
        seg->dyn_ns = t_ns;
        seg->dyn_what = what;
    }
}

/* Slows the clock until the steady temperature stays below the limit; the hardware steps in where that is not enough.
 */
static double heat_slow(const SimImage *image, Closing *c, double ratio)
{
    SimSeg *seg = c->seg;
    double slowdown = c->board->temp_slowdown;
    seg->level = 1;
    seg->reasons |= REASON_SW_THERMAL;
    ratio = ratio_for(image, c, ratio, c->board->temp_gpu_max - 1);
    patterns_at(image, c, ratio);
    if (steady_temp(c) < slowdown || (c->temp_now < slowdown - 1 && c->hot < 2))
        return ratio;
    seg->level = 2;
    seg->reasons |= REASON_HW_THERMAL | REASON_HW_SLOWDOWN;
    ratio = at_most(ratio, HW_SLOWDOWN_RATIO / 2);
    patterns_at(image, c, ratio);
    return ratio;
}

/* Decides the thermal level and the clock ratio; leaves the patterns built at it. */
void heat_decide(const SimImage *image, Closing *c)
{
    SimSeg *seg = c->seg;
    double ratio = clock_bound(c), top = c->board->temp_gpu_max;
    double near = seg->level ? 3 : 1; /* once slowed, it stays so until it is really cool */
    seg->level = 0;
    patterns_at(image, c, ratio);
    if (steady_temp(c) >= top - 0.5 && (c->temp_now >= top - near || c->hot))
        ratio = heat_slow(image, c, ratio);
    seg->clock_ratio = ratio;
}

/* When the GPU, on its present course, next gets too hot. */
void heat_foresee(Closing *c)
{
    SimSeg *seg = c->seg;
    const double step[3] = {c->board->temp_gpu_max - 0.9, c->board->temp_slowdown - 0.9, c->board->temp_shutdown};
    const double beyond[3] = {0.4, 0.9, 0.1}; /* by so much must it go on rising, or the level would not change */
    double steady = steady_temp(c), next = step[seg->level];
    if (seg->cond.lost || !seg->cond.present || steady < next + beyond[seg->level])
        return;
    if (c->hot > seg->level) /* that step has just been looked at and did not change a thing */
        return;
    uint64_t when = c->temp_now < next ? reaches(c, steady, next) : c->seg->t_ns + SIM_TICK_NS;
    dyn_set(seg, when, seg->level == 2 ? SIM_DYN_SHUTDOWN : SIM_DYN_HEAT);
}

void closing_free_run(const SimImage *image, Closing *c)
{
    patterns_at(image, c, clock_bound(c));
}
