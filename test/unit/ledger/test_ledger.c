/* SPDX-License-Identifier: Apache-2.0 */
/* engine/ledger: what a row says of its owner's time, when it ends, energy, and prices. The law that all of them add up
 * is test_ledger_timelines.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "engine/ledger/ledger.h"

#define START_REAL_NS (UINT64_C(490000) * NS_PER_H) /* a full hour */

typedef struct Rig {
    Ledger *ledger;
    Node node;
    NodeGpu gpu;
    Reading instances[2];
    Activity activity[2];
    Holding holdings[4];
    size_t holding_count;
    LedgerRows rows;
    bool full; /* no row can be kept */
    size_t refused;
    uint64_t charged_mj[2]; /* idle, active: at the last look */
} Rig;

static void set_metric(Reading *reading, MetricId id, double value)
{
    if (metric_get(id)->value == METRIC_INT64)
        sample_set_int64(&reading->sample[id], 1, (int64_t)value);
    else
        sample_set_double(&reading->sample[id], 1, value);
}

static int set_up(void **state)
{
    Rig *rig = calloc(1, sizeof *rig);

    if (!rig)
        return -1;
    rig->ledger = ledger_new(&(LedgerRows){0}, "boot", 100);
    rig->node = (Node){.time_ns = 1000 * NS_PER_S, .real_ns = START_REAL_NS, .gpu_count = 1, .gpus = &rig->gpu};
    reading_init(&rig->gpu.reading, DEVICE_GPU);
    snprintf(rig->gpu.reading.device.uuid, sizeof rig->gpu.reading.device.uuid, "GPU-1");
    snprintf(rig->gpu.reading.device.name, sizeof rig->gpu.reading.device.name, "NVIDIA H100 80GB HBM3");
    rig->gpu.state = GPU_UP;
    rig->gpu.gpm = true;
    rig->gpu.process_list = (Sample){.valid = true};
    rig->gpu.instances = rig->instances;
    rig->gpu.instance_activity = rig->activity;
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    Rig *rig = *state;

    ledger_free(rig->ledger);
    vec_done(&rig->rows);
    free(rig);
    return 0;
}

static bool put_row(void *self, const LedgerRow *row)
{
    Rig *rig = self;

    rig->refused += rig->full;
    for (size_t i = 0; i < rig->rows.len && !rig->full; i++)
        if (rig->rows.at[i].id == row->id) {
            rig->rows.at[i] = *row;
            return true;
        }
    if (!rig->full)
        vec_push(&rig->rows, *row);
    return !rig->full;
}

static void tick(Rig *rig, uint64_t seconds)
{
    rig->node.time_ns += seconds * NS_PER_S;
    rig->node.real_ns += seconds * NS_PER_S;
    ledger_update(rig->ledger, &rig->node, rig->holdings, rig->holding_count, put_row, rig);
}

static void run_ticks(Rig *rig, int count)
{
    for (int i = 0; i < count; i++)
        tick(rig, 1);
}

static Holding *hold(Rig *rig, const char *user, double share)
{
    Holding *h = &rig->holdings[rig->holding_count++];

    *h = (Holding){.gpu_instance = DEVICE_NO_NUMBER,
                   .compute_instance = DEVICE_NO_NUMBER,
                   .attribution = ATTRIBUTION_EXCLUSIVE,
                   .share = share,
                   .sm_share = NAN};
    snprintf(h->owner.user, sizeof h->owner.user, "%s", user);
    return h;
}

static const LedgerRow *row_of(const Rig *rig, const char *user)
{
    const LedgerRow *found = NULL;

    for (size_t i = 0; i < rig->rows.len; i++)
        if (strcmp(rig->rows.at[i].owner.user, user) == 0)
            found = &rig->rows.at[i];
    if (!found)
        fail_msg("no row of '%s'", user);
    return found;
}

#define assert_seconds(row, amount, seconds) assert_int_equal((row)->amounts[amount], (seconds) * (double)NS_PER_S)

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void what_an_owner_did(void **state)
{
    Rig *rig = *state;
    Holding *h = hold(rig, "ann", 1);

    h->memory_bytes = 1000;
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0.5);
    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 90);
    set_metric(&rig->gpu.reading, METRIC_PROF_PIPE_TENSOR_ACTIVE, 0.25);
    run_ticks(rig, 11);
    const LedgerRow *row = row_of(rig, "ann");
    assert_int_equal(rig->rows.len, 1);
    assert_int_equal(row->id, 100);
    assert_string_equal(row->device, "gpu/GPU-1");
    assert_int_equal(row->quality, LEDGER_QUALITY_GPM);
    assert_int_equal(row->until_real_ns - row->from_real_ns, 10 * NS_PER_S);
    assert_seconds(row, LEDGER_ALLOC_NS, 10);
    assert_seconds(row, LEDGER_MEASURED_NS, 10);
    assert_seconds(row, LEDGER_EFF_NS, 5);
    assert_seconds(row, LEDGER_BUSY_NS, 9);
    assert_seconds(row, LEDGER_TENSOR_NS, 2.5);
    assert_seconds(row, LEDGER_IDLE_NS, 0);
    assert_seconds(row, LEDGER_THROTTLED_NS, 0);
    assert_int_equal(row->amounts[LEDGER_MEMORY_BYTE_S], 10000);
}

/* The most memory at one tick, and the busiest minute since the row's begin; a minute that is not over counts from its
 * half on, or where there is no other. */
static void peaks_of_a_row(void **state)
{
    Rig *rig = *state;
    Holding *h = hold(rig, "ann", 1);

    h->memory_bytes = 1000;
    tick(rig, 1); /* the first tick of a GPU has no time */
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 1);
    run_ticks(rig, 6);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 1000000);
    h->memory_bytes = 3000;
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0);
    run_ticks(rig, 54);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 100000);
    h->memory_bytes = 2000;
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0.5);
    run_ticks(rig, 29);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 100000);
    tick(rig, 1);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 500000);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_MEMORY], 3000);
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0);
    run_ticks(rig, 200);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 250000);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_MEMORY], 3000);
}

