/* SPDX-License-Identifier: Apache-2.0 */
#include "service/render/variables.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

void variables_add(Variables *to, const JobSpec *spec, Variable variable)
{
    for (size_t i = 0; i < spec->env_count; i++)
        if (strcmp(spec->env[i].name, variable.name) == 0)
            return;
    vec_push(to, variable);
}

void variables_add_sizes(Variables *to, const JobSpec *spec, Arena *arena)
{
    const bool launcher = job_spec_has_launcher(spec);
    const uint64_t processes = launcher ? spec->nodes * spec->gpus : spec->nodes;

    variables_add(to, spec,
                  (Variable){.name = "WORLD_SIZE",
                             .value = arena_printf(arena, "%" PRIu64, processes),
                             .why = launcher ? "processes, one per GPU" : "processes, one per node"});
    if (!launcher)
        return;
    variables_add(to, spec,
                  (Variable){.name = "PET_NNODES",
                             .value = arena_printf(arena, "%" PRIu64, spec->nodes),
                             .why = "torchrun takes options it is not given from PET_*"});
    variables_add(
        to, spec,
        (Variable){.name = "PET_NPROC_PER_NODE", .value = arena_printf(arena, "%" PRIu64, spec->gpus), .why = NULL});
}

static const char *to_upper(Arena *arena, const char *text)
{
    char *upper = arena_strdup(arena, text);

    for (char *at = upper; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return upper;
}

static void add_nccl(Variables *to, const JobSpec *spec, Arena *arena)
{
    const Variable rows[] = {
        {"NCCL_SOCKET_IFNAME", spec->interface, false, "NCCL's own connections, and data over TCP, use this interface"},
        {"NCCL_IB_HCA", spec->hca, false, "data between nodes uses these adapters and not those of storage"},
        {"NCCL_IB_GID_INDEX", spec->gid_index, false, "the RoCE address (v2, of the right VLAN) as the site says"},
        {"NCCL_IB_DISABLE", spec->fabric == JOB_TCP ? "1" : NULL, false, "there is no RDMA between these nodes"},
        {"FI_PROVIDER", spec->fabric == JOB_EFA ? "efa" : NULL, false,
         "libfabric uses EFA, or the job fails instead of running over TCP"},
        {"NCCL_DEBUG", spec->debug ? to_upper(arena, spec->debug) : NULL, false, "what NCCL writes to the log"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value)
            variables_add(to, spec, rows[i]);
}

void variables_add_rest(Variables *to, const JobSpec *spec, Arena *arena)
{
    if (spec->checkpoint_path)
        variables_add(to, spec,
                      (Variable){.name = "CHECKPOINT_DIR",
                                 .value = spec->checkpoint_path,
                                 .why = "where the program keeps its checkpoints"});
    add_nccl(to, spec, arena);
    for (size_t i = 0; i < spec->env_count; i++)
        vec_push(to, ((Variable){.name = spec->env[i].name, .value = spec->env[i].value}));
}
