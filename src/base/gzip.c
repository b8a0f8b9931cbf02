/* SPDX-License-Identifier: Apache-2.0 */
/* gzip through isa-l; unpacking is the stream's (inflate.c). The packer's state is hundreds of kilobytes, so each
 * thread that packs has one, made on first use and freed when the thread ends; pages of it that were never used cost
 * nothing. What is packed depends on nothing but the input: the output always goes through the same buffer in pieces of
 * the same size. */
#include "base/gzip.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/inflate.h"
#include "base/cleanup.h"

enum {
    GZIP_LEVEL = 1, /* of isa-l's 0..3: see the benchmark */
    GZIP_PIECE = 16 * 1024,
    GZIP_INPUT_MAX = 1 << 30, /* isa-l counts bytes in 32 bits */
};

typedef struct Gzip {
    struct isal_zstream pack_bytes;
    uint8_t piece[GZIP_PIECE];
    uint8_t level[ISAL_DEF_LVL1_MEDIUM];
} Gzip;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    if (pthread_key_create(&key, free) != 0)
        abort(); /* more than 1024 keys: a programmer's mistake */
}

static Gzip *gzip_of_thread(void)
{
    Gzip *gzip;

    pthread_once(&key_once, make_key);
    gzip = pthread_getspecific(key);
    if (gzip)
        return gzip;
    gzip = xmalloc(sizeof *gzip);
    if (pthread_setspecific(key, gzip) != 0)
        abort();
    return gzip;
}

/* isa-l reads through a pointer that is not const. */
static uint8_t *input_of(const char *bytes)
{
    return (uint8_t *)(uintptr_t)bytes;
}

/* The next piece of the input, at most GZIP_INPUT_MAX bytes; what is left is in *len. */
static uint32_t next_input(size_t *len)
{
    uint32_t part = *len < GZIP_INPUT_MAX ? (uint32_t)*len : GZIP_INPUT_MAX;

    *len -= part;
    return part;
}

/* Appends what the state has put into the piece. -EFBIG where that is over the ceiling. */
static int flush_piece(Str *out, const Gzip *gzip, uint32_t left, const char *what, Err *err)
{
    str_addn(out, (const char *)gzip->piece, sizeof gzip->piece - left);
    return str_check(out, what, err);
}

static int pack_bytes(Gzip *gzip, const char *bytes, size_t len, Str *out, Err *err)
{
    struct isal_zstream *stream = &gzip->pack_bytes;

    isal_deflate_init(stream);
    stream->level = GZIP_LEVEL;
    stream->level_buf = gzip->level;
    stream->level_buf_size = sizeof gzip->level;
    stream->gzip_flag = IGZIP_GZIP;
    stream->next_in = input_of(bytes);
    stream->avail_in = next_input(&len);
    stream->end_of_stream = len == 0;
    while (stream->internal_state.state != ZSTATE_END) {
        stream->next_out = gzip->piece;
        stream->avail_out = sizeof gzip->piece;
        if (isal_deflate(stream) != COMP_OK)
            return err_set(err, -EIO, "the compressor failed");
        TRY(flush_piece(out, gzip, stream->avail_out, "the packed text", err));
        if (stream->avail_in == 0 && !stream->end_of_stream) {
            stream->avail_in = next_input(&len);
            stream->end_of_stream = len == 0;
        }
    }
    return 0;
}

int gzip_pack(const char *bytes, size_t len, Str *out, Err *err)
{
    size_t start = out->len;
    bool overflow = out->overflow;
    int rc = pack_bytes(gzip_of_thread(), bytes, len, out, err);

    if (rc < 0) {
        str_cut(out, start);
        out->overflow = overflow;
    }
    return rc;
}

typedef struct Source {
    const char *bytes;
    size_t left;
} Source;

static ssize_t pull_bytes(void *context, void *buffer, size_t len, Err *err)
{
    Source *source = context;
    const size_t n = len < source->left ? len : source->left;

    (void)err;
    memcpy(buffer, source->bytes, n);
    source->bytes += n;
    source->left -= n;
    return (ssize_t)n;
}

static int unpack_bytes(const char *bytes, size_t len, Str *out, Err *err)
{
    Source source = {bytes, len};
    const size_t room = len < INFLATE_INPUT ? len : INFLATE_INPUT;
    CLEANUP(inflate_free_at) Inflate *inflate = inflate_new_sized(pull_bytes, &source, room);
    char piece[GZIP_PIECE];
    ssize_t n;

    while ((n = inflate_read(inflate, piece, sizeof piece, err)) > 0) {
        str_addn(out, piece, (size_t)n);
        TRY(str_check(out, "the unpacked text", err));
    }
    TRY((int)n);
    if (inflate_garbage(inflate))
        return err_set(err, -EBADMSG, "the gzip data is damaged: what follows it is no gzip");
    return 0;
}

int gzip_unpack(const char *bytes, size_t len, Str *out, Err *err)
{
    size_t start = out->len;
    bool overflow = out->overflow;
    int rc = unpack_bytes(bytes, len, out, err);

    if (rc < 0) {
        str_cut(out, start);
        out->overflow = overflow;
    }
    return rc;
}
