/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks made from the agent's minutes: yesterday. What the agent keeps no history of (names, limits, modes) is as it is
 * now; what it does not keep at all is absent. The incidents are those that were open at that time.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "verb/agent/control.h"
#include "verb/top/ask.h"
#include "verb/top/source_kind.h"

enum { STORE_ASK_MS = 10000, FRAME_MS = 100, MINUTES_MAX = 2 * TOP_HISTORY_MINUTES };

/* A metric of a GPU or instance, by minutes. */
typedef struct Kept {
    size_t gpu, instance; /* instance SIZE_MAX: the GPU itself */
    MetricId metric;
    PlotPoint *points; /* `count` of the source */
} Kept;

typedef struct StoreSource {
    Source source;
    char *control;
    ReplayOptions options;
    IncidentList incidents;
    Str base;            /* what the agent says now */
    uint64_t first;      /* number of the first minute since 1970 */
    size_t count, shown; /* minutes; SIZE_MAX none shown yet */
    uint64_t shown_ns;   /* monotonic */
    bool loaded;
    VEC(Kept) kept;
} StoreSource;

/* --- loading -------------------------------------------------------------------------------------------------------
 */

static Reading *reading_at(Node *node, size_t gpu, size_t instance)
{
    return instance == SIZE_MAX ? &node->gpus[gpu].reading : &node->gpus[gpu].instances[instance];
}

static Kept *kept_of(StoreSource *s, size_t from, size_t gpu, size_t instance, MetricId metric)
{
    for (size_t i = from; i < s->kept.len; i++)
        if (s->kept.at[i].metric == metric)
            return &s->kept.at[i];
    Kept *kept = vec_add(&s->kept);
    *kept = (Kept){.gpu = gpu, .instance = instance, .metric = metric, .points = xcalloc(s->count, sizeof(PlotPoint))};
    for (size_t i = 0; i < s->count; i++)
        kept->points[i] = (PlotPoint){NAN, NAN, NAN};
    return kept;
}

static void take_points(StoreSource *s, size_t gpu, size_t instance, const HistoryPoints *points)
{
    const size_t from = s->kept.len;

    for (size_t i = 0; i < points->len; i++) {
        const HistoryPoint *p = &points->at[i];
        const uint64_t minute = p->real_ns / NS_PER_MIN;

        if (minute >= s->first && minute - s->first < s->count && !isnan(p->mean))
            kept_of(s, from, gpu, instance, p->metric)->points[minute - s->first] =
                (PlotPoint){p->min, p->mean, p->max};
    }
}

/* Minutes of all that is kept of one device. */
static void load_device(StoreSource *s, const Node *node, size_t gpu, size_t instance)
{
    const Reading *reading = instance == SIZE_MAX ? &node->gpus[gpu].reading : &node->gpus[gpu].instances[instance];
    char from[NUMBER_U64_MAX + 1] = "", to[NUMBER_U64_MAX + 1] = "";
    MetricId metrics[METRIC_END];
    HistoryPoints points = {0};
    size_t count = 0;

    for (MetricId id = 0; id < METRIC_END; id++) {
        const Sample *sample = &reading->sample[id];

        if (metric_get(id)->history &&
            (sample->valid || (sample->absence != ABSENCE_NOT_YET && sample->absence != ABSENCE_NOT_SUPPORTED)))
            metrics[count++] = id;
    }
    from[number_write_u64(from, s->first * 60)] = '\0';
    to[number_write_u64(to, (s->first + s->count) * 60)] = '\0';
    const AskHistory ask = {.control = s->control,
                            .device = &reading->device,
                            .minutes = true,
                            .from = from,
                            .to = to,
                            .timeout_ms = STORE_ASK_MS};
    for (size_t i = 0; i < count && !source_stopping(&s->source); i += ASK_METRICS_MAX)
        ask_history(&ask, metrics + i, number_min_u64(ASK_METRICS_MAX, count - i), &s->source.line, &points);
    take_points(s, gpu, instance, &points);
    vec_done(&points);
}

