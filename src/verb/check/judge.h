/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `stoker check`: may work run here, by profile. Decides nothing about health: an open incident counts by what it says
 * of use (incident_use), an epilog also takes what wants a reset, prolog and epilog look for left-over processes and
 * memory. Pure: a snapshot in, a line out; agent and verb use the same.
 */

#include "base/str.h"
#include "model/incident.h"
#include "model/node.h"
#include "service/api/api.h"

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
extern const char *const check_profile_names[]; /* NULL-ended, in the order of the enum */

typedef enum CheckFormat { CHECK_LINE, CHECK_JSON, CHECK_REASON } CheckFormat;

typedef struct CheckAsk {
    CheckProfile profile;
    uint64_t since_real_ns;  /* epilog: when the job began; 0: not known */
    bool shared;             /* processes on the GPUs are no finding */
    bool agent;              /* an agent answers, who has seen more than this moment */
    const char *const *gpus; /* indexes, UUIDs, PCI addresses, UUIDs of MIG devices */
    size_t gpu_count;        /* 0: all */
} CheckAsk;

enum { CHECK_TEXT_CAP = 320, CHECK_FINDINGS_MAX = 64, CHECK_GPUS_MAX = 64 };

typedef struct CheckFinding {
    uint32_t gpu;                   /* DEVICE_NO_NUMBER: the node */
    char class[INCIDENT_CLASS_CAP]; /* of the incident, else a key of api_causes */
    const char *incident, *action;
    FaultSeverity severity;
    char text[CHECK_TEXT_CAP];
} CheckFinding;

typedef struct CheckResult {
    int code;       /* an exit code of the verb */
    size_t count;   /* of all findings */
    size_t listed;  /* of them, the worst first */
    uint32_t asked; /* GPUs that were looked at */
    CheckFinding findings[CHECK_FINDINGS_MAX];
} CheckResult;

void check_judge(const Snapshot *seen, const CheckAsk *ask, CheckResult *ret);
/* A line; a JSON object on one line; or the reason for `scontrol update ... reason=`, empty where there is none. Each
 * ends with a newline. */
void check_write(const CheckAsk *ask, const CheckResult *result, CheckFormat format, Str *out);
/* The same for what could not be told. */
void check_write_unknown(CheckProfile profile, int code, const char *why, CheckFormat format, Str *out);

/* The control socket's words: check PROFILE FORMAT SINCE_MS SHARED GPU... Returns an exit code; EXIT_USAGE with a
 * sentence for words that are none. */
int check_answer(const Snapshot *seen, const char *const *words, size_t count, Str *out);
