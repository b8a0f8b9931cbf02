/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays. A recording's snapshots are shown as time passes; the past of what is plotted comes from the snapshots
 * before the one that is shown. The agent's history is made into snapshots from its minutes: what the agent keeps no
 * history of (names, limits, modes) is as it is now, the rest is absent; the incidents are those that were open at that
 * time.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/top/feed.h"

enum { FILL_SNAPSHOTS = 120, FILL_AT_ONCE = 8, HOLD_S = 10, HOLD_MIN = 15 };
enum { HISTORY_ASK_MS = 10000 };

/* --- a recording -------------------------------------------------------------------------------------------------- */

/* A snapshot to be read for the past. */
typedef struct Step {
    size_t snapshot;
    uint64_t until_ns; /* how long its values stand */
} Step;

typedef struct RecordingFeed {
    Feed feed;
    char *path;
    ReplayOptions options;
    Recording *recording;
    size_t shown;           /* SIZE_MAX none */
    uint64_t shown_ns;      /* monotonic */
    VEC(HistoryWant) wants; /* that the steps are read for */
    VEC(Step) steps;        /* oldest first */
    size_t step;
    SnapshotBuffer *past;
} RecordingFeed;

static int open_recording(RecordingFeed *r)
{
    Feed *feed = &r->feed;
    const ReplayOptions *o = &r->options;
    Err err;

    feed_set_text(feed, FEED_TROUBLE, "the recording is being read");
    if (recording_open(r->path, &r->recording, &err) < 0) {
        feed_set_text(feed, FEED_FAILED, "%s", err.text);
        return -1;
    }
    const size_t count = r->recording->lines.len;
    const uint64_t first = r->recording->lines.at[0].real_ns, last = r->recording->lines.at[count - 1].real_ns;
    const uint64_t from = number_max_u64(first, o->from_ns), to = o->to_ns ? number_min_u64(last, o->to_ns) : last;
    if (from > to) {
        feed_set_text(feed, FEED_FAILED, "the recording has nothing of that time");
        return -1;
    }
    feed_begin_play(feed, from, to, o->at_end, count > 1 ? (last - first) / (count - 1) : NS_PER_S);
    if (r->recording->damage[0])
        feed_set_text(feed, FEED_WHERE, "%s (%s)", r->path, r->recording->damage);
    return 0;
}

/* Plans snapshots between two instants, at most FILL_SNAPSHOTS, evenly apart; a value stands until the next one. */
static void plan_steps(RecordingFeed *r, uint64_t from_ns, uint64_t to_ns, uint64_t hold_ns)
{
    const size_t first = recording_find(r->recording, from_ns), last = recording_find(r->recording, to_ns);
    const size_t stride = (last - first + FILL_SNAPSHOTS) / FILL_SNAPSHOTS;

    for (size_t i = first; i < last; i += stride) {
        const uint64_t next = r->recording->lines.at[i + stride < last ? i + stride : last].real_ns;

        vec_push(&r->steps, ((Step){i, number_min_u64(next, r->recording->lines.at[i].real_ns + hold_ns)}));
    }
}

/* Reads some snapshots of the past, for all wants together: reading costs more than taking a value. */
static void fill_some(RecordingFeed *r)
{
    for (int n = 0; n < FILL_AT_ONCE && r->step < r->steps.len; n++, r->step++) {
        const Step *step = &r->steps.at[r->step];

        if (recording_line(r->recording, step->snapshot, &r->feed.line, NULL) < 0 ||
            snapshot_read(r->past, r->feed.line.text, r->feed.line.len, NULL) < 0)
            continue;
        for (size_t i = 0; i < r->wants.len; i++) {
            const HistoryWant *want = &r->wants.at[i];
            const Reading *reading = history_find_reading(&r->past->node, &want->device);
            double value;

            if (reading && sample_double(&reading->sample[want->metric], &value))
                history_fill(r->feed.history, want, r->recording->lines.at[step->snapshot].real_ns, step->until_ns,
                             (PlotPoint){(float)value, (float)value, (float)value});
        }
    }
    if (r->step < r->steps.len)
        return;
    for (size_t i = 0; i < r->wants.len; i++)
        history_end_fill(r->feed.history, &r->wants.at[i]);
    vec_clear(&r->wants);
    feed_signal(&r->feed);
}

