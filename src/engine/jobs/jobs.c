/* SPDX-License-Identifier: Apache-2.0 */
/* A tick finds for each work the devices that it holds now (parts), adds the tick to its report, and ends what has not
 * been seen for a while. */
#include "engine/jobs/jobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/map.h"
#include "base/number.h"
#include "engine/health/incidents.h"
#include "engine/owner/holdings.h"

#define SAVE_FIRST_NS NS_PER_S

enum {
    NAME_LEAST = 12, /* digits of a container's id */
    LOST_KEPT = 64,
};

typedef struct Job {
    JobReport report;
    bool restored, started;          /* from an earlier run of the agent; seen in this one */
    bool seen;                       /* in this tick */
    bool replaced;                   /* another job has its number now */
    uint64_t last_ns;                /* node's clock: when it was seen last, or restored */
    double pending_s;                /* time since then */
    uint64_t saved_ns;               /* when it was put last */
    uint64_t lost_hashes[LOST_KEPT]; /* a ring: incidents that were counted as lost */
} Job;

/* What a work holds of one device in this tick. */
typedef struct Part {
    Job *job;
    size_t gpu;
    const Reading *instance; /* NULL: the whole GPU */
    UsagePart part;
    LedgerCharge charge;
    WhyCause cause, rest;
    double cause_part; /* of the time; the other part is that of `rest` */
} Part;

struct Jobs {
    VEC(Job *) open;
    VEC(Part) parts;
    size_t devices; /* of all that are open */
    uint64_t last_ns, lost;
    uint64_t lost_hashes[LOST_KEPT]; /* a ring: of works that were counted as lost */
};

/* The tick. */
typedef struct Tick {
    Jobs *jobs;
    const Snapshot *snapshot;
    const LedgerCharge *charges; /* of its holdings */
    const Prices *prices;
    double s; /* since the last one; 0: it was too long ago */
    double gap_s;
} Tick;

const WordRow job_kinds[] = {JOB_KIND_TABLE(WORD_ROW)};
const WordRow job_endings[] = {JOB_ENDING_TABLE(WORD_ROW)};

/* --- reports ------------------------------------------------------------------------------------------------------ */

void job_report_init(JobReport *r)
{
    memset(r, 0, sizeof *r);
    r->owner.pid = -1;
    r->memory_peak_bytes = NAN;
    r->host = (JobHost){NAN, NAN, NAN, NAN};
    r->slice_s = JOB_SLICE_S;
}

void job_report_done(JobReport *r)
{
    vec_done(&r->devices);
    vec_done(&r->problems);
}

uint32_t job_slice_count(const JobReport *r)
{
    const double count = floor(r->elapsed_s / r->slice_s) + 1;

    return count < JOB_SLICES ? (uint32_t)count : JOB_SLICES;
}

double job_energy_j(const JobReport *r)
{
    double sum = NAN;

    for (size_t i = 0; i < r->devices.len; i++)
        if (r->devices.at[i].energy_basis != USAGE_ENERGY_UNKNOWN)
            sum = (isfinite(sum) ? sum : 0) + r->devices.at[i].energy_j;
    return sum;
}

double job_mean(const JobReport *r, UsageMean mean)
{
    double sum = 0, known_s = 0;

    for (size_t i = 0; i < r->devices.len; i++) {
        sum += r->devices.at[i].own[mean];
        known_s += r->devices.at[i].known_s[mean];
    }
    return known_s > 0 ? sum / known_s : (double)NAN;
}

void job_add_name(const JobReport *r, Str *out)
{
    if (r->kind == JOB_OF_MANAGER)
        str_add(out, r->info.array[0] ? r->info.array : r->owner.job);
    else if (r->kind == JOB_POD)
        str_addf(out, "%s%s%s", r->owner.namespace, r->owner.namespace[0] ? "/" : "", r->owner.pod);
    else
        str_addf(out, "%.12s", r->owner.container);
}

void job_add_device(const UsageDevice *d, Str *out)
{
    if (d->gpu_index != DEVICE_NO_NUMBER)
        str_addf(out, "GPU %" PRIu32, d->gpu_index);
    else
        str_add(out, "GPU");
    if (d->device.kind == DEVICE_COMPUTE_INSTANCE)
        str_addf(out, " instance %" PRIu32 "/%" PRIu32, d->device.gpu_instance, d->device.compute_instance);
}

