/* SPDX-License-Identifier: Apache-2.0 */
/* What the board has left: its clocks, other people's work on it, and its memory. */
#include "engine/why/rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Share of the known seconds with one of these bits, and the mean clock in them. */
static double share_of_reasons(const WhyCase *c, uint64_t bits, double *ret_clock)
{
    double known = 0, held = 0, clock = 0;

    for (int i = c->from; i < ACTIVITY_WINDOW_S; i++) {
        const double reasons = c->in->rows[WHY_OF_REASONS][i], share = c->in->rows[WHY_OF_CLOCK][i];

        if (!isfinite(reasons) || !isfinite(share))
            continue;
        known++;
        if ((uint64_t)reasons & bits) {
            held++;
            clock += share;
        }
    }
    *ret_clock = held > 0 ? clock / held : (double)NAN;
    return known > 0 ? held / known : 0;
}

bool why_find_throttle(const WhyCase *c, WhyVerdict *v)
{
    double clock, heat_clock, brake_clock, cap_clock;
    const double heat = share_of_reasons(c, CLOCK_REASONS_HEAT, &heat_clock);
    const double brake = share_of_reasons(c, CLOCK_REASON_POWER_BRAKE, &brake_clock);
    const double cap = share_of_reasons(c, CLOCK_REASON_POWER_CAP, &cap_clock), lowered = c->in->limit_share;
    const char *what;

    if (brake >= limit_HELD_SHARE && brake_clock <= limit_HELD_CLOCK) {
        what = "a power brake from outside";
        v->share = brake;
        clock = brake_clock;
    } else if (heat >= limit_HELD_SHARE && heat_clock <= limit_HELD_CLOCK) {
        what = "heat";
        v->share = heat;
        clock = heat_clock;
    } else if (cap >= limit_CAP_SHARE &&
               (cap_clock <= limit_CAP_CLOCK || (lowered <= limit_CAP_LOWERED && cap_clock <= limit_HELD_CLOCK))) {
        what = lowered <= limit_CAP_LOWERED ? "a lowered power limit" : "its power limit";
        v->share = cap;
        clock = cap_clock;
    } else {
        return false;
    }
    v->confidence = WHY_HIGH;
    why_cite_number(v, metric_get(METRIC_CLOCKS_EVENT_REASONS)->name, "time with that clock reason", WHY_UNIT_RATIO,
                    v->share);
    CITE(c, v, WHY_OF_CLOCK, WHY_OF_POWER);
    if (lowered <= limit_CAP_LOWERED)
        why_cite_number(v, metric_get(METRIC_ENFORCED_POWER_LIMIT)->name, "power limit, of the default", WHY_UNIT_RATIO,
                        lowered);
    why_write_text(v, "its clocks are held down by %s %d %% of the time, to %d %% of the highest", what,
                   why_percent(v->share), why_percent(clock));
    return true;
}

/* An owner on the device, with all of its processes there. */
typedef struct Sharer {
    const char *owner;
    const WhyProcess *largest;
    double sm, cores; /* sums; NaN: not known of any */
} Sharer;

static double add_known(double sum, double value)
{
    return !isfinite(value) ? sum : isfinite(sum) ? sum + value : value;
}

static int compare_sharers(const void *a, const void *b)
{
    const Sharer *x = a, *y = b;

    return (x->sm < y->sm) - (x->sm > y->sm);
}

/* By their parts of the multiprocessors' time, the largest first. Processes without a known owner are nobody's. */
static size_t list_sharers(const WhyCase *c, Sharer out[WHY_SHARERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < c->in->process_count; i++) {
        const WhyProcess *p = &c->in->processes[i];
        size_t k = 0;

        if (!p->owner)
            continue;
        while (k < count && strcmp(out[k].owner, p->owner) != 0)
            k++;
        if (k == WHY_SHARERS_MAX)
            continue;
        if (k == count)
            out[count++] = (Sharer){p->owner, p, NAN, NAN};
        out[k].sm = add_known(out[k].sm, p->sm);
        out[k].cores = add_known(out[k].cores, p->cores);
        if (p->sm > out[k].largest->sm)
            out[k].largest = p;
    }
    if (count > 1)
        qsort(out, count, sizeof *out, compare_sharers);
    return count;
}

/* Two owners that both compute: time slices or MPS. */
bool why_find_neighbour(const WhyCase *c, WhyVerdict *v)
{
    Sharer sharers[WHY_SHARERS_MAX];
    const size_t count = list_sharers(c, sharers);
    const Sharer *first = &sharers[0], *other = &sharers[1];

    if (count < 2 || !(other->sm >= limit_SHARER))
        return false;
    v->confidence = WHY_HIGH;
    v->share = other->sm;
    for (size_t i = 0; i < count && i < WHY_NAMES_MAX && sharers[i].sm >= limit_SHARER; i++)
        why_cite_named(v, sharers[i].owner, "nvmlDeviceGetProcessUtilization", "multiprocessors' time", WHY_UNIT_RATIO,
                       sharers[i].sm);
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM);
    why_write_text(v,
                   "shared: process %" PRIu32 " of %.60s takes %d %% and process %" PRIu32
                   " of %.60s %d %%; each waits for the other",
                   first->largest->pid, first->owner, why_percent(first->sm), other->largest->pid, other->owner,
                   why_percent(other->sm));
    return true;
}

