/* SPDX-License-Identifier: Apache-2.0 */
/* The notes of a job's report: what its user should change, and what the numbers leave out. All limits are here. Pure.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/human.h"
#include "engine/jobs/jobs.h"

enum { WORK_MIN_S = 60 }; /* GPU seconds: shorter work gets no advice */

/* Shares of the time, of SM activity or of memory; of the time limit. */
static const double unused_share = 0.01, worth_advice = 0.2, worth_saying = 0.05, small_memory = 0.25, small_work = 0.5,
                    full_memory = 0.95, short_of_limit = 0.1;
static const double unseen_worth_s = 5;

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
    char text[DURATION_TEXT_MAX];

    for (size_t i = 0; i < r->devices.len; i++)
        gap_s += r->devices.at[i].gap_s;
    if (before_s > WORK_MIN_S)
        add_note(notes, "Its first process ran %s before it was seen: that time is in no number here.",
                 duration_format_s(text, before_s));
    if (r->unseen_s > unseen_worth_s)
        add_note(notes, "For %s of it nothing was seen, as no agent ran: that time is in no mean and no sum here.",
                 duration_format_s(text, r->unseen_s));
    if (r->ending == JOB_MISSED)
        add_note(notes, "It ended while no agent ran: the end given here is the last time that it was seen.");
    if (gap_s > unseen_worth_s)
        add_note(notes, "For %s of GPU time the driver gave no readings.", duration_format_s(text, gap_s));
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
        job_add_device(d, &names);
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
    const double held = job_sum_causes(r, 0, JOB_SLICES, causes);
    size_t most = job_find_most(causes);

    while (held >= WORK_MIN_S && causes[most] >= worth_advice * held) {
        const double share = causes[most] / held;
        char cost[48] = "";
        Str money;

        str_init_room(&money, cost, sizeof cost);
        if (most == WHY_IDLE_HELD) {
            str_addf(&money, " (%.2f GPU hours", share * r->gpu_hours);
            job_add_cost(r, share, &money);
            str_add(&money, ")");
        }
        if (why_causes[most].advice[0])
            add_note(notes, "%.0f %% of its GPU time%s: %s. %s", 100 * share, cost, why_causes[most].title,
                     why_causes[most].advice);
        causes[most] = 0;
        most = job_find_most(causes);
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
    if (most < small_memory && job_mean(r, USAGE_SM) < small_work)
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
        job_add_device(i ? most : least, &name);
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
    char ran[DURATION_TEXT_MAX], limit[DURATION_TEXT_MAX];

    if (r->ending == JOB_LEFT && r->info.limit_s > 0 && ran_s < short_of_limit * (double)r->info.limit_s)
        add_note(notes, "It ran %s of its time limit of %s: a job with a shorter limit can start sooner.",
                 duration_format_s(ran, ran_s), duration_format_s(limit, (double)r->info.limit_s));
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
