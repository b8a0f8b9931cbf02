/* SPDX-License-Identifier: Apache-2.0 */
/* gzip through isa-l. Unpacking, its buffer of input is ours and its output goes straight to the reader's. The packer's
 * state is hundreds of kilobytes, so each thread that packs texts keeps one, freed when the thread ends; pages of it
 * that were never used cost nothing. What is packed depends on nothing but the input. */
#include "base/gzip.h"

#include <errno.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
    MAGIC_BYTES = 2,
    HEAD_BYTES = 10, /* of a member's header without what its flags add: RFC 1952, section 2.3 */
    FLAGS_AT = 3,
    FLAG_CHECKSUM = 1 << 1,
    FLAG_EXTRA = 1 << 2,
    FLAG_NAME = 1 << 3,
    FLAG_COMMENT = 1 << 4,
    FLAGS_RESERVED = 0xe0,
    PACK_LEVEL = 1, /* of isa-l's 0..3: see the benchmark */
    PACK_OUTPUT = 64 * 1024,
    UNPACK_PIECE = 16 * 1024,
};

static const uint8_t magic[MAGIC_BYTES] = {0x1f, 0x8b};

struct Inflate {
    InflatePull pull;
    void *context;
    uint64_t pulled, given, garbage;
    bool in_member, any_member, ended; /* ended: no more input will come from the source */
    bool done;                         /* the text is complete */
    int fault;                         /* every later read reports it */
    Err why;
    struct inflate_state state;
    size_t cap;
    uint8_t input[]; /* cap bytes */
};

Inflate *inflate_new(InflatePull pull, void *context)
{
    return inflate_new_sized(pull, context, INFLATE_INPUT);
}

Inflate *inflate_new_sized(InflatePull pull, void *context, size_t input_bytes)
{
    const size_t cap = input_bytes > HEAD_BYTES ? input_bytes : HEAD_BYTES;
    Inflate *inflate = xmalloc(sizeof *inflate + cap);

    memset(inflate, 0, offsetof(Inflate, state)); /* pages of the buffers that are never used cost nothing */
    inflate->cap = cap;
    inflate->pull = pull;
    inflate->context = context;
    isal_inflate_init(&inflate->state);
    inflate->state.next_in = inflate->input;
    return inflate;
}

void inflate_free(Inflate *inflate)
{
    free(inflate);
}

uint64_t inflate_given(const Inflate *inflate)
{
    return inflate->given;
}

uint64_t inflate_garbage(const Inflate *inflate)
{
    return inflate->garbage;
}

