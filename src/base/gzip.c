/* SPDX-License-Identifier: Apache-2.0 */
/* gzip through isa-l. Its states are hundreds of kilobytes, so each thread that packs has one, made on first use and
 * freed when the thread ends; pages of it that were never used cost nothing. What is packed depends on nothing but the
 * input: the output always goes through the same buffer in pieces of the same size. */
#include "base/gzip.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

enum {
    GZIP_LEVEL = 1, /* of isa-l's 0..3: see the benchmark */
    GZIP_PIECE = 16 * 1024,
    GZIP_INPUT_MAX = 1 << 30, /* isa-l counts bytes in 32 bits */
    GZIP_FLAGS_AT = 3,        /* RFC 1952, section 2.3 */
    GZIP_FLAGS_RESERVED = 0xe0,
};

typedef struct Gzip {
    struct isal_zstream pack;
    struct inflate_state unpack;
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

static int pack(Gzip *gzip, const char *bytes, size_t len, Str *out, Err *err)
{
    struct isal_zstream *stream = &gzip->pack;

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
    int rc = pack(gzip_of_thread(), bytes, len, out, err);

    if (rc < 0) {
        str_cut(out, start);
        out->overflow = overflow;
    }
    return rc;
}

static int damaged(Err *err, const char *why)
{
    return err_set(err, -EBADMSG, "the gzip text is damaged: %s", why);
}

static const char *unpack_fault(int rc)
{
    switch (rc) {
    case ISAL_INCORRECT_CHECKSUM:
        return "its checksum is wrong";
    case ISAL_INVALID_WRAPPER:
        return "it does not begin as gzip does";
    case ISAL_UNSUPPORTED_METHOD:
        return "it is compressed in another way";
    default:
        return "its blocks make no sense";
    }
}

/* One member, from the input that the state holds and the *len bytes behind it. */
static int unpack_member(Gzip *gzip, size_t *len, Str *out, Err *err)
{
    struct inflate_state *state = &gzip->unpack;

    while (state->block_state != ISAL_BLOCK_FINISH) {
        uint32_t left = state->avail_in;
        int rc;

        if (state->avail_in == 0) {
            state->avail_in = next_input(len);
            left = state->avail_in;
        }
        state->next_out = gzip->piece;
        state->avail_out = sizeof gzip->piece;
        rc = isal_inflate(state);
        if (rc < 0 || state->avail_in > left) /* isa-l 2.30 miscounts where a code runs over the end */
            return damaged(err, unpack_fault(rc));
        TRY(flush_piece(out, gzip, state->avail_out, "the unpacked text", err));
        if (state->block_state != ISAL_BLOCK_FINISH && state->avail_out == sizeof gzip->piece && *len == 0 &&
            (left == state->avail_in || state->avail_in == 0))
            return damaged(err, "its end is missing");
    }
    return 0;
}

static int unpack(Gzip *gzip, const char *bytes, size_t len, Str *out, Err *err)
{
    struct inflate_state *state = &gzip->unpack;

    isal_inflate_init(state);
    state->next_in = input_of(bytes);
    state->avail_in = next_input(&len);
    do {
        uint8_t *next_in = state->next_in;
        uint32_t avail_in = state->avail_in;

        if (avail_in + len > GZIP_FLAGS_AT && next_in[GZIP_FLAGS_AT] & GZIP_FLAGS_RESERVED) /* isa-l lets them pass */
            return damaged(err, "it has flags that nobody knows");
        isal_inflate_reset(state);
        state->crc_flag = ISAL_GZIP;
        state->next_in = next_in;
        state->avail_in = avail_in;
        TRY(unpack_member(gzip, &len, out, err));
    } while (state->avail_in + len > 0);
    return 0;
}

int gzip_unpack(const char *bytes, size_t len, Str *out, Err *err)
{
    size_t start = out->len;
    bool overflow = out->overflow;
    int rc = unpack(gzip_of_thread(), bytes, len, out, err);

    if (rc < 0) {
        str_cut(out, start);
        out->overflow = overflow;
    }
    return rc;
}
