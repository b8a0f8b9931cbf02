/* SPDX-License-Identifier: Apache-2.0 */
/* Up to three passes over the text: the first reads the profile where the window depends on it (a step, the first
 * event, the launches of the chosen operations), the second copies events as they stand in the text, the third fetches
 * the members around the event list. */
#include "engine/trace/cut.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/human.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"

enum { AROUND_MAX = 32 << 20, READ_BYTES = 1 << 20 };

/* A begin or an end (phases B and E), kept until all are there and then paired: those of one thread nest. */
typedef struct HalfEvent {
    const char *text; /* of the event */
    size_t len;
    int64_t start;
    uint64_t order;     /* in the file */
    const char *thread; /* "PID\0TID" as in the text */
    size_t thread_len;
    const char *name;
    bool begin, named, wanted;
    ProfileKind kind;
    uint32_t link;
    int32_t device;
    int64_t stream;
} HalfEvent;

typedef struct Halves {
    VEC(HalfEvent) events;
    Arena arena;
} Halves;

typedef struct Copy {
    TraceCut *cut;
    const TraceCutFile *file;
    Err *err;
    TracePick pick;
    Profile rows; /* what the scanner makes of the events; emptied again and again */
    Halves halves;
    TraceKnown *known;             /* from the first pass */
    uint64_t head_end, tail_begin; /* bytes of the text around the events; head_end 0: no event yet */
    int rc;
} Copy;

/* The value of a key as it stands in the text, quotes of a text left out. */
static const char *find_value(const TraceRaw *raw, const char *key, size_t *ret_len)
{
    const char *end = raw->bytes + raw->len;
    const char *at = memmem(raw->bytes, raw->len, key, strlen(key));

    *ret_len = 0;
    if (!at)
        return "";
    at += strlen(key);
    while (at < end && strchr(" \t\r\n:", *at))
        at++;
    if (at < end && *at == '"') {
        for (at++; at + *ret_len < end && at[*ret_len] != '"'; ++*ret_len)
            *ret_len += at[*ret_len] == '\\' && at + *ret_len + 1 < end;
        return at;
    }
    while (at + *ret_len < end && !strchr(",}\" \n\r\t", at[*ret_len]))
        ++*ret_len;
    return at;
}

static void add_half(Halves *halves, const TraceRaw *raw)
{
    size_t pid_len, tid_len, name_len;
    const char *pid = find_value(raw, "\"pid\"", &pid_len), *tid = find_value(raw, "\"tid\"", &tid_len);
    const char *name = find_value(raw, "\"name\"", &name_len);
    bool named = memmem(raw->bytes, raw->len, "\"name\"", 6) != NULL;
    char *thread = arena_alloc(&halves->arena, pid_len + tid_len + 1);

    if (!raw->has_time)
        return;
    memcpy(thread, pid, pid_len);
    memcpy(thread + pid_len + 1, tid, tid_len);
    vec_push(&halves->events, ((HalfEvent){.text = arena_strndup(&halves->arena, raw->bytes, raw->len),
                                           .len = raw->len,
                                           .start = raw->start,
                                           .order = raw->offset,
                                           .thread = thread,
                                           .name = arena_strndup(&halves->arena, name, name_len),
                                           .named = named,
                                           .thread_len = pid_len + tid_len + 1,
                                           .begin = raw->phase == 'B',
                                           .kind = raw->kept ? raw->kind : PROFILE_OTHER,
                                           .link = raw->link,
                                           .device = raw->device,
                                           .stream = raw->stream}));
}

static int compare_threads(const HalfEvent *a, const HalfEvent *b)
{
    if (a->thread_len != b->thread_len)
        return a->thread_len < b->thread_len ? -1 : 1;
    return memcmp(a->thread, b->thread, a->thread_len);
}

