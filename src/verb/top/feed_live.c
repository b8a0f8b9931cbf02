/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live feeds. The agent is asked by its control socket, again and again where it is gone or does not answer; between
 * two snapshots its store is asked for the past of what is plotted, one question at a time. Without an agent the feed
 * runs samplers of its own and has no past.
 */
#include <errno.h>
#include <math.h>
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
    char *control;
    uint64_t interval_ns, due_ns;
    HistoryWants wants;
    bool has_minutes; /* of the first wants the minutes have come */
} AgentFeed;

static void ask_snapshot(AgentFeed *a)
{
    Feed *feed = &a->feed;
    Err err;
    const int rc = feed_ask_status(feed, a->control, &err);

    if (rc == -ENOENT || rc == -ECONNREFUSED)
        feed_set_trouble(feed, "the agent is gone (%s)", err.text);
    else if (rc == -ETIMEDOUT || rc == -EAGAIN)
        feed_set_trouble(feed, "the agent does not answer");
    else if (rc < 0)
        feed_set_trouble(feed, "%s", err.text);
    else
        (void)feed_give_json(feed, feed->line.text, feed->line.len, true);
}

/* Moves the wants of the first one's device to the front, as many as one question takes. */
static size_t gather_wants(HistoryWants *wants, MetricId metrics[FEED_ASK_METRICS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < wants->len && count < FEED_ASK_METRICS_MAX; i++) {
        HistoryWant one = wants->at[i];

        if (!device_equal(&one.device, &wants->at[0].device))
            continue;
        wants->at[i] = wants->at[count];
        wants->at[count] = one;
        metrics[count++] = one.metric;
    }
    return count;
}

/* Asks for the minutes of some series, the next time for their seconds. */
static void ask_past(AgentFeed *a)
{
    const bool minutes = !a->has_minutes;
    const uint64_t length_ns = minutes ? NS_PER_MIN : NS_PER_S;
    MetricId metrics[FEED_ASK_METRICS_MAX];
    const size_t count = gather_wants(&a->wants, metrics);
    HistoryPoints points = {0};

    feed_ask_history(&a->feed,
                     &(FeedQuestion){.control = a->control,
                                     .device = &a->wants.at[0].device,
                                     .metrics = metrics,
                                     .metric_count = count,
                                     .minutes = minutes,
                                     .from = minutes ? "-1d" : "-10m",
                                     .to = "-0",
                                     .timeout_ms = FEED_ASK_MS},
                     &points);
    for (size_t i = 0; i < points.len; i++) {
        const HistoryPoint *p = &points.at[i];

        for (size_t k = 0; k < count; k++)
            if (metrics[k] == p->metric && !isnan(p->mean))
                feed_add_past(&a->feed, a->wants.at[k].ref, p->real_ns, p->real_ns + length_ns,
                              (PlotPoint){p->min, p->mean, p->max});
    }
    vec_done(&points);
    a->has_minutes = minutes;
    if (minutes)
        return;
    for (size_t i = 0; i < count; i++)
        feed_end_past(&a->feed, a->wants.at[i].ref);
    memmove(a->wants.at, a->wants.at + count, (a->wants.len - count) * sizeof *a->wants.at);
    a->wants.len -= count;
}

static uint64_t work_agent(Feed *feed)
{
    AgentFeed *a = (AgentFeed *)feed;
    const uint64_t now = clock_monotonic(clock_kernel());

    if (!a->has_minutes) /* else the first ones keep their places */
        feed_take_wants(feed, &a->wants);
    if (now >= a->due_ns) {
        a->due_ns += a->interval_ns;
        if (a->due_ns <= now)
            a->due_ns = now + a->interval_ns;
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
    free(a->control);
}

Feed *feed_agent_new(const char *control, uint64_t interval_ns)
{
    static const FeedOps ops = {.work = work_agent, .free = free_agent};
    AgentFeed *a = feed_new(sizeof *a, &ops, FEED_AGENT);

    a->control = xstrdup(control);
    a->interval_ns = a->feed.state.pace_ns = interval_ns;
    return &a->feed;
}

/* --- without an agent --------------------------------------------------------------------------------------------- */

typedef struct LocalFeed {
    Feed feed;
    char *library, *root;
    LocalNode *local;
    uint64_t interval_ns, due_ns;
} LocalFeed;

static int open_local_node(LocalFeed *l)
{
    const LocalNodeOptions options = {.library = l->library, .root = l->root};
    Err err;
    const int rc = local_node_new(&options, &l->local, &err);

    if (rc < 0)
        feed_set_trouble(&l->feed, "%s", err.text);
    else
        (void)local_node_wait(l->local);
    return rc;
}

static void end_wants(Feed *feed)
{
    HistoryWants wants = {0};

    feed_take_wants(feed, &wants);
    for (size_t i = 0; i < wants.len; i++)
        feed_end_past(feed, wants.at[i].ref);
    vec_done(&wants);
}

static uint64_t work_local(Feed *feed)
{
    LocalFeed *l = (LocalFeed *)feed;

    end_wants(feed);
    if (!l->local && open_local_node(l) < 0)
        return clock_monotonic(clock_kernel()) + AGAIN_MS * NS_PER_MS;
    const uint64_t now = clock_monotonic(clock_kernel());
    if (now < l->due_ns) {
        const uint64_t left = l->due_ns - now;

        local_node_run(l->local, left < SLICE_MS * NS_PER_MS ? left : SLICE_MS * NS_PER_MS);
        return 0;
    }
    l->due_ns = now + l->interval_ns;
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
    LocalFeed *l = feed_new(sizeof *l, &ops, FEED_LOCAL);

    l->library = xstrdup(library ? library : "");
    l->root = root ? xstrdup(root) : NULL;
    l->interval_ns = l->feed.state.pace_ns = interval_ns;
    feed_set_where(&l->feed, "this node, no agent");
    return &l->feed;
}
