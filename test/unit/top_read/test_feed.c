/* SPDX-License-Identifier: Apache-2.0 */
/* verb/top/feed*.c: what the feeds of an agent, of its history and of a recording hand over from their thread. The
 * agent is a thread here that answers on a control socket. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "verb/top/feed.h"

#define AT_NS (1767614400 * NS_PER_S) /* 2026-01-05T12:00:00Z, a whole minute */

enum { WAIT_S = 300, TEXT_CAP = 8192 };

static char folder[] = "/tmp/stoker-feed-XXXXXX";

static const char *in_folder(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
    return out;
}

/* The node `seconds` after AT_NS: GPU 0 takes 100 W and one more each second. */
static size_t write_snapshot(uint64_t seconds, char *out)
{
    char now[CLOCK_TEXT_MAX];

    clock_format(now, AT_NS + seconds * NS_PER_S);
    return (size_t)snprintf(
        out, TEXT_CAP,
        "{\"status\":\"ok\",\"incidents\":[],\"boot_id\":\"b\",\"node\":{\"time\":\"%s\",\"node\":{"
        "\"hostname\":\"node-1\"},\"gpus\":[{\"index\":0,\"uuid\":\"GPU-0\",\"pci\":\"0000:1b:00.0\","
        "\"state\":\"up\",\"metrics\":{\"DCGM_FI_DEV_POWER_USAGE\":{\"value\":%llu.0}}}]}}",
        now, (unsigned long long)(100 + seconds));
}

/* --- an agent ----------------------------------------------------------------------------------------------------- */

typedef struct Agent {
    char path[128];
    int fd;
    pthread_t thread;
    uint64_t asked;          /* for a snapshot; the thread's own */
    atomic_bool holds, held; /* a snapshot waits while `holds`; one does, behind which the clock goes back */
    atomic_uint minutes;     /* questions for minutes */
} Agent;

/* Seven minutes of 50 W before AT_NS, then ten seconds of 90 W. */
static size_t write_history(bool minutes, char *out)
{
    size_t len = (size_t)snprintf(out, TEXT_CAP,
                                  "{\"resolution\":\"%s\",\"series\":[{\"metric\":"
                                  "\"DCGM_FI_DEV_POWER_USAGE\",\"points\":[",
                                  minutes ? "minute" : "second");

    for (uint64_t i = minutes ? 7 : 10; i > 0; i--)
        len += minutes ? (size_t)snprintf(out + len, TEXT_CAP - len, "[%llu.000,40,50,60,60]%s",
                                          (unsigned long long)(AT_NS / NS_PER_S - i * 60), i > 1 ? "," : "")
                       : (size_t)snprintf(out + len, TEXT_CAP - len, "[%llu.000,90]%s",
                                          (unsigned long long)(AT_NS / NS_PER_S - i), i > 1 ? "," : "");
    return len + (size_t)snprintf(out + len, TEXT_CAP - len, "]}],\"missing\":[]}");
}

static void answer(Agent *agent, int fd)
{
    char line[1024] = "", text[TEXT_CAP], head[64];
    size_t len = 0, got = 0;

    while (got < sizeof line - 1 && !memchr(line, '\n', got)) {
        const ssize_t n = read(fd, line + got, sizeof line - 1 - got);
        if (n <= 0)
            return;
        got += (size_t)n;
    }
    if (strncmp(line, "status", 6) == 0) {
        const bool holds = agent->holds;

        agent->held = holds;
        while (agent->holds)
            sched_yield();
        len = write_snapshot(agent->asked++, text);
        if (holds)
            agent->asked = 0;
    } else {
        const bool minutes = strstr(line, " minute ") != NULL;

        agent->minutes += minutes;
        len = write_history(minutes, text);
    }
    const int head_len = snprintf(head, sizeof head, "0 %zu\n", len);
    assert_int_equal(write(fd, head, (size_t)head_len), head_len);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
}

static void *serve(void *self)
{
    Agent *agent = self;
    int fd;

    while ((fd = accept(agent->fd, NULL, NULL)) >= 0) {
        answer(agent, fd);
        close(fd);
    }
    return NULL;
}

static void start_agent(Agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    in_folder("control", agent->path);
    memcpy(address.sun_path, agent->path, strlen(agent->path) + 1);
    agent->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(agent->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(agent->fd, 8), 0);
    assert_int_equal(pthread_create(&agent->thread, NULL, serve, agent), 0);
}

