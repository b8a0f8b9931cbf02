/* SPDX-License-Identifier: Apache-2.0 */
/* engine/jobs and service/jobs: what is kept of works that hold GPUs, over restarts and gaps, and what reports say. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/yaml.h"
#include "service/jobs/job_report.h"

enum { GPUS = 8, HOLDINGS_MAX = 160, INCIDENTS = 20, MIB = 1 << 20 };

/* A node, who holds what of it, and what was put. */
typedef struct Rig {
    Jobs *jobs;
    Ledger *ledger;
    VEC(LedgerRow) rows; /* of the ledger */
    Node node;
    NodeGpu gpus[GPUS];
    Why verdicts[GPUS];
    double energy_mj[GPUS];
    Holding holdings[HOLDINGS_MAX];
    size_t held;
    const Incident *incidents[INCIDENTS];
    size_t incident_count;
    JobInfoList infos;
    HostUsageList usages;
    const Prices *prices;
    JobReports put; /* each put, read from its JSON */
    uint64_t boot_real_ns;
} Rig;

static int open_rig(void **state)
{
    static Rig rig;

    memset(&rig, 0, sizeof rig);
    rig.jobs = jobs_new();
    rig.ledger = ledger_new(&(LedgerRows){0}, "", 1);
    rig.node.gpus = rig.gpus;
    rig.node.gpu_count = GPUS;
    rig.node.time_ns = NS_PER_H;
    rig.node.real_ns = 1700000000 * NS_PER_S;
    snprintf(rig.node.hostname, sizeof rig.node.hostname, "n1");
    for (uint32_t i = 0; i < GPUS; i++) {
        Reading *reading = &rig.gpus[i].reading;

        reading_init(reading, DEVICE_GPU);
        reading->device.index = i;
        reading->device.has_pci = true;
        reading->device.pci.bus = (uint8_t)(1 + i);
        snprintf(reading->device.uuid, sizeof reading->device.uuid, "GPU-%u", i);
        snprintf(reading->device.name, sizeof reading->device.name, "NVIDIA H100 80GB HBM3");
        rig.gpus[i].state = GPU_UP;
        rig.gpus[i].last_sample_ns = 1;
        rig.gpus[i].process_list.valid = true;
        rig.gpus[i].activity.word = ACTIVITY_WORKING;
        rig.verdicts[i] = (Why){.count = 1, .verdicts = {{.cause = WHY_TENSOR_CORES}}};
        rig.gpus[i].verdicts = &rig.verdicts[i];
        sample_set_double(&reading->sample[METRIC_PROF_SM_ACTIVE], 1, 0.8);
        sample_set_double(&reading->sample[METRIC_GPU_UTIL], 1, 100);
        sample_set_int64(&reading->sample[METRIC_FB_TOTAL], 1, 80000);
        sample_set_int64(&reading->sample[METRIC_FB_USED], 1, 30000);
    }
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    Rig *rig = *state;

    jobs_free(rig->jobs);
    ledger_free(rig->ledger);
    vec_done(&rig->rows);
    job_reports_done(&rig->put);
    return 0;
}

static void keep(void *self, const JobReport *report)
{
    CLEANUP(str_done) Str json = str_limited(1 << 20);
    Rig *rig = self;
    Err err;

    job_json(report, &json);
    assert_false(json.overflow);
    if (jobs_read(json.text, json.len, &rig->put, &err) < 0)
        fail_msg("%s", err.text);
}

static bool keep_row(void *self, const LedgerRow *row)
{
    Rig *rig = self;

    for (size_t i = 0; i < rig->rows.len; i++)
        if (rig->rows.at[i].id == row->id) {
            rig->rows.at[i] = *row;
            return true;
        }
    vec_push(&rig->rows, *row);
    return true;
}

static void tick_of(Rig *rig, double seconds)
{
    const Snapshot seen = {.node = &rig->node,
                           .holdings = rig->holdings,
                           .holding_count = rig->held,
                           .incidents = rig->incidents,
                           .incident_count = rig->incident_count,
                           .job_infos = rig->infos,
                           .host_usages = rig->usages,
                           .boot_real_ns = rig->boot_real_ns};

    rig->node.time_ns += (uint64_t)(seconds * 1e9);
    rig->node.real_ns += (uint64_t)(seconds * 1e9);
    for (size_t i = 0; i < GPUS; i++) {
        rig->energy_mj[i] += 500e3 * seconds; /* 500 W */
        sample_set_double(&rig->gpus[i].reading.sample[METRIC_TOTAL_ENERGY_CONSUMPTION], rig->node.time_ns,
                          rig->energy_mj[i]);
        sample_set_double(&rig->gpus[i].reading.sample[METRIC_POWER_USAGE], rig->node.time_ns, 500);
    }
    ledger_update(rig->ledger, &rig->node, rig->holdings, rig->held, keep_row, rig);
    jobs_update(rig->jobs, &seen, ledger_charges(rig->ledger), rig->prices, keep, rig);
}

static void ticks(Rig *rig, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tick_of(rig, 1);
}

static Holding *hold(Rig *rig, size_t gpu, double share)
{
    static const HoldingProcess process = {.pid = 100, .name = "python"};
    Holding *h = &rig->holdings[rig->held++];

    *h = (Holding){.gpu = gpu,
                   .gpu_instance = DEVICE_NO_NUMBER,
                   .compute_instance = DEVICE_NO_NUMBER,
                   .owner.pid = -1,
                   .state = HOLDING_USED,
                   .attribution = share < 1 ? ATTRIBUTION_SAMPLED : ATTRIBUTION_EXCLUSIVE,
                   .share = share,
                   .memory_bytes = 1000 * MIB,
                   .process_count = 1,
                   .processes = &process};
    return h;
}

static Holding *hold_job(Rig *rig, size_t gpu, double share, const char *job)
{
    Holding *h = hold(rig, gpu, share);

    snprintf(h->owner.job, sizeof h->owner.job, "%s", job);
    snprintf(h->owner.user, sizeof h->owner.user, "alice");
    return h;
}

