/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays. A recording's snapshots are shown as time passes; the past of what is plotted comes from the snapshots
 * before the one that is shown. The agent's history is made into snapshots from its minutes: what the agent keeps no
 * history of (names, limits, modes) is as it is now, the rest is absent; the incidents are those that were open at that
 * time.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "verb/agent/control.h"
#include "verb/top/feed.h"

enum { FRAME_MS = 100, FILL_SNAPSHOTS = 120, FILL_AT_ONCE = 8, HOLD_S = 10, HOLD_MIN = 15 };
enum { HISTORY_ASK_MS = 10000, MINUTES_MAX = 2 * HISTORY_MINUTES };

/* --- a recording -------------------------------------------------------------------------------------------------- */

/* A snapshot to be read for the past. */
typedef struct Step {
    size_t snapshot;
    uint64_t hold_ns; /* how long its values stand at most */
} Step;

typedef struct Before {
    double value; /* NAN: none */
    uint64_t real_ns;
} Before;

typedef struct RecordingFeed {
    Feed feed;
    char *path;
    ReplayOptions options;
    Recording *recording;
    size_t shown;      /* SIZE_MAX none */
    uint64_t shown_ns; /* monotonic */
    HistoryWants wants;
    VEC(Step) steps; /* oldest first */
    size_t step;
    VEC(Before) before; /* of each want */
    SnapshotBuffer *past;
} RecordingFeed;

static bool is_stopping(void *self)
{
    return feed_is_stopping(self);
}

static int open_recording(RecordingFeed *r)
{
    Feed *feed = &r->feed;
    const ReplayOptions *o = &r->options;
    Err err;

    feed_set_trouble(feed, "the recording is being read");
    if (recording_open(r->path, is_stopping, feed, &r->recording, &err) < 0) {
        feed_fail(feed, "%s", err.text);
        return -1;
    }
    const size_t count = recording_count(r->recording);
    const uint64_t first = recording_time(r->recording, 0), last = recording_time(r->recording, count - 1);
    const uint64_t from = number_max_u64(first, o->from_ns), to = o->to_ns ? number_min_u64(last, o->to_ns) : last;
    if (from > to) {
        feed_fail(feed, "the recording has nothing of that time");
        return -1;
    }
    feed_begin_play(feed, from, to, o->at_end, count > 1 ? (last - first) / (count - 1) : NS_PER_S);
    const char *damage = recording_damage(r->recording);
    feed_set_where(feed, "%s%s%s%s", r->path, damage[0] ? " (" : "", damage, damage[0] ? ")" : "");
    return 0;
}

/* Plans snapshots between two instants, at most FILL_SNAPSHOTS, evenly apart. */
static void plan_steps(RecordingFeed *r, uint64_t from_ns, uint64_t to_ns, uint64_t hold_ns)
{
    const size_t first = recording_find(r->recording, from_ns), last = recording_find(r->recording, to_ns);
    const size_t stride = (last - first + FILL_SNAPSHOTS) / FILL_SNAPSHOTS;

    for (size_t i = first; i <= last; i += stride)
        if (r->steps.len == 0 || r->steps.at[r->steps.len - 1].snapshot < i)
            vec_push(&r->steps, ((Step){.snapshot = i, .hold_ns = hold_ns}));
}

static void plan_fill(RecordingFeed *r, uint64_t at_ns)
{
    const uint64_t seconds = at_ns - number_min_u64(at_ns, HISTORY_SECONDS * NS_PER_S);
    const uint64_t minutes = at_ns - number_min_u64(at_ns, HISTORY_MINUTES * NS_PER_MIN);

    vec_clear(&r->steps);
    r->step = 0;
    plan_steps(r, minutes, seconds, HOLD_MIN * NS_PER_MIN);
    plan_steps(r, seconds, at_ns, HOLD_S * NS_PER_S);
    vec_clear(&r->before);
    for (size_t i = 0; i < r->wants.len; i++)
        vec_push(&r->before, ((Before){.value = (double)NAN}));
}

static const Sample *find_sample(const Node *node, const HistoryWant *want)
{
    for (size_t g = 0; g < node->gpu_count; g++) {
        const NodeGpu *gpu = &node->gpus[g];

        if (device_equal(&gpu->reading.device, &want->device))
            return &gpu->reading.sample[want->metric];
        for (size_t k = 0; k < gpu->instance_count; k++)
            if (device_equal(&gpu->instances[k].device, &want->device))
                return &gpu->instances[k].sample[want->metric];
    }
    return NULL;
}

