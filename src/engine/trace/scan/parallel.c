/* SPDX-License-Identifier: Apache-2.0 */
/* One text read by several threads. It is split where events seem to begin; each part is scanned as if the list
 * continued there. The scan before it verifies that: if it arrives between two events exactly at that byte, its
 * state is the one that the part began in, so the part's result is taken over. A part that no scan arrives at is
 * dropped, and the text is scanned on. So the result equals that of one thread for any text.
 *
 * The first part's scan fills the caller's profile; the thread that finishes a part joins all parts that are due. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

enum {
    PART_SHARE = 3,        /* a part is this share of what each thread has left: the last ones are small, none waits */
    PART_MIN = 1 << 20,    /* bytes */
    PIECE = 512 << 10,     /* of a stream: unpacked and scanned within the second cache */
    LOOK_BYTES = 64 << 10, /* where a part's beginning is looked for */
    THREADS_MAX = 64,
};

/* ---- joining ---- */

/* Two scans of one text become one, as if the first had gone on. */

static uint32_t same_name(Profile *into, const Profile *part, uint32_t name)
{
    size_t len;

    if (name == PROFILE_NONE)
        return PROFILE_NONE;
    const char *text = profile_text(part, name, &len);

    return profile_name(into, text, len);
}

static ThreadKey same_thread(Profile *into, const Profile *part, ThreadKey key)
{
    key.pid_name = same_name(into, part, key.pid_name);
    key.tid_name = same_name(into, part, key.tid_name);
    return key;
}

static void join_halves(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->halves.len; i++) {
        Half half = part->halves.at[i];

        half.thread = same_thread(scan->profile, part->profile, half.thread);
        half.event.name = same_name(scan->profile, part->profile, half.event.name);
        if (half.on_gpu && half.wanted) {
            const ProfileLane *lane = &part->profile->lanes.at[half.event.lane];

            half.event.lane = profile_stream(scan->profile, lane->device, lane->tid);
        }
        vec_push(&scan->halves, half);
    }
}

static void join_labels(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->labels.len; i++) {
        Label label = part->labels.at[i];

        label.thread = same_thread(scan->profile, part->profile, label.thread);
        label.text = same_name(scan->profile, part->profile, label.text);
        vec_push(&scan->labels, label);
    }
}

static void join_bares(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->bares.len; i++) {
        Bare bare = part->bares.at[i];

        bare.row += scan->profile->host.len;
        bare.kernel = same_name(scan->profile, part->profile, bare.kernel);
        bare.copy = same_name(scan->profile, part->profile, bare.copy);
        vec_push(&scan->bares, bare);
    }
    scan->bare_links |= part->bare_links;
}

/* Rows of the part come behind those that are there. */
static void join_wides(TraceScan *scan, const TraceScan *part)
{
    const size_t before[] = {
        [WIDE_GPU_LINK] = scan->profile->gpu.len,    [WIDE_GPU_EXTERNAL] = scan->profile->gpu.len,
        [WIDE_HOST_LINK] = scan->profile->host.len,  [WIDE_SYNC_LINK] = scan->profile->syncs.len,
        [WIDE_SYNC_WAIT] = scan->profile->syncs.len,
    };

    for (size_t i = 0; i < part->wides.len; i++) {
        Wide wide = part->wides.at[i];

        wide.row += before[wide.field];
        vec_push(&scan->wides, wide);
    }
}

static void join_losses(TraceScan *scan, const TraceScan *part)
{
    for (size_t i = 0; i < part->losses.len && scan->losses.len < PROFILE_LOSSES_KEPT; i++) {
        Loss loss = part->losses.at[i];

        loss.event += scan->profile->events;
        vec_push(&scan->losses, loss);
    }
}

/* Of repeated metadata the last one counts, as within one scan; profile_append would keep the first. */
static void forget_older(Profile *into, const Profile *part)
{
    uint32_t *const mine[] = {&into->backend, &into->nccl_version, &into->host_name, &into->trace_id, &into->framework};
    const uint32_t theirs[] = {part->backend, part->nccl_version, part->host_name, part->trace_id, part->framework};

    for (size_t i = 0; i < ARRAY_LEN(mine); i++)
        if (theirs[i] != PROFILE_NONE)
            *mine[i] = PROFILE_NONE;
    into->rank = part->rank < 0 ? into->rank : part->rank;
    into->world_size = part->world_size < 0 ? into->world_size : part->world_size;
    into->base_ns = part->base_ns ? part->base_ns : into->base_ns;
}

#define SWAP(a, b)                                                                                                     \
    do {                                                                                                               \
        __typeof__(a) swap_ = (a);                                                                                     \
        (a) = (b);                                                                                                     \
        (b) = swap_;                                                                                                   \
    } while (0)

