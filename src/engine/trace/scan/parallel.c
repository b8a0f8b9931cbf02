/* SPDX-License-Identifier: Apache-2.0 */
/* One text read by several threads. It is cut where events seem to begin; each part is scanned as if the list went on
 * there. Whether it does is known when the scan before it comes along: between two events, exactly at that byte, it is
 * in the very state that the part began in, so the part's result is what it would have found itself, and is taken
 * over. A part that nobody arrives at is thrown away, and the text is scanned on. So the result is that of one thread,
 * whatever the text is.
 *
 * The first part's scan fills the caller's profile; whoever has finished a part joins those that are due. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/scan/inside.h"

enum {
    PART_SHARE = 3,        /* a part is this share of what each thread has left: the last ones are small, none waits */
    PART_MIN = 1 << 20,    /* bytes */
    PIECE = 512 << 10,     /* of a stream: unpacked and scanned within the second cache */
    LOOK_BYTES = 64 << 10, /* where a part's beginning is looked for */
    THREADS_MAX = 64,
};

typedef struct Part {
    TraceScan *scan;
    Profile profile;
    uint64_t begin, position; /* next byte to read */
    uint64_t told;            /* offset that progress has heard of */
    size_t bytes;             /* of its profile, as the crew counts it */
    bool done, ended;         /* stopped for now; the text is at its end */
    int rc;
    Err err;
} Part;

typedef struct Crew {
    const TraceSource *source;
    TraceScanOptions options;
    Part *parts;
    size_t count;
    VEC(uint64_t) stops; /* where parts begin, UINT64_MAX behind them */
    atomic_size_t bytes;
    atomic_bool broken; /* somebody failed: all stop */
    pthread_mutex_t lock;
    size_t next;  /* part to scan */
    bool joining; /* somebody is */
} Crew;

/* --- one part ------------------------------------------------------------------------------------------------------
 */

static int check_crew(Crew *crew, Part *part)
{
    const TraceSource *source = crew->source;
    const size_t bytes = profile_bytes(part->scan->profile);
    const size_t all = atomic_fetch_add(&crew->bytes, bytes - part->bytes) + bytes - part->bytes;
    const uint64_t now = scan_offset_next(part->scan);

    part->bytes = bytes;
    if (source->progress && now > part->told) {
        source->progress(source->context, now - part->told);
        part->told = now;
    }
    if (crew->options.memory_max && all > crew->options.memory_max)
        return err_set(&part->err, -ENOSPC, "the profile needs more than %zu bytes", crew->options.memory_max);
    if (source->stop && __atomic_load_n(source->stop, __ATOMIC_RELAXED))
        return err_set(&part->err, -EINTR, "interrupted");
    return atomic_load(&crew->broken) ? -ECANCELED : 0; /* the one who failed says why */
}

/* Reads up to the next part's first byte at most, while that is still ahead. */
static int read_some(Crew *crew, Part *part)
{
    size_t len;
    char *room = scan_room(part->scan, &len);
    const uint64_t stop = part->scan->stops ? *part->scan->stops : UINT64_MAX;

    if (stop >= part->position && stop - part->position < len)
        len = (size_t)(stop - part->position) + 1;
    const ssize_t got = crew->source->read(crew->source->context, room, len, part->position, &part->err);

    if (got < 0)
        return (int)got;
    if (got == 0)
        part->ended = part->scan->final = true;
    part->position += (uint64_t)got;
    scan_filled(part->scan, (size_t)got);
    return 0;
}

/* Until it arrives at another part or at the end; `short_of`: or has passed this byte. */
static void run_part(Crew *crew, Part *part, uint64_t short_of)
{
    while (part->rc >= 0 && !part->ended && part->scan->arrived == UINT64_MAX &&
           scan_offset_next(part->scan) <= short_of) {
        part->rc = read_some(crew, part);
        if (part->rc >= 0)
            part->rc = scan_run(part->scan, &part->err);
        if (part->rc >= 0)
            part->rc = check_crew(crew, part);
    }
    if (part->rc < 0)
        atomic_store(&crew->broken, true);
    if (part->scan->arrived != UINT64_MAX) { /* what was read of the next part is that part's */
        part->scan->profile->bytes -= part->position - part->scan->arrived;
        part->position = part->scan->arrived;
        part->ended = part->scan->final = false;
    }
}

/* The tools are the thread's; the first part's scan goes on later and keeps its own. */
static void start_part(Crew *crew, size_t i, Profile *into, ScanTools *tools)
{
    Part *part = &crew->parts[i];

    part->begin = part->position = part->told = i ? crew->stops.at[i - 1] : 0;
    if (i) {
        profile_init(&part->profile);
        part->scan = scan_new_part(&part->profile, &crew->options, part->begin, tools);
    } else {
        part->scan = trace_scan_new(into, &crew->options);
    }
    part->scan->stops = crew->stops.at + i;
    run_part(crew, part, crew->stops.at[i]);
    if (i)
        scan_tools_back(part->scan, tools);
}

static void drop_part(Part *part)
{
    trace_scan_free(TAKE(part->scan));
    profile_done(&part->profile);
}

/* --- all parts -----------------------------------------------------------------------------------------------------
 */

