/* SPDX-License-Identifier: Apache-2.0 */
#include "service/jobs/job_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/human.h"
#include "base/number.h"
#include "service/status/status.h"

enum { BAR_WIDTH = 40, NAME_WIDTH = 28, ROWS_MAX = 16, WIDTH_MIN = 40 };

/* A smaller share of the time has no cause in the text. */
static const double least_shown = 0.05;

typedef char DurationText[DURATION_TEXT_MAX];

/* "2026-11-23 17:15:02" */
static const char *format_time(char text[CLOCK_TEXT_MAX], uint64_t real_ns)
{
    clock_format(text, real_ns);
    text[10] = ' ';
    text[19] = '\0';
    return text;
}

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

/* "starved: waits for its input 61 %, computing on tensor cores 39 %" */
static void add_causes(const double causes[WHY_END], double held, Str *out)
{
    double left[WHY_END];
    const char *comma = "";

    memcpy(left, causes, sizeof left);
    for (size_t most; left[most = job_find_most(left)] > least_shown * held; left[most] = 0, comma = ", ")
        str_addf(out, "%s%s %.0f %%", comma, why_causes[most].title, 100 * left[most] / held);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void add_percent(double share, Str *out)
{
    if (isfinite(share))
        str_addf(out, " %4.0f %%", 100 * share);
    else
        str_addf(out, " %6s", "-");
}

static void add_row(const JobReport *r, const JobStyle *style, Str *out)
{
    CLEANUP(str_done) Str name = str_limited(512);
    char age[HUMAN_MAX];
    DurationText lasted;
    double causes[WHY_END];
    const double held = job_sum_causes(r, 0, JOB_SLICES, causes);
    const double work = isfinite(job_mean(r, USAGE_SM)) ? job_mean(r, USAGE_SM) : job_mean(r, USAGE_UTIL);

    job_add_name(r, &name);
    str_addf(out, "%-12s  %-9s %-*.*s %-10.10s %4zu", r->id, job_kinds[r->kind].key, NAME_WIDTH, NAME_WIDTH, name.text,
             r->owner.user[0] ? r->owner.user : "-", r->devices.len);
    add_percent(work, out);
    str_addf(out, " %8.2f %8s  %s", r->gpu_hours, duration_format_s(lasted, r->elapsed_s),
             r->ending == JOB_RUNS ? "runs" : "ended ");
    if (r->ending != JOB_RUNS)
        str_addf(out, "%s ago",
                 human_age(age, style->real_ns > r->last_real_ns ? style->real_ns - r->last_real_ns : 0));
    if (held > 0)
        str_addf(out, ", %s", why_causes[job_find_most(causes)].key);
    str_addc(out, '\n');
}

void jobs_text(const JobReport *const *reports, size_t count, const JobStyle *style, Str *out)
{
    if (count == 0) {
        str_add(out, "No job, pod or container has held a GPU in this time\n");
        return;
    }
    str_addf(out, "%-12s  %-9s %-*s %-10s %4s %6s %8s %8s  %s\n", "ID", "KIND", NAME_WIDTH, "NAME", "USER", "GPUS",
             "WORK", "GPU-H", "TIME", "STATE, MOSTLY");
    for (size_t i = 0; i < count; i++)
        add_row(reports[i], style, out);
}

/* --- one report --------------------------------------------------------------------------------------------------- */

/* "  host      CPU time 1h12m on 8 processors, memory at most 12.3 GiB of 64.0 GiB" */
static void add_host(const JobHost *host, Str *out)
{
    char peak[HUMAN_MAX], limit[HUMAN_MAX];
    DurationText used;

    if (!isfinite(host->cpu_s) && !isfinite(host->memory_peak_bytes))
        return;
    str_add(out, "  host      ");
    if (isfinite(host->cpu_s))
        str_addf(out, "CPU time %s", duration_format_s(used, host->cpu_s));
    if (isfinite(host->cpu_s) && isfinite(host->cpus))
        str_addf(out, " on %.0f processors", host->cpus);
    if (isfinite(host->memory_peak_bytes))
        str_addf(out, "%smemory at most %s", isfinite(host->cpu_s) ? ", " : "",
                 human_bytes(peak, host->memory_peak_bytes));
    if (isfinite(host->memory_peak_bytes) && isfinite(host->memory_limit_bytes))
        str_addf(out, " of %s", human_bytes(limit, host->memory_limit_bytes));
    str_addc(out, '\n');
}

static void add_head(const JobReport *r, Str *out)
{
    char from[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];
    DurationText lasted;

    str_addf(out, "%c%s ", job_kinds[r->kind].key[0] - 'a' + 'A', job_kinds[r->kind].key + 1);
    job_add_name(r, out);
    if (r->owner.user[0])
        str_addf(out, " of %s", r->owner.user);
    str_addf(out, "%s%s: %s\n", r->info.name[0] ? ", " : "", r->info.name, job_endings[r->ending].text);
    str_addf(out, "  report    %s, node %s\n", r->id, r->node);
    if (r->info.array[0])
        str_addf(out, "  task      of an array; Slurm's number of it is %s\n", r->owner.job);
    if (r->owner.account[0] || r->info.partition[0])
        str_addf(out, "  account   %s, partition %s\n", r->owner.account[0] ? r->owner.account : "-",
                 r->info.partition[0] ? r->info.partition : "-");
    if (r->workload.name[0])
        str_addf(out, "  of        %s%s%s%s\n", r->workload.kind, r->workload.kind[0] ? " " : "", r->workload.name,
                 r->workload.derived ? ", by the pod's name" : "");
    if (r->info.nodes > 1)
        str_addf(out, "  nodes     %" PRIu32 "; this is what the GPUs of one did\n", r->info.nodes);
    str_addf(out, "  time      %s to %s UTC, %s\n", format_time(from, r->seen_real_ns),
             format_time(until, r->last_real_ns), duration_format_s(lasted, r->elapsed_s));
    str_addf(out, "  GPUs      %zu, %.2f GPU hours", r->devices.len, r->gpu_hours);
    if (isfinite(job_energy_j(r)))
        str_addf(out, ", %.3f kWh", job_energy_j(r) / 3.6e6);
    job_add_cost(r, 1, out);
    str_addc(out, '\n');
    add_host(&r->host, out);
}

/* "  SM active            [|||||||                 23 %]" */
static void add_bar(const char *name, double share, Str *out)
{
    const int full = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH);
    char bar[BAR_WIDTH + 1];

    if (!isfinite(share))
        return;
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '|', (size_t)full);
    bar[BAR_WIDTH] = '\0';
    str_addf(out, "  %-20s [%s %3.0f %%]\n", name, bar, 100 * share);
}