static const JobReport *find_open(const Rig *rig, const char *name)
{
    for (size_t i = 0; i < jobs_count(rig->jobs); i++)
        if (job_is_named(jobs_at(rig->jobs, i), name))
            return jobs_at(rig->jobs, i);
    fail_msg("no open report of %s", name);
    return NULL;
}

static const JobReport *last_put(const Rig *rig)
{
    assert_true(rig->put.len > 0);
    return &rig->put.at[rig->put.len - 1];
}

static void assert_near(double is, double should)
{
    if (!(fabs(is - should) < 1e-4 * (1 + fabs(should))))
        fail_msg("%g is not %g", is, should);
}

static double sum_slices(const JobReport *r, bool busy)
{
    double sum = 0;

    for (size_t i = 0; i < JOB_SLICES; i++)
        sum += (double)(busy ? r->slices[i].busy : r->slices[i].held);
    return sum;
}

/* The agent is killed: a new one has what was put last. */
static void restart(Rig *rig, double down_s)
{
    JobReport kept = rig->put.at[--rig->put.len];

    jobs_free(rig->jobs);
    ledger_free(rig->ledger);
    rig->jobs = jobs_new();
    rig->ledger = ledger_new(&(LedgerRows){0}, "", rig->rows.len + 1);
    jobs_restore(rig->jobs, &kept);
    rig->node.time_ns = NS_PER_H; /* another boot, say */
    rig->node.real_ns += (uint64_t)(down_s * 1e9);
}

/* The report's GPU hours and energy are the ledger's, and all of its time is in its devices and slices. */
static void assert_as_ledger(const Rig *rig, const char *job)
{
    const JobReport *r = find_open(rig, job);
    double hours = 0, energy_mj = 0, held_s = 0;

    for (size_t i = 0; i < rig->rows.len; i++) {
        const LedgerRow *row = &rig->rows.at[i];

        if (strcmp(row->owner.job, job) != 0)
            continue;
        hours += (double)row->amounts[LEDGER_ALLOC_NS] / NS_PER_H;
        energy_mj += (double)(row->amounts[LEDGER_ACTIVE_MJ] + row->amounts[LEDGER_IDLE_MJ]);
    }
    assert_near(r->gpu_hours * 3600, hours * 3600);
    assert_near(job_energy_j(r), energy_mj / 1000);
    for (size_t i = 0; i < r->devices.len; i++)
        held_s += r->devices.at[i].held_s;
    assert_near(sum_slices(r, false), held_s);
}

/* --- one work ----------------------------------------------------------------------------------------------------- */

static void a_job_from_its_first_tick_to_its_end(void **state)
{
    Rig *rig = *state;
    static const JobInfo info = {.job = "4711", .name = "pretrain", .partition = "gpu", .nodes = 2, .limit_s = 86400};

    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 5);
    assert_int_equal(jobs_count(rig->jobs), 0);
    const uint64_t from = rig->node.real_ns;
    hold_job(rig, 0, 1, "4711");
    hold_job(rig, 1, 1, "4711");
    ticks(rig, 100);
    const JobReport *r = find_open(rig, "4711");
    assert_int_equal(r->devices.len, 2);
    assert_int_equal(r->seen_real_ns, from);
    assert_near(r->elapsed_s, 100);
    assert_near(r->gpu_hours, 200.0 / 3600);
    assert_near(job_mean(r, USAGE_SM), 0.8);
    assert_near(job_mean(r, USAGE_UTIL), 1);
    assert_near(job_energy_j(r), 2 * 500 * 100.0);
    assert_near(r->memory_peak_bytes, 2000.0 * MIB);
    assert_near(sum_slices(r, false), 200);
    assert_near(sum_slices(r, true), 160);
    assert_near((double)r->slices[3].why[WHY_TENSOR_CORES], 20);
    assert_string_equal(r->info.name, "pretrain");

    rig->held = 0;
    const uint64_t last = rig->node.real_ns;
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S) - 1);
    assert_int_equal(jobs_count(rig->jobs), 1);
    ticks(rig, 1);
    assert_int_equal(jobs_count(rig->jobs), 0);
    r = last_put(rig);
    assert_int_equal(r->ending, JOB_LEFT);
    assert_int_equal(r->last_real_ns / NS_PER_MS, last / NS_PER_MS);
    assert_near(r->elapsed_s, 100);
    assert_near(r->gpu_hours, 200.0 / 3600);
    assert_int_equal(r->info.nodes, 2);
    assert_string_equal(r->node, "n1");
}

static const UsageDevice *device_of(const JobReport *r, size_t i)
{
    assert_true(i < r->devices.len);
    return &r->devices.at[i];
}

/* It was seen 3 s before Slurm's answer, and had begun 8 s before that. */
static void a_job_begins_when_slurm_says(void **state)
{
    Rig *rig = *state;

    ticks(rig, 20);
    const uint64_t seen_ns = rig->node.real_ns;
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 1, "1");
    ticks(rig, 3);
    assert_near(find_open(rig, "1")->gpu_hours, 6.0 / 3600);
    for (size_t i = 0; i < 2; i++)
        rig->holdings[i].given_real_ns = seen_ns - 8 * NS_PER_S;
    ticks(rig, 2);
    const JobReport *r = find_open(rig, "1");
    assert_int_equal(r->seen_real_ns, seen_ns - 8 * NS_PER_S);
    assert_near(r->elapsed_s, 13);
    assert_near(r->gpu_hours, 26.0 / 3600);
    assert_near(device_of(r, 1)->held_s, 13);
    assert_near(device_of(r, 1)->share_s, 13);
    assert_near(device_of(r, 1)->activity_s[ACTIVITY_IDLE_HELD][0], 8);
    assert_near(job_mean(r, USAGE_SM), 0.8); /* of the time that was seen */
    assert_near((double)r->slices[0].held, 20);
    assert_near((double)r->slices[0].why[WHY_IDLE_HELD], 16);
    assert_near((double)r->slices[1].why[WHY_TENSOR_CORES], 6);
    assert_as_ledger(rig, "1");
    ticks(rig, 100);
    assert_as_ledger(rig, "1");
    assert_near(find_open(rig, "1")->elapsed_s, 113);
}

