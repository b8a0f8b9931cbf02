/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host did while a device was idle: every idle time of every device, between operations (gaps), and before the
 * first and after the last as far as the profile reaches (edges). Idle times of a device come in order of time; each
 * lane of the host is walked once per device, with a cursor that only goes forward: the rows that have begun, and the
 * innermost of them that still runs, found through the parents.
 *
 * The thread that counts is the one that launched the operation that ended the gap (if unknown: the one that launched
 * the operation before, else the one with most launches on this device, else the one with most launch calls). Each
 * instant of the gap until that launch call returned belongs to the innermost event of that thread; instants without an
 * event belong to the thread of the operation before, if that is another. The rest of the gap is launch latency.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/analyse.h"
#include "engine/trace/select.h"
#include "engine/trace/tables.h"

/* ---- the cause of a gap ---- */

const char *const trace_cause_words[TRACE_CAUSE_COUNT] = {
    [TRACE_CAUSE_DATA_LOADING] = "data_loading",
    [TRACE_CAUSE_HOST_BOUND] = "host_bound",
    [TRACE_CAUSE_SYNCHRONISATION] = "synchronisation",
    [TRACE_CAUSE_COPY] = "copy",
    [TRACE_CAUSE_ALLOCATOR] = "allocator",
    [TRACE_CAUSE_COLLECTIVE_WAIT] = "collective_wait",
    [TRACE_CAUSE_PYTHON] = "python",
    [TRACE_CAUSE_COMPILE] = "compile",
    [TRACE_CAUSE_TOKENISING] = "tokenising",
    [TRACE_CAUSE_COLLECTING] = "garbage_collection",
    [TRACE_CAUSE_CHECKPOINT] = "checkpoint",
    [TRACE_CAUSE_LOGGING] = "logging",
    [TRACE_CAUSE_LOADING] = "module_loading",
    [TRACE_CAUSE_INITIALISING] = "initialisation",
    [TRACE_CAUSE_QUEUED] = "queued",
    [TRACE_CAUSE_BEFORE_PROFILE] = "before_profile",
    [TRACE_CAUSE_UNKNOWN] = "unknown",
    [TRACE_CAUSE_SHORT] = "short",
};

bool trace_cause_is_telling(TraceCause cause)
{
    return cause == TRACE_CAUSE_DATA_LOADING || cause == TRACE_CAUSE_ALLOCATOR || cause == TRACE_CAUSE_COPY ||
           cause == TRACE_CAUSE_COLLECTIVE_WAIT || (cause >= TRACE_CAUSE_COMPILE && cause <= TRACE_CAUSE_INITIALISING);
}

static TraceCause decide_cause(const int64_t slice_ns[TRACE_CAUSE_COUNT], bool synced)
{
    TraceCause telling = TRACE_CAUSE_COUNT, best = TRACE_CAUSE_COUNT;
    int64_t total = 0, most = 0, queued = slice_ns[TRACE_CAUSE_QUEUED];

    for (TraceCause cause = 0; cause < TRACE_CAUSE_COUNT; cause++) {
        total += slice_ns[cause];
        if (trace_cause_is_telling(cause) && slice_ns[cause] > (telling == TRACE_CAUSE_COUNT ? 0 : slice_ns[telling]))
            telling = cause;
    }
    if (queued == total)
        return TRACE_CAUSE_QUEUED;
    if (slice_ns[TRACE_CAUSE_BEFORE_PROFILE] == total)
        return TRACE_CAUSE_BEFORE_PROFILE;
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

/* ---- the search ---- */

enum { OWNER_CLIMB_MAX = 64, OPEN_ROWS_MAX = 256 };
#define LANE_UNKNOWN (PROFILE_NONE - 1)

/* An idle time: rows of the operations around it, PROFILE_NONE for none. */
typedef struct Idle {
    int64_t start, end;
    uint32_t before, after;
} Idle;

typedef struct Blame {
    TraceCause cause;
    int64_t slice_ns[TRACE_CAUSE_COUNT];
    int64_t frames_ns; /* inside Python functions */
    bool synced;
    bool named;        /* host_row is wanted */
    uint32_t lane;     /* of the host, PROFILE_NONE */
    uint32_t host_row; /* PROFILE_NONE */
    int64_t host_ns;
} Blame;

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
    int64_t own, time; /* without, and with what lies in it */
} Share;