static uint64_t work_recording(Feed *feed)
{
    RecordingFeed *r = (RecordingFeed *)feed;
    HistoryWant want;
    Play play;
    Err err;

    if (!r->recording && open_recording(r) < 0)
        return UINT64_MAX;
    const uint64_t at = feed_play(feed, &play);
    const size_t i = recording_find(r->recording, at);
    if (i != r->shown) {
        r->shown = i;
        r->shown_ns = clock_monotonic(clock_kernel());
        if (recording_line(r->recording, i, &feed->line, &err) < 0)
            feed_set_text(feed, FEED_TROUBLE, "%s", err.text);
        else if (feed_give_json(feed, false))
            vec_clear(&r->wants);
    }
    if (r->wants.len == 0) {
        while (history_next_wanted(feed->history, &want))
            vec_push(&r->wants, want);
        const uint64_t seconds = at - number_min_u64(at, HISTORY_SECONDS * NS_PER_S);

        vec_clear(&r->steps);
        r->step = 0;
        if (r->wants.len > 0) {
            plan_steps(r, at - number_min_u64(at, HISTORY_MINUTES * NS_PER_MIN), seconds, HOLD_MIN * NS_PER_MIN);
            plan_steps(r, seconds, at, HOLD_S * NS_PER_S);
        }
    }
    if (r->wants.len > 0) {
        fill_some(r);
        return 0;
    }
    if (i + 1 >= r->recording->lines.len)
        return UINT64_MAX;
    return number_max_u64(play_due(&play, r->recording->lines.at[i + 1].real_ns),
                          r->shown_ns + FEED_FRAME_MS * NS_PER_MS);
}

static void free_recording(Feed *feed)
{
    RecordingFeed *r = (RecordingFeed *)feed;

    recording_close(r->recording);
    snapshot_buffer_free(r->past);
    vec_done(&r->wants);
    vec_done(&r->steps);
    free(r->path);
}

Feed *feed_recording_new(const char *path, const ReplayOptions *options)
{
    static const FeedOps ops = {.work = work_recording, .free = free_recording};
    RecordingFeed *r = feed_new(sizeof *r, &ops, FEED_RECORDING, NULL);

    r->path = xstrdup(path);
    r->options = *options;
    r->shown = SIZE_MAX;
    r->feed.state.play.speed = options->speed;
    r->feed.state.play.paused = options->paused;
    r->past = snapshot_buffer_new();
    feed_set_text(&r->feed, FEED_WHERE, "%s", path);
    return &r->feed;
}

/* --- the agent's history ------------------------------------------------------------------------------------------ */

/* A series that the agent has minutes of, in the feed's history. */
typedef struct Kept {
    size_t gpu, instance; /* instance SIZE_MAX: the GPU itself */
    MetricId metric;
} Kept;

typedef struct HistoryFeed {
    Feed feed;
    ReplayOptions options;
    IncidentList incidents;
    Str base;             /* what the agent answers now */
    uint64_t first, last; /* the minutes of which anything is known, numbers since 1970; UINT64_MAX: none */
    uint64_t shown;       /* the same */
    uint64_t shown_ns;    /* monotonic */
    bool loaded;
    VEC(Kept) kept;
} HistoryFeed;

static Reading *reading_at(const Node *node, size_t gpu, size_t instance)
{
    return instance == SIZE_MAX ? &node->gpus[gpu].reading : &node->gpus[gpu].instances[instance];
}

/* Loads the minutes of a series; `span` as feed_ask_history has it. */
static void load_series(HistoryFeed *h, const Kept *kept, const Device *device, const char *span, HistoryPoints *points)
{
    const HistoryWant series = {*device, kept->metric};
    bool known = false;

    feed_ask_history(&h->feed, &series, "minute", span, HISTORY_ASK_MS, points);
    for (const HistoryPoint *p = points->at; p < points->at + points->len; p++) {
        const uint64_t minute = p->real_ns / NS_PER_MIN;

        if (isnan(p->mean))
            continue;
        history_fill(h->feed.history, &series, minute * NS_PER_MIN, (minute + 1) * NS_PER_MIN,
                     (PlotPoint){p->min, p->mean, p->max});
        h->first = number_min_u64(h->first, minute);
        h->last = h->last == UINT64_MAX ? minute : number_max_u64(h->last, minute);
        known = true;
    }
    if (known)
        vec_push(&h->kept, *kept);
}