static void a_job_begins_within_the_tick_that_saw_it(void **state)
{
    Rig *rig = *state;

    ticks(rig, 20);
    const uint64_t given_ns = rig->node.real_ns + 600 * NS_PER_MS;
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 1, "1");
    ticks(rig, 2);
    rig->holdings[0].given_real_ns = rig->holdings[1].given_real_ns = given_ns;
    ticks(rig, 1);
    const JobReport *r = find_open(rig, "1");
    assert_int_equal(r->seen_real_ns, given_ns);
    assert_near(r->elapsed_s, 2.4);
    assert_near(r->gpu_hours, 4.8 / 3600);
    assert_near(device_of(r, 0)->held_s, 2.4);
    assert_near(device_of(r, 0)->verdict_s[ACTIVITY_WORKING][WHY_TENSOR_CORES][0], 2.4);
    assert_as_ledger(rig, "1");
}

/* Nobody pays for a GPU that cannot be used, as in the ledger. */
static void unusable_time_is_held_and_not_charged(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 10);
    rig->gpus[0].activity.word = ACTIVITY_UNUSABLE;
    rig->gpus[0].state = GPU_GONE;
    ticks(rig, 10);
    const JobReport *r = find_open(rig, "1");
    assert_near(device_of(r, 0)->held_s, 20);
    assert_near(r->gpu_hours, 10.0 / 3600);
    assert_as_ledger(rig, "1");
}

static void it_is_saved_soon_and_then_seldom(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 1);
    assert_int_equal(rig->put.len, 1);
    ticks(rig, 63);
    assert_int_equal(rig->put.len, 7); /* at 1, 2, 4, 8, 16, 32 and 64 s */
    for (size_t i = 0; i < rig->put.len; i++)
        assert_int_equal(rig->put.at[i].ending, JOB_RUNS);
    ticks(rig, 600);
    assert_int_equal(rig->put.len, 17);
    jobs_save(rig->jobs, keep, rig);
    assert_near(last_put(rig)->elapsed_s, 664);
}

static void two_jobs_on_one_gpu(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 0.25, "1");
    hold_job(rig, 0, 0.75, "2");
    ticks(rig, 40);
    const JobReport *one = find_open(rig, "1"), *two = find_open(rig, "2");
    assert_near(one->gpu_hours + two->gpu_hours, 40.0 / 3600);
    assert_near(job_mean(one, USAGE_SM), 0.2);
    assert_near(job_mean(two, USAGE_SM), 0.6);
    assert_near(job_energy_j(one) * 3, job_energy_j(two));
    assert_int_equal(usage_attribution(&one->devices.at[0]), ATTRIBUTION_SAMPLED);
}

static void an_instance_is_a_part_of_a_gpu(void **state)
{
    Rig *rig = *state;
    static Reading instance;
    static Why verdict = {.count = 1, .verdicts = {{.cause = WHY_SMALL_BATCH}}};
    static Activity activity = {.word = ACTIVITY_WORKING};

    reading_init(&instance, DEVICE_COMPUTE_INSTANCE);
    instance.device.gpu_instance = 7;
    instance.device.compute_instance = 0;
    snprintf(instance.device.uuid, sizeof instance.device.uuid, "MIG-a");
    snprintf(instance.device.parent_uuid, sizeof instance.device.parent_uuid, "GPU-0");
    snprintf(instance.profile, sizeof instance.profile, "3g.40gb");
    sample_set_double(&instance.sample[METRIC_PROF_SM_ACTIVE], 1, 0.5);
    rig->gpus[0].instances = &instance;
    rig->gpus[0].instance_count = 1;
    rig->gpus[0].instance_activity = &activity;
    rig->gpus[0].instance_verdicts = &verdict;
    const double part = reading_mig_share(&rig->gpus[0].reading, &instance);
    assert_true(part > 0.4 && part < 0.45);
    ticks(rig, 1);
    Holding *h = hold_job(rig, 0, 1, "1");
    h->gpu_instance = 7;
    h->compute_instance = 0;
    h->attribution = ATTRIBUTION_MIG;
    ticks(rig, 64);
    restart(rig, 10); /* what it is part of is kept */
    assert_near(find_open(rig, "1")->gpu_hours, part * 64 / 3600);
    ticks(rig, 11);
    const JobReport *r = find_open(rig, "1");
    assert_int_equal(r->devices.len, 1);
    assert_near(r->gpu_hours, part * 74 / 3600);
    assert_near(job_mean(r, USAGE_SM), 0.5);
    assert_near(job_energy_j(r), 500 * 74); /* nothing else works on the GPU */
    assert_near((double)r->slices[0].why[WHY_SMALL_BATCH], 10);
}

/* Whose process it was is found out a little later than that it runs. */
static void a_container_turns_out_to_be_a_pods(void **state)
{
    Rig *rig = *state;
    Holding *h = hold(rig, 0, 1);

    snprintf(h->owner.container, sizeof h->owner.container, "0123456789abcdef");
    h->owner.pid = 77;
    h->owner.start_ns = 5;
    ticks(rig, 3);
    assert_int_equal(find_open(rig, "0123456789abc")->kind, JOB_CONTAINER);
    snprintf(h->owner.container, sizeof h->owner.container, "main");
    snprintf(h->owner.pod, sizeof h->owner.pod, "chat-0");
    snprintf(h->owner.namespace, sizeof h->owner.namespace, "serving");
    snprintf(h->workload.name, sizeof h->workload.name, "chat");
    ticks(rig, 3);
    assert_int_equal(jobs_count(rig->jobs), 1);
    assert_int_equal(find_open(rig, "serving/chat-0")->kind, JOB_POD);
    jobs_save(rig->jobs, keep, rig);
    assert_string_equal(last_put(rig)->workload.name, "chat");
    assert_ptr_equal(find_open(rig, "chat-0"), find_open(rig, "serving/chat-0"));
    assert_near(find_open(rig, "chat-0")->elapsed_s, 5); /* nothing had passed at the first tick */
}