static int compare_halves(const void *x, const void *y)
{
    const HalfEvent *a = x, *b = y;
    int thread = compare_threads(a, b);

    if (thread)
        return thread;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

typedef VEC(size_t) Open;

/* As the scanner does: the last open begin of the end's name; for an end without a name, the last one. */
static size_t find_begin(const Halves *halves, const Open *open, const HalfEvent *end)
{
    for (size_t i = open->len; i-- > 0;)
        if (!end->named || strcmp(halves->events.at[open->at[i]].name, end->name) == 0)
            return i;
    return open->len;
}

static int compare_order(const void *x, const void *y)
{
    const HalfEvent *a = x, *b = y;

    return (a->order > b->order) - (a->order < b->order);
}

static void halves_done(Halves *halves)
{
    vec_done(&halves->events);
    arena_done(&halves->arena);
}

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
    if (raw->metadata)
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

static bool wants_complete(const Copy *copy, const TraceRaw *raw)
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
    bool wanted = false;

    copy->cut->events++;
    if (copy->head_end == 0)
        copy->head_end = raw->offset;
    copy->tail_begin = raw->offset + raw->len;
    if (raw->phase == 'B' || raw->phase == 'E')
        add_half(&copy->halves, raw);
    else
        wanted = raw->phase == 'X' ? wants_complete(copy, raw) : wants_moment(copy, raw);
    forget_rows(&copy->rows);
    if (wanted)
        write_event(copy, raw->bytes, raw->len);
}

static bool wants_pair(const Copy *copy, const HalfEvent *begin, const HalfEvent *end)
{
    TracePicked event = {.kind = begin->kind,
                         .start = begin->start,
                         .duration = end->start - begin->start,
                         .link = begin->link ? begin->link : end->link,
                         .device = begin->device,
                         .stream = begin->stream};

    return trace_pick_event(&copy->pick, &event);
}

/* As the scanner pairs them: the last open begin of the end's name; for an end without a name, the last one. Those
 * without a partner are left out. */
static void choose_halves(Copy *copy)
{
    Halves *halves = &copy->halves;
    Open open = {0};

    for (size_t i = 0; i < halves->events.len; i++) {
        HalfEvent *event = &halves->events.at[i];
        if (open.len > 0 && compare_threads(event, &halves->events.at[open.at[0]]) != 0)
            vec_clear(&open);
        if (event->begin) {
            vec_push(&open, i);
            continue;
        }
        size_t at = find_begin(halves, &open, event);
        if (at == open.len)
            continue;
        HalfEvent *begin = &halves->events.at[open.at[at]];
        vec_remove(&open, at);
        begin->wanted = event->wanted = wants_pair(copy, begin, event);
    }
    vec_done(&open);
}