void job_add_cost(const JobReport *r, double share, Str *out)
{
    if (r->priced_s > 0 && r->currency[0] && r->currency[0] != '?')
        str_addf(out, ", %.2f %s", r->cost * share, r->currency);
}

double job_sum_causes(const JobReport *r, size_t from, size_t to, double causes[WHY_END])
{
    double held = 0;

    memset(causes, 0, WHY_END * sizeof *causes);
    for (size_t i = from; i < to && i < JOB_SLICES; i++) {
        held += (double)r->slices[i].held;
        for (size_t w = 0; w < WHY_END; w++)
            causes[w] += (double)r->slices[i].why[w];
    }
    return held;
}

size_t job_find_most(const double causes[WHY_END])
{
    size_t most = 0;

    for (size_t w = 1; w < WHY_END; w++)
        most = causes[w] > causes[most] ? w : most;
    return most;
}

bool job_is_named(const JobReport *r, const char *name)
{
    const size_t len = strlen(name);
    char full[sizeof r->owner.namespace + sizeof r->owner.pod + 2];
    Str text;

    str_init_room(&text, full, sizeof full);
    job_add_name(r, &text);
    return strcmp(r->id, name) == 0 || strcmp(full, name) == 0 ||
           (r->kind == JOB_OF_MANAGER && strcmp(r->owner.job, name) == 0) ||
           (r->kind == JOB_POD && strcmp(r->owner.pod, name) == 0) ||
           (r->kind == JOB_CONTAINER && len >= NAME_LEAST && strncmp(r->owner.container, name, len) == 0);
}

/* --- whose -------------------------------------------------------------------------------------------------------- */

static JobKind find_kind(const Owner *owner)
{
    return owner->job[0]         ? JOB_OF_MANAGER
           : owner->pod[0]       ? JOB_POD
           : owner->container[0] ? JOB_CONTAINER
                                 : JOB_KIND_END;
}

static bool is_work_of(const JobReport *r, const Owner *owner)
{
    if (r->kind != find_kind(owner))
        return false;
    if (r->kind == JOB_OF_MANAGER)
        return strcmp(r->owner.job, owner->job) == 0;
    if (r->kind == JOB_POD)
        return strcmp(r->owner.pod, owner->pod) == 0 && strcmp(r->owner.namespace, owner->namespace) == 0;
    return strcmp(r->owner.container, owner->container) == 0;
}

/* Whether the workload manager says that the job of its number began at another time: it is another job. */
static bool is_replaced(const Tick *t, const JobReport *r)
{
    const JobInfo *info = r->kind == JOB_OF_MANAGER ? job_info_find(&t->snapshot->job_infos, r->owner.job) : NULL;

    return info && info->started[0] && r->info.started[0] && strcmp(info->started, r->info.started) != 0;
}

/* A process whose pod was not known yet: it was taken for a container. */
static bool was_container(const JobReport *r, const Owner *owner)
{
    return r->kind == JOB_CONTAINER && owner->pid >= 0 && r->owner.pid == owner->pid &&
           r->owner.start_ns == owner->start_ns;
}

static void fill_text(char *text, size_t cap, const char *from)
{
    if (!text[0])
        snprintf(text, cap, "%s", from);
}

/* What is known of it by now. */
static void set_owner(const Tick *t, JobReport *r, const Holding *h)
{
    const Owner *owner = &h->owner;
    const JobInfo *info = job_info_find(&t->snapshot->job_infos, owner->job);
    const uint64_t boot = t->snapshot->boot_real_ns;

    fill_text(r->owner.user, sizeof r->owner.user, owner->user);
    fill_text(r->owner.account, sizeof r->owner.account, owner->account);
    if (r->owner.pid < 0 && owner->pid >= 0) {
        r->owner.pid = owner->pid;
        r->owner.start_ns = owner->start_ns;
        memcpy(r->owner.process, owner->process, sizeof r->owner.process);
    }
    if (info)
        r->info = *info;
    if (h->workload.name[0])
        r->workload = h->workload;
    if (boot && owner->start_ns && (!r->process_real_ns || boot + owner->start_ns < r->process_real_ns))
        r->process_real_ns = boot + owner->start_ns;
}