/* Of those who share a device each has the device's SM activity, and its own memory. */
static void peaks_of_sharers(void **state)
{
    Rig *rig = *state;

    hold(rig, "ann", 0.25)->memory_bytes = 1000;
    hold(rig, "bob", 0.75)->memory_bytes = 2000;
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0.5);
    run_ticks(rig, 11);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_SM], 500000);
    assert_int_equal(row_of(rig, "bob")->peaks[LEDGER_PEAK_SM], 500000);
    assert_int_equal(row_of(rig, "ann")->peaks[LEDGER_PEAK_MEMORY], 1000);
    assert_int_equal(row_of(rig, "bob")->peaks[LEDGER_PEAK_MEMORY], 2000);
}

/* The best source of SM activity is used and named. */
static void the_quality_is_said(void **state)
{
    static const struct {
        MetricId metric;
        double value;
        bool gpm;
        LedgerQuality quality;
    } cases[] = {
        {METRIC_GPU_UTIL, 50, true, LEDGER_QUALITY_UTIL},
        {METRIC_PROF_GR_ENGINE_ACTIVE, 0.4, false, LEDGER_QUALITY_DCP},
        {METRIC_PROF_SM_ACTIVE, 0.3, true, LEDGER_QUALITY_GPM},
    };
    Rig *rig = *state;

    hold(rig, "ann", 1);
    run_ticks(rig, 3);
    assert_int_equal(row_of(rig, "ann")->quality, LEDGER_QUALITY_NONE);
    assert_seconds(row_of(rig, "ann"), LEDGER_MEASURED_NS, 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set_metric(&rig->gpu.reading, cases[i].metric, cases[i].value);
        rig->gpu.gpm = cases[i].gpm;
        tick(rig, 1);
        assert_int_equal(row_of(rig, "ann")->quality, cases[i].quality);
        assert_int_equal(rig->rows.len, i + 1); /* another source is another row; a first one is not */
    }
    sample_set_absent(&rig->gpu.reading.sample[METRIC_PROF_SM_ACTIVE], 1, ABSENCE_NO_DATA);
    sample_set_absent(&rig->gpu.reading.sample[METRIC_PROF_GR_ENGINE_ACTIVE], 1, ABSENCE_NO_DATA);
    sample_set_absent(&rig->gpu.reading.sample[METRIC_GPU_UTIL], 1, ABSENCE_NO_DATA);
    tick(rig, 1); /* a second without a reading stays in its row */
    assert_int_equal(rig->rows.len, 3);
}

static void held_back_and_idle(void **state)
{
    Rig *rig = *state;
    Holding *h = hold(rig, "ann", 1);

    tick(rig, 1);
    set_metric(&rig->gpu.reading, METRIC_CLOCKS_EVENT_REASONS, 0x04); /* the power cap is the board's rating */
    tick(rig, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_THROTTLED_NS, 0);
    set_metric(&rig->gpu.reading, METRIC_CLOCKS_EVENT_REASONS, 0x40 | 0x04);
    tick(rig, 2);
    assert_seconds(row_of(rig, "ann"), LEDGER_THROTTLED_NS, 2);
    set_metric(&rig->gpu.reading, METRIC_CLOCKS_EVENT_REASONS, 0);
    h->state = HOLDING_RESERVED;
    tick(rig, 3);
    h->state = HOLDING_IDLE_HELD;
    tick(rig, 4);
    h->state = HOLDING_UNMANAGED;
    tick(rig, 5);
    assert_seconds(row_of(rig, "ann"), LEDGER_IDLE_NS, 7);
    rig->gpu.activity.word = ACTIVITY_IDLE_HELD;
    tick(rig, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_IDLE_NS, 8);
}

/* A row ends a minute after its owner left, at the full hour, and when the clock is set; its id grows then. */
static void when_a_row_ends(void **state)
{
    Rig *rig = *state;

    hold(rig, "ann", 1);
    run_ticks(rig, 2);
    rig->holding_count = 0;
    run_ticks(rig, 59);
    rig->holding_count = 1;
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 2); /* ann's, nobody's */
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 2);
    assert_int_equal(ledger_closed_id(rig->ledger), row_of(rig, "ann")->id);
    rig->holding_count = 0;
    run_ticks(rig, 62);
    rig->holding_count = 1;
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 3);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 1);
    rig->node.real_ns += 3 * NS_PER_S;
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 4);
    assert_int_equal(ledger_closed_id(rig->ledger), rig->rows.at[3].id);
    while (rig->node.real_ns < START_REAL_NS + NS_PER_H - NS_PER_S)
        tick(rig, 1);
    tick(rig, 2); /* over the full hour */
    assert_int_equal(rig->rows.len, 4);
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 5);
    assert_int_equal(rig->rows.at[4].from_real_ns, rig->rows.at[3].until_real_ns);
}

/* What happened in a pause of the agent is not known; ten seconds are. */
static uint64_t sum_time(const Rig *rig)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < rig->rows.len; i++) {
        const uint64_t *a = rig->rows.at[i].amounts;

        sum += a[LEDGER_ALLOC_NS] + a[LEDGER_UNHEALTHY_NS] + a[LEDGER_GAPS_NS];
    }
    return sum;
}

/* Rows that cannot be kept, over an hour's end and past their owners, are kept when there is room again. */
static void rows_wait_for_room(void **state)
{
    Rig *rig = *state;
    const uint64_t start_ns = rig->node.time_ns + NS_PER_S;

    tick(rig, 1);
    hold(rig, "ann", 1);
    run_ticks(rig, 5);
    rig->full = true;
    run_ticks(rig, 5);
    rig->holding_count = 0;
    hold(rig, "bob", 1);
    for (int i = 0; i < 600; i++)
        tick(rig, 9);
    rig->holding_count = 0;
    hold(rig, "cid", 1);
    run_ticks(rig, 100);
    rig->full = false;
    tick(rig, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 10);
    assert_seconds(row_of(rig, "cid"), LEDGER_ALLOC_NS, 101);
    assert_int_equal(sum_time(rig), rig->node.time_ns - start_ns);
    rig->refused = 0;
    rig->full = true;
    tick(rig, 1);
    assert_int_equal(rig->refused, 1); /* the others are closed */
}

