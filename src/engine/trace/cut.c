/* SPDX-License-Identifier: Apache-2.0 */
/* Two passes over the text: the first learns what is known only at its end (the window where it depends on a step or on
 * the first event, the launches of the chosen operations, which begin belongs to which end), the second copies events
 * and the members around their list as they stand in the text. */
#include "engine/trace/cut.h"

#include <errno.h>
#include <string.h>

#include "base/human.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { AROUND_MAX = 32 << 20 };

typedef struct Copy {
    TraceCut *cut;
    const TraceCutFile *file;
    Err *err;
    TracePick pick;
    Profile rows;      /* what the scanner makes of the events; emptied again and again */
    TraceKnown *known; /* from the first pass */
    Str around;        /* the members around the list */
    int rc;
} Copy;

/* ---- choice of events ---- */

static void write_bytes(Copy *copy, const char *bytes, size_t len)
{
    if (copy->rc == 0)
        copy->rc = copy->file->write(copy->file->context, bytes, len, copy->err);
}

static void write_event(Copy *copy, const char *bytes, size_t len)
{
    write_bytes(copy, copy->cut->copied ? ",\n  " : "\n  ", copy->cut->copied ? 4 : 3);
    write_bytes(copy, bytes, len);
    copy->cut->copied++;
}

static void forget_rows(Profile *rows)
{
    rows->gpu.len = rows->host.len = rows->mark.len = 0;
    rows->syncs.len = rows->memory.len = 0;
}

static bool is_launch_flow(const TraceRaw *raw)
{
    return memmem(raw->bytes, raw->len, "\"ac2g\"", 6) || memmem(raw->bytes, raw->len, "\"async", 6);
}

static bool wants_moment(const Copy *copy, const TraceRaw *raw)
{
    if (raw->phase == 'M')
        return true;
    if (!raw->has_time || (copy->cut->ask->no_host && copy->rows.memory.len > 0))
        return false;
    if (raw->phase == 's' || raw->phase == 't' || raw->phase == 'f') {
        if (copy->cut->ask->no_host)
            return false;
        if (is_launch_flow(raw) && trace_pick_link(&copy->pick, raw->link))
            return true;
    }
    return trace_pick_moment(&copy->pick, raw->start);
}

/* A range: an event with a duration, or half of one that has both. */
static bool wants_range(const Copy *copy, const TraceRaw *raw)
{
    const TracePicked event = {.kind = raw->kept ? raw->kind : PROFILE_OTHER,
                               .start = raw->start,
                               .duration = raw->duration > 0 ? raw->duration : 0,
                               .link = raw->link,
                               .device = raw->device,
                               .stream = raw->stream};

    return raw->has_time && trace_pick_event(&copy->pick, &event);
}

static void on_raw(void *context, const TraceRaw *raw)
{
    Copy *copy = context;
    bool wanted;

    copy->cut->events++;
    wanted = strchr("XBE", raw->phase) ? wants_range(copy, raw) : wants_moment(copy, raw);
    forget_rows(&copy->rows);
    if (wanted)
        write_event(copy, raw->bytes, raw->len);
}

static void on_member(void *context, const char *bytes, size_t len)
{
    Copy *copy = context;

    str_add(&copy->around, ",\n  ");
    str_addn(&copy->around, bytes, len);
}

/* ---- the passes ---- */

static int load_profile(const Copy *copy, const TraceScanOptions *options, Profile *into)
{
    return copy->file->load(copy->file->context, options, into, copy->err);
}

static void note_first(void *context, const TraceRaw *raw)
{
    int64_t *first = context;

    if (raw->phase == 'X' && raw->has_time && raw->start < *first)
        *first = raw->start;
}

/* Reads the text without keeping any event. */
static int skim_text(const Copy *copy, TraceScanOptions options)
{
    CLEANUP(profile_done) Profile nothing = {0};

    options.from = INT64_MAX - 1;
    options.to = INT64_MAX;
    profile_init(&nothing);
    return load_profile(copy, &options, &nothing);
}

