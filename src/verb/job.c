/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker job render`: a described training job as a manifest or a script for sbatch. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/render/render.h"
#include "verb/verb.h"

enum { FILE_MAX = 1 << 20 };

typedef struct RenderOptions {
    int target;
} RenderOptions;

static const OptSpec render_opts[] = {
    OPT_ROW("for", OPT_ENUM, RenderOptions, target, .names = job_targets, .def = "kubernetes",
            .help = "what takes the job"),
};

static int render_run(VerbCall *call, const void *options)
{
    const RenderOptions *o = options;
    CLEANUP(str_done) Str text = str_limited(FILE_MAX), out = str_limited(JOB_TEXT_MAX);
    JobSpec spec;

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs one FILE that describes the job, or - for stdin");
    const char *path = call->args.items[0];
    if (verb_read_file(path, FILE_MAX, &text, &call->err) < 0 ||
        job_spec_read(path, text.text, text.len, call->arena, &spec, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (job_render(&spec, (JobTarget)o->target, call->arena, &out, &call->err) < 0) {
        err_add(&call->err, "%s", path);
        return verb_fail(call, EXIT_USAGE);
    }
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

static const Verb verb_job_render = {
    .name = "render",
    .summary = "write the manifest or the sbatch script of a training job",
    .usage = "[--for kubernetes|kueue|volcano|slurm] FILE",
    .description =
        "Reads a short YAML description of a distributed training job and prints what its scheduler takes: a headless "
        "Service and an Indexed Job for Kubernetes, the same suspended in a queue for Kueue, a Job of Volcano, or a "
        "script for sbatch. Ranks, addresses and the variables of NCCL that the description implies are in it, each "
        "with its reason. It starts nothing.\n\n"
        "Keys: name, image, command (a list), nodes, gpus, cpus and memory (of each node), queue, priority, "
        "topology.within (nvlink, rack, block), topology.required, topology.label, checkpoint.every, checkpoint.path, "
        "restart.max, time_limit, nccl.interface, nccl.hca, nccl.gid_index, nccl.fabric (infiniband, roce, efa, tcp), "
        "nccl.debug, env, and for Slurm account, partition and qos. name and command are required, image for "
        "Kubernetes. Keys of the other schedulers are left out.\n\n"
        "With torchrun there is one process per GPU, with any other command one per node. The program gets SIGTERM "
        "before it is stopped; on Slurm 120 seconds before the time limit, where checkpoint is given.",
    .examples = "stoker job render train.yaml | kubectl apply -f -\n"
                "stoker job render --for kueue train.yaml\n"
                "stoker job render --for slurm train.yaml > train.sbatch && sbatch train.sbatch",
    .exit_codes = "0  printed\n"
                  "2  the command line is wrong, the file cannot be read, or it demands what the scheduler has not",
    VERB_OPTS(render_opts, RenderOptions),
    .run = render_run,
};

static const Verb *const subs[] = {&verb_job_render, NULL};

const Verb verb_job = {
    .name = "job",
    .summary = "training jobs for Kubernetes and Slurm",
    .examples = "stoker job render --for slurm train.yaml",
    .subs = subs,
};