/* Gives what the step before said of a series until this one, then remembers this one. */
static void fill_want(RecordingFeed *r, size_t i, const Step *step, uint64_t real_ns)
{
    const Sample *sample = find_sample(&r->past->node, &r->wants.at[i]);
    Before *before = &r->before.at[i];

    if (!isnan(before->value) && real_ns > before->real_ns) {
        const float value = (float)before->value;

        feed_add_past(&r->feed, r->wants.at[i].ref, before->real_ns,
                      number_min_u64(real_ns, before->real_ns + step->hold_ns), (PlotPoint){value, value, value});
    }
    *before = (Before){.value = (double)NAN, .real_ns = real_ns};
    if (sample)
        (void)sample_double(sample, &before->value);
}

/* Reads some snapshots of the past, for all wants together: reading costs more than taking a value. */
static void fill_some(RecordingFeed *r)
{
    for (int n = 0; n < FILL_AT_ONCE && r->step < r->steps.len; n++, r->step++) {
        const Step *step = &r->steps.at[r->step];

        if (recording_line(r->recording, step->snapshot, &r->feed.line, NULL) < 0 ||
            snapshot_read(r->past, r->feed.line.text, r->feed.line.len, NULL) < 0)
            continue;
        for (size_t i = 0; i < r->before.len; i++)
            fill_want(r, i, step, recording_time(r->recording, step->snapshot));
    }
    if (r->step < r->steps.len)
        return;
    for (size_t i = 0; i < r->before.len; i++)
        feed_end_past(&r->feed, r->wants.at[i].ref);
    vec_clear(&r->wants);
    vec_clear(&r->before);
}

static void show_recorded(RecordingFeed *r, size_t i)
{
    Feed *feed = &r->feed;
    Err err;

    r->shown = i;
    r->shown_ns = clock_monotonic(clock_kernel());
    if (recording_line(r->recording, i, &feed->line, &err) < 0)
        feed_set_trouble(feed, "%s", err.text);
    else
        (void)feed_give_json(feed, feed->line.text, feed->line.len, false);
}

static uint64_t work_recording(Feed *feed)
{
    RecordingFeed *r = (RecordingFeed *)feed;
    Play play;

    if (!r->recording && open_recording(r) < 0)
        return UINT64_MAX;
    const uint64_t at = feed_play(feed, &play);
    const size_t i = recording_find(r->recording, at);
    if (i != r->shown)
        show_recorded(r, i);
    if (r->wants.len == 0) {
        feed_take_wants(feed, &r->wants);
        if (r->wants.len > 0)
            plan_fill(r, at);
    }
    if (r->wants.len > 0) {
        fill_some(r);
        return 0;
    }
    if (i + 1 >= recording_count(r->recording))
        return UINT64_MAX;
    return number_max_u64(play_due(&play, recording_time(r->recording, i + 1)), r->shown_ns + FRAME_MS * NS_PER_MS);
}

static void free_recording(Feed *feed)
{
    RecordingFeed *r = (RecordingFeed *)feed;

    recording_close(r->recording);
    snapshot_buffer_free(r->past);
    vec_done(&r->wants);
    vec_done(&r->steps);
    vec_done(&r->before);
    free(r->path);
}

Feed *feed_recording_new(const char *path, const ReplayOptions *options)
{
    static const FeedOps ops = {.work = work_recording, .free = free_recording};
    RecordingFeed *r = feed_new(sizeof *r, &ops, FEED_RECORDING);

    r->path = xstrdup(path);
    r->options = *options;
    r->shown = SIZE_MAX;
    r->feed.play.speed = options->speed;
    r->feed.play.paused = options->paused;
    r->past = snapshot_buffer_new();
    feed_set_where(&r->feed, "%s", path);
    return &r->feed;
}

/* --- the agent's history ------------------------------------------------------------------------------------------ */

/* The minutes of a metric of a device. */
typedef struct Kept {
    Device device;
    size_t gpu, instance; /* instance SIZE_MAX: the GPU itself */
    MetricId metric;
    PlotPoint *points; /* `count` of the feed */
} Kept;

typedef struct HistoryFeed {
    Feed feed;
    char *control;
    ReplayOptions options;
    IncidentList incidents;
    Str base;            /* what the agent answers now */
    uint64_t first;      /* number of the first minute since 1970 */
    size_t count, shown; /* minutes; SIZE_MAX none shown yet */
    uint64_t shown_ns;   /* monotonic */
    bool loaded;
    VEC(Kept) kept;
} HistoryFeed;

static Reading *reading_at(const Node *node, size_t gpu, size_t instance)
{
    return instance == SIZE_MAX ? &node->gpus[gpu].reading : &node->gpus[gpu].instances[instance];
}

