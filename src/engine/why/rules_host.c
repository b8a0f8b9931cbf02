/* SPDX-License-Identifier: Apache-2.0 */
/* What the host tells: processes that are stuck, checkpoints, and programs that do not feed their GPU. */
#include "engine/why/rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/human.h"

bool why_find_stuck(const WhyCase *c, WhyVerdict *v)
{
    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];

        if ((p->state != 'D' && p->state != 'T' && p->state != 'Z') || p->state_s < limit_STUCK_S)
            continue;
        v->confidence = WHY_HIGH;
        v->share = 1;
        CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
        why_cite_number(v, "/proc/PID/stat", "seconds in that state", WHY_UNIT_SECONDS, p->state_s);
        why_write_text(v, "stuck: process %" PRIu32 " is %s for %.0f s", p->pid,
                       p->state == 'D'   ? "waiting in the kernel (state D)"
                       : p->state == 'T' ? "stopped (state T)"
                                         : "a zombie (state Z)",
                       p->state_s);
        return true;
    }
    return false;
}

static double sum_written(const WhyCase *c)
{
    double sum = NAN;

    for (size_t i = 0; i < c->in->process_count; i++)
        if (isfinite(c->in->processes[i].written))
            sum = (isfinite(sum) ? sum : 0) + c->in->processes[i].written;
    return sum;
}

/* Bytes per second of the window's stalls that are over and in which they wrote enough for a checkpoint; 0: none. */
static double written_in_stalls(const WhyCase *c)
{
    double bytes = 0, seconds = 0;

    for (size_t i = 0; i < c->in->stall_count; i++) {
        const WhyStall *stall = &c->in->stalls[i];

        if (stall->ago_s - stall->length_s < c->activity->window_s &&
            stall->written >= limit_WRITES * stall->length_s) {
            bytes += stall->written;
            seconds += stall->length_s;
        }
    }
    return seconds > 0 ? bytes / seconds : 0;
}

/* Share of the window in which nothing ran while its program wrote, in `seconds`; 0: in none, or not long enough. */
static double share_of_checkpoints(const WhyCase *c, double *ret_seconds, double *ret_written)
{
    const double share = why_share_of_seconds(c, why_second_is_pause, ret_seconds);

    *ret_written = fmax(sum_written(c), written_in_stalls(c));
    return *ret_written >= limit_WRITES && why_is_stall(*ret_seconds) ? share : 0;
}

/* Stalls in which its processes wrote, that come again after the same time. */
typedef struct Rhythm {
    double every_s, length_s, written; /* medians; bytes per stall */
    size_t count;
} Rhythm;

static bool find_rhythm(const WhyCase *c, Rhythm *ret)
{
    double began[WHY_STALLS_MAX], between[WHY_STALLS_MAX], lengths[WHY_STALLS_MAX], written[WHY_STALLS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < c->in->stall_count; i++) {
        const WhyStall *stall = &c->in->stalls[i];

        if (!(stall->written >= limit_WRITES * stall->length_s))
            continue;
        began[count] = stall->ago_s;
        lengths[count] = stall->length_s;
        written[count] = stall->written;
        if (count > 0)
            between[count - 1] = began[count - 1] - began[count];
        count++;
    }
    if ((double)count < limit_STALLS)
        return false;
    const double every_s = why_median(between, count - 1);
    for (size_t i = 0; i + 1 < count; i++)
        if (fabs(between[i] - every_s) > fmax(limit_RHYTHM * every_s, limit_PAUSE_S))
            return false;
    if (began[count - 1] > limit_RHYTHM_LOST * every_s)
        return false;
    *ret = (Rhythm){every_s, why_median(lengths, count), why_median(written, count), count};
    return true;
}

static void cite_rhythm(WhyVerdict *v, const Rhythm *rhythm)
{
    why_cite_number(v, "/proc/PID/io", "stalls that wrote", WHY_UNIT_COUNT, (double)rhythm->count);
    why_cite_number(v, "/proc/PID/io", "from one to the next", WHY_UNIT_SECONDS, rhythm->every_s);
    why_cite_number(v, "/proc/PID/io", "length of one", WHY_UNIT_SECONDS, rhythm->length_s);
    why_cite_number(v, "/proc/PID/io", "written in one", WHY_UNIT_BYTES, rhythm->written);
}

/* Beside what it does between two of them. */
bool why_find_checkpoints(const WhyCase *c, WhyVerdict *v)
{
    char every[HUMAN_MAX];
    Rhythm rhythm;

    if (!find_rhythm(c, &rhythm))
        return false;
    v->confidence = WHY_HIGH;
    v->share = fmin(rhythm.length_s / rhythm.every_s, 1);
    cite_rhythm(v, &rhythm);
    why_write_text(
        v, "checkpoints: it stalls every %s for %.0f s while its program writes %.1f GB: %.1f %% of the time",
        human_age(every, (uint64_t)(rhythm.every_s * NS_PER_S)), rhythm.length_s, rhythm.written / 1e9, 100 * v->share);
    return true;
}