/* The event that explains a gap: a stack of the open ones, each in the one below it, and the best of those closed. */
typedef struct Shares {
    VEC(Share) open;
    VEC(uint32_t) climbed;
    Share most;    /* by own time */
    Share deepest; /* that took more than half of the gap */
} Shares;

typedef struct Search {
    const TraceJob *job;
    const TraceIndex *index;
    const ProfileEvents *gpu, *host;
    TraceRank *rank;
    Cursor *cursors;   /* by lane */
    LaneNote *notes;   /* by lane */
    bool *engine_name; /* name -> begins as the autograd engine's operators do */
    Shares shares[2];  /* of the gap's thread, and of the other */
    TraceTexts texts;
    TraceLongest longest; /* which gaps are kept */
    int64_t first, last;  /* how far the host's events reach; first > last without any */
    /* of the current device */
    size_t nth;
    uint32_t fallback;     /* lane to blame where no launch is known, PROFILE_NONE; LANE_UNKNOWN: not looked for */
    size_t step;           /* cursor */
    uint32_t first_linked; /* its first operation with a known launch, PROFILE_NONE */
} Search;

/* ---- lanes ---- */

/* Operators on a thread mean that a framework runs there, driven by Python, unless it is a thread of the autograd
 * engine, whose own code lies between them. If only calls and ranges are recorded, silence has no meaning, and a
 * range means that the host was working. */
static void note_lane(const Search *search, uint32_t lane, LaneNote *note)
{
    const ProfileEvents *rows = search->host;
    size_t first = search->index->lane_first[lane], last = search->index->lane_first[lane + 1];
    bool ops = false, python = false, engine = false;
    uint32_t outer = (uint32_t)last - 1;

    *note = (LaneNote){.known = true};
    for (size_t row = first; row < last && !python && !engine; row++) {
        python = rows->kind[row] == PROFILE_PYTHON;
        if (rows->kind[row] != PROFILE_OP)
            continue;
        ops = true;
        engine = search->engine_name[rows->name[row]];
    }
    note->silent = python || (ops && !engine) ? TRACE_CAUSE_PYTHON
                   : engine                   ? TRACE_CAUSE_HOST_BOUND
                                              : TRACE_CAUSE_UNKNOWN;
    note->marked = ops || python ? TRACE_CAUSE_PYTHON : TRACE_CAUSE_HOST_BOUND;
    if (first == last)
        return;
    while (search->index->parent[outer] != PROFILE_NONE)
        outer = search->index->parent[outer];
    note->first = rows->start[first];
    note->last = profile_end(rows, outer);
}

static const LaneNote *lane_note(Search *search, uint32_t lane)
{
    if (!search->notes[lane].known)
        note_lane(search, lane, &search->notes[lane]);
    return &search->notes[lane];
}

static uint32_t most_of(const size_t *counts, size_t len)
{
    uint32_t best = PROFILE_NONE;

    for (size_t i = 0; i < len; i++)
        if (counts[i] && (best == PROFILE_NONE || counts[i] > counts[best]))
            best = (uint32_t)i;
    return best;
}

/* The lane with most launches on this device, else the one with most launch calls. */
static uint32_t find_fallback(const Search *search)
{
    const TraceIndex *index = search->index;
    const size_t lanes = index->profile->lanes.len;
    CLEANUP_FREE size_t *counts = xcalloc(lanes + 1, sizeof(*counts));
    uint32_t lane;

    for (size_t row = index->device_first.at[search->nth]; row < index->device_first.at[search->nth + 1]; row++)
        if (index->launch[row] != PROFILE_NONE)
            counts[search->host->lane[index->launch[row]]]++;
    lane = most_of(counts, lanes);
    if (lane != PROFILE_NONE)
        return lane;
    for (size_t row = 0; row < search->host->len; row++)
        counts[search->host->lane[row]] += index->host_class[row] == TRACE_HOST_LAUNCH;
    return most_of(counts, lanes);
}

static uint32_t launch_of(const Search *search, uint32_t row)
{
    return row == PROFILE_NONE ? PROFILE_NONE : search->index->launch[row];
}

static uint32_t launching_lane(const Search *search, uint32_t row)
{
    uint32_t call = launch_of(search, row);

    return call == PROFILE_NONE ? PROFILE_NONE : search->host->lane[call];
}