/* The part that begins where the first one's scan arrived. */
static Part *due_part(const Crew *crew)
{
    for (size_t i = 1; i < crew->count; i++)
        if (crew->stops.at[i - 1] == crew->parts[0].scan->arrived)
            return &crew->parts[i];
    return NULL;
}

static void join_part(Crew *crew, Part *part)
{
    Part *head = &crew->parts[0];

    scan_join(head->scan, part->scan);
    head->position = part->position;
    head->told = part->told;
    head->ended = part->ended;
    head->rc = part->rc;
    head->err = part->err;
    const size_t bytes = profile_bytes(head->scan->profile);

    atomic_fetch_add(&crew->bytes, bytes - head->bytes - part->bytes);
    head->bytes = bytes;
    drop_part(part);
}

/* Takes over all parts that are due and done, and scans on where a part was passed by. Called with the lock held,
 * which is let go while it works. */
static void join_due(Crew *crew)
{
    Part *head = &crew->parts[0];

    if (crew->joining || !head->done)
        return;
    crew->joining = true;
    while (head->rc >= 0 && !head->ended) {
        Part *part = head->scan->arrived == UINT64_MAX ? NULL : due_part(crew);

        if (part && !part->done)
            break;
        pthread_mutex_unlock(&crew->lock);
        if (part)
            join_part(crew, part);
        else
            run_part(crew, head, UINT64_MAX);
        pthread_mutex_lock(&crew->lock);
    }
    crew->joining = false;
}

typedef struct Worker {
    Crew *crew;
    Profile *into;
} Worker;

static void *run_parts(void *context)
{
    const Worker *worker = context;
    Crew *crew = worker->crew;
    ScanTools tools = {0};

    pthread_mutex_lock(&crew->lock);
    while (crew->next < crew->count) {
        const size_t i = crew->next++;

        pthread_mutex_unlock(&crew->lock);
        start_part(crew, i, worker->into, &tools);
        pthread_mutex_lock(&crew->lock);
        crew->parts[i].done = true;
        join_due(crew);
    }
    pthread_mutex_unlock(&crew->lock);
    scan_tools_done(&tools);
    return NULL;
}

/* The first event that seems to begin at or behind `from`; UINT64_MAX: none near. */
static uint64_t find_begin(const TraceSource *source, uint64_t from, char *room)
{
    size_t len = 0;
    ssize_t got;

    while (len < LOOK_BYTES &&
           (got = source->read(source->context, room + len, LOOK_BYTES - len, from + len, NULL)) > 0)
        len += (size_t)got;
    const char *event = scan_find_event(room, room + len, room);

    return event ? from + (uint64_t)(event - room) : UINT64_MAX;
}

/* Parts of [0, size), none shorter than `least`. */
static void cut_parts(Crew *crew, uint64_t size, unsigned int threads, uint64_t least)
{
    CLEANUP_FREE char *room = xmalloc(LOOK_BYTES + SCAN_PAD);
    uint64_t at = 0, last = 0;

    while (size - at >= 2 * least) {
        const uint64_t share = (size - at) / threads / PART_SHARE;

        at += share > least ? share : least;
        const uint64_t begin = find_begin(crew->source, at, room);

        if (begin != UINT64_MAX && begin > last)
            vec_push(&crew->stops, last = begin);
    }
    crew->count = crew->stops.len + 1;
    vec_push(&crew->stops, UINT64_MAX);
}

static int finish_crew(Crew *crew, Err *err)
{
    const Part *head = &crew->parts[0];

    join_due(crew); /* nobody else is left: whatever is due is done */
    if (head->rc >= 0 && head->ended)
        return trace_scan_finish(head->scan, NULL, err);
    for (size_t i = 0; i < crew->count; i++)
        if (crew->parts[i].rc < 0 && crew->parts[i].rc != -ECANCELED)
            return err_set(err, crew->parts[i].rc, "%s", crew->parts[i].err.text);
    return err_set(err, -EIO, "the text could not be read");
}

int scan_parallel(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, uint64_t part_bytes,
                  Profile *into, Err *err)
{
    Crew crew = {.source = source, .lock = PTHREAD_MUTEX_INITIALIZER};
    Worker worker = {.crew = &crew, .into = into};
    pthread_t helpers[THREADS_MAX];
    size_t started = 0;
    uint64_t size = 0; /* of what is cut */

    if (options)
        crew.options = *options;
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    if (threads > 1 && source->streamed && !crew.options.raw)
        return scan_stream(source, &crew.options, threads, part_bytes, into, err);
    if (threads > 1 && source->size > 0 && !crew.options.raw)
        size = source->size;
    cut_parts(&crew, size, threads, part_bytes);
    crew.parts = xcalloc(crew.count, sizeof crew.parts[0]);
    while (started + 1 < threads && started + 1 < crew.count &&
           pthread_create(&helpers[started], NULL, run_parts, &worker) == 0)
        started++;
    run_parts(&worker);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    pthread_mutex_lock(&crew.lock);
    const int rc = finish_crew(&crew, err);
    pthread_mutex_unlock(&crew.lock);

    for (size_t i = 0; i < crew.count; i++)
        drop_part(&crew.parts[i]);
    free(crew.parts);
    vec_done(&crew.stops);
    return rc;
}

int trace_scan_parallel(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, Profile *into,
                        Err *err)
{
    return scan_parallel(source, options, threads, source->streamed ? PIECE : PART_MIN, into, err);
}
