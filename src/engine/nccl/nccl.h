/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Diagnosis of a job's NCCL or RCCL communication from what it left behind: INFO logs, topology and graph XML, outputs
 * of nccl-tests, dumps of PyTorch's flight recorder. Bytes in, findings out: nothing here opens a file. Any mix of
 * inputs is read one after the other; what an input is, its content says. Text is read line by line in bounded memory;
 * XML, JSON and pickles are bounded by NCCL_WHOLE_MAX. Nothing of an input is ever executed. One thread at a time.
 *
 *     NcclJob *job = nccl_new();
 *     nccl_begin(job, "rank0.log");
 *     nccl_feed(job, bytes, len);      as often as there is more
 *     nccl_end(job);
 *     const NcclReport *report = nccl_finish(job);
 */

#include <stdbool.h>
#include <stddef.h>

#include "engine/nccl/report.h"

enum { NCCL_WHOLE_MAX = 256 << 20, NCCL_LINE_MAX = 64 << 10 };

typedef struct NcclJob NcclJob;

NcclJob *nccl_new(void);
void nccl_free(NcclJob *job); /* accepts NULL */

/* Begins an input. Findings refer to it by `name`; digits in it are the rank of a flight recorder's dump. */
void nccl_begin(NcclJob *job, const char *name);
/* Its next bytes, in pieces of any size. What the pieces are makes no difference. */
void nccl_feed(NcclJob *job, const void *bytes, size_t len);
/* It ends; `trouble` (or NULL) is why it ended early. */
void nccl_end(NcclJob *job, const char *trouble);

/* Draws the conclusions; once, after the last input. The report lives as long as the job. */
const NcclReport *nccl_finish(NcclJob *job);

/* 0 no problem, 1 an error or a warning, 3 no NCCL data was read. */
int nccl_exit_code(const NcclReport *report);

extern const char *const nccl_kind_words[NCCL_KIND_COUNT], *const nccl_part_words[NCCL_PART_COUNT],
                                                               *const nccl_severity_words[NCCL_SEVERITY_COUNT];
