/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluating the plan at a time. Everything that accumulates is a slot's integral (closed form over a periodic pattern)
 * plus what works that ended have left; temperature is the first-order answer to the same power.
 */
#include "sim/core/state.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core/control.h"
#include "sim/core/num.h"
#include "sim/core/plan.h"
#include "sim/core/seq.h"

enum {
    REASON_IDLE = 0x1,
    REASON_SW_CAP = 0x4,
};
#define MEAN_POWER_NS SIM_NS

static void procs_fill(SimImage *image, const SimSeg *seg, uint64_t t_ns, SimNow *now)
{
    SlotAt at, before;
    uint64_t back = t_ns > SIM_WINDOW_NS ? t_ns - SIM_WINDOW_NS : 0;
    for (uint32_t i = 0; i < seg->slot_count; i++) {
        const SimSlot *slot = &seg->slots[i];
        const SimWork *work = &image->works[(uint32_t)slot->work < SIM_WORK_MAX ? slot->work : 0];
        SimProc *proc = &now->proc[now->proc_count++];
        memset(proc, 0, sizeof *proc);
        proc->work = slot->work;
        proc->gi = slot->gi;
        proc->ci = slot->ci;
        proc->pid = sim_work_pid(image, slot->work);
        proc->type = work->proc_type;
        proc->uid = work->uid;
        memcpy(proc->name, work->name, sizeof proc->name);
        proc->mem_mib = slot->mem_mib + slot->mem_rate * seg_seconds(seg, t_ns);
        proc->peak_mib = proc->mem_mib > slot->peak_mib ? proc->mem_mib : slot->peak_mib;
        proc->started_ns = slot->started_ns;
        now->used_mib += proc->mem_mib;
        slot_at(seg_pattern(image, slot), slot, t_ns, SLOT_CUM, &at);
        slot_to_gpu(slot, at.cum, proc->cum);
        uint64_t from = back > seg->t_ns ? back : seg->t_ns; /* within the segment: its slots are those of now */
        if (from >= t_ns) {
            slot_to_gpu(slot, at.rate, proc->win);
            continue;
        }
        slot_at(seg_pattern(image, slot), slot, from, SLOT_CUM, &before);
        for (int c = 0; c < SIM_CH_COUNT; c++)
            before.cum[c] = (at.cum[c] - before.cum[c]) / ((double)(t_ns - from) / 1e9);
        slot_to_gpu(slot, before.cum, proc->win);
    }
}

static void window_fill(const SimImage *image, const SimSeg *seg, uint32_t gpu, uint64_t t_ns, SimNow *now)
{
    if (t_ns == 0) {
        memcpy(now->win, now->act, sizeof now->win);
        return;
    }
    uint64_t back = t_ns > SIM_WINDOW_NS ? t_ns - SIM_WINDOW_NS : 0;
    double old[SIM_CH_COUNT];
    SimSeg other;
    if (back >= seg->t_ns) {
        seg_cum(image, seg, back, old);
    } else {
        seg_load(image, gpu, back, &other);
        seg_cum(image, &other, back, old);
    }
    for (int c = 0; c < SIM_CH_COUNT; c++) {
        double mean = (now->cum[c] - old[c]) / ((double)(t_ns - back) / 1e9);
        now->win[c] = mean > 0 ? mean : 0;
        if (c < SIM_CH_PCIE_TX && now->win[c] > 1)
            now->win[c] = 1;
    }
}

static double energy_at(const SimImage *image, const SimSeg *seg, uint32_t gpu, uint64_t t_ns)
{
    double cum[SIM_CH_COUNT];
    if (t_ns >= seg->t_ns)
        return seg_cum(image, seg, t_ns, cum);
    SimSeg other;
    seg_load(image, gpu, t_ns, &other);
    return seg_cum(image, &other, t_ns, cum);
}

/* Mean power of the last span_ns. */
static double mean_power(const SimImage *image, const SimSeg *seg, uint32_t gpu, uint64_t t_ns, double energy_j,
                         uint64_t span_ns, double now_w)
{
    uint64_t since = t_ns > span_ns ? t_ns - span_ns : 0;
    if (since == t_ns)
        return now_w;
    double old_j = energy_at(image, seg, gpu, since);
    if (energy_j < old_j) /* a reset in between starts the counter again */
        return now_w;
    return (energy_j - old_j) / ((double)(t_ns - since) / 1e9);
}

static void power_fill(const SimImage *image, const SimSeg *seg, uint32_t gpu, uint64_t t_ns, double energy_j,
                       SimNow *now)
{
    const SimBoard *board = &image->boards[image->gpus[gpu].board];
    double limit = now->cond.set[SIM_KEY_POWER_LIMIT_MW] / 1000.0;
    double now_w = seg->base_w + now->act[SIM_CH_WATT];
    /* the sensor takes the mean of its tick: phases shorter than that, or in step with it, do not deceive it */
    double watt = mean_power(image, seg, gpu, t_ns, energy_j, SIM_TICK_NS, now_w);
    double mean = mean_power(image, seg, gpu, t_ns, energy_j, MEAN_POWER_NS, now_w);
    uint64_t tick = t_ns / SIM_TICK_NS;
    now->limit_w = limit > 0 ? limit : board->power_default_mw / 1000.0;
    now->watt = watt * (1 + 0.006 * sim_noise(image->seed + gpu, tick, 1));
    now->watt_mean = mean * (1 + 0.003 * sim_noise(image->seed + gpu, tick, 2));
    if (now->watt > now->limit_w)
        now->watt = now->limit_w;
    if (now->watt_mean > now->limit_w)
        now->watt_mean = now->limit_w;
    now->energy_mj = energy_j * 1000;
}