static void load_all(StoreSource *s, const Node *node)
{
    for (size_t g = 0; g < node->gpu_count; g++) {
        load_device(s, node, g, SIZE_MAX);
        for (size_t k = 0; k < node->gpus[g].instance_count; k++)
            load_device(s, node, g, k);
    }
}

/* The first and the last minute of which anything is known. */
static bool known_span(const StoreSource *s, size_t *ret_first, size_t *ret_last)
{
    *ret_first = s->count;
    *ret_last = 0;
    for (size_t k = 0; k < s->kept.len; k++)
        for (size_t i = 0; i < s->count; i++)
            if (!isnan(s->kept.at[k].points[i].mean)) {
                *ret_first = number_min_u64(*ret_first, i);
                *ret_last = number_max_u64(*ret_last, i);
            }
    return *ret_first < s->count;
}

static int load(StoreSource *s)
{
    Source *source = &s->source;
    const Node *node = &source->mine->look.read.node;
    size_t first, last;
    Err err;

    source_says(source, "the agent's history is being read");
    if (ask_status(s->control, SOURCE_ASK_MS, &s->base, &err) < 0 ||
        look_read(&source->mine->look, s->base.text, s->base.len, &err) < 0) {
        source_fails(source, "%s", err.text);
        return -1;
    }
    const uint64_t to = s->options.to_ns ? number_min_u64(s->options.to_ns, node->real_ns) : node->real_ns;
    const uint64_t least = (MINUTES_MAX - 1) * NS_PER_MIN;
    const uint64_t from = number_max_u64(s->options.from_ns, to > least ? to - least : 0);
    s->first = from / NS_PER_MIN;
    s->count = from <= to ? (size_t)(to / NS_PER_MIN - s->first + 1) : 0;
    load_all(s, node);
    if (!known_span(s, &first, &last)) {
        source_fails(source, "the agent knows nothing of that time; it keeps a day of minutes");
        return -1;
    }
    source_is_at(source, "history of %s", node->hostname);
    const uint64_t begin = (s->first + first) * NS_PER_MIN, end = (s->first + last) * NS_PER_MIN;
    pthread_mutex_lock(&source->lock);
    play_begin(&source->play, begin, end, s->options.at_end ? end : begin, clock_monotonic(clock_kernel()));
    source->state.pace_ns = NS_PER_MIN;
    pthread_mutex_unlock(&source->lock);
    s->loaded = true;
    return 0;
}

/* --- a look --------------------------------------------------------------------------------------------------------
 */

static void lose_state(NodeGpu *gpu, uint64_t at_ns)
{
    gpu->state = GPU_STARTING;
    gpu->state_since_ns = gpu->last_sample_ns = 0;
    snprintf(gpu->why, sizeof gpu->why, "the agent knows nothing of this minute");
    gpu->link_count = 0;
    gpu->process_count = 0;
    sample_set_absent(&gpu->process_list, at_ns, ABSENCE_NO_DATA);
}

/* What has a history is what that says; what stays the same is as it is now. */
static void lose_values(Reading *reading, uint64_t at_ns)
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

/* Of what is a word or bits and no amount, a minute has a value only where that stayed the same. */
static bool has_mean(const Metric *metric, PlotPoint point)
{
    const bool amount = metric->unit != UNIT_BITMASK && metric->unit != UNIT_ENUM && metric->unit != UNIT_BOOL &&
                        metric->unit != UNIT_XID && metric->unit != UNIT_PSTATE && metric->unit != UNIT_GENERATION &&
                        metric->unit != UNIT_LANES;

    return !isnan(point.mean) && (amount || !(point.min < point.max));
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
    if (!has_mean(metric, point) ||
        metric->type == METRIC_COUNTER) /* the history has how counters grew, not what they were */
        return;
    if (metric->value == METRIC_INT64)
        sample_set_int64(sample, node->time_ns, llroundf(point.mean));
    else
        sample_set_double(sample, node->time_ns, (double)point.mean);
}

static void set_incidents(const StoreSource *s, Look *look)
{
    const uint64_t at = look->read.node.real_ns;

    vec_clear(&look->incidents);
    for (size_t i = 0; i < s->incidents.len; i++) {
        Incident incident = s->incidents.at[i];

        if (incident.opened_real_ns == 0 || incident.opened_real_ns >= at + NS_PER_MIN ||
            (incident.cleared_real_ns && incident.cleared_real_ns < at))
            continue;
        incident.state = INCIDENT_OPEN;
        vec_push(&look->incidents, incident);
    }
    look_settle(look);
}

