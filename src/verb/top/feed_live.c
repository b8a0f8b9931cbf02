/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live feeds. The agent is asked by its control socket, again and again where it is gone or does not answer; between
 * two snapshots its store is asked for the past of what is plotted, one question at a time. Without an agent the feed
 * runs samplers of its own and has no past.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "service/status/status.h"
#include "verb/agent/local_node.h"
#include "verb/top/feed.h"

enum { SLICE_MS = 100, AGAIN_MS = 5000 };

/* --- the agent ---------------------------------------------------------------------------------------------------- */

typedef struct AgentFeed {
    Feed feed;
    uint64_t due_ns;
    VEC(HistoryWant) wants; /* whose past was not asked for yet */
} AgentFeed;

static void ask_snapshot(AgentFeed *a)
{
    Feed *feed = &a->feed;
    Err err;
    const int rc = feed_ask_status(feed, &err);

    if (rc == -ENOENT || rc == -ECONNREFUSED)
        feed_set_text(feed, FEED_TROUBLE, "the agent is gone (%s)", err.text);
    else if (rc == -ETIMEDOUT || rc == -EAGAIN)
        feed_set_text(feed, FEED_TROUBLE, "the agent does not answer");
    else if (rc < 0)
        feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
    else
        (void)feed_give_json(feed, feed->line.text, feed->line.len, true);
}

/* Asks for one span of `count` series of one device, the last wants. */
static void ask_span(AgentFeed *a, const HistoryWant *wants, size_t count, bool minutes)
{
    const uint64_t length_ns = minutes ? NS_PER_MIN : NS_PER_S;
    FeedQuestion question = {.device = &wants[0].device,
                             .minutes = minutes,
                             .from = minutes ? "-1d" : "-10m",
                             .to = "-0",
                             .timeout_ms = FEED_ASK_MS};
    HistoryPoints points = {0};

    while (question.metric_count < count) {
        question.metrics[question.metric_count] = wants[question.metric_count].metric;
        question.metric_count++;
    }
    feed_ask_history(&a->feed, &question, &points);
    for (size_t i = 0; i < points.len; i++) {
        const HistoryPoint *p = &points.at[i];

        for (size_t k = 0; k < count; k++)
            if (wants[k].metric == p->metric)
                history_fill(a->feed.history, wants[k].ref, p->real_ns, p->real_ns + length_ns,
                             (PlotPoint){p->min, p->mean, p->max});
    }
    vec_done(&points);
}

/* Asks for the minutes and the seconds of the last wants that are of one device. */
static void ask_past(AgentFeed *a)
{
    const HistoryWant *end = a->wants.at + a->wants.len;
    size_t count = 1;

    while (count < a->wants.len && count < FEED_ASK_METRICS_MAX &&
           device_equal(&end[-1].device, &end[-1 - (ptrdiff_t)count].device))
        count++;
    ask_span(a, end - count, count, true);
    ask_span(a, end - count, count, false);
    for (size_t i = 1; i <= count; i++)
        history_end_fill(a->feed.history, end[-(ptrdiff_t)i].ref);
    a->wants.len -= count;
    feed_signal(&a->feed);
}

static uint64_t work_agent(Feed *feed)
{
    AgentFeed *a = (AgentFeed *)feed;
    const uint64_t now = clock_monotonic(clock_kernel());
    HistoryWant want;

    while (history_next_wanted(feed->history, &want))
        vec_push(&a->wants, want);
    if (now >= a->due_ns) {
        a->due_ns += feed->state.pace_ns;
        if (a->due_ns <= now)
            a->due_ns = now + feed->state.pace_ns;
        ask_snapshot(a);
    } else if (a->wants.len > 0) {
        ask_past(a);
    }
    return a->wants.len > 0 ? 0 : a->due_ns;
}

static void free_agent(Feed *feed)
{
    AgentFeed *a = (AgentFeed *)feed;

    vec_done(&a->wants);
}

Feed *feed_agent_new(const char *control, uint64_t interval_ns)
{
    static const FeedOps ops = {.work = work_agent, .free = free_agent};
    AgentFeed *a = feed_new(sizeof *a, &ops, FEED_AGENT, control);

    a->feed.state.pace_ns = interval_ns;
    return &a->feed;
}

/* --- without an agent --------------------------------------------------------------------------------------------- */

typedef struct LocalFeed {
    Feed feed;
    char *library, *root;
    LocalNode *local;
    uint64_t due_ns;
} LocalFeed;

static int open_local_node(LocalFeed *l)
{
    Err err;
    const int rc = local_node_new(l->library, l->root, 0, &l->local, &err);

    if (rc < 0)
        feed_set_text(&l->feed, FEED_TROUBLE, "%s", err.text);
    else
        (void)local_node_wait(l->local);
    return rc;
}

static uint64_t work_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    feed_end_wants(feed);
    if (!l->local && open_local_node(l) < 0)
        return clock_monotonic(clock_kernel()) + AGAIN_MS * NS_PER_MS;
    const uint64_t now = clock_monotonic(clock_kernel());
    if (now < l->due_ns) {
        const uint64_t left = l->due_ns - now;

        local_node_run(l->local, left < SLICE_MS * NS_PER_MS ? left : SLICE_MS * NS_PER_MS);
        return 0;
    }
    l->due_ns = now + feed->state.pace_ns;
    str_clear(&feed->line);
    status_json(local_node_read(l->local), &feed->line);
    (void)feed_give_json(feed, feed->line.text, feed->line.len, true);
    return 0;
}

static void end_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    local_node_free(TAKE(l->local));
}

static void free_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    free(l->library);
    free(l->root);
}

Feed *feed_local_new(const char *library, const char *root, uint64_t interval_ns)
{
    static const FeedOps ops = {.work = work_local, .end = end_local, .free = free_local};
    LocalFeed *l = feed_new(sizeof *l, &ops, FEED_LOCAL, NULL);

    l->library = xstrdup(library ? library : "");
    l->root = root ? xstrdup(root) : NULL;
    l->feed.state.pace_ns = interval_ns;
    feed_set_text(&l->feed, FEED_WHERE, "this node, no agent");
    return &l->feed;
}
