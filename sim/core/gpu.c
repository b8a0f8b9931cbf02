/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU in the planner: opening its segment for edits, starting and ending works, and closing it: from condition and
 * works to clocks, patterns and the next segment.
 *
 * Order of causes: settings and faults bound the clock; heat may bound it further (the ratio at which the steady
 * temperature stays at the limit); power is shared out among the works; each rank's step time follows, and ranks of one
 * job wait for the slowest.
 */
#include <string.h>

#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/plan.h"
#include "sim/core/seq.h"
#include "sim/core/state.h"

/* --- opening, and works ------------------------------------------------------------------------------------------ */

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

static int gpu_find(const PlanGpu *g, int32_t work)
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

int gpu_work_start(SimImage *image, uint32_t gpu, PlanGpu *g, int32_t work, int32_t instead)
{
    const int old = instead != work ? gpu_find(g, instead) : SIM_NONE;
    const uint64_t started_ns = old >= 0 ? g->seg.slots[old].started_ns : g->seg.t_ns;
    if (old >= 0)
        gpu_work_stop(g, instead, SIM_NONE);
    const SimWork *w = &image->works[work];
    if (g->seg.slot_count == SIM_SLOT_MAX || gpu_find(g, work) >= 0 || !g->seg.cond.present || g->seg.cond.lost)
        return 0;
    SimSlot slot = {.work = work,
                    .started_ns = started_ns,
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

void gpu_work_memory(PlanGpu *g, int32_t work, double mib)
{
    const int at = gpu_find(g, work);
    if (at < 0 || !(mib >= 0))
        return;
    SimSlot *slot = &g->seg.slots[at];
    slot->mem_mib = mib;
    if (mib > slot->peak_mib)
        slot->peak_mib = mib;
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

/* --- clocks, heat and power -------------------------------------------------------------------------------------- */

/* One GPU while it is being closed. */
typedef struct Closing {
    const SimBoard *board;
    const SimGpuId *id;
    SimSeg *seg;
    double temp_now;
    uint32_t hot; /* thermal level that has just been reached */
    PatternUse use[SIM_SLOT_MAX];
    SimPattern pattern[SIM_SLOT_MAX];
} Closing;

static inline const SimWork *closing_work(const SimImage *image, const Closing *c, uint32_t i)
{
    return &image->works[c->seg->slots[i].work];
}

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

/* --- what bounds the clocks -------------------------------------------------------------------------------------- */

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

static double dram_ratio(const SimBoard *board, const SimCond *cond)
{
    uint32_t mhz = cond->set[SIM_KEY_LOCK_MEM_MAX] ? cond->set[SIM_KEY_LOCK_MEM_MAX] : cond->set[SIM_KEY_APP_MEM_MHZ];
    return mhz && mhz < board->mem_clock_max ? (double)mhz / board->mem_clock_max : 1;
}

/* --- heat -------------------------------------------------------------------------------------------------------- */

static void thermal_path(Closing *c, double old_ambient)
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

/* --- patterns ---------------------------------------------------------------------------------------------------- */

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

static void uses_init(Closing *c)
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
static uint64_t find_time_of_temp(const Closing *c, double steady, double temp)
{
    double x = c->seg->tau_s * sim_log((steady - c->temp_now) / (steady - temp));
    return x > 0 ? c->seg->t_ns + (uint64_t)(x * 1e9) + 1 : c->seg->t_ns + 1;
}

static void dyn_set(SimSeg *seg, uint64_t t_ns, SimDyn what)
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
static void heat_decide(const SimImage *image, Closing *c)
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
static void heat_foresee(Closing *c)
{
    SimSeg *seg = c->seg;
    const double step[3] = {c->board->temp_gpu_max - 0.9, c->board->temp_slowdown - 0.9, c->board->temp_shutdown};
    const double beyond[3] = {0.4, 0.9, 0.1}; /* by so much must it go on rising, or the level would not change */
    double steady = steady_temp(c), next = step[seg->level];
    if (seg->cond.lost || !seg->cond.present || steady < next + beyond[seg->level])
        return;
    if (c->hot > seg->level) /* that step has just been looked at and did not change a thing */
        return;
    uint64_t when = c->temp_now < next ? find_time_of_temp(c, steady, next) : c->seg->t_ns + SIM_TICK_NS;
    dyn_set(seg, when, seg->level == 2 ? SIM_DYN_SHUTDOWN : SIM_DYN_HEAT);
}

static void closing_free_run(const SimImage *image, Closing *c)
{
    patterns_at(image, c, clock_bound(c));
}

/* --- jobs: ranks wait for the slowest, and for ever for one that is gone ----------------------------------------- */

typedef struct Job {
    int32_t id;
    uint32_t members, present;
    double slowest_s;
} Job;

static void job_count(const SimImage *image, Closing *all, const PlanGpu *gpus, Job *job)
{
    for (uint32_t w = 0; w < image->work_count; w++)
        job->members += image->works[w].job == job->id;
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            if (closing_work(image, &all[g], i)->job != job->id)
                continue;
            job->present++;
            double s = pattern_seconds(closing_work(image, &all[g], i), &all[g].use[i]);
            job->slowest_s = s > job->slowest_s ? s : job->slowest_s;
        }
    }
}

/* Ranks wait for the slowest; ranks whose peers are gone spin in the collective for ever. */
static void job_settle(const SimImage *image, Closing *all, const PlanGpu *gpus, const Job *job)
{
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            const SimWork *work = closing_work(image, &all[g], i);
            if (work->job != job->id)
                continue;
            PatternUse *use = &all[g].use[i];
            use->hung = job->present < job->members;
            double wait = job->slowest_s - pattern_seconds(work, use);
            use->wait_s = wait > 1e-6 ? wait : 0;
            pattern_build(work, use, &all[g].pattern[i]);
        }
    }
}