static double temperature_at(const SimSeg *seg, uint64_t t_ns, double pattern_heat)
{
    double steady = seg->kelvin_per_watt * seg->base_w, own = seg->base_heat - steady;
    for (uint32_t i = 0; i < seg->slot_count; i++)
        own += seg->slots[i].heat;
    return seg->ambient_c + steady + own * sim_exp(-seg_seconds(seg, t_ns) / seg->tau_s) + pattern_heat;
}

/* Clocks, P-state and link power follow from whether anything is open, runs, or is held down. */
static void clocks_fill(const SimImage *image, const SimSeg *seg, uint32_t gpu, double phase_mhz, double phase_video,
                        SimNow *now)
{
    const SimBoard *b = &image->boards[image->gpus[gpu].board];
    now->reasons = seg->reasons;
    now->mem_mhz = seg->mem_mhz;
    if (seg->idle) {
        now->sm_mhz = b->sm_clock_idle;
        now->video_mhz = b->video_clock_idle;
        now->mem_mhz = b->mem_clock_idle;
        now->pstate = b->idle_pstate;
    } else {
        now->sm_mhz = phase_mhz > 0 ? (uint32_t)phase_mhz : seg->sm_cap_mhz;
        now->sm_mhz -= b->sm_clock_step ? now->sm_mhz % b->sm_clock_step : 0;
        now->video_mhz = phase_video > 0 ? (uint32_t)phase_video : b->video_clock_max;
        now->pstate = 0;
    }
    if (now->win[SIM_CH_KERNEL] < 0.001)
        now->reasons |= REASON_IDLE;
    else if (now->act[SIM_CH_SW_CAP] > 0)
        now->reasons |= REASON_SW_CAP;
    now->pcie_gen = now->cond.pcie_gen;
    if (seg->idle && b->idle_pcie_gen && b->idle_pcie_gen < now->pcie_gen)
        now->pcie_gen = b->idle_pcie_gen;
    now->pcie_width = now->cond.pcie_width;
}

static uint32_t fan_target(const SimBoard *board, const SimCond *cond, double temp)
{
    if (!board->fans)
        return 0;
    if (cond->set[SIM_KEY_FAN_PERCENT] != SIM_FAN_AUTO)
        return cond->set[SIM_KEY_FAN_PERCENT];
    double part = (temp - 45) / (board->temp_gpu_max - 45.0);
    return part <= 0 ? 0 : part >= 1 ? 100 : (uint32_t)(30 + 70 * part);
}

/* Sensors belong to the tick; a change of condition within it counts at once. */
static uint64_t tick_of(const SimImage *image, uint32_t gpu, const SimSeg *seg, uint64_t t_ns, SimNow *now)
{
    uint64_t tick = t_ns - t_ns % SIM_TICK_NS;
    uint64_t at = tick > seg->t_ns ? tick : seg->t_ns;
    uint32_t next = seg_find(image, gpu, t_ns) + 1;
    now->t_ns = at;
    now->from_ns = at;
    now->until_ns = tick + SIM_TICK_NS;
    if (next < seq_get(image->seg_count[gpu]) && next < SIM_SEG_MAX) {
        uint64_t change = seq_get(seg_table(image, gpu)[next].t_ns);
        now->until_ns = change < now->until_ns ? change : now->until_ns;
    }
    return at;
}

static void state_once(SimImage *image, uint32_t gpu, uint64_t exact_ns, SimNow *now)
{
    SimSeg seg;
    SlotAt at;
    seg_load(image, gpu, exact_ns, &seg);
    memset(now, 0, offsetof(SimNow, proc));
    uint64_t t_ns = tick_of(image, gpu, &seg, exact_ns, now);
    now->cond = seg.cond;
    cond_forward(&now->cond, seg_seconds(&seg, t_ns));
    double energy_j = seg_cum(image, &seg, t_ns, now->cum), heat = 0, mhz = 0, video = 0;
    for (uint32_t i = 0; i < seg.slot_count; i++) {
        slot_at(seg_pattern(image, &seg.slots[i]), &seg.slots[i], t_ns, SLOT_HEAT, &at);
        slot_to_gpu(&seg.slots[i], at.rate, now->act);
        heat += at.heat;
        if (mhz <= 0 || at.sm_mhz < mhz) {
            mhz = at.sm_mhz;
            video = at.video_mhz;
        }
    }
    const SimBoard *board = &image->boards[image->gpus[gpu].board];
    now->temp_c = temperature_at(&seg, t_ns, heat) + 0.3 * sim_noise(image->seed + gpu, t_ns / SIM_TICK_NS, 3);
    window_fill(image, &seg, gpu, t_ns, now);
    now->mem_temp_c = now->temp_c + board->mem_temp_offset_c * (0.4 + 0.6 * now->win[SIM_CH_DRAM]);
    power_fill(image, &seg, gpu, t_ns, energy_j, now);
    seg_throttle(&seg, t_ns, now->throttle_ns);
    now->throttle_ns[0] = now->cum[SIM_CH_SW_CAP] * 1e9;
    clocks_fill(image, &seg, gpu, mhz, video, now);
    now->fan_target = fan_target(board, &now->cond, now->temp_c);
    now->fan_percent = now->cond.set[SIM_KEY_FAN_FAILED] ? 0 : now->fan_target;
    procs_fill(image, &seg, t_ns, now);
}

