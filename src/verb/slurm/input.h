/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where the verbs that speak of a whole Slurm cluster have its description from: files, stdin, or scontrol. */

#include "source/slurm/cluster.h"
#include "verb/verb.h"

typedef struct SlurmInput {
    const char *nodes, *jobs, *topology; /* files, "-" is stdin; NULL: not given */
    uint64_t timeout_ns;
} SlurmInput;

#define SLURM_INPUT_TIMEOUT(Options, input)                                                                            \
    OPT_ROW("timeout", OPT_DURATION, Options, input.timeout_ns, .def = "10s", .min = 100 * NS_PER_MS,                  \
            .max = 10 * NS_PER_MIN, .help = "how long to wait for each answer of scontrol")

/* Reads the files that are given; without --nodes asks scontrol, for jobs and switches too where `jobs`. Returns
 * EXIT_FINE, or an exit code after it said why. */
int slurm_input_read(VerbCall *call, const SlurmInput *input, bool jobs, SlurmCluster *ret);
/* Reads a file, "-" stdin, into the arena. -errno. */
int slurm_input_file(VerbCall *call, const char *path, SlurmText *ret);