/* In the order of the file. */
static void copy_halves(Copy *copy)
{
    Halves *halves = &copy->halves;

    if (halves->events.len == 0)
        return;
    qsort(halves->events.at, halves->events.len, sizeof *halves->events.at, compare_halves);
    choose_halves(copy);
    qsort(halves->events.at, halves->events.len, sizeof *halves->events.at, compare_order);
    for (size_t i = 0; i < halves->events.len; i++)
        if (halves->events.at[i].wanted)
            write_event(copy, halves->events.at[i].text, halves->events.at[i].len);
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

/* Makes times after the first event absolute, without keeping any event. */
static int fix_times(const Copy *copy, TraceAsk *ask)
{
    CLEANUP(profile_done) Profile nothing = {0};
    int64_t first = INT64_MAX;
    const TraceScanOptions options = {.from = INT64_MAX - 1, .to = INT64_MAX, .raw = note_first, .context = &first};

    if (!ask->from.relative && !ask->to.relative)
        return 0;
    profile_init(&nothing);
    TRY(load_profile(copy, &options, &nothing));
    first = first == INT64_MAX ? 0 : first;
    if (ask->from.relative)
        ask->from = (TraceMoment){.given = true, .ns = first + ask->from.ns};
    if (ask->to.relative)
        ask->to = (TraceMoment){.given = true, .ns = first + ask->to.ns};
    return 0;
}

/* Where the whole profile does not fit: GPU operations and ranges alone, of the window where it is known. */
static int find_large_window(Copy *copy)
{
    CLEANUP(profile_done) Profile profile = {0};
    TraceAsk ask = *copy->cut->ask;
    TraceScanOptions options = {.memory_max = copy->cut->memory, .learn = copy->known, .skip_host = true};

    TRY(fix_times(copy, &ask));
    if (!ask.step) {
        options.from = ask.from.given ? ask.from.ns : INT64_MIN;
        options.to = ask.to.given ? ask.to.ns : INT64_MAX;
    }
    profile_init(&profile);
    const int rc = load_profile(copy, &options, &profile);

    if (rc == -ENOSPC) {
        char given[HUMAN_MAX];

        return err_set(copy->err, rc,
                       "the window of '%s' needs more than the %s of --memory; allow more, or ask for less time",
                       copy->cut->path, human_bytes(given, (double)copy->cut->memory));
    }
    TRY(rc);
    profile_seal(&profile);
    TRY(trace_pick_init(&copy->pick, &ask, &profile, copy->err));
    copy->pick.ask = copy->cut->ask;
    return 0;
}

static int find_window(Copy *copy)
{
    CLEANUP(profile_done) Profile profile = {0};
    const TraceScanOptions options = {.memory_max = copy->cut->memory, .learn = copy->known};

    profile_init(&profile);
    const int rc = load_profile(copy, &options, &profile);

    if (rc == -ENOSPC)
        return find_large_window(copy);
    TRY(rc);
    profile_seal(&profile);
    return trace_pick_init(&copy->pick, copy->cut->ask, &profile, copy->err);
}

/* Without a window: what names make of threads and processes. */
static int learn_names(Copy *copy)
{
    CLEANUP(profile_done) Profile nothing = {0};
    const TraceScanOptions options = {.from = INT64_MAX - 1, .to = INT64_MAX, .learn = copy->known};

    profile_init(&nothing);
    return load_profile(copy, &options, &nothing);
}

static int copy_events(Copy *copy)
{
    TraceScanOptions options = {.raw = on_raw, .context = copy, .known = copy->known};

    TRY(load_profile(copy, &options, &copy->rows));
    copy_halves(copy);
    copy->cut->lost = profile_lost(&copy->rows);
    return copy->rc;
}

/* ---- around the event list ---- */

static size_t without_blanks(const char *bytes, size_t len)
{
    while (len > 0 && strchr(" \n\r\t", bytes[len - 1]) && bytes[len - 1])
        len--;
    return len;
}

/* Strips `c` and the blanks before it off the end. */
static bool strip_byte(const char *bytes, size_t *len, char c)
{
    *len = without_blanks(bytes, *len);
    if (*len == 0 || bytes[*len - 1] != c)
        return false;
    *len = without_blanks(bytes, *len - 1);
    return true;
}

/* Appends the members of an object. False where the text is no object. */
static bool add_members(const char *object, size_t len, Str *out)
{
    const char *from = object, *end = object + without_blanks(object, len);

    while (from < end && strchr(" \n\r\t", *from))
        from++;
    if (!trace_is_object(from, (size_t)(end - from)))
        return false;
    from++;
    len = without_blanks(from, (size_t)(end - 1 - from));
    while (len > 0 && strchr(" \n\r\t", *from)) {
        from++;
        len--;
    }
    strip_byte(from, &len, ',');
    str_addn(out, from, len);
    return true;
}

/* `{ members, "traceEvents": [` */
static bool add_head_members(const char *bytes, size_t len, Str *out)
{
    static const char list[] = "\"traceEvents\"";
    CLEANUP(str_done) Str object = {0};

    if (!strip_byte(bytes, &len, '['))
        return false;
    if (len == 0) /* a bare list */
        return true;
    if (!strip_byte(bytes, &len, ':') || len < sizeof list - 1 ||
        memcmp(bytes + len - (sizeof list - 1), list, sizeof list - 1) != 0)
        return false;
    len -= sizeof list - 1;
    str_init(&object, AROUND_MAX);
    str_addn(&object, bytes, len);
    str_addc(&object, '}');
    return !object.overflow && add_members(object.text, object.len, out);
}

/* `], members }` */
static bool add_tail_members(const char *bytes, size_t len, Str *out)
{
    CLEANUP(str_done) Str object = {0};
    const char *at = bytes, *end = bytes + without_blanks(bytes, len);

    while (at < end && strchr(" \n\r\t,", *at))
        at++;
    if (at == end || *at != ']')
        return false;
    at++;
    while (at < end && strchr(" \n\r\t", *at))
        at++;
    if (at == end || (*at == '}' && at + 1 == end)) /* a bare list; nothing behind the list */
        return true;
    if (*at != ',')
        return false;
    str_init(&object, AROUND_MAX);
    str_addc(&object, '{');
    str_addn(&object, at + 1, (size_t)(end - at - 1));
    return !object.overflow && add_members(object.text, object.len, out);
}

/* Reads the text before the first and after the last event. */
static int read_around(const Copy *copy, Str *head, Str *tail)
{
    CLEANUP_FREE char *buffer = xmalloc(READ_BYTES);
    uint64_t at = 0;
    TraceSource source;
    ssize_t n;

    TRY(copy->file->open(copy->file->context, &source, copy->err));
    while ((n = source.read(source.context, buffer, READ_BYTES, at, copy->err)) > 0) {
        uint64_t end = at + (uint64_t)n;
        if (at < copy->head_end)
            str_addn(head, buffer, (size_t)((end < copy->head_end ? end : copy->head_end) - at));
        if (end > copy->tail_begin) {
            uint64_t from = at > copy->tail_begin ? at : copy->tail_begin;
            str_addn(tail, buffer + (from - at), (size_t)(end - from));
        }
        at = end;
        if (!source.streamed && at > copy->head_end && at < copy->tail_begin)
            at = copy->tail_begin;
        if (source.stop && *source.stop)
            return err_set(copy->err, -EINTR, "interrupted");
    }
    return (int)n;
}

/* What the profile knows of itself, where its own words cannot be copied. */
static void add_known_words(const Profile *profile, Str *out)
{
    str_addf(out, "\"schemaVersion\": 1");
    if (profile->rank >= 0)
        str_addf(out, ",\n  \"distributedInfo\": {\"rank\": %" PRId64 ", \"world_size\": %" PRId64 "}", profile->rank,
                 profile->world_size);
    if (profile->base_ns)
        str_addf(out, ",\n  \"baseTimeNanoseconds\": %" PRId64, profile->base_ns);
}

/* Adds what the profile was recorded with, if only events said so that may be gone now. */
static void add_flags(const Profile *profile, const Str *before, Str *behind)
{
    const struct {
        bool set;
        const char *key;
    } flags[] = {{profile->with_stack, "\"with_stack\""},
                 {profile->with_shapes, "\"record_shapes\""},
                 {profile->with_memory, "\"profile_memory\""},
                 {profile->rocm, "\"hip_runtime_version\""}};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (flags[i].set && !memmem(before->text, before->len, flags[i].key, strlen(flags[i].key)) &&
            !memmem(behind->text, behind->len, flags[i].key, strlen(flags[i].key)))
            str_addf(behind, "%s%s: 1", behind->len ? ", " : "", flags[i].key);
}

static void write_end(Copy *copy, const Str *before, const Str *behind)
{
    write_bytes(copy, copy->cut->copied ? "\n  ]" : "]", copy->cut->copied ? 4 : 1);
    for (int i = 0; i < 2; i++) {
        const Str *members = i ? behind : before;
        if (members->len == 0)
            continue;
        write_bytes(copy, ",\n  ", 4);
        write_bytes(copy, members->text, members->len);
    }
    write_bytes(copy, "\n}\n", 3);
}

/* Members follow the events: their position in the object has no meaning. */
static int copy_around(Copy *copy)
{
    CLEANUP(str_done) Str head = {0}, tail = {0}, before = {0}, behind = {0};

    str_init(&head, AROUND_MAX);
    str_init(&tail, AROUND_MAX);
    str_init(&before, AROUND_MAX);
    str_init(&behind, AROUND_MAX);
    TRY(read_around(copy, &head, &tail));
    if (!add_head_members(head.text, head.len, &before)) {
        add_known_words(&copy->rows, &before);
        copy->cut->metadata_lost = true;
    }
    if (!add_tail_members(tail.text, tail.len, &behind))
        copy->cut->metadata_lost = true;
    add_flags(&copy->rows, &before, &behind);
    write_end(copy, &before, &behind);
    return copy->rc;
}

static int run_passes(Copy *copy)
{
    const TraceAsk *ask = copy->cut->ask;

    copy->known = trace_known_new();
    if (ask->from.given || ask->to.given || ask->step) {
        TRY(find_window(copy));
    } else {
        if (trace_ask_some(ask))
            TRY(learn_names(copy));
        copy->pick = (TracePick){.ask = ask, .from = INT64_MIN, .to = INT64_MAX};
    }
    write_bytes(copy, "{\n  \"traceEvents\": [", 20);
    TRY(copy_events(copy));
    return copy_around(copy);
}

int trace_cut(TraceCut *cut, const TraceCutFile *file, Err *err)
{
    Copy copy = {.cut = cut, .file = file, .err = err};

    profile_init(&copy.rows);
    const int rc = run_passes(&copy);

    trace_pick_done(&copy.pick);
    profile_done(&copy.rows);
    halves_done(&copy.halves);
    trace_known_free(copy.known);
    return rc;
}
