/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/activity/activity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A limit with its hysteresis: `enter` to come to the word, `stay` to keep it. */
typedef struct Limit {
    double enter, stay;
} Limit;

/* SM active, at least. A good training step has 0.6 to 0.95, a starved one under 0.35. */
static const Limit working = {0.40, ACTIVITY_WORKING_SM};
static const Limit working_util = {0.40, 0.35}; /* utilisation, at least, where SM active is not reported */
/* Of the power limit, at most: a GPU that spins draws 70 to 152 W of 300 to 700 W (nccl#1550, #968, vllm#46097), one
 * that works 0.55 and more. */
static const Limit spin_power = {0.35, 0.38};
static const double spin_clock = 0.5; /* with clocks below this share of the highest, little power says nothing */
static const double spin_util = 0.95; /* utilisation of a spin, at least */
/* SM active of a spinning collective: its 8 to 32 channels, of 132 multiprocessors. */
static const double spin_sm_low = 0.03, spin_sm_high = 0.30;
static const double spin_tensor = 0.005, spin_dram = 0.02; /* at most */
static const double spin_link = 10e6;                      /* bytes per second, at most: a spin moves nothing */
/* SM active, at most: jobstats and usage ledgers take less than 1 % for idle. */
static const Limit idle_sm = {0.01, ACTIVITY_IDLE_SM};
static const Limit idle_util = {ACTIVITY_IDLE_UTIL, 0.08}; /* utilisation, at most */
static const Limit input_util = {ACTIVITY_INPUT_UTIL, 0.70};
static const Limit fill = {ACTIVITY_FILL, 0.30};
enum {
    PAUSE_S = 20, /* so long without any work ends what was before */
};

static bool is_known(const ActivitySeconds *s, int i)
{
    return isfinite(s->at[ACTIVITY_OF_SM][i]) || isfinite(s->at[ACTIVITY_OF_UTIL][i]);
}

/* A second without work. Comparisons with NaN are false: what is not known is not work. */
static bool is_quiet(const ActivitySeconds *s, int i)
{
    return !(s->at[ACTIVITY_OF_SM][i] >= idle_sm.stay) && !(s->at[ACTIVITY_OF_UTIL][i] >= idle_util.stay) &&
           !(s->at[ACTIVITY_OF_VIDEO][i] >= ACTIVITY_VIDEO_WORK);
}

static int first_known(const ActivitySeconds *s)
{
    int i = 0;

    while (i < ACTIVITY_WINDOW_S && !is_known(s, i))
        i++;
    return i;
}

/* Where the window begins: at the last pause if it lasts, else behind it. A job that starts or ends is not averaged
 * with the pause before or after it. */
static int window_start(const ActivitySeconds *s)
{
    int start = first_known(s), quiet = -1; /* the first second of the pause under way */

    for (int i = start; i < ACTIVITY_WINDOW_S; i++) {
        if (!is_known(s, i))
            continue;
        if (is_quiet(s, i)) {
            quiet = quiet < 0 ? i : quiet;
            continue;
        }
        if (quiet >= 0 && i - quiet >= PAUSE_S)
            start = i;
        quiet = -1;
    }
    return quiet >= 0 && ACTIVITY_WINDOW_S - quiet >= PAUSE_S ? quiet : start;
}

static uint32_t seconds_known(const ActivitySeconds *s, int from)
{
    uint32_t count = 0;

    for (int i = from; i < ACTIVITY_WINDOW_S; i++)
        count += is_known(s, i);
    return count;
}

bool activity_is_spin(const double mean[ACTIVITY_SERIES_END])
{
    return mean[ACTIVITY_OF_UTIL] >= spin_util && mean[ACTIVITY_OF_SM] >= spin_sm_low &&
           mean[ACTIVITY_OF_SM] <= spin_sm_high && mean[ACTIVITY_OF_TENSOR] <= spin_tensor &&
           mean[ACTIVITY_OF_DRAM] <= spin_dram && !(mean[ACTIVITY_OF_LINK] > spin_link);
}

/* For so long that it is no step of a job. */
static bool is_spinning(const ActivitySeconds *s, int start)
{
    const int from = ACTIVITY_WINDOW_S - ACTIVITY_SPIN_S;
    double mean[ACTIVITY_SERIES_END];

    for (ActivitySeries k = 0; k < ACTIVITY_SERIES_END; k++)
        mean[k] = seconds_mean(s->at[k], from);
    return start <= from && activity_is_spin(mean);
}

static bool is_at_most(double value, Limit limit, bool now)
{
    return value <= (now ? limit.stay : limit.enter);
}

static bool is_at_least(double value, Limit limit, bool now)
{
    return value >= (now ? limit.stay : limit.enter);
}

/* High utilisation that draws little power although its clocks are up. */
static bool draws_little(const Activity *before, const Activity *a)
{
    const bool now = before->word == ACTIVITY_WAITING && before->basis == ACTIVITY_BASIS_UTILIZATION;

    return a->utilization >= spin_util && is_at_most(a->power_share, spin_power, now) && !(a->clock_share < spin_clock);
}

static bool is_idle(const Activity *before, const Activity *a)
{
    const bool now = before->word == ACTIVITY_IDLE_HELD || before->word == ACTIVITY_FREE;

    return (!isfinite(a->sm_active) || is_at_most(a->sm_active, idle_sm, now)) &&
           (!isfinite(a->utilization) || is_at_most(a->utilization, idle_util, now));
}

