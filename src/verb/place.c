/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place replay`: places a recorded workload on a recorded cluster and says how much of it was used. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "engine/place/replay.h"
#include "service/place/replay_report.h"
#include "source/openb/openb.h"
#include "verb/place/place.h"
#include "verb/slurm/slurm_verbs.h"

enum { REPORT_MAX = 1 << 20 };

typedef struct ReplayOptions {
    const char *nodes, *pods, *order, *mode;
    bool json;
} ReplayOptions;

static const OptSpec replay_opts[] = {
    OPT_ROW("nodes", OPT_STRING, ReplayOptions, nodes, .metavar = "CSV",
            .help = "the cluster: sn,cpu_milli,memory_mib,gpu,model"),
    OPT_ROW("pods", OPT_STRING, ReplayOptions, pods, .metavar = "CSV",
            .help = "the workload: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"),
    OPT_ROW("order", OPT_STRING, ReplayOptions, order, .metavar = "FILE",
            .help =
                "which pods come, in which order, and which of equal nodes is first (without: each pod once, by name)"),
    OPT_ROW("mode", OPT_STRING, ReplayOptions, mode, .metavar = "MODE", .def = "pack",
            .help = "what to aim for; 'stoker place modes' lists them"),
    OPT_ROW("json", OPT_BOOL, ReplayOptions, json, .help = "as JSON"),
};

CLEANUP_POINTER(Placement, placement_free);

static int replay_run_verb(VerbCall *call, const void *options)
{
    const ReplayOptions *o = options;
    const PlacementMode *mode = placement_mode_find(o->mode);
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    Replay *replay = arena_calloc(call->arena, 1, sizeof *replay);
    OpenbWorkload work;

    if (!o->nodes || !o->pods)
        return verb_failf(call, EXIT_USAGE, "needs --nodes CSV and --pods CSV");
    if (!mode)
        return verb_failf(call, EXIT_USAGE, "--mode: no mode '%s'; 'stoker place modes' lists them", o->mode);
    if (openb_read(o->nodes, o->pods, o->order, call->arena, &work, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    CLEANUP(placement_free_at) Placement *placement = placement_new(work.nodes, work.node_count, work.node_order, mode);
    placement_set_typical(placement, work.pods, work.pod_count);
    const uint64_t began = clock_read(CLOCK_PROCESS_CPUTIME_ID);
    replay_run(placement, work.pods, work.order, work.order_count, replay);
    const uint64_t took = clock_read(CLOCK_PROCESS_CPUTIME_ID) - began;
    (o->json ? replay_json : replay_text)(replay, o->mode,
                                          took ? (double)replay->pods * NS_PER_S / (double)took : (double)NAN, &out);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

static const Verb verb_place_replay = {
    .name = "replay",
    .summary = "place a recorded workload and say how much of the cluster was used",
    .usage = "--nodes CSV --pods CSV [--order FILE] [--mode MODE] [--json]",
    .description =
        "Places one pod after the other, as they come; none ever ends, and one that does not fit is not tried again. "
        "Prints how much of the GPUs is allocated at each per cent of demand that has arrived, how much is free in "
        "pieces that no typical pod can use, and the power drawn. The files are those of the openb traces, plain or "
        "gzip.\n\n"
        "Besides Stoker's own modes it has published policies, to compare with. Power is an estimate from a table of "
        "GPU models and one model of CPU.",
    .examples = "stoker place replay --nodes nodes.csv --pods pods.csv\n"
                "stoker place replay --nodes nodes.csv --pods pods.csv --mode fgd --json | jq '.alloc_at[\"100\"]'",
    .exit_codes = "0  placed; pods that did not fit are counted\n"
                  "2  the command line is wrong, or a file cannot be read",
    VERB_OPTS(replay_opts, ReplayOptions),
    .no_args = "",
    .run = replay_run_verb,
};

static int modes_run(VerbCall *call, const void *options UNUSED)
{
    (void)call;
    for (const PlacementMode *const *mode = placement_modes; *mode; mode++)
        printf("%-15s %s\n", placement_mode_name(*mode), placement_mode_text(*mode));
    printf("\nterms that a plan can weigh:\n");
    for (const WordRow *term = placement_terms; term < placement_terms + PLACEMENT_TERM_END; term++)
        printf("  %-15s %s\n", term->key, term->text);
    return EXIT_FINE;
}

static const Verb verb_place_modes = {
    .name = "modes",
    .summary = "list the modes of placement and what they weigh",
    .examples = "stoker place modes",
    .no_args = "",
    .run = modes_run,
};

static const Verb *const subs[] = {&verb_place_why,      &verb_place_defrag, &verb_place_replay,
                                   &verb_place_simulate, &verb_place_slurm,  &verb_place_serve,
                                   &verb_place_config,   &verb_place_modes,  NULL};

const Verb verb_place = {
    .name = "place",
    .summary = "where requests for GPUs go in a cluster",
    .examples = "stoker place replay --nodes nodes.csv --pods pods.csv",
    .subs = subs,
};
