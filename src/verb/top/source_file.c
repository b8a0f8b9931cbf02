/* SPDX-License-Identifier: Apache-2.0 */
/* Looks of a recording, shown as time passes. The past of what is plotted comes from the looks before the one that is
 * shown, some of them at a turn. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/owner.h"
#include "verb/agent/control.h"
#include "verb/top/recording.h"
#include "verb/top/source_kind.h"

enum { FRAME_MS = 100, FILL_SECONDS = 120, FILL_MINUTES = 120, FILL_TURN = 8, HOLD_S = 10, HOLD_MIN = 15 };

/* A look on the way through the past. */
typedef struct Step {
    size_t look;
    bool minute;
} Step;

typedef struct Before {
    bool known;
    double reads;
    uint64_t real_ns;
    PlotPoint point;
} Before;

typedef struct FileSource {
    Source source;
    char *path;
    ReplayOptions options;
    Recording *recording;
    size_t shown;      /* SIZE_MAX none */
    uint64_t shown_ns; /* monotonic */
    SourceWants wants;
    VEC(Step) steps; /* oldest first, the minutes before the seconds */
    size_t step;
    VEC(Before) before; /* of each want */
    Look look;
} FileSource;

static bool stop(void *self)
{
    return source_stopping(self);
}

static int open_recording(FileSource *f)
{
    Source *source = &f->source;
    const ReplayOptions *o = &f->options;
    Err err;

    source_says(source, "the recording is being read");
    if (recording_open(f->path, stop, source, &f->recording, &err) < 0) {
        source_fails(source, "%s", err.text);
        return -1;
    }
    const size_t count = recording_count(f->recording);
    const uint64_t first = recording_time(f->recording, 0), last = recording_time(f->recording, count - 1);
    const uint64_t from = number_max_u64(first, o->from_ns), to = o->to_ns ? number_min_u64(last, o->to_ns) : last;
    if (from > to) {
        source_fails(source, "the recording has nothing of that time");
        return -1;
    }
    pthread_mutex_lock(&source->lock);
    play_begin(&source->play, from, to, o->at_end ? to : from, clock_monotonic(clock_kernel()));
    source->state.pace_ns = count > 1 ? (last - first) / (count - 1) : NS_PER_S;
    pthread_mutex_unlock(&source->lock);
    const char *damage = recording_damage(f->recording);
    source_is_at(source, "%s%s%s%s", f->path, damage[0] ? " (" : "", damage, damage[0] ? ")" : "");
    return 0;
}

/* --- the past ------------------------------------------------------------------------------------------------------
 */

/* Looks between two instants, as many as `most`, evenly apart. */
static void plan_steps(FileSource *f, uint64_t from_ns, uint64_t to_ns, size_t most, bool minute)
{
    const size_t first = recording_find(f->recording, from_ns), last = recording_find(f->recording, to_ns);
    const size_t count = last - first + 1, stride = (count + most - 1) / most;

    for (size_t i = first; i <= last; i += stride)
        vec_push(&f->steps, ((Step){.look = i, .minute = minute}));
}

static void plan_fill(FileSource *f, uint64_t at_ns)
{
    const uint64_t seconds = at_ns - number_min_u64(at_ns, TOP_HISTORY_SECONDS * NS_PER_S);
    const uint64_t minutes = at_ns - number_min_u64(at_ns, TOP_HISTORY_MINUTES * NS_PER_MIN);

    vec_clear(&f->steps);
    f->step = 0;
    plan_steps(f, minutes, at_ns, FILL_MINUTES, true);
    plan_steps(f, seconds, at_ns, FILL_SECONDS, false);
    vec_clear(&f->before);
    for (size_t i = 0; i < f->wants.len; i++)
        (void)vec_add(&f->before);
}

static const Sample *sample_of(const Node *node, const SourceWant *want)
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

/* What a look says holds until the next one, but not for too long. */
static void hold(FileSource *f, size_t i, const Before *before, uint64_t until_ns, bool minute)
{
    const uint64_t unit = minute ? NS_PER_MIN : NS_PER_S, most = minute ? HOLD_MIN : HOLD_S;
    const uint64_t first = before->real_ns / unit, last = number_min_u64(until_ns / unit, first + most);

    for (uint64_t n = first; n < last || n == first; n++)
        source_add_past(&f->source, &f->wants.at[i], n * unit, minute, before->point);
}

