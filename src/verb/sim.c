/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker sim`: running and poking a simulated GPU node. Each subverb has a file of its own. */
#include <stddef.h>

#include "verb/verb.h"

extern const Verb verb_sim_run, verb_sim_env, verb_sim_list, verb_sim_show, verb_sim_inject, verb_sim_clock;

static const Verb *const subs[] = {&verb_sim_run,   &verb_sim_env, &verb_sim_list, &verb_sim_show, &verb_sim_inject,
                                   &verb_sim_clock, NULL};

const Verb verb_sim = {
    .name = "sim",
    .summary = "run and poke a simulated GPU node",
    .examples = "stoker sim run default -- nvidia-smi",
    .subs = subs,
};
