/* SPDX-License-Identifier: Apache-2.0 */
/* The copy takes up to three passes over the file: the first reads the profile where the window depends on it (a step,
 * the first event, which launches belong to the operations meant), the second copies events as they stand in the text,
 * the third fetches what stands around the event list. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "verb/trace/clean_json.h"
#include "verb/trace/cut.h"
#include "verb/trace/halves.h"
#include "verb/trace/load.h"
#include "verb/trace/merged.h"
#include "verb/trace/one.h"

enum { AROUND_MAX = 32 << 20, READ_BYTES = 1 << 20 };

typedef struct Copy {
    TraceCut *cut;
    OutFile *out;
    Err *err;
    TracePick pick;
    Profile rows; /* what the scanner makes of the events; emptied again and again */
    Str text;
    Halves halves;
    TraceKnown *known;             /* of the file, from earlier passes */
    int64_t rank;                  /* as the beginning of the file tells it, -1 */
    bool by_owner;                 /* it holds several ranks, and some are asked for */
    uint64_t head_end, tail_begin; /* bytes of the text around the events; head_end 0: no event yet */
    int rc;
} Copy;

static void put(Copy *copy, const char *bytes, size_t len)
{
    if (copy->rc == 0)
        copy->rc = outfile_write(copy->out, bytes, len, copy->err);
}