static uint32_t lane_to_blame(Search *search, const Idle *idle)
{
    uint32_t lane = launching_lane(search, idle->after);

    if (lane == PROFILE_NONE)
        lane = launching_lane(search, idle->before);
    if (lane != PROFILE_NONE)
        return lane;
    if (search->fallback == LANE_UNKNOWN)
        search->fallback = find_fallback(search);
    return search->fallback;
}

/* ---- cursors ---- */

/* The lane's cursor, moved to `time`. */
static Cursor *cursor_to(Search *search, uint32_t lane, int64_t time)
{
    const TraceIndex *index = search->index;
    const ProfileEvents *rows = search->host;
    const size_t last = index->lane_first[lane + 1];
    Cursor *cursor = &search->cursors[lane];

    if (cursor->device != search->nth + 1)
        *cursor = (Cursor){.device = (uint32_t)search->nth + 1,
                           .next = index->lane_first[lane],
                           .now = PROFILE_NONE,
                           .sync = PROFILE_NONE};
    for (; cursor->next < last && rows->start[cursor->next] <= time; cursor->next++) {
        cursor->now = (uint32_t)cursor->next;
        if (trace_waits_for_device(index, cursor->next))
            cursor->sync = cursor->now;
    }
    while (cursor->now != PROFILE_NONE && profile_end(rows, cursor->now) <= time)
        cursor->now = index->parent[cursor->now];
    return cursor;
}

/* ---- the event with the largest share ---- */

static void clear_shares(Shares *shares)
{
    shares->most = shares->deepest = (Share){.row = PROFILE_NONE};
}

/* Whether the event names what happened in the gap: no range of the user's such as the step, and no frame that goes on
 * on both sides of the gap, as the program's outermost do. */
static bool is_explanation(const Search *search, const Idle *idle, uint32_t row)
{
    const ProfileEvents *rows = search->host;

    return search->index->host_class[row] != TRACE_HOST_MARK &&
           (rows->start[row] >= idle->start || profile_end(rows, row) <= idle->end);
}

static void close_share(const Search *search, const Idle *idle, Shares *shares)
{
    const Share share = shares->open.at[--shares->open.len];

    if (shares->open.len)
        shares->open.at[shares->open.len - 1].time += share.time;
    if (share.own > shares->most.own || (share.own == shares->most.own && share.row < shares->most.row))
        shares->most = share;
    if (shares->deepest.row == PROFILE_NONE && share.time > (idle->end - idle->start) / 2 &&
        is_explanation(search, idle, share.row))
        shares->deepest = share;
}

/* Closes what is over, and opens the row and what is around it. */
static void open_share(const Search *search, const Idle *idle, Shares *shares, uint32_t row)
{
    shares->climbed.len = 0;
    for (uint32_t up = row;; up = search->index->parent[up]) {
        const bool none = up == PROFILE_NONE || shares->climbed.len == OPEN_ROWS_MAX;

        while (shares->open.len && (none || shares->open.at[shares->open.len - 1].row > up))
            close_share(search, idle, shares);
        if (none || (shares->open.len && shares->open.at[shares->open.len - 1].row == up))
            break;
        vec_push(&shares->climbed, up);
    }
    while (shares->climbed.len)
        vec_push(&shares->open, ((Share){.row = shares->climbed.at[--shares->climbed.len]}));
}

