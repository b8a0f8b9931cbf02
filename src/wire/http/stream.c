/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a queue of bodies per client. The connection is suspended while the queue is empty; libmicrohttpd then does
 * not look at its socket, but conn.c does, for the client's going. */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/owner.h"
#include "base/vec.h"
#include "wire/http/conn.h"

enum { BLOCK_BYTES = 16 * 1024 };

typedef VEC(HttpBody *) BodyQueue;

struct HttpStream {
    Conn *conn;
    BodyQueue queue; /* the first queue_at are sent */
    size_t queue_at;
    size_t offset; /* bytes of the present one that are sent */
    size_t queue_max;
    bool ending;
    void (*on_close)(void *self, HttpStream *stream);
    void *self;
};

static void stream_wait(HttpStream *stream)
{
    int one = 1;

    /* What libmicrohttpd held back to send with more goes out now. Fails on a unix socket, which holds nothing back. */
    (void)setsockopt(stream->conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    conn_suspend(stream->conn);
}

static void stream_wake(HttpStream *stream)
{
    conn_resume(stream->conn);
}

static size_t queued(const HttpStream *stream)
{
    return stream->queue.len - stream->queue_at;
}

/* Drops the body that was sent; the array never grows over queue_max and what was sent of it. */
static void pop(HttpStream *stream)
{
    http_body_unref(stream->queue.at[stream->queue_at++]);
    stream->offset = 0;
    if (!queued(stream)) {
        vec_clear(&stream->queue);
        stream->queue_at = 0;
    }
}

static ssize_t stream_read(void *self, uint64_t position, char *out, size_t max)
{
    HttpStream *stream = self;
    const HttpBody *body;
    size_t len;

    (void)position;
    if (stream->conn->dying)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!queued(stream)) {
        if (stream->ending)
            return MHD_CONTENT_READER_END_OF_STREAM;
        stream_wait(stream);
        return 0;
    }
    body = stream->queue.at[stream->queue_at];
    len = body->len - stream->offset;
    len = len < max ? len : max;
    memcpy(out, body->bytes + stream->offset, len);
    stream->offset += len;
    stream->conn->answer_bytes += len;
    if (stream->offset == body->len)
        pop(stream);
    return (ssize_t)len;
}

/* HEAD gets an empty answer: to one of unknown length libmicrohttpd would send a last chunk nonetheless. */
static struct MHD_Response *make_response(const HttpRequest *request, HttpStream *stream)
{
    if (!strcmp(request->method, "HEAD"))
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, stream, NULL);
}

HttpStream *http_stream(HttpRequest *request, const char *content_type, size_t queue_max,
                        void (*on_close)(void *self, HttpStream *stream), void *self)
{
    HttpStream *stream = xcalloc(1, sizeof(*stream));
    struct MHD_Response *response = make_response(request, stream);

    assert(!request->answered);
    stream->conn = request->conn;
    stream->queue_max = queue_max;
    stream->on_close = on_close;
    stream->self = self;
    request->conn->stream = stream;
    request->answered = true;
    conn_deadline(request->conn, UINT64_MAX);
    if (!response)
        return stream; /* the connection is closed for it, and on_close called */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    request->result = request_send(request->conn, MHD_HTTP_OK, response);
    return stream;
}

void http_stream_send(HttpStream *stream, HttpBody *body)
{
    if (stream->ending || stream->conn->dying || !body->len)
        return;
    if (queued(stream) >= stream->queue_max) {
        stream->conn->server->counts.evicted_connections++;
        conn_drop(stream->conn);
        return;
    }
    if (stream->queue_at > stream->queue_max) { /* close the gap that sent ones left */
        memmove(stream->queue.at, stream->queue.at + stream->queue_at, queued(stream) * sizeof(*stream->queue.at));
        stream->queue.len -= stream->queue_at;
        stream->queue_at = 0;
    }
    vec_push(&stream->queue, http_body_ref(body));
    stream_wake(stream);
}

void http_stream_close(HttpStream *stream)
{
    stream->ending = true;
    stream_wake(stream);
}

void stream_end(HttpStream *stream)
{
    while (queued(stream))
        pop(stream);
    vec_done(&stream->queue);
    stream->ending = true;
    if (stream->on_close)
        stream->on_close(stream->self, stream);
    free(stream);
}
