/* SPDX-License-Identifier: Apache-2.0 */
#include "service/jobs/job_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/human.h"
#include "base/number.h"
#include "service/status/status.h"

enum { BAR_WIDTH = 40, NAME_WIDTH = 28, WORK_MIN_S = 60, ROWS_MAX = 16, WIDTH_MIN = 40 };

static const double unused_share = 0.01, worth_advice = 0.2, worth_saying = 0.05, small_memory = 0.25,
                    full_memory = 0.95, short_of_limit = 0.1;
static const double unseen_worth_s = 5, seconds_max = 1e10;

typedef char DurationText[DURATION_TEXT_MAX];

static const char *format_seconds(DurationText text, double seconds)
{
    duration_format(text, (uint64_t)llround(fmin(fmax(seconds, 0), seconds_max)) * NS_PER_S);
    return text;
}

/* "2026-11-23 17:15:02" */
static const char *format_time(char text[CLOCK_TEXT_MAX], uint64_t real_ns)
{
    clock_format(text, real_ns);
    text[10] = ' ';
    text[19] = '\0';
    return text;
}

/* How long its first process ran before it was seen. */
static double find_before_s(const JobReport *r)
{
    return r->process_real_ns && r->seen_real_ns > r->process_real_ns
               ? (double)(r->seen_real_ns - r->process_real_ns) / NS_PER_S
               : 0;
}

/* The group's part in the multiprocessors' work; NaN: not known. */
static double find_work(const UsageDevice *d)
{
    const double sm = usage_own_mean(d, USAGE_SM);

    return isfinite(sm) ? sm : usage_own_mean(d, USAGE_UTIL);
}

static void add_device_name(const UsageDevice *d, Str *out)
{
    if (d->gpu_index != DEVICE_NO_NUMBER)
        str_addf(out, "GPU %" PRIu32, d->gpu_index);
    else
        str_add(out, "GPU");
    if (d->device.kind == DEVICE_COMPUTE_INSTANCE)
        str_addf(out, " instance %" PRIu32 "/%" PRIu32, d->device.gpu_instance, d->device.compute_instance);
}

static void add_cost(const JobReport *r, double share, Str *out)
{
    if (r->priced_s > 0 && r->currency[0] && r->currency[0] != '?')
        str_addf(out, ", %.2f %s", r->cost * share, r->currency);
}

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

/* Seconds of each verdict in slices [from, to), and all of them. */
static double sum_causes(const JobReport *r, size_t from, size_t to, double causes[WHY_END])
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

static size_t find_most(const double causes[WHY_END])
{
    size_t most = 0;

    for (size_t w = 1; w < WHY_END; w++)
        most = causes[w] > causes[most] ? w : most;
    return most;
}