/* Only so many owners' rows wait: the time of further ones stays, as time of which the owner is not known. */
static void no_time_is_lost_without_room(void **state)
{
    Rig *rig = *state;
    const uint64_t start_ns = rig->node.time_ns + NS_PER_S;
    char user[16];

    tick(rig, 1);
    rig->full = true;
    for (int i = 0; i < 200; i++) {
        rig->holding_count = 0;
        snprintf(user, sizeof user, "u%d", i);
        hold(rig, user, 1);
        run_ticks(rig, 10);
    }
    assert_true(rig->refused < 200 * 10 * 80);
    rig->full = false;
    tick(rig, 1);
    assert_seconds(row_of(rig, "u199"), LEDGER_ALLOC_NS, 11);
    assert_true(rig->rows.len < 200);
    assert_int_equal(sum_time(rig), rig->node.time_ns - start_ns);
}

/* A GPU that is taken out while its rows wait; what it is back for counts from its first tick on. */
static void rows_of_a_gpu_that_was_taken_out_wait(void **state)
{
    Rig *rig = *state;

    tick(rig, 1);
    hold(rig, "ann", 1);
    rig->full = true;
    run_ticks(rig, 5);
    rig->node.gpu_count = 0;
    run_ticks(rig, 20);
    assert_int_equal(ledger_closed_id(rig->ledger), 100);
    rig->node.gpu_count = 1;
    run_ticks(rig, 4);
    rig->node.gpu_count = 0;
    tick(rig, 1);
    rig->full = false;
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 2);
    assert_seconds(&rig->rows.at[0], LEDGER_ALLOC_NS, 5);
    assert_seconds(&rig->rows.at[1], LEDGER_ALLOC_NS, 3);
    assert_int_equal(ledger_closed_id(rig->ledger), 102);
}

/* The GPU says who it is while the rows under its address wait. */
static void rows_of_an_address_wait(void **state)
{
    Rig *rig = *state;

    rig->gpu.reading.device.uuid[0] = '\0';
    rig->gpu.reading.device.has_pci = true;
    hold(rig, "ann", 1);
    rig->full = true;
    run_ticks(rig, 4);
    snprintf(rig->gpu.reading.device.uuid, sizeof rig->gpu.reading.device.uuid, "GPU-1");
    run_ticks(rig, 2);
    rig->full = false;
    tick(rig, 1);
    assert_int_equal(rig->rows.len, 2);
    assert_seconds(&rig->rows.at[0], LEDGER_ALLOC_NS, 3);
    assert_seconds(&rig->rows.at[1], LEDGER_ALLOC_NS, 3);
}

static void a_gap_is_not_known(void **state)
{
    Rig *rig = *state;

    hold(rig, "ann", 1);
    tick(rig, 1);
    tick(rig, 10);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 10);
    tick(rig, 11);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 10);
    assert_seconds(row_of(rig, ""), LEDGER_GAPS_NS, 11);
}

/* A GPU that says late who it is counts from there. A restart in the same boot trusts the monotonic clock. */
static void a_restart_is_not_known(void **state)
{
    Rig *rig = *state;
    LedgerRows last = {0};

    hold(rig, "ann", 1);
    run_ticks(rig, 11);
    for (size_t i = rig->rows.len; i-- > 0;)
        ledger_find_last(&last, &rig->rows.at[i]);
    ledger_free(rig->ledger);
    rig->ledger = ledger_new(&last, "boot", 200);
    vec_done(&last);
    rig->node.real_ns += NS_PER_DAY;
    rig->gpu.state = GPU_STARTING;
    rig->gpu.reading.device.uuid[0] = '\0';
    tick(rig, 30);
    assert_int_equal(rig->rows.len, 1);
    rig->gpu.state = GPU_UP;
    snprintf(rig->gpu.reading.device.uuid, sizeof rig->gpu.reading.device.uuid, "GPU-1");
    tick(rig, 5);
    assert_int_equal(rig->rows.len, 2);
    assert_seconds(&rig->rows.at[1], LEDGER_GAPS_NS, 35);
    assert_int_equal(rig->rows.at[1].id, 200);
    assert_int_equal(rig->rows.at[1].until_real_ns, rig->node.real_ns);
}

static void split_gpu(Rig *rig, const char *first, const char *second)
{
    const char *const profiles[] = {first, second};

    rig->gpu.instance_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        reading_init(&rig->instances[i], DEVICE_COMPUTE_INSTANCE);
        rig->instances[i].device = rig->gpu.reading.device;
        device_make_part(&rig->instances[i].device, DEVICE_COMPUTE_INSTANCE);
        rig->instances[i].device.gpu_instance = i + 1;
        rig->instances[i].device.compute_instance = 0;
        snprintf(rig->instances[i].profile, sizeof rig->instances[i].profile, "%s", profiles[i]);
    }
}

/* A GPU split into 3 + 1 of seven slices: three are nobody's, and are the GPU's. */
static void a_split_gpu(void **state)
{
    Rig *rig = *state;

    split_gpu(rig, "3g.40gb", "1g.10gb");
    hold(rig, "ann", 0.5)->gpu_instance = 1;
    hold(rig, "bob", 0.5)->gpu_instance = 1;
    set_metric(&rig->instances[0], METRIC_PROF_SM_ACTIVE, 1);
    tick(rig, 1);
    tick(rig, 7);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 1.5);
    assert_seconds(row_of(rig, "bob"), LEDGER_EFF_NS, 1.5);
    assert_string_equal(row_of(rig, "ann")->device, "gpu/GPU-1/gi/1/ci/0");
    assert_string_equal(row_of(rig, "ann")->profile, "3g.40gb");
    uint64_t free_ns = 0;
    for (size_t i = 0; i < rig->rows.len; i++)
        if (!rig->rows.at[i].held)
            free_ns += rig->rows.at[i].amounts[LEDGER_ALLOC_NS];
    assert_int_equal(free_ns, 4 * NS_PER_S);
    assert_int_equal(rig->rows.len, 4);
}

