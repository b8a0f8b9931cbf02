/* SPDX-License-Identifier: Apache-2.0 */
/* engine/ledger against a naive model: random timelines of GPUs that come and go, are split, shared, broken and hung,
 * with ticks that come late, kills, reboots, a wall clock that is set, energy counters that begin anew and times in
 * which no row can be kept. The model
 * counts second by second. A failure prints its seed: `test_ledger_timelines SEED` runs that timeline alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "engine/ledger/ledger.h"
#include "../slow.h"

enum { TIMELINES = 10000 / TEST_SLOW, GPUS = 3, OWNERS = 5, DEVICES = 4, TICKS = 60, ROWS = 8192, KINDS = 4 };

/* --- what is played ----------------------------------------------------------------------------------------------- */

static uint64_t rng;

static uint64_t draw(uint64_t below)
{
    uint64_t z = (rng += 0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
}

/* A device of a GPU (0: the GPU, or what is left of it beside its instances) and who holds it in which parts. */
typedef struct PlayedDevice {
    int slices; /* of seven */
    int holders;
    int owner[3];
    double share[3];
    bool unusable;
    double sm; /* below 0: not known */
} PlayedDevice;

typedef struct Played {
    bool present, up, listed;
    int devices;
    PlayedDevice device[DEVICES];
    int64_t energy_mj;
    /* the model's truth: by owner (the last: nobody), nanoseconds as doubles */
    double alloc[OWNERS + 1], eff[OWNERS + 1], unhealthy[OWNERS + 1], unknown, total, energy;
    /* where its rows end, for what follows a restart */
    bool counted, has_end, resumed;
    uint64_t last_ns, end_ns, end_real_ns;
    char end_boot[LEDGER_BOOT_CAP];
    int64_t energy_before;
} Played;

static Played played[GPUS];
static NodeGpu gpus[GPUS];
static Reading instances[GPUS][DEVICES];
static Activity instance_activity[GPUS][DEVICES];
static Holding holdings[GPUS * DEVICES * 3];
static size_t holding_count;
static Node node;
static char boot[LEDGER_BOOT_CAP];
static uint64_t boots, began_ns;
static bool began;

static LedgerRow rows[ROWS], pending[ROWS];
static size_t row_count, pending_count;
static bool full; /* no row can be kept in this tick */
static const char *failed;

static void change_holders(PlayedDevice *d)
{
    double sum = 0;

    d->holders = (int)draw(4);
    for (int i = 0; i < d->holders; i++) {
        d->owner[i] = (i + (int)draw(OWNERS)) % OWNERS;
        for (int k = 0; k < i; k++)
            if (d->owner[k] == d->owner[i])
                d->holders = i;
        d->share[i] = 1 + (double)draw(100);
    }
    for (int i = 0; i < d->holders; i++)
        sum += d->share[i];
    for (int i = 0; i < d->holders; i++)
        d->share[i] /= sum;
}

static void split_gpu(Played *g)
{
    int left = 7;

    g->devices = 1 + (int)draw(DEVICES);
    for (int i = 1; i < g->devices; i++) {
        g->device[i].slices = 1 + (int)draw(3);
        if (g->device[i].slices > left)
            g->device[i].slices = left;
        left -= g->device[i].slices;
        if (g->device[i].slices == 0)
            g->devices = i;
    }
    g->device[0].slices = left;
    for (int i = 0; i < g->devices; i++)
        change_holders(&g->device[i]);
}

static void change_state(Played *g)
{
    PlayedDevice *d = &g->device[draw((uint64_t)g->devices)];

    switch (draw(12)) {
    case 0:
        g->present = !g->present;
        break;
    case 1:
        g->up = draw(3) > 0;
        break;
    case 2:
        g->listed = draw(4) > 0;
        break;
    case 3:
        d->unusable = draw(2);
        break;
    case 4:
        split_gpu(g);
        break;
    case 5:
        g->energy_mj = 0; /* a reset */
        break;
    case 6:
        d->sm = draw(5) ? (double)draw(1001) / 1000 : -1;
        break;
    case 7:
    case 8:
    case 9:
        change_holders(d);
        break;
    default:
        break;
    }
}

/* --- as the node shows it ----------------------------------------------------------------------------------------- */

static void show_device(const PlayedDevice *d, Reading *reading, Activity *activity)
{
    Sample *sm = &reading->sample[METRIC_PROF_SM_ACTIVE];

    activity->word = d->unusable ? ACTIVITY_UNUSABLE : ACTIVITY_WORKING;
    if (d->sm >= 0)
        sample_set_double(sm, 1, d->sm);
    else
        sample_set_absent(sm, 1, ABSENCE_NO_DATA);
}

static void show_holders(const PlayedDevice *d, size_t gpu, uint32_t instance)
{
    for (int i = 0; i < d->holders; i++) {
        Holding *h = &holdings[holding_count++];

        *h = (Holding){.gpu = gpu,
                       .gpu_instance = instance,
                       .compute_instance = instance == DEVICE_NO_NUMBER ? DEVICE_NO_NUMBER : 0,
                       .share = d->share[i],
                       .sm_share = NAN,
                       .attribution = ATTRIBUTION_EVEN};
        h->owner.pid = (int32_t)draw(100); /* whatever process: pids are used again */
        snprintf(h->owner.user, sizeof h->owner.user, "user%d", d->owner[i]);
    }
}

static void show_gpu(size_t i)
{
    const Played *g = &played[i];
    const size_t at = node.gpu_count++;
    NodeGpu *gpu = &gpus[at];

    device_init(&gpu->reading.device, DEVICE_GPU);
    snprintf(gpu->reading.device.uuid, sizeof gpu->reading.device.uuid, "GPU-%zu", i);
    gpu->state = g->up ? GPU_UP : GPU_HUNG;
    gpu->process_list = (Sample){.valid = g->listed};
    gpu->instances = instances[at];
    gpu->instance_activity = instance_activity[at];
    gpu->instance_count = (size_t)g->devices - 1;
    sample_set_int64(&gpu->reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], 1, g->energy_mj);
    show_device(&g->device[0], &gpu->reading, &gpu->activity);
    show_holders(&g->device[0], at, DEVICE_NO_NUMBER);
    for (int k = 1; k < g->devices; k++) {
        Reading *instance = &instances[at][k - 1];

        instance->device = gpu->reading.device;
        device_make_part(&instance->device, DEVICE_COMPUTE_INSTANCE);
        instance->device.gpu_instance = (uint32_t)k;
        instance->device.compute_instance = 0;
        snprintf(instance->profile, sizeof instance->profile, "%dg.10gb", g->device[k].slices);
        show_device(&g->device[k], instance, &instance_activity[at][k - 1]);
        show_holders(&g->device[k], at, (uint32_t)k);
    }
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static void model_second(Played *g, bool late)
{
    g->total += 1e9;
    if (late) {
        g->unknown += 1e9;
        return;
    }
    for (int i = 0; i < g->devices; i++) {
        const PlayedDevice *d = &g->device[i];
        const double slice = g->devices == 1 ? 1e9 : d->slices * 1e9 / 7;

        for (int k = 0; k < d->holders; k++) {
            if (d->unusable)
                g->unhealthy[d->owner[k]] += slice * d->share[k];
            else if (!g->up)
                g->unknown += slice * d->share[k];
            else
                g->alloc[d->owner[k]] += slice * d->share[k];
            if (!d->unusable && g->up && d->sm > 0)
                g->eff[d->owner[k]] += slice * d->share[k] * d->sm;
        }
        if (d->holders == 0 && d->unusable)
            g->unhealthy[OWNERS] += slice;
        else if (d->holders == 0 && (!g->up || !g->listed))
            g->unknown += slice;
        else if (d->holders == 0)
            g->alloc[OWNERS] += slice;
    }
}

static void note_end(Played *g)
{
    g->has_end = true;
    g->end_ns = node.time_ns;
    g->end_real_ns = node.real_ns;
    memcpy(g->end_boot, boot, sizeof boot);
}

/* The GPU is there, and was not at the tick before: after a start its time since the last row is not known. */
static void model_arrival(Played *g)
{
    const bool same = strcmp(g->end_boot, boot) == 0;
    const double away = same                            ? (double)(node.time_ns - g->end_ns)
                        : node.real_ns > g->end_real_ns ? (double)(node.real_ns - g->end_real_ns)
                                                        : 0;

    if (g->has_end && !g->resumed && node.time_ns - began_ns <= NS_PER_MIN && away > 0) {
        g->unknown += away;
        g->total += away;
        note_end(g);
    }
    g->counted = g->resumed = true;
    g->last_ns = node.time_ns;
    g->energy_before = -1;
}

static void model_tick(Played *g)
{
    const uint64_t seconds = (node.time_ns - g->last_ns) / NS_PER_S;

    if (!g->counted) {
        model_arrival(g);
        return;
    }
    for (uint64_t i = 0; i < seconds; i++)
        model_second(g, seconds > 10);
    if (g->energy_before >= 0 && g->energy_mj >= g->energy_before)
        g->energy += (double)(g->energy_mj - g->energy_before);
    g->energy_before = g->energy_mj;
    g->last_ns = node.time_ns;
    note_end(g);
}

/* --- the ledger under test ---------------------------------------------------------------------------------------- */

static bool put_row(void *self UNUSED, const LedgerRow *row)
{
    if (!full)
        pending[pending_count++] = *row;
    return !full;
}

static void store_rows(void)
{
    for (size_t i = 0; i < pending_count; i++) {
        size_t k = row_count;

        while (k > 0 && rows[k - 1].id != pending[i].id)
            k--;
        if (k == 0)
            rows[row_count++] = pending[i];
        else
            rows[k - 1] = pending[i];
    }
}

static Ledger *start_ledger(void)
{
    LedgerRows last = {0};
    uint64_t next = 1;

    for (size_t i = row_count; i-- > 0;) {
        ledger_find_last(&last, &rows[i]);
        next = rows[i].id >= next ? rows[i].id + 1 : next;
    }
    Ledger *ledger = ledger_new(&last, boot, next);
    vec_done(&last);
    for (size_t i = 0; i < GPUS; i++)
        played[i].counted = played[i].resumed = false;
    began = false;
    return ledger;
}

static void run_tick(Ledger *ledger, bool lost)
{
    node.gpu_count = holding_count = pending_count = 0;
    for (size_t i = 0; i < GPUS; i++)
        if (played[i].present)
            show_gpu(i);
    if (!began)
        began_ns = node.time_ns;
    began = true;
    ledger_update(ledger, &node, holdings, holding_count, put_row, NULL);
    if (!lost)
        store_rows();
    for (size_t i = 0; i < GPUS; i++) {
        if (lost)
            continue; /* as if there had been no such tick */
        if (played[i].present)
            model_tick(&played[i]);
        else
            played[i].counted = false;
    }
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void check_near(const char *what, double found, double expected, double scale)
{
    static char text[160];

    if (failed || fabs(found - expected) <= 1e-6 * (scale + 1e3))
        return;
    snprintf(text, sizeof text, "%s: %.0f, not %.0f", what, found, expected);
    failed = text;
}

static void check_gpu(size_t i)
{
    const Played *g = &played[i];
    double alloc[OWNERS + 1] = {0}, eff[OWNERS + 1] = {0}, unhealthy[OWNERS + 1] = {0}, unknown = 0, energy = 0;
    uint64_t total = 0;
    char key[32];

    snprintf(key, sizeof key, "gpu/GPU-%zu", i);
    for (size_t k = 0; k < row_count; k++) {
        const LedgerRow *row = &rows[k];
        const int owner = row->held ? atoi(row->owner.user + 4) : OWNERS;

        if (ledger_gpu_key_len(row->device) != strlen(key) || strncmp(row->device, key, strlen(key)) != 0)
            continue;
        alloc[owner] += (double)row->amounts[LEDGER_ALLOC_NS];
        eff[owner] += (double)row->amounts[LEDGER_EFF_NS];
        unhealthy[owner] += (double)row->amounts[LEDGER_UNHEALTHY_NS];
        unknown += (double)row->amounts[LEDGER_GAPS_NS];
        energy += (double)row->amounts[LEDGER_ACTIVE_MJ] + (double)row->amounts[LEDGER_IDLE_MJ];
        total += row->amounts[LEDGER_ALLOC_NS] + row->amounts[LEDGER_UNHEALTHY_NS] + row->amounts[LEDGER_GAPS_NS];
        if (row->until_real_ns < row->from_real_ns)
            failed = "a row ends before it begins";
    }
    if (!failed && total != (uint64_t)g->total) /* to the nanosecond */
        check_near("the time of a GPU", (double)total, g->total, 0);
    check_near("unknown", unknown, g->unknown, g->total);
    check_near("energy", energy, g->energy, 0);
    for (int k = 0; k <= OWNERS; k++) {
        check_near("alloc", alloc[k], g->alloc[k], g->total);
        check_near("effective", eff[k], g->eff[k], g->total);
        check_near("unhealthy", unhealthy[k], g->unhealthy[k], g->total);
    }
}

static void pass_time(uint64_t seconds)
{
    node.time_ns += seconds * NS_PER_S;
    node.real_ns += seconds * NS_PER_S;
}

static void set_clock(void)
{
    const uint64_t step = draw(100000) * NS_PER_S;

    node.real_ns = draw(2) || node.real_ns < 2 * step ? node.real_ns + step : node.real_ns - step;
}

static Ledger *restart(Ledger *ledger)
{
    ledger_free(ledger);
    pass_time(draw(5000));
    if (draw(3) == 0)
        set_clock();
    if (draw(3) == 0) {
        snprintf(boot, sizeof boot, "boot-%d", (int)++boots);
        node.time_ns = (1 + draw(1000)) * NS_PER_S;
    }
    return start_ledger();
}

static void play_timeline(uint64_t seed)
{
    Ledger *ledger;
    uint64_t full_ticks = 0;

    rng = seed;
    failed = NULL;
    full = false;
    row_count = 0;
    memset(played, 0, sizeof played);
    node.time_ns = (1 + draw(1000)) * NS_PER_S;
    node.real_ns = UINT64_C(1700000000) * NS_PER_S + draw(100000) * NS_PER_S;
    snprintf(boot, sizeof boot, "boot-%d", (int)++boots);
    for (size_t i = 0; i < GPUS; i++) {
        played[i] = (Played){.present = draw(4) > 0, .up = true, .listed = true, .devices = 1};
        played[i].device[0].sm = 0.5;
        change_holders(&played[i].device[0]);
    }
    ledger = start_ledger();
    for (int tick = 0; tick < TICKS; tick++) {
        const bool kill = !full && full_ticks == 0 && draw(25) == 0, lost = kill && draw(2);

        full_ticks = full_ticks > 0 ? full_ticks - 1 : !kill && draw(20) == 0 ? 1 + draw(5) : 0;
        full = full_ticks > 0 && tick + 1 < TICKS;
        for (size_t i = 0; i < GPUS; i++)
            change_state(&played[i]);
        if (draw(30) == 0)
            set_clock();
        const uint64_t seconds = draw(10) ? 1 + draw(3) : draw(3) ? 1 + draw(10) : 1 + draw(4000);
        pass_time(seconds);
        for (size_t i = 0; i < GPUS; i++)
            played[i].energy_mj += (int64_t)(draw(700000) * seconds);
        run_tick(ledger, lost);
        if (kill)
            ledger = restart(ledger);
    }
    ledger_free(ledger);
    for (size_t i = 0; i < GPUS; i++)
        check_gpu(i);
}

int main(int argc, char **argv)
{
    const uint64_t from = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, count = argc > 1 ? 1 : TIMELINES;

    node.gpus = gpus;
    for (uint64_t seed = from; seed < from + count; seed++) {
        play_timeline(seed);
        if (failed) {
            printf("seed %llu: %s\n", (unsigned long long)seed, failed);
            return 1;
        }
    }
    printf("%llu timelines\n", (unsigned long long)count);
    return 0;
}
