/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker check`: may work run here, by profile. Decides nothing about health: an open incident counts by what it says
 * of use (incident_use), an epilog also takes what wants a reset, prolog and epilog look for left-over processes and
 * memory. Pure: a snapshot in, a line out; agent and verb use the same.
 */

#include "base/str.h"
#include "model/snapshot.h"

/* PROFILE(id, key, what it is for) */
#define CHECK_PROFILE_TABLE(PROFILE)                                                                                   \
    PROFILE(SLURM, "slurm", "Slurm's HealthCheckProgram: is there a reason to drain the node")                         \
    PROFILE(LIVENESS, "liveness", "a Kubernetes liveness probe of the agent: does it answer")                          \
    PROFILE(READINESS, "readiness", "a Kubernetes readiness probe of the agent: does it see every GPU")                \
    PROFILE(PROLOG, "prolog", "before a job: are its GPUs fit and empty")                                              \
    PROFILE(EPILOG, "epilog", "after a job: what is left on its GPUs, what has happened since it began")

typedef enum CheckProfile {
#define PROFILE(id, key, text) CHECK_##id,
    CHECK_PROFILE_TABLE(PROFILE)
#undef PROFILE
        CHECK_PROFILE_END,
} CheckProfile;

/* A line; a JSON object on one line; or the reason for `scontrol update ... reason=`, empty where there is none. */
typedef enum CheckFormat { CHECK_LINE, CHECK_JSON, CHECK_REASON } CheckFormat;

/* Words, NULL-ended, in the order of the enums. */
extern const char *const check_profile_names[], *const check_format_names[];

enum { CHECK_TEXT_CAP = 320, CHECK_FINDINGS_MAX = 64, CHECK_GPUS_MAX = 64, CHECK_WORDS_MAX = CHECK_GPUS_MAX + 5 };

/* Answers the words "check PROFILE FORMAT SINCE_MS SHARED GPU...", of the control socket or of the verb alone:
 * SINCE_MS is when the job began (epilog; 0: not known), SHARED is 1 where processes on the GPUs are no finding, a GPU
 * is an index, UUID, PCI address or UUID of a MIG device; none: all. `agent`: an agent answers, who has seen more than
 * this moment. Writes a line and returns an exit code; EXIT_USAGE with a sentence for words that are none. */
int check_answer(const Snapshot *seen, bool agent, const char *const *words, size_t count, Str *out);
/* An answer that needs no snapshot. */
void check_write_line(CheckProfile profile, CheckFormat format, int code, const char *line, Str *out);