bool inflate_is_gzip(const void *bytes, size_t len)
{
    return len >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

bool gzip_is_name(const char *path)
{
    size_t len = strlen(path);

    return len > 3 && strcmp(path + len - 3, ".gz") == 0;
}

static int fail_damaged(Inflate *inflate, const char *why)
{
    inflate->fault = err_set(&inflate->why, -EBADMSG, "the gzip data is damaged at byte %" PRIu64 ": %s",
                             inflate->pulled - inflate->state.avail_in, why);
    return inflate->fault;
}

static const char *fault_text(int rc)
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

/* Moves what is left of the input to the front and pulls more behind it, until there are `want` bytes or the source
 * ends. */
static int pull_until(Inflate *inflate, size_t want)
{
    struct inflate_state *state = &inflate->state;

    while (state->avail_in < want && !inflate->ended) {
        memmove(inflate->input, state->next_in, state->avail_in);
        state->next_in = inflate->input;
        ssize_t n = inflate->pull(inflate->context, inflate->input + state->avail_in, inflate->cap - state->avail_in,
                                  &inflate->why);
        if (n < 0)
            return inflate->fault = (int)n;
        inflate->ended = n == 0;
        inflate->pulled += (uint64_t)n;
        state->avail_in += (uint32_t)n;
    }
    return 0;
}

/* The end of a text with a NUL at `at`, `len` or more where it is not in sight. */
static size_t text_end(const uint8_t *bytes, size_t len, size_t at)
{
    const uint8_t *nul = at < len ? memchr(bytes + at, '\0', len - at) : NULL;

    return nul ? (size_t)(nul - bytes) + 1 : len + 1;
}

/* Length of the header that begins here, more than `len` where it is not all in sight. */
static size_t header_length(const uint8_t *bytes, size_t len)
{
    size_t at = HEAD_BYTES;

    if (len < HEAD_BYTES)
        return HEAD_BYTES;
    if (bytes[FLAGS_AT] & FLAG_EXTRA)
        at = len < at + 2 ? len + 1 : at + 2 + bytes[at] + ((size_t)bytes[at + 1] << 8);
    if (bytes[FLAGS_AT] & FLAG_NAME)
        at = text_end(bytes, len, at);
    if (bytes[FLAGS_AT] & FLAG_COMMENT)
        at = text_end(bytes, len, at);
    return at + (bytes[FLAGS_AT] & FLAG_CHECKSUM ? 2 : 0);
}

/* isa-l 2.30 mistakes the checksum of a header that comes in parts: pulls until all of it is there. */
static int pull_header(Inflate *inflate)
{
    struct inflate_state *state = &inflate->state;

    while (!inflate->ended && header_length(state->next_in, state->avail_in) > state->avail_in) {
        if (state->avail_in == inflate->cap)
            return fail_damaged(inflate, "its header has no end");
        TRY(pull_until(inflate, state->avail_in + 1));
    }
    return 0;
}

/* Between members: begins the next one, or finds that there is none. */
static int begin_member(Inflate *inflate)
{
    struct inflate_state *state = &inflate->state;

    TRY(pull_until(inflate, HEAD_BYTES));
    if (!inflate_is_gzip(state->next_in, state->avail_in)) {
        if (!inflate->any_member)
            return fail_damaged(inflate, state->avail_in ? "it does not begin as gzip does" : "it is empty");
        inflate->garbage = state->avail_in;
        inflate->done = true;
        return 0;
    }
    if (state->avail_in > FLAGS_AT && state->next_in[FLAGS_AT] & FLAGS_RESERVED) /* isa-l lets them pass */
        return fail_damaged(inflate, "it has flags that nobody knows");
    TRY(pull_header(inflate));
    isal_inflate_reset(state);
    state->crc_flag = ISAL_GZIP;
    inflate->in_member = inflate->any_member = true;
    return 0;
}

/* Unpacks up to `len` bytes of the member. */
static int unpack_member(Inflate *inflate, uint8_t *out, size_t len, size_t *ret_got)
{
    struct inflate_state *state = &inflate->state;
    uint32_t room = len < INFLATE_OUTPUT ? (uint32_t)len : INFLATE_OUTPUT;

    *ret_got = 0;
    if (state->avail_in == 0)
        TRY(pull_until(inflate, 1));
    uint32_t before = state->avail_in;
    state->next_out = out;
    state->avail_out = room;
    int rc = isal_inflate(state);
    *ret_got = room - state->avail_out;
    inflate->given += *ret_got;
    if (state->avail_in > before) { /* isa-l 2.30 miscounts where a code runs over the end */
        state->avail_in = 0;
        rc = rc < 0 ? rc : ISAL_INVALID_BLOCK;
    }
    if (rc < 0)
        return fail_damaged(inflate, fault_text(rc));
    if (state->block_state == ISAL_BLOCK_FINISH)
        inflate->in_member = false;
    else if (inflate->ended && *ret_got == 0 && before == state->avail_in)
        return fail_damaged(inflate, "its end is missing");
    return 0;
}

ssize_t inflate_read(Inflate *inflate, void *buffer, size_t len, Err *err)
{
    uint8_t *out = buffer;
    size_t got = 0;

    while (got < len && !inflate->done && !inflate->fault) {
        if (!inflate->in_member) {
            begin_member(inflate); /* its fault is kept */
            continue;
        }
        size_t part;
        unpack_member(inflate, out + got, len - got, &part);
        got += part;
    }
    if (got == 0 && inflate->fault && len > 0)
        return err_set(err, inflate->fault, "%s", inflate->why.text);
    return (ssize_t)got;
}

struct Deflate {
    DeflatePush push;
    void *context;
    struct isal_zstream stream;
    uint8_t output[PACK_OUTPUT];
    uint8_t level[ISAL_DEF_LVL1_MEDIUM];
};

static void begin_packing(Deflate *deflate, DeflatePush push, void *context)
{
    deflate->push = push;
    deflate->context = context;
    isal_deflate_init(&deflate->stream);
    deflate->stream.level = PACK_LEVEL;
    deflate->stream.level_buf = deflate->level;
    deflate->stream.level_buf_size = sizeof deflate->level;
    deflate->stream.gzip_flag = IGZIP_GZIP;
}

Deflate *deflate_new(DeflatePush push, void *context)
{
    Deflate *deflate = xmalloc(sizeof *deflate);

    begin_packing(deflate, push, context);
    return deflate;
}

void deflate_free(Deflate *deflate)
{
    free(deflate);
}

static int pack_part(Deflate *deflate, const void *bytes, uint32_t len, bool end, Err *err)
{
    struct isal_zstream *stream = &deflate->stream;

    stream->next_in = (uint8_t *)(uintptr_t)bytes; /* isa-l reads through a pointer that is not const */
    stream->avail_in = len;
    stream->end_of_stream = end;
    do {
        stream->next_out = deflate->output;
        stream->avail_out = sizeof deflate->output;
        if (isal_deflate(stream) != COMP_OK)
            return err_set(err, -EIO, "the compressor failed");
        if (stream->avail_out < sizeof deflate->output)
            TRY(deflate->push(deflate->context, deflate->output, sizeof deflate->output - stream->avail_out, err));
    } while (stream->avail_in > 0 || stream->avail_out == 0 || (end && stream->internal_state.state != ZSTATE_END));
    return 0;
}

int deflate_write(Deflate *deflate, const void *bytes, size_t len, Err *err)
{
    const char *at = bytes;

    while (len > 0) {
        uint32_t part = len < INFLATE_INPUT ? (uint32_t)len : INFLATE_INPUT;
        TRY(pack_part(deflate, at, part, false, err));
        at += part;
        len -= part;
    }
    return 0;
}

int deflate_end(Deflate *deflate, Err *err)
{
    return pack_part(deflate, "", 0, true, err);
}

/* ---- in one piece ---- */

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    if (pthread_key_create(&key, free) != 0)
        abort(); /* more than 1024 keys: a programmer's mistake */
}