/* Whether it was not counted yet, as the next after `count`. */
static bool note_lost(uint64_t hashes[LOST_KEPT], uint64_t count, uint64_t hash)
{
    for (size_t i = 0; i < LOST_KEPT; i++)
        if (hashes[i] == hash)
            return false;
    hashes[count % LOST_KEPT] = hash;
    return true;
}

static bool has_id(const Jobs *jobs, const char *id)
{
    for (size_t i = 0; i < jobs->open.len; i++)
        if (strcmp(jobs->open.at[i]->report.id, id) == 0)
            return true;
    return false;
}

/* Of two works that begin in one second and have the same hash, the second gets the next one. */
static void set_id(const Jobs *jobs, JobReport *r, uint64_t real_s, uint64_t hash)
{
    do
        snprintf(r->id, sizeof r->id, "%08" PRIx64 "%04" PRIx64, real_s, hash++ & 0xffff);
    while (has_id(jobs, r->id));
}

static Job *open_job(const Tick *t, const Owner *owner)
{
    const Node *node = t->snapshot->node;
    const uint64_t hash = owner_work_hash(owner);
    Jobs *jobs = t->jobs;

    if (jobs->open.len == JOBS_OPEN_MAX) {
        jobs->lost += note_lost(jobs->lost_hashes, jobs->lost, hash);
        return NULL;
    }
    Job *job = xcalloc(1, sizeof *job);
    JobReport *r = &job->report;
    job_report_init(r);
    r->kind = find_kind(owner);
    r->owner = *owner;
    if (r->kind == JOB_POD)
        r->owner.container[0] = '\0';
    r->last_real_ns = node->real_ns;
    r->seen_real_ns = node->real_ns - (uint64_t)(t->s * NS_PER_S);
    set_id(jobs, r, node->real_ns / NS_PER_S, hash);
    snprintf(r->node, sizeof r->node, "%s", node->hostname);
    job->last_ns = node->time_ns;
    vec_push(&jobs->open, job);
    return job;
}

static Job *find_job(const Tick *t, const Owner *owner)
{
    for (size_t i = 0; i < t->jobs->open.len; i++) {
        JobReport *r = &t->jobs->open.at[i]->report;

        if (t->jobs->open.at[i]->replaced)
            continue;
        if (is_work_of(r, owner))
            return t->jobs->open.at[i];
        if (owner->pod[0] && was_container(r, owner)) {
            r->kind = find_kind(owner);
            r->owner = *owner;
            r->owner.container[0] = '\0';
            return t->jobs->open.at[i];
        }
    }
    return open_job(t, owner);
}

/* --- what it holds now -------------------------------------------------------------------------------------------- */

static const Reading *find_instance(const NodeGpu *gpu, const Holding *h)
{
    for (size_t i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].device.gpu_instance == h->gpu_instance &&
            gpu->instances[i].device.compute_instance == h->compute_instance)
            return &gpu->instances[i];
    return NULL;
}

/* The verdict of the device; of one that only holds it, that. */
static void set_cause(const Node *node, const Holding *h, const Reading *instance, Part *part)
{
    const NodeGpu *gpu = &node->gpus[h->gpu];
    const ActivityWord word = holding_activity(h, node);
    const Why *why = !instance                ? gpu->verdicts
                     : gpu->instance_verdicts ? &gpu->instance_verdicts[instance - gpu->instances]
                                              : NULL;

    part->cause = part->rest = WHY_UNKNOWN;
    part->cause_part = 1;
    if (word == ACTIVITY_IDLE_HELD || word == ACTIVITY_FREE) {
        part->cause = WHY_IDLE_HELD;
    } else if (why && why->count > 0) {
        part->cause = why->verdicts[0].cause;
        part->rest = why->verdicts[1].cause;
        part->cause_part = why_first_part(why);
    }
}