/* The series of a device, whose first one is at `from`. */
static Kept *find_kept(HistoryFeed *h, size_t from, const Kept *like, MetricId metric)
{
    for (size_t i = from; i < h->kept.len; i++)
        if (h->kept.at[i].metric == metric)
            return &h->kept.at[i];
    Kept *kept = vec_add(&h->kept);
    *kept = *like;
    kept->metric = metric;
    kept->points = xcalloc(h->count, sizeof(PlotPoint));
    for (size_t i = 0; i < h->count; i++)
        kept->points[i] = (PlotPoint){NAN, NAN, NAN};
    return kept;
}

/* Loads the minutes of all that the agent keeps of one device. */
static void load_device(HistoryFeed *h, const Node *node, size_t gpu, size_t instance)
{
    const Reading *reading = reading_at(node, gpu, instance);
    const Kept like = {.device = reading->device, .gpu = gpu, .instance = instance};
    char from[NUMBER_U64_MAX + 1] = "", to[NUMBER_U64_MAX + 1] = "";
    const size_t before = h->kept.len;
    MetricId metrics[METRIC_END];
    HistoryPoints points = {0};
    size_t count = 0;

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (metric_get(id)->history && metric_get(id)->type != METRIC_COUNTER &&
            (sample->valid || (sample->absence != ABSENCE_NOT_YET && sample->absence != ABSENCE_NOT_SUPPORTED)))
            metrics[count++] = id;
    }
    from[number_write_u64(from, h->first * 60)] = '\0';
    to[number_write_u64(to, (h->first + h->count) * 60)] = '\0';
    for (size_t i = 0; i < count && !feed_is_stopping(&h->feed); i += FEED_ASK_METRICS_MAX)
        feed_ask_history(&h->feed,
                         &(FeedQuestion){.control = h->control,
                                         .device = &reading->device,
                                         .metrics = metrics + i,
                                         .metric_count = number_min_u64(FEED_ASK_METRICS_MAX, count - i),
                                         .minutes = true,
                                         .from = from,
                                         .to = to,
                                         .timeout_ms = HISTORY_ASK_MS},
                         &points);
    for (size_t i = 0; i < points.len; i++) {
        const HistoryPoint *p = &points.at[i];
        const uint64_t minute = p->real_ns / NS_PER_MIN;

        if (minute >= h->first && minute - h->first < h->count && !isnan(p->mean))
            find_kept(h, before, &like, p->metric)->points[minute - h->first] = (PlotPoint){p->min, p->mean, p->max};
    }
    vec_done(&points);
}

/* The first and the last minute of which anything is known. */
static bool find_span(const HistoryFeed *h, size_t *ret_first, size_t *ret_last)
{
    *ret_first = h->count;
    *ret_last = 0;
    for (size_t k = 0; k < h->kept.len; k++)
        for (size_t i = 0; i < h->count; i++)
            if (!isnan(h->kept.at[k].points[i].mean)) {
                *ret_first = number_min_u64(*ret_first, i);
                *ret_last = number_max_u64(*ret_last, i);
            }
    return *ret_first < h->count;
}

static int load_history(HistoryFeed *h)
{
    Feed *feed = &h->feed;
    const Node *node = &feed->mine->node;
    size_t first, last;
    Err err;

    feed_set_trouble(feed, "the agent's history is being read");
    int rc = feed_ask_status(feed, h->control, &err);
    if (rc == 0) {
        str_addn(&h->base, feed->line.text, feed->line.len);
        rc = snapshot_read(feed->mine, h->base.text, h->base.len, &err);
    }
    if (rc < 0) {
        feed_fail(feed, "%s", err.text);
        return -1;
    }
    const uint64_t to = h->options.to_ns ? number_min_u64(h->options.to_ns, node->real_ns) : node->real_ns;
    const uint64_t least = (MINUTES_MAX - 1) * NS_PER_MIN;
    const uint64_t from = number_max_u64(h->options.from_ns, to > least ? to - least : 0);
    h->first = from / NS_PER_MIN;
    h->count = from <= to ? (size_t)(to / NS_PER_MIN - h->first + 1) : 0;
    for (size_t g = 0; g < node->gpu_count; g++) {
        load_device(h, node, g, SIZE_MAX);
        for (size_t k = 0; k < node->gpus[g].instance_count; k++)
            load_device(h, node, g, k);
    }
    if (!find_span(h, &first, &last)) {
        feed_fail(feed, "the agent knows nothing of that time; it keeps a day of minutes");
        return -1;
    }
    feed_set_where(feed, "history of %s", node->hostname);
    feed_begin_play(feed, (h->first + first) * NS_PER_MIN, (h->first + last) * NS_PER_MIN, h->options.at_end,
                    NS_PER_MIN);
    h->loaded = true;
    return 0;
}

