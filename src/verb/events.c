/* SPDX-License-Identifier: Apache-2.0 */
/* `stoker events`: everything that was noticed, as it comes. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/journal/journal.h"
#include "verb/agent/control.h"
#include "verb/past.h"

enum { POLL_MS = 250, TOLD_MAX = 4096, BEFORE_FOLLOW = 10, LINE_MAX_BYTES = 16384, SAME_MS = 1000 };

typedef struct EventsOptions {
    PastOptions past;
    bool follow, json;
    const char *device, *since, *kind;
} EventsOptions;

static const OptSpec events_opts[] = {
    OPT_ROW("follow", OPT_BOOL, EventsOptions, follow, .short_flag = 'f',
            .help = "wait for new events, until interrupted"),
    OPT_ROW("since", OPT_STRING, EventsOptions, since, .metavar = "TIME",
            .help = "start of the time: 1h, or 2026-01-05T08:00:00Z (without: 1d; with --follow the last ten)"),
    OPT_ROW("device", OPT_STRING, EventsOptions, device, .short_flag = 'd', .metavar = "GPU",
            .help = "only events of this GPU (index, UUID, PCI address), or of the 'node' itself"),
    OPT_ROW("kind", OPT_STRING, EventsOptions, kind, .metavar = "KIND",
            .help = "only events of this kind: xid, reset, mig-layout, ..."),
    OPT_ROW("json", OPT_BOOL, EventsOptions, json, .help = "a JSON object per line"),
    PAST_OPTS(EventsOptions),
};

static volatile sig_atomic_t stopped;

static void handle_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* By which an event is recognised when it comes again, from the journal or after a restart. An agent that reads the
 * kernel log anew gives a line's time anew, by its own measure of when the kernel was started. */
typedef struct Mark {
    uint64_t hash, ms;
    bool before;    /* from before the start of the agent that tells it */
    unsigned round; /* of Reader, in which it came again last */
} Mark;

typedef struct Reader {
    const EventsOptions *o;
    Past past;
    IncidentStyle style;
    EventsHead head;     /* of the agent's last answer */
    Mark told[TOLD_MAX]; /* those that were printed last */
    size_t told_len;
    unsigned round; /* counts how often all of the agent's events came again */
    bool broken;    /* nobody reads on */
} Reader;

static Mark mark_of(const EventSeen *seen)
{
    const Event *e = &seen->event;
    char text[LINE_MAX_BYTES];

    const int len =
        snprintf(text, sizeof text, "%d %d %d %x:%x:%x.%x %s", (int)e->kind, (int)e->origin, e->code,
                 e->has_pci ? e->pci.domain : UINT32_MAX, e->pci.bus, e->pci.device, e->pci.function, e->text);
    return (Mark){
        .hash = map_hash(text, len > 0 ? (size_t)len : 0, 0), .ms = e->real_ns / NS_PER_MS, .before = e->before};
}

/* Finds among `count` marks one of the same event that has not come again in this round, and takes it for that. */
static bool take_mark(Mark *marks, size_t count, const Mark *mark, unsigned round)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t apart = marks[i].ms > mark->ms ? marks[i].ms - mark->ms : mark->ms - marks[i].ms;

        if (marks[i].hash != mark->hash || marks[i].round == round ||
            apart > (marks[i].before || mark->before ? SAME_MS : 0))
            continue;
        marks[i].round = round;
        return true;
    }
    return false;
}

static void keep_mark(Reader *reader, Mark mark)
{
    mark.round = reader->round;
    reader->told[reader->told_len++ % TOLD_MAX] = mark;
}

static void print_event(Reader *reader, const EventSeen *seen)
{
    CLEANUP(str_done) Str line = {0};

    if (reader->broken || (reader->o->device && !event_is_about(seen, reader->o->device)) ||
        (reader->o->kind && strcmp(reader->o->kind, event_kinds[seen->event.kind].key) != 0))
        return;
    str_init(&line, LINE_MAX_BYTES);
    if (reader->o->json)
        event_seen_json(seen, &line);
    else
        event_seen_text(seen, &reader->style, &line);
    str_addc(&line, '\n');
    reader->broken = fwrite(line.text, 1, line.len, stdout) != line.len;
}

/* --- the past ----------------------------------------------------------------------------------------------------- */

static int ask_agent(Reader *reader, uint64_t from, EventSeenList *list, EventsHead *ret_head)
{
    CLEANUP(str_done) Str out = {0};
    char line[64];
    int code;

    str_init(&out, CONTROL_REPLY_MAX);
    snprintf(line, sizeof line, "events %" PRIu64, from);
    TRY(past_ask(&reader->past, line, &out, &code));
    if (code != EXIT_FINE || events_read(out.text, out.len, list, ret_head, NULL) < 0)
        return err_set(&reader->past.call->err, -EPROTO,
                       "the agent's answer is not understood; is it another version?");
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const EventSeen *x = a, *y = b;

    return x->event.real_ns < y->event.real_ns ? -1 : x->event.real_ns > y->event.real_ns;
}

/* Leaves one of each pair that agent and journal both have; `agents` of them at the front are the agent's. */
static void drop_doubles(EventSeenList *list, size_t agents)
{
    CLEANUP_FREE Mark *marks = xcalloc(agents + 1, sizeof *marks);
    size_t kept = agents;

    for (size_t i = 0; i < agents; i++)
        marks[i] = mark_of(&list->at[i]);
    for (size_t i = agents; i < list->len; i++) {
        const Mark mark = mark_of(&list->at[i]);

        if (!take_mark(marks, agents, &mark, 1))
            list->at[kept++] = list->at[i];
    }
    list->len = kept;
}

