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

#include "base/clock.h"
#include "base/map.h"
#include "base/number.h"
#include "base/cleanup.h"
#include "service/journal/journal.h"
#include "verb/agent/control.h"
#include "verb/incident/past.h"

enum { POLL_MS = 250, TOLD_MAX = 4096, BEFORE_FOLLOW = 10, LINE_MAX_BYTES = 16384 };

typedef struct EventsOptions {
    PastOptions past;
    bool follow, json;
    const char *device, *since;
} EventsOptions;

static const OptSpec events_opts[] = {
    {.key = "follow",
     .short_flag = 'f',
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(EventsOptions, follow),
     .help = "wait for more, until interrupted"},
    {.key = "since",
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(EventsOptions, since),
     .metavar = "TIME",
     .help = "from then on: 1h, or 2026-01-05T08:00:00Z (without: 1d; with --follow the last ten)"},
    {.key = "device",
     .short_flag = 'd',
     .flags = OPT_CLI_ONLY,
     .type = OPT_STRING,
     .off = offsetof(EventsOptions, device),
     .metavar = "GPU",
     .help = "only those of this GPU (index, UUID, PCI address), or of the 'node' itself"},
    {.key = "json",
     .flags = OPT_CLI_ONLY,
     .type = OPT_BOOL,
     .off = offsetof(EventsOptions, json),
     .help = "a JSON object per line"},
    PAST_OPTS(EventsOptions),
};

static volatile sig_atomic_t stopped;

static void handle_signal(int number)
{
    (void)number;
    stopped = 1;
}

typedef struct Reader {
    const EventsOptions *o;
    Past past;
    IncidentStyle style;
    uint64_t next, agent;    /* number of the last event that is known; which agent it was */
    uint64_t told[TOLD_MAX]; /* hashes of those that were printed last */
    size_t told_len;
    bool broken; /* nobody reads on */
} Reader;

/* A mark by which an event is recognised when it comes again, from the journal or after a restart. */
static uint64_t mark_of(const EventSeen *seen)
{
    const Event *e = &seen->event;
    char text[LINE_MAX_BYTES];

    const int len = snprintf(text, sizeof text, "%" PRIu64 " %d %d %d %x:%x:%x.%x %s", e->real_ns / NS_PER_MS,
                             (int)e->kind, (int)e->origin, e->code, e->has_pci ? e->pci.domain : UINT32_MAX, e->pci.bus,
                             e->pci.device, e->pci.function, e->text);
    return map_hash(text, len > 0 ? (size_t)len : 0, 0);
}

static bool was_told(const Reader *reader, uint64_t mark)
{
    const size_t kept = reader->told_len < TOLD_MAX ? reader->told_len : TOLD_MAX;

    for (size_t i = 0; i < kept; i++)
        if (reader->told[i] == mark)
            return true;
    return false;
}