/* Loads the minutes of all that the agent keeps of one device. */
static void load_device(HistoryFeed *h, const Node *node, size_t gpu, size_t instance, const char *span)
{
    const Reading *reading = reading_at(node, gpu, instance);
    HistoryPoints points = {0};

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (metric_get(id)->history && metric_get(id)->type != METRIC_COUNTER &&
            (sample->valid || (sample->absence != ABSENCE_NOT_YET && sample->absence != ABSENCE_NOT_SUPPORTED)))
            load_series(h, &(Kept){gpu, instance, id}, &reading->device, span, &points);
    }
    vec_done(&points);
}

/* Asks for all minutes from options.from_ns to options.to_ns, whole seconds since 1970. */
static void load_minutes(HistoryFeed *h, const Node *node)
{
    const uint64_t now = node->real_ns, to_ns = h->options.to_ns ? number_min_u64(h->options.to_ns, now) : now;
    const uint64_t day = HISTORY_MINUTES * NS_PER_MIN;
    const uint64_t from_ns = number_max_u64(h->options.from_ns, to_ns > day ? to_ns - day : 0);
    char span[2 * NUMBER_U64_MAX];

    if (from_ns > to_ns)
        return;
    snprintf(span, sizeof span, "%" PRIu64 " %" PRIu64, from_ns / NS_PER_MIN * 60, (to_ns / NS_PER_MIN + 1) * 60);
    for (size_t g = 0; g < node->gpu_count; g++) {
        load_device(h, node, g, SIZE_MAX, span);
        for (size_t k = 0; k < node->gpus[g].instance_count; k++)
            load_device(h, node, g, k, span);
    }
}

static int load_history(HistoryFeed *h)
{
    Feed *feed = &h->feed;
    const Node *node = &feed->mine->node;
    Err err;

    feed_set_text(feed, FEED_TROUBLE, "the agent's history is being read");
    int rc = feed_ask_status(feed, &err);
    if (rc == 0) {
        str_addn(&h->base, feed->line.text, feed->line.len);
        rc = snapshot_read(feed->mine, h->base.text, h->base.len, &err);
    }
    if (rc == 0)
        load_minutes(h, node);
    if (rc == 0 && h->first == UINT64_MAX)
        rc = err_set(&err, -ENODATA, "the agent knows nothing of that time; it keeps a day of minutes");
    if (rc < 0) {
        feed_set_text(feed, FEED_FAILED, "%s", err.text);
        return rc;
    }
    feed_set_text(feed, FEED_WHERE, "history of %s", node->hostname);
    feed_begin_play(feed, h->first * NS_PER_MIN, h->last * NS_PER_MIN, h->options.at_end, NS_PER_MIN);
    h->loaded = true;
    return 0;
}

/* --- a snapshot of a minute --- */

/* Values that have a history become absent; what never changes stays as it is now. */
static void clear_values(Reading *reading, uint64_t at_ns)
{
    for (MetricId id = 0; id < METRIC_END; id++) {
        Sample *sample = &reading->sample[id];

        if (!sample->valid && sample->absence == ABSENCE_NOT_YET)
            continue;
        if (metric_get(id)->pace == METRIC_PACE_ONCE || (!metric_get(id)->history && sample->valid))
            sample->time_ns = at_ns;
        else if (sample->valid)
            sample_set_absent(sample, at_ns, ABSENCE_NO_DATA);
    }
}

/* A word or bits have a value for a minute only where they stayed the same in it. */
static bool has_mean(const Metric *metric, PlotPoint point)
{
    const bool amount = metric->unit != UNIT_BITMASK && metric->unit != UNIT_ENUM && metric->unit != UNIT_BOOL &&
                        metric->unit != UNIT_XID && metric->unit != UNIT_PSTATE && metric->unit != UNIT_GENERATION &&
                        metric->unit != UNIT_LANES;

    return amount || !(point.min < point.max);
}

