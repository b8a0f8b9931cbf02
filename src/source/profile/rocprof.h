/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON of rocprofv3 (AMD's rocprofiler-sdk) as trace JSON, so that there is one reader of what events mean.
 * Kernels, copies, calls of HIP, HSA and RCCL and ROCTx ranges become events; agents that are GPUs become devices. One
 * record and the names that records refer to are held in memory, the text is made as it is read. The format is the one
 * of rocprofiler-sdk, source/docs/rocprofv3-schema.json and source/lib/output/generateJSON.cpp: a list of processes, in
 * each names before records. One thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/gzip.h"

typedef struct Rocprof Rocprof;

bool rocprof_is_results(const char *bytes, size_t len); /* by the first bytes */

Rocprof *rocprof_new(InflatePull pull, void *context); /* `context` is borrowed */
void rocprof_free(Rocprof *rocprof);                   /* accepts NULL */

/* The next bytes of the text as read(2) gives them. In place of records that are damaged there is text that is no
 * event; of a file that is cut the text ends early too. The source's error comes behind the text before it. */
ssize_t rocprof_read(Rocprof *rocprof, void *buffer, size_t len, Err *err);

uint64_t rocprof_given(const Rocprof *rocprof); /* bytes of text given out so far */
