/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A distributed training job, described in a short YAML file, as what a scheduler takes: the manifest of a Job for
 * Kubernetes, alone or with Kueue or Volcano, or a script for sbatch. Pure; one thread.
 */

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include "model/word.h"

enum { JOB_TEXT_MAX = 4 << 20, JOB_NODES_MAX = 100000 };

/* Whom it is for. WORD(id, key) */
#define JOB_TARGET_TABLE(WORD)                                                                                         \
    WORD(JOB_FOR_KUBERNETES, "kubernetes")                                                                             \
    WORD(JOB_FOR_KUEUE, "kueue")                                                                                       \
    WORD(JOB_FOR_VOLCANO, "volcano")                                                                                   \
    WORD(JOB_FOR_SLURM, "slurm")

typedef enum JobTarget { JOB_TARGET_TABLE(WORD_ID) JOB_TARGET_END } JobTarget;
extern const char *const job_targets[]; /* their keys, NULL-terminated */

typedef enum JobWithin { JOB_ANYWHERE, JOB_NVLINK, JOB_RACK, JOB_BLOCK } JobWithin;
typedef enum JobFabric { JOB_FABRIC_UNKNOWN, JOB_INFINIBAND, JOB_ROCE, JOB_EFA, JOB_TCP } JobFabric;

typedef struct JobVariable {
    const char *name, *value;
} JobVariable;

/* The description. Texts lie in the arena; one that is not given is NULL, a number 0. */
typedef struct JobSpec {
    const char *name, *image;
    OptList command;
    uint64_t nodes, gpus, cpus; /* GPUs and cores of each node */
    uint64_t memory_bytes;
    const char *queue, *priority;
    int within; /* JobWithin */
    bool required;
    const char *label; /* of nodes, that `within` stands for */
    uint64_t checkpoint_ns;
    const char *checkpoint_path;
    uint64_t restarts;
    uint64_t time_limit_ns;
    const char *interface, *hca, *debug;
    int fabric; /* JobFabric */
    const char *gid_index;
    const YamlNode *env_node;
    const char *account, *partition, *qos;
    const JobVariable *env;
    size_t env_count;
} JobSpec;

/* -EINVAL: an error names file, line, column and key. */
int job_spec_read(const char *name, const char *text, size_t len, Arena *arena, JobSpec *ret, Err *err);

/* Whether the command starts a process per GPU by itself: torchrun. */
bool job_spec_has_launcher(const JobSpec *spec);

/* -EINVAL: the target lacks something that the description demands, or the description something that it needs. */
int job_render(const JobSpec *spec, JobTarget target, Arena *arena, Str *to, Err *err);

/* The parts of job_render. */
int render_kubernetes(const JobSpec *spec, JobTarget target, Arena *arena, Str *to, Err *err);
int render_slurm(const JobSpec *spec, Arena *arena, Str *to, Err *err);
