/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the command line to what they ask for. */
#include "verb/trace/options.h"

#include <errno.h>

int trace_ask_parse(const TraceAskOptions *options, TraceAsk *ret, Err *err)
{
    TraceAsk ask = {.step = options->step, .no_host = !options->cpu, .no_python = !options->python};

    TRY(trace_moment_parse(options->from, "--from", &ask.from, err));
    TRY(trace_moment_parse(options->to, "--to", &ask.to, err));
    TRY(trace_numbers_parse(options->rank, "--rank", &ask.ranks, err));
    TRY(trace_numbers_parse(options->stream, "--stream", &ask.streams, err));
    TRY(trace_numbers_parse(options->device, "--device", &ask.devices, err));
    if (ask.from.given && ask.to.given && ask.from.relative == ask.to.relative && ask.from.ns >= ask.to.ns)
        return err_set(err, -EINVAL, "--from %s is not before --to %s", options->from, options->to);
    *ret = ask;
    return 0;
}