static Part *find_part(const Tick *t, Job *job, const Holding *h, const Reading *instance)
{
    for (size_t i = 0; i < t->jobs->parts.len; i++) {
        Part *part = &t->jobs->parts.at[i];

        if (part->job == job && part->gpu == h->gpu && part->instance == instance)
            return part;
    }
    vec_push(
        &t->jobs->parts,
        ((Part){
            .job = job, .gpu = h->gpu, .instance = instance, .part = {.held = true, .attribution = h->attribution}}));
    Part *part = &t->jobs->parts.at[t->jobs->parts.len - 1];
    set_cause(t->snapshot->node, h, instance, part);
    return part;
}

static void add_charge(LedgerCharge *sum, const LedgerCharge *charge)
{
    sum->gpu_ns += charge->gpu_ns;
    sum->energy_mj += charge->energy_mj;
    if (charge->begin_ns == 0)
        return;
    sum->begin_ns = charge->begin_ns;
    sum->begin_real_ns = charge->begin_real_ns;
}

static void add_holding(const Tick *t, const Holding *h)
{
    const Reading *instance = find_instance(&t->snapshot->node->gpus[h->gpu], h);
    Job *job;

    if (find_kind(&h->owner) == JOB_KIND_END || (h->gpu_instance != DEVICE_NO_NUMBER && !instance))
        return;
    job = find_job(t, &h->owner);
    if (!job)
        return;
    set_owner(t, &job->report, h);
    Part *part = find_part(t, job, h, instance);
    part->part.share += h->share;
    part->part.processes += (uint32_t)h->process_count;
    part->part.memory_bytes += h->memory_bytes;
    add_charge(&part->charge, &t->charges[h - t->snapshot->holdings]);
    if (h->attribution == ATTRIBUTION_UNKNOWN)
        part->part.attribution = ATTRIBUTION_UNKNOWN;
    if (h->state == HOLDING_USED)
        set_cause(t->snapshot->node, h, instance, part);
    job->seen = true;
}

/* Several containers of one pod may hold the whole device together; bytes that nobody told are not known. */
static void finish_part(Part *part)
{
    UsagePart *p = &part->part;

    if (p->share > 1 - 1e-9 && (p->attribution == ATTRIBUTION_SAMPLED || p->attribution == ATTRIBUTION_EVEN))
        p->attribution = part->instance ? ATTRIBUTION_MIG : ATTRIBUTION_EXCLUSIVE;
    if (p->share > 1)
        p->share = 1;
    if (p->memory_bytes == 0)
        p->memory_bytes = UINT64_MAX;
}

/* --- adding a tick ------------------------------------------------------------------------------------------------ */

static void add_slice(JobSlice *sum, const JobSlice *slice, double part)
{
    sum->held += (float)part * slice->held;
    sum->known += (float)part * slice->known;
    sum->busy += (float)part * slice->busy;
    for (size_t w = 0; w < WHY_END; w++)
        sum->why[w] += (float)part * slice->why[w];
}

/* Makes slices twice as long until the time fits into them. */
static void widen_slices(JobReport *r)
{
    while (r->elapsed_s / r->slice_s >= JOB_SLICES) {
        for (size_t i = 0; i < JOB_SLICES; i++) {
            JobSlice sum = {0};

            for (size_t k = 2 * i; k < 2 * i + 2 && k < JOB_SLICES; k++)
                add_slice(&sum, &r->slices[k], 1);
            r->slices[i] = sum;
        }
        r->slice_s *= 2;
    }
}

/* Adds what was in [from, to) of the report's time to the slices of that. */
static void spread_slice(const JobReport *r, JobSlice slices[JOB_SLICES], const JobSlice *what, double from, double to)
{
    for (size_t i = 0; i < JOB_SLICES; i++) {
        const double start = fmax((double)i * r->slice_s, from), end = fmin((double)(i + 1) * r->slice_s, to);

        if (end > start)
            add_slice(&slices[i], what, (end - start) / (to - from));
    }
}

