/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker why`: what takes the time of the GPUs, from the running agent or, without one, after a look of some seconds.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/cleanup.h"
#include "service/why/why.h"
#include "verb/agent/control.h"
#include "verb/agent/local_node.h"
#include "verb/verb.h"

enum { ASK_MS = 5000 };

typedef struct WhyOptions {
    LookOptions look;
    bool json;
    uint64_t for_ns;
} WhyOptions;

static const OptSpec why_opts[] = {
    OPT_ROW("json", OPT_BOOL, WhyOptions, json, .help = "as JSON, with every number"),
    OPT_ROW("for", OPT_DURATION, WhyOptions, for_ns, .def = "12s", .min = 2e9, .max = 120e9,
            .help = "without an agent: how long to sample; the last minute of it counts"),
    LOOK_OPTS(WhyOptions),
};

/* Looks for so long; a sample a second. */
static const Snapshot *look_at_node(LocalNode *local, uint64_t for_ns)
{
    Clock *clock = clock_kernel();
    const uint64_t end = clock_monotonic(clock) + for_ns;
    const Snapshot *seen = local_node_wait(local);

    while (clock_monotonic(clock) < end) {
        local_node_run(local, NS_PER_S);
        seen = local_node_read(local);
    }
    return seen;
}

/* Whether the driver answered for one of the GPUs at least. */
static bool is_answered(const Node *node)
{
    bool any = node->gpu_count == 0;

    for (size_t i = 0; i < node->gpu_count; i++)
        any |= node->gpus[i].state != GPU_STARTING;
    return any && !node->driver_why[0];
}

static int answer_alone(VerbCall *call, const WhyOptions *o, const char *name, Str *out)
{
    CLEANUP(local_node_free_at) LocalNode *local = NULL;
    char span[DURATION_TEXT_MAX];
    WhyAsk ask;

    TRY(local_node_new(o->look.library, o->look.root, 0, &local, &call->err));
    duration_format(span, o->for_ns);
    if (!o->json && isatty(STDERR_FILENO))
        fprintf(stderr, "No agent runs: looking for %s.\n", span);
    const Snapshot *seen = look_at_node(local, o->for_ns);
    TRY(why_find_subject(seen, name, &ask, &call->err));
    if (o->json) {
        why_json(seen, &ask, out);
    } else {
        const WhyStyle style = {verb_width(), verb_coloured(VERB_COLOUR_AUTO, true), verb_utf8()};
        why_text(seen, &ask, &style, out);
        str_addf(out, "\nWithout an agent: looked for %s. An agent knows the last minute at once.\n", span);
    }
    return is_answered(seen->node) ? EXIT_FINE : EXIT_UNKNOWN;
}

static int why_run(VerbCall *call, const void *options)
{
    const WhyOptions *o = options;
    const char *name = call->args.len > 0 ? call->args.items[0] : "";
    CLEANUP(str_done) Str out = {0};
    char line[256];
    int code = 0, rc = -ENOENT;

    if (call->args.len > 1)
        return verb_failf(call, EXIT_USAGE, "one GPU, pid or job at most");
    if ((call->args.len > 0 && !name[0]) || strlen(name) >= WHY_NAME_CAP || strcspn(name, " \t\r\n") != strlen(name))
        return verb_failf(call, EXIT_USAGE, "'%.100s' is no GPU, pid or job", name);
    str_init(&out, CONTROL_REPLY_MAX);
    if (!o->look.alone) {
        if (o->json)
            snprintf(line, sizeof line, "why json %s", name);
        else
            snprintf(line, sizeof line, "why text %zu %d %s", verb_width(),
                     verb_coloured(VERB_COLOUR_AUTO, true) + 2 * verb_utf8(), name);
        rc = control_ask(control_path(o->look.control, call->arena), line, ASK_MS, &out, &code, &call->err);
        if (rc < 0 && (o->look.control || (rc != -ENOENT && rc != -ECONNREFUSED)))
            return verb_fail(call, EXIT_UNKNOWN);
        if (rc == 0 && code != EXIT_FINE)
            return verb_failf(call, code, "%.*s", (int)strcspn(out.text, "\n"), out.text);
    }
    if (rc < 0) {
        code = answer_alone(call, o, name, &out);
        if (code < 0)
            return verb_fail(call, EXIT_UNKNOWN);
    }
    fwrite(out.text, 1, out.len, stdout);
    return code;
}

const Verb verb_why = {
    .name = "why",
    .summary = "what takes the time of each GPU, with the numbers and what to change",
    .usage = "[GPU | PID | JOB] [--json]",
    .description =
        "Shows what takes the time of each GPU and MIG instance: what it computes on, or what it waits for. With the "
        "share of the last minute, the confidence, the counters behind the answer, what to change and where to look "
        "next. It uses counters only: no profile, no change to the program. If the counters of a board cannot "
        "distinguish two causes, it names both and what would. GPU is an index, a UUID or a PCI address. Another "
        "number is a pid or the number of a job; a pod (POD or NAMESPACE/POD) or the id of a container selects its "
        "GPUs too. Asks the running agent. Without an agent it samples the GPUs itself for some seconds.",
    .examples = "stoker why\n"
                "stoker why 3\n"
                "stoker why 4711 --json | jq '.gpus[].cause'\n"
                "stoker why --alone --for 60s",
    .exit_codes = "0  it is shown\n"
                  "2  the command line is wrong\n"
                  "3  unknown: neither an agent nor the driver answers, or nothing has this name",
    VERB_OPTS(why_opts, WhyOptions),
    .run = why_run,
};
