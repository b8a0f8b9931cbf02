/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One profile as a stream of text: a file, plain or packed (gzip, zstd), or standard input. Its first bytes tell what
 * it is, not its name. A file can be read again from the start; a pipe cannot. One thread at a time. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { PROFILE_INPUT_HEAD = 64 * 1024 }; /* bytes of the text that can be looked at before it is read */

typedef struct ProfileInput ProfileInput;

/* Opens `path` ("-": standard input). -errno; -EBADMSG where the first bytes belong to something that is surely no
 * profile (an image, another compression): the text says what to do. `read_bytes` counts what is read of the file (its
 * packed size where it is gzip); borrowed, may be NULL. Reading ends with -EINTR when *stop becomes true; may be NULL.
 * With `again` a pipe is first copied into a file without a name (in $TMPDIR or /tmp), so that it can be read again. */
int profile_input_open(const char *path, bool again, atomic_uint_fast64_t *read_bytes, const bool *stop,
                       ProfileInput **ret, Err *err);
/* The same without counting, stopping, and refusing by the first bytes. */
int profile_input_open_any(const char *path, ProfileInput **ret, Err *err);
void profile_input_close(ProfileInput *input); /* accepts NULL */
CLEANUP_POINTER(ProfileInput, profile_input_close);

/* The next bytes of the text as read(2) gives them: 0 at the end, -errno. */
ssize_t profile_input_read(void *input, void *buffer, size_t len, Err *err);
int profile_input_rewind(ProfileInput *input, Err *err); /* -ESPIPE for a pipe */

/* The first bytes of the file as it lies on the disk, and of the text in it (up to PROFILE_INPUT_HEAD bytes). Valid as
 * long as the input. */
const char *profile_input_magic(const ProfileInput *input, size_t *ret_len);
const char *profile_input_head(const ProfileInput *input, size_t *ret_len);

const char *profile_input_path(const ProfileInput *input); /* "standard input" */
bool profile_input_is_stdin(const ProfileInput *input);

/* After reading: what was wrong with the compression, "" nothing; and how much text had come before that. */
const char *profile_input_damage(const ProfileInput *input, uint64_t *ret_at);
/* Bytes behind a gzip file's end that are no gzip. */
uint64_t profile_input_garbage(const ProfileInput *input);

/* Size of the whole text, estimated from the part that was read; 0 unknown (a pipe). */
uint64_t profile_input_text_size(const ProfileInput *input);