/* The report begins so much earlier; negative: later. */
static void move_begin(JobReport *r, double s)
{
    const double before_s = r->elapsed_s;
    JobSlice moved[JOB_SLICES] = {0};

    r->elapsed_s = fmax(before_s + s, 0);
    r->seen_real_ns -= (uint64_t)(int64_t)llround(s * NS_PER_S);
    widen_slices(r);
    for (size_t i = 0; i < JOB_SLICES; i++) {
        const double from = (double)i * r->slice_s, to = fmin(from + r->slice_s, before_s);

        if (from < to)
            spread_slice(r, moved, &r->slices[i], fmax(from + s, 0), fmax(to + s, 0));
    }
    memcpy(r->slices, moved, sizeof moved);
}

/* The job has had the device for longer than it was seen on it, and did nothing with it; or for a part of a second
 * less: the ledger says so (LedgerCharge). */
static void set_begin(JobReport *r, UsageDevice *d, const LedgerCharge *charge)
{
    const double s = (double)charge->begin_ns / NS_PER_S;
    const double after_s = (double)(int64_t)(charge->begin_real_ns - r->seen_real_ns) / NS_PER_S;

    /* The report begins with this run; by no more than `s`, as the wall clock may have been set. */
    if (s > 0 ? after_s < 0 : fabs(after_s + s) < 0.001)
        move_begin(r, s > 0 ? fmin(-after_s, s) : s);
    usage_device_begin(d, s);
    if (s > 0) {
        const JobSlice idle = {.held = (float)s, .why[WHY_IDLE_HELD] = (float)s};

        spread_slice(r, r->slices, &idle, fmax(after_s, 0), fmax(after_s, 0) + s);
    } else if (r->slices[0].held > 0) {
        JobSlice first = {0};

        add_slice(&first, &r->slices[0], fmax(1 + s / (double)r->slices[0].held, 0));
        r->slices[0] = first;
    }
}

/* The time since it was seen last is its own, as it is there again. */
static void pass_time(const Tick *t, Job *job)
{
    JobReport *r = &job->report;
    const uint64_t real_ns = t->snapshot->node->real_ns;

    if (job->restored && !job->started) { /* no agent ran */
        const double passed_s = real_ns > r->last_real_ns ? (double)(real_ns - r->last_real_ns) / NS_PER_S : 0;

        r->elapsed_s += passed_s;
        r->unseen_s += fmax(passed_s - t->s, 0);
    } else {
        r->elapsed_s += job->pending_s + t->s + (job->started ? t->gap_s : 0);
        r->away_s += job->pending_s;
        r->unseen_s += job->started ? t->gap_s : 0;
    }
    job->started = true;
    job->pending_s = 0;
    job->last_ns = t->snapshot->node->time_ns;
    r->last_real_ns = real_ns;
}

static UsageDevice *find_device(Jobs *jobs, JobReport *r, const NodeGpu *gpu, const Reading *reading)
{
    for (size_t i = 0; i < r->devices.len; i++)
        if (device_equal(&r->devices.at[i].device, &reading->device)) {
            r->devices.at[i].gpu_index = gpu->reading.device.index;
            r->devices.at[i].gpu_share = reading == &gpu->reading ? 1 : reading_mig_share(&gpu->reading, reading);
            return &r->devices.at[i];
        }
    if (jobs->devices == JOBS_DEVICES_MAX || r->devices.len == USAGE_DEVICES_MAX) {
        r->devices_lost = true;
        return NULL;
    }
    jobs->devices++;
    usage_device_init(vec_add(&r->devices), &gpu->reading, reading);
    return &r->devices.at[r->devices.len - 1];
}

static void add_cost(const Tick *t, JobReport *r, const Part *part)
{
    const NodeGpu *gpu = &t->snapshot->node->gpus[part->gpu];
    const double slices = part->instance ? reading_mig_share(&gpu->reading, part->instance) : 1;
    char text[PRICE_TEXT_CAP];
    PriceTag tag;

    prices_find(t->prices, gpu->reading.device.name, part->instance ? part->instance->profile : "", slices,
                t->snapshot->node->real_ns, text);
    if (price_tag_read(text, &tag) < 0)
        return;
    if (!r->currency[0])
        memcpy(r->currency, tag.currency, sizeof r->currency);
    else if (strcmp(r->currency, tag.currency) != 0)
        snprintf(r->currency, sizeof r->currency, "?");
    r->cost = fmax(r->cost + tag.per_hour * (double)part->charge.gpu_ns / NS_PER_H, 0);
    r->priced_s += t->s;
}