static void jobs_settle(const SimImage *image, Closing *all, const PlanGpu *gpus)
{
    uint8_t seen[SIM_WORK_MAX] = {0};
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        for (uint32_t i = 0; gpus[g].open && i < all[g].seg->slot_count; i++) {
            int32_t id = closing_work(image, &all[g], i)->job;
            if (id < 0 || id >= SIM_WORK_MAX || seen[id])
                continue;
            seen[id] = 1;
            Job job = {.id = id};
            job_count(image, all, gpus, &job);
            if (job.members > 1)
                job_settle(image, all, gpus, &job);
        }
    }
}

static void memory_decide(Closing *c)
{
    for (uint32_t i = 0; i < c->seg->slot_count; i++) {
        double full_s = slot_full_s(c->board, c->seg, i);
        if (full_s < SIM_NEVER_S)
            dyn_set(c->seg, c->seg->t_ns + (uint64_t)(full_s * 1e9) + 1, SIM_DYN_MEMORY);
    }
}

/* --- publication ------------------------------------------------------------------------------------------------- */

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

static void publish_segment(SimImage *image, uint32_t gpu, const SimSeg *seg)
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

/* --- closing ----------------------------------------------------------------------------------------------------- */

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

static void for_each_open(const SimImage *image, Closing *all, const PlanGpu *gpus, EachClosing fn)
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
    for_each_open(image, all, gpus, closing_free_run);
    jobs_settle(image, all, gpus); /* who waits for whom, before heat */
    for_each_open(image, all, gpus, heat_decide);
    jobs_settle(image, all, gpus);
    for_each_open(image, all, gpus, closing_end);
    for (uint32_t g = 0; g < image->gpu_count; g++) {
        if (!gpus[g].open)
            continue;
        for (uint32_t i = 0; i < gpus[g].seg.slot_count; i++)
            slot_close(image, &gpus[g], &all[g], i);
        gpus[g].seg.energy_j = gpus[g].energy_j;
        gpus[g].open = 0;
        gpus[g].hot = 0;
        publish_segment(image, g, &gpus[g].seg);
    }
}