static void put_event(Copy *copy, const char *bytes, size_t len)
{
    str_clear(&copy->text);
    str_add(&copy->text, copy->cut->copied ? ",\n  " : "\n  ");
    if (!clean_json(bytes, len, &copy->text)) {
        copy->cut->unreadable++;
        return;
    }
    put(copy, copy->text.text, copy->text.len);
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

/* Of several ranks in one file those that are asked for. */
static bool wants_owner(const Copy *copy, const TraceRaw *raw)
{
    if (!copy->by_owner)
        return true;
    if (raw->owner == 0)
        return raw->metadata;
    return trace_numbers_has(&copy->cut->ask->ranks, trace_known_rank(copy->known, raw->owner));
}

static void on_raw(void *context, const TraceRaw *raw)
{
    Copy *copy = context;
    bool wanted = false;

    copy->cut->events++;
    if (copy->head_end == 0)
        copy->head_end = raw->offset;
    copy->tail_begin = raw->offset + raw->len;
    if (!wants_owner(copy, raw))
        wanted = false;
    else if (raw->phase == 'B' || raw->phase == 'E')
        halves_add(&copy->halves, raw);
    else
        wanted = raw->phase == 'X' ? wants_complete(copy, raw) : wants_moment(copy, raw);
    forget_rows(&copy->rows);
    if (wanted)
        put_event(copy, raw->bytes, raw->len);
}

static bool want_pair(void *context, const HalfEvent *begin, const HalfEvent *end)
{
    const Copy *copy = context;
    TracePicked event = {.kind = begin->kind,
                         .start = begin->start,
                         .duration = end->start - begin->start,
                         .link = begin->link ? begin->link : end->link,
                         .device = begin->device,
                         .stream = begin->stream};

    return trace_pick_event(&copy->pick, &event);
}

static void put_half(void *context, const HalfEvent *event)
{
    put_event(context, event->text, event->len);
}

/* ---- the passes ---- */

static void know(Copy *copy, TraceKnown *known)
{
    trace_known_free(copy->known);
    copy->known = known;
}

/* Which ranks of a file of several are meant. TRACE_CUT_OTHER_RANK: none of them. */
static int choose_owners(Copy *copy, unsigned int *ret_one)
{
    const TraceNumbers *ranks = &copy->cut->ask->ranks;
    unsigned int found = 0;

    *ret_one = 0;
    for (unsigned int owner = 1; owner <= trace_known_owners(copy->known); owner++)
        if (trace_numbers_has(ranks, trace_known_rank(copy->known, owner))) {
            *ret_one = owner;
            found++;
        }
    copy->by_owner = ranks->len > 0;
    if (copy->cut->ask->step && found > 1)
        return err_set(copy->err, -EOPNOTSUPP, "'%s' holds %u ranks, each with steps of its own; name one with --rank",
                       copy->cut->path, trace_known_owners(copy->known));
    return found ? 0 : TRACE_CUT_OTHER_RANK;
}

/* The window of a file of several ranks: times are of all of it, a step is of one rank; links are told apart. */
static int find_merged_window(Copy *copy, TraceInput *input)
{
    CLEANUP(profile_done) Profile all = {0}, one = {0};
    CLEANUP(trace_pick_done) TracePick of_step = {0};
    TraceKnown *learn = trace_known_new();
    TraceAsk times = *copy->cut->ask, step = *copy->cut->ask;
    TraceScanOptions options = {.memory_max = copy->cut->memory, .known = copy->known, .learn = learn};
    unsigned int owner;
    int rc = choose_owners(copy, &owner);

    profile_init(&all);
    profile_init(&one);
    if (rc == 0)
        rc = trace_merged_load(input, &options, copy->cut->threads, &all, copy->err);
    if (rc) {
        trace_known_free(learn);
        return rc;
    }
    profile_seal(&all);
    times.step = NULL;
    TRY(trace_pick_init(&copy->pick, &times, &all, copy->err));
    if (step.step) {
        options.owner = owner;
        options.learn = NULL;
        rc = trace_merged_load(input, &options, copy->cut->threads, &one, copy->err);
        profile_seal(&one);
        step.from = step.to = (TraceMoment){0};
        if (rc == 0)
            rc = trace_pick_init(&of_step, &step, &one, copy->err);
        if (rc == 0) {
            const int64_t from = of_step.from > copy->pick.from ? of_step.from : copy->pick.from;
            const int64_t to = of_step.to < copy->pick.to ? of_step.to : copy->pick.to;

            trace_pick_done(&copy->pick);
            trace_pick_within(&copy->pick, copy->cut->ask, from, to, &all);
        }
    } else {
        copy->pick.ask = copy->cut->ask;
    }
    know(copy, learn);
    return rc;
}

/* Too large to be held: the bounds from a look at every event, then what lies in them. */
static int find_large_window(Copy *copy, TraceInput *input)
{
    CLEANUP(profile_done) Profile profile = {0};
    TraceKnown *learn = trace_known_new();
    TraceScanOptions options = {
        .memory_max = copy->cut->memory, .known = copy->known, .learn = learn, .skip_host = true};
    TraceOne one = {.path = copy->cut->path,
                    .threads = copy->cut->threads,
                    .memory = copy->cut->memory,
                    .ask = copy->cut->ask,
                    .stop = copy->cut->stop};
    int rc = trace_windows_bounds(&one, input, &options.from, &options.to, copy->err);

    profile_init(&profile);
    if (rc == 0)
        rc = trace_merged_load(input, &options, copy->cut->threads, &profile, copy->err);
    if (rc) {
        trace_known_free(learn);
        return rc;
    }
    profile_seal(&profile);
    trace_pick_within(&copy->pick, copy->cut->ask, options.from, options.to, &profile);
    know(copy, learn);
    return 0;
}

static int find_window(Copy *copy, TraceInput *input)
{
    CLEANUP(profile_done) Profile profile = {0};
    TraceScanOptions options = {.memory_max = copy->cut->memory, .learn = copy->known};

    profile_init(&profile);
    int rc = trace_load(input, &options, copy->cut->threads, &profile, copy->err);

    if (rc == 0 && trace_known_owners(copy->known) == 0) {
        profile_seal(&profile);
        return trace_pick_init(&copy->pick, copy->cut->ask, &profile, copy->err);
    }
    profile_done(&profile);
    profile_init(&profile);
    if (rc == 0)
        return find_merged_window(copy, input);
    if (rc != -ENOSPC)
        return rc;
    TRY(trace_merged_look(input, copy->cut->threads, copy->known, copy->err));
    if (trace_known_owners(copy->known) && copy->cut->ask->step)
        return err_set(copy->err, -EOPNOTSUPP,
                       "'%s' holds several ranks and is too large for --memory: cut it by --from and --to",
                       copy->cut->path);
    if (trace_known_owners(copy->known)) {
        unsigned int owner;

        rc = choose_owners(copy, &owner);
        if (rc)
            return rc;
    }
    return find_large_window(copy, input);
}

static int copy_events(Copy *copy, TraceInput *input)
{
    TraceScanOptions options = {.raw = on_raw, .context = copy, .known = copy->known};

    TRY(trace_input_rewind(input, copy->err));
    TRY(trace_load(input, &options, copy->cut->threads, &copy->rows, copy->err));
    halves_write(&copy->halves, want_pair, put_half, copy);
    copy->cut->lost = profile_lost(&copy->rows);
    return copy->rc;
}

/* Reads what stands before the first and behind the last event. */
static int read_around(const Copy *copy, TraceInput *input, Str *head, Str *tail)
{
    CLEANUP_FREE char *buffer = xmalloc(READ_BYTES);
    uint64_t at = 0;
    ssize_t n;

    TRY(trace_input_rewind(input, copy->err));
    TraceSource source = trace_input_source(input, false);
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
        if (copy->cut->stop && *copy->cut->stop)
            return err_set(copy->err, -EINTR, "interrupted");
    }
    return (int)n;
}

