/* SPDX-License-Identifier: Apache-2.0 */
/* A script for sbatch: one task per node. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "service/render/quote.h"
#include "service/render/variables.h"

#define MIB (UINT64_C(1) << 20)
enum { SAVE_S = 120 }; /* before the time limit the program is told to save */

/* How Slurm keeps a job within a domain: by required or not. NULL: it cannot. `%` is the number of nodes. */
static const struct {
    const char *preferred, *required;
} domains[] = {
    [JOB_NVLINK] = {NULL, "--segment=%  # all nodes in one block of the block topology: one NVLink domain"},
    [JOB_RACK] = {"--switches=1@00:10:00  # waits at most so long for nodes under one leaf switch",
                  "--switches=1  # waits for nodes under one leaf switch"},
    [JOB_BLOCK] = {NULL, NULL},
};

/* --- lines of sbatch ---------------------------------------------------------------------------------------------- */

static void add_option(const char *name, const char *value, Str *to)
{
    if (value)
        str_addf(to, "#SBATCH --%s=%s\n", name, value);
}

static void add_count(const char *name, uint64_t value, const char *unit, Str *to)
{
    if (value > 0)
        str_addf(to, "#SBATCH --%s=%" PRIu64 "%s\n", name, value, unit);
}

/* "1-06:00:00"; whole seconds, at least one. */
static void add_time(uint64_t ns, Str *to)
{
    const uint64_t s = (ns + NS_PER_S - 1) / NS_PER_S;

    if (s > 0)
        str_addf(to, "#SBATCH --time=%" PRIu64 "-%02u:%02u:%02u\n", s / 86400, (unsigned)(s / 3600 % 24),
                 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
}

static int add_topology(const JobSpec *spec, Str *to, Err *err)
{
    if (spec->within == JOB_ANYWHERE)
        return 0;
    const char *text = spec->required ? domains[spec->within].required : domains[spec->within].preferred;
    if (!text)
        return err_set(err, -EINVAL, "topology: Slurm has no option for this: use rack, or nvlink with required: true");
    const char *comment = strstr(text, "  # ");
    str_addf(to, "# %s\n#SBATCH ", comment + 4);
    for (const char *at = text; at < comment; at++)
        if (*at == '%')
            str_addf(to, "%" PRIu64, spec->nodes);
        else
            str_addc(to, *at);
    str_addc(to, '\n');
    return 0;
}

static int add_options(const JobSpec *spec, Str *to, Err *err)
{
    add_option("job-name", spec->name, to);
    add_option("account", spec->account, to);
    add_option("partition", spec->partition, to);
    add_option("qos", spec->qos, to);
    add_count("nodes", spec->nodes, "", to);
    str_add(to, "# one task per node; torchrun starts one process per GPU\n");
    add_count("ntasks-per-node", 1, "", to);
    add_count("gpus-per-node", spec->gpus, "", to);
    add_count("cpus-per-task", spec->cpus, "", to);
    add_count("mem", (spec->memory_bytes + MIB - 1) / MIB, "M", to);
    add_time(spec->time_limit_ns, to);
    TRY(add_topology(spec, to, err));
    if (spec->restarts > 0)
        str_add(to, "# again after a node has failed, and into the same log\n"
                    "#SBATCH --requeue\n#SBATCH --open-mode=append\n");
    else
        str_add(to, "#SBATCH --no-requeue\n");
    if (spec->checkpoint_ns > 0 || spec->checkpoint_path)
        str_addf(to, "# %d s before the time limit this script is told\n#SBATCH --signal=B:USR1@%d\n", SAVE_S, SAVE_S);
    return 0;
}

/* --- the script --------------------------------------------------------------------------------------------------- */

static void collect_variables(const JobSpec *spec, Arena *arena, Variables *to)
{
    variables_add(to, spec, (Variable){"MASTER_ADDR", "${hosts%%$'\\n'*}", true, "the first node"});
    variables_add(to, spec,
                  (Variable){"MASTER_PORT", "$((20000 + SLURM_JOB_ID % 10000))", true,
                             "another one for each job, as jobs may share a node"});
    variables_add_sizes(to, spec, arena);
    if (job_spec_has_launcher(spec)) {
        variables_add(to, spec, (Variable){"PET_RDZV_BACKEND", "c10d", false, NULL});
        variables_add(to, spec, (Variable){"PET_RDZV_ENDPOINT", "$MASTER_ADDR:$MASTER_PORT", true, NULL});
        variables_add(to, spec, (Variable){"PET_RDZV_ID", "$SLURM_JOB_ID", true, NULL});
    }
    variables_add_rest(to, spec, arena);
}

static void add_variables(const JobSpec *spec, Arena *arena, Str *to)
{
    CLEANUP_VEC Variables variables = {0};

    str_add(to, "hosts=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n");
    collect_variables(spec, arena, &variables);
    for (size_t i = 0; i < variables.len; i++) {
        const Variable *v = &variables.at[i];

        if (v->why)
            str_addf(to, "# %s\n", v->why);
        if (v->raw) { /* in two steps, so that a failure ends the script */
            str_addf(to, "%s=\"%s\"\nexport %s\n", v->name, v->value, v->name);
            continue;
        }
        str_addf(to, "export %s=", v->name);
        quote_shell(v->value, to);
        str_addc(to, '\n');
    }
}

/* Pyxis takes "registry.example#train:1" for registry.example/train:1. */
static void add_image(const char *image, Arena *arena, Str *to)
{
    char *copy = arena_strdup(arena, image), *slash = strchr(copy, '/');

    if (slash && strcspn(copy, ".:") < (size_t)(slash - copy))
        *slash = '#';
    str_add(to, " --container-image=");
    quote_shell(copy, to);
}

static void add_srun(const JobSpec *spec, Arena *arena, Str *to)
{
    if (spec->image)
        str_add(to, "# --container-image is an option of the Pyxis plugin\n");
    str_add(to, "srun --kill-on-bad-exit=1");
    if (spec->cpus > 0) /* which srun does not take from sbatch */
        str_addf(to, " --cpus-per-task=%" PRIu64, spec->cpus);
    if (spec->image)
        add_image(spec->image, arena, to);
    if (!job_spec_has_launcher(spec))
        str_add(to, " bash -c 'export RANK=\"$SLURM_PROCID\" NODE_RANK=\"$SLURM_NODEID\" LOCAL_RANK=0; exec \"$@\"' "
                    "bash");
    for (size_t i = 0; i < spec->command.len; i++) {
        str_addc(to, ' ');
        quote_shell(spec->command.items[i], to);
    }
}

/* The batch shell gets the signal; SIGTERM is what the program gets on Kubernetes too, and what torchrun hands on. srun
 * itself would take it for the end and kill the tasks: scancel sends it to them. */
static void add_saving_step(const JobSpec *spec, Arena *arena, Str *to)
{
    str_add(to, "stopped= code=0\n"
                "trap 'stopped=1; scancel --signal=TERM \"$SLURM_JOB_ID\" || true' USR1\n");
    add_srun(spec, arena, to);
    str_add(to, " &\nstep=$!\nwait \"$step\" || code=$?\n"
                "if [ -n \"$stopped\" ]; then # the signal ended wait, not the step\n"
                "    code=0\n    wait \"$step\" || code=$?\n");
    if (spec->restarts > 0)
        str_addf(to,
                 "    # out of time: once more, from the checkpoint\n"
                 "    if [ \"${SLURM_RESTART_COUNT:-0}\" -lt %" PRIu64
                 " ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n",
                 spec->restarts);
    str_add(to, "fi\nexit \"$code\"\n");
}

int render_slurm(const JobSpec *spec, Arena *arena, Str *to, Err *err)
{
    str_add(to, "#!/bin/bash\n");
    TRY(add_options(spec, to, err));
    str_add(to, "set -eu\n");
    if (spec->restarts > 0)
        str_addf(to,
                 "if [ \"${SLURM_RESTART_COUNT:-0}\" -gt %" PRIu64 " ]; then\n"
                 "    echo \"restarted %" PRIu64 " times, no more\" >&2\n    exit 1\nfi\n",
                 spec->restarts, spec->restarts);
    str_addc(to, '\n');
    add_variables(spec, arena, to);
    str_addc(to, '\n');
    if (spec->checkpoint_ns > 0 || spec->checkpoint_path) {
        add_saving_step(spec, arena, to);
    } else {
        add_srun(spec, arena, to);
        str_addc(to, '\n');
    }
    return 0;
}