static void stop_agent(Agent *agent)
{
    shutdown(agent->fd, SHUT_RDWR);
    pthread_join(agent->thread, NULL);
    close(agent->fd);
    unlink(agent->path);
}

/* --- what a session does ------------------------------------------------------------------------------------------ */

typedef struct Watcher {
    Feed *feed;
    SnapshotBuffer *shown;
    History *history;
    FeedState state;
} Watcher;

static void start_watching(Watcher *w, Feed *feed)
{
    *w = (Watcher){.feed = feed, .shown = snapshot_buffer_new(), .history = feed->history};
    feed_start(feed, NULL);
}

static void stop_watching(Watcher *w)
{
    assert_true(feed_free(w->feed));
    snapshot_buffer_free(w->shown);
}

/* Takes what comes until `done` says so. */
static void wait_until(Watcher *w, bool (*done)(const Watcher *w))
{
    const uint64_t end = clock_monotonic(clock_kernel()) + WAIT_S * NS_PER_S;
    struct pollfd fd = {.fd = w->feed->fd, .events = POLLIN};

    for (;;) {
        (void)feed_take(w->feed, &w->shown);
        feed_state(w->feed, &w->state);
        if (done(w))
            return;
        assert_true(clock_monotonic(clock_kernel()) < end);
        poll(&fd, 1, 100);
    }
}

static bool has_three(const Watcher *w)
{
    return w->state.snapshots >= 3 && w->shown->snapshot.node;
}

static bool is_filled(const Watcher *w)
{
    return history_count_open(w->history) == 0;
}

static bool has_trouble(const Watcher *w)
{
    return w->state.trouble[0] != '\0';
}

static bool has_none(const Watcher *w)
{
    return !w->state.trouble[0];
}

static float power_at(Watcher *w, uint64_t real_ns, uint64_t width_ns)
{
    PlotPoint point;

    history_read_points(w->history, &w->shown->node.gpus[0].reading.device, METRIC_POWER_USAGE, real_ns, width_ns,
                        &point, 1);
    return point.mean;
}

/* Asks for the past as a view that plots the power does. */
static void fill_power(Watcher *w)
{
    (void)power_at(w, AT_NS, NS_PER_S);
    feed_steer(w->feed, TOP_WISH_NONE, 0);
    wait_until(w, is_filled);
}