/* Four slices make an A30; more slices than a board has are that board. */
static void boards_have_slices(void **state)
{
    Rig *rig = *state;

    snprintf(rig->gpu.reading.device.name, sizeof rig->gpu.reading.device.name, "NVIDIA A30");
    split_gpu(rig, "2g.12gb", "1g.6gb");
    hold(rig, "ann", 1)->gpu_instance = 1;
    tick(rig, 1);
    tick(rig, 8);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 4);
    split_gpu(rig, "6g.24gb", "2g.12gb");
    tick(rig, 8);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 4 + 6);
}

/* An account is part of who pays: a row has one. */
static void an_account_has_rows_of_its_own(void **state)
{
    Rig *rig = *state;
    Holding *h = hold(rig, "ann", 1);

    snprintf(h->owner.account, sizeof h->owner.account, "physics");
    tick(rig, 1);
    tick(rig, 2);
    snprintf(h->owner.account, sizeof h->owner.account, "biology");
    tick(rig, 3);
    assert_int_equal(rig->rows.len, 2);
    assert_string_equal(rig->rows.at[1].owner.account, "biology");
    assert_seconds(&rig->rows.at[1], LEDGER_ALLOC_NS, 3);
}

/* --- the start of a job ------------------------------------------------------------------------------------------- */

static const LedgerRow *free_row(const Rig *rig)
{
    size_t i = 0;

    while (i < rig->rows.len && rig->rows.at[i].held)
        i++;
    assert_true(i < rig->rows.len);
    return &rig->rows.at[i];
}

static Holding *hold_job(Rig *rig, const char *job)
{
    Holding *h = hold(rig, "", 1);

    snprintf(h->owner.job, sizeof h->owner.job, "%s", job);
    return h;
}

/* Slurm's answer: it began so long after the first tick. */
static void answer(Holding *h, uint64_t after_first_ns)
{
    snprintf(h->owner.user, sizeof h->owner.user, "ann");
    snprintf(h->owner.account, sizeof h->owner.account, "physics");
    h->given_real_ns = START_REAL_NS + NS_PER_S + after_first_ns;
}

/* All rows together are the time since the first tick, to the nanosecond. */
static void assert_law(const Rig *rig)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < rig->rows.len; i++) {
        const LedgerRow *row = &rig->rows.at[i];
        const uint64_t *a = row->amounts;

        sum += a[LEDGER_ALLOC_NS] + a[LEDGER_UNHEALTHY_NS] + a[LEDGER_GAPS_NS];
        assert_true(row->from_real_ns <= row->until_real_ns);
        for (LedgerAmount k = LEDGER_BUSY_NS; k <= LEDGER_THROTTLED_NS; k++)
            assert_true(a[k] <= a[LEDGER_ALLOC_NS]);
    }
    assert_int_equal(sum, rig->node.time_ns - 1001 * NS_PER_S);
}

static void a_job_begins_when_slurm_says(void **state)
{
    Rig *rig = *state;

    run_ticks(rig, 11); /* the first one counts from */
    Holding *h = hold_job(rig, "7");
    run_ticks(rig, 3);
    assert_seconds(free_row(rig), LEDGER_ALLOC_NS, 10);
    answer(h, 8 * NS_PER_S);
    run_ticks(rig, 1);
    assert_int_equal(rig->rows.len, 2); /* its seconds without an account are in the same row */
    assert_seconds(free_row(rig), LEDGER_ALLOC_NS, 8);
    assert_int_equal(free_row(rig)->until_real_ns, h->given_real_ns);
    const LedgerRow *row = row_of(rig, "ann");
    assert_string_equal(row->owner.account, "physics");
    assert_int_equal(row->from_real_ns, h->given_real_ns);
    assert_seconds(row, LEDGER_ALLOC_NS, 6);
    assert_seconds(row, LEDGER_IDLE_NS, 2); /* before it was seen */
    run_ticks(rig, 5);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 11);
    assert_law(rig);
    rig->holding_count = 0;
    run_ticks(rig, 5);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 11);
    assert_seconds(free_row(rig), LEDGER_ALLOC_NS, 13);
    assert_law(rig);
}

static void a_job_begins_within_the_tick_that_saw_it(void **state)
{
    Rig *rig = *state;

    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 100);
    run_ticks(rig, 11);
    Holding *h = hold_job(rig, "7");
    run_ticks(rig, 1);
    answer(h, 10 * NS_PER_S + 400 * NS_PER_MS);
    run_ticks(rig, 1);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_ALLOC_NS], 1600 * NS_PER_MS);
    assert_int_equal(row_of(rig, "ann")->from_real_ns, h->given_real_ns);
    assert_int_equal(free_row(rig)->amounts[LEDGER_ALLOC_NS], 10400 * NS_PER_MS);
    assert_law(rig);
}

/* What another owner had stays with that one; so does what is not known, and what several would divide. */
static void no_second_is_billed_twice(void **state)
{
    Rig *rig = *state;
    Holding *h;

    run_ticks(rig, 3);
    hold(rig, "bob", 1);
    run_ticks(rig, 4);
    rig->holding_count = 0;
    h = hold_job(rig, "7"); /* right behind him */
    answer(h, 0);
    run_ticks(rig, 2);
    assert_seconds(row_of(rig, "bob"), LEDGER_ALLOC_NS, 4);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 2);
    rig->holding_count = 0;
    run_ticks(rig, 3);
    h = hold_job(rig, "8"); /* free for three seconds, and not since it began */
    answer(h, 0);
    run_ticks(rig, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 4);
    assert_seconds(free_row(rig), LEDGER_ALLOC_NS, 2);
    rig->holding_count = 0;
    run_ticks(rig, 2);
    rig->gpu.state = GPU_LOST;
    run_ticks(rig, 2);
    rig->gpu.state = GPU_UP;
    run_ticks(rig, 1);
    h = hold_job(rig, "9");
    answer(h, 0);
    run_ticks(rig, 1);
    const LedgerRow *row = row_of(rig, "ann");
    assert_string_equal(row->owner.job, "9");
    assert_seconds(row, LEDGER_ALLOC_NS, 2); /* from when the GPU was known again */
    assert_law(rig);
    rig->holding_count = 0;
    run_ticks(rig, 2);
    hold(rig, "bob", 0.5);
    h = hold_job(rig, "10");
    h->share = 0.5;
    answer(h, 0);
    run_ticks(rig, 1);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_ALLOC_NS], NS_PER_S / 2);
    assert_law(rig);
}

