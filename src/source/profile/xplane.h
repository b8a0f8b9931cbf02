/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An .xplane.pb of XLA's profiler (JAX, TensorFlow) as the trace JSON that the profiler writes beside it: planes are
 * processes, lines are threads, with their ids; statistics are args. So there is one reader of what they mean. The file
 * is held in memory, the text is made as it is read. The format is the message XSpace of tsl/profiler/protobuf/
 * xplane.proto. One thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/gzip.h"

typedef struct Xplane Xplane;

/* By the first bytes: a plane that begins with its id, if any, and a printable name. */
bool xplane_is_xspace(const char *bytes, size_t len);

Xplane *xplane_new(InflatePull pull, void *context); /* `context` is borrowed */
void xplane_free(Xplane *xplane);                    /* accepts NULL */

/* The next bytes of the text as read(2) gives them. Of a file that is cut or damaged the text ends early too. -EFBIG
 * over 2 GiB, which is protobuf's own limit; else the source's error. */
ssize_t xplane_read(Xplane *xplane, void *buffer, size_t len, Err *err);

uint64_t xplane_given(const Xplane *xplane); /* bytes of text given out so far */
