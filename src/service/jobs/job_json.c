/* SPDX-License-Identifier: Apache-2.0 */
/* Sums are written as means and the seconds that they are of. */
#include "service/jobs/job_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "service/json/members.h"

CLEANUP_POINTER(json_t, json_decref);

#define ELAPSED_MAX_S 1e10

/* --- devices ------------------------------------------------------------------------------------------------------ */

static void convert_place(const Convert *f, UsageDevice *d)
{
    convert_number(f, "gpu", &d->gpu_index);
    if (f->out && d->device.kind != DEVICE_COMPUTE_INSTANCE) {
        json_add_null(f->out, "instance");
    } else if (f->out || json_is_object(json_object_get(f->in, "instance"))) {
        const Convert own = convert_open(f, "instance");

        if (!f->out)
            device_init(&d->device, DEVICE_COMPUTE_INSTANCE);
        convert_number(&own, "gpu_instance", &d->device.gpu_instance);
        convert_number(&own, "compute_instance", &d->device.compute_instance);
        convert_close(f, '}');
    }
    if (!f->out && d->device.kind == DEVICE_GPU)
        d->device.index = d->gpu_index;
    CONVERT_TEXT(f, "uuid", d->device.uuid);
    CONVERT_TEXT(f, "gpu_uuid", d->device.parent_uuid);
    convert_pci(f, &d->device.has_pci, &d->device.pci, PCI_FORM_NVML);
    CONVERT_TEXT(f, "model", d->device.name);
    CONVERT_TEXT(f, "profile", d->profile);
}

/* Means of the group's part, of the device, and the seconds that they are of. */
static void convert_means(const Convert *f, UsageDevice *d)
{
    double own[USAGE_MEAN_END], all[USAGE_MEAN_END];

    for (UsageMean m = 0; m < USAGE_MEAN_END; m++) {
        own[m] = usage_own_mean(d, m);
        all[m] = usage_mean(d, m);
        convert_real(f, usage_means[m].key, &own[m]);
    }
    const Convert device = convert_open(f, "device");
    for (UsageMean m = 0; m < USAGE_MEAN_END; m++)
        convert_real(&device, usage_means[m].key, &all[m]);
    convert_real(&device, "memory_peak_bytes", &d->device_peak_bytes);
    convert_close(f, '}');
    const Convert known = convert_open(f, "known_s");
    for (UsageMean m = 0; m < USAGE_MEAN_END; m++)
        convert_real(&known, usage_means[m].key, &d->known_s[m]);
    convert_close(f, '}');
    for (UsageMean m = 0; m < USAGE_MEAN_END && !f->out; m++) {
        d->own[m] = d->known_s[m] > 0 ? own[m] * d->known_s[m] : 0;
        d->sum[m] = d->known_s[m] > 0 ? all[m] * d->known_s[m] : 0;
    }
}

static void convert_attribution(const Convert *f, UsageDevice *d)
{
    Attribution most = usage_attribution(d);
    double share = d->held_s > 0 ? d->share_s / d->held_s : 0;

    convert_word(f, "attribution", &most, attributions, ATTRIBUTION_END);
    convert_real(f, "share", &share);
    const Convert own = convert_open(f, "attribution_s");
    for (Attribution a = 0; a < ATTRIBUTION_END; a++)
        convert_real(&own, attributions[a].key, &d->attribution_s[a]);
    convert_close(f, '}');
    if (!f->out)
        d->share_s = share * d->held_s;
}

static void convert_throttling(const Convert *f, UsageDevice *d)
{
    double any = d->throttle_known ? d->throttled_s : (double)NAN;

    convert_real(f, "throttled_s", &any);
    const Convert own = convert_open(f, "throttled_by_s");
    for (UsageThrottle t = 0; t < USAGE_THROTTLE_END; t++)
        if (t != USAGE_THROTTLE_POWER)
            convert_real(&own, usage_throttles[t].key, &d->throttle_s[t]);
    convert_close(f, '}');
    convert_real(f, "power_limit_s", &d->throttle_s[USAGE_THROTTLE_POWER]);
    d->throttle_known = isfinite(any);
    d->throttled_s = d->throttle_known ? any : 0;
}

static void convert_device(const Convert *f, UsageDevice *d)
{
    double energy_j = d->energy_basis == USAGE_ENERGY_UNKNOWN ? (double)NAN : d->energy_j;

    convert_place(f, d);
    convert_real(f, "gpu_share", &d->gpu_share);
    convert_real(f, "held_s", &d->held_s);
    convert_real(f, "gap_s", &d->gap_s);
    convert_number(f, "processes", &d->processes);
    convert_attribution(f, d);
    convert_means(f, d);
    convert_real(f, "memory_peak_bytes", &d->memory_peak_bytes);
    convert_real(f, "memory_before_bytes", &d->memory_before_bytes);
    convert_real(f, "memory_total_bytes", &d->memory_total_bytes);
    convert_real(f, "energy_j", &energy_j);
    convert_word(f, "energy_basis", &d->energy_basis, usage_energies, USAGE_ENERGY_END);
    convert_real(f, "temperature_max_c", &d->temperature_max_c);
    convert_throttling(f, d);
    d->energy_j = isfinite(energy_j) ? energy_j : 0;
}

