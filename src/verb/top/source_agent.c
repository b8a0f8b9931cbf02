/* SPDX-License-Identifier: Apache-2.0 */
/* Looks of the running agent, by its control socket. An agent that goes away or does not answer is asked again and
 * again. Between two looks the agent's store is asked for the past of what is plotted, one question a turn. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "verb/agent/control.h"
#include "verb/top/ask.h"
#include "verb/top/source_kind.h"
#include "verb/verb.h"

typedef struct AgentSource {
    Source source;
    char *control;
    uint64_t interval_ns, due_ns;
    SourceWants wants;
    bool minutes; /* of the first want the seconds are known */
} AgentSource;

static void say_why(Source *source, int rc, const char *text)
{
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        source_says(source, "the agent is gone (%s)", text);
    else if (rc == -ETIMEDOUT || rc == -EAGAIN)
        source_says(source, "the agent does not answer");
    else
        source_says(source, "%s", text);
}

static void ask_look(AgentSource *a)
{
    Source *source = &a->source;
    Err err;
    const int rc = ask_status(a->control, SOURCE_ASK_MS, &source->line, &err);

    if (rc < 0)
        say_why(source, rc, err.text);
    else
        (void)source_tell(source, source->line.text, source->line.len, true);
}

/* Those of the first want's device to the front, as many as fit into one question. */
static size_t gather(SourceWants *wants, MetricId metrics[ASK_METRICS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < wants->len && count < ASK_METRICS_MAX; i++) {
        SourceWant one = wants->at[i];

        if (!device_equal(&one.device, &wants->at[0].device))
            continue;
        wants->at[i] = wants->at[count];
        wants->at[count] = one;
        metrics[count++] = one.metric;
    }
    return count;
}

static void hand_over(Source *source, const SourceWants *wants, size_t count, const HistoryPoints *points, bool minutes)
{
    for (size_t i = 0; i < points->len; i++) {
        const HistoryPoint *p = &points->at[i];

        for (size_t k = 0; k < count; k++)
            if (wants->at[k].metric == p->metric && !isnan(p->mean))
                source_add_past(source, &wants->at[k], p->real_ns, minutes, (PlotPoint){p->min, p->mean, p->max});
    }
}

/* Of some series the seconds, the next time the minutes. */
static void ask_past(AgentSource *a)
{
    MetricId metrics[ASK_METRICS_MAX];
    const size_t count = gather(&a->wants, metrics);
    const AskHistory ask = {.control = a->control,
                            .device = &a->wants.at[0].device,
                            .minutes = a->minutes,
                            .from = a->minutes ? "-1d" : "-10m",
                            .to = "-0",
                            .timeout_ms = SOURCE_ASK_MS};
    HistoryPoints points = {0};

    ask_history(&ask, metrics, count, &a->source.line, &points);
    hand_over(&a->source, &a->wants, count, &points, a->minutes);
    vec_done(&points);
    if (a->minutes) {
        for (size_t i = 0; i < count; i++)
            source_past_done(&a->source, &a->wants.at[i]);
        memmove(a->wants.at, a->wants.at + count, (a->wants.len - count) * sizeof *a->wants.at);
        a->wants.len -= count;
    }
    a->minutes = !a->minutes;
}

static uint64_t turn(Source *source)
{
    AgentSource *a = (AgentSource *)source;
    const uint64_t now = clock_monotonic(clock_kernel());

    if (!a->minutes) /* else the first ones keep their places */
        source_wanted(source, &a->wants);
    if (now >= a->due_ns) {
        a->due_ns += a->interval_ns;
        if (a->due_ns <= now)
            a->due_ns = now + a->interval_ns;
        ask_look(a);
    } else if (a->wants.len > 0) {
        ask_past(a);
    }
    return a->wants.len > 0 ? 0 : a->due_ns;
}

static void release(Source *source)
{
    AgentSource *a = (AgentSource *)source;

    vec_done(&a->wants);
    free(a->control);
}

static const SourceOps ops = {.turn = turn, .free = release};

Source *source_agent_new(const char *control, uint64_t interval_ns)
{
    AgentSource *a = source_new(sizeof *a, &ops, TOP_AGENT);

    a->control = xstrdup(control);
    a->interval_ns = interval_ns;
    a->source.state.pace_ns = interval_ns;
    return &a->source;
}
