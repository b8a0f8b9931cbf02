/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/bench/isolation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const WordRow isolation_measures[ISOLATION_MEASURE_END] = {ISOLATION_MEASURE_TABLE(WORD_ROW)};
const WordRow isolation_rounds[ISOLATION_ROUND_END] = {ISOLATION_ROUND_TABLE(WORD_ROW)};
const WordRow isolation_verdicts[ISOLATION_VERDICT_END] = {ISOLATION_VERDICT_TABLE(WORD_ROW)};
const WordRow isolation_setups[ISOLATION_SETUP_END] = {ISOLATION_SETUP_TABLE(WORD_ROW)};

/*
 * Losses up to these say nothing: MIG keeps bandwidths and work per clock within 2 %; copies vary by some per cent, and
 * launches with what the host does. The last column: behind a neighbour of the same size, as limits of memory and
 * compute are (model/bench.h); 0: not compared.
 */
static const struct {
    double limit, slow;
    bool less_is_better, per_clock;
} rows[ISOLATION_MEASURE_END] = {
    [ISOLATION_READ] = {0.02, 0.03, false, false},   [ISOLATION_L2] = {0.02, 0.03, false, true},
    [ISOLATION_COMPUTE] = {0.02, 0.01, false, true}, [ISOLATION_CLOCK] = {0.02, 0, false, false},
    [ISOLATION_LAUNCH] = {0.25, 0, true, false},     [ISOLATION_LAUNCH_P99] = {0.50, 0, true, false},
    [ISOLATION_COPY] = {0.08, 0, false, false},
};

#define TURN_US 200.0    /* launches that come so much later wait for their process' turn: slices are milliseconds */
#define TURN_LOSS 0.25   /* and then the SMs are away for a part of the time */
#define FOREIGN_MIN 1024 /* words: a page; fewer are chance, or of the comparison's rounding */

static IsolationRound round_of(BenchFlood flood)
{
    return (IsolationRound)(ISOLATION_MEMORY + flood);
}

/* What is compared: per clock where the measure follows it. */
static double value_of(const IsolationRun *run, IsolationRound round, IsolationMeasure measure)
{
    const double *values = run->value[round];

    return measure == ISOLATION_L2        ? values[measure] / run->l2_mhz[round]
           : measure == ISOLATION_COMPUTE ? values[measure] / values[ISOLATION_CLOCK]
                                          : values[measure];
}

static double mean_alone(const IsolationRun *run, IsolationMeasure measure)
{
    return (value_of(run, ISOLATION_BEFORE, measure) + value_of(run, ISOLATION_AFTER, measure)) / 2;
}

static double find_cost(const IsolationRun *run, BenchFlood flood, IsolationMeasure measure)
{
    const double part = value_of(run, round_of(flood), measure) / mean_alone(run, measure);

    return rows[measure].less_is_better ? part - 1 : 1 - part;
}

static void measure_costs(const IsolationRun *run, IsolationMeasure measure, IsolationFinding *ret)
{
    const double before = value_of(run, ISOLATION_BEFORE, measure), after = value_of(run, ISOLATION_AFTER, measure);

    *ret = (IsolationFinding){
        .verdict = ISOLATION_ISOLATED,
        .alone = (run->value[ISOLATION_BEFORE][measure] + run->value[ISOLATION_AFTER][measure]) / 2,
        .drift = fabs(after - before) / mean_alone(run, measure),
    };
    for (BenchFlood flood = 0; flood < BENCH_FLOOD_END; flood++) {
        ret->cost[flood] = find_cost(run, flood, measure);
        if (!isfinite(ret->cost[flood]))
            ret->verdict = ISOLATION_UNKNOWN;
        if (!(ret->cost[flood] <= ret->cost[ret->flood])) /* NAN too */
            ret->flood = flood;
    }
    if (!isfinite(ret->drift))
        ret->verdict = ISOLATION_UNKNOWN;
}