static void add_to_slice(JobSlice *slice, const Part *part, const Reading *reading, double s)
{
    double value;

    slice->held += (float)s;
    slice->why[part->cause] += (float)(s * part->cause_part);
    if (part->cause_part < 1)
        slice->why[part->rest] += (float)(s * (1 - part->cause_part));
    if (sample_double(&reading->sample[METRIC_PROF_SM_ACTIVE], &value) ||
        (sample_double(&reading->sample[METRIC_GPU_UTIL], &value) && (value /= 100, true))) {
        slice->known += (float)s;
        slice->busy += (float)(fmin(value, 1) * part->part.share * s);
    }
}

/* The ledger's energy: of a device that several share it is what each one's work took. */
static void set_energy(UsageDevice *d, double joules)
{
    if (d->energy_basis == USAGE_ENERGY_UNKNOWN && joules > 0)
        d->energy_basis = isfinite(d->energy_mj) ? USAGE_ENERGY_COUNTER : USAGE_ENERGY_POWER;
    d->energy_j = joules;
}

static void add_part(const Tick *t, const Part *part)
{
    const NodeGpu *gpu = &t->snapshot->node->gpus[part->gpu];
    const Reading *reading = part->instance ? part->instance : &gpu->reading;
    JobReport *r = &part->job->report;
    UsageDevice *d = find_device(t->jobs, r, gpu, reading);

    r->gpu_hours = fmax(r->gpu_hours + (double)part->charge.gpu_ns / NS_PER_H, 0);
    add_cost(t, r, part);
    if (!d)
        return;
    const double before_j = d->energy_j;
    usage_device_update(d, gpu, part->instance, &part->part, t->s);
    set_energy(d, before_j + (double)part->charge.energy_mj / 1000);
    add_to_slice(&r->slices[(size_t)(fmax(r->elapsed_s - t->s / 2, 0) / r->slice_s)], part, reading, t->s);
}

/* After all parts of the tick were added. */
static void begin_part(const Tick *t, const Part *part)
{
    const NodeGpu *gpu = &t->snapshot->node->gpus[part->gpu];
    UsageDevice *d = find_device(t->jobs, &part->job->report, gpu, part->instance ? part->instance : &gpu->reading);

    if (d)
        set_begin(&part->job->report, d, &part->charge);
}

/* It came in this tick, or holds the device no more: the counters say nothing of it from then on. */
static void leave_devices(const Tick *t, Job *job)
{
    for (size_t i = 0; i < job->report.devices.len; i++) {
        UsageDevice *d = &job->report.devices.at[i];
        bool held = false;

        for (size_t k = 0; k < t->jobs->parts.len && !held; k++) {
            const Part *part = &t->jobs->parts.at[k];
            const NodeGpu *gpu = &t->snapshot->node->gpus[part->gpu];

            held = part->job == job &&
                   device_equal(&d->device, part->instance ? &part->instance->device : &gpu->reading.device);
        }
        if (held)
            continue;
        d->now = (UsagePart){.held = false};
        d->energy_mj = d->power_w = NAN;
        d->span_s = d->span_share_s = 0;
        for (size_t k = 0; k < USAGE_COUNTERS; k++)
            d->throttle_ns[k] = NAN;
    }
}

static bool holds_device_of(const JobReport *r, const Incident *incident)
{
    for (size_t i = 0; i < r->devices.len; i++)
        if (r->devices.at[i].now.held && incident_hits(incident, &r->devices.at[i].device))
            return true;
    return false;
}

