/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over the host's lanes. A cursor stands at an instant of its lane: the rows that have begun, and the
 * innermost of them that still runs, found through the parents. It only goes forward.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/gaps.h"
#include "engine/trace/select.h"

/* ---- the cause of a gap ---- */

/* From what the host did during a gap to the gap's one cause. */

const char *const trace_cause_words[TRACE_CAUSE_COUNT] = {
    [TRACE_CAUSE_DATA_LOADING] = "data_loading",
    [TRACE_CAUSE_HOST_BOUND] = "host_bound",
    [TRACE_CAUSE_SYNCHRONISATION] = "synchronisation",
    [TRACE_CAUSE_COPY] = "copy",
    [TRACE_CAUSE_ALLOCATOR] = "allocator",
    [TRACE_CAUSE_COLLECTIVE_WAIT] = "collective_wait",
    [TRACE_CAUSE_PYTHON] = "python",
    [TRACE_CAUSE_COMPILE] = "compile",
    [TRACE_CAUSE_QUEUED] = "queued",
    [TRACE_CAUSE_UNKNOWN] = "unknown",
    [TRACE_CAUSE_SHORT] = "short",
};

/* Causes that name what to change; they outrank a synchronisation that led into them. */
static bool is_telling(TraceCause cause)
{
    return cause == TRACE_CAUSE_DATA_LOADING || cause == TRACE_CAUSE_ALLOCATOR || cause == TRACE_CAUSE_COMPILE ||
           cause == TRACE_CAUSE_COPY || cause == TRACE_CAUSE_COLLECTIVE_WAIT;
}

static TraceCause decide_cause(const int64_t slice_ns[TRACE_CAUSE_COUNT], bool synced)
{
    TraceCause telling = TRACE_CAUSE_COUNT, best = TRACE_CAUSE_COUNT;
    int64_t total = 0, most = 0, queued = slice_ns[TRACE_CAUSE_QUEUED];

    for (TraceCause cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        total += slice_ns[cause];
        if (is_telling(cause) && slice_ns[cause] > (telling == TRACE_CAUSE_COUNT ? 0 : slice_ns[telling]))
            telling = cause;
    }
    if (queued == total)
        return TRACE_CAUSE_QUEUED;
    if (telling != TRACE_CAUSE_COUNT && slice_ns[telling] >= total - slice_ns[telling])
        return telling;
    if (synced)
        return TRACE_CAUSE_SYNCHRONISATION;
    for (TraceCause cause = 0; cause < TRACE_CAUSE_SHORT; cause++) {
        int64_t time = slice_ns[cause];

        if (cause == TRACE_CAUSE_QUEUED) /* the launch came after the gap began */
            time = queued > TRACE_LAUNCH_LATENCY_NS ? queued - TRACE_LAUNCH_LATENCY_NS : 0;
        if (time > most) {
            most = time;
            best = cause;
        }
    }
    return best == TRACE_CAUSE_COUNT ? TRACE_CAUSE_SHORT : best;
}

/* ---- what the host did ---- */

/* What the host did while a device was idle. Gaps of a device come in order of time; each lane of the host is walked
 * once per device, with a cursor.
 *
 * The thread that counts is the one that launched the operation that ended the gap (if unknown: the one that
 * launched the operation before, else the one with most launches on this device, else the one with most launch
 * calls). Each instant of the gap until that launch call returned belongs to the innermost event of that thread;
 * instants without an event belong to the thread of the operation before, if that is another. The rest of the gap is
 * launch latency. */

/* An idle time: rows of the operations around it, PROFILE_NONE for none. */
typedef struct Idle {
    int64_t start, end;
    uint32_t before, after;
} Idle;

typedef struct Blame {
    TraceCause cause;
    int64_t slice_ns[TRACE_CAUSE_COUNT];
    bool synced;
    uint32_t lane;     /* of the host, PROFILE_NONE */
    uint32_t host_row; /* PROFILE_NONE; set on request */
    int64_t host_ns;
} Blame;

enum { OWNER_CLIMB_MAX = 64 };