static void add_share(const Search *search, const Idle *idle, Shares *shares, uint32_t row, int64_t time)
{
    open_share(search, idle, shares, row);
    shares->open.at[shares->open.len - 1].own += time;
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

/* Of a gap in which Python ran, the deepest event that took more than half of it; else the one with the largest own
 * time. */
static void find_name(Search *search, const Idle *idle, Blame *blame)
{
    Share most = {.row = PROFILE_NONE}, deepest = most;

    for (int i = 0; i < 2; i++) {
        Shares *shares = &search->shares[i];

        while (shares->open.len)
            close_share(search, idle, shares);
        if (shares->most.own > most.own)
            most = shares->most;
        if (shares->deepest.row != PROFILE_NONE)
            deepest = shares->deepest;
        clear_shares(shares);
    }
    if (blame->cause != TRACE_CAUSE_PYTHON)
        deepest.row = PROFILE_NONE;
    blame->host_row = deepest.row != PROFILE_NONE ? deepest.row : most.row;
    blame->host_ns = deepest.row != PROFILE_NONE ? deepest.time : most.own;
}

/* ---- the walk ---- */

static TraceCause cause_of(Search *search, uint32_t lane, uint32_t row)
{
    static const uint8_t causes[TRACE_HOST_CLASS_COUNT] = {
        [TRACE_HOST_OTHER] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_OP] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_LAUNCH] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_SYNC] = TRACE_CAUSE_SYNCHRONISATION,
        [TRACE_HOST_COPY] = TRACE_CAUSE_COPY,
        [TRACE_HOST_ALLOCATOR] = TRACE_CAUSE_ALLOCATOR,
        [TRACE_HOST_DATA] = TRACE_CAUSE_DATA_LOADING,
        [TRACE_HOST_COLLECTIVE] = TRACE_CAUSE_COLLECTIVE_WAIT,
        [TRACE_HOST_COMPILE] = TRACE_CAUSE_COMPILE,
        [TRACE_HOST_RUNTIME] = TRACE_CAUSE_HOST_BOUND,
        [TRACE_HOST_PYTHON] = TRACE_CAUSE_PYTHON,
        [TRACE_HOST_MARK] = TRACE_CAUSE_PYTHON,
        [TRACE_HOST_TOKENISING] = TRACE_CAUSE_TOKENISING,
        [TRACE_HOST_COLLECTING] = TRACE_CAUSE_COLLECTING,
        [TRACE_HOST_CHECKPOINT] = TRACE_CAUSE_CHECKPOINT,
        [TRACE_HOST_LOGGING] = TRACE_CAUSE_LOGGING,
        [TRACE_HOST_LOADING] = TRACE_CAUSE_LOADING,
        [TRACE_HOST_INITIALISING] = TRACE_CAUSE_INITIALISING,
    };
    TraceHostClass class = search->index->host_inside[row];

    return class == TRACE_HOST_MARK ? lane_note(search, lane)->marked : (TraceCause)causes[class];
}

static void count_time(Blame *blame, TraceCause cause, int64_t start, int64_t end)
{
    if (end > start)
        blame->slice_ns[cause] += end - start;
}

static void count_silence(Search *search, Blame *blame, uint32_t lane, int64_t start, int64_t end)
{
    const LaneNote *note = lane_note(search, lane);
    int64_t from = trace_larger(start, note->first), to = trace_smaller(end, note->last);

    if (to <= from || note->silent == TRACE_CAUSE_UNKNOWN) {
        count_time(blame, TRACE_CAUSE_UNKNOWN, start, end);
        return;
    }
    count_time(blame, TRACE_CAUSE_UNKNOWN, start, from);
    count_time(blame, note->silent, from, to);
    count_time(blame, TRACE_CAUSE_UNKNOWN, to, end);
}

/* Instants [start, end) by what runs on the lane; where nothing does, by `other` (PROFILE_NONE: no other). */
static void walk_lane(Search *search, const Idle *idle, Blame *blame, uint32_t lane, uint32_t other, int64_t start,
                      int64_t end)
{
    const ProfileEvents *rows = search->host;

    while (start < end) {
        const Cursor *cursor = cursor_to(search, lane, start);
        int64_t until = end;

        if (cursor->next < search->index->lane_first[lane + 1])
            until = trace_smaller(until, rows->start[cursor->next]);
        if (cursor->now != PROFILE_NONE) {
            until = trace_smaller(until, profile_end(rows, cursor->now));
            count_time(blame, cause_of(search, lane, cursor->now), start, until);
            if (search->index->host_inside[cursor->now] == TRACE_HOST_PYTHON)
                blame->frames_ns += until - start;
            if (blame->named)
                add_share(search, idle, &search->shares[lane != blame->lane], owner_of(search->index, cursor->now),
                          until - start);
        } else if (other != PROFILE_NONE) {
            walk_lane(search, idle, blame, other, PROFILE_NONE, start, until);
        } else {
            count_silence(search, blame, lane, start, until);
        }
        start = until;
    }
}

/* Whether the thread was waiting for the device as the gap began. */
static bool was_synced(const Search *search, const Cursor *cursor, const Idle *idle)
{
    const ProfileEvents *rows = search->host;
    uint32_t launch = launch_of(search, idle->before);
    int64_t start, end;

    if (idle->before == PROFILE_NONE || cursor->sync == PROFILE_NONE || cursor->sync == launch_of(search, idle->after))
        return false;
    start = rows->start[cursor->sync];
    end = profile_end(rows, cursor->sync);
    if (start >= idle->start)
        return false;
    if (end >= idle->start)
        return true;
    return idle->start - end <= TRACE_SYNC_SLACK_NS && launch != PROFILE_NONE && rows->start[launch] <= start;
}