static void two_containers_of_a_pod_have_the_gpu_together(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    for (int i = 0; i < 2; i++) {
        Holding *h = hold(rig, 0, 0.5);

        snprintf(h->owner.pod, sizeof h->owner.pod, "pair");
        snprintf(h->owner.container, sizeof h->owner.container, "c%d", i);
    }
    ticks(rig, 10);
    const JobReport *r = find_open(rig, "pair");
    assert_int_equal(r->devices.len, 1);
    assert_near(r->gpu_hours, 10.0 / 3600);
    assert_int_equal(usage_attribution(&r->devices.at[0]), ATTRIBUTION_EXCLUSIVE);
}

/* Between two steps nobody of it is on the GPU. */
static void it_is_away_for_a_while(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 20);
    rig->held = 0;
    ticks(rig, 50);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 20);
    const JobReport *r = find_open(rig, "1");
    assert_near(r->elapsed_s, 90);
    assert_near(r->away_s, 50);
    assert_near(r->gpu_hours, 40.0 / 3600);
    assert_near(job_energy_j(r), 500 * 40.0); /* what others used meanwhile is not its own */
    assert_near((double)r->slices[4].held, 0);
}

/* Slurm gives a number again: its start time tells the two apart. */
static void a_number_that_is_given_again(void **state)
{
    Rig *rig = *state;
    JobInfo info = {.job = "1", .name = "first", .started = "2026-11-23T17:46:04"};

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 5);
    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 15);
    rig->held = 0;
    rig->infos = (JobInfoList){NULL, 0};
    ticks(rig, 30);
    hold_job(rig, 1, 1, "1");
    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 10); /* another step of the same job */
    assert_near(find_open(rig, "1")->elapsed_s, 60);
    const size_t before = rig->put.len;
    snprintf(info.started, sizeof info.started, "2026-11-23T17:49:00");
    snprintf(info.name, sizeof info.name, "second");
    ticks(rig, 10);
    assert_int_equal(jobs_count(rig->jobs), 1);
    const JobReport *r = find_open(rig, "1");
    assert_near(r->elapsed_s, 10);
    assert_string_equal(r->info.name, "second");
    assert_true(rig->put.len > before);
    size_t last = before;
    while (last < rig->put.len && rig->put.at[last].ending != JOB_LEFT)
        last++;
    assert_true(last < rig->put.len);
    const JobReport *ended = &rig->put.at[last];
    assert_string_equal(ended->info.name, "first");
    assert_string_equal(ended->info.started, "2026-11-23T17:46:04");
    assert_near(ended->elapsed_s, 60);
    assert_string_not_equal(ended->id, r->id);
    restart(rig, 5);
    snprintf(info.started, sizeof info.started, "2026-11-23T18:00:00"); /* again, while no agent ran */
    ticks(rig, 10);
    assert_int_equal(jobs_count(rig->jobs), 1);
    assert_near(find_open(rig, "1")->elapsed_s, 9); /* the first tick has no length */
}

static void what_it_used_of_the_host(void **state)
{
    Rig *rig = *state;
    HostUsage usage = {.job = "1", .cpu_s = 10, .cpus = NAN, .memory_bytes = 5 * MIB, .memory_limit_bytes = NAN};
    JobInfo info = {.job = "1", .nodes = 2, .cpus = 16, .started = "2026-11-23T17:46:04"};

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 1, "2");
    ticks(rig, 1);
    const JobReport *r = find_open(rig, "1");
    assert_true(isnan(r->host.cpu_s) && isnan(r->host.memory_peak_bytes));
    rig->usages = (HostUsageList){&usage, 1};
    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 1);
    assert_near(r->host.cpu_s, 10);
    assert_true(isnan(r->host.cpus)); /* on this node: not known */
    assert_true(isnan(find_open(rig, "2")->host.cpu_s));
    info.nodes = 1;
    usage.memory_bytes = 3 * MIB;
    usage.memory_limit_bytes = 8 * MIB;
    ticks(rig, 1);
    assert_near(r->host.cpus, 16);
    assert_near(r->host.memory_peak_bytes, 5 * MIB);
    assert_near(r->host.memory_limit_bytes, 8 * MIB);
    usage.cpus = 4; /* bound to them now */
    rig->held = 0;  /* and works on the processors alone */
    usage.cpu_s = 20;
    ticks(rig, 1);
    assert_near(r->host.cpus, 4);
    assert_near(r->host.cpu_s, 20);
    rig->usages.len = 0; /* its cgroup is gone */
    ticks(rig, 1);
    jobs_save(rig->jobs, keep, rig);
    for (size_t i = 0; i < rig->put.len; i++)
        if (strcmp(rig->put.at[i].owner.job, "1") == 0)
            r = &rig->put.at[i];
    assert_near(r->host.cpu_s, 20);
    assert_near(r->host.memory_peak_bytes, 5 * MIB);
    assert_near(r->host.memory_limit_bytes, 8 * MIB);
    assert_near(r->host.cpus, 4);
}

/* A number that is given again: the numbers of the second job are not the first one's. */
static void the_next_job_of_its_number_uses_its_own(void **state)
{
    Rig *rig = *state;
    HostUsage usage = {.job = "1", .cpu_s = 100, .cpus = 8, .memory_bytes = 5 * MIB, .memory_limit_bytes = 9 * MIB};
    JobInfo info = {.job = "1", .started = "2026-11-23T17:46:04"};

    rig->usages = (HostUsageList){&usage, 1};
    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 2);
    snprintf(info.started, sizeof info.started, "2026-11-23T17:49:00");
    usage.cpu_s = 1;
    usage.memory_bytes = MIB;
    const size_t before = rig->put.len;
    ticks(rig, 1);
    assert_near(find_open(rig, "1")->host.cpu_s, 1);
    assert_near(find_open(rig, "1")->host.memory_peak_bytes, MIB);
    for (size_t i = before; i < rig->put.len; i++)
        if (rig->put.at[i].ending == JOB_LEFT)
            assert_near(rig->put.at[i].host.cpu_s, 100);
}