/* What a lane's silence, and an annotation alone, mean. */
typedef struct LaneNote {
    bool known;
    uint8_t silent;      /* TraceCause between its first and last event */
    uint8_t marked;      /* TraceCause inside annotations */
    int64_t first, last; /* first start, last end */
} LaneNote;

typedef struct Cursor {
    uint32_t device; /* + 1: for which it was set up */
    size_t next;     /* first row that has not begun */
    uint32_t now;    /* innermost that runs, PROFILE_NONE */
    uint32_t sync;   /* last begun that waited for the device, PROFILE_NONE */
} Cursor;

typedef struct Share {
    uint32_t row;
    int64_t time;
} Share;

/* The event that took most of a gap. Rows come nested, so the open ones lie on a stack by row. */
typedef struct Shares {
    VEC(Share) open;
    Share best;
} Shares;

typedef struct Host {
    const TraceJob *job;
    size_t device;
    Cursor *cursors;   /* by lane */
    LaneNote *notes;   /* by lane */
    bool *engine_name; /* name -> begins as the autograd engine's operators do */
    uint32_t busiest;  /* lane that launched most on this device; PROFILE_NONE none */
    bool busiest_known;
    uint32_t caller; /* lane with most launch calls */
    bool caller_known;
    Shares shares[2]; /* of the gap's thread, and of the other */
} Host;

/* The blame being worked out. */
typedef struct Walk {
    Host *host;
    Blame *blame;
    bool name_host;
} Walk;

static Host *host_new(const TraceJob *job)
{
    const Profile *profile = job->index->profile;
    static const char engine[] = "autograd::engine::";
    Host *host = xcalloc(1, sizeof(*host));
    size_t len;

    host->job = job;
    host->cursors = xcalloc(profile->lanes.len + 1, sizeof(*host->cursors));
    host->notes = xcalloc(profile->lanes.len + 1, sizeof(*host->notes));
    host->engine_name = xcalloc(profile_name_count(profile) + 1, sizeof(*host->engine_name));
    for (size_t name = 0; name < profile_name_count(profile); name++) {
        const char *text = profile_text(profile, (uint32_t)name, &len);

        host->engine_name[name] = len >= sizeof(engine) - 1 && memcmp(text, engine, sizeof(engine) - 1) == 0;
    }
    return host;
}

static void host_free(Host *host)
{
    if (!host)
        return;
    free(host->cursors);
    free(host->notes);
    free(host->engine_name);
    vec_done(&host->shares[0].open);
    vec_done(&host->shares[1].open);
    free(host);
}

static void host_begin_device(Host *host, size_t device)
{
    host->device = device;
    host->busiest_known = false;
}

/* ---- lanes ---- */

/* Operators on a thread mean that a framework runs there, driven by Python, unless it is a thread of the autograd
 * engine, whose own code lies between them. If only calls and ranges are recorded, silence has no meaning, and a
 * range means that the host was working. */
static void note_lane(const Host *host, uint32_t lane, LaneNote *note)
{
    const ProfileEvents *rows = &host->job->index->profile->host;
    size_t first = host->job->index->lane_first[lane], last = host->job->index->lane_first[lane + 1];
    bool ops = false, python = false, engine = false;
    uint32_t outer = (uint32_t)last - 1;

    *note = (LaneNote){.known = true};
    for (size_t row = first; row < last && !python && !engine; row++) {
        python = rows->kind[row] == PROFILE_PYTHON;
        if (rows->kind[row] != PROFILE_OP)
            continue;
        ops = true;
        engine = host->engine_name[rows->name[row]];
    }
    note->silent = python || (ops && !engine) ? TRACE_CAUSE_PYTHON
                   : engine                   ? TRACE_CAUSE_HOST_BOUND
                                              : TRACE_CAUSE_UNKNOWN;
    note->marked = ops || python ? TRACE_CAUSE_PYTHON : TRACE_CAUSE_HOST_BOUND;
    if (first == last)
        return;
    while (host->job->index->parent[outer] != PROFILE_NONE)
        outer = host->job->index->parent[outer];
    note->first = rows->start[first];
    note->last = profile_end(rows, outer);
}