/* "starved: waits for its input 61 %, computing on tensor cores 39 %" */
static void add_causes(const double causes[WHY_END], double held, Str *out)
{
    double left[WHY_END];
    const char *comma = "";

    memcpy(left, causes, sizeof left);
    for (size_t most; left[most = find_most(left)] > worth_saying * held; left[most] = 0, comma = ", ")
        str_addf(out, "%s%s %.0f %%", comma, why_causes[most].title, 100 * left[most] / held);
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

static void add_note(JobNotes *notes, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add_note(JobNotes *notes, const char *fmt, ...)
{
    va_list args;
    Str text;

    if (notes->count == sizeof notes->at / sizeof notes->at[0])
        return;
    str_init_room(&text, notes->at[notes->count], sizeof notes->at[0]);
    va_start(args, fmt);
    str_addv(&text, fmt, args);
    va_end(args);
    notes->count += text.len > 0;
}

static void note_what_is_missing(const JobReport *r, JobNotes *notes)
{
    const double before_s = find_before_s(r);
    double gap_s = 0;
    DurationText text;

    for (size_t i = 0; i < r->devices.len; i++)
        gap_s += r->devices.at[i].gap_s;
    if (before_s > WORK_MIN_S)
        add_note(notes, "Its first process ran %s before it was seen: that time is in no number here.",
                 format_seconds(text, before_s));
    if (r->unseen_s > unseen_worth_s)
        add_note(notes, "For %s of it nothing was seen, as no agent ran: that time is in no mean and no sum here.",
                 format_seconds(text, r->unseen_s));
    if (r->ending == JOB_MISSED)
        add_note(notes, "It ended while no agent ran: the end given here is the last time that it was seen.");
    if (gap_s > unseen_worth_s)
        add_note(notes, "For %s of GPU time the driver gave no readings.", format_seconds(text, gap_s));
    if (r->devices_lost)
        add_note(notes, "It held more GPUs or instances than are counted.");
}

static void note_unused(const JobReport *r, JobNotes *notes)
{
    size_t unused = 0;
    bool opened = false; /* a process of it was on one of them */
    CLEANUP(str_done) Str names = str_limited(128);

    for (size_t i = 0; i < r->devices.len; i++) {
        const UsageDevice *d = &r->devices.at[i];

        if (d->held_s < WORK_MIN_S || !(find_work(d) < unused_share))
            continue;
        str_add(&names, unused++ > 0 ? ", " : "");
        add_device_name(d, &names);
        opened |= d->processes > 0;
    }
    if (unused > 0)
        add_note(notes, "%s %s never used (%s below 1 %%): %s.", names.text, unused > 1 ? "were" : "was",
                 isfinite(job_mean(r, USAGE_SM)) ? "SM active" : "utilisation",
                 unused < r->devices.len ? "ask for fewer GPUs, or let the program use all of them"
                 : opened                ? "its program has memory there and computed nothing"
                                         : "this work needs no GPU, or did not find it");
}

static void note_causes(const JobReport *r, JobNotes *notes)
{
    double causes[WHY_END];
    const double held = sum_causes(r, 0, JOB_SLICES, causes);
    size_t most = find_most(causes);

    while (held >= WORK_MIN_S && causes[most] >= worth_advice * held) {
        const double share = causes[most] / held;
        char cost[48] = "";
        Str money;

        str_init_room(&money, cost, sizeof cost);
        if (most == WHY_IDLE_HELD) {
            str_addf(&money, " (%.2f GPU hours", share * r->gpu_hours);
            add_cost(r, share, &money);
            str_add(&money, ")");
        }
        if (why_causes[most].advice[0])
            add_note(notes, "%.0f %% of its GPU time%s: %s. %s", 100 * share, cost, why_causes[most].title,
                     why_causes[most].advice);
        causes[most] = 0;
        most = find_most(causes);
    }
}

static void note_memory(const JobReport *r, JobNotes *notes)
{
    double most = NAN, bytes = NAN, total = NAN;
    char used[HUMAN_MAX], all[HUMAN_MAX];

    for (size_t i = 0; i < r->devices.len; i++) {
        const UsageDevice *d = &r->devices.at[i];
        const double share = d->memory_peak_bytes / d->memory_total_bytes;

        if (d->held_s < WORK_MIN_S || !isfinite(share) || share <= most)
            continue;
        most = share;
        bytes = d->memory_peak_bytes;
        total = d->memory_total_bytes;
    }
    if (most < small_memory && job_mean(r, USAGE_SM) < 0.5)
        add_note(notes,
                 "It used at most %s of %s of a GPU's memory and half of its multiprocessors or less: a smaller "
                 "GPU or a MIG instance would do.",
                 human_bytes(used, bytes), human_bytes(all, total));
    if (most > full_memory)
        add_note(notes, "It used up to %s of %s of a GPU's memory: a little more and it fails.",
                 human_bytes(used, bytes), human_bytes(all, total));
}

static void note_balance(const JobReport *r, JobNotes *notes)
{
    const UsageDevice *least = NULL, *most = NULL;
    char names[2][64];

    for (size_t i = 0; i < r->devices.len; i++) {
        const UsageDevice *d = &r->devices.at[i];

        if (d->held_s < WORK_MIN_S || !(find_work(d) >= unused_share))
            continue;
        least = !least || find_work(d) < find_work(least) ? d : least;
        most = !most || find_work(d) > find_work(most) ? d : most;
    }
    if (!least || find_work(most) < worth_advice || find_work(least) > find_work(most) / 2)
        return;
    for (int i = 0; i < 2; i++) {
        Str name;

        str_init_room(&name, names[i], sizeof names[i]);
        add_device_name(i ? most : least, &name);
    }
    add_note(notes,
             "Its GPUs worked unevenly: %s %.0f %%, %s %.0f %%. Divide the work evenly, or find what delays the "
             "one ('stoker why').",
             names[0], 100 * find_work(least), names[1], 100 * find_work(most));
}

static void note_throttling(const JobReport *r, JobNotes *notes)
{
    double throttled = 0, held = 0;

    for (size_t i = 0; i < r->devices.len; i++)
        if (r->devices.at[i].throttle_known) {
            throttled += r->devices.at[i].throttled_s;
            held += r->devices.at[i].held_s;
        }
    if (held > 0 && throttled / held >= worth_saying)
        add_note(notes,
                 "For %.0f %% of the time heat or a power brake held the clocks down: no setting of the program "
                 "helps, tell the node's administrator.",
                 100 * throttled / held);
}

static void note_limit(const JobReport *r, JobNotes *notes)
{
    const double ran_s = find_before_s(r) + r->elapsed_s;
    DurationText ran, limit;

    if (r->ending == JOB_LEFT && r->info.limit_s > 0 && ran_s < short_of_limit * (double)r->info.limit_s)
        add_note(notes, "It ran %s of its time limit of %s: a job with a shorter limit can start sooner.",
                 format_seconds(ran, ran_s), format_seconds(limit, (double)r->info.limit_s));
}

void job_find_notes(const JobReport *r, JobNotes *ret)
{
    memset(ret, 0, sizeof *ret);
    note_unused(r, ret);
    note_causes(r, ret);
    note_memory(r, ret);
    note_balance(r, ret);
    note_throttling(r, ret);
    note_limit(r, ret);
    note_what_is_missing(r, ret);
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
    const double held = sum_causes(r, 0, JOB_SLICES, causes);
    const double work = isfinite(job_mean(r, USAGE_SM)) ? job_mean(r, USAGE_SM) : job_mean(r, USAGE_UTIL);

    job_add_name(r, &name);
    str_addf(out, "%-12s  %-9s %-*.*s %-10.10s %4zu", r->id, job_kinds[r->kind].key, NAME_WIDTH, NAME_WIDTH, name.text,
             r->owner.user[0] ? r->owner.user : "-", r->devices.len);
    add_percent(work, out);
    str_addf(out, " %8.2f %8s  %s", r->gpu_hours, format_seconds(lasted, r->elapsed_s),
             r->ending == JOB_RUNS ? "runs" : "ended ");
    if (r->ending != JOB_RUNS)
        str_addf(out, "%s ago",
                 human_age(age, style->real_ns > r->last_real_ns ? style->real_ns - r->last_real_ns : 0));
    if (held > 0)
        str_addf(out, ", %s", why_causes[find_most(causes)].key);
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
        str_addf(out, "CPU time %s", format_seconds(used, host->cpu_s));
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
             format_time(until, r->last_real_ns), format_seconds(lasted, r->elapsed_s));
    str_addf(out, "  GPUs      %zu, %.2f GPU hours", r->devices.len, r->gpu_hours);
    if (isfinite(job_energy_j(r)))
        str_addf(out, ", %.3f kWh", job_energy_j(r) / 3.6e6);
    add_cost(r, 1, out);
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
    add_device_name(d, out);
    str_addf(out, " %s: held %s, %s %.0f %%\n   ", d->profile[0] ? d->profile : status_model(&d->device),
             format_seconds(held, d->held_s), attributions[usage_attribution(d)].key,
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

        sum_causes(r, from, from + 1, causes);
        const size_t first = find_most(causes);
        for (to = from + 1; to < count && rows + 1 < ROWS_MAX; to++) {
            sum_causes(r, to, to + 1, causes);
            if (find_most(causes) != first)
                break;
        }
        to = rows + 1 == ROWS_MAX ? count : to;
        held = sum_causes(r, from, to, causes);
        work = known = 0;
        for (uint32_t i = from; i < to; i++) {
            work += (double)r->slices[i].busy;
            known += (double)r->slices[i].known;
        }
        str_addf(out, "  %8s to %-8s", format_seconds(begin, from * r->slice_s),
                 format_seconds(end, fmin(to * r->slice_s, r->elapsed_s)));
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
    const double held = sum_causes(r, 0, JOB_SLICES, causes);
    DurationText lasted;

    str_addf(out, "stoker: gpus=%zu time=%s gpu_hours=%.2f", r->devices.len, format_seconds(lasted, r->elapsed_s),
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
        const size_t most = find_most(causes);

        if (causes[most] < worth_saying * held)
            break;
        str_addf(out, " %s=%.0f%%", why_causes[most].key, 100 * causes[most] / held);
        causes[most] = 0;
    }
    str_addf(out, " report=%s", r->id);
}