static Deflate *deflate_of_thread(void)
{
    Deflate *deflate;

    pthread_once(&key_once, make_key);
    deflate = pthread_getspecific(key);
    if (deflate)
        return deflate;
    deflate = xmalloc(sizeof *deflate);
    if (pthread_setspecific(key, deflate) != 0)
        abort();
    return deflate;
}

/* `rc`, with `out` as it was where that is an error. */
static int keep_or_cut(Str *out, const Str *before, int rc)
{
    if (rc < 0) {
        str_cut(out, before->len);
        out->overflow = before->overflow;
    }
    return rc;
}

static int push_to_text(void *context, const void *bytes, size_t len, Err *err)
{
    str_addn(context, bytes, len);
    return str_check(context, "the packed text", err);
}

int gzip_pack(const char *bytes, size_t len, Str *out, Err *err)
{
    Deflate *deflate = deflate_of_thread();
    const Str before = *out;
    int rc;

    begin_packing(deflate, push_to_text, out);
    rc = deflate_write(deflate, bytes, len, err);
    return keep_or_cut(out, &before, rc < 0 ? rc : deflate_end(deflate, err));
}

int gzip_begin(const char *bytes, size_t len, Str *out, GzipBeginning *ret, Err *err)
{
    Deflate *deflate = deflate_of_thread();
    const Str before = *out;
    int rc;

    begin_packing(deflate, push_to_text, out);
    deflate->stream.flush = FULL_FLUSH; /* up to a whole byte, and nothing behind refers to what is before */
    rc = len ? deflate_write(deflate, bytes, len, err) : pack_part(deflate, "", 0, false, err);
    *ret = (GzipBeginning){crc32_gzip_refl(0, (const unsigned char *)bytes, len), (uint32_t)len};
    return keep_or_cut(out, &before, rc);
}

int gzip_finish(const GzipBeginning *beginning, const char *bytes, size_t len, Str *out, Err *err)
{
    const uint32_t trailer[] = {crc32_gzip_refl(beginning->checksum, (const unsigned char *)bytes, len),
                                beginning->len + (uint32_t)len}; /* RFC 1952, section 2.3.1 */
    Deflate *deflate = deflate_of_thread();
    const Str before = *out;
    int rc;

    begin_packing(deflate, push_to_text, out);
    deflate->stream.gzip_flag = IGZIP_DEFLATE;
    rc = deflate_write(deflate, bytes, len, err);
    if (rc == 0)
        rc = deflate_end(deflate, err);
    for (size_t i = 0; i < sizeof trailer; i++)
        str_addc(out, (char)(trailer[i / 4] >> 8 * (i % 4)));
    return keep_or_cut(out, &before, rc < 0 ? rc : str_check(out, "the packed text", err));
}

const char gzip_stream_head[GZIP_STREAM_HEAD] = {0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, (char)0xff}; /* RFC 1952 */

int gzip_part(const char *bytes, size_t len, Str *out, Err *err)
{
    Deflate *deflate = deflate_of_thread();
    const Str before = *out;

    begin_packing(deflate, push_to_text, out);
    deflate->stream.gzip_flag = IGZIP_DEFLATE;
    deflate->stream.flush = FULL_FLUSH;
    return keep_or_cut(out, &before, deflate_write(deflate, bytes, len, err));
}

typedef struct Source {
    const char *bytes;
    size_t left;
} Source;

static ssize_t pull_bytes(void *context, void *buffer, size_t len, Err *err UNUSED)
{
    Source *source = context;
    const size_t n = len < source->left ? len : source->left;

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
    char piece[UNPACK_PIECE];
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
    const Str before = *out;

    return keep_or_cut(out, &before, unpack_bytes(bytes, len, out, err));
}
