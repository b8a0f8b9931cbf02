/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What this process itself costs, as the process_* metrics of Prometheus have it. Reads /proc; any thread. */

#include <stdint.h>

#include "base/err.h"

typedef struct ProcSelf {
    uint64_t cpu_ns; /* user and system, of this process whatever the root; exact, where /proc counts hundredths */
    uint64_t rss_bytes, virtual_bytes;
    uint64_t open_fds, max_fds; /* max_fds UINT64_MAX: no limit */
    uint64_t start_real_ns;     /* wall clock */
} ProcSelf;

/* `root` stands before "/proc", "" for the real one. -errno, *ret untouched. */
int proc_self_read(const char *root, ProcSelf *ret, Err *err);