static void note_problem(Job *job, const Incident *incident)
{
    JobReport *r = &job->report;
    JobProblem problem = {.severity = incident->severity,
                          .gpu = incident->device.kind == DEVICE_NODE ? DEVICE_NO_NUMBER : incident->device.index,
                          .first_real_ns = incident->first_real_ns};

    for (size_t i = 0; i < r->problems.len; i++)
        if (strcmp(r->problems.at[i].id, incident->id) == 0) {
            r->problems.at[i].severity =
                incident->severity > r->problems.at[i].severity ? incident->severity : r->problems.at[i].severity;
            return;
        }
    if (r->problems.len == JOB_PROBLEMS_MAX) {
        r->problems_lost +=
            note_lost(job->lost_hashes, r->problems_lost, map_hash(incident->id, strlen(incident->id), 0));
        return;
    }
    memcpy(problem.id, incident->id, sizeof problem.id);
    memcpy(problem.class, incident->class, sizeof problem.class);
    memcpy(problem.title, incident->title, sizeof problem.title);
    vec_push(&r->problems, problem);
}

static void note_peak(JobReport *r)
{
    double sum = NAN;

    for (size_t i = 0; i < r->devices.len; i++) {
        const UsagePart *now = &r->devices.at[i].now;

        if (now->held && now->memory_bytes != UINT64_MAX)
            sum = (isfinite(sum) ? sum : 0) + (double)now->memory_bytes;
    }
    r->memory_peak_bytes = fmax(r->memory_peak_bytes, sum);
}

static void note_value(double *value, double now)
{
    if (isfinite(now))
        *value = now;
}

/* What of it is not read any more stays as it was. Of a job on one node that is bound to no processors the workload
 * manager tells how many it was given. */
static void note_host(const Tick *t, JobReport *r)
{
    const HostUsage *usage = host_usage_find(&t->snapshot->host_usages, r->owner.job);
    JobHost *host = &r->host;

    if (r->kind != JOB_OF_MANAGER || !usage)
        return;
    note_value(&host->cpu_s, usage->cpu_s);
    note_value(&host->memory_limit_bytes, usage->memory_limit_bytes);
    host->memory_peak_bytes = fmax(host->memory_peak_bytes, usage->memory_bytes);
    if (isfinite(usage->cpus))
        host->cpus = usage->cpus;
    else if (r->info.nodes == 1 && r->info.cpus > 0)
        host->cpus = r->info.cpus;
}