static const LaneNote *lane_note(Host *host, uint32_t lane)
{
    if (!host->notes[lane].known)
        note_lane(host, lane, &host->notes[lane]);
    return &host->notes[lane];
}

static uint32_t most_of(const size_t *counts, size_t len)
{
    uint32_t best = PROFILE_NONE;

    for (size_t i = 0; i < len; i++)
        if (counts[i] && (best == PROFILE_NONE || counts[i] > counts[best]))
            best = (uint32_t)i;
    return best;
}

static uint32_t busiest_lane(Host *host)
{
    const TraceIndex *index = host->job->index;
    size_t *counts;

    if (host->busiest_known)
        return host->busiest;
    counts = xcalloc(index->profile->lanes.len + 1, sizeof(*counts));
    for (size_t row = index->device_first.at[host->device]; row < index->device_first.at[host->device + 1]; row++)
        if (index->launch[row] != PROFILE_NONE)
            counts[index->profile->host.lane[index->launch[row]]]++;
    host->busiest = most_of(counts, index->profile->lanes.len);
    host->busiest_known = true;
    free(counts);
    return host->busiest;
}

static uint32_t calling_lane(Host *host)
{
    const TraceIndex *index = host->job->index;
    size_t *counts;

    if (host->caller_known)
        return host->caller;
    counts = xcalloc(index->profile->lanes.len + 1, sizeof(*counts));
    for (size_t row = 0; row < index->profile->host.len; row++)
        counts[index->profile->host.lane[row]] += index->host_class[row] == TRACE_HOST_LAUNCH;
    host->caller = most_of(counts, index->profile->lanes.len);
    host->caller_known = true;
    free(counts);
    return host->caller;
}

static uint32_t launch_of(const Host *host, uint32_t row)
{
    return row == PROFILE_NONE ? PROFILE_NONE : host->job->index->launch[row];
}

static uint32_t launching_lane(const Host *host, uint32_t row)
{
    uint32_t call = launch_of(host, row);

    return call == PROFILE_NONE ? PROFILE_NONE : host->job->index->profile->host.lane[call];
}

static uint32_t lane_to_blame(Host *host, const Idle *idle)
{
    uint32_t lane = launching_lane(host, idle->after);

    if (lane == PROFILE_NONE)
        lane = launching_lane(host, idle->before);
    if (lane == PROFILE_NONE)
        lane = busiest_lane(host);
    return lane == PROFILE_NONE ? calling_lane(host) : lane;
}

/* ---- cursors ---- */

static Cursor *cursor_of(Host *host, uint32_t lane)
{
    Cursor *cursor = &host->cursors[lane];

    if (cursor->device != host->device + 1)
        *cursor = (Cursor){.device = (uint32_t)host->device + 1,
                           .next = host->job->index->lane_first[lane],
                           .now = PROFILE_NONE,
                           .sync = PROFILE_NONE};
    return cursor;
}

/* Calls only: an operator that synchronises also spans the work before. */
static bool waits_for_device(const TraceIndex *index, size_t row)
{
    return (index->host_class[row] == TRACE_HOST_SYNC || index->host_class[row] == TRACE_HOST_COPY) &&
           index->profile->host.kind[row] == PROFILE_CALL;
}

static void cursor_to(const TraceIndex *index, Cursor *cursor, uint32_t lane, int64_t time)
{
    const ProfileEvents *rows = &index->profile->host;
    size_t last = index->lane_first[lane + 1];

    for (; cursor->next < last && rows->start[cursor->next] <= time; cursor->next++) {
        cursor->now = (uint32_t)cursor->next;
        if (waits_for_device(index, cursor->next))
            cursor->sync = cursor->now;
    }
    while (cursor->now != PROFILE_NONE && profile_end(rows, cursor->now) <= time)
        cursor->now = index->parent[cursor->now];
}

/* ---- the event with the largest share ---- */

static void shares_close(Shares *shares, size_t len)
{
    while (shares->open.len > len) {
        Share share = shares->open.at[--shares->open.len];

        if (share.time > shares->best.time || (share.time == shares->best.time && share.row < shares->best.row))
            shares->best = share;
    }
}

