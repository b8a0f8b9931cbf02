/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker maintenance`: windows in which incidents are marked and not sent. */
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "engine/health/maintenance.h"
#include "verb/agent/control.h"
#include "verb/past.h"

enum { GPUS_CAP = 512, REASON_WORDS = CONTROL_WORDS_MAX - 8 };

typedef struct MaintenanceOptions {
    const char *control, *reason;
    uint64_t for_ns;
    OptList gpus;
    bool json;
} MaintenanceOptions;

#define CONTROL_OPT                                                                                                    \
    OPT_ROW("control", OPT_STRING, MaintenanceOptions, control, .metavar = "FILE", .help = "the agent's control socket")

static const OptSpec start_opts[] = {
    OPT_ROW("for", OPT_DURATION, MaintenanceOptions, for_ns, .def = "1h", .min = 1e9, .max = 366. * 86400e9,
            .help = "how long the window lasts"),
    OPT_ROW("reason", OPT_STRING, MaintenanceOptions, reason, .short_flag = 'r', .metavar = "TEXT",
            .help = "the reason, which is shown with the window"),
    OPT_ROW("gpu", OPT_LIST, MaintenanceOptions, gpus, .short_flag = 'g', .metavar = "GPU",
            .help = "only this GPU (index, UUID, PCI address); may be repeated; without: the whole node"),
    CONTROL_OPT,
};

static const OptSpec stop_opts[] = {CONTROL_OPT};

static const OptSpec list_opts[] = {
    OPT_ROW("json", OPT_BOOL, MaintenanceOptions, json, .help = "as JSON"),
    CONTROL_OPT,
};

/* One line of words with single blanks; how many. */
static size_t clean_words(const char *text, Str *out)
{
    size_t words = 0;

    while (*text) {
        size_t len = 0;

        while (*text && (isspace((unsigned char)*text) || iscntrl((unsigned char)*text)))
            text++;
        while (text[len] && !isspace((unsigned char)text[len]) && !iscntrl((unsigned char)text[len]))
            len++;
        if (len)
            str_addf(out, "%s%.*s", words++ ? " " : "", (int)len, text);
        text += len;
    }
    return words;
}

static int start_run(VerbCall *call, const void *options)
{
    const MaintenanceOptions *o = options;
    char gpus[GPUS_CAP] = "all", room[CONTROL_LINE_MAX - 1], reason_room[CONTROL_LINE_MAX], span[DURATION_TEXT_MAX];
    CLEANUP(str_done) Str out = {0};
    Str line, reason;

    str_init_room(&reason, reason_room, sizeof reason_room);
    const size_t words = clean_words(o->reason ? o->reason : "", &reason);
    if (words == 0)
        return verb_failf(call, EXIT_USAGE, "--reason is needed: say why, for those who wonder");
    if (reason.overflow || reason.len >= MAINTENANCE_REASON_CAP || words > REASON_WORDS)
        return verb_failf(call, EXIT_USAGE, "--reason is too long: %d bytes and %d words are allowed",
                          MAINTENANCE_REASON_CAP - 1, REASON_WORDS);
    for (size_t i = 0, used = 0; i < o->gpus.len; i++) {
        used += (size_t)snprintf(gpus + used, sizeof gpus - used, "%s%s", i ? "," : "", o->gpus.items[i]);
        if (used >= sizeof gpus || !o->gpus.items[i][0] || strpbrk(o->gpus.items[i], " \t\r\n"))
            return verb_failf(call, EXIT_USAGE, "--gpu: '%.40s' is no GPU, or these are too many", o->gpus.items[i]);
    }
    str_init_room(&line, room, sizeof room);
    str_addf(&line, "maintenance start %" PRIu64 " %s %s %s", o->for_ns / NS_PER_S, gpus, past_who(call->arena),
             reason.text);
    if (line.overflow)
        return verb_failf(call, EXIT_USAGE, "reason and GPUs together are too long");
    str_init(&out, CONTROL_REPLY_MAX);
    const int code = past_order(call, o->control, line.text, &out);
    if (code != EXIT_FINE)
        return code;
    duration_format(span, o->for_ns);
    printf("maintenance %.*s of %s%s for %s; 'stoker maintenance stop %.*s' ends it before that\n",
           (int)strcspn(out.text, "\n"), out.text, o->gpus.len ? "GPU " : "the whole node", o->gpus.len ? gpus : "",
           span, (int)strcspn(out.text, "\n"), out.text);
    return EXIT_FINE;
}

static int stop_run(VerbCall *call, const void *options)
{
    CLEANUP(str_done) Str out = {0};
    char line[128];

    if (call->args.len != 1)
        return verb_failf(call, EXIT_USAGE, "which one? it takes the id of a window, or 'all'");
    const char *id = call->args.items[0];
    if (!id[0] || strlen(id) >= INCIDENT_ID_CAP || strpbrk(id, " \t\r\n"))
        return verb_failf(call, EXIT_USAGE, "'%.40s' is no id of a window", id);
    snprintf(line, sizeof line, "maintenance stop %s %s", id, past_who(call->arena));
    str_init(&out, CONTROL_REPLY_MAX);
    return past_order(call, ((const MaintenanceOptions *)options)->control, line, &out);
}

/* "all", "0,3" */
static void print_gpus(const json_t *gpus)
{
    char text[160] = "all";

    for (size_t i = 0, used = 0; i < json_array_size(gpus) && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "",
                                 (long long)json_integer_value(json_array_get(gpus, i)));
    printf("%-8s ", text);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void print_windows(const json_t *windows)
{
    const json_t *window;
    size_t i;

    if (json_array_size(windows) == 0)
        puts("no maintenance");
    else
        printf("%-15s %-8s %-20s %-20s %-8s %s\n", "ID", "STATE", "FROM", "UNTIL", "GPUS", "REASON");
    json_array_foreach(windows, i, window)
    {
        printf("%-15s %-8s %.19sZ %.19sZ ", text_of(window, "id"),
               json_is_true(json_object_get(window, "active")) ? "active" : "to come", text_of(window, "from"),
               text_of(window, "until"));
        print_gpus(json_object_get(window, "gpus"));
        printf("%s (%s)\n", text_of(window, "reason"), text_of(window, "who"));
    }
}

static int list_run(VerbCall *call, const void *options)
{
    const MaintenanceOptions *o = options;
    CLEANUP(str_done) Str out = {0};

    str_init(&out, CONTROL_REPLY_MAX);
    const int code = past_order(call, o->control, "maintenance list", &out);
    if (code != EXIT_FINE)
        return code;
    if (o->json) {
        fwrite(out.text, 1, out.len, stdout);
        return EXIT_FINE;
    }
    json_error_t error;
    json_t *root = json_loadb(out.text, out.len, 0, &error);
    const json_t *windows = json_object_get(root, "windows");
    if (json_is_array(windows))
        print_windows(windows);
    json_decref(root);
    return root ? EXIT_FINE : verb_failf(call, EXIT_UNKNOWN, "the agent's answer is not understood");
}

static const Verb verb_start = {
    .name = "start",
    .summary = "start a maintenance window",
    .usage = "--for 2h --reason TEXT [--gpu GPU]...",
    .description =
        "From now on, incidents of the node, or of these GPUs, are marked and no alert is sent. Incidents that are "
        "still open at the end of the window are sent then. Only root and the agent's own user may do this.",
    .examples = "stoker maintenance start --for 2h --reason 'new power supply'\n"
                "stoker maintenance start --for 30m --gpu 3 --gpu 4 --reason 'reset after row remapping'",
    .exit_codes = "0  it has begun; its id is printed\n"
                  "2  the command line is wrong\n"
                  "3  no agent answers, or you lack permission",
    VERB_OPTS(start_opts, MaintenanceOptions),
    .no_args = "; a reason of several words goes in quotes",
    .run = start_run,
};

static const Verb verb_stop = {
    .name = "stop",
    .summary = "end a maintenance window early",
    .usage = "ID | all",
    .description =
        "Ends one window, or all that were started by hand. A recurring window of the configuration is skipped until "
        "its next time. Only root and the agent's own user may do this.",
    .examples = "stoker maintenance stop all",
    .exit_codes = "0  it is over\n"
                  "2  the command line is wrong\n"
                  "3  there is no such window, no agent answers, or you lack permission",
    VERB_OPTS(stop_opts, MaintenanceOptions),
    .run = stop_run,
};

static const Verb verb_list = {
    .name = "list",
    .summary = "list current and future maintenance windows",
    .usage = "[--json]",
    .description = "Lists the windows that were started by hand and those of the configuration.",
    .examples = "stoker maintenance list\n"
                "stoker maintenance list --json | jq '.windows[] | select(.active)'",
    VERB_OPTS(list_opts, MaintenanceOptions),
    .no_args = "",
    .run = list_run,
};

static const Verb *const subs[] = {&verb_start, &verb_stop, &verb_list, NULL};

const Verb verb_maintenance = {
    .name = "maintenance",
    .summary = "work on the node without alerts",
    .subs = subs,
};
