/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks zstd (RFC 8878) as a stream, like Inflate (base/gzip.h), by libzstd.so.1, which is opened when it is first
 * needed. Frames one behind the other are one text; windows over 128 MiB (--long) are refused. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/gzip.h"

typedef struct Unzstd Unzstd;

/* Whether bytes begin as zstd does. */
bool unzstd_is_zstd(const void *bytes, size_t len);

/* `context` is borrowed. -ENOENT, -ENOSYS where there is no libzstd that can be used. */
int unzstd_new(InflatePull pull, void *context, Unzstd **ret, Err *err);
void unzstd_free(Unzstd *unzstd); /* accepts NULL */
CLEANUP_POINTER(Unzstd, unzstd_free);

/* As inflate_read. */
ssize_t unzstd_read(Unzstd *unzstd, void *buffer, size_t len, Err *err);

uint64_t unzstd_given(const Unzstd *unzstd); /* bytes of text given out so far */