static void set_value(HistoryFeed *h, Node *node, const Kept *kept)
{
    NodeGpu *gpu = &node->gpus[kept->gpu];
    Sample *sample = &reading_at(node, kept->gpu, kept->instance)->sample[kept->metric];
    const Metric *metric = metric_get(kept->metric);
    PlotPoint point;

    history_read_points(h->feed.history, &reading_at(node, kept->gpu, kept->instance)->device, kept->metric,
                        node->real_ns, NS_PER_MIN, &point, 1);
    if (isnan(point.mean))
        return;
    gpu->state = GPU_UP;
    gpu->why[0] = '\0';
    gpu->last_sample_ns = node->time_ns;
    if (!has_mean(metric, point))
        return;
    if (metric->value == METRIC_INT64)
        sample_set_int64(sample, node->time_ns, llroundf(point.mean));
    else
        sample_set_double(sample, node->time_ns, (double)point.mean);
}

static void set_incidents(const HistoryFeed *h, SnapshotBuffer *buffer)
{
    const uint64_t at = buffer->node.real_ns;

    vec_clear(&buffer->incidents);
    for (size_t i = 0; i < h->incidents.len; i++) {
        Incident incident = h->incidents.at[i];

        if (incident.opened_real_ns == 0 || incident.opened_real_ns >= at + NS_PER_MIN ||
            (incident.cleared_real_ns && incident.cleared_real_ns < at))
            continue;
        incident.state = INCIDENT_OPEN;
        vec_push(&buffer->incidents, incident);
    }
    snapshot_list_open(buffer);
}

static void show_minute(HistoryFeed *h, uint64_t minute)
{
    SnapshotBuffer *buffer = h->feed.mine;
    Node *node = &buffer->node;

    if (snapshot_read(buffer, h->base.text, h->base.len, NULL) < 0)
        return;
    node->real_ns = node->time_ns = minute * NS_PER_MIN;
    node->tick = minute - h->first + 1;
    node->release_until_ns = 0;
    node->sampler_count = 0;
    vec_clear(&buffer->holdings);
    for (size_t g = 0; g < node->gpu_count; g++) {
        NodeGpu *gpu = &node->gpus[g];

        gpu->state = GPU_STARTING;
        gpu->state_since_ns = gpu->last_sample_ns = 0;
        snprintf(gpu->why, sizeof gpu->why, "the agent knows nothing of this minute");
        gpu->activity = (Activity){.text = "the agent keeps no history of it"};
        gpu->instance_activity = NULL;
        gpu->verdicts = gpu->instance_verdicts = NULL;
        gpu->link_count = 0;
        gpu->process_count = 0;
        sample_set_absent(&gpu->process_list, node->time_ns, ABSENCE_NO_DATA);
        clear_values(&gpu->reading, node->time_ns);
        for (size_t k = 0; k < gpu->instance_count; k++)
            clear_values(&gpu->instances[k], node->time_ns);
    }
    for (size_t i = 0; i < h->kept.len; i++)
        set_value(h, node, &h->kept.at[i]);
    set_incidents(h, buffer);
    str_clear(&buffer->text);
    feed_give(&h->feed);
}

static uint64_t work_history(Feed *feed)
{
    HistoryFeed *h = (HistoryFeed *)feed;
    Play play;

    if (!h->loaded && load_history(h) < 0)
        return UINT64_MAX;
    const uint64_t at = feed_play(feed, &play);
    const uint64_t minute = at / NS_PER_MIN;
    if (minute != h->shown) {
        h->shown = minute;
        h->shown_ns = clock_monotonic(clock_kernel());
        show_minute(h, minute);
    }
    const uint64_t due = play_due(&play, (minute + 1) * NS_PER_MIN);
    return due == UINT64_MAX ? due : number_max_u64(due, h->shown_ns + FEED_FRAME_MS * NS_PER_MS);
}

static void free_history(Feed *feed)
{
    HistoryFeed *h = (HistoryFeed *)feed;

    vec_done(&h->kept);
    vec_done(&h->incidents);
    str_done(&h->base);
}

Feed *feed_history_new(const char *control, const ReplayOptions *options, IncidentList *incidents)
{
    static const FeedOps ops = {.work = work_history, .free = free_history};
    HistoryFeed *h = feed_new(sizeof *h, &ops, FEED_HISTORY, control);

    h->options = *options;
    h->first = h->last = h->shown = UINT64_MAX;
    h->feed.state.play.speed = options->speed;
    h->feed.state.play.paused = options->paused;
    h->incidents = *incidents;
    *incidents = (IncidentList){0};
    str_init(&h->base, CONTROL_REPLY_MAX);
    feed_set_text(&h->feed, FEED_WHERE, "the agent's history");
    return &h->feed;
}
