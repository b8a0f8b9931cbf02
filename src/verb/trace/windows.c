/* SPDX-License-Identifier: Apache-2.0 */
/* One file in windows of time, each small enough for the memory that is allowed. A first pass samples when events
 * start, so that windows hold about as many events each, and keeps the text of the profiler's steps. Then each window
 * is read by a pass of its own, analysed with its scope, and joined. What an analysis needs from outside its window
 * comes along: the steps of the whole profile, and the launches whose work has not run yet, with the operators around
 * them (the carry). A window that turns out too large is halved. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/str.h"
#include "engine/trace/step_name.h"
#include "verb/trace/copy_row.h"
#include "verb/trace/load.h"
#include "verb/trace/one.h"

enum {
    SAMPLES = 1 << 16,        /* half as many are there at least, once that many events have come */
    STEP_TEXT_MAX = 16 << 20, /* of all steps' events */
    EVENT_BYTES = 48,         /* expected, names and details included */
    CARRY_SHARE = 4,          /* the carry holds at most this part of the memory */
};

typedef struct Windows {
    TraceOne *one;
    TraceInput *input;
    TraceRank *ret;
    Err *err;
    int64_t *samples; /* of starts: every `stride`th; sorted after the first pass */
    size_t sample_count;
    uint64_t stride, seen;
    int64_t first;    /* start of the first complete event */
    Str step_text;    /* a list of events as JSON */
    Profile steps;    /* read from it, never sealed */
    int64_t from, to; /* what is asked for */
    Profile carry;    /* host rows for the next window */
    bool carry_full;
    uint32_t first_wide;   /* from this number on links are the window's own: ids over 32 bits are numbered in each */
    uint64_t passes, done; /* windows read, windows analysed */
} Windows;

typedef struct Window {
    int64_t from, to;
    size_t first_sample, end_sample;
} Window;

static void sample(Windows *w, int64_t start)
{
    if (w->seen++ % w->stride)
        return;
    if (w->sample_count == SAMPLES) { /* every second goes */
        for (size_t i = 0; i < SAMPLES / 2; i++)
            w->samples[i] = w->samples[2 * i];
        w->sample_count = SAMPLES / 2;
        w->stride *= 2;
    }
    w->samples[w->sample_count++] = start;
}

/* Whether the text of an annotation may name a step: a text that ends as the name of one. */
static bool names_step(const TraceRaw *raw)
{
    const char *end = raw->bytes + raw->len, *open = NULL;
    int64_t number;
    size_t family;

    for (const char *at = raw->bytes; (at = memchr(at, '"', (size_t)(end - at))); at++) {
        if (open && trace_is_step_like(open, (size_t)(at - open), &number, &family))
            return true;
        open = at + 1;
    }
    return false;
}