/* Pauses of the GPU while its program writes. */
bool why_find_checkpoint(const WhyCase *c, WhyVerdict *v)
{
    char every[HUMAN_MAX];
    Rhythm rhythm;
    double seconds, written;
    const double share = share_of_checkpoints(c, &seconds, &written);

    if (!(share > 0))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = share;
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
    why_cite_number(v, "/proc/PID/io", "written by its processes", WHY_UNIT_BYTES_PER_SECOND, written);
    if (!find_rhythm(c, &rhythm)) {
        why_write_text(v,
                       "stalls for %.0f s of %" PRIu32 " while its program writes %.0f MB/s: a checkpoint, most likely",
                       seconds, c->activity->window_s, written / 1e6);
        return true;
    }
    v->confidence = WHY_HIGH;
    cite_rhythm(v, &rhythm);
    why_write_text(
        v,
        "stalls for %.0f s of %" PRIu32 " while its program writes %.0f MB/s: a checkpoint, every %s for %.0f s, "
        "%.1f %% of the time",
        seconds, c->activity->window_s, written / 1e6, human_age(every, (uint64_t)(rhythm.every_s * NS_PER_S)),
        rhythm.length_s, 100 * fmin(rhythm.length_s / rhythm.every_s, 1));
    return true;
}

/* What the host says about a program that does not feed its GPU: into the text behind `v->text`. */
static void blame_host(const WhyCase *c, WhyVerdict *v)
{
    const size_t len = strlen(v->text);
    char *end = v->text + len;
    const size_t room = sizeof v->text - len;
    double cores = NAN, children = 0, child_cores = 0;

    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];

        cores = fmax(cores, p->cores);
        if (isfinite(p->children) && isfinite(p->child_cores)) {
            children += p->children;
            child_cores += p->child_cores;
        }
    }
    why_cite_number(v, "/proc/PID/stat", "processor time of its busiest process", WHY_UNIT_CORES, cores);
    if (children > 0)
        why_cite_number(v, "/proc/PID/stat", "processor time of their children", WHY_UNIT_CORES, child_cores);
    why_cite_number(v, "/proc/pressure/io", "time in which a task waited for I/O", WHY_UNIT_RATIO, c->in->io_pressure);
    why_cite_number(v, "/proc/pressure/cpu", "time in which a task waited for a core", WHY_UNIT_RATIO,
                    c->in->cpu_pressure);
    v->confidence = WHY_HIGH;
    if (children > 0 && child_cores >= limit_LOADER_BUSY * children)
        snprintf(end, room,
                 "; its %.0f child processes (loaders) use all of their cores: more workers or cheaper "
                 "transforms",
                 children);
    else if (c->in->io_pressure >= limit_IO_PRESSURE)
        snprintf(end, room, "; tasks wait for I/O %d %% of the time: storage", why_percent(c->in->io_pressure));
    else if (cores >= limit_CPU_PEGGED)
        snprintf(end, room, "; its process uses %.1f cores: loading or Python in the process itself", cores);
    else if (cores < limit_CPU_ASLEEP) {
        v->confidence = WHY_MEDIUM;
        snprintf(end, room, "; its process mostly sleeps: it waits for requests, for storage or for other processes");
    } else
        v->confidence = WHY_MEDIUM;
}

/* Of the time, that with a kernel and that of checkpoints. NaN: not known. */
static double share_not_waited(const WhyCase *c)
{
    double seconds, written;

    return c->mean[WHY_OF_UTIL] + share_of_checkpoints(c, &seconds, &written);
}

static void explain_input(const WhyCase *c, WhyVerdict *v, const char *how)
{
    v->share = 1 - fmin(share_not_waited(c), 1);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_POWER);
    why_write_text(v, "%s for its input: no kernel runs %d %% of the time", how, why_percent(v->share));
    blame_host(c, v);
}

bool why_find_input(const WhyCase *c, WhyVerdict *v)
{
    if (c->activity->cause == ACTIVITY_CAUSE_NONE && !(c->mean[WHY_OF_UTIL] <= limit_STARVING))
        return false;
    explain_input(c, v, "waits");
    return true;
}

/* It works, and could work more. */
bool why_find_part_input(const WhyCase *c, WhyVerdict *v)
{
    if (!(share_not_waited(c) <= 1 - limit_STARVED))
        return false;
    explain_input(c, v, "works, and waits");
    return true;
}

bool why_find_some_input(const WhyCase *c, WhyVerdict *v)
{
    if (!(share_not_waited(c) <= 1 - limit_STARVED_SOME))
        return false;
    explain_input(c, v, "works, and waits");
    return true;
}