/* The text goes on where the part stands. */
static void adopt_place(TraceScan *scan, TraceScan *part)
{
    SWAP(scan->buffer, part->buffer);
    SWAP(scan->len, part->len);
    SWAP(scan->cap, part->cap);
    SWAP(scan->at, part->at);
    SWAP(scan->origin, part->origin);
    scan->wait = part->wait;
    scan->final = part->final;
    scan->state = part->state;
    scan->credit = part->credit;
    scan->credit_at = part->credit_at;
    scan->lost_skip = part->lost_skip;
    scan->stops = part->stops;
    scan->arrived = part->arrived;
}

static void scan_join(TraceScan *scan, TraceScan *part)
{
    Profile *into = scan->profile, *from = part->profile;

    join_halves(scan, part);
    join_labels(scan, part);
    join_wides(scan, part);
    join_bares(scan, part);
    join_losses(scan, part);
    adopt_place(scan, part);
    if (part->object_told)
        scan->object = part->object;
    scan->fraction |= part->fraction;
    scan->timed |= part->timed;
    forget_older(into, from);
    profile_append(into, from);
}

/* ---- parts of a file ---- */

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
    return atomic_load(&crew->broken) ? -ECANCELED : 0; /* the failed one has the error */
}

/* Reads at most up to the next part's first byte, if that is still ahead. */
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
    if (part->scan->arrived != UINT64_MAX) { /* bytes read of the next part belong to it */
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

/* Joins all parts that are due and done, and scans on where a part was skipped. Called with the lock held; releases
 * it while working. */
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

    join_due(crew); /* all other threads have ended: everything due is done */
    if (head->rc >= 0 && head->ended)
        return trace_scan_finish(head->scan, NULL, err);
    for (size_t i = 0; i < crew->count; i++)
        if (crew->parts[i].rc < 0 && crew->parts[i].rc != -ECANCELED)
            return err_set(err, crew->parts[i].rc, "%s", crew->parts[i].err.text);
    return err_set(err, -EIO, "the text could not be read");
}

/* ---- pieces of a stream ---- */

/* A streamed text (gzip, a pipe) read by several threads. A free thread reads the next piece, up to where an event
 * seems to begin near its end, and scans it while it is in the cache, as if the list continued where it begins;
 * others read on meanwhile. Pieces are joined in order: if the scan of everything before arrives exactly at a
 * piece's beginning, the piece's result is valid. Otherwise that scan gets the piece's text. So the result equals
 * that of one thread for any text. */

enum {
    LOOK_FIRST = 4 << 10, /* at the end of a piece, where the next one's beginning is looked for */
    PIECE_MIN = 32,       /* bytes */
    PIECES_MAX = 8,       /* in memory: more threads than these wait for the unpacking */
    PIECES_WAITING = 3,   /* waiting to be joined, besides those being scanned */
};

typedef struct Piece {
    struct Piece *next;
    char *text; /* until a scan takes it */
    size_t len;
    uint64_t begin;
    uint64_t stops[2]; /* where the next piece begins (its first byte is this one's last), UINT64_MAX */
    bool event;        /* an event seems to begin here: it is scanned for itself */
    bool last;         /* of the text */
    bool done;         /* with the scan */
    TraceScan *scan;
    Profile profile;
} Piece;

typedef struct Stream {
    const TraceSource *source;
    const TraceScanOptions *options;
    size_t cap; /* of a piece's text */
    size_t limit;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Piece *first, **end; /* in the order of the text */
    size_t pieces;
    VEC(char *) spare; /* texts' room */
    bool reading, ended, joining;
    int rc; /* the first failure: all stop */
    Err err;

    /* the reader's */
    uint64_t at;
    char *carry; /* read already, belongs to the next piece */
    size_t carried;
    bool event; /* the next piece begins with one */

    /* the joiner's */
    TraceScan *head;
    uint64_t position; /* next byte of the text for it */
    uint64_t stops[2];
    uint64_t told;
} Stream;

