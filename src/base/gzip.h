/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in one piece (RFC 1952), by isa-l: a page of 70 kB takes well under a millisecond. Any thread. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* Appends `len` bytes as a gzip member to `out`. -EFBIG where out's ceiling is met. */
int gzip_pack(const char *bytes, size_t len, Str *out, Err *err);

/* Appends what a gzip text holds to `out`, at most to out's ceiling (-EFBIG). -EBADMSG where it is damaged or cut. */
int gzip_unpack(const char *bytes, size_t len, Str *out, Err *err);