static void a_task_of_an_array_has_two_names(void **state)
{
    Rig *rig = *state;
    JobInfo info = {.job = "4713", .array = "4700_3"};
    char room[64];
    Str name;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "4713");
    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 5);
    const JobReport *r = find_open(rig, "4713");
    str_init_room(&name, room, sizeof room);
    job_add_name(r, &name);
    assert_string_equal(name.text, "4700_3");
    assert_true(job_is_named(r, "4700_3") && job_is_named(r, "4713"));
    assert_false(job_is_named(r, "4700") || job_is_named(r, "3"));
}

static void a_late_tick_is_not_seen(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 10);
    tick_of(rig, 100);
    ticks(rig, 10);
    const JobReport *r = find_open(rig, "1");
    assert_near(r->elapsed_s, 120);
    assert_near(r->unseen_s, 100);
    assert_near(r->gpu_hours, 20.0 / 3600);
    assert_near(job_energy_j(r), 500 * 20.0);
}

static void long_works_have_longer_slices(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    for (int i = 0; i < 2000; i++)
        tick_of(rig, 5);
    const JobReport *r = find_open(rig, "1");
    assert_near(r->elapsed_s, 10000);
    assert_near(r->slice_s, 320);
    assert_int_equal(job_slice_count(r), 32);
    assert_near(sum_slices(r, false), 10000);
    assert_near(sum_slices(r, true), 8000);
    for (uint32_t i = 0; i + 1 < job_slice_count(r); i++)
        assert_true(fabs((double)r->slices[i].held - 320) <= 5);
}

/* --- bounds ------------------------------------------------------------------------------------------------------- */

static void more_works_than_are_followed(void **state)
{
    Rig *rig = *state;
    char name[16];

    ticks(rig, 1);
    for (size_t i = 0; i < JOBS_OPEN_MAX + 6; i++) {
        snprintf(name, sizeof name, "%zu", i);
        hold_job(rig, i % GPUS, 0.1, name);
    }
    ticks(rig, 1);
    assert_int_equal(jobs_count(rig->jobs), JOBS_OPEN_MAX);
    assert_int_equal(jobs_lost(rig->jobs), 6);
    ticks(rig, 10);
    assert_int_equal(jobs_lost(rig->jobs), 6); /* each once */
    rig->held = 0;
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S));
    assert_int_equal(jobs_count(rig->jobs), 0);
    hold_job(rig, 0, 1, "late");
    ticks(rig, 1);
    assert_int_equal(jobs_count(rig->jobs), 1);
}

static void more_devices_than_are_counted(void **state)
{
    Rig *rig = *state;
    char name[16];

    ticks(rig, 1);
    for (size_t round = 0; round < 5; round++) { /* each of 64 works moves over five GPUs */
        rig->held = 0;
        for (size_t i = 0; i < JOBS_OPEN_MAX; i++) {
            snprintf(name, sizeof name, "%zu", i);
            hold_job(rig, (i + round) % GPUS, 0.1, name);
        }
        ticks(rig, 1);
    }
    size_t devices = 0, lost = 0;
    for (size_t i = 0; i < jobs_count(rig->jobs); i++) {
        devices += jobs_at(rig->jobs, i)->devices.len;
        lost += jobs_at(rig->jobs, i)->devices_lost;
    }
    assert_int_equal(devices, JOBS_DEVICES_MAX);
    assert_int_equal(lost, JOBS_OPEN_MAX);
}

/* --- restarts ----------------------------------------------------------------------------------------------------- */

static void a_job_goes_on_over_a_restart(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str before = str_limited(1 << 20), after = str_limited(1 << 20);

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 0.5, "1");
    hold(rig, 1, 0.5); /* somebody else */
    ticks(rig, 64);
    job_json(last_put(rig), &before);
    restart(rig, 30);
    job_json(find_open(rig, "1"), &after);
    assert_non_null(strstr(after.text, "\"agent_restarts\":1"));
    assert_non_null(strstr(before.text, "\"agent_restarts\":0"));
    ticks(rig, 20); /* the first has no time before it */
    const JobReport *r = find_open(rig, "1");
    assert_near(r->elapsed_s, 64 + 30 + 20);
    assert_true(r->unseen_s > 29 && r->unseen_s < 32);
    assert_near(r->gpu_hours, 1.5 * (64 + 19) / 3600);
    assert_near(job_mean(r, USAGE_SM), 0.6); /* 0.8 of a whole and of a half GPU */
    assert_near((double)r->slices[7].held, 0);
    assert_int_equal(jobs_count(rig->jobs), 1);
    assert_near(job_energy_j(r), 750 * (64 + 19.0));
}

static void a_job_that_ended_while_no_agent_ran(void **state)
{
    Rig *rig = *state;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 64);
    const uint64_t last = rig->node.real_ns;
    rig->held = 0;
    restart(rig, 1000);
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S) + 1);
    assert_int_equal(jobs_count(rig->jobs), 0);
    const JobReport *r = last_put(rig);
    assert_int_equal(r->ending, JOB_MISSED);
    assert_int_equal(r->last_real_ns / NS_PER_MS, last / NS_PER_MS);
    assert_near(r->elapsed_s, 64);
    assert_near(r->gpu_hours, 64.0 / 3600);
    JobNotes notes;
    bool told = false;
    job_find_notes(r, &notes);
    for (size_t i = 0; i < notes.count; i++)
        told |= strstr(notes.at[i], "ended while no agent ran") != NULL;
    assert_true(told);
}

/* --- what reports say --------------------------------------------------------------------------------------------- */

static void incidents_are_kept_once(void **state)
{
    Rig *rig = *state;
    static Incident incident;

    incident =
        (Incident){.id = "1jf8", .class = "xid-79", .title = "GPU 1 fell off the bus", .severity = SEVERITY_WARNING};
    incident.device = rig->gpus[1].reading.device;
    rig->incidents[0] = &incident;
    rig->incident_count = 1;
    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 3);
    assert_int_equal(find_open(rig, "1")->problems.len, 0);
    hold_job(rig, 1, 1, "1");
    ticks(rig, 3);
    incident.severity = SEVERITY_FATAL;
    ticks(rig, 3);
    const JobReport *r = find_open(rig, "1");
    assert_int_equal(r->problems.len, 1);
    assert_int_equal(r->problems.at[0].severity, SEVERITY_FATAL);
    assert_int_equal(r->problems.at[0].gpu, 1);
}