static void on_raw(void *context, const TraceRaw *raw)
{
    static const char step[] = "\"ProfilerStep#", number[] = "\"step_num\"";
    Windows *w = context;

    if (!raw->has_time || raw->phase != 'X')
        return;
    w->first = raw->start < w->first ? raw->start : w->first;
    sample(w, raw->start);
    if (!memmem(raw->bytes, raw->len, step, sizeof step - 1) &&
        !(raw->annotation && (names_step(raw) || memmem(raw->bytes, raw->len, number, sizeof number - 1))))
        return;
    str_addc(&w->step_text, w->step_text.len ? ',' : '[');
    str_addn(&w->step_text, raw->bytes, raw->len);
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int read_steps(Windows *w)
{
    TraceScan *scan = trace_scan_new(&w->steps, NULL);

    str_addc(&w->step_text, ']');
    int rc = trace_scan_feed(scan, w->step_text.text, w->step_text.len, w->err);
    if (rc == 0)
        rc = trace_scan_finish(scan, NULL, w->err);
    trace_scan_free(scan);
    str_done(&w->step_text);
    return rc;
}

/* Keeps no event in the profile. */
static int first_pass(Windows *w)
{
    CLEANUP(profile_done) Profile nothing = {0};
    TraceScanOptions options = {.from = INT64_MAX - 1,
                                .to = INT64_MAX,
                                .raw = on_raw,
                                .context = w,
                                .known = w->one->known,
                                .owner = w->one->owner};

    profile_init(&nothing);
    TRY(trace_input_rewind(w->input, w->err));
    TRY(trace_load(w->input, &options, w->one->threads, &nothing, w->err));
    if (w->sample_count > 0)
        qsort(w->samples, w->sample_count, sizeof *w->samples, compare_times);
    if (w->step_text.len && !w->step_text.overflow)
        TRY(read_steps(w));
    return 0;
}

static bool touches(const ProfileEvents *table, size_t row, int64_t from, int64_t to)
{
    return table->start[row] < to && (table->start[row] >= from || profile_end(table, row) > from);
}

/* Moves what was kept from elsewhere to the window's profile: steps that the window has not, and the carry. */
static void add_from_outside(Windows *w, const Window *window, Profile *profile)
{
    const ProfileEvents *host = &w->steps.host;

    for (size_t i = 0; i < host->len; i++)
        if (!touches(host, i, window->from, window->to))
            trace_copy_row(profile, &w->steps, i);
    profile_append(profile, &w->carry);
    profile_done(&w->carry);
    profile_init(&w->carry);
}

/* ---- what the next window needs ---- */

static bool is_graph_launch(const Profile *profile, size_t row)
{
    return strstr(profile_text(profile, profile->host.name[row], NULL), "GraphLaunch") != NULL;
}

/* Marks calls whose work is still to come, and all that lies around them. */
static void mark_pending(const TraceIndex *index, uint8_t *marks, int64_t end)
{
    enum { RAN = 1, KEEP = 2 };
    const ProfileEvents *host = &index->profile->host, *gpu = &index->profile->gpu;

    for (size_t i = 0; i < gpu->len; i++)
        if (index->launch[i] != PROFILE_NONE)
            marks[index->launch[i]] |= RAN;
    for (size_t i = 0; i < host->len; i++) {
        bool launch = host->kind[i] == PROFILE_CALL && host->link[i] && index->host_class[i] == TRACE_HOST_LAUNCH;
        if (!launch || host->start[i] >= end || (marks[i] & RAN && !is_graph_launch(index->profile, i)))
            continue;
        for (uint32_t row = (uint32_t)i; row != PROFILE_NONE && !(marks[row] & KEEP); row = index->parent[row])
            marks[row] |= KEEP;
    }
    for (size_t i = 0; i < host->len; i++)
        marks[i] = marks[i] & KEEP;
}

/* Rows that reach into the next window are read there again. */
static void make_carry(Windows *w, const TraceIndex *index, int64_t end)
{
    const Profile *profile = index->profile;
    CLEANUP_FREE uint8_t *marks = xcalloc(profile->host.len + 1, 1);
    const size_t most = trace_one_scan_memory(w->one) / CARRY_SHARE / EVENT_BYTES;

    mark_pending(index, marks, end);
    for (size_t i = 0; i < profile->host.len; i++) {
        if (!marks[i] || touches(&profile->host, i, end, INT64_MAX))
            continue;
        if (w->carry.host.len >= most) {
            w->carry_full = true;
            break;
        }
        trace_copy_row(&w->carry, profile, i);
        if (profile->host.link[i] >= w->first_wide)
            w->carry.host.link[w->carry.host.len - 1] = 0;
    }
}

/* ---- one window ---- */

static void join(Windows *w, TraceRank *part)
{
    if (w->done++ == 0)
        *w->ret = *part;
    else
        trace_rank_merge(w->ret, part, w->one->config, w->one->arena);
}

static void analyse(Windows *w, const Window *window, const TraceIndex *index)
{
    /* what is asked for is analysed as if there were nothing else: up to where time begins and ends */
    TraceScope scope = {.from = w->done ? window->from : INT64_MIN, .to = window->to < w->to ? window->to : INT64_MAX};
    TraceJob job = trace_one_job(w->one, index);
    const size_t held = profile_bytes(&w->carry) + profile_bytes(&w->steps);
    TraceRank part = {0};

    job.scope = scope;
    job.memory = held < job.memory ? job.memory - held : 0;
    trace_analyse(&job, w->one->path, w->one->number, &part);
    join(w, &part);
}

static void use_window(Windows *w, const Window *window, Profile *profile)
{
    TraceIndex index;
    bool wanted = window->to > w->from && window->from < w->to;

    if (w->passes++ > 0) { /* every pass counts the whole file */
        profile->events = profile->ignored = profile->bytes = 0;
        memset(profile->lost_by_reason, 0, sizeof profile->lost_by_reason);
        profile->losses.len = 0;
    }
    add_from_outside(w, window, profile);
    profile_seal(profile);
    trace_index_init(&index, profile, w->one->threads);
    make_carry(w, &index, window->to);
    if (wanted && trace_ask_some(w->one->ask)) {
        CLEANUP(trace_pick_done) TracePick pick = {0};
        trace_index_done(&index);
        trace_pick_within(&pick, w->one->ask, w->from, w->to, profile);
        trace_pick_apply(&pick, profile);
        trace_index_init(&index, profile, w->one->threads);
    }
    if (wanted)
        analyse(w, window, &index);
    trace_index_done(&index);
}

static int run_window(Windows *w, const Window *window)
{
    CLEANUP(profile_done) Profile profile = {0};
    size_t memory = trace_one_scan_memory(w->one), held = profile_bytes(&w->carry) + profile_bytes(&w->steps);
    TraceScanOptions options = {.from = window->from,
                                .to = window->to,
                                .memory_max = memory > 2 * held ? memory - held : memory / 2,
                                .skip_host = w->one->ask->no_host,
                                .skip_python = w->one->ask->no_python,
                                .known = w->one->known,
                                .owner = w->one->owner};

    profile_init(&profile);
    TRY(trace_input_rewind(w->input, w->err));
    if (w->one->pass)
        atomic_fetch_add(w->one->pass, 1);
    options.learn = trace_known_new();
    int rc = trace_load(w->input, &options, w->one->threads, &profile, w->err);
    w->first_wide = trace_known_first_wide(options.learn);
    trace_known_free(options.learn);
    if (rc == 0)
        use_window(w, window, &profile);
    return rc;
}

/* Runs a window, or its halves where it does not fit. */
static int run_windows(Windows *w, const Window *window)
{
    int rc = run_window(w, window);

    if (rc != -ENOSPC)
        return rc;
    size_t middle = window->first_sample + (window->end_sample - window->first_sample) / 2;
    int64_t at = middle < w->sample_count ? w->samples[middle] : window->from;
    if (at <= window->from || at >= window->to || window->end_sample - window->first_sample < 2)
        return err_set(w->err, -ENOSPC, "'%s' has too many events at once for --memory %zu MiB; allow more",
                       w->one->path, w->one->memory >> 20);
    Window first = {window->from, at, window->first_sample, middle},
           second = {at, window->to, middle, window->end_sample};
    TRY(run_windows(w, &first));
    return run_windows(w, &second);
}

static int run_all(Windows *w)
{
    uint64_t expected = w->seen * EVENT_BYTES, room = trace_one_scan_memory(w->one) * 3 / 4 + 1;
    uint64_t count = expected / room + 1;
    Window window = {.from = INT64_MIN};

    if (count > w->sample_count + 1)
        count = w->sample_count + 1;
    for (uint64_t i = 1; i <= count && window.from < w->to; i++) {
        window.end_sample = (size_t)(w->sample_count * i / count);
        window.to = i == count ? INT64_MAX : w->samples[window.end_sample];
        if (window.to <= window.from)
            continue;
        TRY(run_windows(w, &window));
        window.from = window.to;
        window.first_sample = window.end_sample;
    }
    return 0;
}

/* Times after the first event and steps, worked out from the first pass. */
static int find_bounds(Windows *w)
{
    CLEANUP(profile_done) Profile steps = {0};
    CLEANUP(trace_pick_done) TracePick pick = {0};
    const ProfileEvents *host = &w->steps.host;

    profile_init(&steps);
    for (size_t i = 0; i < host->len; i++)
        trace_copy_row(&steps, &w->steps, i);
    if (w->seen) /* the moment that times are counted from */
        profile_add(&steps, &(ProfileEvent){.kind = PROFILE_OTHER,
                                            .start = w->first,
                                            .name = profile_name(&steps, "", 0),
                                            .lane = profile_thread(&steps, 0, PROFILE_NONE, 0, PROFILE_NONE),
                                            .extra = PROFILE_NONE});
    profile_seal(&steps);
    TRY(trace_pick_init(&pick, w->one->ask, &steps, w->err));
    w->from = pick.from;
    w->to = pick.to;
    return 0;
}

static int windows_run(Windows *w)
{
    TRY(first_pass(w));
    TRY(find_bounds(w));
    TRY(run_all(w));
    if (w->done == 0)
        return err_set(w->err, -ENODATA, "'%s' has no event in the time that is asked for", w->one->path);
    w->one->note = arena_printf(
        w->one->arena,
        "%s: its events need more than --memory %zu MiB, so it was read in %" PRIu64
        " windows of time: medians of launches "
        "are within 1 %%, queue lengths leave out work that ran in a later window, there are no critical paths%s",
        w->one->path, w->one->memory >> 20, w->done,
        w->carry_full ? ", and some operations that ran long after their launch count as unlinked" : "");
    return 0;
}

static void windows_init(Windows *w)
{
    w->stride = 1;
    w->first = INT64_MAX;
    w->samples = xmalloc(SAMPLES * sizeof *w->samples);
    str_init(&w->step_text, STEP_TEXT_MAX);
    profile_init(&w->steps);
    profile_init(&w->carry);
}

static void windows_done(Windows *w)
{
    profile_done(&w->steps);
    profile_done(&w->carry);
    str_done(&w->step_text);
    free(w->samples);
}

int trace_windows(TraceOne *one, TraceInput *input, TraceRank *ret, Err *err)
{
    CLEANUP(windows_done) Windows w = {.one = one, .input = input, .ret = ret, .err = err};

    windows_init(&w);
    int rc = windows_run(&w);
    if (rc < 0 && w.done > 0) {
        trace_rank_done(ret);
        *ret = (TraceRank){0};
    }
    return rc;
}

int trace_windows_bounds(TraceOne *one, TraceInput *input, int64_t *ret_from, int64_t *ret_to, Err *err)
{
    CLEANUP(windows_done) Windows w = {.one = one, .input = input, .err = err};

    windows_init(&w);
    TRY(first_pass(&w));
    TRY(find_bounds(&w));
    *ret_from = w.from;
    *ret_to = w.to;
    return 0;
}
