/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace/hta/differ.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/owner.h"
#include "engine/trace/hta/frame.h"

enum { WHY_MAX = 4096 };

typedef struct Own {
    int64_t idle, compute, communication, overlapped;
    size_t devices;
} Own;

typedef struct Differ {
    const HtaReport *hta;
    Arena *arena;
    HtaDifferences *ret;
} Differ;

static Own sum_own(const TraceRank *rank)
{
    Own own = {.devices = rank->devices.len};

    for (size_t i = 0; i < rank->devices.len; i++) {
        const TraceDevice *device = &rank->devices.at[i];

        own.idle = hta_sum(own.idle, device->idle_ns);
        own.compute = hta_sum(own.compute, device->compute_ns);
        own.communication = hta_sum(own.communication, device->communication_ns);
        own.overlapped = hta_sum(own.overlapped, device->communication_overlapped_ns);
    }
    return own;
}

static void because(Str *why, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void because(Str *why, const char *fmt, ...)
{
    va_list args;

    str_add(why, why->len ? "; " : "");
    va_start(args, fmt);
    str_addv(why, fmt, args);
    va_end(args);
}

static void add(const Differ *differ, int64_t rank, const char *what, double hta, double own, const Str *why)
{
    const char *text =
        why->len ? why->text : "events that cannot be (repeated, without a time, too long) are left out of ours";

    vec_push(differ->ret, ((HtaDifference){rank, what, hta, own, arena_strdup(differ->arena, text)}));
}

/* What moves all times. */
static void say_rows(const HtaReport *hta, const HtaRank *rank, const Own *own, Str *why)
{
    const HtaCounts *counts = &rank->counts;

    if (counts->dropped > 0)
        because(why, "HTA drops %" PRId64 " GPU operations that no call before the last step launched",
                counts->dropped);
    if (counts->sync_rows > 0)
        because(why, "HTA counts %" PRId64 " synchronisations as work on the GPU", counts->sync_rows);
    if (counts->host_rows > 0)
        because(why, "HTA counts %" PRId64 " events of the host that name a stream as work on the GPU",
                counts->host_rows);
    if (counts->negative > 0)
        because(why, "%" PRId64 " durations below 0 are 0 in ours", counts->negative);
    if (own->devices > 1)
        because(why, "HTA takes %zu devices as one, ours are added up", own->devices);
    (void)hta;
}

static void say_classes(const HtaRank *rank, Str *why)
{
    const HtaCounts *counts = &rank->counts;

    if (counts->unknown_count > 0)
        because(why, "%" PRId64 " communication kernels are not known to HTA as such (%s)", counts->unknown_count,
                counts->unknown_name);
    if (counts->misnamed_count > 0)
        because(why, "HTA classes %" PRId64 " kernels by parts of their names (%s)", counts->misnamed_count,
                counts->misnamed_name);
}

static void differ_times(const Differ *differ, const HtaRank *rank, const Own *own)
{
    CLEANUP(str_done) Str why;
    double ours = own->communication ? hta_round(100 * ((double)own->overlapped / (double)own->communication), 2) : NAN;

    str_init(&why, WHY_MAX);
    say_rows(differ->hta, rank, own, &why);
    if (rank->temporal.idle_ns != own->idle)
        add(differ, rank->rank, "idle", rank->has_gpu ? (double)rank->temporal.idle_ns : NAN, (double)own->idle, &why);
    say_classes(rank, &why);
    if (rank->temporal.compute_ns != own->compute)
        add(differ, rank->rank, "compute", rank->has_gpu ? (double)rank->temporal.compute_ns : NAN,
            (double)own->compute, &why);
    if (isnan(ours) != isnan(rank->overlap_pctg) || fabs(ours - rank->overlap_pctg) > 0.005)
        add(differ, rank->rank, "overlap", rank->overlap_pctg, ours, &why);
}

static void differ_launches(const Differ *differ, const HtaRank *rank, const TraceRank *own)
{
    CLEANUP(str_done) Str why;

    if (rank->launches.cpu_ns.count == own->launch.linked)
        return;
    str_init(&why, WHY_MAX);
    because(&why, "HTA knows five names of calls, and neither graphs nor the driver's nor HIP's");
    if (rank->counts.dropped > 0)
        because(&why, "it drops what was launched in the last step");
    add(differ, rank->rank, "launches", (double)rank->launches.cpu_ns.count, (double)own->launch.linked, &why);
}

static void differ_steps(const Differ *differ, const HtaRank *rank, const TraceRank *own)
{
    CLEANUP(str_done) Str why;

    if (!differ->hta->filtered || differ->hta->options.last_step || own->steps.len == 0)
        return;
    str_init(&why, WHY_MAX);
    because(&why, "HTA leaves the last step out (--hta-last-step keeps it)");
    add(differ, rank->rank, "steps", (double)own->steps.len - 1, (double)own->steps.len, &why);
}

static void differ_straggler(const Differ *differ, const TraceReport *own)
{
    const HtaReport *hta = differ->hta;
    double answer = hta->stragglers.len ? (double)hta->stragglers.at[0] : -1;
    CLEANUP(str_done) Str why;

    if (own->ranks.len < 2 || (int64_t)answer == own->straggler.rank)
        return;
    str_init(&why, WHY_MAX);
    if (hta->straggler_why[0])
        because(&why, "%s", hta->straggler_why);
    else
        because(&why,
                "HTA always names %zu ranks, trusts the clocks, and leaves out collectives under 1 %% of a step, "
                "which a straggler's own are",
                hta->options.straggler_count);
    add(differ, -1, "straggler", answer, (double)own->straggler.rank, &why);
}

static const TraceRank *find(const TraceReport *own, const HtaRank *rank)
{
    for (size_t i = 0; i < own->ranks.len; i++)
        if (strcmp(own->ranks.at[i].file, rank->file) == 0)
            return &own->ranks.at[i];
    return NULL;
}

void hta_differ(const HtaReport *hta, const TraceReport *own, Arena *arena, HtaDifferences *ret)
{
    Differ differ = {.hta = hta, .arena = arena, .ret = ret};

    for (size_t i = 0; i < hta->ranks.len; i++) {
        const HtaRank *rank = &hta->ranks.at[i];
        const TraceRank *ours = find(own, rank);
        Own sums;

        if (!ours)
            continue;
        sums = sum_own(ours);
        differ_times(&differ, rank, &sums);
        differ_launches(&differ, rank, ours);
        differ_steps(&differ, rank, ours);
    }
    differ_straggler(&differ, own);
}