/* A synchronisation that led into a gap in which the host was in no event, or only in a range such as the step, is the
 * gap's name: what the user wrote that waited, the operator around the call, else the call itself. */
static void name_synchronisation(const TraceIndex *index, uint32_t call, const Idle *idle, Blame *blame)
{
    const uint32_t op = index->op_at[call];

    if (blame->host_row != PROFILE_NONE && index->host_class[blame->host_row] != TRACE_HOST_MARK)
        return;
    blame->host_row = op == PROFILE_NONE ? call : index->op_rows[op];
    blame->host_ns = idle->end - idle->start;
}

/* Whether all that the device did so far was launched before the profile began: it may be at work that is not in it. */
static bool is_before_profile(const Search *search, const Idle *idle)
{
    return search->first_linked != PROFILE_NONE &&
           (idle->before == PROFILE_NONE || idle->before < search->first_linked);
}

static void find_blame(Search *search, const Idle *idle, Blame *ret)
{
    const uint32_t launch = launch_of(search, idle->after), before = launching_lane(search, idle->before);
    int64_t late = idle->end; /* until here the host is to blame */

    if (search->nth < TRACE_GAP_DEVICES)
        ret->lane = lane_to_blame(search, idle);
    if (ret->lane == PROFILE_NONE) {
        ret->cause = TRACE_CAUSE_UNKNOWN;
        count_time(ret, TRACE_CAUSE_UNKNOWN, idle->start, idle->end);
        return;
    }
    if (is_before_profile(search, idle) && idle->before != PROFILE_NONE && launch == PROFILE_NONE) {
        ret->cause = TRACE_CAUSE_BEFORE_PROFILE;
        count_time(ret, TRACE_CAUSE_BEFORE_PROFILE, idle->start, idle->end);
        return;
    }
    const Cursor *cursor = cursor_to(search, ret->lane, idle->start);
    const uint32_t sync = cursor->sync;

    ret->synced = was_synced(search, cursor, idle);
    if (launch != PROFILE_NONE)
        late = trace_larger(trace_smaller(profile_end(search->host, launch), late), idle->start);
    walk_lane(search, idle, ret, ret->lane, before == ret->lane ? PROFILE_NONE : before, idle->start, late);
    if (is_before_profile(search, idle) && idle->end - late > TRACE_LAUNCH_LATENCY_NS)
        count_time(ret, TRACE_CAUSE_BEFORE_PROFILE, late, idle->end);
    else
        count_time(ret, TRACE_CAUSE_QUEUED, late, idle->end);
    const bool python = ret->frames_ns >= TRACE_LONG_PYTHON_NS && 2 * ret->frames_ns >= idle->end - idle->start;
    ret->cause = python ? TRACE_CAUSE_PYTHON : decide_cause(ret->slice_ns, ret->synced);
    if (!ret->named)
        return;
    find_name(search, idle, ret);
    if (ret->cause == TRACE_CAUSE_SYNCHRONISATION && ret->synced)
        name_synchronisation(search->index, sync, idle, ret);
}

/* ---- one idle time ---- */

static const char *thread_text(Search *search, uint32_t lane)
{
    const ProfileLane *thread;

    if (lane == PROFILE_NONE)
        return "";
    thread = &search->index->profile->lanes.at[lane];
    if (thread->label != PROFILE_NONE)
        return trace_text(&search->texts, thread->label);
    if (thread->tid_name != PROFILE_NONE)
        return trace_text(&search->texts, thread->tid_name);
    return arena_printf(search->job->arena, "%lld", (long long)thread->tid);
}

static const char *event_text(Search *search, const ProfileEvents *rows, uint32_t row)
{
    return row == PROFILE_NONE ? "" : trace_text(&search->texts, rows->name[row]);
}

static TraceGap gap_of(Search *search, const Idle *idle, const Blame *found)
{
    TraceGap gap = {.device = search->index->devices.at[search->nth],
                    .start = idle->start,
                    .end = idle->end,
                    .cause = found->cause,
                    .synced = found->synced,
                    .before = event_text(search, search->gpu, idle->before),
                    .after = event_text(search, search->gpu, idle->after),
                    .host = event_text(search, search->host, found->host_row),
                    .host_ns = found->host_ns,
                    .thread = thread_text(search, found->lane),
                    .step = trace_step_at(search->rank, idle->start)};

    memcpy(gap.slice_ns, found->slice_ns, sizeof(gap.slice_ns));
    return gap;
}

