/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision: which rule may answer depends on the word of engine/activity, so that no verdict contradicts it; of
 * those that find their cause the first of the table answers.
 */
#include <math.h>

#include "base/cleanup.h"
#include "engine/why/rule.h"

/* What activity says, for the table of rules. */
enum {
    ON_UNKNOWN = 1 << 0,
    ON_FREE = 1 << 1,
    ON_UNUSABLE = 1 << 2,
    ON_IDLE = 1 << 3,
    ON_WORKING = 1 << 4,
    ON_INPUT = 1 << 5,
    ON_LAUNCHES = 1 << 6,
    ON_COLLECTIVE = 1 << 7,
    ON_RANK = 1 << 8,
    ON_WAITING = 1 << 9, /* for what the counters do not tell */
    ON_BUSY = ON_WORKING | ON_INPUT | ON_LAUNCHES | ON_WAITING,
};

/* --- words that need no rule -------------------------------------------------------------------------------------- */

static bool find_unknown(const WhyCase *c, WhyVerdict *v)
{
    v->confidence = WHY_LOW;
    why_write_text(v, "not known what it does%s%s", c->activity->text[0] ? ": " : "", c->activity->text);
    return true;
}

static bool find_free(const WhyCase *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL);
    why_write_text(v, "free: no program holds it");
    return true;
}

static bool find_unusable(const WhyCase *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = 1;
    why_write_text(v, "cannot be used, by incident %s: %s", c->activity->incident, c->activity->text);
    return true;
}

static bool find_idle(const WhyCase *c, WhyVerdict *v)
{
    v->confidence = WHY_HIGH;
    v->share = why_share_of_seconds(c, why_second_is_pause, NULL);
    CITE(c, v, WHY_OF_SM, WHY_OF_UTIL, WHY_OF_POWER);
    why_cite_number(v, metric_get(METRIC_FB_USED)->name, "memory held", WHY_UNIT_BYTES, c->in->memory_used);
    if (isfinite(c->in->memory_used))
        why_write_text(v, "a program holds %.1f GiB of its memory and nothing runs", c->in->memory_used / 1073741824.0);
    else
        why_write_text(v, "a program holds it and nothing runs");
    return true;
}

/* --- what these counters cannot tell ------------------------------------------------------------------------------ */

static bool find_nothing(const WhyCase *c, WhyVerdict *v)
{
    static const WhyCause busy[] = {WHY_TENSOR_CORES, WHY_NO_TENSOR_CORES, WHY_DEVICE_MEMORY, WHY_SMALL_BATCH};
    static const WhyCause drawing_little[] = {WHY_LAUNCHES, WHY_COLLECTIVE}, gaps[] = {WHY_INPUT, WHY_LAUNCHES};
    const bool working = c->activity->word == ACTIVITY_WORKING, full = c->mean[WHY_OF_UTIL] >= limit_ALWAYS;
    const WhyCause *between = working ? busy : full ? drawing_little : gaps;

    for (size_t i = 0; i < (working ? ARRAY_LEN(busy) : 2); i++)
        why_add_between(v, between[i]);
    v->confidence = WHY_LOW;
    v->share = c->mean[WHY_OF_UTIL];
    CITE(c, v, WHY_OF_UTIL, WHY_OF_SM, WHY_OF_TENSOR, WHY_OF_DRAM, WHY_OF_POWER, WHY_OF_COPY, WHY_OF_CLOCK);
    if (!working && full && c->activity->window_s < limit_SPIN_S && isfinite(c->mean[WHY_OF_SM]))
        why_write_text(
            v,
            "100 %% busy by utilisation, yet nearly idle: small kernels or a collective that spins; %.0f s of "
            "readings tell (stoker why --for 40s)",
            limit_SPIN_S);
    else if (!working && full)
        why_write_text(v,
                       "100 %% busy by utilisation, yet it draws little power: small kernels one after another, or a "
                       "collective that spins; without SM activity that cannot be told");
    else if (working && !isfinite(c->mean[WHY_OF_TENSOR]))
        why_write_text(
            v,
            "a kernel runs %d %% of the time%s; without profiling counters it cannot be told whether on tensor "
            "cores, in FP32, bound by memory or with small kernels",
            why_percent(v->share), c->mean[WHY_OF_POWER] >= limit_REAL_POWER ? ", with the power of real work" : "");
    else
        why_write_text(v, "%s: no cause stands out in the counters",
                       c->activity->text[0] ? c->activity->text : "at work");
    return true;
}

/* --- the decision ------------------------------------------------------------------------------------------------- */