static void show(StoreSource *s, size_t minute)
{
    Look *look = &s->source.mine->look;
    Node *node = &look->read.node;
    Err err;

    s->shown = minute;
    s->shown_ns = clock_monotonic(clock_kernel());
    if (look_read(look, s->base.text, s->base.len, &err) < 0)
        return;
    node->real_ns = node->time_ns = (s->first + minute) * NS_PER_MIN;
    node->tick = minute + 1;
    node->release_until_ns = 0;
    node->sampler_count = 0;
    look->health.count = 0;
    for (size_t g = 0; g < node->gpu_count; g++) {
        lose_state(&node->gpus[g], node->time_ns);
        lose_values(&node->gpus[g].reading, node->time_ns);
        for (size_t k = 0; k < node->gpus[g].instance_count; k++)
            lose_values(&node->gpus[g].instances[k], node->time_ns);
    }
    for (size_t i = 0; i < s->kept.len; i++)
        set_value(node, &s->kept.at[i], s->kept.at[i].points[minute]);
    set_incidents(s, look);
    str_clear(&s->source.mine->text);
    source_give(&s->source);
}

static void answer_wants(StoreSource *s)
{
    const Node *node = NULL;
    SourceWants wants = {0};
    Look look;

    source_wanted(&s->source, &wants);
    look_init(&look);
    if (wants.len > 0 && look_read(&look, s->base.text, s->base.len, NULL) == 0)
        node = &look.read.node;
    for (size_t w = 0; w < wants.len; w++) {
        for (size_t k = 0; node && k < s->kept.len; k++) {
            const Kept *kept = &s->kept.at[k];
            const Reading *reading = kept->instance == SIZE_MAX ? &node->gpus[kept->gpu].reading
                                                                : &node->gpus[kept->gpu].instances[kept->instance];

            if (kept->metric != wants.at[w].metric || !device_equal(&reading->device, &wants.at[w].device))
                continue;
            for (size_t i = 0; i < s->count; i++)
                if (!isnan(kept->points[i].mean))
                    source_add_past(&s->source, &wants.at[w], (s->first + i) * NS_PER_MIN, true, kept->points[i]);
        }
        source_past_done(&s->source, &wants.at[w]);
    }
    look_done(&look);
    vec_done(&wants);
}

static uint64_t turn(Source *source)
{
    StoreSource *s = (StoreSource *)source;
    Play play;

    if (!s->loaded && load(s) < 0)
        return UINT64_MAX;
    const uint64_t at = source_at(source, &play);
    const size_t minute = (size_t)(at / NS_PER_MIN - s->first);
    if (minute != s->shown)
        show(s, minute);
    answer_wants(s);
    const uint64_t next = (s->first + minute + 1) * NS_PER_MIN;
    const uint64_t due = play_due(&play, next);
    return due == UINT64_MAX ? due : number_max_u64(due, s->shown_ns + FRAME_MS * NS_PER_MS);
}

static void release(Source *source)
{
    StoreSource *s = (StoreSource *)source;

    for (size_t i = 0; i < s->kept.len; i++)
        free(s->kept.at[i].points);
    vec_done(&s->kept);
    vec_done(&s->incidents);
    str_done(&s->base);
    free(s->control);
}

static const SourceOps ops = {.turn = turn, .free = release};

Source *source_store_new(const char *control, const ReplayOptions *options, IncidentList *incidents)
{
    StoreSource *s = source_new(sizeof *s, &ops, TOP_STORE);

    s->control = xstrdup(control);
    s->options = *options;
    s->shown = SIZE_MAX;
    s->source.play.speed = options->speed;
    s->source.play.paused = options->paused;
    s->incidents = *incidents;
    *incidents = (IncidentList){0};
    str_init(&s->base, CONTROL_REPLY_MAX);
    source_is_at(&s->source, "the agent's history");
    return &s->source;
}