static void blame_idle(Search *search, const Idle *idle, bool named, Blame *ret)
{
    const int64_t length = idle->end - idle->start;

    *ret = (Blame){.lane = PROFILE_NONE, .host_row = PROFILE_NONE, .named = named};
    if ((uint64_t)length < search->job->config->gap_threshold_ns) {
        ret->cause = TRACE_CAUSE_SHORT;
        ret->slice_ns[TRACE_CAUSE_SHORT] = length;
    } else {
        find_blame(search, idle, ret);
    }
    trace_steps_add_idle(search->rank, search->nth, &search->step, idle->start, idle->end, ret->cause);
}

static void add_gap(Search *search, const Idle *idle)
{
    const int64_t length = idle->end - idle->start;
    const bool named = trace_is_longest(&search->longest, length);
    Blame found;

    blame_idle(search, idle, named, &found);
    trace_cause_add(search->rank->idle_by_cause, found.cause, length);
    if (named)
        vec_push(&search->rank->gaps, gap_of(search, idle, &found));
}

static void add_edge(Search *search, Idle idle, int64_t start, int64_t end)
{
    idle.start = start;
    idle.end = end;
    if (start >= end)
        return;
    Blame found;

    blame_idle(search, &idle, true, &found);
    vec_push(&search->rank->edges, gap_of(search, &idle, &found));
}

/* ---- every idle time of a device ---- */

/* The first of those that start with `row` and have a known launch, else `row`. */
static uint32_t with_launch(const TraceIndex *index, size_t row, size_t last)
{
    const int64_t *start = index->profile->gpu.start;

    for (size_t i = row; i < last && start[i] == start[row]; i++)
        if (index->launch[i] != PROFILE_NONE)
            return (uint32_t)i;
    return (uint32_t)row;
}

/* The gaps of a device, one after the other. */
typedef struct GapWalk {
    size_t row, last; /* the next operation; one past the device's last */
    Idle idle;        /* the gap; behind the last one, the idle time that starts there */
} GapWalk;

static GapWalk begin_gaps(const TraceIndex *index, size_t nth)
{
    const size_t first = index->device_first.at[nth];

    return (GapWalk){.row = first,
                     .last = index->device_first.at[nth + 1],
                     .idle = {.start = profile_end(&index->profile->gpu, first),
                              .end = INT64_MIN,
                              .before = (uint32_t)first,
                              .after = PROFILE_NONE}};
}

static bool next_gap(const TraceIndex *index, GapWalk *walk)
{
    const ProfileEvents *gpu = &index->profile->gpu;
    Idle *idle = &walk->idle;

    for (; walk->row < walk->last; walk->row++) {
        const int64_t start = gpu->start[walk->row], end = profile_end(gpu, walk->row);

        if (start > idle->start && start > idle->end) {
            idle->end = start;
            idle->after = with_launch(index, walk->row, walk->last);
            return true;
        }
        if (end > idle->start) {
            idle->start = end;
            idle->before = (uint32_t)walk->row;
        }
    }
    return false;
}

/* Idle time in front of the first operation: before the first step, and in it. */
static void add_head(Search *search)
{
    const TraceIndex *index = search->index;
    const size_t first = index->device_first.at[search->nth];
    const int64_t end = search->gpu->start[first];
    const int64_t border = index->steps.len ? trace_smaller(index->steps.at[0].start, end) : end;
    const Idle idle = {.before = PROFILE_NONE,
                       .after = with_launch(index, first, index->device_first.at[search->nth + 1])};

    add_edge(search, idle, trace_smaller(search->first, border), border);
    add_edge(search, idle, border, end);
}

/* The same behind the last one, where `idle` starts. */
static void add_tail(Search *search, Idle idle)
{
    const TraceIndex *index = search->index;
    const int64_t to = index->steps.len ? index->steps.at[index->steps.len - 1].to : INT64_MIN;
    const int64_t border = trace_larger(to, idle.start);

    idle.after = PROFILE_NONE;
    add_edge(search, idle, idle.start, border);
    add_edge(search, idle, border, search->last);
}