/* --- a snapshot of a minute --- */

static void clear_state(NodeGpu *gpu, uint64_t at_ns)
{
    gpu->state = GPU_STARTING;
    gpu->state_since_ns = gpu->last_sample_ns = 0;
    snprintf(gpu->why, sizeof gpu->why, "the agent knows nothing of this minute");
    gpu->activity = (Activity){.text = "the agent keeps no history of it"};
    gpu->instance_activity = NULL;
    gpu->link_count = 0;
    gpu->process_count = 0;
    sample_set_absent(&gpu->process_list, at_ns, ABSENCE_NO_DATA);
}

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

static void set_value(Node *node, const Kept *kept, PlotPoint point)
{
    NodeGpu *gpu = &node->gpus[kept->gpu];
    Sample *sample = &reading_at(node, kept->gpu, kept->instance)->sample[kept->metric];
    const Metric *metric = metric_get(kept->metric);

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

static void show_minute(HistoryFeed *h, size_t minute)
{
    SnapshotBuffer *buffer = h->feed.mine;
    Node *node = &buffer->node;

    h->shown = minute;
    h->shown_ns = clock_monotonic(clock_kernel());
    if (snapshot_read(buffer, h->base.text, h->base.len, NULL) < 0)
        return;
    node->real_ns = node->time_ns = (h->first + minute) * NS_PER_MIN;
    node->tick = minute + 1;
    node->release_until_ns = 0;
    node->sampler_count = 0;
    for (size_t g = 0; g < node->gpu_count; g++) {
        clear_state(&node->gpus[g], node->time_ns);
        clear_values(&node->gpus[g].reading, node->time_ns);
        for (size_t k = 0; k < node->gpus[g].instance_count; k++)
            clear_values(&node->gpus[g].instances[k], node->time_ns);
    }
    for (size_t i = 0; i < h->kept.len; i++)
        set_value(node, &h->kept.at[i], h->kept.at[i].points[minute]);
    set_incidents(h, buffer);
    str_clear(&buffer->text);
    feed_give(&h->feed);
}

static void answer_wants(HistoryFeed *h)
{
    HistoryWants wants = {0};

    feed_take_wants(&h->feed, &wants);
    for (size_t w = 0; w < wants.len; w++) {
        for (size_t k = 0; k < h->kept.len; k++) {
            const Kept *kept = &h->kept.at[k];

            if (kept->metric != wants.at[w].metric || !device_equal(&kept->device, &wants.at[w].device))
                continue;
            for (size_t i = 0; i < h->count; i++)
                feed_add_past(&h->feed, wants.at[w].ref, (h->first + i) * NS_PER_MIN, (h->first + i + 1) * NS_PER_MIN,
                              kept->points[i]);
        }
        feed_end_past(&h->feed, wants.at[w].ref);
    }
    vec_done(&wants);
}

static uint64_t work_history(Feed *feed)
{
    HistoryFeed *h = (HistoryFeed *)feed;
    Play play;

    if (!h->loaded && load_history(h) < 0)
        return UINT64_MAX;
    const uint64_t at = feed_play(feed, &play);
    const size_t minute = (size_t)(at / NS_PER_MIN - h->first);
    if (minute != h->shown)
        show_minute(h, minute);
    answer_wants(h);
    const uint64_t due = play_due(&play, (h->first + minute + 1) * NS_PER_MIN);
    return due == UINT64_MAX ? due : number_max_u64(due, h->shown_ns + FRAME_MS * NS_PER_MS);
}

static void free_history(Feed *feed)
{
    HistoryFeed *h = (HistoryFeed *)feed;

    for (size_t i = 0; i < h->kept.len; i++)
        free(h->kept.at[i].points);
    vec_done(&h->kept);
    vec_done(&h->incidents);
    str_done(&h->base);
    free(h->control);
}

Feed *feed_history_new(const char *control, const ReplayOptions *options, IncidentList *incidents)
{
    static const FeedOps ops = {.work = work_history, .free = free_history};
    HistoryFeed *h = feed_new(sizeof *h, &ops, FEED_HISTORY);

    h->control = xstrdup(control);
    h->options = *options;
    h->shown = SIZE_MAX;
    h->feed.play.speed = options->speed;
    h->feed.play.paused = options->paused;
    h->incidents = *incidents;
    *incidents = (IncidentList){0};
    str_init(&h->base, CONTROL_REPLY_MAX);
    feed_set_where(&h->feed, "the agent's history");
    return &h->feed;
}
