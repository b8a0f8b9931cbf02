/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/past.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "service/journal/journal.h"
#include "verb/agent/config.h"
#include "verb/agent/control.h"

enum { ASK_MS = 5000 };

int past_ask(const Past *past, const char *line, Str *out, int *ret_code)
{
    str_clear(out);
    return control_ask(past->control, line, ASK_MS, out, ret_code, &past->call->err);
}

int past_order(VerbCall *call, const char *control, const char *line, Str *out)
{
    const Past past = {.call = call, .control = control_path(control, call->arena)};
    int code;

    if (past_ask(&past, line, out, &code) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (code != EXIT_FINE)
        fprintf(stderr, "%s: %s", call->path, out->text);
    return code;
}

int past_open(VerbCall *call, const PastOptions *o, Past *ret)
{
    CLEANUP(str_done) Str out = {0};
    int code;

    *ret = (Past){.call = call};
    ret->control = control_path(o->control, call->arena);
    ret->journal = agent_journal_file(call->arena, o->journal, o->root);
    str_init(&out, CONTROL_REPLY_MAX);
    const int rc = past_ask(ret, "journal", &out, &code);
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        return o->control && !o->journal ? rc : 0;
    if (rc < 0)
        return rc;
    ret->agent = true;
    if (!o->journal && code == EXIT_FINE)
        ret->journal = arena_strndup(call->arena, out.text, strcspn(out.text, "\n"));
    return 0;
}

/* --- incidents ---------------------------------------------------------------------------------------------------- */

static bool has_incident(const IncidentList *list, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list->at[i].id, id) == 0)
            return true;
    return false;
}

static int from_agent(const Past *past, const char *line, IncidentList *list, IncidentsHead *head)
{
    CLEANUP(str_done) Str out = {0};
    int code;

    str_init(&out, CONTROL_REPLY_MAX);
    TRY(past_ask(past, line, &out, &code));
    if (code == EXIT_UNKNOWN)
        return -ENOENT;
    if (code == EXIT_USAGE)
        return err_set(&past->call->err, -EPROTO, "the agent says: %.*s", (int)strcspn(out.text, "\n"), out.text);
    return incidents_read(out.text, out.len, list, head, &past->call->err);
}

/* Adds those that are not in the list already, from the agent. */
static int from_journal(const Past *past, int state, uint64_t since_real_ns, IncidentList *list)
{
    const size_t agents = list->len;
    const int rc = journal_read_incidents(past->journal, state, since_real_ns, list, &past->call->err);

    for (size_t i = list->len; agents && i-- > agents;)
        if (has_incident(list, agents, list->at[i].id))
            vec_remove(list, i);
    return rc < 0 && rc != -ENOENT ? err_add(&past->call->err, "'%s'", past->journal) : rc;
}

int past_fail_nothing(const Past *past)
{
    return err_set(&past->call->err, -ENOENT,
                   "no agent answers at '%s', and there is no journal%s%s%s; --journal names one", past->control,
                   past->journal[0] ? " at '" : "", past->journal, past->journal[0] ? "'" : "");
}

/* Those that were open before, or changed since. */
static void drop_older(IncidentList *list, uint64_t since_real_ns)
{
    for (size_t i = list->len; i-- > 0;)
        if (list->at[i].state == INCIDENT_CLEARED && list->at[i].updated_real_ns < since_real_ns &&
            list->at[i].cleared_real_ns < since_real_ns)
            vec_remove(list, i);
}

int past_incidents(const Past *past, bool all, uint64_t since_real_ns, IncidentList *ret, IncidentsHead *ret_head)
{
    *ret_head = (IncidentsHead){.real_ns = clock_real(clock_kernel())};
    gethostname(ret_head->node, sizeof ret_head->node - 1);
    if (past->agent)
        TRY(from_agent(past, all ? "incidents all" : "incidents open", ret, ret_head));
    if (past->agent && !all)
        return 0;
    int rc = past->journal[0] ? from_journal(past, all ? -1 : INCIDENT_OPEN, since_real_ns, ret) : -ENOENT;
    if (rc == -ENOENT)
        rc = past->agent ? 0 : past_fail_nothing(past);
    else if (rc < 0 && past->agent) {
        fprintf(stderr, "%s: %s; older ones are not shown\n", past->call->path, past->call->err.text);
        rc = 0;
    }
    if (rc == 0 && !past->agent)
        fprintf(stderr, "%s: no agent runs; this is what the journal '%s' knew last\n", past->call->path,
                past->journal);
    for (size_t i = ret->len; i-- > 0;)
        if (ret->at[i].state == INCIDENT_PENDING)
            vec_remove(ret, i);
    drop_older(ret, since_real_ns);
    return rc;
}

int past_incident(const Past *past, const char *id, IncidentList *ret)
{
    char line[64];
    int rc = -ENOENT;

    snprintf(line, sizeof line, "incident %s", id);
    if (past->agent)
        rc = from_agent(past, line, ret, NULL);
    if (rc != -ENOENT)
        return rc;
    rc = past->journal[0] ? from_journal(past, -1, 0, ret) : past->agent ? 0 : past_fail_nothing(past);
    if (rc == -ENOENT && !past->agent)
        return past_fail_nothing(past);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    for (size_t i = ret->len; i-- > 0;)
        if (strcmp(ret->at[i].id, id) != 0)
            vec_remove(ret, i);
    if (ret->len == 0)
        return err_set(&past->call->err, -ENOENT, "there is no incident '%s'; 'stoker incidents --all' lists them", id);
    return 0;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

int past_since(const char *text, uint64_t now_real_ns, uint64_t *ret_real_ns, Err *err)
{
    uint64_t span;

    if (duration_parse(text, &span, NULL) == 0) {
        *ret_real_ns = now_real_ns > span ? now_real_ns - span : 0;
        return 0;
    }
    if (clock_parse(text, ret_real_ns, NULL) == 0)
        return 0;
    return err_set(err, -EINVAL, "'%s' is neither a duration (1d) nor an instant (2026-01-05T08:00:00Z)", text);
}

const char *past_who(Arena *arena)
{
    const struct passwd *user = getpwuid(getuid());
    char *name = arena_strdup(arena, user && user->pw_name ? user->pw_name : "");

    for (char *at = name; *at; at++)
        if (isspace((unsigned char)*at) || iscntrl((unsigned char)*at))
            *at = '_';
    return name[0] && strlen(name) < MAINTENANCE_WHO_CAP ? name : arena_printf(arena, "%u", (unsigned)getuid());
}

IncidentStyle past_style(uint64_t real_ns)
{
    return (IncidentStyle){.width = verb_width(),
                           .colour = verb_coloured(VERB_COLOUR_AUTO, true),
                           .utf8 = verb_utf8(),
                           .real_ns = real_ns};
}