static void shares_add(Shares *shares, uint32_t row, int64_t time)
{
    size_t len = shares->open.len;

    while (len && shares->open.at[len - 1].row > row)
        len--;
    shares_close(shares, len);
    if (!len || shares->open.at[len - 1].row != row)
        vec_push(&shares->open, ((Share){.row = row}));
    shares->open.at[shares->open.len - 1].time += time;
}

/* The row itself, or the range around it that makes it data loading, compilation or a wait for other ranks. */
static uint32_t owner_of(const TraceIndex *index, uint32_t row)
{
    uint32_t owner = row;

    for (int i = 0; i < OWNER_CLIMB_MAX && owner != PROFILE_NONE; i++, owner = index->parent[owner])
        if (index->host_class[owner] == index->host_inside[row])
            return owner;
    return row;
}

/* ---- the walk ---- */

static TraceCause cause_of(Host *host, uint32_t lane, uint32_t row)
{
    static const uint8_t causes[TRACE_HOST_CLASS_COUNT] = {
        [TRACE_HOST_OTHER] = TRACE_CAUSE_HOST_BOUND,  [TRACE_HOST_OP] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_LAUNCH] = TRACE_CAUSE_HOST_BOUND, [TRACE_HOST_SYNC] = TRACE_CAUSE_SYNCHRONISATION,
        [TRACE_HOST_COPY] = TRACE_CAUSE_COPY,         [TRACE_HOST_ALLOCATOR] = TRACE_CAUSE_ALLOCATOR,
        [TRACE_HOST_DATA] = TRACE_CAUSE_DATA_LOADING, [TRACE_HOST_COLLECTIVE] = TRACE_CAUSE_COLLECTIVE_WAIT,
        [TRACE_HOST_COMPILE] = TRACE_CAUSE_COMPILE,   [TRACE_HOST_RUNTIME] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_PYTHON] = TRACE_CAUSE_PYTHON,     [TRACE_HOST_MARK] = TRACE_CAUSE_PYTHON,
    };
    TraceHostClass class = host->job->index->host_inside[row];

    return class == TRACE_HOST_MARK ? lane_note(host, lane)->marked : (TraceCause)causes[class];
}

static void count_time(Walk *walk, TraceCause cause, int64_t start, int64_t end)
{
    if (end > start)
        walk->blame->slice_ns[cause] += end - start;
}

static void count_row(Walk *walk, uint32_t lane, uint32_t row, int64_t start, int64_t end, int other)
{
    count_time(walk, cause_of(walk->host, lane, row), start, end);
    if (walk->name_host)
        shares_add(&walk->host->shares[other], owner_of(walk->host->job->index, row), end - start);
}

static void count_silence(Walk *walk, uint32_t lane, int64_t start, int64_t end)
{
    const LaneNote *note = lane_note(walk->host, lane);
    int64_t from = start > note->first ? start : note->first, to = end < note->last ? end : note->last;

    if (to <= from || note->silent == TRACE_CAUSE_UNKNOWN) {
        count_time(walk, TRACE_CAUSE_UNKNOWN, start, end);
        return;
    }
    count_time(walk, TRACE_CAUSE_UNKNOWN, start, from);
    count_time(walk, note->silent, from, to);
    count_time(walk, TRACE_CAUSE_UNKNOWN, to, end);
}

/* Instants [start, end) by what runs on the lane; where nothing does, by `other` (PROFILE_NONE: no other). */
static void walk_lane(Walk *walk, uint32_t lane, uint32_t other, bool is_other, int64_t start, int64_t end)
{
    const TraceIndex *index = walk->host->job->index;
    const ProfileEvents *rows = &index->profile->host;
    Cursor *cursor = cursor_of(walk->host, lane);

    while (start < end) {
        int64_t until = end;

        cursor_to(index, cursor, lane, start);
        if (cursor->next < index->lane_first[lane + 1] && rows->start[cursor->next] < until)
            until = rows->start[cursor->next];
        if (cursor->now != PROFILE_NONE && profile_end(rows, cursor->now) < until)
            until = profile_end(rows, cursor->now);
        if (cursor->now != PROFILE_NONE)
            count_row(walk, lane, cursor->now, start, until, is_other);
        else if (other != PROFILE_NONE)
            walk_lane(walk, other, PROFILE_NONE, true, start, until);
        else
            count_silence(walk, lane, start, until);
        start = until;
    }
}

