/* SPDX-License-Identifier: Apache-2.0 */
/* A text that comes as a stream, read by several threads. Whoever finds room reads the next piece, up to where an event
 * seems to begin near its end, and scans it, while it is in his cache, as if the list went on where it begins; others
 * read on in the meantime. Pieces are then taken over
 * in their order, by the proof of parallel.c: where the scan of all that came before arrives exactly at a piece's
 * beginning, the piece's result is what it would have found itself. Where it does not, it gets the piece's text. So
 * the result is that of one thread, whatever the text is. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "engine/trace/scan/inside.h"

enum {
    LOOK_FIRST = 4 << 10,  /* at the end of a piece, where the next one's beginning is looked for */
    LOOK_BYTES = 64 << 10, /* the same where there is none */
    PIECE_MIN = 32,        /* bytes */
    PIECES_MAX = 8,        /* in memory: threads beyond these wait for who unpacks */
    PIECES_WAITING = 3,    /* to be taken over, beside those that are being scanned */
    THREADS_MAX = 64,
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

/* Leaves to the next piece what comes behind the first event near the end. */
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

static int take_over(Stream *stream, Piece *piece, Err *err)
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

/* What has been taken over counts, and pieces under way do not: they take no more than their texts, and how many there
 * are is up to the threads, of which no result depends. */
static int check_memory(const Stream *stream, Err *err)
{
    const size_t max = stream->options->memory_max;

    if (max && profile_bytes(stream->head->profile) > max)
        return err_set(err, -ENOSPC, "the profile needs more than %zu bytes", max);
    return 0;
}

/* Takes over all pieces that are due and done. With the lock held, which is let go while it works. */
static void take_over_due(Stream *stream)
{
    if (stream->joining)
        return;
    stream->joining = true;
    while (stream->rc >= 0 && stream->first && stream->first->done) {
        Piece *piece = stream->first;
        Err err = {0};

        pthread_mutex_unlock(&stream->lock);
        int rc = take_over(stream, piece, &err);
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
            take_over_due(stream);
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

int scan_stream(const TraceSource *source, const TraceScanOptions *options, unsigned int threads, uint64_t piece_bytes,
                Profile *into, Err *err)
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
