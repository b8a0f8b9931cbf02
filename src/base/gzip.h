/* SPDX-License-Identifier: Apache-2.0 */
/* gzip (RFC 1952), by isa-l, as a stream and in one piece. As a stream bytes are pulled from a source and come out in
 * pieces of any size, so that a file of any size passes through a few hundred kilobytes. Several members one behind the
 * other are one text; their checksums are checked. What was unpacked before a fault is returned before the fault. The
 * other way round, Deflate packs a stream into one member. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

enum {
    INFLATE_INPUT = 256 * 1024,  /* pulled at once */
    INFLATE_OUTPUT = 256 * 1024, /* unpacked at once: isa-l copies some of each, and it stays in the second cache */
};

/* Gives up to `len` packed bytes: how many, 0 at the end, -errno. */
typedef ssize_t (*InflatePull)(void *context, void *buffer, size_t len, Err *err);

typedef struct Inflate Inflate;

Inflate *inflate_new(InflatePull pull, void *context); /* `context` is borrowed */
/* The same with room for `input_bytes` at once (10 or more, at most INFLATE_INPUT), in which a header must fit: for a
 * source that is known to be short. */
Inflate *inflate_new_sized(InflatePull pull, void *context, size_t input_bytes);
void inflate_free(Inflate *inflate); /* accepts NULL */

/* The next bytes of the text into `buffer`: how many (fewer than `len` only before the end, a fault or where the source
 * gives little), 0 at the end. -EBADMSG where the data is damaged or cut: the text says why and at which packed byte;
 * the error stays. Otherwise the source's error. */
ssize_t inflate_read(Inflate *inflate, void *buffer, size_t len, Err *err);

uint64_t inflate_given(const Inflate *inflate); /* bytes of text given out so far */

/* How many bytes that are no gzip were met behind the last member (zeros for padding, say). They end the text without
 * a fault; what lies behind the bytes already pulled is not counted. */
uint64_t inflate_garbage(const Inflate *inflate);

/* Whether bytes begin as gzip does. */
bool inflate_is_gzip(const void *bytes, size_t len);
/* Whether the name of a path asks for gzip: it ends in ".gz". */
bool gzip_is_name(const char *path);

/* Takes `len` packed bytes: 0 or -errno. */
typedef int (*DeflatePush)(void *context, const void *bytes, size_t len, Err *err);

typedef struct Deflate Deflate;

Deflate *deflate_new(DeflatePush push, void *context);
void deflate_free(Deflate *deflate); /* accepts NULL */

/* Packs more of the text; deflate_end closes the member. 0 or the receiver's error. */
int deflate_write(Deflate *deflate, const void *bytes, size_t len, Err *err);
int deflate_end(Deflate *deflate, Err *err);

CLEANUP_POINTER(Inflate, inflate_free);
CLEANUP_POINTER(Deflate, deflate_free);

/* Appends `len` bytes as a gzip member to `out`: a page of 70 kB takes well under a millisecond. -EFBIG, and `out` as
 * before, where its ceiling is met. Any thread. */
int gzip_pack(const char *bytes, size_t len, Str *out, Err *err);

/* A gzip member in two parts, so that several texts with the same beginning share its packed form: gzip_begin appends
 * the beginning, gzip_finish the end of a text that began so. Errors as of gzip_pack. */
typedef struct GzipBeginning {
    uint32_t checksum, len;
} GzipBeginning;
int gzip_begin(const char *bytes, size_t len, Str *out, GzipBeginning *ret, Err *err);
int gzip_finish(const GzipBeginning *beginning, const char *bytes, size_t len, Str *out, Err *err);

/* Appends a part of a gzip stream that has no end, for a reader who is to see each part at once: it ends on a whole
 * byte and refers to nothing before it, so that many streams share its packed form. Such a stream begins with
 * gzip_stream_head. Errors as of gzip_pack. */
enum { GZIP_STREAM_HEAD = 10 };
extern const char gzip_stream_head[GZIP_STREAM_HEAD];
int gzip_part(const char *bytes, size_t len, Str *out, Err *err);

/* Appends what a gzip text holds to `out`, at most to out's ceiling (-EFBIG). -EBADMSG where it is damaged or cut. Any
 * thread. */
int gzip_unpack(const char *bytes, size_t len, Str *out, Err *err);