/* Whether the thread was waiting for the device as the gap began. */
static bool was_synced(const Host *host, const Cursor *cursor, const Idle *idle)
{
    const ProfileEvents *rows = &host->job->index->profile->host;
    uint32_t launch = launch_of(host, idle->before);
    int64_t start, end;

    if (idle->before == PROFILE_NONE || cursor->sync == PROFILE_NONE || cursor->sync == launch_of(host, idle->after))
        return false;
    start = rows->start[cursor->sync];
    end = profile_end(rows, cursor->sync);
    if (start >= idle->start)
        return false;
    if (end >= idle->start)
        return true;
    return idle->start - end <= TRACE_SYNC_SLACK_NS && launch != PROFILE_NONE && rows->start[launch] <= start;
}

static void name_host(Host *host, Blame *blame)
{
    Share best = {.row = PROFILE_NONE};

    for (int i = 0; i < 2; i++) {
        shares_close(&host->shares[i], 0);
        if (host->shares[i].best.time > best.time)
            best = host->shares[i].best;
        host->shares[i].best = (Share){.row = PROFILE_NONE};
    }
    blame->host_row = best.row;
    blame->host_ns = best.time;
}

/* What the user wrote that waited: the operator around the call, else the call itself. */
static uint32_t place_of_sync(const TraceIndex *index, uint32_t call)
{
    const uint32_t op = index->op_at[call];

    return op == PROFILE_NONE ? call : index->op_rows[op];
}

/* The host was in no event, or only in a range such as the step. */
static bool says_nothing(const TraceIndex *index, const Blame *blame)
{
    return blame->host_row == PROFILE_NONE || index->host_class[blame->host_row] == TRACE_HOST_MARK;
}

static void host_blame(Host *host, const Idle *idle, bool name, Blame *ret)
{
    const ProfileEvents *rows = &host->job->index->profile->host;
    uint32_t launch = launch_of(host, idle->after), before = launching_lane(host, idle->before);
    Walk walk = {.host = host, .blame = ret, .name_host = name};
    Cursor *cursor;
    int64_t late = idle->end; /* until here the host is to blame */

    *ret = (Blame){.lane = lane_to_blame(host, idle), .host_row = PROFILE_NONE};
    if (ret->lane == PROFILE_NONE || host->device >= TRACE_GAP_DEVICES) {
        ret->cause = TRACE_CAUSE_UNKNOWN;
        count_time(&walk, TRACE_CAUSE_UNKNOWN, idle->start, idle->end);
        return;
    }
    cursor = cursor_of(host, ret->lane);
    cursor_to(host->job->index, cursor, ret->lane, idle->start);
    ret->synced = was_synced(host, cursor, idle);
    const uint32_t sync = cursor->sync;

    if (launch != PROFILE_NONE && profile_end(rows, launch) < late)
        late = profile_end(rows, launch) > idle->start ? profile_end(rows, launch) : idle->start;
    walk_lane(&walk, ret->lane, before == ret->lane ? PROFILE_NONE : before, false, idle->start, late);
    count_time(&walk, TRACE_CAUSE_QUEUED, late, idle->end);
    ret->cause = decide_cause(ret->slice_ns, ret->synced);
    if (name)
        name_host(host, ret);
    if (name && ret->cause == TRACE_CAUSE_SYNCHRONISATION && ret->synced && says_nothing(host->job->index, ret)) {
        ret->host_row = place_of_sync(host->job->index, sync);
        ret->host_ns = idle->end - idle->start;
    }
}

/* ---- idle times of a device ---- */

/* Every idle time of every device: between operations (gaps), and before the first and after the last as far as steps
 * reach. */