/* How far the host's side of the profile reaches: from the start of the event that ended first to the end of the one
 * that began last. A part that was cut out of a profile has frames that reach further, and launches of its operations:
 * nothing is known of the time in which only these are. */
static void find_reach(Search *search)
{
    const ProfileEvents *rows = search->host;
    int64_t first_end = INT64_MAX, last_start = INT64_MIN;

    search->first = INT64_MAX;
    search->last = INT64_MIN;
    for (size_t row = 0; row < rows->len; row++) {
        const int64_t end = profile_end(rows, row);

        if (search->index->host_class[row] == TRACE_HOST_LAUNCH || search->index->host_class[row] == TRACE_HOST_COPY)
            continue;
        if (end < first_end || (end == first_end && rows->start[row] < search->first)) {
            first_end = end;
            search->first = rows->start[row];
        }
        if (rows->start[row] > last_start || (rows->start[row] == last_start && end > search->last)) {
            last_start = rows->start[row];
            search->last = end;
        }
    }
}

/* ---- all devices ---- */

static TraceLongest find_longest(const TraceJob *job)
{
    const TraceIndex *index = job->index;
    CLEANUP_FREE int64_t *lengths = xmalloc((index->profile->gpu.len + 1) * sizeof(*lengths));
    size_t len = 0;

    for (size_t nth = 0; nth < index->devices.len; nth++)
        for (GapWalk walk = begin_gaps(index, nth); next_gap(index, &walk);)
            lengths[len++] = walk.idle.end - walk.idle.start;
    return trace_find_longest(lengths, len, job->config->gaps_kept);
}

static int by_length(const void *a, const void *b)
{
    const TraceGap *x = a, *y = b;
    const int64_t of_x = x->end - x->start, of_y = y->end - y->start;
    const int64_t keys[][2] = {{x->device, y->device}, {x->start, y->start}};

    if (of_x != of_y)
        return of_x > of_y ? -1 : 1;
    return trace_compare(keys, ARRAY_LEN(keys));
}

static uint32_t find_first_linked(const TraceIndex *index, size_t nth)
{
    for (size_t row = index->device_first.at[nth]; row < index->device_first.at[nth + 1]; row++)
        if (index->launch[row] != PROFILE_NONE)
            return (uint32_t)row;
    return PROFILE_NONE;
}

static void search_init(Search *search, const TraceJob *job, TraceRank *rank)
{
    static const char engine[] = "autograd::engine::";
    const Profile *profile = job->index->profile;
    size_t len;

    *search = (Search){.job = job, .index = job->index, .gpu = &profile->gpu, .host = &profile->host, .rank = rank};
    search->cursors = xcalloc(profile->lanes.len + 1, sizeof(*search->cursors));
    search->notes = xcalloc(profile->lanes.len + 1, sizeof(*search->notes));
    search->engine_name = xcalloc(profile_name_count(profile) + 1, sizeof(*search->engine_name));
    for (size_t name = 0; name < profile_name_count(profile); name++) {
        const char *text = profile_text(profile, (uint32_t)name, &len);

        search->engine_name[name] = len >= sizeof(engine) - 1 && memcmp(text, engine, sizeof(engine) - 1) == 0;
    }
    trace_texts_init(&search->texts, job);
    search->longest = find_longest(job);
    find_reach(search);
    clear_shares(&search->shares[0]);
    clear_shares(&search->shares[1]);
}

static void search_done(Search *search)
{
    free(search->cursors);
    free(search->notes);
    free(search->engine_name);
    trace_texts_done(&search->texts);
    for (int i = 0; i < 2; i++) {
        vec_done(&search->shares[i].open);
        vec_done(&search->shares[i].climbed);
    }
}

void trace_gaps(const TraceJob *job, TraceRank *rank)
{
    CLEANUP(search_done) Search search;

    trace_steps_prepare(job, rank);
    search_init(&search, job, rank);
    for (search.nth = 0; search.nth < job->index->devices.len; search.nth++) {
        GapWalk walk = begin_gaps(job->index, search.nth);

        search.fallback = LANE_UNKNOWN;
        search.step = 0;
        search.first_linked = find_first_linked(job->index, search.nth);
        add_head(&search);
        while (next_gap(job->index, &walk))
            add_gap(&search, &walk.idle);
        add_tail(&search, walk.idle);
    }
    vec_sort(&rank->gaps, by_length);
    vec_sort(&rank->edges, by_length);
}