/* Processes that take turns: a launch waits for its turn though the neighbour leaves room on each SM. */
static bool takes_turns(const IsolationRun *run, const IsolationFinding *findings)
{
    const double late = run->value[ISOLATION_BURN][ISOLATION_LAUNCH_P99] - findings[ISOLATION_LAUNCH_P99].alone;

    return late >= TURN_US && findings[ISOLATION_COMPUTE].cost[BENCH_FLOOD_COMPUTE] >= TURN_LOSS;
}

/* Launches and copies go through the host, which has troubles of its own. */
static bool is_of_host(IsolationMeasure measure)
{
    return rows[measure].less_is_better || measure == ISOLATION_COPY;
}

/* Whether what runs on the GPU alone loses by this flood. */
static bool loses_inside(const IsolationFinding *findings, BenchFlood flood)
{
    for (IsolationMeasure m = ISOLATION_READ; m <= ISOLATION_COMPUTE; m++)
        if (findings[m].cost[flood] > rows[m].limit)
            return true;
    return false;
}

/* What the loss is a loss of: the clock explains what falls no more than it does. */
static IsolationVerdict name_loss(const IsolationFinding *findings, IsolationMeasure measure, bool turns)
{
    const IsolationFinding *f = &findings[measure];
    const double clock = findings[ISOLATION_CLOCK].cost[f->flood];

    if (measure == ISOLATION_COPY && f->flood == BENCH_FLOOD_COPY)
        return ISOLATION_SHARES_LINK;
    if (turns)
        return ISOLATION_TIME_SHARED;
    if (measure == ISOLATION_CLOCK || (clock > rows[ISOLATION_CLOCK].limit && clock >= f->cost[f->flood]))
        return ISOLATION_SHARES_POWER;
    if (is_of_host(measure) && (measure == ISOLATION_COPY || !loses_inside(findings, f->flood)))
        return ISOLATION_SHARES_LINK;
    return measure == ISOLATION_COMPUTE || f->flood == BENCH_FLOOD_COMPUTE ? ISOLATION_SHARES_SMS
                                                                           : ISOLATION_SHARES_MEMORY;
}

static void judge_measure(IsolationFinding *findings, IsolationMeasure measure, bool turns)
{
    IsolationFinding *f = &findings[measure];
    const double limit = rows[measure].limit, cost = f->cost[f->flood];

    if (f->verdict == ISOLATION_UNKNOWN)
        return;
    f->unsteady = f->drift > limit && cost < 2 * f->drift;
    if (f->unsteady)
        f->verdict = ISOLATION_UNKNOWN;
    else if (cost > limit)
        f->verdict = name_loss(findings, measure, turns);
}

/* One that is not known leaves the whole unknown unless another one says worse than MIG does by design. */
static IsolationVerdict judge_all(const IsolationFinding *findings)
{
    IsolationVerdict worst = ISOLATION_ISOLATED;
    bool unknown = false;

    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++) {
        unknown |= findings[m].verdict == ISOLATION_UNKNOWN && !(findings[m].unsteady && is_of_host(m));
        if (findings[m].verdict > worst && findings[m].verdict != ISOLATION_SHARES_LINK)
            worst = findings[m].verdict;
    }
    return unknown && worst <= ISOLATION_SHARES_POWER ? ISOLATION_UNKNOWN : worst;
}

static void compare_twins(const IsolationRun *run, IsolationJudgement *ret)
{
    for (IsolationMeasure m = 0; run->twins && m < ISOLATION_MEASURE_END; m++) {
        const double behind = 1 - mean_alone(run, m) / value_of(run, ISOLATION_OTHER, m);

        if (rows[m].slow > 0 && behind > rows[m].slow && behind > ret->slow) {
            ret->slow = behind;
            ret->slow_measure = m;
        }
    }
}

/* --- the sentence ------------------------------------------------------------------------------------------------- */

/* "memory, read loses 48 % under memory flood". */
static void add_loss(Str *text, const IsolationFinding *findings, IsolationMeasure measure)
{
    const IsolationFinding *f = &findings[measure];

    if (rows[measure].less_is_better)
        str_addf(text, "%s takes %.1f times as long under %s", isolation_measures[measure].text, 1 + f->cost[f->flood],
                 bench_floods[f->flood].text);
    else
        str_addf(text, "%s%s loses %.0f %% under %s", isolation_measures[measure].text,
                 rows[measure].per_clock ? " per clock" : "", 100 * f->cost[f->flood], bench_floods[f->flood].text);
}