/* Jobs of planted seconds, each seen up to two ticks late and explained up to four later: each has its own seconds. */
static void jobs_one_after_another(void **state)
{
    Rig *rig = *state;
    uint64_t held_ns = 0, began_ns = 0;
    int job = 0, seen_in = 0, answer_in = 0, left = 0, free_ticks = 0;

    srand(15);
    tick(rig, 1);
    for (int second = 0; second < 3000; second++) {
        if (left == 0 && free_ticks > 0 && rand() % 4 == 0) {
            job++;
            left = 8 + rand() % 20;
            seen_in = rand() % 3;
            answer_in = seen_in + rand() % 5;
            began_ns = rig->node.real_ns + (uint64_t)(rand() % 1000) * NS_PER_MS;
            held_ns += (uint64_t)left * NS_PER_S - (began_ns - rig->node.real_ns);
        }
        if (left > 0 && seen_in-- == 0)
            hold_job(rig, "")->owner.job[0] = (char)('0' + job % 10);
        if (left > 0 && answer_in-- == 0) {
            answer(&rig->holdings[0], 0);
            rig->holdings[0].given_real_ns = began_ns;
        }
        free_ticks = left > 0 ? 0 : free_ticks + 1;
        tick(rig, 1);
        if (left > 0 && --left == 0)
            rig->holding_count = 0;
        assert_law(rig);
    }
    uint64_t billed_ns = 0;
    for (size_t i = 0; i < rig->rows.len; i++)
        billed_ns += rig->rows.at[i].held ? rig->rows.at[i].amounts[LEDGER_ALLOC_NS] : 0;
    assert_true(job > 50);
    if (left > 0)
        held_ns -= (uint64_t)left * NS_PER_S;
    assert_int_equal(billed_ns, held_ns);
}

/* Somebody whom nobody knows holds it: that is not free. */
static void an_unknown_owner_is_one(void **state)
{
    Rig *rig = *state;

    tick(rig, 1);
    tick(rig, 2);
    hold(rig, "", 1)->attribution = ATTRIBUTION_UNKNOWN;
    tick(rig, 3);
    assert_int_equal(rig->rows.len, 2);
    assert_false(rig->rows.at[0].held);
    assert_true(rig->rows.at[1].held);
    assert_seconds(&rig->rows.at[0], LEDGER_ALLOC_NS, 2);
    assert_seconds(&rig->rows.at[1], LEDGER_ALLOC_NS, 3);
}

static void set_processes(Holding *h, const HoldingProcess *processes, size_t count)
{
    h->processes = processes;
    h->process_count = count;
    h->owner.pid = (int32_t)processes[0].pid;
}

/* A process is on the GPU before it is known whose it is: that time is its owner's, not nobody's known. */
static void a_new_process_is_its_owners_from_the_first_tick(void **state)
{
    static const HoldingProcess processes[] = {{.pid = 77}};
    Rig *rig = *state;
    Holding *h = hold(rig, "", 1);

    set_processes(h, processes, 1);
    h->attribution = ATTRIBUTION_UNKNOWN;
    run_ticks(rig, 3);
    snprintf(h->owner.user, sizeof h->owner.user, "ann");
    h->attribution = ATTRIBUTION_EXCLUSIVE;
    run_ticks(rig, 2);
    assert_int_equal(rig->rows.len, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 4);
    assert_int_equal(row_of(rig, "ann")->share_kind, ATTRIBUTION_EXCLUSIVE);
}

/* Several owners' processes in one tick: the time before it is known whose they are becomes theirs by their shares. */
static void new_processes_of_several_owners(void **state)
{
    static const HoldingProcess processes[] = {{.pid = 77}, {.pid = 78}, {.pid = 79}};
    Rig *rig = *state;
    Holding *h;

    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 100);
    tick(rig, 1);
    h = hold(rig, "", 1);
    set_processes(h, processes, 3);
    h->attribution = ATTRIBUTION_UNKNOWN;
    tick(rig, 1);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 1);
    rig->holding_count = 0;
    set_processes(hold(rig, "ann", 0.75), processes, 1);
    h = hold(rig, "", 0.25);
    set_processes(h, processes + 1, 2);
    tick(rig, 1); /* all wait for the last */
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 0.75);
    snprintf(h->owner.user, sizeof h->owner.user, "bob");
    tick(rig, 1);
    uint64_t held_ns[2] = {0}, busy_ns = 0;
    for (size_t i = 0; i < rig->rows.len; i++) {
        held_ns[strcmp(rig->rows.at[i].owner.user, "ann") == 0] += rig->rows.at[i].amounts[LEDGER_ALLOC_NS];
        busy_ns += rig->rows.at[i].amounts[LEDGER_BUSY_NS];
    }
    assert_int_equal(held_ns[1], 2250 * NS_PER_MS);
    assert_int_equal(held_ns[0], 750 * NS_PER_MS);
    assert_int_equal(busy_ns, 3 * NS_PER_S);
    assert_law(rig);
}