static void assert_power(Watcher *w, uint64_t real_ns, uint64_t width_ns, double wanted)
{
    const double got = (double)power_at(w, real_ns, width_ns);

    if (isnan(wanted) ? !isnan(got) : fabs(got - wanted) > 0.1)
        fail_msg("%g W instead of %g W", got, wanted);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void test_an_agent_is_asked_again_and_again(void **state UNUSED)
{
    Agent agent = {.asked = 0};
    Watcher w;

    start_agent(&agent);
    start_watching(&w, feed_agent_new(agent.path, 20 * NS_PER_MS));
    wait_until(&w, has_three);
    assert_string_equal(w.state.where, "agent on node-1");
    assert_string_equal(w.shown->snapshot.boot_id, "b");
    assert_true(w.shown->text.len > 0);
    fill_power(&w);
    assert_power(&w, AT_NS - 5 * NS_PER_S, NS_PER_S, 90);
    assert_power(&w, AT_NS - 11 * NS_PER_S, NS_PER_S, (double)NAN); /* before the agent's seconds */
    assert_power(&w, AT_NS - 3 * NS_PER_MIN, NS_PER_MIN, 50);
    assert_power(&w, AT_NS - 8 * NS_PER_MIN, NS_PER_MIN, (double)NAN);
    stop_agent(&agent);
    wait_until(&w, has_trouble);
    assert_non_null(strstr(w.state.trouble, "the agent is gone"));
    assert_non_null(w.shown->snapshot.node); /* the last one stays */
    start_agent(&agent);
    wait_until(&w, has_none);
    stop_watching(&w);
    stop_agent(&agent);
}

/* The past is wanted when the next snapshot is due, whose clock has gone back: all is wanted again, once. */
static void test_a_want_is_asked_once_where_the_clock_goes_back(void **state UNUSED)
{
    const uint64_t pace_ns = 50 * NS_PER_MS;
    Agent agent = {.asked = 100};
    Watcher w;

    start_agent(&agent);
    start_watching(&w, feed_agent_new(agent.path, pace_ns));
    wait_until(&w, has_three);
    agent.holds = true;
    while (!agent.held)
        sched_yield();
    const uint64_t end = clock_monotonic(clock_kernel()) + pace_ns;
    (void)power_at(&w, AT_NS, NS_PER_S);
    while (clock_monotonic(clock_kernel()) <= end)
        sched_yield();
    agent.holds = false;
    wait_until(&w, is_filled);
    assert_int_equal(agent.minutes, 1);
    stop_watching(&w);
    stop_agent(&agent);
}

static bool shows_last_minute(const Watcher *w)
{
    return w->shown->snapshot.node && w->shown->node.real_ns == AT_NS - NS_PER_MIN;
}

static void test_the_agents_history_is_replayed(void **state UNUSED)
{
    const ReplayOptions options = {.speed = PLAY_SPEED_MAX, .paused = false};
    IncidentList incidents = {0};
    Agent agent = {.asked = 0};
    Watcher w;

    start_agent(&agent);
    start_watching(&w, feed_history_new(agent.path, &options, &incidents));
    wait_until(&w, shows_last_minute);
    double watts;
    assert_true(sample_double(&w.shown->node.gpus[0].reading.sample[METRIC_POWER_USAGE], &watts));
    assert_true(fabs(watts - 50) < 0.1);
    assert_string_equal(w.state.where, "history of node-1");
    assert_int_equal(w.state.play.to_ns - w.state.play.from_ns, 6 * NS_PER_MIN);
    fill_power(&w);
    assert_power(&w, AT_NS - 5 * NS_PER_MIN, NS_PER_MIN, 50);
    stop_watching(&w);
    stop_agent(&agent);
}

static bool shows_first(const Watcher *w)
{
    return w->shown->snapshot.node && w->shown->node.real_ns == AT_NS;
}

static bool shows_twentieth(const Watcher *w)
{
    return w->shown->snapshot.node && w->shown->node.real_ns == AT_NS + 20 * NS_PER_S;
}

static bool shows_last(const Watcher *w)
{
    return w->shown->snapshot.node && w->shown->node.real_ns == AT_NS + 39 * NS_PER_S;
}

static void test_a_recording_is_played_sought_and_filled(void **state UNUSED)
{
    const ReplayOptions options = {.speed = 1, .paused = true};
    char path[128], line[TEXT_CAP];
    Recorder *recorder;
    Watcher w;

    assert_int_equal(recorder_open(in_folder("played.gz", path), NS_PER_S, &recorder, NULL), 0);
    for (uint64_t s = 0; s < 40; s++)
        assert_int_equal(recorder_write(recorder, line, write_snapshot(s, line), NULL), 0);
    assert_int_equal(recorder_close(recorder, NULL), 0);
    start_watching(&w, feed_recording_new(path, &options));
    wait_until(&w, shows_first);
    assert_true(w.state.play.paused);
    feed_steer(w.feed, TOP_WISH_SEEK, 20);
    wait_until(&w, shows_twentieth);
    fill_power(&w);
    assert_power(&w, AT_NS + 15 * NS_PER_S, NS_PER_S, 115);
    assert_power(&w, AT_NS + 25 * NS_PER_S, NS_PER_S, (double)NAN); /* not shown yet */
    feed_steer(w.feed, TOP_WISH_PAUSE, 0);
    feed_steer(w.feed, TOP_WISH_SPEED, 1000);
    wait_until(&w, shows_last);
    stop_watching(&w);
}

static bool has_failed(const Watcher *w)
{
    return w->state.failed;
}

static void test_a_recording_that_is_none_fails(void **state UNUSED)
{
    const ReplayOptions options = {.speed = 1};
    char path[128];
    Watcher w;

    start_watching(&w, feed_recording_new(in_folder("none", path), &options));
    wait_until(&w, has_failed);
    assert_non_null(strstr(w.state.trouble, "open the recording"));
    assert_int_equal(w.state.snapshots, 0);
    stop_watching(&w);
}

static int make_folder(void **state UNUSED)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state UNUSED)
{
    return file_remove_tree("/tmp", strrchr(folder, '/') + 1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_agent_is_asked_again_and_again),
        cmocka_unit_test(test_a_want_is_asked_once_where_the_clock_goes_back),
        cmocka_unit_test(test_the_agents_history_is_replayed),
        cmocka_unit_test(test_a_recording_is_played_sought_and_filled),
        cmocka_unit_test(test_a_recording_that_is_none_fails),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