static void incidents_beyond_the_most_are_counted_once(void **state)
{
    Rig *rig = *state;
    static Incident incidents[INCIDENTS];

    for (size_t i = 0; i < INCIDENTS; i++) {
        snprintf(incidents[i].id, sizeof incidents[i].id, "i%zu", i);
        incidents[i].device = rig->gpus[0].reading.device;
        rig->incidents[i] = &incidents[i];
    }
    rig->incident_count = INCIDENTS;
    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    ticks(rig, 30);
    const JobReport *r = find_open(rig, "1");
    assert_int_equal(r->problems.len, JOB_PROBLEMS_MAX);
    assert_int_equal(r->problems_lost, INCIDENTS - JOB_PROBLEMS_MAX);
}

/* Ids have 16 bits of a hash: of so many works that begin in one second some have the same. */
static void works_of_one_second_have_their_own_ids(void **state)
{
    Rig *rig = *state;
    char job[16];

    ticks(rig, 1);
    for (unsigned round = 0; round < 100; round++) {
        jobs_free(rig->jobs);
        rig->jobs = jobs_new();
        rig->held = 0;
        for (size_t i = 0; i < JOBS_OPEN_MAX; i++) {
            snprintf(job, sizeof job, "%zu", round * JOBS_OPEN_MAX + i);
            hold_job(rig, i % GPUS, 0.125, job);
        }
        ticks(rig, 1);
        for (size_t i = 0; i < jobs_count(rig->jobs); i++)
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(jobs_at(rig->jobs, i)->id, jobs_at(rig->jobs, k)->id);
    }
}

static void cost_is_by_the_price_in_force(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str line = str_limited(4096);
    Arena arena = {0};
    const YamlNode *root;
    Err err = {0};
    static const char text[] = "currency: EUR\nlist:\n- {id: h, board: H100, on_demand: 3.6}\n";

    arena_init(&arena, 4096);
    assert_int_equal(yaml_load("prices", text, sizeof text - 1, &arena, &root, &err), 0);
    assert_int_equal(prices_read(root, &arena, &rig->prices, &err), 0);
    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 0.5, "1");
    hold(rig, 1, 0.5); /* somebody else */
    ticks(rig, 1000);
    const JobReport *r = find_open(rig, "1");
    assert_near(r->cost, 1.5);
    assert_string_equal(r->currency, "EUR");
    job_line(r, &line);
    assert_non_null(strstr(line.text, "gpus=2 time=16m40s gpu_hours=0.42 sm_active=60% gpu_util=75%"));
    assert_non_null(strstr(line.text, " cost=1.50EUR tensor_cores=100% report="));
    assert_null(strpbrk(line.text, "\n\"'"));
    arena_done(&arena);
}

static bool has_note(const JobReport *r, const char *part)
{
    JobNotes notes;

    job_find_notes(r, &notes);
    for (size_t i = 0; i < notes.count; i++)
        if (strstr(notes.at[i], part))
            return true;
    return false;
}

/* A pod whose program has memory on the GPU, and one whose program is not there. */
static void a_gpu_that_is_never_used(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str text = str_limited(1 << 16);

    ticks(rig, 1);
    for (size_t i = 0; i < 2; i++) {
        Holding *h = hold(rig, i, 1);

        snprintf(h->owner.pod, sizeof h->owner.pod, "pod-%zu", i);
        h->process_count = i == 0 ? 1 : 0;
        h->state = i == 0 ? HOLDING_IDLE_HELD : HOLDING_RESERVED;
        sample_set_double(&rig->gpus[i].reading.sample[METRIC_PROF_SM_ACTIVE], 1, 0);
    }
    ticks(rig, 120);
    assert_true(has_note(find_open(rig, "pod-0"), "its program has memory there and computed nothing"));
    assert_true(has_note(find_open(rig, "pod-1"), "this work needs no GPU, or did not find it"));
    job_text(find_open(rig, "pod-0"), &(JobStyle){0}, &text);
    assert_true(strncmp(text.text, "Pod pod-0: runs\n", 16) == 0);
}

static void advice_is_what_the_numbers_support(void **state)
{
    Rig *rig = *state;
    static const JobInfo info = {.job = "1", .limit_s = 86400};

    rig->infos = (JobInfoList){&info, 1};
    ticks(rig, 1);
    for (size_t i = 0; i < 3; i++)
        hold_job(rig, i, 1, "1")->memory_bytes = UINT64_C(5000) * MIB;
    ticks(rig, 120);
    const JobReport *r = find_open(rig, "1");
    JobNotes notes;
    job_find_notes(r, &notes);
    assert_int_equal(notes.count, 0); /* 80 % on tensor cores: nothing to say */

    sample_set_double(&rig->gpus[1].reading.sample[METRIC_PROF_SM_ACTIVE], 1, 0);
    sample_set_double(&rig->gpus[2].reading.sample[METRIC_PROF_SM_ACTIVE], 1, 0.3);
    rig->verdicts[1].verdicts[0].cause = rig->verdicts[2].verdicts[0].cause = WHY_INPUT;
    rig->gpus[1].activity.word = ACTIVITY_IDLE_HELD;
    jobs_free(rig->jobs);
    rig->jobs = jobs_new();
    ticks(rig, 120);
    r = find_open(rig, "1");
    assert_true(has_note(r, "GPU 1 was never used (SM active below 1 %): ask for fewer GPUs"));
    assert_true(has_note(r, "ask for fewer GPUs"));
    assert_true(has_note(r, "33 % of its GPU time (0.03 GPU hours): held idle"));
    assert_true(has_note(r, "33 % of its GPU time: starved: waits for its input. DataLoader("));
    assert_true(has_note(r, "GPU 2 30 %, GPU 0 80 %"));
    assert_true(has_note(r, "a smaller GPU or a MIG instance"));
    assert_false(has_note(r, "time limit"));
    rig->held = 0;
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S));
    assert_true(has_note(last_put(rig), "It ran 1m59s of its time limit of 1d"));
}