/* The losses with this verdict, the largest part first named by the table's order. */
static void add_losses(Str *text, const IsolationFinding *findings, IsolationVerdict verdict)
{
    bool any = false;

    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++) {
        if (findings[m].verdict != verdict)
            continue;
        str_add(text, any ? "; " : ": ");
        add_loss(text, findings, m);
        any = true;
    }
    str_add(text, ".");
}

static void add_unknown(Str *text, const IsolationFinding *findings)
{
    str_add(text, "Could not tell");
    for (IsolationMeasure m = 0, any = 0; m < ISOLATION_MEASURE_END; m++) {
        if (findings[m].verdict != ISOLATION_UNKNOWN)
            continue;
        str_addf(text, "%s%s %s", any++ ? ", " : ": ", isolation_measures[m].text,
                 findings[m].unsteady ? "differs by itself between both times alone"
                                      : "was not measured in all rounds");
    }
    str_add(text, ".");
}

static void add_verdict(Str *text, const IsolationJudgement *j)
{
    static const char *const begin[ISOLATION_VERDICT_END] = {
        [ISOLATION_SHARES_POWER] = "Isolated but for the board's power, which sets the clock",
        [ISOLATION_SHARES_SMS] = "The neighbour takes SMs",
        [ISOLATION_SHARES_MEMORY] = "The neighbour takes memory bandwidth or L2",
        [ISOLATION_TIME_SHARED] = "Both take turns on the same SMs",
    };

    if (j->verdict == ISOLATION_UNKNOWN)
        add_unknown(text, j->measures);
    else if (j->verdict == ISOLATION_ISOLATED)
        str_add(text, "Isolated: memory, L2 and work per clock lose no more than 2 %, and the clock holds.");
    else {
        str_add(text, begin[j->verdict]);
        add_losses(text, j->measures, j->verdict);
    }
}

static void write_text(const IsolationRun *run, IsolationJudgement *j)
{
    Str text = str_limited(ISOLATION_TEXT_CAP);

    if (j->leaks)
        str_addf(&text, "New memory held %.0f words of the neighbour's data. ", run->foreign_words);
    add_verdict(&text, j);
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++) {
        if (j->measures[m].verdict != ISOLATION_SHARES_LINK)
            continue;
        str_add(&text, " The link to the host is shared, as always");
        add_losses(&text, j->measures, ISOLATION_SHARES_LINK);
        break;
    }
    if (j->slow > 0)
        str_addf(
            &text,
            " The device is slow by itself: alone, %s%s is %.1f %% below the neighbour's, which is of the same size.",
            isolation_measures[j->slow_measure].text, rows[j->slow_measure].per_clock ? " per clock" : "",
            100 * j->slow);
    snprintf(j->text, sizeof j->text, "%s", text.text);
    str_done(&text);
}

void isolation_judge(const IsolationRun *run, IsolationJudgement *ret)
{
    *ret = (IsolationJudgement){.leaks = run->foreign_words >= FOREIGN_MIN};
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++)
        measure_costs(run, m, &ret->measures[m]);
    const bool turns = takes_turns(run, ret->measures);
    for (IsolationMeasure m = 0; m < ISOLATION_MEASURE_END; m++)
        judge_measure(ret->measures, m, turns);
    ret->verdict = judge_all(ret->measures);
    compare_twins(run, ret);
    write_text(run, ret);
}

bool isolation_is_fine(const IsolationJudgement *j)
{
    return !j->leaks && j->slow <= 0 && (j->verdict == ISOLATION_ISOLATED || j->verdict == ISOLATION_SHARES_POWER);
}

double isolation_change(const IsolationJudgement *j, IsolationMeasure measure, BenchFlood flood)
{
    return rows[measure].less_is_better ? j->measures[measure].cost[flood] : -j->measures[measure].cost[flood];
}
