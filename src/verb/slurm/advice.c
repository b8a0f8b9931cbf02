/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker place slurm JOBID`: why a job of Slurm's waits, and what to change. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/clock.h"
#include "service/place/why_report.h"
#include "source/slurm/reason.h"
#include "verb/slurm/input.h"
#include "verb/slurm/slurm_verbs.h"

enum { REPORT_MAX = 1 << 20, TIME_CAP = 32 };

typedef struct AdviceOptions {
    SlurmInput input;
    bool json;
} AdviceOptions;

static const OptSpec advice_opts[] = {
    OPT_ROW("nodes", OPT_STRING, AdviceOptions, input.nodes, .metavar = "FILE",
            .help = "output of 'scontrol show node --oneliner'; '-' is stdin (without: scontrol is run)"),
    OPT_ROW("jobs", OPT_STRING, AdviceOptions, input.jobs, .metavar = "FILE",
            .help = "output of 'scontrol show job --oneliner -d'"),
    OPT_ROW("topology", OPT_STRING, AdviceOptions, input.topology, .metavar = "FILE",
            .help = "output of 'scontrol show topology', or a topology.conf"),
    OPT_ROW("json", OPT_BOOL, AdviceOptions, json, .help = "as JSON"),
    SLURM_INPUT_TIMEOUT(AdviceOptions, input),
};

typedef struct Advice {
    const SlurmCluster *slurm;
    const ClusterJob *job;
    const SlurmJob *facts;
    const SlurmReason *reason; /* NULL: not in the table */
    WhyReport why;
} Advice;

/* --- texts -------------------------------------------------------------------------------------------------------- */

static const char *format_time(const AdviceOptions *o, uint64_t seconds, char out[TIME_CAP])
{
    const time_t at = (time_t)seconds;
    struct tm parts;

    if (!gmtime_r(&at, &parts) || !strftime(out, TIME_CAP - 1, "%Y-%m-%dT%H:%M:%S", &parts))
        return "?";
    return strcat(out, o->input.nodes ? "" : "Z");
}

/* The remedy with the job's id. */
static const char *make_remedy(Arena *arena, const Advice *a)
{
    CLEANUP(str_done) Str text = str_limited(1024);
    const char *at = a->reason->remedy, *hole;

    for (; (hole = strstr(at, "JOBID")); at = hole + 5) {
        str_addn(&text, at, (size_t)(hole - at));
        str_add(&text, a->facts->id);
    }
    str_add(&text, at);
    return arena_strdup(arena, text.text);
}

static void add_text(Arena *arena, const AdviceOptions *o, const Advice *a, Str *out)
{
    char at[TIME_CAP];

    str_addf(out, "Job %s of %s waits: %s\n", a->job->name, *a->facts->user ? a->facts->user : "an unknown user",
             *a->facts->reason ? a->facts->reason : "Slurm does not say why");
    if (a->reason)
        str_addf(out, "Means:     %s\nTo do:     %s\n", a->reason->meaning, make_remedy(arena, a));
    if (*a->facts->dependency)
        str_addf(out, "Depends:   %s\n", a->facts->dependency);
    if (*a->facts->licenses)
        str_addf(out, "Licences:  %s\n", a->facts->licenses);
    if (a->facts->expected_s)
        str_addf(out, "Expected:  Slurm expects it to start at %s\n", format_time(o, a->facts->expected_s, at));
    str_addc(out, '\n');
    why_report_text(&a->why, out);
    for (size_t i = 0; i < a->slurm->note_count; i++)
        str_addf(out, "%s %s\n", i == 0 ? "Note:     " : "          ", a->slurm->notes[i]);
    if (a->slurm->notes_left_out)
        str_addf(out, "           and %zu notes more\n", a->slurm->notes_left_out);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void add_json(Arena *arena, const Advice *a, Str *out)
{
    json_open(out, NULL, '{');
    json_add_text(out, "job", a->job->name);
    json_add_text(out, "user", a->facts->user);
    json_add_text(out, "account", a->job->queue);
    json_add_text(out, "reason", a->facts->reason);
    json_add_text(out, "meaning", a->reason ? a->reason->meaning : NULL);
    json_add_text(out, "remedy", a->reason ? make_remedy(arena, a) : NULL);
    json_add_time(out, "expected", a->facts->expected_s * NS_PER_S);
    json_open(out, "notes", '[');
    for (size_t i = 0; i < a->slurm->note_count; i++)
        json_add_text(out, NULL, a->slurm->notes[i]);
    json_close(out, ']');
    json_add_key(out, "why");
    why_report_json(&a->why, out);
    json_close(out, '}');
    str_addc(out, '\n');
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static int advice_run(VerbCall *call, const void *options)
{
    const AdviceOptions *o = options;
    CLEANUP(str_done) Str out = str_limited(REPORT_MAX);
    SlurmCluster *slurm = arena_calloc(call->arena, 1, sizeof *slurm);
    Explanation *explanation = arena_calloc(call->arena, 1, sizeof *explanation);

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs the id of one job");
    const int code = slurm_input_read(call, &o->input, true, slurm);
    if (code != EXIT_FINE)
        return code;
    const char *id = call->args.items[0];
    const size_t number = slurm_cluster_find_job(slurm, id);
    if (number == slurm->cluster.job_count)
        return verb_failf(call, EXIT_USAGE, "no job %s waits or runs", id);
    const uint64_t now_s = clock_real(clock_kernel()) / NS_PER_S;
    if (slurm->cluster.jobs[number].places)
        return verb_failf(call, EXIT_USAGE, "job %s runs; this verb is for jobs that wait", id);
    if (explain_job(&slurm->cluster, number, now_s, call->arena, explanation, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    const char *reason = slurm->jobs[number].reason;
    const Advice advice = {.slurm = slurm,
                           .job = &slurm->cluster.jobs[number],
                           .facts = &slurm->jobs[number],
                           .reason = slurm_reason_find(reason, strlen(reason)),
                           .why = {&slurm->cluster, explanation, now_s}};
    if (o->json)
        add_json(call->arena, &advice, &out);
    else
        add_text(call->arena, o, &advice, &out);
    fwrite(out.text, 1, out.len, stdout);
    return EXIT_FINE;
}

const Verb verb_place_slurm = {
    .name = "slurm",
    .summary = "why a job of Slurm's waits, and what to change",
    .usage = "JOBID [--nodes FILE --jobs FILE [--topology FILE]] [--json]",
    .description =
        "Prints what Slurm says of a waiting job, what that means and what to do; then what 'stoker place why' finds: "
        "what is short first, changes that would let it run, who holds the GPUs, and what each kind of node lacks.\n\n"
        "It runs scontrol, or reads its output from files, and changes nothing. Slurm may hide the jobs of others "
        "from users: then less is free than counted, and a note says so. An array that waits counts as one job. Times "
        "are in UTC, from files as they are there.",
    .examples = "stoker place slurm 4711\n"
                "stoker place slurm 4711_3 --json | jq .why.causes\n"
                "stoker place slurm 4711 --nodes nodes.txt --jobs jobs.txt",
    .exit_codes = "0  printed\n"
                  "2  the command line is wrong, a file cannot be read, or no such job waits\n"
                  "3  Slurm does not answer",
    VERB_OPTS(advice_opts, AdviceOptions),
    .run = advice_run,
};