/* Each limit of the notes, from both sides. */
static void notes_have_limits(void **state)
{
    enum { SM, HELD, MEMORY, THROTTLED, GAP, CAUSE, HELD_CAUSES, ELAPSED, UNSEEN, BEFORE };
    static const struct {
        int what;
        double no, yes; /* values without the note, and with it */
        const char *note;
    } cases[] = {
        {SM, 0.011, 0.009, "GPU 1 was never used (SM active below 1 %): ask for fewer GPUs"},
        {SM, 0.31, 0.3, "Its GPUs worked unevenly: GPU 1 30 %, GPU 0 60 %."},
        {MEMORY, 26, 24, "It used at most 24.0 GiB of 100 GiB of a GPU's memory and half"},
        {MEMORY, 95, 96, "It used up to 96.0 GiB of 100 GiB of a GPU's memory"},
        {THROTTLED, 9.9, 10, "For 5 % of the time heat or a power brake"},
        {GAP, 5, 6, "For 6s of GPU time the driver gave no readings."},
        {CAUSE, 39.9, 40, "20 % of its GPU time: starved: waits for its input."},
        {HELD_CAUSES, 59.9, 60, "100 % of its GPU time: starved: waits for its input."},
        {ELAPSED, 1000, 999, "of its time limit of"},
        {UNSEEN, 5, 6, "For 6s of it nothing was seen"},
        {BEFORE, 60, 61, "Its first process ran 1m1s before it was seen"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int side = 0; side < 2; side++) {
            const double value = side ? cases[i].yes : cases[i].no;
            const bool small = strstr(cases[i].note, "smaller") || strstr(cases[i].note, "at most");
            JobReport r = {.ending = JOB_LEFT, .elapsed_s = 5000, .info = {.limit_s = 10000}, .seen_real_ns = NS_PER_H};

            for (uint32_t k = 0; k < 2; k++) {
                UsageDevice *d = vec_add(&r.devices);

                device_init(&d->device, DEVICE_GPU);
                d->device.index = d->gpu_index = k;
                d->held_s = d->known_s[USAGE_SM] = 100;
                d->own[USAGE_SM] = small ? 40 : 60;
                d->memory_total_bytes = 100 * 1024.0 * MIB;
                d->memory_peak_bytes = d->memory_total_bytes / 2;
                d->throttle_known = true;
            }
            UsageDevice *last = &r.devices.at[1];
            switch (cases[i].what) {
            case SM:
                last->own[USAGE_SM] = 100 * value;
                break;
            case MEMORY:
                for (size_t k = 0; k < 2; k++)
                    r.devices.at[k].memory_peak_bytes = value * 1024 * MIB;
                break;
            case THROTTLED:
                last->throttled_s = value;
                break;
            case GAP:
                last->gap_s = value;
                break;
            case CAUSE:
                r.slices[0].held = 200;
                r.slices[0].why[WHY_INPUT] = (float)value;
                break;
            case HELD_CAUSES:
                r.slices[0].held = r.slices[0].why[WHY_INPUT] = (float)value;
                break;
            case ELAPSED:
                r.elapsed_s = value;
                break;
            case UNSEEN:
                r.unseen_s = value;
                break;
            default:
                r.process_real_ns = r.seen_real_ns - (uint64_t)value * NS_PER_S;
                break;
            }
            if (has_note(&r, cases[i].note) != side)
                fail_msg("%s: at %g", cases[i].note, value);
            vec_done(&r.devices);
        }
}

/* Neighbours with one verdict are one row, and only they. */
static void verdicts_by_time_are_rows(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str text = str_limited(1 << 20);

    hold_job(rig, 0, 1, "1");
    ticks(rig, 60);
    rig->verdicts[0].verdicts[0].cause = WHY_INPUT;
    ticks(rig, 120);
    rig->verdicts[0].verdicts[0].cause = WHY_TENSOR_CORES;
    ticks(rig, 60);
    const JobStyle style = {.width = 80, .real_ns = rig->node.real_ns};
    job_text(find_open(rig, "1"), &style, &text);
    assert_non_null(strstr(text.text, "        0s to 1m       work  80 %  computing on tensor cores "));
    assert_non_null(strstr(text.text, "        1m to 3m       work  80 %  starved: waits for its input "));
    assert_non_null(strstr(text.text, "        3m to 3m59s    work  80 %  computing on tensor cores 100 %\n"));
}

/* Checkpoints take their share of the window; the rest is what the GPU does between two of them. */
static void a_checkpoint_is_a_part_of_the_time(void **state)
{
    Rig *rig = *state;

    rig->verdicts[0] =
        (Why){.count = 2, .verdicts = {{.cause = WHY_CHECKPOINT, .share = 0.25}, {.cause = WHY_TENSOR_CORES}}};
    hold_job(rig, 0, 1, "1");
    ticks(rig, 9);
    assert_near((double)find_open(rig, "1")->slices[0].why[WHY_CHECKPOINT], 2);
    assert_near((double)find_open(rig, "1")->slices[0].why[WHY_TENSOR_CORES], 6);
}

/* The time before an agent saw it, or after, is time of the job too. */
static void a_job_that_was_seen_in_part_was_not_short(void **state)
{
    Rig *rig = *state;
    static const JobInfo info = {.job = "1", .limit_s = 86400};
    Holding *h = hold_job(rig, 0, 1, "1");

    rig->infos = (JobInfoList){&info, 1};
    rig->boot_real_ns = rig->node.real_ns - 9000 * NS_PER_S;
    h->owner.pid = 7;
    h->owner.start_ns = NS_PER_S; /* 8999 s ago */
    ticks(rig, 120);
    rig->held = 0;
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S));
    assert_int_equal(last_put(rig)->ending, JOB_LEFT);
    assert_false(has_note(last_put(rig), "time limit"));
    rig->boot_real_ns = 0;
    hold_job(rig, 0, 1, "1");
    ticks(rig, 65);
    rig->held = 0;
    restart(rig, 60000);
    ticks(rig, (size_t)(JOB_LEFT_MANAGER_NS / NS_PER_S) + 1);
    assert_int_equal(last_put(rig)->ending, JOB_MISSED);
    assert_false(has_note(last_put(rig), "time limit"));
}