CLEANUP_POINTER(Host, host_free);

typedef struct Gathering {
    const TraceJob *job;
    TraceRank *rank;
    Host *host;
    const char **texts;   /* name -> its copy, NULL: not copied */
    TraceLongest longest; /* which are kept */
    /* of the current device */
    size_t nth;
    const TraceDevice *device;
    size_t step; /* cursor */
} Gathering;

/* ---- texts ---- */

static const char *text_of(Gathering *g, uint32_t name)
{
    if (name == PROFILE_NONE)
        return "";
    if (!g->texts[name])
        g->texts[name] = arena_strdup(g->job->arena, profile_text(g->job->index->profile, name, NULL));
    return g->texts[name];
}

static const char *gpu_text(Gathering *g, uint32_t row)
{
    return row == PROFILE_NONE ? "" : text_of(g, g->job->index->profile->gpu.name[row]);
}

static const char *thread_text(Gathering *g, uint32_t lane)
{
    const ProfileLane *thread;

    if (lane == PROFILE_NONE)
        return "";
    thread = &g->job->index->profile->lanes.at[lane];
    if (thread->label != PROFILE_NONE)
        return text_of(g, thread->label);
    if (thread->tid_name != PROFILE_NONE)
        return text_of(g, thread->tid_name);
    return arena_printf(g->job->arena, "%lld", (long long)thread->tid);
}

/* ---- one idle time ---- */

static bool is_short(const Gathering *g, const Idle *idle)
{
    return (uint64_t)(idle->end - idle->start) < g->job->config->gap_threshold_ns;
}

static void find_blame(Gathering *g, const Idle *idle, bool name, Blame *ret)
{
    if (!is_short(g, idle)) {
        host_blame(g->host, idle, name, ret);
        return;
    }
    *ret = (Blame){.cause = TRACE_CAUSE_SHORT, .lane = PROFILE_NONE, .host_row = PROFILE_NONE};
    ret->slice_ns[TRACE_CAUSE_SHORT] = idle->end - idle->start;
}

static TraceGap gap_of(Gathering *g, const Idle *idle, const Blame *found)
{
    TraceGap gap = {.device = g->job->index->devices.at[g->nth],
                    .start = idle->start,
                    .end = idle->end,
                    .cause = found->cause,
                    .synced = found->synced,
                    .before = gpu_text(g, idle->before),
                    .after = gpu_text(g, idle->after),
                    .host = "",
                    .host_ns = found->host_ns,
                    .thread = thread_text(g, found->lane),
                    .step = trace_step_at(g->rank, idle->start)};

    memcpy(gap.slice_ns, found->slice_ns, sizeof(gap.slice_ns));
    if (found->host_row != PROFILE_NONE)
        gap.host = text_of(g, g->job->index->profile->host.name[found->host_row]);
    return gap;
}

static bool is_gap(const Gathering *g, const Idle *idle)
{
    return idle->start >= g->device->first && idle->end <= g->device->last;
}

static void add_idle(Gathering *g, const Idle *idle)
{
    const bool gap = is_gap(g, idle), kept = gap && trace_is_longest(&g->longest, idle->end - idle->start);
    Blame found;

    find_blame(g, idle, kept, &found);
    trace_steps_add_idle(g->rank, g->nth, &g->step, idle->start, idle->end, found.cause);
    if (gap)
        trace_cause_add(g->rank->idle_by_cause, found.cause, idle->end - idle->start);
    if (kept)
        vec_push(&g->rank->gaps, gap_of(g, idle, &found));
}

/* ---- every idle time of a device ---- */

typedef void (*IdleTaker)(Gathering *g, const Idle *idle);

/* The first of those that start with `row` and have a known launch, else `row`. */
static uint32_t with_launch(const TraceIndex *index, size_t row, size_t last)
{
    const int64_t *start = index->profile->gpu.start;

    for (size_t i = row; i < last && start[i] == start[row]; i++)
        if (index->launch[i] != PROFILE_NONE)
            return (uint32_t)i;
    return (uint32_t)row;
}