/* What the profile knows of itself, where its own words cannot be copied. */
static void describe(const Profile *profile, Str *out)
{
    str_addf(out, "\"schemaVersion\": 1");
    if (profile->rank >= 0)
        str_addf(out, ",\n  \"distributedInfo\": {\"rank\": %" PRId64 ", \"world_size\": %" PRId64 "}", profile->rank,
                 profile->world_size);
    if (profile->base_ns)
        str_addf(out, ",\n  \"baseTimeNanoseconds\": %" PRId64, profile->base_ns);
}

/* What the profile was recorded with, where events said so that may be gone now and no member does. */
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
    put(copy, copy->cut->copied ? "\n  ]" : "]", copy->cut->copied ? 4 : 1);
    for (int i = 0; i < 2; i++) {
        const Str *members = i ? behind : before;
        if (members->len == 0)
            continue;
        put(copy, ",\n  ", 4);
        put(copy, members->text, members->len);
    }
    put(copy, "\n}\n", 3);
}

/* The members follow the events: where the list stands in the object says nothing. */
static int copy_around(Copy *copy, TraceInput *input)
{
    CLEANUP(str_done) Str head = {0}, tail = {0}, before = {0}, behind = {0};

    str_init(&head, AROUND_MAX);
    str_init(&tail, AROUND_MAX);
    str_init(&before, AROUND_MAX);
    str_init(&behind, AROUND_MAX);
    TRY(read_around(copy, input, &head, &tail));
    if (!trace_cut_head(head.text, head.len, &before)) {
        describe(&copy->rows, &before);
        copy->cut->metadata_lost = true;
    }
    if (!trace_cut_tail(tail.text, tail.len, &behind))
        copy->cut->metadata_lost = true;
    add_flags(&copy->rows, &before, &behind);
    write_end(copy, &before, &behind);
    return copy->rc;
}

/* Without a window: what names make of threads and processes. */
static int look(Copy *copy, TraceInput *input)
{
    unsigned int owner;

    TRY(trace_merged_look(input, copy->cut->threads, copy->known, copy->err));
    return trace_known_owners(copy->known) ? choose_owners(copy, &owner) : 0;
}

static int run(Copy *copy, TraceInput *input)
{
    const TraceAsk *ask = copy->cut->ask;

    int rc = 0;

    copy->known = trace_known_new();
    if (ask->from.given || ask->to.given || ask->step)
        rc = find_window(copy, input);
    else if (trace_ask_some(ask) || ask->ranks.len > 0)
        rc = look(copy, input);
    if (rc)
        return rc;
    if (copy->by_owner == false && ask->ranks.len > 0 &&
        !trace_numbers_has(&ask->ranks, copy->rank >= 0 ? copy->rank : 0))
        return TRACE_CUT_OTHER_RANK;
    if (!(ask->from.given || ask->to.given || ask->step))
        trace_pick_within(&copy->pick, ask, INT64_MIN, INT64_MAX, &copy->rows);
    put(copy, "{\n  \"traceEvents\": [", 20);
    TRY(copy_events(copy, input));
    return copy_around(copy, input);
}

int trace_cut(TraceCut *cut, TraceInput *input, OutFile *out, Err *err)
{
    Copy copy = {.cut = cut, .out = out, .err = err};

    copy.rank = trace_load_rank(input);
    str_init(&copy.text, TRACE_EVENT_BYTES_MAX * 7 / 2);
    profile_init(&copy.rows);
    int rc = run(&copy, input);
    trace_pick_done(&copy.pick);
    profile_done(&copy.rows);
    halves_done(&copy.halves);
    trace_known_free(copy.known);
    str_done(&copy.text);
    return rc;
}