static int read_past(Reader *reader, uint64_t since, EventSeenList *list)
{
    const Past *past = &reader->past;
    int rc = -ENOENT;

    if (past->agent)
        TRY(ask_agent(reader, 0, list, &reader->head));
    const size_t agents = list->len;
    if (past->journal[0])
        rc = journal_read_events(past->journal, since, list, &past->call->err);
    if (rc < 0 && !past->agent)
        return rc == -ENOENT ? past_fail_nothing(past) : err_add(&past->call->err, "'%s'", past->journal);
    if (rc < 0 && rc != -ENOENT)
        fprintf(stderr, "%s: %s; older events are not shown\n", past->call->path, past->call->err.text);
    drop_doubles(list, agents);
    vec_sort(list, by_time);
    return 0;
}

static void tell_past(Reader *reader, const EventSeenList *list, uint64_t since)
{
    size_t first = 0;

    while (first < list->len && list->at[first].event.real_ns < since)
        first++;
    if (reader->o->follow && !reader->o->since && list->len - first > BEFORE_FOLLOW)
        first = list->len - BEFORE_FOLLOW;
    for (size_t i = 0; i < list->len; i++) {
        keep_mark(reader, mark_of(&list->at[i]));
        if (i >= first)
            print_event(reader, &list->at[i]);
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

static void tell_new(Reader *reader, const EventSeenList *list, bool again)
{
    reader->round += again;
    for (size_t i = 0; i < list->len; i++) {
        const Mark mark = mark_of(&list->at[i]);
        const size_t kept = reader->told_len < TOLD_MAX ? reader->told_len : TOLD_MAX;

        if (again && take_mark(reader->told, kept, &mark, reader->round))
            continue;
        keep_mark(reader, mark);
        print_event(reader, &list->at[i]);
    }
}

/* Prints new events. Waits for an agent that does not answer; a restarted agent counts from 1 again. */
static void look_again(Reader *reader, bool *away)
{
    EventSeenList list = {0};
    EventsHead head = {0};
    bool again = *away;
    int rc = again ? 0 : ask_agent(reader, reader->head.next, &list, &head);

    again |= rc == 0 && (head.started_real_ns != reader->head.started_real_ns || head.next < reader->head.next);
    if (again) {
        vec_clear(&list);
        rc = ask_agent(reader, 0, &list, &head);
    }
    if (rc < 0 && !*away)
        fprintf(stderr, "%s: %s; waiting for it\n", reader->past.call->path, reader->past.call->err.text);
    *away = rc < 0;
    if (rc == 0) {
        tell_new(reader, &list, again);
        reader->head = head;
    }
    vec_done(&list);
}

static void follow_events(Reader *reader)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * (long)NS_PER_MS};
    bool away = !reader->past.agent;

    while (!stopped && !reader->broken) {
        look_again(reader, &away);
        reader->broken |= !verb_flush();
        if (!stopped && !reader->broken)
            nanosleep(&pause, NULL);
    }
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = handle_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN; /* a reader that goes is seen at the next write */
    sigaction(SIGPIPE, &action, NULL);
}

static int read_all(VerbCall *call, Reader *reader)
{
    const uint64_t now = clock_real(clock_kernel());
    EventSeenList list = {0};
    uint64_t since;

    if (reader->o->kind && word_find(event_kinds, EVENT_KIND_END, reader->o->kind) < 0)
        return verb_failf(call, EXIT_USAGE, "--kind: there is no kind '%s'; 'stoker xid --list' names them",
                          reader->o->kind);
    if (past_since(reader->o->since ? reader->o->since : "1d", now, &since, &call->err) < 0)
        return verb_failf(call, EXIT_USAGE, "--since: '%s' is neither a duration (1h) nor an instant",
                          reader->o->since);
    if (past_open(call, &reader->o->past, &reader->past) < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    int rc = read_past(reader, since, &list);
    if (rc == 0)
        tell_past(reader, &list, since);
    vec_done(&list);
    if (rc < 0)
        return verb_fail(call, EXIT_UNKNOWN);
    if (reader->o->follow)
        follow_events(reader);
    return EXIT_FINE;
}

static int events_run(VerbCall *call, const void *options)
{
    CLEANUP_FREE Reader *reader = xcalloc(1, sizeof *reader);

    reader->o = options;
    reader->style = past_style(0);
    if (reader->o->follow)
        catch_signals();
    const int code = read_all(call, reader);
    /* who followed and stopped reading has had enough; that is no error */
    if (reader->o->follow && code == EXIT_FINE && (reader->broken || ferror(stdout)))
        _Exit(EXIT_FINE);
    return code;
}

const Verb verb_events = {
    .name = "events",
    .summary = "list events: XIDs, resets, lines of the kernel log",
    .usage = "[--follow] [--since TIME] [--device GPU] [--kind KIND] [--json]",
    .description =
        "Lists events, oldest first: XIDs, SXids, resets, lines of the kernel log, and what the agent itself "
        "noticed. The incident that an event belongs to stands in brackets. --follow continues when the agent is "
        "restarted. Asks the running agent; older events are read from its journal, and all of them if no agent runs.",
    .examples = "stoker events --since 1h\n"
                "stoker events --since 1w --kind mig-layout\n"
                "stoker events --follow --device 3\n"
                "stoker events --json | jq -c 'select(.kind == \"xid\")'",
    .exit_codes = "0  fine, also when interrupted\n"
                  "2  the command line is wrong\n"
                  "3  neither an agent nor a journal answers",
    VERB_OPTS(events_opts, EventsOptions),
    .no_args = "",
    .run = events_run,
};