/* What was hidden for longer, what has ended, and one of two are not known: that time stays so. */
static void what_stays_unknown(void **state)
{
    static const HoldingProcess processes[] = {{.pid = 77}, {.pid = 78}, {.pid = 79}};
    Rig *rig = *state;
    Holding *h = hold(rig, "", 1);

    tick(rig, 1);
    set_processes(h, processes, 2);
    tick(rig, 1);
    set_processes(h, processes, 1);
    snprintf(h->owner.user, sizeof h->owner.user, "ann");
    tick(rig, 1);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 1);
    h->owner.user[0] = '\0';
    set_processes(h, processes + 2, 1);
    run_ticks(rig, 5);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 5);
    snprintf(h->owner.user, sizeof h->owner.user, "bob");
    tick(rig, 1);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 5);
    assert_seconds(row_of(rig, "bob"), LEDGER_ALLOC_NS, 1);
    h->owner.user[0] = '\0';
    set_processes(h, processes + 1, 1);
    tick(rig, 1);
    set_processes(h, processes, 1);
    snprintf(h->owner.user, sizeof h->owner.user, "ann");
    tick(rig, 1);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 1);
    assert_seconds(row_of(rig, "ann"), LEDGER_ALLOC_NS, 2);
}

/* --- energy ------------------------------------------------------------------------------------------------------- */

static void take_energy(Rig *rig, double watts, uint64_t seconds)
{
    int64_t before = 0;

    (void)sample_int64(&rig->gpu.reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], &before);
    set_metric(&rig->gpu.reading, METRIC_TOTAL_ENERGY_CONSUMPTION, (double)before + watts * 1000 * (double)seconds);
    tick(rig, seconds);
}

static void take_energies(Rig *rig, double watts, int seconds)
{
    for (int i = 0; i < seconds; i++)
        take_energy(rig, watts, 1);
}

static uint64_t sum_energy(const Rig *rig, LedgerAmount amount)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < rig->rows.len; i++)
        sum += rig->rows.at[i].held ? rig->rows.at[i].amounts[amount] : 0;
    return sum;
}

/* What holders were charged as idle and as active energy since the last call of this. */
static void assert_charged(Rig *rig, uint64_t idle_j, uint64_t active_j)
{
    const uint64_t idle = sum_energy(rig, LEDGER_IDLE_MJ), active = sum_energy(rig, LEDGER_ACTIVE_MJ);

    assert_int_equal(idle - rig->charged_mj[0], idle_j * 1000);
    assert_int_equal(active - rig->charged_mj[1], active_j * 1000);
    rig->charged_mj[0] = idle;
    rig->charged_mj[1] = active;
}

/* Idle power is learnt while nobody holds the GPU, some seconds after the last work, and charged to who holds it; above
 * it counts what they did. */
static void energy_is_charged_to_holders(void **state)
{
    Rig *rig = *state;

    take_energy(rig, 70, 1); /* counts from here; the first reading of the counter says nothing */
    take_energies(rig, 400, 10);
    take_energies(rig, 70, 2);
    assert_int_equal(row_of(rig, "")->amounts[LEDGER_IDLE_MJ], 3740000);
    hold(rig, "ann", 0.5);
    hold(rig, "bob", 0.5);
    set_metric(&rig->gpu.reading, METRIC_PROF_SM_ACTIVE, 0.8);
    take_energy(rig, 470, 10);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_IDLE_MJ], 350000);
    assert_int_equal(row_of(rig, "bob")->amounts[LEDGER_ACTIVE_MJ], 2000000);
    assert_charged(rig, 700, 4000);
    rig->holding_count = 0;
    take_energies(rig, 300, 11);
    take_energy(rig, 86, 1);
    rig->holding_count = 1;
    take_energy(rig, 71, 1); /* learnt slowly: a sixteenth of the difference */
    assert_charged(rig, 71, 0);
    take_energy(rig, 80, 1);
    assert_charged(rig, 71, 9);
    take_energy(rig, 40, 1);
    assert_charged(rig, 40, 0);
}

/* Of a GPU that was never free the power while it was held and nothing ran is known, until it is free. Before that,
 * nothing: no energy is idle then. */
static void idle_power_of_a_gpu_that_was_never_free(void **state)
{
    Rig *rig = *state;

    hold(rig, "ann", 1);
    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 0);
    take_energy(rig, 500, 1);
    assert_charged(rig, 0, 0);
    take_energies(rig, 500, 20); /* it is not known to be idle, though the driver shows no work */
    assert_charged(rig, 0, 9500);
    rig->gpu.activity.word = ACTIVITY_IDLE_HELD;
    take_energies(rig, 130, 11);
    assert_charged(rig, 0, 1430);
    assert_true(ledger_idle(rig->ledger, "GPU-1").mw <= 0);
    take_energy(rig, 130, 1);
    assert_charged(rig, 130, 0);
    assert_true(ledger_idle(rig->ledger, "GPU-1").held);
    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 100); /* the word follows later */
    take_energy(rig, 600, 1);
    assert_charged(rig, 130, 470);
    rig->holding_count = 0;
    take_energies(rig, 70, 12);
    assert_false(ledger_idle(rig->ledger, "GPU-1").held);
    rig->holding_count = 1;
    set_metric(&rig->gpu.reading, METRIC_GPU_UTIL, 0);
    take_energies(rig, 130, 30); /* less is known better */
    assert_charged(rig, 2100, 1800);
}

/* Over restarts, and while the GPU is away. */
static void idle_power_is_kept(void **state)
{
    Rig *rig = *state;
    LedgerIdle idle;

    ledger_set_idle(rig->ledger, "GPU-1", (LedgerIdle){.mw = 75000, .held = true});
    hold(rig, "ann", 1);
    take_energies(rig, 500, 3);
    assert_charged(rig, 75, 425);
    rig->node.gpu_count = 0;
    tick(rig, 1);
    idle = ledger_idle(rig->ledger, "GPU-1");
    assert_true(idle.held && idle.mw > 74999 && idle.mw < 75001);
    rig->node.gpu_count = 1;
    take_energies(rig, 500, 3);
    assert_charged(rig, 75, 425);
}

/* What 'stoker bench' does on a GPU is nobody's time, and no free GPU that says what an idle one takes; of a job that
 * tests its own GPU it is the job's. */
