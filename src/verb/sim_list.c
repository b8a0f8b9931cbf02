/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim list`: the scenarios, their descriptions and their right verdicts. */
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sim/scenario/scenario.h"
#include "verb/sim_place.h"
#include "verb/verb.h"

typedef struct ListOptions {
    bool json;
    bool boards;
    bool truth;
} ListOptions;

static const OptSpec list_opts[] = {
    OPT_ROW("json", OPT_BOOL, ListOptions, json, .help = "as JSON, with verdicts"),
    OPT_ROW("boards", OPT_BOOL, ListOptions, boards, .help = "the boards instead"),
    OPT_ROW("truth", OPT_BOOL, ListOptions, truth, .help = "with the right verdicts below each scenario"),
};

static void write_truths(Str *out, const Scenario *s, bool json)
{
    for (size_t i = 0; i < s->truth_count; i++) {
        CLEANUP(str_done) Str line;
        str_init(&line, 4096);
        truth_write(&s->truths[i], &line);
        if (json)
            json_add_text(out, NULL, line.text);
        else
            str_addf(out, "    %s\n", line.text);
    }
}

static void write_scenario(Str *out, const Scenario *s, const ListOptions *o)
{
    if (!o->json) {
        str_addf(out, "%-30s %s\n", s->name, s->about);
        if (o->truth)
            write_truths(out, s, false);
        return;
    }
    json_open(out, NULL, '{');
    json_add_text(out, "name", s->name);
    json_add_text(out, "about", s->about);
    json_add_u64(out, "gpus", s->gpu_count);
    json_open(out, "truth", '[');
    write_truths(out, s, true);
    json_close(out, ']');
    json_close(out, '}');
}

static int list_boards(VerbCall *call, const SimPlace *place, Str *out, bool json)
{
    CLEANUP(board_set_done) BoardSet boards;
    board_set_init(&boards, place->board_dirs);
    const char *const *names = board_set_names(&boards, call->arena);
    for (size_t i = 0; names[i]; i++) {
        const SimBoard *board;
        if (board_set_get(&boards, names[i], NULL, &board, &call->err) < 0)
            return verb_fail(call, EXIT_USAGE);
        if (!json) {
            str_addf(out, "%-30s %s\n", names[i], board->name);
            continue;
        }
        json_open(out, NULL, '{');
        json_add_text(out, "key", names[i]);
        json_add_text(out, "name", board->name);
        json_close(out, '}');
    }
    return EXIT_FINE;
}

static int list_scenarios(VerbCall *call, const SimPlace *place, Str *out, const ListOptions *o)
{
    CLEANUP(board_set_done) BoardSet boards;
    board_set_init(&boards, place->board_dirs);
    size_t count;
    int code = EXIT_FINE;
    const char *const *names = library_names(place->scenario_dirs, call->arena, &count);
    for (size_t i = 0; i < count; i++) {
        const Scenario *s;
        if (scenario_load(place->scenario_dirs, names[i], &boards, call->arena, &s, &call->err) < 0) {
            code = verb_fail(call, EXIT_USAGE); /* one bad file does not hide the others */
            continue;
        }
        write_scenario(out, s, o);
    }
    return code;
}

static int list_run(VerbCall *call, const void *options)
{
    const ListOptions *o = options;
    SimPlace place;
    if (sim_place_find(call->arena, &place, &call->err) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    CLEANUP(str_done) Str out;
    str_init(&out, 16 << 20);
    str_add(&out, o->json ? "[" : "");
    int code = o->boards ? list_boards(call, &place, &out, o->json) : list_scenarios(call, &place, &out, o);
    str_add(&out, o->json ? "]\n" : "");
    fputs(out.text, stdout);
    return code;
}

const Verb verb_sim_list = {
    .name = "list",
    .summary = "list the scenarios or the boards",
    .usage = "[--json] [--truth] [--boards]",
    .description = "Scenarios and boards are YAML files. Own ones in the folders scenarios and boards below "
                   "$STOKER_SIM_DATA come first.",
    .examples = "stoker sim list\nstoker sim list --truth\nstoker sim list --boards",
    VERB_OPTS(list_opts, ListOptions),
    .run = list_run,
};