void sim_state_at(SimImage *image, uint32_t gpu, uint64_t t_ns, SimNow *ret)
{
    uint32_t seq;
    do {
        seq = seq_begin(image);
        state_once(image, gpu, t_ns, ret);
    } while (seq_retry(image, seq));
    ret->plan_seq = seq;
}

/* --- integrals --------------------------------------------------------------------------------------------------- */

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

/* --- the node, its events, the pids of works --------------------------------------------------------------------- */

void sim_node_at(SimImage *image, uint64_t t_ns, SimNodeSeg *ret)
{
    uint32_t seq;
    do {
        seq = seq_begin(image);
        uint32_t n = seq_get(image->node_seg_count), i = 0;
        if (n > SIM_NODE_SEG_MAX)
            n = SIM_NODE_SEG_MAX;
        while (i + 1 < n && seq_get(image->node_segs[i + 1].t_ns) <= t_ns)
            i++;
        seq_load(ret, &image->node_segs[i], sizeof *ret);
    } while (seq_retry(image, seq));
}

static uint32_t event_count(const SimImage *image)
{
    uint32_t n = seq_get(image->event_count);
    return n < SIM_EVENT_MAX ? n : SIM_EVENT_MAX;
}

static uint32_t event_upper(const SimImage *image, uint64_t t_ns)
{
    uint32_t lo = 0, hi = event_count(image);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (seq_get(image->events[mid].t_ns) <= t_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint32_t sim_event_index_after(SimImage *image, uint64_t t_ns)
{
    uint32_t seq, at;
    do {
        seq = seq_begin(image);
        at = event_upper(image, t_ns);
    } while (seq_retry(image, seq));
    return at;
}

uint32_t sim_event_next(SimImage *image, uint32_t from, uint64_t until_ns, SimEvent *ret, uint64_t *ret_next_ns)
{
    uint32_t seq, found;
    uint64_t next;
    do {
        seq = seq_begin(image);
        uint32_t end = event_upper(image, until_ns);
        found = from < end ? from + 1 : 0;
        next = end < event_count(image) ? seq_get(image->events[end].t_ns) : SIM_FOREVER;
        if (found)
            seq_load(ret, &image->events[from], sizeof *ret);
    } while (seq_retry(image, seq));
    if (ret_next_ns)
        *ret_next_ns = next;
    return found;
}

uint32_t sim_work_pid(SimImage *image, int32_t work)
{
    if (work < 0 || work >= SIM_WORK_MAX)
        return 0;
    uint32_t live = atomic_load_explicit(&image->works[work].live_pid, memory_order_relaxed);
    return live ? live : image->works[work].fixed_pid;
}

/* --- this thread's last snapshot of each GPU, until the tick or the plan changes: it makes getters cheap --------- */

typedef struct Snapshots {
    SimImage *image;
    SimNow now[];
} Snapshots;

static __thread Snapshots *snapshots;
static pthread_key_t snapshots_key;
static pthread_once_t snapshots_once = PTHREAD_ONCE_INIT;

static void snapshots_key_make(void)
{
    pthread_key_create(&snapshots_key, free);
}

static Snapshots *snapshots_of(SimImage *image)
{
    pthread_once(&snapshots_once, snapshots_key_make);
    free(snapshots);
    snapshots = calloc(1, sizeof(Snapshots) + image->gpu_count * sizeof(SimNow));
    if (!snapshots)
        abort();
    snapshots->image = image;
    for (uint32_t i = 0; i < image->gpu_count; i++)
        snapshots->now[i].plan_seq = 1; /* never a published plan */
    pthread_setspecific(snapshots_key, snapshots);
    return snapshots;
}

const SimNow *sim_state_now(SimImage *image, uint32_t gpu)
{
    Snapshots *s = snapshots && snapshots->image == image ? snapshots : snapshots_of(image);
    SimNow *now = &s->now[gpu];
    uint64_t t = sim_clock_now(image);
    if (now->plan_seq != atomic_load_explicit(&image->plan_seq, memory_order_acquire) || t < now->from_ns ||
        t >= now->until_ns)
        sim_state_at(image, gpu, t, now);
    return now;
}