static void the_time_of_a_test(void **state)
{
    static const HoldingProcess processes[] = {{.pid = 77, .name = "stoker-bench"}};
    Rig *rig = *state;
    Holding *h = hold(rig, "root", 1);

    set_processes(h, processes, 1);
    rig->gpu.process_count = 1;
    take_energies(rig, 700, 21);
    assert_seconds(row_of(rig, ""), LEDGER_ALLOC_NS, 20);
    assert_int_equal(rig->rows.len, 1);
    assert_false(row_of(rig, "")->held);
    assert_true(ledger_idle(rig->ledger, "GPU-1").mw <= 0);
    snprintf(h->owner.job, sizeof h->owner.job, "4712");
    run_ticks(rig, 2);
    assert_seconds(row_of(rig, "root"), LEDGER_ALLOC_NS, 2);
}

/* A counter that began anew, or is missing: the power it takes now. */
static void energy_without_a_counter(void **state)
{
    Rig *rig = *state;

    hold(rig, "ann", 1);
    set_metric(&rig->gpu.reading, METRIC_POWER_USAGE, 300);
    tick(rig, 1);
    tick(rig, 2);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_ACTIVE_MJ], 600000);
    take_energy(rig, 100, 1); /* the first reading says nothing */
    take_energy(rig, 100, 1);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_ACTIVE_MJ], 700000);
    set_metric(&rig->gpu.reading, METRIC_TOTAL_ENERGY_CONSUMPTION, 5);
    tick(rig, 1);
    assert_int_equal(row_of(rig, "ann")->amounts[LEDGER_ACTIVE_MJ], 1000000);
    tick(rig, 20); /* a gap has no power of its own */
    assert_int_equal(row_of(rig, "")->amounts[LEDGER_ACTIVE_MJ], 0);
}

/* --- prices ------------------------------------------------------------------------------------------------------- */

typedef struct Schedule {
    Arena arena;
    const Prices *prices;
    Err err;
} Schedule;

static int read_schedule(Schedule *s, const char *text)
{
    const YamlNode *root;

    *s = (Schedule){0};
    if (yaml_load("stoker.yaml", text, strlen(text), &s->arena, &root, &s->err) < 0)
        fail_msg("%s", s->err.text);
    return prices_read(yaml_get(root, "prices"), &s->arena, &s->prices, &s->err);
}

static const char schedule[] = "prices:\n"
                               "  currency: EUR\n"
                               "  list:\n"
                               "    - {id: any, on_demand: 1}\n"
                               "    - {id: h100, board: h100, on_demand: 3}\n"
                               "    - {id: h100-2, board: h100, from: 2027-01-01, reserved: 2.5}\n"
                               "    - {id: slice, board: h100, mig: 1g.10gb, spot: 0.5}\n"
                               "    - id: own\n"
                               "      board: A100\n"
                               "      owned: {capital: 20000, residual: 2468, life_years: 4, utilization: 0.5,\n"
                               "              power_w: 500, pue: 1.2, price_per_kwh: 0.1, upkeep_per_year: 876.6}\n";

static void assert_price(const Schedule *s, const char *board, const char *profile, const char *at, double slices,
                         const char *expected)
{
    char text[PRICE_TEXT_CAP];
    uint64_t real_ns;

    assert_int_equal(clock_parse(at, &real_ns, NULL), 0);
    prices_find(s->prices, board, profile, slices, real_ns, text);
    assert_string_equal(text, expected);
}

static void the_price_in_force(void **state UNUSED)
{
    Schedule s;
    PriceTag tag;

    if (read_schedule(&s, schedule) < 0)
        fail_msg("%s", s.err.text);
    assert_price(&s, "NVIDIA L4", "", "2026-05-01T00:00:00Z", 1, "any on_demand 1 EUR");
    assert_price(&s, "NVIDIA H100 80GB HBM3", "", "2026-12-31T23:59:59Z", 1, "h100 on_demand 3 EUR");
    assert_price(&s, "NVIDIA H100 80GB HBM3", "", "2027-01-01T00:00:00Z", 1, "h100-2 reserved 2.5 EUR");
    assert_price(&s, "NVIDIA H100 80GB HBM3", "1g.10gb", "2026-05-01T00:00:00Z", 0.25, "slice spot 2 EUR");
    assert_price(&s, "NVIDIA H100 80GB HBM3", "3g.40gb", "2026-05-01T00:00:00Z", 0.25, "h100 on_demand 3 EUR");
    assert_price(&s, "NVIDIA A100-SXM4-40GB", "", "2026-05-01T00:00:00Z", 1, "own owned 1.16 EUR");
    assert_int_equal(price_tag_read("own owned 1.16 EUR", &tag), 0);
    assert_string_equal(tag.id, "own");
    assert_int_equal(tag.kind, PRICE_OWNED);
    assert_true(tag.per_hour > 1.1599 && tag.per_hour < 1.1601);
    assert_string_equal(tag.currency, "EUR");
    assert_int_not_equal(price_tag_read("", &tag), 0);
    assert_int_not_equal(price_tag_read("own owned x EUR", &tag), 0);
    assert_int_not_equal(price_tag_read("own owned 1 EUR more", &tag), 0);
    arena_done(&s.arena);
}

/* Whatever their order in the list. */
static void boards_with_names_alike(void **state UNUSED)
{
    static const char text[] = "prices:\n"
                               "  list:\n"
                               "    - {id: h100-pcie, board: H100 PCIe, on_demand: 2}\n"
                               "    - {id: l40s, board: l40s, on_demand: 1}\n"
                               "    - {id: l4, board: L4, on_demand: 0.5}\n"
                               "    - {id: h100, board: H100, on_demand: 3}\n"
                               "    - {id: a100, board: A100, on_demand: 1.5}\n";
    static const char at[] = "2026-05-01T00:00:00Z";
    Schedule s;

    if (read_schedule(&s, text) < 0)
        fail_msg("%s", s.err.text);
    assert_price(&s, "NVIDIA L40S", "", at, 1, "l40s on_demand 1 USD");
    assert_price(&s, "NVIDIA L4", "", at, 1, "l4 on_demand 0.5 USD");
    assert_price(&s, "NVIDIA L40", "", at, 1, "");
    assert_price(&s, "NVIDIA H100 PCIe", "", at, 1, "h100-pcie on_demand 2 USD");
    assert_price(&s, "NVIDIA GH100", "", at, 1, "");
    assert_price(&s, "NVIDIA A100-SXM4-40GB", "", at, 1, "a100 on_demand 1.5 USD");
    arena_done(&s.arena);
}