static void convert_devices(const Convert *f, JobReport *r)
{
    const json_t *from;
    const size_t count = convert_open_list(f, "gpus", r->devices.len, USAGE_DEVICES_MAX, &from);
    Reading nothing;

    for (size_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, from, i);

        if (!f->out) {
            reading_init(&nothing, DEVICE_GPU);
            usage_device_init(vec_add(&r->devices), &nothing, &nothing);
        }
        convert_device(&one, &r->devices.at[i]);
        convert_close(f, '}');
    }
    convert_close(f, ']');
}

/* --- verdicts by time --------------------------------------------------------------------------------------------- */

static void convert_float(const Convert *f, const char *name, float *value)
{
    double wide = (double)*value;

    convert_real(f, name, &wide);
    *value = (float)wide;
}

static void convert_slice(const Convert *f, JobSlice *slice)
{
    convert_float(f, "held_s", &slice->held);
    convert_float(f, "known_s", &slice->known);
    convert_float(f, "busy_s", &slice->busy);
    const Convert why = convert_open(f, "causes_s");
    for (size_t w = 0; w < WHY_END; w++)
        if (!f->out || slice->why[w] > 0)
            convert_float(&why, why_causes[w].key, &slice->why[w]);
    convert_close(f, '}');
}

static void convert_slices(const Convert *f, JobReport *r)
{
    const json_t *from;

    convert_real(f, "slice_s", &r->slice_s);
    if (!(r->slice_s >= JOB_SLICE_S))
        r->slice_s = JOB_SLICE_S;
    const size_t count = convert_open_list(f, "slices", job_slice_count(r), JOB_SLICES, &from);
    for (size_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, from, i);

        convert_slice(&one, &r->slices[i]);
        convert_close(f, '}');
    }
    convert_close(f, ']');
}

/* The same as sums, longest first; only written. */
static void add_verdicts(const JobReport *r, Str *out)
{
    double left[WHY_END] = {0}, held = 0;

    for (size_t i = 0; i < JOB_SLICES; i++) {
        held += (double)r->slices[i].held;
        for (size_t w = 0; w < WHY_END; w++)
            left[w] += (double)r->slices[i].why[w];
    }
    json_open(out, "verdicts", '[');
    for (;;) {
        size_t most = 0;

        for (size_t w = 1; w < WHY_END; w++)
            most = left[w] > left[most] ? w : most;
        if (!(left[most] > 0))
            break;
        json_open(out, NULL, '{');
        json_add_text(out, "cause", why_causes[most].key);
        json_add_double(out, "seconds", left[most]);
        json_add_double(out, "share", left[most] / held);
        json_close(out, '}');
        left[most] = 0;
    }
    json_close(out, ']');
}

/* --- the report --------------------------------------------------------------------------------------------------- */

/* 0 is null. */
static uint32_t none_or(uint64_t number)
{
    return number == 0 || number >= UINT32_MAX ? DEVICE_NO_NUMBER : (uint32_t)number;
}

static void convert_owner(const Convert *f, JobReport *r)
{
    uint32_t limit_s = none_or(r->info.limit_s), nodes = none_or(r->info.nodes);

    CONVERT_TEXT(f, "user", r->owner.user);
    CONVERT_TEXT(f, "account", r->owner.account);
    CONVERT_TEXT(f, "job", r->owner.job);
    CONVERT_TEXT(f, "array_task", r->info.array);
    CONVERT_TEXT(f, "slurm_start", r->info.started);
    CONVERT_TEXT(f, "namespace", r->owner.namespace);
    CONVERT_TEXT(f, "pod", r->owner.pod);
    CONVERT_TEXT(f, "container", r->owner.container);
    CONVERT_TEXT(f, "process", r->owner.process);
    CONVERT_TEXT(f, "name", r->info.name);
    CONVERT_TEXT(f, "partition", r->info.partition);
    const Convert workload = convert_open(f, "workload");
    CONVERT_TEXT(&workload, "kind", r->workload.kind);
    CONVERT_TEXT(&workload, "name", r->workload.name);
    convert_bool(&workload, "derived", &r->workload.derived);
    convert_close(f, '}');
    convert_number(f, "nodes", &nodes);
    convert_number(f, "limit_s", &limit_s);
    if (f->out)
        return;
    r->info.nodes = nodes == DEVICE_NO_NUMBER ? 0 : nodes;
    r->info.limit_s = limit_s == DEVICE_NO_NUMBER ? 0 : limit_s;
}

static void convert_problems(const Convert *f, JobReport *r)
{
    const json_t *from;
    const size_t count = convert_open_list(f, "incidents", r->problems.len, JOB_PROBLEMS_MAX, &from);

    for (size_t i = 0; i < count; i++) {
        const Convert one = convert_open_element(f, from, i);
        JobProblem *p = f->out ? &r->problems.at[i] : vec_add(&r->problems);

        if (!f->out)
            p->gpu = DEVICE_NO_NUMBER;
        CONVERT_TEXT(&one, "id", p->id);
        CONVERT_TEXT(&one, "class", p->class);
        convert_word(&one, "severity", &p->severity, fault_severities, SEVERITY_END);
        convert_number(&one, "gpu", &p->gpu);
        CONVERT_TEXT(&one, "title", p->title);
        convert_time(&one, "first", &p->first_real_ns);
        convert_close(f, '}');
    }
    convert_close(f, ']');
    convert_number(f, "incidents_lost", &r->problems_lost);
}