/* Makes times after the first event absolute. */
static int fix_times(const Copy *copy, TraceAsk *ask)
{
    int64_t first = INT64_MAX;

    if (!ask->from.relative && !ask->to.relative)
        return 0;
    TRY(skim_text(copy, (TraceScanOptions){.raw = note_first, .context = &first}));
    first = first == INT64_MAX ? 0 : first;
    if (ask->from.relative)
        ask->from = (TraceMoment){.given = true, .ns = first + ask->from.ns};
    if (ask->to.relative)
        ask->to = (TraceMoment){.given = true, .ns = first + ask->to.ns};
    return 0;
}

/* -ENOSPC where the profile does not fit. */
static int pick_window(Copy *copy, const TraceScanOptions *options, const TraceAsk *ask)
{
    CLEANUP(profile_done) Profile profile = {0};

    profile_init(&profile);
    TRY(load_profile(copy, options, &profile));
    profile_seal(&profile, 1);
    TRY(trace_pick_init(&copy->pick, ask, &profile, copy->err));
    copy->pick.ask = copy->cut->ask;
    return 0;
}

/* Where the whole profile does not fit: GPU operations and ranges alone, of the window where it is known. */
static int find_window(Copy *copy)
{
    TraceAsk ask = *copy->cut->ask;
    TraceScanOptions options = {.memory_max = copy->cut->memory, .learn = copy->known};
    char given[HUMAN_MAX];
    int rc = pick_window(copy, &options, &ask);

    if (rc != -ENOSPC)
        return rc;
    TRY(fix_times(copy, &ask));
    options.skip_host = true;
    if (!ask.step) {
        options.from = ask.from.given ? ask.from.ns : INT64_MIN;
        options.to = ask.to.given ? ask.to.ns : INT64_MAX;
    }
    rc = pick_window(copy, &options, &ask);
    if (rc != -ENOSPC)
        return rc;
    return err_set(copy->err, rc,
                   "the window of '%s' needs more than the %s of --memory; allow more, or ask for less time",
                   copy->cut->path, human_bytes(given, (double)copy->cut->memory));
}

static int copy_events(Copy *copy)
{
    const TraceScanOptions options = {.raw = on_raw, .member = on_member, .context = copy, .known = copy->known};

    TRY(load_profile(copy, &options, &copy->rows));
    copy->cut->lost = profile_lost(&copy->rows);
    return copy->rc;
}

/* Adds what the profile was recorded with, if only events said so that may be gone now. */
static void add_flags(const Profile *profile, Str *around)
{
    const struct {
        bool set;
        const char *key;
    } flags[] = {{profile->with_stack, "\"with_stack\""},
                 {profile->with_shapes, "\"record_shapes\""},
                 {profile->with_memory, "\"profile_memory\""},
                 {profile->rocm, "\"hip_runtime_version\""}};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (flags[i].set && !memmem(around->text, around->len, flags[i].key, strlen(flags[i].key)))
            str_addf(around, ",\n  %s: 1", flags[i].key);
}

/* Members follow the events: their position in the object has no meaning. */
static int run_passes(Copy *copy)
{
    const TraceAsk *ask = copy->cut->ask;

    if (ask->from.given || ask->to.given || ask->step) {
        TRY(find_window(copy));
    } else {
        TRY(skim_text(copy, (TraceScanOptions){.learn = copy->known}));
        copy->pick = (TracePick){.ask = ask, .from = INT64_MIN, .to = INT64_MAX};
    }
    write_bytes(copy, "{\n  \"traceEvents\": [", 20);
    TRY(copy_events(copy));
    add_flags(&copy->rows, &copy->around);
    TRY(str_check(&copy->around, copy->cut->path, copy->err));
    write_bytes(copy, copy->cut->copied ? "\n  ]" : "]", copy->cut->copied ? 4 : 1);
    write_bytes(copy, copy->around.text, copy->around.len);
    write_bytes(copy, "\n}\n", 3);
    return copy->rc;
}

int trace_cut(TraceCut *cut, const TraceCutFile *file, Err *err)
{
    Copy copy = {.cut = cut, .file = file, .err = err, .known = trace_known_new()};

    profile_init(&copy.rows);
    str_init(&copy.around, AROUND_MAX);
    const int rc = run_passes(&copy);

    trace_pick_done(&copy.pick);
    profile_done(&copy.rows);
    str_done(&copy.around);
    trace_known_free(copy.known);
    return rc;
}
