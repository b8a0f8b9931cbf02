/* SPDX-License-Identifier: Apache-2.0 */
/* One text read by several threads. A free thread reads the next piece, up to where an event seems to begin near its
 * end, and scans it while it is in the cache, as if the list continued where it begins; others read on meanwhile.
 * Pieces are joined in order: if the scan of everything before arrives between two events exactly at a piece's
 * beginning, its state is the one that the piece began in, so the piece's result is taken over. Otherwise that scan
 * gets the piece's text. So the result equals that of one thread for any text. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "engine/trace/scan/inside.h"

enum {
    PIECE = 2 << 20,      /* fewer, so that joining costs less than what the second cache gains */
    PIECE_MIN = 32,       /* bytes */
    PIECES_WAITING = 3,   /* waiting to be joined, besides those being scanned */
    BEGIN_NEAR = 4 << 10, /* at the end of a piece, where the next one's beginning is looked for first */
    BEGIN_FAR = 64 << 10, /* and where then */
    THREADS_MAX = 64,
};

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

static void scan_join(TraceScan *scan, TraceScan *part)
{
    Profile *into = scan->profile, *from = part->profile;

    join_halves(scan, part);
    join_labels(scan, part);
    join_wides(scan, part);
    join_bares(scan, part);
    const ScanText adopted = part->text; /* the text goes on where the part stands */

    part->text = scan->text;
    scan->text = adopted;
    if (part->object_told)
        scan->object = part->object;
    scan->fraction |= part->fraction;
    scan->timed |= part->timed;
    profile_append(into, from);
}

/* ---- pieces ---- */

typedef struct Piece {
    struct Piece *next;
    char *text; /* until a scan takes it */
    size_t len;
    uint64_t begin;
    uint64_t stop; /* where the next piece begins (its first byte is this one's last), UINT64_MAX */
    bool event;    /* an event seems to begin here: it is scanned for itself */
    bool last;     /* of the text */
    bool done;     /* with the scan */
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

    TraceScan *head; /* the joiner's */
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
        const ssize_t got = source->read(source->context, piece->text + piece->len, most - piece->len, err);

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
    const bool whole = piece->last || stream->options->raw; /* raw events are shown once, in order: by one scan */
    const char *event = whole ? NULL : event_behind(piece, BEGIN_NEAR);

    if (!event && !whole)
        event = event_behind(piece, BEGIN_FAR);
    stream->carried = 0;
    stream->event = event && event > piece->text;
    if (!stream->event)
        return;
    stream->carried = (size_t)(piece->text + piece->len - event);
    memcpy(stream->carry, event, stream->carried);
    piece->len = (size_t)(event - piece->text) + 1;
    piece->stop = piece->begin + piece->len - 1;
}

static int read_piece(Stream *stream, Piece *piece, Err *err)
{
    piece->begin = stream->at - stream->carried;
    piece->event = stream->event;
    piece->stop = UINT64_MAX;
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
static void scan_piece(Stream *stream, Piece *piece, ScanTools **tools)
{
    Err err = {0};

    pthread_mutex_unlock(&stream->lock);
    profile_init(&piece->profile);
    if (!*tools)
        *tools = scan_tools_new();
    TraceScan *scan = piece->scan = scan_new_part(&piece->profile, stream->options, piece->begin, *tools);

    scan_give(scan, TAKE(piece->text), piece->len, stream->cap);
    scan->text.stop = piece->stop;
    scan->text.final = piece->last;
    const int rc = scan_run(scan, &err);
    if (scan->text.arrived != UINT64_MAX)
        piece->profile.bytes--; /* the next piece's first one */
    pthread_mutex_lock(&stream->lock);
    piece->done = true;
    fail_stream(stream, rc, &err);
}

/* --- taking over -------------------------------------------------------------------------------------------------- */

static void drop_piece(Stream *stream, Piece *piece)
{
    if (piece->scan && piece->scan->text.cap == stream->cap)
        piece->text = TAKE(piece->scan->text.buffer);
    if (piece->text)
        vec_push(&stream->spare, piece->text);
    scan_free(piece->scan);
    profile_done(&piece->profile);
    free(piece);
    stream->pieces--;
}

/* The piece's text for the scan of all before it. */
static int feed_piece(Stream *stream, const Piece *piece, Err *err)
{
    TraceScan *head = stream->head;
    const char *text = piece->scan ? piece->scan->text.buffer : piece->text;
    size_t at = (size_t)(head->text.origin + head->text.len - piece->begin);

    head->text.stop = piece->stop;
    while (at < piece->len && head->text.arrived == UINT64_MAX) {
        size_t room;
        char *to = scan_room(head, &room);

        room = room < piece->len - at ? room : piece->len - at;
        memcpy(to, text + at, room);
        at += room;
        scan_filled(head, room);
        TRY(scan_run(head, err));
    }
    head->profile->bytes -= head->text.arrived != UINT64_MAX; /* the next piece's first one */
    return 0;
}

/* The memory is that of what was joined: pieces under way take no more than their texts, and their number depends on
 * the threads, on which no result may depend. */
static int join_or_feed(Stream *stream, Piece *piece, Err *err)
{
    if (!piece->scan || stream->head->text.arrived != piece->begin)
        TRY(feed_piece(stream, piece, err));
    else
        scan_join(stream->head, piece->scan);
    return scan_check_memory(stream->head, err);
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
        const int rc = join_or_feed(stream, piece, &err);
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
    CLEANUP(scan_tools_free_at) ScanTools *tools = NULL;

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
    scan_free(stream->head);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
}

int trace_scan_parallel(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, Profile *into,
                        Err *err)
{
    static const TraceScanOptions none;
    const size_t piece_bytes = options && options->piece_bytes ? options->piece_bytes : PIECE;
    Stream stream = {.source = source,
                     .options = options ? options : &none,
                     .cap = piece_bytes > PIECE_MIN ? piece_bytes : PIECE_MIN,
                     .limit = threads + PIECES_WAITING,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER,
                     .head = scan_new_head(into, options, NULL)};
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
    const int rc = stream.rc < 0 ? err_set(err, stream.rc, "%s", stream.err.text) : scan_finish(stream.head, err);

    stream_done(&stream);
    return rc;
}
