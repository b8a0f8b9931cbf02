/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One profile as a stream of text: a file, a gzip file, or standard input. What it is is told from its first bytes, not
 * from its name. A file can be read again from the start; a pipe cannot. One thread at a time reads a stream; plain
 * files may be read by several. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/trace/scan/scan.h"

enum { TRACE_INPUT_HEAD = 64 * 1024 }; /* of the text, for those who look before they read */

typedef struct TraceInput TraceInput;

/* Opens `path` ("-": standard input). -errno; -EBADMSG where the first bytes belong to something that is surely no
 * profile (an image, another compression): the text says what to do. `read_bytes` counts what is read of the file (its
 * packed size where it is gzip); borrowed, may be NULL. `stop` as in TraceSource. */
int trace_input_open(const char *path, atomic_uint_fast64_t *read_bytes, const bool *stop, TraceInput **ret, Err *err);
/* The same, but what comes through a pipe is first put into a file without a name (in $TMPDIR or /tmp), so that it can
 * be read again. */
int trace_input_open_again(const char *path, atomic_uint_fast64_t *read_bytes, const bool *stop, TraceInput **ret,
                           Err *err);
void trace_input_close(TraceInput *input); /* accepts NULL */

/* The text from its beginning; `size` is known for plain files alone. `ahead`: what has to be unpacked or comes through
 * a pipe is read ahead by a thread, until trace_input_settle; only then may the input be asked or read again. After
 * trace_input_rewind it can be: -ESPIPE where it comes from a pipe. */
TraceSource trace_input_source(TraceInput *input, bool ahead);
void trace_input_settle(TraceInput *input);
int trace_input_rewind(TraceInput *input, Err *err);

/* The first bytes of the file as it lies on the disk, and of the text in it (up to TRACE_INPUT_HEAD bytes). Valid as
 * long as the input. */
const char *trace_input_magic(const TraceInput *input, size_t *ret_len);
const char *trace_input_head(TraceInput *input, size_t *ret_len);

const char *trace_input_path(const TraceInput *input);

/* After reading: what was wrong with the compression, "" nothing; and how much text had come before that. */
const char *trace_input_damage(const TraceInput *input, uint64_t *ret_at);
/* Bytes behind a gzip file's end that are no gzip. */
uint64_t trace_input_garbage(const TraceInput *input);