static void every_form_says_it(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str text = str_limited(1 << 20), page = str_limited(1 << 20), list = str_limited(1 << 20);
    Holding *h = hold_job(rig, 0, 1, "1");

    snprintf(h->owner.user, sizeof h->owner.user, "<b>");
    ticks(rig, 40);
    const JobReport *r = find_open(rig, "1");
    const JobStyle style = {.width = 80, .real_ns = rig->node.real_ns};
    job_text(r, &style, &text);
    assert_non_null(strstr(text.text, "Job 1 of <b>: runs\n"));
    assert_non_null(strstr(text.text, "  SM active            [||||||||||||||||||||||||||||||||          80 %]\n"));
    assert_non_null(strstr(text.text, " work  80 %  computing on tensor cores 100 %\n"));
    job_html(r, rig->node.real_ns, &page);
    assert_null(strstr(page.text, "<b>"));
    assert_non_null(strstr(page.text, "Job 1 of &lt;b&gt;: runs"));
    assert_null(strstr(page.text, "src="));
    jobs_text(&r, 1, &style, &list);
    assert_non_null(strstr(list.text, "  80 %     0.01      39s  runs, tensor_cores\n"));
    str_clear(&list);
    jobs_text(NULL, 0, &style, &list);
    assert_string_equal(list.text, "No job, pod or container has held a GPU in this time\n");

    sample_set_absent(&rig->gpus[0].reading.sample[METRIC_PROF_SM_ACTIVE], 1, ABSENCE_NO_DATA);
    sample_set_absent(&rig->gpus[0].reading.sample[METRIC_GPU_UTIL], 1, ABSENCE_NO_DATA);
    ticks(rig, 39); /* without readings: the text and the page say the work of the time with some */
    str_clear(&text);
    str_clear(&page);
    job_text(find_open(rig, "1"), &style, &text);
    job_html(find_open(rig, "1"), rig->node.real_ns, &page);
    assert_non_null(strstr(text.text, " work  80 %  computing on tensor cores 100 %\n"));
    assert_non_null(strstr(page.text, "<title>work 80 %, "));
}

/* The journal's bytes may be damaged: whatever is read is printed without harm, and written as it was read. */
static void damaged_reports(void **state)
{
    Rig *rig = *state;
    CLEANUP(str_done) Str json = str_limited(1 << 20), out = str_limited(1 << 20);
    uint64_t seed = 1;
    size_t whole = 0;
    Err err;

    ticks(rig, 1);
    hold_job(rig, 0, 1, "1");
    hold_job(rig, 1, 0.5, "1");
    hold(rig, 1, 0.5); /* somebody else */
    ticks(rig, 100);
    job_json(find_open(rig, "1"), &json);
    for (int i = 0; i < 3000; i++) {
        JobReports read = {0};

        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        char *at = &json.text[(seed >> 33) % json.len], was = *at;
        *at = "0123456789-e.\"{}[],:x"[(seed >> 20) % 21];
        if (jobs_read(json.text, json.len, &read, &err) == 0) {
            whole++;
            str_clear(&out);
            job_text(&read.at[0], &(JobStyle){.width = 80}, &out);
            job_html(&read.at[0], 0, &out);
            job_line(&read.at[0], &out);
            job_json(&read.at[0], &out);
            if (read.len == 1 && read.at[0].ending == JOB_RUNS) { /* and goes on */
                jobs_free(rig->jobs);
                rig->jobs = jobs_new();
                jobs_restore(rig->jobs, &read.at[0]);
                ticks(rig, 3);
            }
        }
        *at = was;
        job_reports_done(&read);
    }
    assert_true(whole > 100);
    static const char *const none[] = {"", "[]", "{}", "{\"jobs\":1}", "{\"jobs\":[{}]}", "{\"id\":\"1\"}"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        JobReports read = {0};

        assert_int_equal(jobs_read(none[i], strlen(none[i]), &read, &err), -EINVAL);
        job_reports_done(&read);
    }
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        RIGGED(a_job_from_its_first_tick_to_its_end),
        RIGGED(it_is_saved_soon_and_then_seldom),
        RIGGED(two_jobs_on_one_gpu),
        RIGGED(an_instance_is_a_part_of_a_gpu),
        RIGGED(a_container_turns_out_to_be_a_pods),
        RIGGED(two_containers_of_a_pod_have_the_gpu_together),
        RIGGED(it_is_away_for_a_while),
        RIGGED(a_number_that_is_given_again),
        RIGGED(a_job_begins_when_slurm_says),
        RIGGED(a_job_begins_within_the_tick_that_saw_it),
        RIGGED(unusable_time_is_held_and_not_charged),
        RIGGED(what_it_used_of_the_host),
        RIGGED(the_next_job_of_its_number_uses_its_own),
        RIGGED(a_task_of_an_array_has_two_names),
        RIGGED(a_late_tick_is_not_seen),
        RIGGED(long_works_have_longer_slices),
        RIGGED(more_works_than_are_followed),
        RIGGED(more_devices_than_are_counted),
        RIGGED(a_job_goes_on_over_a_restart),
        RIGGED(a_job_that_ended_while_no_agent_ran),
        RIGGED(incidents_are_kept_once),
        RIGGED(incidents_beyond_the_most_are_counted_once),
        RIGGED(works_of_one_second_have_their_own_ids),
        RIGGED(cost_is_by_the_price_in_force),
        RIGGED(a_gpu_that_is_never_used),
        RIGGED(advice_is_what_the_numbers_support),
        RIGGED(a_job_that_was_seen_in_part_was_not_short),
        RIGGED(notes_have_limits),
        RIGGED(verdicts_by_time_are_rows),
        RIGGED(a_checkpoint_is_a_part_of_the_time),
        RIGGED(every_form_says_it),
        RIGGED(damaged_reports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