/* With the lock held. */
static void fail_stream(Stream *stream, int rc, const Err *err)
{
    if (rc < 0 && stream->rc >= 0) {
        stream->rc = rc;
        stream->err = *err;
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int fill_piece(Stream *stream, Piece *piece, Err *err)
{
    const TraceSource *source = stream->source;
    const size_t most = piece->begin == 0 && stream->cap > SCAN_BLOCK ? SCAN_BLOCK : stream->cap; /* no trace: soon */

    while (piece->len < most && !piece->last) {
        const ssize_t got = source->read(source->context, piece->text + piece->len, most - piece->len, stream->at, err);

        if (got < 0)
            return (int)got;
        piece->last = got == 0;
        piece->len += (size_t)got;
        stream->at += (uint64_t)got;
        if (source->stop && __atomic_load_n(source->stop, __ATOMIC_RELAXED))
            return err_set(err, -EINTR, "interrupted");
    }
    return 0;
}

/* The first event that seems to begin within the last bytes. */
static const char *event_behind(const Piece *piece, size_t bytes)
{
    const char *end = piece->text + piece->len;
    const char *from = piece->len > 2 * bytes ? end - bytes : piece->text + piece->len / 2;

    return scan_find_event(from, end, from);
}

/* Leaves the text behind the first event near the end to the next piece. */
static void cut_piece(Stream *stream, Piece *piece)
{
    const char *event = piece->last ? NULL : event_behind(piece, LOOK_FIRST);

    if (!event && !piece->last)
        event = event_behind(piece, LOOK_BYTES);
    stream->carried = 0;
    stream->event = event && event > piece->text;
    if (!stream->event)
        return;
    stream->carried = (size_t)(piece->text + piece->len - event);
    memcpy(stream->carry, event, stream->carried);
    piece->len = (size_t)(event - piece->text) + 1;
    piece->stops[0] = piece->begin + piece->len - 1;
}

static int read_piece(Stream *stream, Piece *piece, Err *err)
{
    piece->begin = stream->at - stream->carried;
    piece->event = stream->event;
    piece->stops[0] = piece->stops[1] = UINT64_MAX;
    piece->len = stream->carried;
    memcpy(piece->text, stream->carry, stream->carried);
    TRY(fill_piece(stream, piece, err));
    cut_piece(stream, piece);
    piece->done = !piece->event;
    return 0;
}

/* With the lock held, which is let go while it reads. The piece is the caller's to scan. */
static Piece *read_next(Stream *stream)
{
    Piece *piece = xcalloc(1, sizeof *piece);
    Err err = {0};

    stream->reading = true;
    stream->pieces++;
    piece->text = stream->spare.len ? stream->spare.at[--stream->spare.len] : NULL;
    pthread_mutex_unlock(&stream->lock);
    if (!piece->text)
        piece->text = xmalloc_large(stream->cap + SCAN_PAD);
    const int rc = read_piece(stream, piece, &err);
    pthread_mutex_lock(&stream->lock);
    stream->reading = false;
    stream->ended |= piece->last;
    *stream->end = piece;
    stream->end = &piece->next;
    fail_stream(stream, rc, &err);
    return piece;
}

/* --- scanning ----------------------------------------------------------------------------------------------------- */

/* With the lock held, which is let go while it scans. The tools are the thread's. */
static void scan_piece(Stream *stream, Piece *piece, ScanTools *tools)
{
    Err err = {0};

    pthread_mutex_unlock(&stream->lock);
    profile_init(&piece->profile);
    TraceScan *scan = piece->scan = scan_new_part(&piece->profile, stream->options, piece->begin, tools);

    scan_give(scan, TAKE(piece->text), piece->len, stream->cap);
    scan->stops = piece->stops;
    scan->final = piece->last;
    const int rc = scan_run(scan, &err);
    scan_tools_back(scan, tools);
    if (scan->arrived != UINT64_MAX)
        piece->profile.bytes--; /* the next piece's first one */
    pthread_mutex_lock(&stream->lock);
    piece->done = true;
    fail_stream(stream, rc, &err);
}

/* --- taking over -------------------------------------------------------------------------------------------------- */

static void drop_piece(Stream *stream, Piece *piece)
{
    if (piece->scan && piece->scan->cap == stream->cap)
        piece->text = TAKE(piece->scan->buffer);
    if (piece->text)
        vec_push(&stream->spare, piece->text);
    trace_scan_free(piece->scan);
    profile_done(&piece->profile);
    free(piece);
    stream->pieces--;
}

/* The piece's text for the scan of all before it. */
static int feed_piece(Stream *stream, const Piece *piece, Err *err)
{
    TraceScan *head = stream->head;
    const char *text = piece->scan ? piece->scan->buffer : piece->text;
    size_t at = (size_t)(stream->position - piece->begin);

    stream->stops[0] = piece->stops[0];
    head->stops = stream->stops;
    while (at < piece->len && head->arrived == UINT64_MAX) {
        size_t room;
        char *to = scan_room(head, &room);

        room = room < piece->len - at ? room : piece->len - at;
        memcpy(to, text + at, room);
        at += room;
        scan_filled(head, room);
        TRY(scan_run(head, err));
    }
    stream->position = piece->begin + at;
    if (head->arrived != UINT64_MAX) {
        head->profile->bytes -= stream->position - head->arrived;
        stream->position = head->arrived;
    }
    return 0;
}

static void join_piece(Stream *stream, Piece *piece)
{
    scan_join(stream->head, piece->scan);
    stream->stops[0] = piece->stops[0];
    stream->head->stops = stream->stops;
    stream->position = stream->head->arrived != UINT64_MAX ? stream->head->arrived : piece->begin + piece->len;
}

static int join_or_feed(Stream *stream, Piece *piece, Err *err)
{
    const TraceSource *source = stream->source;

    if (piece->scan && stream->head->arrived == piece->begin)
        join_piece(stream, piece);
    else
        TRY(feed_piece(stream, piece, err));
    if (source->progress)
        source->progress(source->context, stream->position - stream->told);
    stream->told = stream->position;
    return 0;
}

/* Counts only what was joined: pieces under way take no more than their texts, and their number depends on the
 * threads, on which no result may depend. */
static int check_memory(const Stream *stream, Err *err)
{
    const size_t max = stream->options->memory_max;

    if (max && profile_bytes(stream->head->profile) > max)
        return err_set(err, -ENOSPC, "the profile needs more than %zu bytes", max);
    return 0;
}

/* Joins all pieces that are due and done. Called with the lock held; releases it while working. */
static void join_due_pieces(Stream *stream)
{
    if (stream->joining)
        return;
    stream->joining = true;
    while (stream->rc >= 0 && stream->first && stream->first->done) {
        Piece *piece = stream->first;
        Err err = {0};

        pthread_mutex_unlock(&stream->lock);
        int rc = join_or_feed(stream, piece, &err);
        if (rc >= 0)
            rc = check_memory(stream, &err);
        pthread_mutex_lock(&stream->lock);
        fail_stream(stream, rc, &err);
        stream->first = piece->next;
        if (!stream->first)
            stream->end = &stream->first;
        drop_piece(stream, piece);
        pthread_cond_broadcast(&stream->changed);
    }
    stream->joining = false;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static void *run_pieces(void *context)
{
    Stream *stream = context;
    ScanTools tools = {0};

    pthread_mutex_lock(&stream->lock);
    while (stream->rc >= 0) {
        if (!stream->ended && !stream->reading && stream->pieces < stream->limit) {
            Piece *piece = read_next(stream);

            pthread_cond_broadcast(&stream->changed);
            if (!piece->done && stream->rc >= 0)
                scan_piece(stream, piece, &tools);
            join_due_pieces(stream);
            pthread_cond_broadcast(&stream->changed);
        } else if (stream->ended) {
            break;
        } else {
            pthread_cond_wait(&stream->changed, &stream->lock);
        }
    }
    pthread_mutex_unlock(&stream->lock);
    scan_tools_done(&tools);
    return NULL;
}

static void stream_done(Stream *stream)
{
    while (stream->first) {
        Piece *piece = stream->first;

        stream->first = piece->next;
        drop_piece(stream, piece);
    }
    for (size_t i = 0; i < stream->spare.len; i++)
        free(stream->spare.at[i]);
    vec_done(&stream->spare);
    free(stream->carry);
    trace_scan_free(stream->head);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
}

static int scan_stream(const TraceSource *source, const TraceScanOptions *options, unsigned int threads,
                       uint64_t piece_bytes, Profile *into, Err *err)
{
    Stream stream = {.source = source,
                     .options = options,
                     .cap = piece_bytes > PIECE_MIN ? (size_t)piece_bytes : PIECE_MIN,
                     .limit = threads + PIECES_WAITING < PIECES_MAX ? threads + PIECES_WAITING : PIECES_MAX,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER,
                     .head = trace_scan_new(into, options),
                     .stops = {UINT64_MAX, UINT64_MAX}};
    pthread_t helpers[THREADS_MAX];
    size_t started = 0;

    stream.end = &stream.first;
    stream.carry = xmalloc(stream.cap);
    while (started + 1 < threads && started < THREADS_MAX &&
           pthread_create(&helpers[started], NULL, run_pieces, &stream) == 0)
        started++;
    run_pieces(&stream);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    const int rc =
        stream.rc < 0 ? err_set(err, stream.rc, "%s", stream.err.text) : trace_scan_finish(stream.head, NULL, err);

    stream_done(&stream);
    return rc;
}

/* ---- files and streams ---- */

int scan_parallel(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, uint64_t part_bytes,
                  Profile *into, Err *err)
{
    Crew crew = {.source = source, .lock = PTHREAD_MUTEX_INITIALIZER};
    Worker worker = {.crew = &crew, .into = into};
    pthread_t helpers[THREADS_MAX];
    size_t started = 0;
    uint64_t size = 0; /* bytes of the text to split */

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