static void each_gap(Gathering *g, IdleTaker taker, Idle *ret_last)
{
    const TraceIndex *index = g->job->index;
    const ProfileEvents *gpu = &index->profile->gpu;
    size_t first = index->device_first.at[g->nth], last = index->device_first.at[g->nth + 1];
    Idle idle = {.start = profile_end(gpu, first), .before = (uint32_t)first};

    for (size_t row = first + 1; row < last; row++) {
        if (gpu->start[row] > idle.start) {
            idle.end = gpu->start[row];
            idle.after = with_launch(index, row, last);
            taker(g, &idle);
        }
        if (profile_end(gpu, row) > idle.start) {
            idle.start = profile_end(gpu, row);
            idle.before = (uint32_t)row;
        }
    }
    *ret_last = idle;
}

/* Idle time in front of the first operation, as far as steps reach. */
static void add_head(Gathering *g)
{
    const TraceIndex *index = g->job->index;
    size_t first = index->device_first.at[g->nth];
    Idle idle = {.end = index->profile->gpu.start[first], .before = PROFILE_NONE};

    if (!index->steps.len || index->steps.at[0].start >= idle.end)
        return;
    idle.start = index->steps.at[0].start;
    idle.after = with_launch(index, first, index->device_first.at[g->nth + 1]);
    add_idle(g, &idle);
}

/* The same behind the last one, where `idle` starts. */
static void add_tail(Gathering *g, Idle idle)
{
    const TraceIndex *index = g->job->index;
    const TraceStep *step = index->steps.len ? &index->steps.at[index->steps.len - 1] : NULL;

    if (!step || step->to <= idle.start)
        return;
    idle.end = step->to;
    idle.after = PROFILE_NONE;
    add_idle(g, &idle);
}

/* trace_devices has a row for each device of the index, in its order. */
static void begin_device(Gathering *g, size_t nth)
{
    g->nth = nth;
    g->device = &g->rank->devices.at[nth];
    g->step = 0;
    host_begin_device(g->host, nth);
}

/* ---- the longest gaps ---- */

typedef struct Lengths {
    Gathering base; /* first: what IdleTaker gets */
    int64_t *at;    /* room for one of each operation */
    size_t len;
} Lengths;

static void note_length(Gathering *g, const Idle *idle)
{
    Lengths *lengths = (Lengths *)g;

    if (is_gap(g, idle))
        lengths->at[lengths->len++] = idle->end - idle->start;
}

static void find_longest(Gathering *g)
{
    const TraceIndex *index = g->job->index;
    CLEANUP_FREE int64_t *at = xmalloc((index->profile->gpu.len + 1) * sizeof(*at));
    Lengths lengths = {.base = *g, .at = at};
    Idle last;

    for (size_t nth = 0; nth < index->devices.len; nth++) {
        lengths.base.nth = nth;
        lengths.base.device = &g->rank->devices.at[nth];
        each_gap(&lengths.base, note_length, &last);
    }
    g->longest = trace_find_longest(at, lengths.len, g->job->config->gaps_kept);
}

static int by_length(const void *a_, const void *b_)
{
    const TraceGap *a = a_, *b = b_;
    int64_t a_length = a->end - a->start, b_length = b->end - b->start;

    if (a_length != b_length)
        return a_length > b_length ? -1 : 1;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

void trace_gaps(const TraceJob *job, TraceRank *rank)
{
    CLEANUP(host_free_at) Host *host = host_new(job);
    CLEANUP_FREE const char **texts = xcalloc(profile_name_count(job->index->profile) + 1, sizeof(*texts));
    Gathering g = {.job = job, .rank = rank, .host = host, .texts = texts};
    Idle last;

    trace_steps_prepare(job, rank);
    find_longest(&g);
    for (size_t nth = 0; nth < job->index->devices.len; nth++) {
        begin_device(&g, nth);
        add_head(&g);
        each_gap(&g, add_idle, &last);
        add_tail(&g, last);
    }
    if (rank->gaps.len)
        qsort(rank->gaps.at, rank->gaps.len, sizeof(*rank->gaps.at), by_length);
}