/* Behind the price, and where there is none. */
static void carbon_is_dated(void **state UNUSED)
{
    static const char dated[] = "prices: {list: [{id: h100, board: H100, spot: 2}], carbon: [{from: 2027-01-01, "
                                "g_per_kwh: 300}, {from: 2026-01-01, g_per_kwh: 400, pue: 1.25}]}";
    Schedule s;
    PriceTag tag;

    if (read_schedule(&s, dated) < 0)
        fail_msg("%s", s.err.text);
    assert_price(&s, "NVIDIA H100", "", "2026-01-01T00:00:00Z", 1, "h100 spot 2 USD g=500");
    assert_price(&s, "NVIDIA H100", "", "2027-01-01T00:00:00Z", 1, "h100 spot 2 USD g=300");
    assert_price(&s, "NVIDIA H100", "", "2025-12-31T23:59:59Z", 1, "h100 spot 2 USD");
    assert_price(&s, "NVIDIA L4", "", "2027-05-01T00:00:00Z", 1, "g=300");
    assert_int_equal(price_tag_read("h100 spot 2 USD g=500", &tag), 0);
    assert_true(tag.per_hour > 1.99 && tag.per_hour < 2.01);
    assert_string_equal(tag.currency, "USD");
    assert_true(price_read_carbon("h100 spot 2 USD g=500") > 499.9);
    assert_true(price_read_carbon("g=300") > 299.9);
    assert_int_not_equal(price_tag_read("g=300", &tag), 0);
    assert_true(isnan(price_read_carbon("h100 spot 2 USD")));
    assert_true(isnan(price_read_carbon("")));
    assert_true(isnan(price_read_carbon("g=x")));
    arena_done(&s.arena);
}

static void wrong_prices_are_named(void **state UNUSED)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"prices: {list: [{id: a}]}", "stoker.yaml:1:17: price 'a' needs one of"},
        {"prices: {list: [{on_demand: 1}]}", "a price needs an 'id'"},
        {"prices: {list: [{id: a, on_demand: 1, spot: 1}]}", "needs one of"},
        {"prices: {list: [{id: a, on_demand: -1}]}", "'on_demand' must be a number from 0"},
        {"prices: {list: [{id: a, per_hour: 1}]}", "'per_hour' is no key of a price"},
        {"prices: {list: [{id: a, spot: 1, from: soon}]}", "'from' must be a day"},
        {"prices: {list: [{id: 'a b', spot: 1}]}", "'id' must be"},
        {"prices: {list: [{id: a, spot: 1}, {id: a, spot: 2}]}", "two prices 'a'"},
        {"prices: {list: [{id: a, owned: {capital: 1}}]}", "'owned' needs 'life_years'"},
        {"prices: {list: [{id: a, owned: {capital: 1, life_years: 1, residual: 2}}]}", "more than 'capital'"},
        {"prices: {list: [{id: a, owned: {capital: 1, life: 1}}]}", "'life' is no key of 'owned'"},
        {"prices: {list: {}}", "must be a list"},
        {"prices: {lists: []}", "'lists' is no key of 'prices'"},
        {"prices: {currency: '', list: []}", "'currency' must be a code"},
        {"prices: {currency: USD}", "needs a 'list'"},
        {"prices: {list: [], carbon: [{from: 2026-01-01}]}", "needs 'g_per_kwh'"},
        {"prices: {list: [], carbon: [{g_per_kwh: 1, grams: 1}]}", "'grams' is no key of 'carbon'"},
        {"prices: {list: [], carbon: [{g_per_kwh: 1, pue: 0.5}]}", "'pue' must be a number from 1"},
        {"prices: {list: [], carbon: 300}", "'carbon' must be a list"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Schedule s;

        assert_int_not_equal(read_schedule(&s, cases[i].text), 0);
        if (!strstr(s.err.text, cases[i].error) || strncmp(s.err.text, "stoker.yaml:1:", 14) != 0)
            fail_msg("%s: %s", cases[i].text, s.err.text);
        arena_done(&s.arena);
    }
}

/* Rows keep the price under which they began; the next price has rows of its own. */
static void a_price_never_rewrites_the_past(void **state)
{
    Rig *rig = *state;
    Schedule s;

    assert_int_equal(read_schedule(&s, "prices: {list: [{id: a, spot: 1}]}"), 0);
    hold(rig, "ann", 1);
    ledger_set_prices(rig->ledger, s.prices);
    run_ticks(rig, 2);
    ledger_set_prices(rig->ledger, NULL);
    run_ticks(rig, 3);
    assert_int_equal(rig->rows.len, 2);
    assert_string_equal(rig->rows.at[0].price, "a spot 1 USD");
    assert_seconds(&rig->rows.at[0], LEDGER_ALLOC_NS, 1);
    assert_string_equal(rig->rows.at[1].price, "");
    assert_seconds(&rig->rows.at[1], LEDGER_ALLOC_NS, 3);
    arena_done(&s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_an_owner_did, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peaks_of_a_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peaks_of_sharers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_quality_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_back_and_idle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(when_a_row_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_wait_for_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_time_is_lost_without_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_a_gpu_that_was_taken_out_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_of_an_address_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_gap_is_not_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_is_not_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_split_gpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(boards_have_slices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_account_has_rows_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_owner_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_process_is_its_owners_from_the_first_tick, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_time_of_a_test, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_processes_of_several_owners, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_stays_unknown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_begins_when_slurm_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_begins_within_the_tick_that_saw_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_second_is_billed_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(jobs_one_after_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(energy_is_charged_to_holders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_power_of_a_gpu_that_was_never_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_power_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(energy_without_a_counter, set_up, tear_down),
        cmocka_unit_test(the_price_in_force),
        cmocka_unit_test(boards_with_names_alike),
        cmocka_unit_test(carbon_is_dated),
        cmocka_unit_test(wrong_prices_are_named),
        cmocka_unit_test_setup_teardown(a_price_never_rewrites_the_past, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