/* The first that finds its cause answers. Those with `beside` are also told beside another answer. */
static const struct {
    WhyCause cause;
    unsigned on;
    bool beside, alone; /* alone: may be the answer */
    bool (*find)(const WhyCase *c, WhyVerdict *v);
} rules[] = {
    {WHY_UNKNOWN, ON_UNKNOWN, false, true, find_unknown},
    {WHY_FREE, ON_FREE, false, true, find_free},
    {WHY_UNUSABLE, ON_UNUSABLE, false, true, find_unusable},
    {WHY_STUCK, ON_IDLE | ON_INPUT | ON_COLLECTIVE, true, true, why_find_stuck},
    {WHY_CHECKPOINT, ON_IDLE | ON_INPUT | ON_WORKING, true, true, why_find_checkpoint},
    {WHY_PCIE, ON_IDLE, false, true, why_find_pcie},
    {WHY_IDLE_HELD, ON_IDLE, false, true, find_idle},
    {WHY_NETWORK, ON_COLLECTIVE | ON_LAUNCHES | ON_WAITING, false, true, why_find_full_adapter},
    {WHY_COLLECTIVE, ON_COLLECTIVE, false, true, why_find_collective},
    {WHY_OTHER_RANK, ON_RANK, false, true, why_find_other_rank},
    {WHY_MEMORY_FULL, ON_BUSY, true, true, why_find_memory_growth},
    {WHY_NEIGHBOUR, ON_BUSY, true, true, why_find_board_neighbour},
    {WHY_THROTTLED, ON_BUSY, true, true, why_find_throttle},
    {WHY_NEIGHBOUR, ON_BUSY, true, true, why_find_neighbour},
    {WHY_VIDEO, ON_WORKING, false, true, why_find_video},
    {WHY_PCIE, ON_INPUT | ON_LAUNCHES | ON_WAITING, true, true, why_find_pcie},
    {WHY_NETWORK, ON_WORKING | ON_LAUNCHES, false, true, why_find_network},
    {WHY_INPUT, ON_WORKING, false, true, why_find_part_input},
    {WHY_FP64, ON_WORKING, false, true, why_find_fp64},
    {WHY_DEVICE_MEMORY, ON_WORKING | ON_LAUNCHES, false, true, why_find_memory_bound},
    {WHY_TENSOR_CORES, ON_WORKING, false, true, why_find_tensor},
    {WHY_SMALL_BATCH, ON_WORKING | ON_LAUNCHES, false, true, why_find_small_batch},
    {WHY_NO_TENSOR_CORES, ON_WORKING, false, true, why_find_no_tensor},
    {WHY_INPUT, ON_INPUT | ON_WAITING, false, true, why_find_input},
    {WHY_LAUNCHES, ON_LAUNCHES | ON_WAITING, false, true, why_find_launches},
    {WHY_UNCLEAR, ON_BUSY, false, true, find_nothing},
    {WHY_PCIE, ON_WORKING, true, false, why_find_pcie},
    {WHY_INPUT, ON_WORKING, true, false, why_find_some_input},
    {WHY_OTHER_RANK, ON_WORKING, true, false, why_find_late_peer},
    {WHY_STRAGGLER, ON_WORKING, true, false, why_find_straggler},
    {WHY_MEMORY_FULL, ON_BUSY, true, false, why_find_memory_near},
    {WHY_CHECKPOINT, ON_BUSY, true, false, why_find_checkpoints},
    {WHY_NEIGHBOUR, ON_BUSY, true, false, why_find_unsampled_neighbour},
};

static unsigned state_of(const Activity *a)
{
    static const unsigned words[ACTIVITY_END] = {
        [ACTIVITY_UNKNOWN] = ON_UNKNOWN, [ACTIVITY_WORKING] = ON_WORKING, [ACTIVITY_WAITING] = ON_WAITING,
        [ACTIVITY_IDLE_HELD] = ON_IDLE,  [ACTIVITY_FREE] = ON_FREE,       [ACTIVITY_UNUSABLE] = ON_UNUSABLE,
    };
    static const unsigned causes[ACTIVITY_CAUSE_END] = {
        [ACTIVITY_CAUSE_NONE] = ON_WAITING,      [ACTIVITY_CAUSE_INPUT] = ON_INPUT,
        [ACTIVITY_CAUSE_LAUNCHES] = ON_LAUNCHES, [ACTIVITY_CAUSE_COLLECTIVE] = ON_COLLECTIVE,
        [ACTIVITY_CAUSE_OTHER_RANK] = ON_RANK,
    };

    return a->word == ACTIVITY_WAITING ? causes[a->cause] : words[a->word];
}

static bool has_cause(const Why *why, WhyCause cause)
{
    for (uint32_t i = 0; i < why->count; i++)
        if (why->verdicts[i].cause == cause)
            return true;
    return false;
}

/* Beside a checkpoint of a GPU that works, what it does between two of them is told too. */
static bool may_answer(const Why *why, unsigned state, size_t rule)
{
    const bool between = why->count == 1 && why->verdicts[0].cause == WHY_CHECKPOINT && state == ON_WORKING;

    return why->count == 0 || between ? rules[rule].alone : rules[rule].beside;
}

/* With few seconds nothing is certain, but for what is a fact. */
static void weaken_short(const WhyCase *c, WhyVerdict *v)
{
    const bool measured = c->activity->word == ACTIVITY_WORKING || c->activity->word == ACTIVITY_WAITING;

    if (measured && c->activity->window_s < limit_SHORT_S && v->confidence == WHY_HIGH)
        v->confidence = WHY_MEDIUM;
}

void why_decide(const WhyInput *input, Why *ret)
{
    const uint32_t window_s = input->activity->window_s;
    const unsigned state = state_of(input->activity);
    WhyCase c = {.in = input, .activity = input->activity};

    c.from = window_s > 0 && window_s < ACTIVITY_WINDOW_S ? ACTIVITY_WINDOW_S - (int)window_s : 0;
    for (WhySeries k = 0; k < WHY_SERIES_END; k++)
        c.mean[k] = seconds_mean(input->rows[k], c.from);
    *ret = (Why){.window_s = window_s};
    for (size_t i = 0; i < ARRAY_LEN(rules) && ret->count < WHY_VERDICTS_MAX; i++) {
        WhyVerdict v = {.cause = rules[i].cause, .share = NAN};

        if (!(rules[i].on & state) || !may_answer(ret, state, i) || has_cause(ret, rules[i].cause) ||
            !rules[i].find(&c, &v))
            continue;
        weaken_short(&c, &v);
        ret->verdicts[ret->count++] = v;
    }
}