/* Two owners whose programs run, and the driver does not tell whose kernels do: MPS without samples per process. */
bool why_find_unsampled_neighbour(const WhyCase *c, WhyVerdict *v)
{
    Sharer sharers[WHY_SHARERS_MAX];
    const size_t count = list_sharers(c, sharers);
    const Sharer *lively[2];
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        if (isfinite(sharers[i].sm))
            return false;
        if (sharers[i].cores >= limit_CPU_ASLEEP && found < 2)
            lively[found++] = &sharers[i];
    }
    if (found < 2)
        return false;
    v->confidence = WHY_LOW;
    v->share = NAN;
    for (size_t i = 0; i < 2; i++)
        why_cite_named(v, lively[i]->owner, "/proc/PID/stat", "processor time", WHY_UNIT_CORES, lively[i]->cores);
    why_write_text(v, "programs of %.60s and of %.60s run on it; how much of it each takes the driver does not tell",
                   lively[0]->owner, lively[1]->owner);
    return true;
}

/* Instances of one board have their own multiprocessors and memory, and share its power and clock. */
bool why_find_board_neighbour(const WhyCase *c, WhyVerdict *v)
{
    double clock, sum = 0;
    const double held = share_of_reasons(c, CLOCK_REASON_POWER_CAP, &clock);
    const char *own = c->in->process_count > 0 ? c->in->processes[0].owner : NULL;
    const WhySibling *most = NULL;

    for (size_t i = 0; i < c->in->sibling_count; i++) {
        const WhySibling *s = &c->in->siblings[i];

        if (!s->owner || (own && strcmp(own, s->owner) == 0) || !isfinite(s->sm))
            continue;
        sum += s->sm;
        most = !most || s->sm > most->sm ? s : most;
    }
    if (!most || !(sum >= limit_SHARER) || !(sum > c->in->board_sm) || held < limit_CAP_SHARE ||
        !(clock <= limit_HELD_CLOCK) || c->in->limit_share <= limit_CAP_LOWERED)
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = held;
    why_cite_named(v, most->owner, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board",
                   WHY_UNIT_RATIO, most->sm);
    why_cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board, by others",
                    WHY_UNIT_RATIO, sum);
    why_cite_number(v, metric_get(METRIC_PROF_SM_ACTIVE)->name, "multiprocessors of the board, by itself",
                    WHY_UNIT_RATIO, c->in->board_sm);
    why_cite_number(v, metric_get(METRIC_CLOCKS_EVENT_REASONS)->name, "time with that clock reason", WHY_UNIT_RATIO,
                    held);
    why_cite_number(v, metric_get(METRIC_POWER_USAGE)->name, "power of the board (of its limit)", WHY_UNIT_RATIO,
                    c->in->board_power);
    CITE(c, v, WHY_OF_CLOCK);
    why_write_text(
        v,
        "slowed by its board, which is at its power limit %d %% of the time and at %d %% of the highest clock; "
        "%.60s on MIG %" PRIu32 "/%" PRIu32 " has %d %% of the board at work",
        why_percent(held), why_percent(clock), most->owner, most->gpu_instance, most->compute_instance,
        why_percent(most->sm));
    return true;
}

/* It grows and will be full soon. */
bool why_find_memory_growth(const WhyCase *c, WhyVerdict *v)
{
    const double left = c->in->memory_total - c->in->memory_used, seconds = left / c->in->memory_rise;

    if (!(c->in->memory_rise > 0) || !(seconds <= limit_MEMORY_LEFT_S))
        return false;
    v->confidence = WHY_MEDIUM;
    v->share = NAN;
    why_cite_number(v, metric_get(METRIC_FB_USED)->name, "memory used", WHY_UNIT_BYTES, c->in->memory_used);
    why_cite_number(v, metric_get(METRIC_FB_TOTAL)->name, "memory", WHY_UNIT_BYTES, c->in->memory_total);
    why_cite_number(v, metric_get(METRIC_FB_USED)->name, "growth", WHY_UNIT_BYTES_PER_SECOND, c->in->memory_rise);
    why_write_text(v, "its memory runs out in about %.0f min: %.1f GiB are left and it grows by %.0f MiB/min",
                   seconds / 60, left / 1073741824.0, c->in->memory_rise * 60 / 1048576.0);
    return true;
}

bool why_find_memory_near(const WhyCase *c, WhyVerdict *v)
{
    const double share = c->in->memory_used / c->in->memory_total;

    if (!(share >= limit_MEMORY_NEAR))
        return false;
    v->confidence = WHY_LOW; /* an allocator that keeps what it freed looks the same */
    v->share = NAN;
    why_cite_number(v, metric_get(METRIC_FB_USED)->name, "memory used", WHY_UNIT_BYTES, c->in->memory_used);
    why_cite_number(v, metric_get(METRIC_FB_TOTAL)->name, "memory", WHY_UNIT_BYTES, c->in->memory_total);
    why_write_text(v, "%d %% of its memory is taken: the next allocation may fail, unless the program keeps a cache",
                   (int)(100 * share));
    return true;
}
