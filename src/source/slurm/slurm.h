/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What Slurm says of the jobs on this node: name, user, account, partition, nodes and limit, by `scontrol show job ID
 * -o` (scontrol(1)) in a child of a worker's thread with a deadline, once per job. The controller may not answer: then
 * the job is asked for again after SLURM_AGAIN_NS. One thread owns it.
 */

#include "base/err.h"
#include "base/log.h"
#include "model/owner.h"

#define SLURM_AGAIN_NS UINT64_C(60000000000)

enum { SLURM_JOBS_MAX = 256, SLURM_ANSWER_MAX = 4 << 20, SLURM_TIMEOUT_MS = 5000 };

typedef struct Slurm Slurm;

/* `program`: a path, or a name searched in PATH; copied. A program that is not there is not tried again. -errno where
 * no thread can be started. */
int slurm_new(const char *program, uint64_t timeout_ms, const Log *log, Slurm **ret, Err *err);
void slurm_free(Slurm *slurm); /* accepts NULL */

/* Once per tick: the jobs of these holdings are of interest, others are forgotten; takes an answer and asks for the
 * next job. Ids that are not Slurm's (digits, and behind one '_' or '+' digits) are not asked for. */
void slurm_tick(Slurm *slurm, const Holding *holdings, size_t count, uint64_t now_ns);

/* Those that have answered; valid until the next tick. */
JobInfoList slurm_jobs(const Slurm *slurm);

/* One answer, of several lines for an array; `ret->job` is the caller's. A key that comes twice is not believed (a user chose the job's name) and
 * stays unknown. -EBADMSG, and *ret untouched, for a text without a job. */
int slurm_parse(const char *text, JobInfo *ret);