static void add_tick(const Tick *t, Job *job)
{
    JobReport *r = &job->report;

    pass_time(t, job);
    widen_slices(r);
    memcpy(r->driver, t->snapshot->node->driver_version, sizeof r->driver);
    for (size_t i = 0; i < t->jobs->parts.len; i++)
        if (t->jobs->parts.at[i].job == job)
            add_part(t, &t->jobs->parts.at[i]);
    for (size_t i = 0; i < t->jobs->parts.len; i++)
        if (t->jobs->parts.at[i].job == job && t->jobs->parts.at[i].charge.begin_ns != 0)
            begin_part(t, &t->jobs->parts.at[i]);
    note_peak(r);
    for (size_t i = 0; i < t->snapshot->incident_count; i++)
        if (holds_device_of(r, t->snapshot->incidents[i]))
            note_problem(job, t->snapshot->incidents[i]);
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void free_job(Job *job)
{
    job_report_done(&job->report);
    free(job);
}

static bool has_left(const Job *job, uint64_t now_ns)
{
    const uint64_t left_ns = job->report.kind == JOB_OF_MANAGER ? JOB_LEFT_MANAGER_NS : JOB_LEFT_NS;

    return job->replaced || (!job->seen && now_ns - job->last_ns >= left_ns);
}

/* The first saves soon, as many works are short: after 1 s, 2 s, 4 s, ... */
static bool is_due(const Job *job, uint64_t now_ns)
{
    const double least = SAVE_FIRST_NS, half = job->report.elapsed_s * NS_PER_S / 2;
    const double wait = fmin(fmax(half, least), (double)JOB_SAVE_NS);

    return job->saved_ns == 0 || (double)(now_ns - job->saved_ns) >= wait;
}

static void keep_job(const Tick *t, size_t i, JobsPut put, void *self)
{
    const uint64_t now_ns = t->snapshot->node->time_ns;
    Job *job = t->jobs->open.at[i];
    const bool left = has_left(job, now_ns);

    if (left)
        job->report.ending = job->started ? JOB_LEFT : JOB_MISSED;
    if (left || (job->seen && is_due(job, now_ns))) {
        put(self, &job->report);
        job->saved_ns = now_ns;
    }
    if (!left)
        return;
    t->jobs->devices -= job->report.devices.len;
    vec_remove(&t->jobs->open, i);
    free_job(job);
}

void jobs_update(Jobs *jobs, const Snapshot *snapshot, const LedgerCharge *charges, const Prices *prices, JobsPut put,
                 void *self)
{
    const uint64_t now_ns = snapshot->node->time_ns;
    const uint64_t passed = jobs->last_ns ? now_ns - jobs->last_ns : 0;
    const double passed_s = (double)passed / NS_PER_S;
    const bool gap = passed > NODE_GAP_NS;
    const Tick t = {.jobs = jobs,
                    .snapshot = snapshot,
                    .charges = charges,
                    .prices = prices,
                    .s = gap ? 0 : passed_s,
                    .gap_s = gap ? passed_s : 0};

    for (size_t i = 0; i < jobs->open.len; i++) {
        jobs->open.at[i]->seen = false;
        jobs->open.at[i]->replaced = is_replaced(&t, &jobs->open.at[i]->report);
        if (jobs->last_ns == 0)
            jobs->open.at[i]->last_ns = now_ns;
    }
    jobs->last_ns = now_ns;
    vec_clear(&jobs->parts);
    for (size_t i = 0; i < snapshot->holding_count; i++)
        add_holding(&t, &snapshot->holdings[i]);
    for (size_t i = 0; i < jobs->parts.len; i++)
        finish_part(&jobs->parts.at[i]);
    for (size_t i = 0; i < jobs->open.len; i++) {
        leave_devices(&t, jobs->open.at[i]);
        if (jobs->open.at[i]->seen)
            add_tick(&t, jobs->open.at[i]);
        else
            jobs->open.at[i]->pending_s += passed_s;
        if (!jobs->open.at[i]->replaced)
            note_host(&t, &jobs->open.at[i]->report);
    }
    for (size_t i = jobs->open.len; i-- > 0;)
        keep_job(&t, i, put, self);
}

void jobs_save(Jobs *jobs, JobsPut put, void *self)
{
    for (size_t i = 0; i < jobs->open.len; i++)
        put(self, &jobs->open.at[i]->report);
}

/* --- the set ------------------------------------------------------------------------------------------------------ */

Jobs *jobs_new(void)
{
    return xcalloc(1, sizeof(Jobs));
}

void jobs_free(Jobs *jobs)
{
    if (!jobs)
        return;
    for (size_t i = 0; i < jobs->open.len; i++)
        free_job(jobs->open.at[i]);
    vec_done(&jobs->open);
    vec_done(&jobs->parts);
    free(jobs);
}

void jobs_restore(Jobs *jobs, JobReport *report)
{
    Job *job;

    if (jobs->open.len == JOBS_OPEN_MAX || jobs->devices + report->devices.len > JOBS_DEVICES_MAX) {
        jobs->lost++;
        job_report_done(report);
        return;
    }
    job = xcalloc(1, sizeof *job);
    job->report = *report;
    job->report.restarts++;
    job->restored = true;
    jobs->devices += report->devices.len;
    vec_push(&jobs->open, job);
    memset(report, 0, sizeof *report);
}

void jobs_add_wanted(uint64_t wanted[METRIC_SET_WORDS])
{
    static const MetricId ids[] = {METRIC_PROF_SM_ACTIVE,           METRIC_GPU_UTIL,    METRIC_PROF_PIPE_TENSOR_ACTIVE,
                                   METRIC_PROF_DRAM_ACTIVE,         METRIC_FB_USED,     METRIC_FB_TOTAL,
                                   METRIC_TOTAL_ENERGY_CONSUMPTION, METRIC_POWER_USAGE, METRIC_GPU_TEMP,
                                   METRIC_CLOCKS_EVENT_REASONS};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        metric_set_add(wanted, ids[i]);
}

size_t jobs_count(const Jobs *jobs)
{
    return jobs->open.len;
}

const JobReport *jobs_at(const Jobs *jobs, size_t i)
{
    return &jobs->open.at[i]->report;
}

uint64_t jobs_lost(const Jobs *jobs)
{
    return jobs->lost;
}