static void convert_host(const Convert *f, JobHost *host)
{
    const Convert own = convert_open(f, "host");

    convert_real(&own, "cpu_s", &host->cpu_s);
    convert_real(&own, "cpus", &host->cpus);
    convert_real(&own, "memory_peak_bytes", &host->memory_peak_bytes);
    convert_real(&own, "memory_limit_bytes", &host->memory_limit_bytes);
    convert_close(f, '}');
}

static void convert_cost(const Convert *f, JobReport *r)
{
    double cost = r->priced_s > 0 && r->currency[0] && r->currency[0] != '?' ? r->cost : (double)NAN;

    convert_real(f, "cost", &cost);
    CONVERT_TEXT(f, "currency", r->currency);
    convert_real(f, "priced_s", &r->priced_s);
    if (!f->out)
        r->cost = isfinite(cost) ? cost : 0;
}

static void add_sums(const JobReport *r, Str *out)
{
    JobNotes notes;

    json_add_double(out, "energy_j", job_energy_j(r));
    for (UsageMean m = 0; m < USAGE_POWER; m++)
        json_add_double(out, usage_means[m].key, job_mean(r, m));
    job_find_notes(r, &notes);
    json_open(out, "notes", '[');
    for (size_t i = 0; i < notes.count; i++)
        json_add_text(out, NULL, notes.at[i]);
    json_close(out, ']');
    add_verdicts(r, out);
}

static void convert_report(const Convert *f, JobReport *r)
{
    CONVERT_TEXT(f, "id", r->id);
    convert_word(f, "kind", &r->kind, job_kinds, JOB_KIND_END);
    if (f->out)
        json_add_text(f->out, "state", r->ending == JOB_RUNS ? "running" : "ended");
    convert_word(f, "ended_by", &r->ending, job_endings, JOB_ENDING_END);
    convert_owner(f, r);
    CONVERT_TEXT(f, "node", r->node);
    CONVERT_TEXT(f, "driver", r->driver);
    convert_time(f, "process_started", &r->process_real_ns);
    convert_time(f, "seen_from", &r->seen_real_ns);
    convert_time(f, "seen_until", &r->last_real_ns);
    convert_real(f, "elapsed_s", &r->elapsed_s);
    if (!(r->elapsed_s >= 0 && r->elapsed_s < ELAPSED_MAX_S))
        r->elapsed_s = 0;
    convert_real(f, "away_s", &r->away_s);
    convert_real(f, "unseen_s", &r->unseen_s);
    convert_number(f, "agent_restarts", &r->restarts);
    convert_real(f, "gpu_hours", &r->gpu_hours);
    if (f->out)
        add_sums(r, f->out);
    convert_real(f, "memory_peak_bytes", &r->memory_peak_bytes);
    convert_host(f, &r->host);
    convert_cost(f, r);
    convert_devices(f, r);
    convert_bool(f, "gpus_lost", &r->devices_lost);
    convert_problems(f, r);
    convert_slices(f, r);
}

void job_json(const JobReport *report, Str *out)
{
    JobReport copy = *report; /* its lists stay the other's */

    json_open(out, NULL, '{');
    json_add_u64(out, "version", 1);
    convert_report(&(Convert){.out = out}, &copy);
    json_close(out, '}');
}

void jobs_json(const JobReport *const *reports, size_t count, const char *node, uint64_t real_ns, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "node", node[0] ? node : NULL);
    json_add_time(out, "time", real_ns);
    json_open(out, "jobs", '[');
    for (size_t i = 0; i < count; i++)
        job_json(reports[i], out);
    str_add(out, "]}\n");
}

static bool read_report(const json_t *from, JobReports *reports)
{
    JobReport *r = vec_add(reports);

    job_report_init(r);
    r->kind = JOB_KIND_END;
    convert_report(&(Convert){.in = from}, r);
    if (r->id[0] && r->kind != JOB_KIND_END)
        return true;
    job_report_done(r);
    reports->len--;
    return false;
}

int jobs_read(const char *text, size_t len, JobReports *reports, Err *err)
{
    CLEANUP(json_decref_at) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *many = json_object_get(root, "jobs");

    if (!json_is_object(root) || (many && !json_is_array(many)))
        return err_set(err, -EINVAL, "this is no JSON of job reports");
    for (size_t i = 0; i < (many ? json_array_size(many) : 1); i++)
        if (!read_report(many ? json_array_get(many, i) : root, reports))
            return err_set(err, -EINVAL, "a job report in the JSON has no id or kind");
    return 0;
}

void job_reports_done(JobReports *reports)
{
    for (size_t i = 0; i < reports->len; i++)
        job_report_done(&reports->at[i]);
    vec_done(reports);
}