static double find_memory_share(const JobReport *r)
{
    double used = 0, total = 0;

    for (size_t i = 0; i < r->devices.len; i++)
        if (isfinite(r->devices.at[i].memory_peak_bytes) && isfinite(r->devices.at[i].memory_total_bytes)) {
            used += r->devices.at[i].memory_peak_bytes;
            total += r->devices.at[i].memory_total_bytes;
        }
    return total > 0 ? used / total : (double)NAN;
}

static void add_bars(const JobReport *r, Str *out)
{
    str_add(out, "\nOverall utilisation\n");
    add_bar("SM active", job_mean(r, USAGE_SM), out);
    add_bar("tensor cores", job_mean(r, USAGE_TENSOR), out);
    add_bar("memory interface", job_mean(r, USAGE_DRAM), out);
    add_bar("a kernel ran", job_mean(r, USAGE_UTIL), out);
    add_bar("memory, peak", find_memory_share(r), out);
}

static void add_device(const UsageDevice *d, Str *out)
{
    char peak[HUMAN_MAX], total[HUMAN_MAX];
    DurationText held;

    str_add(out, "  ");
    job_add_device(d, out);
    str_addf(out, " %s: held %s, %s %.0f %%\n   ", d->profile[0] ? d->profile : status_model(&d->device),
             duration_format_s(held, d->held_s), attributions[usage_attribution(d)].key,
             d->held_s > 0 ? 100 * d->share_s / d->held_s : 0);
    str_add(out, " SM active");
    add_percent(usage_own_mean(d, USAGE_SM), out);
    str_add(out, "  tensor");
    add_percent(usage_own_mean(d, USAGE_TENSOR), out);
    str_add(out, "  a kernel ran");
    add_percent(usage_own_mean(d, USAGE_UTIL), out);
    str_addf(out, "  memory %s of %s", human_bytes(peak, d->memory_peak_bytes),
             human_bytes(total, d->memory_total_bytes));
    if (isfinite(usage_own_mean(d, USAGE_POWER)))
        str_addf(out, "  %.0f W", usage_own_mean(d, USAGE_POWER));
    if (isfinite(d->temperature_max_c))
        str_addf(out, "  max %.0f C", d->temperature_max_c);
    str_addc(out, '\n');
}

