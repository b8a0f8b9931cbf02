/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents and events as a verb gets them: from the running agent, and from the journal for what the agent no longer
 * holds or where none runs. Blocks, with a deadline. One thread.
 */

#include "service/incident/incident.h"
#include "verb/verb.h"

/* Options that all these verbs have; a verb's options begin with it. */
typedef struct PastOptions {
    const char *control, *journal, *root;
} PastOptions;

#define PAST_OPTS(Of)                                                                                                  \
    OPT_ROW("control", OPT_STRING, Of, past.control, .metavar = "FILE", .help = "the agent's control socket"),         \
        OPT_ROW("journal", OPT_STRING, Of, past.journal, .env = "STOKER_JOURNAL", .metavar = "FILE",                   \
                .help = "the agent's journal; without: the one that the agent names"),                                 \
        OPT_ROW("root", OPT_STRING, Of, past.root, .flags = OPT_HIDDEN, .env = "STOKER_ROOT", .metavar = "DIR",        \
                .help = "of the node whose journal it is")

typedef struct Past {
    VerbCall *call;
    const char *control, *journal; /* paths; journal "" where there is none */
    bool agent;                    /* one answers */
} Past;

/* Finds out whether an agent runs and where the journal lies. -errno: an agent that was named, or one that does not
 * answer; call->err says it. */
int past_open(VerbCall *call, const PastOptions *options, Past *ret);
/* The error, -ENOENT, where there is neither an agent nor a journal. */
int past_fail_nothing(const Past *past);
/* Asks the agent. 0 and its code, or -errno. */
int past_ask(const Past *past, const char *line, Str *out, int *ret_code);
/* Asks the agent at `control` (NULL: where it is by default) to do something. Returns an exit code; what is wrong is
 * printed. */
int past_order(VerbCall *call, const char *control, const char *line, Str *out);

/* Open incidents, or with `all` cleared ones too that changed since `since_real_ns`. From the agent, else from the
 * journal; -ENOENT if there is neither. */
int past_incidents(const Past *past, bool all, uint64_t since_real_ns, IncidentList *ret, IncidentsHead *ret_head);
/* One by its id. -ENOENT. */
int past_incident(const Past *past, const char *id, IncidentList *ret);

/* An instant: RFC 3339, or a duration before `now`. */
int past_since(const char *text, uint64_t now_real_ns, uint64_t *ret_real_ns, Err *err);
/* The calling user in one word: name or number. */
const char *past_who(Arena *arena);
IncidentStyle past_style(uint64_t real_ns);