static void fill_want(FileSource *f, size_t i, uint64_t real_ns, bool minute)
{
    const SourceWant *want = &f->wants.at[i];
    const Sample *sample = sample_of(&f->look.read.node, want);
    Before *before = &f->before.at[i], now = {.real_ns = real_ns};

    now.known = sample && sample_double(sample, &now.reads);
    float value = (float)now.reads;
    if (metric_get(want->metric)->type == METRIC_COUNTER)
        value = now.known && before->known && now.reads >= before->reads && real_ns > before->real_ns
                    ? (float)((now.reads - before->reads) / ((double)(real_ns - before->real_ns) / 1e9))
                    : NAN;
    now.point = (PlotPoint){value, value, value};
    if (before->known && !isnan(before->point.mean))
        hold(f, i, before, real_ns, minute);
    *before = now;
}

/* The next looks of the past; all wants together, as reading a look costs more than taking a value from it. */
static void fill_some(FileSource *f)
{
    Err err;

    for (int n = 0; n < FILL_TURN && f->step < f->steps.len; n++, f->step++) {
        const Step *step = &f->steps.at[f->step];
        const bool begins = f->step > 0 && f->steps.at[f->step - 1].minute != step->minute;

        for (size_t i = 0; begins && i < f->before.len; i++)
            f->before.at[i] = (Before){0};
        if (recording_line(f->recording, step->look, &f->source.line, &err) < 0 ||
            look_read(&f->look, f->source.line.text, f->source.line.len, &err) < 0)
            continue;
        for (size_t i = 0; i < f->before.len; i++)
            fill_want(f, i, recording_time(f->recording, step->look), step->minute);
    }
    if (f->step < f->steps.len)
        return;
    for (size_t i = 0; i < f->before.len; i++)
        source_past_done(&f->source, &f->wants.at[i]);
    vec_clear(&f->wants);
    vec_clear(&f->before);
}

/* --- turns ---------------------------------------------------------------------------------------------------------
 */

static void show(FileSource *f, size_t i)
{
    Source *source = &f->source;
    Err err;

    f->shown = i;
    f->shown_ns = clock_monotonic(clock_kernel());
    if (recording_line(f->recording, i, &source->line, &err) < 0)
        source_says(source, "%s", err.text);
    else
        (void)source_tell(source, source->line.text, source->line.len, false);
}

static uint64_t turn(Source *source)
{
    FileSource *f = (FileSource *)source;
    Play play;

    if (!f->recording && open_recording(f) < 0)
        return UINT64_MAX;
    const uint64_t at = source_at(source, &play);
    const size_t i = recording_find(f->recording, at);
    if (i != f->shown)
        show(f, i);
    if (f->wants.len == 0) {
        source_wanted(source, &f->wants);
        if (f->wants.len > 0)
            plan_fill(f, at);
    }
    if (f->wants.len > 0) {
        fill_some(f);
        return 0;
    }
    if (i + 1 >= recording_count(f->recording))
        return UINT64_MAX;
    return number_max_u64(play_due(&play, recording_time(f->recording, i + 1)), f->shown_ns + FRAME_MS * NS_PER_MS);
}

static void release(Source *source)
{
    FileSource *f = (FileSource *)source;

    recording_close(f->recording);
    look_done(&f->look);
    vec_done(&f->wants);
    vec_done(&f->steps);
    vec_done(&f->before);
    free(f->path);
}

static const SourceOps ops = {.turn = turn, .free = release};

Source *source_file_new(const char *path, const ReplayOptions *options)
{
    FileSource *f = source_new(sizeof *f, &ops, TOP_RECORDING);

    f->path = xstrdup(path);
    f->options = *options;
    f->shown = SIZE_MAX;
    f->source.play.speed = options->speed;
    f->source.play.paused = options->paused;
    look_init(&f->look);
    source_is_at(&f->source, "%s", path);
    return &f->source;
}