/* Slices one behind the other with the same first verdict are one row. */
static void add_times(const JobReport *r, Str *out)
{
    const uint32_t count = job_slice_count(r);
    double causes[WHY_END], work, known, held;
    size_t rows = 0;

    str_add(out, "\nVerdicts by time\n");
    for (uint32_t from = 0, to; from < count && rows < ROWS_MAX; from = to, rows++) {
        DurationText begin, end;

        job_sum_causes(r, from, from + 1, causes);
        const size_t first = job_find_most(causes);
        for (to = from + 1; to < count && rows + 1 < ROWS_MAX; to++) {
            job_sum_causes(r, to, to + 1, causes);
            if (job_find_most(causes) != first)
                break;
        }
        to = rows + 1 == ROWS_MAX ? count : to;
        held = job_sum_causes(r, from, to, causes);
        work = known = 0;
        for (uint32_t i = from; i < to; i++) {
            work += (double)r->slices[i].busy;
            known += (double)r->slices[i].known;
        }
        str_addf(out, "  %8s to %-8s", duration_format_s(begin, from * r->slice_s),
                 duration_format_s(end, fmin(to * r->slice_s, r->elapsed_s)));
        if (held > 0) {
            if (known > 0)
                str_addf(out, " work %3.0f %%  ", 100 * work / known);
            else
                str_add(out, " work   -    ");
            add_causes(causes, held, out);
        } else {
            str_add(out, " nothing was seen");
        }
        str_addc(out, '\n');
    }
}

static void add_problems(const JobReport *r, Str *out)
{
    char at[CLOCK_TEXT_MAX];

    if (r->problems.len > 0)
        str_add(out, "\nIncidents on its GPUs\n");
    for (size_t i = 0; i < r->problems.len; i++) {
        const JobProblem *p = &r->problems.at[i];

        str_addf(out, "  %s UTC  %s: %s (%s)\n", format_time(at, p->first_real_ns), fault_severities[p->severity].key,
                 p->title, p->id);
    }
    if (r->problems_lost > 0)
        str_addf(out, "  and %" PRIu32 " more\n", r->problems_lost);
}

void job_text(const JobReport *r, const JobStyle *style, Str *out)
{
    const size_t width = style->width < WIDTH_MIN ? WIDTH_MIN : style->width;
    JobNotes notes;

    job_find_notes(r, &notes);
    add_head(r, out);
    add_bars(r, out);
    str_add(out, "\nGPUs, its part of them\n");
    for (size_t i = 0; i < r->devices.len; i++)
        add_device(&r->devices.at[i], out);
    add_times(r, out);
    add_problems(r, out);
    if (notes.count > 0)
        str_add(out, "\nNotes\n");
    for (size_t i = 0; i < notes.count; i++) {
        str_add(out, "  * ");
        str_add_wrapped(out, notes.at[i], 4, 4, width);
    }
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

void job_line(const JobReport *r, Str *out)
{
    const double sm = job_mean(r, USAGE_SM), util = job_mean(r, USAGE_UTIL), memory = find_memory_share(r);
    double causes[WHY_END];
    const double held = job_sum_causes(r, 0, JOB_SLICES, causes);
    DurationText lasted;

    str_addf(out, "stoker: gpus=%zu time=%s gpu_hours=%.2f", r->devices.len, duration_format_s(lasted, r->elapsed_s),
             r->gpu_hours);
    if (isfinite(sm))
        str_addf(out, " sm_active=%.0f%%", 100 * sm);
    if (isfinite(util))
        str_addf(out, " gpu_util=%.0f%%", 100 * util);
    if (isfinite(memory))
        str_addf(out, " mem_peak=%.0f%%", 100 * memory);
    if (isfinite(job_energy_j(r)))
        str_addf(out, " energy_kwh=%.3f", job_energy_j(r) / 3.6e6);
    if (r->priced_s > 0 && r->currency[0] && r->currency[0] != '?')
        str_addf(out, " cost=%.2f%s", r->cost, r->currency);
    if (r->problems.len > 0)
        str_addf(out, " incidents=%zu", r->problems.len);
    for (size_t n = 0; held > 0 && n < 3; n++) {
        const size_t most = job_find_most(causes);

        if (causes[most] < least_shown * held)
            break;
        str_addf(out, " %s=%.0f%%", why_causes[most].key, 100 * causes[most] / held);
        causes[most] = 0;
    }
    str_addf(out, " report=%s", r->id);
}
