/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker trace cut`: a smaller profile from a large one. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "engine/trace/cut.h"
#include "verb/trace/one.h"
#include "verb/trace/outfile.h"
#include "verb/trace/progress.h"
#include "verb/trace/run.h"
#include "verb/verb.h"

enum { CUT_THREADS = 2 };

typedef struct CutOptions {
    TraceAskOptions ask;
    const char *output;
    uint64_t memory;
} CutOptions;

static const OptSpec cut_opts[] = {
    TRACE_ASK_OPTS(CutOptions),
    OPT_ROW("output", OPT_STRING, CutOptions, output, .short_flag = 'o', .metavar = "FILE",
            .help = "where to; packed where the name ends in .gz, - is standard output"),
    OPT_ROW("memory", OPT_SIZE, CutOptions, memory, .max = -1,
            .help = "for what must be known of the profile before it is cut. 0: half of the machine's"),
};

static int report_cut(VerbCall *call, const CutOptions *o, const TraceCut *cut)
{
    if (strcmp(o->output, "-") != 0)
        printf("%" PRIu64 " of %" PRIu64 " events written to %s\n", cut->copied, cut->events, o->output);
    if (cut->lost)
        fprintf(stderr,
                "%s: the profile is damaged: %" PRIu64 " parts of it could not be read; 'stoker trace %s' says where\n",
                call->path, cut->lost, call->args.items[0]);
    return cut->lost ? EXIT_FINDING : EXIT_FINE;
}

/* The input and the output of one cut. */
typedef struct CutFile {
    ProfileInput *input;
    OutFile *out;
    const bool *stop;
} CutFile;

static int load_profile(void *context, const TraceScanOptions *options, Profile *into, Err *err)
{
    const CutFile *file = context;

    TRY(profile_input_rewind(file->input, err));
    return trace_load(file->input, file->stop, options, CUT_THREADS, into, err);
}

static int write_text(void *context, const char *bytes, size_t len, Err *err)
{
    const CutFile *file = context;

    return outfile_write(file->out, bytes, len, err);
}

static int cut_file(VerbCall *call, const CutOptions *o, TraceCut *cut)
{
    CLEANUP(profile_input_close_at) ProfileInput *input = NULL;
    CLEANUP(outfile_drop_at) OutFile *out = NULL;
    const bool *stop = stop_catch();
    Err *err = &call->err;

    TRY(profile_input_open(cut->path, true, NULL, stop, &input, err));
    const int64_t rank = trace_load_rank(input);

    if (!trace_numbers_has(&cut->ask->ranks, rank >= 0 ? rank : 0))
        return err_set(err, -ENOENT, "'%s' is not of a rank that --rank asks for", cut->path);
    TRY(outfile_open(o->output, &out, err));
    CutFile file = {.input = input, .out = out, .stop = stop};
    const TraceCutFile table = {.context = &file, .load = load_profile, .write = write_text};

    TRY(trace_cut(cut, &table, err));
    return outfile_commit(TAKE(out), err);
}

static int cut_run(VerbCall *call, const void *options)
{
    const CutOptions *o = options;
    TraceAsk ask;

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "needs one profile, got %zu", call->args.len);
    if (!o->output)
        return verb_failf(call, EXIT_USAGE, "needs to know where to write: -o small.json.gz");
    if (trace_ask_parse(&o->ask, &ask, &call->err) < 0)
        return verb_fail(call, EXIT_USAGE);
    if (strcmp(o->output, "-") == 0 && isatty(STDOUT_FILENO))
        return verb_failf(call, EXIT_USAGE, "a profile is not written to a terminal; name a file with -o");
    TraceCut cut = {
        .ask = &ask, .path = call->args.items[0], .memory = o->memory ? (size_t)o->memory : (size_t)trace_run_memory()};
    int rc = cut_file(call, o, &cut);
    stop_obey();
    return rc < 0 ? verb_fail(call, EXIT_UNKNOWN) : report_cut(call, o, &cut);
}

const Verb verb_trace_cut = {
    .name = "cut",
    .summary = "write a smaller profile: a window of time, a stream, without CPU events",
    .usage = "[OPTION...] FILE -o FILE",
    .description =
        "Copies of a profile what is asked for into a new one, which Perfetto and all other tools read. What stands "
        "around "
        "the events (the GPUs, the rank, the clock's base) comes along. Each event stays as it is in the file; where "
        "the "
        "file is damaged, what is written is well-formed all the same.\n\n"
        "A GPU operation is taken where it starts in the window, with the call that launched it and the arrow between "
        "them; everything on the host where it touches the window. To cut and then to analyse is the same as to "
        "analyse "
        "with these options. The file appears under its name when it is complete.",
    .examples = "stoker trace cut profile.json.gz --step last -o step.json.gz\n"
                "stoker trace cut profile.json --from 1.5s --to 1.7s -o window.json\n"
                "stoker trace cut profile.json --no-cpu --stream 7,20 -o gpu.json.gz",
    .exit_codes = "0  written\n"
                  "1  written, but parts of the profile could not be read\n"
                  "2  the command line is wrong\n"
                  "3  the profile could not be read, or the new one not be written",
    VERB_OPTS(cut_opts, CutOptions),
    .run = cut_run,
};