static void print_event(Reader *reader, const EventSeen *seen)
{
    CLEANUP(str_done) Str line = {0};

    if (reader->broken || (reader->o->device && !event_is_about(seen, reader->o->device)))
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

static void take_kept(void *self, const Event *event, const char *incident)
{
    EventSeenList *list = self;
    EventSeen seen = {.event = *event, .gpu = DEVICE_NO_NUMBER};

    snprintf(seen.incident, sizeof seen.incident, "%s", incident);
    vec_push(list, seen);
}

/* "NEXT AGENT", then an event per line. 0, or -errno. */
static int ask_agent(Reader *reader, uint64_t from, EventSeenList *list, uint64_t *ret_next, uint64_t *ret_agent)
{
    CLEANUP(str_done) Str out = {0};
    char line[64];
    int code;

    str_init(&out, CONTROL_REPLY_MAX);
    snprintf(line, sizeof line, "events json 0 0 %" PRIu64, from);
    TRY(past_ask(&reader->past, line, &out, &code));
    const char *at = out.text + strcspn(out.text, "\n");
    const size_t head = strcspn(out.text, " \n");
    *ret_agent = 0;
    if (code != EXIT_FINE || *at != '\n' || number_parsen_u64(out.text, head, 0, UINT64_MAX, ret_next, NULL) < 0)
        return err_set(&reader->past.call->err, -EPROTO,
                       "the agent's answer is not understood; is it another version?");
    if (out.text[head] == ' ')
        (void)number_parsen_u64(out.text + head + 1, (size_t)(at - out.text) - head - 1, 0, UINT64_MAX, ret_agent,
                                NULL);
    while (*at && at[1]) {
        const size_t len = strcspn(++at, "\n");
        EventSeen seen;

        if (len && event_read(at, len, &seen, &reader->past.call->err) == 0)
            vec_push(list, seen);
        at += len;
    }
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
    CLEANUP_FREE uint64_t *marks = calloc(agents + 1, sizeof *marks);
    size_t kept = agents;

    for (size_t i = 0; marks && i < agents; i++)
        marks[i] = mark_of(&list->at[i]);
    for (size_t i = agents; i < list->len; i++) {
        const uint64_t mark = mark_of(&list->at[i]);
        size_t k = 0;

        while (marks && k < agents && marks[k] != mark)
            k++;
        if (marks && k < agents)
            marks[k] = 0;
        else
            list->at[kept++] = list->at[i];
    }
    list->len = kept;
}

/* The journal knows no indexes: those that the agent gives for the same address. */
static void name_gpus(EventSeenList *list, size_t agents)
{
    for (size_t i = agents; i < list->len; i++)
        for (size_t k = 0; k < agents && list->at[i].event.has_pci && list->at[i].gpu == DEVICE_NO_NUMBER; k++)
            if (list->at[k].event.has_pci && pci_compare(list->at[k].event.pci, list->at[i].event.pci) == 0)
                list->at[i].gpu = list->at[k].gpu;
}

static int read_past(Reader *reader, uint64_t since, EventSeenList *list)
{
    const Past *past = &reader->past;
    const JournalQuery query = {.state = -1, .from_real_ns = since, .to_real_ns = UINT64_MAX, .limit = PAST_MOST};
    int rc = -ENOENT;

    if (past->agent)
        TRY(ask_agent(reader, 0, list, &reader->next, &reader->agent));
    const size_t agents = list->len;
    if (past->journal[0])
        rc = journal_read_events(past->journal, &query, take_kept, list, &past->call->err);
    if (rc < 0 && !past->agent)
        return rc == -ENOENT
                   ? err_set(&past->call->err, rc,
                             "no agent answers at '%s', and there is no journal%s%s%s; --journal names one",
                             past->control, past->journal[0] ? " at '" : "", past->journal, past->journal[0] ? "'" : "")
                   : err_add(&past->call->err, "'%s'", past->journal);
    if (rc < 0 && rc != -ENOENT)
        fprintf(stderr, "%s: %s; older events are not shown\n", past->call->path, past->call->err.text);
    name_gpus(list, agents);
    drop_doubles(list, agents);
    /* the journal gives the newest first; of the same instant the order of coming must stay */
    for (size_t i = agents, k = list->len; i + 1 < k; i++) {
        const EventSeen swap = list->at[--k];

        list->at[k] = list->at[i];
        list->at[i] = swap;
    }
    if (list->len)
        qsort(list->at, list->len, sizeof *list->at, by_time);
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
        reader->told[reader->told_len++ % TOLD_MAX] = mark_of(&list->at[i]);
        if (i >= first)
            print_event(reader, &list->at[i]);
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

static void tell_new(Reader *reader, const EventSeenList *list, bool again)
{
    for (size_t i = 0; i < list->len; i++) {
        const uint64_t mark = mark_of(&list->at[i]);

        if (again && was_told(reader, mark))
            continue;
        reader->told[reader->told_len++ % TOLD_MAX] = mark;
        print_event(reader, &list->at[i]);
    }
}

/* Prints new events. Waits for an agent that does not answer; a restarted agent counts from 1 again. */
static void look_again(Reader *reader, bool *away)
{
    EventSeenList list = {0};
    uint64_t next = 0, agent = 0;
    int rc = ask_agent(reader, reader->next, &list, &next, &agent);

    if (rc == 0 && (agent != reader->agent || next < reader->next || *away)) {
        vec_clear(&list);
        rc = ask_agent(reader, 0, &list, &next, &agent);
        if (rc == 0)
            tell_new(reader, &list, true);
    } else if (rc == 0) {
        tell_new(reader, &list, false);
    }
    if (rc < 0 && !*away)
        fprintf(stderr, "%s: %s; waiting for it\n", reader->past.call->path, reader->past.call->err.text);
    *away = rc < 0;
    if (rc == 0) {
        reader->next = next;
        reader->agent = agent;
    }
    vec_done(&list);
}

static void follow_events(Reader *reader)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * (long)NS_PER_MS};
    bool away = !reader->past.agent;

    while (!stopped && !reader->broken) {
        look_again(reader, &away);
        reader->broken |= fflush(stdout) != 0;
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
    CLEANUP_FREE Reader *reader = calloc(1, sizeof *reader);

    if (call->args.len > 0)
        return verb_failf(call, EXIT_USAGE, "takes no argument, got '%s'", call->args.items[0]);
    if (!reader)
        return verb_failf(call, EXIT_UNKNOWN, "out of memory");
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
    .summary = "what was noticed, event by event",
    .usage = "[--follow] [--since TIME] [--device GPU] [--json]",
    .description =
        "Lists events, oldest first: XIDs, SXids, resets, lines of the kernel log, what the agent itself saw. Many "
        "events make one incident; it stands in brackets. --follow goes on when the agent is restarted. What the agent "
        "no longer holds, and all where none runs, comes from its journal.",
    .examples = "stoker events --since 1h\n"
                "stoker events --follow --device 3\n"
                "stoker events --json | jq -c 'select(.kind == \"xid\")'",
    .exit_codes = "0  fine, also when interrupted\n"
                  "2  the command line is wrong\n"
                  "3  neither an agent nor a journal answers",
    .opts = events_opts,
    .opt_count = ARRAY_LEN(events_opts),
    .opt_size = sizeof(EventsOptions),
    .run = events_run,
};