static ActivityWord decide_word(const Activity *before, const Activity *a, double video)
{
    const bool now = before->word == ACTIVITY_WORKING;

    if (video >= ACTIVITY_VIDEO_WORK)
        return ACTIVITY_WORKING;
    if (is_idle(before, a))
        return a->held ? ACTIVITY_IDLE_HELD : ACTIVITY_FREE;
    if (a->basis == ACTIVITY_BASIS_SM_ACTIVE)
        return is_at_least(a->sm_active, working, now) ? ACTIVITY_WORKING : ACTIVITY_WAITING;
    return is_at_least(a->utilization, working_util, now) && !draws_little(before, a) ? ACTIVITY_WORKING
                                                                                      : ACTIVITY_WAITING;
}

static ActivityCause decide_cause(const Activity *before, const Activity *a)
{
    const ActivityCause was = before->word == ACTIVITY_WAITING ? before->cause : ACTIVITY_CAUSE_NONE;

    if (!isfinite(a->utilization) || a->utilization <= 0)
        return ACTIVITY_CAUSE_NONE;
    if (a->basis == ACTIVITY_BASIS_SM_ACTIVE &&
        is_at_most(a->sm_active / a->utilization, fill, was == ACTIVITY_CAUSE_LAUNCHES))
        return ACTIVITY_CAUSE_LAUNCHES;
    if (is_at_most(a->utilization, input_util, was == ACTIVITY_CAUSE_INPUT))
        return ACTIVITY_CAUSE_INPUT;
    return a->basis == ACTIVITY_BASIS_SM_ACTIVE ? ACTIVITY_CAUSE_LAUNCHES : ACTIVITY_CAUSE_NONE;
}

static const char *percent_text(char out[16], double share)
{
    if (isfinite(share))
        snprintf(out, 16, share > 0 && share < 0.0095 ? "%.1f %%" : "%.0f %%", 100 * share);
    else
        snprintf(out, 16, "unknown");
    return out;
}

static void write_text(Activity *a)
{
    char sm[16], util[16], power[16];

    percent_text(sm, a->sm_active);
    percent_text(util, a->utilization);
    percent_text(power, a->power_share);
    if (a->word == ACTIVITY_FREE)
        snprintf(a->text, sizeof a->text, "no process, nothing runs");
    else if (a->word == ACTIVITY_IDLE_HELD)
        snprintf(a->text, sizeof a->text, "in use by a program and nothing runs");
    else if (a->basis == ACTIVITY_BASIS_UTILIZATION && a->word == ACTIVITY_WORKING)
        snprintf(a->text, sizeof a->text, "by utilisation: %s, at %s of its power", util, power);
    else if (a->basis == ACTIVITY_BASIS_UTILIZATION && a->cause == ACTIVITY_CAUSE_INPUT)
        snprintf(a->text, sizeof a->text, "by utilisation: a kernel runs %s of the time", util);
    else if (a->basis == ACTIVITY_BASIS_UTILIZATION)
        snprintf(a->text, sizeof a->text, "by utilisation: %s, yet only %s of its power", util, power);
    else if (a->word == ACTIVITY_WORKING && !(a->sm_active >= working.stay))
        snprintf(a->text, sizeof a->text, "the video engines work, SM active %s", sm);
    else if (a->word == ACTIVITY_WORKING)
        snprintf(a->text, sizeof a->text, "SM active %s", sm);
    else if (a->cause == ACTIVITY_CAUSE_INPUT)
        snprintf(a->text, sizeof a->text, "waits for input: a kernel runs %s of the time, SM active %s", util, sm);
    else if (a->cause == ACTIVITY_CAUSE_LAUNCHES)
        snprintf(a->text, sizeof a->text, "small kernels: a kernel runs %s of the time, SM active %s", util, sm);
    else if (a->cause == ACTIVITY_CAUSE_COLLECTIVE)
        snprintf(a->text, sizeof a->text,
                 "spins in a collective: utilisation %s, SM active %s, no tensor work or traffic", util, sm);
    else
        snprintf(a->text, sizeof a->text, "SM active %s", sm);
}

void activity_decide(const ActivitySeconds *seconds, const Activity *before, Activity *ret)
{
    const int start = window_start(seconds);
    Activity a = {.held = seconds->held,
                  .window_s = seconds_known(seconds, start),
                  .sm_active = seconds_mean(seconds->at[ACTIVITY_OF_SM], start),
                  .utilization = seconds_mean(seconds->at[ACTIVITY_OF_UTIL], start),
                  .power_share = seconds_mean(seconds->at[ACTIVITY_OF_POWER], start),
                  .clock_share = seconds_mean(seconds->at[ACTIVITY_OF_CLOCK], start),
                  .tensor = seconds_mean(seconds->at[ACTIVITY_OF_TENSOR], start),
                  .dram = seconds_mean(seconds->at[ACTIVITY_OF_DRAM], start),
                  .waiters_speed = NAN};

    a.basis = isfinite(a.sm_active)     ? ACTIVITY_BASIS_SM_ACTIVE
              : isfinite(a.utilization) ? ACTIVITY_BASIS_UTILIZATION
                                        : ACTIVITY_BASIS_NONE;
    if (a.basis != ACTIVITY_BASIS_NONE) {
        const bool spins = is_spinning(seconds, start);

        a.word =
            spins ? ACTIVITY_WAITING : decide_word(before, &a, seconds_mean(seconds->at[ACTIVITY_OF_VIDEO], start));
        if (a.word == ACTIVITY_WAITING)
            a.cause = spins ? ACTIVITY_CAUSE_COLLECTIVE : decide_cause(before, &a);
        write_text(&a);
    }
    *ret = a;
}
